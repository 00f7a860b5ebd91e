"""What a tcgen05.mma makes of loaded bytes: right operands give no warning, wrong ones their own."""

import re

import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.emulator import TensorMap
from cutecourse.emulator.checks.provenance import Provenance, ranges
from cutecourse.emulator.checks.tags import Tags
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.errors import (
    OperandLayoutMismatch,
    OperandOutsideTensor,
    OperandReadTwice,
    OperandTypeMismatch,
    SumTypeMismatch,
    UnreadLoad,
    UnreadSum,
)
from cutecourse.emulator.memory.tensor_map import BoundTensorMap
from cutecourse.kernels import umma_tile
from support.loaded_mma import MMA, Box, run
from support.loaded_mma import text as loaded_text
from support.tcgen05 import descriptor, idesc

M, N, K = 128, 64, 64
AT_B = 16384
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def whole(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def k_major(array, rows, span, *, swizzle=None, dtype=None):
    """A map whose boxes are `rows` rows of `span` bytes."""
    extents = array.shape[::-1]
    width = span // array.itemsize
    swizzle = swizzle or {bytes_: name for name, bytes_ in SPANS.items()}[span]
    strides = (array.strides[0],)
    return TensorMap.tiled(
        array, dims=extents, strides=strides, box=(width, rows), swizzle=swizzle, dtype=dtype
    )


def tile(number, rows, span, to, k=K, item=2, row=0, first=0):
    """The boxes of a K-major tile: columns of `span` bytes, one behind the other."""
    width = span // item
    size = rows * span
    return [Box(number, (first + at, row), to + size * i, size) for i, at in enumerate(range(0, k, width))]


def place(start, kk, rows, span, item=2, swizzle=None):
    """The descriptor of 32 bytes of K, the kk-th, of such a tile."""
    swizzle = swizzle or {bytes_: name for name, bytes_ in SPANS.items()}[span]
    column, inside = divmod(32 * kk, span)
    if span == 16:
        return descriptor(start + 2 * kk * rows * 16, rows * 16, 128, swizzle)
    return descriptor(start + column * rows * span + inside, 16, 8 * span, swizzle)


def warnings(done):
    return [(note.hazard.name, note.text.split()[1].split("::")[0]) for note in done.notes
            if note.severity == "warning"]  # fmt: skip


def product(a, b, swizzle, *, change=lambda kk, mma: mma, boxes=None, maps=None, seed=0, **more):
    """Load both K-major tiles with a swizzle, multiply, and give warnings, D and the right D."""
    span = SPANS[swizzle]
    maps = maps or [k_major(a, M, span), k_major(b, N, span)]
    boxes = boxes or tile(0, M, span, 0) + tile(1, N, span, AT_B)
    mmas = [
        change(kk, MMA(place(0, kk, M, span), place(AT_B, kk, N, span), idesc(M, N), adds=kk > 0))
        for kk in range(K // 16)
    ]
    done, d = run(maps, boxes, mmas, columns=N, seed=seed, **more)
    right = a[:M, :K].astype(np.float32) @ b[:N, :K].astype(np.float32).T
    return done, d, right


@pytest.fixture
def ab():
    return whole(256, 128, seed=1), whole(128, 128, seed=2)


# --- right --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize("seed", range(3))
def test_k_major__has_no_warnings(ab, swizzle, seed):
    done, d, right = product(*ab, swizzle, seed=seed)
    np.testing.assert_array_equal(d, right)
    assert warnings(done) == []


def mn_major(array, columns):
    """A (K, M) array with boxes of 64 elements of M and all of K."""
    return TensorMap.tiled(
        array, dims=array.shape[::-1], strides=(array.strides[0],), box=(64, columns), swizzle="128B"
    )


def test_mn_major__has_no_warnings():
    """Boxes of 64 elements of M by K rows: one behind the other along M (LBO), 8 rows of K in 1024 bytes."""
    a, b = whole(K, 256, seed=1), whole(K, 128, seed=2)
    boxes = [Box(0, (64 * i, 0), 8192 * i, 8192) for i in range(M // 64)]
    boxes += [Box(1, (0, 0), AT_B, 8192)]
    mmas = [
        MMA(
            descriptor(2048 * kk, 8192, 1024, "128B"),
            descriptor(AT_B + 2048 * kk, 8192, 1024, "128B"),
            idesc(M, N, a_major="MN", b_major="MN"),
            adds=kk > 0,
        )
        for kk in range(K // 16)
    ]
    done, d = run([mn_major(a, K), mn_major(b, K)], boxes, mmas, columns=N)
    np.testing.assert_array_equal(d, a[:, :M].astype(np.float32).T @ b[:, :N].astype(np.float32))
    assert warnings(done) == []


def test_tf32__has_no_warnings():
    a, b = whole(M, K, dtype=np.float32, seed=1), whole(N, K, dtype=np.float32, seed=2)
    maps = [k_major(a, M, 128, dtype="tf32"), k_major(b, N, 128, dtype="tf32")]
    boxes = tile(0, M, 128, 0, k=32, item=4) + tile(1, N, 128, AT_B, k=32, item=4)
    mmas = [
        MMA(place(0, kk, M, 128), place(AT_B, kk, N, 128), idesc(M, N, ab="tf32"), kk > 0, kind="tf32")
        for kk in range(4)
    ]
    done, d = run(maps, boxes, mmas, columns=N)
    np.testing.assert_array_equal(d, a[:, :32] @ b[:, :32].T)
    assert warnings(done) == []


def test_a_tile_that_crosses_the_tensors_edges__has_no_warnings():
    a, b = whole(100, 40, seed=1), whole(50, 40, seed=2)
    done, d, _ = product(a, b, "128B")
    right = np.zeros((M, N), np.float32)
    right[:100, :50] = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(d, right)
    assert warnings(done) == []


def test_a_box_outside_of_the_tensor__need_not_be_read(ab):
    a, b = ab
    boxes = tile(0, M, 128, 0) + tile(1, N, 128, AT_B) + tile(1, N, 128, AT_B + 8192, first=128)
    done, _, _ = product(a, b, "128B", boxes=boxes)
    assert warnings(done) == []


def test_three_dimensions__of_one_tensor_in_core_matrices_have_no_warnings(ab):
    """No swizzle: (8 elements, rows, K / 8) of a row-major matrix come as columns of core matrices."""
    a, b = ab
    maps = [
        TensorMap.tiled(
            x, dims=(8, x.shape[0], x.shape[1] // 8), strides=(x.strides[0], 16), box=(8, rows, K // 8)
        )
        for x, rows in ((a, M), (b, N))
    ]
    boxes = [Box(0, (0, 0, 0), 0, 2 * M * K), Box(1, (0, 0, 0), AT_B, 2 * N * K)]
    done, d, right = product(a, b, "none", maps=maps, boxes=boxes)
    np.testing.assert_array_equal(d, right)
    assert warnings(done) == []


def test_rows_from_several_boxes__may_come_in_any_order(ab):
    """Blocks of 8 rows, gathered: the tensor's rows are any, the columns those of the descriptor."""
    a, b = ab
    order = np.random.default_rng(3).permutation(256 // 8)[: M // 8]
    boxes = [Box(0, (0, 8 * int(block)), 1024 * i, 1024) for i, block in enumerate(order)]
    boxes += tile(1, N, 128, AT_B)
    done, d, _ = product(a, b, "128B", maps=[k_major(a, 8, 128), k_major(b, N, 128)], boxes=boxes)
    rows = (8 * order[:, None] + np.arange(8)).reshape(-1)
    np.testing.assert_array_equal(d, a[rows, :K].astype(np.float32) @ b[:N, :K].astype(np.float32).T)
    assert warnings(done) == []


def test_tiles_in_the_order_of_shared_memory__have_coordinates_that_say_nothing(ab):
    """A tensor of whole tiles, swizzled before: the map has no swizzle, the descriptor has one."""
    a, b = ab
    tiles = []
    for x, rows in ((a, M), (b, N)):
        chunks = np.ascontiguousarray(x[:rows, :K]).view(np.complex128)
        row, chunk = np.indices(chunks.shape)
        packed = np.empty_like(chunks)
        packed[row, chunk ^ row % 8] = chunks
        tiles.append(packed.view(np.float16))
    maps = [k_major(x, len(x), 128, swizzle="none") for x in tiles]
    boxes = tile(0, M, 128, 0) + tile(1, N, 128, AT_B)
    done, d, right = product(a, b, "128B", maps=maps, boxes=boxes)
    np.testing.assert_array_equal(d, right)
    assert warnings(done) == []


# --- another layout -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loaded", "read"), [("64B", "128B"), ("32B", "128B"), ("none", "128B"), ("none", "64B")]
)
def test_another_layout__a_swizzle_that_is_not_the_maps(ab, loaded, read):
    """Boxes of the descriptor's rows, put down with another swizzle, or with none."""
    a, b = ab
    span = SPANS[read]
    inner = min(span, SPANS[loaded]) if loaded != "none" else span
    maps = [k_major(a, M, inner, swizzle=loaded), k_major(b, N, span)]
    boxes = tile(0, M, inner, 0) + tile(1, N, span, AT_B)
    done, d, right = product(a, b, read, maps=maps, boxes=boxes)
    assert (d != right).any()
    assert ("another layout", "tcgen05.mma.cta_group") in warnings(done)
    note = next(note for note in done.notes if note.hazard.name == "another layout")
    assert "A is a shuffled tile of map0" in note.problem
    assert f"swizzle {read}" in note.problem
    assert f"The tensor map has swizzle {loaded}" in note.problem


def test_another_layout__of_a_descriptor_with_a_narrower_swizzle(ab):
    """Rows of 128 bytes read as rows of 64: of every 8 rows only 4 are read, in halves."""

    def change(kk, mma):
        return mma if kk != 1 else MMA(mma.a, place(AT_B, 1, N, 128, swizzle="64B"), mma.idesc)

    done, d, right = product(*ab, "128B", change=change)
    assert (d != right).any()
    assert warnings(done) == [
        ("another layout", "cp.async.bulk.tensor.2d.shared"),
        ("another layout", "tcgen05.mma.cta_group"),
    ]
    assert "B[1, 0] is" in done.notes[-1].problem


def test_another_layout__ends_the_launch_where_it_is_an_error(ab):
    a, b = ab
    maps = [k_major(a, M, 128, swizzle="none"), k_major(b, N, 128)]
    with pytest.raises(OperandLayoutMismatch, match="A is a shuffled tile of map0"):
        product(a, b, "128B", maps=maps, hazards={"another layout": "error"})
    done, _, _ = product(a, b, "128B", maps=maps, hazards={"another layout": "off"})
    assert warnings(done) == []


# --- operand read twice -------------------------------------------------------------------------------------


def with_stride(bits, stride):
    return bits & ~(0x3FFF << 32) | stride >> 4 << 32


def test_operand_read_twice__with_a_stride_of_0(ab):
    def change(kk, mma):
        return MMA(mma.a, with_stride(mma.b, 0), mma.idesc, mma.adds)

    done, d, right = product(*ab, "128B", change=change)
    assert (d != right).any()
    found = warnings(done)
    assert found.count(("operand read twice", "tcgen05.mma.cta_group")) == K // 16
    problem = next(n.problem for n in done.notes if n.hazard.name == "operand read twice")
    assert "B has the same 16 bytes at B[0, 0] and at B[8, 0]" in problem
    assert "stride dimension 0 bytes" in problem
    # What nobody has read are the rows behind the first eight.
    (unread,) = [n.problem for n in done.notes if n.hazard.name == "loaded and never read"]
    assert f"{(N - 8) * 128} of the {N * 128} bytes" in unread
    assert "8..63 along dimension 1 of the box at (0, 0) (map1" in unread
    with pytest.raises(OperandReadTwice):
        product(*ab, "128B", change=change, hazards={"operand read twice": "error"})


def test_another_layout__of_a_k_major_tile_read_along_m(ab):
    def change(kk, mma):
        return MMA(mma.a, mma.b, idesc(M, N, a_major="MN"), mma.adds)

    done, _, _ = product(*ab, "128B", change=change)
    assert ("another layout", "tcgen05.mma.cta_group") in warnings(done)


# --- another type -------------------------------------------------------------------------------------------

B_AS_BF16 = 1 << 10


def test_another_type__of_halves_read_as_bf16(ab):
    def change(kk, mma):
        return MMA(mma.a, mma.b, mma.idesc | B_AS_BF16, mma.adds)

    done, d, right = product(*ab, "128B", change=change)
    assert (d != right).any()
    assert warnings(done) == [("another type", "tcgen05.mma.cta_group")]
    note = next(n for n in done.notes if n.hazard.name == "another type")
    assert note.problem.startswith("B is read as .bf16, but comes from map1")
    assert "whose elements are .f16" in note.problem
    with pytest.raises(OperandTypeMismatch, match=r"B is read as \.bf16"):
        product(*ab, "128B", change=change, hazards={"another type": "error"})


def test_another_type__says_nothing_of_maps_of_plain_bits(ab):
    """A map of 16-bit integers moves bytes; what they are is for the MMA to say."""
    a, b = ab
    maps = [k_major(a, M, 128, dtype="u16"), k_major(b, N, 128, dtype="u16")]
    done, d, right = product(a, b, "128B", maps=maps)
    assert (d == right).all()
    assert warnings(done) == []


# --- fill multiplied ----------------------------------------------------------------------------------------


def test_fill_multiplied__a_tile_behind_the_last_row(ab):
    end = len(ab[0])
    boxes = tile(0, M, 128, 0, row=end) + tile(1, N, 128, AT_B)
    done, d, _ = product(*ab, "128B", boxes=boxes)
    assert (d == 0).all()
    note, *others = [n for n in done.notes if n.hazard.name == "fill multiplied"]
    assert len(others) == K // 16 - 1
    assert note.severity == "note"
    assert note.problem.startswith(f"A lies outside its tensor: it begins at (0, {end}) of map0")
    with pytest.raises(OperandOutsideTensor, match=f"has {end} elements along dimension 1"):
        product(*ab, "128B", boxes=boxes, hazards={"fill multiplied": "error"})


def test_fill_multiplied__says_nothing_of_a_tile_that_is_partly_outside(ab):
    a, b = ab
    done, _, _ = product(a, b, "128B", boxes=tile(0, M, 128, 0, row=len(a) - 8) + tile(1, N, 128, AT_B))
    assert "fill multiplied" not in [n.hazard.name for n in done.notes]


def test_fill_multiplied__says_nothing_of_the_last_k_of_a_box(ab):
    a, b = ab
    last = a.shape[1] - 16  # three of the four MMAs multiply zeros
    boxes = tile(0, M, 128, 0, first=last) + tile(1, N, 128, AT_B, first=last)
    done, d, _ = product(a, b, "128B", boxes=boxes)
    assert (d == a[:M, last:].astype(np.float32) @ b[:N, last:].astype(np.float32).T).all()
    assert "fill multiplied" not in [n.hazard.name for n in done.notes]


# --- loaded and never read ----------------------------------------------------------------------------------


def test_loaded_and_never_read__half_of_n(ab):
    def change(kk, mma):
        return MMA(mma.a, mma.b, idesc(M, N if kk == 0 else N // 2), mma.adds)

    done, d, right = product(*ab, "128B", change=change)
    assert (d != right).any()
    assert warnings(done) == [("loaded and never read", "cp.async.bulk.tensor.2d.shared")]
    (note,) = [n for n in done.notes if n.severity == "warning"]
    assert f"{N // 2 * 96} of the {N * 128} bytes" in note.problem
    assert "16..63 along dimension 0, 32..63 along dimension 1 of the box at (0, 0) (map1" in note.problem
    with pytest.raises(UnreadLoad, match="before anything had read them"):
        product(*ab, "128B", change=change, hazards={"loaded and never read": "error"})


def test_another_layout__of_every_other_group_of_rows(ab):
    def change(kk, mma):
        return MMA(mma.a, with_stride(mma.b, 2048), mma.idesc, mma.adds)

    a, b = ab
    boxes = tile(0, M, 128, 0) + tile(1, N, 128, AT_B) + tile(1, N, 128, AT_B + 8192, row=64)
    done, _, _ = product(a, b, "128B", change=change, boxes=boxes)
    first, second = [n.problem for n in done.notes if n.text.startswith("@%first cp.")]
    assert {n.hazard.name for n in done.notes if n.severity == "warning"} == {"another layout"}
    assert "8..15, 24..31, 40..47, 56..63 along dimension 1 of the box at (0, 0)" in first
    assert "8..15, 24..31, 40..47, 56..63 along dimension 1 of the box at (0, 64)" in second


def test_loaded_and_never_read__what_another_copy_overwrites(ab):
    """B's tile comes twice to the same place; the first is gone before anybody has looked."""
    a, b = ab
    again = (
        "bar.sync 0;\n"
        f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {N * 128};\n"
        "mov.b64 %m, map1;\ncvta.param.u64 %m, %m;\n"
        f"add.u32 %x, %box, {AT_B};\n"
        "@%first cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
        " [%x], [%m, {0, 64}], [bar];\n"
        "TWICE: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 1;\n@!%q bra TWICE;\n"
    )
    done, _, _ = product(a, b, "128B", before=again)
    (note,) = [n for n in done.notes if n.hazard.name == "loaded and never read"]
    assert f"{N * 128} of the {N * 128} bytes" in note.problem
    assert "chunks along all dimensions of the box at (0, 0) (map1" in note.problem


def test_loaded_and_never_read__says_nothing_of_a_kernel_that_reads_nothing(ab):
    a, _ = ab
    done, _ = run([k_major(a, M, 128)], tile(0, M, 128, 0), [], columns=8,
                  after="mov.b32 %r0, 0;\nadd.u32 %d, %tmem, %lane;\n"
                  "tcgen05.st.sync.aligned.32x32b.x8.b32 [%d], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};\n"
                  "tcgen05.wait::st.sync.aligned;\n")  # fmt: skip
    assert warnings(done) == []


def arrays():
    return {
        "a": whole(128, 256, seed=1) + np.float16(9),
        "b": whole(128, 256, seed=2) + np.float16(9),
        "c": np.zeros((128, 128), np.float32),
    }


@pytest.mark.compilers
def test_another_layout__of_tiles_that_threads_store():
    """Tiles that come through registers: a descriptor that leaves part of one out is seen as well."""
    spec = umma_tile.LAUNCH
    made = runtime.compile(spec)
    given = arrays()

    def launched(ptx):
        args = [given[name] for name in "abc"]
        return emulator.launch(ptx, grid=spec.grid, block=spec.block, args=args,
                               dynamic_smem=spec.dynamic_smem, entry=made.entry)  # fmt: skip

    assert warnings(launched(str(made.ptx))) == []
    mma = re.compile(r"(tcgen05\.mma[^;]*\],\s*)(%\w+)([^;]*;)")
    wide = r"{ .reg .b64 wrong; and.b64 wrong, \2, 70364449210368; add.u64 wrong, wrong, \2; \1wrong\3 }"
    done = launched(mma.sub(wide, str(made.ptx), count=1))
    found = [note for note in done.notes if note.hazard.name == "another layout"]
    assert found
    assert all(note.text.startswith("st.shared") for note in found)
    assert "are in a tile that an MMA reads, but no MMA has read them" in found[0].problem


# --- sums ---------------------------------------------------------------------------------------------------


def sums(done):
    """(hazard, instruction, what stands at the other line) of each warning about sums."""
    return [
        (n.hazard.name, n.text.split(".cta")[0].split(".sync")[0].split()[-1], n.other_line is not None)
        for n in done.notes
        if n.hazard.name.startswith("sum ")
    ]


def test_sum_never_read__that_an_mma_throws_away(ab):
    def change(kk, mma):
        return MMA(mma.a, mma.b, mma.idesc, adds=kk not in {0, 2})

    done, d, right = product(*ab, "128B", change=change)
    assert (d != right).any()
    assert warnings(done) == [("sum never read", "tcgen05.mma.cta_group")]
    (note,) = [n for n in done.notes if n.severity == "warning"]
    assert "D starts a new sum in lanes 0..127, columns 0..63" in note.problem
    assert f"the tcgen05.mma of line {note.other_line} put there were never read" in note.problem
    with pytest.raises(UnreadSum, match="D starts a new sum"):
        product(*ab, "128B", change=change, hazards={"sum never read": "error"})


READ = (
    "add.u32 %d, %tmem, %lane;\n"
    "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d];\n"
    "tcgen05.wait::ld.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    "tcgen05.fence::after_thread_sync;\n"
)


def again(mma):
    """One more tcgen05.mma, behind what was read, and the wait for it."""
    return (
        f"mov.b64 %a, {mma.a};\nmov.b64 %b, {mma.b};\nmov.b32 %x, {mma.idesc};\n"
        f"setp.ne.u32 %q, {int(mma.adds)}, 0;\n"
        "@%first tcgen05.mma.cta_group::1.kind::f16 [%tmem], %a, %b, %x, %q;\n"
        "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
        "ANEW: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar+8], 1;\n@!%q bra ANEW;\n"
        "tcgen05.fence::after_thread_sync;\n"
    )


@pytest.mark.parametrize(("columns", "wrong"), [(8, False), (16, True)])
def test_sum_never_read__that_has_been_read_may_go(ab, columns, wrong):
    """An accumulator is read and begun anew; one of 16 columns was read in half."""
    a, b = ab
    maps, boxes = [k_major(a, M, 128), k_major(b, N, 128)], tile(0, M, 128, 0) + tile(1, N, 128, AT_B)
    mma = MMA(place(0, 0, M, 128), place(AT_B, 0, N, 128), idesc(M, columns), adds=False)
    done, _ = run(maps, boxes, [mma], columns=columns, after=READ + again(mma))
    assert sums(done) == [("sum never read", "tcgen05.mma", True)] * wrong


def test_sum_never_read__by_a_load_of_fewer_columns(ab):
    a, b = ab
    maps, boxes = [k_major(a, M, 128), k_major(b, N, 128)], tile(0, M, 128, 0) + tile(1, N, 128, AT_B)
    mmas = [
        MMA(place(0, kk, M, 128), place(AT_B, kk, N, 128), idesc(M, N), adds=kk > 0) for kk in range(K // 16)
    ]
    done, _ = run(maps, boxes, mmas, columns=N - 8)
    assert sums(done) == [("sum never read", "tcgen05.mma", True)]
    (note,) = [n for n in done.notes if n.severity == "warning"]
    assert re.match(r"\d+ sums of this tcgen05.mma in lanes 0..127, columns 56..63 were freed", note.problem)
    assert "tcgen05.dealloc" in done_line(note, maps, boxes, mmas)


def done_line(note, maps, boxes, mmas):
    ptx = loaded_text(len(maps), [m.rank for m in maps], boxes, mmas, columns=N - 8, smem=40960)
    return ptx.split("\n")[note.other_line - 1]


def test_sum_never_read__that_is_zero_is_no_loss(ab):
    """B's rows behind the tensor's end are zeros, and so are their sums."""
    a, b = ab
    maps = [k_major(a, M, 128), k_major(b[: N - 8], N, 128)]
    boxes = tile(0, M, 128, 0) + tile(1, N, 128, AT_B)
    mmas = [
        MMA(place(0, kk, M, 128), place(AT_B, kk, N, 128), idesc(M, N), adds=kk > 0) for kk in range(K // 16)
    ]
    done, _ = run(maps, boxes, mmas, columns=N - 8)
    assert warnings(done) == []


def test_sum_never_read__as_a_of_the_next_product_it_is():
    """(A B) in f32 is A of a second product in tf32."""
    a, b = whole(M, 32, dtype=np.float32, seed=1), whole(8, 32, dtype=np.float32, seed=2)
    maps = [k_major(a, M, 128, dtype="tf32"), k_major(b, 8, 128, dtype="tf32")]
    boxes = tile(0, M, 128, 0, k=32, item=4) + tile(1, 8, 128, AT_B, k=32, item=4)
    shape = idesc(M, 8, ab="tf32")
    mmas = [
        MMA(place(0, kk, M, 128), place(AT_B, kk, 8, 128), shape, kk > 0, column=32, kind="tf32")
        for kk in range(4)
    ]
    second = (
        "bar.sync 0;\n"
        f"mov.b64 %b, {mmas[0].b};\nmov.b32 %x, {shape};\nadd.u32 %d, %tmem, 32;\nsetp.ne.u32 %q, 0, 0;\n"
        "@%first tcgen05.mma.cta_group::1.kind::tf32 [%tmem], [%d], %b, %x, %q;\n"
        "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
        "ANEW: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar+8], 1;\n@!%q bra ANEW;\n"
        "tcgen05.fence::after_thread_sync;\n"
    )
    done, d = run(maps, boxes, mmas, columns=8, after=second)
    np.testing.assert_array_equal(d, (a @ b.T) @ b[:, :8].T)
    assert warnings(done) == []
    done, _ = run(maps, boxes, mmas, columns=8, after=second.replace("[%d], %b", "%a, %b"))
    assert sums(done) == [("sum never read", "tcgen05.mma", True)]


@pytest.mark.parametrize("packed", [False, True])
def test_sum_read_in_another_type__of_16_bits(ab, packed):
    a, b = ab
    maps, boxes = [k_major(a, M, 128), k_major(b, N, 128)], tile(0, M, 128, 0) + tile(1, N, 128, AT_B)
    mmas = [
        MMA(place(0, kk, M, 128), place(AT_B, kk, N, 128), idesc(M, N, d="f16"), adds=kk > 0)
        for kk in range(K // 16)
    ]
    done, d = run(maps, boxes, mmas, columns=N >> packed, packed=packed)
    if packed:
        right = a[:M, :K].astype(np.float32) @ b[:N, :K].astype(np.float32).T
        np.testing.assert_array_equal(d.view(np.float16), right.astype(np.float16))
    assert {row[:2] for row in sums(done)} == (
        set() if packed else {("sum read in another type", "tcgen05.ld")}
    )
    if not packed:
        assert ".pack::16b" in done.notes[-1].problem
        with pytest.raises(SumTypeMismatch, match="words of 32 bits"):
            run(maps, boxes, mmas, columns=N, hazards={"sum read in another type": "error"})


def test_sum_read_in_another_type__by_an_mma_that_adds_to_it(ab):
    def change(kk, mma):
        return MMA(mma.a, mma.b, idesc(M, N, d="f16" if kk == 1 else "f32"), mma.adds)

    done, _, _ = product(*ab, "128B", change=change)
    assert sums(done) == [("sum read in another type", "tcgen05.mma", False)] * 2
    problems = [n.problem for n in done.notes if n.severity == "warning"]
    assert "columns 0..63 as f16, but the sums that it adds to are f32" in problems[0]
    assert "columns 0..63 as f32, but the sums that it adds to are f16" in problems[1]


# --- tags ---------------------------------------------------------------------------------------------------


def test_tags__give_back_the_coordinates_that_they_were_made_of():
    array = np.zeros((6, 20, 64), np.float16)
    tensor_map = TensorMap.tiled(
        array, dims=(64, 20, 6), strides=(128, 2560), box=(32, 4, 3), element_strides=(1, 2, 1), swizzle="64B"
    )
    tags = Tags.of(BoundTensorMap(tensor_map, Allocation("a", "global", 0, array), 0, 0), 5)
    assert tags is not None
    first = tags.first((8, 17, -1))
    assert first is not None
    held = tags.relative + first
    assert held.shape == (3, 2, 4)
    for z, y, x in np.ndindex(held.shape):
        assert tags.coords(int(held[z, y, x])) == (8 + 8 * x, 17 + 2 * y, z - 1)
    assert tags.first((8, 17 + 80, 0)) is None


def test_ranges__are_cut_off_after_four():
    assert ranges([0, 2, 4, 6, 8]) == "0, 2, 4, 6, ..."
    assert ranges([]) == ""


def test_provenance__is_only_made_where_a_kernel_asks_for_it(monkeypatch):
    def refuse(*given):
        raise AssertionError

    monkeypatch.setattr(Provenance, "__init__", refuse)
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.shared .b32 x;\n"
        ".reg .b32 %r;\nmov.b32 %r, 1;\nst.shared.b32 [x], %r;\nld.shared.b32 %r, [x];\nret;\n}\n"
    )
    emulator.launch(text, grid=1, block=32)
