"""The memories of a launch at one of its events: shared memory, tensor memory and mbarriers of each CTA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DTYPES, DType, decode
from cutecourse.trace.event import Event, TraceError, block_of
from cutecourse.trace.words import barrier_name, html_table, number, text_table

__all__ = ["CtaMemory", "Mbarrier", "Replayer", "Snapshot", "SnapshotDifference", "find_variable", "runs_of"]

LANES, COLUMNS = 128, 512
_SHOWN = 40
_CLOSE = 64
"""Changed bytes with fewer than so many unchanged ones between them are told as one range."""
Block = int | Sequence[int]


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier object: where it lies, and what it holds.

    phase    how often it has completed; a wait for parity p passes where p != phase % 2.
    pending  arrivals that the phase still lacks, `count` those that the next one will.
    tx       bytes that the phase still lacks; negative where they came before anybody expected them.
    """

    block: tuple[int, int, int]
    rank: int
    offset: int
    name: str | None
    phase: int
    pending: int
    tx: int
    count: int

    @property
    def parity(self) -> int:
        """The parity of the phase that it is in."""
        return self.phase % 2

    def __str__(self) -> str:
        name = barrier_name({"rank": 0, "offset": self.offset, "name": self.name})
        return (
            f"{name}: phase {self.phase}, {self.pending} of {number(self.count, 'arrival')} and"
            f" {number(self.tx, 'byte')} missing"
        )


@dataclass(frozen=True, eq=False)
class CtaMemory:
    """One CTA's memory: bytes of shared memory, cells of tensor memory, and which of them are written.

    cells, cells_written  shape (128, 512), of 32 bits; None where the CTA has used no tensor memory.
    columns               what is allocated of it: (first column, how many).
    """

    block: tuple[int, int, int]
    cluster: int
    rank: int
    shared: NDArray[np.uint8]
    shared_written: NDArray[np.bool_]
    cells: NDArray[np.uint32] | None
    cells_written: NDArray[np.bool_] | None
    columns: tuple[tuple[int, int], ...]
    barriers: tuple[Mbarrier, ...]


