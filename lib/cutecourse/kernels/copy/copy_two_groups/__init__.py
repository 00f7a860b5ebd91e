"""A copy of 16x128 floats by way of shared memory, in PTX by hand: two groups of cp.async for each thread."""

from cutecourse.kernels.files import kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

LAUNCH = LaunchSpec(
    name="copy_two_groups",
    module="copy_two_groups",
    language="ptx",
    ptx=kernel_text("copy_two_groups", "kernel.ptx"),
    entry="copy_two_groups",
    grid=(1, 1, 1),
    block=(128, 1, 1),
    params=(
        Tensor("source", "f32", (16, 128), (128, 1)),
        Tensor("result", "f32", (16, 128), (128, 1)),
    ),
)
