"""Swizzles on pointers: the same permutation counted in bytes, and in elements of any width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cutecourse.atoms.errors import PartitionError
from cutecourse.atoms.tensor import LayoutTensor
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import ComposedLayout, Layout, Swizzle, recast_layout

__all__ = [
    "SmemPtr",
    "as_position_independent_swizzle_layout",
    "as_position_independent_swizzle_tensor",
    "recast_ptr",
    "recast_tensor",
]

NO_SWIZZLE = Swizzle(0, 4, 3)


@dataclass(frozen=True)
class SmemPtr:
    """A pointer into shared memory whose swizzle permutes the bytes of the address.

    `start` is the address before the swizzle and `address` the one after it. Adding n moves the start by n
    elements. So a tensor with such a pointer for its offset has pointers for its elements.
    Units:  `start` and `address` in bytes from the beginning of shared memory.
    Errors: PartitionError for elements that are no whole bytes, or an address between two elements.
    Source: CUTLASS 4.2.0, include/cute/pointer_swizzle.hpp; the DSL's `make_ptr(..., swizzle_=)`.

    >>> pointer = SmemPtr(0, "f16", Swizzle(3, 4, 3))
    >>> print(pointer + 64, (pointer + 64).address)
    S<3,4,3> o 128 (f16) 144
    """

    start: int
    dtype: DType | str
    swizzle: Swizzle = NO_SWIZZLE

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if self.bits % 8:
            raise PartitionError(f"{self.dtype} has {self.bits} bits, and a pointer counts whole bytes.")
        if self.start % (self.bits // 8):
            raise PartitionError(
                f"{self.start} is no multiple of the {self.bits // 8} bytes of {self.dtype}."
            )

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return int(as_dtype(self.dtype).bits)

    @property
    def address(self) -> int:
        """The byte that the pointer reads: the swizzle of the start."""
        return self.swizzle(self.start)

    def __add__(self, elements: int) -> SmemPtr:
        return replace(self, start=self.start + elements * self.bits // 8)

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.start} ({self.dtype})"


def recast_ptr(pointer: SmemPtr, swizzle: Swizzle | None = None, dtype: DType | str | None = None) -> SmemPtr:
    """The same address for elements of another type, or with another swizzle.

    The swizzle counts bytes, so it stays as it is when the elements' width changes.
    Simplified: as in C++, a pointer keeps its swizzle. The DSL's `recast_ptr` and `recast_tensor` drop it
                unless it is given again.
    Source: CUTLASS 4.2.0, include/cute/pointer_swizzle.hpp, recast_ptr.

    >>> print(recast_ptr(SmemPtr(1024, "f16", Swizzle(3, 4, 3)), dtype="u8"))
    S<3,4,3> o 1024 (u8)
    """
    return SmemPtr(pointer.start, dtype or pointer.dtype, pointer.swizzle if swizzle is None else swizzle)


def recast_tensor(tensor: LayoutTensor, dtype: DType | str) -> LayoutTensor:
    """The same bytes as elements of another type: the layout counts anew, and the pointer keeps its swizzle.

    Law: every address that the old elements cover, the new ones cover.
    Errors: PartitionError for a tensor without a pointer.
    Source: CUTLASS 4.2.0, include/cute/tensor_impl.hpp, recast.

    >>> tensor = LayoutTensor(Layout((8, 64), (64, 1)), SmemPtr(0, "f16", Swizzle(3, 4, 3)))
    >>> print(recast_tensor(tensor, "u8"))
    S<3,4,3> o 0 (u8) o (8,128):(128,1)
    """
    pointer = _pointer(tensor)
    recast = recast_ptr(pointer, dtype=dtype)
    return LayoutTensor(recast_layout(recast.bits, pointer.bits, tensor.layout), recast)


def as_position_independent_swizzle_layout(layout: ComposedLayout, dtype: DType | str) -> ComposedLayout:
    """Count a swizzle of bytes in elements, so that it can be composed with a layout of elements.

    The layouts that CuTe gives for TMA, wgmma and tcgen05 hold the swizzle of a pointer, in bytes, before a
    layout that counts elements. As a function such a layout is right only after this conversion.
    Law: `S<B,M,S>` on bytes is `S<B,M-log2(n),S>` on elements of n bytes.
    Source: CUTLASS 4.2.0, include/cute/pointer_flagged.hpp.

    >>> in_bytes = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
    >>> print(as_position_independent_swizzle_layout(in_bytes, "f16"))
    S<3,3,3> o 0 o (8,64):(64,1)
    """
    bits = int(as_dtype(dtype).bits)
    return ComposedLayout(recast_layout(bits, 8, layout.inner), layout.offset, layout.outer)


def as_position_independent_swizzle_tensor(tensor: LayoutTensor) -> LayoutTensor:
    """Move the swizzle from the pointer into the layout, where it counts elements.

    The two are the same function only if the pointer starts where the swizzle's pattern starts: at a
    multiple of 2 ** (B + M + S) bytes, which is 1024 for `S<3,4,3>`.
    Law: the elements have the same addresses.
    Errors: PartitionError for a tensor without a pointer, or one that starts within the pattern.
    Source: CUTLASS 4.2.0, include/cute/pointer_flagged.hpp.

    >>> tensor = LayoutTensor(Layout((8, 64), (64, 1)), SmemPtr(1024, "f16", Swizzle(3, 4, 3)))
    >>> print(as_position_independent_swizzle_tensor(tensor))
    S<0,4,3> o 1024 (f16) o S<3,3,3> o 0 o (8,64):(64,1)
    """
    pointer = _pointer(tensor)
    if pointer.swizzle.num_bits == 0 or not isinstance(tensor.layout, Layout):
        return tensor
    swizzle = pointer.swizzle
    inside = pointer.start & (swizzle.yyy_mask | swizzle.zzz_mask | ((1 << swizzle.num_base) - 1))
    if inside:
        raise PartitionError(
            f"the tensor starts at byte {pointer.start}, {inside} bytes inside the pattern of {swizzle}. "
            f"Its layout would depend on where it starts. Align it to {span_bytes(swizzle)} bytes."
        )
    on_elements = recast_layout(pointer.bits, 8, swizzle)
    return LayoutTensor(ComposedLayout(on_elements, 0, tensor.layout), replace(pointer, swizzle=NO_SWIZZLE))


def span_bytes(swizzle: Swizzle) -> int:
    """The bytes after which the pattern of a swizzle repeats."""
    return 1 << (swizzle.yyy_mask | swizzle.zzz_mask).bit_length() if swizzle.num_bits else 1


def _pointer(tensor: LayoutTensor) -> SmemPtr:
    pointer: Any = tensor.offset
    if not isinstance(pointer, SmemPtr):
        raise PartitionError(f"the tensor {tensor} has no pointer: its offset is a number of elements.")
    return pointer
