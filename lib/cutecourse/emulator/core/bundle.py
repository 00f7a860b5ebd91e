"""Warps as the emulator runs them: bundles of warps whose lanes are NumPy vectors.

A *bundle* is the warp of one rank in several independent blocks. Its registers are arrays of shape
(n_warps, 32), so one NumPy operation serves them all; a single warp is the case n_warps = 1. A *split* is a
set of a bundle's lanes that stand at the same instruction; divergence makes several, reconvergence joins
them. A *cohort* is the set of blocks (or clusters) that the bundles of each rank belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cutecourse.emulator.checks.provenance import Provenance
    from cutecourse.emulator.checks.races import Races
    from cutecourse.emulator.core.machine import Machine
    from cutecourse.emulator.core.program import Program

__all__ = [
    "CHUNK",
    "CHUNK_TYPE",
    "KINDS",
    "WARP_SIZE",
    "Bundle",
    "Cohort",
    "Mask",
    "Split",
    "put",
    "warps_of",
]

WARP_SIZE = 32
CHUNK = 16
"""Bytes that asynchronous copies and tcgen05's matrices move at least."""
CHUNK_TYPE = np.dtype(np.complex128)
"""A chunk as one element. It is no number: NumPy has no plain type of 16 bytes, and it copies, gathers and
scatters elements of this one as fast as any."""
Mask = NDArray[np.bool_] | None
"""Which lanes take part: shape (n_warps, 32), or None when all do."""


def _alternate(name: str) -> np.dtype[Any]:
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


# How a register's bits can be looked at: (bits of the register, NumPy type, elements in a register).
KINDS: dict[str, tuple[int, np.dtype[Any], int]] = {
    "pred": (1, np.dtype(np.bool_), 1),
    "u8": (8, np.dtype(np.uint8), 1),
    "s8": (8, np.dtype(np.int8), 1),
    "u16": (16, np.dtype(np.uint16), 1),
    "s16": (16, np.dtype(np.int16), 1),
    "f16": (16, np.dtype(np.float16), 1),
    "bf16": (16, _alternate("bfloat16"), 1),
    "u32": (32, np.dtype(np.uint32), 1),
    "s32": (32, np.dtype(np.int32), 1),
    "f32": (32, np.dtype(np.float32), 1),
    "u64": (64, np.dtype(np.uint64), 1),
    "s64": (64, np.dtype(np.int64), 1),
    "f64": (64, np.dtype(np.float64), 1),
    "f16x2": (32, np.dtype(np.float16), 2),
    "bf16x2": (32, _alternate("bfloat16"), 2),
    "u16x2": (32, np.dtype(np.uint16), 2),
    "s16x2": (32, np.dtype(np.int16), 2),
    "u8x4": (32, np.dtype(np.uint8), 4),
    "s8x4": (32, np.dtype(np.int8), 4),
    "f32x2": (64, np.dtype(np.float32), 2),
    "u32x2": (64, np.dtype(np.uint32), 2),
}
for _bits in (8, 16, 32, 64):
    KINDS[f"b{_bits}"] = KINDS[f"u{_bits}"]


