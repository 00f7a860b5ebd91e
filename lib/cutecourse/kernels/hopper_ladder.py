"""What the specifications of the Hopper ladder have in common: the tensor maps, the grid, the clusters."""

from __future__ import annotations

from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

__all__ = ["RUNGS", "hopper_spec"]

RUNGS = (
    "hopper_one",
    "hopper_stages",
    "hopper_roles",
    "hopper_clusters",
    "hopper_persistent",
    "hopper_pingpong",
    "hopper_last",
)
"""The rungs from the first to the last; each is a module with `spec(m, n, k, dtype="f16")`."""


def hopper_spec(
    file: KernelFile,
    mnk: tuple[int, int, int],
    dtype: str = "f16",
    *,
    smem_bytes: int,
    tile: tuple[int, int, int] | None = None,
    cluster: tuple[int, int, int] | None = None,
    store: tuple[int, int] | None = None,
    sms: int | None = None,
    given: tuple[object, ...] = (),
) -> LaunchSpec:
    """The launch of a rung: A (M, K), B (N, K), C (M, N), row-major, all of one 16-bit type, for any size.

    tile     of C and along K; TILE of the kernel's file unless given.
    cluster  CTAs along M, which share B, and along N, which share A; CLUSTER of the file, or one CTA.
    store    the rows and columns that one TMA store writes; without it C is a plain tensor.
    sms      None: a CTA for each tile of C. A number: so many CTAs at most, in whole clusters, go through the
             tiles, and the grid has one dimension.
    given    the arguments of the file's `host_for`, where it has one.

    Errors: SpecError for another type, for rows that are no multiple of 16 bytes (TMA's rule), and for an
    extent of 1, which the CuTe DSL leaves out of a tensor map.
    """
    m, n, k = mnk
    if dtype not in ("f16", "bf16"):
        raise SpecError(f"{file.name}: the type is f16 or bf16, not {dtype!r}.")
    if m < 2 or n % 8 or k % 8 or not n or not k:
        raise SpecError(
            f"{file.name}: TMA steps along rows of whole 16 bytes, so N and K must be multiples of 8, and "
            f"M at least 2; {mnk} is not."
        )
    tile = tile or file.constant("TILE")
    if cluster is None:
        try:
            cluster = file.constant("CLUSTER")
        except AttributeError:
            cluster = (1, 1, 1)
    tiles = [-(-extent // (tile[i] * cluster[i])) * cluster[i] for i, extent in enumerate((m, n))]
    grid = (tiles[0], tiles[1], 1)
    if sms is not None:
        ctas = cluster[0] * cluster[1]
        grid = (min(sms // ctas * ctas, tiles[0] * tiles[1]), 1, 1)

    def operand(
        name: str, extents: tuple[int, int], box: tuple[int, int], receivers: int = 1
    ) -> TensorMapSpec:
        bits = {64: 3, 32: 2, 16: 1}.get(box[1], 0)  # rows of 128, 64 or 32 bytes are swizzled
        return TensorMapSpec(
            name,
            dtype,
            extents,
            (extents[1], 1),
            smem_layout=parse(f"S<{bits},4,3> o 0 o ({box[0]},{box[1]}):({box[1]},1)"),
            cta_tiler=box,
            num_multicast=receivers,
        )

    c = operand("c", (m, n), store) if store else Tensor("c", dtype, (m, n), (n, 1))
    return LaunchSpec(
        name=file.name,
        language="cutedsl",
        kernel=file.function(file.name),
        host=file.function("host_for").given(*given) if given else file.function("host"),
        grid=grid,
        block=(file.constant("THREADS"), 1, 1),
        cluster=cluster if sms is None else (cluster[0] * cluster[1], 1, 1),
        dynamic_smem=smem_bytes,
        params=(
            operand("a", (m, k), (tile[0], tile[2]), cluster[1]),
            operand("b", (n, k), (tile[1], tile[2]), cluster[0]),
            c,
        ),
        target="sm_90a",
    )
