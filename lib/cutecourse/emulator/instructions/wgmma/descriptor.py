"""wgmma's shared-memory matrix descriptors: bits, fields, and where a matrix's 16-byte chunks lie.

The canonical layouts are those of tcgen05's descriptors (emulator.memory.matrix_descriptor); the fields
are packed differently, and there are no 32-byte atoms:

    bits  0 to 13   start address / 16
    bits 16 to 29   leading dimension byte offset / 16
    bits 32 to 45   stride dimension byte offset / 16
    bits 49 to 51   base offset: the 128-byte row, modulo 8, in which the swizzle's pattern starts
    bits 62 to 63   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes

Source: PTX ISA 9.0, Matrix Descriptor Format
        (#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor), Strides, Swizzling
        Modes (#asynchronous-warpgroup-level-swizzling-modes).
"""

from __future__ import annotations

from functools import cache

from cutecourse.emulator.memory.matrix_descriptor import FieldError, MatrixDescriptor, field_of

__all__ = ["decode"]

_SWIZZLES = ("none", "128B", "64B", "32B")
_UNUSED = ((14, 15), (30, 31), (46, 48), (52, 61))


@cache
def decode(bits: int) -> MatrixDescriptor:
    """Read a matrix descriptor of wgmma. Errors: FieldError.

    >>> decode(0x4000_0040_0001_0040)
    MatrixDescriptor(start=1024, leading=16, stride=1024, swizzle='128B', base=0)
    """
    for low, high in _UNUSED:
        found = field_of(bits, low, high)
        if found:
            why = " (tcgen05's descriptors have 0b001 there)" if (low, found) == (46, 1) else ""
            raise FieldError(
                f"bits {low} to {high} of the matrix descriptor", f"{found:#b}, but must be 0{why}"
            )
    return MatrixDescriptor.of(bits, _SWIZZLES[field_of(bits, 62, 63)])
