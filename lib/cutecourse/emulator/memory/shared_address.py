"""Addresses of objects in shared memory that instructions use one at a time, such as mbarriers.

Loads and stores of data go through emulator.memory.access, which serves all lanes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, all_true
from cutecourse.emulator.core.memory import RANK_SHIFT, SHARED_WINDOW, WINDOW_BITS
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.errors import AddressError, AlignmentError, EmulatorError, ExitedCTAError

__all__ = ["GENERIC", "SharedTargets", "is_generic", "outside", "take_shared_space"]

_OFFSET_MASK = (1 << RANK_SHIFT) - 1
_LAST = WARP_SIZE - 1
GENERIC = (
    "this is a generic address, but the operand is in .shared. Convert it with cvta.to.shared, or leave the"
    " state space out"
)
"""The problem with an address of which `is_generic` is true."""


def is_generic(address: int) -> bool:
    """True for an address in .shared that is a generic one: it points into the window of shared memory."""
    return address >> WINDOW_BITS == SHARED_WINDOW >> WINDOW_BITS


def outside(bundle: Bundle, offset: int, size: int) -> str:
    """Say by how much `size` bytes at an offset miss the block's shared memory, in words that follow "it"."""
    limit, dynamic = bundle.program.shared_bytes, bundle.machine.dynamic_smem
    missed = f"begins {offset - limit}" if offset >= limit else f"ends {offset + size - limit}"
    advice = ""
    if not limit or bundle.program.placement.has_dynamic:
        advice = f"; {dynamic or 'none'} of them are dynamic: say with dynamic_smem how many the launch gives"
    return f"{missed} bytes past the end of the block's {limit} bytes of shared memory{advice}"


def take_shared_space(site: Site, *, cluster: bool = True) -> str:
    """Take the state space: "shared" (also shared::cta), "shared::cluster", "generic" if none is named."""
    names = ("shared", "shared::cta", "shared::cluster") if cluster else ("shared", "shared::cta")
    space = site.one_of(*names) or "generic"
    return "shared" if space == "shared::cta" else space


class SharedTargets:
    """The target of an address operand in each active lane: a CTA of the cluster and an offset.

    `space` comes from `take_shared_space`. An address in another CTA is refused if the space is "shared",
    and for a generic address unless `remote_allowed`; `remote` says why.
    """

    def __init__(
        self, site: Site, address: AddressSource, space: str, size: int, *, remote: str = ""
    ) -> None:
        self.site = site
        self.address = address
        self.space = space
        self.size = size
        self.remote_allowed = space == "shared::cluster"
        self.remote = remote or f"{site.instruction.name} works on the executing CTA's shared memory"

    def each(self, bundle: Bundle, mask: Mask) -> Iterator[tuple[Origin, int, int]]:
        """(origin, rank, offset) of each active lane in order."""
        lanes = bundle.lanes(mask)
        addresses = self.address.lanes(bundle).reshape(-1)[lanes].tolist()
        for lane, address in zip(lanes.tolist(), addresses, strict=True):
            rank, offset = self.resolve(bundle, lane, address)
            yield Origin(self.site, bundle, lane), rank, offset

    def grouped(
        self, bundle: Bundle, mask: Mask, values: NDArray[Any] | None, *, together: bool
    ) -> Iterator[tuple[Origin, int, int, NDArray[np.int64]]]:
        """(first lane's origin, rank, offset, lanes); with `together` a warp's lanes as one if they agree.

        They agree if the address and `values` (flattened, or None) are the same in all active lanes.
        """
        flat = self.address.lanes(bundle).reshape(-1)
        lanes = bundle.lanes(mask)
        if len(lanes) == 1:
            lane = int(lanes[0])
            rank, offset = self.resolve(bundle, lane, int(flat[lane]))
            yield Origin(self.site, bundle, lane), rank, offset, lanes
            return
        starts = self._starts(lanes, flat, values) if together else list(range(len(lanes)))
        heads = lanes[starts]
        ends = [*starts[1:], len(lanes)]
        for begin, end, head, address in zip(starts, ends, heads.tolist(), flat[heads].tolist(), strict=True):
            rank, offset = self.resolve(bundle, head, address)
            yield Origin(self.site, bundle, head), rank, offset, lanes[begin:end]

    @staticmethod
    def _starts(lanes: NDArray[np.int64], flat: NDArray[Any], values: NDArray[Any] | None) -> list[int]:
        """The position of each warp's first lane if all lanes of the warps agree; else of every lane."""
        count = len(lanes)
        given = [flat] if values is None else [flat, values]
        if count == WARP_SIZE == len(flat):
            # One whole warp.
            alike = all(each.tobytes() == each[:1].tobytes() * count for each in given)
            return [0] if alike else list(range(count))
        if not count % WARP_SIZE and not (lanes[_LAST::WARP_SIZE] - lanes[::WARP_SIZE] - _LAST).any():
            # Whole warps, mostly.
            for each in given:
                rows = each[lanes].reshape(-1, WARP_SIZE)
                if not all_true(rows == rows[:, :1]):
                    return list(range(count))
            return list(range(0, count, WARP_SIZE))
        warps = (lanes // WARP_SIZE).tolist()
        starts = [0, *(at for at in range(1, count) if warps[at] != warps[at - 1])]
        if len(starts) < count:
            sizes = np.diff([*starts, count])
            for each in given:
                own = each[lanes]
                if not all_true(own == np.repeat(own[starts], sizes)):
                    return list(range(count))
        return starts

    def resolve(self, bundle: Bundle, lane: int, address: int) -> tuple[int, int]:
        """The CTA's rank and the offset in its shared memory that a lane's address names."""
        low = address & ((1 << WINDOW_BITS) - 1) if self.space == "generic" else address
        size = bundle.cohort.size
        rank, offset = (low >> RANK_SHIFT, low & _OFFSET_MASK) if size > 1 else (0, low)
        kind: type[EmulatorError] = AddressError
        if self.space == "generic" and address >> WINDOW_BITS != SHARED_WINDOW >> WINDOW_BITS:
            why = "the generic address lies outside shared memory"
        elif self.space != "generic" and is_generic(address):
            why = GENERIC
        elif rank >= size:
            why = f"it names CTA {rank} of a cluster of {size}"
        elif offset + self.size > bundle.program.shared_bytes:
            why = f"it {outside(bundle, offset, self.size)}"
        elif offset % self.size:
            kind, why = AlignmentError, f"it is not a multiple of {self.size}"
        elif rank == bundle.rank:
            return rank, offset
        elif not self.remote_allowed:
            why = f"it lies in CTA {rank}: {self.remote}"
        elif not bundle.cohort.alive(rank)[lane // WARP_SIZE]:
            kind, why = ExitedCTAError, f"CTA {rank} of the cluster has ended"
        else:
            return rank, offset
        name = self.site.instruction.name
        raise self.site.error(kind, f"{name} at 0x{address:x}: {why}", bundle, lane, address=address)
