"""Checks of the exercises of chapter 13, two SMs and one MMA."""

from __future__ import annotations

import re

from cutecourse import umma
from cutecourse.checks.compare import (
    AGAIN,
    ELECTS,
    TOO_EARLY,
    on_many,
    repaired_text,
    returned,
    same_layout,
    same_outputs,
    same_sequence,
)
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.layout import size
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk


def _mma(m: int, n: int) -> umma.TiledUmma:
    return umma.make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", m, n)


# Where the parts of 13.7's shared memory lie, so that the reports name them.
NAMES_OF_TWO_PAIRS = {
    "sA": (0, 8192),
    "sB": (8192, 16384),
    "tma_barrier": (24576, 8),
    "mma_barrier": (24584, 8),
}


@exercise(
    "13.1",
    "Halves",
    hints=[
        "Mode 0 counts the two CTAs. Its stride is the index of CTA 1's first element.",
        "A and C are cut along M, B along N. The index counts rows first, so a step to the next column adds the number of all rows, those of both CTAs.",
    ],
)
def check_halves(answer: object) -> str:
    """The thread-value layouts of a small MMA of two SMs."""
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise WrongAnswer("The answer must be the three layouts.", got=type(answer).__name__)
    mma = _mma(128, 64)
    whole = "Each CTA has only half of the rows."
    mistakes = {
        "A": {
            "(2,(128,16)):(0,(1,128))": whole,
            "(2,(64,16)):(64,(1,64))": "A step to the next column of A adds 128 to the index, in the half of one CTA too.",
            "(2,(128,8)):(1024,(1,128))": "A is cut along M, not along K.",
            "(2,(64,16)):(1024,(16,1))": "That index runs along K first. The exercise asks for m + 128 * k.",
        },
        "B": {
            "(2,(64,16)):(0,(1,64))": "Then each CTA holds all of B. The two CTAs of a pair hold B only once between them.",
            "(2,(32,16)):(32,(1,32))": "A step to the next column of B adds 64 to the index, in the half of one CTA too.",
        },
        "C": {
            "(2,(128,32)):(4096,(1,128))": "C is not cut along N, although B is. A CTA has the same rows of C "
            "as of A, and all columns.",
            "(2,(128,64)):(0,(1,128))": whole,
            "(2,(64,64)):(64,(1,64))": "A step to the next column of C adds 128 to the index, in the half of one CTA too.",
        },
    }
    for given, right, name in zip(answer, (mma.layout_a, mma.layout_b, mma.layout_c), "ABC", strict=True):
        try:
            same_layout(given, right, tell=False, mistakes=mistakes[name])
        except WrongAnswer as wrong:
            raise WrongAnswer(
                f"{name}: {wrong.message}",
                expected=wrong.expected,
                got=wrong.got,
                where=wrong.where,
                picture=wrong.picture,
            ) from wrong
    return "A and C are cut along M and B along N, so the tensor core of each SM needs the other's half of B."


