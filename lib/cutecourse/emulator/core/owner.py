"""State that a family of instructions or a check keeps with a program, a launch, a cohort or a bundle.

The class of the state is its key: `cohort.own(MBarriers)` is the cohort's one `MBarriers`. The core does not
know these classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Owner", "OwnerDict"]

_Kept = TypeVar("_Kept")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Owner:
    """Keeps one object for each class that asks."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Callable[..., Any], Any] = {}

    def own(self, kind: Callable[[Any], _Kept]) -> _Kept:
        """This owner's only object of a class: `kind(owner)`, made on first use."""
        try:
            found: _Kept = self._kept[kind]
        except KeyError:
            pass
        else:
            return found
        made = self._kept[kind] = kind(self)
        return made

    def owned(self, kind: type[_Kept]) -> _Kept | None:
        """This owner's object of a class, or None if `own` has not made it yet."""
        return self._kept.get(kind)

    def forget_owned(self) -> None:
        """Drop all these objects."""
        self._kept.clear()


class OwnerDict(dict[_Key, _Value]):
    """A dictionary that an owner keeps, empty at first."""

    def __init__(self, owner: object) -> None:
        super().__init__()
