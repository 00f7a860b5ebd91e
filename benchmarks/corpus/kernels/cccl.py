"""CUB, from NVIDIA's core compute libraries: primitives of a block or a warp, each in a kernel of ours."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import cuda_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned

kernel = cuda_kernels("cccl", ["nvidia/cu13/include/cccl"])
BLOCKS, THREADS, ITEMS = 3, 128, 4
COUNT = BLOCKS * THREADS * ITEMS


def _called(parameters: str, declared: str, body: str) -> str:
    """A kernel that declares a primitive as P, loads `mine` in blocks, and runs a body."""
    return f"""
        extern "C" __global__ void run({parameters}) {{
            using P = cub::{declared};
            __shared__ typename P::TempStorage storage;
            int mine[{ITEMS}], at = (blockIdx.x * {THREADS} + threadIdx.x) * {ITEMS};
            for (int i = 0; i < {ITEMS}; ++i) mine[i] = in[at + i];
            {body}
        }}"""


def _integers(draw: Draw, high: int = 1000):
    x = draw.integers(0, high, COUNT)
    return x, x.values.reshape(BLOCKS, -1)


MERGE = {
    "never written": "The merge of the last thread reads one item behind the last one, in memory that CUB has"
    " set aside for that, and uses it for nothing."
}
STORE = f"for (int i = 0; i < {ITEMS}; ++i) out[at + i] = mine[i];"
IN_OUT = "const int *in, int *out"


@kernel("cub/block/block_reduce.cuh", "run", before=_called(
    IN_OUT, f"BlockReduce<int, {THREADS}>",
    "int sum = P(storage).Sum(mine); if (threadIdx.x == 0) out[blockIdx.x] = sum;"
))  # fmt: skip
def block_reduce(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned(rows.sum(1), "s32")], block=THREADS)


@kernel("cub/block/block_reduce.cuh", "run", before=_called(
    IN_OUT, f"BlockReduce<int, {THREADS}, cub::BLOCK_REDUCE_RAKING>",
    "int top = P(storage).Reduce(mine, [](int a, int b) { return a > b ? a : b; });"
    " if (threadIdx.x == 0) out[blockIdx.x] = top;",
))  # fmt: skip
def block_maximum_by_raking(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned(rows.max(1), "s32")], block=THREADS)


@kernel("cub/block/block_scan.cuh", "run", before=_called(
    IN_OUT, f"BlockScan<int, {THREADS}>", f"P(storage).InclusiveSum(mine, mine); {STORE}"
))  # fmt: skip
def block_scan(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned(np.cumsum(rows, axis=1).ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_scan.cuh", "run", before=_called(
    IN_OUT, f"BlockScan<int, {THREADS}, cub::BLOCK_SCAN_WARP_SCANS>",
    f"P(storage).ExclusiveSum(mine, mine); {STORE}"
))  # fmt: skip
def block_scan_by_warps(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned((np.cumsum(rows, axis=1) - rows).ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_radix_sort.cuh", "run", before=_called(
    IN_OUT, f"BlockRadixSort<int, {THREADS}, {ITEMS}>", f"P(storage).Sort(mine); {STORE}"
))  # fmt: skip
def block_radix_sort(draw: Draw) -> Problem:
    x, rows = _integers(draw, 1 << 30)
    return Problem(BLOCKS, [x, poisoned(np.sort(rows, axis=1).ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_merge_sort.cuh", "run", findings=MERGE, before=_called(
    IN_OUT, f"BlockMergeSort<int, {THREADS}, {ITEMS}>",
    f"P(storage).Sort(mine, [](int a, int b) {{ return a < b; }}); {STORE}",
))  # fmt: skip
def block_merge_sort(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned(np.sort(rows, axis=1).ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_exchange.cuh", "run", before=_called(
    IN_OUT, f"BlockExchange<int, {THREADS}, {ITEMS}>", f"P(storage).BlockedToStriped(mine, mine); {STORE}"
))  # fmt: skip
def block_exchange(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    striped = rows.reshape(BLOCKS, ITEMS, THREADS).transpose(0, 2, 1)
    return Problem(BLOCKS, [x, poisoned(striped.ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_discontinuity.cuh", "run", before=_called(
    IN_OUT, f"BlockDiscontinuity<int, {THREADS}>",
    f"int heads[{ITEMS}]; P(storage).FlagHeads(heads, mine, [](int a, int b) {{ return a != b; }});"
    f" for (int i = 0; i < {ITEMS}; ++i) out[at + i] = heads[i];",
))  # fmt: skip
def block_discontinuity(draw: Draw) -> Problem:
    x, rows = _integers(draw, 3)
    heads = np.concatenate([np.ones((BLOCKS, 1)), rows[:, 1:] != rows[:, :-1]], axis=1)
    return Problem(BLOCKS, [x, poisoned(heads.ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_adjacent_difference.cuh", "run", before=_called(
    IN_OUT, f"BlockAdjacentDifference<int, {THREADS}>",
    f"P(storage).SubtractLeft(mine, mine, [](int a, int b) {{ return a - b; }}); {STORE}",
))  # fmt: skip
def block_adjacent_difference(draw: Draw) -> Problem:
    x, rows = _integers(draw)
    return Problem(BLOCKS, [x, poisoned(np.diff(rows, axis=1, prepend=0).ravel(), "s32")], block=THREADS)


@kernel("cub/block/block_histogram.cuh", "run", before=_called(
    IN_OUT, f"BlockHistogram<int, {THREADS}, {ITEMS}, 32, cub::BLOCK_HISTO_ATOMIC>",
    "__shared__ int counts[32]; P(storage).Histogram(mine, counts); __syncthreads();"
    " if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = counts[threadIdx.x];",
))  # fmt: skip
def block_histogram(draw: Draw) -> Problem:
    x, rows = _integers(draw, 32)
    counts = np.stack([np.bincount(row, minlength=32) for row in rows])
    return Problem(BLOCKS, [x, poisoned(counts.ravel(), "s32")], block=THREADS)


@kernel("cub/warp/warp_reduce.cuh", "run", before=f"""
    extern "C" __global__ void run(const float *in, float *out) {{
        using P = cub::WarpReduce<float>;
        __shared__ typename P::TempStorage storage[{THREADS // 32}];
        float sum = P(storage[threadIdx.x / 32]).Sum(in[blockIdx.x * {THREADS} + threadIdx.x]);
        if (threadIdx.x % 32 == 0) out[(blockIdx.x * {THREADS} + threadIdx.x) / 32] = sum;
    }}""")  # fmt: skip
def warp_reduce(draw: Draw) -> Problem:
    x = draw.normal(BLOCKS * THREADS)
    return Problem(BLOCKS, [x, poisoned(x.values.reshape(-1, 32).sum(1), "f32")], block=THREADS)


@kernel("cub/warp/warp_merge_sort.cuh", "run", findings=MERGE, before=f"""
    extern "C" __global__ void run(const int *in, int *out) {{
        using P = cub::WarpMergeSort<int, {ITEMS}, 32>;
        __shared__ typename P::TempStorage storage[{THREADS // 32}];
        int mine[{ITEMS}], at = (blockIdx.x * {THREADS} + threadIdx.x) * {ITEMS};
        for (int i = 0; i < {ITEMS}; ++i) mine[i] = in[at + i];
        P(storage[threadIdx.x / 32]).Sort(mine, [](int a, int b) {{ return a < b; }});
        {STORE}
    }}""")  # fmt: skip
def warp_merge_sort(draw: Draw) -> Problem:
    x, _ = _integers(draw)
    return Problem(
        BLOCKS, [x, poisoned(np.sort(x.values.reshape(-1, 32 * ITEMS), axis=1).ravel(), "s32")], block=THREADS
    )


@kernel("cub/block/block_load.cuh", "run", before=f"""
    #include <cub/block/block_store.cuh>
    extern "C" __global__ void run(const float *in, float *out) {{
        using Load = cub::BlockLoad<float, {THREADS}, {ITEMS}, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
        using Store = cub::BlockStore<float, {THREADS}, {ITEMS}, cub::BLOCK_STORE_TRANSPOSE>;
        __shared__ union {{ typename Load::TempStorage load; typename Store::TempStorage store; }} storage;
        float mine[{ITEMS}];
        const int at = blockIdx.x * {THREADS * ITEMS};
        Load(storage.load).Load(in + at, mine);
        for (int i = 0; i < {ITEMS}; ++i) mine[i] *= 2;
        __syncthreads();
        Store(storage.store).Store(out + at, mine);
    }}""")  # fmt: skip
def block_load_and_store(draw: Draw) -> Problem:
    x = Tensor(draw.normal(COUNT).values, "f32")
    return Problem(BLOCKS, [x, poisoned(2 * x.values, "f32")], block=THREADS)
