"""What goes wrong where tiles share two accumulators. Every seed shows each of them."""

from cutecourse.kernels.faults import Fault, by_name

_WAIT = "                cute.arch.mbarrier_wait(acc_empty + acc, use % 2 ^ 1)\n"
_RELEASE = (
    "            with cute.arch.elect_one():\n                cute.arch.mbarrier_arrive(acc_empty + acc, 0)\n"
)
_HANDED_BACK = """    add.u32             %barrier, %barrier, 73792;
    mapa.shared::cluster.u32 %empty_of_leader, %barrier, 0;
    elect.sync          _|%elected, -1;
    @%elected mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%empty_of_leader];
"""
_FULL = "            cute.arch.mbarrier_wait(acc_full + acc, use % 2)\n"
_CLUSTER = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"
_FREE = "    if warp == 0:\n        cute.arch.relinquish"
_OVERWRITTEN = ("TensorMemoryLoadUnderWay", "TensorMemoryWriteUnderWay")

FAULTS = by_name(
    __name__,
    Fault(
        "acc_empty_forgotten",
        "the MMAs of a tile do not wait until its accumulator has been read",
        source=((_WAIT, ""),),
        twin=(
            ("[%barrier + 73792], %before;", ""),
            ("@!%done bra         UNTIL_ACC_EMPTY;", ""),
        ),
        reports=_OVERWRITTEN,
    ),
    Fault(
        "released_before_read",
        "a warp of the epilogue hands the accumulator back before it has read it",
        source=((_FULL, _FULL + _RELEASE), (_RELEASE + "            done += 1", "            done += 1")),
        twin=(
            (_HANDED_BACK, ""),
            ("    mov.u32             %chunk, 0;\n", "    mov.u32             %chunk, 0;\n" + _HANDED_BACK),
        ),
        reports=_OVERWRITTEN,
    ),
    Fault(
        "peer_not_counted",
        "the accumulator counts as read when the warps of one CTA have read their lanes",
        source=(
            (
                "mbarrier_init(acc_empty + acc, 2 * EPILOGUE_WARPS)",
                "mbarrier_init(acc_empty + acc, EPILOGUE_WARPS)",
            ),
        ),
        twin=(
            ("[%base + 73792], 8; ", "[%base + 73792], 4; "),
            ("[%base + 73800], 8;", "[%base + 73800], 4;"),
        ),
        reports=(*_OVERWRITTEN, "DeadlockError"),
    ),
    Fault(
        "other_accumulator",
        "the epilogue reads the first accumulator for every tile",
        source=(("tDtC[None, i, 0, 0, acc]", "tDtC[None, i, 0, 0, 0]"),),
        twin=(("mad.lo.u32          %from, %acc, 128, %from;", ""),),
        reports=_OVERWRITTEN,
    ),
    Fault(
        "full_parity_kept",
        "the epilogue waits for the accumulator's first phase again",
        source=((_FULL, _FULL.replace("use % 2", "0")),),
        twin=(("[%barrier + 73776], %use;", "[%barrier + 73776], 0;"),),
        reports=(*_OVERWRITTEN, "DeadlockError"),
    ),
    Fault(
        "freed_by_each_cta",
        "each CTA frees the pair's columns when its own warps have read them",
        source=((_CLUSTER + _FREE, "    cute.arch.sync_threads()\n" + _FREE),),
        twin=(
            ("barrier.cluster.arrive.aligned;                     // both CTAs have read their lanes", ""),
            (
                "    barrier.cluster.wait.aligned;\n    @!%warp_0 bra       END;",
                "    bar.sync            0;\n    @!%warp_0 bra       END;",
            ),
        ),
        reports=("TensorMemoryFreed",),
    ),
)
