"""wgmma: a warpgroup multiplies matrices into its registers, beside its threads.

Where the elements lie in registers, with g = lane / 4, t = lane % 4 and the warp w of the four:

    D, 32 bits each      register 4 j + 2 h + p       row 16 w + 8 h + g, column 8 j + 2 t + p
    D, two of 16 bits    register 2 j + h             the same, p the half
    A, V in a register   register 2 q + h, element e  row 16 w + 8 h + g, column 4 V q + V t + e
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.bundle import WARP_SIZE, Bundle, Mask, Split
from cutecourse.emulator.errors import AddressError, InvalidOperand, NonUniformOperand
from cutecourse.emulator.hazards import report
from cutecourse.emulator.machine import PendingWork
from cutecourse.emulator.matrix_descriptor import FieldError
from cutecourse.emulator.mbarrier_state import Origin
from cutecourse.emulator.operand_checks import check_operand
from cutecourse.emulator.provenance import follow
from cutecourse.emulator.registry import Step, instruction
from cutecourse.emulator.site import Site
from cutecourse.emulator.tcgen05_queue import check_source
from cutecourse.emulator.warp_values import require_whole_warps
from cutecourse.emulator.wgmma_arithmetic import fused_sums, whole_sums
from cutecourse.emulator.wgmma_descriptor import SharedMatrix, decode, shared_matrix
from cutecourse.emulator.wgmma_group import WARPS, Lagging, Warpgroup
from cutecourse.emulator.wgmma_registers import Flight, InFlight
from cutecourse.ptx.syntax import Vector

if TYPE_CHECKING:
    from cutecourse.emulator.race_operations import Operation

__all__: list[str] = []

_M = 64
_K_BYTES = 32
_MOST_N = 256
_A_REGISTERS = 4
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"),
    "s8": ("s32",),
    "u8": ("s32",),
}
_PARTNERS = {"e4m3": ("e4m3", "e5m2"), "e5m2": ("e4m3", "e5m2"), "s8": ("s8", "u8"), "u8": ("s8", "u8")}
_WAIT = "the wgmma.wait_group of its group"


@dataclass(frozen=True, eq=False)
class _Form:
    """One wgmma.mma_async of a kernel: shape, types, operands."""

    site: Site
    n: int
    k: int
    d: str
    a: str
    b: str
    satfinite: bool
    d_slots: list[int]
    a_slots: list[int]
    """Empty where A is in shared memory."""
    a_descriptor: int | None
    b_descriptor: int
    scale_d: int
    negate_a: bool
    negate_b: bool
    a_k_major: bool
    b_k_major: bool
    writes: NDArray[np.int64]
    """The watched registers of D (cutecourse.emulator.wgmma_registers)."""
    reads: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int, str]:
        """N, K and the type of D: what accumulators of one chain share."""
        return self.n, self.k, self.d

    @property
    def item(self) -> int:
        """Bytes of an element of A and B."""
        return _BYTES[self.a]

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.d == "s32"


@instruction("wgmma.mma_async")
def mma_async(site: Site) -> Step:
    """Multiply matrices into a warpgroup's registers, beside its threads: D = A * B + D, or D = A * B.

    Shapes:     once for a warpgroup: all four warps, all their lanes. D is 64 x N, each warp has 16 rows in
                its registers; A is 64 x K, 32 bytes a row, in shared memory or likewise in registers; B is
                K x N in shared memory. scale-d false leaves the old D out.
    Units:      matrix descriptors in bits; scales of A and B are 1 or -1; transposes 0 (K-major) or 1.
    Errors:     InvalidOperand for a descriptor's field, by its name; DivergedWarp, NonUniformOperand,
                AccumulatorInFlight, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError (a
                matrix behind the end of shared memory).
    Simplified: reads its operands and writes D when it completes, at a time that the seed chooses, at the
                latest at the wait for its group. The numbers follow a published model of Hopper's tensor
                cores (cutecourse.emulator.wgmma_arithmetic), whatever `launch(..., arithmetic=)` says. Dense
                matrices only (no .sp), and no .b1.
    Source:     PTX ISA 9.0, wgmma.mma_async
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async); Register Fragments for
                wgmma.mma_async.m64nNk16 and its neighbours.
    """
    form = _form(site)
    follow(site.machine, stores=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        flight = Flight.of(bundle)
        rows = bundle.rows
        for cluster in bundle.clusters(mask):
            origin = Origin(site, bundle, cluster * WARP_SIZE)
            a_bits = None
            if form.a_descriptor is not None:
                a_bits = _same(origin, rows["u64"][form.a_descriptor][cluster], "a-desc")
            b_bits = _same(origin, rows["u64"][form.b_descriptor][cluster], "b-desc")
            scale_d = bool(_same(origin, rows["pred"][form.scale_d][cluster], "scale-d"))
            _check_registers(flight, origin, form, cluster)
            group = Warpgroup.of(site, bundle, cluster)
            new = _Multiplication(form, group, a_bits, b_bits, accumulate=scale_d)
            found = group.come(site, bundle, (a_bits, b_bits, scale_d), new)
            assert isinstance(found, _Multiplication)
            flight.begin(cluster, found)

    return step


def _same(origin: Origin, row: NDArray[Any], what: str) -> int:
    """The one value of a warp's lanes."""
    first = row[0]
    if (row != first).any():
        lane = int(np.argmax(row != first))
        raise origin.error(
            NonUniformOperand,
            f"{what} is {int(first):#x} in lane 0 and {int(row[lane]):#x} in lane {lane}: it has to be the"
            " same in the whole warpgroup",
        )
    return int(first)


