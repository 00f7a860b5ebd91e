"""What tensor copies should do, element by element: for the expressions of PTX cases.

Written from the PTX ISA's sections on tensors and from cuTensorMapEncodeTiled, apart from the emulator: every
element is placed by a formula of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

PATTERN = 0xA5
"""What the cases fill shared memory with before anything lands."""

# No document names the NaN that fills; these bits are an H200's.
_NAN = {n: int.from_bytes(b"\xf7\x7f" * n, "little") for n in (1, 2, 4)}


@dataclass
class MapArgument:
    """A tensor map among a case's arguments: which array it is of, and the fields of its encoding."""

    of: str
    array: np.ndarray
    dtype: str
    dims: list[int]
    strides: list[int]
    box: list[int]
    element_strides: list[int]
    swizzle: str = "none"
    oob_fill: str = "zeros"
    l2_promotion: str = "none"

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return self.array.dtype.itemsize

    @property
    def n_bytes(self) -> int:
        """Bytes that land, outside of the tensor or not."""
        counts = [len(range(0, b, s)) for b, s in zip(self.box[1:], self.element_strides[1:], strict=True)]
        return int(np.prod([self.box[0], *counts])) * self.item_bytes

    def elements(
        self, coords: tuple[int, ...], at: int, *, whole_chunks: bool = False
    ) -> Iterator[tuple[int | None, int]]:
        """Each element of a box: its byte in the array (None outside of the tensor) and in shared memory.

        With `whole_chunks` the tensor's rows end at the next multiple of 16 bytes.
        """
        dims = list(self.dims)
        while whole_chunks and dims[0] * self.item_bytes % 16:
            dims[0] += 1
        steps = [1, *self.element_strides[1:]]
        ranges = [range(0, b, s) for b, s in zip(self.box, steps, strict=True)]
        span = {"none": 0, "32B": 32, "64B": 64, "128B": 128}[self.swizzle]
        pitch = span or self.box[0] * self.item_bytes
        for row, outer in enumerate(product(*ranges[:0:-1])):
            for x in ranges[0]:
                place = [c + o for c, o in zip(coords, (x, *outer[::-1]), strict=True)]
                inside = all(0 <= p < d for p, d in zip(place, dims, strict=True))
                source = place[0] * self.item_bytes + sum(
                    p * s for p, s in zip(place[1:], self.strides, strict=True)
                )
                target = at + row * pitch + x * self.item_bytes
                if span:
                    # The 16-byte chunk's number within the span, xor the number of the 128-byte line.
                    chunk, line = target // 16 % (span // 16), target // 128 % (span // 16)
                    target += ((chunk ^ line) - chunk) * 16
                yield (source if inside else None), target


def landed(size: int, *loads: tuple[MapArgument, tuple[int, ...], int]) -> np.ndarray:
    """`size` bytes of shared memory after loads of (map, coordinates, offset), over the pattern."""
    memory = np.full(size, PATTERN, dtype=np.uint8)
    for tensor_map, coords, at in loads:
        raw = tensor_map.array.reshape(-1).view(np.uint8)
        n = tensor_map.item_bytes
        fill = _NAN[n // 2] if tensor_map.oob_fill == "nan" else 0
        outside = np.frombuffer(fill.to_bytes(n, "little"), dtype=np.uint8)
        for source, target in tensor_map.elements(coords, at):
            element = outside if source is None else raw[source : source + n]
            if tensor_map.dtype == "tf32" and source is not None:
                element = rounded_to_tf32(element.view(np.uint32)).view(np.uint8)
            memory[target : target + n] = element
    return memory


def stored(memory: np.ndarray, *stores: tuple[MapArgument, tuple[int, ...], int], combine: Any = None) -> Any:
    """The array of the stores' map after stores of (map, coordinates, offset) from these bytes.

    `combine(old, new)` says what a reduction makes of an element; by default the new one is taken. Stores
    write whole chunks of 16 bytes, as an H200 does, into the padding where a row ends inside of one.
    """
    array = stores[0][0].array.copy()
    raw = array.reshape(-1).view(np.uint8)
    for tensor_map, coords, at in stores:
        n, kind = tensor_map.item_bytes, tensor_map.array.dtype
        for source, target in tensor_map.elements(coords, at, whole_chunks=True):
            if source is None:
                continue
            new = memory.reshape(-1).view(np.uint8)[target : target + n].view(kind)
            old = raw[source : source + n].view(kind).copy()
            result = new if combine is None else np.asarray(combine(old, new)).astype(kind)
            raw[source : source + n] = result.view(np.uint8)
    return array


def rounded_to_tf32(bits: np.ndarray) -> np.ndarray:
    """f32 bits with the 13 last bits of the significand rounded away, ties to even; NaN is one NaN."""
    value = bits.view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(value)[1], -125)
        unit = np.ldexp(1.0, exponent - 11)
        result = (np.rint(value / unit) * unit).astype(np.float32)
    result = np.where(np.isinf(value), value, result).astype(np.float32)
    return np.where(np.isnan(value), np.uint32(0x7FFFE000), result.view(np.uint32)).astype(np.uint32)


def flushed(values: np.ndarray) -> np.ndarray:
    """f32 values with subnormals replaced by zeros of their sign."""
    tiny = np.abs(values) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.float32(0), values), values).astype(np.float32)


def number_min(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one, -0 below +0; of a number and a NaN the number."""
    return np.where(np.isnan(x), y, np.where(np.isnan(y) | (_order(x) <= _order(y)), x, y))


def number_max(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one, -0 below +0; of a number and a NaN the number."""
    return np.where(np.isnan(x), y, np.where(np.isnan(y) | (_order(x) >= _order(y)), x, y))


def _order(values: np.ndarray) -> np.ndarray:
    """A number for each float that grows with it and tells zeros apart."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, -1 - (bits & (2 ** (8 * values.dtype.itemsize - 1) - 1)), bits)


HELPERS = {
    "number_min": number_min,
    "number_max": number_max,
    "landed": landed,
    "stored": stored,
    "flushed": flushed,
}
