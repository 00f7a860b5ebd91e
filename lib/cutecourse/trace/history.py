"""The histories in a trace: a barrier's states, a transfer from issue to landing, a warp's wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutecourse.trace.event import Event
from cutecourse.trace.words import barrier_name

__all__ = ["BarrierHistory", "BarrierState", "Landing", "Transfer", "Wait", "histories", "transfers", "waits"]


@dataclass(frozen=True)
class BarrierState:
    """A barrier after one event: the phase it is in, arrivals and bytes that the phase still lacks."""

    time: int
    phase: int
    pending: int
    tx: int
    event: int
    """The index of the event that brought it about."""


@dataclass(frozen=True)
class BarrierHistory:
    """One mbarrier from its init to its inval: where it lies and every state it was in.

    completions  (time, the phase that completed then), in order.
    end          the time of its inval; None if there was none.
    """

    cluster: int
    rank: int
    offset: int
    name: str | None
    count: int
    states: tuple[BarrierState, ...]
    completions: tuple[tuple[int, int], ...]
    end: int | None

    def __str__(self) -> str:
        return barrier_name({"rank": self.rank, "offset": self.offset, "name": self.name})


@dataclass(frozen=True)
class Landing:
    """Bytes of a transfer that arrived: when, in which CTA, at which offset of its shared memory."""

    time: int
    rank: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Transfer:
    """One asynchronous copy: the event that issued it, and when its bytes landed or its source was read."""

    issue: Event
    landings: tuple[Landing, ...]
    read: int | None

    @property
    def index(self) -> int:
        """By which other events name it."""
        return self.issue.index

    @property
    def first(self) -> int | None:
        """When its first bytes landed."""
        return self.landings[0].time if self.landings else None

    @property
    def last(self) -> int | None:
        """When its last bytes landed."""
        return self.landings[-1].time if self.landings else None


@dataclass(frozen=True)
class Wait:
    """A warp, or one thread of it, that could not go on: from the first try to the time it went on.

    kind     "mbarrier", "cluster", "barrier" (of the CTA), "bulk" (groups of asynchronous copies) or "tmem"
             (an allocation, or with .cta_group::2 the peer).
    what     what it waited for, in words.
    end      None if it never went on.
    tries    how often the wait was executed.
    """

    kind: str
    what: str
    cluster: int
    rank: int
    block: tuple[int, int, int]
    warp: int | None
    lane: int | None
    line: int | None
    begin: int
    end: int | None
    tries: int


def histories(events: Iterable[Event]) -> tuple[BarrierHistory, ...]:
    """The life of each mbarrier, in the order of their inits."""
    lives: list[_Life] = []
    living: dict[tuple[int, int, int], _Life] = {}
    for event in events:
        if not event.kind.startswith("mbarrier."):
            continue
        barrier = event.data["barrier"]
        key = (event.cluster, barrier["rank"], barrier["offset"])
        if event.kind == "mbarrier.init":
            living[key] = _Life(event)
            lives.append(living[key])
        elif key in living:  # a trace that was cut may lack the init
            living[key].add(event)
    return tuple(life.history() for life in lives)


class _Life:
    def __init__(self, init: Event) -> None:
        self.init = init
        count = init.data["count"]
        self.states = [BarrierState(init.time, 0, count, 0, init.index)]
        self.completions: list[tuple[int, int]] = []
        self.end: int | None = None

    def add(self, event: Event) -> None:
        state = event.data.get("state")
        if state is not None:
            self.states.append(
                BarrierState(event.time, state["phase"], state["pending"], state["tx"], event.index)
            )
        elif event.kind == "mbarrier.phase":
            self.completions.append((event.time, event.data["phase"]))
        elif event.kind == "mbarrier.inval":
            self.end = event.time

    def history(self) -> BarrierHistory:
        barrier = self.init.data["barrier"]
        return BarrierHistory(
            cluster=self.init.cluster,
            rank=barrier["rank"],
            offset=barrier["offset"],
            name=barrier.get("name"),
            count=self.init.data["count"],
            states=tuple(self.states),
            completions=tuple(self.completions),
            end=self.end,
        )


def transfers(events: Iterable[Event]) -> tuple[Transfer, ...]:
    """Each asynchronous copy with its landings, in the order of issue."""
    issues: dict[int, Event] = {}
    landed: dict[int, list[Landing]] = {}
    read: dict[int, int] = {}
    for event in events:
        if event.kind == "tma.issue":
            issues[event.index] = event
        elif event.kind == "tma.land":
            landing = Landing(event.time, event.rank, event.data["offset"], event.data["bytes"])
            landed.setdefault(event.data["transfer"], []).append(landing)
        elif event.kind == "tma.read":
            read[event.data["transfer"]] = event.time
    return tuple(
        Transfer(issue, tuple(landed.get(index, ())), read.get(index)) for index, issue in issues.items()
    )


def waits(events: Iterable[Event]) -> tuple[Wait, ...]:
    """Every wait that did not pass at once, in the order in which they began.

    A wait that answers "no" and is tried again, as in a loop around try_wait, is one wait until it passes.
    """
    found: list[_Open] = []
    waiting: dict[tuple[object, ...], _Open] = {}
    for event in events:
        family, _, action = event.kind.rpartition(".")
        # tmem.wait is no wait of the machine's: what it waits for is over when it is executed.
        if event.kind == "tmem.wait" or (
            action not in {"wait", "resume"} and event.kind not in {"tmem.alloc", "tmem.dealloc"}
        ):
            continue
        key = (family, event.cluster, event.rank, event.warp, event.lane, *_object(event))
        outcome = "passed" if action == "resume" else event.data.get("outcome", "blocked")
        if outcome != "passed":
            if key not in waiting:
                waiting[key] = _Open(event)
                found.append(waiting[key])
            waiting[key].tries += 1
        elif key in waiting:
            waiting.pop(key).end = event.time
    return tuple(wait.wait() for wait in found)


def _object(event: Event) -> Sequence[object]:
    """The key that two tries of one thread share if they are the same wait."""
    if event.kind.startswith("mbarrier."):
        barrier = event.data["barrier"]
        return (barrier["rank"], barrier["offset"], event.data["parity"])
    return (event.data["number"],) if event.kind.startswith("barrier.") else ()


class _Open:
    def __init__(self, event: Event) -> None:
        self.event = event
        self.end: int | None = None
        self.tries = 0

    def wait(self) -> Wait:
        event = self.event
        kind = event.kind.partition(".")[0]
        if kind == "mbarrier":
            what = f"parity {event.data['parity']} of {barrier_name(event.data['barrier'])}"
        elif kind == "barrier":
            what = f"barrier {event.data['number']}"
        elif kind == "cluster":
            what = "the cluster's barrier"
        elif kind == "tmem":
            what = f"{event.data['columns']} columns of tensor memory"
            if event.kind == "tmem.dealloc":
                what = f"the other CTA to free {what}"
        elif kind == "wgmma":
            what = f"at most {event.data['left']} wgmma groups under way"
        elif kind == "registers":
            what = f"{event.data['registers']} registers per thread"
        else:
            what = f"at most {event.data['left']} bulk groups " + ("unread" if event.data["read"] else "open")
        return Wait(
            kind=kind,
            what=what,
            cluster=event.cluster,
            rank=event.rank,
            block=event.block,
            warp=event.warp,
            lane=event.lane,
            line=event.line,
            begin=event.time,
            end=self.end,
            tries=self.tries,
        )
