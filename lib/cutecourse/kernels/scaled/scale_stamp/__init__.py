"""Where a block of scale factors lies in tensor memory, stamped by a kernel in PTX by hand."""

from cutecourse.kernels.files import kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

LAUNCH = LaunchSpec(
    name="scale_stamp",
    module="scale_stamp",
    language="ptx",
    ptx=kernel_text("scale_stamp", "kernel.ptx"),
    entry="scale_stamp",
    target="sm_100a",
    grid=(1, 1, 1),
    block=(128, 1, 1),
    params=(Tensor("factors", "u8", (512,)), Tensor("seen", "u8", (128, 4, 4), (16, 4, 1))),
)
"""`seen` gets the four bytes of each of four columns, in each of 128 lanes."""
