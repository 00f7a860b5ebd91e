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
    "initial_bytes",
    "parameter_offsets",
    "size_of",
]

MAX_VARIABLE_BYTES = 1 << 32
"""A larger variable is refused."""


def align_up(offset: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-offset // alignment) * alignment


def element_bytes(variable: Variable) -> int:
    """Bytes of one element, a vector counted as one."""
    bits = type_bits(variable.type) or 8
    return max(1, bits // 8) * variable.vector


def alignment_of(variable: Variable) -> int:
    """A variable's declared alignment, or its element's size."""
    return variable.alignment or element_bytes(variable)


def size_of(variable: Variable) -> int:
    """Bytes of a variable; an array without a size has the size of its initializer, or 0."""
    size = element_bytes(variable)
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
    """The offset of each kernel parameter in parameter space, by name, and the bytes of all."""
    offsets: dict[str, int] = {}
    end = 0
    for parameter in parameters:
        offsets[parameter.name] = start = align_up(end, alignment_of(parameter))
        end = start + size_of(parameter)
    return offsets, end


def initial_bytes(variable: Variable, size: int, address: Callable[[SymbolOffset], int]) -> bytes:
    """The bytes of a variable's initializer; the remaining ones of its `size` bytes are zero."""
    values = variable.initializer or ()
    bits = type_bits(variable.type) or 8
    width = max(1, bits // 8)
    if len(values) * width > size:
        raise LaunchError(
            f"variable {variable.name} has {size} bytes, but its initializer has {len(values) * width}",
            line=variable.line,
        )
    return b"".join(_encode(value, variable.type, width, address) for value in values)


def _encode(value: Expression, kind: str, width: int, address: Callable[[SymbolOffset], int]) -> bytes:
    if isinstance(value, SymbolOffset):
        number = address(value)
    elif isinstance(value, FloatLiteral):
        number = value.value
        if kind == "f32" and value.bits == 64:
            number = struct.unpack("<I", np.float32(_as_double(number)).tobytes())[0]
        elif kind == "f64" and value.bits == 32:
            number = struct.unpack("<Q", np.float64(np.uint32(number).view(np.float32)).tobytes())[0]
        elif kind in {"f16", "bf16"}:
            raise LaunchError(f"an initializer of type .{kind} must be written as bits", line=value.line)
    elif kind in {"f32", "f64"}:
        form = "<f" if kind == "f32" else "<d"
        return struct.pack(form, float(value.value))
    else:
        number = value.value
    return (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def _as_double(bits: int) -> float:
    result: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return result
