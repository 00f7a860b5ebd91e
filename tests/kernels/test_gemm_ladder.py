"""Each rung of the GEMM ladder against NumPy: on the emulator without a report, and under -m gpu on a GPU."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.kernels import SpecError, gemm_broken
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.gemm_ladder import RUNGS

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
)
WHOLE = [rung for rung in RUNGS if rung not in ("gemm_any", "gemm_tiles", "gemm_late")]
# Rows of 16, 8, 4 and 2 bytes; tiles cut off along M, N and K; less than a tile; groups of tiles cut off.
RAGGED_SHAPES = [(200, 136, 72), (129, 140, 100), (257, 130, 66), (1, 3, 5), (2100, 136, 8)]


def operands(seed, mnk):
    """Small integers: each product and each sum is exact in f32, and each element of C in f16."""
    m, n, k = mnk
    random = np.random.default_rng(seed)
    return [random.integers(-3, 3, (rows, k), endpoint=True).astype(np.float16) for rows in (m, n)]


def check(rung, mnk, seed, device):
    a, b = operands(seed, mnk)
    c = np.full(mnk[:2], np.nan, np.float16)
    run = runtime.run(kernel_module(rung).spec(*mnk), device=device, seed=seed, a=a, b=b, c=c)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.abs(expected).max() <= 2048
    assert np.array_equal(run["c"].astype(np.float32), expected)
    assert run.notes == ()


@DEVICES
@pytest.mark.parametrize("rung", RUNGS)
def test_rung__multiplies_whole_tiles(rung, device):
    check(rung, (128, 256, 160), seed=1, device=device)


@DEVICES
@pytest.mark.parametrize("rung", ["gemm_stages", "gemm_registers"])
def test_rung__has_fewer_k_tiles_than_stages(rung, device):
    check(rung, (128, 128, 32), seed=2, device=device)


@pytest.mark.sample(3)
@DEVICES
@pytest.mark.parametrize(
    ("rung", "mnk"), [("gemm_any", RAGGED_SHAPES[0]), *(("gemm_late", mnk) for mnk in RAGGED_SHAPES)]
)
def test_rung__multiplies_any_size(rung, mnk, device):
    check(rung, mnk, seed=sum(mnk), device=device)


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("rung", ["gemm_stages", "gemm_late"])
def test_rung__multiplies_in_any_order_of_the_warps(rung, seed):
    check(rung, (128, 256, 160), seed, "emulator")


@pytest.mark.parametrize("rung", WHOLE)
def test_spec__refuses_a_tile_in_part(rung):
    for mnk in ((130, 128, 32), (128, 130, 32), (128, 128, 40)):
        with pytest.raises(SpecError, match=f"{rung}: M, N and K must be multiples of the tile"):
            kernel_module(rung).spec(*mnk)


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("rung", ["gemm_registers", "gemm_any", "gemm_late"])
def test_rung__assembles_without_spills(rung, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(runtime.compile(kernel_module(rung).spec(4096, 4096, 4096)).ptx)
    done = subprocess.run(
        [shutil.which("ptxas"), "-v", "-arch=sm_90", "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr)]
    assert spills
    assert not any(spills)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("one_stage_too_few", "SharedMemoryRace", "nothing orders the two"),
        ("one_group_too_many", "UninitializedRead", "was never written"),
    ],
)
def test_fault__is_reported(fault, kind, said):
    arguments, _, _ = gemm_broken.arguments(seed=0)
    with pytest.raises(emulator.EmulatorError) as caught:
        runtime.run(gemm_broken.broken(fault), device="emulator", **arguments)
    assert type(caught.value).__name__ == kind
    assert said in str(caught.value)


def test_fault__needs_a_name_that_there_is():
    with pytest.raises(SpecError, match="gemm_broken has no fault 'none'; it has one_stage_too_few, one_"):
        gemm_broken.broken("none")
