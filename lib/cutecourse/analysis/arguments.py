"""Arguments of a kernel from words: numbers, arrays, tensor maps, structs.

u32:5                    a number of that type (u8 to u64, s8 to s64, b8 to b64, f16, bf16, f32, f64)
in:a.npy                 an array; `in:a.npy:bf16` reads its bytes as that type
inout:a.npy:b.npy        an array from the first file, saved in the second after the kernel
out:c.npy:f32:128x128    zeros of that type and shape, saved after the kernel (bf16 as codes in uint16)
zeros:f32:128x128        zeros that nobody saves
map:a.json               a tensor map: the fields of cutecourse.tma.TensorMapEncoding, and "array": one of the
                         arrays above, with its path as seen from where the command runs; map:{...} has the
                         fields in place of a file; for a pointer the map lies in global memory, and a list
                         of such objects, map:[{...},{...}], lies there as an array of maps
bytes:00ff10             a struct's bytes
{in:a.npy,u32:5}         a struct's fields, each aligned to its size

A file that is named twice is one array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.parameters import Parameter
from cutecourse.dtypes import DType, DTypeError, dtype, encode
from cutecourse.emulator import TensorMap
from cutecourse.errors import CourseError
from cutecourse.runtime import emulator_tensor_map
from cutecourse.tma import TensorMapEncoding

__all__ = ["Arguments", "check_writable"]

_SCALARS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64", "f16", "bf16",
            "f32", "f64")  # fmt: skip
# What TensorMapEncoding.to_snapshot adds to the fields: a snapshot may be pasted as it is.
_DERIVED = {"data_type", "tma_format", "swizzle_mode"}
_MAX_JSON_BYTES = 1 << 20


@dataclass
class Arguments:
    """Makes the arguments of one launch and remembers which arrays are to be saved.

    limit_bytes   how many bytes all arrays together may have.
    """

    limit_bytes: int
    arrays: dict[tuple[str, str], NDArray[Any]] = field(default_factory=dict)
    """By what was read or made: a file's path and the type it is read as."""
    saved: dict[str, NDArray[Any]] = field(default_factory=dict)
    """The arrays to write after the kernel, and their files."""
    _bytes: int = 0

    def make(self, specs: Sequence[str], wanted: Sequence[Parameter]) -> list[Any]:
        """The arguments for a kernel's parameters. Errors: InputError."""
        if len(specs) != len(wanted):
            listed = "".join(f"\n  {p.name}: {p.declared}, {p.role}: --arg {p.give}" for p in wanted)
            given = "1 argument" if len(specs) == 1 else f"{len(specs)} arguments"
            raise InputError(f"{given} for {len(wanted)} parameters{':' if wanted else ''}{listed}")
        return [self._for(spec, parameter) for spec, parameter in zip(specs, wanted, strict=True)]

    def _for(self, spec: str, parameter: Parameter) -> Any:
        try:
            value = self.one(spec)
            if isinstance(value, np.generic):
                _fits(spec, value, parameter)
        except InputError as error:
            raise InputError(f"--arg {spec} for {parameter.name} ({parameter.declared}): {error}") from None
        return value

    def one(self, spec: str) -> Any:
        """One argument. Errors: InputError."""
        if spec.startswith("{") and spec.endswith("}"):
            return tuple(self.one(part.strip()) for part in _parts(spec[1:-1]))
        kind, colon, rest = spec.partition(":")
        if colon and kind in _SCALARS:
            return _scalar(kind, rest)
        if colon and kind == "bytes":
            return _bytes(rest)
        if colon and kind == "map":
            return self._map(rest)
        return self._array(spec)

    def _array(self, spec: str) -> NDArray[Any]:
        kind, *words = spec.split(":")
        match kind, words:
            case "in", [path]:
                return self._load(path, None)
            case "in", [path, name]:
                return self._load(path, _type(name))
            case "inout", [path, target]:
                return self._save(target, self._load(path, None))
            case "zeros", [name, shape]:
                return self._zeros(_type(name), _shape(shape))
            case "out", [path, name, shape]:
                return self._out(path, _type(name), _shape(shape))
        raise InputError(
            f"{spec!r} is not an argument; there are TYPE:VALUE, in:FILE.npy, inout:FILE.npy:FILE.npy, "
            "out:FILE.npy:TYPE:SHAPE, zeros:TYPE:SHAPE, map:FILE.json, bytes:HEX and {FIELD,...}"
        )

    def _count(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        if self._bytes > self.limit_bytes:
            raise InputError(
                f"the arrays have {self._bytes} bytes, more than the {self.limit_bytes} that --max-memory"
                " allows"
            )

    def _load(self, path: str, kind: DType | None) -> NDArray[Any]:
        key = (str(Path(path).resolve()), "" if kind is None else kind.name)
        if key not in self.arrays:
            stored = _stored(path)
            self._count(stored.nbytes)
            array = np.array(stored, order="K")
            if kind is not None:
                held = _numpy(kind)
                if held.itemsize != array.dtype.itemsize:
                    raise InputError(f"{path} holds {array.dtype}, whose elements are not {kind}")
                array = array.view(held)
            self.arrays[key] = array
        return self.arrays[key]

    def _zeros(self, kind: DType, shape: tuple[int, ...]) -> NDArray[Any]:
        held = _numpy(kind)
        self._count(math.prod(shape) * held.itemsize)
        return np.zeros(shape, held)

    def _out(self, path: str, kind: DType, shape: tuple[int, ...]) -> NDArray[Any]:
        known = self.saved.get(path)
        if known is not None:
            if known.shape != shape or known.dtype != _numpy(kind):
                raise InputError(f"{path} was already named, as {known.dtype} of shape {known.shape}")
            return known
        return self._save(path, self._zeros(kind, shape))

    def _save(self, path: str, array: NDArray[Any]) -> NDArray[Any]:
        check_writable(path)
        if self.saved.setdefault(path, array) is not array:
            raise InputError(f"{path} would be saved twice")
        return array

    def _map(self, path: str) -> Any:
        given = _fields_of_map(path)
        path = "the tensor map" if path.startswith(("{", "[")) else path
        if not isinstance(given, list):
            return self._one_map(path, given)
        if not given:
            raise InputError(f"{path} is an empty list: give one object for each tensor map")
        return [self._one_map(f"{path} {place}", one) for place, one in enumerate(given)]

    def _one_map(self, path: str, given: Any) -> TensorMap:
        names = [one.name for one in fields(TensorMapEncoding)]
        needed = ["array", *names[:4]]
        if not isinstance(given, dict) or not all(name in given for name in needed):
            raise InputError(f"{path} is not a tensor map: give an object with {', '.join(needed)}")
        unknown = set(given) - {"array", "name", *names, *_DERIVED}
        if unknown:
            raise InputError(
                f"{path}: a tensor map has no {', '.join(sorted(unknown))}; it has array, {', '.join(names)}"
            )
        if not isinstance(given["array"], str):
            raise InputError(f'{path}: "array" is a text such as "in:a.npy"')
        array = self._array(given["array"])
        try:
            encoding = TensorMapEncoding(**{name: given[name] for name in names if name in given})
            return emulator_tensor_map(encoding, array, name=given.get("name"))
        except (CourseError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{path}: {error}") from None


def _fields_of_map(text: str) -> Any:
    """A tensor map's fields from a JSON file, or from the JSON text itself. Errors: InputError."""
    try:
        if text.startswith(("{", "[")):
            return json.loads(text)
        if Path(text).stat().st_size > _MAX_JSON_BYTES:
            raise InputError(f"{text} is not a tensor map: it has more than {_MAX_JSON_BYTES} bytes")
        return json.loads(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{text} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text} is not JSON: {error}") from None


def check_writable(path: str) -> None:
    """Refuse a file that cannot be written, before anything runs. Errors: InputError."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        why = "it is a folder" if target.is_dir() else "there is no such folder"
        raise InputError(f"{path} cannot be written: {why}")


def _parts(text: str) -> list[str]:
    """A struct's fields: commas in braces or brackets belong to a tensor map."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or any(part.strip().startswith("{") for part in parts):
        raise InputError(f"{{{text}}}: a struct's field cannot be a struct")
    return parts


def _fits(spec: str, value: np.generic, parameter: Parameter) -> None:
    """A number has the size that the parameter has, and is an integer where it is one."""
    if value.nbytes != parameter.bytes:
        raise InputError(f"it has {value.nbytes} bytes, but the parameter has {parameter.bytes}")
    declared = parameter.declared.lstrip(".")
    is_float = spec.startswith(("f", "bf16"))
    if is_float and declared[0] in "su":
        raise InputError("it is a floating-point number, but the parameter is an integer")
    if (declared[0] == "f" or declared == "bf16") and spec[0] in "su":
        raise InputError("it is an integer, but the parameter is a floating-point number")


def _scalar(kind: str, text: str) -> np.generic:
    held = _numpy(_type(kind))
    try:
        if kind[0] == "f" or kind == "bf16":
            coded: np.generic = encode([float(text)], kind)[0]
            return coded
        number = int(text, 0)
    except ValueError:
        raise InputError(f"{text!r} is not a number of type {kind}") from None
    bits = 8 * held.itemsize
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise InputError(f"{number} does not fit into {kind}: it must be in {low}..{high}")
    integer: np.generic = held.type(number)
    return integer


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InputError(f"{text!r} is not a sequence of hexadecimal bytes such as 00ff10") from None


def _type(name: str) -> DType:
    try:
        return dtype(name)
    except DTypeError as error:
        raise InputError(str(error)) from None


def _numpy(kind: DType) -> np.dtype[Any]:
    try:
        return kind.numpy
    except DTypeError as error:
        raise InputError(str(error)) from None


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(extent) for extent in text.split("x"))
    except ValueError:
        shape = (-1,)
    if not 1 <= len(shape) <= 8 or any(extent < 0 for extent in shape):
        raise InputError(f"{text!r} is not a shape such as 128x64")
    return shape


def _stored(path: str) -> NDArray[Any]:
    """A file's array, mapped and not read: what its head promises has to be there. Errors: InputError."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, SyntaxError, OverflowError) as error:
        # NumPy takes whatever it does not know for a pickle, and advises to load it as one.
        why = "" if "pickle" in str(error) else f": {error}"
        raise InputError(f"{path} is not an array of numbers that numpy.save wrote{why}") from None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} holds several arrays: save the one that you want with numpy.save")
    return found
