"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "half_of_sixteen",
        "lanes 8 to 15 give addresses of the first eight columns of B",
        source=(("%lane, 3;\n    and", "%lane, 4;\n    and"),),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
        exercise="04.4",
    ),
)
