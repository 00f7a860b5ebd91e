"""Each kernel of the chapters against NumPy: on the emulator, and under -m gpu on the GPU."""

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.kernels import (
    copy_transposed,
    epilogue_direct,
    hello_ptx,
    micro_gemm,
    micro_gemm_ldmatrix,
    mma_ownership_map,
    mma_raw,
    mma_stamp_permuted,
    mma_timing,
    mn_major_fragment_like,
    mn_major_ldmatrix,
    mn_major_ldmatrix_trans,
    mn_major_partition,
    mn_major_raw,
    stamp_composition,
    stamp_layout,
    stamp_tiles,
)

pytestmark = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
)


def ints(*values):
    return np.array(values, np.int32)


def offset_of(index, shape, stride):
    """A layout as a function, colexicographic; the last mode is taken modulo its extent as well."""
    offset = 0
    for extent, step in zip(shape, stride, strict=True):
        offset += index % extent * step
        index //= extent
    return offset


def operands(seed, low=-8, high=8):
    """A, B of small integers: every product and sum is exact in f16 and f32, in any order."""
    random = np.random.default_rng(seed)
    a = random.integers(low, high, (16, 16), endpoint=True).astype(np.float16)
    b = random.integers(low, high, (8, 16), endpoint=True).astype(np.float16)
    return a, b


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32).T


def test_hello_ptx__writes_squares(device):
    run = runtime.run(hello_ptx, device=device, out=np.zeros(32, np.uint32))
    assert run["out"].tolist() == [lane * lane for lane in range(32)]


LAYOUTS = [
    ((4, 8), (8, 1)),
    ((4, 8), (1, 4)),
    ((2, 2, 3), (12, 1, 2)),
    ((5,), (3,)),
    ((3, 5, 2), (1, 4, 100)),
    ((16, 16), (16, 1)),
    ((1, 7), (9, 2)),
]


@pytest.mark.parametrize(("shape", "stride"), LAYOUTS)
def test_stamp_layout__writes_each_thread_at_its_offset(device, shape, stride):
    out = np.full(256, -1, np.int32)
    run = runtime.run(stamp_layout, device=device, out=out, shape=ints(*shape), stride=ints(*stride))
    expected = out.copy()
    for index in range(int(np.prod(shape))):
        expected[offset_of(index, shape, stride)] = index
    assert np.array_equal(run["out"], expected)
    assert np.all(out == -1)  # the caller's array is left alone


def test_stamp_composition__gives_outer_of_inner(device):
    inner, outer = ((4, 3), (1, 5)), ((2, 4), (3, 7))
    run = runtime.run(
        stamp_composition,
        device=device,
        out=np.full(12, -1, np.int32),
        inner_shape=ints(*inner[0]),
        inner_stride=ints(*inner[1]),
        outer_shape=ints(*outer[0]),
        outer_stride=ints(*outer[1]),
    )
    expected = []
    for index in range(12):
        middle = offset_of(index, *inner)
        expected.append(middle % 2 * 3 + middle // 2 * 7)  # the last mode goes on past its extent
    assert run["out"].tolist() == expected
    assert max(offset_of(index, *inner) for index in range(12)) >= 8  # and here it does


def test_stamp_tiles__writes_each_block_over_its_tile(device):
    # A 6 x 8 row-major matrix in 2 x 4 tiles.
    tile, rest = ((2, 4), (8, 1)), ((3, 2), (16, 4))
    ids = np.full((6, 8), -1, np.int32)
    threads = np.full((6, 8), -1, np.int32)
    run = runtime.run(
        stamp_tiles,
        device=device,
        tile_ids=ids.ravel(),
        thread_ids=threads.ravel(),
        tile_shape=ints(*tile[0]),
        tile_stride=ints(*tile[1]),
        rest_shape=ints(*rest[0]),
        rest_stride=ints(*rest[1]),
    )
    for row, column in np.ndindex(6, 8):
        ids[row, column] = row // 2 + 3 * (column // 4)
        threads[row, column] = row % 2 + 2 * (column % 4)
    assert np.array_equal(run["tile_ids"].reshape(6, 8), ids)
    assert np.array_equal(run["thread_ids"].reshape(6, 8), threads)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (32, 32)])
def test_copy_transposed__transposes(device, rows, columns):
    a = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    run = runtime.run(copy_transposed, device=device, a=a, out=np.full((columns, rows), np.nan, np.float32))
    assert np.array_equal(run["out"], a.T)
    assert np.array_equal(run["a"], a)


COLUMN_OF = {  # of value v in atom j of the warp along N, for the lane's place q in its group of four
    "none": lambda warp_n, j, q, v: 16 * j + 8 * warp_n + 2 * q + v,
    "size": lambda warp_n, j, q, v: 16 * j + 8 * warp_n + 2 * q + v,
    "layout": lambda warp_n, j, q, v: 16 * warp_n + 8 * j + 2 * q + v,
    "vector": lambda warp_n, j, q, v: 16 * warp_n + 4 * q + 2 * j + v,
}


