"""Running a PTX case on an NVIDIA GPU through cuda-bindings: the same text, the same arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tools.cases import tensor_map_rules
from tools.cases.ptx_boxes import MapArgument
from tools.cases.ptx_cases import Case

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
        """As the driver names the GPU."""
        name: bytes = _check(self.driver.cuDeviceGetName(128, self.device))
        return name.split(b"\0")[0].decode()

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor number."""
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
                elif isinstance(value, MapArgument):
                    slots.append(
                        ctypes.create_string_buffer(self._tensor_map(value, pointers[value.of]), 128)
                    )
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

    def tensor_map_answers(self) -> dict[str, int]:
        """The driver's status for each of the encodings of `tensor_map_rules`, 0 where it takes it."""
        pointer = _check(self.driver.cuMemAlloc(1 << 16))
        try:
            return {row.name: encode_tiled(row.fields, int(pointer))[0] for row in tensor_map_rules.ENCODINGS}
        finally:
            self.driver.cuMemFree(pointer)

    def _tensor_map(self, argument: MapArgument, pointer: Any) -> bytes:
        """The 128 bytes that the driver makes of a case's tensor map."""
        status, encoded = encode_tiled({**argument.__dict__, "interleave": "none"}, int(pointer))
        if status:
            raise RuntimeError(f"cuTensorMapEncodeTiled answered {status} for {argument}")
        return encoded

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


_DTYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz",
)  # fmt: skip
_INTERLEAVES = ("none", "16B", "32B")
_SWIZZLES = ("none", "32B", "64B", "128B")
_L2_PROMOTIONS = ("none", "64B", "128B", "256B")
_OOB_FILLS = ("zeros", "nan")


def encode_tiled(fields: dict[str, Any], address: int) -> tuple[int, bytes]:
    """The driver's status and 128 bytes for a tensor map; a field that is a number is passed as it is.

    Each name's place in its list is its number in cuda.h.
    """

    def number(names: tuple[str, ...], value: Any) -> int:
        return names.index(value) if isinstance(value, str) else value

    rank = fields.get("rank", len(fields["dims"]))
    made = ctypes.create_string_buffer(192)
    aligned = -(-ctypes.addressof(made) // 64) * 64
    dims, box = fields["dims"], fields["box"]
    strides, steps = fields["strides"], fields["element_strides"]
    encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    status = encode(
        ctypes.c_void_p(aligned),
        number(_DTYPES, fields["dtype"]),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address + fields.get("offset", 0)),
        (ctypes.c_uint64 * len(dims))(*dims),
        (ctypes.c_uint64 * max(len(strides), 1))(*strides),
        (ctypes.c_uint32 * len(box))(*box),
        (ctypes.c_uint32 * len(steps))(*steps),
        number(_INTERLEAVES, fields["interleave"]),
        number(_SWIZZLES, fields["swizzle"]),
        number(_L2_PROMOTIONS, fields["l2_promotion"]),
        number(_OOB_FILLS, fields["oob_fill"]),
    )
    return int(status), ctypes.string_at(aligned, 128)


def _three(extent: Any) -> tuple[int, int, int]:
    items = [extent] if isinstance(extent, int) else list(extent)
    items += [1] * (3 - len(items))
    return (items[0], items[1], items[2])


def _only_entry(case: Case) -> str:
    from cutecourse.ptx import parse

    (name,) = parse(case.ptx).entries
    return name