def _check_registers(flight: Flight, origin: Origin, form: _Form, cluster: int) -> None:
    """Report that registers are not ready: an operation in flight has them, or a fence is missing."""
    for operation, _ in list(flight.open[cluster]):
        met = np.isin(form.writes, operation.writes).any() and operation.shape != form.shape
        met = met or np.isin(form.reads, operation.writes).any()
        if met or np.isin(form.writes, operation.reads).any():
            report(
                "accumulator in flight",
                "it uses registers of the wgmma.mma_async at line"
                f" {operation.site.line}, which this warp has not waited for; only accumulators of the same"
                " shape are passed on without a wgmma.wait_group",
                origin,
                operation.site.line,
            )
            operation.settle()
    used = np.concatenate([form.writes, form.reads])
    if flight.touched[used, cluster].any():
        report(
            "no wgmma fence",
            "wgmma.mma_async uses registers with no wgmma.fence since other instructions used them",
            origin,
        )
        # Reported once: what follows on the same registers is another matter.
        flight.touched[used, cluster] = False


def _form(site: Site) -> _Form:
    site.expect("sync")
    site.expect("aligned")
    if site.has("sp"):
        site.unsupported(".sp, a sparse A, is not supported yet")
    shape = next((m for m in site.modifiers if re.fullmatch(r"m64n\d+k\d+", m)), None)
    if shape is None:
        site.unsupported("a shape m64nNkK is missing")
    site.modifiers.remove(shape)
    n, k = map(int, shape[4:].split("k"))
    satfinite = site.has("satfinite")
    if "b1" in site.modifiers:
        site.unsupported(".b1 is not supported yet")
    d = site.type("f32", "f16", "s32")
    a = site.type(*_BYTES)
    b = site.type(*_BYTES)
    if d not in _RESULTS[a] or b not in _PARTNERS.get(a, (a,)):
        site.unsupported(f"there is no .{d}.{a}.{b}")
    whole = d == "s32"
    if satfinite and not whole:
        site.unsupported(".satfinite goes with .s32")
    step = 16 if whole and n > _K_BYTES else 8
    if k != _K_BYTES // _BYTES[a] or not 8 <= n <= _MOST_N or n % step:
        site.unsupported(
            f".{shape}: with .{a} K is {_K_BYTES // _BYTES[a]}, and N a multiple of {step} up to {_MOST_N}"
        )
    site.converge()

    d_slots = site.destinations(0, "u32")
    wanted = n // 4 if d == "f16" else n // 2
    if len(d_slots) != wanted:
        site.invalid(f"D takes {wanted} registers, and {len(d_slots)} are given")
    a_in_registers = isinstance(site.operand(1), Vector)
    a_slots = site.sources(1, "u32") if a_in_registers else []
    if a_in_registers and len(a_slots) != _A_REGISTERS:
        site.invalid(f"A takes {_A_REGISTERS} registers, and {len(a_slots)} are given")
    flags = _immediates(site, a, a_in_registers=a_in_registers)
    watched, function = site.program.watched, site.program.function_now
    return _Form(
        site=site,
        n=n,
        k=k,
        d=d,
        a=a,
        b=b,
        satfinite=satfinite,
        d_slots=d_slots,
        a_slots=a_slots,
        a_descriptor=None if a_in_registers else site.source(1, "u64"),
        b_descriptor=site.source(2, "u64"),
        scale_d=site.source(3, "pred"),
        negate_a=flags[0] < 0,
        negate_b=flags[1] < 0,
        a_k_major=not flags[2],
        b_k_major=not flags[3],
        writes=watched.of(function, site.scope, site.operand(0)),
        reads=watched.of(function, site.scope, site.operand(1))
        if a_in_registers
        else np.empty(0, dtype=np.int64),
    )


