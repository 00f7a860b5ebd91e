"""How `umma_classes` is launched; the kernel is in `source.py`, which is a whole script."""

import dataclasses

from cutecourse.kernels import umma_persistent
from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.kernels.umma_ladder import umma_spec

FILE = kernel_file("umma_classes")
__getattr__ = FILE.attribute  # the kernel's constants and functions


def spec(
    m: int,
    n: int,
    k: int,
    *,
    sms: int = 2,
    pairs: int = 1,
    columns: int = FILE.constant("COLUMNS"),
    stages: int = FILE.constant("STAGES"),
    further: tuple[Tensor, ...] = (),
) -> LaunchSpec:
    """The launch for D (M, N) = A (M, K) times B (N, K) transposed, with bf16 in D, row-major.

    sms      how many SMs an MMA takes: 2, or 1 for a kernel without pairs.
    pairs    how many of them share the tiles, at most: as many as the GPU has room for.
    columns  of an MMA's result, and `stages` for k-tiles: those of the file, or of your copy of it.
    further  arrays that your copy takes behind D, such as a bias.

    Errors: SpecError for another number of SMs, for fewer than one pair, for extents of 1, and for N or K
            that is no multiple of 8.
    """
    # TmemAllocator's address and barrier stand in front of the stages, which begin at a multiple of 1024.
    others = 1024 + 2 * FILE.constant("ACCUMULATORS") * 8
    launch = umma_spec(
        FILE, (m, n, k), sms, columns=columns, stages=stages, further=further, pairs=pairs, smem_bytes=others
    )
    return dataclasses.replace(launch, host=FILE.function("host_for").given(sms, pairs))


def twin_text(spec: LaunchSpec) -> str:
    """The text of umma_persistent's twin, which does the same with barriers by hand."""
    by_hand = umma_persistent.twin_text(dataclasses.replace(spec, module="umma_persistent"))
    return by_hand.replace(" umma_persistent(", " umma_classes(")


LAUNCH = spec(*FILE.constant("MNK"))
ONE_SM = spec(384, 520, 72, sms=1)
