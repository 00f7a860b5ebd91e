"""A tile of shared memory coloured by bank, one access to it, and a swizzle whose numbers can be moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.layout import size
from cutecourse.memory_access import BankAccess, cost_of
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.bank_places import (
    ELEMENT_BITS,
    MOST_BASE,
    MOST_CELLS,
    MOST_PADDING,
    MOST_SHIFT,
    MOST_SWIZZLE_BITS,
    LaneAccess,
    Tile,
    check_access,
    mappable,
    place_sentence,
    recorded_accesses,
    sentence,
    wavefront_sentence,
)
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import nothing_or, several

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

MOST_ACCESSES = 64


class BankMap(CourseWidget):
    """Show which bank holds each element of a tile, and the wavefronts that an access to it takes.

    `layout` has two modes: a `Layout`, its notation, or a layout behind a swizzle. `accesses` are made with
    `row_access`, `column_access`, `block_access` and `ldmatrix_access` of `cutecourse.banks`. `swizzle` is a
    `Swizzle` or its three numbers (B, M, S), counted in elements. `padding` is the number of elements that
    each row gets behind its end. `access` chooses one of the accesses, by number or name.

    Synced with every view: `swizzle` (a list), `padding`, `access` (a number), `wavefront` (0 for all of
    them), and `selected`: `{}` or `{"row": r, "column": c}`.

    Errors: WidgetError, for a layout, an access, a swizzle or a padding that cannot be shown.
    """

    _esm = module("bank_map.js")
    _css = stylesheet()

    notation = traitlets.Unicode("(8,64):(64,1)").tag(sync=True)
    element_bits = traitlets.Int(16).tag(sync=True)
    base = traitlets.Int(0, min=0).tag(sync=True)
    accesses = traitlets.List(traitlets.Dict()).tag(sync=True)
    access = traitlets.Int(0).tag(sync=True, shared={"index": "accesses"})
    swizzle = traitlets.List(traitlets.Int(), default_value=[0, 3, 3]).tag(
        sync=True, shared=several(3, [0, max(MOST_BASE, MOST_SHIFT)])
    )
    padding = traitlets.Int(0).tag(sync=True, shared=[0, MOST_PADDING])
    wavefront = traitlets.Int(0, min=0).tag(sync=True, shared=[0, 1 << 10])
    selected = traitlets.Dict().tag(
        sync=True, shared=nothing_or({"row": [0, 4 * MOST_CELLS], "column": [0, 4 * MOST_CELLS]})
    )

    def __init__(
        self,
        layout: Any = "(8,64):(64,1)",
        element_bits: int = 16,
        *,
        accesses: Sequence[Any] = (),
        swizzle: Any = None,
        padding: int = 0,
        access: int | str = 0,
        **kwargs: Any,
    ) -> None:
        plain, own = mappable(layout)
        if size(plain) // max(1, 32 // element_bits) > MOST_CELLS:
            raise WidgetError(
                f"{plain} has {size(plain)} elements of {element_bits} bits; show a part of it."
            )
        self._tile_layout = plain
        self._last_tile = Tile(plain)
        extents = (size(plain[0]), size(plain[1]))
        read = [LaneAccess.of(one, extents) for one in accesses]
        names = [one.name for one in read]
        if isinstance(access, str):
            if access not in names:
                raise WidgetError(f"There is no access {access!r}; there are {', '.join(names) or 'none'}.")
            access = names.index(access)
        super().__init__(
            notation=str(plain),
            element_bits=element_bits,
            accesses=[one.to_snapshot() for one in read],
            access=access,
            swizzle=list(own) if swizzle is None else _numbers(swizzle),
            padding=padding,
            **kwargs,
        )

    @classmethod
    def of(cls, report: Any, line: int | None = None, *, row_bytes: int = 128, **kwargs: Any) -> BankMap:
        """Show the accesses that a kernel's run recorded at one line of its PTX.

        `report` is the memory report of a launch (`run(..., memory_report=True).memory`), and `line` the line
        of a shared-memory instruction in it, by default the first. The elements are bytes, so a swizzle
        counts in bytes here. `row_bytes` is the length of the tile's rows; accesses with the same addresses
        are shown once.

        Errors: WidgetError, for a line where no lane accesses shared memory.
        """
        lines = sorted({row.line for row in report.rows if row.space == "shared"})
        if line is None and lines:
            line = lines[0]
        rows = [row for row in report.rows if row.line == line and row.space == "shared"]
        if line is None or not rows:
            raise WidgetError(
                f"No instruction at line {line} accesses shared memory; lines {lines} have one."
                if lines
                else "No instruction of this report accesses shared memory."
            )
        widths = [
            int(access.n_bytes.max())
            for access in report.log
            if access.line == line and access.space == "shared"
        ]
        layout, base, made = recorded_accesses(
            f"line {line}: {rows[0].instruction}",
            "matrix" if "matrix" in rows[0].instruction else rows[0].kind,
            report.addresses(line, "shared"),
            max(widths),
            row_bytes,
            MOST_ACCESSES,
        )
        return cls(layout, 8, accesses=made, base=base, **kwargs)

    @traitlets.validate("notation")
    def _check_notation(self, proposal: Any) -> str:
        plain, _ = mappable(proposal["value"])
        for one in self.accesses:
            check_access(LaneAccess.of(one, (1, 1)), size(plain), self.element_bits)
        self._tile_layout = plain
        return str(plain)

    @traitlets.validate("element_bits")
    def _check_bits(self, proposal: Any) -> int:
        if proposal["value"] not in ELEMENT_BITS:
            raise WidgetError(f"element_bits={proposal['value']}: an element has 8, 16, 32 or 64 bits.")
        return int(proposal["value"])

    @traitlets.validate("accesses")
    def _check_accesses(self, proposal: Any) -> list[dict[str, Any]]:
        read = [LaneAccess.of(one, (1, 1)) for one in proposal["value"]]
        if len(read) > MOST_ACCESSES:
            raise WidgetError(f"{len(read)} accesses; up to {MOST_ACCESSES} can be chosen from.")
        for one in read:
            check_access(one, size(self._tile_layout), self.element_bits)
        return [one.to_snapshot() for one in read]

    @traitlets.validate("access")
    def _check_access(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < max(1, len(self.accesses)):
            raise WidgetError(f"access={proposal['value']}: there are {len(self.accesses)}, counted from 0.")
        return int(proposal["value"])

    @traitlets.validate("swizzle")
    def _check_swizzle(self, proposal: Any) -> list[int]:
        return _numbers(proposal["value"])

    @traitlets.validate("padding")
    def _check_padding(self, proposal: Any) -> int:
        padding = int(proposal["value"])
        if not 0 <= padding <= MOST_PADDING:
            raise WidgetError(f"padding={padding}: a row gets 0 to {MOST_PADDING} more elements.")
        if padding and Tile(self._tile_layout).padded_mode is None:
            raise WidgetError(
                f"{self._tile_layout} cannot be padded here: padding needs one row stride, and a stride of 1."
            )
        return padding

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> dict[str, int]:
        at = dict(proposal["value"])
        if not at:
            return {}
        rows, columns = self.tile.extents
        if set(at) != {"row", "column"} or not (0 <= at["row"] < rows and 0 <= at["column"] < columns):
            raise WidgetError(f"{at} is no element; the tile has {rows} rows and {columns} columns.")
        return {"row": int(at["row"]), "column": int(at["column"])}

    @property
    def tile(self) -> Tile:
        """The tile as it is shown, with its padding and its swizzle."""
        bits, base, shift = self.swizzle
        now = Tile(self._tile_layout, self.element_bits, (bits, base, shift), self.padding, self.base)
        if now != self._last_tile:  # one that has computed its offsets already is kept
            self._last_tile = now
        return self._last_tile

    @property
    def layout(self) -> Any:
        """The layout as it is shown, with its padding and its swizzle."""
        return self.tile.whole

    @property
    def chosen(self) -> LaneAccess | None:
        """The chosen access; None where the map has none."""
        return LaneAccess.of(self.accesses[self.access], (1, 1)) if self.accesses else None

    @property
    def cost(self) -> BankAccess:
        """The wavefronts of the chosen access.

        Errors: WidgetError, without an access, or when it cannot run on this tile.
        """
        if self.chosen is None:
            raise WidgetError("This map has no access; give it one with `accesses=`.")
        if self.problem:
            raise WidgetError(self.problem)
        return cost_of(self.tile.waves(self.chosen))

    @property
    def conflicts(self) -> dict[str, int | None]:
        """The conflicts of every access, by name; None for one that cannot run on this tile."""
        tile, found = self.tile, {}
        for access in (LaneAccess.of(one, (1, 1)) for one in self.accesses):
            waves = tile.waves(access)
            found[access.name] = cost_of(waves).conflicts if waves else None
        return found

    @property
    def problem(self) -> str:
        """Why the chosen access cannot run on this tile; "" when it can."""
        return self.tile.obstacle(self.chosen) if self.chosen is not None else ""

    @property
    def words(self) -> str:
        """The sentences below the picture: what the access costs, and what the chosen wavefront serves."""
        told = []
        if self.chosen is not None:
            told = [
                sentence(self.tile, self.chosen),
                wavefront_sentence(self.tile.waves(self.chosen), self.wavefront),
            ]
        return " ".join(filter(None, [*told, self.tile.overrun()]))

    def figure(self) -> PrintFigure:
        """The tile, the wavefronts and the words, for print."""
        from cutecourse.widgets.bank_figure import draw_banks

        tile, chosen = self.tile, self.chosen
        title = f"{chosen.name} on {tile.whole}" if chosen else str(tile.whole)
        lines = [title, *filter(None, [self.words])]
        if self.selected:
            lines.append(place_sentence(tile, self.selected["row"], self.selected["column"]))
        return draw_banks(tile, chosen, lines)

    def _repr_arguments(self) -> list[str]:
        arguments = [repr(self.notation)]
        if self.element_bits != 16:
            arguments.append(f"element_bits={self.element_bits}")
        if self.chosen is not None:
            arguments.append(f"access={self.chosen.name!r}")
        if self.swizzle[0]:
            arguments.append("swizzle=({}, {}, {})".format(*self.swizzle))
        if self.padding:
            arguments.append(f"padding={self.padding}")
        if self.wavefront:
            arguments.append(f"wavefront={self.wavefront}")
        if self.selected:
            arguments.append(f"selected=({self.selected['row']}, {self.selected['column']})")
        return arguments


def _numbers(swizzle: Any) -> list[int]:
    """(B, M, S) of a swizzle or of three numbers."""
    if hasattr(swizzle, "num_bits"):
        swizzle = (swizzle.num_bits, swizzle.num_base, swizzle.num_shift)
    try:
        bits, base, shift = (int(number) for number in swizzle)
    except (TypeError, ValueError) as error:
        raise WidgetError(f"{swizzle!r} is no swizzle; give three numbers such as (3, 3, 3).") from error
    if not (0 <= bits <= MOST_SWIZZLE_BITS and 0 <= base <= MOST_BASE and bits <= shift <= MOST_SHIFT):
        raise WidgetError(
            f"Swizzle<{bits},{base},{shift}>: BankMap moves B from 0 to {MOST_SWIZZLE_BITS}, M from 0 to "
            f"{MOST_BASE} and S from B to {MOST_SHIFT}."
        )
    return [bits, base, shift]
