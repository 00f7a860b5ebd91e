"""The chapters' kernels: one module for each kernel, with the specification that launches it.

Importing a kernel's module imports neither the CuTe DSL nor numba. The kernel itself is in `sources`, and
a compile loads it from there.
"""

from cutecourse.kernels.hunting import hunt
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec
from cutecourse.kernels.twinning import twin

__all__ = ["LaunchSpec", "Scalar", "SpecError", "Tensor", "TensorMapSpec", "hunt", "twin"]
