"""A recorded launch as the timeline takes it: checked once, and small enough to travel with a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutecourse.trace import Trace, TraceError
from cutecourse.widgets.errors import WidgetError

MAX_EVENTS = 4000


def read_trace(trace: Any) -> Trace:
    """A `Trace` from a trace, its snapshot, or anything that has one as `.trace` (a run).

    Errors: WidgetError, saying what to give instead.
    """
    if not isinstance(trace, Trace | Mapping) and isinstance(getattr(trace, "trace", None), Trace):
        trace = trace.trace
    if isinstance(trace, Mapping):
        try:
            trace = Trace.from_snapshot(trace)
        except TraceError as error:
            raise WidgetError(str(error)) from error
    if not isinstance(trace, Trace):
        raise WidgetError(
            f"{type(trace).__name__} is neither a trace nor the snapshot of one; "
            'take `run(kernel, device="emulator", trace=True).trace`.'
        )
    if not trace.events:
        raise WidgetError(
            "The trace holds no event: the kernel has no barrier, no asynchronous copy and no wait, "
            "or a filter has left nothing."
        )
    if len(trace) > MAX_EVENTS:
        raise WidgetError(
            f"The trace holds {len(trace)} events; up to {MAX_EVENTS} are drawn. "
            "Take a part: trace.where(cluster=0), trace.of('mbarrier', 'tma')."
        )
    return trace


def compact(trace: Trace) -> dict[str, Any]:
    """The trace as lists, each word, CTA and barrier once; `js/timeline.js` reads it.

    An event is `[index, kind, time, cta, warp, lane, line, data]`, where kind and cta count in `kinds` and
    `ctas`; in its data a barrier counts in `barriers`, a state is `[phase, pending, tx]`, and what is None is
    left out.
    """
    kinds: dict[str, int] = {}
    ctas: dict[tuple[int, int], tuple[int, list[int]]] = {}
    barriers: dict[tuple[int, int, int], tuple[int, Any]] = {}
    events = []
    for event in trace:
        kind = kinds.setdefault(event.kind, len(kinds))
        cta, _ = ctas.setdefault((event.cluster, event.rank), (len(ctas), list(event.block)))
        data = {name: value for name, value in event.data.items() if value is not None}
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
