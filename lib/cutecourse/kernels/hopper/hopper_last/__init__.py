"""HopperChoice `hopper_last` is launched; the kernel is in `source.py`."""

from dataclasses import replace
from typing import NamedTuple

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.hopper_ladder import hopper_spec
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("hopper_last")
__getattr__ = FILE.attribute  # the kernel's constants and functions


class HopperChoice(NamedTuple):
    """What the kernel's file calls `How`: the choice for one size."""

    pingpong: bool = False
    tile: tuple[int, int, int] = (128, 256, 64)
    cluster: tuple[int, int] = (2, 1)
    stages: int = 4
    piece: int = 64
    buffers: int = 2
    group: int = 8
    along_n: bool = False

    @property
    def rows(self) -> int:
        """The rows of a tile that one warpgroup has."""
        return self.tile[0] if self.pingpong else self.tile[0] // int(FILE.constant("CONSUMERS"))

    @property
    def smem_bytes(self) -> int:
        """Stages with their two barriers, and the buffers for pieces of C."""
        loaded = (self.tile[0] + self.tile[1]) * self.tile[2] * 2 + 2 * 8
        return self.stages * loaded + FILE.constant("CONSUMERS") * self.buffers * self.rows * self.piece * 2


COOPERATIVE = HopperChoice()
CHOICES = (
    (COOPERATIVE, 1.0),
    (HopperChoice(pingpong=True, tile=(128, 192, 64), stages=5, piece=32, buffers=1), 1.01),
    (HopperChoice(pingpong=True, tile=(128, 208, 64), stages=5, piece=16), 1.005),
    (HopperChoice(tile=(128, 128, 64), stages=6), 0.93),
    (HopperChoice(tile=(128, 64, 64), cluster=(1, 1), stages=8, buffers=1), 0.8),
)
"""Each with its speed while all multiprocessors have a tile, as a part of the first one's (an H200's)."""


def best(m: int, n: int, sms: int) -> HopperChoice:
    """The choice for C (M, N): fast, and with few multiprocessors idle while the last tiles are computed."""
    if max(m, n) <= 1024:
        return COOPERATIVE
    if m == n == 2048:  # one tile each: nothing that a pair of CTAs shares comes twice
        return COOPERATIVE._replace(cluster=(1, 1))

    def speed(choice: tuple[HopperChoice, float]) -> float:
        how, full_speed = choice
        area = how.tile[0] * how.cluster[0] * how.tile[1] * how.cluster[1]
        tiles = -(-m // (how.tile[0] * how.cluster[0])) * -(-n // (how.tile[1] * how.cluster[1]))
        clusters = sms // (how.cluster[0] * how.cluster[1])
        return full_speed * m * n / (-(-tiles // clusters) * clusters * area)

    return max(CHOICES, key=speed)[0]


def spec(
    m: int,
    n: int,
    k: int,
    dtype: str = "f16",
    how: HopperChoice | None = None,
    sms: int = FILE.constant("SMS"),
) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, for any M and for N and K in eights.

    how  tile, roles and order; `best` for the size unless given.
    sms  how many CTAs share the tiles, at most: as many as the GPU has multiprocessors.
    """
    how = how or best(m, n, sms)
    launch = hopper_spec(
        FILE,
        (m, n, k),
        dtype,
        smem_bytes=how.smem_bytes,
        tile=how.tile,
        cluster=(*how.cluster, 1),
        store=(how.rows, how.piece),
        sms=sms,
        given=tuple(how),
    )
    return replace(launch, programmatic=True)


M, N, K = FILE.constant("MNK")
LAUNCH = spec(M, N, K, how=COOPERATIVE, sms=4)
