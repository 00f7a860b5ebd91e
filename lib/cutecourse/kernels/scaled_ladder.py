"""What the specifications of kernels with scale factors share: tensor maps, the text's numbers, the MMAs."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import numpy as np

from cutecourse.block_scales import (
    BLOCK_BYTES,
    FORMATS,
    BlockFormat,
    dequantise,
    packed,
    placed,
    scales_shape,
)
from cutecourse.descriptors import make_instr_desc_block_scaled
from cutecourse.dtypes import dtype, encode
from cutecourse.kernels.files import SpecError, kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.kernels.umma_ladder import with_sections
from cutecourse.tma import TensorMapEncoding

__all__ = [
    "K_BYTES",
    "K_MMAS",
    "blocks_of",
    "copies",
    "exact_operands",
    "filled",
    "form_of",
    "k_of_tile",
    "mmas",
    "operand",
    "rows_map",
    "scale_factors",
]

K_BYTES = 128
"""Bytes of a row of A or B in a k-tile: one row of the 128-byte swizzle."""
K_MMAS = 4
"""The MMAs of a k-tile; each takes 32 bytes of a row."""


def rows_map(
    name: str, element: str, extents: tuple[int, int], box: tuple[int, int], *, swizzle: bool = True
) -> TensorMapSpec:
    """A tensor map of a row-major matrix, for boxes (rows, columns).

    Errors: SpecError for rows that are not whole 16 bytes, and for a single row.
    """
    rows, columns = extents
    row_bytes = columns * dtype(element).bits // 8
    if rows < 2 or not row_bytes or row_bytes % 16:
        raise SpecError(
            f"{name}: TMA steps along rows of whole 16 bytes, and CuTe maps two rows or more; "
            f"{rows} rows of {row_bytes} bytes are not that."
        )
    encoding = TensorMapEncoding(
        dtype(element), (columns, rows), (row_bytes,), box[::-1], swizzle="128B" if swizzle else "none"
    )
    return TensorMapSpec.encoded(name, element, extents, (columns, 1), encoding)


def operand(name: str, rows: int, k: int, form: BlockFormat, box_rows: int) -> TensorMapSpec:
    """The tensor map of A or B: bytes, a k-tile of some rows at once. Errors: SpecError."""
    return rows_map(name, "u8", (rows, form.bytes_of(k)), (box_rows, K_BYTES))


def form_of(kernel: str, name: str) -> BlockFormat:
    """The format of this name. Errors: SpecError, which names the kernel and the formats."""
    if name not in FORMATS:
        raise SpecError(f"{kernel}: form is {' or '.join(map(repr, FORMATS))}, not {name!r}.")
    return FORMATS[name]


def k_of_tile(form: BlockFormat) -> int:
    """The elements of a row in a k-tile: 128 of e4m3, 256 of e2m1."""
    return K_BYTES * 8 // dtype(form.element).bits


def blocks_of(form: BlockFormat) -> int:
    """The blocks of scale factors beside 128 rows of a k-tile.

    >>> from cutecourse.block_scales import FORMATS
    >>> {name: blocks_of(form) for name, form in FORMATS.items()}
    {'mxf8': 1, 'mxf4': 2, 'nvf4': 4}
    """
    return k_of_tile(form) // (4 * form.vector)


def scale_factors(name: str, rows: int, k: int, form: BlockFormat) -> TensorMapSpec:
    """The tensor map of scale factors: the blocks of a k-tile, each one row of 256 elements of 16 bits.

    A box has 256 elements along a dimension at most, so the 512 bytes of a block are not taken as bytes.
    """
    high, wide, _ = scales_shape(rows, k, form.vector)
    halves = BLOCK_BYTES // 2
    encoding = TensorMapEncoding(
        dtype("u16"), (halves, wide, high), (BLOCK_BYTES, BLOCK_BYTES * wide), (halves, blocks_of(form), 1)
    )
    return TensorMapSpec.encoded(name, "u16", (high, wide, halves), (wide * halves, halves, 1), encoding)


def copies(form: BlockFormat, sms: int, guard: str = "@%elected ") -> str:
    """The copies of a k-tile's scale factors to tensor memory: A's blocks, then B's, 4 columns each."""
    blocks = blocks_of(form)
    lines = []
    for number in range(2 * blocks):
        to, at = ("%sf_a", "%sf_b")[number // blocks], number % blocks
        place = f"[{to} + {4 * at}]" if at else f"[{to}]"
        lines.append(f"    {guard}tcgen05.cp.cta_group::{sms}.32x128b.warpx4 {place}, %desc_sf;")
        lines.append(f"    add.u64             %desc_sf, %desc_sf, {BLOCK_BYTES // 16};")
    return "\n".join(lines[:-1])


def mmas(form: BlockFormat, sms: int, columns: int, guard: str = "@%elected ", sums: str = "%sums") -> str:
    """The MMAs of a k-tile, each with its columns of scale factors and its data IDs."""
    per_mma = 32 * 8 // dtype(form.element).bits // form.vector  # the factors of a row
    lines = []
    for number in range(K_MMAS):
        column, byte = 4 * (number * per_mma // 4), number * per_mma % 4
        described = make_instr_desc_block_scaled(
            form.element,
            form.element,
            "f32",
            form.scale,
            128 * sms,
            columns,
            kind=form.kind.partition(".")[0],
            a_sf_id=byte,
            b_sf_id=byte,
        )
        if number:
            lines.append(
                "    add.u64             %desc_a, %desc_a, 2;            // 32 bytes further along K"
            )
            lines.append("    add.u64             %desc_b, %desc_b, 2;")
        scales = ", ".join(f"[{name} + {column}]" if column else f"[{name}]" for name in ("%sf_a", "%sf_b"))
        lines.append(
            f"    mov.b32             %instruction, {described:#010x};     // factors from byte {byte}"
        )
        lines.append(f"    {guard}tcgen05.mma.cta_group::{sms}.kind::{form.kind}")
        lines.append(f"            [{sums}], %desc_a, %desc_b, %instruction, {scales}, %sum;")
        if not number:
            lines.append("    setp.eq.u32         %sum, 0, 0;")
    return "\n".join(lines)


def filled(kernel: str, given: Mapping[str, object], *sections: str) -> str:
    """A kernel's text with its numbers, and with these of its sections (`umma_ladder.with_sections`)."""
    text = with_sections(kernel_text(kernel, "kernel.ptx"), *sections)
    return string.Template(text).substitute(given)


def exact_operands(spec: LaunchSpec, form: str, seed: int) -> tuple[dict[str, Any], Any]:
    """Arguments for a launch, of which every sum is exact in f32, and A times B transposed in float64.

    Elements are integers from -4 to 4, and scale factors are powers of two from 1/2 to 4. Those behind the
    last row are NaN: they scale rows that nobody asked for. Results hold NaN before the launch, and alpha
    is 1/2.
    """
    random, known = np.random.default_rng(seed), FORMATS[form]
    nan = int(encode(float("nan"), known.scale))
    tensors = {name: param for name, param in spec.arguments.items() if isinstance(param, Tensor)}
    given: dict[str, Any] = {}
    values = []
    for name in ("a", "b"):
        rows, row_bytes = (int(extent or 0) for extent in tensors[name].extents)
        k = row_bytes * 8 // dtype(known.element).bits
        codes = encode(random.integers(-4, 5, (rows, k)), known.element)
        scales = encode(2.0 ** random.integers(-1, 3, (rows, -(-k // known.vector))), known.scale)
        held = placed(scales, rows_pad=nan)
        given[name] = packed(codes, known)
        given[f"sf{name}"] = held.view(f"u{tensors[f'sf{name}'].dtype.bits // 8}")
        values.append(dequantise(codes, scales, known))
    empty = {"f32": np.float32(np.nan), "bf16": np.uint16(0x7FC0), "u8": np.uint8(0xFF)}
    given |= {
        name: np.full([int(one or 0) for one in param.extents], empty[param.dtype.name])
        for name, param in tensors.items()
        if name not in given
    }
    given |= {name: 0.5 for name in spec.arguments if name == "alpha"}
    return given, values[0] @ values[1].T
