"""Checks of the exercises of chapter 12, UMMA with TMA and multicast."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from cutecourse.checks.compare import AGAIN, ELECTS, TOO_EARLY, on_many, returned, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk

SHAPES = [(cm, cn) for cm in (1, 2, 4, 8, 16) for cn in (1, 2, 4, 8, 16) if cm * cn <= 16]


@exercise(
    "12.1",
    "Another cluster",
    hints=[
        "What lands does not depend on the cluster. What a CTA loads does: along N four share A, along M two share B.",
        "Who shares A or B with this CTA? The CTA itself stands in its row and in its column.",
    ],
)
def check_counts(answer: object) -> str:
    """Bytes and arrivals of a 2x4 cluster."""
    tile = 128 * 64 * 2
    landing, own = 2 * tile, tile // 4 + tile // 2
    same_sequence(
        answer,
        (landing, own, 5),
        meaning="bytes expected, bytes loaded, arrivals",
        tell=False,
        mistakes={
            (
                own,
                own,
                5,
            ): "A barrier counts what lands in its CTA, the neighbours' slices too, not what the CTA loads.",
            (
                landing,
                landing,
                5,
            ): "That is what lands. Each slice is loaded by one CTA and sent to the others.",
            (landing, own, 6): "The CTA itself is in its row and in its column; its commit arrives once.",
            (landing, own, 8): "Not the whole cluster: those to which this CTA sends A or B.",
            (landing, own, 1): "Then a CTA goes on when one of those that it sends to has read its stage.",
        },
    )
    return "One number is the tile's, one the tile's and the cluster's, one the cluster's alone."


@exercise(
    "12.2",
    "Whom the commit tells",
    hints=[
        "Those who write into this CTA's stage: the CTAs of its row send A, those of its column send B.",
        "A column's ranks are neighbours, a row's are cluster_m apart.",
    ],
)
def check_commit_mask(answer: object) -> str:
    """The commit's mask, for all clusters of at most 16 CTAs."""
    cases = [(m, n, cm, cn) for cm, cn in SHAPES for m in range(cm) for n in range(cn)]

    def along(mode: int, m: int, n: int, cm: int, cn: int) -> int:
        return create_tma_multicast_mask(make_cluster_layout_vmnk((cm, cn, 1), 1), (0, m, n, 0), mode)

    def right(*case: int) -> int:
        return along(2, *case) | along(1, *case)

    given = returned(answer, cases, what="the mask of the commit")
    mistakes = {
        "Those are the CTAs that share A. Those of the column write into this CTA's stage of B, and wait as well.": [
            along(2, *case) for case in cases
        ],
        "Those are the CTAs that share B. Those of the row write into this CTA's stage of A, and wait as well.": [
            along(1, *case) for case in cases
        ],
        "That tells the whole cluster: also barriers that do not count this CTA, whose phases would end too early.": [
            (1 << cm * cn) - 1 for _, _, cm, cn in cases
        ],
        "The CTA itself is missing: it writes its own stage as well, and its barrier counts its own commit.": [
            right(*case) & ~(1 << (case[0] + case[1] * case[2])) for case in cases
        ],
    }
    for words, wrong in mistakes.items():
        if given == wrong:
            raise WrongAnswer(words, where="commit_mask(1, 2, 4, 4)")
    on_many(answer, cases, right, what="the mask of the commit", show="{:#06x}".format)
    return "It has cluster_m + cluster_n - 1 bits: the count of mma_barrier."


@exercise(
    "12.3",
    "The wait moves to the front",
    hints=[
        "Before k-tile k the MMAs of k-tile k - 1 have to be done. Which phase of mma_barrier is that?",
        "A fresh barrier is in phase 0; a wait for parity 1 passes there.",
    ],
)
def check_parity_before(answer: object) -> str:
    """The parity of the phase before, for eight k-tiles."""
    cases = [(k,) for k in range(8)]
    given = returned(answer, cases, what="the parity before k-tile k")
    if given == [k % 2 for (k,) in cases]:
        raise WrongAnswer(
            "Then k-tile 0 waits for the end of a phase that its own MMAs have to end: nobody gets any further.",
            where="parity_before(0)",
        )
    if given in ([0] * 8, [1] * 8):
        raise WrongAnswer(
            "The phases of a barrier take turns: with one parity every second wait is for the wrong one.",
            where="parity_before(1)",
        )
    strange = next((k for k, one in enumerate(given) if one not in (0, 1)), None)
    if strange is not None:
        raise WrongAnswer("A parity is 0 or 1.", where=f"parity_before({strange})", got=str(given[strange]))
    on_many(answer, cases, lambda k: k % 2 ^ 1, what="the parity before k-tile k")
    return "That is how a producer waits: for the phase before the one that its load will end."


