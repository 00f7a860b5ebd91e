"""The course's kernels that a compiler takes, by name."""

from __future__ import annotations

from cutecourse.kernels.files import kernel_module, kernel_names

__all__ = ["compiled_kernels"]

_REFUSED = "mn_major_ldmatrix_refused"
"""A kernel that the CuTe DSL refuses: a page shows its reason."""


def compiled_kernels(*languages: str) -> list[str]:
    """The kernels of these languages, "cutedsl" or "numba", whose compile succeeds."""
    names = [name for name in kernel_names() if name != _REFUSED]
    return [name for name in names if kernel_module(name).LAUNCH.language in languages]
