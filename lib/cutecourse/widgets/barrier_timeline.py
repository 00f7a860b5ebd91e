"""A recorded launch on a time axis: warps, transfers in flight, MMAs, and the phases of every mbarrier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.trace import Event, Trace
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.traces import barrier_name, compact, named, of_barrier, read_trace

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

# With more CTAs than this, one is chosen at first.
ALL_AT_ONCE = 2


class BarrierTimeline(CourseWidget):
    """The events of a launch, one by one: who waited for what, and what each barrier still missed.

    tcgen05.mma of one commit are one bar, from the first issue to the last completion; those with
    .cta_group::2 are in both CTAs of their pair.

    `trace` is a `cutecourse.trace.Trace`, its snapshot, or a run that was traced. `cta` is the CTA that is
    drawn first: its rank, `(cluster, rank)`, or "all"; by default all of up to two CTAs, else the first.
    `barrier` names the only barrier to draw, with the warps and transfers that have to do with it; by default
    all are drawn. `selected` is the event at which the view starts: by default the first that does something
    (an arrival, a transfer, an MMA, a wait that blocks), behind all the initialising.
    `end` is the error the launch ended with, or its text: the picture then says so at its end. `names` gives
    barriers names of your own, by the name they were recorded with or their offset in shared memory; a
    compiler's dynamic shared memory has only offsets.

    Synced with every view: `cta` (`[]` for all, else `[cluster, rank]`), `barrier` ("" for all) and
    `selected`, the index of an event in the launch.

    Errors: WidgetError, for what is no trace, an empty or a very long one, and a CTA or a barrier that it
    knows nothing of.
    """

    _esm = module("barrier_timeline.js")
    _css = stylesheet()

    trace = traitlets.Dict().tag(sync=True)
    cta = traitlets.List(traitlets.Int()).tag(sync=True, shared={"list": [0, 65535], "sizes": [0, 2]})
    barrier = traitlets.Unicode("").tag(sync=True, shared="text")
    selected = traitlets.Int(-1).tag(sync=True, shared=[-1, 1 << 30])
    end = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        trace: Any,
        *,
        cta: int | str | Sequence[int] | None = None,
        barrier: str = "",
        selected: int | None = None,
        end: BaseException | str | None = None,
        names: Mapping[str | int, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._read: Trace = named(read_trace(trace), names or {})
        self._ctas = _ctas(self._read)
        self._last = _last(trace, self._read)
        chosen = self._chosen(cta)
        super().__init__(
            trace=compact(self._read),
            cta=chosen,
            barrier=barrier,
            selected=_beginning(of_barrier(self._read, barrier), chosen) if selected is None else selected,
            end="" if end is None else str(end),
            **kwargs,
        )

    def _chosen(self, cta: Any) -> list[int]:
        if cta is None:
            return [] if len(self._ctas) <= ALL_AT_ONCE else list(self._ctas[0])
        if cta == "all":
            return []
        if isinstance(cta, int) and not isinstance(cta, bool):
            return [self._ctas[0][0], cta]
        return list(cta) if isinstance(cta, Sequence) and not isinstance(cta, str) else [cta]

    @traitlets.validate("cta")
    def _check_cta(self, proposal: Any) -> list[int]:
        chosen = list(proposal["value"])
        if chosen and tuple(chosen) not in self._ctas:
            known = ", ".join(f"({cluster}, {rank})" for cluster, rank in self._ctas)
            raise WidgetError(
                f"The trace has no CTA {tuple(chosen)}; as (cluster, rank) it has {known}. "
                'Write "all" for every one.'
            )
        return chosen

    @traitlets.validate("barrier")
    def _check_barrier(self, proposal: Any) -> str:
        name = str(proposal["value"])
        known = sorted({barrier_name(event) for event in self._read if event.data.get("barrier")})
        if name and name not in known:
            raise WidgetError(f"The trace has no barrier {name!r}; it has {', '.join(known) or 'none'}.")
        return name

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int:
        index = int(proposal["value"])
        if index == -1:
            return index
        # Of the arrivals of a warp's lanes, the first stands for all.
        before = [event.index for event in self._read if event.index <= index]
        if not before or index > self._last:
            raise WidgetError(f"The trace has no event #{index}; look at trace.events for those it has.")
        return before[-1]

    def figure(self) -> PrintFigure:
        """Warps, transfers, MMAs and barriers of the chosen CTA on one time axis, for print."""
        from cutecourse.widgets.timeline_figure import draw_timeline

        chosen = tuple(self.cta) if self.cta else None
        return draw_timeline(of_barrier(self._read, self.barrier), cta=chosen, end=self.end)

    def _repr_arguments(self) -> list[str]:
        parts = [f"{self._read.kernel or 'a kernel'}: {len(self._read)} events"]
        if self.cta:
            parts.append(f"cta={tuple(self.cta)}")
        if self.barrier:
            parts.append(f"barrier={self.barrier!r}")
        if self.end:
            parts.append(f"end={self.end.splitlines()[0]!r}")
        return parts


def _last(given: Any, read: Trace) -> int:
    events = given.events if isinstance(given, Trace) else read.events
    return events[-1].index


_DOES = ("mbarrier.arrive", "mbarrier.expect_tx", "tma.issue", "mma.issue", "wgmma.issue")


def _does(event: Event) -> bool:
    return event.kind in _DOES or (event.kind == "mbarrier.wait" and event["outcome"] == "blocked")


def _beginning(trace: Trace, cta: list[int]) -> int:
    """The index of the first event that does something, of the chosen CTA if any; -1 for none."""
    own = (event for event in trace if not cta or [event.cluster, event.rank] == cta)
    return next((event.index for event in own if _does(event)), -1)


def _ctas(trace: Trace) -> list[tuple[int, int]]:
    """Every (cluster, rank) whose thread did something or whose barrier something happened to."""
    found = {(event.cluster, event.rank) for event in trace}
    found |= {(event.cluster, event.data["barrier"]["rank"]) for event in trace if event.data.get("barrier")}
    return sorted(found)
