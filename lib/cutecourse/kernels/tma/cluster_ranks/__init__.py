"""How `cluster_ranks` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

FILE = kernel_file("cluster_ranks")
__getattr__ = FILE.attribute  # the kernel's constants and functions

GRID = FILE.constant("GRID")
CLUSTER = FILE.constant("CLUSTER")
COLUMNS = FILE.constant("COLUMNS")

LAUNCH = LaunchSpec(
    name="cluster_ranks",
    language="cutedsl",
    kernel=FILE.function("cluster_ranks"),
    host=FILE.function("host"),
    grid=GRID,
    block=(1, 1, 1),
    cluster=CLUSTER,
    params=(Tensor("out", "s32", (32, len(COLUMNS)), (len(COLUMNS), 1)),),
    target="sm_90",
)
