"""Each twin of the folder beside its kernel: the same arrays, bit for bit, the same steps, the same notes.

A new `twin.ptx` in a kernel's folder is tested here for the kernel's `LAUNCH`. Name further specifications in
`ALSO`, in `LONG` those that only `make test-all` runs, and in `INSTEAD` those to take where `LAUNCH` is too
large for the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.luck import small_integers
from cutecourse.kernels import (
    LaunchSpec,
    SpecError,
    attention_last,
    attention_one,
    attention_online,
    attention_pingpong,
    copy_one_thread,
    copy_predicated,
    copy_threads,
    epilogue_direct,
    epilogue_stmatrix,
    gemm_first,
    gemm_late,
    gemm_stages,
    hello_ptx,
    hopper_broken,
    hopper_clusters,
    hopper_last,
    hopper_one,
    hopper_roles,
    hopper_stages,
    micro_gemm_swizzled,
    mma_stamp_permuted,
    tma_pipeline,
    transpose_naive,
    transpose_padded,
    transpose_shared,
    transpose_swizzled,
    transpose_wide,
    twin,
    umma_gemm,
    umma_parts,
    umma_persistent,
    umma_scheduled,
    umma_store,
    umma_tile,
    umma_tma_broken,
    wgmma_map,
    wgmma_one,
    wgmma_registers,
)
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.twinning import twins
from cutecourse.runtime import compile as compile_kernel
from cutecourse.runtime import run
from cutecourse.trace import Trace
from support import machine

ALSO: dict[str, Callable[[], list[LaunchSpec]]] = {
    "attention_last": lambda: [
        attention_last.spec(130, 3, how=attention_last.AttentionChoice(True, 32, group=2), sms=3)
    ],
    "attention_one": lambda: [attention_one.spec(130, 3, causal=True, keys=32)],
    "attention_online": lambda: [attention_online.CAUSAL, attention_online.spec(1, 64)],
    "attention_pingpong": lambda: [attention_pingpong.spec(130, 3, causal=True, keys=32)],
    "copy_one_thread": lambda: [copy_one_thread.spec(3, 5)],
    "copy_predicated": lambda: [copy_predicated.spec(7, 20), copy_predicated.spec(64, 128)],
    "copy_threads": lambda: [copy_threads.DOWN, copy_threads.TRANSPOSING, copy_threads.spec(32, 96)],
    "epilogue_direct": lambda: [epilogue_direct.ROW_MAJOR],
    "epilogue_stmatrix": lambda: [epilogue_stmatrix.TRANSPOSED],
    "gemm_first": lambda: [gemm_first.spec(128, 256, 32)],
    "gemm_stages": lambda: [gemm_stages.spec(128, 128, 32), gemm_stages.spec(128, 256, 160)],
    "gemm_late": lambda: [gemm_late.spec(264, 8, 8)],
    "hopper_clusters": lambda: [
        hopper_clusters.spec(200, 264, 200),
        hopper_clusters.spec(256, 256, 328, "bf16"),
        hopper_broken.right(),
    ],
    "hopper_last": lambda: [
        hopper_last.spec(200, 264, 200, sms=4),
        hopper_last.spec(256, 256, 136, "bf16", sms=2),
    ],
    "hopper_one": lambda: [
        hopper_one.spec(200, 136, 72),
        hopper_one.spec(2, 8, 8),
        hopper_one.spec(128, 128, 72, "bf16"),
    ],
    "hopper_roles": lambda: [
        hopper_roles.spec(200, 264, 200),
        hopper_roles.spec(2, 8, 8),
        hopper_roles.spec(128, 256, 328, "bf16"),
    ],
    "hopper_stages": lambda: [
        hopper_stages.spec(200, 136, 72),
        hopper_stages.spec(128, 128, 576),
        hopper_stages.spec(128, 128, 136, "bf16"),
    ],
    "micro_gemm_swizzled": lambda: [micro_gemm_swizzled.PLAIN],
    "mma_stamp_permuted": lambda: [mma_stamp_permuted.spec(name) for name in ("none", "size", "vector")],
    "tma_pipeline": lambda: [tma_pipeline.pipeline_spec(128, 200)],
    "transpose_naive": lambda: [transpose_naive.spec(32, 32)],
    "transpose_shared": lambda: [transpose_shared.spec(32, 32)],
    "transpose_padded": lambda: [transpose_padded.spec(96, 32)],
    "transpose_swizzled": lambda: [transpose_swizzled.spec(32, 128)],
    "transpose_wide": lambda: [transpose_wide.spec(64, 64)],
    "umma_persistent": lambda: [
        umma_persistent.ONE_SM,
        umma_persistent.BLEND,
        umma_persistent.spec(300, 520, 72, pairs=2),
    ],
    "umma_store": lambda: [umma_store.BLEND, umma_store.ONE_SM],
    "umma_tma_multicast": lambda: [umma_tma_broken.LAUNCH],
    "wgmma_map": lambda: [
        *(wgmma_map.spec(n) for n in (8, 24, 256)),
        *(wgmma_map.spec(n, "RMEM") for n in (16, 128)),
    ],
    "wgmma_one": lambda: [
        wgmma_one.spec(128, 192),
        *(wgmma_one.spec(128, 192, *majors) for majors in (("K", "MN"), ("MN", "K"), ("MN", "MN"))),
    ],
    "wgmma_registers": lambda: [wgmma_registers.spec(128, 192)],
}
LONG: dict[str, Callable[[], list[LaunchSpec]]] = {
    "gemm_late": lambda: [gemm_late.spec(520, 264, 136)],
    "hopper_last": lambda: [hopper_last.spec(400, 520, 328, sms=2)],
}
INSTEAD: dict[str, Callable[[], list[LaunchSpec]]] = {
    "umma_gemm": lambda: [
        umma_gemm.RAGGED,
        umma_gemm.gemm_spec((130, 270, 64), cluster=(2, 1)),
        umma_gemm.gemm_spec((256, 512, 192), sms=1, cluster=(2, 2)),
        umma_gemm.gemm_spec((256, 256, 72), dtype="bf16", major_a="mn", cluster=(2, 1)),
        umma_gemm.gemm_spec((512, 512, 128), major_a="mn", major_b="mn", cluster=(4, 2)),
        umma_gemm.gemm_spec((128, 256, 64), sms=1, major_b="mn", cluster=(1, 1)),
    ],
    # In turn: who gets a tile that is asked for is the schedule's.
    "umma_scheduled": lambda: [
        umma_scheduled.spec(300, 520, 136, pairs=2, stages=2, fuses=True),
        umma_scheduled.spec(392, 328, 72, columns=128, ctas=2, pairs=2, blends=True),
        umma_scheduled.spec(136, 264, 72, sms=1, pairs=1),
    ],
}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


# The arrays of kernels whose specifications leave the extents open.
GIVEN: dict[str, dict[str, np.ndarray]] = {
    "copy_transposed": {
        "out": np.zeros((40, 24), np.float32),
        "a": np.arange(24 * 40, dtype=np.float32).reshape(24, 40),
    },
    "stamp_composition": {
        "out": ints(*[-1] * 200),
        "inner_shape": ints(4, 8, 7),
        "inner_stride": ints(16, 1, 64),
        "outer_shape": ints(8, 2, 3),
        "outer_stride": ints(1, 100, 9),
    },
    "stamp_layout": {"out": ints(*[-1] * 240), "shape": ints(4, 3, 10), "stride": ints(2, 80, 8)},
    "stamp_tiles": {
        "tile_ids": ints(*[-1] * 400),
        "thread_ids": ints(*[-1] * 400),
        "tile_shape": ints(4, 8),
        "tile_stride": ints(20, 1),
        "rest_shape": ints(5, 2),
        "rest_stride": ints(80, 8),
    },
}

LEFT_OUT = {"no fence after"}
"""What the PTX ISA asks for, and the CuTe DSL leaves out; the twins have it."""


def specs_of(name: str) -> list[LaunchSpec]:
    if name in INSTEAD:
        return INSTEAD[name]()
    long = LONG.get(name, list)() if machine.everything() else []
    launch = kernel_module(name).LAUNCH
    if name in GIVEN:
        return [launch.with_extents({argument: array.shape for argument, array in GIVEN[name].items()})]
    return [launch, *ALSO.get(name, list)(), *long]


def arguments_of(spec: LaunchSpec) -> dict[str, np.ndarray | int]:
    """Small integers in every array: their sums are exact in any order. A number is 3."""
    if spec.name in GIVEN:
        return dict(GIVEN[spec.name])
    return small_integers(spec)


def launches() -> list[Any]:
    """Each twin on the emulator, and on a GPU that has its instructions."""
    return [
        pytest.param(name, device, marks=marks, id=f"{name}-{where}")
        for name in twins()
        for device, where, marks in (
            ("emulator", "emulator", ()),
            ("cuda:0", "gpu", pytest.mark.gpu(kernel_module(name).LAUNCH.target)),
        )
    ]


OTHER_STEPS = ("umma_classes",)
"""Kernels whose twin is another kernel's, with the same result: classes wait for more than it does."""

