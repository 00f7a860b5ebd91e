"""The words of a race report: both accesses, their bytes, and the step that would order them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutecourse.emulator.checks.clocks import Component
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.registry import name_of
from cutecourse.emulator.core.report import report
from cutecourse.emulator.memory.mbarriers import MBarrier, MBarriers, unread_answer
from cutecourse.trace.words import number

if TYPE_CHECKING:
    from cutecourse.emulator.core.origin import Origin
    from cutecourse.emulator.memory.access import Access

__all__ = [
    "Use",
    "access_of",
    "describe_init",
    "describe_lanes",
    "describe_reuse",
    "describe_scope",
    "describe_thread",
    "describe_unfenced",
    "describe_wait",
    "describe_waited",
    "report_meeting",
    "report_short",
]


@dataclass(eq=False, slots=True)
class Use:
    """A use of shared memory that a later one meets: who made it, at which line, and what it does."""

    component: Component
    line: int
    action: str
    """"read" or "write" of a thread; "copy" into shared memory; "operation" that reads it."""
    origin: Origin | None = None
    """The issuer of an asynchronous use; None for a thread's access."""
    phase: int | None = None
    """For a copy, the phase that its mbarrier was in when the copy was issued."""
    size: int = 0
    """For a copy, the bytes that it brings to one CTA."""

    @property
    def cluster(self) -> int:
        """The cluster of an asynchronous use; 0 for a thread's access."""
        return 0 if self.origin is None else self.origin.lane // WARP_SIZE


def report_meeting(
    hazard: str, origin: Origin, byte: int, other: Use, describe: Callable[..., str], *what: str
) -> None:
    """Report that a thread's access, or an operation that it issues, meets another use of a byte.

    `describe(origin, byte, other, *what)` gives the words. `byte` is an offset in the cohort's shared memory.
    """
    offset = byte % origin.bundle.cohort.shared_stride
    name = origin.bundle.program.shared_name(offset)
    found = origin.bundle.cohort.own(MBarriers).live
    key = (origin.cluster, other.component.rank, other.component.number)
    barrier = found.get(key) if other.action == "copy" and describe is describe_wait else None
    report(
        hazard,
        lambda: describe(origin, byte, other, *what) + unread_answer(origin, barrier),
        origin,
        other.line,
        address=offset,
        allocation=name,
    )


def access_of(access: Access) -> str:
    """A thread's access in words that a place must follow, such as "read of"."""
    return f"{'update' if access.reads and access.writes else 'read' if access.reads else 'write'} of"


def describe_thread(origin: Origin, byte: int, other: Use, what: str) -> str:
    """Describe an access or an operation, `what`, that meets another thread's access."""
    verb = {"read": "has read", "write": "has written"}[other.action]
    barrier = "bar.sync, or" if other.component.rank == origin.bundle.rank else "that of the cluster, or"
    return (
        f"{what} {_where(origin, byte)}, which {_who(origin, other)} {verb} at line {_line(origin, other)},"
        f" and nothing orders the two. Put a barrier of both warps between them: {barrier} an mbarrier at"
        " which the first warp arrives and for which the second waits."
    )


def describe_lanes(origin: Origin, byte: int, other: Use, what: str) -> str:
    """Describe an access or an operation, `what`, that meets an access by another lane of its warp."""
    return (
        f"{what} {_where(origin, byte)}, which another lane of this warp"
        f" {'has read' if other.action == 'read' else 'has written'} at line {_line(origin, other)}, and"
        " nothing orders the two: the lanes of a warp may run apart. Put bar.warp.sync between them"
        " (__syncwarp in CUDA C++)."
    )


def describe_waited(origin: Origin, byte: int, other: Use, what: str) -> str:
    """Describe a use that only another lane of the thread's warp has waited for."""
    done = {
        "read": "reads",
        "write": "writes",
        "copy": "copies into",
        "operation": f"reads with the {_operation(other)}" if other.action == "operation" else "",
    }[other.action]
    return (
        f"{what} {_where(origin, byte)}, which {_who(origin, other)} {done} at line {_line(origin, other)}."
        " Another lane of this warp has waited for that, and this lane has not; nothing orders the two lanes,"
        " which may run apart. Put bar.warp.sync between that wait and this line (__syncwarp in CUDA C++):"
        " it orders memory for the lanes that it names, and a shuffle or a vote does not."
    )


