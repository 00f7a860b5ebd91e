"""The element types that the course speaks of, by PTX's names, and their NumPy counterparts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cutecourse.errors import CourseError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DTYPES",
    "DType",
    "DTypeError",
    "b1",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "bf16",
    "dtype",
    "e4m3",
    "e5m2",
    "f16",
    "f32",
    "f64",
    "from_numpy",
    "pred",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "tf32",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
]

Kind = Literal["float", "int", "uint", "bits", "pred"]


class DTypeError(CourseError):
    """An element type that does not exist, or that has no counterpart where one was asked for."""


@dataclass(frozen=True)
class DType:
    """One element type: how it is named, how many bits a value has, and how these are read.

    `bits` counts the bits that carry the value, so tf32, which is kept in a 32-bit register, has 32,
    and s4, of which eight share a register, has 4.

    Source: PTX ISA 9.0, Fundamental Types and Alternate Floating-Point Data Formats.

    >>> f16.bits, f16.kind
    (16, 'float')
    >>> print(bf16)
    bf16
    """

    name: str
    bits: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one value; bf16, fp8 and the 4-bit integers are those of `ml_dtypes`.

        Errors: DTypeError for b1 and b128, which NumPy cannot hold one at a time.

        >>> f32.numpy
        dtype('float32')
        """
        import numpy as np

        name = _NUMPY_NAMES.get(self.name)
        if name is not None:
            return np.dtype(name)
        name = _ML_DTYPES_NAMES.get(self.name)
        if name is None:
            raise DTypeError(
                f"{self.name} has no NumPy dtype: a value has {self.bits} bits. "
                f"Keep such values packed in an array of an unsigned type, for example u32."
            )
        import ml_dtypes

        held: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return held


f16 = DType("f16", 16, "float")
bf16 = DType("bf16", 16, "float")
tf32 = DType("tf32", 32, "float")
f32 = DType("f32", 32, "float")
f64 = DType("f64", 64, "float")
e4m3 = DType("e4m3", 8, "float")
e5m2 = DType("e5m2", 8, "float")
s4 = DType("s4", 4, "int")
s8 = DType("s8", 8, "int")
s16 = DType("s16", 16, "int")
s32 = DType("s32", 32, "int")
s64 = DType("s64", 64, "int")
u4 = DType("u4", 4, "uint")
u8 = DType("u8", 8, "uint")
u16 = DType("u16", 16, "uint")
u32 = DType("u32", 32, "uint")
u64 = DType("u64", 64, "uint")
b1 = DType("b1", 1, "bits")
b8 = DType("b8", 8, "bits")
b16 = DType("b16", 16, "bits")
b32 = DType("b32", 32, "bits")
b64 = DType("b64", 64, "bits")
b128 = DType("b128", 128, "bits")
pred = DType("pred", 1, "pred")

DTYPES: dict[str, DType] = {
    known.name: known
    for known in (
        *(f16, bf16, tf32, f32, f64, e4m3, e5m2),
        *(s4, s8, s16, s32, s64, u4, u8, u16, u32, u64),
        *(b1, b8, b16, b32, b64, b128, pred),
    )
}

_NUMPY_NAMES = {
    "f16": "float16",
    "tf32": "float32",
    "f32": "float32",
    "f64": "float64",
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "pred": "bool",
}

_ML_DTYPES_NAMES = {
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s4": "int4",
    "u4": "uint4",
}

# tf32 and the bit types share another type's NumPy dtype, so the way back leads to that other type.
_FROM_NUMPY = {
    **{numpy: name for name, numpy in _NUMPY_NAMES.items() if name != "tf32" and not name.startswith("b")},
    **{numpy: name for name, numpy in _ML_DTYPES_NAMES.items()},
}


def dtype(name: str | DType) -> DType:
    """Look an element type up by its PTX name; a leading dot is allowed, a `DType` passes through.

    Errors: DTypeError, which lists the names there are.

    >>> dtype(".bf16") is bf16
    True
    """
    if isinstance(name, DType):
        return name
    known = DTYPES.get(str(name).removeprefix("."))
    if known is None:
        raise DTypeError(f"there is no element type {name!r}. The names are: {', '.join(DTYPES)}.")
    return known


def from_numpy(numpy_dtype: object) -> DType:
    """The element type that an array of this NumPy dtype holds, whatever its byte order.

    float32 gives f32 (never tf32), unsigned integers give u8 to u64 (never b8 to b64).
    Errors: DTypeError, which lists the dtypes there are.

    >>> from_numpy("int8")
    DType('s8')
    """
    import numpy as np

    given: np.dtype[Any] = np.dtype(numpy_dtype)  # type: ignore[call-overload]
    name = _FROM_NUMPY.get(given.name)
    if name is None:
        raise DTypeError(
            f"no element type matches the NumPy dtype {given.name}. "
            f"These have one: {', '.join(sorted(_FROM_NUMPY))}."
        )
    return DTYPES[name]
