"""The words of reports of reads of shared memory that nobody has written, or that no fence has shown."""

from __future__ import annotations

from collections.abc import Callable

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.facts import Facts, Pipe
from cutecourse.emulator.core.origin import Origin

__all__ = ["Unwritten", "describe_store", "describe_unwritten"]

_SHARED = ("shared", "shared::cluster")
_SHOWN = 3
"""A report names at most this many lines of each kind of instruction."""


class Unwritten:
    """What others know of writes of shared memory: who wrote bytes, and why bytes count as never written."""

    def __init__(self, cohort: Cohort) -> None:
        self.last_store: Callable[[int], tuple[int, int, int] | None] = lambda byte: None
        """The rank, warp and line of the last store to a byte of the cohort's shared memory, if known."""
        self.reasons: list[Callable[[Bundle, int, int], str | None]] = []
        """Each takes a bundle, a flattened lane and the lane's shared address, and gives a reason or None."""

    def reason(self, bundle: Bundle, lane: int, address: int) -> str | None:
        """The first reason that a family gives, in words, or None."""
        return next((found for ask in self.reasons if (found := ask(bundle, lane, address))), None)


def describe_unwritten(origin: Origin, reader: str, *, asynchronous: bool = False) -> str:
    """Describe what may be missing before a read of shared memory that nobody has written.

    Nobody knows what will write it, so this names the kernel's instructions that write shared memory.
    """
    lines = _writers(origin)
    fence = "put fence.proxy.async after it, and then" if asynchronous else "put"
    advice = {
        "copy": f"wait for its mbarrier, which must expect all its bytes, before {reader}",
        "cp.async": f"put cp.async.wait_group and then a barrier between it and {reader}",
        "store": f"{fence} a barrier between it and {reader}",
    }
    found = []
    for what, where in lines.items():
        if where:
            which = "the" if len(where) == 1 else "a"
            found.append(f"If {which} {what} at {_lines(origin, where)} is to write it, {advice[what]}.")
    return " ".join(found) or f"Is a store or a copy missing before {reader}?"


def describe_store(origin: Origin, byte: int) -> str:
    """Name the thread that last wrote a byte of the cohort's shared memory, with its line if it is known."""
    found = origin.bundle.cohort.own(Unwritten).last_store(byte)
    if found is None:
        stores = _writers(origin)["store"]
        return f"a thread wrote{f' (at {_lines(origin, stores)})' if stores else ''}"
    rank, warp, line = found
    of = f" of CTA {rank}" if origin.bundle.cohort.size > 1 else ""
    return f"warp {warp}{of} wrote at line {origin.site.program.line_in_words(line)}"


def _writers(origin: Origin) -> dict[str, list[int]]:
    """The lines of the kernel's other instructions that write shared memory, by the way in which they do."""
    lines: dict[str, list[int]] = {"copy": [], "cp.async": [], "store": []}
    for one, facts in origin.site.program.stated:
        if (what := _writes_shared(facts)) is not None and one is not origin.site.instruction:
            lines[what].append(one.line)
    return lines


def _lines(origin: Origin, lines: list[int]) -> str:
    shown = ", ".join(map(origin.site.program.line_in_words, lines[:_SHOWN]))
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"line{'s' if len(lines) > 1 else ''} {shown}{more}"


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
