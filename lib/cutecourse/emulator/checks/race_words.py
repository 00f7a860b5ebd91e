"""The words of a race report: both accesses, their bytes, and the step that would put them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutecourse.emulator.checks.clocks import Component
from cutecourse.emulator.core.kinds import WARP_SIZE

if TYPE_CHECKING:
    from cutecourse.emulator.core.bundle import Cohort
    from cutecourse.emulator.core.origin import Origin
    from cutecourse.emulator.memory.access import Access

__all__ = ["Use", "describe_reuse", "describe_thread", "describe_wait", "place_of"]

_SHOWN = 3
"""Lines of the kernel that a report names of one kind."""
_MMA_DONE = "Put a tcgen05.commit after it, and wait for the mbarrier of that commit"


@dataclass(eq=False, slots=True)
class Use:
    """A use of shared memory that another one meets: whose, at which line, and what it does."""

    component: Component
    line: int
    deed: str
    """"read" or "write" of a thread; "copy" into shared memory; "operation" that reads it."""
    origin: Origin | None = None
    """Of an asynchronous one who issued it."""
    phase: int | None = None
    """Of a copy the phase that its mbarrier was in when it was issued."""

    @property
    def cluster(self) -> int:
        """Of an asynchronous one the cluster."""
        return 0 if self.origin is None else self.origin.lane // WARP_SIZE

    @property
    def name(self) -> str:
        """Of an operation the instruction's."""
        return "copy" if self.origin is None else self.origin.site.instruction.name


def place_of(origin: Origin, byte: int) -> dict[str, Any]:
    """The address and variable of a byte of the cohort's shared memory, for an error."""
    offset = byte % origin.bundle.cohort.shared_stride
    return {"address": offset, "allocation": origin.bundle.program.shared_name(offset)}


def describe_thread(origin: Origin, access: Access | None, byte: int, other: Use) -> str:
    """A thread, or with no access an operation that it issues, meets another thread's access."""
    what = _what(origin, access)
    verb = {"read": "has read", "write": "has written"}[other.deed]
    return (
        f"{what} {_where(origin, byte)}, which {_warp(origin, other.component)} {verb} at line {other.line},"
        " and nothing orders the two. Put a barrier of both warps between them: bar.sync, or an mbarrier at"
        " which the first warp arrives and for which the second waits."
    )


def describe_wait(origin: Origin, access: Access | str, byte: int, other: Use, cohort: Cohort) -> str:
    """Somebody uses bytes of an asynchronous operation for whose end they have not waited."""
    what = f"{access} reads" if isinstance(access, str) else _what(origin, access)
    where = _where(origin, byte)
    issuer = _issuer(origin, other)
    if other.deed == "copy":
        mbarrier = _mbarrier(other.component, cohort)
        parity = "" if other.phase is None else f" with parity {other.phase & 1}"
        return (
            f"{what} {where}, into which {issuer} copies at line {other.line}, but its thread has not waited"
            f" for that copy. Wait for {mbarrier}{parity} first, or for a barrier that follows such a wait."
        )
    if other.component.kind == "bulk":
        return (
            f"{what} {where}, which the copy that {issuer} issued at line {other.line} may not have"
            " read yet. Let that thread execute cp.async.bulk.wait_group.read, and put a barrier after it."
        )
    return (
        f"{what} {where}, which the {_operation(other)} that {issuer} issued at line {other.line} may not"
        f" have read yet. {_end_of(other)} first."
    )


def describe_reuse(origin: Origin, byte: int, other: Use, cohort: Cohort) -> str:
    """A copy is issued over bytes that others use, for whose end its issuer has not waited."""
    start = f"the copy writes {_where(origin, byte)}, "
    if other.deed == "copy" and other.origin is not None and other.origin.bundle is not origin.bundle:
        return (
            f"{start}into which {_issuer(origin, other)} copies at line {other.line}, and nothing orders the"
            " two copies. Check the address and the multicast mask of each. If both are right, the later copy"
            " must wait until the other copy's bytes have been read."
        )
    if other.deed == "copy":
        return (
            f"{start}into which {_issuer(origin, other)} copies at line {other.line}, but its thread has not"
            f" waited for that copy. Wait for {_mbarrier(other.component, cohort)}, and until"
            " those bytes have been read, before the copy."
        )
    if other.deed == "operation":
        return (
            f"{start}which the {_operation(other)} that {_issuer(origin, other)} issued at line {other.line}"
            f" may not have read yet. {_end_of(other)} first."
        )
    return (
        f"{start}which {_warp(origin, other.component)} reads at line {other.line}, but its thread has not"
        " waited for a barrier after that read. Let the reader arrive at an mbarrier when it is done, and"
        " let the issuer wait for that phase before the copy."
    )


def _what(origin: Origin, access: Access | None) -> str:
    if access is None:
        return f"{origin.site.instruction.name} uses"
    return f"{'update' if access.reads and access.writes else 'read' if access.reads else 'write'} of"


def _where(origin: Origin, byte: int) -> str:
    """A byte of the cohort's shared memory, in words."""
    cohort = origin.bundle.cohort
    offset = byte % cohort.shared_stride
    name = origin.bundle.program.shared_name(offset)
    rank = byte // (cohort.shared_stride * cohort.n)
    where = f"shared offset 0x{offset:x}" + (f" (in {name})" if name else "")
    return where + (f" of CTA {rank}" if cohort.size > 1 else "")


def _warp(origin: Origin, component: Component) -> str:
    return f"warp {component.number}" + (f" of CTA {component.rank}" if origin.bundle.cohort.size > 1 else "")


def _issuer(origin: Origin, other: Use) -> str:
    assert other.origin is not None
    bundle = other.origin.bundle
    return f"warp {bundle.warp}" + (f" of CTA {bundle.rank}" if bundle.cohort.size > 1 else "")


def _operation(other: Use) -> str:
    if other.component.kind == "bulk":
        return "copy"
    assert other.origin is not None
    return ".".join(other.origin.site.instruction.name.split(".")[:2])


def _end_of(other: Use) -> str:
    """The step that must follow an operation before its bytes are free."""
    if other.component.kind == "bulk":
        return "Execute cp.async.bulk.wait_group.read and arrive at an mbarrier for which the issuer waits"
    if other.component.kind == "wgmma":
        return "Execute wgmma.wait_group, and a barrier after it,"
    return _MMA_DONE


def _mbarrier(component: Component, cohort: Cohort) -> str:
    name = cohort.machine.program.placement.shared_label(component.number)
    one = f"mbarrier {name}" if name else f"the mbarrier at shared offset {component.number}"
    return one + (f" of CTA {component.rank}" if cohort.size > 1 else "")
