"""Answer the script of the playground for PTX; the built page calls this in the reader's browser."""

from __future__ import annotations

import json
from typing import Any

from cutecourse.page import widgets
from cutecourse.playground import Playground, read
from cutecourse.trace import Trace
from cutecourse.widgets import BarrierTimeline
from cutecourse.widgets.errors import WidgetError

__all__ = ["Answer", "answer"]

_playground = Playground()
_drawn: list[BarrierTimeline] = []
"""The timeline that the page shows."""
_MOST_EVENTS = 2000
"""Events of a long launch that are drawn: the last ones."""


class Answer:
    """Plain data for the page's script, and for a launch with barriers its timeline as a widget."""

    def __init__(self, data: dict[str, Any], timeline: BarrierTimeline | None = None) -> None:
        self.data, self.timeline = data, timeline

    def __repr__(self) -> str:
        return f"Answer({', '.join(self.data)})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = {} if self.timeline is None else widgets.show(self.timeline)
        return {"text/plain": repr(self), **bundle, "application/json": self.data}, {}


def answer(question: str) -> Answer:
    """The answer to a question of the page: JSON with `ask` and more.

    `ask` is "read", "run", "explore", "prove" or "file". "read" has `text` and `entry`, "file" the `name` of
    an array of the last launch; the others are requests of `Playground`.
    """
    asked = json.loads(question)
    match asked["ask"]:
        case "read":
            return Answer(read(asked["text"], asked.get("entry")))
        case "explore":
            return Answer(_playground.explore(asked))
        case "prove":
            return Answer(_playground.prove(asked))
        case "file":
            return Answer({"base64": _playground.file(asked["name"])})
    data = _playground.run(asked)
    while _drawn:
        widgets.forget(_drawn.pop())
    timeline, data["about_timeline"] = _timeline(_playground.trace, _playground.end)
    if timeline is not None:
        _drawn.append(timeline)
    return Answer(data, timeline)


def _timeline(trace: Trace | None, end: str) -> tuple[BarrierTimeline | None, str]:
    """The timeline of a launch, and what it leaves out; or the reason why there is none."""
    if trace is None or not trace.events:
        return (
            None,
            "The kernel has no barrier, no asynchronous copy and no wait, so there is nothing to draw.",
        )
    count, last = len(trace.events), trace.events[-1]
    start = trace.events[max(0, count - _MOST_EVENTS)].time
    for part, left_out in (
        (trace, ""),
        (
            trace.where(cluster=0),
            "The launch has too many events to draw. The timeline shows only the first cluster's events.",
        ),
        (
            trace.where(time=range(start, last.time + 1)),
            f"The launch has too many events to draw. The timeline starts at instruction {start}.",
        ),
    ):
        try:
            return BarrierTimeline(part, end=end), left_out
        except WidgetError as error:
            reason = str(error)
    return None, reason
