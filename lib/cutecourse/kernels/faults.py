"""A kernel's faults: what each changes in the kernel and in its twin, and what reports it.

The faults of a kernel stand in its folder, as `FAULTS` of its module, of `faults.py` or of a module of broken
kernels. `LaunchSpec.with_fault` puts one in. So a page can show everything that differs between a right
kernel and a wrong one. Making the text needs no compiler; compiling it does.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

from cutecourse.kernels.files import SpecError, kernel_module, kernel_modules

__all__ = ["Edits", "Fault", "Faults", "by_name", "change_of", "edited", "faults_of", "same_code"]

Edits = tuple[tuple[str, str], ...]
"""Texts, each with the text that replaces it."""


@dataclass(frozen=True)
class Fault:
    """One thing done wrong, as an edit of the kernel and as the same edit of its twin.

    about       a sentence without its full stop that says what is wrong.
    source      the edits of the kernel's own text, as `edited` makes them: of `source.py`, or of the PTX of a
                kernel that is PTX.
    twin        the edits of its twin, whose names of sizes are not filled in yet.
    reports     the emulator's error classes, one of which must report the fault, as an error or as a note.
    unreported  where `reports` is empty: why nothing reports the fault.
    exercise    the exercise that asks for the fault, such as "07.5".

    A change that is no fault, such as a smaller size, is put in the same way.
    """

    name: str
    about: str
    source: Edits = ()
    twin: Edits = ()
    reports: tuple[str, ...] = ()
    unreported: str = ""
    exercise: str | None = None

    def __post_init__(self) -> None:
        if bool(self.reports) == bool(self.unreported):
            raise SpecError(f"the fault {self.name!r} must say what reports it, or why nothing does.")

    @property
    def right(self) -> str:
        """The kernel's text as it should be, where the fault changes it first."""
        return self.source[0][0]

    @property
    def wrong(self) -> str:
        """The kernel's text as the fault has it there."""
        return self.source[0][1]


class Faults(dict[str, Fault]):
    """Faults by their names. A name that is none gives a SpecError that lists those that are."""

    def __init__(self, owner: str, faults: Iterable[Fault]) -> None:
        faults = tuple(faults)
        super().__init__({fault.name: fault for fault in faults})
        if len(self) < len(faults):
            raise SpecError(
                f"{owner} has two faults of one name: {', '.join(fault.name for fault in faults)}."
            )
        self.owner = owner

    def __missing__(self, name: str) -> Fault:
        raise SpecError(f"{self.owner} has no fault {name!r}; it has {', '.join(self)}.")


def by_name(module: str, *faults: Fault) -> Faults:
    """The faults of a module, by their names; `module` is its `__name__`."""
    return Faults(module.removesuffix(".faults").rpartition(".")[2], faults)


def faults_of(kernel: str) -> Faults:
    """All faults of a kernel, from all modules of its folder. Errors: SpecError."""
    found = [fault for module in _modules_of(kernel) for fault in getattr(module, "FAULTS", {}).values()]
    return Faults(kernel, found)


def change_of(kernel: str, name: str) -> Fault:
    """A kernel's fault, or a change of its folder that is no fault, by its name. Errors: SpecError."""
    for module in _modules_of(kernel):
        for one in vars(module).values():
            if isinstance(one, Fault) and one.name == name:
                return one
    return faults_of(kernel)[name]


def _modules_of(kernel: str) -> list[ModuleType]:
    """The modules of a kernel's folder, without its source."""
    place = f"{kernel_module(kernel).__name__}."
    parts = [name for name, where in kernel_modules().items() if where.startswith(place)]
    return [kernel_module(name) for name in (kernel, *parts) if not name.endswith(".source")]


def edited(text: str, edits: Edits, what: str) -> str:
    """A text with the edits, one after the other. One that leaves nothing takes out whole lines.

    `what` is what an error calls the text. Errors: SpecError for a piece that is not there exactly once.
    """
    for right, wrong in edits:
        if text.count(right) != 1:
            raise SpecError(f"{what} has {right!r} {text.count(right)} times; it must be there once.")
        if wrong:
            text = text.replace(right, wrong)
        else:
            start, end = text.index(right), text.index(right) + len(right) - 1
            text = text[: text.rindex("\n", 0, start) + 1] + text[text.index("\n", end) + 1 :]
    return text


def same_code(one: str, other: str) -> bool:
    """Return whether two texts are the same Python but for comments and the texts' own docstrings."""
    return one == other or _code(one) == _code(other)


@functools.cache
def _code(text: str) -> str:
    """A digest of a text's syntax, kept, since pages ask for the same texts again and again."""
    tree = ast.parse(text)
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