class Snapshot:
    """The memories right after an event, of the CTAs that were running. `Trace.snapshot` makes one.

    event  the event; None for the end of the launch, which may be an error.
    error  the error that ended the launch, in words, at its end only.

    What nobody may read is masked: bytes and cells that nobody has written, or that a copy is still to
    write, and the eight bytes of a valid mbarrier.
    """

    def __init__(
        self,
        event: Event | None,
        ctas: Iterable[CtaMemory],
        variables: Mapping[str, tuple[int, int]],
        *,
        kernel: str = "",
        error: str = "",
    ) -> None:
        self.event = event
        self.kernel = kernel
        self.error = error
        self.variables = dict(variables)
        """The shared variables: name to (first byte, byte behind the last)."""
        self._ctas = {cta.block: cta for cta in sorted(ctas, key=lambda cta: (cta.cluster, cta.rank))}

    @property
    def blocks(self) -> tuple[tuple[int, int, int], ...]:
        """The CTAs that were running, by cluster and rank."""
        return tuple(self._ctas)

    # --- one CTA's memories ---------------------------------------------------------------------------------

    def shared(
        self,
        block: Block = 0,
        name: str | int = 0,
        dtype: Any = "u8",
        shape: int | Sequence[int] | None = None,
    ) -> Any:
        """Shared memory of a CTA as a masked array of `dtype`, a copy.

        block   (x, y, z), or fewer; a number is x.
        name    a variable's name, `"tile"` or `"tile+1024"`, or an offset in bytes.
        dtype   PTX's name of a type, such as "f16", or a NumPy dtype. Values of a type that NumPy lacks, such
                as "bf16", come as float32.
        shape   elements; without it all of the variable, or all up to the end of the memory.
        Errors: TraceError for a CTA, a variable or bytes that are not there.
        """
        cta = self._cta(block)
        item, element = _numpy(dtype)
        first, stop = self._range(name, len(cta.shared))
        if shape is None:
            shape = (stop - first) // item.itemsize
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        n_bytes = int(np.prod(wanted, dtype=np.int64)) * item.itemsize
        if first + n_bytes > len(cta.shared):
            raise TraceError(
                f"{item.name} of shape {wanted} from byte {first} on are {n_bytes} bytes, and the CTA has"
                f" {len(cta.shared)} bytes of shared memory."
            )
        held = np.frombuffer(cta.shared[first : first + n_bytes].tobytes(), dtype=item).reshape(wanted)
        written = cta.shared_written[first : first + n_bytes].reshape(*wanted, item.itemsize).all(axis=-1)
        return np.ma.MaskedArray(held.copy() if element is None else decode(held, element), mask=~written)

    def tensor_memory(self, block: Block = 0, dtype: Any = "u32") -> Any:
        """Tensor memory of a CTA as a masked array, a copy: lanes down, columns across.

        With a type of 32 bits the shape is (128, 512); of 16 bits (128, 1024), two in each column.
        Errors: TraceError for a CTA that is not there, and for a type of more than 32 bits.
        """
        cta = self._cta(block)
        item, element = _numpy(dtype)
        if 4 % item.itemsize:
            raise TraceError(f"a column of tensor memory has 32 bits, and {item.name} {8 * item.itemsize}.")
        per_column = 4 // item.itemsize
        if cta.cells is None or cta.cells_written is None:
            shape = (LANES, COLUMNS * per_column)
            held, unwritten = np.zeros(shape, dtype=item), np.ones(shape, dtype=np.bool_)
        else:
            held = cta.cells.copy().view(item)
            unwritten = ~np.repeat(cta.cells_written, per_column, axis=1)
        return np.ma.MaskedArray(held if element is None else decode(held, element), mask=unwritten)

    def allocated(self, block: Block = 0) -> tuple[tuple[int, int], ...]:
        """A CTA's allocations in tensor memory: (first column, number of columns). Errors: TraceError."""
        return self._cta(block).columns

    def barrier(self, name: str | int, block: Block = 0) -> Mbarrier:
        """A CTA's valid mbarrier, by its name or its offset in shared memory.

        Errors: TraceError, with those that there are.
        """
        cta = self._cta(block)
        for found in cta.barriers:
            if name in (found.name, found.offset) and name is not None:
                return found
        known = ", ".join(f"{b.name!r}" if b.name else str(b.offset) for b in cta.barriers) or "none"
        raise TraceError(f"block {cta.block} has no mbarrier {name!r} at {self.when}; it has: {known}.")

    def barriers(self, block: Block | None = None) -> tuple[Mbarrier, ...]:
        """The valid mbarriers of a CTA, or of all. Errors: TraceError."""
        chosen = self._ctas.values() if block is None else [self._cta(block)]
        return tuple(barrier for cta in chosen for barrier in cta.barriers)

    def _cta(self, block: Block) -> CtaMemory:
        wanted = block_of(block)
        found = self._ctas.get(wanted)
        if found is None:
            known = ", ".join(map(str, self._ctas)) or "none"
            raise TraceError(f"block {wanted} was not running at {self.when}; those that were: {known}.")
        return found

    def _range(self, name: str | int, limit: int) -> tuple[int, int]:
        if isinstance(name, str):
            return find_variable(self.variables, name)
        if not 0 <= name < max(limit, 1):
            raise TraceError(f"byte {name} is none of the CTA's {limit} bytes of shared memory.")
        return name, limit

    def with_barriers_called(self, names: Mapping[tuple[int, int], str | None]) -> Snapshot:
        """The same snapshot with mbarriers of other names, by (rank, offset)."""
        ctas = [
            replace(
                cta,
                barriers=tuple(replace(b, name=names.get((b.rank, b.offset), b.name)) for b in cta.barriers),
            )
            for cta in self._ctas.values()
        ]
        return Snapshot(self.event, ctas, self.variables, kernel=self.kernel, error=self.error)

    # --- two of them ----------------------------------------------------------------------------------------

    def difference(self, other: Snapshot) -> SnapshotDifference:
        """The changes from this snapshot to another, later one of the same launch."""
        rows: list[tuple[str, str, str]] = []
        for block in dict.fromkeys((*self.blocks, *other.blocks)):
            one, two = self._ctas.get(block), other._ctas.get(block)
            if one is None or two is None:
                rows.append((str(block), "CTA", "has started" if one is None else "has ended"))
                continue
            rows += [(str(block), "shared memory", text) for text in self._changed_bytes(one, two)]
            rows += [(str(block), "tensor memory", text) for text in _changed_cells(one, two)]
            rows += [(str(block), "mbarrier", text) for text in _changed_barriers(one, two)]
        return SnapshotDifference(self, other, tuple(rows))

    def _changed_bytes(self, one: CtaMemory, two: CtaMemory) -> list[str]:
        """The ranges of shared memory that changed; what lies close together in one variable is one range."""
        old, new = one.shared_written, two.shared_written
        changed = (old != new) | (old & new & (one.shared != two.shared))
        edges = {edge for place in self.variables.values() for edge in place}
        ranges: list[tuple[int, int]] = []
        for first, stop in runs_of(changed):
            if ranges and first - ranges[-1][1] < _CLOSE and not edges & {*range(ranges[-1][1], first + 1)}:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((first, stop))
        rows = []
        for first, stop in ranges:
            part = slice(first, stop)
            text = f"bytes {first} to {stop - 1}{self._near(first)}: {int(changed[part].sum())} changed"
            if fresh := int((new & ~old)[part].sum()):
                text += f", {fresh} of them not written before"
            if stale := int((old & ~new)[part].sum()):
                text += f", {stale} of them no longer to be read"
            rows.append(text)
        return rows

    def _near(self, offset: int) -> str:
        around = [(b - a, name, a) for name, (a, b) in self.variables.items() if a <= offset < b]
        if not around:
            return ""
        _, name, first = min(around)
        return f" ({name}+{offset - first})" if offset > first else f" ({name})"

    # --- how it is told -------------------------------------------------------------------------------------

    @property
    def when(self) -> str:
        """Of which event it is."""
        if self.event is not None:
            return f"event {self.event.index}"
        return "the end of the launch"

    @property
    def title(self) -> str:
        """When it was, in one line."""
        what = f"{self.kernel or 'a kernel'} at {self.when}"
        if self.event is not None:
            return f"{what} (line {self.event.line}, {self.event})"
        return f"{what}, {self.error.splitlines()[0]}" if self.error else what

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for cta in self._ctas.values():
            written = int(cta.shared_written.sum())
            text = f"{written} of {len(cta.shared)} bytes of shared memory written"
            if cta.columns and cta.cells_written is not None:
                columns = ", ".join(f"{first} to {first + n - 1}" for first, n in cta.columns)
                text += f"; tensor memory: columns {columns}, {int(cta.cells_written.sum())} cells written"
            rows.append((str(cta.block), text))
            rows += [("", str(barrier)) for barrier in cta.barriers]
        return rows

    def __str__(self) -> str:
        return f"{self.title}\n{text_table(('block', 'holds'), _cut(self._rows()))}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(("block", "holds"), _cut(self._rows()), self.title)


