"""The chapters' kernels: a folder for each, `THEME/NAME`, with the specification that launches it.

`from cutecourse.kernels import umma_one` finds the folder by its name. Importing it imports neither the CuTe
DSL nor numba. The kernel itself is in the folder's `source.py`, and a compile loads it from there.
"""

from types import ModuleType

from cutecourse.kernels.files import kernel_files, kernel_module, kernel_modules
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec
from cutecourse.kernels.twinning import broken_text, twin

__all__ = [
    "LaunchSpec",
    "Scalar",
    "SpecError",
    "Tensor",
    "TensorMapSpec",
    "broken_text",
    "kernel_files",
    "twin",
]


def __getattr__(name: str) -> ModuleType:
    """A kernel's module by its name (PEP 562)."""
    if name.startswith("_") or name not in kernel_modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return kernel_module(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for name in kernel_modules() if "." not in name)})
