"""Chapter 9's kernels against NumPy and the PTX ISA: on the emulator without a report, and on a GPU."""

import itertools

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import errors
from cutecourse.kernels import SpecError, wgmma_broken, wgmma_map, wgmma_one, wgmma_registers

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
)


def operands(m, k):
    random = np.random.default_rng(m + k)
    return [random.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, wgmma_one.TILE[1])]


def right(spec, a, b, expected, device):
    c = np.full(expected.shape, np.nan, np.float32)
    done = runtime.run(spec, device=device, a=a, b=b, c=c)
    np.testing.assert_array_equal(done["c"], expected)
    assert done.notes == ()


@DEVICES
@pytest.mark.parametrize("majors", itertools.product(("K", "MN"), repeat=2))
def test_wgmma_one__multiplies_operands_of_either_major(majors, device):
    a, b = operands(64, 128)
    right(wgmma_one.spec(64, 128, *majors), a, b, a.astype(np.float32) @ b.astype(np.float32).T, device)


@DEVICES
def test_wgmma_registers__clears_what_is_negative_in_a(device):
    a, b = operands(128, 64)
    expected = np.maximum(a, 0).astype(np.float32) @ b.astype(np.float32).T
    right(wgmma_registers.spec(128, 64), a, b, expected, device)


def test_wgmma_one__takes_whole_tiles_only():
    with pytest.raises(SpecError, match="multiple of 64"):
        wgmma_one.spec(65, 64)


@DEVICES
@pytest.mark.parametrize("n", [8, 24, 256])
def test_wgmma_map__finds_the_accumulator_of_the_ptx_isa(n, device):
    a, b = np.zeros((64, 16), np.float16), np.zeros((n, 16), np.float16)
    a[:, 0], a[:, 1] = np.arange(64), 1
    b[:, 0], b[:, 1] = 256, np.arange(n)  # so D[m, n] is 256 m + n
    thread, i = np.ogrid[:128, : n // 2]
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
    column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
    done = runtime.run(
        wgmma_map.spec(n), device=device, a=a, b=b, d=np.full((128, n // 2), np.nan, np.float32)
    )
    np.testing.assert_array_equal(done["d"], 256 * row + column)


@DEVICES
def test_wgmma_map__finds_a_in_the_registers_that_hold_16_columns_of_c(device):
    stamps = np.arange(1024, dtype=np.float16).reshape(128, 8)
    one = np.eye(16, dtype=np.float16)
    done = runtime.run(
        wgmma_map.spec(16, "RMEM"), device=device, a=stamps, b=one, d=np.zeros((128, 8), np.float32)
    )
    np.testing.assert_array_equal(done["d"], stamps)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("no_commit", errors.OverwrittenSource),
        ("no_wait", errors.OverwrittenSource),
        ("one_group_too_many", errors.OverwrittenSource),
        ("cleared_too_early", errors.OverwrittenSource),
        ("no_proxy_fence", errors.MissingProxyFence),
        ("no_last_wait", errors.AccumulatorInFlight),
    ],
)
def test_fault__is_reported(fault, error):
    given, _, _ = wgmma_broken.arguments(0, 64, 128)
    with pytest.raises(error):
        runtime.run(wgmma_broken.broken(fault, 64, 128), device="emulator", **given)


def test_fault__no_fence_is_a_note():
    given, name, expected = wgmma_broken.arguments(0, 64, 128)
    done = runtime.run(wgmma_broken.broken("no_fence", 64, 128), device="emulator", **given)
    np.testing.assert_array_equal(done[name], expected)
    assert {note.hazard.name for note in done.notes} == {"no wgmma fence"}
