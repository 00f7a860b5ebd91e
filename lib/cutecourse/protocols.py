"""Small protocols: a few threads that arrive at mbarriers, wait for them, and read and write shared memory.

A protocol is small enough to walk through all its states. Its PTX runs on the emulator.

Source: PTX ISA 9.0, Phase of the mbarrier object
        (#parallel-synchronization-and-communication-instructions-mbarrier-phase).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cutecourse.errors import CourseError

__all__ = ["Action", "Protocol", "ProtocolError", "ProtocolState", "pipeline"]

Action = tuple[str, int] | tuple[str, int, int]
"""("arrive", barrier), ("wait", barrier, parity), ("read", word) or ("write", word)."""

_LENGTH = {"arrive": 2, "wait": 3, "read": 2, "write": 2}
_MOST_WARPS = 32


class ProtocolError(CourseError):
    """A protocol has an action that is none, or a barrier that it does not have."""


class ProtocolState(NamedTuple):
    """Where each thread stands, and for each barrier its phase and the arrivals that the phase lacks."""

    positions: tuple[int, ...]
    barriers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Protocol:
    """Threads and the mbarriers that they use.

    counts   the arrivals that complete a phase, for each mbarrier.
    threads  for each thread its actions, in order.
    Errors:  ProtocolError for an action that is none, and for a barrier or a parity that is not there.
    """

    counts: tuple[int, ...]
    threads: tuple[tuple[Action, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        object.__setattr__(self, "threads", tuple(tuple(map(tuple, one)) for one in self.threads))
        if not 0 < len(self.threads) <= _MOST_WARPS or any(count < 1 for count in self.counts):
            raise ProtocolError(
                f"a protocol has 1 to {_MOST_WARPS} threads, and a barrier counts at least 1 arrival; "
                f"this one has {len(self.threads)} threads and the counts {self.counts}."
            )
        for number, actions in enumerate(self.threads):
            for action in actions:
                self._check(number, action)

    def _check(self, thread: int, action: tuple[Any, ...]) -> None:
        what, *where = action or ("",)
        if _LENGTH.get(what) != len(action) or not all(isinstance(one, int) and one >= 0 for one in where):
            raise ProtocolError(
                f'thread {thread} has the action {action}; write ("arrive", barrier), '
                '("wait", barrier, parity), ("read", word) or ("write", word).'
            )
        if what in {"arrive", "wait"} and where[0] >= len(self.counts):
            raise ProtocolError(
                f"thread {thread} uses barrier {where[0]} in {action}; the protocol has {len(self.counts)}."
            )
        if what == "wait" and where[1] > 1:
            raise ProtocolError(f"thread {thread} waits for parity {where[1]} in {action}; use 0 or 1.")

    def without(self, thread: int, number: int) -> Protocol:
        """The protocol without one action of a thread."""
        kept = self.threads[thread][:number] + self.threads[thread][number + 1 :]
        return Protocol(self.counts, (*self.threads[:thread], kept, *self.threads[thread + 1 :]))

    # --- states ---------------------------------------------------------------------------------------------

    def following(self, state: ProtocolState) -> list[Action | None]:
        """The next action of each thread, None at its end."""
        return [
            one[at] if at < len(one) else None for one, at in zip(self.threads, state.positions, strict=True)
        ]

    def after(self, state: ProtocolState, thread: int) -> ProtocolState | None:
        """The state after the next action of a thread; None if it has to wait or is at its end."""
        action = self.following(state)[thread]
        if action is None:
            return None
        barriers = list(state.barriers)
        phase, pending = barriers[action[1]] if action[0] in {"arrive", "wait"} else (0, 0)
        if action[0] == "wait" and phase % 2 == action[2:][0]:
            return None
        if action[0] == "arrive":
            last = pending == 1
            barriers[action[1]] = (phase + last, self.counts[action[1]] if last else pending - 1)
        positions = tuple(at + (number == thread) for number, at in enumerate(state.positions))
        return ProtocolState(positions, tuple(barriers))

    @cached_property
    def states(self) -> dict[ProtocolState, tuple[ProtocolState, int] | None]:
        """All states that some order reaches, nearest first.

        Each has the state before it on a shortest way, and the thread whose action leads here; the first has
        None.
        """
        start = ProtocolState((0,) * len(self.threads), tuple((0, count) for count in self.counts))
        found: dict[ProtocolState, tuple[ProtocolState, int] | None] = {start: None}
        todo = [start]
        for state in todo:
            for thread in range(len(self.threads)):
                after = self.after(state, thread)
                if after is not None and after not in found:
                    found[after] = (state, thread)
                    todo.append(after)
        return found

    def is_deadlock(self, state: ProtocolState) -> bool:
        """True if a thread has something left to do, and none can go on."""
        threads = range(len(self.threads))
        return any(self.following(state)) and all(self.after(state, thread) is None for thread in threads)

    def is_race(self, state: ProtocolState) -> bool:
        """True if two threads are about to use a word, and one of them to write it."""
        uses = [one for one in self.following(state) if one and one[0] in {"read", "write"}]
        return any(
            one[1] == other[1] and "write" in {one[0], other[0]}
            for number, one in enumerate(uses)
            for other in uses[number + 1 :]
        )

    @property
    def deadlocks(self) -> list[ProtocolState]:
        """The states from which nothing goes on, nearest first."""
        return [state for state in self.states if self.is_deadlock(state)]

    @property
    def races(self) -> list[ProtocolState]:
        """The states in which two threads are about to race, nearest first."""
        return [state for state in self.states if self.is_race(state)]

    def path(self, state: ProtocolState) -> list[ProtocolState]:
        """A shortest way from the first state to this one, both included."""
        way = [state]
        while (before := self.states[way[-1]]) is not None:
            way.append(before[0])
        return way[::-1]

    @cached_property
    def ways(self) -> dict[ProtocolState, int]:
        """For each state the number of orders that lead to it."""
        found = dict.fromkeys(self.states, 0)
        found[next(iter(found))] = 1
        for (
            state
        ) in found:  # nearest first, and each action is one step, so a state comes after all before it
            for thread in range(len(self.threads)):
                after = self.after(state, thread)
                if after is not None:
                    found[after] += found[state]
        return found

    @property
    def orders(self) -> int:
        """The number of orders in which the actions can happen, up to an end or a deadlock."""
        threads = range(len(self.threads))
        return sum(
            n for one, n in self.ways.items() if all(self.after(one, thread) is None for thread in threads)
        )

    # --- PTX ------------------------------------------------------------------------------------------------

    @property
    def launch(self) -> dict[str, Any]:
        """Arguments for `emulator.launch`, `emulator.explore` and `emulator.prove`."""
        return {"ptx": self.ptx, "grid": 1, "block": 32 * len(self.threads)}

    @property
    def ptx(self) -> str:
        """The protocol as a kernel: the first lane of each warp is a thread of it."""
        words = 1 + max((one[1] for one in self._actions() if one[0] in {"read", "write"}), default=0)
        lines = [f"@%first st.shared.b32 [data+{4 * at}], 0;" for at in range(words)]
        for at, count in enumerate(self.counts):
            lines.append(f"@%first mbarrier.init.shared::cta.b64 [bars+{8 * at}], {count};")
        lines += ["bar.sync 0;", "setp.ne.u32 %q, %lane, 0;", "@%q bra END;"]
        for warp in range(len(self.threads)):
            lines += [f"setp.eq.u32 %q, %warp, {warp};", f"@%q bra WARP{warp};"]
        for warp, actions in enumerate(self.threads):
            lines.append(f"WARP{warp}:")
            for number, action in enumerate(actions):
                lines += _instructions(action, f"W{warp}_{number}", 100 * warp + number + 1)
            lines.append("bra END;")
        return _KERNEL.format(
            barriers=max(len(self.counts), 1),
            words=words,
            body="\n".join(line if line.endswith(":") else f"    {line}" for line in lines),
        )

    def _actions(self) -> Iterator[Action]:
        for actions in self.threads:
            yield from actions


def _instructions(action: Action, label: str, value: int) -> list[str]:
    what, where, *parity = action
    if what == "arrive":
        return [f"mbarrier.arrive.shared::cta.b64 _, [bars+{8 * where}];"]
    if what == "wait":
        wait = f"mbarrier.try_wait.parity.shared::cta.b64 %p, [bars+{8 * where}], {parity[0]};"
        return [f"{label}:", wait, f"@!%p bra {label};"]
    if what == "write":
        return [f"st.shared.b32 [data+{4 * where}], {value};"]
    return [f"ld.shared.b32 %x, [data+{4 * where}];"]


_KERNEL = """\
.version 8.6
.target sm_90
.address_size 64
.visible .entry k()
{{
    .shared .align 8 .b64 bars[{barriers}];
    .shared .align 4 .b32 data[{words}];
    .reg .b32 %me, %warp, %lane, %x;
    .reg .pred %p, %q, %first;
    mov.u32 %me, %tid.x;
    shr.u32 %warp, %me, 5;
    and.b32 %lane, %me, 31;
    setp.eq.u32 %first, %me, 0;
{body}
END:
    ret;
}}
"""


def pipeline(stages: int, k_tiles: int) -> Protocol:
    """A producer and a consumer that hand over k-tiles through stages.

    The barriers are full[0], full[1], ..., then empty[0], ...; word s is stage s.
    """
    turns: Sequence[tuple[int, int]] = [(k % stages, k // stages % 2) for k in range(k_tiles)]
    made: list[Action] = []
    used: list[Action] = []
    for stage, parity in turns:
        made += [("wait", stages + stage, 1 - parity), ("write", stage), ("arrive", stage)]
        used += [("wait", stage, parity), ("read", stage), ("arrive", stages + stage)]
    return Protocol((1,) * (2 * stages), (tuple(made), tuple(used)))
