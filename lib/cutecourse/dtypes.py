"""The element types that the course speaks of, by PTX's names, and how NumPy arrays hold them.

NumPy has no bf16, no fp8 and nothing narrower. An array of such a type holds codes: unsigned integers with
the bits of one value each. `encode` makes them from numbers, and `decode` makes numbers from them. Arrays of
the package ml_dtypes hold the same bits. They are recognised by their dtype's name, and nothing here imports
that package.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from cutecourse.errors import CourseError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

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
    "decode",
    "dtype",
    "e2m1",
    "e2m3",
    "e3m2",
    "e4m3",
    "e5m2",
    "encode",
    "f16",
    "f32",
    "f64",
    "from_numpy",
    "nearest_bf16",
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
    "ue4m3",
    "ue8m0",
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
    def coded(self) -> bool:
        """Whether NumPy lacks the type, so that an array holds codes.

        >>> bf16.coded, f16.coded
        (True, False)
        """
        return self.name in _ML_DTYPES_NAMES

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one value. For a type that NumPy lacks it is the codes' unsigned type.

        Errors: DTypeError for b1 and b128, which NumPy cannot hold one at a time.

        >>> f32.numpy, bf16.numpy
        (dtype('float32'), dtype('uint16'))
        """
        import numpy as np

        if self.coded:
            return np.dtype(np.uint16 if self.bits > 8 else np.uint8)
        name = _NUMPY_NAMES.get(self.name)
        if name is None:
            raise DTypeError(
                f"{self.name} has no NumPy dtype: a value has {self.bits} bits. "
                f"Keep such values packed in an array of an unsigned type, for example u32."
            )
        return np.dtype(name)

    def holds(self, given: np.dtype[Any]) -> bool:
        """Whether an array of this NumPy dtype can hold values of the type: `numpy`, or that of ml_dtypes.

        >>> bf16.holds(bf16.numpy), bf16.holds(f16.numpy)
        (True, False)
        """
        return given == self.numpy or given.name == _ML_DTYPES_NAMES.get(self.name)


f16 = DType("f16", 16, "float")
bf16 = DType("bf16", 16, "float")
tf32 = DType("tf32", 32, "float")
f32 = DType("f32", 32, "float")
f64 = DType("f64", 64, "float")
e4m3 = DType("e4m3", 8, "float")
e5m2 = DType("e5m2", 8, "float")
e2m3 = DType("e2m3", 6, "float")
e3m2 = DType("e3m2", 6, "float")
e2m1 = DType("e2m1", 4, "float")
ue8m0 = DType("ue8m0", 8, "float")
ue4m3 = DType("ue4m3", 8, "float")
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
        *(f16, bf16, tf32, f32, f64, e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0, ue4m3),
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

# The types that NumPy lacks, and the dtype of ml_dtypes with the same bits; it has none for ue4m3.
_ML_DTYPES_NAMES = {
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e2m3": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "e2m1": "float4_e2m1fn",
    "ue8m0": "float8_e8m0fnu",
    "ue4m3": None,
    "s4": "int4",
    "u4": "uint4",
}

