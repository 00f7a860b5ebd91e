"""Short names for people: C++ names without their parameters, and long names cut.

nvcc and Clang name a kernel as the Itanium C++ ABI has it, with its namespaces, template arguments and
parameters in up to 1,500 characters. `short_name` keeps the namespaces and the first template arguments by
their last names. It is for messages only: a launch takes the name in the text.

Simplified: a name with an expression, an operator or a vendor's type among its parts stays as it is, but cut.
            Substitutions (S_, S1_) and template parameters (T_) are shown as "...".
Source:     Itanium C++ ABI, Mangling (#mangling).
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["short_name"]

_LONGEST = 80
_MOST_ARGUMENTS = 4
_HIDDEN = "..."
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float",
    "d": "double", "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_STANDARD = {"t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string",
             "i": "std::istream", "o": "std::ostream", "d": "std::iostream"}  # fmt: skip
_NUMBERED = re.compile(r"(\d*)_")
_SUBSTITUTION = re.compile(r"[0-9A-Z]*_")


class _Unknown(Exception):
    """A part of a name that this reader does not know."""


@lru_cache(maxsize=1024)
def short_name(name: str) -> str:
    """A name for messages, in 80 characters at most; a name that is no mangled one is only cut.

    >>> short_name("_Z4gemmILi128EfEvPKT0_i"), short_name("_ZZ4gemmPfE4tile"), short_name("gemm")
    ('gemm<128, float>', 'tile', 'gemm')
    """
    found = name
    if name.startswith("_Z"):
        reader = _Reader(name[2:])
        try:
            found = reader.name()
            if reader.left():
                reader.parameters("")
            if len(found) > _LONGEST:
                found = re.sub(r"<.*>$", "<...>", found)
        except (_Unknown, RecursionError):
            found = name
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 23]}...{found[-20:]}"


class _Reader:
    """Reads a mangled name from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def left(self) -> str:
        """The text that has not been read, up to a suffix that compilers add, such as .cold."""
        return self.text[self.at :].partition(".")[0]

    def take(self, *words: str) -> str:
        """Take one of some words if it comes next; else an empty string."""
        for word in words:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return word
        return ""

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Unknown
        self.at = found.end()
        return found

    # --- names ----------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A name with its namespaces and template arguments."""
        if self.take("N"):
            while self.take("r", "V", "K", "R", "O"):
                pass
            parts: list[str] = []
            while not self.take("E"):
                self._part(parts)
            return "::".join(part for part in parts if part != _HIDDEN) or _HIDDEN
        if self.take("Z"):
            self.name()
            self.parameters("E")
            if self.take("s"):
                found = "string"
            else:
                if self.take("d"):
                    self.match(_NUMBERED)
                found = self.name()
            if self.take("__"):
                self.match(_NUMBERED)
            elif self.text[self.at : self.at + 1] == "_":
                self.at += 2
            return found
        parts = []
        self._part(parts)
        if parts == ["std"]:
            self._part(parts)
        if self.text[self.at : self.at + 1] == "I":
            self._part(parts)
        return "::".join(parts)

    def _part(self, parts: list[str]) -> None:
        """Read one part of a name; template arguments go to the part before."""
        if self.take("I"):
            arguments = self._arguments()
            if not parts:
                raise _Unknown
            parts[-1] += f"<{', '.join(arguments)}>"
        elif self.take("S"):
            standard = self.take(*_STANDARD)
            if not standard:
                self.match(_SUBSTITUTION)
            parts.append(_STANDARD.get(standard, _HIDDEN))
        elif self.take("T"):
            self.match(_NUMBERED)
            parts.append(_HIDDEN)
        elif self.take("Ul"):
            self.parameters("E")
            self.match(_NUMBERED)
            parts.append("lambda")
        elif self.take("Ut"):
            self.match(_NUMBERED)
            parts.append("unnamed")
        elif self.take("C1", "C2", "C3"):
            parts.append(re.sub("<.*", "", parts[-1]) if parts else _HIDDEN)
        elif self.take("D0", "D1", "D2"):
            parts.append("~" + re.sub("<.*", "", parts[-1]) if parts else _HIDDEN)
        elif self.take("B"):
            self._word()
        else:
            self.take("L")
            word = self._word()
            parts.append("(anonymous)" if word.startswith(("_GLOBAL__N", "_INTERNAL")) else word)

    def _word(self) -> str:
        length = int(self.match(re.compile(r"(\d{1,6})"))[1])
        word = self.text[self.at : self.at + length]
        if len(word) < length:
            raise _Unknown
        self.at += length
        return word

    def _arguments(self) -> list[str]:
        """The template arguments up to E, the first of them in words."""
        found: list[str] = []
        while not self.take("E"):
            if self.take("J"):
                found += self._arguments()
            elif self.take("L"):
                found.append(self._literal())
            else:
                found.append(self.type())
        return [*found[:_MOST_ARGUMENTS], _HIDDEN] if len(found) > _MOST_ARGUMENTS else found

    def _literal(self) -> str:
        if self.take("_Z"):
            found = self.name()
            self.parameters("E")
            return found
        kind = self.type()
        value = self.match(re.compile(r"([n0-9a-f]*)E"))[1].replace("n", "-")
        return {"0": "false", "1": "true"}.get(value, value) if kind == "bool" else value or _HIDDEN

    # --- types ----------------------------------------------------------------------------------------------

    def parameters(self, end: str) -> None:
        """Read types up to a letter, or to the end of the name."""
        while not (self.take(end) if end else not self.left()):
            self.type()

    def type(self) -> str:
        """A type by its last name."""
        if self.take("r", "V", "K", "Dp"):
            return self.type()
        if mark := self.take("P", "R", "O"):
            return self.type() + {"P": "*", "R": "&", "O": "&&"}[mark]
        if self.take("F"):
            self.take("Y")
            self.parameters("E")
            return _HIDDEN
        if self.take("A"):
            self.match(_NUMBERED)
            return f"{self.type()}[]"
        if self.take("M"):
            self.type()
            return self.type()
        if floating := self.take("DF16_", "DF16b", "Dn", "Di", "Ds", "Du", "Da", "Dc", "Dh"):
            return {"DF16_": "_Float16", "DF16b": "__bf16", "Dn": "nullptr_t"}.get(floating, _HIDDEN)
        if self.take("Dv"):
            self.match(_NUMBERED)
            return self.type()
        letter = self.text[self.at : self.at + 1]
        if letter in _BUILTIN:
            self.at += 1
            return _BUILTIN[letter]
        if not letter or letter not in "NZSTL0123456789":
            raise _Unknown
        return _last(self.name())


def _last(name: str) -> str:
    """The last part of a name, with template arguments left out: std::pair<int, int> as pair<...>."""
    outer = re.sub(r"<.*>$", "<...>", name)
    return (
        outer.rpartition("::")[2]
        if "<" not in outer
        else outer[: outer.index("<")].rpartition("::")[2] + "<...>"
    )
