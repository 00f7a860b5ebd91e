"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "one_group_too_many",
        "the wait lets the second group stay under way, and its vectors are read",
        source=(("wait_group 1;", "wait_group 2;"),),
        reports=("UninitializedRead",),
        exercise="03.5",
    ),
)
