"""What the specifications of the Hopper attention kernels have in common: the tensor maps and the grid."""

from __future__ import annotations

from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

__all__ = ["attention_spec"]


def attention_spec(
    file: KernelFile,
    shape: tuple[int, int, int],
    *,
    keys: int,
    stages: int,
    sms: int,
    given: tuple[object, ...],
) -> LaunchSpec:
    """The launch for Q, K, V and O of (length, D, heads, batches) in bf16, with D of the kernel's file.

    In memory a batch has its rows one after the other, and a row has all heads: strides (heads D, 1, D,
    length heads D). `counter` is one s32, 0 before the launch and after it.

    shape   the sequence's length, heads, batches.
    keys    of a tile of K and V, in `stages` stages.
    sms     so many CTAs, at most, go through the tiles.
    given   the arguments of the file's `host_for`.

    Errors: SpecError for an extent below 1, and for a length of 1, which the CuTe DSL leaves out of a tensor
    map.
    """
    length, heads, batches = shape
    if length < 2 or heads < 1 or batches < 1:
        raise SpecError(
            f"{file.name}: the sequence needs 2 rows or more, and 1 head and 1 batch; {shape} has not."
        )
    depth, rows, consumers = (file.constant(name) for name in ("D", "ROWS", "CONSUMERS"))
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

    tiles = -(-length // (consumers * rows)) * heads * batches
    loaded = stages * (keys * depth * 2 + 2 * 8)
    return LaunchSpec(
        name=file.name,
        language="cutedsl",
        kernel=file.function(file.name),
        host=file.function("host_for").given(*given),
        grid=(min(sms, tiles), 1, 1),
        block=(file.constant("THREADS"), 1, 1),
        dynamic_smem=loaded + consumers * (2 * rows * depth * 2 + 2 * 8) + 4 * 8 + 8,
        params=(
            operand("q", rows),
            operand("k", keys),
            operand("v", keys),
            operand("o", rows),
            Tensor("counter", "s32", (1,), (1,)),
        ),
        target="sm_90a",
    )
