"""One swizzle as each part of the software writes it: CuTe, TMA, the descriptors of the MMAs, plain bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cutecourse.descriptors import GMMA_LAYOUT_TYPES, UMMA_LAYOUT_TYPES
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import Swizzle, make_swizzle, recast_layout

from .atom import swizzle_name
from .encoding import SWIZZLES
from .errors import TmaError

__all__ = ["SwizzleNotations", "swizzle_notations"]

_LAYOUT_TYPES = MappingProxyType(
    {
        "none": ("INTERLEAVE", "SWIZZLE_NONE"),
        "32B": ("B32", "SWIZZLE_32B"),
        "64B": ("B64", "SWIZZLE_64B"),
        "128B": ("B128", "SWIZZLE_128B"),
        "128B_atom_32B": (None, "SWIZZLE_128B_BASE32B"),
    }
)
"""TMA's modes, and what the descriptors of wgmma and tcgen05 call them."""


@dataclass(frozen=True)
class SwizzleNotations:
    """The same permutation of shared memory in every notation; None where a notation has no word for it.

    `cpp`, `dsl` and `bits` count elements of `dtype`, as `on_elements` does. The others count bytes, as
    `on_bytes` does.
    """

    on_elements: Swizzle
    on_bytes: Swizzle
    dtype: DType
    tma: str | None
    wgmma: str | None
    tcgen05: str | None

    @property
    def cpp(self) -> str:
        """In CuTe C++."""
        return f"Swizzle<{','.join(map(str, _numbers(self.on_elements)))}>{{}}"

    @property
    def dsl(self) -> str:
        """In the CuTe DSL."""
        return f"cute.make_swizzle({', '.join(map(str, _numbers(self.on_elements)))})"

    @property
    def bits(self) -> str:
        """As arithmetic on an offset i, in Python, C and C++ alike."""
        swizzle = self.on_elements
        if not swizzle.num_bits:
            return "i"
        way = ">>" if swizzle.num_shift >= 0 else "<<"
        return f"i ^ ((i {way} {abs(swizzle.num_shift)}) & {swizzle.zzz_mask:#x})"

    def __str__(self) -> str:
        rows = [
            ("CuTe C++", self.cpp),
            ("CuTe DSL", self.dsl),
            ("TMA", _with_number(self.tma, {_driver_name(name): n for name, n in SWIZZLES.items()})),
            ("wgmma", _with_number(self.wgmma, GMMA_LAYOUT_TYPES)),
            ("tcgen05", _with_number(self.tcgen05, UMMA_LAYOUT_TYPES)),
            ("bits", self.bits),
        ]
        head = f"{self.on_elements} on {self.dtype}, {self.on_bytes} on bytes"
        return "\n".join([head, *(f"  {name:9} {text}" for name, text in rows)])


def swizzle_notations(swizzle: Swizzle, dtype: DType | str) -> SwizzleNotations:
    """Write a swizzle of elements in all notations.

    TMA's mode goes into the tensor map, and the layout type into the descriptor of each MMA operand: both
    name a swizzle of bytes in chunks of 16. The wgmma and tcgen05 fields have numbers of their own.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma_swizzle.hpp,
            include/cute/arch/mma_sm90_desc.hpp and mma_sm100_desc.hpp; CUDA 13.0, include/cuda.h.

    >>> print(swizzle_notations(Swizzle(3, 3, 3), "f16"))
    S<3,3,3> on f16, S<3,4,3> on bytes
      CuTe C++  Swizzle<3,3,3>{}
      CuTe DSL  cute.make_swizzle(3, 3, 3)
      TMA       CU_TENSOR_MAP_SWIZZLE_128B = 3
      wgmma     B128 = 1
      tcgen05   SWIZZLE_128B = 2
      bits      i ^ ((i >> 3) & 0x38)
    """
    element = as_dtype(dtype)
    on_bytes = recast_layout(8, element.bits, swizzle) if swizzle.num_bits else make_swizzle(0, 4, 3)
    try:
        mode: str | None = swizzle_name(on_bytes)
    except TmaError:
        mode = None
    wgmma, tcgen05 = _LAYOUT_TYPES.get(mode or "", (None, None))
    tma = None if mode is None else _driver_name(mode)
    return SwizzleNotations(swizzle, on_bytes, element, tma, wgmma, tcgen05)


def _numbers(swizzle: Swizzle) -> tuple[int, int, int]:
    return swizzle.num_bits, swizzle.num_base, swizzle.num_shift


def _driver_name(mode: str) -> str:
    return f"CU_TENSOR_MAP_SWIZZLE_{mode.upper()}"


def _with_number(name: str | None, numbers: Mapping[str, int]) -> str:
    return "has no such swizzle" if name is None else f"{name} = {numbers[name]}"
