"""Checks of the exercises of chapter 13, two SMs and one MMA."""

from __future__ import annotations

import re

from cutecourse import umma
from cutecourse.checks.compare import (
    AGAIN,
    ELECTS,
    TOO_EARLY,
    on_many,
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


# The barrier of the loads in 13.7's shared memory, behind its tiles of A and B, as the emulator's reports write it.
TMA_BARRIER = r"__dynamic_shmem__0\+24576 \("


@exercise(
    "13.1",
    "Halves",
    hints=[
        "Mode 0 counts the two CTAs; its stride is the index of the first element of CTA 1.",
        "A and C are cut along M, B along N. The index counts rows first, so a column is a step of all rows.",
    ],
)
def check_halves(answer: object) -> str:
    """The thread-value layouts of a small MMA of two SMs."""
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise WrongAnswer("The answer is to be the three layouts.", got=type(answer).__name__)
    mma = _mma(128, 64)
    whole = "Each CTA has a part of it only: a half of its rows."
    mistakes = {
        "A": {
            "(2,(128,16)):(0,(1,128))": whole,
            "(2,(64,16)):(64,(1,64))": "A column of A is a step of all 128 rows, also in the half of one CTA.",
            "(2,(128,8)):(1024,(1,128))": "A is cut along M, not along K.",
            "(2,(64,16)):(1024,(16,1))": "That index runs along K first; asked is m + 128 k.",
        },
        "B": {
            "(2,(64,16)):(0,(1,64))": "With that each CTA holds all of B; a pair holds it once between them.",
            "(2,(32,16)):(32,(1,32))": "A column of B is a step of all 64 rows, also in the half of one CTA.",
        },
        "C": {
            "(2,(128,32)):(4096,(1,128))": "C is not cut along N, though B is: a CTA has the rows that it has of "
            "A, and all columns.",
            "(2,(128,64)):(0,(1,128))": whole,
            "(2,(64,64)):(64,(1,64))": "A column of C is a step of all 128 rows, also in the half of one CTA.",
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
    return "A and C are cut along M and B along N: the tensor core of each SM needs the other's half of B."


@exercise(
    "13.2",
    "Where is C[m, n]?",
    hints=[
        "Each CTA has 64 rows, and 128 lanes to put them in.",
        "Columns 128 to 255 of C lie beside columns 0 to 127, in other lanes.",
    ],
)
def check_place(answer: object) -> str:
    """The accumulator of M = 128 in two tensor memories."""
    fragment = umma.make_fragment_C(umma.partition_shape_C(_mma(128, 256), (128, 256)), "f32", 2)
    cells = [(m, n) for m in range(128) for n in range(0, 256, 3)] + [(127, 255), (64, 128)]

    def right(m: int, n: int) -> tuple[int, int, int]:
        cta, row = divmod(m, 64)
        place = fragment.place((row, n), 0, 0)
        return cta, place.lane, place.column

    given = returned(answer, cells, what="(CTA, lane, column) of an element of C")
    if given == [(m // 64, m % 64, n) for m, n in cells]:
        raise WrongAnswer(
            "That leaves lanes 64 to 127 empty. Half of the columns lie in them.", where="place(0, 128)"
        )
    if given == [(n // 128, m, n % 128) for m, n in cells]:
        raise WrongAnswer(
            "With that the pair shares C's columns. It shares C's rows, as it shares those of A.",
            where="place(0, 128)",
        )
    if given == [(m // 64, m % 64 + 64 * (n % 2), n // 2) for m, n in cells]:
        raise WrongAnswer(
            "Even and odd columns do not alternate: the lower half of N comes first.", where="place(0, 1)"
        )
    on_many(answer, cells, right, what="(CTA, lane, column) of an element of C")
    return "128 columns for 64x256: with M = 128 a pair uses all lanes of both, and half of the columns."


@exercise(
    "13.3",
    "What each one counts",
    hints=[
        "A CTA of the pair holds 128 rows of A's tile and 64 of B's, and the bytes of both CTAs count on one barrier.",
        "4x2 CTAs are 2x2 pairs. One thread of each pair commits.",
    ],
)
def check_counts(answer: object) -> str:
    """Bytes, arrivals and commits on a cluster of 4x2."""
    layout = make_cluster_layout_vmnk((4, 2, 1), 2)
    one_cta = (128 + 64) * 64 * 2
    arrivals = int(size(layout[1])) + int(size(layout[2])) - 1
    right = (2 * one_cta, 0, arrivals, 2 * arrivals)
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
            ): "Each CTA's own bytes do not count on its own barrier: the odd one's loads name the leader's.",
            (
                2 * one_cta,
                2 * one_cta,
                *right[2:],
            ): "The bytes of the pair are counted once, on one barrier of the two.",
            (one_cta, 0, *right[2:]): "The leader's barrier counts the tiles of both CTAs.",
            (*right[:2], 5, 5): "That counts CTAs: 4 + 2 - 1. A pair commits once, and there are 2x2 pairs.",
            (
                *right[:2],
                5,
                6,
            ): "That counts CTAs along M: 4 + 2 - 1. A pair commits once, and there are 2x2 pairs.",
            (
                *right[:2],
                arrivals,
                arrivals,
            ): "A commit arrives at both CTAs of a pair; both wait for their stage.",
            (*right[:2], 2 * arrivals, 2 * arrivals): "A pair commits once, not once for each CTA.",
        },
    )
    return "Loads and bytes are of CTAs; commits are of pairs, and arrive at CTAs."


@exercise(
    "13.4",
    "Whose barrier?",
    hints=[
        "The bytes land in each CTA of the mask. In each one's pair, which barrier counts them?",
        "The one of the CTA with the parity of the barrier's address, and that is even.",
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
            "Those are the CTAs in which the bytes land. They are counted somewhere else where that is odd.",
            where="counted(0x8888)",
        )
    if given == [tuple(rank & ~1 for rank in ranks) for ranks in bits]:
        raise WrongAnswer(
            "The right ranks, but one of them twice where both CTAs of a pair receive: name each barrier once.",
            where="counted(0x0003)",
        )
    if given == [(ranks[0] & ~1,) for ranks in bits]:
        raise WrongAnswer(
            "That is one barrier for all. Each pair that receives has its own, and its leader waits for that.",
            where="counted(0x8888)",
        )
    on_many(
        answer,
        masks,
        lambda mask: tuple(sorted({r & ~1 for r in range(16) if mask >> r & 1})),
        what="the ranks",
    )
    return "A leader needs to know of its own pair's tiles alone, whoever loaded them."


@exercise(
    "13.5",
    "The commit's mask by hand",
    hints=[
        "Ranks count v first, then m, then n: rank = v + 2 m + 2 pairs_m n.",
        "All CTAs of its column are 2 * pairs_m neighbours; of its row, a pair in each column.",
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
            "Those are the leaders alone. The other CTA of each pair loads into its stages as well, and waits.",
            where="commit_mask(1, 1, 2, 4)",
        )
    if given == [0b11 << (2 * m + 2 * pm * n) for m, n, pm, pn in cases]:
        raise WrongAnswer(
            "That is the own pair. A stage is also written to by the other pairs of its row and of its column.",
            where="commit_mask(1, 1, 2, 4)",
        )
    one_sm = []
    for m, n, pm, pn in cases:
        layout = make_cluster_layout_vmnk((2 * pm, pn, 1), 1)
        crd = (0, 2 * m, n, 0)
        one_sm.append(create_tma_multicast_mask(layout, crd, 1) | create_tma_multicast_mask(layout, crd, 2))
    if given == one_sm:
        raise WrongAnswer(
            "That is the mask for MMAs of one SM: of the row it takes the leaders alone.",
            where="commit_mask(1, 1, 2, 4)",
        )
    on_many(answer, cases, right, what="the commit's mask", show="0x{:04X}".format)
    return "In C++ it is create_tma_multicast_mask<0,1> | create_tma_multicast_mask<0,2>."


@exercise(
    "13.6",
    "A bug to find",
    hints=[
        "Below the waits the report lists what came to CTA 0's barrier, and from which CTA. Whose bytes are missing?",
        "Look at the register in the loads' last brackets, and at the constant in the line that makes it.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A barrier's address that keeps the pair's bit."""
    import dataclasses

    import numpy as np

    from cutecourse.kernels import umma_two_sm

    if not isinstance(answer, str):
        raise WrongAnswer("The answer is to be the PTX text.", expected="a str", got=type(answer).__name__)
    rng = np.random.default_rng(136)
    a, b = (rng.integers(-4, 5, (256, 256)).astype(np.float16) for _ in "ab")
    same_outputs(
        dataclasses.replace(umma_two_sm.LAUNCH, front="ptx", kernel=None, host=None, ptx=answer),
        {"a": a, "b": b, "c": np.full((256, 256), np.nan, np.float32)},
        {"c": a.astype(np.float32) @ b.astype(np.float32).T},
        emulator_first=True,
        reports={
            "misses 32768 bytes": "The bytes of CTA 1's loads still count on CTA 1's own barrier, where nobody waits "
            "for them.",
            "ReadBeforeWait": "Now the leader does not wait for the bytes of the other one at all, and reads them too "
            "early.",
        },
    )
    return "Bit 24 of the barrier's address: 0xFEFFFFFF, CUTLASS's Sm100MmaPeerBitMask, clears it."


@exercise(
    "13.7",
    "A kernel to write: the main loop of a pair",
    hints=[
        "`rank % 2 == 0` leads. Three things only the leader does: announce, wait for the bytes, multiply and commit.",
        "The mask names ranks in the cluster, and there are two pairs: 0b11 << rank, for the leader's rank.",
    ],
)
def check_two_pairs(answer: object) -> str:
    """The main loop of two pairs in one cluster."""
    import numpy as np

    rng = np.random.default_rng(137)
    a, b = (rng.integers(-4, 5, (256, 192)).astype(np.float16) for _ in "ab")
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    whole = wide_a @ wide_b.T
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.full((256, 256), np.nan, np.float32)},
        {"c": whole},
        mistakes={
            "c": [
                (
                    wide_a[:, 128:] @ wide_b[:, 128:].T,
                    "That is the last k-tile alone: ACCUMULATE stays False.",
                ),
                (wide_a[:, :64] @ wide_b[:, :64].T, "That is the first k-tile alone."),
                (
                    wide_a[:, 176:] @ wide_b[:, 176:].T,
                    "Only the last 16 columns of K are in it: each MMA has written, and none has added.",
                ),
            ]
        },
        emulator_first=True,
        reports={
            "elect.sync": ELECTS,
            "would be loaded from column": "A CTA loads C before it is there: the commit is for both to wait for.",
            TOO_EARLY: "An MMA reads a tile that is not there yet: does the leader expect the bytes of both, does it wait "
            "for the phase under way, and does no other pair's commit let its loads go on?",
            AGAIN: "A CTA loads into a stage that a pair may still read: at which CTAs does each pair's commit arrive, and "
            "does each wait for its own pair's?",
            re.compile(
                rf"blocks? \([13], 0, 0\)[^\n]*{TMA_BARRIER}[^\n]*misses"
            ): "An odd CTA waits for bytes on its own barrier, where "
            "none are counted. Whose barrier do the loads name?",
            "BarrierCountError": "A barrier got one arrival more than a phase takes: does anybody arrive who should "
            "not, or does a commit reach another pair?",
            re.compile(
                rf"{TMA_BARRIER}[^\n]*in phase 0 and misses \d+ bytes"
            ): "The number of bytes that the leader expects and those that come do not agree.",
            "misses 1 of 1 arrivals": "A CTA waits for an arrival that does not come. Who announces the bytes, and "
            "at which CTAs does each pair's commit arrive?",
        },
    )
    return "The cluster's mask names ranks, so a pair's is 0b11 shifted by its leader's."
