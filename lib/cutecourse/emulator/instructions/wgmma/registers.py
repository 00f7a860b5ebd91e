"""The registers that wgmma uses asynchronously: which are in flight, and which a fence has not ordered.

From its issue to the wait for its group the registers of D belong to a wgmma.mma_async, and those of A must
not be written. An instruction that names such a register is wrapped while the kernel is decoded; kernels
without wgmma have no such registers and pay nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Pipe
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Gate, Program, Step
from cutecourse.emulator.core.registry import facts_of
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import DivergedWarp
from cutecourse.emulator.instructions.warpgroups import InFlight
from cutecourse.ptx.checks import registers
from cutecourse.ptx.scopes import Register, Scope
from cutecourse.ptx.syntax import Operand, Vector

__all__ = ["Flight", "Watched", "share", "watch"]


class Watched:
    """The registers that the wgmma.mma_async of a program name, numbered."""

    def __init__(self, program: Program) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        for function, flat in program.flat.items():
            stated = program.facts[function]
            for found, facts, scope in zip(flat.instructions, stated, flat.scopes, strict=True):
                if facts.pipe is Pipe.WGMMA:
                    for register in _vector(found.operands, scope):
                        self.numbers.setdefault((function, register.index), len(self.numbers))

    def of(self, function: str, scope: Scope, *operands: Operand) -> NDArray[np.int64]:
        """The numbers of those registers that operands name."""
        found = {
            self.numbers[key]
            for operand in operands
            for register in registers(operand, scope)
            if (key := (function, register.index)) in self.numbers
        }
        return np.array(sorted(found), dtype=np.int64)


def _vector(operands: tuple[Operand, ...], scope: Scope) -> Iterator[Register]:
    """The registers of D, and those of A where it is in registers."""
    for operand in operands[:2]:
        if isinstance(operand, Vector):
            yield from registers(operand, scope)


def share(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """True if two sets of watched registers have a register in common."""
    return bool(len(one) and len(other)) and _share(one.tobytes(), other.tobytes())


@lru_cache(maxsize=1024)
def _share(one: bytes, other: bytes) -> bool:
    # An instruction meets the same few sets again and again.
    return one == other or not set(memoryview(one).cast("q")).isdisjoint(memoryview(other).cast("q"))


class Flight:
    """The uses of watched registers by wgmma, for each warp of one bundle (one warp of each block)."""

    def __init__(self, bundle: Bundle) -> None:
        count = len(bundle.program.own(Watched).numbers)
        self.written = np.zeros((count, bundle.n), dtype=np.int32)
        """The number of operations in flight that have the register in D."""
        self.read = np.zeros((count, bundle.n), dtype=np.int32)
        """The number of operations in flight that have the register in A."""
        self.touched = np.ones((count, bundle.n), dtype=np.bool_)
        """True if other instructions have used it with no wgmma.fence since; all start as True."""
        self.changed = np.zeros((count, bundle.n), dtype=np.bool_)
        """True if other instructions have written it since the last wgmma.mma_async that has it in D."""
        self.open: list[deque[tuple[InFlight, int]]] = [deque() for _ in range(bundle.n)]
        """The operations for which each warp has not waited, with their group, oldest first."""
        self.committed = [0] * bundle.n
        """The number of groups that each warp has committed."""
        self.total = 0

    def begin(self, cluster: int, operation: InFlight) -> None:
        """Note that a warp has issued an operation."""
        self.open[cluster].append((operation, self.committed[cluster]))
        self.written[operation.writes, cluster] += 1
        self.read[operation.reads, cluster] += 1
        self.total += 1

    def due(self, cluster: int, newest: int) -> list[InFlight]:
        """The operations of all groups that a warp has committed but the newest few."""
        limit = self.committed[cluster] - newest
        return [operation for operation, group in self.open[cluster] if group < limit]

    def end(self, cluster: int, newest: int) -> None:
        """Note that a warp has waited for those operations."""
        limit = self.committed[cluster] - newest
        waiting = self.open[cluster]
        while waiting and waiting[0][1] < limit:
            operation, _ = waiting.popleft()
            self.written[operation.writes, cluster] -= 1
            self.read[operation.reads, cluster] -= 1
            self.total -= 1

    def check(
        self, site: Site, bundle: Bundle, cluster: int, used: NDArray[np.int64], written: NDArray[np.int64]
    ) -> None:
        """Report registers that an operation in flight still uses.

        Errors: AccumulatorInFlight; DivergedWarp if other lanes of the warp stand at a wgmma.wait_group.
        """
        in_d = used[self.written[used, cluster] > 0]
        in_a = written[self.read[written, cluster] > 0]
        if not (len(in_d) or len(in_a)):
            return
        _refuse_half_a_wait(site, bundle, cluster)
        conflict, what, done = (in_d, "D", "used") if len(in_d) else (in_a, "A", "written")
        for operation, group in list(self.open[cluster]):
            if share(conflict, operation.writes if what == "D" else operation.reads):
                commit = "" if group < self.committed[cluster] else "wgmma.commit_group after it, and "
                report(
                    "accumulator in flight",
                    f"a register of {what} of the wgmma.mma_async at line {operation.site.in_words} is"
                    f" {done}, but this warp has not waited for it. Put {commit}wgmma.wait_group before the"
                    f" registers are {done}.",
                    Origin(site, bundle, cluster * WARP_SIZE),
                    operation.site.line,
                )
                operation.settle()


def _refuse_half_a_wait(site: Site, bundle: Bundle, cluster: int) -> None:
    """Refuse a use by lanes that have gone past a wgmma.wait_group at which others of their warp stand."""
    for split in bundle.splits:
        gate = split.waiting
        if not (isinstance(gate, Gate) and facts_of(gate.instruction).waits_for is Pipe.WGMMA):
            continue
        assert split.mask is not None
        here = split.mask[cluster]
        if here.any():
            raise site.error(
                DivergedWarp,
                "lanes of this warp use registers of a wgmma.mma_async while lane"
                f" {int(np.argmax(here))} stands at {gate.instruction.name} at line {gate.line}, which all"
                f" {WARP_SIZE} lanes of the warp must execute together",
                bundle,
                cluster * WARP_SIZE + int(np.argmin(here)),
            )


def watch(site: Site, step: Step) -> Step:
    """Wrap an instruction that names watched registers with a check; return any other one unchanged."""
    watched = site.program.own(Watched)
    if not watched.numbers or site.facts.pipe is Pipe.WGMMA:
        return step
    function = site.function
    operands = site.operands
    used = watched.of(function, site.scope, *operands)
    if not len(used):
        return step
    written = watched.of(function, site.scope, *site.facts.split(operands)[0])

    def watching(bundle: Bundle, mask: Mask) -> None:
        flight = bundle.own(Flight)
        for cluster in bundle.clusters(mask):
            if flight.total:
                flight.check(site, bundle, cluster, used, written)
            flight.touched[used, cluster] = True
            flight.changed[written, cluster] = True
        step(bundle, mask)

    return watching
