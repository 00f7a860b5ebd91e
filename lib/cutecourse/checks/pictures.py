"""Small pictures of where an answer differs: a grid of cells, as text and as an HTML table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SIDE = 32
MAX_CELLS = 512


@dataclass(frozen=True)
class AnswerPicture:
    """A grid of cells, some marked as wrong; longer sides than 32 are cut, and it says so.

    `rows[r][c]` is what stands in a cell, `wrong[r][c]` whether it differs from what was expected.
    """

    caption: str
    rows: tuple[tuple[str, ...], ...]
    wrong: tuple[tuple[bool, ...], ...]

    def _shown(self) -> list[list[tuple[str, bool]]]:
        return [
            list(zip(texts[:MAX_SIDE], marks[:MAX_SIDE], strict=True))
            for texts, marks in zip(self.rows[:MAX_SIDE], self.wrong[:MAX_SIDE], strict=True)
        ]

    def _note(self) -> str:
        n_rows, n_cols = len(self.rows), max((len(row) for row in self.rows), default=0)
        if n_rows <= MAX_SIDE and n_cols <= MAX_SIDE:
            return ""
        return f" (the first {min(n_rows, MAX_SIDE)} x {min(n_cols, MAX_SIDE)} of {n_rows} x {n_cols} cells)"

    def __str__(self) -> str:
        shown = self._shown()
        width = max((len(text) for row in shown for text, _ in row), default=1)
        lines = [f"{self.caption}{self._note()}; wrong cells in brackets"]
        for row in shown:
            cells = (f"[{text:>{width}}]" if is_wrong else f" {text:>{width}} " for text, is_wrong in row)
            lines.append("".join(cells).rstrip())
        return "\n".join(lines)

    def html(self) -> str:
        """The grid as a table; wrong cells are marked by a colour and by a border."""
        body = ""
        for row in self._shown():
            body += "<tr>"
            for text, is_wrong in row:
                style = "padding:.1em .4em;text-align:right;font-family:monospace;"
                if is_wrong:
                    style += "background:#c62828;color:#fff;border:1px dashed #fff;"
                else:
                    style += "border:1px solid #8884;"
                body += f"<td style='{style}'>{html.escape(text)}</td>"
            body += "</tr>"
        caption = html.escape(f"{self.caption}{self._note()}; wrong cells are filled")
        return (
            "<div style='overflow-x:auto'><table style='border-collapse:collapse;margin:.5em 0'>"
            f"<caption style='caption-side:top;text-align:left'>{caption}</caption>{body}</table></div>"
        )


def grid(
    caption: str, got: Sequence[Sequence[object]], expected: Sequence[Sequence[object]]
) -> AnswerPicture:
    """A picture of `got`, the cells marked where it differs from `expected`, which has the same shape.

    More than 512 cells become at most 8 x 8 blocks, and each says how many of its cells are wrong.
    """
    wrong = tuple(
        tuple(str(a) != str(b) for a, b in zip(row, right, strict=True))
        for row, right in zip(got, expected, strict=True)
    )
    height, width = len(wrong), max((len(row) for row in wrong), default=0)
    if height == 1 or height * width <= MAX_CELLS:
        return AnswerPicture(caption, tuple(tuple(str(value) for value in row) for row in got), wrong)
    edge = 8
    while max(height, width) > 8 * edge:
        edge *= 2
    tops, lefts = range(0, height, edge), range(0, width, edge)
    counts = [
        [sum(sum(row[left : left + edge]) for row in wrong[top : top + edge]) for left in lefts]
        for top in tops
    ]
    return AnswerPicture(
        f"{caption}: how many are wrong in each block of {edge} x {edge}",
        tuple(tuple(map(str, row)) for row in counts),
        tuple(tuple(map(bool, row)) for row in counts),
    )
