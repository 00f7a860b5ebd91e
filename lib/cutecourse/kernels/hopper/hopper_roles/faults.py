"""A fault of chapter 10."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "too_many_registers",
        "the consumers ask for more registers than the producer leaves them",
        source=(("CONSUMER_REGISTERS = 40, 232", "CONSUMER_REGISTERS = 40, 240"),),
        twin=(("setmaxnreg.inc.sync.aligned.u32 232;", "setmaxnreg.inc.sync.aligned.u32 240;"),),
        reports=("DivergedWarp",),
    ),
)
