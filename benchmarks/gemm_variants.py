"""Variants of the ladder's last rung: other tiles, warps, stages and orders, made by changing its text."""

from __future__ import annotations

from dataclasses import dataclass

from cutecourse.kernels import gemm_late
from cutecourse.kernels.faults import edited
from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.gemm_ladder import ladder_spec
from cutecourse.kernels.spec import LaunchSpec

__all__ = ["AWKWARD_VARIANTS", "VARIANTS", "Variant"]

_ONE_SET = (
    (
        """    blocks = cute.size(tCrA, mode=[2])
    cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile 0 have arrived
    cute.arch.sync_threads()  # everyone's have
    cute.copy(ldmatrix, tXsA[None, None, 0, 0], tXrA[None, None, 0])
    cute.copy(ldmatrix, tXsB[None, None, 0, 0], tXrB[None, None, 0])

    for k in cutlass.range(k_tiles, unroll=1):
""",
        """    blocks = cute.size(tCrA, mode=[2])
    for k in cutlass.range(k_tiles, unroll=1):
        cute.arch.cp_async_wait_group(AHEAD - 1)
        cute.arch.sync_threads()
""",
    ),
    (
        """            if block == blocks - 1:
                cute.arch.cp_async_wait_group(AHEAD - 1)  # my copies of k-tile k + 1 have arrived
                cute.arch.sync_threads()  # everyone's have, and everyone has read k-tile k
            k_tile, coming = (k, block + 1) if block < blocks - 1 else (k + 1, 0)
            cute.copy(ldmatrix, tXsA[None, None, coming, k_tile % STAGES], tXrA[None, None, coming])
            cute.copy(ldmatrix, tXsB[None, None, coming, k_tile % STAGES], tXrB[None, None, coming])
            now = (None, None, block)
""",
        """            now = (None, None, block)
            cute.copy(ldmatrix, tXsA[None, None, block, k % STAGES], tXrA[now])
            cute.copy(ldmatrix, tXsB[None, None, block, k % STAGES], tXrB[now])
""",
    ),
)
_WHERE = """                ahead = k + AHEAD  # a k-tile behind the last one is zeros
                at, to = (None, None, None, ahead), (None, None, None, ahead % STAGES)
"""
_COPIES = f"""{_WHERE}                copy_inside(load, tAcA[at], mA.shape, tAgA[at], tAsA[to])
                copy_inside(load, tBcB[at], mB.shape, tBgB[at], tBsB[to])
                cute.arch.cp_async_commit_group()
"""
_TURN = """    for k in cutlass.range(k_tiles, unroll=1):
"""
_SPREAD = """                copy_inside(load, tBcB[at], mB.shape, tBgB[at], tBsB[to])
                cute.arch.cp_async_commit_group()
"""


