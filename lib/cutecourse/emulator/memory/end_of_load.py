"""How a tcgen05.ld ends before its thread tells others: by a wait, by a use of its result, or not at all.

ptxas makes the first use of a loaded register wait for the load. So a load whose result has been used is
over, although no tcgen05.wait::ld says so, and the ISA promises nothing about its cells. A load whose result
has not been used may still read tensor memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.ptx.checks import registers
from cutecourse.ptx.scopes import LabelSymbol
from cutecourse.ptx.syntax import Address, Name

if TYPE_CHECKING:
    from cutecourse.emulator.core.site import Site
    from cutecourse.ptx.syntax import Instruction, Operand

__all__ = ["end_of_load"]

_TELLING = frozenset(
    {"atom", "bar", "barrier", "call", "exit", "fence", "mbarrier", "membar", "red", "ret", "trap"}
)
"""Instructions by which a thread may tell others, or at which the search stops."""
_TELLING_STORES = frozenset({"async", "mmio", "relaxed", "release", "volatile"})
_FAR = 4000
"""The search looks at no more than this many instructions."""


def end_of_load(site: Site) -> str:
    """Say what follows a tcgen05.ld before its thread can tell others: "wait", "use" or "nothing".

    "wait" is a tcgen05.wait::ld, "use" a read of a register that the load writes. The search reads on from
    the load. It jumps with a branch that is always taken, and otherwise assumes that a branch falls
    through. A path that ends in `trap` or in a failed assertion tells nobody, so the search then takes the
    last branch that it has passed. A mov is no use; what it copies counts.
    """
    for flat in site.program.flat.values():
        position = next((i for i, one in enumerate(flat.instructions) if one is site.instruction), None)
        if position is not None:
            break
    else:
        return "nothing"
    end = "nothing"
    wanted = set(registers(site.operands[0], site.scope))
    seen: set[int] = set()
    passed: list[object] = []
    position += 1
    while position < len(flat.instructions) and position not in seen and len(seen) < _FAR:
        seen.add(position)
        found, scope = flat.instructions[position], flat.scopes[position]
        read = {r for operand in _read(found) for r in registers(operand, scope)}
        if read & wanted:
            if found.opcode == "mov":
                wanted.update(registers(found.operands[0], scope))
            else:
                end = "use"
        if found.opcode == "tcgen05" and found.modifiers[0] == "wait::ld":
            return "wait"
        jump: object = None
        if passed and found.guard is None and _gives_up(found):
            jump = passed.pop()
        elif _tells(found):
            return end
        elif found.opcode == "bra" and found.guard is None:
            jump = scope.lookup(str(found.operands[0]))
        elif found.opcode == "bra":
            passed.append(scope.lookup(str(found.operands[0])))
        position += 1
        if jump is not None:
            if not isinstance(jump, LabelSymbol):
                return end
            position = jump.position
    return end


def _gives_up(found: Instruction) -> bool:
    """Tell whether the kernel ends here: by `trap`, or by the call that a failed `assert` makes."""
    if found.opcode == "call":
        return any(isinstance(one, Name) and one.text == "__assertfail" for one in found.operands)
    return found.opcode == "trap"


def _tells(found: Instruction) -> bool:
    if found.opcode == "st":
        return bool(_TELLING_STORES & set(found.modifiers))
    if found.opcode == "tcgen05":
        return not found.modifiers[0].startswith(("ld", "fence", "wait"))
    return found.opcode in _TELLING


def _read(found: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction reads: all after the first, and the first if it is an address."""
    if found.operands and isinstance(found.operands[0], Address):
        return found.operands
    return found.operands[1:]