# tf32 and the bit types share another type's NumPy dtype, so the way back leads to that other type. Codes are
# unsigned integers to NumPy, so only the dtypes of ml_dtypes lead back to the types that NumPy lacks.
_FROM_NUMPY = {
    **{numpy: name for name, numpy in _NUMPY_NAMES.items() if name != "tf32" and not name.startswith("b")},
    **{numpy: name for name, numpy in _ML_DTYPES_NAMES.items() if numpy is not None},
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


def encode(values: ArrayLike, element: str | DType) -> NDArray[Any]:
    """An array of an element type with these values, each rounded once, to nearest even.

    Shapes:     that of `values`; the dtype is `DType.numpy`. A code of fewer than 8 bits takes a byte too.
    Units:      numbers that float64 holds. What is too large becomes infinity in bf16 and e5m2, NaN in e4m3,
                ue4m3 and ue8m0, and the largest number in e2m3, e3m2 and e2m1. Those three have no NaN: NaN
                becomes a zero of the other sign. ue8m0 rounds halves up, and all that lies between its two
                smallest numbers. What is smaller becomes the smallest number, but zero and negative numbers
                become NaN. For ue4m3 negative numbers become NaN too, and -0 becomes 0. Integers keep their
                low bits. All of this is as ml_dtypes has it for float32, except for ue4m3, which it lacks.
    Errors:     DTypeError for b1 and b128.
    Source:     PTX ISA 9.0, Alternate Floating-Point Data Formats; OCP Microscaling Formats 1.0.

    >>> encode([1.0, -2.0, 3.0], "bf16")
    array([16256, 49152, 16448], dtype=uint16)
    """
    import numpy as np

    kind = dtype(element)
    given = np.asarray(values)
    if given.dtype.isbuiltin == 2:  # a dtype that another package has registered
        source = from_numpy(given.dtype)
        if source is kind:
            return given.view(kind.numpy)
        given = decode(given, source)
    if not kind.coded:
        with np.errstate(over="ignore", invalid="ignore"):
            return given.astype(kind.numpy)
    if kind.kind != "float":
        return (given.astype(np.int64) & 15).astype(np.uint8)
    rounded = np.ascontiguousarray(_rounded_to_odd(given.reshape(-1)))
    bits = rounded.view(np.uint32)
    if kind is bf16:
        codes = nearest_bf16(rounded)
        nan = rounded != rounded  # noqa: PLR0124 - only a NaN differs from itself
        codes[nan] = (bits[nan] >> 16) & 0x8000 | 0x7FC0
        return codes.reshape(given.shape)
    # The upper half of a float32 decides, once its last bit says whether anything follows.
    upper = (bits >> 16) | ((bits & np.uint32(0xFFFF)) != 0)
    found: NDArray[Any] = _codes(kind.name)[upper]
    return found.reshape(given.shape)


def nearest_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The codes of float32 numbers as bf16, rounded to nearest even; what a NaN gives is without meaning.

    Shapes: that of `values`, which is contiguous. This is the fast part of `encode`.
    """
    import numpy as np

    bits = values.view(np.uint32)
    # Adding just under a half, and one more to an odd code, carries into the code where it has to.
    carried = (bits >> 16) & 1
    carried += bits
    carried += 0x7FFF
    codes: NDArray[np.uint16] = carried.view(np.uint16)[..., 1::2]  # the upper halves
    return codes


def decode(codes: ArrayLike, element: str | DType) -> NDArray[Any]:
    """The numbers in an array of an element type, exactly: float32 for a type that NumPy lacks.

    `codes` is what `encode` gives, or an array of ml_dtypes. Of a type narrower than a byte, only the low
    bits of a code count. ue4m3's codes from 128 on are NaN. An array of NumPy's own type comes back as it is.
    Law: decode(encode(decode(codes))) = decode(codes).
    Errors: DTypeError if the array's dtype is not one that holds the type.

    >>> decode(encode([0.3, 448.0, 1000.0], "e4m3"), "e4m3")
    array([3.125e-01, 4.480e+02,       nan], dtype=float32)
    """
    import numpy as np

    kind = dtype(element)
    given = np.asarray(codes)
    if not kind.holds(given.dtype):
        raise DTypeError(f"an array of {given.dtype} holds no {kind}; its codes are {kind.numpy}.")
    if not kind.coded:
        return given
    held = given.view(kind.numpy)
    if kind is bf16:
        return (held.astype(np.uint32) << 16).view(np.float32)
    found: NDArray[Any] = _numbers(kind.name)[held & np.uint8(len(_numbers(kind.name)) - 1)]
    return found


# (bits of the exponent, bits of the fraction, the lowest code without its sign that is no finite number)
_LAYOUTS = {
    "e4m3": (4, 3, 0x7F),
    "e5m2": (5, 2, 0x7C),
    "e2m3": (2, 3, 0x20),
    "e3m2": (3, 2, 0x20),
    "e2m1": (2, 1, 0x08),
    "ue8m0": (8, 0, 0xFF),
    "ue4m3": (4, 3, 0x7F),
}


def _magnitudes(name: str) -> NDArray[np.float64]:
    """The number of each code without its sign, as if none of them were infinity or NaN."""
    import numpy as np

    exponent_bits, fraction_bits, _ = _LAYOUTS[name]
    code = np.arange(1 << (exponent_bits + fraction_bits))
    field, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    # ue8m0 has no fraction and no subnormal numbers.
    subnormal = (field == 0) & (fraction_bits > 0)
    whole = np.where(subnormal, fraction, fraction + (1 << fraction_bits))
    bias = (1 << (exponent_bits - 1)) - 1
    numbers: NDArray[np.float64] = np.ldexp(
        whole.astype(np.float64), field + subnormal - bias - fraction_bits
    )
    return numbers


@cache
def _numbers(name: str) -> NDArray[np.float32]:
    """The number of each code of a type with at most 8 bits."""
    import numpy as np

    if name in ("s4", "u4"):
        code = np.arange(16)
        return np.where((code > 7) & (name == "s4"), code - 16, code).astype(np.float32)
    numbers = _magnitudes(name)
    finite = _LAYOUTS[name][2]
    numbers[finite:] = np.nan
    if name == "e5m2":
        numbers[finite] = np.inf
    if name != "ue8m0":
        above = np.full(len(numbers), np.nan) if name == "ue4m3" else np.negative(numbers)
        numbers = np.concatenate([numbers, above])
    return numbers.astype(np.float32)


@cache
def _codes(name: str) -> NDArray[np.uint8]:
    """The code of each upper half of a float32, whose last bit stands for all that follows.

    No half between two neighbours needs that last bit, so it tells on which side of a half a number lies.
    """
    import numpy as np

    upper = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        values = (upper << 16).view(np.float32).astype(np.float64)
    negative = np.signbit(values)
    magnitudes = _magnitudes(name)
    sign_bit, finite = len(magnitudes), _LAYOUTS[name][2]
    # What is too large gets the first code that is no finite number, or the largest number if there is none.
    ladder = magnitudes[: finite + 1]
    halves = (ladder[1:] + ladder[:-1]) / 2
    codes = np.searchsorted(halves, np.abs(values))
    tie = np.append(halves, np.nan)[np.minimum(codes, len(halves))] == np.abs(values)
    codes += tie & ((codes % 2 == 1) | (name == "ue8m0"))
    if name == "ue8m0":
        # Below the half, the nearest number has code 0, but ml_dtypes rounds these subnormal float32 up.
        codes[(np.abs(values) > ladder[0]) & (np.abs(values) < ladder[1])] = 1
    nan = np.isnan(values)
    if name == "ue8m0":
        codes[nan | negative | (values == 0)] = finite
    elif name == "ue4m3":
        codes[nan | (values < 0)] = finite
    elif finite < sign_bit:
        codes[nan] = sign_bit - 2 if name == "e5m2" else finite
        codes += sign_bit * negative
    else:
        codes[nan] = 0
        codes += sign_bit * (negative ^ nan)
    return codes.astype(np.uint8)


def _rounded_to_odd(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers as float32 whose last bit is 1 where something was cut off, so that rounding again is right."""
    import numpy as np

    if values.dtype.itemsize <= 2 or values.dtype == np.float32:
        return values.astype(np.float32, copy=False)
    exact = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        near = exact.astype(np.float32)
    bits = near.view(np.uint32)
    even = (near != exact) & ~np.isnan(exact) & (bits % 2 == 0)
    back = np.abs(near) > np.abs(exact)
    bits[even & back] -= np.uint32(1)
    bits[even & ~back] += np.uint32(1)
    return near
