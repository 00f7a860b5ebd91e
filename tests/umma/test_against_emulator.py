"""CuTe's layouts in `cutecourse.umma`, the PTX ISA's in the emulator: they share no table, and meet here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutecourse.emulator.instructions.tcgen05.fragments import fragment
from cutecourse.layout import get_nonswizzle_portion, get_swizzle_portion, make_identity_layout, size
from cutecourse.umma import (
    TMEM_LOADS,
    TMEM_STORES,
    TmemCopyOp,
    allocator1sm,
    allocator2sm,
    make_fragment_C,
    make_smem_layout_atom,
    make_tiled_mma,
    make_tmem_copy,
    partition_shape_A,
    partition_shape_B,
    partition_shape_C,
    tile_to_mma_shape,
)
from cutecourse.umma.tmem_atoms import DP_BITS
from support import tcgen05

OPS = [*TMEM_LOADS.values(), *TMEM_STORES.values()]


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"])
def test_tmem_ops__put_each_register_where_the_ptx_isa_does(shape: str) -> None:
    """Thread and register to lane and column: CUTLASS's traits against the document's figures."""
    ops = [op for op in OPS if op.shape == shape]
    assert len(ops) >= 24
    for op in ops:
        split = op.columns // 2 if shape == "16x32bx2" else 0
        expected = fragment(shape, op.repetitions, split, packed=op.packed)
        registers = op.atom.bit_layout_src if op.store else op.atom.bit_layout_dst
        step = 16 if op.packed else 32
        cells = 32 * op.registers // step
        assert expected.lane.shape == (32, cells)
        for thread in (0, 1, 2, 5, 10, 31):
            for cell in range(0, cells, max(1, cells // 8)):
                place = op.val_id(registers((thread, step * cell)))
                lane, column = place // DP_BITS, place % DP_BITS // 32
                assert (lane, column) == (expected.lane[thread, cell], expected.column[thread, cell]), op.name


# ---- one tile on the emulator, with nothing but this library's layouts and descriptors ----

DEPTH = 64
WAIT = (
    "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
    "tcgen05.fence::after_thread_sync;\n"
)
SECOND = 32768  # bytes: where B starts


def written(image: np.ndarray, start: int, values: np.ndarray, tile: Any, part: Any) -> None:
    """Put a matrix into shared memory, each element where the operand's layout says."""
    plain, swizzle = get_nonswizzle_portion(tile), get_swizzle_portion(tile)
    for index in range(int(size(plain))):
        row, column = part(index)
        image.view(np.uint16)[swizzle(start + 2 * plain(index)) // 2] = values[row, column]


def copy_in(n_bytes: int) -> str:
    """All threads copy this CTA's image into shared memory."""
    text = "shl.b32 %x, %me, 4;\nmul.wide.u32 %at, %me, 16;\nadd.u64 %at, %in, %at;\nmov.u32 %y, box;\n"
    text += "add.u32 %x, %x, %y;\n"
    for first in range(0, n_bytes, 2048):
        text += f"ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at+{first}];\n"
        text += f"st.shared.v4.b32 [%x+{first}], {{%r0, %r1, %r2, %r3}};\n"
    return text + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"


def issue(group: int, a: int, b: int, code: int, *, accumulated: bool) -> str:
    return (
        f"mov.b64 %a, {a};\nmov.b64 %b, {b};\nmov.b32 %x, {code};\nsetp.ne.u32 %q, {int(accumulated)}, 0;\n"
        f"@%p tcgen05.mma.cta_group::{group}.kind::f16 [%tmem], %a, %b, %x, %q;\n"
    )


def loads(op: TmemCopyOp, copy: Any) -> tuple[str, int]:
    """The loads of every thread, one for each repetition of the tiled copy, and how many values these are."""
    memory = copy.partition_S(0)
    values = int(size(memory.layout[0]))
    starts = [int(memory(values * index)) for index in range(memory.size // values)]
    total = op.registers * len(starts)
    text = f"mul.wide.u32 %at, %me, {4 * total};\nadd.u64 %at, %out, %at;\nadd.u32 %d, %tmem, %lane;\n"
    held = ", ".join(f"%r{i}" for i in range(op.registers))
    split = f", {op.columns // 2}" if op.shape == "16x32bx2" else ""
    for number, start in enumerate(starts):
        text += f"add.u32 %x, %d, {start};\n{op.ptx} {{{held}}}, [%x]{split};\n"
        text += "".join(
            f"st.global.b32 [%at+{4 * (op.registers * number + i)}], %r{i};\n" for i in range(op.registers)
        )
    return text + "tcgen05.wait::ld.sync.aligned;\n", total


@pytest.mark.parametrize(
    ("m", "majors", "atoms", "load"),
    [
        pytest.param(128, ("K", "K"), ("K_SW128", "K_SW128"), "32dp32b8x", marks=pytest.mark.long),
        (128, ("MN", "K"), ("MN_SW128", "K_SW64"), "16dp256b2x"),
        pytest.param(128, ("K", "MN"), ("K_SW32", "MN_SW64"), "16dp64b4x", marks=pytest.mark.long),
        (64, ("MN", "MN"), ("MN_SW64", "MN_SW32"), "16dp128b4x"),
        (64, ("K", "K"), ("K_INTER", "K_SW128"), "16dp32b4x"),
        pytest.param(64, ("K", "MN"), ("K_SW128", "MN_INTER"), "16dp64b8x", marks=pytest.mark.long),
    ],
)
def test_one_tile__multiplies_on_the_emulator(
    m: int, majors: tuple[str, str], atoms: tuple[str, str], load: str
) -> None:
    """Operands laid out, described, multiplied and loaded: every element arrives in its thread's register."""
    n = 64
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, (rows, DEPTH)).astype(np.float16) for rows in (m, n))
    mma = make_tiled_mma("SM100_MMA_F16BF16_SS", "f16", "f16", "f32", m, n, *majors)
    cta = mma.get_slice(0)
    sA = tile_to_mma_shape(make_smem_layout_atom(atoms[0], "f16"), partition_shape_A(mma, (m, DEPTH))).result
    sB = tile_to_mma_shape(make_smem_layout_atom(atoms[1], "f16"), partition_shape_B(mma, (n, DEPTH))).result
    image = np.zeros(SECOND + 8192, np.uint8)
    written(image, 0, a.view(np.uint16), sA, cta.partition_A(make_identity_layout((m, DEPTH))))
    written(image, SECOND, b.view(np.uint16), sB, cta.partition_B(make_identity_layout((n, DEPTH))))
    tCrA, tCrB = cta.make_fragment_A(sA, 0), cta.make_fragment_B(sB, SECOND)

    body = copy_in(len(image))
    body += "setp.eq.u32 %p, %me, 0;\n"
    for k in range(DEPTH // mma.shape_mnk[2]):
        body += issue(1, tCrA(0, 0, k), tCrB(0, 0, k), mma.idesc, accumulated=k > 0)
    body += "@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n" + WAIT
    accumulator = make_fragment_C(partition_shape_C(mma, (m, n)), "f32")
    op = TMEM_LOADS[f"SM100_TMEM_LOAD_{load}"]
    copy = make_tmem_copy(op.name, accumulator)
    text, total = loads(op, copy)
    out = np.zeros((128, total), np.uint32)
    columns = allocator1sm.columns_for(accumulator.columns)
    tcgen05.run(body + text, image, out, columns=columns, smem=len(image))
    seen = compared(copy, out, a.astype(np.float32) @ b.astype(np.float32).T, lambda coord: coord)
    assert len(seen) == m * n


def compared(copy: Any, out: np.ndarray, expected: np.ndarray, in_c: Any) -> set[tuple[int, int]]:
    """Each register of each thread has its element of C; gives the elements."""
    found = out.view(np.float32)
    seen = set()
    for thread in range(128):
        elements = copy.elements(thread)
        assert len(elements) == out.shape[1]
        for register, (coord, place) in enumerate(elements):
            row, column = in_c(coord[0])
            assert found[thread, register] == expected[row, column], (thread, register, coord, place)
            assert place.warp == thread // 32
            seen.add((row, column))
    return seen


@pytest.mark.parametrize(
    ("m", "majors", "atoms", "load"),
    [
        (256, ("K", "K"), ("K_SW128", "K_SW128"), "32dp32b16x"),
        pytest.param(128, ("K", "MN"), ("K_SW64", "MN_SW32"), "32dp32b16x", marks=pytest.mark.long),
        (128, ("MN", "K"), ("MN_SW64", "K_SW128"), "16dp256b1x"),
    ],
)
def test_one_tile_of_two_sms__multiplies_on_the_emulator(
    m: int, majors: tuple[str, str], atoms: tuple[str, str], load: str
) -> None:
    """Each CTA of the pair lays out its halves; the leader's descriptors serve both; each loads its part."""
    n = 64
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, (rows, DEPTH)).astype(np.float16) for rows in (m, n))
    mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", m, n, *majors)
    sA = tile_to_mma_shape(make_smem_layout_atom(atoms[0], "f16"), partition_shape_A(mma, (m, DEPTH))).result
    sB = tile_to_mma_shape(make_smem_layout_atom(atoms[1], "f16"), partition_shape_B(mma, (n, DEPTH))).result
    image = np.zeros((2, SECOND + 8192), np.uint8)
    for v in range(2):
        cta = mma.get_slice(v)
        written(image[v], 0, a.view(np.uint16), sA, cta.partition_A(make_identity_layout((m, DEPTH))))
        written(image[v], SECOND, b.view(np.uint16), sB, cta.partition_B(make_identity_layout((n, DEPTH))))
    leader = mma.get_slice(0)
    tCrA, tCrB = leader.make_fragment_A(sA, 0), leader.make_fragment_B(sB, SECOND)

    body = copy_in(image.shape[1])
    body += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    body += "setp.eq.and.u32 %p, %rank, 0, %first;\n"
    for k in range(DEPTH // mma.shape_mnk[2]):
        body += issue(2, tCrA(0, 0, k), tCrB(0, 0, k), mma.idesc, accumulated=k > 0)
    body += (
        "mov.b32 %x, 3;\n.reg .b16 %mask;\ncvt.u16.u32 %mask, %x;\n"
        "@%p tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
        "[bar], %mask;\n" + WAIT
    )
    accumulator = make_fragment_C(partition_shape_C(mma, (m, n)), "f32", 2)
    op = TMEM_LOADS[f"SM100_TMEM_LOAD_{load}"]
    copy = make_tmem_copy(op.name, accumulator)
    text, total = loads(op, copy)
    out = np.zeros((2, 128, total), np.uint32)
    columns = allocator2sm.columns_for(accumulator.columns)
    tcgen05.run(body + text, image, out, grid=2, cluster=2, group=2, columns=columns, smem=image.shape[1])
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    seen: set[tuple[int, int]] = set()
    for v in range(2):
        part = mma.get_slice(v).partition_C(make_identity_layout((m, n)))
        own = compared(copy, out[v], expected, lambda coord, part=part: tuple(part(coord, 0, 0)))
        assert not seen & own
        seen |= own
    assert len(seen) == m * n
