"""st.async and red.async: stores and reductions in another CTA's shared memory that signal an mbarrier there.

Each thread's store takes place later, in an order that the seed chooses, and then counts its bytes at the
mbarrier. Until then the destination of st.async counts as never written.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, UninitializedRead
from cutecourse.emulator.instructions.stating import ASYNCHRONOUS_BYTES, by_modifiers, bytes_of
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.memory.cta_ranks import check_alive
from cutecourse.emulator.memory.mbarriers import MBarriers
from cutecourse.emulator.memory.proxies import BY_THREADS
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.emulator.numbers.reductions import IN_SHARED, Reduction, reduction
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []


def _define(site: Site, kind: str, count: int, space: str, combine: Reduction | None) -> Step:
    """Define st.async or red.async: check the lanes' addresses now, and do each lane's work later."""
    if not site.has(ASYNCHRONOUS_BYTES) and combine is None:
        site.unsupported("it needs .mbarrier::complete_tx::bytes")
    n_bytes = int(kind[1:]) // 8
    size = n_bytes * count
    word = f"u{8 * n_bytes}"
    destination = SharedTargets(site, site.address(0), space, size)
    barrier = SharedTargets(site, site.address(2), space, 8)
    destination.remote_allowed = barrier.remote_allowed = True
    sources = site.sources(1, word)
    if len(sources) != count:
        site.invalid(f"{len(sources)} sources for {count} words")
    name = site.instruction.name
    access = Access(site, "shared::cluster", n_bytes, count, reads=combine is not None, writes=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        cohort = bundle.cohort
        if cohort.size == 1:
            raise site.error(
                AddressError,
                f"{name} needs a cluster of several CTAs, but this launch has clusters of one CTA",
                bundle,
                int(bundle.lanes(mask)[0]),
            )
        barriers = cohort.own(MBarriers)
        values = np.stack([bundle.rows[word][slot].reshape(-1) for slot in sources], axis=-1)
        for (origin, rank, offset), (_, other, at) in zip(
            destination.each(bundle, mask), barrier.each(bundle, mask), strict=True
        ):
            if rank != other:
                raise origin.error(
                    AddressError,
                    f"{name} to CTA {rank} with an mbarrier in CTA {other}: both must be in the same CTA",
                )
            place = (origin.cluster, rank, at)
            barriers.find(*place, origin)
            start = cohort.shared_start(origin.cluster, rank) + offset
            written = cohort.shared_written[start : start + size]
            if combine is None:
                written[:] = 0
            elif not written.all():
                raise origin.error(
                    UninitializedRead,
                    f"{name} at shared offset {offset} of CTA {rank}, which was never written",
                )
            for tell in cohort.listeners.store_asked:
                tell(origin, access, start // size, (rank, at))
            held = cohort.shared[start : start + size].view(values.dtype)
            bundle.machine.defer(_complete, origin, held, written, values[origin.lane], combine, place)

    return step


def _complete(
    origin: Origin,
    held: NDArray[Any],
    written: NDArray[np.uint8],
    values: NDArray[Any],
    combine: Reduction | None,
    barrier: tuple[int, int, int],
) -> None:
    """Store or reduce for one lane, then signal its mbarrier; `held` are the words at its address."""
    check_alive(origin, barrier[1], "the destination")
    held[:] = values if combine is None else combine(held, values)
    written[:] = BY_THREADS
    origin.bundle.cohort.own(MBarriers).find(*barrier, origin).complete_tx(held.nbytes, origin, None)


def _facts(one: Instruction, *, reads: bool) -> Facts:
    return Facts(
        uses=(MemoryUse("shared::cluster", bytes_of(one), reads=reads, writes=True),),
        pipe=Pipe.STORES_TO_OTHERS,
        uncounted=f"{one.opcode}.async",
        publishes=True,
        completes="bytes",
        uses_cluster=True,
    )


@instruction("st.async", facts=by_modifiers(partial(_facts, reads=False)))
def st_async(site: Site) -> Step:
    """Store to another CTA's shared memory without waiting; an mbarrier there counts the bytes.

    Shapes:     one address, one to four words and one mbarrier in each lane.
    Units:      addresses in bytes; words of 4 or 8 bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierCountError; AddressError where address
                and mbarrier lie in different CTAs, or the cluster has one CTA only; ExitedCTAError where the
                bytes come after their CTA has ended.
    Simplified: the bytes are written at a time that the seed chooses, and count as never written until then.
    Source:     PTX ISA 9.0, st.async (#data-movement-and-conversion-instructions-st-async).
    """
    site.has("weak", "cluster")
    space = take_shared_space(site)
    width = site.one_of("v2", "v4")
    count = int(width[1:]) if width else 1
    kind = site.type("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
    if count == 4 and kind.endswith("64"):
        site.unsupported(f"no .v4.{kind}")
    return _define(site, kind, count, space, None)


@instruction("red.async", facts=by_modifiers(partial(_facts, reads=True)))
def red_async(site: Site) -> Step:
    """Change a word of another CTA's shared memory without waiting; an mbarrier there counts its bytes.

    Shapes:     one address, one word and one mbarrier in each lane.
    Units:      addresses in bytes; words of 4 or 8 bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierCountError, UninitializedRead;
                AddressError where address and mbarrier lie in different CTAs, or the cluster has one CTA
                only; ExitedCTAError where it comes after its CTA has ended.
    Simplified: the word is changed at a time that the seed chooses.
    Source:     PTX ISA 9.0, red.async
                (#parallel-synchronization-and-communication-instructions-red-async).
    """
    site.has("relaxed", "cluster")
    space = take_shared_space(site)
    name = site.expect(*IN_SHARED)
    kind = site.type(*IN_SHARED[name])
    return _define(site, kind, 1, space, reduction(name, kind))
