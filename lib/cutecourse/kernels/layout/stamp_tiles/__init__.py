"""How `stamp_tiles` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("stamp_tiles")
__getattr__ = FILE.attribute  # the kernel's constants and functions

LAUNCH = LaunchSpec(
    name="stamp_tiles",
    language="numba",
    kernel=FILE.function("stamp_tiles"),
    grid=(16, 1, 1),
    block=(64, 1, 1),
    params=(
        Tensor("tile_ids", "s32", (None,)),
        Tensor("thread_ids", "s32", (None,)),
        Tensor("tile_shape", "s32", (None,)),
        Tensor("tile_stride", "s32", (None,)),
        Tensor("rest_shape", "s32", (None,)),
        Tensor("rest_stride", "s32", (None,)),
    ),
)
