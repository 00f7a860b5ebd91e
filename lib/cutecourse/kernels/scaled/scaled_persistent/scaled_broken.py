"""Mistakes of the epilogue that quantises: what it divides by, where a factor goes, and who has stored."""

from __future__ import annotations

from typing import Any

from cutecourse.block_scales import FORMATS, packed, quantise
from cutecourse.kernels import scaled_persistent
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.scaled_ladder import exact_operands
from cutecourse.kernels.spec import LaunchSpec

LAUNCH = scaled_persistent.spec(130, 160, 96, form="nvf4", sms=1, quantises="nvf4")
_KEPT = """\
    setp.eq.f32         %in, %x, 0f00000000;
    @%in mov.f32        %x, 0f7F800000;                 // a factor of zero: all elements become zeros
"""
_KEPT_TOO = _KEPT.partition("  //")[0].rstrip() + "\n"
_WISHED = """\
    mov.b32             %x, %most;
    div.rn.f32          %x, %x, 0f40C00000;
"""
_EMPTY = """\
    @%elected cp.async.bulk.wait_group.read 1;          // TMA has read what this buffer held
"""
_IN_MEMORY = """\
    shl.b32             %index, %lane, 4;
    mad.lo.u32          %index, %warp, 4, %index;
"""

FAULTS = by_name(
    __name__,
    Fault(
        "rows_in_their_order",
        "the factors of a block lie in the order of its rows, and are not dealt",
        source=(
            (
                _IN_MEMORY,
                _IN_MEMORY.replace("%lane, 4", "%lane, 2").replace("%warp, 4", "%warp, 128"),
            ),
        ),
        unreported="each factor is stored once, in its block: the next GEMM takes it for another row's.",
    ),
    Fault(
        "divided_by_the_wish",
        "elements are divided by a sixth of the largest one, not by the factor that is stored",
        source=((_KEPT, _WISHED), (_KEPT_TOO, _WISHED)),
        unreported="some numbers are a little off, but every order and every address is right.",
    ),
    Fault(
        "block_behind_the_last",
        "the tile's second block of factors is stored where D has none",
        source=(("    setp.lt.and.u32     %in, %index, 3, %in;\n", ""),),
        reports=("AddressError",),
    ),
    Fault(
        "swizzled_as_128_bytes",
        "rows of 64 bytes are swizzled as rows of 128 are",
        source=(
            (
                "and.b32             %turned, %turned, 64 - 16;",
                "and.b32             %turned, %turned, 128 - 16;",
            ),
        ),
        reports=("UninitializedRead",),
    ),
    Fault(
        "stored_without_a_fence",
        "TMA stores a piece that the proxy of TMA need not see yet",
        source=(("    fence.proxy.async.shared::cta;\n", ""),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "buffer_not_waited",
        "a buffer is filled again while TMA may still read it",
        source=((_EMPTY, ""),),
        reports=("OverwrittenSource",),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with one of the faults."""
    return LAUNCH.with_fault(FAULTS[name], "scaled_broken")


def arguments(seed: int) -> tuple[dict[str, Any], str, Any]:
    """Operands whose sums are exact, D that holds ones in all bits, and what D should be."""
    given, product = exact_operands(LAUNCH, "nvf4", seed)
    codes, _ = quantise(given["alpha"] * product, FORMATS["nvf4"])
    return given, "d", packed(codes, FORMATS["nvf4"])
