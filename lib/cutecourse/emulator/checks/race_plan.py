"""The accesses of shared memory in a kernel's text, which decide what its race record must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.instructions.sync.fences import OF_THREADS
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import IntLiteral

if TYPE_CHECKING:
    from cutecourse.emulator.core.program import Program
    from cutecourse.ptx.syntax import Instruction

__all__ = ["Plan"]

_ELSEWHERE = frozenset({"global", "local", "const", "param", "param::entry", "param::func"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_LEAST_LINE_BITS = 8


class Plan:
    """The accesses of shared memory that a program's instructions can make.

    unit          the size in bytes of a thread's smallest access, at most 16
    line_bits     the number of bits that hold a line's number
    by_threads    True if threads load or store shared memory
    elsewhere     True if threads may access the shared memory of other CTAs of a cluster
    asynchronous  True if bulk copies, wgmma or tcgen05 instructions read or write shared memory
    fenced        True if the kernel has fences between threads
    """

    def __init__(self, program: Program) -> None:
        self.unit = CHUNK
        self.by_threads = self.elsewhere = self.asynchronous = self.fenced = False
        last_line = 0
        for one in program.instructions:
            last_line = max(last_line, one.line)
            self.fenced |= OF_THREADS.fullmatch(one.name) is not None
            if _is_asynchronous(one):
                self.asynchronous = True
            elif (n_bytes := _by_thread(one)) is not None:
                self.by_threads = True
                self.unit = min(self.unit, n_bytes)
                if not {"shared", "shared::cta"} & set(one.modifiers):
                    self.elsewhere = True
        self.line_bits = max(last_line.bit_length(), _LEAST_LINE_BITS)


def _is_asynchronous(one: Instruction) -> bool:
    """True if an instruction reads or writes chunks of shared memory asynchronously to its thread."""
    if one.opcode == "cp":
        return "bulk" in one.modifiers
    return one.name.startswith(("wgmma.mma_async.", "tcgen05.mma.", "tcgen05.cp."))


def _by_thread(one: Instruction) -> int | None:
    """The bytes of a thread's access to shared memory; None if the instruction makes no such access."""
    names = one.modifiers
    if one.opcode in {"ldmatrix", "stmatrix"}:
        return CHUNK
    if one.opcode == "tcgen05" and names[:1] == ("alloc",):
        return 4
    if one.opcode == "cp":
        if "async" not in names or not {"ca", "cg"} & set(names):
            return None
        size = one.operands[2] if len(one.operands) > 2 else None
        return size.value if isinstance(size, IntLiteral) and size.value in {4, 8, 16} else 4
    if one.opcode not in {"ld", "ldu", "st", "atom", "red"} or _ELSEWHERE & set(names):
        return None
    bits = next((b for b in (type_bits(name) for name in reversed(names)) if b), 8)
    count = next((_VECTORS[name] for name in names if name in _VECTORS), 1)
    return max(bits // 8, 1) * count
