"""Which k of A a wgmma.mma_async multiplies with which k of B: right sums and wrong ones."""

from dataclasses import replace

import numpy as np
import pytest

from cutecourse.emulator import TensorMap
from cutecourse.emulator.errors import ReductionMismatch
from support.loaded_mma import Box
from support.loaded_wgmma import M, N, Product, descriptor, registers, run

K = 128
AT_B = 16384
BEHIND = 24576
TILE = 64
ALL = range(0, K, 16)
ZERO = "mov.b32 {}, 0;"


def whole(*shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


def k_major(array, rows):
    """Boxes of 64 k, which are 128 bytes."""
    return TensorMap.tiled(
        array, dims=array.shape[::-1], strides=(array.strides[0],), box=(TILE, rows), swizzle="128B"
    )


def at(place, k, rows):
    """The descriptor of 16 k from the k-th of all tiles on."""
    tile, inside = divmod(k, TILE)
    return descriptor(place + tile * rows * 128 + 2 * inside, 16, 1024, "128B")


def product(k, k_b=None, **more):
    return Product(at(0, k, M), at(AT_B, k if k_b is None else k_b, N), **more)


def boxes(number, place, rows, ks=(0, 64)):
    return [Box(number, (k, 0), place + i * rows * 128, rows * 128) for i, k in enumerate(ks)]


def said(done):
    warned = [note for note in done.notes if note.severity == "warning"]
    assert {note.hazard.name for note in warned} <= {"another k", "loaded and never read"}
    return [note for note in warned if note.hazard.name == "another k"]


def summed(products, *, of_a=(0, 64), of_b=(0, 64), extents=(K, K), **more):
    a, b = whole(M, extents[0], seed=1), whole(N, extents[1], seed=2)
    loads = boxes(0, 0, M, of_a) + boxes(1, AT_B, N, of_b)
    done, d = run([k_major(a, M), k_major(b, N)], loads, products, smem=BEHIND, **more)
    return said(done), d, a.astype(np.float32), b.astype(np.float32)


def test_another_k__is_not_said_of_a_right_sum():
    found, d, a, b = summed([product(k, adds=k > 0) for k in ALL])
    np.testing.assert_array_equal(d, a @ b.T)
    assert found == []


def test_another_k__is_not_said_of_k_in_another_order():
    order = [112, 0, 64, 16, 96, 32, 80, 48]
    found, d, a, b = summed([product(k, adds=i > 0) for i, k in enumerate(order)])
    np.testing.assert_array_equal(d, a @ b.T)
    assert found == []


def test_another_k__is_not_said_of_whole_tiles_of_a_that_are_left_out():
    found, d, a, b = summed([product(k, adds=k > 0) for k in ALL], of_b=(0, 128), extents=(128, 192))
    np.testing.assert_array_equal(d, a @ b[:, [*range(64), *range(128, 192)]].T)
    assert found == []


def test_another_k__is_not_said_of_numbers_in_two_parts():
    """High and low parts side by side along k, three products: each part comes twice."""
    pairs = [(0, 0), (0, 64), (64, 0)]
    mmas = [product(p + k, q + k, adds=i + k > 0) for i, (p, q) in enumerate(pairs) for k in range(0, 64, 16)]
    found, d, a, b = summed(mmas)
    right = a[:, :64] @ b[:, :64].T + a[:, :64] @ b[:, 64:].T + a[:, 64:] @ b[:, :64].T
    np.testing.assert_array_equal(d, right)
    assert found == []


def test_another_k__is_not_said_of_matrices_along_m_and_n():
    """Both MN-major: the k are the rows of the copies."""
    a, b = whole(K, M, seed=1), whole(K, N, seed=2)
    map_a = TensorMap.tiled(a, dims=(M, K), strides=(2 * M,), box=(M, K), swizzle="128B")
    map_b = TensorMap.tiled(b, dims=(N, K), strides=(2 * N,), box=(N, K), swizzle="64B")
    loads = [Box(0, (0, 0), 0, M * K * 2), Box(1, (0, 0), AT_B, N * K * 2)]

    def multiplied(step):
        mmas = [
            Product(
                descriptor(128 * k, 0, 1024, "128B"),
                descriptor(AT_B + 64 * (k + step * (k == 32)), 0, 512, "64B"),
                adds=k > 0,
                transposed=(1, 1),
            )
            for k in ALL
        ]
        done, d = run([map_a, map_b], loads, mmas, smem=BEHIND)
        return said(done), d

    found, d = multiplied(0)
    np.testing.assert_array_equal(d, a.astype(np.float32).T @ b.astype(np.float32))
    assert found == []
    # Boxes of all k: a step by any other number is wrong.
    (note,), _ = multiplied(16)
    assert "A has moved by 32 and B by 48" in note.problem


@pytest.mark.parametrize("seed", range(3))
def test_another_k__by_a_descriptor_that_starts_further_on(seed):
    mmas = [product(k, k + 16 if k == 32 else k, adds=k > 0) for k in ALL]
    (note,), d, a, b = summed(mmas, seed=seed)
    assert (d != a @ b.T).any()
    assert note.problem.startswith(
        "A is k = 32..47 of map0, and B is k = 48..63 of map1, in one sum with k = 0..15"
    )
    assert "A has moved by 32 and B by 48" in note.problem
    assert note.other_line is not None
    assert note.other_line < note.line
    with pytest.raises(ReductionMismatch, match="A has moved by 32"):
        summed(mmas, seed=seed, hazards={"another k": "error"})


def test_another_k__by_a_copy_of_another_tile():
    (note,), _, _, _ = summed([product(k, adds=k > 0) for k in ALL], of_b=(64, 128))
    assert note.problem.startswith("A is k = 0..15 of map0, and B is k = 64..79 of map1")
    assert f"both tensors have the same {K} k" in note.problem


def test_another_k__by_a_stage_that_comes_twice():
    (note,), _, _, _ = summed([product(k % 64, adds=k > 0) for k in ALL])
    assert "this sum has that product already" in note.problem


def test_another_k__of_registers_that_threads_have_set_to_zero():
    """No operation leaves the old D out: the sum begins where threads write it."""
    mmas = [product(k, before=registers(ZERO) if k == 0 else "") for k in ALL]
    found, d, a, b = summed(mmas)
    np.testing.assert_array_equal(d, a @ b.T)
    assert found == []
    mmas[2] = product(32, 48)
    (note,), _, _, _ = summed(mmas)
    assert "A has moved by 32 and B by 48" in note.problem


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("who", ["", "setp.eq.u32 %q, %warp, 2;\n@%q "], ids=["all warps", "one warp"])
def test_another_k__is_not_said_across_what_threads_write_between(who, seed):
    """Where threads write to D, a sum ends, and the next one is not compared with it."""
    mmas = [product(0, 16, adds=False), product(16, 32), product(32, before=f"{who}mov.b32 %d7, 0;")]
    found, _, _, _ = summed(mmas, seed=seed, extents=(K, 192))
    assert found == []
    mmas[2] = product(32, before=f"{who}mov.b32 %x, %d7;")
    (note,), _, _, _ = summed(mmas, seed=seed, extents=(K, 192))
    assert "A has moved by 32 and B by 16" in note.problem


def test_another_k__of_a_sum_that_threads_take_over():
    """The sum is complete where threads write D: so an attention kernel does with its logits."""
    before = "mov.b32 %d7, 0;"
    mmas = [product(0, 64, adds=False), product(64, 0), product(0, before=before), product(64)]
    (note,), _, _, _ = summed(mmas)
    assert note.problem.startswith("A is k = 0..15 of map0, and B is k = 64..79 of map1")


def test_another_k__of_a_tile_that_one_tensor_gives_twice():
    """A's second tile stands in both places, and its first one nowhere."""
    mmas = [product(k, adds=k > 0) for k in ALL]
    (note,), d, a, b = summed(mmas, of_a=(64, 64))
    np.testing.assert_array_equal(d, a[:, 64:] @ (b[:, :64] + b[:, 64:]).T)
    assert note.problem.startswith("A is k = 64..79 of map0, and B is k = 0..15 of map1")
    assert "no MMA uses k = 0 of A" in note.problem
    (note,), _, _, _ = summed(mmas, of_b=(0, 0))
    assert "no MMA uses k = 64 of B" in note.problem


@pytest.mark.parametrize("coords", [(0, 64), (32, 0)], ids=["two problems", "one problem, apart"])
def test_another_k__of_parts_of_a_matrix(coords):
    """B's 32 columns are in two boxes of 16, and A is in registers: only B's own coordinates can tell."""
    b = whole(K, N, seed=2)
    tensor = TensorMap.tiled(b, dims=(N, K), strides=(2 * N,), box=(16, 32), swizzle="32B")
    loads = [
        Box(0, (16 * i, k + 32 * j), AT_B + 2048 * i + 1024 * j, 1024)
        for i, k in enumerate(coords)
        for j in range(2)
    ]
    ones = "\n".join(f"mov.b32 %w{i}, 0x3c003c00;" for i in range(4))
    mmas = [
        Product(None, descriptor(AT_B + 32 * k, 2048, 256, "32B"), k > 0, ones, transposed=(0, 1))
        for k in range(0, 64, 16)
    ]
    done, d = run([tensor], loads, mmas, smem=BEHIND)
    first, second = (b[k : k + 64].astype(np.float32).sum(0) for k in coords)
    np.testing.assert_array_equal(d, np.tile([*first[:16], *second[16:]], (M, 1)))
    if coords == (0, 64):
        assert said(done) == []
    else:
        (note,) = said(done)
        assert "the lowest is 32 from column 0 on, but 0 from column 16 on" in note.problem


def test_another_k__of_one_sum_is_no_matter_to_another():
    """The same tiles into other registers, and then again from the start."""
    mmas = [product(k, adds=k > 0, d=d) for d in "ded" for k in ALL]
    found, d, a, b = summed(mmas)
    np.testing.assert_array_equal(d, a @ b.T)
    assert found == []


def test_another_k__is_not_said_of_an_a_in_registers():
    """B twice, with two A that nobody knows."""
    ones = "\n".join(f"mov.b32 %w{i}, 0x3c003c00;" for i in range(4))
    mmas = [Product(None, at(AT_B, k, N), adds=i > 0, before=ones) for i, k in enumerate((0, 16, 0))]
    found, d, _, b = summed(mmas)
    np.testing.assert_array_equal(d, np.tile(2 * b[:, :16].sum(1) + b[:, 16:32].sum(1), (M, 1)))
    assert found == []


# --- A's own tensor as B ------------------------------------------------------------------------------------


def with_own(ks, of_b, **more):
    """A times its own first rows for these k, and B for those: the notes and D."""
    own = [Product(at(0, k, M), at(0, k, M)) for k in ks]
    mmas = own + [product(k) for k in of_b]
    mmas[0] = replace(mmas[0], adds=False)
    return summed(mmas, **more)


def test_another_k__by_the_descriptor_of_a_in_the_place_of_b():
    """For 16 of a tile's 64 k."""
    (note,), d, a, b = with_own([0], [16, 32, 48, 64, 80, 96, 112])
    assert (d != a @ b.T).any()
    assert note.problem.startswith(
        "A is k = 0..15 of map0, and B is k = 0..15 of map0, which is A's own tensor,"
    )
    assert "in one sum with k = 16..31 of map0 and k = 16..31 of map1" in note.problem
    assert note.other_line is not None
    assert note.other_line > note.line
    with pytest.raises(ReductionMismatch, match="A's own tensor"):
        with_own([0], [16, 32, 48], hazards={"another k": "error"})


def test_another_k__is_not_said_of_a_matrix_times_itself():
    found, d, a, _ = with_own(ALL, [])
    np.testing.assert_array_equal(d, a @ a[:N].T)
    assert found == []


def test_another_k__is_not_said_of_a_matrix_times_itself_and_another():
    """A (A + B)', in two ways: all of it, and each tile of A with one of the two."""
    found, d, a, b = with_own(ALL, ALL)
    np.testing.assert_array_equal(d, a @ (a[:N] + b).T)
    assert found == []
    found, d, a, b = with_own(range(0, 64, 16), range(64, 128, 16))
    np.testing.assert_array_equal(d, a[:, :64] @ a[:N, :64].T + a[:, 64:] @ b[:, 64:].T)
    assert found == []


def test_another_k__is_not_said_of_a_b_of_two_tensors():
    """High and low parts as tensors of their own, then half of a tile of A with each."""
    a, b, low = whole(M, K, seed=1), whole(N, K, seed=2), whole(N, K, seed=3)
    loads = boxes(0, 0, M) + boxes(1, AT_B, N) + boxes(2, BEHIND, N)
    maps = [k_major(a, M), k_major(b, N), k_major(low, N)]
    a, b, low = (array.astype(np.float32) for array in (a, b, low))

    def multiplied(high_of, low_of):
        mmas = [product(k, adds=k > 0) for k in high_of]
        mmas += [Product(at(0, k, M), at(BEHIND, k, N)) for k in low_of]
        done, d = run(maps, loads, mmas, smem=BEHIND + 8192)
        return said(done), d

    found, d = multiplied(ALL, ALL)
    np.testing.assert_array_equal(d, a @ (b + low).T)
    assert found == []
    found, d = multiplied((0, 16), (32, 48))
    np.testing.assert_array_equal(d, a[:, :32] @ b[:, :32].T + a[:, 32:64] @ low[:, 32:64].T)
    assert found == []
