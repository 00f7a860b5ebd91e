"""The GEMM of umma_two_sm_pipeline with one thing wrong at a time.

A fault is a change in one place of that kernel's file, and the changed file is compiled, so the change is the
only difference. On a GPU some of these kernels never end and the others write wrong numbers, so run them on
the emulator.
"""

from __future__ import annotations

from cutecourse.kernels import umma_two_sm_pipeline
from cutecourse.kernels.faults import Fault, by_name, with_fault
from cutecourse.kernels.spec import LaunchSpec, SpecError

SOURCE = umma_two_sm_pipeline.FILE.text

_EMPTY = "            cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)\n"
_COMMIT = "empty + stage, mask_a | mask_b | mask_peer_a | mask_peer_b, tcgen05.CtaGroup.TWO"
_MMA = "    elif warp == 1:\n        if leads:\n"
_SYNC = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"
_FREE = SOURCE[
    SOURCE.index("    if warp == 0:\n        cute.arch.relinquish") : SOURCE.index("\n\n@cute.jit")
]

FAULTS = by_name(
    umma_two_sm_pipeline,
    (
        Fault(
            "wrong_mask",
            "mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=2)",
            "mask_a = cpasync.create_tma_multicast_mask(cluster_layout_vmnk, cta_coord, mcast_mode=1)",
            "A's tiles go to the CTAs of the own column, not to those of the own row",
        ),
        Fault(
            "peer_not_expected",
            "mbarrier_arrive_and_expect_tx(full + stage, 2 * tile_bytes)",
            "mbarrier_arrive_and_expect_tx(full + stage, tile_bytes)",
            "the leader expects the bytes of its own tiles and not those of its peer's",
        ),
        Fault(
            "follower_multiplies",
            _MMA,
            _MMA.replace("if leads", "if cta_coord[0] == 1"),
            "the odd CTA of the pair waits for the tiles and issues the MMAs",
        ),
        Fault(
            "commit_to_itself",
            _COMMIT,
            "empty + stage, None, tcgen05.CtaGroup.TWO",
            "only the leader's own barrier hears that a stage is free",
        ),
        Fault(
            "stage_reused",
            _EMPTY,
            "",
            "the producer does not wait until the MMAs are done with the stage",
        ),
        Fault(
            "freed_too_early",
            _SYNC + _FREE,
            _FREE + _SYNC,
            "warp 0 frees the pair's tensor memory before the cluster's barrier, while others still read it",
        ),
        Fault(
            "never_cleared",
            "            tiled_mma.set(tcgen05.Field.ACCUMULATE, False)\n",
            "            tiled_mma.set(tcgen05.Field.ACCUMULATE, True)\n",
            "the first MMA adds to what tensor memory holds from whoever had it before",
        ),
        Fault(
            "not_finished",
            "    cute.arch.mbarrier_wait(finished, 0)\n",
            "",
            "the accumulator is read before the MMAs are done",
        ),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    fault = FAULTS.get(name)
    if fault is None:
        raise SpecError(f"umma_broken has no fault {name!r}; it has {', '.join(FAULTS)}.")
    return with_fault(umma_two_sm_pipeline, fault)


LAUNCH = umma_two_sm_pipeline.LAUNCH
