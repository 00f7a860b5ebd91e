"""The TMA loads whose shared memory was dumped on an H200: every swizzle, major and width, and what is odd.

A case is a tensor, a tile in shared memory and which tile of the tensor is loaded. The library makes the
tensor map and says where each instruction starts; `predicted` says what must be in shared memory afterwards,
byte by byte, from the PTX ISA's swizzle and the case's own layout, without the library's help.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse.dtypes import dtype
from cutecourse.kernels import LaunchSpec, tma_dump
from cutecourse.layout import Layout, Swizzle, make_composed_layout, size
from cutecourse.tma import TmaTrace, tma_coords, trace_tma_atom
from tools.cases.element_arrays import array_type
from tools.paths import RECORDED_TARGET, ROOT

RECORDING = ROOT / "tests" / "tma" / "recordings" / f"{RECORDED_TARGET}.json"

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
"""How many bytes lie side by side in shared memory before the next row of a canonical tile starts."""

BASES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
WIDTHS = {8: "u8", 16: "f16", 32: "f32", 64: "f64"}


@dataclass(frozen=True)
class TmaCase:
    """One tile of one tensor: all modes flat but those of the layout in shared memory.

    tile       which tile, one coordinate for each mode, in tiles.
    multicast  the tile is loaded in that many slices, all of them by the one CTA.
    """

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    smem: Layout
    swizzle: str
    tiler: tuple[int, ...]
    dtype: str
    tile: tuple[int, ...]
    multicast: int = 1

    @property
    def slayout(self) -> Any:
        """The layout in shared memory with its swizzle, as CuTe takes it."""
        if self.swizzle == "none":
            return self.smem
        return make_composed_layout(Swizzle(BASES[self.swizzle], 4, 3), 0, self.smem)

    @property
    def trace(self) -> TmaTrace:
        """How the library makes the tensor map."""
        gtensor = Layout(self.shape, self.stride)
        return trace_tma_atom(gtensor, self.slayout, self.tiler, self.dtype, self.multicast)

    @property
    def smem_bytes(self) -> int:
        """Bytes of the tile in shared memory."""
        return size(self.smem) * dtype(self.dtype).bits // 8

    @property
    def origin(self) -> tuple[int, ...]:
        """The tile's first element in the tensor."""
        return tuple(at * extent for at, extent in zip(self.tile, self.tiler, strict=True))

    def loads(self) -> list[tuple[int, tuple[int, ...]]]:
        """Every instruction of the tile: its offset in shared memory in bytes, and its coordinates."""
        return [
            (instruction.smem_offset_bytes, instruction.coords)
            for instruction in tma_coords(self.trace, self.tile)
        ]

    def spec(self) -> LaunchSpec:
        """The launch that loads the tile and dumps shared memory."""
        trace = self.trace
        launch: LaunchSpec = tma_dump.dump_loads(
            trace.encoding, self.shape, self.stride, self.loads(), self.smem_bytes
        )
        return launch

    def source(self) -> np.ndarray:
        """The tensor's elements: small numbers as bit patterns, neighbours different in every byte order."""
        kind = array_type(dtype(self.dtype))
        numbers = np.arange(1, int(np.prod(self.shape)) + 1, dtype=np.uint64)
        if kind.itemsize == 1:
            numbers = numbers % 251 + 1
        return numbers.astype(f"u{kind.itemsize}").reshape(self.shape).view(kind)

    def arguments(self) -> dict[str, np.ndarray]:
        """What `spec` is run with."""
        return {
            "source": self.source(),
            "out": np.zeros(self.smem_bytes, np.uint8),
            "arrived": np.zeros(1, np.uint32),
        }

    def predicted(self) -> np.ndarray:
        """Shared memory after the load: each element of the tile at its swizzled place, zeros outside.

        Source: PTX ISA 9.0, Tensors, Swizzling Modes: of an address's bits, those from 7 on are added without
        carry to those from 4 on, one, two or three of them.
        """
        source = self.source()
        itemsize = source.itemsize
        flat = np.zeros(self.smem_bytes, np.uint8)
        for at in itertools.product(*map(range, self.tiler)):
            offset = self.smem(at if len(at) > 1 else at[0]) * itemsize
            offset ^= (offset >> 7 & (1 << BASES[self.swizzle]) - 1) << 4
            place = tuple(start + step for start, step in zip(self.origin, at, strict=True))
            if all(0 <= here < extent for here, extent in zip(place, self.shape, strict=True)):
                flat[offset : offset + itemsize] = np.frombuffer(source[place].tobytes(), np.uint8)
        return flat


