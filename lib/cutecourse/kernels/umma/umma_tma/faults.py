"""The fault of the page about every order."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "warps_not_together",
        "the warps don't wait for each other at the end of a k-tile",
        source=(
            ("cute.arch.sync_threads()  # a warp two k-tiles behind would wait for a phase that is over", ""),
        ),
        twin=(("bar.sync            0;                              // a warp two k-tiles behind", ""),),
        unreported="under no seed a warp falls two k-tiles behind; `prove` finds the order in which one does",
    ),
)
