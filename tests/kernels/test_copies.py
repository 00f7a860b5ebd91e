"""The copies of chapter 3 against NumPy, and what the emulator says of those with a fault."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.copy_variants import VARIANTS, variant_spec
from cutecourse import runtime
from cutecourse.emulator.errors import EmulatorError
from cutecourse.kernels import (
    LaunchSpec,
    SpecError,
    copy_async,
    copy_broken,
    copy_one_thread,
    copy_predicated,
    copy_several,
    copy_stamp,
    copy_threads,
    copy_tiled,
)

DEVICES = ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
WHOLE = [
    copy_one_thread.spec(3, 7),
    copy_threads.spec(32, 64),
    copy_threads.spec(64, 32, copy_threads.COLUMNS),
    copy_threads.transposing(32, 64),
    copy_tiled.spec(16, 256),
    copy_several.spec(64, 128),
    copy_async.spec(32, 256),
]


def copied(spec: LaunchSpec, device: str) -> None:
    """Run a copy and compare, NaN for NaN and zero for minus zero."""
    extents = spec.params[0].extents
    source = np.random.default_rng(31).standard_normal(extents).astype(np.float32)
    source.flat[:3] = np.nan, -0.0, np.inf
    run = runtime.run(spec, device=device, source=source, result=np.full(extents, 7, np.float32))
    assert run["result"].tobytes() == source.tobytes()
    assert not run.notes


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", WHOLE, ids=lambda spec: spec.name)
def test_copy__copies_whole_tiles(spec: LaunchSpec, device: str) -> None:
    copied(spec, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1, 1), (50, 300), (50, 302), (33, 301), (31, 127), (64, 128), (2, 1025)])
def test_copy_predicated__copies_any_shape(shape: tuple[int, int], device: str) -> None:
    copied(copy_predicated.spec(*shape), device)


@pytest.mark.parametrize("floats", [300, 302, 301])
def test_copy_predicated__is_as_wide_as_every_row_allows(floats: int) -> None:
    text = str(runtime.compile(copy_predicated.spec(50, floats)).ptx)
    widths = set(re.findall(r"cp\.async\.ca\.shared\.global .*?\], (\d+),", text))
    widest = next(width for width in (16, 8, 4) if 4 * floats % width == 0)
    assert widths == {str(widest)}


@pytest.mark.parametrize("module", [copy_threads, copy_tiled, copy_several, copy_async])
def test_spec__refuses_what_is_not_made_of_whole_tiles(module) -> None:
    with pytest.raises(SpecError, match="do not divide a matrix of 50x300"):
        module.spec(50, 300)


@pytest.mark.parametrize("device", DEVICES)
def test_copy_stamp__stamps_thread_and_value(device: str) -> None:
    stamped = runtime.run(copy_stamp, device=device, result=np.full((4, 32), -1, np.int32))["result"]
    for m, n in np.ndindex(4, 32):
        thread = m % 2 * 4 + n % 16 // 4
        value = n % 4 + 4 * (m // 2) + 8 * (n // 16)
        assert stamped[m, n] == 100 * thread + value


def test_copies__touch_no_sector_twice_but_for_the_columns() -> None:
    numbers = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    for spec, times in (
        (copy_threads.spec(64, 256), 1),
        (copy_threads.spec(64, 256, copy_threads.COLUMNS), 8),
        (copy_tiled.spec(64, 256), 1),
        (copy_several.spec(64, 256), 1),
        (copy_async.spec(64, 256), 1),
    ):
        run = runtime.run(
            spec, device="emulator", memory_report=True, source=numbers, result=np.zeros_like(numbers)
        )
        assert run.memory is not None
        assert run.memory.global_sectors == times * 2 * numbers.nbytes // 32


@pytest.mark.parametrize(
    ("fault", "says"),
    [("no_wait", "UninitializedRead.*never"), ("unguarded_tail", "AddressError.*past the end")],
)
def test_copy_broken__is_reported(fault: str, says: str) -> None:
    given, _, _ = copy_broken.arguments(0)
    with pytest.raises(EmulatorError) as report:
        runtime.run(copy_broken.broken(fault), device="emulator", **given)
    assert re.search(says, f"{type(report.value).__name__}: {report.value}", re.DOTALL)


@pytest.mark.parametrize("device", DEVICES)
def test_copy_broken__is_right_without_a_fault(device: str) -> None:
    given, name, expected = copy_broken.arguments(1)
    assert np.array_equal(runtime.run(copy_broken.RIGHT, device=device, **given)[name], expected)


def test_copy_broken__names_its_faults() -> None:
    with pytest.raises(SpecError, match="no fault 'late'; it has no_wait, unguarded_tail"):
        copy_broken.broken("late")


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_variant__copies(variant) -> None:
    copied(variant_spec(variant, 64, 512, sms=2), "emulator")
