"""Which tensor maps in global memory a CTA may use: those that it has acquired since they were changed.

A copy reads its tensor map through a proxy of its own. So a CTA needs fence.proxy.tensormap::generic.acquire
after the change of a map, whoever changed it.
"""

from __future__ import annotations

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.owner import OwnerDict

__all__ = ["acquire", "is_acquired", "note_changed"]


class _Changes(OwnerDict[int, int]):
    """How often the map at a generic address of a launch's global memory has been changed."""


class _Acquired(OwnerDict[tuple[int, int, int], int]):
    """The changes that a CTA, (cluster, rank), has acquired at an address."""


def _of(bundle: Bundle) -> tuple[_Changes, _Acquired]:
    machine: Machine = bundle.machine
    cohort: Cohort = bundle.cohort
    return machine.own(_Changes), cohort.own(_Acquired)


def note_changed(bundle: Bundle, address: int) -> None:
    """Note that a thread has changed the tensor map at an address."""
    changes, _ = _of(bundle)
    changes[address] = changes.get(address, 0) + 1


def acquire(bundle: Bundle, cluster: int, address: int) -> None:
    """Note that a thread of a CTA has acquired the tensor map at an address."""
    changes, acquired = _of(bundle)
    acquired[cluster, bundle.rank, address] = changes.get(address, 0)


def is_acquired(bundle: Bundle, cluster: int, address: int) -> bool:
    """True if the CTA has acquired the map since its last change, or nobody has changed it."""
    changes, acquired = _of(bundle)
    last = changes.get(address, 0)
    return not last or acquired.get((cluster, bundle.rank, address), 0) == last
