"""The CTAs of a cluster that an instruction names by their ranks, and whether they still run."""

from __future__ import annotations

from functools import cache

from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import ExitedCTAError, InvalidOperand, MulticastError

__all__ = ["check_alive", "destination_ranks"]


def destination_ranks(origin: Origin, mask: int, what: str) -> tuple[int, ...]:
    """The CTAs that a multicast mask names, checked against the cluster; `what` lies there.

    Errors: InvalidOperand, MulticastError, ExitedCTAError.
    """
    size = origin.bundle.cohort.size
    if mask == 0:
        raise origin.error(InvalidOperand, "the multicast mask is 0: it names no CTA")
    ranks = _ranks_in(mask)
    for rank in ranks:
        if rank >= size:
            raise origin.error(
                MulticastError, f"the multicast mask 0x{mask:04x} names CTA {rank} of a cluster of {size}"
            )
        check_alive(origin, rank, what)
    return ranks


@cache
def _ranks_in(mask: int) -> tuple[int, ...]:
    """The ranks whose bits a mask of 16 has."""
    return tuple(rank for rank in range(16) if mask >> rank & 1)


def check_alive(origin: Origin, rank: int, what: str) -> None:
    """Refuse shared memory of another block that has ended. Errors: ExitedCTAError."""
    bundle = origin.bundle
    if rank != bundle.rank and not bundle.cohort.alive(rank)[origin.cluster]:
        raise origin.error(
            ExitedCTAError,
            f"{what} lies in CTA {rank} of the cluster, which has ended. That CTA must wait at the cluster's"
            " barrier, or for an mbarrier, until no other CTA uses its memory.",
        )
