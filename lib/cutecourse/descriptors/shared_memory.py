"""Shared-memory matrix descriptors: where a matrix starts, how it is strided, which swizzle it has."""

from __future__ import annotations

from types import MappingProxyType

from .fields import DescriptorFormat, Field

__all__ = ["GMMA_LAYOUT_TYPES", "SMEM_SM90", "SMEM_SM100", "UMMA_LAYOUT_TYPES"]

GMMA_LAYOUT_TYPES = MappingProxyType({"INTERLEAVE": 0, "B128": 1, "B64": 2, "B32": 3})
"""SM90::GMMA::LayoutType: CuTe's names for the swizzle of a wgmma operand, and their numbers."""

UMMA_LAYOUT_TYPES = MappingProxyType(
    {
        "SWIZZLE_NONE": 0,
        "SWIZZLE_128B_BASE32B": 1,
        "SWIZZLE_128B": 2,
        "SWIZZLE_64B": 4,
        "SWIZZLE_32B": 6,
    }
)
"""UMMA::LayoutType: CuTe's names for the swizzle of a tcgen05 operand. 3, 5 and 7 stand for nothing."""

_START = Field("start_address", 0, 14, "where the matrix starts in shared memory", 16, "bytes")
_LEADING = Field(
    "leading_byte_offset",
    16,
    14,
    "K-major without swizzle: from one 16-byte column to the next; MN-major: from one swizzle atom to the "
    "next along MN (without swizzle: along K)",
    16,
    "bytes",
)
_STRIDE = Field(
    "stride_byte_offset",
    32,
    14,
    "K-major: from 8 rows to the next 8 rows; MN-major: from one swizzle atom to the next along K (without "
    "swizzle: along MN)",
    16,
    "bytes",
)
_BASE = Field("base_offset", 49, 3, "the phase of the swizzle's pattern where the matrix starts")

SMEM_SM90 = DescriptorFormat(
    "GmmaDescriptor",
    64,
    (
        _START,
        _LEADING,
        _STRIDE,
        _BASE,
        Field("layout_type", 62, 2, "how rows of 16 bytes are swizzled", names=GMMA_LAYOUT_TYPES),
    ),
    "CUTLASS 4.2.0, include/cute/arch/mma_sm90_desc.hpp, GmmaDescriptor",
)
"""The descriptor of a wgmma operand (SM90)."""

SMEM_SM100 = DescriptorFormat(
    "SmemDescriptor",
    64,
    (
        _START,
        _LEADING,
        _STRIDE,
        Field("version", 46, 2, "1 for tcgen05"),
        _BASE,
        Field("lbo_mode", 52, 1, "0: the leading offset counts from the matrix's start; 1: it is an address"),
        Field("layout_type", 61, 3, "how rows of 16 bytes are swizzled", names=UMMA_LAYOUT_TYPES),
    ),
    "CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::SmemDescriptor",
)
"""The descriptor of a tcgen05 operand (SM100)."""