def _immediates(site: Site, a: str, *, a_in_registers: bool) -> tuple[int, int, int, int]:
    """imm-scale-a, imm-scale-b, imm-trans-a and imm-trans-b, as far as the form has them."""
    names = [] if a in {"s8", "u8"} else ["imm-scale-a", "imm-scale-b"]
    if _BYTES[a] == 2:
        names += ["imm-trans-b"] if a_in_registers else ["imm-trans-a", "imm-trans-b"]
    given = len(site.operands) - 4
    if given != len(names):
        site.invalid(
            f"{site.instruction.name} takes {4 + len(names)} operands here (d, a, b-desc, scale-d"
            f"{''.join(', ' + name for name in names)}), not {len(site.operands)}"
        )
    values = dict.fromkeys(("imm-scale-a", "imm-scale-b"), 1) | dict.fromkeys(
        ("imm-trans-a", "imm-trans-b"), 0
    )
    for position, name in enumerate(names):
        value = site.constant(4 + position)
        if value not in ((1, -1) if "scale" in name else (0, 1)):
            site.invalid(f"{name} is {'1 or -1' if 'scale' in name else '0 or 1'}, and a constant")
        values[name] = value
    scale_a, scale_b, trans_a, trans_b = values.values()
    return scale_a, scale_b, trans_a, trans_b


