"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "half_of_b",
        "the second half of B is loaded from the wrong columns",
        source=(("ld.global.b32    %b1, [%pb + 16];", "ld.global.b32    %b1, [%pb + 8];"),),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
        exercise="02.4",
    ),
)
