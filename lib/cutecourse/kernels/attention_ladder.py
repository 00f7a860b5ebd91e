"""What the specifications of the Hopper attention kernels have in common: the tensor maps and the grid."""

from __future__ import annotations

from collections.abc import Callable

from cutecourse.kernels.files import KernelFile, KernelFunction, kernel_text
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

__all__ = ["RUNGS", "attention_spec", "causal_twin", "ring_bytes"]

RUNGS = (
    "attention_one",
    "attention_roles",
    "attention_pingpong",
    "attention_overlap",
    "attention_lazy",
    "attention_last",
)
"""The rungs from the first to the last: each module has `spec(length, heads, batches, causal=False)`."""


def attention_spec(
    file: KernelFile,
    shape: tuple[int, int, int],
    *,
    keys: int,
    consumers: int,
    smem_bytes: int,
    given: tuple[object, ...],
    threads: int | None = None,
    sms: int | None = None,
) -> LaunchSpec:
    """The launch for Q, K, V and O of (length, D, heads, batches) in bf16, with D of the kernel's file.

    In memory a batch has its rows one after the other, and a row has all heads: strides (heads D, 1, D,
    length heads D).

    shape      the sequence's length, heads, batches.
    keys       of a tile of K and V.
    consumers  warpgroups, each with ROWS rows of Q.
    given      the arguments of the file's `host_for`.
    threads    of a CTA; THREADS of the file unless given.
    sms        None: a CTA for each tile, and the grid is (tiles of a head, heads, batches). A number: so many
               CTAs at most go through the tiles, and `counter` is one s32, 0 before the launch and after it.

    Errors: SpecError for an extent below 1, and for a length of 1, which the CuTe DSL leaves out of a tensor
    map.
    """
    length, heads, batches = shape
    if length < 2 or heads < 1 or batches < 1:
        raise SpecError(
            f"{file.name}: the sequence needs 2 rows or more, and 1 head and 1 batch; {shape} has not."
        )
    depth, rows = file.constant("D"), file.constant("ROWS")
    strides = (heads * depth, 1, depth, length * heads * depth)

    def operand(name: str, tall: int) -> TensorMapSpec:
        return TensorMapSpec(
            name,
            "bf16",
            (length, depth, heads, batches),
            strides,
            smem_layout=parse(f"S<3,4,3> o 0 o ({tall},(64,{depth // 64})):(64,(1,{64 * tall}))"),
            cta_tiler=(tall, depth),
        )

    blocks = -(-length // (consumers * rows))
    return LaunchSpec(
        name=file.name,
        language="cutedsl",
        kernel=file.function(file.name),
        host=file.function("host_for").given(*given),
        grid=(blocks, heads, batches) if sms is None else (min(sms, blocks * heads * batches), 1, 1),
        block=(threads or file.constant("THREADS"), 1, 1),
        dynamic_smem=smem_bytes,
        params=(
            operand("q", rows),
            operand("k", keys),
            operand("v", keys),
            operand("o", rows),
            *(() if sms is None else (Tensor("counter", "s32", (1,), (1,)),)),
        ),
        target="sm_90a",
    )


def ring_bytes(file: KernelFile, keys: int, stages: int, consumers: int) -> int:
    """Shared memory of a kernel with roles: stages for K and V, each consumer's rows of Q, their barriers."""
    depth, rows = file.constant("D"), file.constant("ROWS")
    return int(stages * (keys * depth * 2 + 2 * 8) + consumers * (rows * depth * 2 + 8))


def causal_twin(spec: LaunchSpec, fits: Callable[..., object], which: str) -> str:
    """The text of a twin for several heads of one batch, so that the tensor maps have three modes.

    fits   says whether the twin is for these arguments of `host_for`.
    which  the arguments that it is for, in words.

    Errors: SpecError for others.
    """
    assert spec.module is not None
    assert isinstance(spec.host, KernelFunction)
    assert spec.host.arguments is not None
    q = spec.params[0]
    assert isinstance(q, Tensor)
    *_, heads, batches = (extent or 0 for extent in q.extents)
    if not fits(*spec.host.arguments) or heads == 1 or batches > 1:
        raise SpecError(
            f"{spec.name}: its twin is for causal attention of several heads of one batch only, {which}."
        )
    return kernel_text(spec.module, "twin.ptx")