class _Multiplication:
    """One wgmma.mma_async of a warpgroup."""

    def __init__(
        self, form: _Form, group: Warpgroup, a_bits: int | None, b_bits: int, *, accumulate: bool
    ) -> None:
        self.form = form
        self.site = form.site
        self.shape = form.shape
        self.writes = form.writes
        self.reads = form.reads
        self.group = group
        self.a_bits = a_bits
        self.b_bits = b_bits
        self.accumulate = accumulate
        self.work: PendingWork | None = None
        """None until all four warps have come to it."""
        self.issued: int | None = None
        self.reading: Operation | None = None
        """What it is to the record of races."""

    # --- issue ----------------------------------------------------------------------------------------------

    def begin(self, bundle: Bundle) -> None:
        """The first of the four warps has come: its operands have to be there for all."""
        form = self.form
        self.origin = Origin(form.site, bundle, self.group.cluster * WARP_SIZE)
        start = self.group.cohort.shared_start(self.group.cluster, self.group.rank) // 16
        self.b = self._matrix("b-desc", self.b_bits, form.n, k_major=form.b_k_major).chunks + start
        self.a = None
        if self.a_bits is not None:
            self.a = self._matrix("a-desc", self.a_bits, _M, k_major=form.a_k_major).chunks + start
        self._check_shared(issued=False)
        if self.a is not None and self.a_bits is not None:
            self._check_layout("A", self.a_bits, self.a, k_major=form.a_k_major)
        self._check_layout("B", self.b_bits, self.b, k_major=form.b_k_major)

    def issue(self, bundle: Bundle) -> None:
        """All four warps have come, this one last: let it complete later."""
        form, machine, races = self.form, bundle.machine, bundle.cohort.races
        if races is not None:
            operands = [("B", self.b)] if self.a is None else [("A", self.a), ("B", self.b)]
            number = bundle.warp // WARPS
            self.reading = races.warpgroup_multiplies(self.origin, self.group.bundles, number, operands)
        self._check_shared(issued=True)
        if machine.recorder is not None:
            self.issued = machine.emit(
                "wgmma.issue",
                bundle,
                self.origin.lane,
                form.site.line,
                one=False,
                m=_M,
                n=form.n,
                k=form.k,
                types=f"{form.d}.{form.a}.{form.b}",
                a=self.a_bits,
                b=self.b_bits,
                accumulate=self.accumulate,
            )
        self.group.running.append(self)
        self.work = machine.defer(self.complete)

    def _matrix(self, name: str, bits: int, extent: int, *, k_major: bool) -> SharedMatrix:
        form = self.form
        try:
            found = shared_matrix(bits, extent, form.k, form.item, k_major=k_major)
        except FieldError as wrong:
            raise self.origin.error(InvalidOperand, f"{name} 0x{bits:016x}: {wrong}") from None
        limit = self.origin.bundle.program.shared_bytes
        if found.stop > limit:
            raise self.origin.error(
                AddressError,
                f"{name} 0x{bits:016x} reaches to byte {found.stop} of shared memory, and the CTA has"
                f" {limit}",
            )
        return found

    def _check_shared(self, *, issued: bool) -> None:
        check = partial(check_source, self.origin, self.group.rank, issued=issued, until=_WAIT)
        if self.a is not None:
            check(self.a, "A")
        check(self.b, "B")

    def _check_layout(self, name: str, bits: int, chunks: NDArray[np.int64], *, k_major: bool) -> None:
        kind = self.form.a if name == "A" else self.form.b
        check_operand(self.origin, name, bits, [chunks], kind, self.form.item, k_major=k_major, decode=decode)

    def settle(self) -> None:
        """Complete it now, where all four warps have come to it."""
        if self.work is not None:
            self.work.finish()

    # --- completion -----------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Read the operands as they are now, multiply, and write D."""
        running, form = self.group.running, self.form
        for earlier in running[: running.index(self)]:
            if np.isin(form.writes, earlier.writes).any() or np.isin(form.reads, earlier.writes).any():
                earlier.settle()
        running.remove(self)
        self._check_shared(issued=True)
        a = self._a()
        b = self._shared(self.b, k_major=form.b_k_major)
        if form.negate_a:
            a = _negated(a)
        if form.negate_b:
            b = _negated(b)
        d = self._registers(form.d_slots)
        c = _rows_of_d(d, form.d) if self.accumulate else np.zeros((_M, form.n), dtype=np.uint32)
        if form.whole:
            total = whole_sums(a.view(_whole(form.a)), b.view(_whole(form.b)), c, satfinite=form.satfinite)
        else:
            total = fused_sums(a, b, c, (form.a, form.b), form.d)
        self._write(_registers_of_d(total, form.d))
        machine = self.origin.bundle.machine
        if machine.recorder is not None:
            machine.emit_at(
                "wgmma.complete",
                self.group.cohort,
                self.group.cluster,
                self.group.rank,
                form.site.line,
                issue=self.issued,
            )

    def _shared(self, chunks: NDArray[np.int64], *, k_major: bool) -> NDArray[Any]:
        """A matrix in shared memory as (rows of M or N, K)."""
        held = self.group.cohort.shared_chunks[0][chunks].view(f"u{self.form.item}")
        return held if k_major else np.ascontiguousarray(held.T)

    def _a(self) -> NDArray[Any]:
        if self.a is not None:
            return self._shared(self.a, k_major=self.form.a_k_major)
        # (w, q, h, g, t, e), as the module's text names them
        held = self._registers(self.form.a_slots).reshape(WARPS, 2, 2, 8, 4, 1).view(f"u{self.form.item}")
        return np.ascontiguousarray(held.transpose(0, 2, 3, 1, 4, 5)).reshape(_M, self.form.k)

    def _registers(self, slots: list[int]) -> NDArray[np.uint32]:
        """Registers of all four warps: shape (4, registers, 32)."""
        cluster = self.group.cluster
        return np.array([[b.rows["u32"][slot][cluster] for slot in slots] for b in self.group.bundles])

    def _write(self, values: NDArray[np.uint32]) -> None:
        cluster = self.group.cluster
        for bundle, held in zip(self.group.bundles, values, strict=True):
            rows = bundle.rows["u32"]
            for slot, value in zip(self.form.d_slots, held, strict=True):
                rows[slot][cluster] = value


def _whole(kind: str) -> str:
    return "i1" if kind == "s8" else "u1"


def _negated(bits: NDArray[Any]) -> NDArray[Any]:
    """The numbers' signs changed."""
    sign = 1 << (8 * bits.itemsize - 1)
    return bits ^ bits.dtype.type(sign)


def _rows_of_d(held: NDArray[np.uint32], kind: str) -> NDArray[np.uint32]:
    """(4, registers, 32) -> (64, N), each element's bits in 32."""
    if kind == "f16":
        # (w, j, h, g, t, p)
        halves = held.reshape(WARPS, -1, 2, 8, 4, 1).view(np.uint16)
        return halves.transpose(0, 2, 3, 1, 4, 5).reshape(_M, -1).astype(np.uint32)
    # (w, j, h, p, g, t)
    return held.reshape(WARPS, -1, 2, 2, 8, 4).transpose(0, 2, 4, 1, 5, 3).reshape(_M, -1)


