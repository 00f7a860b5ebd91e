"""`umma_two_sm` in the PTX that the CuTe DSL wrote for it, kept so that an exercise can show it."""

import dataclasses

from cutecourse.kernels import umma_two_sm
from cutecourse.kernels.files import kernel_text

LAUNCH = dataclasses.replace(
    umma_two_sm.LAUNCH.with_text(kernel_text("umma_two_sm_compiled", "kernel.ptx")),
    module="umma_two_sm_compiled",
)
