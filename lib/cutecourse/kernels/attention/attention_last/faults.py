"""Faults of `attention_last`, one line each."""

from cutecourse.kernels.faults import Fault, by_name

V_READ = "    arrive(empty + (at + 1) % stages)\n    if grown"
TWIN_WAITS = "    wgmma.wait_group.sync.aligned 0;\n    @%begins bra        O_HERE;\n"
FIRST_S = "            mask(S, row, (tiles - 1) * how.keys, length, how.causal)\n"
Q_FREE = "            arrive(empty_q + consumer)\n"
TWIN_FIRST_S = "S_ALONE:\n    wgmma.wait_group.sync.aligned 0;\n"
TWIN_Q_FREE = """\
    mad.lo.u32          %empty, %group, 8, %smem;
    @%first mbarrier.arrive.shared::cta.b64 _, [%empty+98376];
"""
READS = """\
                with cute.arch.elect_one():  # the thread that stores: TMA has read what this buffer held
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
"""

FAULTS = by_name(
    __name__,
    Fault(
        "own_turn",
        "a warpgroup that has issued its MMAs gives the next turn to itself",
        source=(("barrier_id=TURN + 1 - consumer, number", "barrier_id=TURN + consumer, number"),),
        twin=(("bar.arrive          %other, 256;", "bar.arrive          %group, 256;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "s_in_flight",
        "the softmax waits until two groups of MMAs are left, and S is one of them",
        source=(("    warpgroup.wait_group(1)\n", "    warpgroup.wait_group(2)\n"),),
        twin=(("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),),
        reports=("AccumulatorInFlight",),
    ),
    Fault(
        "v_freed_early",
        "a stage of V is freed before the wait for the MMA that reads it",
        source=(
            (
                "    warpgroup.wait_group(0)\n" + V_READ,
                V_READ.replace("    if grown", "    warpgroup.wait_group(0)\n    if grown"),
            ),
        ),
        twin=(
            (TWIN_WAITS, "    @%begins bra        O_HERE;\n"),
            ("O_HERE:\n", "O_HERE:\n    wgmma.wait_group.sync.aligned 0;\n"),
        ),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "q_freed_early",
        "the rows of Q are freed after the first S, and the others read them too",
        source=((Q_FREE, ""), (FIRST_S, Q_FREE + FIRST_S)),
        twin=((TWIN_Q_FREE, ""), (TWIN_FIRST_S, TWIN_FIRST_S + TWIN_Q_FREE)),
        reports=("ReadBeforeWait", "UninitializedRead", "StageReusedEarly"),
    ),
    Fault(
        "o_overwritten",
        "a warpgroup writes O to shared memory while TMA still reads the O before it there",
        source=((READS, "                pass\n"),),
        twin=(
            (
                "    @%first cp.async.bulk.wait_group.read 0;             // TMA has read",
                "    // TMA has read",
            ),
        ),
        reports=("OverwrittenSource",),
    ),
    Fault(
        "sees_the_next_key",
        "a row sees the key behind its own too",
        source=(("row + 8 * half + 1)", "row + 8 * half + 2)"),),
        twin=(
            ("add.u32             %seen0, %row, 1;", "add.u32             %seen0, %row, 2;"),
            ("add.u32             %seen1, %row, 9;", "add.u32             %seen1, %row, 10;"),
        ),
        unreported="the kernel computes another attention, without a race",
    ),
)
