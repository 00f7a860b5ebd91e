"""A pair's roles over time, and who holds each of its accumulators, from a recorded launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.role_steps import roles_snapshot
from cutecourse.widgets.traces import read_trace

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure


class RoleTimeline(CourseWidget):
    """The roles of a persistent tcgen05 kernel over time: loads, MMAs, stores, and the accumulators' holders.

    `trace` is the trace of a launch as `role_moments` wants it, its snapshot, or the run that recorded it.
    `cluster` chooses a pair, or a CTA of a kernel of one SM, by its cluster's number: the first one that
    multiplies unless given. `tiles` is how many of its tiles are shown, all unless given.

    Synced with every view: `selected`, the number of the step. `steps` holds what each step says, and who
    holds each accumulator after it.

    Errors: WidgetError, for what is no trace, for a launch or a cluster without an MMA, for fewer than one
    tile, and for a step that is not there.
    """

    _esm = module("role_timeline.js")
    _css = stylesheet()

    pair = traitlets.Dict().tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True, shared={"index": "pair.steps"})

    def __init__(
        self,
        trace: Any,
        *,
        cluster: int | None = None,
        tiles: int | None = None,
        selected: int = 0,
        **kwargs: Any,
    ) -> None:
        pair = roles_snapshot(read_trace(trace, most=None), cluster, tiles)
        super().__init__(pair=pair, selected=selected, **kwargs)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, in order: `words`, the `role`, the `tile`, and who `holds` each accumulator."""
        return list(self.pair["steps"])

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int:
        number, most = int(proposal["value"]), len(self.pair["steps"]) - 1
        if not 0 <= number <= most:
            raise WidgetError(f"The pair's roles have steps 0 to {most}; there is no step {number}.")
        return number

    def figure(self) -> PrintFigure:
        """The roles as bars over time, and below them who holds each accumulator when."""
        from cutecourse.widgets.role_figure import draw_role_timeline

        return draw_role_timeline(self.pair)

    def _repr_arguments(self) -> list[str]:
        pair = self.pair
        return [
            f"{pair['kernel'] or 'a kernel'}: pair {pair['pair']}",
            f"{pair['tiles']} of {pair['of_tiles']} tiles",
            f"{len(pair['accumulators'])} accumulators",
            f"{len(pair['steps'])} steps",
        ]
