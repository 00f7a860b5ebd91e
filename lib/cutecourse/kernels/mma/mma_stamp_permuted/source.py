"""Four warps stamp the cells that a TiledMma gives to them, of a 32x32 tile of C and its parts of A and B.

A stamp is thread * 256 + value. Two warps own the same cells of A, and two own the same cells of B, so A and
B have one copy for each of the two. `PERMUTATIONS` holds the tile along N that the TiledMma is given.
"""

from functools import cache

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp

WARPS = (2, 2, 1)
PERMUTATIONS = {
    "none": None,  # as many columns as the warps cover side by side: 16
    "size": 32,
    "layout": ((8, 2, 2), (1, 16, 8)),  # shape and stride: 16 neighbouring columns for each warp
    "vector": ((2, 4, 2, 2), (1, 4, 16, 2)),  # and 4 neighbouring columns for each thread
}


def make_mma(along_n):
    """Two warps along M and two along N; `along_n` is the tile of N: a size, shape and stride, or None."""
    tile = cute.make_layout(along_n[0], stride=along_n[1]) if isinstance(along_n, tuple) else along_n
    return cute.make_tiled_mma(
        warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16)),
        cute.make_layout(WARPS),
        permutation_mnk=(None, tile, None),
    )


@cute.kernel
def mma_stamp_permuted(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, along_n: cutlass.Constexpr[tuple | int | None]
):
    tid, _, _ = cute.arch.thread_idx()
    warp_m, warp_n = tid // 32 % WARPS[0], tid // 32 // WARPS[0]
    thr_mma = make_mma(along_n).get_slice(tid)
    tCgA = thr_mma.partition_A(mA[None, None, warp_n])
    tCgB = thr_mma.partition_B(mB[None, None, warp_m])
    tCgC = thr_mma.partition_C(mC)
    for value in cutlass.range_constexpr(cute.size(tCgA)):
        tCgA[value] = tid * 256 + value
    for value in cutlass.range_constexpr(cute.size(tCgB)):
        tCgB[value] = tid * 256 + value
    for value in cutlass.range_constexpr(cute.size(tCgC)):
        tCgC[value] = tid * 256 + value


@cache
def host_for(permutation: str):
    """The host function for one of `PERMUTATIONS`."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor):
        mma_stamp_permuted(mA, mB, mC, PERMUTATIONS[permutation]).launch(grid=(1, 1, 1), block=(128, 1, 1))

    return host
