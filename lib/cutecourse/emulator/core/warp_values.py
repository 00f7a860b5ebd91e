"""Helpers for instructions of whole warps: the warps that take part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import DivergedWarp

__all__ = ["require_whole_warps", "whole_warps"]


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
