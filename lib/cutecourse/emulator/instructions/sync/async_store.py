"""st.async and red.async: stores and reductions in another CTA's shared memory that tell an mbarrier there.

Each thread's store takes place later, in an order that the seed chooses, and then counts its bytes at the
mbarrier. Until then what st.async will write counts as never written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, UninitializedRead
from cutecourse.emulator.instructions.sync.mbarrier_state import MBarriers
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.ptx.scopes import type_bits

__all__: list[str] = []

Update = Callable[[int, int], int]
"""(what is in memory, operand) -> what memory holds next."""


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _reduction(name: str, kind: str) -> Update:
    bits = int(kind[1:])
    keep = (1 << bits) - 1
    if kind[0] == "s":
        choose = {"min": min, "max": max}.get(name)
        if choose is not None:
            return lambda old, b: choose(_signed(old, bits), _signed(b, bits)) & keep
    operations: dict[str, Update] = {
        "add": lambda old, b: old + b & keep,
        "min": min,
        "max": max,
        "inc": lambda old, b: 0 if old >= b else old + 1,
        "dec": lambda old, b: b if old == 0 or old > b else old - 1,
        "and": lambda old, b: old & b,
        "or": lambda old, b: old | b,
        "xor": lambda old, b: old ^ b,
    }
    return operations[name]


_TYPES = {
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
    "add": ("u32", "s32", "u64"),
}


def _define(site: Site, kind: str, count: int, space: str, update: Update | None) -> Step:
    """Define st.async or red.async: check the lanes' addresses now, and do each lane's work later."""
    if not site.has("mbarrier::complete_tx::bytes") and update is None:
        site.unsupported("it needs .mbarrier::complete_tx::bytes")
    n_bytes = (type_bits(kind) or 8) // 8
    size = n_bytes * count
    word = f"u{8 * n_bytes}"
    destination = SharedTargets(site, site.address(0), space, size)
    barrier = SharedTargets(site, site.address(2), space, 8)
    destination.remote_allowed = barrier.remote_allowed = True
    sources = site.sources(1, word)
    if len(sources) != count:
        site.invalid(f"{len(sources)} sources for {count} words")
    name = site.instruction.name

    def step(bundle: Bundle, mask: Mask) -> None:
        cohort, machine = bundle.cohort, bundle.machine
        if cohort.size == 1:
            raise site.error(
                AddressError,
                f"{name} needs a cluster of several CTAs, but this launch has clusters of one CTA",
                bundle,
                int(bundle.lanes(mask)[0]),
            )
        barriers = MBarriers.of(cohort)
        rows = [bundle.rows[word][slot].reshape(-1) for slot in sources]
        for (lane, rank, offset), (_, other, at) in zip(
            destination.each(bundle, mask), barrier.each(bundle, mask), strict=True
        ):
            origin = Origin(site, bundle, lane)
            if rank != other:
                raise origin.error(
                    AddressError,
                    f"{name} to CTA {rank} with an mbarrier in CTA {other}: both must be in the same CTA",
                )
            cluster = lane // WARP_SIZE
            barriers.find(cluster, rank, at, origin)
            start = cohort.shared_start(cluster, rank) + offset
            values = [int(row[lane]) for row in rows]
            if update is None:
                cohort.shared_written[start : start + size] = 0
            elif not cohort.shared_written[start : start + size].all():
                raise origin.error(
                    UninitializedRead,
                    f"{name} at shared offset {offset} of CTA {rank}, which was never written",
                )
            for tell in cohort.listeners.store_asked:
                tell(origin)
            machine.defer(_store, origin, start, values, n_bytes, update, (cluster, rank, at))

    return step


def _store(
    origin: Origin,
    start: int,
    values: list[int],
    n_bytes: int,
    update: Update | None,
    barrier: tuple[int, int, int],
) -> None:
    """Store the words of one lane, and tell the mbarrier."""
    cohort = origin.bundle.cohort
    memory = cohort.shared
    for position, value in enumerate(values):
        low = start + position * n_bytes
        if update is not None:
            value = update(int.from_bytes(memory[low : low + n_bytes].tobytes(), "little"), value)
        memory[low : low + n_bytes] = np.frombuffer(value.to_bytes(n_bytes, "little"), dtype=np.uint8)
        cohort.shared_written[low : low + n_bytes] = 0xFF
    MBarriers.of(cohort).find(*barrier, origin).complete_tx(n_bytes * len(values), origin, None)


@instruction("st.async")
def st_async(site: Site) -> Step:
    """Store to another CTA's shared memory without waiting; an mbarrier there counts the bytes.

    Shapes:     one address, one to four words and one mbarrier in each lane.
    Units:      addresses in bytes; words of 4 or 8 bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierCountError; AddressError where address
                and mbarrier lie in different CTAs, or the cluster has one CTA only.
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


@instruction("red.async")
def red_async(site: Site) -> Step:
    """Change a word of another CTA's shared memory without waiting; an mbarrier there counts its bytes.

    Shapes:     one address, one word and one mbarrier in each lane.
    Units:      addresses in bytes; words of 4 or 8 bytes.
    Errors:     AddressError, AlignmentError, NoBarrierError, BarrierCountError, UninitializedRead;
                AddressError where address and mbarrier lie in different CTAs, or the cluster has one CTA
                only.
    Simplified: the word is changed at a time that the seed chooses.
    Source:     PTX ISA 9.0, red.async
                (#parallel-synchronization-and-communication-instructions-red-async).
    """
    site.has("relaxed", "cluster")
    space = take_shared_space(site)
    name = site.expect(*_TYPES)
    kind = site.type(*_TYPES[name])
    return _define(site, kind, 1, space, _reduction(name, kind))
