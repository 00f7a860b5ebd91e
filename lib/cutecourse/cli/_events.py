"""Which events `cutecourse emulate --events` prints: filters as words of the command line.

kind=mbarrier        a kind, a family or a pattern such as *.wait; memory is every load and store
block=1,0            a CTA by its place in the grid; rank=, cluster=: in its cluster, and which cluster
warp=0-3  lane=0     of the CTA and of the warp; line=40-60, time=0-999: of the PTX text, of the launch
barrier=full         a variable's name, or an offset in shared memory
smem=tile            what they touch there: a variable, or bytes, 0-1023; tmem=0-63: columns of tensor memory
gmem=a               a tensor or an argument
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from cutecourse.analysis import InputError
from cutecourse.trace import Recorder, TraceError
from cutecourse.trace.filters import kinds_named

__all__ = ["WHAT_FILTERS", "event_filter", "new_recorder", "print_events"]

WHAT_FILTERS = (__doc__ or "").partition("\n\n")[2]
_NUMBERS = ("rank", "cluster", "warp", "lane", "line", "time", "tmem")
_NAMES = ("barrier", "smem", "gmem")
_KNOWN = ("kind", "block", *_NUMBERS, *_NAMES)


def event_filter(text: str) -> tuple[str, Any]:
    """A word KEY=VALUE as an argument of `Trace.where`.

    >>> event_filter("warp=0-3"), event_filter("barrier=full"), event_filter("block=1,0")
    (('warp', range(0, 4)), ('barrier', 'full'), ('block', (1, 0)))
    """
    key, equals, value = text.partition("=")
    if not equals or key not in _KNOWN:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE; the keys are {', '.join(_KNOWN)}")
    if key == "kind":
        try:
            kinds_named(value)
        except TraceError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return key, value
    if key == "block":
        parts = value.split(",")
        if not all(part.isdecimal() for part in parts):
            raise argparse.ArgumentTypeError(f"{text!r}: give x, or x,y, or x,y,z")
        return key, tuple(map(int, parts))
    first, dash, last = value.partition("-")
    numbers = first.isdecimal() and (last.isdecimal() or not dash)
    if not numbers:
        if key in _NAMES:
            return key, value
        raise argparse.ArgumentTypeError(f"{text!r}: give a number, or a range such as 0-3")
    return key, range(int(first), int(last) + 1) if dash else int(first)


def new_recorder(trace: str | None, filters: Sequence[tuple[str, Any]] | None) -> Recorder | None:
    """The recorder that a launch needs, if it needs one: of loads and stores where they are asked for."""
    if not trace and filters is None:
        return None
    asked = [kind for key, value in filters or () if key == "kind" for kind in kinds_named(value)]
    return Recorder(memory=any(kind.startswith("memory.") for kind in asked))


def print_events(recorder: Recorder | None, filters: Sequence[tuple[str, Any]] | None) -> None:
    """Print the events that all filters let through. Errors: InputError for what is not there."""
    if recorder is None or filters is None:
        return
    found = recorder.trace()
    try:
        for key, value in filters:
            found = found.where(**{key: value})
    except TraceError as error:
        raise InputError(f"--events: {error}") from None
    print(found.table())
