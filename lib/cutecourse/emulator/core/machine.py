"""The machine: one launch's memory, its cohorts of blocks, and the movements of lanes.

What moves lanes is here: divergence, reconvergence, waiting, leaving. Which warps run next is the scheduler's
business (emulator.core.scheduler).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.provenance import Provenance
from cutecourse.emulator.checks.races import Races
from cutecourse.emulator.core.bundle import WARP_SIZE, Bundle, Cohort, Mask, Split
from cutecourse.emulator.core.frame import align_up, initial_bytes, size_of
from cutecourse.emulator.core.hazards import severities
from cutecourse.emulator.core.program import Gate, Program
from cutecourse.emulator.errors import EmulatorError, InvalidOperand, LaunchError
from cutecourse.emulator.memory.space import (
    POISON,
    Allocation,
    Memory,
)
from cutecourse.emulator.numbers.mma_sums import DEFAULT_ARITHMETIC
from cutecourse.ptx.syntax import Function, Module, SymbolOffset, Variable

if TYPE_CHECKING:
    from cutecourse.emulator.checks.race_plan import Plan
    from cutecourse.emulator.core.hazards import Note
    from cutecourse.emulator.launch import Parameters
    from cutecourse.trace import AccessLog, Recorder

__all__ = ["GateWait", "Machine", "PendingWork", "Sleep"]

WAIT = -1
"""What a control instruction returns when its split does not simply go on."""


@lru_cache(maxsize=4096)
def _warps_in(mask: bytes) -> int:
    """How many warps have a lane in a mask, by its bytes."""
    return sum(b"\x01" in mask[start : start + WARP_SIZE] for start in range(0, len(mask), WARP_SIZE))


@dataclass(frozen=True)
class GateWait:
    """A split waits in front of an instruction for other lanes of its warp."""

    gate: Gate

    @property
    def line(self) -> int:
        """The instruction's line."""
        return self.gate.instruction.line

    @property
    def needs(self) -> str:
        """The rule that lanes which never come have broken."""
        who = (
            "all lanes of the warp together"
            if self.gate.kind == "warp"
            else "all lanes that its membermask names"
        )
        return f"{self.gate.instruction.name} must be executed by {who}"

    def describe(self, warp: int) -> str:
        """Why these lanes of a warp wait."""
        what = "all lanes of the warp" if self.gate.kind == "warp" else "the lanes that its membermask names"
        return f"waits at {self.gate.instruction.name} for {what}"


class Sleep(Protocol):
    """A wait that does not have to last until what it waits for has happened, such as mbarrier.try_wait."""

    def wake_some(self) -> None:
        """Let those lanes go on for which it has happened, and let the rest wait on."""

    def key(self) -> tuple[int, ...]:
        """The same for a wait that begins anew after it has timed out."""

    def time_out(self) -> None:
        """Let all lanes go on, with the answer that it has not happened."""


def _nothing() -> None:
    """What is left to do of work that is complete."""


class PendingWork:
    """Asynchronous work that has been issued and not completed, such as the copies of one cp.async.

    `finish()` completes it now, once; the scheduler may do so at any time in an order that the seed chooses.
    """

    __slots__ = ("_complete", "_machine", "done", "position")

    def __init__(self, machine: Machine, complete: Callable[[], None]) -> None:
        self._machine = machine
        self._complete = complete
        self.position = len(machine.pending)
        """Where it stands in `machine.pending`."""
        self.done = False
        machine.pending.append(self)

    def arguments_of(self, function: Callable[..., None]) -> tuple[Any, ...] | None:
        """The arguments with which a function will do the work; None where another does it."""
        found = self._complete
        return found.args if isinstance(found, partial) and found.func is function else None

    def finish(self) -> None:
        """Complete the work if it is not complete yet."""
        complete = self._complete
        if self.withdraw():
            complete()

    def withdraw(self) -> bool:
        """Take it off the list, for who completes it together with other work; False if it is done."""
        if self.done:
            return False
        self.done = True
        self._machine.changes += 1
        last = self._machine.pending.pop()
        if last is not self:
            self._machine.pending[self.position] = last
            last.position = self.position
        # What it held is free now, also where that knows of this work.
        self._complete = _nothing
        return True


