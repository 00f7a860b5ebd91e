"""A TMA descriptor at work: boxes in global memory, bytes in shared memory, fields, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.dtypes import dtype as as_dtype
from cutecourse.errors import CourseError
from cutecourse.tma import TmaTrace
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import nothing_or, several
from cutecourse.widgets.tma_choice import trace_of

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

DTYPES = ("u8", "f16", "f32", "f64")
MAJORS = ("K", "MN")
LAYOUTS = ("atoms", "plain")
SWIZZLES = ("none", "32B", "64B", "128B")
MULTICASTS = (1, 2, 4)
COLOURS = ("chunk", "line")
MOST_EXTENT = 65536
MOST_TILE = 512
MOST_ADDRESS = 255
MOST_PADDING = 255


class TmaBox(CourseWidget):
    """A tensor, a tile, a swizzle: boxes in global memory, bytes in shared memory, the descriptor, its rules.

    `extents` is the tensor's (M, K), `major` says which of its modes is contiguous ("K" or "MN"), `dtype` is
    one of `DTYPES`, `padding` the elements between its lines, `address` the bytes by which it starts after an
    aligned address. `tile` is (bM, bK); its `smem_layout` is "atoms" (CUTLASS's canonical atom for
    `smem_major` and `swizzle`, repeated over the tile by `tile_to_shape`) or "plain" (rows or columns, with
    the swizzle on top); `smem_major` is `major` unless given. `coord` is the tile that is loaded, counted in
    tiles, and may lie across the tensor's end or one tile past it. `multicast` CTAs share the load. `colour`
    says what the colours tell: the 16 bytes' place in their line ("chunk") or the line ("line").

    A choice that breaks a rule of CuTe or of the driver is welcome: the widget says which, and why.

    Synced with every view: all of these, and `selected`, which is `{}` or `{"chunk": c}`, the 16 bytes of
    shared memory from byte `16 * c` on.

    Errors: WidgetError, for a value that is none of these.
    """

    _esm = module("tma_box.js")
    _css = stylesheet()

    extents = traitlets.List(traitlets.Int()).tag(sync=True, shared=several(2, [1, MOST_EXTENT]))
    major = traitlets.Unicode("K").tag(sync=True, shared={"in": MAJORS})
    dtype = traitlets.Unicode("f16").tag(sync=True, shared={"in": DTYPES})
    padding = traitlets.Int(0).tag(sync=True, shared=[0, MOST_PADDING])
    address = traitlets.Int(0).tag(sync=True, shared=[0, MOST_ADDRESS])
    tile = traitlets.List(traitlets.Int()).tag(sync=True, shared=several(2, [1, MOST_TILE]))
    smem_layout = traitlets.Unicode("atoms").tag(sync=True, shared={"in": LAYOUTS})
    smem_major = traitlets.Unicode("K").tag(sync=True, shared={"in": MAJORS})
    swizzle = traitlets.Unicode("128B").tag(sync=True, shared={"in": SWIZZLES})
    coord = traitlets.List(traitlets.Int()).tag(sync=True, shared=several(2, [0, MOST_EXTENT]))
    multicast = traitlets.Int(1).tag(sync=True, shared={"in": MULTICASTS})
    colour = traitlets.Unicode("chunk").tag(sync=True, shared={"in": COLOURS})
    selected = traitlets.Dict().tag(sync=True, shared=nothing_or({"chunk": [0, MOST_TILE**2]}))

    def __init__(
        self,
        extents: Sequence[int] = (512, 256),
        dtype: Any = "f16",
        *,
        tile: Sequence[int] = (128, 64),
        major: str = "K",
        swizzle: str = "128B",
        smem_layout: str = "atoms",
        smem_major: str | None = None,
        coord: Sequence[int] = (0, 0),
        multicast: int = 1,
        padding: int = 0,
        address: int = 0,
        colour: str = "chunk",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            extents=_pair("extents", extents, 1, MOST_EXTENT),
            dtype=_dtype_name(dtype),
            tile=_pair("tile", tile, 1, MOST_TILE),
            major=major,
            smem_layout=smem_layout,
            smem_major=major if smem_major is None else smem_major,
            swizzle=swizzle,
            coord=_pair("coord", coord, 0, MOST_EXTENT),
            multicast=multicast,
            padding=padding,
            address=address,
            colour=colour,
            **kwargs,
        )
        tiles = [-(-extent // step) for extent, step in zip(self.extents, self.tile, strict=True)]
        if any(at > most for at, most in zip(self.coord, tiles, strict=True)):
            raise WidgetError(
                f"Tile {tuple(self.coord)} lies more than one tile past the tensor, which has "
                f"{tiles[0]} x {tiles[1]} tiles; give coordinates up to {tuple(tiles)}."
            )

    @traitlets.validate("extents", "tile", "coord")
    def _check_pair(self, proposal: Any) -> list[int]:
        name = proposal["trait"].name
        limits = {"extents": (1, MOST_EXTENT), "tile": (1, MOST_TILE), "coord": (0, MOST_EXTENT)}
        return _pair(name, proposal["value"], *limits[name])

    @traitlets.validate("dtype")
    def _check_dtype(self, proposal: Any) -> str:
        return _dtype_name(proposal["value"])

    @traitlets.validate("major", "smem_major", "smem_layout", "swizzle", "multicast", "colour")
    def _check_choice(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        known: Mapping[str, tuple[Any, ...]] = {
            "major": MAJORS,
            "smem_major": MAJORS,
            "smem_layout": LAYOUTS,
            "swizzle": SWIZZLES,
            "multicast": MULTICASTS,
            "colour": COLOURS,
        }
        if value not in known[name]:
            raise WidgetError(
                f"{name} {value!r} is unknown to TmaBox; choose from {', '.join(map(str, known[name]))}."
            )
        return value

    @traitlets.validate("address", "padding")
    def _check_address(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        most, unit = (MOST_ADDRESS, "bytes") if name == "address" else (MOST_PADDING, "elements")
        if not 0 <= value <= most:
            raise WidgetError(f"{name} {value} is out of range; give 0 to {most} {unit}.")
        return int(value)

    def choice(self) -> dict[str, Any]:
        """The reader's choice as plain values: all synced names except `selected` and `colour`."""
        names = (
            "extents",
            "major",
            "dtype",
            "padding",
            "address",
            "tile",
            "smem_layout",
            "smem_major",
            "swizzle",
        )
        return {name: getattr(self, name) for name in (*names, "coord", "multicast")}

    def trace(self) -> TmaTrace:
        """The TMA atom of what is chosen, computed here.

        Errors: `cutecourse.tma.TmaError` for the first rule that the choice breaks, its name in `.rule`.
        """
        return trace_of(self.choice())

    def figure(self) -> PrintFigure:
        """For print: the tensor with its tile and boxes, the first rows of shared memory, and the fields."""
        from cutecourse.widgets.tma_figure import draw_tma_box

        return draw_tma_box(self.choice())

    def _repr_arguments(self) -> list[str]:
        defaults = {
            "major": "K",
            "swizzle": "128B",
            "smem_layout": "atoms",
            "smem_major": self.major,
            "coord": [0, 0],
            "multicast": 1,
            "padding": 0,
            "address": 0,
        }
        shown = [str(tuple(self.extents)), repr(self.dtype), f"tile={tuple(self.tile)}"]
        for name, usual in defaults.items():
            value = getattr(self, name)
            if value != usual:
                shown.append(f"{name}={tuple(value) if isinstance(value, list) else value!r}")
        return shown


def _dtype_name(given: Any) -> str:
    try:
        name = as_dtype(given).name
    except (CourseError, AttributeError):
        name = str(given)
    if name not in DTYPES:
        raise WidgetError(
            f"dtype {name!r} is unknown to TmaBox, which has one type of each width: {', '.join(DTYPES)}."
        )
    return name


def _pair(name: str, given: Any, least: int, most: int) -> list[int]:
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if len(values) != 2 or not whole or not all(least <= value <= most for value in values):
        raise WidgetError(
            f"{name} {given!r} is no pair of whole numbers from {least} to {most}; write ({name} of M, of K)."
        )
    return values
