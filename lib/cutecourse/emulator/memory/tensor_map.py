"""Tensor maps: they describe the tensor in global memory, and the box of it that a tensor copy moves.

`TensorMap.tiled` takes the arguments of cuTensorMapEncodeTiled, with its names and its rules. A kernel gets a
map as a parameter of 128 bytes. The emulator puts a token of its own there: the driver's 128 bytes are opaque
and are not imitated. The kernel may copy the token, for instance to global memory, but cannot do anything
else with it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import le
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DType, DTypeError, from_numpy
from cutecourse.dtypes import dtype as dtype_by_name
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.errors import LaunchError
from cutecourse.emulator.memory.host_arrays import host_arrays
from cutecourse.emulator.memory.swizzle import SPANS, chunk_numbers

__all__ = [
    "MOST_DIMENSIONS",
    "TOKEN_BYTES",
    "BoundTensorMap",
    "TensorMap",
    "TensorMapError",
    "Window",
    "covered",
]

TOKEN_BYTES = 128
"""Bytes of a tensor map, in the driver and here."""

MOST_DIMENSIONS = 5
"""Dimensions of a tensor map at most."""

_MAGIC = b"cutecourse's tensor map".ljust(32, b"\0")
_ELEMENTS = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2,
    "f32_ftz": 4, "tf32": 4, "tf32_ftz": 4, "16u4_align8b": 1, "16u4_align16b": 16, "16u6_align16b": 16,
}  # fmt: skip
"""The element types that a map knows, and their bytes in shared memory; of packed ones, those of several."""
_PACKED = {"16u4_align8b": 2, "16u4_align16b": 16, "16u6_align16b": 16}
"""The types whose elements share bytes, and how many do."""
_DENSE = {"16u4_align16b": 8, "16u6_align16b": 12}
"""The bytes of 16 elements in global memory, for types that leave a gap behind them in shared memory."""
_PADDED_INNER = 128
"""The extent of a box of such a type along the innermost dimension, and a divisor of the tensor's."""
_PADDED_ALIGN = 32
"""The alignment of their tensors' addresses and strides, in bytes."""
_SAME_BITS = {
    "s8": "u8", "b8": "u8", "e4m3": "u8", "e5m2": "u8", "s16": "u16", "b16": "u16", "b32": "u32", "b64": "u64"
}  # fmt: skip
"""Types that travel as an unsigned type of their size, because a map has no name for them."""
# The bits with which an H200 fills if the map asks for NaN.
_NANS = {
    "f16": 0x7FF7, "bf16": 0x7FF7, "f32": 0x7FF77FF7, "f64": 0x7FF77FF77FF77FF7, "f32_ftz": 0x7FF77FF7,
    "tf32": 0x7FF77FF7, "tf32_ftz": 0x7FF77FF7,
}  # fmt: skip
_MAX_DIM = 1 << 32
_MAX_STRIDE = 1 << 40
_MAX_BOX = 256
_MAX_ELEMENT_STRIDE = 8
_MAX_BOX_BYTES = 228 << 10


