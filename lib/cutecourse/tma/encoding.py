"""The arguments of cuTensorMapEncodeTiled, from which a tensor map is made, and the driver's rules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype

from .errors import TmaError

__all__ = [
    "DATA_TYPES",
    "INTERLEAVES",
    "L2_PROMOTIONS",
    "OOB_FILLS",
    "SWIZZLES",
    "SWIZZLE_SPANS",
    "Interleave",
    "L2Promotion",
    "OobFill",
    "Swizzling",
    "TensorMapEncoding",
]

Swizzling = Literal["none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"]
Interleave = Literal["none", "16B", "32B"]
L2Promotion = Literal["none", "64B", "128B", "256B"]
OobFill = Literal["zeros", "nan"]

# The numbers are the enumerations' of CUDA 13.0, include/cuda.h.
SWIZZLES: dict[str, int] = {
    "none": 0,
    "32B": 1,
    "64B": 2,
    "128B": 3,
    "128B_atom_32B": 4,
    "128B_atom_32B_flip_8B": 5,
    "128B_atom_64B": 6,
}
INTERLEAVES: dict[str, int] = {"none": 0, "16B": 1, "32B": 2}
L2_PROMOTIONS: dict[str, int] = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
OOB_FILLS: dict[str, int] = {"zeros": 0, "nan": 1}
SWIZZLE_SPANS: dict[str, int] = {"32B": 32, "64B": 64, "128B": 128}
"""The longest inner side of a box under each swizzle, in bytes; names with `_atom_` span 128B as well."""

_BOX_BYTES = 228 << 10
"""Bytes that a box may have: the shared memory of a multiprocessor of compute capability 9.0 or 10.0."""

_PREFIX = "CU_TENSOR_MAP_DATA_TYPE_"
_ENUM = {
    "UINT8": 0,
    "UINT16": 1,
    "UINT32": 2,
    "INT32": 3,
    "UINT64": 4,
    "INT64": 5,
    "FLOAT16": 6,
    "FLOAT32": 7,
    "FLOAT64": 8,
    "BFLOAT16": 9,
    "TFLOAT32": 11,
}
# CUTLASS gives signed and unsigned bytes and both 8-bit floats the same number: bytes are copied, not read.
_NAMES = {
    **dict.fromkeys(("u8", "s8", "b8", "e4m3", "e5m2"), "UINT8"),
    **dict.fromkeys(("u16", "b16"), "UINT16"),
    **dict.fromkeys(("u32", "b32"), "UINT32"),
    "s32": "INT32",
    **dict.fromkeys(("u64", "b64"), "UINT64"),
    "s64": "INT64",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bf16": "BFLOAT16",
    "tf32": "TFLOAT32",
}
DATA_TYPES: dict[str, tuple[str, int]] = {
    name: (_PREFIX + member, _ENUM[member]) for name, member in _NAMES.items()
}
"""The driver's name and number for each element type (CUtensorMapDataType)."""

_DRIVER = "CUDA driver API 13.0, cuTensorMapEncodeTiled"
_OBSERVED = "the driver of an H200, 580.159.04; not in its documentation"
_CUTLASS = "CUTLASS 4.2.0, include/cute/arch/copy_sm90_desc.hpp"


def data_type(element: DType | str) -> tuple[str, int]:
    """The driver's name and number of an element type.

    Errors: TmaError, rule `data_type`, for a type without one: below 8 bits, s16, b128.

    >>> data_type("f16")
    ('CU_TENSOR_MAP_DATA_TYPE_FLOAT16', 6)
    """
    element = as_dtype(element)
    known = DATA_TYPES.get(element.name)
    if known is None:
        advice = {
            16: 'internal_type="u16": the bytes are copied all the same',
            128: 'internal_type="u64": two of them are one element',
        }.get(element.bits, "a type of 8, 16, 32 or 64 bits that holds several elements")
        raise TmaError(
            f"a tensor map has no data type for {element}",
            rule="data_type",
            source=_CUTLASS,
            values=(("element type", element), ("known", ", ".join(DATA_TYPES))),
            advice=advice,
        )
    return known


