"""Reports of reads of shared memory that nobody has written."""

from __future__ import annotations

from collections.abc import Callable

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.facts import Facts, Pipe
from cutecourse.emulator.core.origin import Origin
from cutecourse.ptx.sources import line_in_words

__all__ = ["Unwritten", "describe_unwritten"]

_SHARED = ("shared", "shared::cluster")
_SHOWN = 3
"""A report names at most this many lines of each kind of instruction."""


class Unwritten:
    """The reasons of families of instructions why bytes of shared memory count as never written."""

    def __init__(self, cohort: Cohort) -> None:
        self.reasons: list[Callable[[Bundle, int, int], str | None]] = []
        """Each takes a bundle, a flattened lane and the lane's shared address, and gives a reason or None."""

    def reason(self, bundle: Bundle, lane: int, address: int) -> str | None:
        """The first reason that a family gives, in words, or None."""
        return next((found for ask in self.reasons if (found := ask(bundle, lane, address))), None)


def describe_unwritten(origin: Origin, reader: str, *, asynchronous: bool = False) -> str:
    """Describe what may be missing before a read of shared memory that nobody has written.

    Nobody knows what will write it, so this names the kernel's instructions that write shared memory.
    """
    lines: dict[str, list[int]] = {"copy": [], "cp.async": [], "store": []}
    for one, facts in origin.site.program.stated:
        if (what := _writes_shared(facts)) is not None and one is not origin.site.instruction:
            lines[what].append(one.line)
    fence = "put fence.proxy.async after it, and then" if asynchronous else "put"
    advice = {
        "copy": f"wait for its mbarrier, which must expect all its bytes, before {reader}",
        "cp.async": f"put cp.async.wait_group and then a barrier between it and {reader}",
        "store": f"{fence} a barrier between it and {reader}",
    }
    module = origin.site.program.module
    found = []
    for what, where in lines.items():
        if where:
            shown = ", ".join(line_in_words(module, line) for line in where[:_SHOWN])
            more = f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
            which = "the" if len(where) == 1 else "a"
            plural = "s" if len(where) > 1 else ""
            found.append(f"If {which} {what} at line{plural} {shown}{more} is to write it, {advice[what]}.")
    return " ".join(found) or f"Is a store or a copy missing before {reader}?"


def _writes_shared(facts: Facts) -> str | None:
    """The way in which an instruction writes shared memory: "copy", "cp.async", "store", or None."""
    # A reduction needs bytes that were written, and an allocation writes only where its columns are.
    if facts.allocates or facts.reads(*_SHARED) or not facts.writes(*_SHARED):
        return None
    match facts.pipe:
        case Pipe.BULK_COPIES:
            return "copy"
        case Pipe.COPIES_OF_THREADS:
            return "cp.async"
    return "store"
