"""Helpers for instructions of whole warps: the warps that take part, and their events."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, all_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import DivergedWarp

__all__ = [
    "each_warp",
    "require_whole_warps",
    "take_sync_aligned",
    "tell_warp",
    "tell_warps",
    "whole_warps",
]


def require_whole_warps(site: Site, bundle: Bundle, mask: Mask) -> None:
    """Refuse an `.aligned` instruction that only some of a warp's 32 lanes have reached."""
    if mask is None or all_true(mask):
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


def tell_warp(origin: Origin, kind: str, **data: Any) -> None:
    """Announce that a whole warp did something. `data` as for `Observer.happened`."""
    for tell in origin.bundle.cohort.listeners.happened:
        tell(kind, origin, one=False, **data)


def tell_warps(site: Site, bundle: Bundle, lanes: NDArray[np.bool_], kind: str, **data: Any) -> None:
    """Announce that lanes, shape (n_warps, 32), did something: one event for each warp with such lanes.

    `data` as for `Observer.happened`. By default `one` is True for a warp with a single such lane.
    """
    for tell in bundle.cohort.listeners.happened:
        for warp in bundle.clusters(lanes):
            origin = Origin(site, bundle, warp * WARP_SIZE + int(np.argmax(lanes[warp])))
            tell(kind, origin, **{"one": int(lanes[warp].sum()) == 1, **data})


def take_sync_aligned(site: Site) -> None:
    """Take .sync.aligned, and let all lanes of a warp come together before the instruction."""
    if not (site.has("sync") and site.has("aligned")):
        site.unsupported("it needs .sync.aligned")
    site.converge()


def each_warp(site: Site, bundle: Bundle, mask: Mask) -> list[Origin]:
    """The first lane of each warp that executes an `.aligned` instruction. Errors: DivergedWarp."""
    require_whole_warps(site, bundle, mask)
    return [Origin(site, bundle, warp * WARP_SIZE) for warp in bundle.clusters(mask)]


def whole_warps(bundle: Bundle, mask: Mask) -> slice | NDArray[np.intp]:
    """An index that picks the active warps along an array's first axis: a slice if all take part."""
    if mask is None or mask.all():
        return slice(None)
    return np.flatnonzero(mask.any(axis=1))
