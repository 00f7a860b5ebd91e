"""Why a launch cannot go on: who waits for what, what has come, and who could have delivered the rest.

Equal waits of several blocks share one row, and so do equal barriers. If a thousand blocks hang in one place,
the report is as short as for one block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from cutecourse.emulator.checks.block_end import unexpected_multicast
from cutecourse.emulator.core.bundle import Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.registry import facts_of
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Meeting, TimedWait, Wait
from cutecourse.emulator.errors import (
    BudgetExceeded,
    DeadlockError,
    DivergedWarp,
    EmulatorError,
    TransactionBytesError,
)
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers, PhaseWait
from cutecourse.ptx.checks import names
from cutecourse.ptx.sources import line_in_words
from cutecourse.trace.words import in_runs, number

if TYPE_CHECKING:
    from cutecourse.emulator.core.machine import Machine
    from cutecourse.emulator.core.origin import Origin
    from cutecourse.emulator.core.program import Program
    from cutecourse.ptx.syntax import Instruction

__all__ = ["hottest", "over_budget", "spinning", "stuck"]

_ROWS, _TOLD, _DEEDS, _SITES = 8, 12, 4, 3
"""Limits of a report: groups of waits, lines about barriers, and for each barrier the kernel lines that have
brought something, and those that could bring the rest."""
_HOTTEST = 4
_FIXED = {"local", "const", "param"}
"""Memories that other threads cannot change."""
Block = tuple[int, int, int]


def over_budget(machine: Machine, runs: Mapping[int, int], budget: int) -> EmulatorError:
    """The error of a launch that has issued too many instructions; `runs` counts each basic block's."""
    program = machine.program
    return program.error(
        BudgetExceeded,
        f"the kernel did not end within {budget} instructions. {hottest(program, runs)}\n"
        "  Does a loop wait for something that never comes? If not, raise max_instructions.",
        next((line for line, _ in _hottest(program, runs)), None),
    )


def hottest(program: Program, runs: Mapping[int, int]) -> str:
    """Say which lines of a kernel ran most often; `runs` counts each basic block's."""
    lines = "".join(
        f"\n    line {line_in_words(program.module, line)}, {count} times: "
        + program.module.line_text(line).strip()
        for line, count in _hottest(program, runs)
    )
    return f"These lines ran most often:{lines}" if lines else "No line has run yet."


def _hottest(program: Program, runs: Mapping[int, int]) -> list[tuple[int, int]]:
    hot: Counter[int] = Counter()
    for index, times in runs.items():
        for instruction in program.blocks[index].instructions:
            hot[instruction.line] += times
    return hot.most_common(_HOTTEST)


def spinning(
    blocks: Sequence[int], machine: Machine, cohorts: Iterable[Cohort], runs: Mapping[int, int]
) -> EmulatorError:
    """The error of a launch whose warps only repeat these basic blocks, and nothing changes any more."""
    program = machine.program
    waits = [wait for cohort in cohorts for wait in _waits(cohort)]
    spins = [wait for wait in waits if wait.reason is None]
    ran = [one for index in blocks for one in program.blocks[index].instructions]
    reads = dict.fromkeys(
        one for one in ran if any(use.reads and use.space not in _FIXED for use in facts_of(one).uses)
    )
    rows = [
        f"    line {line_in_words(program.module, one.line)}: {program.module.line_text(one.line).strip()}"
        for one in reads or dict.fromkeys(ran)
    ]
    left_out = [f"    and {number(len(rows) - _ROWS, 'line')} more"] if len(rows) > _ROWS else []
    what = "  The loops read:" if reads else "  The loops read no memory. Their lines:"
    history = _Histories(machine, runs, waits)
    told = history.rows(dict.fromkeys(b for wait in waits for b in wait.barriers))
    who = "a warp repeats a loop" if len(spins) == 1 else f"{len(spins)} warps repeat their loops"
    problem = "\n".join(
        [
            f"{who}, and no warp will ever change what the loop asks for:",
            *_rows(machine, [*spins, *(wait for wait in waits if wait not in spins)]),
            what,
            *rows[:_ROWS],
            *left_out,
            *told,
        ]
    )
    asks = next((one.line for one in reads), None)
    return _error(DeadlockError, problem, spins[0], asks)