class Replayer(Protocol):
    """The object that runs a launch again, for snapshots."""

    def snapshots(self, events: Sequence[Event], *, end: bool, memory: bool) -> dict[int | None, Snapshot]:
        """The memories right after some events, and at the end under None; `memory` as its recorder had it.

        Errors: TraceError where the launch does not do the same again.
        """


class SnapshotDifference:
    """The changes from one snapshot to another: rows of (CTA, memory, change)."""

    def __init__(self, first: Snapshot, second: Snapshot, rows: tuple[tuple[str, str, str], ...]) -> None:
        self.first = first
        self.second = second
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def title(self) -> str:
        """Which two snapshots they are."""
        changes = number(len(self.rows), "change") if self.rows else "nothing changed"
        return f"from {self.first.when} to {self.second.when}: {changes}"

    def __str__(self) -> str:
        return f"{self.title}\n{text_table(_HEAD, _cut(self.rows))}" if self.rows else self.title

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(_HEAD, _cut(self.rows), self.title)


_HEAD = ("block", "memory", "what changed")


def find_variable(variables: Mapping[str, tuple[int, int]], name: str) -> tuple[int, int]:
    """The bytes of a shared variable, `"tile"`, or from a place in it on, `"tile+1024"`.

    Errors: TraceError, with the names there are.
    """
    base, plus, distance = name.partition("+")
    found = variables.get(name) or variables.get(base)
    if found is None or (plus and not distance.isdecimal()):
        known = ", ".join(f"{n!r} ({b - a} bytes)" for n, (a, b) in variables.items()) or "none"
        raise TraceError(f"there is no shared variable {name!r}; the variables are: {known}.")
    first, stop = found
    if name not in variables and plus:
        first += int(distance)
    if first >= max(stop, 1):
        raise TraceError(f"{name!r} lies past the end of {base}, which has {stop - found[0]} bytes.")
    return first, stop