def warps_of(lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which warps have one of the lanes: (n_warps, 32) -> (n_warps,)."""
    found: NDArray[np.bool_] = np.logical_or.reduce(lanes, axis=1)
    return found


def put(row: NDArray[Any], values: Any, mask: Mask) -> None:
    """Write values into a register's row, in the lanes of the mask only.

    Shapes: row (n_warps, 32) or, for a packed kind, (n_warps, 32, elements); values broadcast to it.
    """
    if mask is None:
        row[...] = values
    elif row.ndim == 2:
        np.copyto(row, values, where=mask, casting="unsafe")
    else:
        np.copyto(row, values, where=mask[..., None], casting="unsafe")


@dataclass(eq=False, slots=True)
class Split:
    """Lanes of one bundle that stand at the same place: basic block `at`, under the calls in `stack`."""

    at: int
    mask: Mask
    stack: tuple[int, ...] = ()
    waiting: Any = None
    """Why it cannot run, an object with `describe(warp)`; None while it can."""
    warps: int = 0
    """How many warps have a lane here, for counting."""
    key: bytes = b""
    """The mask's bytes, to compare with; empty when all lanes are here."""
    turn: int = 0
    """When it last ran, so that none starves."""
    tag: Any = None
    """What a waiting instruction keeps for its second half."""


@dataclass(eq=False)
class Cohort:
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
    barriers: list[Any] = field(default_factory=list)
    """One object for each rank, made by the barrier instructions."""
    state: dict[str, Any] = field(default_factory=dict)
    """What other families keep for each cohort."""
    views: dict[tuple[int, int], tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    shared_chunks: tuple[NDArray[Any], NDArray[Any]] = field(init=False)
    """Shared memory and its record of writes as vectors of chunks."""
    provenance: Provenance | None = None
    """Where the bytes come from (emulator.checks.provenance), in kernels where that is followed."""
    races: Races | None = None
    """Who used shared memory last; None where no race is possible or none is looked for."""
    endings: int = 0
    """How often lanes have ended."""
    _alive: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared_chunks = (self.shared.view(CHUNK_TYPE), self.shared_written.view(CHUNK_TYPE))

    def release(self) -> None:
        """Let go of what the blocks had, all of which have ended: they and what they have name each other."""
        if self.races is not None and self.races.operations is not None:
            self.races.operations.every.clear()  # each of them names what they are kept in
        self.races = self.provenance = None
        for bundle in self.bundles:
            bundle.rows.clear()
        self.shared = self.shared_written = np.zeros(0, dtype=np.uint8)
        self.shared_chunks = (self.shared.view(CHUNK_TYPE), self.shared_written.view(CHUNK_TYPE))
        for kept in (self.bundles, self.barriers, self.state, self.views, self._alive):
            kept.clear()

    def shared_start(self, cluster: int, rank: int) -> int:
        """Where the shared memory of a block begins in `shared`, in bytes."""
        return (rank * self.n + cluster) * self.shared_stride

    def alive(self, rank: int) -> NDArray[np.bool_]:
        """Which clusters' blocks of a rank have not ended, shape (n,)."""
        found = self._alive.get(rank)
        if found is None:
            bundles = [bundle for bundle in self.bundles if bundle.rank == rank]
            found = self._alive[rank] = np.any([bundle.live.any(axis=1) for bundle in bundles], axis=0)
        return found

    def lanes_ended(self, rank: int) -> None:
        """Lanes of a block have ended: what is known of the block is out of date."""
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


class Bundle:
    """The warps of one rank in the blocks of one cohort, and where their lanes stand.

    `rows[kind][slot]` is a register, a constant or a special register as an array of shape (n, 32); packed
    kinds have a third axis. Instructions get slots from their `Site`.
    """

    __slots__ = (
        "budget",
        "cohort",
        "dynamic",
        "full",
        "live",
        "local",
        "local_base",
        "local_written",
        "machine",
        "n",
        "program",
        "rank",
        "rows",
        "shared_base",
        "splits",
        "state",
        "steps",
        "warp",
    )

    def __init__(self, machine: Machine, program: Program, cohort: Cohort, rank: int, warp: int) -> None:
        n = cohort.n
        self.machine = machine
        self.program = program
        self.cohort = cohort
        self.rank = rank
        self.warp = warp
        self.n = n
        self.full = np.ones((n, WARP_SIZE), dtype=np.bool_)
        self.state: dict[str, Any] = {}
        """What a family of instructions keeps for each bundle, under a name of its own."""
        threads = machine.threads_per_block - warp * WARP_SIZE
        self.live = np.zeros((n, WARP_SIZE), dtype=np.bool_)
        self.live[:, : min(threads, WARP_SIZE)] = True
        self.steps = 0
        self.splits: list[Split] = []
        lanes = np.arange(n * WARP_SIZE, dtype=np.int64).reshape(n, WARP_SIZE)
        self.local_base = lanes * program.local_stride
        self.local = np.zeros(n * WARP_SIZE * program.local_stride, dtype=np.uint8)
        self.local_written = np.zeros_like(self.local)
        starts = (rank * n + np.arange(n, dtype=np.int64)) * cohort.shared_stride
        self.shared_base = np.ascontiguousarray(np.broadcast_to(starts[:, None], (n, WARP_SIZE)))
        self.rows = program.rows.make(self)

    def lanes(self, mask: Mask) -> NDArray[np.int64]:
        """The active lanes as numbers into the flattened (n * 32) lanes."""
        return (self.full if mask is None else mask).ravel().nonzero()[0]

    def clusters(self, mask: Mask) -> list[int]:
        """The warps with an active lane, each by its cluster's position in the cohort."""
        return list(range(self.n)) if mask is None else np.flatnonzero(mask.any(axis=1)).tolist()

    def where(self, lane: int) -> tuple[tuple[int, int, int], int, int]:
        """Block coordinates, warp and lane of a flattened lane."""
        x, y, z = self.cohort.blocks[lane // WARP_SIZE, self.rank].tolist()
        return (x, y, z), self.warp, lane % WARP_SIZE
