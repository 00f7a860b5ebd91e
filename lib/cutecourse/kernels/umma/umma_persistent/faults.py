"""Mistakes with the two accumulators: who may overwrite one, who has loaded one, and which one it is."""

from cutecourse.kernels.faults import Fault, by_name

_UNTIL_EMPTY = """\
UNTIL_ACC_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%signal + 64], %before;
    @!%done bra         UNTIL_ACC_EMPTY;
"""
_RELEASE = """\
                if i == PIECES - 1:
                    nvvm.tcgen05_fence("before_thread_sync")
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader
"""
_LOAD = """\
                cute.copy(load, tDtC[None, i, 0, 0, acc], tDrS)
                cute.arch.fence_view_async_tmem_load()
"""
_LOAD_IN_TWIN = "STORE:\n    tcgen05.ld"
_PIECES = "            for i in cutlass.range(PIECES, unroll=1):\n"
_SLEEP = """\
            if warp + rank + done == 0:
                for _ in cutlass.range(120000, unroll=1):
                    nvvm.nanosleep(100)
"""
_SLEEP_IN_TWIN = """\
    add.u32             %index, %warp, %rank;
    add.u32             %index, %index, %number;
    setp.ne.u32         %more, %index, 0;
    mov.u32             %index, 120000;
    @%more bra          STORE;
SLEEP:
    nanosleep.u32       100;
    sub.u32             %index, %index, 1;
    setp.ne.u32         %more, %index, 0;
    @%more bra          SLEEP;
"""
_RELEASE_IN_TWIN = """\
    setp.ne.u32         %more, %chunk, 3;
    @%more bra          NOT_YET;
    tcgen05.fence::before_thread_sync;                  // the warp has loaded all of its sums
    add.u32             %signal, %signal, 64;
    mapa.shared::cluster.u32 %leader, %signal, 0;
    elect.sync          _|%elected, -1;
    @%elected mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%leader];
NOT_YET:
"""
_MEET = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"
_FREE = "    if warp == 0:\n        cute.arch.relinquish"
_MEET_IN_TWIN = """\
    barrier.cluster.arrive.aligned;                     // both CTAs have loaded their sums
    barrier.cluster.wait.aligned;
"""
_ALL_WARPS = "4 * ${given_0};     // all warps that store"

_SWITCH_IN_TWIN = "    xor.b32             %acc, %acc, 1;\n"
_SIGNAL_IN_TWIN = "            [%signal], %all;\n"
_STORED_IN_TWIN = "    @%more bra          STORE;\n"

ONE_ACCUMULATOR = Fault(
    "one_accumulator",
    "the MMAs of each tile wait until the last tile's sums have been loaded",
    source=(("ACCUMULATORS = 2\n", "ACCUMULATORS = 1\n"),),
    twin=tuple((behind + _SWITCH_IN_TWIN, behind) for behind in (_SIGNAL_IN_TWIN, _STORED_IN_TWIN)),
    unreported="a kernel with one accumulator is slower, and right",
)
LATE_WARP = Fault(
    "late_warp",
    "one of the eight warps that store sleeps for 6 ms before it loads the first tile's sums",
    source=((_PIECES, _SLEEP + _PIECES),),
    twin=((_LOAD_IN_TWIN, _SLEEP_IN_TWIN + _LOAD_IN_TWIN),),
    unreported="a late warp is no fault where the MMAs wait for it",
)

FAULTS = by_name(
    __name__,
    Fault(
        "empty_not_waited",
        "the MMAs of a later tile do not wait until the accumulator's sums have been loaded",
        source=(("                cute.arch.mbarrier_wait(acc_empty + acc, turn % 2 ^ 1)\n", ""),),
        twin=((_UNTIL_EMPTY, ""),),
        reports=("TensorMemoryLoadUnderWay",),
    ),
    Fault(
        "released_before_the_load",
        "a warp says that its accumulator is empty before it has loaded the sums",
        source=((_LOAD + _RELEASE, _RELEASE + _LOAD),),
        twin=((_RELEASE_IN_TWIN, ""), (_LOAD_IN_TWIN, _LOAD_IN_TWIN.replace("\n", "\n" + _RELEASE_IN_TWIN))),
        reports=("TensorMemoryLoadUnderWay",),
    ),
    Fault(
        "released_a_piece_early",
        "a warp says that its accumulator is empty when it has loaded three of four pieces",
        twin=(("setp.ne.u32         %more, %chunk, 3;", "setp.ne.u32         %more, %chunk, 2;"),),
        reports=("TensorMemoryLoadUnderWay",),
        exercise="14.4",
    ),
    Fault(
        "leader_alone_counted",
        "`acc_empty` counts the leader's four warps, but eight arrive",
        source=(("(acc_empty + acc, STORING_WARPS * sms)", "(acc_empty + acc, STORING_WARPS)"),),
        twin=(
            (f"[%barriers + 64], {_ALL_WARPS}", "[%barriers + 64], 4;"),
            ("[%barriers + 72], 4 * ${given_0};", "[%barriers + 72], 4;"),
        ),
        reports=("DeadlockError", "TensorMemoryLoadUnderWay"),
    ),
    Fault(
        "peer_releases_its_own",
        "the peer's warps arrive at their own `acc_empty`, which nobody waits for",
        source=(("(acc_empty + acc, 0)  # in the leader", "(acc_empty + acc, rank)"),),
        twin=(("%leader, %signal, 0;", "%leader, %signal, %rank;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "accumulator_not_switched",
        "the MMAs of every tile go into the first accumulator",
        source=(("sums = tCtC[None, None, None, acc]", "sums = tCtC[None, None, None, 0]"),),
        twin=(("mad.lo.u32          %sums, %acc, 256, %tmem;", "mov.u32             %sums, %tmem;"),),
        reports=("TensorMemoryWriteUnderWay", "TensorMemoryLoadUnderWay", "UninitializedRead"),
    ),
    Fault(
        "parity_not_switched",
        "the wait for an empty accumulator always asks for the phase before the first one",
        source=(("(acc_empty + acc, turn % 2 ^ 1)", "(acc_empty + acc, 1)"),),
        twin=(("xor.b32             %before, %turn, 1;", "mov.u32             %before, 1;"),),
        reports=("DeadlockError", "TensorMemoryLoadUnderWay"),
    ),
    Fault(
        "block_barrier_before_dealloc",
        "before tensor memory is freed for both CTAs, a CTA waits for its own warps only",
        source=((_MEET + _FREE, "    cute.arch.sync_threads()\n" + _FREE),),
        twin=((_MEET_IN_TWIN, "    barrier.sync        0;\n"),),
        reports=("TensorMemoryFreed",),
    ),
)
