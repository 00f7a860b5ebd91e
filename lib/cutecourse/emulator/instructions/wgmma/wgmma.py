"""wgmma: a warpgroup multiplies matrices into its registers, asynchronously to its threads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.facts import DescriptorOperand, Facts, Pipe
from cutecourse.emulator.core.kinds import Mask, any_true
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import each_warp, take_sync_aligned, tell_warp
from cutecourse.emulator.errors import NonUniformOperand
from cutecourse.emulator.instructions.stating import SHARED_CHUNKS
from cutecourse.emulator.instructions.warpgroups import WARPS, InFlight, Lagging, Warpgroup
from cutecourse.emulator.instructions.wgmma.multiplication import BYTES, Form, Multiplication
from cutecourse.emulator.instructions.wgmma.registers import Flight, Watched, share
from cutecourse.ptx.syntax import Instruction, Vector

__all__: list[str] = []

_K_BYTES = 32
_MOST_N = 256
_A_REGISTERS = 4
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


def _mma_facts(one: Instruction) -> Facts:
    matrices = zip("AB", range(1, 3), one.operands[1:3], strict=False)
    return Facts(
        category="MMA",
        uses=(SHARED_CHUNKS,),
        pipe=Pipe.WGMMA,
        uncounted="wgmma.mma_async",
        # A may lie in registers.
        descriptors=tuple(
            DescriptorOperand(name, place, "sm_90 matrix")
            for name, place, operand in matrices
            if not isinstance(operand, Vector)
        ),
    )


@instruction("wgmma.mma_async", facts=_mma_facts)
def mma_async(site: Site) -> Step:
    """Multiply matrices into a warpgroup's registers, asynchronously: D = A * B + D, or D = A * B.

    Shapes:     once for a warpgroup: all four warps, all their lanes. D is 64 x N, each warp has 16 rows in
                its registers; A is 64 x K, 32 bytes a row, in shared memory or likewise in registers; B is
                K x N in shared memory. scale-d false leaves the old D out.
    Units:      matrix descriptors in bits; scales of A and B are 1 or -1; transposes 0 (K-major) or 1.
    Errors:     InvalidOperand for a descriptor's field, by its name; DivergedWarp, NonUniformOperand,
                AccumulatorInFlight, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError (a
                matrix behind the end of shared memory).
    Simplified: reads its operands and writes D when it completes, at a time that the seed chooses, at the
                latest at the wait for its group. The numbers follow a published model of Hopper's tensor
                cores (emulator.numbers.tensor_core_sums), whatever `launch(..., arithmetic=)` says. Dense
                matrices only (no .sp), and no .b1.
    Source:     PTX ISA 9.0, wgmma.mma_async
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma-async); Register Fragments for
                wgmma.mma_async.m64nNk16 and its neighbours.
    """
    form = _form(site)

    def step(bundle: Bundle, mask: Mask) -> None:
        flight, rows = bundle.own(Flight), bundle.rows
        for origin in each_warp(site, bundle, mask):
            cluster = origin.cluster
            a_bits = None
            if form.a_descriptor is not None:
                a_bits = _same(origin, rows["u64"][form.a_descriptor][cluster], "a-desc")
            b_bits = _same(origin, rows["u64"][form.b_descriptor][cluster], "b-desc")
            scale_d = bool(_same(origin, rows["pred"][form.scale_d][cluster], "scale-d"))
            _check_registers(flight, origin, form)
            group = Warpgroup.of(origin)
            common = group.come(origin, (a_bits, b_bits, scale_d))
            if common.arrived == 1:
                common.operation = Multiplication(form, group, origin, a_bits, b_bits, accumulate=scale_d)
            for tell in bundle.cohort.listeners.multiplication_reached:
                tell(bundle, cluster, common.operation)
            if common.arrived == WARPS:
                common.operation.issue(bundle)
                group.wake()
            flight.begin(cluster, common.operation)

    return step


def _same(origin: Origin, row: NDArray[Any], what: str) -> int:
    """The value that all lanes of a warp must have. Errors: NonUniformOperand."""
    first = row[0]
    if any_true(row != first):
        lane = int(np.argmax(row != first))
        raise origin.error(
            NonUniformOperand,
            f"{what} is {int(first):#x} in lane 0 and {int(row[lane]):#x} in lane {lane}: it must be the"
            " same in the whole warpgroup",
        )
    return int(first)


def _check_registers(flight: Flight, origin: Origin, form: Form) -> None:
    """Report registers that are not ready: an operation in flight uses them, or a fence is missing."""
    cluster = origin.cluster
    for operation, _ in list(flight.open[cluster]):
        met = operation.shape != (form.n, form.k, form.d) and share(form.writes, operation.writes)
        if met or share(form.reads, operation.writes) or share(form.writes, operation.reads):
            report(
                "accumulator in flight",
                "it uses registers of the wgmma.mma_async at line"
                f" {operation.site.line}, which this warp has not waited for. Only accumulators of the same"
                " shape may be passed on without a wgmma.wait_group.",
                origin,
                operation.site.line,
            )
            operation.settle()
    if any_true(flight.touched[form.used, cluster]):
        report(
            "no wgmma fence",
            "wgmma.mma_async uses registers that other instructions have used, with no wgmma.fence since",
            origin,
        )
        # Report each case once.
        flight.touched[form.used, cluster] = False


def _form(site: Site) -> Form:
    take_sync_aligned(site)
    if site.has("sp"):
        site.unsupported(
            ".sp: a sparse A is not supported; take the dense form, with the zeros of A in shared memory"
        )
    shape = next((m for m in site.modifiers if re.fullmatch(r"m64n\d+k\d+", m)), None)
    if shape is None:
        site.unsupported("a shape m64nNkK is missing")
    site.modifiers.remove(shape)
    n, k = map(int, shape[4:].split("k"))
    satfinite = site.has("satfinite")
    if "b1" in site.modifiers:
        site.unsupported(".b1 is not supported: take .s8 with elements 0 and 1")
    d = site.type("f32", "f16", "s32")
    a = site.type(*BYTES)
    b = site.type(*BYTES)
    if d not in _RESULTS[a] or b not in _PARTNERS.get(a, (a,)):
        site.unsupported(f"there is no .{d}.{a}.{b}")
    whole = d == "s32"
    if satfinite and not whole:
        site.unsupported(".satfinite goes with .s32")
    step = 16 if whole and n > _K_BYTES else 8
    if k != _K_BYTES // BYTES[a] or not 8 <= n <= _MOST_N or n % step:
        site.unsupported(
            f".{shape}: with .{a} K is {_K_BYTES // BYTES[a]}, and N a multiple of {step} up to {_MOST_N}"
        )
    d_slots = site.destinations(0, "u32")
    wanted = n // 4 if d == "f16" else n // 2
    if len(d_slots) != wanted:
        site.invalid(f"D takes {wanted} registers, but {len(d_slots)} are given")
    a_in_registers = isinstance(site.operand(1), Vector)
    a_slots = site.sources(1, "u32") if a_in_registers else []
    if a_in_registers and len(a_slots) != _A_REGISTERS:
        site.invalid(f"A takes {_A_REGISTERS} registers, but {len(a_slots)} are given")
    flags = _immediates(site, a, a_in_registers=a_in_registers)
    watched, function = site.program.own(Watched), site.function
    return Form(
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
        reads=watched.of(function, site.scope, site.operand(1)),
    )


def _immediates(site: Site, a: str, *, a_in_registers: bool) -> tuple[int, int, int, int]:
    """imm-scale-a, imm-scale-b, imm-trans-a and imm-trans-b; defaults for those that the form lacks."""
    names = [] if a in {"s8", "u8"} else ["imm-scale-a", "imm-scale-b"]
    if BYTES[a] == 2:
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
            site.invalid(f"{name} is a constant: {'1 or -1' if 'scale' in name else '0 or 1'}")
        values[name] = value
    scale_a, scale_b, trans_a, trans_b = values.values()
    return scale_a, scale_b, trans_a, trans_b


@instruction("wgmma.fence", facts=Facts(category="MMA"))
def fence(site: Site) -> Step:
    """Order a warpgroup's uses of registers before the wgmma.mma_async that follow.

    Shapes:     no operands; all four warps of a warpgroup.
    Errors:     DivergedWarp.
    Simplified: a missing one is a note (emulator.core.hazards): operations read registers when they
                complete.
    Source:     PTX ISA 9.0, wgmma.fence (#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence).
    """
    take_sync_aligned(site)

    def step(bundle: Bundle, mask: Mask) -> None:
        for origin in each_warp(site, bundle, mask):
            Warpgroup.of(origin).come(origin)
            bundle.own(Flight).touched[:, origin.cluster] = False

    return step


@instruction("wgmma.commit_group", facts=Facts(category="MMA"))
def commit_group(site: Site) -> Step:
    """Close a group: all wgmma.mma_async that the warpgroup has issued since its last commit belong to it.

    Shapes:     no operands; all four warps of a warpgroup. A group may be empty.
    Errors:     DivergedWarp.
    Source:     PTX ISA 9.0, wgmma.commit_group
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group).
    """
    take_sync_aligned(site)

    def step(bundle: Bundle, mask: Mask) -> None:
        for origin in each_warp(site, bundle, mask):
            group = Warpgroup.of(origin)
            if group.come(origin).arrived == WARPS:
                lead = Origin(site, group.bundles[0], origin.lane)
                tell_warp(lead, "wgmma.commit", issues=group.issues)
                group.issues = []
                group.wake()
            bundle.own(Flight).committed[origin.cluster] += 1

    return step


@instruction("wgmma.wait_group", control=True, gated=True, facts=Facts(category="MMA", waits_for=Pipe.WGMMA))
def wait_group(site: Site) -> Step:
    """Wait until all of the warpgroup's groups but the newest N are complete.

    Shapes:     one operand, a constant; all four warps of a warpgroup.
    Units:      N counts committed groups.
    Blocks:     until the other warps of the warpgroup have reached the operations of these groups.
    Simplified: the operations take place here at the latest, in an order that the seed chooses.
    Source:     PTX ISA 9.0, wgmma.wait_group
                (#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group).
    """
    take_sync_aligned(site)
    newest = site.constant(0)
    if newest is None or newest < 0:
        site.invalid("wgmma.wait_group takes the number of groups as a constant, 0 or more")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        flight = bundle.own(Flight)
        lagging: dict[int, InFlight] = {}
        for origin in each_warp(site, bundle, split.mask):
            due = flight.due(origin.cluster, newest)
            late = next((operation for operation in due if operation.work is None), None)
            under_way = any(operation.under_way for operation in due)
            tell_warp(origin, "wgmma.wait", left=newest, outcome="blocked" if under_way else "passed")
            if late is not None:
                lagging[origin.cluster] = late
                continue
            bundle.machine.random.shuffle(due)
            for operation in due:
                operation.settle()
                for tell in bundle.cohort.listeners.multiplication_waited:
                    tell(bundle, origin.cluster, operation)
            flight.end(origin.cluster, newest)
            if under_way:
                tell_warp(origin, "wgmma.resume")
        if not lagging:
            return following
        away = np.zeros_like(bundle.full)
        away[list(lagging)] = True
        waiting = bundle.part(split, away)
        waiting.waiting = Lagging(site, next(iter(lagging.values())).site)
        for late in lagging.values():
            late.group.waiting.append((bundle, waiting))
        return WAIT if waiting is split else following

    return control