# What each warp asks for, in its order. What is left out depends on the schedule: when bytes and MMAs are
# complete, how often a warp looks at a barrier, and which CTA of a pair is the last to allocate or to free.
STEPS = {
    "mbarrier.init": ("barrier", "count"),
    "mbarrier.arrive": ("barrier", "count"),
    "mbarrier.expect_tx": ("barrier", "bytes"),
    "mbarrier.wait": ("barrier", "parity"),
    "tma.issue": (
        "operation",
        "tensor",
        "coords",
        "box",
        "bytes",
        "destinations",
        "barrier",
        "mask",
        "source",
    ),
    "bulk.commit": ("group",),
    "bulk.wait": ("left", "read"),
    "cluster.arrive": (),
    "cluster.wait": (),
    "barrier.arrive": ("number",),
    "barrier.wait": ("number",),
    "tmem.relinquish": ("group",),
    "tmem.load": ("address", "shape", "registers"),
    "tmem.wait": ("name",),
    "mma.issue": ("group", "m", "n", "k", "types", "a", "b", "d", "idesc", "accumulate"),
    "mma.commit": ("group", "barrier", "mask"),
}


def steps(trace: Trace) -> dict[tuple[int, int, int | None], list[Any]]:
    """The steps of each warp, by cluster, CTA and warp. A barrier is its place, whatever it is called."""
    found: dict[tuple[int, int, int | None], list[Any]] = {}
    for event in trace.events:
        if event.kind not in STEPS or event.data.get("asynchronous"):
            continue
        barrier = event.data.get("barrier")
        place = None if barrier is None else (barrier["rank"], barrier["offset"])
        said = [event[name] if name != "barrier" else place for name in STEPS[event.kind]]
        if event.kind == "mma.commit" and event["mask"] == 1 << event.rank:
            said[-1] = None  # to the own CTA alone, which needs no mask
        of_warp = found.setdefault((event.cluster, event.rank, event.warp), [])
        last, before = of_warp[-1] if of_warp else (None, [])
        if event.kind == last == "mbarrier.arrive" and before[0] == place:
            before[1] += event["count"]  # the lanes of a warp, at once or one by one
        elif event.kind != "mbarrier.wait" or (last, before) != (event.kind, said):
            of_warp.append((event.kind, said))
    return found


