"""umma_tma_multicast for a cluster of 2x2: right, and with one thing wrong at a time.

The cluster of four CTAs is small, so traces and reports stay short. C is 256x512 and K is 256. Each CTA sends
half of its tile of A to its neighbour along N, and half of its tile of B to its neighbour along M.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from cutecourse.kernels import umma_tma_multicast
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec

_OF_SIXTEEN = """\
a quarter of its tile of A for the four CTAs of its row, and a quarter of its tile of B for the
four of its column. It may load again only when the MMAs of all seven CTAs that it sends to are done. So a
commit arrives at seven barriers, and each barrier counts seven arrivals."""
_OF_FOUR = """\
half of its tile of A for the two CTAs of its row, and half of its tile of B for the two of its
column. It may load again only when the MMAs of all CTAs that it sends to are done. So a commit arrives at
the barriers of all CTAs that have sent something."""
SMALL = Fault(
    "small",
    "C is 256x512, and the cluster has 2x2 CTAs",
    source=(
        ("A 4x4 cluster computes C (512x1024)", "A 2x2 cluster computes C (256x512)"),
        (_OF_SIXTEEN, _OF_FOUR),
        ("MNK = (512, 1024, 256)\n", "MNK = (256, 512, 256)\n"),
        ("CLUSTER = (4, 4, 1)\n", "CLUSTER = (2, 2, 1)\n"),
    ),
    unreported="it is no fault",
)
_EXTENTS = {"a": (256, 256), "b": (512, 256), "c": (256, 512)}

_EXPECT = "mbarrier_arrive_and_expect_tx(tma_barrier, tile_bytes)\n"
_FREE = "        cute.arch.mbarrier_wait(mma_barrier, k % 2)\n"
_LOADED = "        cute.arch.mbarrier_wait(tma_barrier, k % 2)\n"
_COMMIT = "tcgen05.commit(mma_barrier, mask_a | mask_b)\n"
_COUNT = "    senders = CLUSTER[0] + CLUSTER[1] - 1\n"
_SLICE = "atom_a, cta_coord[2], along_n"
_CLUSTER_BARRIER = "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n"

FAULTS = by_name(
    __name__,
    Fault(
        "own_slices_expected",
        "a CTA expects the bytes that it loads itself, not those that land in it",
        source=((_EXPECT, _EXPECT.replace("tile_bytes", "tile_bytes // 2")),),
        twin=(("[%full], 49152;", "[%full], 24576;"),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "two_ctas_expected",
        "a CTA expects the bytes of two CTAs, as the leader of a pair does",
        source=((_EXPECT, _EXPECT.replace("tile_bytes", "2 * tile_bytes")),),
        twin=(("[%full], 49152;", "[%full], 98304;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "commit_to_own_row",
        "the commit arrives at the CTAs that share A, not at those that share B",
        source=((_COMMIT, _COMMIT.replace(" | mask_b", "")),),
        twin=(("[%free], %mask_free;", "[%free], %mask_a;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "count_of_own_row",
        "a CTA counts the commits of those that share A, and not of those that share B",
        source=((_COUNT, "    senders = CLUSTER[1]\n"),),
        twin=(("${cluster_0} + ${cluster_1} - 1;", "${cluster_1};"),),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "parity_never_flipped",
        "the second wait for bytes is for the phase that ended with the first k-tile",
        source=((_LOADED, _LOADED.replace("k % 2", "0")),),
        twin=(("[%full], %parity;", "[%full], 0;"),),
        reports=("ReadBeforeWait",),
    ),
    Fault(
        "slice_along_m",
        "the CTAs that share A load the same slice of it, and nobody the others",
        source=((_SLICE, _SLICE.replace("cta_coord[2]", "cta_coord[1]")),),
        twin=(("%slice_a, %n, 128", "%slice_a, %m, 128"),),
        reports=("SharedMemoryRace",),
    ),
    Fault(
        "no_cluster_barrier",
        "a neighbour may send before this CTA's barriers are there",
        source=((_CLUSTER_BARRIER, "    cute.arch.sync_threads()\n"),),
        twin=(
            ("barrier.cluster.arrive.aligned;", "bar.sync            0;"),
            ("barrier.cluster.wait.aligned;", ""),
        ),
        reports=("NoBarrierError",),
    ),
    Fault(
        "parity_flipped",
        "the wait for a free stage is one phase late, so nothing stops the refill",
        source=((_FREE, _FREE.replace("k % 2", "k % 2 ^ 1")),),
        twin=(
            (
                """
UNTIL_FREE:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%free], %parity;""",
                """
UNTIL_FREE:
    xor.b32             %bits, %parity, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%free], %bits;""",
            ),
        ),
        reports=("StageReusedEarly",),
    ),
)


def _operand(parameter: Tensor) -> Tensor:
    """A parameter of the kernel for the small problem: as many rows as two CTAs have, for two receivers."""
    extents = _EXTENTS[parameter.name]
    smaller = replace(parameter, shape=extents, stride=(extents[1], 1))
    return replace(smaller, num_multicast=2) if isinstance(smaller, TensorMapSpec) else smaller


@cache
def small(*names: str) -> LaunchSpec:
    """The launch for a 2x2 cluster, with the faults of these names. Errors: SpecError for another name."""
    spec = umma_tma_multicast.LAUNCH.with_fault(SMALL)
    for name in names:
        spec = spec.with_fault(FAULTS[name])
    return replace(
        spec,
        grid=(2, 2, 1),
        cluster=(2, 2, 1),
        params=tuple(_operand(one) for one in spec.params if isinstance(one, Tensor)),
    )


def broken(name: str) -> LaunchSpec:
    """The launch for a 2x2 cluster with one fault. Errors: SpecError for a name that is none."""
    return small(name)


LAUNCH = small()
