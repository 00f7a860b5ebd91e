"""Whole modules from compilers: nvcc's PTX kept as text, numba-cuda's compiled on the spot."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import KernelTrap
from cutecourse.ptx import read_module

TEXT = (Path(__file__).resolve().parent / "modules" / "scalar.ptx").read_text()


@pytest.fixture(scope="module")
def compiled():
    return read_module(TEXT)


@pytest.fixture
def rng():
    return np.random.default_rng(12345)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nvcc__reduction_with_shuffles(compiled, rng, seed):
    data = rng.integers(-8, 9, 20_000).astype(np.float32)
    out = np.zeros(1, dtype=np.float32)
    result = launch(compiled, entry="reduce_sum", grid=9, block=128, args=[data, out, len(data)], seed=seed)
    assert out[0] == data.sum()
    assert result.count("shfl") > 0


@pytest.mark.parametrize("shape", [(16, 16, 16), (33, 50, 21)])
def test_nvcc__tiled_matmul(compiled, rng, shape):
    m, n, k = shape
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype=np.float32)
    grid = (-(-n // 16), -(-m // 16))
    launch(compiled, entry="matmul", grid=grid, block=(16, 16), args=[a, b, c, m, n, k])
    np.testing.assert_array_equal(c, a @ b)


def test_nvcc__changing_an_operand_changes_the_product(rng):
    a, b = (rng.integers(1, 5, (16, 16)).astype(np.float32) for _ in range(2))
    start = TEXT.index(".entry matmul")
    lines = TEXT[start:].split("\n")
    multiply = next(line for line in lines if line.strip().startswith("fma.rn.f32") and line.count("%f") == 4)
    target, left, _, addend = multiply.rsplit(",", 3)
    changed = TEXT[:start] + TEXT[start:].replace(multiply, f"{target},{left},{left},{addend}", 1)
    products = []
    for text in (TEXT, changed):
        c = np.zeros((16, 16), dtype=np.float32)
        launch(text, entry="matmul", grid=1, block=(16, 16), args=[a, b, c, 16, 16, 16])
        products.append(c)
    np.testing.assert_array_equal(products[0], a @ b)
    assert (products[1] != products[0]).any()


@pytest.mark.parametrize("seed", [0, 3])
def test_nvcc__histogram_with_atomics(compiled, rng, seed):
    data = rng.integers(0, 256, 10_000).astype(np.uint8)
    bins = np.zeros(256, dtype=np.uint32)
    launch(compiled, entry="histogram", grid=5, block=96, args=[data, bins, len(data)], seed=seed)
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))


def test_nvcc__divergent_loops(compiled, rng):
    start = rng.integers(1, 100, 300).astype(np.uint32)
    steps = np.zeros(300, dtype=np.uint32)
    launch(compiled, entry="collatz", grid=3, block=128, args=[start, steps, 300])

    def collatz(x):
        count = 0
        while x != 1:
            x = 3 * x + 1 if x % 2 else x // 2
            count += 1
        return count

    assert steps.tolist() == [collatz(int(x)) for x in start]


class Pair(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_int), ("values", ctypes.c_float * 3), ("shift", ctypes.c_double)]


@pytest.mark.parametrize("k", range(6))
def test_nvcc__local_arrays_structs_and_device_functions(compiled, k):
    out = np.zeros(64, dtype=np.float32)
    pair = bytes(Pair(3, (0.5, 0.25, 2.0), 10.0))
    launch(compiled, entry="local_and_struct", grid=1, block=64, args=[out, pair, k])

    def thread(t):
        table = [i * 3 + t for i in range(8)]
        at = (t * 5 + k) % 8
        table[at] += 1000
        v = 0.0
        for i in range(t % 7):
            v = v * (0.5, 0.25, 2.0)[t % 3] + i
        return (v + 1, v * 2, v - 3, -v, v * v, 0)[k] + table[(at + t) % 8] + 10

    np.testing.assert_array_equal(out, np.array([thread(t) for t in range(64)], dtype=np.float32))


@pytest.mark.parametrize("seed", range(3))
def test_nvcc__bitonic_sort_in_dynamic_shared_memory(compiled, rng, seed):
    data = rng.integers(-1000, 1000, 128).astype(np.int32)
    expected = np.sort(data)
    launch(compiled, entry="bitonic", grid=1, block=128, args=[data], dynamic_smem=512, seed=seed)
    np.testing.assert_array_equal(data, expected)


@pytest.mark.parametrize("seed", range(3))
def test_nvcc__the_last_block_sums_up(compiled, rng, seed):
    data = rng.integers(0, 100, 1000).astype(np.int32)
    out, counter = np.zeros(9, dtype=np.int32), np.zeros(1, dtype=np.int32)
    launch(compiled, entry="last_block", grid=8, block=128, args=[data, out, counter, 1000], seed=seed)
    assert out[0] == data.sum()


def test_nvcc__doubles(compiled, rng):
    a, b = rng.random((2, 32))
    out = np.zeros(32)
    launch(compiled, entry="doubles", grid=1, block=32, args=[a, b, out])
    np.testing.assert_allclose(out, np.sqrt(a * a + b) / (1 + np.exp(-b)), rtol=1e-15)


def test_nvcc__printf(compiled):
    result = launch(compiled, entry="prints", grid=1, block=32, args=[2])
    assert result.printed == "thread 0 of block:  0.00 -5 x%\nthread 1 of block:  0.50 -5 x%\n"


def test_nvcc__assert(compiled):
    with pytest.raises(
        KernelTrap, match=r"assertion failed: threadIdx.x < n \(scalar.cu, .*asserts"
    ) as caught:
        launch(compiled, entry="asserts", grid=1, block=32, args=[5])
    assert caught.value.lane == 5


# --- numba-cuda -----------------------------------------------------------------------------------------


def numba_array(array):
    """An array as numba passes it: meminfo, parent, items, item size, data, shape, strides."""
    return [0, 0, array.size, array.itemsize, array, *array.shape, *array.strides]


def test_numba__shared_memory_and_a_rounded_division(rng):
    cuda = pytest.importorskip("numba.cuda")
    from numba import float32

    def kernel(a, b, out):
        tile = cuda.shared.array(64, float32)
        i = cuda.grid(1)
        t = cuda.threadIdx.x
        if i < a.size:
            tile[t] = a[i] * b[i]
        cuda.syncthreads()
        if i < a.size:
            out[i] = tile[63 - t] / float32(3.0)

    text, _ = cuda.compile_ptx(kernel, (float32[:], float32[:], float32[:]), cc=(8, 0))
    a, b = (rng.integers(-100, 100, 256).astype(np.float32) for _ in range(2))
    out = np.zeros(256, dtype=np.float32)
    launch(text, grid=4, block=64, args=[*numba_array(a), *numba_array(b), *numba_array(out)])
    np.testing.assert_array_equal(out, ((a * b) / np.float32(3)).reshape(4, 64)[:, ::-1].reshape(-1))


def test_numba__local_arrays_loops_and_atomics(rng):
    cuda = pytest.importorskip("numba.cuda")
    from numba import int32

    def kernel(data, counts):
        window = cuda.local.array(4, int32)
        i = cuda.grid(1)
        for j in range(4):
            window[j] = data[(i + j) % data.size]
        best = 0
        for j in range(1, 4):
            if window[j] > window[best]:
                best = j
        cuda.atomic.add(counts, best, 1)

    text, _ = cuda.compile_ptx(kernel, (int32[:], int32[:]), cc=(8, 0))
    data = rng.integers(0, 50, 320).astype(np.int32)
    counts = np.zeros(4, dtype=np.int32)
    launch(text, grid=5, block=64, args=[*numba_array(data), *numba_array(counts)])
    windows = np.stack([np.roll(data, -j) for j in range(4)])
    np.testing.assert_array_equal(counts, np.bincount(windows.argmax(axis=0), minlength=4))