@dataclass(frozen=True)
class TensorMapEncoding:
    """The arguments of cuTensorMapEncodeTiled without the address, by the driver's names and in its order.

    `kernels.TensorMapSpec.encoding` and `TmaTrace.encoding` give one. For a launch the runtime turns it into
    the driver's 128 bytes on a GPU, or into an `emulator.TensorMap`.
    Shapes:     `dims`, `box` and `element_strides` have one entry a dimension, innermost first;
                `strides_bytes` has one less: the innermost elements lie side by side.
    Units:      elements, and bytes where the name says so.
    Errors:     none here: `check` and `violations` apply the driver's rules.
    Source:     CUDA driver API 13.0, cuTensorMapEncodeTiled, and include/cuda.h.

    >>> encoding = TensorMapEncoding("f16", (128, 64), (256,), (64, 8), swizzle="128B")
    >>> encoding.check()
    >>> encoding.box_bytes, encoding.tma_format, encoding.swizzle_mode
    (1024, 6, 3)
    """

    dtype: DType
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: Swizzling = "none"
    interleave: Interleave = "none"
    oob_fill: OobFill = "zeros"
    l2_promotion: L2Promotion = "128B"

    def __post_init__(self) -> None:
        """Take lists and names too; element strides of 1 are the usual ones."""
        for name in ("dims", "strides_bytes", "box", "element_strides"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.dims))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.dtype.bits // 8

    @property
    def data_type(self) -> str:
        """The driver's name of the element type."""
        return data_type(self.dtype)[0]

    @property
    def tma_format(self) -> int:
        """The number of the element type, a CUtensorMapDataType."""
        return data_type(self.dtype)[1]

    @property
    def swizzle_mode(self) -> int:
        """The number of the swizzle, a CUtensorMapSwizzle."""
        return SWIZZLES[self.swizzle]

    @property
    def loaded_box(self) -> tuple[int, ...]:
        """The number of elements moved along each dimension: every `element_strides`-th one of the box.

        Without interleave the innermost dimension's stride is ignored.
        """
        strides = self.element_strides
        if self.interleave == "none":
            strides = (1, *strides[1:])
        return tuple(-(-extent // step) for extent, step in zip(self.box, strides, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes that one instruction moves and a barrier counts, those outside the tensor included."""
        return math.prod(self.loaded_box) * self.element_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a box takes. Under a swizzle, each row takes a whole span.

        >>> TensorMapEncoding("f16", (64, 8), (128,), (16, 4), swizzle="128B").shared_bytes
        512
        """
        inner, *outer = self.loaded_box
        pitch = max(inner * self.element_bytes, SWIZZLE_SPANS.get(self.swizzle.split("_")[0], 0))
        return math.prod(outer) * pitch

    def replace(self, **changes: Any) -> TensorMapEncoding:
        """A copy with other values, to try a rule."""
        return replace(self, **changes)

    def check(self, address: int | None = None) -> None:
        """Apply the driver's rules, in the order in which its documentation states them.

        Errors: TmaError for the first rule that is broken, its name in `.rule`.
        """
        for error in self._broken(address):
            raise error

    def violations(self, address: int | None = None) -> tuple[TmaError, ...]:
        """The broken rules, in the order of `check`; empty for a descriptor that the driver accepts."""
        return tuple(self._broken(address))

    def to_snapshot(self) -> dict[str, Any]:
        """The arguments in a form that JSON can hold, with the driver's numbers beside the names."""
        known = DATA_TYPES.get(self.dtype.name, ("", -1))
        return {
            "dtype": self.dtype.name,
            "data_type": known[0],
            "tma_format": known[1],
            "dims": list(self.dims),
            "strides_bytes": list(self.strides_bytes),
            "box": list(self.box),
            "element_strides": list(self.element_strides),
            "swizzle": self.swizzle,
            "swizzle_mode": SWIZZLES.get(self.swizzle, -1),
            "interleave": self.interleave,
            "oob_fill": self.oob_fill,
            "l2_promotion": self.l2_promotion,
        }

    def _broken(self, address: int | None) -> Iterator[TmaError]:
        try:
            data_type(self.dtype)
        except TmaError as error:
            yield error
            return
        yield from self._unknown_names()
        yield from self._broken_rank()
        yield from self._broken_address(address)
        yield from self._broken_dims()
        yield from self._broken_strides()
        yield from self._broken_box()
        yield from self._broken_modes()

    def _unknown_names(self) -> Iterator[TmaError]:
        for name, known in (
            ("swizzle", SWIZZLES),
            ("interleave", INTERLEAVES),
            ("oob_fill", OOB_FILLS),
            ("l2_promotion", L2_PROMOTIONS),
        ):
            if getattr(self, name) not in known:
                yield _broken(
                    f"{name} {getattr(self, name)!r} does not exist; there are {', '.join(known)}", name
                )

    def _broken_rank(self) -> Iterator[TmaError]:
        if not 1 <= self.rank <= 5:
            yield _broken(f"the tensor has {self.rank} dimensions; a tensor map has 1 to 5", "rank")
        elif self.interleave != "none" and self.rank < 3:
            yield _broken(
                f"interleave {self.interleave} needs 3 dimensions or more, the tensor has {self.rank}", "rank"
            )
        for name, wanted in (
            ("strides_bytes", max(self.rank - 1, 0)),
            ("box", self.rank),
            ("element_strides", self.rank),
        ):
            given = len(getattr(self, name))
            if given != wanted:
                yield _broken(f"{name} has {given} entries; a tensor of rank {self.rank} has {wanted}", name)

    def _broken_address(self, address: int | None) -> Iterator[TmaError]:
        unit = 32 if self.interleave == "32B" else 16
        if address is not None and address % unit:
            yield _broken(
                f"the tensor starts at address {address:#x}, no multiple of {unit} bytes", "address"
            )

    def _broken_dims(self) -> Iterator[TmaError]:
        for position, extent in enumerate(self.dims):
            if not 1 <= extent <= 1 << 32:
                yield _broken(f"dims[{position}] is {extent}; an extent is 1 to 2^32", "dims")

    def _broken_strides(self) -> Iterator[TmaError]:
        unit = 32 if self.interleave == "32B" else 16
        for position, stride in enumerate(self.strides_bytes):
            if not 0 <= stride < 1 << 40:
                yield _broken(
                    f"strides_bytes[{position}], of dimension {position + 1}, is {stride}; "
                    f"a stride is at least 0 and below 2^40 bytes",
                    "stride_range",
                )
            elif stride % unit:
                yield _broken(
                    f"strides_bytes[{position}], of dimension {position + 1}, is {stride} bytes, "
                    f"no multiple of {unit}",
                    "stride_multiple",
                    advice=f"pad the rows of the tensor to a multiple of {unit} bytes",
                )

    def _broken_box(self) -> Iterator[TmaError]:
        for position, extent in enumerate(self.box):
            if not 1 <= extent <= 256:
                yield _broken(f"box[{position}] is {extent}; a side of a box is 1 to 256 elements", "box")
        inner = self.box[0] * self.element_bytes if self.box else 0
        if self.interleave == "none" and self.box and inner % 16:
            yield _broken(
                f"the inner side of the box is {self.box[0]} elements of {self.element_bytes} bytes, "
                f"{inner} bytes: no multiple of 16",
                "inner_multiple",
            )
        if self.interleave == "none" and self.swizzle in SWIZZLES and self.swizzle != "none":
            span = SWIZZLE_SPANS[self.swizzle.split("_")[0]]
            if inner > span:
                yield _broken(
                    f"the inner side of the box is {inner} bytes; swizzle {self.swizzle} allows {span}",
                    "swizzle_span",
                    advice=f"boxes of {span // self.element_bytes} elements, one beside the other",
                )
        for position, step in enumerate(self.element_strides):
            if not 1 <= step <= 8:
                ignored = position == 0 and self.interleave == "none"
                effect = ", also along the innermost, where it has no effect" if ignored else ""
                yield _broken(
                    f"element_strides[{position}] is {step}; the step along a dimension is 1 to 8{effect}",
                    "element_strides",
                )
        steps = self.element_strides
        counted = 1 <= len(steps) == len(self.box) and all(step >= 1 for step in steps)
        if counted and self.box_bytes > _BOX_BYTES:
            yield TmaError(
                f"the box has {self.box_bytes} bytes; the driver takes {_BOX_BYTES} at most",
                rule="box_bytes",
                source=_OBSERVED,
                advice="a smaller tile, or several boxes",
            )

    def _broken_modes(self) -> Iterator[TmaError]:
        if self.interleave == "32B" and self.swizzle != "32B":
            yield _broken(
                f"interleave 32B goes with swizzle 32B only, not with {self.swizzle}", "interleave_swizzle"
            )
        if self.oob_fill == "nan" and self.dtype.kind != "float":
            yield _broken(
                f"elements outside of the tensor become NaN only for floats, not for {self.dtype}", "oob_fill"
            )


def _broken(problem: str, rule: str, advice: str = "") -> TmaError:
    return TmaError(problem, rule=rule, source=_DRIVER, advice=advice)
