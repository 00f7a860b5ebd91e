"""The kernels of the chapters, one a file, each with the specification it is launched from.

Importing this package imports neither the CuTe DSL nor numba; importing a kernel's module does.
"""

from cutecourse.kernels.hunting import hunt
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMap

__all__ = ["LaunchSpec", "Scalar", "SpecError", "Tensor", "TensorMap", "hunt"]
