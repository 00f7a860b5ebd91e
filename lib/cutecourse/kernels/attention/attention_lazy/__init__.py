"""How `attention_lazy` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.attention_ladder import attention_spec, ring_bytes
from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("attention_lazy")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(
    length: int, heads: int = 16, batches: int = 1, *, causal: bool = False, keys: int = 128, stages: int = 4
) -> LaunchSpec:
    """The launch for Q, K, V and O of (length, 128, heads, batches) in bf16, for any length of 2 and more.

    keys  of a tile of K and V, in `stages` stages.
    """
    consumers = FILE.constant("CONSUMERS")
    return attention_spec(
        FILE,
        (length, heads, batches),
        keys=keys,
        consumers=consumers,
        smem_bytes=ring_bytes(FILE, keys, stages, consumers),
        given=(causal, keys, stages),
    )


LAUNCH = spec(*FILE.constant("SHAPE"), causal=True)
