"""Make the arguments of a launch from the fields of a form. Errors name the field that does not fit."""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.analysis.arguments import Arguments
from cutecourse.dtypes import DType, DTypeError, decode, dtype, encode
from cutecourse.emulator import TensorMap
from cutecourse.errors import CourseError
from cutecourse.runtime import emulator_tensor_map
from cutecourse.tma import TensorMapEncoding

__all__ = ["Array", "FormError", "extents", "make_arguments", "whole"]

LIMIT_BYTES = 256 << 20
FILLS = ("zeros", "ones", "arange", "random", "values", "file")
_RANDOM = 4
_FILE = re.compile(r"\b(?:in|inout|out):|\bmap:(?!\s*[{\[])")
"""Words that read or write a file; a tensor map whose fields stand in the text is none."""


class FormError(CourseError):
    """A field of the form has a value that does not fit; `field` names it, as in "arguments.0.shape"."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(problem)


class Array:
    """An array of the launch: its memory, its element type, and a copy from before the launch."""

    def __init__(self, name: str, kind: DType, memory: NDArray[Any]) -> None:
        self.name, self.kind, self.memory = name, kind, memory
        self.before = memory.copy()

    @property
    def numbers(self) -> NDArray[Any]:
        """The array's values."""
        return decode(self.memory, self.kind)


def make_arguments(
    parameters: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], dict[str, Array]]:
    """The arguments for a kernel's parameters, and the arrays by the parameters' names.

    parameters   rows of `read`.
    given        for each one the argument, with the fields of its kind in `form.KINDS`. An array of the
                 filling "file" has `file`, the base64 text of what `numpy.save` writes.
    Errors: FormError.
    """
    if len(given) != len(parameters):
        raise FormError(
            "text", f"The kernel has {len(parameters)} parameters, but the form has {len(given)}."
        )
    makers = [
        _Maker(f"arguments.{place}", parameter, fields)
        for place, (parameter, fields) in enumerate(zip(parameters, given, strict=True))
    ]
    arrays: dict[str, Array] = {}
    total = 0
    for maker in makers:
        if maker.kind in {"array", "map", "maps"} and not maker.same_as:
            arrays[maker.name] = maker.array(LIMIT_BYTES - total)
            total += arrays[maker.name].memory.nbytes
    return [maker.argument(arrays) for maker in makers], arrays


