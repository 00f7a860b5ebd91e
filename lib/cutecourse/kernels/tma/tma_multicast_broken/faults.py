"""The bug of an exercise."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "mask_from_rank_on",
        "the mask begins at the CTA's own bit, so the CTAs before it receive nothing",
        source=(
            (
                "    mov.b16             %mask, 0b1111;\n",
                (
                    "    mov.u32             %left, 1;\n"
                    "    shl.b32             %left, %left, 4;            // four blocks:\n"
                    "    sub.u32             %left, %left, 1;            // one bit for each,\n"
                    "    shl.b32             %left, %left, %rank;        // from this block's bit on\n"
                    "    cvt.u16.u32         %mask, %left;\n"
                ),
            ),
        ),
        reports=("MulticastError", "DeadlockError"),
        exercise="08.5",
    ),
)
