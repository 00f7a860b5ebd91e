"""Faults of a GEMM with scales: who has waited for whom."""

from cutecourse.kernels.faults import Fault, by_name

_READ = """\
                            with cute.arch.elect_one():
                                cute.arch.mbarrier_arrive(empty + stage)  # my warp has read its scales
"""
_WAIT = "                        warpgroup.wait_group(0)\n"
_FREE = "                            free(empty + stage, loaders)\n"
_DONE = _WAIT + "                        if cutlass.const_expr(part == parts - 1):\n" + _FREE

FAULTS = by_name(
    __name__,
    Fault(
        "one_warp_frees_the_scales",
        "one warp of a warpgroup says that the stage has been read, but its four warps read scales",
        source=((_READ, ""), ("(readers + (4 if scaled else 0)) * CONSUMERS", "readers * CONSUMERS")),
        reports=("SharedMemoryRace",),
    ),
    Fault(
        "sums_not_waited_for",
        "the threads add the tensor core's sums to their totals while it still writes them",
        source=((_DONE, _DONE.replace(_WAIT, "").replace(_FREE, "")),),
        reports=("AccumulatorInFlight",),
    ),
    Fault(
        "freed_before_it_is_multiplied",
        "the stage is said to be free before the MMAs that read it are done",
        source=((_DONE, _FREE.replace("    ", "", 1) + _DONE.replace(_FREE, "")),),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "scales_not_waited_for",
        "a stage counts as full at the first of its 33 arrivals, whatever has come by then",
        source=(
            ("mbarrier_init(full + stage, 1 + (32 if scaled else 0))", "mbarrier_init(full + stage, 1)"),
        ),
        # Whichever of the 33 arrivals comes first completes the phase: then a multiplication finds nothing,
        # or another arrival comes too many.
        reports=("BarrierCountError", "UninitializedRead"),
    ),
)
