"""Attention with roles in PTX by hand: one warp loads, two multiply in turns; for any GPU.

Each of the two consumers has 16 queries of 16 elements. The producer brings K and V, 16 keys at a time, into
one of two stages. Only one consumer multiplies Q and K at a time, so that the other takes exponentials.
"""

from cutecourse.kernels.files import kernel_text
from cutecourse.kernels.spec import LaunchSpec, Tensor

LAUNCH = LaunchSpec(
    name="attention_turns",
    module="attention_turns",
    language="ptx",
    ptx=kernel_text("attention_turns", "kernel.ptx"),
    entry="attention_turns",
    grid=(1, 1, 1),
    block=(96, 1, 1),
    params=(
        Tensor("q", "f16", (32, 16), (16, 1)),
        Tensor("k", "f16", (64, 16), (16, 1)),
        Tensor("v", "f16", (64, 16), (16, 1)),
        Tensor("o", "f32", (32, 16), (16, 1)),
    ),
)
