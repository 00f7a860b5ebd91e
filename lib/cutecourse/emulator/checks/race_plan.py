"""What of a kernel's text says how to look for races: the smallest access of shared memory, who makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import IntLiteral

if TYPE_CHECKING:
    from cutecourse.emulator.core.machine import Machine
    from cutecourse.ptx.syntax import Instruction

__all__ = ["Plan"]

_CHECKS = ("race", "read before its wait", "stage reused early")
_ELSEWHERE = frozenset({"global", "local", "const", "param", "param::entry", "param::func"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_LEAST_LINE_BITS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How a launch keeps its record of shared memory."""

    unit: int
    """Bytes of the smallest access of a thread, at most 16."""
    line_bits: int
    """So many bits hold a line's number."""
    by_threads: bool
    """Whether threads load or store there."""
    remote: bool
    """Whether threads may do so in other CTAs' memory."""
    asynchronous: bool
    """Whether there are bulk copies or tcgen05 instructions that do."""

    @classmethod
    def of(cls, machine: Machine) -> Plan | None:
        """The plan for a launch; None where no race is possible or nobody wants to know."""
        found: Plan | None
        try:
            found = machine.race_plan[0]
        except IndexError:
            found = cls._make(machine)
            machine.race_plan.append(found)
        return found

    @classmethod
    def _make(cls, machine: Machine) -> Plan | None:
        program = machine.program
        if not program.shared_bytes or all(machine.severities[name] == "off" for name in _CHECKS):
            return None
        size = machine.cluster[0] * machine.cluster[1] * machine.cluster[2]
        least, remote, asynchronous = CHUNK, False, False
        by_threads = False
        last_line = 0
        for flat in program.flat.values():
            for one in flat.instructions:
                last_line = max(last_line, one.line)
                if _is_asynchronous(one):
                    asynchronous = True
                    continue
                n_bytes = _by_thread(one)
                if n_bytes is not None:
                    by_threads = True
                    least = min(least, n_bytes)
                    space = set(one.modifiers) & {"shared", "shared::cta"}
                    remote = remote or (size > 1 and not space)
        if not asynchronous and (not by_threads or size * machine.warps_per_block == 1):
            return None
        return cls(
            unit=least,
            line_bits=max(last_line.bit_length(), _LEAST_LINE_BITS),
            by_threads=by_threads,
            remote=remote,
            asynchronous=asynchronous,
        )


def _is_asynchronous(one: Instruction) -> bool:
    """Whether an instruction's operation reads or writes shared memory in chunks, beside its thread."""
    names = one.modifiers
    if one.opcode == "cp":
        return "bulk" in names
    if one.opcode == "wgmma":
        return names[:1] == ("mma_async",)
    if one.opcode == "tcgen05":
        return bool(names) and names[0] in {"mma", "cp"}
    return False


def _by_thread(one: Instruction) -> int | None:
    """How many bytes a thread's access of shared memory has; None where it is none."""
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