def stuck(machine: Machine, cohorts: Iterable[Cohort], runs: Mapping[int, int]) -> EmulatorError:
    """The error of a launch in which no warp can go on."""
    waits = [wait for cohort in cohorts for wait in _waits(cohort)]
    history = _Histories(machine, runs, waits)
    waits.sort(key=history.distance)
    rows = _rows(machine, waits)
    meetings = [(wait, wait.reason) for wait in waits if isinstance(wait.reason, Meeting)]
    if meetings and not any(isinstance(wait.reason, TimedWait) for wait in waits):
        wait, meeting = meetings[0]
        problem = f"{meeting.needs}, but some of them wait elsewhere:\n" + "\n".join(rows)
        return _error(DivergedWarp, problem, wait)
    short = [wait for wait in waits for barrier in wait.barriers if history.bytes_are_wrong(barrier)]
    told = list(history.rows(dict.fromkeys(b for wait in (*short, *waits) for b in wait.barriers)))
    if short:
        barrier = next(b for b in short[0].barriers if history.bytes_are_wrong(b))
        first = (
            f"{number(abs(barrier.tx), 'byte')} {'are missing at' if barrier.tx > 0 else 'too many reached'}"
            f" {barrier.label()}: "
        )
        if (multicast := unexpected_multicast(barrier, *rows)) is not None:
            return multicast
        advice = (
            "  Compare the bytes that expect_tx announces with the boxes, and with the CTAs, of the copies."
        )
        problem = first + "no warp can go on:\n" + "\n".join([*rows, *told, advice])
        return _error(TransactionBytesError, problem, short[0])
    first = f"no warp can go on{history.root(waits[0])}:"
    return _error(DeadlockError, "\n".join([first, *rows, *told]), waits[0])


# --- who waits ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wait:
    """A warp, or lanes of it, that cannot go on."""

    bundle: Bundle
    split: Split
    warp: int
    """The block's position in the bundle."""
    lanes: str
    """The lanes in words; empty for all live lanes of the warp."""

    @property
    def block(self) -> Block:
        return self.bundle.where(self.warp * WARP_SIZE)[0]

    @property
    def reason(self) -> Wait | None:
        return self.split.waiting

    @property
    def line(self) -> int | None:
        if self.reason is not None:
            return self.reason.line
        block = self.bundle.program.blocks[self.split.at]
        return block.instructions[0].line if block.instructions else None

    @property
    def barriers(self) -> list[MBarrier]:
        """The mbarriers that the warp waits for."""
        return self.reason.barriers(self.warp) if isinstance(self.reason, PhaseWait) else []

    def why(self) -> str:
        """Say what the warp is waiting for."""
        return "repeats a loop" if self.reason is None else self.reason.describe(self.warp)


def _waits(cohort: Cohort) -> Iterator[_Wait]:
    for bundle in cohort.bundles:
        for split in bundle.splits:
            mask = bundle.full if split.mask is None else split.mask
            for warp in bundle.clusters(mask):
                active = np.flatnonzero(mask[warp]).tolist()
                live = np.flatnonzero(bundle.live[warp]).tolist()
                yield _Wait(bundle, split, warp, "" if active == live else f" lanes {in_runs(active)}")


def _error(kind: type[EmulatorError], problem: str, wait: _Wait, line: int | None = None) -> EmulatorError:
    mask = wait.bundle.full if wait.split.mask is None else wait.split.mask
    lane = wait.warp * WARP_SIZE + int(np.flatnonzero(mask[wait.warp])[0])
    error = wait.bundle.error(kind, problem, line or wait.line, lane)
    error.final = True
    return error


