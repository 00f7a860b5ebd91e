"""A trace in Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

What stands for what:

process      a CTA with its place in the grid and in its cluster.
thread       a warp; and in each CTA the units that work beside the warps: `TMA` (copies that it issued), `TMA
             writes` (bytes that land in its shared memory), `tensor core`, `commits`, and `barriers` (what
             happens to its barriers without a thread that does it). Where the slices of one thread would
             overlap without nesting, those that come later are in a second row, `TMA (2)`.
slice        a wait from its first try to where the warp went on, of length 1 at least; a transfer from its
             issue to the last byte; an MMA from its issue to its end; a commit until it has arrived. A slice
             of length 1 on a warp is where it issued one of these.
instant      everything else, such as an arrival; more than four of one time and place are one instant.
counter      of each barrier, in the CTA where it lies, how many arrivals and bytes its phase still lacks.
flow         an arrow from the instruction that issued a transfer to the transfer and on to where its bytes
             landed last; from the issue of an MMA to the MMA and on to the commit that tells of it.

Times: the format counts microseconds. Here one of them is one instruction that the emulator issued: an order,
no duration on a GPU. The file says so itself, in `otherData`.

Source: "Trace Event Format", the document of the Chromium project that describes the JSON (its sections JSON
        Object Format, Complete, Instant, Counter, Metadata and Flow Events).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from cutecourse.trace.event import Event
from cutecourse.trace.history import histories, transfers, waits
from cutecourse.trace.recorded_launch import RecordedLaunch
from cutecourse.trace.words import barrier_name, number

__all__ = ["TIME_UNIT", "drawn_arrows", "save_chrome", "to_chrome"]

TIME_UNIT = "1 us in this file is 1 instruction that the emulator issued: an order, no duration on a GPU"

_BESIDE_WARPS = ("TMA", "TMA writes", "tensor core", "commits", "barriers")
_MOST_INSTANTS = 4
_ISSUES = ("tma.issue", "mma.issue", "mma.commit")
# Slices of their own say these: a wait's tries and its end, and bytes that land.
_IN_SLICES = (
    "mbarrier.resume",
    "bulk.resume",
    "cluster.resume",
    "barrier.resume",
    "registers.resume",
    "wgmma.resume",
    "tma.land",
    "mma.complete",
)

_Cta = tuple[int, int]
_Unit = tuple[_Cta, int | str]
"""A CTA's thread of the file: a warp by its number, or one of `_BESIDE_WARPS`."""


def to_chrome(launch: RecordedLaunch) -> dict[str, Any]:
    """The trace as the format's JSON object: `traceEvents` and what is said about them.

    Units:      `ts` and `dur` in instructions issued (`TIME_UNIT`).
    Simplified: a wait, transfer or MMA that the trace does not see the end of lasts until the trace's end;
                its `args` say so.
    """
    return _Export(launch).document()


def save_chrome(launch: RecordedLaunch, path: str | Path) -> Path:
    """Write `to_chrome(launch)` to a file, compressed if its name ends in `.gz`, and return its path."""
    path = Path(path)
    text = json.dumps(to_chrome(launch), allow_nan=False, separators=(",", ":"))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def drawn_arrows(launch: RecordedLaunch) -> list[tuple[int, str, int, str]]:
    """The arrows of the file: begin and name of the slice that each leaves, and of the one it leads to."""
    return [
        (one.begin, one.name, other.begin, other.name)
        for _, _, way in _Export(launch).flows
        for (_, one), (_, other) in pairwise(way)
    ]


class _Slice:
    """Something that lasts: where it is shown is known once all slices of its unit are."""

    def __init__(self, unit: _Unit, name: str, begin: int, end: int, cat: str, args: dict[str, Any]) -> None:
        self.unit, self.name, self.begin, self.end = unit, name, begin, end
        self.cat, self.args = cat, args
        self.row = 0


