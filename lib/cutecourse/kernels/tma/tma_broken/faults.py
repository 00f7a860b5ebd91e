"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "one_arrival",
        "one arrival of the consumer's 32 ends the phase, and the stage is filled again",
        source=(("[empty], 32;", "[empty], 1;"),),
        reports=("StageReusedEarly", "BarrierCountError"),
        exercise="07.5",
    ),
)
