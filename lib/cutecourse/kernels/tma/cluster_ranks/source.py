"""Ranks and coordinates in a cluster: every CTA writes the machine's and those of cluster_layout_vmnk.

There are two clusters of 4x4 CTAs. Each CTA writes one row of `out`. The row's index is the CTA's index in
the grid, counted along x first. The columns are the fields of `COLUMNS`.
"""

import cutlass
from cutlass import cute

GRID = (8, 4, 1)
CLUSTER = (4, 4, 1)
ONE_SM = ("v1", "m1", "n1", "k1")  # the coordinate in cluster_layout_vmnk of an MMA of one SM
TWO_SM = ("v2", "m2", "n2", "k2")  # and of two SMs
COLUMNS = ("rank", "x", "y", "z", "cluster_x", "cluster_y", "cluster_z", *ONE_SM, *TWO_SM)


@cute.kernel
def cluster_ranks(mOut: cute.Tensor, one_sm_vmnk: cute.Layout, two_sm_vmnk: cute.Layout):
    block_x, block_y, _ = cute.arch.block_idx()
    rank = cute.arch.block_idx_in_cluster()
    fields = (
        rank,
        *cute.arch.block_in_cluster_idx(),
        *cute.arch.cluster_idx(),
        *one_sm_vmnk.get_flat_coord(rank),
        *two_sm_vmnk.get_flat_coord(rank),
    )
    for column in cutlass.range_constexpr(len(fields)):
        mOut[block_x + GRID[0] * block_y, column] = fields[column]


@cute.jit
def host(mOut: cute.Tensor):
    one_sm_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (1,))
    two_sm_vmnk = cute.tiled_divide(cute.make_layout(CLUSTER), (2,))
    cluster_ranks(mOut, one_sm_vmnk, two_sm_vmnk).launch(grid=GRID, block=(1, 1, 1), cluster=CLUSTER)