class _Export:
    def __init__(self, launch: RecordedLaunch) -> None:
        self.launch = launch
        self.end = max((event.time for event in launch), default=0) + 1
        self.slices: list[_Slice] = []
        self.flows: list[tuple[str, str, list[tuple[int, _Slice]]]] = []
        self.instants: list[tuple[_Unit, str, int, str, dict[str, Any]]] = []
        self.counters: list[tuple[_Cta, str, int, str, int]] = []
        self.issuing: dict[int, _Slice] = {}
        """The slice on a warp in which an event was issued, by the event's index."""
        self.committed: dict[int, _Slice] = {}
        """The slice of the first commit that waits for an MMA, by the index of the MMA's issue."""
        self.arrived: dict[int, _Unit] = {}
        """Arrivals that a commit brings about, by their index: they happen in no thread."""

        self._issues()
        self._waits()
        self._transfers()
        self._commits()
        self._mmas()
        self._rest()
        self._counters()

    # --- what lasts ---------------------------------------------------------------------------------------

    def _add(self, unit: _Unit, name: str, begin: int, end: int, cat: str, **args: Any) -> _Slice:
        made = _Slice(unit, name, begin, end, cat, args)
        self.slices.append(made)
        return made

    def _of(self, kind: str) -> list[Event]:
        return [event for event in self.launch if event.kind == kind]

    def _issues(self) -> None:
        """One slice for what a warp issues at one time: a flow has to find the slice that it starts in."""
        together: dict[tuple[_Unit, int], list[Event]] = defaultdict(list)
        for event in self.launch:
            if event.kind in _ISSUES:
                together[_unit(event), event.time].append(event)
        for (unit, time), events in together.items():
            name = _several([_short(event) for event in events])
            made = self._add(unit, name, time, time + 1, "issue", **_about(*events))
            self.issuing.update((event.index, made) for event in events)

    def _waits(self) -> None:
        for wait in waits(self.launch):
            unit = ((wait.cluster, wait.rank), "barriers" if wait.warp is None else wait.warp)
            over = wait.end is not None
            end = self.end if wait.end is None else wait.end
            name = f"wait for {wait.what}" if over else f"wait for {wait.what}, which does not end"
            args: dict[str, Any] = {"line": wait.line, "tries": wait.tries, "ended": over}
            if wait.lane is not None:
                args["lane"] = wait.lane
            # Without a length Perfetto would take it last of its time, and give it the flow of an issue.
            self._add(unit, name, wait.begin, max(end, wait.begin + 1), "wait", **args)

    def _transfers(self) -> None:
        for transfer in transfers(self.launch):
            issue = transfer.issue
            if issue.data["operation"] == "prefetch":  # it moves nothing that a trace sees arrive
                continue
            cta, last = (issue.cluster, issue.rank), transfer.last
            end = max((time for time in (last, transfer.read) if time is not None), default=None)
            moved = sum(landing.bytes for landing in transfer.landings)
            expected = issue.data["bytes"] * len(issue.data["destinations"])
            over = moved >= expected if issue.data["destinations"] else transfer.read is not None
            shown = self.end if end is None or not over else end + 1
            name = _short(issue)
            made = self._add((cta, "TMA"), name, issue.time, shown, "tma", **_about(issue), ended=over)
            writes: dict[int, _Slice] = {}
            for landing in transfer.landings:
                written = writes.get(landing.rank)
                if written is None:
                    unit: _Unit = ((issue.cluster, landing.rank), "TMA writes")
                    written = writes[landing.rank] = self._add(
                        unit, name, landing.time, landing.time + 1, "tma", transfer=issue.index, bytes=0
                    )
                written.end = landing.time + 1
                written.args["bytes"] += landing.bytes
            start = (issue.time, self.issuing[issue.index])
            ways = [[start, (issue.time, made), (way.end - 1, way)] for way in writes.values()]
            for number_, way in enumerate(ways or [[start, (issue.time, made)]]):
                self.flows.append((f"tma {issue.index}.{number_}", "transfer", way))

    def _commits(self) -> None:
        """A commit lasts until its last arrival; those of one thread and instruction arrive in order."""
        events = [event for event in self.launch if event.kind == "mma.commit"]
        places = {_thread(event) for event in events}
        arrivals: dict[tuple[Any, ...], dict[int, deque[Event]]] = {place: {} for place in places}
        for event in self._of("mbarrier.arrive"):
            if _thread(event) in places:
                rank = event.data["barrier"]["rank"]
                arrivals[_thread(event)].setdefault(rank, deque()).append(event)
                self.arrived[event.index] = ((event.cluster, rank), "barriers")
        for event in events:
            # Each CTA that a commit tells gets one arrival of it.
            waiting = arrivals[_thread(event)].values()
            mine = [later.popleft() for later in waiting if later and later[0].time >= event.time]
            times = [arrival.time for arrival in mine]
            end = max(times) + 1 if times else self.end
            unit: _Unit = ((event.cluster, event.rank), "commits")
            args = {**_about(event), "arrivals": [arrival.index for arrival in mine], "ended": bool(times)}
            made = self._add(unit, _short(event), event.time, end, "mma", **args)
            self.flows.append(
                (
                    f"commit {event.index}",
                    "commit",
                    [(event.time, self.issuing[event.index]), (event.time, made)],
                )
            )
            for index in event.data["issues"]:
                self.committed.setdefault(index, made)

    def _mmas(self) -> None:
        complete = {event.data["issue"]: event.time for event in self._of("mma.complete")}
        for event in self._of("mma.issue"):
            over = event.index in complete
            done = complete.get(event.index, self.end - 1)
            unit: _Unit = ((event.cluster, event.rank), "tensor core")
            made = self._add(unit, _short(event), event.time, done + 1, "mma", **_about(event), ended=over)
            way = [(event.time, self.issuing[event.index]), (event.time, made)]
            commit = self.committed.get(event.index)
            if over and commit is not None and done < commit.end:
                way.append((max(done, commit.begin), commit))
            self.flows.append((f"mma {event.index}", "mma", way))

    # --- what does not last -------------------------------------------------------------------------------

    def _rest(self) -> None:
        together: dict[tuple[_Unit, int], list[Event]] = defaultdict(list)
        for event in self.launch:
            outcome = event.data.get("outcome", "passed")
            if event.kind in _ISSUES or event.kind in _IN_SLICES or outcome != "passed":
                continue
            if event.kind == "barrier.wait":  # it has no outcome: the resume that follows ends a slice
                continue
            together[self.arrived.get(event.index, _unit(event)), event.time].append(event)
        for (unit, time), events in together.items():
            # A viewer puts the instants of one time below each other: of many it would make a tower.
            for group in [events] if len(events) > _MOST_INSTANTS else [[event] for event in events]:
                self.instants.append((unit, _name(group), time, group[0].kind, _about(*group)))

    def _counters(self) -> None:
        offsets: dict[tuple[_Cta, str], set[int]] = defaultdict(set)
        barriers = histories(self.launch)
        for history in barriers:
            offsets[(history.cluster, history.rank), _barrier(history.name, history.offset)].add(
                history.offset
            )
        for history in barriers:
            cta = (history.cluster, history.rank)
            name = _barrier(history.name, history.offset)
            if len(offsets[cta, name]) > 1:
                name += f" at {history.offset:#x}"
            counts_bytes = any(state.tx for state in history.states)
            for state in history.states:
                self.counters.append(
                    (cta, f"{name}: arrivals pending", state.time, "arrivals", state.pending)
                )
                if counts_bytes:
                    self.counters.append((cta, f"{name}: tx-count", state.time, "bytes", state.tx))
            if history.end is not None:
                self.counters.append((cta, f"{name}: arrivals pending", history.end, "arrivals", 0))

    # --- the file -----------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Everything in the format's words."""
        self._rows()
        pids = self._pids()
        tids = self._tids(pids)
        events = [*self._names(pids, tids)]
        # A reader takes the events of one time as they stand, and binds a flow to the slice or instant that
        # began last on its thread: so slices come first, those that flows start in last, then the flows.
        events += [
            {
                "ph": "X",
                "name": one.name,
                "cat": one.cat,
                "ts": one.begin,
                "dur": one.end - one.begin,
                "pid": pids[one.unit[0]],
                "tid": tids[one.unit, one.row],
                "args": one.args,
            }
            for one in sorted(self.slices, key=_issues_last)
        ]
        # Perfetto reads an identifier that is text as a hexadecimal number, so it is a number here.
        for identifier, (label, name, way) in enumerate(self.flows, 1):
            for step, (time, one) in enumerate(way):
                made = {
                    "ph": "s" if step == 0 else "f" if step == len(way) - 1 else "t",
                    "name": name,
                    "cat": "flow",
                    "id": identifier,
                    "ts": time,
                    "pid": pids[one.unit[0]],
                    "tid": tids[one.unit, one.row],
                    "args": {"flow": label},
                }
                if made["ph"] == "f":
                    made["bp"] = "e"  # to the slice around it, not to the next one
                events.append(made)
        for unit, name, time, kind, args in self.instants:
            events.append(
                {
                    "ph": "i",
                    "s": "t",
                    "name": name,
                    "cat": kind.partition(".")[0],
                    "ts": time,
                    "pid": pids[unit[0]],
                    "tid": tids[unit, 0],
                    "args": args,
                }
            )
        for cta, name, time, series, value in self.counters:
            events.append(
                {
                    "ph": "C",
                    "name": name,
                    "cat": "barrier",
                    "ts": time,
                    "pid": pids[cta],
                    "tid": tids[(cta, "barriers"), 0],
                    "args": {series: value},
                }
            )
        launch = self.launch
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {
                "timeUnit": TIME_UNIT,
                "title": launch.title,
                "kernel": launch.kernel,
                "device": launch.device,
                "grid": str(launch.grid),
                "block": str(launch.block),
                "cluster": str(launch.cluster),
                "seed": launch.seed,
                "events": len(launch),
            },
        }

    def _rows(self) -> None:
        """Give each slice a row of its unit in which it nests; beside warps, one in which it stands alone."""
        units: dict[_Unit, list[_Slice]] = defaultdict(list)
        for one in self.slices:
            units[one.unit].append(one)
        for unit, slices in units.items():
            nested = not isinstance(unit[1], str)
            rows: list[list[int]] = []
            for one in sorted(slices, key=_outer_first):
                one.row = next((row for row, ends in enumerate(rows) if _fits(one, ends, nested)), len(rows))
                if one.row == len(rows):
                    rows.append([])
                rows[one.row].append(one.end)

    def _units(self) -> set[tuple[_Unit, int]]:
        used = {(one.unit, one.row) for one in self.slices}
        used |= {(unit, 0) for unit, *_ in self.instants}
        used |= {((cta, "barriers"), 0) for cta, *_ in self.counters}
        return used

    def _pids(self) -> dict[_Cta, int]:
        """Processes by the CTA's place: 0 is the idle process of a system's trace."""
        return {cta: 1 + place for place, cta in enumerate(sorted({unit[0] for unit, _ in self._units()}))}

    def _tids(self, pids: dict[_Cta, int]) -> dict[tuple[_Unit, int], int]:
        """Threads, each number once in the file and none a process's, as on a real system."""

        def order(used: tuple[_Unit, int]) -> tuple[Any, ...]:
            (cta, who), row = used
            beside = isinstance(who, str)
            return (cta, beside, _BESIDE_WARPS.index(who) if isinstance(who, str) else who, row)

        return {used: len(pids) + 1 + place for place, used in enumerate(sorted(self._units(), key=order))}

    def _names(self, pids: dict[_Cta, int], tids: dict[tuple[_Unit, int], int]) -> Iterable[dict[str, Any]]:
        blocks = {(event.cluster, event.rank): event.block for event in self.launch}
        clustered = self.launch.cluster != (1, 1, 1)
        for cta, pid in pids.items():
            cluster, rank = cta
            name = f"CTA {blocks[cta]}" if cta in blocks else "CTA"
            if clustered or cta not in blocks:
                name += f", rank {rank} of cluster {cluster}"
            yield _named("process_name", pid, 0, {"name": name})
            yield _named("process_labels", pid, 0, {"labels": "1 us = 1 instruction issued"})
            yield _named("process_sort_index", pid, 0, {"sort_index": pid})
        for ((cta, who), row), tid in tids.items():
            name = who if isinstance(who, str) else f"warp {who}"
            yield _named("thread_name", pids[cta], tid, {"name": name if row == 0 else f"{name} ({row + 1})"})
            yield _named("thread_sort_index", pids[cta], tid, {"sort_index": tid})


