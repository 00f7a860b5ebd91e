"""A fault of the page of symptoms."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "slice_0",
        "both CTAs take the slice of the even one",
        source=(("tiled_mma.get_slice(rank)", "tiled_mma.get_slice(0)"),),
        twin=(("shl.b32             %row, %rank, 7;", "mov.u32             %row, 0;"),),
        unreported="every address is in bounds and every order is kept: only the numbers are wrong",
    ),
)
