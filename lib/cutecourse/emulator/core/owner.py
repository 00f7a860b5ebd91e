"""State that a family of instructions or a check keeps with a program, a cohort or a bundle.

Each class that needs such state names itself: `cohort.own(MBarriers)` is the cohort's one `MBarriers`. The
core never sees what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Owner"]

_Kept = TypeVar("_Kept")


class Owner:
    """Keeps one object for each class that asks."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Callable[..., Any], Any] = {}

    def own(self, kind: Callable[[Any], _Kept]) -> _Kept:
        """The one object of a class for this owner: `kind(owner)`, made when first asked for."""
        found: _Kept | None = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind(self)
        return found

    def owned(self, kind: type[_Kept]) -> _Kept | None:
        """The same, or None where nobody has asked for it yet."""
        return self._kept.get(kind)

    def forget_owned(self) -> None:
        """Let go of all of them."""
        self._kept.clear()
