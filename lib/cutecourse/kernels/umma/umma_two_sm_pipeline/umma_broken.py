"""The GEMM of umma_two_sm_pipeline with one thing wrong at a time.

A fault is a change in one place of that kernel's file, and the changed file is compiled, so the change is the
only difference. On a GPU some of these kernels never end and the others write wrong numbers, so run them on
the emulator.
"""

from __future__ import annotations

from cutecourse.kernels import umma_two_sm_pipeline
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec

SOURCE = umma_two_sm_pipeline.FILE.text

_EMPTY = "            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)\n"
_COMMIT = "empty + stage, mask_a | mask_b | mask_peer_a | mask_peer_b, tcgen05.CtaGroup.TWO"
_MMA = "    elif warp == 1:\n        if leads:\n"
_SYNC = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"
_FREE = SOURCE[
    SOURCE.index("    if warp == 0:\n        cute.arch.relinquish") : SOURCE.index("\n\n@cute.jit")
]

FAULTS = by_name(
    __name__,
    Fault(
        "wrong_mask",
        "A's tiles go to the CTAs of the own column, not to those of the own row",
        source=(
            (
                "mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)",
                "mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=1)",
            ),
        ),
        twin=(("%mask_a, %for_a;", "%mask_a, %for_b;"),),
        reports=("SharedMemoryRace",),
    ),
    Fault(
        "peer_not_expected",
        "the leader expects the bytes of its own tiles and not those of its peer's",
        source=(
            (
                "mbarrier_arrive_and_expect_tx(full + stage, 2 * tile_bytes)",
                "mbarrier_arrive_and_expect_tx(full + stage, tile_bytes)",
            ),
        ),
        twin=(("[%barrier], 65536;", "[%barrier], 32768;"),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "follower_multiplies",
        "the odd CTA of the pair waits for the tiles and issues the MMAs",
        source=((_MMA, _MMA.replace("if leads", "if cta_coord[0] == 1")),),
        twin=(
            (
                "and.pred            %multiplies, %multiplies, %leads;",
                "@%leads setp.ne.u32 %multiplies, 0, 0;",
            ),
        ),
        reports=("DeadlockError",),
    ),
    Fault(
        "commit_to_itself",
        "only the leader's own barrier hears that a stage is free",
        source=((_COMMIT, "empty + stage, None, tcgen05.CtaGroup.TWO"),),
        twin=(
            (
                "one.shared::cluster.multicast::cluster.b64\n            [%barrier], %mask_empty;",
                "one.shared::cluster.b64\n            [%barrier];",
            ),
        ),
        reports=("DeadlockError",),
    ),
    Fault(
        "stage_reused",
        "the producer does not wait until the MMAs are done with the stage",
        source=((_EMPTY, ""),),
        twin=(
            ("[%barrier + 98328], %before;", ""),
            ("@!%done bra         UNTIL_EMPTY;", ""),
        ),
        reports=("StageReusedEarly", "BarrierCountError"),
    ),
    Fault(
        "freed_too_early",
        "warp 0 frees the pair's tensor memory before the cluster's barrier, while others still read it",
        source=((_SYNC + _FREE, _FREE + _SYNC),),
        twin=(
            (
                "    barrier.cluster.arrive.aligned;                     // all have read",
                "",
            ),
            ("barrier.cluster.wait.aligned;\n    @!%warp_0 bra       END;", "@!%warp_0 bra       END;"),
            ("END:\n", "END:\n    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"),
        ),
        reports=("TensorMemoryFreed",),
    ),
    Fault(
        "never_cleared",
        "the first MMA adds to what tensor memory holds from whoever had it before",
        source=(
            (
                "            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)\n",
                "            tiled_mma.set(tcgen05.Field.ACCUMULATE, True)\n",
            ),
        ),
        twin=(("setp.ne.u32         %sum, 0, 0;", "setp.eq.u32         %sum, 1, 1;"),),
        reports=("UninitializedRead",),
    ),
    Fault(
        "not_finished",
        "the accumulator is read before the MMAs are done",
        source=(("    cute.arch.mbarrier_wait(finished, 0)\n", ""),),
        twin=(
            ("%done, [%finished], 0;", ""),
            ("@!%done bra         UNTIL_FINISHED;", ""),
        ),
        reports=("UninitializedRead",),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    return LAUNCH.with_fault(FAULTS[name])


LAUNCH = umma_two_sm_pipeline.LAUNCH