@dataclass(frozen=True)
class Variant:
    """One choice of everything; `spec` is its launch.

    tile      of C, and the k-tile.
    warps     along M and N.
    stages    of shared memory.
    group     rows of tiles that CTAs go down before the next column.
    sets      sets of fragments: 2 where the next is loaded while one is multiplied.
    copies    where in a turn they are issued: "first", "late" (behind the first block's MMAs), or "spread"
              (A's there, and B's behind the second block's).
    cache     "cg", "ca", or "cg" with an L2 prefetch of 128 or 256 bytes.
    ctas      the least CTAs that an SM must be able to hold (the compiler bounds the registers), 0: any.
    """

    tile: tuple[int, int, int] = (256, 128, 32)
    warps: tuple[int, int] = (4, 2)
    stages: int = 4
    group: int = 8
    sets: int = 2
    copies: str = "late"
    cache: str = "cg"
    ctas: int = 0

    @property
    def name(self) -> str:
        """A short name, unique among the variants."""
        m, n, k = self.tile
        parts = [f"{m}x{n}x{k}", f"{self.warps[0]}x{self.warps[1]} warps", f"{self.stages} stages"]
        parts += [f"group {self.group}"] * (self.group != 8)
        parts += ["one set"] * (self.sets == 1) + [f"copies {self.copies}"] * (self.copies != "late")
        parts += [self.cache] * (self.cache != "cg") + [f"{self.ctas} CTAs"] * bool(self.ctas)
        return ", ".join(parts)

    def spec(self, mnk: tuple[int, int, int]) -> LaunchSpec:
        """The launch for C (M, N) = A (M, K) times B (N, K) transposed."""
        tile, threads = self.tile, 32 * self.warps[0] * self.warps[1]
        given = {
            "TILE": gemm_late.FILE.constant("TILE"),
            "AHEAD": gemm_late.FILE.constant("AHEAD"),
            "GROUP": gemm_late.FILE.constant("GROUP"),
            "WARPS": gemm_late.FILE.constant("WARPS"),
            "THREADS": gemm_late.FILE.constant("THREADS"),
        }
        wanted = dict(zip(given, (tile, self.stages - 1, self.group, self.warps, threads), strict=True))
        changes = [(f"\n{name} = {given[name]}", f"\n{name} = {wanted[name]}") for name in given]
        bits = {32: 2, 64: 3}[tile[2]]
        changes.append(("cute.make_swizzle(2, 4, 3)", f"cute.make_swizzle({bits}, 4, 3)"))
        if self.sets == 1:
            changes += _ONE_SET
        if self.copies == "first":
            outer = "".join(line[8:] + "\n" for line in _COPIES.splitlines())
            changes += [("            if block == 0:\n" + _COPIES, ""), (_TURN, _TURN + outer)]
        if self.copies == "spread":
            changes.append((_SPREAD, f"            if block == 1:\n{_WHERE}{_SPREAD}"))
        if self.cache == "ca":
            changes.append(
                ("LoadCacheMode.GLOBAL if width == 8 else LoadCacheMode.ALWAYS", "LoadCacheMode.ALWAYS")
            )
        file = KernelFile("gemm_late", edited(gemm_late.FILE.text, changes, "gemm_late"))
        stages_bytes = self.stages * (tile[0] + tile[1]) * tile[2] * 2
        if stages_bytes < tile[0] * tile[1] * 2:
            raise ValueError(f"{self.name}: the stages have no room for C's tile")
        return ladder_spec(file, mnk, smem_bytes=stages_bytes, whole_tiles=False, in_line=True)

    def edited(self, ptx: str) -> str:
        """The PTX with what the CuTe DSL has no name for: the L2 prefetch, the least CTAs of an SM."""
        if self.cache.startswith("cg L2"):
            ptx = ptx.replace("cp.async.cg.shared.global", f"cp.async.cg.shared.global.L2::{self.cache[6:]}B")
        if self.ctas:
            ptx = ptx.replace("\n{\n", f"\n.minnctapersm {self.ctas}\n{{\n", 1)
        return ptx


VARIANTS = (
    Variant(copies="first"),
    Variant(stages=3),
    Variant(stages=5),
    Variant(tile=(256, 128, 64), stages=2),
    Variant(tile=(256, 128, 64), stages=3),
    Variant(tile=(256, 128, 64), stages=3, copies="first"),
    Variant(tile=(256, 128, 64), stages=3, copies="spread"),
    Variant(tile=(256, 128, 64), stages=4),
    Variant(sets=1),
    Variant(tile=(256, 128, 64), stages=3, sets=1),
    Variant(group=1),
    Variant(group=4),
    Variant(group=16),
    Variant(group=100000),
    Variant(cache="ca"),
    Variant(cache="cg L2 128"),
    Variant(cache="cg L2 256"),
    Variant(tile=(128, 256, 32), warps=(2, 4)),
    Variant(tile=(128, 256, 64), warps=(2, 4), stages=3),
    Variant(tile=(128, 128, 32), warps=(2, 2), stages=3),
    Variant(tile=(128, 128, 32), warps=(2, 2), stages=4),
    Variant(tile=(128, 128, 64), warps=(2, 2), stages=3),
    Variant(tile=(128, 128, 64), warps=(2, 2), stages=3, copies="spread"),
    Variant(tile=(128, 128, 32), warps=(4, 2), stages=4),
    Variant(tile=(128, 128, 32), warps=(4, 2), stages=4, ctas=2),
    Variant(tile=(192, 128, 32), warps=(2, 2), stages=4),
    Variant(tile=(192, 128, 32), warps=(2, 2), stages=4, sets=1),
    Variant(tile=(192, 256, 32), warps=(2, 4), stages=4, sets=1),
    Variant(tile=(256, 192, 32), warps=(4, 2), stages=4, sets=1),
    Variant(tile=(192, 256, 64), warps=(2, 4), stages=3, sets=1),
    Variant(tile=(256, 256, 32), warps=(4, 4), stages=4, sets=1),
)
"""What was tried: every row is measured."""

AWKWARD_VARIANTS = (
    Variant(tile=(256, 128, 64), stages=3, copies="spread"),
    Variant(tile=(256, 128, 64), stages=3, copies="first"),
    Variant(tile=(256, 128, 64), stages=4),
    Variant(tile=(256, 128, 64), stages=3),
    Variant(tile=(128, 256, 64), warps=(2, 4), stages=3),
    Variant(tile=(128, 128, 64), warps=(2, 2), stages=3),
    Variant(cache="ca"),
    Variant(cache="cg L2 128"),
    Variant(copies="first"),
    Variant(group=16),
)
"""Those that a row of 16 bytes, and not 128, might suit better."""
