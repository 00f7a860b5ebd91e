"""Warps as the emulator runs them: bundles of warps whose lanes are NumPy vectors.

A *bundle* is the warp of one rank in several independent blocks. Its registers are arrays of shape
(n_warps, 32), so one NumPy operation serves them all; a single warp is the case n_warps = 1. A *split* is a
set of a bundle's lanes at the same instruction. Divergence makes several splits, and reconvergence joins
them. A *cohort* is the set of blocks (or clusters) that the bundles of each rank belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import (
    ALL_LANES,
    CHUNK_TYPE,
    LANE_BITS,
    WARP_SIZE,
    Mask,
    all_true,
    any_true,
    lane_masks,
    warps_of,
)
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.observer import Listeners
from cutecourse.emulator.core.owner import Owner
from cutecourse.emulator.core.program import Gate, Program
from cutecourse.emulator.core.rows import Rows
from cutecourse.emulator.core.waits import Wait
from cutecourse.emulator.errors import EmulatorError, InvalidOperand

__all__ = ["WAIT", "Bundle", "Cohort", "Split"]

WAIT = -1
"""A control instruction returns this when its split does not simply go on."""


@lru_cache(maxsize=4096)
def _warps_in(mask: bytes) -> int:
    """Count the warps that have a lane in a mask, given as bytes."""
    return sum(b"\x01" in mask[start : start + WARP_SIZE] for start in range(0, len(mask), WARP_SIZE))


@dataclass(eq=False, slots=True)
class Split:
    """Lanes of one bundle at the same place: basic block `at`, under the calls in `stack`."""

    at: int
    mask: Mask
    stack: tuple[int, ...] = ()
    waiting: Wait | None = None
    """The reason why the split cannot run; None if it can run."""
    warps: int = 0
    """The number of warps that have a lane in this split."""
    key: bytes = b""
    """The mask's bytes, to compare with; empty when all lanes are here."""
    turn: int = 0
    """The turn in which the split last ran. The scheduler uses it so that no split starves."""


