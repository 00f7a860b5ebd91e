"""A PTX kernel on an NVIDIA GPU through the CUDA driver, as cuda-bindings offers it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from cutecourse.runtime.errors import GpuError
from cutecourse.runtime.tensor_map import MappedArray, driver_tensor_map

__all__ = ["GpuKernel", "launch_attributes", "parameter_block"]

Array = np.ndarray[Any, np.dtype[Any]]

_LOG_BYTES = 1 << 14
_PORTABLE_CLUSTER_CTAS = 8
_DEVICE_POINTER = ctypes.c_uint64

_LOST = 'Run it with device="emulator" to see where. Restart the process before using the GPU again.'
_HINTS = {
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "The PTX is newer than the driver: update the driver.",
    "CUDA_ERROR_INVALID_PTX": "The driver's compiler refuses the PTX.",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "The PTX is for another GPU architecture.",
    "CUDA_ERROR_ILLEGAL_ADDRESS": f"The kernel read or wrote outside its arrays. {_LOST}",
    "CUDA_ERROR_MISALIGNED_ADDRESS": f"An address is no multiple of the access's size. {_LOST}",
    "CUDA_ERROR_LAUNCH_FAILED": f"The kernel was stopped. {_LOST}",
    "CUDA_ERROR_OUT_OF_MEMORY": "The GPU's memory is taken; see nvidia-smi.",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "The GPU cannot run that many CTAs of this size together.",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "Too many registers or too much shared memory for one block.",
}


def parameter_block(values: Sequence[int | np.generic | bytes]) -> tuple[Any, list[Any]]:
    """The array of pointers that a launch takes, one to each parameter's bytes, and what it points into.

    An int is a device pointer, 8 bytes; a NumPy scalar is passed with its own size; bytes, such as a tensor
    map's, as they are. Keep the second result alive until the launch has returned.
    """
    cells: list[Any] = []
    for value in values:
        if isinstance(value, np.generic):
            cells.append(ctypes.create_string_buffer(value.tobytes(), value.itemsize))
        elif isinstance(value, bytes):
            cells.append(ctypes.create_string_buffer(value, len(value)))
        else:
            cells.append(_DEVICE_POINTER(value))
    pointers = (ctypes.c_void_p * max(1, len(cells)))(*(ctypes.addressof(cell) for cell in cells))
    return pointers, cells


def launch_attributes(driver: Any, cluster: tuple[int, int, int], programmatic: bool) -> list[Any]:
    """The driver's attributes of a launch in clusters, or of one that may start early (`LaunchSpec`)."""
    attributes = []
    if cluster != (1, 1, 1):
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
        attribute.value = value
        attributes.append(attribute)
    if programmatic:
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        value.programmaticStreamSerializationAllowed = 1
        attribute.value = value
        attributes.append(attribute)
    return attributes


def explain(status_name: str, log: str = "") -> str:
    """A sentence for the driver's errors that a reader is likely to meet; the name alone for the others."""
    words = _HINTS.get(status_name, "")
    trimmed = log.strip("\0 \n")
    return f"{status_name}. {words}" + (f"\nThe driver's log:\n{trimmed}" if trimmed else "")