def _rows(machine: Machine, waits: list[_Wait]) -> list[str]:
    """Describe the waits in rows; waits that differ only in their blocks and warps share one."""
    module = machine.program.module
    alike: dict[tuple[int | None, str, str], dict[int, list[Block]]] = {}
    for wait in waits:
        warps = alike.setdefault((wait.line, wait.lanes, wait.why()), defaultdict(list))
        warps[wait.bundle.warp].append(wait.block)
    rows: list[str] = []
    left_out = 0
    for (line, lanes, why), warps in alike.items():
        together: dict[tuple[Block, ...], list[int]] = {}
        for warp, blocks in warps.items():
            together.setdefault(tuple(sorted(blocks, key=lambda block: block[::-1])), []).append(warp)
        for at, numbers in together.items():
            if len(rows) < _ROWS:
                who = f"{_blocks(at)} {_warps(numbers)}{lanes}"
                rows.append(f"  {who}: line {line_in_words(module, line)}, {why}")
            else:
                left_out += len(at) * len(numbers)
    if left_out:
        rows.append(f"  and {number(left_out, 'warp')} more")
    return rows


def _blocks(blocks: tuple[Block, ...]) -> str:
    """(0, 0, 0), (1, 0, 0) as "blocks (0, 0, 0) to (1, 0, 0)", if they fill that box."""
    if len(blocks) == 1:
        return f"block {blocks[0]}"
    low = tuple(min(block[axis] for block in blocks) for axis in range(3))
    high = tuple(max(block[axis] for block in blocks) for axis in range(3))
    if prod(b - a + 1 for a, b in zip(low, high, strict=True)) == len(blocks):
        return f"blocks {low} to {high}"
    shown = ", ".join(map(str, blocks[:2]))
    return f"blocks {shown}" + (f" and {len(blocks) - 2} more" if len(blocks) > 2 else "")


def _warps(warps: list[int]) -> str:
    return f"warp {warps[0]}" if len(warps) == 1 else f"warps {in_runs(sorted(warps))}"


_DEED = {
    "expect_tx": "{} expected",
    "complete_tx": "{} landed, asked for",
    "arrive": "{}",
    "arrive_drop": "{}, dropping out,",
}
"""Actions on an mbarrier, in words that a line number follows."""


def _who(origins: list[Origin]) -> str:
    """The warps of some threads, in a cluster each with its CTA: "warp 0 of CTAs 0, 2"."""
    ranks: dict[int, list[int]] = {}
    for origin in origins:
        ranks.setdefault(origin.bundle.warp, []).append(origin.bundle.rank)
    if origins[0].bundle.cohort.size == 1:
        return _warps(list(ranks))
    return " and ".join(
        f"warp {warp} of CTA{'s' if len(of) > 1 else ''} {in_runs(sorted(set(of)))}"
        for warp, of in ranks.items()
    )


# --- what they wait for -------------------------------------------------------------------------------------


