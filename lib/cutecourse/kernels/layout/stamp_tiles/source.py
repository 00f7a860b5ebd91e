"""Each block writes its index over its tile. Each thread writes its own index into its cell of the tile.

A divide gives two modes: the tile, and the rest, which says where each tile begins. A thread's offset is
tile(threadIdx) + rest(blockIdx). The same kernel stamps a product, where one layout also repeats another.
Both layouts are passed by their leaf modes.
"""

from numba import cuda


@cuda.jit
def stamp_tiles(tile_ids, thread_ids, tile_shape, tile_stride, rest_shape, rest_stride):
    in_tile = cuda.threadIdx.x
    tile = cuda.blockIdx.x
    offset = 0
    for mode in range(tile_shape.size):
        offset += in_tile % tile_shape[mode] * tile_stride[mode]
        in_tile //= tile_shape[mode]
    for mode in range(rest_shape.size):
        offset += tile % rest_shape[mode] * rest_stride[mode]
        tile //= rest_shape[mode]
    if in_tile == 0 and tile == 0:  # threads and blocks past the layouts' sizes have something left over
        tile_ids[offset] = cuda.blockIdx.x
        thread_ids[offset] = cuda.threadIdx.x
