"""Transpose a matrix with accesses of 16 bytes everywhere: each thread transposes a 4x4 block by itself.

A thread reads four rows of its block, transposes the block in its registers, and writes four rows of the
transpose into shared memory. The swizzle sends the blocks of eight neighbouring threads to eight different
groups of four banks.
"""

import cutlass
from cutlass import cute
from cutlass.memory import SmemAllocator

TILE = 64
THREADS = 256
BLOCK = 4  # rows and columns of a thread's block; 4 floats are 16 bytes


@cute.kernel
def transpose_wide(mS: cute.Tensor, mD: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    gS = cute.local_tile(mS, (TILE, TILE), (by, bx))  # (m, n)
    gD = cute.local_tile(mD, (TILE, TILE), (bx, by))  # (n, m)
    smem = SmemAllocator()
    tile = cute.make_layout((TILE, TILE), stride=(TILE, 1))
    swizzle = cute.make_swizzle(3, 4, 6)  # of byte addresses
    sD = smem.allocate_tensor(cutlass.Float32, tile, 128, swizzle)  # (n, m)

    row, column = tid // 16, tid % 16  # 16 neighbouring threads read whole rows of the tile
    tSgS = cute.local_tile(gS, (BLOCK, BLOCK), (row, column))
    tSsD = cute.local_tile(sD, (BLOCK, BLOCK), (column, row))
    tDsD = cute.local_tile(sD, (BLOCK, BLOCK), (row, column))
    tDgD = cute.local_tile(gD, (BLOCK, BLOCK), (row, column))
    block = cute.make_layout((BLOCK, BLOCK), stride=(BLOCK, 1))
    values = cute.make_rmem_tensor(block, cutlass.Float32)
    turned = cute.make_rmem_tensor(block, cutlass.Float32)

    cute.autovec_copy(tSgS, values)
    for i in cutlass.range_constexpr(BLOCK * BLOCK):
        turned[i % BLOCK, i // BLOCK] = values[i // BLOCK, i % BLOCK]
    cute.autovec_copy(turned, tSsD)
    cute.arch.sync_threads()
    cute.autovec_copy(tDsD, values)
    cute.autovec_copy(values, tDgD)


@cute.jit
def host(mS: cute.Tensor, mD: cute.Tensor):
    rows, columns = mS.shape
    transpose_wide(mS, mD).launch(grid=(columns // TILE, rows // TILE, 1), block=(THREADS, 1, 1))
