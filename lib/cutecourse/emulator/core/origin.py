"""The origin of an operation, which asynchronous work, barriers and reports all name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import EmulatorError

__all__ = ["Origin"]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Origin:
    """The instruction that issued an operation, and its lane (flattened, as in `bundle.lanes`)."""

    site: Site
    bundle: Bundle
    lane: int

    def error(self, kind: type[EmulatorError], problem: str, **memory: Any) -> EmulatorError:
        """Make an error at this instruction and thread; `memory` says at which address."""
        return self.site.error(kind, problem, self.bundle, self.lane, **memory)
