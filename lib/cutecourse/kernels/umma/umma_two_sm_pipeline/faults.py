"""Faults of chapter 13 and of the page about the emulator."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "empty_parity_flipped",
        "the producer's first wait is for a phase that nobody has ended",
        source=(("mbarrier_wait(empty + stage, turn % 2 ^ 1)", "mbarrier_wait(empty + stage, turn % 2)"),),
        twin=(("xor.b32             %before, %parity, 1;", "mov.u32             %before, %parity;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "others_only",
        "the commit of the CTA's own pair is not counted",
        source=(
            (
                "cute.size(cluster_layout_vmnk, mode=[2]) - 1\n    if",
                "cute.size(cluster_layout_vmnk, mode=[2]) - 2\n    if",
            ),
        ),
        twin=(
            ("[%base + 98328], 5;", "[%base + 98328], 4;"),
            ("[%base + 98336], 5;", "[%base + 98336], 4;"),
            ("[%base + 98344], 5;", "[%base + 98344], 4;"),
        ),
        reports=("StageReusedEarly", "BarrierCountError"),
    ),
)
