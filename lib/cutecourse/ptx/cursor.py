"""A place in the tokens: look, take, refuse; numbers and constant expressions."""

from __future__ import annotations

import struct
from typing import NoReturn

from cutecourse.ptx.errors import PtxLimitError, PtxSyntaxError
from cutecourse.ptx.syntax import FloatLiteral, IntLiteral
from cutecourse.ptx.tokens import Tokens

__all__ = ["MAX_NESTING", "Cursor"]

MAX_NESTING = 64
"""How deep parentheses, braces and initializers may nest; deeper is refused."""

_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


class Cursor:
    """Reads tokens from left to right."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.at = 0

    # --- looking and taking -----------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """The next token's kind."""
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        """The next token's text."""
        return self.texts[self.at]

    def place(self) -> tuple[int, int]:
        """Line and column of the next token."""
        return self.tokens.lines[self.at], self.tokens.columns[self.at]

    def next_is(self, text: str) -> bool:
        """Return whether the next token is this punctuation, directive or word."""
        return self.texts[self.at] == text and self.kinds[self.at] in {"punct", "dot", "word"}

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.next_is(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str, expected: str = "") -> None:
        """Take this token; anything else is an error."""
        if not self.accept(text):
            self.fail(expected or repr(text))

    def take(self, kind: str, expected: str) -> str:
        """Take a token of a kind and return its text."""
        if self.kinds[self.at] != kind:
            self.fail(expected)
        self.at += 1
        return self.texts[self.at - 1]

    def name(self, expected: str = "a name") -> str:
        """Take one word."""
        return self.take("word", expected)

    def fail(self, expected: str, problem: str = "") -> NoReturn:
        """Refuse the text at the next token."""
        line, column = self.place()
        found = "the text ends too early" if self.kind == "end" else f"unexpected {self.text!r}"
        raise PtxSyntaxError(
            problem or found,
            line=line,
            column=column,
            text=self.tokens.source[line - 1],
            expected=expected,
        )

    def deep(self, depth: int) -> None:
        """Refuse nesting that would exhaust the stack."""
        if depth > MAX_NESTING:
            line, column = self.place()
            raise PtxLimitError(
                f"more than {MAX_NESTING} levels of nesting",
                line=line,
                column=column,
                text=self.tokens.source[line - 1],
            )

    # --- numbers ----------------------------------------------------------------------------------------

    def integer(self, expected: str = "an integer") -> int:
        """Take one plain integer."""
        return self._value(self.take("int", expected))

    def _value(self, text: str) -> int:
        digits = text.rstrip("U")
        if len(digits) > 70:
            self.at -= 1
            self.fail("an integer of at most 64 bits", "an integer is too long")
        if digits[:2].lower() in {"0x", "0b"}:
            value = int(digits, 0)
        elif len(digits) > 1 and digits[0] == "0":
            if not all(d in "01234567" for d in digits):
                self.at -= 1
                self.fail("an octal integer", f"{text!r} is not an octal integer")
            value = int(digits, 8)
        else:
            value = int(digits)
        if value >= 1 << 64:
            self.at -= 1
            self.fail("an integer of at most 64 bits", f"{text} does not fit into 64 bits")
        return value

    def literal(self) -> IntLiteral | FloatLiteral:
        """A number, perhaps with a sign, or a constant expression."""
        line, column = self.place()
        if self.kind in {"hexfloat", "float"}:
            return self._float(line, column, negative=False)
        if self.next_is("-") and self.kinds[self.at + 1] in {"hexfloat", "float"}:
            self.at += 1
            return self._float(line, column, negative=True)
        return IntLiteral(line, column, self.constant())

    def _float(self, line: int, column: int, *, negative: bool) -> FloatLiteral:
        kind, text = self.kind, self.text
        self.at += 1
        if kind == "hexfloat":
            bits = 32 if text[1] in "fF" else 64
            pattern = int("0x" + text[2:], 0)
        else:
            bits = 64
            pattern = struct.unpack("<Q", struct.pack("<d", float(text)))[0]
        return FloatLiteral(line, column, pattern ^ (1 << (bits - 1) if negative else 0), bits)

    def constant(self) -> int:
        """A constant expression of integers, with C's operators."""
        value = self._conditional(0)
        if not -(1 << 63) <= value < 1 << 64:
            value &= (1 << 64) - 1
        return value

    def _conditional(self, depth: int) -> int:
        self.deep(depth)
        condition = self._binary(1, depth)
        if not self.accept("?"):
            return condition
        yes = self._conditional(depth + 1)
        self.expect(":")
        no = self._conditional(depth + 1)
        return yes if condition else no

    def _binary(self, weakest: int, depth: int) -> int:
        left = self._unary(depth)
        while self.kind == "punct" and _BINARY.get(self.text, 0) >= weakest:
            operator = self.text
            self.at += 1
            right = self._binary(_BINARY[operator] + 1, depth + 1)
            left = self._apply(operator, left, right)
        return left

    def _apply(self, operator: str, left: int, right: int) -> int:
        if operator in {"/", "%"}:
            if right == 0:
                self.fail("a divisor other than zero", "division by zero in a constant expression")
            quotient = abs(left) // abs(right)
            quotient = -quotient if (left < 0) != (right < 0) else quotient
            value = quotient if operator == "/" else left - quotient * right
        elif operator in {"<<", ">>"}:
            if not 0 <= right < 64:
                self.fail("a shift by 0 to 63 bits", f"a shift by {right} bits in a constant expression")
            value = left << right if operator == "<<" else left >> right
        else:
            match operator:
                case "+":
                    value = left + right
                case "-":
                    value = left - right
                case "*":
                    value = left * right
                case "&":
                    value = left & right
                case "|":
                    value = left | right
                case "^":
                    value = left ^ right
                case "&&":
                    value = int(bool(left and right))
                case "||":
                    value = int(bool(left or right))
                case "==":
                    value = int(left == right)
                case "!=":
                    value = int(left != right)
                case "<":
                    value = int(left < right)
                case ">":
                    value = int(left > right)
                case "<=":
                    value = int(left <= right)
                case _:
                    value = int(left >= right)
        if not -(1 << 63) <= value < 1 << 64:
            value &= (1 << 64) - 1
        return value

    def _unary(self, depth: int) -> int:
        self.deep(depth)
        if self.accept("-"):
            return -self._unary(depth + 1)
        if self.accept("+"):
            return self._unary(depth + 1)
        if self.accept("~"):
            return ~self._unary(depth + 1)
        if self.accept("!"):
            return int(not self._unary(depth + 1))
        if self.accept("("):
            if self.kind == "dot" and self.text in {".s64", ".u64"}:
                wanted = self.text
                self.at += 1
                self.expect(")")
                value = self._unary(depth + 1) & ((1 << 64) - 1)
                return value - (1 << 64) if wanted == ".s64" and value >= 1 << 63 else value
            value = self._conditional(depth + 1)
            self.expect(")")
            return value
        if self.kind == "word" and self.text == "WARP_SZ":
            self.at += 1
            return 32
        return self.integer("a number")
