"""setmaxnreg: the warps of a block pass registers to each other through the block's pool."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from cutecourse.emulator.core.bundle import WAIT, Bundle, Cohort, Split
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.waits import Held
from cutecourse.emulator.core.warp_values import require_whole_warps
from cutecourse.emulator.errors import LaunchError, RegisterPoolError
from cutecourse.emulator.instructions.warpgroups import WARPS, Common, Warpgroup
from cutecourse.ptx.syntax import IntLiteral
from cutecourse.trace.words import in_runs, number

__all__: list[str] = []

_REGISTERS = 1 << 16
"""The number of 32-bit registers in an SM."""
_MOST = 256
_LEAST = 24
_STEP = 8


@instruction("setmaxnreg.inc", "setmaxnreg.dec", control=True, gated=True)
def setmaxnreg(site: Site) -> Step:
    """Give a warp more registers from its block's pool, or return some of its registers to the pool.

    Shapes:     one operand, a constant; all four warps of a warpgroup.
    Units:      registers of a thread, a multiple of 8 from 24 to 256.
    Blocks:     .inc, while the pool has too few registers for the warp.
    Errors:     RegisterPoolError (.inc to fewer registers than the warp has, .dec to more, a second
                setmaxnreg before all warps of the warpgroup have executed the first), DivergedWarp (but a
                note where warps execute the same count at different lines, where the second one changes
                nothing, or where the block ends within the warpgroup: an H100 gives each warp what it asks
                for),
                DeadlockError if the pool never has enough. LaunchError at the first setmaxnreg of a block
                that starts with more registers than an SM has.
    Simplified: all warps start with the smallest of three numbers: `.maxnreg`; the share that `.minnctapersm`
                and `.reqntid` or `.maxntid` leave to a thread, which is 65536 registers over the threads of
                that many blocks of whole warpgroups, rounded down to a multiple of 8; and the kernel's
                largest .inc, as with ptxas. A kernel that gives none of the first two gets a note, and its
                setmaxnreg do nothing, as with ptxas 13.0. The pool is empty at first, and a warp that ends
                returns nothing. Registers keep their values: the emulator does not know which virtual
                registers a .dec takes away, nor that new ones are undefined.
    Source:     PTX ISA 9.0, setmaxnreg (#miscellaneous-instructions-setmaxnreg).
    """
    site.expect("sync")
    site.expect("aligned")
    site.type("u32")
    count = site.constant(0)
    if len(site.operands) != 1 or count is None or not _LEAST <= count <= _MOST or count % _STEP:
        site.invalid(f"{_short(site)} takes a constant: a multiple of {_STEP} from {_LEAST} to {_MOST}")
    raises = site.instruction.modifiers[0] == "inc"
    start = _start(site)
    site.converge()

    def control(bundle: Bundle, split: Split, following: int) -> int:
        require_whole_warps(site, bundle, split.mask)
        clusters = bundle.clusters(split.mask)
        pool = None if start is None else _Pool.of(site, bundle, start)
        for cluster in clusters:
            origin = Origin(site, bundle, cluster * WARP_SIZE)
            if Warpgroup.is_whole(bundle):
                group = Warpgroup.of(origin)
                changes = pool is None or int(pool.held[bundle.warp, cluster]) != count
                _check_order(origin, group, changes=changes)
                group.come(origin, stands_for=_stands_for)
            else:
                report("setmaxnreg apart", _NOT_WHOLE.format(bundle.machine.threads_per_block), origin)
            if start is None:
                report("setmaxnreg ignored", _IGNORED, origin)
        if pool is None:
            return following
        held = pool.held[bundle.warp]
        for cluster in clusters:
            if (held[cluster] > count) if raises else (held[cluster] < count):
                raise site.error(
                    RegisterPoolError,
                    f"{_short(site)} {count}, but the warp has {held[cluster]} registers per thread."
                    f" .{'inc' if raises else 'dec'} must not"
                    f" {'lower' if raises else 'raise'} their number.",
                    bundle,
                    cluster * WARP_SIZE,
                )
        if raises:
            return pool.ask(site, bundle, split, count, following)
        pool.give(site, bundle, clusters, count)
        return following

    return control


_IGNORED = (
    "nothing says how many registers the warps start with, so setmaxnreg does nothing. Give the entry"
    " .maxnreg, or .minnctapersm beside .reqntid (in the CuTe DSL: min_blocks_per_mp=1 at the launch)."
)


_NOT_WHOLE = "the block has {} threads, so this warp's warpgroup is not whole"


def _stands_for(found: Common, origin: Origin) -> bool:
    """Accept a setmaxnreg of the same direction and count at another line, with a note."""
    here, there = origin.site, found.site
    if here.instruction.name != there.instruction.name or here.constant(0) != there.constant(0):
        return False
    problem = (
        f"warp {origin.bundle.warp} executes it where warp {found.first} of its warpgroup executed the"
        f" setmaxnreg at line {found.site.line}"
    )
    report("setmaxnreg apart", problem, origin, found.site.line)
    return True


def _short(site: Site) -> str:
    """The instruction's name without the modifiers that all its forms share."""
    return f"setmaxnreg.{site.instruction.modifiers[0]}"


def _start(site: Site) -> int | None:
    """The registers per thread that all warps start with; None if the kernel does not say."""
    entry = site.program.entry
    threads = entry.directive("reqntid") or entry.directive("maxntid")
    blocks = entry.directive("minnctapersm")
    most = entry.directive("maxnreg")
    limits = []
    if most:
        limits.append(max(_LEAST, -(-most[0] // _STEP) * _STEP))
    if threads and blocks:
        warps = -(-int(np.prod(threads)) // WARP_SIZE)
        whole = -(-warps // WARPS) * WARPS
        limits.append(_REGISTERS // (WARP_SIZE * whole * max(blocks[0], 1)) // _STEP * _STEP)
    if not limits:
        return None
    return min(*limits, _MOST, max(_increases(site), default=_MOST))


def _check_start(site: Site, machine: Machine, start: int) -> None:
    """Refuse blocks that start with more registers than an SM has. Errors: LaunchError."""
    if start * machine.warps_per_block * WARP_SIZE > _REGISTERS:
        raise LaunchError(
            f"{machine.threads_per_block} threads with {start} registers each do not fit: an SM has"
            f" {_REGISTERS} registers. Lower .maxnreg to"
            f" {_REGISTERS // (machine.warps_per_block * WARP_SIZE) // _STEP * _STEP}.",
            kernel=machine.program.kernel,
            line=site.line,
        )


def _increases(site: Site) -> list[int]:
    """The counts that the kernel's setmaxnreg.inc instructions ask for."""
    found = []
    for function in site.program.flat.values():
        for one in function.instructions:
            if one.opcode == "setmaxnreg" and one.modifiers[:1] == ("inc",):
                found += [operand.value for operand in one.operands if isinstance(operand, IntLiteral)]
    return found


def _check_order(origin: Origin, group: Warpgroup, *, changes: bool) -> None:
    """Refuse a setmaxnreg before all warps of the warpgroup have executed the previous one.

    One that asks for what the warp has changes nothing and is a note: Triton's specialized warps have it.
    """
    for earlier in group.ahead(origin.bundle):
        if earlier.instruction.opcode == "setmaxnreg":
            problem = (
                f"warp {origin.bundle.warp} executes {_short(origin.site)} before all warps of its"
                f" warpgroup have executed {_short(earlier)} at line {earlier.in_words}. Synchronize"
                " the warpgroup between the two, for example with bar.sync."
            )
            if changes:
                raise origin.error(RegisterPoolError, problem)
            report("setmaxnreg apart", problem, origin, earlier.line)


class _Pool:
    """The register pools of a cohort's blocks of one rank."""

    def __init__(self, cohort: Cohort, rank: int, start: int) -> None:
        self.cohort = cohort
        self.rank = rank
        self.held = np.full((cohort.machine.warps_per_block, cohort.n), start, dtype=np.int64)
        """The registers of each thread of a warp, shape (warps of a block, n)."""
        self.free = np.zeros(cohort.n, dtype=np.int64)
        """The registers in each pool, shape (n,), in units of one register for each thread of a warp."""
        self.waiting: list[tuple[Bundle, Split]] = []

    @classmethod
    def of(cls, site: Site, bundle: Bundle, start: int) -> _Pool:
        """The pools of a bundle's blocks, made on first use. Errors: LaunchError."""
        pools = bundle.cohort.own(_Pools)
        if bundle.rank not in pools:
            _check_start(site, bundle.machine, start)
            pools[bundle.rank] = cls(bundle.cohort, bundle.rank, start)
        return pools[bundle.rank]

    def give(self, site: Site, bundle: Bundle, clusters: list[int], count: int) -> None:
        """Leave warps `count` registers per thread, and serve waiting warps from the rest."""
        self.free[clusters] += self.held[bundle.warp, clusters] - count
        self.held[bundle.warp, clusters] = count
        bundle.machine.changes += 1
        self._tell("registers.release", site, bundle, clusters, registers=count)
        waiting, self.waiting = self.waiting, []
        for asleep, split in waiting:
            reason = split.waiting
            assert isinstance(reason, _PoolWait)
            at = self.ask(reason.site, asleep, split, reason.count, reason.following, again=True)
            if at != WAIT:
                asleep.unpark(split, at)

    def ask(
        self, site: Site, bundle: Bundle, split: Split, count: int, following: int, *, again: bool = False
    ) -> int:
        """Give warps `count` registers per thread if their pool has enough; the others wait."""
        missing = count - self.held[bundle.warp]
        clusters = bundle.clusters(split.mask)
        served = [cluster for cluster in clusters if missing[cluster] <= self.free[cluster]]
        short = [cluster for cluster in clusters if missing[cluster] > self.free[cluster]]
        self.free[served] -= missing[served]
        self.held[bundle.warp, served] = count
        if again:
            self._tell("registers.resume", site, bundle, served, registers=count)
        else:
            self._tell("registers.wait", site, bundle, served, registers=count, outcome="passed")
            self._tell("registers.wait", site, bundle, short, registers=count, outcome="blocked")
        if not short:
            return following
        asleep = split
        if served:
            away = np.zeros_like(bundle.full)
            away[short] = True
            asleep = bundle.fork(split, away, split.at)
        asleep.waiting = _PoolWait(site, self, bundle.warp, count, following)
        self.waiting.append((bundle, asleep))
        return following if asleep is not split else WAIT

    @staticmethod
    def _tell(kind: str, site: Site, bundle: Bundle, clusters: list[int], **data: int | str) -> None:
        for tell in bundle.cohort.listeners.happened:
            for cluster in clusters:
                tell(kind, Origin(site, bundle, cluster * WARP_SIZE), one=False, **data)

    def holders(self, cluster: int) -> str:
        """Say how many registers per thread each warp of a block has."""
        alike: dict[int, list[int]] = defaultdict(list)
        for warp, held in enumerate(self.held[:, cluster].tolist()):
            alike[held].append(warp)
        return ", ".join(
            ("warp " if len(warps) == 1 else "warps ")
            + in_runs(warps)
            + f" {'has' if len(warps) == 1 else 'have'} {held}"
            for held, warps in alike.items()
        )


class _Pools(OwnerDict[int, _Pool]):
    """The pools of a cohort's blocks, by rank."""


@dataclass(frozen=True)
class _PoolWait(Held):
    """The wait of a warp for registers."""

    site: Site
    pool: _Pool
    warp: int
    count: int
    following: int

    @property
    def line(self) -> int:
        """The instruction's line."""
        return self.site.line

    def describe(self, cluster: int) -> str:
        """Say how many registers are missing and which warps hold them."""
        missing = self.count - int(self.pool.held[self.warp, cluster])
        free = int(self.pool.free[cluster])
        late = []
        for group in Warpgroup.started(self.pool.cohort, cluster, self.pool.rank):
            for site, warps in group.behind():
                if site.instruction.opcode == "setmaxnreg":
                    who = in_runs(warps)
                    late.append(
                        f"; {number(len(warps), 'warp')} ({who}) of a warpgroup must still execute"
                        f" {_short(site)} at line {site.in_words}"
                    )
        return (
            f"waits at {_short(self.site)} for {missing} more registers per thread, but the block's"
            f" pool has {free or 'none'} left: {self.pool.holders(cluster)} per thread{''.join(late)}"
        )
