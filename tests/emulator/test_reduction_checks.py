"""Which k of A a tcgen05.mma multiplies with which k of B: right sums and wrong ones."""

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, launch
from cutecourse.emulator.errors import ReductionMismatch
from support.loaded_mma import MMA, Box, run, text
from support.tcgen05 import descriptor, idesc

M, N, K = 128, 32, 128
AT_B = 32768
TILE = 64


def whole(*shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


def k_major(array, rows):
    """Boxes of 64 k, which are 128 bytes."""
    return TensorMap.tiled(
        array, dims=array.shape[::-1], strides=(array.strides[0],), box=(TILE, rows), swizzle="128B"
    )


def boxes(of_a, of_b):
    """The tiles of 64 k from these k on, one behind the other."""
    found = [Box(0, (k, 0), i * M * 128, M * 128) for i, k in enumerate(of_a)]
    return found + [Box(1, (k, 0), AT_B + i * N * 128, N * 128) for i, k in enumerate(of_b)]


def at(place, k, rows):
    """The descriptor of 16 k from the k-th of all tiles on."""
    tile, inside = divmod(k, TILE)
    return descriptor(place + tile * rows * 128 + 2 * inside, 16, 1024, "128B")


def mma(k, k_b=None, *, adds=True):
    return MMA(at(0, k, M), at(AT_B, k if k_b is None else k_b, N), idesc(M, N), adds=adds)


def summed(of_a, of_b, mmas, *, extents=(K, K), **more):
    a, b = whole(M, extents[0], seed=1), whole(N, extents[1], seed=2)
    done, d = run([k_major(a, M), k_major(b, N)], boxes(of_a, of_b), mmas, columns=N, smem=45056, **more)
    warned = [note for note in done.notes if note.severity == "warning"]
    return [note for note in warned if note.hazard.name == "another k"], warned, d, (a, b)


ALL = range(0, K, 16)


def test_another_k__is_not_said_of_a_right_sum():
    found, warned, d, (a, b) = summed((0, 64), (0, 64), [mma(k, adds=k > 0) for k in ALL])
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)
    assert found == warned == []


def test_another_k__is_not_said_of_k_in_another_order():
    order = [112, 0, 64, 16, 96, 32, 80, 48]
    found, warned, d, (a, b) = summed((0, 64), (0, 64), [mma(k, adds=i > 0) for i, k in enumerate(order)])
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)
    assert found == warned == []


def test_another_k__is_not_said_of_whole_tiles_of_a_that_are_left_out():
    """A has its tiles that are not zero one behind the other: its k = 64.. goes with B's k = 128.."""
    a, b = (0, 64), (0, 128)
    found, warned, d, (x, y) = summed(a, b, [mma(k, adds=k > 0) for k in ALL], extents=(128, 192))
    right = x.astype(np.float32) @ y[:, [*range(64), *range(128, 192)]].astype(np.float32).T
    np.testing.assert_array_equal(d, right)
    assert found == warned == []


def test_another_k__is_not_said_of_numbers_in_two_parts():
    """High and low parts side by side along k, three products: each part comes twice."""
    pairs = [(0, 0), (0, 64), (64, 0)]
    mmas = [mma(p + k, q + k, adds=i + k > 0) for i, (p, q) in enumerate(pairs) for k in range(0, 64, 16)]
    found, warned, d, (a, b) = summed((0, 64), (0, 64), mmas)
    x, y = a.astype(np.float32), b.astype(np.float32)
    right = x[:, :64] @ y[:, :64].T + x[:, :64] @ y[:, 64:].T + x[:, 64:] @ y[:, :64].T
    np.testing.assert_array_equal(d, right)
    assert found == warned == []


def test_another_k__by_a_descriptor_that_starts_further_on():
    mmas = [mma(k, k + 16 if k == 32 else k, adds=k > 0) for k in ALL]
    (note,), _, d, (a, b) = summed((0, 64), (0, 64), mmas)
    assert (d != a.astype(np.float32) @ b.astype(np.float32).T).any()
    assert note.problem.startswith(
        "A is k = 32..47 of map0, and B is k = 48..63 of map1, in one sum with k = 0..15"
    )
    assert "A has moved by 32 and B by 48" in note.problem
    assert note.other_line is not None
    assert note.other_line < note.line
    with pytest.raises(ReductionMismatch, match="A has moved by 32"):
        summed((0, 64), (0, 64), mmas, hazards={"another k": "error"})


def test_another_k__by_a_copy_of_another_tile():
    mmas = [mma(k, adds=k > 0) for k in ALL]
    (note,), _, _, _ = summed((0, 64), (64, 128), mmas)
    assert note.problem.startswith("A is k = 0..15 of map0, and B is k = 64..79 of map1")
    assert f"both tensors have the same {K} k" in note.problem


def test_another_k__by_a_stage_that_comes_twice():
    mmas = [mma(k % 64, adds=k > 0) for k in ALL]
    (note,), warned, _, _ = summed((0, 64), (0, 64), mmas)
    assert "this sum has that product already" in note.problem
    assert {n.hazard.name for n in warned} == {"another k", "loaded and never read"}


