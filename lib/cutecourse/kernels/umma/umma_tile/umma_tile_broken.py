"""The one-tile GEMM of umma_tile with one thing wrong at a time: the mistakes of a first tcgen05 kernel."""

from __future__ import annotations

from cutecourse.kernels import umma_tile
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec

_FENCE = '        cute.arch.fence_proxy("async.shared", space="cta")\n'
_WAIT = "        cute.arch.mbarrier_wait(mma_barrier, k % 2)\n"
_CLEAR = "tiled_mma.set(tcgen05.Field.ACCUMULATE, False)\n"
_LOOP = "    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):\n"
_ALLOC = "        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)\n"
_MULTIPLY = "        if warp == 0:\n            for k_block in"
_DEALLOC = "        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS)\n"

FAULTS = by_name(
    __name__,
    Fault(
        "no_proxy_fence",
        "the threads' stores are not ordered before the MMA's reads",
        source=((_FENCE, ""),),
        twin=(("fence.proxy.async.shared::cta;", ""),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "no_wait",
        "nobody waits for the MMAs",
        source=((_WAIT, ""),),
        twin=(("%done, [%free], %parity;", ""), ("@!%done bra         UNTIL_FREE;", "")),
        reports=("SharedMemoryRace", "OverwrittenSource"),
    ),
    Fault(
        "parity_never_flipped",
        "the second wait is for the phase that ended with the first k-tile",
        source=((_WAIT, _WAIT.replace("k % 2", "0")),),
        twin=(("[%free], %parity;", "[%free], 0;"),),
        reports=("SharedMemoryRace", "OverwrittenSource"),
    ),
    Fault(
        "never_cleared",
        "the first MMA adds to what tensor memory holds already",
        source=((_CLEAR, _CLEAR.replace("False", "True")),),
        twin=(("setp.ne.u32         %sum, 0, 0;", "setp.eq.u32         %sum, 1, 1;"),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "every_k_tile_cleared",
        "each k-tile starts from zero, and the last one is what is left",
        source=(("    " + _CLEAR + _LOOP, _LOOP + "        " + _CLEAR),),
        twin=(("K_TILE:\n", "K_TILE:\n    setp.ne.u32         %sum, 0, 0;\n"),),
        reports=("UnreadSum",),
    ),
    Fault(
        "wrong_lanes",
        "each warp reads the lanes of its neighbour",
        source=((").get_slice(tid)\n", ").get_slice(tid ^ 32)\n"),),
        twin=(
            (
                "    shl.b32             %from, %warp, 21;",
                """\
    xor.b32             %warp, %warp, 1;
    xor.b32             %thread, %thread, 32;
    shl.b32             %from, %warp, 21;""",
            ),
        ),
        reports=("TensorMemoryLanesError",),
    ),
    Fault(
        "every_warp_multiplies",
        "one thread of each of the four warps issues the MMAs",
        source=((_MULTIPLY, _MULTIPLY.replace("if warp == 0:", "if True:")),),
        twin=(("@!%warp_0 bra       UNTIL_FREE;", ""),),
        reports=("OverwrittenSource", "TensorMemoryHazard", "BarrierCountError"),
    ),
    Fault(
        "allocated_twice",
        "the second allocation waits for columns that the first one has",
        source=((_ALLOC, _ALLOC.replace("TMEM_COLUMNS", "512") + _ALLOC.replace("TMEM_COLUMNS", "512")),),
        twin=(
            (
                "[%slot], 128;\n",
                """[%slot], 512;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 512;
""",
            ),
        ),
        reports=("DeadlockError",),
    ),
    Fault(
        "not_freed",
        "tensor memory is never given back",
        source=((_DEALLOC, ""),),
        twin=(("tcgen05.dealloc", ""),),
        reports=("TensorMemoryLeak",),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    return LAUNCH.with_fault(FAULTS[name])


LAUNCH = umma_tile.LAUNCH