def _canonical(name: str, major: str, swizzle: str, kind: str, **changes: Any) -> TmaCase:
    """Atoms of eight rows of the swizzle's span, four or two of them along M and two along K."""
    per_row = SPANS[swizzle] // (dtype(kind).bits // 8)
    if major == "K":
        tiler = (32, 2 * per_row)
        smem = Layout(((8, 4), (per_row, 2)), ((per_row, 8 * per_row), (1, 32 * per_row)))
    else:
        tiler = (2 * per_row, 16)
        smem = Layout(((per_row, 2), (8, 2)), ((1, 8 * per_row), (per_row, 16 * per_row)))
    shape = changes.pop("shape", (2 * tiler[0], 3 * tiler[1]))
    stride = (_pitch(shape[1], kind), 1) if major == "K" else (1, _pitch(shape[0], kind))
    return TmaCase(name, shape, stride, smem, swizzle, tiler, kind, changes.pop("tile", (1, 2)), **changes)


def _pitch(extent: int, kind: str) -> int:
    """The distance of two rows in elements: the extent, up to the next multiple of 16 bytes."""
    unit = 16 // (dtype(kind).bits // 8)
    return -(-extent // unit) * unit


def _sweep() -> list[TmaCase]:
    return [
        _canonical(f"{major}-{swizzle}-{bits}", major, swizzle, kind)
        for major in ("K", "MN")
        for swizzle in SPANS
        for bits, kind in WIDTHS.items()
    ]


def _ragged() -> list[TmaCase]:
    """Tiles that reach over the tensor's end in both modes, and one that lies wholly behind it."""
    cases = []
    for swizzle, (bits, kind) in zip(SPANS, WIDTHS.items(), strict=True):
        for major in ("K", "MN"):
            whole = _canonical("", major, swizzle, kind)
            shape = (2 * whole.tiler[0] - 5, 3 * whole.tiler[1] - 3)
            cases.append(_canonical(f"ragged-{major}-{swizzle}-{bits}", major, swizzle, kind, shape=shape))
    cases.append(_canonical("outside-K-128B-16", "K", "128B", "f16", tile=(1, 3)))
    cases.append(_canonical("outside-MN-64B-32", "MN", "64B", "f32", tile=(2, 1)))
    return cases


def _multicast() -> list[TmaCase]:
    return [
        _canonical(f"slices{slices}-{major}-{swizzle}-16", major, swizzle, "f16", multicast=slices)
        for slices, major, swizzle in (
            (2, "K", "128B"),
            (4, "K", "64B"),
            (8, "K", "32B"),
            (2, "MN", "128B"),
            (4, "MN", "128B"),
            (2, "MN", "64B"),
        )
    ]


def _ranks() -> list[TmaCase]:
    return [
        TmaCase("rank1", (200,), (1,), Layout(64, 1), "none", (64,), "f32", (2,)),
        TmaCase("rank1-outside", (200,), (1,), Layout(64, 1), "none", (64,), "f32", (3,)),
        TmaCase(
            "rank3",
            (24, 96, 3),
            (96, 1, 24 * 96),
            Layout((8, 64, 2), (64, 1, 512)),
            "128B",
            (8, 64, 2),
            "f16",
            (1, 1, 1),
        ),
        TmaCase(
            "rank4",
            (16, 6, 5, 3),
            (1, 24, 144, 768),
            Layout((16, 4, 2, 2), (1, 16, 64, 128)),
            "32B",
            (16, 4, 2, 2),
            "f16",
            (0, 1, 2, 1),
        ),
        TmaCase(
            "rank5",
            (32, 3, 4, 3, 2),
            (1, 36, 108, 432, 1296),
            Layout((16, 2, 2, 2, 2), (1, 16, 32, 64, 128)),
            "64B",
            (16, 2, 2, 2, 2),
            "f32",
            (1, 1, 1, 1, 0),
        ),
        TmaCase(
            "rank5-permuted",
            (2, 32, 3, 4, 3),
            (1920, 1, 48, 144, 640),
            Layout((2, 32, 2, 2, 1), (128, 1, 32, 64, 256)),
            "none",
            (2, 32, 2, 2, 1),
            "u8",
            (0, 0, 1, 1, 2),
        ),
    ]


CASES = {case.name: case for case in (*_sweep(), *_ragged(), *_multicast(), *_ranks())}
