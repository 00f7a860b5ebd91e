"""Instructions that decide where lanes go next: branches, calls, return, exit, trap."""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.bundle import WAIT, Bundle, Split
from cutecourse.emulator.core.facts import Facts, Flow
from cutecourse.emulator.core.frame import size_of
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, put
from cutecourse.emulator.core.program import Control, Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand, KernelTrap
from cutecourse.emulator.instructions.control.library import LIBRARY
from cutecourse.emulator.instructions.runs import move
from cutecourse.ptx.scopes import Register
from cutecourse.ptx.syntax import BranchTargets, Function, Name, Operand, Sequence, Variable

__all__: list[str] = []


def _never_falls(control: Control) -> Control:
    """Mark a control instruction after which no lane goes on to the next block."""
    control.never_falls = True  # type: ignore[attr-defined]
    return control


@instruction("bra", control=True, facts=Facts(flow=Flow.BRANCH, results=0))
def bra(site: Site) -> Step:
    """Jump to a label; with a guard, only the lanes where the guard holds jump.

    Shapes:     no operands but the label.
    Errors:     InvalidOperand if the operand is not a label of the function.
    Simplified: `.uni` is taken as a hint; lanes with different guards diverge as with a plain `bra`.
    Source:     PTX ISA 9.0, Control Flow Instructions: bra (#control-flow-instructions-bra).
    """
    site.has("uni")
    target = site.jump(0)

    def control(bundle: Bundle, split: Split, following: int) -> int:
        return target

    return _never_falls(control)


@instruction("brx.idx", control=True, facts=Facts(results=0))
def brx_idx(site: Site) -> Step:
    """Jump to the label that an index picks from a list of branch targets.

    Shapes:     the index is u32 in each lane; lanes with different indices diverge.
    Units:      the index counts labels from zero.
    Errors:     InvalidOperand where the index is past the end of the list.
    Simplified: `.uni` is taken as a hint.
    Source:     PTX ISA 9.0, Control Flow Instructions: brx.idx (#control-flow-instructions-brx-idx).
    """
    site.has("uni")
    index = site.source(0, "u32")
    operand = site.operand(1)
    table = site.scope.lookup(operand.text) if isinstance(operand, Name) else None
    if not isinstance(table, BranchTargets):
        site.invalid(f"{operand} is not a list of branch targets")
    targets = [site.jump_to(label) for label in table.labels]

    def control(bundle: Bundle, split: Split, following: int) -> int:
        row = bundle.rows["u32"][index]
        lanes = bundle.lanes(split.mask)
        values = row.reshape(-1)[lanes]
        past = values >= len(targets)
        if past.any():
            position = int(np.argmax(past))
            raise site.error(
                InvalidOperand,
                f"index {int(values[position])} of a list of {len(targets)} branch targets",
                bundle,
                lanes[position],
            )
        found: list[int] = np.unique(values).tolist()
        for other in found[1:]:
            bundle.fork(split, row == np.uint32(other), targets[other])
        return targets[found[0]]

    return _never_falls(control)


@instruction("exit", control=True, facts=Facts(flow=Flow.LEAVE, results=0))
def exit_(site: Site) -> Step:
    """End the lanes that execute it.

    Shapes:     no operands.
    Errors:     none.
    Simplified: barriers that wait for the whole block stop waiting for warps that have ended.
    Source:     PTX ISA 9.0, Control Flow Instructions: exit (#control-flow-instructions-exit).
    """

    def control(bundle: Bundle, split: Split, following: int) -> int:
        return bundle.exit(split)

    return _never_falls(control)


@instruction("ret", control=True, facts=Facts(flow=Flow.LEAVE, results=0))
def ret(site: Site) -> Step:
    """Return from a device function to its caller; in a kernel, end the lanes.

    Shapes:     no operands.
    Errors:     none.
    Simplified: `.uni` is taken as a hint.
    Source:     PTX ISA 9.0, Control Flow Instructions: ret (#control-flow-instructions-ret).
    """
    site.has("uni")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        return bundle.leave(split)

    return _never_falls(control)


_WORKSPACE = "%envreg1"
_NOT_COOPERATIVE = (
    "It reads %envreg1, the address of a cooperative launch's workspace, which is 0 here: a barrier of the"
    " whole grid, such as grid_group::sync(), needs launch(..., cooperative=True) or --cooperative, and on a"
    " GPU cudaLaunchCooperativeKernel"
)


@instruction("trap", "brkpt", control=True, facts=Facts(flow=Flow.FAIL, results=0))
def trap(site: Site) -> Step:
    """Abort the kernel with an error that says who executed it; brkpt does the same without a debugger.

    Shapes:     no operands.
    Errors:     KernelTrap, always.
    Simplified: no debugger can be attached.
    Source:     PTX ISA 9.0, Miscellaneous Instructions: trap, brkpt (#miscellaneous-instructions-trap).
    """
    problem = f"the kernel executed {site.instruction.opcode}"

    def control(bundle: Bundle, split: Split, following: int) -> int:
        missing = not bundle.machine.workspace and _WORKSPACE in bundle.program.rows.specials
        why = f"{problem}. {_NOT_COOPERATIVE}" if missing else problem
        raise site.error(KernelTrap, why, bundle, bundle.lanes(split.mask)[0])

    return _never_falls(control)


