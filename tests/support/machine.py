"""What this machine has of the things that only some tests need."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
from pathlib import Path

from cutecourse.kernels.spec import compute_capability_of, runs_on
from tools.paths import RECORDING_GPU

MIN_COMPUTE_CAPABILITY = (8, 0)
"""The course's PTX is sm_80's, so an older GPU cannot run it."""
NOT_YET_RECORDED = f"not yet recorded on hardware ('python -m tools.record_cases' does it on {RECORDING_GPU})"
"""Why a PTX case is compared with no recording. The closing list names each such case."""

# Where Linux distributions put Chromium; $CUTECOURSE_CHROMIUM comes first.
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_CU_CC_MAJOR, _CU_CC_MINOR = 75, 76


def too_old_for(target: str) -> str | None:
    """Return why this machine's GPU cannot run PTX for a target, or None; there has to be a GPU.

    A GPU may be too new as well: PTX of a target with an `a` is for one compute capability, and with an `f`
    for those of one major number.
    """
    found = find_gpu()
    assert found is not None
    if runs_on(target, found):
        return None
    major, minor = compute_capability_of(target)
    which = {"a": " exactly", "f": f" or a later {major}.x"}.get(target[-1], "")
    return (
        f"this machine's GPU has compute capability {found[0]}.{found[1]}, "
        f"and {target} needs {major}.{minor}{which}"
    )


def in_ci() -> bool:
    """Tell whether this is a CI run, where a missing browser is a failure and not a skip."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def gpu_required() -> bool:
    """Tell whether the caller asked for the GPU (`make test-gpu`), so that its absence is a failure."""
    return os.environ.get("CUTECOURSE_REQUIRE_GPU", "") == "1"


def everything() -> bool:
    """Tell whether the caller asked for every test (`make test-all`), the long ones too."""
    return os.environ.get("CUTECOURSE_TEST_ALL", "") == "1"


def amount(usual: int, of_all: int) -> int:
    """How many random cases a test takes: in `make test`, and in `make test-all`."""
    return of_all if everything() else usual


def find_chromium() -> Path | None:
    """Return Chromium's path, or None.

    `$CUTECOURSE_CHROMIUM`, when set, is the only place looked at, so that a wrong value shows.
    """
    named = os.environ.get("CUTECOURSE_CHROMIUM")
    if named is not None:
        path = Path(named)
        return path if path.is_file() and os.access(path, os.X_OK) else None
    for name in _CHROMIUM_NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    return None


def has_compilers() -> bool:
    """Whether the packages that compile kernels are installed."""
    return all(importlib.util.find_spec(name) for name in ("cutlass", "numba"))


def find_program(name: str) -> Path | None:
    """Return a CUDA toolkit program's path (`nvcc`, `ptxas`, `cuobjdump`), or None.

    Looks on the PATH, then under `$CUDA_HOME` and `/usr/local/cuda`.
    """
    found = shutil.which(name)
    if found:
        return Path(found)
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if root and os.access(candidate := Path(root) / "bin" / name, os.X_OK):
            return candidate
    return None


@functools.cache
def find_gpu() -> tuple[int, int] | None:
    """Return the first GPU's compute capability when the course's PTX runs on it, else None.

    Asks the driver through ctypes and not through `cutecourse.runtime`: the tests of the runtime
    must not take its own word for what there is.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    if driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    numbers = []
    for attribute in (_CU_CC_MAJOR, _CU_CC_MINOR):
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
        numbers.append(value.value)
    capability = (numbers[0], numbers[1])
    return capability if capability >= MIN_COMPUTE_CAPABILITY else None
