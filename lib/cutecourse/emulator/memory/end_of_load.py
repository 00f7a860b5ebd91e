"""How a tcgen05.ld ends before its thread tells others: by a wait, by a use of its result, or not at all.

ptxas makes the first use of a loaded register wait for the load. So a load whose result has been used is
over, although no tcgen05.wait::ld says so, and the ISA promises nothing about its cells. A load whose result
has not been used may still read tensor memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.emulator.core.facts import Flow, IntegerOperation, Pipe
from cutecourse.ptx.checks import registers
from cutecourse.ptx.scopes import LabelSymbol
from cutecourse.ptx.syntax import Name

if TYPE_CHECKING:
    from cutecourse.emulator.core.facts import Facts
    from cutecourse.emulator.core.site import Site
    from cutecourse.ptx.syntax import Instruction

__all__ = ["end_of_load"]


def end_of_load(site: Site) -> str:
    """Say what follows a tcgen05.ld before its thread can tell others: "wait", "use" or "nothing".

    "wait" is a tcgen05.wait::ld, "use" a read of a register that the load writes. The search reads on from
    the load. It jumps with a branch that is always taken, and otherwise assumes that a branch falls
    through. A path that ends in `trap` or in a failed assertion tells nobody, so the search then takes the
    last branch that it has passed. A mov is no use; what it copies counts.
    """
    flat, stated = site.program.flat[site.function], site.program.facts[site.function]
    position = next(i for i, one in enumerate(flat.instructions) if one is site.instruction)
    end = "nothing"
    wanted = {
        register for one in site.facts.split(site.operands)[0] for register in registers(one, site.scope)
    }
    seen: set[int] = set()
    passed: list[object] = []
    position += 1
    while position < len(flat.instructions) and position not in seen:
        seen.add(position)
        found, scope = flat.instructions[position], flat.scopes[position]
        facts = stated[position]
        read = {r for operand in facts.split(found.operands)[1] for r in registers(operand, scope)}
        if read & wanted:
            if facts.computes is IntegerOperation.COPY:
                wanted.update(registers(found.operands[0], scope))
            else:
                end = "use"
        if facts.waits_for is Pipe.TENSOR_LOADS:
            return "wait"
        jump: object = None
        if passed and found.guard is None and _gives_up(found, facts):
            jump = passed.pop()
        elif facts.publishes or facts.flow in {Flow.CALL, Flow.LEAVE, Flow.FAIL}:
            return end
        elif facts.flow is Flow.BRANCH and found.guard is None:
            jump = scope.lookup(str(found.operands[0]))
        elif facts.flow is Flow.BRANCH:
            passed.append(scope.lookup(str(found.operands[0])))
        position += 1
        if jump is not None:
            if not isinstance(jump, LabelSymbol):
                return end
            position = jump.position
    return end


def _gives_up(found: Instruction, facts: Facts) -> bool:
    """Tell whether the kernel ends here: in an error, or by the call that a failed `assert` makes."""
    if facts.flow is Flow.CALL:
        return any(isinstance(one, Name) and one.text == "__assertfail" for one in found.operands)
    return facts.flow is Flow.FAIL
