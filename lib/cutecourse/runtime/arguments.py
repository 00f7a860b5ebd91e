"""From the caller's arrays to what a kernel is launched with, and back: pure functions, no device.

The caller speaks in logical arrays, `c[m, n]`; the kernel sees memory, where the specification's stride says
at which offset each element lies. Here the one is turned into the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse.dtypes import encode, from_numpy
from cutecourse.errors import CourseError
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.runtime.errors import ArgumentError
from cutecourse.runtime.tensor_map import MappedArray, emulator_tensor_map
from cutecourse.tma import TensorMapEncoding

__all__ = ["GAP_BYTE", "Bound", "bind", "emulator_arguments", "flat_arguments", "numba_array"]

Array = np.ndarray[Any, np.dtype[Any]]

# Memory between the elements of a tensor that is not compact; a kernel has no business there.
GAP_BYTE = 0xA5


@dataclass(frozen=True)
class Bound:
    """One tensor of one launch: its buffer as the kernel sees it, and how to read the elements back."""

    tensor: Tensor
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    buffer: Array

    def logical(self) -> Array:
        """A copy of the elements as a row-major array with one axis for each leaf mode."""
        return np.ascontiguousarray(_view(self.buffer, self.extents, self.strides))


def bind(spec: LaunchSpec, given: Mapping[str, Any]) -> dict[str, Bound | np.generic]:
    """Check what the caller passed against the specification, and lay the arrays out in memory.

    Arrays are copied: the caller's stay as they are.
    Errors: ArgumentError, which names the parameter, what it should be and what came; or the rule that its
    tensor map breaks. SpecError where CuTe refuses the tensor map.
    """
    names = list(spec.arguments)
    signature = f"{spec.name}({', '.join(names)})"
    missing = [name for name in names if name not in given]
    if missing:
        raise ArgumentError(f"{signature} was given no {' and no '.join(missing)}.")
    extra = [name for name in given if name not in names]
    if extra:
        raise ArgumentError(f"{signature} has no parameter {' or '.join(extra)}.")
    bound = {
        name: (
            _bind_tensor(spec.name, param, given[name])
            if isinstance(param, Tensor)
            else _bind_scalar(spec.name, param, given[name])
        )
        for name, param in spec.arguments.items()
    }
    for param in spec.params:
        if isinstance(param, TensorMapSpec):
            _check_map(spec.name, param)
    return bound


def _check_map(kernel: str, param: TensorMapSpec) -> None:
    """Refuse a tensor map that the driver would, or that reaches beyond its array. Errors: ArgumentError."""
    encoding = param.encoding
    try:
        encoding.check()
    except CourseError as error:
        raise ArgumentError(f"{kernel}: the tensor map {param.name} is not possible: {error}") from error
    last = sum(
        (extent - 1) * step
        for extent, step in zip(encoding.dims, (encoding.element_bytes, *encoding.strides_bytes), strict=True)
    )
    reach, size = last + encoding.element_bytes, param.cosize * param.dtype.bits // 8
    if reach > size:
        raise ArgumentError(
            f"{kernel}: the tensor map {param.name} has dims {encoding.dims} with strides of "
            f"{encoding.strides_bytes} bytes and reaches {reach} bytes far; "
            f"the array {param.argument} has {size}."
        )


def _bind_tensor(kernel: str, tensor: Tensor, given: Any) -> Bound:
    if not isinstance(given, np.ndarray):
        raise ArgumentError(
            f"{kernel}: {tensor.name} must be a NumPy array of {tensor.dtype}, not {type(given).__name__}."
        )
    if not tensor.dtype.holds(given.dtype):
        try:
            came = f"{given.dtype} ({from_numpy(given.dtype)})"
        except CourseError:
            came = str(given.dtype)
        wanted, how = f"NumPy {tensor.dtype.numpy}", ""
        if tensor.dtype.coded:
            wanted = f"codes in {wanted}"
            how = f" with cutecourse.dtypes.encode(values, '{tensor.dtype}')"
        raise ArgumentError(
            f"{kernel}: {tensor.name} must hold {tensor.dtype} ({wanted}), not {came}. "
            f"Convert it yourself{how}, so that no rounding happens unseen."
        )
    fits = len(given.shape) == len(tensor.extents) and all(
        extent in (None, came) for extent, came in zip(tensor.extents, given.shape, strict=True)
    )
    if not fits or 0 in given.shape:
        shape = ", ".join("any" if extent is None else str(extent) for extent in tensor.extents)
        trailing = "," if len(tensor.extents) == 1 else ""
        raise ArgumentError(
            f"{kernel}: {tensor.name} must have shape ({shape}{trailing}), not {given.shape}."
        )
    extents = given.shape
    strides = tensor.strides_for(extents)
    n_bytes = tensor.cosize_for(extents) * given.itemsize
    buffer = np.full(n_bytes, GAP_BYTE, dtype=np.uint8).view(given.dtype)
    _view(buffer, extents, strides)[...] = given
    return Bound(tensor, extents, strides, buffer)


def _bind_scalar(kernel: str, scalar: Scalar, given: Any) -> np.generic:
    came = f"{given!r} ({type(given).__name__})"
    is_integer = isinstance(given, int | np.integer) and not isinstance(given, bool)
    is_float = isinstance(given, float | np.floating)
    if scalar.dtype.kind != "float" and not is_integer:
        raise ArgumentError(f"{kernel}: {scalar.name} must be an integer ({scalar.dtype}), not {came}.")
    if not (is_integer or is_float):
        raise ArgumentError(f"{kernel}: {scalar.name} must be a number ({scalar.dtype}), not {came}.")
    if scalar.dtype.kind != "float":
        limits = np.iinfo(scalar.dtype.numpy)
        if not limits.min <= given <= limits.max:
            raise ArgumentError(
                f"{kernel}: {scalar.name} = {given} is not in {limits.min} to {limits.max} ({scalar.dtype})."
            )
    value: np.generic = encode(given, scalar.dtype).reshape(1)[0]
    return value


def _view(buffer: Array, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    byte_strides = tuple(step * buffer.itemsize for step in strides)
    return np.lib.stride_tricks.as_strided(buffer, extents, byte_strides)


def flat_arguments(
    spec: LaunchSpec, bound: Mapping[str, Bound | np.generic]
) -> list[Array | MappedArray | np.generic]:
    """The kernel's parameters in the order of its PTX: an array stands for a pointer to its memory."""
    flat: list[Array | MappedArray | np.generic] = []
    for param in spec.params:
        value = bound[param.argument]
        if not isinstance(value, Bound):
            flat.append(value)
        elif isinstance(param, TensorMapSpec):
            flat.append(MappedArray(param.argument, param.encoding, value.buffer))
        elif spec.language != "numba":
            flat.append(value.buffer)
        else:
            flat += numba_array(value.buffer, value.extents, value.strides)
    return flat


