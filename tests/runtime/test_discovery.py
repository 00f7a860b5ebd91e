"""Which device is chosen and why, from made-up machines; and this machine, whatever it is."""

import builtins
import sys
import types

import pytest

from cutecourse import runtime
from cutecourse.runtime.discovery import Device, Discovery, choose, discover
from cutecourse.runtime.errors import DeviceError
from support import machine

H200 = Device(0, "NVIDIA H200", (9, 0), 150 * 10**9, 132)
TURING = Device(0, "Tesla T4", (7, 5), 16 * 10**9, 40)
B200 = Device(1, "NVIDIA B200", (10, 0), 180 * 10**9, 148)
NOTHING = Discovery((), None, "no NVIDIA driver was found (SomeError)")


@pytest.fixture(autouse=True)
def no_forced_device(monkeypatch):
    monkeypatch.delenv("CUTECOURSE_DEVICE", raising=False)


@pytest.mark.parametrize(
    ("target", "asked", "found", "device", "why"),
    [
        ("sm_80", None, Discovery((H200,), "13.0", None), H200, "this GPU has what sm_80 needs"),
        ("sm_80", "auto", Discovery((TURING, B200), "13.0", None), B200, "this GPU has what sm_80 needs"),
        ("sm_80", "auto", NOTHING, None, "no GPU: no NVIDIA driver was found (SomeError)"),
        (
            "sm_80",
            "auto",
            Discovery((TURING,), "13.0", None),
            None,
            "the kernel needs compute capability 8.0 or later (sm_80); this machine has Tesla T4 (7.5)",
        ),
        (
            "sm_100a",
            "auto",
            Discovery((H200,), "13.0", None),
            None,
            "the kernel needs compute capability 10.0 exactly (sm_100a); this machine has NVIDIA H200 (9.0)",
        ),
        ("sm_80", "emulator", Discovery((H200,), "13.0", None), None, 'asked for by device="emulator"'),
        ("sm_80", "cuda:1", Discovery((H200, B200), "13.0", None), B200, 'asked for by device="cuda:1"'),
    ],
)
def test_choose__says_where_and_why(target, asked, found, device, why):
    choice = choose(target, asked, found)
    assert choice.device == device
    assert choice.why == why


@pytest.mark.parametrize(
    ("target", "asked", "found", "message"),
    [
        ("sm_80", "cuda:0", NOTHING, r'device="cuda:0" is not there; there is no GPU: no NVIDIA driver'),
        ("sm_80", "cuda:1", Discovery((H200,), "13.0", None), r"there is cuda:0 \(NVIDIA H200\)"),
        ("sm_90a", "cuda:1", Discovery((B200,), "13.0", None), "needs compute capability 9.0 exactly"),
        ("sm_80", "gpu", Discovery((H200,), "13.0", None), 'device="gpu" is no device'),
        ("sm_80", "cuda:x", Discovery((H200,), "13.0", None), 'device="cuda:x" is no device'),
    ],
)
def test_choose__never_replaces_a_forced_device(target, asked, found, message):
    with pytest.raises(DeviceError, match=message):
        choose(target, asked, found)


def test_choose__takes_the_environment_when_nothing_is_asked(monkeypatch):
    with_gpu = Discovery((H200,), "13.0", None)
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    assert choose("sm_80", None, with_gpu).why == "asked for by CUTECOURSE_DEVICE=emulator"
    assert choose("sm_80", "auto", with_gpu).device == H200
    monkeypatch.setenv("CUTECOURSE_DEVICE", "cuda:3")
    with pytest.raises(DeviceError, match="CUTECOURSE_DEVICE=cuda:3 is not there"):
        choose("sm_80", None, with_gpu)


def test_discover__agrees_with_the_driver_library():
    # `machine` asks libcuda itself, without cuda-bindings.
    found = discover()
    if machine.find_gpu() is None:
        assert not any(gpu.compute_capability >= (8, 0) for gpu in found.devices)
    else:
        assert found.devices[0].compute_capability == machine.find_gpu()
    assert (found.reason is None) == bool(found.devices)
    assert runtime.devices() == found.devices


def test_discover__without_cuda_bindings_says_so(monkeypatch):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("cuda"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert discover.__wrapped__() == Discovery((), None, "the package cuda-bindings is not installed")


def fake_driver(monkeypatch, **functions):
    status = types.SimpleNamespace
    result = types.SimpleNamespace(
        CUDA_SUCCESS=status(name="CUDA_SUCCESS"), CUDA_ERROR_NO_DEVICE=status(name="CUDA_ERROR_NO_DEVICE")
    )
    driver = types.SimpleNamespace(CUresult=result, **functions)
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = driver
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return driver


def test_discover__with_a_driver_and_no_gpu_says_what_the_driver_said(monkeypatch):
    driver = fake_driver(monkeypatch)
    driver.cuInit = lambda flags: (driver.CUresult.CUDA_ERROR_NO_DEVICE,)
    found = discover.__wrapped__()
    assert found.devices == ()
    assert found.reason == "the NVIDIA driver found no usable GPU (CUDA_ERROR_NO_DEVICE)"


def test_discover__describes_each_gpu(monkeypatch):
    names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT")
    numbers = dict(zip((f"CU_DEVICE_ATTRIBUTE_{name}" for name in names), (9, 0, 132), strict=True))
    driver = fake_driver(
        monkeypatch,
        cuDriverGetVersion=lambda: (None, 13020),
        cuDeviceGetCount=lambda: (None, 1),
        cuDeviceGet=lambda ordinal: (None, ordinal),
        cuDeviceGetName=lambda size, handle: (None, b"NVIDIA H200\0\0\0"),
        cuDeviceTotalMem=lambda handle: (None, 150 * 10**9),
        cuDeviceGetAttribute=lambda name, handle: (None, numbers[name]),
        CUdevice_attribute=types.SimpleNamespace(**{name: name for name in numbers}),
    )
    driver.cuInit = lambda flags: (driver.CUresult.CUDA_SUCCESS,)
    assert discover.__wrapped__() == Discovery((H200,), "13.2", None)
