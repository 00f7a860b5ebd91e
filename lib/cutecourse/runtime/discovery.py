"""Which GPUs this machine has, and which device a kernel is to run on."""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass

from cutecourse.kernels.spec import compute_capability_of, runs_on
from cutecourse.runtime.errors import DeviceError

__all__ = ["DEVICE_VARIABLE", "Choice", "Device", "Discovery", "choose", "devices", "discover"]

DEVICE_VARIABLE = "CUTECOURSE_DEVICE"
_FORCED = re.compile(r"cuda:(\d+)")


@dataclass(frozen=True)
class Device:
    """One NVIDIA GPU, as its driver describes it; `ordinal` is the driver's number, as in "cuda:0"."""

    ordinal: int
    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    multiprocessors: int


@dataclass(frozen=True)
class Discovery:
    """The GPUs that were found and the driver's CUDA version, or the reason why there are none."""

    devices: tuple[Device, ...]
    driver: str | None
    reason: str | None


@dataclass(frozen=True)
class Choice:
    """Where a kernel will run and why; `device` is None for the emulator."""

    device: Device | None
    why: str


def devices() -> tuple[Device, ...]:
    """The NVIDIA GPUs of this machine; an empty tuple without a GPU or without a driver."""
    return discover().devices


@functools.cache
def discover() -> Discovery:
    """Ask the CUDA driver what there is, once per process.

    Never raises: without cuda-bindings, a driver or a GPU the reason says which of these is missing.
    """
    if sys.platform == "emscripten":
        return Discovery((), None, "a browser gives Python none")
    try:
        from cuda.bindings import driver
    except ImportError:
        return Discovery((), None, "the package cuda-bindings is not installed")
    try:
        (status,) = driver.cuInit(0)
    except Exception:  # noqa: BLE001 - each version of cuda-bindings has its own class for "no libcuda"
        return Discovery((), None, "no NVIDIA driver was found")
    if status != driver.CUresult.CUDA_SUCCESS:
        return Discovery((), None, f"the NVIDIA driver found no usable GPU ({status.name})")
    version = driver.cuDriverGetVersion()[1]
    found = tuple(_describe(ordinal) for ordinal in range(driver.cuDeviceGetCount()[1]))
    release = f"{version // 1000}.{version % 1000 // 10}"
    return Discovery(found, release, None if found else "the NVIDIA driver found no GPU")


def _describe(ordinal: int) -> Device:
    from cuda.bindings import driver as cuda

    handle = cuda.cuDeviceGet(ordinal)[1]
    attribute = cuda.CUdevice_attribute

    def read(name: object) -> int:
        return int(cuda.cuDeviceGetAttribute(name, handle)[1])

    return Device(
        ordinal=ordinal,
        name=cuda.cuDeviceGetName(128, handle)[1].split(b"\0")[0].decode(),
        compute_capability=(
            read(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            read(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        memory_bytes=int(cuda.cuDeviceTotalMem(handle)[1]),
        multiprocessors=read(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    )


def choose(target: str, device: str | None, discovery: Discovery | None = None) -> Choice:
    """Decide where a kernel for `target` runs.

    device   "auto" (the first GPU that can run it, else the emulator), "emulator", or "cuda:N"; None takes
             the environment variable CUTECOURSE_DEVICE, and "auto" where that is not set.
    Errors:  DeviceError for a GPU that is not there or cannot run the target, and for any other text.
    """
    asked = device or os.environ.get(DEVICE_VARIABLE) or "auto"
    source = f'device="{asked}"' if device else f"{DEVICE_VARIABLE}={asked}"
    if asked == "emulator":
        return Choice(None, f"asked for by {source}")
    found = discovery or discover()
    needs = _needs(target)
    if asked == "auto":
        for candidate in found.devices:
            if runs_on(target, candidate.compute_capability):
                return Choice(candidate, f"this GPU has what {target} needs")
        if not found.devices:
            return Choice(None, f"no GPU: {found.reason}")
        have = ", ".join(f"{gpu.name} ({dotted(gpu.compute_capability)})" for gpu in found.devices)
        return Choice(None, f"the kernel needs {needs}; this machine has {have}")
    match = _FORCED.fullmatch(asked)
    if match is None:
        raise DeviceError(f'{source} is no device; write "auto", "emulator" or "cuda:0".')
    for candidate in found.devices:
        if candidate.ordinal == int(match[1]):
            if runs_on(target, candidate.compute_capability):
                return Choice(candidate, f"asked for by {source}")
            raise DeviceError(
                f"{source}: {candidate.name} has compute capability {dotted(candidate.compute_capability)}, "
                f'and the kernel needs {needs}. Leave the device at "auto" to run on the emulator.'
            )
    there = ", ".join(f"cuda:{gpu.ordinal} ({gpu.name})" for gpu in found.devices)
    because = f"there is {there}" if there else f"there is no GPU: {found.reason}"
    raise DeviceError(f'{source} is not there; {because}. Use "auto" or "emulator".')


def dotted(compute_capability: tuple[int, int]) -> str:
    """A compute capability as it is written: "9.0"."""
    return f"{compute_capability[0]}.{compute_capability[1]}"


def _needs(target: str) -> str:
    capability = dotted(compute_capability_of(target))
    if target.endswith("a"):
        return f"compute capability {capability} exactly ({target})"
    if target.endswith("f"):
        return f"compute capability {capability} or a later {capability.partition('.')[0]}.x ({target})"
    return f"compute capability {capability} or later ({target})"