def _numpy(given: Any) -> tuple[np.dtype[Any], DType | None]:
    """The NumPy dtype of PTX's name, of a `DType` or of NumPy's own, and the type if that holds codes.

    Errors: TraceError.
    """
    if isinstance(given, str) and given.removeprefix(".") in DTYPES:
        given = DTYPES[given.removeprefix(".")]  # NumPy's "f16" is another type
    if isinstance(given, DType):
        return given.numpy, given if given.coded else None
    try:
        found: np.dtype[Any] = np.dtype(given)
    except TypeError:
        raise TraceError(f"{given!r} is no type; write one of NumPy's, or {', '.join(DTYPES)}.") from None
    return found, None


def runs_of(marks: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, stop) of each run of True.

    >>> runs_of(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marks.view(np.int8), [0]])))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2)]


def _changed_cells(one: CtaMemory, two: CtaMemory) -> list[str]:
    found = [
        f"columns {first} to {first + n - 1} {what}"
        for held, other, what in ((two, one, "allocated"), (one, two, "freed"))
        for first, n in held.columns
        if (first, n) not in other.columns
    ]
    nothing = np.zeros((LANES, COLUMNS), dtype=np.uint32)
    a, b = (nothing if cta.cells is None else cta.cells for cta in (one, two))
    old, new = (nothing != 0 if cta.cells_written is None else cta.cells_written for cta in (one, two))
    changed = (old != new) | (old & new & (a != b))
    for first, stop in runs_of(changed.any(axis=0)):
        lanes = np.flatnonzero(changed[:, first:stop].any(axis=1))
        cells = number(int(changed[:, first:stop].sum()), "cell")
        found.append(f"lanes {lanes[0]} to {lanes[-1]}, columns {first} to {stop - 1}: {cells} changed")
    return found


def _changed_barriers(one: CtaMemory, two: CtaMemory) -> list[str]:
    old = {barrier.offset: barrier for barrier in one.barriers}
    new = {barrier.offset: barrier for barrier in two.barriers}
    found = []
    for offset in sorted(old.keys() | new.keys()):
        was, now = old.get(offset), new.get(offset)
        if now is None:
            found.append(f"{was} (was; invalidated)")
        elif was is None:
            found.append(f"{now} (new)")
        elif was != now:
            found.append(f"{now} (was: phase {was.phase}, {was.pending} and {number(was.tx, 'byte')})")
    return found


def _cut(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """At most so many rows, and how many are left out."""
    if len(rows) <= _SHOWN:
        return list(rows)
    left = number(len(rows) - _SHOWN, "row")
    return [*rows[:_SHOWN], (*[""] * (len(rows[0]) - 1), f"... {left} more ...")]
