"""Pictures for the pages: inline SVG that a cell draws from computed values, in the course's colours.

A picture follows the page's light or dark theme, prints in light colours, and says in words what it
shows. The text in it has at least 13 units, and a picture is at most 720 units wide.

>>> picture = grid([[0, 1], [2, 3]], fill=lambda i, j: f"thread{i}", alt="Row i belongs to thread i.")
>>> picture
Picture: Row i belongs to thread i.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from cutecourse.errors import CourseError
from cutecourse.palette import colour_names, css_value

__all__ = ["Picture", "PictureError", "Pictures", "beside", "grid"]

MAX_WIDTH = 720
MIN_TEXT = 13
_LETTER = 0.61
"""The width of a letter of the fixed-width font, of its size."""

_MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace'
_SANS = "system-ui,sans-serif"
_SWITCH = (
    "<style>@media screen and (max-width:599px){.cute-picture .cute-wide{display:none!important}}"
    "@media print,screen and (min-width:600px){.cute-picture .cute-narrow{display:none!important}}</style>"
)

Anchor = Literal["start", "middle", "end"]


class PictureError(CourseError):
    """A picture was asked for something that cannot be drawn or read."""


def _colour(name: str) -> str:
    if name not in colour_names():
        raise PictureError(f"there is no colour {name!r}; there are {', '.join(colour_names())}.")
    return css_value(name)


class Picture:
    """A drawing board of `width` by `height` units; each method adds something and returns the picture.

    Units:  about one pixel each; x to the right, y down.
    Errors: PictureError for an unknown colour, text below 13 units, a width above 720, or no `alt`.
    """

    def __init__(self, width: float, height: float, *, alt: str) -> None:
        if not 0 < width <= MAX_WIDTH or height <= 0:
            raise PictureError(
                f"a picture is at most {MAX_WIDTH} units wide and not empty, not {width} x {height}."
            )
        if not alt.strip():
            raise PictureError("say in `alt` what the picture shows, for readers who cannot see it.")
        self.width, self.height, self.alt = width, height, alt
        self.narrow: Picture | None = None
        self._parts: list[str] = []

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str | None = None,
        label: object = None,
        *,
        frame: bool = True,
        mark: bool = False,
        muted: bool = False,
        size: float = 14,
        code: bool = False,
    ) -> Picture:
        """A box, with `label` in its middle (split at newlines); `mark` gives it a thick frame."""
        stroke = _colour("ink" if mark else "line")
        width = 2.5 if mark else 1 if frame else 0
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="2"'
            f' style="fill:{_colour(fill) if fill else "none"};stroke:{stroke};stroke-width:{width:g}'
            f'{";opacity:.45" if muted else ""}"/>'
        )
        if label is not None and str(label):
            lines = str(label).split("\n")
            top = y + h / 2 - (len(lines) - 1) * size * 0.6
            for number, line in enumerate(lines):
                self.text(
                    x + w / 2,
                    top + number * size * 1.2 + size * 0.35,
                    line,
                    size,
                    "middle",
                    muted=muted,
                    code=code,
                )
        return self

    def text(
        self,
        x: float,
        y: float,
        text: object,
        size: float = 14,
        anchor: Anchor = "start",
        *,
        bold: bool = False,
        muted: bool = False,
        code: bool = False,
        colour: str | None = None,
    ) -> Picture:
        """One line of text; (x, y) is on its base line, at its start, middle or end."""
        if size < MIN_TEXT:
            raise PictureError(f"text of size {size:g} cannot be read on a phone; {MIN_TEXT} is the least.")
        style = f"font:{'600 ' if bold else ''}{size:g}px {_MONO if code else _SANS};"
        style += f"fill:{_colour(colour or ('muted' if muted else 'ink'))}"
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{html.escape(style)}"'
            f' xml:space="preserve">{html.escape(str(text))}</text>'
        )
        return self

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        *,
        dashed: bool = False,
        colour: str | None = None,
        width: float = 1.5,
    ) -> Picture:
        """A straight line."""
        dash = ";stroke-dasharray:5 4" if dashed else ""
        self._parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
            f' style="stroke:{_colour(colour or "muted")};stroke-width:{width:g}{dash}"/>'
        )
        return self

    def arrow(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        label: object = None,
        *,
        colour: str | None = None,
        dashed: bool = False,
    ) -> Picture:
        """An arrow from (x1, y1) to (x2, y2), with `label` above its middle."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        if length == 0:
            raise PictureError("an arrow needs two different ends.")
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        self.line(x1, y1, x2 - 7 * ux, y2 - 7 * uy, dashed=dashed, colour=colour)
        points = [
            (x2, y2),
            (x2 - 9 * ux + 4.5 * uy, y2 - 9 * uy - 4.5 * ux),
            (x2 - 9 * ux - 4.5 * uy, y2 - 9 * uy + 4.5 * ux),
        ]
        corners = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        self._parts.append(f'<polygon points="{corners}" style="fill:{_colour(colour or "muted")}"/>')
        if label is not None and str(label):
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, label, MIN_TEXT, "middle")
        return self

    def place(self, picture: Picture, x: float, y: float) -> Picture:
        """Another picture inside this one, its corner at (x, y)."""
        self._parts.append(f'<g transform="translate({x:g} {y:g})">{"".join(picture._parts)}</g>')
        return self

    def svg(self, name: str = "") -> str:
        """The drawing as one `svg` element; on a narrow screen it shrinks a little, then scrolls."""
        least = round(min(self.width, max(340.0, 0.85 * self.width)))
        return (
            f'<svg{f" class={chr(34)}{name}{chr(34)}" if name else ""} xmlns="http://www.w3.org/2000/svg"'
            f' viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" role="img"'
            f' aria-label="{html.escape(self.alt)}"'
            f' style="max-width:100%;min-width:{least}px;height:auto;display:block">'
            f"{''.join(self._parts)}</svg>"
        )

    def _repr_html_(self) -> str:
        if self.narrow is None:
            return f'<div class="cute-picture" style="{_GROUND}">{self.svg()}</div>'
        both = self.svg("cute-wide") + self.narrow.svg("cute-narrow")
        return f'<div class="cute-picture" style="{_GROUND}">{_SWITCH}{both}</div>'