def describe_init(origin: Origin, where: str, line: int) -> str:
    """Describe a use of an mbarrier if only another lane of the warp has waited for its mbarrier.init."""
    return (
        f"{where} is used, and only another lane of this warp has waited for its mbarrier.init at line"
        f" {origin.bundle.program.line_in_words(line)}. Put bar.warp.sync between that wait and this line."
    )


def describe_wait(origin: Origin, byte: int, other: Use, what: str) -> str:
    """Describe a use of an asynchronous operation's bytes without a wait for its completion."""
    where, who, line = _where(origin, byte), _who(origin, other), _line(origin, other)
    if other.action == "copy":
        parity = "" if other.phase is None else f" with parity {other.phase & 1}"
        return (
            f"{what} {where}, into which {who} copies at line {line}, but its thread has not waited for"
            f" that copy. Wait for {_mbarrier(origin, other)}{parity} first, or for a barrier that follows"
            " such a wait."
        )
    start = f"{what} {where}, which the {_operation(other)} that {who} issued at line {line}"
    if other.component.kind == "mbarrier":
        return f"{start} may not have read yet. Wait for {_mbarrier(origin, other)} first."
    if other.component.kind == "bulk":
        return (
            f"{start} may not have read yet. Let that thread execute cp.async.bulk.wait_group.read, and put a"
            " barrier after it."
        )
    return f"{start} may not have read yet. {_end_of(other)} first."


def describe_scope(origin: Origin, byte: int, other: Use, what: str) -> str:
    """Describe a use of what a thread of another CTA has written, of which an arrival of .cta scope told."""
    return (
        f"{what} {_where(origin, byte)}, which {_who(origin, other)} has written at line"
        f" {_line(origin, other)}. The mbarrier.arrive that tells of it has the scope .cta, which is the"
        " default: it shows stores to threads of its own CTA alone. Write mbarrier.arrive.release.cluster."
    )


def describe_unfenced(origin: Origin, byte: int, other: Use) -> str:
    """Describe an operation on bytes that a thread has written, with no proxy fence between the two."""
    return (
        f"{name_of(origin.site.instruction)} reads {_where(origin, byte)}, which {_who(origin, other)} wrote"
        f" at line {_line(origin, other)}, and no fence.proxy.async stands between the two. A fence covers"
        " the stores of the threads that execute it, and those of others that a barrier orders before it."
        " Each thread must fence its stores; then comes a barrier, then this operation."
    )


def report_short(origin: Origin, byte: int, copy: Use, barrier: MBarrier, what: str) -> None:
    """Report a use of a copy's bytes if the copy's phase completed before they had all landed.

    The report is at the instruction that announces the bytes; without one it is at the copy.
    """
    assert copy.origin is not None
    assert copy.phase is not None
    came = barrier.came(copy.phase)
    landed = sum(count for did, count, _ in came if did == "complete_tx")
    announced = [by for did, _, by in came if did == "expect_tx"]
    at = announced[-1] if announced else copy.origin
    lines = ", ".join(dict.fromkeys(by.site.in_words for by in announced))
    why = f"the expect_tx at line {lines} announces no more" if announced else "no expect_tx announced more"
    offset = byte % origin.bundle.cohort.shared_stride
    report(
        "transaction bytes",
        f"phase {copy.phase} of {barrier.where()} completed after {number(landed, 'byte')}, because {why}."
        f" So the {number(copy.size, 'byte')} that {_who(origin, copy)}, lane {copy.origin.lane % WARP_SIZE}"
        f" copies at line {_line(origin, copy)} may still be on their way when line {origin.site.in_words}"
        f" uses them: {what} {_where(origin, byte)}. Announce the bytes of all copies of a phase before its"
        " last arrival, or let fewer threads copy.",
        at,
        copy.line,
        address=offset,
        allocation=origin.bundle.program.shared_name(offset),
    )


