"""What the specifications of the GEMM ladder have in common: the parameters, the grid and whole tiles."""

from __future__ import annotations

from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor

__all__ = ["RUNGS", "ladder_spec"]

RUNGS = (
    "gemm_first",
    "gemm_ldmatrix",
    "gemm_stages",
    "gemm_registers",
    "gemm_epilogue",
    "gemm_any",
    "gemm_tiles",
    "gemm_late",
)
"""The rungs from the first to the last; each is a module with `spec(m, n, k)`."""


def ladder_spec(
    file: KernelFile,
    mnk: tuple[int, int, int],
    *,
    smem_bytes: int,
    whole_tiles: bool = True,
    in_line: bool = False,
) -> LaunchSpec:
    """The launch of a rung: A (M, K), B (N, K), C (M, N), row-major, all f16, and a CTA for each tile of C.

    whole_tiles  the rung takes only problems that its tile divides.
    in_line      the grid has one dimension, and the kernel chooses the order of the tiles.

    Errors: SpecError where the rung takes whole tiles only and the tile does not divide the problem.
    """
    tile = file.constant("TILE")
    if whole_tiles and any(extent % step for extent, step in zip(mnk, tile, strict=True)):
        raise SpecError(
            f"{file.name}: M, N and K must be multiples of the tile {tile}; {mnk} is not. gemm_any takes any."
        )
    m, n, k = mnk
    tiles = -(-m // tile[0]), -(-n // tile[1])
    return LaunchSpec(
        name=file.name,
        language="cutedsl",
        kernel=file.function(file.name),
        host=file.function("host"),
        grid=(tiles[0] * tiles[1], 1, 1) if in_line else (*tiles, 1),
        block=(file.constant("THREADS"), 1, 1),
        dynamic_smem=smem_bytes,
        params=(
            Tensor("a", "f16", (m, k), (k, 1)),
            Tensor("b", "f16", (n, k), (k, 1)),
            Tensor("c", "f16", (m, n), (n, 1)),
        ),
    )
