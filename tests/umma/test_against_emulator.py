"""CuTe's layouts in `cutecourse.umma`, the PTX ISA's in the emulator: they share no table, and meet here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutecourse.emulator.tcgen05_fragments import fragment
from cutecourse.layout import get_nonswizzle_portion, get_swizzle_portion, make_identity_layout, size
from cutecourse.umma import (
    TMEM_LOADS,
    TMEM_STORES,
    TmemCopyOp,
    allocator1sm,
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
SECOND = 32768  # bytes: where B starts


def written(image: np.ndarray, start: int, values: np.ndarray, tile: Any, part: Any) -> None:
    """Put a matrix into shared memory, each element where the operand's layout says."""
    plain, swizzle = get_nonswizzle_portion(tile), get_swizzle_portion(tile)
    for index in range(int(size(plain))):
        row, column = part(index)
        image.view(np.uint16)[swizzle(start + 2 * plain(index)) // 2] = values[row, column]


def issue(a: int, b: int, code: int, *, accumulated: bool) -> str:
    return (
        f"mov.b64 %a, {a};\nmov.b64 %b, {b};\nmov.b32 %x, {code};\nsetp.ne.u32 %q, {int(accumulated)}, 0;\n"
        "@%first tcgen05.mma.cta_group::1.kind::f16 [%tmem], %a, %b, %x, %q;\n"
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
        (128, ("K", "K"), ("K_SW128", "K_SW128"), "32dp32b8x"),
        (128, ("MN", "K"), ("MN_SW128", "K_SW64"), "16dp256b2x"),
        (128, ("K", "MN"), ("K_SW32", "MN_SW64"), "16dp64b4x"),
        (64, ("MN", "MN"), ("MN_SW64", "MN_SW32"), "16dp128b4x"),
        (64, ("K", "K"), ("K_INTER", "K_SW128"), "16dp32b4x"),
        (64, ("K", "MN"), ("K_SW128", "MN_INTER"), "16dp64b8x"),
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

    body = "shl.b32 %x, %me, 4;\nmul.wide.u32 %at, %me, 16;\nadd.u64 %at, %in, %at;\nmov.u32 %y, box;\n"
    body += "add.u32 %x, %x, %y;\n"
    for first in range(0, len(image), 2048):
        body += f"ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at+{first}];\n"
        body += f"st.shared.v4.b32 [%x+{first}], {{%r0, %r1, %r2, %r3}};\n"
    body += "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
    for k in range(DEPTH // mma.shape_mnk[2]):
        body += issue(tCrA(0, 0, k), tCrB(0, 0, k), mma.idesc, accumulated=k > 0)
    body += (
        "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
        "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
        "tcgen05.fence::after_thread_sync;\n"
    )
    accumulator = make_fragment_C(partition_shape_C(mma, (m, n)), "f32")
    op = TMEM_LOADS[f"SM100_TMEM_LOAD_{load}"]
    copy = make_tmem_copy(op.name, accumulator)
    text, total = loads(op, copy)
    out = np.zeros((128, total), np.uint32)
    columns = allocator1sm.columns_for(accumulator.columns)
    tcgen05.run(body + text, image, out, columns=columns, smem=len(image))

    expected = a.astype(np.float32) @ b.astype(np.float32).T
    found = out.view(np.float32)
    seen = set()
    for thread in range(128):
        elements = copy.elements(thread)
        assert len(elements) == total
        for register, (coord, place) in enumerate(elements):
            row, column = coord[0]
            assert found[thread, register] == expected[row, column], (thread, register, coord, place)
            assert place.warp == thread // 32
            seen.add((row, column))
    assert len(seen) == m * n
