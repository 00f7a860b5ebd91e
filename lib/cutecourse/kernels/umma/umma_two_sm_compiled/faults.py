"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "half_of_the_rows",
        "the odd CTA multiplies from row 64 on, not from row 128 on",
        source=(("shl.b32 \t%r32, %r7, 7;", "shl.b32 \t%r32, %r7, 6;"),),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
        exercise="13.6",
    ),
)
