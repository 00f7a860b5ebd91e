"""The bits of descriptors for print."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.descriptors import DescriptorFormat, Field
from cutecourse.widgets.descriptor_reading import hex_of, problems, segments
from cutecourse.widgets.figures import INK, LINE, MONO, MUTED, PrintFigure

TAGS = "abcdefghijklmnopqrstuvwxyz"
ROW = 32
BIT_IN = 0.235
BAD = palette.MEANINGS_LIGHT["bad"]


def tag_of(fmt: DescriptorFormat, field: Field) -> str:
    """The letter that stands for a field in the strip of bits, a for the lowest."""
    return TAGS[fmt.fields.index(field)]


def draw_descriptor(
    fmt: DescriptorFormat, words: Sequence[tuple[str, int]], chosen: int, title: str = ""
) -> PrintFigure:
    """Every word as rows of 32 bits, highest first, and the fields of the chosen one as a list.

    A colour and a letter for each field, hatched where bits are reserved; a bar under a bit in which the
    words are not all alike.
    """
    rows = fmt.bits // ROW
    value = words[chosen][1]
    lines = _lines(fmt, value)
    strip_in = rows * 0.62 + 0.3
    figure = PrintFigure(ROW * BIT_IN + 0.3, len(words) * strip_in + 0.19 * len(lines) + 0.5)
    grid = figure.add_gridspec(
        len(words) + 1, 1, height_ratios=[*[strip_in] * len(words), 0.19 * len(lines) + 0.1]
    )
    figure.suptitle(title or f"{fmt.name}, {fmt.bits} bits", fontsize=9.5, color=INK, x=0.01, ha="left")
    differ = 0
    for _, word in words:
        differ |= word ^ words[0][1]
    for index, (name, word) in enumerate(words):
        axes = figure.add_subplot(grid[index])
        _strip(axes, fmt, word, differ)
        shown = " (its fields below)" if len(words) > 1 and index == chosen else ""
        head = f"{name}: " if name else ""
        axes.set_title(f"{head}{hex_of(word, fmt.bits)}{shown}", fontsize=8.5, color=INK, loc="left", **MONO)
    below = figure.add_subplot(grid[len(words)])
    below.axis("off")
    below.set_xlim(0, 1)
    below.set_ylim(len(lines), 0)
    for row, (text, wrong) in enumerate(lines):
        below.text(0, row + 0.5, text, fontsize=7.5, color=BAD if wrong else INK, va="center", **MONO)
    return figure


def _strip(axes: Axes, fmt: DescriptorFormat, word: int, differ: int) -> None:
    rows = fmt.bits // ROW
    axes.set_xlim(-0.05, ROW + 0.05)
    axes.set_ylim(rows * 2.2, -0.1)
    axes.axis("off")
    for field, low, bits in segments(fmt, ROW):
        row = rows - 1 - low // ROW
        top = row * 2.2 + 0.45
        left = ROW - (low % ROW + bits)
        number = None if field is None else fmt.fields.index(field)
        ground = palette.MEANINGS_LIGHT["hole"] if number is None else palette.QUADS_LIGHT[number % 8]
        hatch = "////" if number is None else None
        axes.add_patch(
            Rectangle((left, top), bits, 1, facecolor=ground, edgecolor=LINE, linewidth=0.6, hatch=hatch)
        )
        for i in range(bits):
            bit = low + bits - 1 - i
            one = word >> bit & 1
            wrong = number is None and one
            axes.text(
                left + i + 0.5,
                top + 0.5,
                str(one),
                ha="center",
                va="center",
                fontsize=7.5,
                color=BAD if wrong else INK,
                weight="bold" if one else "normal",
                **MONO,
            )
            if differ >> bit & 1:
                axes.add_patch(Rectangle((left + i + 0.12, top + 0.86), 0.76, 0.14, facecolor=INK))
        # Numbers at the ends of a field; of one bit, its own.
        ends = {low + bits - 1: left + 0.5, low: left + bits - 0.5}
        for bit, x in ends.items():
            axes.text(x, top - 0.22, str(bit), ha="center", va="center", fontsize=5.5, color=MUTED)
        if field is not None:
            axes.text(
                left + bits / 2,
                top + 1.3,
                tag_of(fmt, field),
                ha="center",
                va="center",
                fontsize=7,
                color=INK,
                **MONO,
            )


def _lines(fmt: DescriptorFormat, value: int) -> list[tuple[str, bool]]:
    lines = []
    for part in fmt.explain(value).fields:
        where = f"{tag_of(fmt, part.field)}  {part.field.bits_str():8}{part.field.name:20}"
        unknown = part.field.names is not None and part.field.name_of(part.stored) is None
        lines.append((f"{where}{part.stored:>6}  {part.meant}", unknown))
    for problem in problems(fmt, value):
        lines += [(text, True) for text in textwrap.wrap(f"✗ {problem}", 88, subsequent_indent="  ")]
    return lines