@exercise(
    "12.4",
    "Which cluster?",
    hints=[
        "Bytes per flop are 1 / (cluster_n * tile_n) + 1 / (cluster_m * tile_m).",
        "The cluster counts as one large tile. Which of two tiles with the same area reads less: a long one or a square?",
    ],
)
def check_best_cluster(answer: object) -> str:
    """The cluster nearest to a square tile."""

    def bytes_per_flop(tile_m: int, tile_n: int, cm: int, cn: int) -> Fraction:
        return Fraction(1, cn * tile_n) + Fraction(1, cm * tile_m)

    def best(tile_m: int, tile_n: int, ctas: int) -> list[tuple[int, int]]:
        shapes = [(cm, cn) for cm, cn in SHAPES if cm * cn == ctas]
        least = min(bytes_per_flop(tile_m, tile_n, *shape) for shape in shapes)
        return [shape for shape in shapes if bytes_per_flop(tile_m, tile_n, *shape) == least]

    tiles = [(tile_m, tile_n) for tile_m in (64, 128) for tile_n in (32, 64, 128, 256)]
    cases = [(*tile, ctas) for tile in tiles for ctas in (2, 4, 8, 16) if len(best(*tile, ctas)) == 1]

    def right(*case: int) -> tuple[int, int]:
        return best(*case)[0]

    given = returned(answer, cases, what="(cluster_m, cluster_n)")
    if given == [right(*case)[::-1] for case in cases]:
        raise WrongAnswer(
            "That is (N, M), or the other operand: CTAs along M share B, and B's tile has tile_n rows.",
            where="best_cluster(128, 256, 8)",
        )
    if given in ([(1, ctas) for *_, ctas in cases], [(ctas, 1) for *_, ctas in cases]):
        raise WrongAnswer(
            "In a row all share A, and nobody shares B; in a column it is the other way round. One operand is read as "
            "often as without a cluster.",
            where="best_cluster(128, 256, 8)",
        )
    on_many(answer, cases, right, what="(cluster_m, cluster_n)")
    return "As near to a square as the tiles allow: 4x2 for tiles of 128x256."


@exercise(
    "12.5",
    "A bug to find",
    hints=[
        "A copy writes where an earlier one does, and its thread has not waited for whoever reads that. Which wait is to?",
        "For which phase of mma_barrier does k-tile 0 wait? A fresh barrier lets one of the two parities through.",
    ],
)
def check_repair(answer: object) -> str:
    """A wait for the phase before."""
    import numpy as np

    from cutecourse.kernels import umma_tma_broken
    from cutecourse.kernels.spec import SpecError

    if not isinstance(answer, dict) or not all(
        isinstance(text, str) for pair in answer.items() for text in pair
    ):
        raise WrongAnswer(
            "The answer is to be a dictionary from pieces of the text to what should stand there.",
            expected="a dict of strings",
            got=type(answer).__name__,
        )
    try:
        spec = umma_tma_broken.small("exercise", changes=tuple(answer.items()))
    except (SpecError, SyntaxError) as error:
        raise WrongAnswer(f"The change cannot be made: {error}") from error
    rng = np.random.default_rng(5)
    a: Any = rng.integers(-4, 5, (256, 256)).astype(np.float16)
    b: Any = rng.integers(-4, 5, (512, 256)).astype(np.float16)
    same_outputs(
        spec,
        {"a": a, "b": b, "c": np.full((256, 512), np.nan, np.float32)},
        {"c": a.astype(np.float32) @ b.astype(np.float32).T},
        emulator_first=True,
        reports={
            AGAIN: "A stage is still written again before an MMA has read it.",
            TOO_EARLY: "An MMA reads a stage that is not full: was its load awaited, and was nobody allowed to load again?",
            "no warp can go on": "Now a wait is for a phase that never ends.",
        },
    )
    return "The wait at the end of k-tile k is for phase k; the phase before has the other parity."


@exercise(
    "12.6",
    "A kernel to write: the main loop of a row",
    hints=[
        "Per k-tile one announcement of everything that lands, A and B; the load of A takes mask_a, that of B none.",
        "Two CTAs write into a stage of A. Both have to know that it is free.",
    ],
)
def check_row_of_two(answer: object) -> str:
    """A main loop for a cluster of 1x2."""
    import numpy as np

    rng = np.random.default_rng(6)
    a: Any = rng.integers(-4, 5, (128, 192)).astype(np.float16)
    b: Any = rng.integers(-4, 5, (256, 192)).astype(np.float16)
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.full((128, 256), np.nan, np.float32)},
        {"c": a.astype(np.float32) @ b.astype(np.float32).T},
        emulator_first=True,
        mistakes={
            "c": [
                (
                    a[:, 176:].astype(np.float32) @ b[:, 176:].astype(np.float32).T,
                    "Only the last 16 columns of K are in it: each MMA has written, and none has added.",
                ),
            ]
        },
        reports={
            "enable-input-d": "The first MMA adds to what nobody has written.",
            "elect.sync": ELECTS,
            "misses 1 of 2 arrivals": "A CTA waits for its neighbour's commit, which arrives elsewhere.",
            "misses 8192 bytes": "A CTA waits for its neighbour's half of A, or announces too much.",
            " bytes\n": "What is announced and what lands do not agree: add up what lands in one CTA for one k-tile.",
            "BarrierCountError": "A barrier gets more arrivals in a phase than it counts: how many threads announce, and "
            "how many commit?",
            AGAIN: "A stage is written again before an MMA has read it.",
            TOO_EARLY: "An MMA reads a stage that is not full: are all the bytes announced, and is the wait for "
            "the phase under way?",
        },
    )
    return "B is nobody else's, so its column adds nothing: the commit's mask is A's."
