"""The addresses of every load, store and atomic operation of a launch, lane by lane."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AccessLog", "WarpAccesses"]

_LANES = 32


@dataclass(frozen=True, eq=False, slots=True)
class WarpAccesses:
    """One instruction's accesses to one memory, executed once by each of some warps.

    line       the line of the PTX text.
    name       the instruction's full name.
    space      "global", "shared", "local", "const", "param", or "remote": shared memory of another CTA.
    kind       "load", "store" or "atomic".
    warp       the warps' number in their CTA.
    blocks     (n, 3): the CTA of each warp.
    addresses  (n, 32): the byte at which each lane's access begins. Shared memory is counted from its start.
    n_bytes    (n, 32): how many bytes each lane accesses; 0 for a lane that takes no part.
    passes     how an access of shared memory falls into passes over the banks: "lanes", by the lanes' words;
               "rows", by rows of 16 bytes; "copy" or "cached copy", as the data of a copy between global and
               shared memory comes, past L1 or through it. Both sides of a copy say so.
    sources    (n, 32): of a copy's store to shared memory, where in global memory the bytes come from; else
               None.
    """

    line: int
    name: str
    space: str
    kind: str
    warp: int
    blocks: NDArray[np.int64]
    addresses: NDArray[np.int64]
    n_bytes: NDArray[np.uint8]
    passes: str = "lanes"
    sources: NDArray[np.int64] | None = None


@dataclass(eq=False)
class AccessLog:
    """Collects the accesses of one launch, in the order in which the launch makes them."""

    accesses: list[WarpAccesses] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.accesses)

    def __iter__(self) -> Iterator[WarpAccesses]:
        return iter(self.accesses)

    def add(
        self,
        *,
        line: int,
        name: str,
        space: str,
        kind: str,
        warp: int,
        blocks: NDArray[np.int64],
        addresses: NDArray[Any],
        n_bytes: NDArray[Any],
        passes: str = "lanes",
        sources: NDArray[Any] | None = None,
    ) -> None:
        """Append what the lanes of some warps did. Warps without an active lane are left out."""
        sizes = np.asarray(n_bytes, dtype=np.uint8).reshape(-1, _LANES)
        places = np.asarray(addresses).reshape(-1, _LANES)
        some = sizes.any(axis=1)
        if not some.any():
            return
        origins = None if sources is None else np.asarray(sources).reshape(-1, _LANES)[some].astype(np.int64)
        kept = WarpAccesses(
            line,
            name,
            space,
            kind,
            warp,
            blocks[some],
            places[some].astype(np.int64),
            sizes[some].copy(),
            passes,
            origins,
        )
        self.accesses.append(kept)
