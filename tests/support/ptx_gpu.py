"""Running a PTX case on an NVIDIA GPU through cuda-bindings: the same text, the same arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from support.ptx_cases import Case

_PORTABLE_CLUSTER = 8
"""Larger clusters have to be allowed for each function."""


def _check(result: tuple[Any, ...]) -> Any:
    from cuda.bindings import driver

    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(status)
        raise RuntimeError(f"the CUDA driver answered {name.decode() if name else status}")
    return values[0] if len(values) == 1 else tuple(values)


class Gpu:
    """The first GPU's primary context."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        _check(driver.cuInit(0))
        self.device = _check(driver.cuDeviceGet(0))
        self.context = _check(driver.cuDevicePrimaryCtxRetain(self.device))
        _check(driver.cuCtxSetCurrent(self.context))

    @property
    def name(self) -> str:
        return _check(self.driver.cuDeviceGetName(128, self.device)).split(b"\0")[0].decode()

    @property
    def compute_capability(self) -> tuple[int, int]:
        attribute = self.driver.CUdevice_attribute
        return (
            _check(
                self.driver.cuDeviceGetAttribute(
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.device
                )
            ),
            _check(
                self.driver.cuDeviceGetAttribute(
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.device
                )
            ),
        )

    @property
    def cuda_version(self) -> int:
        """The newest CUDA that the driver serves, as 13000 for 13.0."""
        return int(_check(self.driver.cuDriverGetVersion()))

    def run(self, case: Case) -> dict[str, np.ndarray]:
        """The outputs as the GPU computes them."""
        driver = self.driver
        inputs = case.make_args()
        module = _check(driver.cuModuleLoadData(case.ptx.encode() + b"\0"))
        pointers: dict[str, Any] = {}
        try:
            entry = case.entry or _only_entry(case)
            function = _check(driver.cuModuleGetFunction(module, entry.encode()))
            if case.dynamic_smem > 48 << 10:
                attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                _check(driver.cuFuncSetAttribute(function, attribute, case.dynamic_smem))
            slots: list[Any] = []
            for name, value in inputs.items():
                if isinstance(value, np.ndarray):
                    pointer = _check(driver.cuMemAlloc(max(value.nbytes, 1)))
                    pointers[name] = pointer
                    _check(driver.cuMemcpyHtoD(pointer, value.ctypes.data, value.nbytes))
                    slots.append(ctypes.c_uint64(int(pointer)))
                else:
                    slots.append(ctypes.create_string_buffer(value.tobytes(), value.nbytes))
            addresses = (ctypes.c_void_p * max(len(slots), 1))(*(ctypes.addressof(s) for s in slots))
            config = self._config(case, function)
            _check(driver.cuLaunchKernelEx(config, function, ctypes.addressof(addresses), 0))
            _check(driver.cuCtxSynchronize())
            for name in case.outputs:
                _check(driver.cuMemcpyDtoH(inputs[name].ctypes.data, pointers[name], inputs[name].nbytes))
        finally:
            for pointer in pointers.values():
                driver.cuMemFree(pointer)
            driver.cuModuleUnload(module)
        return {name: inputs[name] for name in case.outputs}

    def _config(self, case: Case, function: Any) -> Any:
        """Grid, block, shared memory, and the cluster where one is asked for."""
        driver = self.driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = _three(case.grid)
        config.blockDimX, config.blockDimY, config.blockDimZ = _three(case.block)
        config.sharedMemBytes = case.dynamic_smem
        cluster = _three(case.cluster)
        if cluster != (1, 1, 1):
            if cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER:
                allowed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                _check(driver.cuFuncSetAttribute(function, allowed, 1))
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dimension = attribute.value.clusterDim
            dimension.x, dimension.y, dimension.z = cluster
            attribute.value.clusterDim = dimension
            config.attrs = [attribute]
            config.numAttrs = 1
        return config


def _three(extent: Any) -> tuple[int, int, int]:
    items = [extent] if isinstance(extent, int) else list(extent)
    items += [1] * (3 - len(items))
    return (items[0], items[1], items[2])


def _only_entry(case: Case) -> str:
    from cutecourse.ptx import parse

    (name,) = parse(case.ptx).entries
    return name
