"""Fences, memory barriers, and griddepcontrol, which does nothing on this machine.

This machine performs accesses in the order in which they are issued, so a fence has nothing to do, with one
exception: bulk copies and tensor cores see a thread's write to shared memory only after a proxy fence.
"""

from __future__ import annotations

import re

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.origin import Origin, first_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import tell_warps
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.emulator.memory.proxies import fence_shared
from cutecourse.emulator.memory.tensor_map_fences import acquire
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_SCOPE = r"\.(cta|cluster|gpu|sys)"
_OF_THREADS = re.compile(r"fence(\.(sc|acq_rel|acquire|release))?" + _SCOPE + r"|membar\.(cta|gl|sys)")
"""Fences with which plain memory accesses before or after them can synchronize threads."""
_ORDERING = re.compile(r"(fence|membar)\.proxy\.async(\.shared::(cta|cluster))?")
"""Fences between threads' accesses of shared memory and those of the asynchronous proxy."""
_FORMS = re.compile(
    _OF_THREADS.pattern + r"|fence\.acquire\.sync_restrict::shared::cluster\.cluster"
    r"|fence\.release\.sync_restrict::shared::cta\.cluster"
    r"|fence\.mbarrier_init\.release\.cluster"
    r"|fence\.proxy\.(alias|async|async\.global|async\.shared::(cta|cluster))"
    r"|fence\.proxy\.async::generic\.acquire\.sync_restrict::shared::cluster\.cluster"
    r"|fence\.proxy\.async::generic\.release\.sync_restrict::shared::cta\.cluster"
    r"|fence\.proxy\.tensormap::generic\.(acquire|release)" + _SCOPE + r"|membar\.proxy\.alias"
)
_TENSOR_MAP_BYTES = 128


@by_modifiers
def _facts(one: Instruction) -> Facts:
    of_threads = _OF_THREADS.fullmatch(one.name) is not None
    return Facts(category="fence", only_asks=True, publishes=True, fences_threads=of_threads)


@instruction("membar", "fence", facts=_facts)
def fence(site: Site) -> Step:
    """Order the memory accesses before and after it, also between proxies.

    Shapes:     no operands; `.proxy.tensormap::generic.acquire` takes an address in each lane and the size
                128.
    Units:      bytes.
    Errors:     InvalidOperand for another size, and for an address that is not a multiple of 128.
    Simplified: this machine performs accesses in the order in which they are issued, so most forms have no
                effect. Only asynchronous operations that read shared memory, and tensor copies whose map was
                changed, notice a missing fence. A CTA acquires a map for all its threads.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: membar, fence
                (#parallel-synchronization-and-communication-instructions-membar-fence).
    """
    name = ".".join((site.instruction.opcode, *site.instruction.modifiers))
    if _FORMS.fullmatch(name) is None:
        site.unsupported("no such form")
    site.modifiers.clear()
    orders_proxies = _ORDERING.fullmatch(name) is not None
    address = None
    if name.startswith("fence.proxy.tensormap::generic.acquire"):
        address = site.address(0)
        if site.constant(1) != _TENSOR_MAP_BYTES:
            site.invalid(f"the size of a tensor map is {_TENSOR_MAP_BYTES}")

    def step(bundle: Bundle, mask: Mask) -> None:
        if address is not None:
            row = address.lanes(bundle)
            wrong = site.active(bundle, mask) & (row % _TENSOR_MAP_BYTES != 0)
            if origin := first_lane(site, bundle, wrong):
                one = origin.value(row)
                raise origin.error(
                    InvalidOperand,
                    f"0x{one:x} is not an address of a tensor map, which is a multiple of"
                    f" {_TENSOR_MAP_BYTES}",
                    address=one,
                )
            for lane in bundle.lanes(mask).tolist():
                origin = Origin(site, bundle, lane)
                acquire(bundle, origin.cluster, origin.value(row))
        if orders_proxies:
            fence_shared(bundle, site.active(bundle, mask))
            for show in bundle.cohort.listeners.proxies_fenced:
                show(bundle, mask)
        if site.facts.fences_threads:
            for tell in bundle.cohort.listeners.flagged:
                tell(bundle, mask)
        tell_warps(site, bundle, site.active(bundle, mask), "fence", name=name)

    return step


@instruction("griddepcontrol.launch_dependents", facts=Facts(results=0, releases_dependents=True))
def launch_dependents(site: Site) -> Step:
    """Let the grids that depend on this one start.

    Shapes:     no operands.
    Simplified: launches run one after another. A later launch that is given this one as the `primary` is
                compared with what this one has written (emulator.checks.earlier_launch); without
                `has_dependents` a note says that nothing is compared.
    Source:     PTX ISA 9.0, griddepcontrol
                (#parallel-synchronization-and-communication-instructions-griddepcontrol).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        origin = first_lane(site, bundle, site.active(bundle, mask))
        if origin and not bundle.machine.has_dependents:
            report("grid dependency", _ALONE, origin)

    return step


@instruction("griddepcontrol.wait", facts=Facts(results=0))
def grid_wait(site: Site) -> Step:
    """Wait for the grids that this one depends on.

    Shapes:     no operands.
    Simplified: launches run one after another, so nothing waits. In a launch with a `primary`, uses of its
                results that no wait is in front of are reported (emulator.checks.earlier_launch); in another
                launch a note says that nothing is compared.
    Source:     PTX ISA 9.0, griddepcontrol
                (#parallel-synchronization-and-communication-instructions-griddepcontrol).
    """

    def step(bundle: Bundle, mask: Mask) -> None:
        for tell in bundle.cohort.listeners.grid_waited:
            tell(bundle, mask)
        origin = first_lane(site, bundle, site.active(bundle, mask))
        if origin and not bundle.machine.is_secondary:
            report("grid dependency", _ALONE, origin)

    return step


_ALONE = (
    "the emulator runs launches one after another. It does not show whether this kernel waits for what the"
    " launch before it writes: on a GPU, a griddepcontrol.wait has to come before such bytes are used. To"
    " compare both, launch the first one with has_dependents=True, and this one with its result as primary=."
)