def describe_reuse(origin: Origin, byte: int, other: Use) -> str:
    """Describe a copy over bytes that are in use, without a wait for that use to end."""
    who, line = _who(origin, other), _line(origin, other)
    start = f"the copy writes {_where(origin, byte)}, "
    if other.action == "copy" and other.origin is not None and other.origin.bundle is not origin.bundle:
        return (
            f"{start}into which {who} copies at line {line}, and nothing orders the"
            " two copies. Check the address and the multicast mask of each. If both are right, the later copy"
            " must wait until the other copy's bytes have been read."
        )
    if other.action == "copy":
        return (
            f"{start}into which {who} copies at line {line}, and nothing tells its thread that those bytes"
            f" have been read. {_readers_tell(origin, other)}"
        )
    if other.action == "operation":
        return (
            f"{start}which the {_operation(other)} that {who} issued at line {line}"
            f" may not have read yet. {_end_of(other)} first."
        )
    return (
        f"{start}which {who} reads at line {line}, but its thread has not"
        " waited for a barrier after that read. Let the reader arrive at an mbarrier when it is done, and"
        " let the issuer wait for that phase before the copy."
    )


def _readers_tell(origin: Origin, other: Use) -> str:
    """Name the mbarrier by which the readers of a copy's bytes tell its issuer, if the kernel has one.

    It receives no bytes. If there is one for each stage, they expect the same number of arrivals, and it has
    the same place among them as the copy's own mbarrier among those that receive bytes.
    """
    live = origin.bundle.cohort.own(MBarriers).live
    full = other.component.number
    receive = {
        offset
        for (_, _, offset), barrier in live.items()
        if barrier.loaded or any(did.endswith("_tx") for did, *_ in barrier.history)
    }
    filled = sorted({full, *receive})
    told = [
        barrier
        for key, barrier in sorted(live.items())
        if key[:2] == (origin.cluster, origin.bundle.rank) and key[2] not in filled
    ]
    alike: dict[int, list[MBarrier]] = {}
    for barrier in told:
        alike.setdefault(barrier.expected, []).append(barrier)
    sets = [barriers for barriers in alike.values() if len(barriers) == len(filled)]
    read = [b for b in told if any(by.bundle is not origin.bundle for _, by in b.history.values())]
    if len(sets) == 1:
        chosen = [sets[0][filled.index(full)]]
    else:
        chosen = read if len(read) == 1 else told if len(told) == 1 else []
    for barrier in chosen:
        return f"Wait for {barrier.label()}, at which the readers arrive, before the copy."
    return (
        "Let the readers arrive at another mbarrier when they are done, and let the issuer wait for its phase"
        " before the copy."
    )


def _line(origin: Origin, other: Use) -> str:
    return origin.bundle.program.line_in_words(other.line)


def _where(origin: Origin, byte: int) -> str:
    """A byte of the cohort's shared memory, in words."""
    cohort = origin.bundle.cohort
    offset = byte % cohort.shared_stride
    name = origin.bundle.program.shared_name(offset)
    rank = byte // (cohort.shared_stride * cohort.n)
    where = f"shared offset 0x{offset:x}" + (f" (in {name})" if name else "")
    return where + (f" of CTA {rank}" if cohort.size > 1 else "")


def _who(origin: Origin, other: Use) -> str:
    """The warp of a use, or the one that issued it."""
    warp, rank = other.component.number, other.component.rank
    if other.origin is not None:
        warp, rank = other.origin.bundle.warp, other.origin.bundle.rank
    return f"warp {warp}" + (f" of CTA {rank}" if origin.bundle.cohort.size > 1 else "")


def _operation(other: Use) -> str:
    if other.component.kind in {"bulk", "mbarrier"}:
        return "copy"
    assert other.origin is not None
    return name_of(other.origin.site.instruction)


def _end_of(other: Use) -> str:
    """The step that must follow an operation before its bytes may be overwritten."""
    if other.component.kind == "mbarrier":
        return "Wait for the mbarrier of that copy"
    if other.component.kind == "bulk":
        return "Execute cp.async.bulk.wait_group.read and arrive at an mbarrier for which the issuer waits"
    if other.component.kind == "wgmma":
        return "Execute wgmma.wait_group, and a barrier after it,"
    return "Put a tcgen05.commit after it, and wait for the mbarrier of that commit"


def _mbarrier(origin: Origin, other: Use) -> str:
    rank, offset = other.component.rank, other.component.number
    name = origin.bundle.program.placement.shared_label(offset)
    one = f"mbarrier {name}" if name else f"the mbarrier at shared offset {offset}"
    return one + (f" of CTA {rank}" if origin.bundle.cohort.size > 1 else "")