def test_another_k__of_one_sum_is_no_matter_to_the_next():
    """The second half of the accumulators is a sum of its own, of the same tiles from the start."""
    mmas = [mma(k, adds=k > 0) for k in ALL]
    mmas += [MMA(m.a, m.b, m.idesc, adds=m.adds, column=N) for m in mmas]
    found, warned, _, _ = summed((0, 64), (0, 64), mmas)
    assert found == []
    assert {n.hazard.name for n in warned} == {"sum never read"}


def test_another_k__by_the_descriptor_of_a_in_the_place_of_b():
    """B's own k are another CTA's, or another MMA's, so that its bytes are all read."""
    mmas = [mma(k, adds=k > 0) for k in ALL]
    own = [MMA(m.a, m.a, m.idesc, adds=m.adds) for m in mmas]
    beside = [MMA(m.a, m.b, m.idesc, adds=m.adds, column=N) for m in mmas]
    for i in (0, 2):
        (note,), _, _, _ = summed((0, 64), (0, 64), [*mmas[:i], own[i], *mmas[i + 1 :], *beside])
        k = f"k = {16 * i}..{16 * i + 15} of map0"
        assert note.problem.startswith(f"A is {k}, and B is {k}, which is A's own tensor, in one sum with")
    # A matrix times itself, and each of two tiles by another matrix, are meant.
    for right in (own, own[:4] + mmas[4:]):
        found, _, _, _ = summed((0, 64), (0, 64), [*right, *beside])
        assert found == []


def of_bytes(edit=lambda ptx: ptx, **more):
    """One product, added once, of bytes with no coordinates, the text edited: the warnings, and how often."""
    a, b = np.ones((2 * M, 8), np.float16), np.ones((2 * N, 8), np.float16)
    maps = [
        TensorMap.tiled(array, dims=array.shape[::-1], strides=(16,), box=array.shape[::-1])
        for array in (a, b)
    ]
    loads = [Box(0, (0, 0), 0, 2 * M * 16), Box(1, (0, 0), AT_B, 2 * N * 16)]
    of_a, of_b = descriptor(0, M * 16, 128, "none"), descriptor(AT_B, N * 16, 128, "none")
    mmas = [MMA(of_a, of_b, idesc(M, N), adds=adds) for adds in (False, True)]
    out = np.zeros((128, N), np.float32)
    ptx = edit(text(2, [2, 2], loads, mmas, columns=N, smem=40960))
    done = launch(ptx, grid=1, block=128, args=[out, *maps], **more)
    assert (out == out[0, 0]).all()
    return [note for note in done.notes if note.severity == "warning"], out[0, 0] / 16


def test_another_k__by_all_lanes_of_a_warp_that_multiply():
    """Nobody knows which k bytes are of, but a warp that is not elected adds its product 32 times."""

    def not_elected(ptx):
        begins, adds = ptx.rsplit("@%first tcgen05.mma", 1)
        # %p tells the other warps. A commit is for its own thread's operations.
        adds = adds.replace("@%first tcgen05.commit", "@!%p tcgen05.commit")
        return f"{begins}@!%p tcgen05.mma{adds}".replace("[bar+8], 1;", "[bar+8], 32;")

    (note,), times = of_bytes(not_elected)
    assert times == 33
    assert (note.hazard.name, note.count) == ("another k", 31)
    assert note.problem.startswith("another lane of the warp issues the same tcgen05.mma")
    with pytest.raises(ReductionMismatch, match="another lane of the warp"):
        of_bytes(not_elected, hazards={"another k": "error"})


def test_another_k__is_not_said_of_one_lane_that_multiplies_again():
    """Bytes may be others by then."""

    def again(ptx):
        begins, adds = ptx.rsplit("@%first tcgen05.mma", 1)
        mma, rest = adds.split("\n", 1)
        loop = f"@%first tcgen05.mma{mma}\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p, %r0, 3;\n@%p bra AGAIN;\n"
        return f"{begins}mov.b32 %r0, 0;\nAGAIN:\n{loop}{rest}"

    assert of_bytes() == ([], 2)
    assert of_bytes(again) == ([], 4)


def test_another_layout__where_the_k_of_one_matrix_are_no_neighbours():
    """M-major A with 8 rows of k in 1024 bytes, and a stride that skips the next 8."""
    a, b = whole(K, M, seed=1), whole(N, K, seed=2)
    map_a = TensorMap.tiled(a, dims=(M, K), strides=(2 * M,), box=(64, 64), swizzle="128B")
    shape = idesc(M, N, a_major="MN")

    def issue(stride):
        mmas = [MMA(descriptor(0, 8192, stride, "128B"), at(AT_B, 0, N), shape, adds=False)]
        loads = [Box(0, (0, 0), 0, 8192), Box(0, (64, 0), 8192, 8192), Box(1, (0, 0), AT_B, N * 128)]
        done, _ = run([map_a, k_major(b, N)], loads, mmas, columns=N, smem=45056)
        return [n.problem for n in done.notes if n.hazard.name == "another layout" and "k of A" in n.problem]

    assert issue(1024) == []
    (problem,) = issue(2048)
    assert "the k of A are 0, 1, 2, 3, 4, 5, 6, 7, 16, 17" in problem
    assert "those of B are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9" in problem
