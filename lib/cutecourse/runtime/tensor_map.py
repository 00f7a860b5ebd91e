"""A tensor map from its fields: on a GPU the driver's 128 bytes, on the emulator an object of its own."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse import emulator
from cutecourse.runtime.errors import GpuError
from cutecourse.tma import TensorMapEncoding

__all__ = ["TENSOR_MAP_BYTES", "MappedArray", "driver_tensor_map", "emulator_tensor_map"]

Array = np.ndarray[Any, np.dtype[Any]]

TENSOR_MAP_BYTES = 128
_TENSOR_MAP_ALIGN = 64
_MAX_RANK = 5
_SINCE_CUDA = 12000


@dataclass(frozen=True, eq=False)
class MappedArray:
    """A launch's argument for a `kernels.TensorMapSpec`: the map's fields, and the caller's array.

    `driver_tensor_map` turns it into 128 bytes for a GPU, and `emulator_tensor_map` into an object of the
    emulator. Where the array is also a pointer's or another map's, it is the same memory.
    """

    name: str
    encoding: TensorMapEncoding
    array: Array


def emulator_tensor_map(
    encoding: TensorMapEncoding, array: Array, *, name: str | None = None
) -> emulator.TensorMap:
    """The emulator's tensor map with these fields, over this array's memory.

    Messages and traces call it `name`; without one, what the kernel calls its parameter.
    Errors: emulator.TensorMapError for a rule that the fields break.
    """
    return emulator.TensorMap.tiled(
        array,
        dims=encoding.dims,
        strides=encoding.strides_bytes,
        box=encoding.box,
        element_strides=encoding.element_strides,
        swizzle=encoding.swizzle,
        oob_fill=encoding.oob_fill,
        interleave=encoding.interleave,
        l2_promotion=encoding.l2_promotion,
        dtype=encoding.dtype,
        name=name,
    )


def driver_tensor_map(encoding: TensorMapEncoding, address: int) -> bytes:
    """The 128 bytes that the CUDA driver makes of these fields for a tensor at `address` on the GPU.

    The fields go to cuTensorMapEncodeTiled as they are, so that its refusals can be seen; `encoding.check()`
    says beforehand, and in words, what it would refuse.
    Errors: GpuError with the driver's status, or where there is no driver.
    """
    from cuda.bindings import driver

    encode = _encoder()
    buffer, base = _aligned(TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGN)
    status = encode(
        base,
        int(getattr(driver.CUtensorMapDataType, encoding.data_type)),
        encoding.rank,
        address,
        _array(ctypes.c_uint64, encoding.dims),
        _array(ctypes.c_uint64, encoding.strides_bytes),
        _array(ctypes.c_uint32, encoding.box),
        _array(ctypes.c_uint32, encoding.element_strides),
        int(getattr(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{encoding.interleave.upper()}")),
        int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{encoding.swizzle.upper()}")),
        int(getattr(driver.CUtensorMapL2promotion, _L2_PROMOTIONS[encoding.l2_promotion])),
        int(getattr(driver.CUtensorMapFloatOOBfill, _OOB_FILLS[encoding.oob_fill])),
    )
    if status:
        raise GpuError(
            f"cuTensorMapEncodeTiled refuses the tensor map: {driver.CUresult(status).name}. It was "
            f"{encoding} at address {address:#x}; encoding.check() says which known rule that breaks."
        )
    offset = base - ctypes.addressof(buffer)
    return bytes(buffer.raw[offset : offset + TENSOR_MAP_BYTES])


@functools.cache
def _encoder() -> Callable[..., int]:
    """The driver's cuTensorMapEncodeTiled, found by cuda-bindings and called with a buffer of ours.

    cuda-bindings 13 offers the call itself too, but keeps the result inside a Python object, which is aligned
    to 16 bytes where the driver demands 64 (NVIDIA/cuda-python, pull request 1692).
    """
    from cuda.bindings import driver

    name = "cuTensorMapEncodeTiled"
    try:
        driver.cuInit(0)
        flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
        status, address, _ = driver.cuGetProcAddress(name.encode(), _SINCE_CUDA, flags)
    except RuntimeError as error:  # cuda-bindings' word for a driver that is not there
        raise GpuError(f"a tensor map is encoded by the CUDA driver, and there is none ({error}).") from error
    if status != driver.CUresult.CUDA_SUCCESS or not address:
        raise GpuError(f"the CUDA driver has no {name} ({status.name}); tensor maps came with CUDA 12.")
    words, numbers = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
    modes = (ctypes.c_int,) * 4
    prototype = ctypes.CFUNCTYPE(
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
        *(words, words, numbers, numbers, *modes),
    )
    return prototype(int(address))


def _aligned(n_bytes: int, align: int) -> tuple[Any, int]:
    """A buffer of the host that holds `n_bytes` from an aligned address on, and that address."""
    buffer = ctypes.create_string_buffer(n_bytes + align)
    return buffer, -(-ctypes.addressof(buffer) // align) * align


def _array(kind: Any, values: Sequence[int]) -> Any:
    """The values for the driver, which reads as many as the rank says: zeros follow, should some lack."""
    return (kind * max(_MAX_RANK, len(values)))(*values)


_L2_PROMOTIONS = {
    "none": "CU_TENSOR_MAP_L2_PROMOTION_NONE",
    "64B": "CU_TENSOR_MAP_L2_PROMOTION_L2_64B",
    "128B": "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
    "256B": "CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
}
_OOB_FILLS = {
    "zeros": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    "nan": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA",
}
