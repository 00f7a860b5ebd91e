"""What can go wrong around wgmma: each mistake is made in a right kernel, and has to be named."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AccumulatorInFlight,
    DivergedWarp,
    MissingProxyFence,
    NonUniformOperand,
    OverwrittenSource,
    StageReusedEarly,
    UninitializedRead,
)
from cutecourse.trace import Recorder
from cutecourse.widgets.timeline_mmas import mma_groups
from tools.cases.wgmma_ptx import ROWS, Wgmma

FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
IN_REGISTERS = Wgmma(n=8, a_in_registers=True, swizzle_b="128B")
CHAIN = Wgmma(n=8, steps=2, swizzle_a="64B", swizzle_b="64B")


def arrays(kernel: Wgmma, tiles: int = 1):
    generator = np.random.default_rng(3)

    def whole(*shape):
        return generator.integers(-4, 5, (tiles, *shape))

    k = kernel.k * kernel.steps
    a, b = whole(ROWS, k).astype(np.float16), whole(kernel.n, k).astype(np.float16)
    return a, b, whole(ROWS, kernel.n).astype(np.float32), np.full((tiles, ROWS, kernel.n), 77, np.float32)


def run(text: str, kernel: Wgmma = CHAIN, *, right: bool = True, block: int = 128, tiles: int = 1, **options):
    a, b, c, d = arrays(kernel, tiles)
    done = launch(text, grid=tiles, block=block, args=[a, b, c, d], **options)
    if right:
        wanted = a.astype(np.float32) @ b.astype(np.float32).transpose(0, 2, 1) + c
        np.testing.assert_array_equal(d, wanted)
    return done


def edit(old: str, new: str, kernel: Wgmma = CHAIN) -> str:
    text = kernel.ptx()
    assert old in text, text
    return text.replace(old, new)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kernel", [CHAIN, IN_REGISTERS], ids=["shared", "registers"])
def test_right_kernels__have_nothing_to_say(kernel, seed):
    assert not run(kernel.ptx(), kernel, tiles=3, seed=seed).notes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WAIT, f"add.u32 %x, %d0, 1;\n{WAIT}"),
        (WAIT, f"mov.b32 %d1, 0;\n{WAIT}"),
        (WAIT, ""),
        (WAIT, "wgmma.wait_group.sync.aligned 1;"),
        (COMMIT, ""),
    ],
    ids=["read", "written", "no wait", "waits for all groups but one", "no commit"],
)
def test_accumulator__is_not_to_be_used_before_the_wait(old, new):
    with pytest.raises(
        AccumulatorInFlight, match=r"a register of D of the wgmma\.mma_async at line \d+ is used"
    ):
        run(edit(old, new))


@pytest.mark.parametrize("lanes", ["lt", "ge"], ids=["the lower half", "the upper half"])
def test_accumulator__used_past_a_wait_of_half_a_warp(lanes):
    """The lanes that do not wait go on and use D: the report names the wait of the others."""
    half = f"and.b32 %x, %me, 31;\nsetp.{lanes}.u32 %half, %x, 16;\n@%half {WAIT}\nadd.u32 %x, %d0, 1;"
    text = edit(WAIT, half).replace(".reg .pred %p;", ".reg .pred %p, %half;")
    for seed in range(4):
        with pytest.raises(DivergedWarp, match=r"stands at wgmma\.wait_group.* all 32 lanes"):
            run(text, seed=seed)


def test_accumulator__may_be_a_note_or_nothing():
    done = run(edit(WAIT, ""), right=False, hazards={"accumulator in flight": "note"})
    assert {note.hazard.name for note in done.notes} == {"accumulator in flight"}
    assert not run(edit(WAIT, ""), right=False, hazards={"accumulator in flight": "off"}).notes


def test_a_in_registers__is_not_to_be_written_before_the_wait():
    text = edit(WAIT, f"mov.b32 %a2, 0;\n{WAIT}", IN_REGISTERS)
    with pytest.raises(AccumulatorInFlight, match="a register of A"):
        run(text, IN_REGISTERS)
    # Reading it is no harm.
    run(edit(WAIT, f"mov.b32 %x, %a2;\n{WAIT}", IN_REGISTERS), IN_REGISTERS)


def test_accumulator__of_a_group_that_was_waited_for_is_free():
    other = CHAIN.name + "\n    {%e0, %e1, %e2, %e3},\n    %a_desc, %b_desc, %p, 1, 1, 0, 0;"
    text = edit(
        WAIT,
        f"{other}\n{COMMIT}\nwgmma.wait_group.sync.aligned 1;\nadd.f32 %d0, %d0, 0f00000000;\n{WAIT}",
    ).replace(".reg .pred %p;", ".reg .pred %p;\n.reg .b32 %e<4>;")
    for seed in range(6):
        run(text, seed=seed)
    with pytest.raises(AccumulatorInFlight):
        run(text.replace("add.f32 %d0, %d0", "add.f32 %e0, %e0"))


def test_accumulator__of_another_shape_is_not_passed_on():
    wide = Wgmma(n=16, swizzle_a="64B", swizzle_b="64B")
    narrow = CHAIN.name + "\n    {%d0, %d1, %d2, %d3},\n    %a_desc, %b_desc, %p, 1, 1, 0, 0;"
    text = edit(COMMIT, f"{narrow}\n{COMMIT}", wide)
    with pytest.raises(AccumulatorInFlight, match="Only accumulators of the same shape"):
        run(text, wide, right=False)


def test_accumulator__as_the_a_of_the_next_needs_a_wait():
    again = IN_REGISTERS.name + "\n    {%e0, %e1, %e2, %e3},\n    {%d0, %d1, %d2, %d3}, %b_desc, %p, 1, 1, 0;"
    text = edit(COMMIT, f"{again}\n{COMMIT}", IN_REGISTERS)
    text = text.replace(".reg .pred %p;", ".reg .pred %p;\n.reg .b32 %e<4>;")
    with pytest.raises(AccumulatorInFlight, match="has not waited for"):
        run(text, IN_REGISTERS)


def test_wgmma_fence__missing_is_a_note():
    (note,) = run(edit(FENCE, "")).notes
    assert (note.hazard.name, note.severity) == ("no wgmma fence", "note")
    # Between two of one accumulator none is needed, nor where nothing else has used the registers.
    second = (
        f"{CHAIN.name}\n    {{%d0, %d1, %d2, %d3}},\n    %a_desc, %b_desc, %p, 1, 1, 0, 0;\n{COMMIT}\n{WAIT}"
    )
    assert not run(edit(WAIT, f"{WAIT}\n{second}"), right=False).notes
    (note,) = run(edit(WAIT, f"{WAIT}\nmov.b32 %x, %d0;\n{second}"), right=False).notes
    assert note.hazard.name == "no wgmma fence"


def test_operands__that_threads_wrote_need_a_proxy_fence():
    with pytest.raises(MissingProxyFence):
        run(edit("fence.proxy.async.shared::cta;", ""))
    with pytest.raises(UninitializedRead):
        run(edit("add.u64 %b_desc, %b_desc, 2;", "add.u64 %b_desc, %b_desc, 64;"))


def test_operands__are_not_to_be_written_before_the_wait():
    text = edit(WAIT, f"setp.eq.u32 %p, %me, 0;\n@%p st.shared.b32 [tile_b], %me;\n{WAIT}")
    for seed in range(12):
        with pytest.raises(OverwrittenSource, match=r"wgmma\.wait_group"):
            run(text, right=False, seed=seed)


@pytest.mark.parametrize("when", ["after", "before"])
def test_operands__are_not_to_be_copied_over_before_the_wait(when):
    # Warp 0 reaches the multiplication long before the others do. It refills B and waits for the bytes.
    setup = "mbarrier.init.shared::cta.b64 [full], 1;"
    text = edit("bar.sync 0;", f"setp.eq.u32 %q, %me, 0;\n@%q {setup}\nbar.sync 0;")
    text = text.replace(".reg .pred %p;", ".shared .align 8 .b64 full;\n.reg .pred %p, %q;")
    late = "setp.eq.u32 %q, %warp, 0;\nmov.u32 %x, 0;\n@%q bra go;\nspin:\nadd.u32 %x, %x, 1;\n"
    late += f"setp.lt.u32 %q, %x, 3000;\n@%q bra spin;\ngo:\n{FENCE}"
    refill = """setp.ne.u32 %q, %warp, 0;
        @%q bra over;
        setp.eq.u32 %q, %me, 0;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
        @%q cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile_b], [%b], 512, [full];
        again:
        mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;
        @!%q bra again;
        over:
        """
    text = text.replace(FENCE, late).replace(WAIT, WAIT + refill if when == "after" else refill + WAIT)
    for seed in range(6):
        if when == "after":
            assert not run(text, right=False, seed=seed).notes
            continue
        with pytest.raises(StageReusedEarly, match=r"wgmma\.mma_async"):
            run(text, right=False, seed=seed)


def test_warps__that_leave_an_instruction_out():
    one = f"setp.eq.u32 %p, %warp, 2;\n@%p bra over;\n{COMMIT}\nover:"
    with pytest.raises(DivergedWarp, match=r"executes wgmma\.commit_group"):
        run(edit(COMMIT, f"{one}\n{COMMIT}"), right=False)
    with pytest.raises(DivergedWarp, match=r"warp 2 .*never executed"):
        run(edit("ret;", f"{one}\nret;"), right=False)
    late = f"setp.eq.u32 %p, %warp, 2;\n@%p bra over;\n{FENCE}"
    with pytest.raises(DivergedWarp, match="all four warps"):
        run(edit(FENCE, late).replace(WAIT, f"{WAIT}\nover:"), right=False)


def test_warps__come_one_after_another():
    # Warp 0 asks for its group long before the others have come to the multiplication.
    spin = "setp.ne.u32 %p, %warp, 0;\nmov.u32 %x, 0;\n@!%p bra go;\nspin:\nadd.u32 %x, %x, 1;\n"
    spin += "setp.lt.u32 %p, %x, 3000;\n@%p bra spin;\ngo:\nsetp.eq.u32 %p, %me, %me;\n"
    for seed in range(4):
        assert not run(edit(FENCE, spin + FENCE), seed=seed, tiles=2).notes


def test_warpgroup__is_four_whole_warps():
    with pytest.raises(DivergedWarp, match="only 96 threads"):
        run(CHAIN.ptx(), right=False, block=96)
    lanes = "setp.lt.u32 %p, %t, 3;\n@%p bra over;\n"
    with pytest.raises(DivergedWarp):
        run(edit(FENCE, lanes + FENCE).replace(WAIT, f"{WAIT}\nover:"), right=False)


def test_descriptors__are_the_same_in_all_warps():
    with pytest.raises(NonUniformOperand, match="in warp"):
        run(edit(FENCE, f"setp.eq.u32 %p, %warp, 1;\n{FENCE}"), right=False)
    with pytest.raises(NonUniformOperand, match=r"b-desc is .* in lane 0"):
        run(edit(FENCE, f"cvt.u64.u32 %wide, %t;\nadd.u64 %b_desc, %b_desc, %wide;\n{FENCE}"), right=False)


def test_trace__has_each_operation_once_and_its_waits():
    recorder = Recorder()
    run(CHAIN.ptx(), recorder=recorder, tiles=2)
    trace = recorder.trace()
    issued, complete = trace.of("wgmma.issue").events, trace.of("wgmma.complete").events
    assert [event["types"] for event in issued] == ["f32.f16.f16"] * 4
    assert [event["accumulate"] for event in issued] == [True] * 4
    assert sorted(event["issue"] for event in complete) == [event.index for event in issued]
    assert {event.warp for event in issued} == {0}
    commits = trace.of("wgmma.commit").events
    groups = [[e.index for e in issued if e.cluster == cluster] for cluster in (0, 1)]
    assert sorted(event["issues"] for event in commits) == sorted(groups)
    waits, over = trace.of("wgmma.wait").events, trace.of("wgmma.resume").events
    passed = [event for event in waits if event["outcome"] == "passed"]
    assert len({(event.cluster, event.warp) for event in waits}) == 8  # a warp each
    assert sorted((event.cluster, event.warp) for event in (*passed, *over)) == [
        (cluster, warp) for cluster in (0, 1) for warp in range(4)
    ]
    assert all(wait.end is not None for wait in trace.waits())
    assert {wait.what for wait in trace.waits() if wait.kind == "wgmma"} == {
        "at most 0 wgmma groups under way"
    }
    found = mma_groups(trace)
    assert [(group.label, group.done) for group in found] == [("2 MMAs 64×8×16", True)] * 2
