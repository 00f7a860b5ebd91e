"""elect.sync: one lane of a warp is chosen to do what only one has to do."""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site

__all__: list[str] = []


@instruction("elect.sync")
def elect(site: Site) -> Step:
    """Choose one of the lanes that a membermask names.

    Shapes:     the chosen lane's number in all lanes; a predicate that holds in it alone.
    Units:      lanes.
    Errors:     InvalidOperand for a lane that its membermask does not name.
    Simplified: the lowest lane is chosen, as on the GPUs that the cases were recorded on; the document says
                only that the same mask gives the same lane each time.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: elect.sync
                (#parallel-synchronization-and-communication-instructions-elect-sync).
    """
    target, chosen = site.pair(0, "u32")
    members = site.source(1, "u32")
    site.converge(1)
    lanes = np.arange(WARP_SIZE, dtype=np.uint32)
    bit, first = np.uint32(1) << lanes, lanes == 0

    def step(bundle: Bundle, mask: Mask) -> None:
        named = bundle.rows["u32"][members]
        alive = bundle.live.tobytes()
        if b"\x00" not in alive and named.tobytes() == b"\xff" * (4 * len(alive)):
            # Mostly all lanes are there and named.
            put(bundle.rows["u32"][target], np.uint32(0), mask)
            if chosen is not None:
                put(bundle.rows["pred"][chosen], first, mask)
            return
        if b"\x00" in alive:
            named = named & (bundle.live * bit).sum(axis=1, keepdims=True, dtype=np.uint32)
        lowest = named & (~named + np.uint32(1))
        leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
        put(bundle.rows["u32"][target], leader, mask)
        if chosen is not None:
            put(bundle.rows["pred"][chosen], leader == lanes, mask)

    return step
