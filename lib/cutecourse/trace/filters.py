"""Which events of a trace are asked for: by kind, place, barrier, line, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from cutecourse.trace.event import KINDS, Event, TraceError, block_of
from cutecourse.trace.recorded_launch import RecordedLaunch
from cutecourse.trace.snapshot import find_variable
from cutecourse.trace.touches import Touch, touches

__all__ = ["Numbers", "conditions", "kinds_named"]

Numbers = int | Collection[int]
Condition = Callable[[Event], bool]

_RANK_SHIFT = 24
"""Where an address of shared memory carries the CTA's rank in its cluster."""
_WINDOW = 1 << 32
_WARP = 32


def kinds_named(*names: str) -> frozenset[str]:
    """The kinds that words stand for: a kind, a family (`"mbarrier"`), or a pattern (`"*.wait"`).

    Errors: TraceError for a word that stands for none.
    """
    found: set[str] = set()
    for word in names:
        mine = {
            kind for kind in KINDS if kind == word or kind.startswith(f"{word}.") or fnmatchcase(kind, word)
        }
        if not mine:
            raise TraceError(f"there are no events {word!r}; the kinds are {', '.join(KINDS)}.")
        found |= mine
    return frozenset(found)


def conditions(
    launch: RecordedLaunch,
    *,
    kind: str | Collection[str] | None,
    cluster: Numbers | None,
    rank: Numbers | None,
    block: int | Sequence[int] | None,
    warp: Numbers | None,
    lane: Numbers | None,
    barrier: str | int | None,
    line: Numbers | None,
    time: Numbers | None,
    smem: Any,
    tmem: Any,
    gmem: Any,
) -> list[Condition]:
    """The conditions that an event must meet, all of them; see `Trace.where`. Errors: TraceError."""
    found: list[Condition] = []
    if kind is not None:
        kinds = kinds_named(*([kind] if isinstance(kind, str) else kind))
        found.append(lambda event: event.kind in kinds)
    ctas = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    grid = launch.grid[0] * launch.grid[1] * launch.grid[2]
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    limits = {
        "cluster": max(grid // ctas, 1),
        "rank": ctas,
        "warp": -(-threads // _WARP),
        "lane": _WARP,
        "line": None,
        "time": None,
    }
    given = {"cluster": cluster, "rank": rank, "warp": warp, "lane": lane, "line": line, "time": time}
    for name, asked in given.items():
        if asked is not None:
            found.append(_among(name, asked, limits[name]))
    if block is not None:
        wanted = _block(launch, block)
        found.append(lambda event: event.block == wanted)
    if barrier is not None:
        found.append(_of_barrier(launch, barrier))
    for space, asked in (("shared", smem), ("tensor", tmem), ("global", gmem)):
        if asked is not None:
            found.append(_in_memory(launch, _READERS[space](launch, asked), space))
    return found


def _among(name: str, asked: Any, limit: int | None) -> Condition:
    """Return whether an event's `name` is the wanted number, or one of the wanted numbers."""
    numbers = asked if isinstance(asked, Collection) and not isinstance(asked, str) else (asked,)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise TraceError(f"{name}={asked!r}: give a number or several, such as {name}=range(4).")
    if limit is not None and (outside := [number for number in numbers if not 0 <= number < limit]):
        raise TraceError(f"{name}={outside[0]}: the launch has {name} 0 to {limit - 1}.")
    return lambda event: getattr(event, name) in numbers


def _block(launch: RecordedLaunch, asked: int | Sequence[int]) -> tuple[int, int, int]:
    wanted = block_of(asked)
    if not all(0 <= part < extent for part, extent in zip(wanted, launch.grid, strict=True)):
        raise TraceError(f"block={wanted} is not in the grid {launch.grid}.")
    return wanted


def _of_barrier(launch: RecordedLaunch, asked: str | int) -> Condition:
    """Return whether an event is about a barrier, given by name, offset, or address with the CTA's rank."""
    known = {
        (barrier["name"], barrier["offset"], barrier["rank"])
        for event in (*launch.all_events, *launch)
        if (barrier := event.data.get("barrier")) is not None
    }
    if isinstance(asked, str):
        matches = {(offset, rank) for name, offset, rank in known if name == asked}
    else:
        address = asked % _WINDOW  # a generic address has a window above
        rank_asked, offset_asked = address >> _RANK_SHIFT, address & ((1 << _RANK_SHIFT) - 1)
        matches = {
            (offset, rank)
            for _, offset, rank in known
            if offset == offset_asked and (address == offset or rank == rank_asked)
        }
    if not matches:
        names = {(name or "no name", offset) for name, offset, _ in known}
        there = ", ".join(f"{name} at {offset}" for name, offset in sorted(names, key=lambda n: n[1]))
        raise TraceError(f"barrier={asked!r}: the trace has no such barrier; it has {there or 'none'}.")

    def condition(event: Event) -> bool:
        barrier = event.data.get("barrier")
        return barrier is not None and (barrier["offset"], barrier["rank"]) in matches

    return condition


def _in_memory(launch: RecordedLaunch, meets: Callable[[Touch], bool], space: str) -> Condition:
    by_index = {event.index: event for event in launch.all_events}
    return lambda event: any(touch.space == space and meets(touch) for touch in touches(event, by_index))


def _range(what: str, asked: Any) -> tuple[int, int]:
    if isinstance(asked, range) and asked.step == 1:
        return asked.start, asked.stop
    if isinstance(asked, int) and not isinstance(asked, bool):
        return asked, asked + 1
    raise TraceError(f"{what}={asked!r}: give a number, or a range such as range(0, 64).")


def _smem(launch: RecordedLaunch, asked: Any) -> Callable[[Touch], bool]:
    rank, where = asked if isinstance(asked, tuple) and len(asked) == 2 else (None, asked)
    if isinstance(where, str):
        first, stop = find_variable(launch.variables, where)
    else:
        first, stop = _range("smem", where)
    return lambda touch: touch.meets(first, stop) and rank in (None, touch.rank)


def _tmem(_: RecordedLaunch, asked: Any) -> Callable[[Touch], bool]:
    lanes, columns = asked if isinstance(asked, tuple) and len(asked) == 2 else (range(128), asked)
    low, high = _range("tmem lanes", lanes)
    first, stop = _range("tmem", columns)
    return lambda touch: touch.meets(first, stop) and touch.lanes[0] < high and low < touch.lanes[1]


def _gmem(launch: RecordedLaunch, asked: Any) -> Callable[[Touch], bool]:
    name, where = asked if isinstance(asked, tuple) and len(asked) == 2 else (asked, range(1 << 62))
    first, stop = _range("gmem", where)
    by_index = {event.index: event for event in launch.all_events}
    known: Mapping[str, None] = dict.fromkeys(
        touch.name
        for event in launch.all_events
        for touch in touches(event, by_index)
        if touch.space == "global" and touch.name is not None
    )
    if name not in known:
        raise TraceError(
            f"gmem={name!r}: no event touches it; the tensors and arguments are"
            f" {', '.join(map(repr, known)) or 'none'}."
        )
    return lambda touch: touch.name == name and touch.meets(first, stop)


_READERS = {"shared": _smem, "tensor": _tmem, "global": _gmem}
