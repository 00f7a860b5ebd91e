"""Tokens of a PTX text: one pass of one regular expression, in time linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutecourse.ptx.errors import PtxLimitError, PtxSyntaxError

__all__ = ["MAX_TEXT_BYTES", "Tokens", "tokenize"]

MAX_TEXT_BYTES = 64 << 20
"""A longer text is refused before it is read."""

_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\r\f\v]+|//[^\n]*)
    | (?P<newline>\n)
    | (?P<comment>/\*)
    | (?P<hexfloat>0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$]))
    | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![\w$])|[0-9]+\.(?![\w$])|[0-9]+[eE][+-]?[0-9]+(?![\w$]))
    | (?P<int>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)U?(?![\w$]))
    | (?P<word>[A-Za-z_$][\w$]*|%[\w$]+)
    | (?P<dot>\.[0-9]*[A-Za-z_$%][\w$]*(?:::\w+)*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||[{}\[\]()<>,;:@!|+\-*/%&^~?=])
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Parallel lists: each token's kind, text, line and column. The last token has the kind "end"."""

    kinds: list[str]
    texts: list[str]
    lines: list[int]
    columns: list[int]
    source: list[str]
    """The text, line by line, for messages."""


def tokenize(text: str) -> Tokens:
    """Cut a PTX text into tokens; comments and white space are dropped."""
    if len(text) > MAX_TEXT_BYTES:
        raise PtxLimitError(
            f"the text has {len(text)} characters, more than {MAX_TEXT_BYTES}", line=1, column=1
        )
    kinds: list[str] = []
    texts: list[str] = []
    lines: list[int] = []
    columns: list[int] = []
    # A NUL ends what the driver reads; some front ends leave one behind.
    end = text.find("\0")
    end = len(text) if end < 0 else end
    position, line, line_start = 0, 1, 0
    match = _TOKEN.match
    while position < end:
        found = match(text, position, end)
        if found is None:
            source = text.split("\n")
            raise PtxSyntaxError(
                f"unexpected character {text[position]!r}",
                line=line,
                column=position - line_start + 1,
                text=source[line - 1],
                expected="an instruction, a directive or an operand",
            )
        kind = found.lastgroup or ""
        start, position = position, found.end()
        if kind == "newline":
            line += 1
            line_start = position
        elif kind == "comment":
            stop = text.find("*/", position, end)
            if stop < 0:
                raise PtxSyntaxError(
                    "a comment is never closed",
                    line=line,
                    column=start - line_start + 1,
                    text=text.split("\n")[line - 1],
                    expected="*/",
                )
            breaks = text.count("\n", position, stop)
            if breaks:
                line += breaks
                line_start = text.rfind("\n", position, stop) + 1
            position = stop + 2
        elif kind != "skip":
            kinds.append(kind)
            texts.append(found.group())
            lines.append(line)
            columns.append(start - line_start + 1)
    kinds.append("end")
    texts.append("the end of the text")
    lines.append(line)
    columns.append(position - line_start + 1)
    return Tokens(kinds, texts, lines, columns, text.split("\n"))
