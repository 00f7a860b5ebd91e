"""How `hopper_last` is launched; the kernel is in `sources/hopper_last.py`."""

from typing import NamedTuple

from cutecourse.kernels.files import kernel_file
from cutecourse.kernels.hopper_ladder import hopper_spec
from cutecourse.kernels.spec import LaunchSpec

FILE = kernel_file("hopper_last")
__getattr__ = FILE.attribute  # the kernel's constants and functions


class How(NamedTuple):
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


COOPERATIVE = How()
PINGPONG = How(pingpong=True, tile=(128, 192, 64))


def best(m: int, n: int, k: int) -> How:
    """The choice that was fastest on an H200 for this size."""
    return PINGPONG if m * n >= 8192 * 8192 else COOPERATIVE


def spec(
    m: int, n: int, k: int, dtype: str = "f16", how: How | None = None, sms: int = FILE.constant("SMS")
) -> LaunchSpec:
    """The launch for C (M, N) = A (M, K) times B (N, K) transposed, for any M and for N and K in eights.

    how  tile, roles and order; `best` for the size unless given.
    sms  how many CTAs share the tiles, at most: as many as the GPU has multiprocessors.
    """
    how = how or best(m, n, k)
    return hopper_spec(
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


LAUNCH = spec(*FILE.constant("MNK"), sms=4)
