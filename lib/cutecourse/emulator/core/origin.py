"""The origin of an operation, which asynchronous work, barriers and reports all name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, any_true
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import EmulatorError

__all__ = ["Origin", "each_lane", "first_lane"]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Origin:
    """The instruction that issued an operation, and its lane (flattened, as in `bundle.lanes`)."""

    site: Site
    bundle: Bundle
    lane: int

    @property
    def cluster(self) -> int:
        """The position of the thread's cluster in the cohort, and of its warp in the bundle."""
        return self.lane // WARP_SIZE

    def value(self, row: NDArray[Any]) -> int:
        """The lane's value in a row of shape (n, 32)."""
        return int(row.item(self.lane))

    def error(self, kind: type[EmulatorError], problem: str, **memory: Any) -> EmulatorError:
        """Make an error at this instruction and thread; `memory` gives the address."""
        return self.site.error(kind, problem, self.bundle, self.lane, **memory)


def first_lane(site: Site, bundle: Bundle, lanes: NDArray[np.bool_]) -> Origin | None:
    """The origin at the first of some lanes, shape (n, 32), for an error; None if there are none."""
    if not any_true(lanes):
        return None
    return Origin(site, bundle, int(np.flatnonzero(lanes)[0]))


def each_lane(site: Site, do: Callable[[Origin], object]) -> Step:
    """Make the step of an instruction that the active lanes execute one after the other."""

    def step(bundle: Bundle, mask: Mask) -> None:
        for lane in bundle.lanes(mask).tolist():
            do(Origin(site, bundle, lane))

    return step
