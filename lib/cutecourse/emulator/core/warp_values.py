"""Helpers for instructions of whole warps: the warps that take part, and masks of lanes as bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import DivergedWarp

__all__ = ["LANE_BITS", "lane_masks", "require_whole_warps", "whole_warps"]

LANE_BITS = np.uint32(1) << np.arange(WARP_SIZE, dtype=np.uint32)
"""The bit of each lane in a mask such as `%activemask` or a membermask."""


def require_whole_warps(site: Site, bundle: Bundle, mask: Mask) -> None:
    """Refuse an `.aligned` instruction that only some of a warp's 32 lanes have reached."""
    if mask is None:
        return
    broken = mask.any(axis=1) & ~mask.all(axis=1)
    if broken.any():
        warp = int(np.argmax(broken))
        missing = int(np.argmin(mask[warp]))
        raise site.error(
            DivergedWarp,
            f"{site.instruction.name} must be executed by all 32 lanes of the warp together,"
            f" but lane {missing} does not take part",
            bundle,
            warp * WARP_SIZE + missing,
        )


def whole_warps(bundle: Bundle, mask: Mask) -> slice | NDArray[np.intp]:
    """An index that picks the active warps along an array's first axis: a slice if all take part."""
    if mask is None or mask.all():
        return slice(None)
    return np.flatnonzero(mask.any(axis=1))


def lane_masks(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """(..., 32) truth values -> (...) masks with bit l for lane l."""
    found: NDArray[np.uint32] = np.where(lanes, LANE_BITS, np.uint32(0)).sum(axis=-1, dtype=np.uint32)
    return found
