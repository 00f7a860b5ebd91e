"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "chain_forgets",
        "the last step adds to the accumulator of the other chain",
        source=(
            (
                "{%b0, %b1}, {%c4, %c5, %c6, %c7};\n\n    // the sum",
                "{%b0, %b1}, {%c0, %c1, %c2, %c3};\n\n    // the sum",
            ),
        ),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
        exercise="05.5",
    ),
)
