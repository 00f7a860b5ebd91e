"""tcgen05.commit and fence: how other threads learn that tcgen05's asynchronous operations are complete."""

from __future__ import annotations

from functools import partial

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import tell_warps
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.emulator.instructions.tcgen05.alloc import check_peer, take_cta_group
from cutecourse.emulator.instructions.tcgen05.queue import Queue, QueuedOperation
from cutecourse.emulator.memory.cta_ranks import check_alive, destination_ranks
from cutecourse.emulator.memory.mbarriers import MBarriers
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.emulator.memory.tensor_memory import TensorMemories
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_TOLD = "the mbarrier that it tells"


@by_modifiers
def _commit_facts(one: Instruction) -> Facts:
    to_several = "multicast::cluster" in one.modifiers
    return Facts(
        category="tcgen05",
        publishes=True,
        completes="arrivals",
        uses_cluster=to_several,
        multicast=to_several,
    )


@instruction("tcgen05.commit", facts=_commit_facts)
def commit(site: Site) -> Step:
    """Arrive once at an mbarrier when the thread's earlier tcgen05.mma and cp are complete.

    Shapes:     once for each active lane: elect one, the one that has issued the operations. With
                .multicast::cluster the mbarriers at the same offset in all CTAs that the mask names.
    Units:      an mbarrier is 8 bytes; the mask has one bit for each CTA of the cluster.
    Errors:     AddressError (also for a CTA that has ended when the arrival comes), AlignmentError,
                InvalidOperand (mask), NoBarrierError and BarrierCountError when the arrival comes.
    Simplified: the arrival comes at a time that the seed chooses, after the operations that the thread has
                issued before; it comes at once if the thread has none under way.
    Source:     PTX ISA 9.0, tcgen05.commit (#tcgen05-async-sync-operations-commit).
    """
    group = take_cta_group(site)
    site.expect("mbarrier::arrive::one")
    multicast = site.has("multicast::cluster")
    space = take_shared_space(site)
    site.type("b64")
    targets = SharedTargets(site, site.address(0), space, 8)
    targets.remote_allowed = True
    cta_mask = site.source(1, "u16") if multicast else None

    def step(bundle: Bundle, mask: Mask) -> None:
        for origin, rank, offset in targets.each(bundle, mask):
            check_peer(origin, group)
            bits: int | None = None
            ranks: tuple[int, ...] = (rank,)
            if cta_mask is not None:
                bits = origin.value(bundle.rows["u16"][cta_mask])
                ranks = destination_ranks(origin, bits, _TOLD)
            queue = Queue.of(origin)
            tracked = queue.of_thread(origin)
            for tell in bundle.cohort.listeners.happened:
                label = bundle.program.placement.shared_label(offset)
                tell(
                    "mma.commit",
                    origin,
                    group=group,
                    barrier={"rank": rank, "offset": offset, "name": label},
                    mask=bits,
                    issues=[operation.issue for operation in tracked if operation.issue is not None],
                )
            for tell in bundle.cohort.listeners.commit_asked:
                tell(origin)
            run = partial(_arrive, origin, ranks, offset)
            if tracked:
                queue.add(QueuedOperation(origin, run))
            else:
                # A commit waits only for operations of its own thread, and there are none.
                run()

    return step


def _arrive(origin: Origin, ranks: tuple[int, ...], offset: int) -> None:
    """Arrive once at the mbarrier of each CTA."""
    barriers = origin.bundle.cohort.own(MBarriers)
    for rank in ranks:
        check_alive(origin, rank, _TOLD)
        barrier = barriers.find(origin.cluster, rank, offset, origin)
        barrier.arrive(1, origin, work=origin, asynchronous=True)


@instruction(
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
    facts=Facts(category="tcgen05"),
)
def fence(site: Site) -> Step:
    """Order a thread's asynchronous tcgen05 operations with what it tells, or is told by, other threads.

    Shapes:     no operands.
    Simplified: the fence counts for the whole warp. A missing fence is a note (emulator.core.hazards),
                because only their completion orders operations of this machine.
    Source:     PTX ISA 9.0, tcgen05.fence (#tcgen05-special-sync-operations-fence).
    """
    name = site.instruction.name
    before = name.endswith("before_thread_sync")

    def step(bundle: Bundle, mask: Mask) -> None:
        clock = bundle.cohort.own(TensorMemories).clock
        times = clock.before if before else clock.after
        time = clock.tick()
        for warp in bundle.clusters(mask):
            times[warp, bundle.rank, bundle.warp] = time
        tell_warps(site, bundle, site.active(bundle, mask), "fence", name=name)

    return step


_SHIFT = "rows are not shifted. Load them with tcgen05.ld, and store them where they belong with tcgen05.st"


@instruction("tcgen05.shift", facts=Facts(category="tcgen05", refused=_SHIFT, publishes=True))
def shift(site: Site) -> Step:
    """Shift rows of tensor memory down. Not supported.

    Shapes:     once for each active lane.
    Errors:     UnsupportedInstruction, always.
    Source:     PTX ISA 9.0, tcgen05.shift (#tcgen05-instructions-tcgen05-shift).
    """
    site.refuse()
