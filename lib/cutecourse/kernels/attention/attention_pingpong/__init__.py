"""How `attention_pingpong` is launched; the kernel is in `source.py`."""

from cutecourse.kernels.attention_ladder import attention_spec, causal_twin, ring_bytes
from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("attention_pingpong")
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


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text. Errors: SpecError for choices that it is not for."""
    return causal_twin(
        spec, lambda causal, keys, stages: causal and (keys, stages) == (32, 4), "with four stages of 32 keys"
    )


LAUNCH = spec(200, 2, causal=True, keys=32)
