"""How `epilogue_stmatrix` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("epilogue_stmatrix")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(transpose: bool) -> LaunchSpec:
    """The launch for C row-major, or, with `transpose`, column-major."""
    return LaunchSpec(
        name="epilogue_stmatrix_trans" if transpose else "epilogue_stmatrix",
        language="cutedsl",
        kernel=FILE.function("epilogue_stmatrix"),
        host=FILE.function("host_for").given(transpose),
        grid=(1, 1, 1),
        block=(32, 1, 1),
        dynamic_smem=16 * 16 * 2,
        params=(Tensor("c", "f16", (16, 16), (1, 16) if transpose else (16, 1)),),
        target="sm_90",
    )


LAUNCH = spec(transpose=False)
TRANSPOSED = spec(transpose=True)
