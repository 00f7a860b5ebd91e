"""Another text is launched in place of a kernel's own."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from cutecourse.dtypes import dtype
from cutecourse.kernels import (
    LaunchSpec,
    Scalar,
    SpecError,
    Tensor,
    TensorMapSpec,
    copy_tiled,
    gemm_stages,
    hopper_stages,
    stamp_layout,
    tma_broken,
    twin,
    umma_tile,
    umma_tma_multicast,
)
from cutecourse.runtime import compile as compile_kernel
from cutecourse.runtime import run
from cutecourse.tma import TensorMapEncoding

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


@pytest.mark.parametrize(
    ("kernel", "right", "wrong", "says"),
    [
        (umma_tma_multicast, "CLUSTER = (4, 4, 1)", "CLUSTER = (2, 2, 1)", "CLUSTER = (2, 2, 1)"),
        (umma_tma_multicast, "TILE = (128, 256, 64)", "TILE = (128, 128, 64)", "TILE = (128, 128, 64)"),
        (umma_tile, "THREADS = 128", "THREADS = 256", "THREADS = 256"),
        (hopper_stages, "TILE = (128, 128, 64)", "TILE = (128, 256, 64)", "TILE = (128, 256, 64)"),
        (gemm_stages, "STAGES = AHEAD + 1", "STAGES = AHEAD + 2", "STAGES = 4"),
        (umma_tile, "TILE = (128, 128, 64)\n", "", "no TILE"),
    ],
)
def test_with_text__refuses_a_text_that_its_launch_was_not_made_for(kernel, right, wrong, says) -> None:
    assert right in kernel.FILE.text
    said = re.escape(f"{kernel.LAUNCH.name}: the text has {says}, and the launch is for ")
    with pytest.raises(SpecError, match=said):
        kernel.LAUNCH.with_text(kernel.FILE.text.replace(right, wrong))


def test_with_text__takes_another_tile_with_the_launch_that_follows_from_it() -> None:
    text = copy_tiled.FILE.text.replace("TILE = (8, 128)", "TILE = (16, 128)")
    spec = copy_tiled.LAUNCH.with_text(text, "copy_tall", grid=(4, 2, 1))
    assert (spec.name, spec.grid, spec.block) == ("copy_tall", (4, 2, 1), copy_tiled.LAUNCH.block)
    with pytest.raises(SpecError, match="its text was changed"):
        twin(spec)


ENTRY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry first() { ret; }
.visible .entry k(.param .u64 a, /* , */ .param .align 64 .b8 map[128], .param .u32 n) // n elements
.reqntid 64
.reqnctapercluster 2, 1, 1
{ ret; }
"""


def of_ptx(text: str = ENTRY, **changes) -> LaunchSpec:
    rows = TensorMapEncoding(dtype("f32"), dims=(32, 4), strides_bytes=(128,), box=(32, 4))
    params = (
        Tensor("a", "f32", 4),
        TensorMapSpec.encoded("map", "f32", (4, 32), (32, 1), rows),
        Scalar("n", "u32"),
    )
    given = {"name": "k", "language": "ptx", "ptx": text, "entry": "k", "target": "sm_90", "params": params}
    return LaunchSpec(**given | {"grid": (2, 1, 1), "block": (64, 1, 1), "cluster": (2, 1, 1)} | changes)


def test_spec__takes_ptx_that_fits() -> None:
    spec = of_ptx()
    assert spec.with_text(ENTRY.replace(".reqntid 64", ".maxntid 128")).block == (64, 1, 1)
    assert of_ptx(entry="other", block=32).entry == "other"  # what is not there is compared with nothing


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: of_ptx(block=128),
            ".reqntid 64, 1, 1, and the specification block (128, 1, 1)",
        ),
        (
            lambda: of_ptx(cluster=1),
            ".reqnctapercluster 2, 1, 1, and the specification cluster (1, 1, 1)",
        ),
        (
            lambda: of_ptx(ENTRY.replace(".reqntid 64", ".maxntid 8, 4")),
            "the PTX says .maxntid 8, 4, 1, and the specification block (64, 1, 1)",
        ),
        (
            lambda: of_ptx(ENTRY.replace(".reqnctapercluster 2, 1, 1", ".explicitcluster"), cluster=1),
            "the PTX says .explicitcluster, and the specification cluster (1, 1, 1)",
        ),
        (
            lambda: of_ptx().with_text(ENTRY.replace(", .param .u32 n", "")),
            "the PTX's k has 2 parameters, of 8, 128 bytes, and the specification 3, of 8, 128, 4 bytes",
        ),
        (
            lambda: of_ptx().with_text(ENTRY.replace(".u32 n", ".u64 n")),
            "the PTX's k has 3 parameters, of 8, 128, 8 bytes, and the specification 3, of 8, 128, 4 bytes",
        ),
    ],
)
def test_spec__refuses_ptx_that_contradicts_it(make: Callable[[], LaunchSpec], says: str) -> None:
    with pytest.raises(SpecError, match=re.escape(says)):
        make()
