"""One mma.sync in PTX by hand, with fragments that ldmatrix loads from shared memory."""

from cutecourse.kernels.files import kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

LAUNCH = LaunchSpec(
    name="ldmatrix_raw",
    module="ldmatrix_raw",
    language="ptx",
    ptx=kernel_text("ldmatrix_raw", "kernel.ptx"),
    entry="ldmatrix_raw",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(
        Tensor("a", "f16", (16, 16), (16, 1)),
        Tensor("b", "f16", (8, 16), (16, 1)),
        Tensor("c", "f32", (16, 8), (8, 1)),
    ),
)
