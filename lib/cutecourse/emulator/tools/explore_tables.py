"""The result of `explore` as tables: seeds with their outcomes, and two traces where they part."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

from cutecourse.trace import Event
from cutecourse.trace.words import html_table, in_runs, number, place, text_table

__all__ = [
    "Pair",
    "grouped",
    "outcomes_html",
    "outcomes_text",
    "paired",
    "pairs_html",
    "pairs_text",
]

_TEXT_WIDTH = 46
_OUTCOME = 100
_HEAD = ("#", "CTA", "warp", "line", "event")
_OUTCOMES = ("seeds", "compared with the first", "ended with")


@dataclass(frozen=True)
class Pair:
    """A row of two traces side by side: an event of each, or None for a trace without a matching event.

    first_there, second_there  the index in the other trace of an event without a partner in its row, or None.
    ended                      in place of an event: the reason why that launch ended, in words.
    """

    first: Event | None
    second: Event | None
    marked: bool = False
    first_there: int | None = None
    second_there: int | None = None
    ended: tuple[str, str] = ("", "")


def paired(
    first: Sequence[Event], second: Sequence[Event], keys: tuple[Sequence[object], Sequence[object]]
) -> list[tuple[Event | None, Event | None]]:
    """Pair the events of two traces: those with equal keys share a row where both orders allow it."""
    rows: list[tuple[Event | None, Event | None]] = []
    matcher = SequenceMatcher(None, list(keys[0]), list(keys[1]), autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            rows += zip(first[a:b], second[c:d], strict=True)
        else:
            rows += [(event, None) for event in first[a:b]]
            rows += [(None, event) for event in second[c:d]]
    return rows


def _cells(event: Event | None, elsewhere: int | None, ended: str) -> tuple[str, ...]:
    if event is None:
        there = "" if elsewhere is None else f"(#{elsewhere})"
        return (there, "", "", "", ended)
    line = "-" if event.line is None else str(event.line)
    return (
        str(event.index),
        f"{event.cluster}:{event.rank}",
        place(event.warp, event.lane),
        line,
        str(event),
    )


def _sides(pair: Pair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # Beside an event without a partner stands its index in the other trace.
    return (
        _cells(pair.first, pair.second_there, pair.ended[0]),
        _cells(pair.second, pair.first_there, pair.ended[1]),
    )


def _wrapped(text: str) -> list[str]:
    """A cell's lines."""
    return textwrap.wrap(text, _TEXT_WIDTH, subsequent_indent="  ") or [""]


def pairs_text(pairs: Iterable[Pair], names: tuple[str, str]) -> str:
    """The rows in plain text, long cells over several lines; `>` marks where the traces part."""
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        left, right = _sides(pair)
        wrapped = [_wrapped(side[-1]) for side in (left, right)]
        for n in range(max(map(len, wrapped))):
            one, other = (side[n] if n < len(side) else "" for side in wrapped)
            lead = (left[:-1], right[:-1]) if n == 0 else (("",) * 4, ("",) * 4)
            mark = ">" if pair.marked and n == 0 else ""
            rows.append((mark, *lead[0], one.ljust(_TEXT_WIDTH), "|", *lead[1], other))
    head = ("", *_HEAD[:-1], names[0].ljust(_TEXT_WIDTH), "|", *_HEAD[:-1], names[1])
    return text_table(head, rows)


def pairs_html(pairs: Iterable[Pair], names: tuple[str, str], caption: str) -> str:
    """The rows in HTML, for a notebook."""
    border = "border-left:2px solid currentColor;"
    titles = "".join(
        f"<th colspan='5' scope='colgroup' style='text-align:left;{border if n else ''}'>{escape(name)}</th>"
        for n, name in enumerate(names)
    )
    heads = "".join(
        f"<th scope='col' style='text-align:left;{border if n and not at else ''}'>{escape(cell)}</th>"
        for n in range(2)
        for at, cell in enumerate(_HEAD)
    )
    body = []
    for pair in pairs:
        cells = "".join(
            f"<td style='text-align:left;{border if n and not at else ''}'>{escape(cell)}</td>"
            for n, side in enumerate(_sides(pair))
            for at, cell in enumerate(side)
        )
        style = " style='font-weight:bold;outline:2px solid currentColor'" if pair.marked else ""
        mark = "&gt;" if pair.marked else ""
        body.append(f"<tr{style}><td>{mark}</td>{cells}</tr>")
    return (
        "<div style='overflow-x:auto' tabindex='0'><table>"
        f"<caption style='text-align:left;white-space:pre-line'>{escape(caption)}</caption>"
        f"<thead><tr><td></td>{titles}</tr><tr><td></td>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def grouped(seeds: Iterable[int]) -> str:
    """Numbers in words, runs as ranges.

    >>> grouped([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7 to 8'
    """
    return in_runs(seeds, " to ")


def outcomes_text(rows: Sequence[tuple[str, str, str]]) -> str:
    """Seeds and outcomes in plain text; long outcomes are cut."""
    short = [
        (seeds, compared, textwrap.shorten(how, _OUTCOME, placeholder=" ..."))
        for seeds, compared, how in rows
    ]
    return text_table(_OUTCOMES, short)


def outcomes_html(rows: Sequence[tuple[str, str, str]], seeds: int) -> str:
    """Seeds and outcomes in HTML, for a notebook."""
    return html_table(_OUTCOMES, rows, f"{number(seeds, 'seed')} ran")
