"""How `fp8_gemm` is launched; the kernel is in `source.py`."""

from typing import NamedTuple

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.hopper.hopper_last import CONSUMERS, THREADS
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import parse

FILE = kernel_file("fp8_gemm")
__getattr__ = FILE.attribute  # the kernel's constants and functions

SUMS = ("plain", "promoted", "scaled")
"""Who adds: the tensor core alone, threads each 128 elements of K, threads with scales."""


class Fp8Choice(NamedTuple):
    """The choice for one size.

    sums     one of `SUMS`.
    tile     of C and along K.
    cluster  CTAs along M, which share a tile of B, and along N, which share a tile of A.
    stages   of shared memory, for tiles of A and B.
    piece    columns of C that are stored at once, and `buffers` for such pieces in each warpgroup.
    group    rows of clusters' tiles that are computed together; columns, if `along_n`.
    turns    the warpgroups issue their MMAs in turns: one multiplies while the other one promotes.
    unroll   k-tiles in a turn of the loop that promotes.
    """

    sums: str = "plain"
    tile: tuple[int, int, int] = (128, 256, 128)
    cluster: tuple[int, int] = (2, 1)
    stages: int = 4
    piece: int = 64
    buffers: int = 2
    group: int = 8
    along_n: bool = False
    turns: bool = False
    unroll: int = 1

    @property
    def rows(self) -> int:
        """The rows of a tile that one warpgroup has."""
        return self.tile[0] // int(CONSUMERS)

    @property
    def ctas(self) -> int:
        """The CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def scales(self) -> int:
        """Room for the scales of a stage: of A's rows, then of B's blocks."""
        return self.tile[0] + int(FILE.constant("UNDER"))

    @property
    def smem_bytes(self) -> int:
        """Stages with their scales and two barriers, and the buffers for pieces of C."""
        loaded = (self.tile[0] + self.tile[1]) * self.tile[2] + 2 * 8
        if self.sums == "scaled":
            loaded += 4 * self.scales
        return self.stages * loaded + int(CONSUMERS) * self.buffers * self.rows * self.piece * 2


CHOICES = {
    "plain": ((Fp8Choice(piece=32, buffers=4), 1.0),),
    "promoted": (
        (Fp8Choice("promoted", (128, 192, 128), buffers=3), 1.0),
        (Fp8Choice("promoted", (128, 208, 128), piece=104), 0.99),
        (Fp8Choice("promoted", (128, 128, 128), stages=5), 0.9),
    ),
    "scaled": (
        (Fp8Choice("scaled", (128, 192, 128), buffers=3, unroll=4), 1.0),
        (Fp8Choice("scaled", (256, 128, 128), stages=3, unroll=4), 0.96),
    ),
}
"""Each with its speed while all multiprocessors have a tile, as a part of the first one's (an H100's)."""


def best(m: int, n: int, sums: str, sms: int) -> Fp8Choice:
    """The choice for C (M, N): fast, and with few multiprocessors idle while the last tiles are computed."""

    def speed(choice: tuple[Fp8Choice, float]) -> float:
        how, full_speed = choice
        area = how.tile[0] * how.cluster[0] * how.tile[1] * how.cluster[1]
        tiles = -(-m // (how.tile[0] * how.cluster[0])) * -(-n // (how.tile[1] * how.cluster[1]))
        clusters = sms // how.ctas
        return full_speed * m * n / (-(-tiles // clusters) * clusters * area)

    return max(CHOICES[sums], key=speed)[0]


def spec(
    m: int,
    n: int,
    k: int,
    sums: str = "scaled",
    how: Fp8Choice | None = None,
    sms: int = FILE.constant("SMS"),
) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, for M from 2, N in eights, K in sixteens.

    A and B are e4m3 and C is bf16, all row-major. With scales there are two more arrays of f32:
    `scale_a` (M, K / 128), with the rows of A contiguous, and `scale_b` (N / 128, K / 128), row-major. Both
    divisions round up.

    sums  one of `SUMS`, unless `how` is given.
    how   the choice; `best` for the size unless given.
    sms   how many CTAs share the tiles, at most: as many as the GPU has multiprocessors.

    Errors: SpecError for other sums, and for rows that are no multiple of 16 bytes (TMA's rule).
    """
    if how is None and sums not in SUMS:
        raise SpecError(f"fp8_gemm: the sums are {', '.join(SUMS)}, not {sums!r}.")
    how = how or best(m, n, sums, FILE.constant("SMS"))
    if m < 2 or n % 8 or k % 16 or not n or not k:
        raise SpecError(
            f"fp8_gemm: TMA steps along rows of whole 16 bytes, so N must be a multiple of 8, K one of 16, "
            f"and M at least 2; {(m, n, k)} is not."
        )
    tiles = [-(-extent // (how.tile[i] * how.cluster[i])) for i, extent in enumerate((m, n))]
    block = FILE.constant("BLOCK")

    def operand(
        name: str, dtype: str, extents: tuple[int, int], box: tuple[int, int], receivers: int = 1
    ) -> TensorMapSpec:
        row_bytes = box[1] * (2 if dtype == "bf16" else 1)
        bits = {128: 3, 64: 2, 32: 1}.get(row_bytes, 0)
        return TensorMapSpec(
            name,
            dtype,
            extents,
            (extents[1], 1),
            smem_layout=parse(f"S<{bits},4,3> o 0 o ({box[0]},{box[1]}):({box[1]},1)"),
            cta_tiler=box,
            num_multicast=receivers,
        )

    params: tuple[Tensor, ...] = (
        operand("a", "e4m3", (m, k), (how.tile[0], how.tile[2]), how.cluster[1]),
        operand("b", "e4m3", (n, k), (how.tile[1], how.tile[2]), how.cluster[0]),
        operand("c", "bf16", (m, n), (how.rows, how.piece)),
    )
    if how.sums == "scaled":
        blocks = -(-k // block)
        params += (
            Tensor("scale_a", "f32", (m, blocks), (1, m)),
            Tensor("scale_b", "f32", (-(-n // block), blocks), (blocks, 1)),
        )
    return LaunchSpec(
        name="fp8_gemm",
        language="cutedsl",
        kernel=FILE.function("fp8_gemm"),
        host=FILE.function("host_for").given(*how),
        grid=(min(sms // how.ctas, tiles[0] * tiles[1]) * how.ctas, 1, 1),
        block=(THREADS, 1, 1),
        cluster=(how.ctas, 1, 1),
        dynamic_smem=how.smem_bytes,
        params=params,
        target="sm_90a",
        programmatic=True,
    )


M, N, K = FILE.constant("MNK")
LAUNCH = spec(M, N, K, how=CHOICES["scaled"][0][0], sms=4)