class TensorMapError(LaunchError):
    """A tensor map breaks one of cuTensorMapEncodeTiled's rules; `rule` is the rule's short name."""

    def __init__(self, problem: str, *, rule: str) -> None:
        self.rule = rule
        super().__init__(problem)


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor in an array's memory, and the box of it that one copy moves. Made by `TensorMap.tiled`.

    This is an argument of `launch`, which turns it into a `BoundTensorMap`. A `kernels.TensorMapSpec` is a
    parameter of a launch specification: it asks the runtime to make one of these.

    dims             extents of the tensor in elements, innermost first; packed elements in bytes
    strides          of dimensions 1 and up, in bytes; the innermost dimension is dense
    box              how far a copy reaches along each dimension, as dims
    element_strides  steps along each dimension; the innermost one's is ignored
    """

    array: NDArray[Any] = field(repr=False)
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    oob_fill: str
    interleave: str
    l2_promotion: str
    dtype: str
    offset: int = 0
    name: str | None = None

    @classmethod
    def tiled(
        cls,
        array: NDArray[Any],
        *,
        dims: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        swizzle: str = "none",
        oob_fill: str = "zeros",
        interleave: str = "none",
        l2_promotion: str = "none",
        dtype: DType | str | None = None,
        offset: int = 0,
        name: str | None = None,
    ) -> TensorMap:
        """Describe a tensor in an array's memory, as cuTensorMapEncodeTiled does.

        Shapes:     dims, box and element_strides have one number for each dimension, innermost first; strides
                    one less, since elements of the innermost dimension lie side by side.
        Units:      dims, box, element_strides in elements; strides and offset (where in the array the tensor
                    starts) in bytes.
        Arguments:  swizzle "none", "32B", "64B" or "128B"; oob_fill "zeros" or "nan"; l2_promotion "none",
                    "64B", "128B" or "256B", which changes nothing here; dtype one of the map's types
                    (default: the array's; "f32_ftz", "tf32", "tf32_ftz" need to be named, and so do
                    "16u4_align8b", whose bytes hold two elements of 4 bits each, "16u4_align16b" and
                    "16u6_align16b", which spread 16 elements of 4 or 6 bits over 16 bytes of shared memory);
                    name for messages and events (default: the kernel's parameter).
        Errors:     TensorMapError, with `rule` one of: array, dtype, rank, counts, address_alignment,
                    dim_range, stride_alignment, stride_range, box_range, box_inner_bytes, box_bytes,
                    element_stride_range, swizzle, swizzle_span, oob_fill, l2_promotion, interleave.
        Simplified: interleaved layouts are not supported, nor copies to global memory with a map that leaves
                    gaps; the mbarrier counts the bytes without these. A tensor that does not fit into the
                    array is found when a copy reaches outside, as with the driver.
        Source:     CUDA Driver API, cuTensorMapEncodeTiled. The rule box_bytes is not in its documentation:
                    an H200's driver refuses larger boxes.

        >>> a = np.zeros((64, 128), dtype=np.float16)
        >>> TensorMap.tiled(a, dims=(128, 64), strides=(256,), box=(64, 8), swizzle="128B").box_bytes
        1024
        """
        array = host_arrays(array)
        if not isinstance(array, np.ndarray):
            raise TensorMapError(
                f"a tensor map needs a NumPy array, not a {type(array).__name__}", rule="array"
            )
        steps = (1,) * len(box) if element_strides is None else tuple(element_strides)
        element = _element(array, dtype)
        made = cls(
            array,
            _in_bytes("dims", _integers("dims", dims), element),
            _integers("strides", strides),
            _in_bytes("box", _integers("box", box), element),
            _integers("element_strides", steps),
            swizzle,
            oob_fill,
            interleave,
            l2_promotion,
            element,
            _integers("offset", [offset])[0],
            name,
        )
        broken = next(made._broken_rules(), None)
        if broken is not None:
            rule, problem = broken
            raise TensorMapError(problem, rule=rule)
        return made

    # --- what follows from the fields -----------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Dimensions of the tensor, 1 to 5."""
        return len(self.dims)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return _ELEMENTS[self.dtype]

    @property
    def is_padded(self) -> bool:
        """True if each 16 elements leave a gap behind them in shared memory."""
        return self.dtype in _DENSE

    @property
    def align_bytes(self) -> int:
        """The bytes that divide the tensor's address and its strides."""
        return _PADDED_ALIGN if self.is_padded else CHUNK

    @property
    def packed(self) -> int:
        """Elements that share bytes: coordinates along the innermost dimension count them."""
        return _PACKED.get(self.dtype, 1)

    @property
    def dense_bytes(self) -> int:
        """Bytes of global memory that one element takes, or that those take which share bytes."""
        return _DENSE.get(self.dtype, self.item_bytes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves along each dimension: the box over the element stride, rounded up."""
        outer = zip(self.box[1:], self.element_strides[1:], strict=True)
        return (self.box[0], *(-(-extent // step) for extent, step in outer))

    @cached_property
    def box_bytes(self) -> int:
        """Bytes that a copy moves, which is what the mbarrier of a load counts."""
        return math.prod(self.counts) * self.dense_bytes

    @cached_property
    def inner_bytes(self) -> int:
        """Bytes of the box along the innermost dimension, a row of it."""
        return self.box[0] * self.item_bytes

    @cached_property
    def pitch_bytes(self) -> int:
        """Bytes from one row of the box to the next in shared memory: a swizzled row fills the whole span."""
        return SPANS[self.swizzle] or self.inner_bytes

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a copy's box occupies, from its address on."""
        return math.prod(self.counts[1:]) * self.pitch_bytes

    @property
    def fill(self) -> int:
        """The bits of an element that lies outside of the tensor."""
        return _NANS[self.dtype] if self.oob_fill == "nan" else 0

    def describe(self) -> str:
        """The map in a few words, for messages."""
        name = f"{self.name}: " if self.name else ""
        inside = f" in {'groups' if self.is_padded else 'bytes'} of {self.packed} elements"
        inside = inside if self.packed > 1 else ""
        return f"{name}{self.dtype}{inside}, dims {self.dims}, box {self.box}"

    # --- the rules ------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """The first broken rule's problem; None if the map keeps all rules."""
        return next((problem for _, problem in self._broken_rules()), None)

    def _broken_rules(self) -> Iterator[tuple[str, str]]:
        """The rules that the fields break, each with the problem; only the first one is sure to be right."""
        rank = len(self.dims)
        if not 1 <= rank <= MOST_DIMENSIONS:
            yield "rank", f"a tensor map has 1 to {MOST_DIMENSIONS} dimensions, but dims names {rank}"
        for what, given, wanted in (
            ("strides", self.strides, rank - 1),
            ("box", self.box, rank),
            ("element_strides", self.element_strides, rank),
        ):
            if len(given) != wanted:
                yield "counts", f"{what} has {len(given)} numbers, but needs {wanted} for {rank} dimensions"
        if self.interleave in {"16B", "32B"}:
            yield "interleave", "interleaved layouts are not supported: take 'none'"
        if self.interleave != "none":
            yield "interleave", f"interleave is 'none', '16B' or '32B', not {self.interleave!r}"
        if self.swizzle not in SPANS:
            yield "swizzle", f"swizzle is one of {', '.join(map(repr, SPANS))}, not {self.swizzle!r}"
        if self.l2_promotion not in {"none", "64B", "128B", "256B"}:
            yield (
                "l2_promotion",
                f"l2_promotion is 'none', '64B', '128B' or '256B', not {self.l2_promotion!r}",
            )
        if self.oob_fill not in {"zeros", "nan"}:
            yield "oob_fill", f"oob_fill is 'zeros' or 'nan', not {self.oob_fill!r}"
        if self.oob_fill == "nan" and self.dtype not in _NANS:
            yield (
                "oob_fill",
                f"oob_fill 'nan' is for floating-point types, but the map's type is {self.dtype}",
            )
        align = self.align_bytes
        if self.offset % align or self.offset < 0:
            problem = (
                f"the tensor starts {self.offset} bytes into the array;"
                f" it must start at a multiple of {align}"
            )
            yield "address_alignment", problem
        yield from _outside("dims", self.dims, _MAX_DIM, "dim_range")
        for axis, stride in enumerate(self.strides, 1):
            start = f"the stride of dimension {axis} is {stride} bytes"
            if stride % align:
                yield "stride_alignment", f"{start}; it must be a multiple of {align}"
            if not 0 <= stride < _MAX_STRIDE:
                yield "stride_range", f"{start}, but must be in 0..2^40-1"
        yield from _outside("box", self.box, _MAX_BOX, "box_range")
        yield from _outside(
            "element_strides", self.element_strides, _MAX_ELEMENT_STRIDE, "element_stride_range"
        )
        row, span = self.inner_bytes, SPANS[self.swizzle]
        if row % 16:
            start = f"the box's innermost row is {self.box[0]} elements of {self.item_bytes} bytes"
            yield "box_inner_bytes", f"{start} = {row} bytes; it must be a multiple of 16"
        if span and row > span:
            start = f"the box's innermost row has {row} bytes"
            yield "swizzle_span", f"{start}, more than the span of a swizzle of {self.swizzle}"
        if self.box_bytes > _MAX_BOX_BYTES:
            problem = f"the box has {self.box_bytes} bytes, but at most {_MAX_BOX_BYTES} are possible"
            yield "box_bytes", problem


def _integers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        given: tuple[Any, ...] = tuple(values)
    except TypeError:
        given = (values,)
    if not all(isinstance(v, numbers.Integral) for v in given):
        raise TensorMapError(f"{what} is a sequence of integers, not {values!r}", rule="counts")
    return tuple(int(v) for v in given)


def _in_bytes(what: str, numbers: tuple[int, ...], element: str) -> tuple[int, ...]:
    """Extents, of packed elements in bytes along the innermost dimension."""
    packed = _PACKED.get(element, 1)
    if not numbers or packed == 1:
        return numbers
    if element in _DENSE and (numbers[0] % _PADDED_INNER or (what == "box" and numbers[0] != _PADDED_INNER)):
        wanted = f"{_PADDED_INNER}" if what == "box" else f"a multiple of {_PADDED_INNER}"
        raise TensorMapError(
            f"{what}[0] is {numbers[0]} elements of {element}; it must be {wanted}",
            rule=f"{what.removesuffix('s')}_range",
        )
    if numbers[0] % packed or (what == "box" and numbers[0] > _MAX_BOX):
        most = f" and at most {_MAX_BOX}" * (what == "box")
        raise TensorMapError(
            f"{what}[0] is {numbers[0]} elements of {element}; it must be a multiple of {packed}{most}",
            rule=f"{what.removesuffix('s')}_range",
        )
    return (numbers[0] // packed, *numbers[1:])


def _outside(what: str, values: tuple[int, ...], most: int, rule: str) -> Iterator[tuple[str, str]]:
    for axis, value in enumerate(values):
        if not 1 <= value <= most:
            yield rule, f"{what}[{axis}] is {value}, but must be in 1..{most}"


def _element(array: NDArray[Any], given: DType | str | None) -> str:
    """The map's name for an element type."""
    try:
        kind = from_numpy(array.dtype) if given is None else given
        name = str(kind)
        if name not in _ELEMENTS:
            name = dtype_by_name(name).name
    except DTypeError as error:
        raise TensorMapError(str(error), rule="dtype") from None
    name = _SAME_BITS.get(name, name)
    if name not in _ELEMENTS:
        raise TensorMapError(
            f"a tensor map has no elements of type {name}; it has {', '.join(_ELEMENTS)}", rule="dtype"
        )
    return name


class Window(NamedTuple):
    """The part of a box that lies inside the tensor.

    first    index of the first element inside, along each dimension of the box
    stop     index past the last one; no larger than `first` if nothing is inside
    start    offset of the element at `first`, in bytes from the tensor's start
    """

    first: tuple[int, ...]
    stop: tuple[int, ...]
    start: int

    @property
    def empty(self) -> bool:
        """True if no element is inside."""
        return any(map(le, self.stop, self.first))


def covered(chunks: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """The numbers of different chunks, as a slice if they are neighbours; their order does not matter."""
    low, high = int(chunks.min()), int(chunks.max()) + 1
    return slice(low, high) if high - low == chunks.size else chunks


class BoundTensorMap:
    """A `TensorMap` in a launch: its array's address, and the token that the kernel gets in its place."""

    def __init__(self, tensor_map: TensorMap, allocation: Allocation, base: int, number: int) -> None:
        self.map = tensor_map
        self.allocation = allocation
        self.base = base - allocation.base
        """The offset of the tensor in the allocation, in bytes."""
        self.token = (_MAGIC + number.to_bytes(8, "little")).ljust(TOKEN_BYTES, b"\0")
        steps = [tensor_map.dense_bytes]
        steps += [
            stride * step
            for stride, step in zip(tensor_map.strides, tensor_map.element_strides[1:], strict=True)
        ]
        self._steps = tuple(steps)
        """Bytes from one element of the box to the next, along each dimension."""
        self._chunks: dict[int, NDArray[np.int64]] = {}
        self._covered: dict[int, NDArray[np.int64] | slice] = {}
        self.cuts: dict[int, Any] = {}
        """A cache of the parts of copies' boxes, by the box's offset in shared memory modulo 1024."""

    @classmethod
    def bind(
        cls, tensor_map: TensorMap, allocation: Allocation, address: int, number: int, name: str
    ) -> BoundTensorMap:
        """Give a map its array's address; errors: TensorMapError for an address that is no multiple of 16."""
        base = address + tensor_map.offset
        if base % tensor_map.align_bytes:
            raise TensorMapError(
                f"the tensor's address is 0x{base:x}; it must be a multiple of {tensor_map.align_bytes}",
                rule="address_alignment",
            )
        if tensor_map.name is None:
            tensor_map = replace(tensor_map, name=name)
        return cls(tensor_map, allocation, base, number)

    # --- global memory --------------------------------------------------------------------------------------

    def window(
        self, coords: Sequence[int], low: Sequence[int], high: Sequence[int], *, whole_chunks: bool = False
    ) -> Window:
        """The part of the box's elements low..high (along each dimension) that lies in the tensor.

        With `whole_chunks`, all elements of a 16-byte chunk that begins in the tensor count as inside.
        """
        dims = list(self.map.dims)
        if whole_chunks:
            unit = 16 // self.map.item_bytes
            dims[0] = -(-dims[0] // unit) * unit
        first, stop = [], []
        start = 0
        for axis, at in enumerate(coords):
            step = self.map.element_strides[axis] if axis else 1
            begin = max(low[axis], -(at // step))
            end = min(high[axis], -((at - dims[axis]) // step))
            first.append(begin)
            stop.append(end)
            start += (at + begin * step) * (self.map.strides[axis - 1] if axis else self.map.dense_bytes)
        return Window(tuple(first), tuple(stop), start)

    def reach(self, window: Window) -> int:
        """The byte past the end of a window, counted from the tensor's start."""
        last = sum(
            (stop - first - 1) * step
            for first, stop, step in zip(window.first, window.stop, self._steps, strict=True)
        )
        return window.start + last + self.map.dense_bytes

    def elements(self, window: Window, data: NDArray[np.uint8] | None = None) -> NDArray[Any]:
        """The elements of a window in global memory, outermost dimension first, as unsigned words.

        data    other bytes at the places of the allocation's.
        """
        return self._elements(window, self.allocation.data if data is None else data)

    def mark(self, window: Window) -> None:
        """Mark a window's elements as written, if writes are recorded."""
        if self.allocation.written is not None:
            marks = self._elements(window, self.allocation.written)
            marks[...] = np.iinfo(marks.dtype).max

    def _elements(self, window: Window, data: NDArray[np.uint8]) -> NDArray[Any]:
        shape = [stop - first for first, stop in zip(window.first, window.stop, strict=True)]
        return np.ndarray(
            shape[::-1],
            dtype=f"V{self.map.dense_bytes}" if self.map.is_padded else f"u{self.map.item_bytes}",
            buffer=data.data,
            offset=self.base + window.start,
            strides=self._steps[::-1],
        )

    @cached_property
    def sources(self) -> NDArray[np.int64]:
        """The 16-byte chunks of global memory that the whole box's chunks come from, counted from the first.

        Shapes:     as `chunks`.
        """
        found = np.arange(self.map.inner_bytes // CHUNK, dtype=np.int64)
        for count, step in zip(self.map.counts[1:], self._steps[1:], strict=True):
            outer = np.arange(count, dtype=np.int64) * (step // CHUNK)
            found = outer.reshape(-1, *[1] * found.ndim) + found
        return found

    def from_first(self, window: Window) -> NDArray[Any]:
        """Global memory in chunks, from a whole box's first chunk to its last."""
        return np.ndarray(
            (int(self.sources.max()) + 1,),
            CHUNK_TYPE,
            self.allocation.data.data,
            self.base + window.start,
            (CHUNK,),
        )

    @cached_property
    def overlaps(self) -> bool:
        """True if different elements of the tensor may share bytes."""
        extent = self.map.dims[0] * self.map.dense_bytes
        order = sorted(zip(self.map.strides, self.map.dims[1:], strict=True))
        for stride, dim in order:
            if stride < extent and dim > 1:
                return True
            extent = max(extent, stride * dim)
        return False

    # --- shared memory --------------------------------------------------------------------------------------

    def covered(self, offset: int) -> NDArray[np.int64] | slice:
        """The chunks of `chunks`, as a slice if they are neighbours; their order does not matter."""
        low = offset & 1023
        found = self._covered.get(low)
        if found is None:
            found = self._covered[low] = covered(self.chunks(low))
        return found

    def chunks(self, offset: int) -> NDArray[np.int64]:
        """The 16-byte chunks of shared memory that the box's chunks go to, for a box at an offset.

        Shapes:     (..., extents of dimension 2 and 1, chunks of a row), outermost dimension first.
        Units:      numbers of chunks, counted from the last multiple of 1024 bytes at or below the offset.
        """
        low = offset & 1023
        found = self._chunks.get(low)
        if found is None:
            rows = math.prod(self.map.counts[1:])
            flat = chunk_numbers(
                low, rows, self.map.inner_bytes // 16, self.map.pitch_bytes, self.map.swizzle
            )
            found = self._chunks[low] = flat.reshape(*self.map.counts[:0:-1], self.map.inner_bytes // 16)
        return found
