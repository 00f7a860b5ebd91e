"""tcgen05.mma and wgmma on a timeline: which MMAs are one bar, and which CTAs an event is about."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cutecourse.trace import Event


@dataclass(frozen=True)
class MmaGroup:
    """The MMAs that a thread issued between two of its commits.

    commit       the one behind them, None where none follows.
    completions  what happened when each was complete, in that order.
    """

    issues: tuple[Event, ...]
    commit: Event | None
    completions: tuple[Event, ...]

    @property
    def done(self) -> bool:
        """Return whether every MMA is complete."""
        return len(self.completions) == len(self.issues)

    @property
    def label(self) -> str:
        """How many of which shape, such as "4 MMAs 256×256×16"."""
        shapes = {f"{event['m']}×{event['n']}×{event['k']}" for event in self.issues}
        of = shapes.pop() if len(shapes) == 1 else f"of {len(shapes)} shapes"
        return f"{self.count} {of}{'' if self.commit else ', no commit'}"

    @property
    def count(self) -> str:
        """How many, such as "4 MMAs"."""
        return f"{len(self.issues)} MMA{'' if len(self.issues) == 1 else 's'}"


def mma_groups(events: Iterable[Event]) -> tuple[MmaGroup, ...]:
    """The MMAs by the first commit of their thread that follows, in the order of their first issues.

    A commit is for all that its thread has issued. Its `issues` name those that are not complete yet, which
    can be fewer, or more: those that an earlier commit waits for too.
    """
    groups: list[tuple[list[Event], list[Event]]] = []  # MMAs, and their commit if there is one
    open_groups: dict[tuple[int | None, ...], tuple[list[Event], list[Event]]] = {}
    completions: dict[int, Event] = {}
    for event in events:
        thread = (event.cluster, event.rank, event.warp, event.lane)
        if event.kind in {"mma.issue", "wgmma.issue"}:
            if thread not in open_groups:
                open_groups[thread] = ([], [])
                groups.append(open_groups[thread])
            open_groups[thread][0].append(event)
        elif event.kind in {"mma.commit", "wgmma.commit"} and thread in open_groups:
            open_groups.pop(thread)[1].append(event)
        elif event.kind in {"mma.complete", "wgmma.complete"}:
            completions[event["issue"]] = event
    return tuple(
        MmaGroup(
            tuple(issues),
            commits[0] if commits else None,
            tuple(
                sorted(
                    (completions[e.index] for e in issues if e.index in completions), key=lambda e: e.index
                )
            ),
        )
        for issues, commits in groups
    )


def commit_arrivals(events: Iterable[Event]) -> dict[int, Event]:
    """For each arrival at an mbarrier that a commit brought about, by its index: the commit.

    An arrival has the thread and the line of the commit it comes from; a thread's commits arrive in order.
    """
    waiting: dict[tuple[int | None, ...], deque[Event]] = {}
    found = {}
    for event in events:
        if event.kind not in {"mma.commit", "mbarrier.arrive"}:
            continue
        barrier = event["barrier"]
        thread = (event.cluster, event.rank, event.warp, event.lane, event.line, barrier["offset"])
        if event.kind == "mma.commit":
            for rank in targets(event):
                waiting.setdefault((*thread, rank), deque()).append(event)
        elif left := waiting.get((*thread, barrier["rank"])):
            found[event.index] = left.popleft()
    return found


def targets(commit: Event) -> set[int]:
    """The ranks of the CTAs in which a commit arrives at a barrier."""
    mask = commit["mask"]
    if mask is None:
        return {commit["barrier"]["rank"]}
    return {rank for rank in range(mask.bit_length()) if mask >> rank & 1}


def toucher(events: Iterable[Event]) -> Callable[[Event], set[int]]:
    """A function that says which CTAs of its cluster an event is about, by rank.

    They are the one whose thread did it, those whose barrier it touches or will touch, those its bytes go to,
    and with `.cta_group::2` the other one of the pair.
    """
    shared = {e.index for e in events if e.kind == "mma.issue" and e["group"] == 2}

    def ranks(event: Event) -> set[int]:
        data = event.data
        found = {event.rank, *(to["rank"] for to in data.get("destinations") or ())}
        if barrier := data.get("barrier"):
            found.add(barrier["rank"])
        if event.kind == "mma.commit":
            found |= targets(event)
        tensor = event.kind.startswith(("mma.", "tmem."))
        if tensor and (data.get("group") == 2 or data.get("issue") in shared):
            found.add(event.rank ^ 1)
        return found

    return ranks
