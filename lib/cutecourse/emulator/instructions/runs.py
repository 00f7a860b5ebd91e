"""Runs of moves and stores: one step executes adjacent instructions together, which is faster.

Compilers unroll loops into such runs: they pack and unpack a thread's words and store them at constant
distances from one address. A run executes all its moves first, then all its stores. A move joins a run only
if no earlier store of the run reads the register that the move writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.program import Step, guarded
from cutecourse.emulator.core.rows import RowTable, Selection
from cutecourse.emulator.core.site import AddressSource
from cutecourse.emulator.memory.access import Access

__all__ = ["MoveRun", "move", "store"]

_FEW = 4
"""Up to this number of moves, copying the rows one by one is faster."""


@dataclass(frozen=True, slots=True)
class _Store:
    """A store of the rows `sources`, `distance` bytes behind the address in the 64-bit row `base`."""

    access: Access
    kind: str
    base: int
    distance: int
    sources: tuple[int, ...]
    step: Step

    def fits(self, other: _Store) -> bool:
        """True if the other store differs only in its rows and its distance."""
        return (self.kind, self.base, len(self.sources)) == (other.kind, other.base, len(other.sources))


@dataclass(frozen=True, slots=True)
class MoveRun:
    """Moves between rows of a kind, as (target, source), and then stores."""

    table: RowTable
    kind: str = ""
    moves: tuple[tuple[int, int], ...] = ()
    stores: tuple[_Store, ...] = ()
    guard: tuple[int, bool] | None = None
    """The row of the predicate in front of all stores, and whether it is negated."""

    def under(self, slot: int, negated: bool) -> MoveRun | None:
        """The run under a guard; None if it has moves, which could write the guard."""
        return None if self.moves else replace(self, guard=(slot, negated))

    def then(self, other: MoveRun) -> MoveRun | None:
        """Join the other run to this one; None if it cannot follow."""
        if self.guard != other.guard:
            return None
        moves, stores = self.moves, self.stores
        if other.moves:
            if moves and other.kind != self.kind:
                return None
            written = {self.table.holder(other.kind, target) for target, _ in other.moves}
            if not written.isdisjoint(self._read()):
                return None
            # All sources of a run are read before its targets are written.
            sources = dict(moves)
            later = {target: sources.get(source, source) for target, source in other.moves}
            moves = tuple((sources | later).items())
        if other.stores:
            if stores and not stores[0].fits(other.stores[0]):
                return None
            stores += other.stores
        return MoveRun(self.table, other.kind or self.kind, moves, stores, self.guard)

    def _read(self) -> set[tuple[int, int]]:
        """The registers that the stores read: their sources and addresses."""
        read = {self.table.holder(one.kind, slot) for one in self.stores for slot in one.sources}
        return read | {self.table.holder("u64", one.base) for one in self.stores}

    def step(self) -> Step:
        """The step that executes the run."""
        moves, stores = _moves(self.table, self.kind, self.moves), _stores(self.table, self.stores)
        if self.guard is not None:
            return guarded(stores, *self.guard)
        if not (self.moves and self.stores):
            return moves if self.moves else stores

        def step(bundle: Bundle, mask: Mask) -> None:
            moves(bundle, mask)
            stores(bundle, mask)

        return step


def move(table: RowTable, kind: str, pairs: Sequence[tuple[int, int]]) -> Step:
    """A step that copies rows, given as (target, source)."""
    step = _one_by_one(kind, pairs)
    step.run = MoveRun(table, kind, tuple(pairs))  # type: ignore[attr-defined]
    return step


def store(
    table: RowTable, access: Access, address: AddressSource, kind: str, sources: Sequence[int], step: Step
) -> Step:
    """Let a store join runs if it writes global memory at a constant distance from the address in a row."""
    if access.space == "global" and not access.flags and address.row is not None:
        one = _Store(access, kind, address.row, address.distance, tuple(sources), step)
        step.run = MoveRun(table, stores=(one,))  # type: ignore[attr-defined]
    return step


def _one_by_one(kind: str, pairs: Sequence[tuple[int, int]]) -> Step:
    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[kind]
        for target, source in pairs:
            if mask is None:
                rows[target][...] = rows[source]
            else:
                np.copyto(rows[target], rows[source], where=mask)

    return step


def _moves(table: RowTable, kind: str, pairs: Sequence[tuple[int, int]]) -> Step:
    """A step that copies all rows at once."""
    targets = Selection(table, kind, [target for target, _ in pairs])
    sources = Selection(table, kind, [source for _, source in pairs])
    swaps = not {target for target, _ in pairs}.isdisjoint(source for _, source in pairs)
    if len(pairs) <= _FEW and not swaps:
        return _one_by_one(kind, pairs)

    def step(bundle: Bundle, mask: Mask) -> None:
        values = sources.take(bundle.rows)
        if mask is not None:
            values = np.where(mask, values, targets.take(bundle.rows))
        targets.put(bundle.rows, values)

    return step


def _stores(table: RowTable, stores: Sequence[_Store]) -> Step:
    """A step that stores at once if all words lie in the allocation that the first store used last."""
    if len(stores) < 2:
        return stores[0].step if stores else _one_by_one("", ())
    first = stores[0]
    count = len(first.sources)
    sources = Selection(table, first.kind, [slot for one in stores for slot in one.sources])
    distances = np.array([one.distance % (1 << 64) for one in stores], dtype=np.uint64)[:, None, None]

    def step(bundle: Bundle, mask: Mask) -> None:
        if mask is None and not bundle.cohort.listeners.addressed:
            addresses = bundle.rows["u64"][first.base] + distances
            values: Any = sources.take(bundle.rows)
            if count > 1:
                values = values.reshape(len(stores), count, *values.shape[1:]).transpose(0, 2, 3, 1)
            if first.access.store_inside(bundle, addresses, values):
                return
        for one in stores:
            one.step(bundle, mask)

    return step
