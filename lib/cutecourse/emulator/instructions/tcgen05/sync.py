"""tcgen05.commit and fence: how other threads learn that tcgen05's asynchronous operations are complete."""

from __future__ import annotations

from functools import partial

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.bulk.operands import check_alive, destination_ranks
from cutecourse.emulator.instructions.sync.mbarrier_state import MBarriers
from cutecourse.emulator.instructions.tcgen05.alloc import check_peer, take_cta_group
from cutecourse.emulator.instructions.tcgen05.queue import Operation, Queue
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.emulator.memory.tensor_memory import TensorMemories

__all__: list[str] = []

_TOLD = "the mbarrier that it tells"


@instruction("tcgen05.commit")
def commit(site: Site) -> Step:
    """Arrive once at an mbarrier when the thread's earlier tcgen05.mma and cp are complete.

    Shapes:     once for each active lane: elect one, the one that has issued the operations. With
                .multicast::cluster the mbarriers at the same offset in all CTAs that the mask names.
    Units:      an mbarrier is 8 bytes; the mask has one bit for each CTA of the cluster.
    Errors:     AddressError (also for a CTA that has ended when the arrival comes), AlignmentError,
                InvalidOperand (mask), NoBarrierError and BarrierCountError when the arrival comes.
    Simplified: the arrival comes at a time that the seed chooses, behind what the thread has issued before;
                at once where the thread has nothing under way.
    Source:     PTX ISA 9.0, tcgen05.commit (#tcgen05-async-sync-operations-commit).
    """
    group = take_cta_group(site)
    site.expect("mbarrier::arrive::one")
    multicast = site.has("multicast::cluster")
    space = take_shared_space(site)
    site.type("b64")
    if len(site.operands) != 1 + multicast:
        site.invalid(f"{site.instruction.name} takes {1 + multicast} operands, not {len(site.operands)}")
    targets = SharedTargets(site, site.address(0), space, 8)
    targets.remote_allowed = True
    cta_mask = site.source(1, "u16") if multicast else None

    def step(bundle: Bundle, mask: Mask) -> None:
        bits: int | None
        ranks: tuple[int, ...]
        for lane, rank, offset in targets.each(bundle, mask):
            origin = Origin(site, bundle, lane)
            check_peer(origin, group)
            if cta_mask is None:
                bits, ranks = None, (rank,)
                check_alive(site, bundle, lane, rank, _TOLD)
            else:
                bits = int(bundle.rows["u16"][cta_mask].reshape(-1)[lane])
                ranks = destination_ranks(site, bundle, lane, bits, _TOLD)
            queue = Queue.of(origin)
            tracked = queue.of_thread(origin)
            for tell in bundle.cohort.listeners.happened:
                label = bundle.program.placement.shared_label(offset)
                tell(
                    "mma.commit",
                    bundle,
                    lane,
                    site.line,
                    group=group,
                    barrier={"rank": rank, "offset": offset, "name": label},
                    mask=bits,
                    issues=[operation.issue for operation in tracked if operation.issue is not None],
                )
            for tell in bundle.cohort.listeners.commit_asked:
                tell(origin)
            run = partial(_arrive, origin, ranks, offset)
            if tracked:
                queue.add(Operation(origin, run))
            else:
                # Nothing to wait for: what other threads have issued is not this commit's business.
                run()

    return step


def _arrive(origin: Origin, ranks: tuple[int, ...], offset: int) -> None:
    """Arrive once at the mbarrier of each CTA."""
    bundle = origin.bundle
    cluster = origin.lane // WARP_SIZE
    for rank in ranks:
        check_alive(origin.site, bundle, origin.lane, rank, _TOLD)
        barrier = MBarriers.of(bundle.cohort).find(cluster, rank, offset, origin)
        barrier.arrive(1, origin, work=origin, asynchronous=True)


@instruction("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(site: Site) -> Step:
    """Order a thread's asynchronous tcgen05 operations with what it tells, or is told by, other threads.

    Shapes:     no operands.
    Simplified: counts for the whole warp. A missing fence is a note (emulator.core.hazards): operations
                of this machine are ordered by completion alone.
    Source:     PTX ISA 9.0, tcgen05.fence (#tcgen05-special-sync-operations-fence).
    """
    if site.operands:
        site.invalid(f"{site.instruction.name} takes no operands")
    name = site.instruction.name
    before = name.endswith("before_thread_sync")

    def step(bundle: Bundle, mask: Mask) -> None:
        clock = TensorMemories.of(bundle.cohort).clock
        times = clock.before if before else clock.after
        time = clock.tick()
        active = site.active(bundle, mask)
        for warp in np.flatnonzero(active.any(axis=1)).tolist():
            times[warp, bundle.rank, bundle.warp] = time
            for tell in bundle.cohort.listeners.happened:
                lane = warp * WARP_SIZE + int(np.argmax(active[warp]))
                tell("fence", bundle, lane, site.line, one=int(active[warp].sum()) == 1, name=name)

    return step


@instruction("tcgen05.shift")
def shift(site: Site) -> Step:
    """Shift rows of tensor memory down. Not supported yet.

    Shapes:     once for each active lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, tcgen05.shift (#tcgen05-instructions-tcgen05-shift).
    """
    site.unsupported("it is not supported yet")
