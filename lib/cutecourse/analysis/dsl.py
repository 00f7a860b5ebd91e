"""Arguments of a kernel of the CuTe DSL, packed from what its author declares.

A parameter's parts are simple: a tensor is a pointer with those extents and strides that are no constants of
the compile. `pack` lays the declared parts out as a C struct, and compares each struct with the parameter's
size and with what the kernel loads.

    args = pack(text, [DslTmaAtom(tensor_map), DslTensor(c), 5, DslFastDivmod(3)])
    launch(text, grid=1, block=128, args=args)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.parameters import Parameter, find_entry, parameters
from cutecourse.analysis.texts import module_of
from cutecourse.emulator import TensorMap
from cutecourse.ptx.demangle import short_name
from cutecourse.ptx.scopes import type_bits

__all__ = ["DslCoordTensor", "DslFastDivmod", "DslLayout", "DslTensor", "DslTmaAtom", "pack"]

_MAP_BYTES = 128
_INTEGER: dict[int, type[np.integer[Any]]] = {32: np.int32, 64: np.int64}


@dataclass(frozen=True)
class DslTensor:
    """A tensor: its pointer, then the extents and strides that the compile left open.

    array        the memory; a kernel works on it in place.
    extents      the modes whose extent is no constant, as numbers of axes of the array; all by default.
    strides      the modes whose stride is none; by default all but those whose stride is 1.
    stride_bits  64, or 32 where the kernel was compiled for strides of 32 bits.
    extent_bits  32, or 64 where the kernel was compiled for extents of 64 bits, as by `sym_int64()`.

    `DslTensor(array, extents=(), strides=())` is a tensor whose layout is a constant, or a pointer.
    """

    array: np.ndarray[Any, Any]
    extents: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    stride_bits: int = 64
    extent_bits: int = 32

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part."""
        steps = [step // self.array.itemsize for step in self.array.strides]
        rank = range(self.array.ndim)
        yield "pointer", self.array
        for axis in rank if self.extents is None else self.extents:
            yield f"extent {axis}", _INTEGER[self.extent_bits](self.array.shape[axis])
        moving = [axis for axis in rank if steps[axis] != 1] if self.strides is None else self.strides
        for axis in moving:
            yield f"stride {axis}", _INTEGER[self.stride_bits](steps[axis])


@dataclass(frozen=True)
class DslCoordTensor:
    """A tensor of coordinates, as make_tiled_tma_atom returns one: the extents that are no constants."""

    extents: Sequence[int]

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part."""
        for axis, extent in enumerate(self.extents):
            yield f"extent {axis}", np.int32(extent)


@dataclass(frozen=True)
class DslTmaAtom:
    """A copy atom of TMA: the tensor map that it holds."""

    tensor_map: TensorMap

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part."""
        yield "tensor map", self.tensor_map


@dataclass(frozen=True)
class DslLayout:
    """A layout: the extents, then the strides, that are no constants. All have `bits` bits."""

    extents: Sequence[int] = ()
    strides: Sequence[int] = ()
    bits: int = 32

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part."""
        integer = _INTEGER[self.bits]
        for what, numbers in (("extent", self.extents), ("stride", self.strides)):
            for place, number in enumerate(numbers):
                yield f"{what} {place}", integer(number)


@dataclass(frozen=True)
class DslFastDivmod:
    """A divisor for fast_divmod: the number, and the multiplier and two shifts that replace the division.

    A divisor of version 2 has the number once more behind it, as a parameter of its own: declare
    `DslFastDivmod(n), np.int32(n)`.
    Source: T. Granlund, P. Montgomery, Division by Invariant Integers using Multiplication, figure 4.1.
    """

    divisor: int

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Name and value of each part. Errors: InputError for a number below 1 or above 2^31 - 1."""
        if not 1 <= self.divisor < 1 << 31:
            raise InputError(f"a divisor is in 1..{(1 << 31) - 1}, not {self.divisor}")
        bits = (self.divisor - 1).bit_length()
        yield "divisor", np.uint32(self.divisor)
        yield "multiplier", np.uint32((((1 << bits) - self.divisor << 32) // self.divisor + 1) & 0xFFFFFFFF)
        yield "first shift", np.uint8(min(bits, 1))
        yield "second shift", np.uint8(max(bits - 1, 0))


Declared = DslTensor | DslCoordTensor | DslTmaAtom | DslLayout | DslFastDivmod | np.generic | int | float


def pack(ptx: Any, declared: Sequence[Declared], *, entry: str | None = None) -> list[Any]:
    """Return the `args` of `emulator.launch` for a kernel of the CuTe DSL.

    ptx       a text, a file or a compiled kernel, as `testing.check` takes it.
    declared  the kernel's arguments in order, without those that are constants of the compile. One without
              any part, such as a tensor of coordinates of constant extents, may be left out or not.
    entry     the kernel, as `emulator.launch` takes it.

    Errors: InputError, with the kernel's parameters and the declared ones side by side, if a size differs or
    the kernel loads from within a part; PtxError for a text that is none.
    """
    checked = module_of(ptx)
    function = find_entry(checked.module, entry)
    wanted = parameters(checked.functions[function.name])
    given = [one for one in (_Packed.of(value) for value in declared) if one.parts or one.number is not None]
    faults = [
        fault
        for parameter, packed in zip_longest(wanted, given)
        if (fault := _fault(parameter, packed)) is not None
    ]
    if faults or len(wanted) != len(given):
        rows = [
            (
                f"{parameter.declared} loads {_loads(parameter)}" if parameter else "nothing",
                str(packed) if packed else "nothing",
                _fault(parameter, packed),
            )
            for parameter, packed in zip_longest(wanted, given)
        ]
        width = max(len(left) for left, _, _ in rows)
        listed = "".join(
            f"\n  {place}  {left:<{width}}  {right}" + (f"  <- {fault}" if fault else "")
            for place, (left, right, fault) in enumerate(rows)
        )
        is_tensor = any(row[2] and row[1].startswith(DslTensor.__name__) for row in rows)
        raise InputError(
            f"{short_name(function.name)} and what is declared for it differ:{listed}"
            + ("\nSay which axes are no constants: DslTensor(array, extents=(0,), strides=())" * is_tensor)
        )
    return [one.argument(parameter) for one, parameter in zip(given, wanted, strict=True)]


@dataclass(frozen=True)
class _Packed:
    """A declared argument as a C struct: name, offset, bytes and value of each part; or a plain number."""

    kind: str
    parts: tuple[tuple[str, int, int, Any], ...] = ()
    bytes: int = 0
    number: np.generic | int | float | None = None

    @classmethod
    def of(cls, value: Any) -> _Packed:
        if isinstance(value, np.generic | int | float):
            size = value.nbytes if isinstance(value, np.generic) else 0
            return cls(type(value).__name__, (), size, value)
        if not hasattr(value, "fields"):
            raise InputError(
                f"{type(value).__name__} is no argument of a DSL kernel: give a DslTensor or its like"
            )
        parts, end, widest = [], 0, 1
        for name, held in value.fields():
            size = _size_of(held)
            step = min(size, 64)
            start = -(-end // step) * step
            parts.append((name, start, size, held))
            end, widest = start + size, max(widest, step)
        return cls(type(value).__name__, tuple(parts), -(-end // widest) * widest)

    def argument(self, parameter: Parameter) -> Any:
        """The argument for `emulator.launch`."""
        held = tuple(held for *_, held in self.parts)
        is_alone = len(held) == 1 and not parameter.is_struct
        return self.number if self.number is not None else held[0] if is_alone else held

    def __str__(self) -> str:
        inside = ", ".join(f"{name} at {start}" for name, start, _, _ in self.parts)
        size = f" of {self.bytes} bytes" if self.bytes else ""
        return f"{self.kind}{size}" + (f": {inside}" if inside else "")


def _size_of(held: Any) -> int:
    if isinstance(held, TensorMap):
        return _MAP_BYTES
    return 8 if isinstance(held, np.ndarray) else int(held.nbytes)


def _loads(parameter: Parameter) -> str:
    return ", ".join(f"{kind} at {offset}" for offset, kind in parameter.fields) or "nothing"


def _fault(parameter: Parameter | None, packed: _Packed | None) -> str | None:
    """Say why a declared argument cannot be a parameter's; None if it can."""
    if parameter is None:
        return "the kernel has no such parameter"
    if packed is None:
        return "not declared"
    if packed.number is not None:
        if parameter.is_struct:
            return "a number for a struct"
        return None if packed.bytes in {0, parameter.bytes} else f"{parameter.bytes} bytes are needed"
    is_map = any(isinstance(held, TensorMap) for *_, held in packed.parts)
    if packed.bytes != parameter.bytes and not (is_map and packed.bytes < parameter.bytes):
        return f"{parameter.bytes} bytes are needed"
    starts = {start for _, start, _, _ in packed.parts}
    filled = {byte for _, start, size, _ in packed.parts for byte in range(start, start + size)}
    for offset, kind in parameter.fields:
        stop = offset + (type_bits(kind) or 8) // 8
        if not is_map and (offset not in starts or not filled.issuperset(range(offset, stop))):
            return f"the kernel loads {kind} at {offset}, where no such part is"
    return None
