"""The facts of bulk copies: the memories come in the order of their modifiers, the destination first."""

from __future__ import annotations

from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.instructions.stating import ASYNCHRONOUS_BYTES, by_modifiers, spaces_of
from cutecourse.ptx.syntax import Instruction

__all__ = ["BULK", "bulk_facts"]

BULK = Facts(category="TMA", uncounted="cp.async.bulk")
"""The facts of the instructions beside the copies: groups, waits and prefetches."""


@by_modifiers
def bulk_facts(one: Instruction) -> Facts:
    """The facts of a copy or a reduction."""
    reduces = "reduce" in one.modifiers
    to_several = "multicast::cluster" in one.modifiers
    return Facts(
        category="TMA",
        uses=tuple(
            MemoryUse(space, CHUNK, reads=place > 0 or reduces, writes=place == 0)
            for place, space in enumerate(spaces_of(one))
        ),
        pipe=Pipe.BULK_COPIES,
        uncounted="cp.reduce.async.bulk" if reduces else "cp.async.bulk",
        completes="bytes" if ASYNCHRONOUS_BYTES in one.modifiers else None,
        uses_cluster=to_several,
        multicast=to_several,
    )
