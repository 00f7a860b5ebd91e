"""The scale factors of mma.sync with .block_scale: which lane gives which one.

Each lane has a register with up to four scale factors, and two selectors say which ones count. With groupID
= %laneid >> 2, the factors of row groupID of A come from lane 4 * groupID + 2 * thread-id-a and those of row
groupID + 8 from the lane behind it; those of column groupID of B come from lane 4 * groupID + thread-id-b.
byte-id names the first byte. The next blocks along K have the next bytes.

Source: PTX ISA 9.0, Block Scaling for mma.sync (#warp-level-block-scaling); CUTLASS 4.2.0,
        include/cute/atom/mma_traits_sm120.hpp, SFALayout and SFBLayout, which have thread-id 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand

__all__ = ["Scaling", "take_scaling"]

_BLOCKS: dict[str, dict[str | None, tuple[int, tuple[str, ...]]]] = {
    "mxf8f6f4": {None: (1, ("ue8m0",)), "scale_vec::1X": (1, ("ue8m0",))},
    "mxf4": {None: (2, ("ue8m0",)), "scale_vec::2X": (2, ("ue8m0",))},
    "mxf4nvf4": {"scale_vec::2X": (2, ("ue8m0",)), "scale_vec::4X": (4, ("ue4m3", "ue8m0"))},
}
"""For each kind and modifier: the blocks along K, and the types of the scale factors."""
_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
_THREADS = {"a": 2, "b": 4}
_GROUPS = np.arange(8)


class Scaling:
    """The scale factors of one mma.sync: their type, and where they come from."""

    def __init__(self, site: Site, kind: str, blocks: int) -> None:
        """`kind` is the type of the scale factors, and `blocks` their number for each row."""
        self.site = site
        self.kind = kind
        self.blocks = blocks
        self.data = {"a": site.source(4, "u32"), "b": site.source(6, "u32")}
        self.selectors = {"a": site.sources(5, "u16"), "b": site.sources(7, "u16")}
        for name, slots in self.selectors.items():
            if len(slots) != 2:
                site.invalid(f"the selectors of scale-{name}-data are {{byte-id-{name}, thread-id-{name}}}")

    def factors(self, bundle: Bundle, warps: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The codes of A, shape (warps, 16, blocks), and of B, shape (warps, 8, blocks)."""
        data, (byte, thread) = self._selected(bundle, warps, "a")
        above = 4 * _GROUPS + 2 * thread[:, None]
        of_a = self._bytes(data, np.concatenate([above, above + 1], axis=1), byte)
        data, (byte, thread) = self._selected(bundle, warps, "b")
        return of_a, self._bytes(data, 4 * _GROUPS + thread[:, None], byte)

    def _bytes(self, data: NDArray[Any], lanes: NDArray[Any], byte: NDArray[Any]) -> NDArray[np.uint8]:
        """The bytes of some lanes of each warp, from the warp's first byte on."""
        words = np.take_along_axis(data, lanes, axis=1)[..., None]
        places = byte[:, None, None] + np.arange(self.blocks)
        return (words >> (8 * places).astype(np.uint32)).astype(np.uint8)

    def _selected(self, bundle: Bundle, warps: Any, name: str) -> tuple[NDArray[Any], list[NDArray[Any]]]:
        """The data of A or B, and byte and thread for each warp. Errors: InvalidOperand."""
        chosen = []
        allowed = {"byte": range(0, 4, self.blocks), "thread": range(_THREADS[name])}
        for slot, (what, known) in zip(self.selectors[name], allowed.items(), strict=True):
            every = bundle.rows["u16"][slot][warps].astype(np.int64)
            wrong = (every != every[:, :1]) | ~np.isin(every, known)
            if wrong.any():
                warp, lane = np.argwhere(wrong)[0]
                number = np.arange(bundle.n)[warps][warp]
                raise self.site.error(
                    InvalidOperand,
                    f"{what}-id-{name} is {every[warp, lane]}; with {self.blocks} scale factors for each row"
                    f" it is {' or '.join(map(str, known))}, the same in all lanes",
                    bundle,
                    int(number) * bundle.full.shape[1] + int(lane),
                )
            chosen.append(every[:, 0])
        return bundle.rows["u32"][self.data[name]][warps], chosen


def take_scaling(site: Site, kind: str) -> Scaling | None:
    """Take .block_scale, the blocks and the factors' type; None for a kind without scale factors.

    Errors: UnsupportedInstruction, InvalidOperand.
    """
    known = _BLOCKS.get(kind)
    if site.has("block_scale") != (known is not None):
        asked = f".kind::{kind}" if kind else "an instruction without .kind"
        site.unsupported(f"{asked} {'needs' if known else 'has no'} .block_scale")
    if known is None:
        return None
    vectors = site.one_of(*_VECTORS)
    if vectors not in known:
        names = " or ".join(f".{name}" for name in known if name)
        site.unsupported(f".kind::{kind} with .block_scale takes {names}")
    blocks, types = known[vectors]
    found = site.one_of("ue8m0", "ue4m3")
    if found not in types:
        names = " or ".join(f".{name}" for name in types)
        site.unsupported(f".kind::{kind} with {blocks} scale factors for each row takes {names}")
    return Scaling(site, found, blocks)
