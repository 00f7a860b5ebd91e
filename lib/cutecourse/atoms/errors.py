"""The errors of atoms and their tilings."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from cutecourse.errors import CourseError

__all__ = [
    "AtomError",
    "AtomNameError",
    "OwnershipError",
    "PartitionError",
    "UnknownAtomError",
    "unknown_atom",
]


class AtomError(CourseError):
    """An atom or a tiling of atoms was asked for something that it has not."""


class UnknownAtomError(AtomError, KeyError):
    """No atom of that name is in the table."""

    def __str__(self) -> str:
        return str(self.args[0])


class AtomNameError(AtomError, ValueError):
    """A name that is not built as CUTLASS builds the names of its MMA operations."""


class OwnershipError(AtomError, IndexError):
    """A thread, value, register or matrix cell outside the atom."""


class PartitionError(AtomError, ValueError):
    """A tiling or a partition that CuTe refuses as well."""


def unknown_atom(kind: str, name: str, known: Iterable[str]) -> UnknownAtomError:
    """The error for a name that no table has, with the nearest names that one has."""
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        hint = "Did you mean " + " or ".join(near) + "?"
    else:
        hint = f"The table has {len(names)} names, for example {names[0]}."
    return UnknownAtomError(f"no {kind} atom is called {name!r}. {hint}")