@exercise(
    "13.2",
    "Where is C[m, n]?",
    hints=[
        "Each CTA has 64 rows and 128 lanes to put them in.",
        "The right half of C's columns lies in the same columns of tensor memory as the left half, in other lanes.",
    ],
)
def check_place(answer: object) -> str:
    """The accumulator of M = 128 in two tensor memories."""
    fragment = umma.make_fragment_C(umma.partition_shape_C(_mma(128, 192), (128, 192)), "f32", 2)
    cells = [(m, n) for m in range(128) for n in range(0, 192, 5)] + [(127, 191), (64, 96), (63, 95)]

    def right(m: int, n: int) -> tuple[int, int, int]:
        cta, row = divmod(m, 64)
        place = fragment.place((row, n), 0, 0)
        return cta, place.lane, place.column

    given = returned(answer, cells, what="(CTA, lane, column) of an element of C")
    if given == [(m // 64, m % 64, n) for m, n in cells]:
        raise WrongAnswer(
            "That leaves lanes 64 to 127 empty. Half of C's columns belong there.", where="place(0, 96)"
        )
    alone = umma.make_tiled_mma("SM100_MMA_F16BF16_SS", "f16", "f16", "f32", 64, 192)
    spread = umma.make_fragment_C(umma.partition_shape_C(alone, (64, 192)), "f32", 1)
    lanes = [spread.place((row, 0), 0, 0).lane for row in range(64)]
    if given == [(m // 64, lanes[m % 64], n) for m, n in cells]:
        raise WrongAnswer(
            "That is how an MMA of one SM with M = 64 spreads its rows: 16 lanes in each quarter. A pair puts 64 rows "
            "into lanes 0 to 63, and the other half of the columns into lanes 64 to 127.",
            where="place(16, 0)",
        )
    if given == [(n // 96, m, n % 96) for m, n in cells]:
        raise WrongAnswer(
            "Then the two CTAs split the columns of C. They split its rows, as they split those of A.",
            where="place(0, 96)",
        )
    if given == [(m // 64, m % 64 + 64 * (n // 96), n) for m, n in cells]:
        raise WrongAnswer(
            "CTA and lane are right. The right half of C starts again in column 0 of tensor memory, in lanes 64 to 127.",
            where="place(0, 96)",
        )
    if given == [(m % 2, m // 2 + 64 * (n // 96), n % 96) for m, n in cells]:
        raise WrongAnswer(
            "Even and odd rows do not alternate between the CTAs. CTA 0 has the upper half of the rows of C.",
            where="place(1, 0)",
        )
    if given == [(m // 64, m % 64 + 64 * (n // 128), n % 128) for m, n in cells]:
        raise WrongAnswer(
            "Your columns go on in lane 64 from column 128, as in the chapter, where N is 256. Here N is 192: each half "
            "has 96 columns.",
            where="place(0, 96)",
        )
    if given == [(m // 64, m % 64 + 64 * (n % 2), n // 2) for m, n in cells]:
        raise WrongAnswer(
            "Even and odd columns do not alternate. Lanes 0 to 63 hold the first half of C's columns.",
            where="place(0, 1)",
        )
    on_many(answer, cells, right, what="(CTA, lane, column) of an element of C")
    return "Each CTA keeps 64x192 elements in 96 columns: with M = 128 a pair uses all lanes of both SMs and half of the columns."


@exercise(
    "13.3",
    "The counts",
    hints=[
        "A CTA of the pair holds 128 rows of A's tile and 64 of B's. One barrier counts the bytes of both CTAs.",
        "8x2 CTAs are 4x2 pairs, and one thread of each pair commits. Which pairs write into this pair's stage?",
    ],
)
def check_counts(answer: object) -> str:
    """Bytes, arrivals and commits on a cluster of 8x2 in which only B is multicast."""
    layout = make_cluster_layout_vmnk((8, 2, 1), 2)
    one_cta = (128 + 64) * 64 * 2
    arrivals, along_n = int(size(layout[1])), int(size(layout[2]))
    both = arrivals + along_n - 1  # with A multicast as well
    right = (2 * one_cta, 0, arrivals, 2 * arrivals)
    no_row = "You counted the row as well. A is not multicast here, so no pair of another column sends to this one or reads from it."
    per_pair = "A pair commits once, not once per CTA."
    to_both = "A commit arrives at both CTAs of a pair, because both wait for their stage."
    along_m = "You counted the pairs along N. Those share A's rows. The pairs along M share B, and only B is multicast."
    singles = (
        {one_cta: "The leader's barrier counts the tiles of both CTAs."},
        dict.fromkeys(
            (one_cta, 2 * one_cta),
            "The other CTA's barrier counts no bytes: the loads of both CTAs name the leader's.",
        ),
        {
            both: no_row,
            2 * arrivals: per_pair,
            along_n: along_m,
            1: "The pair shares B with the other pairs of its column.",
        },
        {
            2 * both: no_row,
            arrivals: to_both,
            16: "You counted all CTAs. The other column of pairs shares no B with this one.",
            2: "The other pairs of the column write slices of B into this pair's stage. They wait for its commit, too.",
        },
    )
    if isinstance(answer, tuple) and len(answer) == 4:
        off = [place for place in range(4) if answer[place] != right[place]]
        if len(off) == 1 and (said := singles[off[0]].get(answer[off[0]])):
            names = ("the leader's full", "the other CTA's full", "empty", "the commit")
            raise WrongAnswer(said, where=names[off[0]])
    same_sequence(
        answer,
        right,
        meaning="(bytes on the leader's full, on the other's, arrivals at empty, CTAs of a commit)",
        tell=False,
        mistakes={
            (
                one_cta,
                one_cta,
                *right[2:],
            ): "An odd CTA's barrier does not count that CTA's bytes: its loads name the leader's.",
            (
                2 * one_cta,
                2 * one_cta,
                *right[2:],
            ): "The pair's bytes are counted once, by one of the two barriers.",
            (one_cta, 0, *right[2:]): "The leader's barrier counts the tiles of both CTAs.",
            (*right[:2], both, 2 * both): no_row,
            (*right[:2], arrivals, arrivals): to_both,
            (*right[:2], 2 * arrivals, 2 * arrivals): per_pair,
            (*right[:2], along_n, 2 * along_n): along_m,
        },
    )
    return "CTAs load. Pairs commit. Commits arrive at CTAs."


@exercise(
    "13.4",
    "Whose barrier?",
    hints=[
        "The bytes land in each CTA of the mask. Which of the two CTAs of its pair counts them?",
        "The loads name an even CTA's barrier. So in each pair that receives, the even CTA counts.",
    ],
)
def check_counted(answer: object) -> str:
    """Where the bytes of a two-SM multicast count."""
    masks = [(1 << rank,) for rank in range(16)] + [
        (0x8888,),
        (0x4444,),
        (0x000A,),
        (0x0500,),
        (0x0003,),
        (0xCCFC,),
    ]
    given = returned(answer, masks, what="the ranks")
    bits = [[rank for rank in range(16) if mask >> rank & 1] for (mask,) in masks]
    if given == [tuple(ranks) for ranks in bits]:
        raise WrongAnswer(
            "Those are the CTAs in which the bytes land. An odd CTA does not count its own.",
            where="counted(0x8888)",
        )
    if given == [tuple(rank & ~1 for rank in ranks) for ranks in bits]:
        raise WrongAnswer(
            "The ranks are right, but where both CTAs of a pair receive, you name the barrier twice.",
            where="counted(0x0003)",
        )
    if given == [(ranks[0] & ~1,) for ranks in bits]:
        raise WrongAnswer(
            "That is a single barrier for all pairs. Each pair that receives has its own barrier, and its leader waits there.",
            where="counted(0x8888)",
        )
    if set(given) == {(0,)}:
        raise WrongAnswer(
            "CTA 0 leads only its own pair. Each pair has a leader, its even CTA.", where="counted(0x8888)"
        )
    on_many(
        answer,
        masks,
        lambda mask: tuple(sorted({r & ~1 for r in range(16) if mask >> r & 1})),
        what="the ranks",
    )
    return "A leader must know that its own pair's tiles are there, whichever CTA loaded them."


@exercise(
    "13.5",
    "The commit's mask by hand",
    hints=[
        "Ranks count v first, then m, then n: rank = v + 2 * m + 2 * pairs_m * n.",
        "The CTAs of its column have 2 * pairs_m consecutive ranks. Its row has one pair in each column.",
    ],
)
def check_commit_mask(answer: object) -> str:
    """The commit's mask, for all clusters of pairs of at most 16 CTAs."""
    shapes = [(pm, pn) for pm in (1, 2, 4, 8) for pn in (1, 2, 4, 8) if pm * pn <= 8]
    cases = [(m, n, pm, pn) for pm, pn in shapes for m in range(pm) for n in range(pn)]

    def right(m: int, n: int, pairs_m: int, pairs_n: int) -> int:
        layout = make_cluster_layout_vmnk((2 * pairs_m, pairs_n, 1), 2)
        crd = (0, m, n, 0)
        return create_tma_multicast_mask(layout, crd, 0, 1) | create_tma_multicast_mask(layout, crd, 0, 2)

    def even(mask: int) -> int:
        return mask & 0x5555

    given = returned(answer, cases, what="the commit's mask")
    if given == [even(right(*case)) for case in cases]:
        raise WrongAnswer(
            "Those are the leaders alone. The other CTA of each pair loads into its stages too, so it waits for the same commits.",
            where="commit_mask(1, 1, 2, 4)",
        )
    of_pairs = [
        sum(1 << (i + pm * j) for i in range(pm) for j in range(pn) if i == m or j == n)
        for m, n, pm, pn in cases
    ]
    if given == of_pairs:
        raise WrongAnswer(
            "In your mask each bit stands for a pair. The mask has a bit per CTA, so each pair takes two.",
            where="commit_mask(1, 1, 2, 4)",
        )
    if given == [0b11 << (2 * m + 2 * pm * n) for m, n, pm, pn in cases]:
        raise WrongAnswer(
            "That is the pair itself alone. The other pairs of its row and of its column write into the stage too.",
            where="commit_mask(1, 1, 2, 4)",
        )
    n_first = []
    for m, n, pm, pn in cases:
        column = sum(0b11 << 2 * (other * pn + n) for other in range(pm))
        n_first.append(column | sum(0b11 << 2 * (m * pn + other) for other in range(pn)))
    if given == n_first:
        raise WrongAnswer(
            "That counts pairs along N first. The rank of a leader is 2 * m + 2 * pairs_m * n.",
            where="commit_mask(1, 1, 2, 4)",
        )
    one_sm = []
    for m, n, pm, pn in cases:
        layout = make_cluster_layout_vmnk((2 * pm, pn, 1), 1)
        crd = (0, 2 * m, n, 0)
        one_sm.append(create_tma_multicast_mask(layout, crd, 1) | create_tma_multicast_mask(layout, crd, 2))
    if given == one_sm:
        raise WrongAnswer(
            "That is the mask for MMAs of one SM: it takes only the leaders of the row.",
            where="commit_mask(1, 1, 2, 4)",
        )
    if given == [(1 << 2 * pm * pn) - 1 for _, _, pm, pn in cases]:
        raise WrongAnswer(
            "That is every CTA of the cluster. A pair in another row and another column shares neither A nor B with this "
            "one, and its barrier does not count this commit.",
            where="commit_mask(1, 1, 2, 4)",
        )
    on_many(answer, cases, right, what="the commit's mask", show="0x{:04X}".format)
    return "In C++ this is create_tma_multicast_mask<0,1> | create_tma_multicast_mask<0,2>."


@exercise(
    "13.6",
    "A bug to find",
    hints=[
        (
            "All rows of C are wrong, but only half of the columns. Which operand do columns of C come from? Which CTA "
            "loads that half of it?"
        ),
        "%r7 is the CTA's place in the pair. Which row of B should CTA 1 load first?",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """The row at which CTA 1 loads B."""
    import numpy as np

    from cutecourse.kernels import umma_two_sm
    from cutecourse.kernels.spec import SpecError

    text = repaired_text(answer, "13.6")
    try:
        spec = umma_two_sm.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error
    rng = np.random.default_rng(136)
    a, b = (rng.integers(-4, 5, (256, 256)).astype(np.float16) for _ in "ab")
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    shifted = np.concatenate([wide_b[:128], wide_b[64:192]])
    outside = np.concatenate([wide_b[:128], np.zeros_like(wide_b[:128])])
    twice = np.concatenate([wide_b[:128], wide_b[:128]])
    same_outputs(
        spec,
        {"a": a, "b": b, "c": np.full((256, 256), np.nan, np.float32)},
        {"c": wide_a @ wide_b.T},
        emulator_first=True,
        mistakes={
            "c": [
                (wide_a @ shifted.T, "CTA 1 still loads B from row 64: its half overlaps CTA 0's."),
                (wide_a @ outside.T, "CTA 1 loads B from row 256, outside of the tensor: TMA brings zeros."),
                (wide_a @ twice.T, "CTA 1 loads the same half of B as CTA 0."),
            ]
        },
        names={"sA": (0, 16384), "sB": (16384, 16384), "tma_barrier": (32768, 8), "mma_barrier": (32776, 8)},
        reports={
            "ReadBeforeWait": "Now the leader does not wait for all bytes, and an MMA reads them too early.",
            "no warp can go on": "Now a wait never ends. The barriers were right before.",
        },
    )
    return "The half of B that a CTA loads starts at row 128 * v. The bytes and the waits are right for any row, so the emulator reported nothing."


@exercise(
    "13.7",
    "A kernel to write: two pairs share B",
    hints=[
        "`rank % 2 == 0` leads. Only the leader announces, waits for the bytes, multiplies and commits.",
        "Each stage of B gets bytes from both pairs. So both pairs must hear from both commits.",
        "A's load takes no mask, B's takes mask_b. The leader's barrier counts what lands in both CTAs of the pair.",
    ],
)
def check_two_pairs(answer: object) -> str:
    """The main loop of two pairs that share B."""
    import numpy as np

    rng = np.random.default_rng(137)
    a, b = (rng.integers(-4, 5, (256, 192)).astype(np.float16) for _ in "ab")
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.full((256, 256), np.nan, np.float32)},
        {"c": wide_a @ wide_b.T},
        mistakes={
            "c": [
                (
                    wide_a[:, 128:] @ wide_b[:, 128:].T,
                    "C has only the last k-tile: ACCUMULATE is set to False in every k-tile.",
                ),
                (wide_a[:, :64] @ wide_b[:, :64].T, "C has only the first k-tile."),
                (
                    wide_a[:, 176:] @ wide_b[:, 176:].T,
                    "C has only the last 16 columns of K: each MMA has overwritten C, and none has added to it.",
                ),
            ]
        },
        emulator_first=True,
        names=NAMES_OF_TWO_PAIRS,
        reports={
            "elect.sync": ELECTS,
            "enable-input-d": "The first MMA adds to columns that nobody has written.",
            "would be loaded from column": "A CTA reads C before it is complete: both CTAs must wait for the commit.",
            AGAIN: "A CTA loads into a stage that a pair may still read. B's stage is read by both pairs: whose commits "
            "must a CTA wait for?",
            TOO_EARLY: "An MMA reads a tile that is not there yet: does the leader expect the bytes of both CTAs, and does "
            "it wait for the phase that these bytes end?",
            re.compile(
                r"blocks? \([13], 0, 0\)[^\n]*mbarrier tma_barrier[^\n]*lacks"
            ): "An odd CTA waits for bytes on its own barrier, where none count. Whose barrier do the loads name?",
            "BarrierCountError": "A barrier got more arrivals than its phase counts: does ARRIVALS match the commits that "
            "reach each CTA?",
            re.compile(
                r"mbarrier tma_barrier[^\n]*in phase 0 and lacks \d+ bytes"
            ): "The bytes that the leader expects and the bytes that come do not agree.",
            re.compile(
                r"mbarrier mma_barrier[^\n]*lacks \d of \d arrivals"
            ): "A CTA waits for a commit that does not reach it. At which CTAs does each pair's commit arrive, and how many "
            "commits does ARRIVALS count?",
            "lacks 1 of 1 arrivals": "A CTA waits for an arrival that does not come. Who announces the bytes?",
        },
    )
    return "Both pairs write into every stage of B, so each commit reaches all four CTAs, and each barrier counts two."
