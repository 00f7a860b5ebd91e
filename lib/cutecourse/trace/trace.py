"""A recorded launch: its events in order, filters over them, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutecourse.trace import export, history
from cutecourse.trace.event import KINDS, Event, TraceError, plain
from cutecourse.trace.words import html_table, number, place, text_table, words

__all__ = ["Trace"]

_SHOWN_ROWS = 200
_HEAD = ("#", "time", "CTA", "warp", "line", "event")


@dataclass(frozen=True, repr=False)
class Trace:
    """The events of one launch, oldest first, and which launch it was.

    Filters (`of`, `where`) give a smaller trace, in which events keep their index. Times count the
    instructions that the machine had issued: they order events, and tell nothing of a GPU's time.
    """

    events: tuple[Event, ...]
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
    device: str = "emulator"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def _with(self, keep: Callable[[Event], bool]) -> Trace:
        return replace(self, events=tuple(event for event in self.events if keep(event)))

    def of(self, *kinds: str) -> Trace:
        """The events of these kinds; a prefix takes the whole family.

        `of("mbarrier")` keeps `mbarrier.init`, `mbarrier.arrive` and so on.
        Errors: TraceError for a word that is neither.
        """
        taken = {known for word in kinds for known in KINDS if known == word or known.startswith(f"{word}.")}
        for word in kinds:
            if not any(known == word or known.startswith(f"{word}.") for known in KINDS):
                raise TraceError(f"there are no events {word!r}; the kinds are {', '.join(KINDS)}.")
        return self._with(lambda event: event.kind in taken)

    def where(
        self,
        *,
        rank: int | None = None,
        cluster: int | None = None,
        warp: int | None = None,
        barrier: str | int | None = None,
        line: int | None = None,
    ) -> Trace:
        """The events that happened there.

        rank, cluster  the CTA of the thread (of the memory, for bytes that land) and its cluster.
        barrier        a variable's name (`"full"`, `"full+8"`) or an offset into shared memory.
        """

        def keep(event: Event) -> bool:
            here = {"rank": event.rank, "cluster": event.cluster, "warp": event.warp, "line": event.line}
            asked = {"rank": rank, "cluster": cluster, "warp": warp, "line": line}
            if any(value is not None and here[name] != value for name, value in asked.items()):
                return False
            if barrier is None:
                return True
            its = event.data.get("barrier")
            return its is not None and barrier == its["name" if isinstance(barrier, str) else "offset"]

        return self._with(keep)

    def named(self, **offsets: int) -> Trace:
        """The same trace with barriers called by names of one's own: `trace.named(full=8192, empty=8200)`.

        A barrier is named by its offset in shared memory, the same in every CTA. A compiler that lays shared
        memory out itself leaves no names behind: its barriers are called by their place in one variable.
        Errors: TraceError for an offset at which the trace has no barrier.
        """
        names = {offset: name for name, offset in offsets.items()}
        events = []
        for event in self.events:
            barrier = event.data.get("barrier")
            if barrier is not None and barrier["offset"] in names:
                renamed = {**barrier, "name": names[barrier["offset"]]}
                event = replace(event, data={**event.data, "barrier": renamed})
            events.append(event)
        found = {event.data["barrier"]["offset"] for event in events if event.data.get("barrier") is not None}
        for name, offset in offsets.items():
            if offset not in found:
                known = ", ".join(map(str, sorted(found))) or "none"
                raise TraceError(f"{name}: no barrier lies at offset {offset}; there is one at: {known}.")
        return replace(self, events=tuple(events))

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
            )
        except (KeyError, TypeError, ValueError) as error:
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

    @property
    def title(self) -> str:
        """The launch in one line, with the number of events."""
        cluster = "" if self.cluster == (1, 1, 1) else f", cluster {self.cluster}"
        return (
            f"{self.kernel or 'a kernel'} on the {self.device}: grid {self.grid}, block {self.block}"
            f"{cluster}, seed {self.seed}, {number(len(self), 'event')}"
        )

    def table(self, limit: int | None = None) -> str:
        """The events in plain text, one a line; with a limit, the first and the last ones."""
        return f"{self.title}\n{text_table(_HEAD, self._rows(limit))}"

    def __str__(self) -> str:
        return self.table(_SHOWN_ROWS)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows(_SHOWN_ROWS), self.title)

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
    return (str(event.index), str(event.time), cta, place(event.warp, event.lane), line, words(event))


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