class _Maker:
    """Makes the argument of one parameter."""

    def __init__(self, path: str, parameter: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        self.path, self.name, self.parameter, self.fields = path, parameter["name"], parameter, fields
        self.kind = fields.get("kind")
        if self.kind not in parameter["kinds"]:
            raise FormError(f"{path}.kind", f"{self.name} can be given as {' or '.join(parameter['kinds'])}")
        self.same_as = str(fields.get("same_as") or "")

    def text(self, field: str) -> str:
        return str(self.fields.get(field) or "").strip()

    def wrong(self, field: str, problem: str) -> FormError:
        return FormError(f"{self.path}.{field}", problem)

    def argument(self, arrays: Mapping[str, Array]) -> Any:
        if self.kind == "number":
            return self.number()
        if self.kind == "bytes":
            return self.bytes()
        if self.same_as and self.same_as not in arrays:
            known = ", ".join(arrays) or "none"
            raise self.wrong("same_as", f"there is no array {self.same_as!r}; arrays: {known}")
        array = arrays[self.same_as or self.name]
        if self.kind == "maps":
            return self.maps(array)
        return array.memory if self.kind == "array" else self.map(array.kind, array.memory)

    def array(self, room: int) -> Array:
        """The array of this parameter, filled."""
        kind = self.dtype()
        fill = self.text("fill")
        if fill == "file":
            return Array(self.name, kind, self.file(kind, room))
        shape = self.shape()
        if math.prod(shape) * kind.numpy.itemsize > room:
            raise self.wrong("shape", f"all arrays together may take at most {LIMIT_BYTES >> 20} MiB")
        return Array(self.name, kind, np.ascontiguousarray(encode(self.filled(fill, shape, kind), kind)))

    def dtype(self) -> DType:
        try:
            kind = dtype(self.text("dtype"))
            _ = kind.numpy
        except DTypeError as error:
            raise self.wrong("dtype", str(error)) from None
        return kind

    def shape(self) -> tuple[int, ...]:
        text = self.text("shape").lower()
        try:
            shape = tuple(int(extent) for extent in text.replace(",", "x").split("x"))
        except ValueError:
            shape = (-1,)
        if not 1 <= len(shape) <= 8 or any(extent < 1 for extent in shape):
            raise self.wrong("shape", f"{text!r} is not a shape such as 1024 or 128x64")
        return shape

    def filled(self, fill: str, shape: tuple[int, ...], kind: DType) -> NDArray[Any]:
        count = math.prod(shape)
        if fill == "zeros":
            return np.zeros(shape)
        if fill == "ones":
            return np.ones(shape)
        if fill == "arange":
            return np.arange(count).reshape(shape)
        if fill == "random":
            low = 0 if kind.kind in {"uint", "bits", "pred"} else -_RANDOM
            seed = whole(f"{self.path}.seed", self.text("seed") or "0", least=0)
            return np.random.default_rng(seed).integers(low, _RANDOM + 1, shape)
        if fill == "values":
            return self.typed(count, kind).reshape(shape)
        raise self.wrong("fill", f"{fill!r} is not one of {', '.join(FILLS)}")

    def typed(self, count: int, kind: DType) -> NDArray[Any]:
        """The numbers that the reader typed, repeated until they fill the array."""
        words = self.text("values").replace(",", " ").split()
        try:
            numbers = [float(w) if kind.kind == "float" else int(w, 0) for w in words]
        except ValueError as error:
            raise self.wrong("values", f"these are not numbers of type {kind}: {error}") from None
        if not 1 <= len(numbers) <= count:
            raise self.wrong("values", f"give 1 to {count} numbers; this field has {len(numbers)}")
        return np.resize(np.array(numbers), count)

    def file(self, kind: DType, room: int) -> NDArray[Any]:
        stored = str(self.fields.get("file") or "")
        if not stored:
            raise self.wrong("file", "choose a file")
        try:
            found = np.load(io.BytesIO(base64.b64decode(stored, validate=True)), allow_pickle=False)
        except (ValueError, EOFError, SyntaxError, OverflowError, OSError, binascii.Error) as error:
            raise self.wrong("file", f"the file is not an array that numpy.save wrote: {error}") from None
        if not isinstance(found, np.ndarray) or found.size == 0:
            raise self.wrong("file", "the file holds no array, or an empty one")
        if found.nbytes > room:
            raise self.wrong("file", f"all arrays together may take at most {LIMIT_BYTES >> 20} MiB")
        if found.dtype.itemsize != kind.numpy.itemsize:
            raise self.wrong("dtype", f"the file holds {found.dtype}, which does not fit {kind}")
        return np.ascontiguousarray(found).view(kind.numpy).copy()

    def number(self) -> int | float:
        text, declared = self.text("value"), self.parameter["declared"].lstrip(".")
        try:
            if declared[0] == "f" or declared == "bf16":
                return float(text)
            try:
                return int(text, 0)
            except ValueError:
                if declared[0] != "b":
                    raise
                return float(text)
        except ValueError:
            raise self.wrong(
                "value", f"{text!r} is not a number of type {self.parameter['declared']}"
            ) from None

    def bytes(self) -> Any:
        text = self.text("value")
        is_struct = text.startswith("{")
        spec = text if is_struct else f"bytes:{text.replace(' ', '')}"
        if is_struct and _FILE.search(text):
            raise self.wrong("value", "a struct cannot take a file; write an array as zeros:f32:16x8")
        try:
            return Arguments(LIMIT_BYTES).one(spec)
        except CourseError as error:
            raise self.wrong("value", str(error)) from None

    def maps(self, array: Array) -> list[TensorMap]:
        """A tensor map over each part of an array that an index of its first axis names."""
        if array.memory.ndim < 2:
            raise self.wrong("shape", "give two axes or more: the first one counts the tensor maps")
        return [self.map(array.kind, part) for part in array.memory]

    def map(self, kind: DType, memory: NDArray[Any]) -> TensorMap:
        """The tensor map over an array: its dimensions are the array's, innermost first."""
        dims = memory.shape[::-1]
        size = memory.itemsize
        strides = [size * math.prod(dims[: place + 1]) for place in range(len(dims) - 1)]
        box = [whole(f"{self.path}.box", word, least=1) for word in self.text("box").split(",")]
        if len(box) != len(dims):
            raise self.wrong(
                "box", f"give {len(dims)} extents, innermost first: the array has {len(dims)} axes for a map"
            )
        try:
            encoding = TensorMapEncoding(
                kind,
                dims,
                tuple(strides),
                tuple(box),
                swizzle=self.text("swizzle") or "none",  # type: ignore[arg-type]
                oob_fill=self.text("outside") or "zeros",  # type: ignore[arg-type]
            )
            return emulator_tensor_map(encoding, memory, name=self.name)
        except CourseError as error:
            rule = str(getattr(error, "rule", ""))
            field = "swizzle" if "swizzle" in rule else "box" if "box" in rule else "shape"
            raise self.wrong(field, getattr(error, "problem", str(error))) from None


def whole(field: str, text: object, *, least: int) -> int:
    """A whole number from a field. Errors: FormError."""
    try:
        number = int(str(text).strip(), 0)
    except ValueError:
        number = least - 1
    if number < least:
        raise FormError(field, f"{str(text).strip()!r} is not a whole number of at least {least}")
    return number


def extents(field: str, text: object) -> tuple[int, int, int]:
    """A grid, block or cluster from a field, as in "2,1". Errors: FormError."""
    words = str(text).strip().split(",")
    if not 1 <= len(words) <= 3:
        raise FormError(field, f"{text!r} is not one to three numbers such as 2,1,1")
    x, y, z = [*(whole(field, word, least=1) for word in words), 1, 1][:3]
    return x, y, z
