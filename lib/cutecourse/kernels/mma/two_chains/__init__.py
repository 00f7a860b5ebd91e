"""Four steps of mma.sync along K in two independent chains, in PTX by hand."""

from cutecourse.kernels.files import kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

LAUNCH = LaunchSpec(
    name="two_chains",
    module="two_chains",
    language="ptx",
    ptx=kernel_text("two_chains", "kernel.ptx"),
    entry="two_chains",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(
        Tensor("a", "f16", (16, 64), (64, 1)),
        Tensor("b", "f16", (8, 64), (64, 1)),
        Tensor("c", "f32", (16, 8), (8, 1)),
    ),
)
