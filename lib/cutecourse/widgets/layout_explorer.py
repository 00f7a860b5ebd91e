"""Edit a layout, see where each coordinate goes, step through an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse import layout as algebra
from cutecourse.layout import Layout
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.layout_pictures import OperationPicture, operation_picture
from cutecourse.widgets.sharing import nothing_or
from cutecourse.widgets.snapshots import drawable_layout
from cutecourse.widgets.tilers import parse_tiler

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

OPERATIONS = (
    "coalesce",
    "filter",
    "composition",
    "complement",
    "right_inverse",
    "left_inverse",
    "logical_divide",
    "zipped_divide",
    "logical_product",
    "blocked_product",
    "raked_product",
)
NO_OPERAND = frozenset({"filter", "right_inverse", "left_inverse"})
OPTIONAL_OPERAND = frozenset({"coalesce", "complement"})

DEFAULT_LAYOUT = "(4,8):(8,1)"


class LayoutExplorer(CourseWidget):
    """Show a layout that the reader can edit: its coordinates, its memory, and the algebra at work on it.

    `layout` is a `Layout` or its notation. With `operation` (one of `OPERATIONS`) and, where it takes one,
    `operand`, the widget draws that operation on the layout in the fields (which cells it picks, covers, cuts
    or repeats) and steps through it. With `explanation` (the value of `cutecourse.layout.explain`, or its
    snapshot) it steps through exactly that, until the reader edits something.

    Synced with every view: `notation`, `operation`, `operand`, `step` (from 0), `inside` (whether the steps
    of called operations are shown too), and `selected`, which is `{}`, `{"index": i}` or `{"offset": o}`.

    Errors: WidgetError, for a layout, operation, operand or explanation that cannot be shown.
    """

    _esm = module("layout_explorer.js")
    _css = stylesheet()

    notation = traitlets.Unicode(DEFAULT_LAYOUT).tag(sync=True, shared="text")
    operation = traitlets.Unicode("").tag(sync=True, shared={"in": ["", *OPERATIONS]})
    operand = traitlets.Unicode("").tag(sync=True, shared="text")
    # A dict or None; what traitlets says of its type leaves None out.
    explanation: Any = traitlets.Dict(None, allow_none=True).tag(sync=True, shared={"in": [None]})
    step = traitlets.Int(0, min=0).tag(sync=True, shared=[0, 4096])
    inside = traitlets.Bool(False).tag(sync=True, shared="flag")
    selected = traitlets.Dict().tag(sync=True, shared=nothing_or({"index": [0, 4096]}, {"offset": [0, 4096]}))

    def __init__(
        self,
        layout: Any = None,
        operation: str = "",
        operand: Any = "",
        explanation: Any = None,
        **kwargs: Any,
    ) -> None:
        snapshot = None if explanation is None else _explanation_snapshot(explanation)
        if snapshot is not None:
            operation = snapshot["operation"]
            layout = layout if layout is not None else snapshot["operands"][0]["value"]
        super().__init__(
            notation=str(drawable_layout(DEFAULT_LAYOUT if layout is None else layout)),
            operation=operation,
            operand=_operand_text(snapshot["operands"][1:] if snapshot else operand),
            explanation=snapshot,
            **kwargs,
        )

    @traitlets.validate("notation")
    def _check_notation(self, proposal: Any) -> str:
        return str(drawable_layout(proposal["value"]))

    @traitlets.validate("operation")
    def _check_operation(self, proposal: Any) -> str:
        name: str = proposal["value"]
        if name and name not in OPERATIONS and self.explanation is None:
            raise WidgetError(
                f"{name!r} is no operation the explorer steps through; it knows {', '.join(OPERATIONS)}."
            )
        return name

    def result(self) -> Any:
        """The result of the operation on the layout in the field, computed here; `None` without an operation.

        Errors: WidgetError for an operand that cannot be read, `LayoutError` for what the algebra refuses.
        """
        if self.explanation is not None:
            return Layout.parse(self.explanation["result"])
        if not self.operation:
            return None
        return apply_operation(self.operation, self.notation, self.operand)

    def picture(self) -> OperationPicture | None:
        """The operation at work on the layout in the field, or None where there is nothing to draw.

        Errors: WidgetError for an operand that cannot be read, `LayoutError` for what the algebra refuses.
        """
        if self.operation not in OPERATIONS:
            return None
        takes = self.operation not in NO_OPERAND and self.operand.strip()
        operands = [parse_tiler(self.operand)] if takes else []
        return operation_picture(self.operation, Layout.parse(self.notation), operands, self.result())

    def figure(self) -> PrintFigure:
        """For print: the operation's picture, or the layout's grid and memory where there is no operation."""
        from cutecourse.widgets.figures import draw_layouts
        from cutecourse.widgets.layout_pictures import draw_operation

        result = self.result()
        picture = self.picture()
        if picture is not None:
            call = ", ".join(text for text in (self.notation, self.operand) if text)
            return draw_operation(f"{self.operation}({call}) = {result}", picture)
        shown = [("", self.notation)]
        if result is not None:
            shown.append((f"{self.operation}: ", str(result)))
        return draw_layouts([(f"{name}{notation}", notation) for name, notation in shown])

    def _repr_arguments(self) -> list[str]:
        named = [(name, getattr(self, name)) for name in ("operation", "operand")]
        return [repr(self.notation)] + [f"{name}={value!r}" for name, value in named if value]


def apply_operation(operation: str, layout: Any, operand: str = "") -> Any:
    """Do one of `OPERATIONS` on a layout, with the operand as a reader types it."""
    shown = layout if isinstance(layout, Layout) else Layout.parse(layout)
    function = getattr(algebra, operation)
    if operation in NO_OPERAND or (operation in OPTIONAL_OPERAND and not operand.strip()):
        return function(shown)
    return function(shown, parse_tiler(operand))


def _operand_text(operand: Any) -> str:
    if isinstance(operand, list):  # of a snapshot: the operands after the first
        return ", ".join(str(entry["value"]) for entry in operand)
    if isinstance(operand, tuple):
        return "(" + ",".join(_operand_text(part) for part in operand) + ")"
    return "_" if operand is None else str(operand).replace(" ", "")


def _explanation_snapshot(explanation: Any) -> dict[str, Any]:
    snapshot = explanation.to_snapshot() if hasattr(explanation, "to_snapshot") else explanation
    if not isinstance(snapshot, Mapping):
        raise WidgetError(
            f"{explanation!r} is neither an explanation nor its snapshot; use cutecourse.layout.explain."
        )
    missing = [name for name in ("operation", "operands", "steps", "result") if name not in snapshot]
    if missing or not snapshot["operands"]:
        raise WidgetError(
            f"The explanation's snapshot has no {', '.join(missing) or 'operand'}; use to_snapshot()."
        )
    return dict(snapshot)
