"""Mistakes with the classes: what a pipeline cannot know of its kernel, and is told in a number."""

from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.umma.umma_persistent.faults import FAULTS as BY_HAND

_RELEASE = """\
                    with cute.arch.elect_one():
                        full.release()
"""
_MEET = "    cute.arch.sync_threads()  # all warps of this CTA have loaded their sums\n"
_LEADER_ALONE = BY_HAND["leader_alone_counted"]
_MEET_IN_TWIN = BY_HAND["block_barrier_before_dealloc"].twin[0][0]

_TILES = """\
        for number in cutlass.range(first, count, pairs, unroll=1):
            row =\
"""
_BIAS = """\
        gBias = cute.local_tile(mBias, (PIECE[1],), (None,))  # (64, pieces along N)
        stored = cutlass.Int32(0)  # the pieces of all tiles, counted on
"""
_ADD = """\
                for j in cutlass.range_constexpr(PIECE[1] // 8):
                    if piece * PIECE[1] + 8 * j < mBias.shape[0]:  # eight columns lie in D, or none does
                        for q in cutlass.range_constexpr(8 * j, 8 * j + 8):
                            sums[q] = sums[q] + gBias[q, piece]
"""
_STORED = "                    stores.producer_commit()\n"

NO_TAILS = Fault(
    "no_tails",
    "no producer waits, before it leaves, for what it handed out",
    source=(("        loads.tail()\n", ""), ("            products.tail()\n", "")),
    unreported="a pair meets in `free`, behind all arrivals, so this is no fault here",
)

ANOTHER_TILE = Fault(
    "another_tile",
    "tiles of 256 x 192, and a bias for each column",
    source=(
        ("COLUMNS = 256 ", "COLUMNS = 192 "),
        ("    tma_d: cute.Tensor,\n", "    tma_d: cute.Tensor,\n    mBias: cute.Tensor,\n"),
        ("allocate(ACCUMULATORS * COLUMNS)", "allocate(512)"),
        (_TILES, _BIAS + _TILES),
        ("+ i % BUFFERS", "+ stored % BUFFERS"),
        ("                rounded.store(", _ADD + "                rounded.store("),
        (_STORED, _STORED + "                stored += 1\n"),
        ("mD: cute.Tensor):", "mD: cute.Tensor, mBias: cute.Tensor):"),
        ("atom_d, tma_d, layout_a", "atom_d, tma_d, mBias, layout_a"),
    ),
    unreported="another kernel, and right",
)

FAULTS = by_name(
    __name__,
    Fault(
        "bytes_of_one_sm",
        "`tx_count` is one CTA's bytes, but the leader's barrier counts those of both",
        source=(("tx_count=sms * tile_bytes", "tx_count=tile_bytes"),),
        twin=(("[%barrier], 16384 * ${given_0} + 32768;", "[%barrier], 16384 + 32768 / ${given_0};"),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        _LEADER_ALONE.name,
        "the accumulators' `consumer_group` is the leader's four warps, but eight release",
        source=(("(Agent.Thread, STORING_WARPS * sms)", "(Agent.Thread, STORING_WARPS)"),),
        twin=_LEADER_ALONE.twin,
        reports=_LEADER_ALONE.reports,
    ),
    Fault(
        "released_by_every_lane",
        "all 32 lanes of a warp release the accumulator, and the group counts warps",
        source=((_RELEASE, "                    full.release()\n"),),
        twin=(("@%elected mbarrier.arrive.release", "mbarrier.arrive.release"),),
        reports=_LEADER_ALONE.reports,
    ),
    Fault(
        "freed_by_the_first",
        "the warp that allocated frees the columns while other warps of its CTA load from them",
        source=((_MEET, ""),),
        twin=((_MEET_IN_TWIN, ""),),
        reports=("TensorMemoryFreed", "TensorMemoryLoadUnderWay"),
    ),
)
