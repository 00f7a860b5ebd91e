"""Decides whether the clusters of a grid can learn anything from each other."""

from __future__ import annotations

from cutecourse.emulator.core.facts import Facts, Flow
from cutecourse.emulator.core.program import Program
from cutecourse.ptx.syntax import Instruction, Name

__all__ = ["clusters_are_independent"]


def clusters_are_independent(program: Program) -> bool:
    """Return whether no cluster's behaviour depends on what another cluster does.

    Clusters are independent if only asynchronous copies and non-coherent loads read global memory: they need
    not see what another cluster has written there in the same launch. Other loads may wait for a flag, atomic
    operations hand out numbers or add in an order, clocks count all instructions, and printed text has an
    order as well. A cluster that takes others from the grid decides what they do.
    """
    if program.rows.reads_clocks:
        return False
    return not any(_learns(one, facts, program) for one, facts in program.stated)


def _learns(one: Instruction, facts: Facts, program: Program) -> bool:
    """Return whether an instruction's result, in registers or in memory, may depend on other clusters."""
    if facts.takes_clusters:
        return True
    if facts.flow is Flow.CALL:
        return not any(isinstance(o, Name) and o.text in program.flat for o in one.operands)
    return any(
        use.may_be_global and use.reads and use.coherent and (facts.pipe is None or use.writes)
        for use in facts.uses
    )
