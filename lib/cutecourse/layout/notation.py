"""Read layouts in the notation of the CuTe DSL and of CuTe C++."""

from __future__ import annotations

import re
from typing import Any

from .basis import ScaledBasis, add_strides
from .composed import ComposedLayout
from .errors import LayoutError, NotationError
from .int_tuple import is_congruent, pretty_str
from .layout import Layout
from .swizzle import Swizzle

__all__ = ["parse"]

_TOKEN = re.compile(
    r"\s*(?:(?P<swizzle>(?:Swizzle|Sw|S)\s*<)|(?P<number>_?-?\d+)|(?P<compose>[o∘](?=\s|_|\(|-|\d|S))"
    r"|(?P<mark>[():,@<>+]))"
)


def parse(text: str) -> Any:
    """Read a layout, a swizzle or a composed layout.

    The forms are the DSL's `(4,8):(8,1)`, `(4,8):(1@0,1@1)`, `S<3,4,3>`, `A o offset o B`, and C++'s
    `(_4,_8):(_8,_1)`, `Sw<3,4,3>`, `A o _0 o B`; blanks are free. Dynamic extents (`?`) are not values.
    Errors: `NotationError`, with the position.

    >>> print(parse("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)"))
    S<3,4,3> o 0 o (8,64):(64,1)
    >>> Layout.parse("(_64,_8):(_1@0,_1@1)")
    Layout("(64,8):(1@0,1@1)")
    """
    return _NotationParser(text).read()


Layout.parse = staticmethod(parse)


class _NotationParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                column = position + len(text[position:]) - len(text[position:].lstrip())
                raise self._error(f"{text[column]!r} does not belong there", column)
            kind = match.lastgroup
            assert kind is not None
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            position = match.end()
        self.next = 0

    def _error(self, problem: str, column: int | None = None) -> NotationError:
        if column is None:
            column = self.tokens[self.next][2] if self.next < len(self.tokens) else len(self.text.rstrip())
        advice = "(4,8):(8,1), (4,8):(1@0,1@1), S<3,4,3> o 0 o (8,64):(64,1), or C++'s (_4,_8):(_8,_1)"
        if "smem_ptr" in self.text:
            advice = (
                "in front of smem_ptr[16b] a swizzle permutes byte addresses; for the elements write "
                "recast_layout(16, 8, swizzle), an offset and the layout: S<3,3,3> o 0 o (8,64):(64,1)"
            )
        if "?" in self.text:
            advice = "replace each ? by a number: a layout here has no extents known only at run time"
        return NotationError(
            f"{problem}, at character {column + 1} of {self.text!r}", operation="Layout.parse", advice=advice
        )

    def _peek(self) -> str:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else ""

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            found = repr(self._peek()) if self._peek() else "the end"
            raise self._error(f"expected {wanted!r}, found {found}")
        self.next += 1

    def read(self) -> Any:
        factors = [self._factor()]
        while self.next < len(self.tokens) and self.tokens[self.next][0] == "compose":
            self.next += 1
            factors.append(self._factor())
        if self.next < len(self.tokens):
            raise self._error(f"{self._peek()!r} is left over")
        if len(factors) == 1:
            if isinstance(factors[0], (Layout, Swizzle)):
                return factors[0]
            raise self._error("a layout has a stride behind a colon", len(self.text.rstrip()))
        if len(factors) == 2:
            factors.insert(1, 0)
        if len(factors) != 3:
            raise self._error("a composed layout has three parts: inner o offset o outer", 0)
        inner, offset, outer = factors
        if isinstance(offset, (Layout, Swizzle)) or not isinstance(outer, Layout):
            raise self._error("a composed layout reads: inner o offset o outer", 0)
        try:
            return ComposedLayout(inner, offset, outer)
        except LayoutError as error:
            raise self._error(str(error).splitlines()[0], 0) from error

    def _factor(self) -> Any:
        if self.next < len(self.tokens) and self.tokens[self.next][0] == "swizzle":
            return self._swizzle()
        begin = self.tokens[self.next][2] if self.next < len(self.tokens) else 0
        shape = self._tree(self._number)
        if self._peek() != ":":
            return shape
        self._take(":")
        stride = self._tree(self._stride)
        if not is_congruent(shape, stride):
            raise self._error(f"shape {pretty_str(shape)} and its stride are nested differently", begin)
        try:
            return Layout(shape, stride)
        except LayoutError as error:
            raise self._error(str(error).splitlines()[0], begin) from error

    def _swizzle(self) -> Swizzle:
        column = self.tokens[self.next][2]
        self.next += 1
        numbers = [self._number()]
        for _ in range(2):
            self._take(",")
            numbers.append(self._number())
        self._take(">")
        try:
            return Swizzle(*numbers)
        except LayoutError as error:
            raise self._error(str(error).splitlines()[0], column) from error

    def _tree(self, leaf: Any) -> Any:
        if self._peek() != "(":
            return leaf()
        self._take("(")
        elements = []
        if self._peek() != ")":
            elements.append(self._tree(leaf))
            while self._peek() == ",":
                self._take(",")
                if self._peek() == ")":
                    break
                elements.append(self._tree(leaf))
        self._take(")")
        return tuple(elements)

    def _number(self) -> int:
        if self.next >= len(self.tokens) or self.tokens[self.next][0] != "number":
            found = repr(self._peek()) if self._peek() else "the end"
            raise self._error(f"expected a number, found {found}")
        number = int(self.tokens[self.next][1].lstrip("_"))
        self.next += 1
        return number

    def _stride(self) -> Any:
        total = self._term()
        while self._peek() == "+":
            self._take("+")
            total = add_strides(total, self._term())
        return total

    def _term(self) -> Any:
        value = self._number()
        path: list[int] = []
        while self._peek() == "@":
            self._take("@")
            path.append(self._number())
        return ScaledBasis(value, tuple(reversed(path))) if path else value
