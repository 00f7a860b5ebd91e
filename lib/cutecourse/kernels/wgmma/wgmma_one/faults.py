"""The bug of an exercise in PTX: CuTe computes the descriptor, so the source has no such line."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "half_of_a_to_b",
        "the descriptor of B points 4 KiB behind A, into its second half",
        twin=(("add.u64             %desc_b, %desc_a, 512;", "add.u64             %desc_b, %desc_a, 256;"),),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
        exercise="09.5",
    ),
)
