"""A recorded launch: its events in order, filters over them, and what they add up to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutecourse.trace import export, history
from cutecourse.trace.event import KINDS, Event, TraceError, plain
from cutecourse.trace.filters import Numbers, conditions, kinds_named
from cutecourse.trace.recorded_launch import RecordedLaunch
from cutecourse.trace.snapshot import Snapshot
from cutecourse.trace.touches import Touch, touches
from cutecourse.trace.words import Table, number, place

__all__ = ["Trace"]

_SHOWN_ROWS = 200
_HEAD = ("#", "time", "CTA", "warp", "line", "event")


@dataclass(frozen=True, repr=False)
class Trace(RecordedLaunch):
    """A recorded launch that answers questions: filters, histories, snapshots of memory, tables and files.

    Filters (`of`, `where`) give a smaller trace, in which events keep their index. Times count the
    instructions that the machine had issued: they order events, and tell nothing of a GPU's time.
    """

    def _with(self, keep: Callable[[Event], bool]) -> Trace:
        kept = tuple(event for event in self.events if keep(event))
        return replace(self, events=kept, whole=self.all_events)

    def of(self, *kinds: str) -> Trace:
        """The events of these kinds; a prefix takes the whole family, and `"*.wait"` all that match.

        `of("mbarrier")` keeps `mbarrier.init`, `mbarrier.arrive` and so on.
        Errors: TraceError for a word that stands for none.
        """
        taken = kinds_named(*kinds)
        return self._with(lambda event: event.kind in taken)

    def where(
        self,
        *,
        kind: str | Collection[str] | None = None,
        cluster: Numbers | None = None,
        rank: Numbers | None = None,
        block: int | Sequence[int] | None = None,
        warp: Numbers | None = None,
        lane: Numbers | None = None,
        barrier: str | int | None = None,
        line: Numbers | None = None,
        time: Numbers | None = None,
        smem: Any = None,
        tmem: Any = None,
        gmem: Any = None,
    ) -> Trace:
        """The events that all that is given is true of. Numbers are one, or several such as `range(4)`.

        kind           as for `of`; one or several.
        rank, cluster  the CTA of the thread (of the memory, for bytes that land) and its cluster.
        block          the same CTA by its place in the grid: x, (x, y) or (x, y, z).
        warp, lane     of the CTA and of the warp. An event of a whole warp has no lane.
        barrier        a variable's name (`"full"`, `"full+8"`), an offset into shared memory, or an address.
        line, time     of the PTX text; in instructions issued.
        smem           shared memory that the event reads or writes: a variable's name, an offset or a range
                       of them; with the CTA's rank in front, `(1, "tile")`, in that CTA only.
        tmem           tensor memory: a column or a range of them; with lanes in front, `(range(32), 0)`.
        gmem           global memory: the name of a tensor or an argument; `("b", range(64))` in those bytes.
        Errors: TraceError for kinds, names and places that there are none of, with those that there are.

        >>> from cutecourse.trace import Recorder
        >>> recorder = Recorder()
        >>> recorder.begin(kernel="k", grid=(1, 1, 1), block=(64, 1, 1))
        >>> for warp in (0, 1):
        ...     place = dict(cluster=0, rank=0, block=(0, 0, 0), warp=warp, lane=0, line=7 + warp)
        ...     name = dict(rank=0, offset=8 * warp, name=("full", "empty")[warp])
        ...     index = recorder.emit("mbarrier.init", time=warp, barrier=name, count=1, **place)
        >>> print(recorder.trace().where(kind="mbarrier.*", barrier="empty"))
        k on the emulator: grid (1, 1, 1), block (64, 1, 1), seed 0, 1 event
        #  time  CTA  warp  line  event
        1     1    0   1.0     8  mbarrier.init: empty expects 1 arrival
        """
        asked = conditions(
            self,
            kind=kind,
            cluster=cluster,
            rank=rank,
            block=block,
            warp=warp,
            lane=lane,
            barrier=barrier,
            line=line,
            time=time,
            smem=smem,
            tmem=tmem,
            gmem=gmem,
        )
        return self._with(lambda event: all(condition(event) for condition in asked))

    def touches(self, event: Event | int) -> tuple[Touch, ...]:
        """The memory that an event reads or writes. Errors: TraceError for an event of another trace."""
        return touches(self._own(event), {each.index: each for each in self.all_events})

    def named(self, **offsets: int) -> Trace:
        """The same trace with barriers called by names of one's own: `trace.named(full=8192, empty=8200)`.

        A barrier is named by its offset in shared memory, the same in every CTA. A compiler that lays shared
        memory out itself leaves no names behind: its barriers are called by their place in one variable.
        Errors: TraceError for an offset at which the trace has no barrier.
        """
        names = {offset: name for name, offset in offsets.items()}

        def renamed(event: Event) -> Event:
            barrier = event.data.get("barrier")
            if barrier is None or barrier["offset"] not in names:
                return event
            called = {**barrier, "name": names[barrier["offset"]]}
            return replace(event, data={**event.data, "barrier": called})

        events = tuple(renamed(event) for event in self.events)
        found = {event.data["barrier"]["offset"] for event in events if event.data.get("barrier") is not None}
        for name, offset in offsets.items():
            if offset not in found:
                known = ", ".join(map(str, sorted(found))) or "none"
                raise TraceError(f"{name}: no barrier lies at offset {offset}; there is one at: {known}.")
        return replace(self, events=events, whole=tuple(renamed(event) for event in self.whole))

    # --- the memories on the way ----------------------------------------------------------------------------

    def snapshot(self, event: Event | int | None = None) -> Snapshot:
        """The contents of shared memory, tensor memory and mbarriers right after an event, in every CTA.

        event   one of the trace's, or its index; without one, where the launch ended: at its error, if one
                ended it. After a launch that ran to its end no CTA is left.
        Errors: TraceError for an event of another trace, and for a trace that came from a file.

        The launch runs again for it, on copies of its arguments as they were, up to the event. For several
        events at the price of one run take `snapshots`.
        """
        return self.snapshots([event])[0]

    def snapshots(self, events: Iterable[Event | int | None]) -> tuple[Snapshot, ...]:
        """A snapshot of each event, in their order; one more run of the launch for all. See `snapshot`."""
        asked = [None if event is None else self._own(event) for event in events]
        if self.replay is None:
            raise TraceError(
                "this trace was not made by a launch of this process, which would have to run again:"
                " record one with launch(..., recorder=Recorder()) or run(..., trace=True)."
            )
        own = [event for event in asked if event is not None]
        names = {
            (barrier["rank"], barrier["offset"]): barrier["name"]
            for event in self.all_events
            if (barrier := event.data.get("barrier")) is not None
        }
        taken = self.replay.snapshots(own, end=None in asked, memory=self.memory)
        return tuple(
            taken[None if event is None else event.index].with_barriers_called(names) for event in asked
        )

    def _own(self, event: Event | int) -> Event:
        """An event of this launch. Errors: TraceError."""
        known = self.all_events
        if isinstance(event, Event):
            index, where = event.index, "of another trace"
        else:
            index, where = event, "none"
        at = bisect_left(known, index, key=lambda each: each.index)
        found = known[at] if at < len(known) and known[at].index == index else None
        if found is None or (isinstance(event, Event) and found.place != event.place):
            last = known[-1].index if known else "none"
            raise TraceError(f"event {index} is {where}; this trace's last one is {last}.")
        return found

    def barriers(self) -> tuple[history.BarrierHistory, ...]:
        """The life of each mbarrier whose init is in the trace: every state it was in, when."""
        return history.histories(self.events)

    def transfers(self) -> tuple[history.Transfer, ...]:
        """Each asynchronous copy whose issue is in the trace, with the times at which its bytes landed."""
        return history.transfers(self.events)

    def waits(self) -> tuple[history.Wait, ...]:
        """Every wait that did not pass at once, from when to when."""
        return history.waits(self.events)

    def to_snapshot(self) -> dict[str, Any]:
        """The trace as JSON can hold it; what widgets take."""
        return {
            "kernel": self.kernel,
            "where": self.device,
            "grid": list(self.grid),
            "block": list(self.block),
            "cluster": list(self.cluster),
            "seed": self.seed,
            "variables": {name: list(place) for name, place in self.variables.items()},
            "memory": self.memory,
            "events": [event.to_snapshot() for event in self.events],
        }

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any]) -> Trace:
        """The trace that a snapshot was made of. Errors: TraceError for a mapping that is no snapshot."""
        try:
            return cls(
                events=tuple(_event(given) for given in snapshot["events"]),
                kernel=str(snapshot["kernel"]),
                grid=_three(snapshot["grid"]),
                block=_three(snapshot["block"]),
                cluster=_three(snapshot["cluster"]),
                seed=int(snapshot["seed"]),
                device=str(snapshot["where"]),
                variables={name: (a, b) for name, (a, b) in snapshot["variables"].items()},
                memory=bool(snapshot["memory"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(
                f"this is no trace's snapshot ({type(error).__name__}: {error}); make it with to_snapshot()."
            ) from error

    def to_chrome(self) -> dict[str, Any]:
        """The trace in Chrome's trace event format (cutecourse.trace.export), as JSON can hold it."""
        return export.to_chrome(self)

    def save_chrome(self, path: str | Path) -> Path:
        """Write the trace for Perfetto (ui.perfetto.dev) or chrome://tracing; `.gz` compresses it.

        One microsecond in the viewer is one instruction that the emulator issued, no duration on a GPU.
        """
        return export.save_chrome(self, path)

    def table(self, limit: int | None = _SHOWN_ROWS) -> Table:
        """The events, one a row, as text and for a notebook; beyond the limit the first and the last ones.

        How many are left out stands between them. None shows all.
        """
        return Table(self.title, _HEAD, self._rows(limit))

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def _rows(self, limit: int | None) -> list[tuple[str, ...]]:
        clusters = self.grid != self.cluster
        rows = [_row(event, clusters) for event in self.events]
        if limit is None or len(rows) <= limit:
            return rows
        head = -(-limit // 2)
        left_out = ("", "", "", "", "", f"... {number(len(rows) - limit, 'event')} not shown ...")
        return [*rows[:head], left_out, *rows[len(rows) - (limit - head) :]]


def _row(event: Event, several_clusters: bool) -> tuple[str, ...]:
    cta = f"{event.cluster}:{event.rank}" if several_clusters else str(event.rank)
    line = "-" if event.line is None else str(event.line)
    return (str(event.index), str(event.time), cta, place(event.warp, event.lane), line, str(event))


def _event(given: Mapping[str, Any]) -> Event:
    if given["kind"] not in KINDS:
        raise TraceError(f"there is no event {given['kind']!r}; the kinds are {', '.join(KINDS)}.")
    return Event(
        index=given["index"],
        kind=given["kind"],
        time=given["time"],
        cluster=given["cluster"],
        rank=given["rank"],
        block=_three(given["block"]),
        warp=given["warp"],
        lane=given["lane"],
        line=given["line"],
        data=plain(given["data"]),
    )


def _three(given: Any) -> tuple[int, int, int]:
    x, y, z = (int(part) for part in given)
    return x, y, z
