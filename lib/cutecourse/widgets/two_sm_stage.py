"""One k-tile in both CTAs of a pair, step by step, from a recorded launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.stage_steps import stage_snapshot
from cutecourse.widgets.traces import named, read_trace

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure


class TwoSmStage(CourseWidget):
    """One k-tile in both CTAs of a pair: expected bytes, loads, barriers, MMAs, the commit, step by step.

    `trace` is the trace of a launch with tcgen05.mma, its snapshot, or the run that recorded it; of a run,
    the text of each step's PTX line is shown too. `pair` counts the pairs of CTAs that share an MMA, over the
    whole grid; in a kernel of one SM it counts the CTAs. `k_tile` counts the groups of MMAs between the
    leader's commits. `names` gives barriers names of your own, by the name they were recorded with or their
    offset in shared memory; else they are called by their part, full and empty, with the stage's number.

    Of a long trace only what this pair and this k-tile have to do with travels with the page.

    Synced with every view: `selected`, the number of the step. `steps` holds what each step says.

    Errors: WidgetError, for what is no trace, for a launch without an MMA and a commit, and for a pair, a
    k-tile or a step that is not there.
    """

    _esm = module("two_sm_stage.js")
    _css = stylesheet()

    stage = traitlets.Dict().tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True, shared={"index": "stage.steps"})

    def __init__(
        self,
        trace: Any,
        *,
        pair: int = 0,
        k_tile: int = 0,
        names: Mapping[str | int, str] | None = None,
        selected: int = 0,
        **kwargs: Any,
    ) -> None:
        ptx = getattr(trace, "ptx", None)
        read = named(read_trace(trace, most=None), names or {})
        super().__init__(
            stage=stage_snapshot(read, pair, k_tile, None if ptx is None else str(ptx)),
            selected=selected,
            **kwargs,
        )

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, in order: `words`, the PTX `line`, the `act` it is part of, what it changed."""
        return list(self.stage["steps"])

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> int:
        number, most = int(proposal["value"]), len(self.stage["steps"]) - 1
        if not 0 <= number <= most:
            raise WidgetError(f"The k-tile has steps 0 to {most}; there is no step {number}.")
        return number

    def figure(self) -> PrintFigure:
        """Every step from left to right, in both CTAs: loads, bytes in shared memory, barriers, MMAs."""
        from cutecourse.widgets.stage_figure import draw_stage

        return draw_stage(self.stage)

    def _repr_arguments(self) -> list[str]:
        stage = self.stage
        ctas = " and ".join(one["name"] for one in stage["ctas"])
        return [
            f"{stage['kernel'] or 'a kernel'}: {ctas}",
            f"k-tile {stage['k_tile']} (of 0 to {stage['k_tiles'] - 1})",
            f"{len(stage['steps'])} steps",
        ]
