"""The result of a compile, and PTX as a notebook shows it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from cutecourse.ptx.demangle import listed
from cutecourse.ptx.sources import SourcedText
from cutecourse.runtime.errors import CompileError

__all__ = ["PTX_VERSION", "Compiled", "PtxText", "with_lowered_version"]

# Each compiler writes the newest version of PTX that its own toolkit knows, whatever the kernel uses, and a
# driver refuses a text newer than itself (seen: 9.4 on a driver for 9.0). The lowest that has every target of
# the course is 8.8 (it added sm_103). ptxas checks in the tests that the texts keep to it.
PTX_VERSION = (8, 8)

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)", re.MULTILINE)

_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")


def with_lowered_version(ptx: str) -> str:
    """The PTX with its `.version` lowered to PTX_VERSION where it is newer; nothing else changes."""

    def lowered(match: re.Match[str]) -> str:
        major, minor = min((int(match[1]), int(match[2])), PTX_VERSION)
        return f".version {major}.{minor}"

    return _VERSION.sub(lowered, ptx, count=1)


class PtxText(SourcedText):
    """A PTX module's text; it prints and shows in a notebook as text, not as one escaped line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return f"```text\n{self.strip()}\n```"

    def lines_with(self, *words: str) -> PtxText:
        """The lines that hold one of the words, in order, with an instruction's continuation lines."""
        kept: list[str] = []
        open_instruction = False
        for line in self.splitlines():
            if open_instruction or any(word in line for word in words):
                kept.append(line.strip() if not open_instruction else "    " + line.strip())
                statement = line.split("//")[0].rstrip()
                open_instruction = bool(statement) and not statement.endswith((";", ":", "}", "{", ")"))
        return PtxText("\n".join(kept))

    @property
    def sha256(self) -> str:
        """The hash of the text's bytes."""
        return hashlib.sha256(self.encode()).hexdigest()


@dataclass(frozen=True)
class Compiled:
    """A kernel as PTX: the module's text, the entry in it, the target, and how long the compiler took.

    missing   the compiler that is not installed, where the text is the kernel's twin, written by hand. The
              twin takes an array as a pointer alone, whatever the compiler passes.
    """

    ptx: PtxText
    entry: str
    target: str
    seconds: float
    missing: str | None = None


def only_entry(kernel: str, ptx: str) -> str:
    """The name of the one kernel in a module. Errors: CompileError if there is none or more than one."""
    entries: list[str] = _ENTRY.findall(ptx)
    if len(entries) != 1:
        raise CompileError(
            f"{kernel}: the PTX module has {len(entries)} entries; name the one to launch:{listed(entries)}"
        )
    return entries[0]