# --- calls -----------------------------------------------------------------------------------------------


def _parts(site: Site) -> tuple[list[Operand], Function, list[Operand]]:
    """A call's results, its function and its arguments."""
    operands = list(site.operands)
    results: list[Operand] = []
    first = operands[0] if operands else None
    if isinstance(first, Sequence):
        results = list(first.items)
        del operands[0]
    if not operands or not isinstance(operands[0], Name):
        site.invalid("a call needs the name of a function")
    callee = site.scope.lookup(operands[0].text)
    if isinstance(callee, Register):
        site.unsupported(
            "indirect calls are not supported: call the function by its name, behind a branch for each one"
        )
    if not isinstance(callee, Function):
        site.invalid(f"{operands[0]} is not a function")
    arguments: list[Operand] = []
    if len(operands) > 1 and isinstance(operands[1], Sequence):
        arguments = list(operands[1].items)
    if len(results) != len(callee.returns) or len(arguments) != len(callee.params):
        site.invalid(
            f"{callee.name} has {len(callee.returns)} results and {len(callee.params)} parameters,"
            f" but the call has {len(results)} and {len(arguments)}"
        )
    return results, callee, arguments


def _copy_bytes(target: int, source: int, size: int) -> Step:
    def step(bundle: Bundle, mask: Mask) -> None:
        for memory in (bundle.local, bundle.local_written):
            lanes = memory.reshape(bundle.n, WARP_SIZE, -1)
            put(lanes[..., target : target + size], lanes[..., source : source + size], mask)

    return step


def _pass(site: Site, callee: Function, formal: Variable, actual: Operand, *, back: bool) -> Step:
    """Copy an argument into a parameter or, with `back`, a result out of one."""
    if formal.space == "reg":
        kind, inner = site.formal(callee, formal.name)
        pair = (site.write(actual, kind), inner) if back else (inner, site.read(actual, kind))
        return move(site.program.rows, kind, [pair])
    variable = site.scope.lookup(actual.text) if isinstance(actual, Name) else None
    if not isinstance(variable, Variable) or variable.space != "param":
        site.unsupported(f"{actual} is passed for the parameter {formal.name}, but is not a .param variable")
    inside, outside = site.local_offset(formal, callee.name), site.local_offset(variable)
    if inside is None or outside is None:
        site.invalid(f"{actual} has no place in parameter space")
    size = size_of(formal)
    if size_of(variable) != size:
        site.invalid(f"{actual} has {size_of(variable)} bytes, but the parameter {formal.name} has {size}")
    return _copy_bytes(outside, inside, size) if back else _copy_bytes(inside, outside, size)


@instruction("call", control=True, facts=Facts(flow=Flow.CALL, results=0))
def call(site: Site) -> Step:
    """Run a device function and continue after the call.

    Shapes:     arguments and results are .param variables or registers, for each lane.
    Errors:     UnsupportedInstruction for recursive and indirect calls, and for functions without a body
                other than `vprintf` and `__assertfail`.
    Simplified: each function has one set of registers for each lane; `.uni` is taken as a hint.
    Source:     PTX ISA 9.0, Control Flow Instructions: call (#control-flow-instructions-call).
    """
    site.has("uni")
    results, callee, arguments = _parts(site)
    if callee.body is None:
        builtin = LIBRARY.get(callee.name)
        if builtin is None:
            site.unsupported(
                f"{callee.name} has no body in this module: put its text into the module, or inline it"
            )
        return builtin(site, results, arguments)
    steps = [_pass(site, callee, *pair, back=False) for pair in zip(callee.params, arguments, strict=True)]
    site.behind = [
        _pass(site, callee, *pair, back=True) for pair in zip(callee.returns, results, strict=True)
    ]
    target = site.program.starts[callee.name]

    def control(bundle: Bundle, split: Split, following: int) -> int:
        for step in steps:
            step(bundle, split.mask)
        split.stack = (*split.stack, following)
        return target

    return control


@instruction("nanosleep", control=True)
def nanosleep(site: Site) -> Step:
    """Let other warps run for a while.

    Shapes:     one u32 in each lane.
    Units:      nanoseconds.
    Errors:     none.
    Simplified: the warp's turn ends, however long the sleep; the emulator has no clock for it.
    Source:     PTX ISA 9.0, Miscellaneous Instructions: nanosleep (#miscellaneous-instructions-nanosleep).
    """
    site.type("u32")
    site.source(0, "u32")

    def control(bundle: Bundle, split: Split, following: int) -> int:
        split.at = following
        split.turn = bundle.machine.issued
        return WAIT

    return control