class GpuKernel(AbstractContextManager["GpuKernel"]):
    """One kernel loaded on one GPU: `launch` it, or `time` it; a context manager that unloads it.

    Uses the device's primary context, which other libraries in the process share.
    Errors: GpuError, with the driver's own log where its compiler refuses the PTX.
    """

    def __init__(self, ptx: str, entry: str, *, ordinal: int = 0, dynamic_smem: int = 0) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._entry = entry
        self._dynamic_smem = dynamic_smem
        self._call("initialise", driver.cuInit(0))
        device = self._call("find the GPU", driver.cuDeviceGet(ordinal))
        context = self._call("take the GPU's context", driver.cuDevicePrimaryCtxRetain(device))
        self._call("enter the GPU's context", driver.cuCtxSetCurrent(context))
        self._module = self._load(ptx)
        self._function = self._call(
            "find the entry", driver.cuModuleGetFunction(self._module, entry.encode())
        )
        # 48 KiB need no asking for, but static variables, which only the driver counts, are part of them.
        if dynamic_smem:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call(
                f"reserve {dynamic_smem} bytes of shared memory",
                driver.cuFuncSetAttribute(self._function, attribute, dynamic_smem),
            )

    def __exit__(self, *exc: object) -> None:
        # After a fault the context is lost and unloading fails too; the fault is what matters then.
        self._driver.cuModuleUnload(self._module)

    def _call(self, what: str, answer: tuple[Any, ...], log: str = "") -> Any:
        status, *values = answer
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise GpuError(f"{self._entry}: the GPU could not {what}: {explain(status.name, log)}")
        return values[0] if len(values) == 1 else tuple(values)

    def _load(self, ptx: str) -> Any:
        option = self._driver.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        answer = self._driver.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options, [log, len(log)])
        return self._call("load the PTX", answer, log.decode(errors="replace"))

    def launch(
        self,
        args: Sequence[Array | MappedArray | np.generic],
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int] = (1, 1, 1),
        programmatic: bool = False,
        repeat: int = 1,
    ) -> list[float]:
        """Copy the arrays there, launch, copy them back in place, and return the seconds of each launch.

        args     in the order of the PTX's parameters; an array is a pointer to its copy on the GPU, a
                 `MappedArray` a tensor map of its copy. An array that comes twice is copied once.
        programmatic  as in `LaunchSpec`; the events around each launch leave it nothing to overlap with.
        repeat   launches one after another on the same memory; each is timed by events.
        """
        driver = self._driver
        held: dict[int, tuple[Any, Array]] = {}

        def address(array: Array) -> int:
            known = held.get(id(array))
            if known is None:
                pointer = self._call(f"take {array.nbytes} bytes", driver.cuMemAlloc(max(1, array.nbytes)))
                known = held[id(array)] = (pointer, array)
                self._call("copy in", driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
            return int(known[0])

        try:
            values: list[int | np.generic | bytes] = []
            for arg in args:
                if isinstance(arg, np.ndarray):
                    values.append(address(arg))
                elif isinstance(arg, MappedArray):
                    values.append(self._tensor_map(arg, address(arg.array)))
                else:
                    values.append(arg)
            seconds = self.time(
                values, grid=grid, block=block, cluster=cluster, programmatic=programmatic, repeat=repeat
            )
            for pointer, array in held.values():
                self._call("copy back", driver.cuMemcpyDtoH(array.ctypes.data, pointer, array.nbytes))
            return seconds
        finally:
            for pointer, _ in held.values():
                driver.cuMemFree(pointer)

    def _tensor_map(self, mapped: MappedArray, address: int) -> bytes:
        try:
            return driver_tensor_map(mapped.encoding, address)
        except GpuError as error:
            raise GpuError(f"{self._entry}: parameter {mapped.name}: {error}") from error

    def time(
        self,
        values: Sequence[int | np.generic | bytes],
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int] = (1, 1, 1),
        programmatic: bool = False,
        repeat: int = 1,
    ) -> list[float]:
        """Launch on memory that is on the GPU already, and return the seconds of each launch, by events.

        values   in the order of the PTX's parameters: an int is a device pointer, such as a PyTorch tensor's
                 `data_ptr()`, a NumPy scalar a number, and bytes a tensor map.
        repeat   launches one after another on the same memory. Nothing is copied and nothing is cleared.
        """
        driver = self._driver
        pointers, cells = parameter_block(values)
        config = self._config(grid, block, cluster, programmatic)
        before, after = (self._call("make an event", driver.cuEventCreate(0)) for _ in range(2))
        seconds = []
        try:
            for _ in range(repeat):
                self._call("record", driver.cuEventRecord(before, 0))
                self._call(
                    "launch",
                    driver.cuLaunchKernelEx(config, self._function, ctypes.addressof(pointers), 0),
                )
                self._call("record", driver.cuEventRecord(after, 0))
                self._call("finish the kernel", driver.cuEventSynchronize(after))
                milliseconds = self._call("read the clock", driver.cuEventElapsedTime(before, after))
                seconds.append(float(milliseconds) / 1e3)
        finally:
            driver.cuEventDestroy(before)
            driver.cuEventDestroy(after)
            del cells
        return seconds

    def _config(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        cluster: tuple[int, int, int],
        programmatic: bool,
    ) -> Any:
        driver = self._driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = self._dynamic_smem
        config.hStream = 0
        attributes = launch_attributes(driver, cluster, programmatic)
        config.attrs, config.numAttrs = attributes, len(attributes)
        ctas = cluster[0] * cluster[1] * cluster[2]
        if ctas > _PORTABLE_CLUSTER_CTAS:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self._call(
                f"allow a cluster of {ctas} CTAs", driver.cuFuncSetAttribute(self._function, attribute, 1)
            )
        return config
