"""Decides whether the clusters of a grid can learn anything from each other."""

from __future__ import annotations

from cutecourse.emulator.core.program import Program
from cutecourse.ptx.syntax import Instruction, Name

__all__ = ["clusters_are_independent"]

_OWN_SPACES = {"shared", "shared::cluster", "shared::cta", "local", "param", "const"}


def clusters_are_independent(program: Program) -> bool:
    """Return whether no cluster's behaviour depends on what another cluster does.

    Clusters are independent if only asynchronous copies and non-coherent loads read global memory: they need
    not see what another cluster has written there in the same launch. Other loads may wait for a flag, atomic
    operations hand out numbers or add in an order, clocks count all instructions, and printed text has an
    order as well.
    """
    if program.rows.reads_clocks:
        return False
    return not any(_learns(i, program) for block in program.blocks for i in block.instructions)


def _learns(instruction: Instruction, program: Program) -> bool:
    """Return whether an instruction's result, in registers or in memory, may depend on other clusters."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    own = any(modifier in _OWN_SPACES for modifier in modifiers)
    if opcode in {"ld", "ldu"}:
        return not own and "nc" not in modifiers
    if opcode in {"atom", "red"}:
        return not own
    if opcode == "cp":
        return modifiers[:1] == ("reduce",) and "global" in modifiers
    if opcode == "call":
        return not any(isinstance(o, Name) and o.text in program.flat for o in instruction.operands)
    return False
