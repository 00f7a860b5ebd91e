"""Which scale factors multiply a product, and where they lie in memory and in tensor memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.block_scales import FORMATS
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.scale_places import ROWS, ScalePlace, form_facts, scale_place

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure


class ScaleViewer(CourseWidget):
    """One product A[m, k] B[n, k] of a k-tile, and the two scale factors that multiply it.

    `form` names a format of `block_scales.FORMATS`; `m` and `n` are rows of A and B, and `k` counts elements.
    A k-tile has 128 bytes of 128 rows each.

    Synced with every view: `form`, `m`, `n`, `k`.

    Errors: WidgetError, for another format and for what lies outside of the k-tile.
    """

    _esm = module("scale_viewer.js")
    _css = stylesheet()

    forms = traitlets.List(traitlets.Dict()).tag(sync=True)
    form = traitlets.Unicode("mxf8").tag(sync=True, shared={"in": [*FORMATS]})
    m = traitlets.Int(0).tag(sync=True, shared=[0, ROWS - 1])
    n = traitlets.Int(0).tag(sync=True, shared=[0, ROWS - 1])
    k = traitlets.Int(0).tag(sync=True, shared=[0, 255])

    def __init__(self, form: str = "mxf8", *, m: int = 0, n: int = 0, k: int = 0, **kwargs: Any) -> None:
        for row in (m, n):
            scale_place(form, row, k)
        super().__init__(forms=[form_facts(one) for one in FORMATS], form=form, m=m, n=n, k=k, **kwargs)

    @property
    def places(self) -> tuple[ScalePlace, ScalePlace]:
        """The places of A's factor and of B's. Errors: WidgetError."""
        return scale_place(self.form, self.m, self.k), scale_place(self.form, self.n, self.k)

    def figure(self) -> PrintFigure:
        """The columns of scale factors of A and of B, with the factors that are chosen."""
        from cutecourse.widgets.scale_figure import draw_scales

        return draw_scales(self.form, self.m, self.n, self.k)

    def _repr_arguments(self) -> list[str]:
        return [repr(self.form), f"m={self.m}", f"n={self.n}", f"k={self.k}"]
