"""Scaled basis elements: strides that say in which coordinate they step, not how far in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self, SupportsIndex, TypeAlias

from .dynamic import Dynamic
from .errors import OperandError
from .int_tuple import flatten_to_tuple, is_int, is_node, pretty_str

__all__ = ["ArithTuple", "E", "ScaledBasis", "Stride", "StrideLeaf"]


class ArithTuple(tuple[Any, ...]):
    """A coordinate that adds like a vector; what a layout with basis strides returns.

    Law: the sum is element by element, and the shorter tuple is padded with zeros.

    >>> ArithTuple((1, 2)) + ArithTuple((0, 3, 4))
    ArithTuple(1,5,4)
    >>> 3 * ArithTuple((1, (0, 2)))
    ArithTuple(3,(0,6))
    >>> ArithTuple((1, 2)) == (1, 2)
    True
    """

    __slots__ = ()
    is_sum = True

    def __new__(cls, elements: Sequence[Any] = ()) -> Self:
        """Make nested tuples vectors too."""
        return super().__new__(cls, [_as_arith(element) for element in elements])

    def __add__(self, other: Any) -> Any:
        return add_strides(self, other)

    def __radd__(self, other: Any) -> Any:
        return add_strides(other, self)

    def __mul__(self, factor: SupportsIndex) -> ArithTuple:
        scale = factor.__index__()
        return ArithTuple([element * scale for element in self])

    __rmul__ = __mul__

    def __neg__(self) -> ArithTuple:
        return self * -1

    def __str__(self) -> str:
        return "(" + ",".join(str(element) for element in self) + ")"

    def __repr__(self) -> str:
        return f"ArithTuple{self}"


class ScaledBasis:
    """A step of `value` along one coordinate: `2@1` is two steps along coordinate 1.

    `mode` is the path to that coordinate, outermost first; it prints innermost first, as CuTe prints it. A
    step may be a fraction, where one coordinate counts several elements; as a coordinate it is rounded
    towards zero.

    >>> print(E(0), 2 * E(1), E(1, 0))
    1@0 2@1 1@0@1
    >>> 2 * E(1) + E(0)
    ArithTuple(1,2)
    >>> print(ScaledBasis(Fraction(1, 4), 0), 32 * ScaledBasis(Fraction(1, 4), 0))
    1/4@0 8@0
    """

    __slots__ = ("mode", "value")
    mode: tuple[int, ...]
    value: int | Fraction

    def __init__(self, value: int | Fraction, mode: int | Sequence[int]) -> None:
        path = (mode,) if isinstance(mode, int) else tuple(mode)
        if not path or not all(is_int(m) and m >= 0 for m in path):
            raise OperandError(
                f"a basis element needs the path of a mode (non-negative integers), not {mode!r}",
                operation="ScaledBasis",
                advice="E(0), E(1, 0) or 2 * E(1)",
            )
        if isinstance(value, Fraction) and value.denominator == 1:
            value = value.numerator
        if not is_int(value) and not isinstance(value, Fraction):
            raise OperandError(
                f"a basis element is scaled by an integer or a fraction, not by {value!r}",
                operation="ScaledBasis",
            )
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "mode", path)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ScaledBasis does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledBasis, (self.value, self.mode)

    def as_arith_tuple(self) -> ArithTuple:
        """Write the step as a coordinate: `2@1` is `(0,2)`."""
        element: Any = math.trunc(self.value) if isinstance(self.value, Fraction) else self.value
        for position in reversed(self.mode):
            element = ArithTuple((0,) * position + (element,))
        assert isinstance(element, ArithTuple)
        return element

    def __mul__(self, factor: int) -> ScaledBasis:
        if not isinstance(factor, int):
            return NotImplemented
        if isinstance(self.value, Fraction) and isinstance(factor, Dynamic):
            # a fraction of what only the running program knows is rounded by that program
            return ScaledBasis(Dynamic(math.trunc(self.value * int(factor))), self.mode)
        return ScaledBasis(self.value * factor, self.mode)

    __rmul__ = __mul__

    def __neg__(self) -> ScaledBasis:
        return self * -1

    def __add__(self, other: Any) -> Any:
        return add_strides(self, other)

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledBasis) and (self.value, self.mode) == (other.value, other.mode)

    def __hash__(self) -> int:
        return hash((ScaledBasis, self.value, self.mode))

    def __str__(self) -> str:
        return str(self.value) + "".join(f"@{m}" for m in reversed(self.mode))

    def __repr__(self) -> str:
        return str(self)


StrideLeaf: TypeAlias = int | ScaledBasis | ArithTuple
Stride: TypeAlias = int | ScaledBasis | ArithTuple | tuple["Stride", ...]
"""A stride: integers, basis elements or sums of these, nested as the shape is."""


def E(*mode: int | Sequence[int]) -> Any:
    """Make a unit step along the coordinate with the given path; `E()` is the number 1.

    >>> E(0), E(1, 0), E([1, 0]), E()
    (1@0, 1@0@1, 1@0@1, 1)
    """
    path: tuple[Any, ...] = mode
    if len(mode) == 1 and not isinstance(mode[0], int):
        path = tuple(mode[0])
    return ScaledBasis(1, path) if path else 1


def make_basis_like(shape: Any, path: tuple[int, ...] = ()) -> Any:
    """Give every mode of a shape its own basis element, nested as the shape is."""
    if isinstance(shape, tuple):
        return tuple(make_basis_like(mode, (*path, i)) for i, mode in enumerate(shape))
    return E(path)


def is_basis(stride: object) -> bool:
    """Tell a stride that names a coordinate from an integer stride."""
    return isinstance(stride, (ScaledBasis, ArithTuple))


def add_strides(a: Any, b: Any) -> Any:
    """Add two values of layouts: integers, basis elements, coordinates.

    An integer other than 0 has no coordinate to be added to.
    """
    if type(a) is int and type(b) is int:  # nearly every call
        return a + b
    if isinstance(a, ScaledBasis):
        a = a.as_arith_tuple()
    if isinstance(b, ScaledBasis):
        b = b.as_arith_tuple()
    if isinstance(a, tuple) and isinstance(b, tuple):
        width = max(len(a), len(b))
        padded = zip(_pad(a, width), _pad(b, width), strict=True)
        return ArithTuple([add_strides(x, y) for x, y in padded])
    if isinstance(a, tuple) or isinstance(b, tuple):
        vector, number = (a, b) if isinstance(a, tuple) else (b, a)
        if number != 0:
            raise OperandError(
                f"{number} has no coordinate to be added to",
                operation="sum of strides",
                operands=(("a", a), ("b", b)),
                rule="a layout steps either through memory or through coordinates, not both",
            )
        return vector if isinstance(vector, ArithTuple) else ArithTuple(vector)
    return a + b


def _pad(vector: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return tuple(vector) + (0,) * (width - len(vector))


def _as_arith(element: Any) -> Any:
    return ArithTuple(element) if is_node(element) else element


def stride_str(stride: Any) -> str:
    """Print a stride; a sum of basis elements prints as such a sum, not as a nested tuple."""
    if isinstance(stride, ArithTuple):
        terms = basis_terms(stride)
        return "+".join(str(term) for term in terms) if terms else "0"
    if isinstance(stride, tuple):
        return "(" + ",".join(stride_str(element) for element in stride) + ")"
    return pretty_str(stride)


def basis_terms(stride: StrideLeaf, path: tuple[int, ...] = ()) -> tuple[Any, ...]:
    """Split a stride into the basis elements it is the sum of (an integer stays as it is)."""
    if isinstance(stride, ArithTuple):
        return tuple(term for i, element in enumerate(stride) for term in basis_terms(element, (*path, i)))
    if isinstance(stride, ScaledBasis) or not path:
        return (stride,)
    return (ScaledBasis(stride, path),) if stride != 0 else ()


def coprofile(stride: Any) -> Any:
    """Say how the values of a layout are nested: 0 for offsets, a tuple of zeros for coordinates."""
    profile: Any = 0
    for leaf in flatten_to_tuple(stride):
        profile = _join(profile, _leaf_profile(leaf))
    return profile


def _leaf_profile(stride: Any) -> Any:
    if isinstance(stride, ScaledBasis):
        return _leaf_profile(stride.as_arith_tuple())
    if isinstance(stride, ArithTuple):
        return tuple(_leaf_profile(element) for element in stride)
    return 0


def _join(a: Any, b: Any) -> Any:
    if not isinstance(a, tuple):
        return b
    if not isinstance(b, tuple):
        return a
    width = max(len(a), len(b))
    padded = zip(a + (0,) * (width - len(a)), b + (0,) * (width - len(b)), strict=True)
    return tuple(_join(x, y) for x, y in padded)