@pytest.mark.parametrize("permutation", mma_stamp_permuted.PERMUTATIONS)
def test_mma_stamp_permuted__moves_columns_as_the_permutation_says(device, permutation):
    nobody = {name: np.full((32, 16, 2), -1, np.int32) for name in "ab"}
    run = runtime.run(
        mma_stamp_permuted.spec(permutation), device=device, **nobody, c=np.full((32, 32), -1, np.int32)
    )
    expected = np.full((32, 32), -1)
    for thread, value in np.ndindex(128, 8):
        lane, warp_m, warp_n = thread % 32, thread // 32 % 2, thread // 64
        row = 16 * warp_m + lane // 4 + 8 * (value // 2 % 2)
        column = COLUMN_OF[permutation](warp_n, value // 4, lane % 4, value % 2)
        expected[row, column] = thread * 256 + value
    assert np.array_equal(run["c"], expected)
    assert (run["a"] >= 0).all()
    rows = np.unique(run["b"][:, :, 0] // 256 // 64, axis=1)  # the warp along N that has each row of B
    assert rows.shape == (32, 1)
    assert np.array_equal(rows[:, 0], run["c"][0] // 256 // 64)  # and the same column of C


def test_mma_ownership_map__is_the_ptx_isas(device):
    run = runtime.run(
        mma_ownership_map,
        device=device,
        a=np.full((16, 16), -1, np.int32),
        b=np.full((8, 16), -1, np.int32),
        c=np.full((16, 8), -1, np.int32),
    )
    # PTX ISA, Matrix Fragments for mma.m16n8k16 with floating point type (figures for A, B and C).
    for lane in range(32):
        group, in_group = lane // 4, lane % 4
        for i in range(8):
            row = group if i in (0, 1, 4, 5) else group + 8
            column = in_group * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert run["a"][row, column] == lane * 256 + i
        for i in range(4):
            k = in_group * 2 + (i & 1) + (8 if i >= 2 else 0)
            assert run["b"][group, k] == lane * 256 + i
            row = group if i < 2 else group + 8
            assert run["c"][row, in_group * 2 + (i & 1)] == lane * 256 + i


@pytest.mark.parametrize("kernel", [micro_gemm, micro_gemm_ldmatrix], ids=lambda module: module.LAUNCH.name)
def test_micro_gemm__multiplies(device, kernel):
    ones = runtime.run(
        kernel,
        device=device,
        a=np.ones((16, 16), np.float16),
        b=np.ones((8, 16), np.float16),
        c=np.full((16, 8), np.nan, np.float32),
    )
    assert np.all(ones["c"] == 16)
    a, b = operands(seed=1)
    run = runtime.run(kernel, device=device, a=a, b=b, c=np.full((16, 8), np.nan, np.float32))
    assert np.array_equal(run["c"], product(a, b))
    assert np.array_equal(run.buffers["c"], product(a, b).T.ravel())  # column-major in memory


def test_mma_raw__adds_the_product_to_c(device):
    a, b = operands(seed=2)
    c = np.arange(128, dtype=np.float32).reshape(16, 8)
    run = runtime.run(mma_raw, device=device, a=a, b=b, c=c)
    assert np.array_equal(run["c"], c + product(a, b))


def as_fragment_like_reads_it(a):
    """A as mma.sync gets it when the bits for k+1 and m+8 of a value's number change places."""
    seen = np.empty_like(a)
    for m, k in np.ndindex(16, 16):
        seen[m, k] = a[m % 8 + 8 * (k % 2), k // 2 * 2 + m // 8]
    return seen


@pytest.mark.parametrize(
    ("kernel", "a_as_read"),
    [
        (mn_major_partition, lambda a: a),
        (mn_major_ldmatrix_trans, lambda a: a),
        (mn_major_raw, lambda a: a.T),
        (mn_major_ldmatrix, lambda a: a.T),
        (mn_major_fragment_like, as_fragment_like_reads_it),
    ],
    ids=["partition", "ldmatrix_trans", "raw", "ldmatrix", "fragment_like"],
)
def test_mn_major__is_right_or_wrong_as_its_page_says(device, kernel, a_as_read):
    a, b = operands(seed=3)
    run = runtime.run(kernel, device=device, a=a, b=b, c=np.full((16, 8), np.nan, np.float32))
    assert np.array_equal(run["c"], product(a_as_read(a), b))
    is_right = np.array_equal(run["c"], product(a, b))
    assert is_right == (kernel in {mn_major_partition, mn_major_ldmatrix_trans})


@pytest.mark.parametrize("spec", [epilogue_direct.LAUNCH, epilogue_direct.ROW_MAJOR], ids=["column", "row"])
def test_epilogue_direct__stores_the_fragments_where_c_lies(device, spec):
    run = runtime.run(spec, device=device, c=np.full((16, 8), -1, np.float32))
    expected = np.empty((16, 8), np.float32)
    for lane, value in np.ndindex(32, 4):
        expected[lane // 4 + 8 * (value // 2), lane % 4 * 2 + value % 2] = lane * 256 + value
    assert np.array_equal(run["c"], expected)
    in_memory = expected.T if spec is epilogue_direct.LAUNCH else expected
    assert np.array_equal(run.buffers["c"], in_memory.ravel())


@pytest.mark.parametrize(("chains", "warps"), [(1, 1), (3, 2)])
def test_mma_timing__issues_the_mmas_it_says(device, chains, warps):
    turns = 2
    run = runtime.run(
        mma_timing.timing_spec(chains, warps),
        device=device,
        start=np.zeros(warps, np.uint64),
        stop=np.zeros(warps, np.uint64),
        sums=np.full(32 * warps, np.nan, np.float32),
        turns=turns,
    )
    # Each mma adds 16 to each of a thread's 4 values.
    assert np.all(run["sums"] == 16 * 4 * chains * mma_timing.UNROLLED * turns)
    assert np.all(run["stop"] > run["start"])
