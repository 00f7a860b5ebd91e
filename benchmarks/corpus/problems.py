"""The arguments of one run of a kernel, and the results that it has to give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutecourse.analysis.dsl import DslTensor, DslTmaAtom
from cutecourse.dtypes import decode, dtype, encode
from cutecourse.emulator import TensorMap

__all__ = ["Draw", "Mapped", "Problem", "Shaped", "Tensor", "Zeros", "poisoned"]

TOLERANCES = {"f64": 1e-12, "f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2, "e4m3": 0.07, "e5m2": 0.14}
"""How far a result may be from its reference r: this times (1 + |r|). Integers must be equal."""

_POISON = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
"""The code in an output before the kernel runs: NaN, or an integer's largest number."""


class Tensor:
    """An array in memory: its codes, and the numbers that the codes stand for.

    values     float64 (integers: int64), after rounding to the type.
    codes      what the kernel works on.
    expected   the numbers that it must hold after the kernel, or None for an input.
    tolerance  overrides the type's in TOLERANCES.
    where      the elements to compare; all by default.
    """

    def __init__(self, values: ArrayLike, kind: str) -> None:
        given = np.ascontiguousarray(values)
        self.kind = dtype(kind)
        held = np.dtype(self.kind.numpy)
        if self.is_float:
            self.codes = np.ascontiguousarray(encode(given.astype(np.float64), kind).reshape(given.shape))
        else:
            self.codes = given.astype(held)
        self.values = self.numbers()
        self.expected: NDArray[Any] | None = None
        self.tolerance = 0.0
        self.where: NDArray[Any] | None = None

    @property
    def is_float(self) -> bool:
        """True for a floating-point type."""
        return self.kind.name in TOLERANCES

    def numbers(self) -> NDArray[Any]:
        """The numbers that the codes stand for now."""
        if not self.is_float:
            return self.codes.astype(np.int64)
        return np.asarray(decode(self.codes, self.kind), np.float64).reshape(self.codes.shape)

    def becomes(
        self, expected: ArrayLike, *, tolerance: float = 0.0, where: ArrayLike | None = None
    ) -> Tensor:
        """State the numbers that the kernel must leave here."""
        self.expected = np.broadcast_to(np.asarray(expected), self.codes.shape)
        self.tolerance = tolerance or TOLERANCES.get(self.kind.name, 0.0)
        self.where = None if where is None else np.broadcast_to(np.asarray(where), self.codes.shape)
        return self

    def error(self) -> float:
        """The largest distance from the reference, in tolerances; above 1 the result is wrong."""
        assert self.expected is not None
        got, wanted = self.numbers(), self.expected
        if self.where is not None:
            got, wanted = got[self.where], wanted[self.where]
        if not got.size:
            return 0.0
        if not self.is_float:
            return float("inf") if np.any(got != wanted) else 0.0
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(got - wanted) / (self.tolerance * (1 + np.abs(wanted)))
        return float(np.max(np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))))


def poisoned(
    expected: ArrayLike, kind: str, *, tolerance: float = 0.0, where: ArrayLike | None = None
) -> Tensor:
    """An output that holds NaN, or the largest integer, until the kernel writes it."""
    shape = np.shape(expected)
    tensor = Tensor(np.zeros(shape), kind)
    tensor.codes.view(f"u{tensor.codes.itemsize}")[...] = _POISON[tensor.codes.itemsize] & _mask(tensor)
    return tensor.becomes(expected, tolerance=tolerance, where=where)


def _mask(tensor: Tensor) -> int:
    return (1 << (8 * tensor.codes.itemsize)) - 1


class Draw:
    """Random inputs of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def normal(self, *shape: int, kind: str = "f32", scale: float = 1.0, shift: float = 0.0) -> Tensor:
        """Normally distributed numbers."""
        return Tensor(self.random.normal(size=shape) * scale + shift, kind)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, kind: str = "f32") -> Tensor:
        """Numbers from low up to high."""
        return Tensor(self.random.uniform(low, high, size=shape), kind)

    def integers(self, low: int, high: int, *shape: int, kind: str = "s32") -> Tensor:
        """Integers from low up to high, without high."""
        return Tensor(self.random.integers(low, high, size=shape), kind)


@dataclass(frozen=True)
class Shaped:
    """A tensor of the CuTe DSL: the extents and strides that the compile left open, as in DslTensor."""

    tensor: Tensor
    extents: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    extent_bits: int = 32

    def declared(self) -> DslTensor:
        """The argument for `cutecourse.analysis.dsl.pack`."""
        return DslTensor(self.tensor.codes, self.extents, self.strides, extent_bits=self.extent_bits)


@dataclass(frozen=True)
class Mapped:
    """A tensor that a kernel of the CuTe DSL reaches by TMA.

    box      elements, innermost first; those of the outer dimensions, if not given, are 1.
    swizzle  as in TensorMap.tiled.
    axes     the tensor's axes in the map's order, innermost first; by default the last one is the innermost.
    packed   True if each byte of the tensor holds two elements of 4 bits. The box counts these.
    """

    tensor: Tensor
    box: Sequence[int]
    swizzle: str = "128B"
    axes: Sequence[int] = ()
    packed: bool = False

    def declared(self) -> DslTmaAtom:
        """The argument for `cutecourse.analysis.dsl.pack`."""
        codes = self.tensor.codes
        axes = self.axes or [*range(codes.ndim)][::-1]
        tiled = TensorMap.tiled(
            codes,
            dims=[codes.shape[axes[0]] * (1 + self.packed), *(codes.shape[axis] for axis in axes[1:])],
            strides=[codes.strides[axis] for axis in axes[1:]],
            box=[*self.box, *[1] * (codes.ndim - len(self.box))],
            swizzle=self.swizzle,
            dtype="16u4_align8b" if self.packed else None,
        )
        return DslTmaAtom(tiled)


@dataclass(frozen=True)
class Zeros:
    """A struct of zeros, such as a tiled MMA that negates nothing: as many bytes, then words."""

    n_bytes: int
    n_words: int

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part."""
        for place in range(self.n_bytes):
            yield f"byte {place}", np.uint8(0)
        for place in range(self.n_words):
            yield f"word {place}", np.uint32(0)


@dataclass
class Problem:
    """One run of a kernel.

    grid       blocks; block, cluster and smem_bytes only where the compiler does not say them.
    args       the arguments in order, or by the parameters' names.
    constants  what is fixed when the kernel is compiled.
    """

    grid: int | Sequence[int]
    args: Mapping[str, Any] | Sequence[Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    block: int | Sequence[int] = 0
    cluster: int | Sequence[int] = 1
    smem_bytes: int = 0

    def outputs(self) -> dict[str, Tensor]:
        """The tensors whose results are stated, by the parameters' names or places."""
        named = self.args.items() if isinstance(self.args, Mapping) else enumerate(self.args)
        tensors = ((name, one.tensor if isinstance(one, Shaped | Mapped) else one) for name, one in named)
        return {
            str(name): one for name, one in tensors if isinstance(one, Tensor) and one.expected is not None
        }