class _Histories:
    """The history of mbarriers, and the instructions that could bring them more."""

    def __init__(self, machine: Machine, runs: Mapping[int, int], waits: list[_Wait]) -> None:
        self.program = machine.program
        self.places = machine.program.placement.shared_variables
        self.flow = self._flow()
        self.standing: dict[tuple[int, int], _Wait] = {}
        """The wait of each warp, by its bundle and its position there."""
        for wait in waits:
            self.standing.setdefault((id(wait.bundle), wait.warp), wait)
        self.never: dict[str, list[Instruction]] = {"arrivals": [], "bytes": []}
        """Instructions that could bring arrivals or bytes but that no warp has executed."""
        for block in machine.program.blocks:
            if not runs[block.index]:
                for instruction in block.instructions:
                    if brings := facts_of(instruction).completes:
                        self.never[brings].append(instruction)

    def bytes_are_wrong(self, barrier: MBarrier) -> bool:
        """True if all arrivals have come, every source of bytes has run, and the bytes do not add up.

        If a thread has brought bytes to an earlier phase and none to this one, its own wait is the cause.
        """
        if barrier.pending or not barrier.tx:
            return False
        return barrier.tx < 0 or not any(what == "complete_tx" for what, _, _ in self._late(barrier))

    def distance(self, wait: _Wait) -> int:
        """How far a wait is from the cause: 0 where nobody who waits elsewhere is known to end it.

        It is 1 if warps that once brought what is missing wait elsewhere, and 2 for a barrier of a block or
        cluster, at which everybody meets sooner or later.
        """
        if not wait.barriers:
            return 2
        late = [origin for barrier in wait.barriers for _, _, origin in self._late(barrier)]
        return int(any(self._standing(origin) is not None for origin in late))

    def root(self, wait: _Wait) -> str:
        """Say what a wait lacks, who should have brought it, and what went elsewhere; or nothing."""
        barrier = next((one for one in wait.barriers if one.pending), None)
        if barrier is None:
            return ""
        who = ""
        for _, phase, origin in [row for row in self._late(barrier) if row[0] == "arrive"][-1:]:
            who = f", at which {_who([origin])} arrived at line {self._line(origin)} for phase {phase}"
            who += self._stands(origin)
        if not who and (never := self._never(barrier, "arrivals")):
            who = f"; line {line_in_words(self.program.module, never[0].line)} was never executed"
        elsewhere = self._elsewhere(barrier)
        if not self._deeds(barrier) and len(elsewhere) == 1:
            who += f"; {next(iter(elsewhere))}, for which no warp has waited"
        return f", because phase {barrier.phase} of {barrier.label()} lacks {barrier.missing()}{who}"

    def _elsewhere(self, barrier: MBarrier) -> set[str]:
        """Arrivals at other mbarriers of the cluster that no warp has waited for and none waits for now."""
        found = set()
        waited = {one for wait in self.standing.values() for one in wait.barriers}
        for (cluster, *_), other in barrier.cohort.own(MBarriers).live.items():
            if cluster == barrier.cluster and not other.seen and other not in waited:
                for (what, *_), (_, origin) in other.history.items():
                    if what == "arrive":
                        found.add(f"line {self._line(origin)} arrived at {other.label()}")
        return found

    @staticmethod
    def _late(barrier: MBarrier) -> list[tuple[str, int, Origin]]:
        """Threads that contributed to an earlier phase and not to this one: what, last phase, who."""
        last: dict[tuple[str, Site, Bundle], tuple[int, Origin]] = {}
        for (what, phase, site, bundle), (_, origin) in barrier.history.items():
            last[what, site, bundle] = (phase, origin)
        return [
            (what, phase, origin)
            for (what, *_), (phase, origin) in last.items()
            if phase < barrier.phase and what in {"arrive", "complete_tx"}
        ]

    def rows(self, barriers: Iterable[MBarrier]) -> Iterator[str]:
        """Say what each barrier has received and lacks; equal barriers share one row."""
        alike: dict[tuple[str, ...], list[MBarrier]] = {}
        for barrier in barriers:
            alike.setdefault((barrier.label(), *self._of(barrier)), []).append(barrier)
        lines = 0
        for count, ((_, *rows), found) in enumerate(alike.items()):
            lines += len(rows)
            if count and lines > _TOLD:
                yield f"  and {number(len(alike) - count, 'mbarrier')} more"
                return
            others = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
            yield f"  {found[0].where()}{others}: {rows[0]}"
            yield from (f"    {row}" for row in rows[1:])

    def _of(self, barrier: MBarrier) -> Iterator[str]:
        deeds = self._deeds(barrier)
        before = ""
        if barrier.phase and not deeds:
            parity = barrier.phase - 1 & 1
            before = f"; phase {barrier.phase - 1} is complete, and a wait for parity {parity} would pass"
        yield f"phase {barrier.phase} has received" + (":" if deeds else " nothing") + before
        yield from deeds[:_DEEDS]
        if len(deeds) > _DEEDS:
            yield f"and from {number(len(deeds) - _DEEDS, 'line')} more"
        wanted = "arrivals" if barrier.pending else "bytes"
        kind = {"arrivals": "arrive", "bytes": "complete_tx"}[wanted]
        late = [row for row in self._late(barrier) if row[0] == kind]
        for what, phase, origin in late[-_SITES:]:
            yield (
                f"phase {phase} received {_DEED[what].format(wanted)} at line {self._line(origin)} by"
                f" {_who([origin])}{self._stands(origin)}"
            )
        if barrier.tx >= 0 and (never := self._never(barrier, wanted)):
            lines = ", ".join(
                f"{line_in_words(self.program.module, i.line)} ({'.'.join((i.opcode, *i.modifiers[:2]))})"
                for i in never[:_SITES]
            )
            more = f" and {len(never) - _SITES} more" if len(never) > _SITES else ""
            yield f"could bring {wanted} but was never executed: line {lines}{more}"

    def _deeds(self, barrier: MBarrier) -> list[str]:
        """Say what the current phase has received: one row for each line of the kernel."""
        sites: dict[tuple[str, str], list[tuple[int, Origin]]] = {}
        came = sorted(barrier.came(barrier.phase), key=lambda row: row[2].site.line)
        for what, count, origin in came:
            sites.setdefault((what, self._line(origin)), []).append((count, origin))
        rows = []
        for (what, line), found in sites.items():
            counts = {count for count, _ in found}
            each = f" ({counts.pop()} each)" if len(found) > 1 and len(counts) == 1 else ""
            total = number(sum(count for count, _ in found), "byte" if what.endswith("tx") else "arrival")
            rows.append(
                f"{_DEED[what].format(total)} at line {line} by {_who([origin for _, origin in found])}{each}"
            )
        return rows

    def _line(self, origin: Origin) -> str:
        return line_in_words(self.program.module, origin.site.line)

    def _stands(self, origin: Origin) -> str:
        """Say what a warp is doing now."""
        wait = self._standing(origin)
        if wait is None:
            return ", which has ended"
        return f", which waits at line {line_in_words(self.program.module, wait.line)}"

    def _standing(self, origin: Origin) -> _Wait | None:
        """The wait of the origin's warp; None if it has ended."""
        return self.standing.get((id(origin.bundle), origin.lane // WARP_SIZE))

    def _never(self, barrier: MBarrier, wanted: str) -> list[Instruction]:
        """Instructions that could bring arrivals or bytes to a barrier and that no warp has executed.

        Those that name its variable come first. If none does, and many leave open what they mean, they tell
        nothing.
        """
        found = [one for one in self.never[wanted] if self._may_mean(one, barrier)]
        named = [one for one in found if self._variables(one)]
        return named or (found if len(found) <= _SITES else [])

    def _variables(self, instruction: Instruction) -> set[str]:
        """The shared variables that an instruction's operands name, or that flow into its registers."""
        used = {name.text for operand in instruction.operands for name in names(operand)}
        return set().union(*(self.flow.get(name, {name} & self.places.keys()) for name in used))

    def _flow(self) -> dict[str, set[str]]:
        """The shared variables whose addresses flow into each register, as far as moves and sums show."""
        found: dict[str, set[str]] = defaultdict(set)
        grown = True
        while grown:
            grown = False
            for one in self.program.instructions:
                to, *sources = [[name.text for name in names(operand)] for operand in one.operands] or [[]]
                if len(to) != 1 or to[0] in self.places:
                    continue
                for name in (name for source in sources for name in source):
                    new = ({name} & self.places.keys()) | found.get(name, set())
                    if not new <= found[to[0]]:
                        found[to[0]] |= new
                        grown = True
        return found

    def _may_mean(self, instruction: Instruction, barrier: MBarrier) -> bool:
        """True if the instruction's operands name no variable other than the one that holds the barrier."""
        known = [self.places[name] for name in self._variables(instruction)]
        return not known or any(first <= barrier.offset < stop for first, stop in known)
