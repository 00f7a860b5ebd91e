"""The one-tile GEMM of umma_tile with one thing wrong at a time: the mistakes of a first tcgen05 kernel."""

from __future__ import annotations

from cutecourse.kernels import umma_tile
from cutecourse.kernels.faults import Fault, by_name, with_fault
from cutecourse.kernels.spec import LaunchSpec, SpecError

_FENCE = '        cute.arch.fence_proxy("async.shared", space="cta")\n'
_WAIT = "        cute.arch.mbarrier_wait(mma_barrier, k % 2)\n"
_CLEAR = "tiled_mma.set(tcgen05.Field.ACCUMULATE, False)\n"
_LOOP = "    for k in cutlass.range(cute.size(gA, mode=[2]), unroll=1):\n"
_ALLOC = "        cute.arch.alloc_tmem(TMEM_COLUMNS, tmem_base)\n"
_MULTIPLY = "        if warp == 0:\n            for k_block in"
_DEALLOC = "        cute.arch.dealloc_tmem(tCtC.iterator, TMEM_COLUMNS)\n"

FAULTS = by_name(
    umma_tile,
    (
        Fault("no_proxy_fence", _FENCE, "", "the threads' stores are not ordered before the MMA's reads"),
        Fault("no_wait", _WAIT, "", "nobody waits for the MMAs"),
        Fault(
            "parity_never_flipped",
            _WAIT,
            _WAIT.replace("k % 2", "0"),
            "the second wait is for the phase that ended with the first k-tile",
        ),
        Fault(
            "never_cleared",
            _CLEAR,
            _CLEAR.replace("False", "True"),
            "the first MMA adds to what tensor memory holds already",
        ),
        Fault(
            "every_k_tile_cleared",
            "    " + _CLEAR + _LOOP,
            _LOOP + "        " + _CLEAR,
            "each k-tile starts from zero, and the last one is what is left",
        ),
        Fault(
            "wrong_lanes",
            ").get_slice(tid)\n",
            ").get_slice(tid ^ 32)\n",
            "each warp reads the lanes of its neighbour",
        ),
        Fault(
            "every_warp_multiplies",
            _MULTIPLY,
            _MULTIPLY.replace("if warp == 0:", "if True:"),
            "one thread of each of the four warps issues the MMAs",
        ),
        Fault(
            "allocated_twice",
            _ALLOC,
            _ALLOC.replace("TMEM_COLUMNS", "512") + _ALLOC.replace("TMEM_COLUMNS", "512"),
            "the second allocation waits for columns that the first one has",
        ),
        Fault("not_freed", _DEALLOC, "", "tensor memory is never given back"),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    fault = FAULTS.get(name)
    if fault is None:
        raise SpecError(f"umma_tile_broken has no fault {name!r}; it has {', '.join(FAULTS)}.")
    return with_fault(umma_tile, fault)


LAUNCH = umma_tile.LAUNCH
