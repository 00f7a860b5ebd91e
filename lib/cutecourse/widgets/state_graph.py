"""The states of two threads and their mbarriers as a graph to walk in, with one wait to take away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.protocols import Protocol
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.state_paths import follow_way, nearest, shortest_way, state_graph

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure


class StateGraph(CourseWidget):
    """All states that some order of two threads' actions reaches: time to the right, each edge an action.

    `protocol` is a `cutecourse.protocols.Protocol` of two threads. `threads`, `barriers` and `places` name
    its threads, its mbarriers and its words of memory. `without` is the wait to take away, as (thread,
    number of the action), or None.

    Synced with every view: `removed`, the number of the variant (0 lacks nothing, the others lack one wait
    each), and `way`, the way walked from the first state: for each step the digit of the thread that acts.
    Where an order of the variant hangs, a shortest way to that state is drawn.

    Errors: WidgetError, for a protocol of more or fewer threads, for an action that is no wait, and for a way
    that no order can go.
    """

    _esm = module("state_graph.js")
    _css = stylesheet()

    graph = traitlets.Dict().tag(sync=True)
    removed = traitlets.Int(0).tag(sync=True, shared={"index": "graph.variants"})
    way = traitlets.Unicode("").tag(sync=True, shared="text")

    def __init__(
        self,
        protocol: Protocol,
        *,
        threads: Sequence[str] = (),
        barriers: Sequence[str] = (),
        places: Sequence[str] = (),
        without: tuple[int, int] | None = None,
        way: str = "",
        **kwargs: Any,
    ) -> None:
        graph = state_graph(protocol, threads, barriers, places)
        waits = [None if one["removed"] is None else tuple(one["removed"]) for one in graph["variants"]]
        if without not in waits:
            raise WidgetError(f"{without} is no wait of the protocol; its waits are {waits[1:]}.")
        super().__init__(graph=graph, removed=waits.index(without), way=way, **kwargs)

    @property
    def states(self) -> list[dict[str, Any]]:
        """The states of the variant that is shown, nearest first."""
        return list(self.graph["variants"][self.removed]["states"])

    @property
    def state(self) -> dict[str, Any]:
        """The state at the end of the way."""
        return self.states[follow_way(self.states, self.way)[-1]]

    def shortest(self, kind: str) -> str | None:
        """A shortest way to a state of a kind ("deadlock", "race" or "end"); None if no order leads there."""
        target = nearest(self.states, kind)
        return None if target is None else shortest_way(self.states, target)

    @traitlets.validate("removed")
    def _check_removed(self, proposal: Any) -> int:
        number, most = int(proposal["value"]), len(self.graph["variants"]) - 1
        if not 0 <= number <= most:
            raise WidgetError(f"The protocol has {most} waits; there is no variant {number}.")
        return number

    @traitlets.observe("removed")
    def _shorten_way(self, change: Any) -> None:
        self.way = self.way[: len(follow_way(self.states, self.way)) - 1]

    @traitlets.validate("way")
    def _check_way(self, proposal: Any) -> str:
        way = str(proposal["value"])
        if set(way) - {"0", "1"} or len(follow_way(self.states, way)) <= len(way):
            raise WidgetError(f"No order goes the way {way!r}: each digit is a thread, 0 or 1, that can act.")
        return way

    def figure(self) -> PrintFigure:
        """The graph of the variant, with the way walked and a shortest way to a deadlock."""
        from cutecourse.widgets.state_figure import draw_states

        return draw_states(self.graph, self.removed, self.way)

    def _repr_arguments(self) -> list[str]:
        names = " and ".join(one["name"] for one in self.graph["threads"])
        removed = self.graph["variants"][self.removed]["removed"]
        lacks = [] if removed is None else [f"without={tuple(removed)}"]
        return [names, *lacks, f"{len(self.states)} states", f"at {tuple(self.state['at'])}"]
