"""Arrays of other libraries as NumPy arrays over the same memory: DLPack and the array interface.

PyTorch, JAX and CuPy tensors are among them; none of these libraries is imported. Element types that NumPy
lacks, such as bf16 and fp8, become unsigned integers that hold the codes, as everywhere in this library.

Source: DLPack 1.1, the C structures DLManagedTensor and DLManagedTensorVersioned; the array API standard,
__dlpack__; NumPy, the array interface, version 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import LaunchError, ReadOnlyError

__all__ = ["READ_ONLY_ADVICE", "check_writable", "host_arrays"]

READ_ONLY_ADVICE = "The kernel writes to its input. If that is intended, pass an array that is not read-only."

_HOST_DEVICES = (1, 3, 11, 13)
"""DLPack's device types whose memory the CPU can use: CPU, and pinned or managed memory of CUDA and ROCm."""
_READ_ONLY = 1
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""DLPack's type codes that NumPy has as well, and NumPy's letter."""


def host_arrays(argument: Any) -> Any:
    """The argument of a launch, with the arrays of other libraries in it as NumPy arrays; nothing is copied.

    An array has `__dlpack__` or `__array_interface__`. Anything else stays as it is.

    Errors: LaunchError for an array in a GPU's memory, one that its library does not hand out, and a type
    whose elements do not fill bytes.
    """
    if isinstance(argument, np.ndarray | np.generic):
        return argument
    if isinstance(argument, tuple | list):
        return type(argument)([host_arrays(item) for item in argument])
    kind = type(argument)
    if hasattr(kind, "__dlpack__"):
        return _from_dlpack(argument)
    # Some libraries answer the question for this attribute with an error of their own.
    if hasattr(kind, "__array_interface__") or "__array_interface__" in getattr(argument, "__dict__", ()):
        return np.asarray(argument)
    if hasattr(kind, "__cuda_array_interface__"):
        raise LaunchError(f"{_name(argument)} lies in a GPU's memory: pass a copy in the CPU's memory")
    return argument


def check_writable(origin: Origin, allocation: Allocation, what: str) -> None:
    """Refuse `what`, which writes to an allocation, if that is a read-only array. Errors: ReadOnlyError."""
    if not allocation.writable:
        raise origin.error(
            ReadOnlyError,
            f"{what} writes to {allocation.name}. {READ_ONLY_ADVICE}",
            allocation=allocation.name,
        )


def _name(argument: Any) -> str:
    return f"the array of type {type(argument).__module__}.{type(argument).__qualname__}"


def _from_dlpack(argument: Any) -> NDArray[Any]:
    try:
        device, _ = argument.__dlpack_device__()
        if device not in _HOST_DEVICES:
            raise LaunchError(
                f"{_name(argument)} lies in the memory of another device (type {int(device)} in DLPack): pass"
                " a copy in the CPU's memory, in PyTorch tensor.cpu()"
            )
        try:
            capsule = argument.__dlpack__(max_version=(1, 1))
        except TypeError:  # a library from before DLPack 1.0
            capsule = argument.__dlpack__()
    except (BufferError, RuntimeError, ValueError, AttributeError, TypeError) as error:
        raise LaunchError(f"{_name(argument)} does not hand out its memory: {error}") from None
    try:
        return _view(capsule)
    except LaunchError as error:
        raise LaunchError(f"{_name(argument)}: {error.problem}") from None


def _view(capsule: Any) -> NDArray[Any]:
    """The array that a capsule describes. It keeps the capsule, and the capsule keeps the memory.

    NumPy's own `from_dlpack` refuses bf16, and makes every array of a library from before DLPack 1.0
    read-only.
    """
    import ctypes

    class DLTensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.POINTER(ctypes.c_int64)),
            ("byte_offset", ctypes.c_uint64),
        ]

    class DLManagedTensorVersioned(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_uint32 * 2),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
            ("tensor", DLTensor),
        ]

    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    read_only = False
    if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(
            api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        )
        if managed.version[0] != 1:
            raise LaunchError(f"its DLPack is of version {managed.version[0]}, and only 1 is known")
        tensor, read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
    elif api.PyCapsule_IsValid(capsule, b"dltensor"):
        tensor = DLTensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor"))
    else:
        raise LaunchError("__dlpack__ gave no capsule of a tensor")
    bits = tensor.bits * tensor.lanes
    if bits % 8 or (tensor.lanes != 1 and tensor.bits % 8 == 0):
        raise LaunchError(
            f"its elements of {tensor.bits} bits in {tensor.lanes} lanes do not fill bytes one by one"
        )
    held = np.dtype(f"{_KINDS.get(tensor.code, 'u')}{bits // 8}")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * held.itemsize for axis in range(tensor.ndim))
    n_bytes = held.itemsize
    for axis, extent in enumerate(shape):
        n_bytes = n_bytes * extent if strides is None else n_bytes + (extent - 1) * strides[axis]
    if 0 in shape:
        return np.zeros(shape, held)
    memory: Any = (ctypes.c_uint8 * n_bytes).from_address(tensor.data + tensor.byte_offset)
    memory.capsule = capsule
    array: NDArray[Any] = np.ndarray(shape, held, buffer=memory, strides=strides)
    array.flags.writeable = not read_only
    return array