def numba_array(
    buffer: Array, extents: tuple[int, ...], strides: tuple[int, ...]
) -> list[Array | np.generic]:
    """The parameters that numba passes for an array, with strides in elements.

    They are meminfo, parent, number of elements, bytes of one element, the pointer, the extents, and the
    strides in bytes; the first two matter to the host only and are 0.
    """
    itemsize, count = buffer.itemsize, int(np.prod(extents))
    return [
        *(np.uint64(0), np.uint64(0), np.int64(count), np.int64(itemsize), buffer),
        *(np.int64(extent) for extent in extents),
        *(np.int64(step * itemsize) for step in strides),
    ]


def emulator_arguments(
    spec: LaunchSpec,
    bound: Mapping[str, Bound | np.generic],
    encodings: Mapping[str, TensorMapEncoding] | None = None,
) -> list[Any]:
    """The `args` of `emulator.launch`: the flat arguments, with the emulator's own tensor maps.

    bound      the result of `bind`; the emulator writes to its buffers.
    encodings  other fields for some of the tensor maps, by the parameter's name: to see what those do.
    Errors:    ArgumentError for a name that is no tensor map's; emulator.TensorMapError for a rule that
               such fields break.

    >>> import numpy as np
    >>> from cutecourse.kernels import hello_ptx
    >>> bound = bind(hello_ptx.LAUNCH, {"out": np.zeros(32, np.uint32)})
    >>> [type(given).__name__ for given in emulator_arguments(hello_ptx.LAUNCH, bound)]
    ['ndarray']
    """
    maps = [param.name for param in spec.params if isinstance(param, TensorMapSpec)]
    others = dict(encodings or {})
    if unknown := [name for name in others if name not in maps]:
        raise ArgumentError(
            f"{spec.name} has no tensor map {' or '.join(unknown)}; it has {', '.join(maps) or 'none'}."
        )
    names = iter(maps)
    return [
        emulator_tensor_map(others.get(next(names), arg.encoding), arg.array, name=arg.name)
        if isinstance(arg, MappedArray)
        else arg
        for arg in flat_arguments(spec, bound)
    ]
