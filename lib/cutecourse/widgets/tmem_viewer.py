"""Tensor memory: columns allocated, where an accumulator lies, and which warp and register loads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.umma import TMEM_COLUMNS, TMEM_LANES
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import nothing_or
from cutecourse.widgets.tmem_places import (
    LOADS,
    SHAPES,
    Accumulator,
    ColumnRequest,
    accumulator,
    allocate,
    allocator_of,
    requests,
    shapes_snapshot,
    smallest_of,
)

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

STATES = ("placed", "waits", "refused")
ALLOCATION = {
    "name": "text",
    "columns": [0, 1 << 20],
    "column": [-1, TMEM_COLUMNS - 1],
    "state": {"in": STATES},
    "why": "text",
}
PLACE = {"cta": [0, 1], "lane": [0, TMEM_LANES - 1], "column": [0, TMEM_COLUMNS - 1]}


class TmemViewer(CourseWidget):
    """Tensor memory, 128 lanes by 512 columns in each CTA: where an accumulator lies and who loads it.

    `m` and `n` are those of the instruction, of both CTAs together where `cta_group` is 2. `allocations` are
    what a warp asks `tcgen05.alloc` for, by name: `{"accumulator": 256, "scales": 32}`, pairs, or numbers of
    columns; by default one that holds the accumulator. What is refused is welcome: the widget names the rule.
    The accumulator lies in the allocation `holder`, by default the first that has
    columns. `repetitions` are the columns that one `tcgen05.ld.32x32b` reads; `element` is the (m, n) of C
    that is chosen first.

    Synced with every view: `m`, `n`, `cta_group`, `repetitions`, `allocations` (dicts of `name`, `columns`,
    `column`, `state`, `why`), `smallest`, the fewest columns given so far, `holder`, and `selected`: `{}` or
    `{"cta": v, "lane": l, "column": c}`.

    Errors: WidgetError, for a shape without an accumulator, or what is no allocation, load, element or place.
    """

    _esm = module("tmem_viewer.js")
    _css = stylesheet()

    shapes = traitlets.Dict().tag(sync=True)
    m = traitlets.Int(128).tag(sync=True, shared={"in": sorted({m for _, m in SHAPES})})
    n = traitlets.Int(256).tag(sync=True, shared=[8, 256])
    cta_group = traitlets.Int(1).tag(sync=True, shared={"in": [1, 2]})
    repetitions = traitlets.Int(32).tag(sync=True, shared={"in": LOADS})
    allocations = traitlets.List(traitlets.Dict()).tag(
        sync=True, shared={"list": {"keys": ALLOCATION}, "sizes": [0, 64]}
    )
    smallest = traitlets.Int(TMEM_COLUMNS).tag(sync=True, shared=[0, TMEM_COLUMNS])
    holder = traitlets.Unicode("").tag(sync=True, shared="text")
    selected = traitlets.Dict().tag(sync=True, shared=nothing_or(PLACE))

    def __init__(
        self,
        m: int = 128,
        n: int = 256,
        *,
        cta_group: int = 1,
        allocations: Any = (),
        holder: str | None = None,
        repetitions: int = 32,
        element: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        shown = accumulator(m, n, cta_group)
        held: list[ColumnRequest] = []
        for name, columns in requests(allocations, shown.columns, cta_group):
            held = allocate(held, name, columns, cta_group)  # nothing is freed meanwhile
        placed = [one.name for one in held if one.state == "placed"]
        super().__init__(
            shapes=shapes_snapshot(),
            m=m,
            n=n,
            cta_group=cta_group,
            repetitions=repetitions,
            allocations=[one.to_snapshot() for one in held],
            smallest=smallest_of(held),
            holder=holder if holder is not None else next(iter(placed), ""),
            **kwargs,
        )
        if element is not None:
            cta, lane, column = self.place(*element)
            self.selected = {"cta": cta, "lane": lane, "column": column}

    @traitlets.validate("m", "n", "cta_group")
    def _check_shape(self, proposal: Any) -> int:
        # One of them changes at a time; what they do not have in common is checked when it is used.
        name, value = proposal["trait"].name, proposal["value"]
        known = {
            "m": sorted({m for _, m in SHAPES}),
            "n": list(range(8, 257, 8)),
            "cta_group": sorted({group for group, _ in SHAPES}),
        }[name]
        if value not in known:
            shown = ", ".join(map(str, known)) if len(known) < 4 else "8 to 256 in steps of 8"
            raise WidgetError(f"{name} = {value}: there are {shown}.")
        return int(value)

    @traitlets.validate("repetitions")
    def _check_repetitions(self, proposal: Any) -> int:
        if proposal["value"] not in LOADS:
            raise WidgetError(f"tcgen05.ld 32x32b has no .x{proposal['value']}; it has .x1 to .x128.")
        return int(proposal["value"])

    @traitlets.validate("allocations")
    def _check_allocations(self, proposal: Any) -> list[dict[str, Any]]:
        try:
            held = [ColumnRequest(**one) for one in proposal["value"]]
        except TypeError as error:
            raise WidgetError(f"allocations have name, columns, column, state and why: {error}") from error
        if any(one.state not in STATES for one in held):
            raise WidgetError(f"An allocation is one of {', '.join(STATES)}.")
        return [one.to_snapshot() for one in held]

    @traitlets.validate("holder")
    def _check_holder(self, proposal: Any) -> str:
        name = str(proposal["value"])
        known = [one["name"] for one in self.allocations if one["state"] == "placed"]
        if name and name not in known:
            raise WidgetError(f"{name!r} has no columns; there are {', '.join(known) or 'none that have'}.")
        return name

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> dict[str, int]:
        at = dict(proposal["value"])
        if not at:
            return {}
        limits = {"cta": self.cta_group, "lane": TMEM_LANES, "column": TMEM_COLUMNS}
        if set(at) != set(limits) or not all(0 <= int(at[name]) < most for name, most in limits.items()):
            raise WidgetError(f"{at} is no place; give cta, lane (to 127) and column (to 511).")
        return {name: int(at[name]) for name in limits}

    @property
    def accumulator(self) -> Accumulator:
        """The accumulator of the chosen shape, by CuTe's layout.

        Errors: WidgetError, for a shape without one.
        """
        return accumulator(self.m, self.n, self.cta_group)

    @property
    def start(self) -> int:
        """The column at which the accumulator starts; 0 where no allocation holds it."""
        held = (one for one in self.allocations if one["name"] == self.holder and one["state"] == "placed")
        return next((int(one["column"]) for one in held), 0)

    def place(self, m: int, n: int) -> tuple[int, int, int]:
        """(CTA, lane, column) of C[m, n].

        Errors: WidgetError, for an element that C does not have.

        >>> TmemViewer(128, 256, cta_group=2).place(70, 130)
        (1, 70, 2)
        """
        if not (0 <= m < self.m and 0 <= n < self.n):
            raise WidgetError(f"C is {self.m} x {self.n}; it has no element ({m}, {n}).")
        cta, lane, column = self.accumulator.place(m, n)
        return cta, lane, column + self.start

    def element(self, cta: int, lane: int, column: int) -> tuple[int, int] | None:
        """C's (m, n) at a place; None where no element of C lies."""
        return self.accumulator.element(cta, lane, column - self.start)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that the allocator sets its callers."""
        return allocator_of(self.cta_group).rules

    def figure(self) -> PrintFigure:
        """C and the tensor memory of each CTA, coloured by the warp that loads it, for print."""
        from cutecourse.widgets.tmem_figure import draw_tmem

        held = [ColumnRequest(**one) for one in self.allocations]
        return draw_tmem(self.accumulator, held, self.start, self.holder)

    def _repr_arguments(self) -> list[str]:
        arguments = [f"{self.m}, {self.n}", f"cta_group={self.cta_group}"]
        asked = {one["name"]: one["columns"] for one in self.allocations}
        arguments.append(f"allocations={asked!r}")
        if self.repetitions != 32:
            arguments.append(f"repetitions={self.repetitions}")
        if self.selected:
            at = self.selected
            arguments.append(f"selected=({at['cta']}, {at['lane']}, {at['column']})")
        return arguments
