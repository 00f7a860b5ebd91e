"""A recorded launch as the timeline takes it: checked once, and small enough to travel with a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cutecourse.trace import Event, Trace, TraceError
from cutecourse.widgets.errors import WidgetError

MAX_EVENTS = 4000
_DYNAMIC = re.compile(r"^__dynamic_shmem__\d+")  # what the DSL's compiler calls dynamic shared memory


def read_trace(given: Any, *, most: int | None = MAX_EVENTS) -> Trace:
    """A `Trace` from a trace, its snapshot, or anything that has one as `.trace` (a run).

    `most` is how many events it may hold, None for any number.
    Errors: WidgetError, saying what to give instead.
    """
    trace = given
    if not isinstance(given, Trace | Mapping) and isinstance(getattr(given, "trace", None), Trace):
        trace = given.trace
    if isinstance(trace, Mapping):
        try:
            trace = Trace.from_snapshot(trace)
        except TraceError as error:
            raise WidgetError(str(error)) from error
    if not isinstance(trace, Trace):
        raise WidgetError(
            f"{type(given).__name__} is neither a trace nor the snapshot of one; "
            'take `run(kernel, device="emulator", trace=True).trace`.'
        )
    if not trace.events:
        raise WidgetError(
            "The trace holds no event: the kernel has no barrier, no asynchronous copy and no wait, "
            "or a filter has left nothing."
        )
    # Loads and stores are too many to be seen on a time axis.
    others = tuple(event for event in trace if not event.kind.startswith("memory."))
    short = by_warp(replace(trace, events=others))
    if most is not None and len(short) > most:
        raise WidgetError(
            f"The trace holds {len(short)} events; up to {most} are drawn. "
            "Take a part: trace.where(cluster=0), trace.of('mbarrier', 'tma')."
        )
    return short


def by_warp(trace: Trace) -> Trace:
    """The trace with the arrivals of one warp's lanes by one instruction as one event, the first of them.

    It counts them all, says how many `lanes` they were, and has the state after the last. Arrivals at a
    barrier of which something else happened in between stay apart.
    """
    events: list[Event | None] = list(trace)
    latest: dict[tuple[int, int, int], int] = {}  # where the last event of each barrier stands
    for at, event in enumerate(trace):
        barrier = event.data.get("barrier")
        if barrier is None:
            continue
        key = (event.cluster, barrier["rank"], barrier["offset"])
        first = events[latest[key]] if key in latest else None
        if (
            first is not None
            and event.kind == first.kind == "mbarrier.arrive"
            and (event.time, event.rank, event.warp, event.line)
            == (first.time, first.rank, first.warp, first.line)
            and event.warp is not None
        ):
            data = {
                **first.data,
                "count": first["count"] + event["count"],
                "dropped": first["dropped"] + event["dropped"],
                "lanes": first.data.get("lanes", 1) + 1,
                "state": event["state"],
            }
            events[latest[key]] = replace(first, lane=None, data=data)
            events[at] = None
        else:
            latest[key] = at
    return replace(trace, events=tuple(event for event in events if event is not None))


def named(trace: Trace, names: Mapping[str | int, str]) -> Trace:
    """The trace with other names for its barriers, and short ones for places in dynamic shared memory.

    Errors: WidgetError, for a name or an offset that no barrier has.
    """
    known: set[str | int] = set()
    events = []
    for event in trace:
        barrier = event.data.get("barrier")
        if barrier is not None:
            old, offset = barrier.get("name"), barrier["offset"]
            known |= {offset, *([old] if old else [])}
            new = names.get(offset, names.get(old, _DYNAMIC.sub("smem", old or "") or None))
            if new != old:
                event = replace(event, data={**event.data, "barrier": {**barrier, "name": new}})
        events.append(event)
    if strangers := [name for name in names if name not in known]:
        raise WidgetError(
            f"No barrier of the trace has the name or offset {strangers[0]!r}; it has "
            f"{', '.join(map(repr, sorted(known, key=str))) or 'no barrier'}."
        )
    return replace(trace, events=tuple(events))


def barrier_name(event: Event) -> str:
    """The name of an event's barrier as the timeline shows it."""
    barrier = event["barrier"]
    return str(barrier.get("name") or f"shared 0x{barrier['offset']:x}")


def of_barrier(trace: Trace, name: str) -> Trace:
    """The events of barriers of one name, and of the transfers that report to them; all events for ""."""
    if not name:
        return trace
    own = [event for event in trace if event.data.get("barrier") and barrier_name(event) == name]
    chosen = {event.index for event in own}
    transfers = {event.index for event in own if event.kind == "tma.issue"}
    chosen |= {event.index for event in trace if event.data.get("transfer") in transfers}
    return replace(trace, events=tuple(event for event in trace if event.index in chosen))


def _drawn(event: Event, name: str) -> bool:
    if name == "touches" or event.kind != "mma.issue":
        return name != "touches"
    # An address in tensor memory has 32 bits; a descriptor's bits above those hold its stride and version.
    return bool(event["a"] < 1 << 32) if name == "a" else name not in {"b", "idesc"}


def compact(trace: Trace) -> dict[str, Any]:
    """The trace as lists, each word, CTA and barrier once; `js/timeline.js` reads it.

    An event is `[index, kind, time, cta, warp, lane, line, data]`, where kind and cta count in `kinds` and
    `ctas`; in its data a barrier counts in `barriers`, a state is `[phase, pending, tx]`, and what is None is
    left out. So are the descriptors of an MMA, which are not drawn and need more bits than a number has
    there; A's address in tensor memory stays.
    """
    kinds: dict[str, int] = {}
    ctas: dict[tuple[int, int], tuple[int, list[int]]] = {}
    barriers: dict[tuple[int, int, int], tuple[int, Any]] = {}
    events = []
    for event in trace:
        kind = kinds.setdefault(event.kind, len(kinds))
        cta, _ = ctas.setdefault((event.cluster, event.rank), (len(ctas), list(event.block)))
        data = {
            name: value for name, value in event.data.items() if value is not None and _drawn(event, name)
        }
        if (barrier := data.get("barrier")) is not None:
            key = (event.cluster, barrier["rank"], barrier["offset"])
            data["barrier"], _ = barriers.setdefault(key, (len(barriers), barrier.get("name")))
        if (state := data.get("state")) is not None:
            data["state"] = [state["phase"], state["pending"], state["tx"]]
        events.append([event.index, kind, event.time, cta, event.warp, event.lane, event.line, data])
    return {
        "kernel": trace.kernel,
        "where": trace.device,
        "grid": list(trace.grid),
        "block": list(trace.block),
        "cluster": list(trace.cluster),
        "seed": trace.seed,
        "kinds": list(kinds),
        "ctas": [[cluster, rank, block] for (cluster, rank), (_, block) in ctas.items()],
        "barriers": [[*key, name] for key, (_, name) in barriers.items()],
        "events": events,
    }