def _registers_of_d(total: NDArray[np.uint32], kind: str) -> NDArray[np.uint32]:
    """(64, N) -> (4, registers, 32)."""
    apart = total.reshape(WARPS, 2, 8, -1, 4, 2)  # (w, h, g, j, t, p)
    if kind == "f16":
        halves = np.ascontiguousarray(apart.transpose(0, 3, 1, 2, 4, 5).astype(np.uint16))
        return halves.view(np.uint32).reshape(WARPS, -1, WARP_SIZE)
    return apart.transpose(0, 3, 1, 5, 2, 4).reshape(WARPS, -1, WARP_SIZE)


@instruction("wgmma.fence")
def fence(site: Site) -> Step:
    """Order a warpgroup's uses of registers with the wgmma.mma_async behind it.

    Shapes:     no operands; all four warps of a warpgroup.
    Errors:     DivergedWarp.
    Simplified: a missing one is a note (cutecourse.emulator.hazards): operations read registers when they
                complete.
    Source:     PTX ISA 9.0, wgmma.fence (#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence).
    """
    _take_form(site, 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        flight = Flight.of(bundle)
        for cluster in bundle.clusters(mask):
            Warpgroup.of(site, bundle, cluster).come(site, bundle, None)
            flight.touched[:, cluster] = False

    return step


@instruction("wgmma.commit_group")
def commit_group(site: Site) -> Step:
    """Close a group: all wgmma.mma_async that the warpgroup has issued since its last commit belong to it.

    Shapes:     no operands; all four warps of a warpgroup. A group may be empty.
    Errors:     DivergedWarp.
    Source:     PTX ISA 9.0, wgmma.commit_group
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group).
    """
    _take_form(site, 0)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        flight = Flight.of(bundle)
        for cluster in bundle.clusters(mask):
            Warpgroup.of(site, bundle, cluster).come(site, bundle, None)
            flight.committed[cluster] += 1

    return step


@instruction("wgmma.wait_group", control=True, gated=True)
def wait_group(site: Site) -> Step:
    """Wait until at most N of the warpgroup's newest groups are still under way.

    Shapes:     one operand, a constant; all four warps of a warpgroup.
    Units:      N counts groups, committed ones.
    Blocks:     until the other warps of the warpgroup have come to what is waited for.
    Simplified: the operations take place here at the latest, in an order that the seed chooses.
    Source:     PTX ISA 9.0, wgmma.wait_group
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group).
    """
    _take_form(site, 1)
    newest = site.constant(0)
    if newest is None or newest < 0:
        site.invalid("wgmma.wait_group takes the number of groups as a constant, 0 or more")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        require_whole_warps(site, bundle, split.mask)
        flight = Flight.of(bundle)
        lagging: dict[int, InFlight] = {}
        clusters = bundle.clusters(split.mask)
        for cluster in clusters:
            due = flight.due(cluster, newest)
            late = next((operation for operation in due if operation.work is None), None)
            if late is not None:
                lagging[cluster] = late
                continue
            bundle.machine.random.shuffle(due)
            for operation in due:
                operation.settle()
                if bundle.cohort.races is not None:
                    bundle.cohort.races.waited(bundle, cluster, operation.reading)
            flight.end(cluster, newest)
        if bundle.machine.recorder is not None:
            for cluster in clusters:
                if cluster not in lagging:
                    bundle.machine.emit(
                        "wgmma.wait", bundle, cluster * WARP_SIZE, site.line, one=False, left=newest
                    )
        if not lagging:
            return following
        waiting = split
        if len(lagging) < len(clusters):
            away = np.zeros_like(bundle.full)
            away[list(lagging)] = True
            waiting = bundle.machine.fork(bundle, split, away, split.at)
        reason = Lagging(site.line, next(iter(lagging.values())).site)
        for late in lagging.values():
            late.group.waiting.append((bundle, waiting))
        parked = bundle.machine.park(bundle, waiting, reason, split.at)
        return parked if waiting is split else following

    return control


def _take_form(site: Site, operands: int) -> None:
    """sync, aligned, so many operands, and the whole warp."""
    site.expect("sync")
    site.expect("aligned")
    if len(site.operands) != operands:
        site.invalid(f"{site.instruction.name} takes {operands or 'no'} operands, not {len(site.operands)}")
    site.converge()
