"""How `attention_last` is launched; the kernel is in `source.py`."""

from typing import NamedTuple

from cutecourse.kernels.attention_ladder import attention_spec, causal_twin
from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("attention_last")
__getattr__ = FILE.attribute  # the kernel's constants and functions


class AttentionChoice(NamedTuple):
    """What the kernel's file calls `How`: the choice for one size."""

    causal: bool = False
    keys: int = 128
    stages: int = 4
    group: int = 0


L2_BYTES = 32 << 20
"""K and V of the heads whose causal tiles are in work together should take at most this much."""


def best(length: int, causal: bool) -> AttentionChoice:
    """The choice for a sequence's length. Causal tiles are drawn in groups of heads that L2 can hold."""
    group = max(8, min(16, L2_BYTES // (2 * length * FILE.constant("D") * 2)))
    return AttentionChoice(True, group=group) if causal else AttentionChoice(keys=160)


def spec(
    length: int,
    heads: int = 16,
    batches: int = 1,
    *,
    causal: bool = False,
    how: AttentionChoice | None = None,
    sms: int = FILE.constant("SMS"),
) -> LaunchSpec:
    """The launch for Q, K, V and O of (length, 128, heads, batches) in bf16, for any length of 2 and more.

    how  tiles and order; `best` for the length and the mask unless given.
    sms  how many CTAs share the tiles, at most: as many as the GPU has multiprocessors.
    """
    how = how or best(length, causal)
    consumers, rows, depth = (FILE.constant(name) for name in ("CONSUMERS", "ROWS", "D"))
    loaded = how.stages * (how.keys * depth * 2 + 2 * 8)
    return attention_spec(
        FILE,
        (length, heads, batches),
        keys=how.keys,
        consumers=consumers,
        smem_bytes=loaded + consumers * (2 * rows * depth * 2 + 2 * 8) + 4 * 8 + 8,
        given=(sms, *how),
        sms=sms,
    )


def twin_text(spec: LaunchSpec) -> str:
    """The twin's text. Errors: SpecError for choices that it is not for."""
    return causal_twin(
        spec,
        lambda _, causal, keys, stages, group: causal and (keys, stages) == (32, 4) and group,
        "in groups, with four stages of 32 keys",
    )


LAUNCH = spec(*FILE.constant("SHAPE"), how=AttentionChoice(True, keys=32, group=2), sms=2)
