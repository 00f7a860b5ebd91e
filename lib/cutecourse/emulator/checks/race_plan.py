"""The accesses of shared memory that instructions state, which decide what a race record must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.emulator.core.kinds import CHUNK

if TYPE_CHECKING:
    from cutecourse.emulator.core.program import Program

__all__ = ["AccessPlan"]

_LEAST_LINE_BITS = 8


class AccessPlan:
    """The accesses of shared memory that a program's instructions can make.

    unit          the size in bytes of a thread's smallest access, at most 16
    line_bits     the number of bits that hold a line's number
    by_threads    True if threads load or store shared memory
    elsewhere     True if threads may access the shared memory of other CTAs of a cluster
    asynchronous  True if bulk copies, wgmma or tcgen05 instructions read or write shared memory
    fenced        True if the kernel has fences between threads
    mbarriers     True if the kernel uses mbarriers
    """

    def __init__(self, program: Program) -> None:
        self.unit = CHUNK
        self.by_threads = self.elsewhere = self.asynchronous = self.fenced = self.mbarriers = False
        last_line = 0
        for one, facts in program.stated:
            last_line = max(last_line, one.line)
            self.fenced |= facts.fences_threads
            self.mbarriers |= facts.completes is not None
            for use in facts.uses:
                if not use.may_be_shared:
                    continue
                if facts.by_asynchronous_proxy:
                    self.asynchronous = True
                else:
                    self.by_threads = True
                    self.unit = min(self.unit, use.n_bytes)
                    self.elsewhere |= use.space != "shared"
        self.line_bits = max(last_line.bit_length(), _LEAST_LINE_BITS)
