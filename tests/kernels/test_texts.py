"""Another text is launched in place of a kernel's own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cutecourse.kernels import SpecError, stamp_layout, tma_broken, umma_tile
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.runtime import compile as compile_kernel
from cutecourse.runtime import run

NUMBERS = np.arange(1, 48 * 32 + 1, dtype=np.int32).reshape(48, 32)


def doubled(launch: LaunchSpec) -> np.ndarray:
    zeros = np.zeros_like(NUMBERS)
    outcome = run(launch, device="emulator", source=NUMBERS, result=zeros, gave_up=np.zeros(2, "u4"), tiles=3)
    return outcome["result"]


def test_with_text__launches_other_ptx() -> None:
    assert np.array_equal(doubled(tma_broken.LAUNCH.with_text(tma_broken.PTX)), 2 * NUMBERS)
    tripled = tma_broken.PTX.replace("shl.b32             %value, %value, 1", "mul.lo.u32 %value, %value, 3")
    assert np.array_equal(doubled(tma_broken.LAUNCH.with_text(tripled)), 3 * NUMBERS)


def test_with_text__takes_ptx_for_a_kernel_of_the_cute_dsl() -> None:
    ptx = str(compile_kernel(umma_tile).ptx)
    spec = umma_tile.LAUNCH.with_text(ptx)
    assert (spec.language, spec.kernel, spec.host, spec.block) == ("ptx", None, None, umma_tile.LAUNCH.block)
    assert compile_kernel(spec).entry == compile_kernel(umma_tile).entry


def test_with_text__compiles_another_text_of_a_kernels_file() -> None:
    text = stamp_layout.FILE.text.replace("out[offset] = thread", "out[offset] = thread + 1")
    layout = {"shape": np.array([8], np.int32), "stride": np.array([2], np.int32)}
    for spec, first in ((stamp_layout.LAUNCH, 0), (stamp_layout.LAUNCH.with_text(text, "stamp_more"), 1)):
        outcome = run(spec, device="emulator", out=np.full(16, -1, np.int32), **layout)
        assert list(outcome["out"][::2]) == list(range(first, 8 + first))
        assert outcome.record.kernel == spec.name


@pytest.mark.parametrize(
    ("spec", "text", "says"),
    [
        (tma_broken.LAUNCH, "nothing", "tma_doubled: the text is not PTX: it has no .version line"),
        (umma_tile.LAUNCH, "def host(:", "umma_tile: the kernel's text is not Python"),
        (umma_tile.LAUNCH, "def host(): ...", "umma_tile: the kernel's file umma_tile has no function"),
    ],
)
def test_with_text__refuses_what_is_no_kernel(spec: LaunchSpec, text: str, says: str) -> None:
    with pytest.raises(SpecError, match=re.escape(says)):
        spec.with_text(text)
