"""Linked operations of tcgen05: neighbours in a queue that complete at once, because that is faster.

The MMAs of a main loop add to one accumulator, so they complete in the order of issue whatever the seed
chooses. Completing several at once gives the same numbers as completing them one by one (`completion`). A
launch's first MMAs complete one by one all the same: a kernel that goes wrong while some are complete and
others are not does so in its first iterations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from cutecourse.emulator.core.machine import PendingWork
from cutecourse.emulator.core.origin import Origin

__all__ = ["linked"]

_EACH_FIRST = 256
_ALONE = 8
"""One in this many operations completes without the later ones that could complete with it."""


class _Linkable(Protocol):
    """The part of an operation that linking needs."""

    origin: Origin
    thread: tuple[int, int]
    work: PendingWork
    key: Hashable


class _Completions:
    """How many operations of a launch have completed that could have completed with others."""

    def __init__(self, machine: object) -> None:
        self.n = 0


def linked(waiting: Sequence[_Linkable], operation: _Linkable) -> tuple[int, int]:
    """The range (first, stop) of the operations in a queue that complete at once with one of them.

    The linked operations before it complete with it; so do, if the seed says so, the linked ones after it.
    """
    here = first = waiting.index(operation)
    stop = here + 1
    if operation.key is None:
        return first, stop
    machine = operation.origin.bundle.machine
    completions = machine.own(_Completions)
    completions.n += 1
    if completions.n > _EACH_FIRST:
        while first and _alike(waiting[first - 1], operation):
            first -= 1
        while stop < len(waiting) and _alike(waiting[stop], operation):
            stop += 1
        if stop > here + 1 and machine.random.randrange(_ALONE) == 0:
            stop = here + 1
    return first, stop


def _alike(one: _Linkable, other: _Linkable) -> bool:
    """True if two neighbours may complete at once."""
    return one.key == other.key and one.thread == other.thread and not one.work.done
