"""The bug of an exercise. It shows with a tile of C behind the last row."""

from cutecourse.kernels import hopper_clusters
from cutecourse.kernels.faults import Fault, by_name

LAUNCH = hopper_clusters.spec(384, 256, 320)

FAULTS = by_name(
    __name__,
    Fault(
        "nothing_to_multiply",
        "a CTA whose tile is behind the last row leaves, and its neighbour waits for its half of B",
        source=(
            (
                "    k_tiles = cute.size(gA, mode=[2])\n",
                (
                    "    k_tiles = cutlass.Int32(cute.size(gA, mode=[2]))\n"
                    "    if block_m * TILE[0] >= mC.shape[0]:\n"
                    "        k_tiles = cutlass.Int32(0)"
                    "  # a tile behind the last row has nothing to multiply\n"
                ),
            ),
        ),
        twin=(
            (
                "shr.u32             %group, %thread, 7;",
                (
                    "setp.ge.u32         %p, %tile_m, ${M};              "
                    "// a tile behind the last row has nothing to multiply\n"
                    "    @%p bra             DONE;\n"
                    "    shr.u32             %group, %thread, 7;"
                ),
            ),
        ),
        reports=("DeadlockError",),
        exercise="10.4",
    ),
)