class Machine:
    """One launch: grid, memory, program, cohorts."""

    def __init__(
        self,
        module: Module,
        entry: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int],
        dynamic_smem: int,
        seed: int,
    ) -> None:
        self.module = module
        self.entry = entry
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.dynamic_smem = dynamic_smem
        self.seed = seed
        self.random = random.Random(seed)
        self.threads_per_block = block[0] * block[1] * block[2]
        self.warps_per_block = -(-self.threads_per_block // WARP_SIZE)
        self.memory = Memory()
        self.arithmetic = DEFAULT_ARITHMETIC
        """Whose tensor cores' sums mma.sync gives."""
        self.cta_group: tuple[int, int] | None = None
        """The .cta_group that the kernel's tcgen05 instructions share, with the line of the first."""
        self.parameters: Parameters | None = None
        self._parameters_allocation: Allocation | None = None
        self._variables: dict[tuple[str, int, int], Allocation] = {}
        self.issued = 0
        """Instructions issued so far, one for each bundle that runs one."""
        self.pending: list[PendingWork] = []
        """Asynchronous work that is not complete; add with `defer`."""
        self.copies = 0
        """Tensor copies into shared memory asked for so far."""
        self.linked = 0
        """Completions so far of operations that could have come together with others."""
        self.wake: Callable[[Bundle], None] = lambda bundle: None
        """The scheduler's door: a bundle has something to run again."""
        self.printed: list[str] = []
        self.severities: dict[str, str] = severities(None, entry.name)
        """How grave each hazard is in this launch (emulator.core.hazards)."""
        self.notes: dict[tuple[str, int, int | None], Note] = {}
        """Hazards that end no launch, by name and the two lines."""
        self.recorder: Recorder | None = None
        """Who is told events, with `emit` and `emit_at`; None where nobody listens, which costs nothing."""
        self.accesses: AccessLog | None = None
        """What every lane's address is written into; None costs nothing."""
        self.changes = 0
        """Counts what may let a waiting warp go on, so that a wait that nothing can end is seen."""
        self.sleeping: dict[Sleep, None] = {}
        """Waits that may give up when nothing else can go on, in the order in which they began."""
        self.half_awake: dict[Sleep, None] = {}
        """Those of them that could end for some of their lanes."""
        self.follows_bytes = ""
        """"copies" where it is followed who reads what they bring, "stores" where threads' stores count."""
        self.follows_sums = False
        """Whether it is followed who reads the sums in tensor memory."""
        self.race_plan: list[Plan | None] = []
        """How races are looked for, once that is known."""
        self.program: Program

    def begin_part(self, number: int) -> None:
        """Begin a part of the grid as if it were a launch of its own: others decide nothing in it."""
        self.random = random.Random(f"{self.seed} {number}")
        self.copies = self.linked = 0

    def forget(self) -> None:
        """Drop the part of the grid that is under way, and what has been seen in it."""
        self.pending.clear()
        self.sleeping.clear()
        self.half_awake.clear()
        self.notes.clear()

    # --- asynchronous work ----------------------------------------------------------------------------------

    def defer(self, complete: Callable[[], None]) -> PendingWork:
        """Issue asynchronous work: `complete()` runs later, at a time that the seed chooses."""
        return PendingWork(self, complete)

    # --- variables and parameters ---------------------------------------------------------------------------

    def set_parameters(self, parameters: Parameters) -> None:
        """Put the arguments where ld.param finds them."""
        self.parameters = parameters
        data = np.frombuffer(bytes(parameters.data), dtype=np.uint8).copy()
        self._parameters_allocation = self.memory.allocate("kernel parameters", "param", data, writable=False)

    def parameter_address(self, name: str) -> int:
        """Where a parameter of the entry lies."""
        assert self.parameters is not None
        assert self._parameters_allocation is not None
        return self._parameters_allocation.base + self.parameters.offsets[name]

    def variable(self, variable: Variable) -> Allocation:
        """The memory of a variable in .global or .const, made when first asked for."""
        key = (variable.name, variable.line, variable.column)
        found = self._variables.get(key)
        if found is not None:
            return found
        if variable.space not in {"global", "const"}:
            raise LaunchError(
                f"{variable.name} in .{variable.space} has no address of its own", line=variable.line
            )
        if "extern" in variable.linkage:
            raise LaunchError(
                f"{variable.name} is declared .extern, but nothing in this module defines it",
                line=variable.line,
            )
        size = size_of(variable)
        try:
            data = np.zeros(size, dtype=np.uint8)
        except MemoryError:
            raise LaunchError(f"no memory for {variable.name} ({size} bytes)", line=variable.line) from None
        allocation = self.memory.allocate(
            variable.name, variable.space, data, writable=variable.space == "global"
        )
        self._variables[key] = allocation
        initial_bytes(variable, data, self._symbol_address)
        return allocation

    def _symbol_address(self, symbol: SymbolOffset) -> int:
        for candidate in self.module.variables:
            if candidate.name == symbol.symbol:
                if candidate.space == "shared":
                    raise LaunchError(
                        f"{symbol}: the address of shared memory is not known", line=symbol.line
                    )
                return self.variable(candidate).base + symbol.offset
        raise LaunchError(f"{symbol}: no variable of that name", line=symbol.line)

    # --- blocks ---------------------------------------------------------------------------------------------

    def make_cohort(self, clusters: NDArray[np.int64]) -> Cohort:
        """Blocks that run side by side: `clusters` are the numbers of independent clusters of the grid."""
        per_axis = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        ranks = np.arange(size)
        within = np.stack(
            [
                ranks % self.cluster[0],
                ranks // self.cluster[0] % self.cluster[1],
                ranks // (self.cluster[0] * self.cluster[1]),
            ],
            axis=-1,
        )
        origin = np.stack(
            [
                clusters % per_axis[0],
                clusters // per_axis[0] % per_axis[1],
                clusters // (per_axis[0] * per_axis[1]),
            ],
            axis=-1,
        ) * np.array(self.cluster)
        # So that what is swizzled, and what the record of races looks at as one, ends with a block.
        stride = align_up(max(self.program.shared_bytes, 1), 1024)
        total = len(clusters) * size * stride
        cohort = Cohort(
            machine=self,
            n=len(clusters),
            size=size,
            blocks=(origin[:, None, :] + within[None, :, :]).astype(np.int64),
            shared_stride=stride,
            shared=np.full(total, POISON, dtype=np.uint8),
            shared_written=np.zeros(total, dtype=np.uint8),
            numbers=np.asarray(clusters, dtype=np.int64),
        )
        if self.follows_bytes:
            cohort.provenance = Provenance(cohort, self.follows_bytes == "stores")
        cohort.races = Races.of(cohort)
        start = self.program.starts[self.entry.name]
        for rank in range(size):
            for warp in range(self.warps_per_block):
                bundle = Bundle(self, self.program, cohort, rank, warp)
                cohort.bundles.append(bundle)
                self.add_split(bundle, start, bundle.live.copy(), ())
        return cohort

    # --- splits ---------------------------------------------------------------------------------------------

    @staticmethod
    def assign(split: Split, mask: Mask) -> None:
        """Give a split its lanes, with what is derived from them."""
        if mask is None:
            split.mask, split.key = None, b""
            return
        key = mask.tobytes()
        if b"\x00" not in key:
            split.mask, split.key = None, b""
            split.warps = len(key) // WARP_SIZE
        else:
            split.mask, split.key = mask, key
            split.warps = _warps_in(key)

    def add_split(self, bundle: Bundle, at: int, mask: NDArray[np.bool_], stack: tuple[int, ...]) -> Split:
        """Let lanes of a bundle stand at a block, as a split of their own."""
        split = Split(at, None, stack)
        self.assign(split, mask)
        split.turn = self.issued
        bundle.splits.append(split)
        return split

    def fork(self, bundle: Bundle, split: Split, away: NDArray[np.bool_], at: int) -> Split:
        """Take the lanes `away` out of a split and let them stand at another block."""
        mask = bundle.full if split.mask is None else split.mask
        other = self.add_split(bundle, at, mask & away, split.stack)
        self.assign(split, mask & ~away)
        return other

    def divide(self, bundle: Bundle, split: Split, condition: NDArray[np.bool_], yes: int, no: int) -> int:
        """Send the lanes of a split two ways; returns where the split itself goes on."""
        held = condition if split.mask is None else condition & split.mask
        seen = held.tobytes()
        if b"\x01" not in seen:
            return no
        if b"\x00" not in seen or seen == split.key:
            return yes
        self.fork(bundle, split, ~held, no)
        return yes

    def park(self, bundle: Bundle, split: Split, reason: Any, at: int) -> int:
        """Make a split wait, standing at block `at`; somebody has to `unpark` it. Returns WAIT."""
        split.at = at
        split.waiting = reason
        return WAIT

    def unpark(self, bundle: Bundle, split: Split, at: int | None = None) -> None:
        """Let a waiting split run again, at another block if one is named."""
        self.changes += 1
        split.waiting = None
        if at is not None:
            split.at = at
        self.wake(bundle)

    def leave(self, bundle: Bundle, split: Split, following: int = WAIT) -> int:
        """The lanes of a split return from a device function, or exit at the end of the kernel."""
        if split.stack:
            split.stack, at = split.stack[:-1], split.stack[-1]
            return at
        return self.exit(bundle, split)

    def exit(self, bundle: Bundle, split: Split) -> int:
        """The lanes of a split are done."""
        mask = bundle.full if split.mask is None else split.mask
        self.changes += 1
        bundle.live &= ~mask
        bundle.cohort.lanes_ended(bundle.rank)
        bundle.splits.remove(split)
        for other in bundle.splits:
            # Who waits for all live lanes may have nobody left to wait for.
            if isinstance(other.waiting, GateWait):
                other.waiting = None
        for hook in bundle.cohort.state.get("on exit", ()):
            hook(bundle, mask)
        return WAIT

    # --- gates ----------------------------------------------------------------------------------------------

    def pass_gate(self, bundle: Bundle, split: Split, gate: Gate) -> bool:
        """Whether the split may run the gated block where it stands; lanes that may not are parked there."""
        if split.mask is None:
            if gate.constant == 0xFFFFFFFF or gate.kind == "warp":
                return True
            assert gate.slot is not None
            if bundle.rows["u32"][gate.slot].tobytes() == b"\xff" * (4 * WARP_SIZE * bundle.n):
                return True
        self._absorb(bundle, split)
        mask = bundle.full if split.mask is None else split.mask
        if gate.kind == "warp" or gate.constant == 0xFFFFFFFF:
            ready = mask & (mask == bundle.live).all(axis=1, keepdims=True)
        else:
            ready = mask & self._members_present(bundle, mask, gate)
        if ready.tobytes() == mask.tobytes():
            return True
        rest = mask & ~ready
        if not ready.any():
            self.park(bundle, split, GateWait(gate), split.at)
            return False
        waiting = self.fork(bundle, split, rest, split.at)
        waiting.waiting = GateWait(gate)
        return True

    def _absorb(self, bundle: Bundle, split: Split) -> None:
        """Join the splits that wait in front of the same gate."""
        for other in list(bundle.splits):
            same_place = other.at == split.at and other.stack == split.stack
            if other is not split and same_place and isinstance(other.waiting, GateWait | None):
                self.join(bundle, split, other)

    def join(self, bundle: Bundle, split: Split, other: Split) -> None:
        """Add the lanes of one split to another and drop the one."""
        bundle.splits.remove(other)
        if split.mask is None or other.mask is None:
            raise AssertionError("two splits share lanes")
        self.assign(split, split.mask | other.mask)

    def _members_present(self, bundle: Bundle, mask: NDArray[np.bool_], gate: Gate) -> NDArray[np.bool_]:
        assert gate.slot is not None
        members = bundle.rows["u32"][gate.slot]
        bit = np.uint32(1) << np.arange(WARP_SIZE, dtype=np.uint32)
        own = (members & bit) != 0
        wrong = mask & ~own
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise self.error(
                InvalidOperand,
                f"membermask 0x{int(members.reshape(-1)[lane]):08x} does not name the lane that executes it",
                gate.instruction.line,
                bundle,
                lane,
            )
        active = (mask * bit).sum(axis=1, keepdims=True, dtype=np.uint32)
        live = (bundle.live * bit).sum(axis=1, keepdims=True, dtype=np.uint32)
        missing = members & live & ~active
        result: NDArray[np.bool_] = missing == 0
        return result

    # --- events ---------------------------------------------------------------------------------------------

    def emit(self, kind: str, bundle: Bundle, lane: int, line: int, *, one: bool = True, **data: Any) -> int:
        """Tell the recorder what a thread did; `lane` is flattened, `one` False for several lanes of a warp.

        Only where `recorder` is not None: the caller looks first, so that nothing is paid without one.
        """
        assert self.recorder is not None
        block, warp, in_warp = bundle.where(lane)
        return self.recorder.emit(
            kind,
            time=self.issued,
            cluster=int(bundle.cohort.numbers[lane // WARP_SIZE]),
            rank=bundle.rank,
            block=block,
            warp=warp,
            lane=in_warp if one else None,
            line=line,
            **data,
        )

    def emit_at(
        self, kind: str, cohort: Cohort, cluster: int, rank: int, line: int | None = None, **data: Any
    ) -> int:
        """Tell the recorder what happened in a block without a thread that does it, such as bytes that land.

        `cluster` is the cluster's position in its cohort. Only where `recorder` is not None.
        """
        assert self.recorder is not None
        x, y, z = cohort.blocks[cluster, rank].tolist()
        return self.recorder.emit(
            kind,
            time=self.issued,
            cluster=int(cohort.numbers[cluster]),
            rank=rank,
            block=(x, y, z),
            warp=None,
            lane=None,
            line=line,
            **data,
        )

    # --- errors ---------------------------------------------------------------------------------------------

    def error(
        self,
        kind: type[EmulatorError],
        problem: str,
        line: int | None,
        bundle: Bundle | None = None,
        lane: int | None = None,
    ) -> EmulatorError:
        """An error at a line of the kernel."""
        block = warp = in_warp = rank = None
        if bundle is not None and lane is not None:
            rank = bundle.rank if bundle.cohort.size > 1 else None
            block, warp, in_warp = bundle.where(lane)
        return kind(
            problem,
            kernel=self.entry.name,
            line=line,
            text=self.module.line_text(line) if line else "",
            block=block,
            rank=rank,
            warp=warp,
            lane=in_warp,
        )

    def fail(self, kind: type[EmulatorError], problem: str, line: int | None) -> NoReturn:
        """Raise an error at a line of the kernel."""
        raise self.error(kind, problem, line)