@dataclass(eq=False)
class Cohort(Owner):
    """Independent clusters of blocks that run side by side: `n` of them, each of `size` blocks.

    `blocks[c, r]` is the (x, y, z) of the block with rank r in cluster c.
    """

    machine: Machine
    n: int
    size: int
    blocks: NDArray[np.int64]
    shared_stride: int
    shared: NDArray[np.uint8]
    shared_written: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    """The number of each cluster in the grid."""
    bundles: list[Bundle] = field(default_factory=list)
    views: dict[tuple[int, int], tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    shared_chunks: tuple[NDArray[Any], NDArray[Any]] = field(init=False)
    """Shared memory and its record of writes as vectors of chunks."""
    listeners: Listeners = field(default_factory=Listeners)
    """The observers of this cohort."""
    objects: list[Callable[[int, int, int], str | None]] = field(default_factory=list)
    """For each family of objects in shared memory, describes the object at (cluster, rank, offset)."""
    endings: int = 0
    """Counts the times that lanes have ended."""
    _alive: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self.shared_chunks = (self.shared.view(CHUNK_TYPE), self.shared_written.view(CHUNK_TYPE))

    def release(self) -> None:
        """Break the reference cycles of ended blocks, so that Python frees their memory."""
        for bundle in self.bundles:
            bundle.rows.release()
            bundle.forget_owned()
        self.shared = self.shared_written = np.zeros(0, dtype=np.uint8)
        self.shared_chunks = (self.shared.view(CHUNK_TYPE), self.shared_written.view(CHUNK_TYPE))
        for kept in (self.bundles, self.objects, self.views, self._alive):
            kept.clear()
        self.listeners = Listeners()
        self.forget_owned()

    def shared_start(self, cluster: int, rank: int) -> int:
        """The offset in `shared` at which a block's shared memory begins, in bytes."""
        return (rank * self.n + cluster) * self.shared_stride

    def alive(self, rank: int) -> NDArray[np.bool_]:
        """True for each cluster whose block of this rank has not ended, shape (n,)."""
        found = self._alive.get(rank)
        if found is None:
            bundles = [bundle for bundle in self.bundles if bundle.rank == rank]
            found = self._alive[rank] = np.logical_or.reduce([warps_of(bundle.live) for bundle in bundles])
        return found

    def lanes_ended(self, rank: int) -> None:
        """Note that lanes of a block have ended, so cached facts about the block are out of date."""
        self.endings += 1
        self._alive.pop(rank, None)

    def shared_words(self, bytes_: int, words: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
        """Shared memory and its record of writes, as vectors of words: shape (N,) or (N, words)."""
        try:
            return self.views[bytes_, words]
        except KeyError:
            kind = np.dtype(f"u{bytes_}")
            pair = (self.shared.view(kind), self.shared_written.view(kind))
            if words > 1:
                pair = (pair[0].reshape(-1, words), pair[1].reshape(-1, words))
            self.views[bytes_, words] = pair
            return pair


class Bundle(Owner):
    """The warps of one rank in the blocks of one cohort, and the splits of their lanes.

    `rows[kind][slot]` is a register, a constant or a special register as an array of shape (n, 32); packed
    kinds have a third axis. Instructions get slots from their `Site`.
    """

    def __init__(self, machine: Machine, program: Program, cohort: Cohort, rank: int, warp: int) -> None:
        super().__init__()
        n = cohort.n
        self.machine = machine
        self.program = program
        self.cohort = cohort
        self.rank = rank
        self.warp = warp
        self.number = rank * machine.warps_per_block + warp
        """The warp's number in its cluster, counted block by block."""
        self.n = n
        self.full = np.ones((n, WARP_SIZE), dtype=np.bool_)
        threads = machine.threads_per_block - warp * WARP_SIZE
        self.live = np.zeros((n, WARP_SIZE), dtype=np.bool_)
        self.live[:, : min(threads, WARP_SIZE)] = True
        self.splits: list[Split] = []
        lanes = np.arange(n * WARP_SIZE, dtype=np.int64).reshape(n, WARP_SIZE)
        self.local_base = lanes * program.local_stride
        self.local = np.zeros(n * WARP_SIZE * program.local_stride, dtype=np.uint8)
        self.local_written = np.zeros_like(self.local)
        starts = (rank * n + np.arange(n, dtype=np.int64)) * cohort.shared_stride
        self.shared_base = np.ascontiguousarray(np.broadcast_to(starts[:, None], (n, WARP_SIZE)))
        self.rows: Rows
        """The values that instructions read and write; made once the bundle knows its blocks."""

    def lanes(self, mask: Mask) -> NDArray[np.int64]:
        """The active lanes as numbers into the flattened (n * 32) lanes."""
        return (self.full if mask is None else mask).ravel().nonzero()[0]

    def clusters(self, mask: Mask) -> list[int]:
        """The warps with an active lane, each by its cluster's position in the cohort."""
        if mask is None:
            return list(range(self.n))
        key = mask.tobytes()
        return [at for at in range(self.n) if b"\x01" in key[at * WARP_SIZE : (at + 1) * WARP_SIZE]]

    def where(self, lane: int) -> tuple[tuple[int, int, int], int, int]:
        """Block coordinates, warp and lane of a flattened lane."""
        x, y, z = self.cohort.blocks[lane // WARP_SIZE, self.rank].tolist()
        return (x, y, z), self.warp, lane % WARP_SIZE

    # --- splits ---------------------------------------------------------------------------------------------

    @staticmethod
    def assign(split: Split, mask: NDArray[np.bool_]) -> None:
        """Give a split its lanes and the fields that are derived from them."""
        key = mask.tobytes()
        if b"\x00" not in key:
            split.mask, split.key = None, b""
            split.warps = len(key) // WARP_SIZE
        else:
            split.mask, split.key = mask, key
            split.warps = _warps_in(key)

    def add_split(self, at: int, mask: NDArray[np.bool_], stack: tuple[int, ...]) -> Split:
        """Put lanes of a bundle at a block, as a split of their own."""
        split = Split(at, None, stack)
        self.assign(split, mask)
        split.turn = self.machine.issued
        self.splits.append(split)
        return split

    def fork(self, split: Split, away: NDArray[np.bool_], at: int) -> Split:
        """Take the lanes `away` out of a split and put them at another block."""
        mask = self.full if split.mask is None else split.mask
        other = self.add_split(at, mask & away, split.stack)
        self.assign(split, mask & ~away)
        return other

    def part(self, split: Split, lanes: NDArray[np.bool_]) -> Split:
        """Give some lanes of a split a split of their own; return the split itself if it has no others."""
        mask = self.full if split.mask is None else split.mask
        return self.fork(split, lanes, split.at) if any_true(mask & ~lanes) else split

    def keep_waiting(self, split: Split, go: NDArray[np.bool_]) -> Split | None:
        """Leave only the lanes that may go on in a waiting split; the rest keeps waiting as a new split.

        Returns the rest: the split itself if no lane may go on, None if all may.
        """
        if all_true(go):
            return None
        mask = self.full if split.mask is None else split.mask
        if not any_true(mask & go):
            return split
        if not any_true(mask & ~go):
            return None
        rest = self.fork(split, ~go, split.at)
        rest.waiting = split.waiting
        return rest

    def divide(self, split: Split, condition: NDArray[np.bool_], yes: int, no: int) -> int:
        """Send the lanes of a split two ways; return the block at which the split itself goes on."""
        held = condition if split.mask is None else condition & split.mask
        seen = held.tobytes()
        if b"\x01" not in seen:
            return no
        if b"\x00" not in seen or seen == split.key:
            return yes
        self.fork(split, ~held, no)
        return yes

    def unpark(self, split: Split, at: int | None = None) -> None:
        """Let a waiting split run again, at another block if one is named."""
        self.machine.changes += 1
        split.waiting = None
        if at is not None:
            split.at = at
        self.machine.wake(self)

    def leave(self, split: Split, following: int = WAIT) -> int:
        """Let the lanes of a split return from a device function, or end at the end of the kernel."""
        if split.stack:
            split.stack, at = split.stack[:-1], split.stack[-1]
            return at
        return self.exit(split)

    def exit(self, split: Split) -> int:
        """End the lanes of a split."""
        mask = self.full if split.mask is None else split.mask
        self.machine.changes += 1
        self.live &= ~mask
        self.cohort.lanes_ended(self.rank)
        self.splits.remove(split)
        for other in self.splits:
            # A split that waits for all live lanes may have nobody left to wait for.
            if isinstance(other.waiting, Gate):
                other.waiting = None
        for tell in self.cohort.listeners.lanes_ended:
            tell(self, mask)
        return WAIT

    # --- gates ----------------------------------------------------------------------------------------------

    def pass_gate(self, split: Split, gate: Gate) -> bool:
        """Return whether the split may run the gated block that it has reached; park lanes that may not."""
        whole = gate.constant == ALL_LANES
        if split.mask is None and (whole or self._masks(gate).tobytes() == b"\xff" * (4 * self.full.size)):
            return True
        self._absorb(split)
        mask = self.full if split.mask is None else split.mask
        if whole:
            ready = mask & (mask == self.live).all(axis=1, keepdims=True)
        else:
            ready = mask & self._members_present(mask, gate)
        if ready.tobytes() == mask.tobytes():
            return True
        if not ready.any():
            split.waiting = gate
            return False
        self.fork(split, mask & ~ready, split.at).waiting = gate
        return True

    def _masks(self, gate: Gate) -> NDArray[np.uint32]:
        """The membermask of each lane."""
        assert gate.slot is not None
        return self.rows["u32"][gate.slot]

    def _absorb(self, split: Split) -> None:
        """Join the splits that wait in front of the same gate."""
        for other in list(self.splits):
            same_place = other.at == split.at and other.stack == split.stack
            if other is not split and same_place and isinstance(other.waiting, Gate | None):
                self.join(split, other)

    def join(self, split: Split, other: Split) -> None:
        """Add the lanes of `other` to `split` and drop `other`."""
        self.splits.remove(other)
        if split.mask is None or other.mask is None:
            raise AssertionError("two splits share lanes")
        self.assign(split, split.mask | other.mask)

    def _members_present(self, mask: NDArray[np.bool_], gate: Gate) -> NDArray[np.bool_]:
        members = self._masks(gate)
        wrong = mask & ((members & LANE_BITS) == 0)
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise self.error(
                InvalidOperand,
                f"membermask 0x{int(members.reshape(-1)[lane]):08x} does not name the lane that executes it",
                gate.line,
                lane,
            )
        missing = members & (lane_masks(self.live) & ~lane_masks(mask))[:, None]
        present: NDArray[np.bool_] = missing == 0
        return present

    # --- errors ---------------------------------------------------------------------------------------------

    def error(
        self, kind: type[EmulatorError], problem: str, line: int | None, lane: int, **memory: Any
    ) -> EmulatorError:
        """Make an error at a line of the kernel, in a flattened lane; `memory` gives the address."""
        block, warp, in_warp = self.where(int(lane))
        rank = self.rank if self.cohort.size > 1 else None
        return self.program.error(
            kind, problem, line, block=block, rank=rank, warp=warp, lane=in_warp, **memory
        )