_GROUND = f"background:{css_value('surface')};overflow-x:auto;padding:.3rem 0"


class Pictures:
    """Several pictures side by side where there is room, and one below the other on a phone."""

    def __init__(self, pictures: Sequence[Picture], titles: Sequence[str] | None = None) -> None:
        if not pictures or (titles is not None and len(titles) != len(pictures)):
            raise PictureError("give at least one picture, and one title for each or none.")
        self.pictures, self.titles = tuple(pictures), tuple(titles or ())

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.pictures))

    def _repr_html_(self) -> str:
        ink = f"color:{css_value('ink')}"
        heads = [
            f'<div style="font:600 15px {_SANS};{ink};margin-bottom:.3rem">{html.escape(t)}</div>'
            for t in self.titles
        ]
        heads = heads or [""] * len(self.pictures)
        columns = "".join(
            f'<div style="min-width:0;max-width:100%;overflow-x:auto">{head}{picture.svg()}</div>'
            for head, picture in zip(heads, self.pictures, strict=True)
        )
        row = f"{_GROUND};display:flex;flex-wrap:wrap;gap:1rem 2rem"
        return f'<div class="cute-picture" style="{row}">{columns}</div>'


def beside(*pictures: Picture, titles: Sequence[str] | None = None) -> Pictures:
    """Pictures side by side, each with its title."""
    return Pictures(pictures, titles)


def grid(
    cells: Sequence[Sequence[object]],
    *,
    fill: Callable[[int, int], str | None] | None = None,
    alt: str,
    title: str | None = None,
    rows: str | None = None,
    columns: str | None = None,
    cell: float = 34,
    mark: Collection[tuple[int, int]] = (),
    legend: Mapping[str, str] | None = None,
) -> Picture:
    """A matrix of cells with its indices, row 0 on top; cells that `None` stands for are left blank.

    cells          the texts, row by row; all rows are equally long.
    fill           the colour's name for cell (i, j), or None.
    rows, columns  what the two indices are called.
    cell           the least width and the height of a cell, in units.
    mark           cells (i, j) that get a thick frame.
    legend         for each colour's name, what it stands for.
    Errors: PictureError for rows of different length, and for more than fits in 720 units.
    """
    texts = [["" if text is None else str(text) for text in row] for row in cells]
    if not texts or not texts[0] or any(len(row) != len(texts[0]) for row in texts):
        raise PictureError("a grid needs at least one cell, and rows that are equally long.")
    longest = max(len(text) for row in texts for text in row)
    wide = max(cell, longest * MIN_TEXT * _LETTER + 8)
    left = 12 + MIN_TEXT * _LETTER * len(str(len(texts) - 1)) + (20 if rows else 0)
    top = (26 if title else 4) + 18 + (20 if columns else 0)
    bottom = _legend_height(legend)
    over = max([len(title or "") * 8.2, *(len(words) * 7.6 + 24 for words in (legend or {}).values())])
    width = max(left + wide * len(texts[0]) + 3, over)
    picture = Picture(width, top + cell * len(texts) + 4 + bottom, alt=alt)
    if title:
        picture.text(0, 17, title, 15, bold=True)
    if columns:
        picture.text(
            left + wide * len(texts[0]) / 2, top - 22, columns, MIN_TEXT, "middle", muted=True, code=True
        )
    if rows:
        picture.text(2, top + cell * len(texts) / 2 + 5, rows, MIN_TEXT, muted=True, code=True)
    for j in range(len(texts[0])):
        picture.text(left + (j + 0.5) * wide, top - 5, j, MIN_TEXT, "middle", muted=True, code=True)
    for i, row in enumerate(texts):
        picture.text(left - 6, top + (i + 0.5) * cell + 5, i, MIN_TEXT, "end", muted=True, code=True)
        for j, text in enumerate(row):
            colour = fill(i, j) if fill else None
            box: dict[str, Any] = {"size": MIN_TEXT, "code": True, "mark": (i, j) in mark}
            picture.rect(left + j * wide + 1, top + i * cell + 1, wide - 2, cell - 2, colour, text, **box)
    y = top + cell * len(texts) + 12
    for name, words in (legend or {}).items():
        picture.rect(left, y, 16, 16, name).text(left + 24, y + 13, words, MIN_TEXT)
        y += 22
    return picture


def _legend_height(legend: Mapping[str, str] | None) -> float:
    return 12 + 22 * len(legend) if legend else 0
