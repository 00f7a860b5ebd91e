"""The GPU path without a GPU: packing by itself, and the calls against a driver made of host memory."""

import ctypes

import numpy as np
import pytest

from cutecourse.runtime import gpu
from cutecourse.runtime.errors import GpuError
from cutecourse.runtime.gpu import GpuKernel, parameter_block


def test_parameter_block__points_at_each_values_bytes():
    values = [0x1234_5678_9ABC_DEF0, np.uint32(7), np.int8(-1), np.float16(1.5), np.float64(0.25)]
    pointers, cells = parameter_block(values)
    assert len(pointers) == len(cells) == len(values)
    assert ctypes.c_uint64.from_address(pointers[0]).value == values[0]
    for pointer, value in list(zip(pointers, values, strict=True))[1:]:
        assert ctypes.string_at(pointer, value.itemsize) == value.tobytes()


def test_parameter_block__of_no_parameters_is_still_an_address():
    pointers, cells = parameter_block([])
    assert cells == []
    assert ctypes.addressof(pointers) != 0


ONE = {"grid": (1, 1, 1), "block": (1, 1, 1)}


def test_launch__passes_arrays_and_scalars_and_brings_arrays_back(on_host):
    def add_to_each(parameters):
        pointer = ctypes.c_uint64.from_address(parameters[0]).value
        array = (ctypes.c_int32 * 4).from_address(pointer)
        step = ctypes.c_int16.from_address(parameters[1]).value
        for index in range(4):
            array[index] += step

    driver = on_host(add_to_each)
    array = np.array([1, 2, 3, 4], np.int32)
    with GpuKernel("ptx", "k") as kernel:
        seconds = kernel.launch([array, np.int16(-5)], grid=(2, 3, 4), block=(32, 2, 1), repeat=3)
    assert array.tolist() == [-14, -13, -12, -11]
    assert seconds == [0.00025] * 3
    config = driver.config
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (2, 3, 4)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (32, 2, 1)
    assert config.numAttrs == 0
    assert driver.memory == {}
    assert driver.calls[-1] == "cuModuleUnload"


def test_launch__sets_cluster_and_shared_memory(on_host):
    driver = on_host()
    with GpuKernel("ptx", "k", dynamic_smem=100_000) as kernel:
        kernel.launch([], grid=(16, 2, 1), block=(1, 1, 1), cluster=(8, 2, 1))
    assert driver.config.sharedMemBytes == 100_000
    (attribute,) = driver.config.attrs
    assert attribute.id.name == "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
    cluster = attribute.value.clusterDim
    assert (cluster.x, cluster.y, cluster.z) == (8, 2, 1)
    assert driver.attributes == [
        ("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000),
        ("CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1),
    ]


def test_launch__may_start_before_the_kernel_ahead_has_ended(on_host):
    driver = on_host()
    with GpuKernel("ptx", "k") as kernel:
        kernel.launch([], **ONE, cluster=(2, 1, 1), programmatic=True)
    cluster, early = driver.config.attrs
    assert driver.config.numAttrs == 2
    assert cluster.id.name == "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
    assert early.id.name == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
    assert early.value.programmaticStreamSerializationAllowed == 1


def test_launch__reserves_dynamic_shared_memory_that_fits_only_without_the_static(on_host):
    """48 KiB need no asking for, but a kernel's static variables count as well."""
    driver = on_host()
    with GpuKernel("ptx", "k", dynamic_smem=48 * 1024) as kernel:
        kernel.launch([], **ONE)
    assert driver.attributes == [("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 48 * 1024)]


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        ("cuModuleLoadDataEx", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "load the PTX: .*update the driver"),
        ("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND", "find the entry: CUDA_ERROR_NOT_FOUND"),
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "take 4 bytes: .*nvidia-smi"),
        ("cuLaunchKernelEx", "CUDA_ERROR_INVALID_VALUE", "launch: CUDA_ERROR_INVALID_VALUE"),
        ("cuEventSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", 'finish the kernel: .*device="emulator"'),
    ],
)
def test_launch__tells_a_failure_in_one_sentence_and_frees_its_memory(on_host, call, status, message):
    driver = on_host(fail={call: status})

    def attempt():
        with GpuKernel("ptx", "my_kernel") as kernel:
            kernel.launch([np.zeros(1, np.int32)], **ONE)

    with pytest.raises(GpuError, match=f"my_kernel: the GPU could not {message}"):
        attempt()
    assert driver.memory == {}


def test_load__shows_the_drivers_log(on_host, monkeypatch):
    driver = on_host(fail={"cuModuleLoadDataEx": "CUDA_ERROR_INVALID_PTX"})
    known = driver.fail["cuModuleLoadDataEx"]

    def refuse(image, count, options, values):
        log = dict(zip([option.name for option in options], values, strict=True))
        text = b"ptxas application ptx input, line 7; error: Unknown instruction"
        log["CU_JIT_ERROR_LOG_BUFFER"][: len(text)] = text
        assert log["CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"] == len(log["CU_JIT_ERROR_LOG_BUFFER"])
        return (known, None)

    driver.cuModuleLoadDataEx = refuse
    with pytest.raises(GpuError, match=r"CUDA_ERROR_INVALID_PTX(.|\n)*line 7; error: Unknown instruction"):
        GpuKernel("ptx", "k")


def test_explain__knows_every_status_by_a_name_the_driver_has():
    from cuda.bindings import driver

    names = {status.name for status in driver.CUresult}
    assert set(gpu._HINTS) <= names
