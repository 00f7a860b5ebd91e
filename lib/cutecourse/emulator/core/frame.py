"""Variables as bytes: their sizes, alignments and initial values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from cutecourse.emulator.errors import LaunchError
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Expression, FloatLiteral, SymbolOffset, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "MAX_VARIABLE_BYTES",
    "align_up",
    "alignment_of",
    "float_bits",
    "initial_bytes",
    "parameter_offsets",
    "size_of",
]

MAX_VARIABLE_BYTES = 1 << 32
"""A larger variable is refused."""


def align_up(offset: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-offset // alignment) * alignment


def _item_bytes(variable: Variable) -> int:
    """The size of one element in bytes; for a vector, of one component."""
    return max(1, (type_bits(variable.type) or 8) // 8)


def alignment_of(variable: Variable) -> int:
    """A variable's declared alignment, or its element's size."""
    return variable.alignment or _item_bytes(variable) * variable.vector


def size_of(variable: Variable) -> int:
    """Bytes of a variable; an array without a size has the size of its initializer, or 0."""
    size = _item_bytes(variable) * variable.vector
    for position, extent in enumerate(variable.dims):
        if extent is None:
            if position:
                raise LaunchError(f"{variable.name}: only the first extent may be open", line=variable.line)
            extent = -(-len(variable.initializer or ()) // max(1, variable.vector))
        size *= extent
    if size > MAX_VARIABLE_BYTES:
        raise LaunchError(
            f"variable {variable.name} has {size} bytes, more than {MAX_VARIABLE_BYTES}", line=variable.line
        )
    return size


def parameter_offsets(parameters: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """The offset of each kernel parameter in parameter space, by name, and their total size in bytes."""
    offsets: dict[str, int] = {}
    end = 0
    for parameter in parameters:
        offsets[parameter.name] = start = align_up(end, alignment_of(parameter))
        end = start + size_of(parameter)
    return offsets, end


def initial_bytes(variable: Variable, size: int, address: Callable[[SymbolOffset], int]) -> bytes:
    """The bytes of a variable's initializer; the rest of the variable's `size` bytes is zero."""
    values = variable.initializer or ()
    width = _item_bytes(variable)
    if len(values) * width > size:
        raise LaunchError(
            f"variable {variable.name} has {size} bytes, but its initializer has {len(values) * width}",
            line=variable.line,
        )
    return b"".join(_encode(value, variable.type, width, address) for value in values)


def float_bits(literal: FloatLiteral, width: int) -> int | None:
    """The bit pattern of a number as a float of 32 or 64 bits; None for another width."""
    if literal.bits == width:
        return literal.value
    if (literal.bits, width) == (64, 32):
        return int(np.float32(np.uint64(literal.value).view(np.float64)).view(np.uint32))
    if (literal.bits, width) == (32, 64):
        return int(np.float64(np.uint32(literal.value).view(np.float32)).view(np.uint64))
    return None


def _encode(value: Expression, kind: str, width: int, address: Callable[[SymbolOffset], int]) -> bytes:
    if isinstance(value, SymbolOffset):
        number = address(value)
    elif isinstance(value, FloatLiteral):
        if kind in {"f16", "bf16"}:
            raise LaunchError(f"an initializer of type .{kind} must be written as bits", line=value.line)
        converted = float_bits(value, 8 * width) if kind in {"f32", "f64"} else None
        number = value.value if converted is None else converted
    elif kind in {"f32", "f64"}:
        return struct.pack("<f" if kind == "f32" else "<d", float(value.value))
    else:
        number = value.value
    return (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
