"""Shared functions with which several families state the facts of their instructions."""

from __future__ import annotations

from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.registry import FactsOf
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Instruction

__all__ = [
    "ASYNCHRONOUS_BYTES",
    "SHARED_CHUNKS",
    "by_modifiers",
    "bytes_of",
    "shared_space_of",
    "space_of",
    "spaces_of",
]

ASYNCHRONOUS_BYTES = "mbarrier::complete_tx::bytes"
"""The modifier of an asynchronous operation that brings its bytes to an mbarrier."""
SHARED_CHUNKS = MemoryUse("shared", CHUNK, reads=True)
"""The operands of tensor cores in shared memory."""
_SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared::cluster",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def by_modifiers(facts: FactsOf) -> FactsOf:
    """Facts that depend on an instruction's name alone: each spelling states them once."""
    known: dict[tuple[str, tuple[str, ...]], Facts] = {}

    def facts_of(one: Instruction) -> Facts:
        name = one.opcode, one.modifiers
        if name not in known:
            known[name] = facts(one)
        return known[name]

    return facts_of


def spaces_of(one: Instruction) -> tuple[str, ...]:
    """The state spaces that the modifiers name, in order."""
    return tuple(_SPACES[name] for name in one.modifiers if name in _SPACES)


def space_of(one: Instruction) -> str:
    """The state space that the first such modifier names; "generic" without one."""
    return next(iter(spaces_of(one)), "generic")


def shared_space_of(one: Instruction) -> str:
    """The space of an address that must lie in shared memory, also if it is a generic one."""
    space = space_of(one)
    return "shared::cluster" if space == "generic" else space


def bytes_of(one: Instruction) -> int:
    """The bytes of a lane's word or vector, as the modifiers give them."""
    bits = next((found for name in reversed(one.modifiers) if (found := type_bits(name))), 8)
    return max(bits // 8, 1) * next((_VECTORS[name] for name in one.modifiers if name in _VECTORS), 1)