def _outer_first(one: _Slice) -> tuple[int, int]:
    return (one.begin, -one.end)


def _issues_last(one: _Slice) -> tuple[int, bool, int]:
    return (one.begin, one.cat == "issue", -one.end)


def _fits(one: _Slice, ends: list[int], nested: bool) -> bool:
    """Return whether a slice fits into a row in which slices end at `ends`; drop those that have ended."""
    while ends and ends[-1] <= one.begin:
        ends.pop()
    return not ends or (nested and one.end <= ends[-1])


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _unit(event: Event) -> _Unit:
    """Where an event is shown: at its warp, or where the barrier lies or the bytes land."""
    if event.warp is not None:
        return ((event.cluster, event.rank), event.warp)
    barrier = event.data.get("barrier")
    return ((event.cluster, event.rank if barrier is None else barrier["rank"]), _home(event.kind))


def _home(kind: str) -> str:
    return {"tma": "TMA", "bulk": "TMA", "mma": "tensor core"}.get(kind.partition(".")[0], "barriers")


def _thread(event: Event) -> tuple[Any, ...]:
    return (event.cluster, event.rank, event.warp, event.lane, event.line)


def _about(*events: Event) -> dict[str, Any]:
    """The details that a viewer shows when the reader clicks on a slice or an instant."""
    if len(events) > 1:
        return {"events": [event.index for event in events], "what": [str(event) for event in events]}
    (event,) = events
    about: dict[str, Any] = {"event": event.index, "line": event.line}
    if event.lane is not None:
        about["lane"] = event.lane
    # Where in memory an operation works is for filters: a viewer would show it as a long list.
    return {**about, **{name: value for name, value in event.data.items() if name != "touches"}}


def _short(event: Event) -> str:
    """The name of an issue."""
    data = event.data
    if event.kind == "tma.issue":
        name = f"{data['operation']} {data['tensor'] or number(data['bytes'], 'byte')}"
        return f"{name} ({', '.join(map(str, data['coords']))})" if data["coords"] else name
    if event.kind == "mma.issue":
        return f"MMA {data['m']}x{data['n']}x{data['k']}" + (" of both CTAs" if data["group"] == 2 else "")
    return f"commit to {barrier_name(data['barrier'])}"


def _name(events: list[Event]) -> str:
    """The name of an instant: one event in words, several by their kinds."""
    if len(events) == 1:
        return str(events[0])
    return ", ".join(f"{kind} ({count})" for kind, count in Counter(event.kind for event in events).items())


def _several(names: list[str]) -> str:
    """The names of what a warp issued at one time."""
    if len(set(names)) == 1:
        return f"issue {names[0]}" + (f", {len(names)} times" if len(names) > 1 else "")
    shown = list(dict.fromkeys(names))
    return "issue " + ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _barrier(name: str | None, offset: int) -> str:
    return name or f"shared {offset:#x}"
