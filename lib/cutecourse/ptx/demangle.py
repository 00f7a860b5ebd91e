"""Short names for people: C++ names without their parameters, names of the CuTe DSL, and long names cut.

nvcc and Clang name a kernel as the Itanium C++ ABI has it, with its namespaces, template arguments and
parameters in up to 1,500 characters. `short_name` keeps the namespaces and the first template arguments by
their last names. The CuTe DSL's name is `kernel_cutlass_`, the function's name, all arguments as Python
prints them but without punctuation, cut, and the number of the trace. Of its arguments `short_name` keeps the
kinds. Messages show it; a launch also takes a part of it for the name in the text.

Simplified: a name with an expression, an operator or a vendor's type among its parts stays as it is, but cut;
            an expression that is one template parameter (XT_E) is read. Substitutions (S_, S1_) and template
            parameters (T_) are shown as "...". In a name of the CuTe DSL nothing marks where the function's
            name ends: a number behind it is taken for a part of it, and numbers among the arguments are left
            out.
Source:     Itanium C++ ABI, Mangling (#mangling); `mangle_name` in the CuTe DSL's base_dsl/dsl.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

__all__ = ["chooses", "listed", "named", "short_name"]

_LONGEST = 80
_MOST_ARGUMENTS = 4
_HIDDEN = "..."
_TAIL = 16
"""A part of a name that chooses it is its end, if so many characters will do; else its shortest part."""
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float",
    "d": "double", "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_STANDARD = {"t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string",
             "i": "std::istream", "o": "std::ostream", "d": "std::iostream"}  # fmt: skip
_DSL = re.compile(r"kernel_cutlass_(.*)_(\d+)")
_DSL_CLASS = re.compile(r"^(\w*?)_*([A-Z][A-Za-z0-9]*|__main__\w+?)_object_at_")
_DSL_ARGUMENT = re.compile(
    r"_(?:tensorptr(?P<type>bf16|tf32|[fiu]\d+(?:E\d+M\d+(?:FN|UZ|B11|FNU)*)?)?(?P<space>[gstr]mem)?"
    r"|(?P<word>CopyAtom|MmaAtom|TiledCopy|TiledMMA|True|False|None)(?=_|$)"
    r"|(?P<coordinates>tensor(?=\d))|(?P<layout>S\d+o))"
)
_END = re.compile("E")
_NUMBERED = re.compile(r"(\d*)_")
_SUBSTITUTION = re.compile(r"[0-9A-Z]*_")


class _Unknown(Exception):
    """A part of a name that this reader does not know."""


@lru_cache(maxsize=1024)
def short_name(name: str) -> str:
    """A name for messages, in 80 characters at most; a name that is no mangled one is only cut.

    >>> short_name("_Z4gemmILi128EfEvPKT0_i"), short_name("_ZZ4gemmPfE4tile"), short_name("gemm")
    ('gemm<128, float>', 'tile', 'gemm')
    >>> short_name("kernel_cutlass_scale_tensorptrf32gmemalign16o1281___True_1")
    'scale#1(f32 gmem, True)'
    """
    found = name
    if dsl := _DSL.fullmatch(name):
        found = _of_the_dsl(dsl[1], int(dsl[2]))
    if name.startswith("_Z"):
        reader = _Reader(name[2:])
        try:
            found = reader.name()
            if len(found) > _LONGEST:
                found = re.sub(r"<.*>$", "<...>", found)
        except (_Unknown, RecursionError):
            found = name
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 23]}...{found[-20:]}"


def named(names: Sequence[str], part: str) -> list[str]:
    """The one name that is `part`; else all that have it in them, as the text or as messages have them.

    >>> named(["gemm", "gemm_late", "_Z4sumsILi4EEvv"], "gemm"), named(["_Z4sumsILi4EEvv"], "sums<4>")
    (['gemm'], ['_Z4sumsILi4EEvv'])
    """
    if part in names:
        return [part]
    return [name for name in names if part and (part in name or part in short_name(name))]


def listed(names: Sequence[str]) -> str:
    """Kernels after the colon of a message. Long names get a line each: a part that chooses it, a short name.

    >>> listed(["gemm", "sums"]), listed([])
    (' gemm, sums', ' none')
    >>> print("kernels:" + listed(["_Z4sumsILi4EEvPf", "_Z4sumsILi8EEvPf", "_Z4gemmPf"]))
    kernels:
      'sums<4>'  sums<4>
      'sums<8>'  sums<8>
      'gemm'     gemm
    """
    if all(short_name(name) == name for name in names):
        return f" {', '.join(names) or 'none'}"
    parts = [repr(chooses(names, name)) for name in names]
    width = max(map(len, parts))
    rows = zip(parts, names, strict=True)
    return "".join(f"\n  {part:<{width}}  {short_name(name)}" for part, name in rows)


def chooses(names: Sequence[str], name: str) -> str:
    """A short part of a name that no other of some names has.

    >>> chooses(["_ZN3lib4gemmILi64EEEvv", "_ZN3lib4sumsEv"], "_ZN3lib4gemmILi64EEEvv")
    'gemm'
    """
    short = short_name(name)
    plain = re.split("[<(#]", short)[0]
    words = name.split("_")
    tails = ("_".join(words[-count:]) for count in range(1, len(words)))
    first = (plain.rpartition("::")[2], short.partition("(")[0], *(one for one in tails if len(one) <= _TAIL))
    pieces = (name[at : at + size] for size in range(3, len(name)) for at in range(len(name) - size + 1))
    found = (part for part in chain(first, pieces) if not part.isdigit() and named(names, part) == [name])
    return next(found, name)


def _of_the_dsl(text: str, trace: int) -> str:
    """The function's name and its arguments' kinds, from what the CuTe DSL puts between prefix and number."""
    owner = ""
    if of_class := _DSL_CLASS.match(text):
        function, owner, text = of_class[1], of_class[2].removeprefix("__main__"), text[of_class.end() :]
        function = "kernel" if function.startswith("kernel_") else function
    found = list(_DSL_ARGUMENT.finditer(text))
    if not of_class:
        function = text[: found[0].start()] if found else text
    kinds = [
        one["word"]
        or ("coordinates" if one["coordinates"] else "")
        or ("layout" if one["layout"] else "")
        or " ".join(filter(None, (one["type"] or "tensor", one["space"])))
        for one in found
    ]
    kinds = [*kinds[:_MOST_ARGUMENTS], _HIDDEN] if len(kinds) > _MOST_ARGUMENTS else kinds
    number = f"#{trace}" if trace else ""
    return f"{owner}{'.' if owner else ''}{function.strip('_')}{number}({', '.join(kinds)})"


class _Reader:
    """Reads a mangled name from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

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
            elif self.take("XT"):
                self.match(_NUMBERED)
                self.match(_END)
                found.append(_HIDDEN)
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
        """Read types up to a letter."""
        while not self.take(end):
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