@pytest.mark.parametrize(("name", "device"), launches())
def test_twin__gives_what_its_kernel_gives(name: str, device: str) -> None:
    for spec in specs_of(name):
        arguments = arguments_of(spec)
        # The waits of wgmma are a whole warpgroup's, so their place in a warp's steps is the schedule's.
        traced = device == "emulator" and spec.target != "sm_90a" and name not in OTHER_STEPS
        kernel, by_hand = (run(one, device=device, trace=traced, **arguments) for one in (spec, twin(spec)))
        for argument, given in arguments.items():
            if isinstance(given, np.ndarray):
                assert kernel[argument].tobytes() == by_hand[argument].tobytes(), argument
        assert any(
            not np.array_equal(kernel[argument], given)
            for argument, given in arguments.items()
            if isinstance(given, np.ndarray)
        ), "the kernel changes nothing, so nothing was compared"
        notes, by_hands = ({note.hazard.name for note in ran.notes} for ran in (kernel, by_hand))
        assert by_hands == notes - LEFT_OUT
        if traced:
            assert steps(kernel.trace) == steps(by_hand.trace)


@pytest.mark.parametrize(
    ("spec", "which"),
    [
        (attention_one.spec(200, 2, causal=True), "causal attention of several heads of one batch"),
        (attention_pingpong.spec(200, 2, keys=32), "causal attention of several heads of one batch"),
        (copy_predicated.spec(7, 18), "rows whose bytes are a multiple of 16"),
        (umma_parts.parts_spec(lambda: None, umma_parts.epilogue), "the file's own parts"),
    ],
    ids=["tiles-of-128-keys", "without-a-mask", "rows-of-72-bytes", "another-part"],
)
def test_twin__refuses_a_specification_that_its_text_is_not_for(spec: LaunchSpec, which: str) -> None:
    with pytest.raises(SpecError, match=f"its twin is for {which} only"):
        twin(spec)


def test_twin__says_that_it_does_not_know_a_change() -> None:
    remarked = umma_tile.FILE.text.replace("THREADS = 128\n", "THREADS = 128  # four warps\n")
    assert twin(umma_tile.LAUNCH.with_text(remarked)).ptx == twin(umma_tile).ptx
    text = umma_tile.FILE.text.replace("[None, None, k_block]", "[None, None, 0]")
    with pytest.raises(SpecError, match="this change is not known"):
        twin(umma_tile.LAUNCH.with_text(text))


@pytest.mark.parametrize("name", twins())
def test_twin__has_the_launch_and_the_target_of_its_kernel(name: str) -> None:
    for spec in specs_of(name):
        by_hand = twin(spec)
        assert by_hand.name == f"{spec.name}_ptx"
        for field in ("grid", "block", "cluster", "dynamic_smem", "programmatic", "params", "target"):
            assert getattr(by_hand, field) == getattr(spec, field), field
        assert compile_kernel(by_hand).entry == name


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("name", twins())
def test_twin__assembles(name: str, tmp_path, find_program) -> None:
    import subprocess

    for spec in specs_of(name):
        text = tmp_path / "twin.ptx"
        text.write_text(str(compile_kernel(twin(spec)).ptx))
        command = [
            str(find_program("ptxas")),
            f"-arch={spec.target}",
            str(text),
            "-o",
            str(tmp_path / "twin"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


def test_twin__says_that_a_kernel_has_none() -> None:
    with pytest.raises(SpecError, match="hello_ptx has no twin"):
        twin(hello_ptx)
