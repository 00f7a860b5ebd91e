"""Checks of the exercises of chapter 14, the kernel that people run."""

from __future__ import annotations

from cutecourse.checks.compare import on_many, repaired_text, returned, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer


@exercise(
    "14.1",
    "Three accumulators",
    hints=[
        "Tensor memory has 512 columns. How many times do 160 fit?",
        "With three accumulators, tile 3 is the first that uses one again. A turn of an accumulator is done // 3.",
    ],
)
def check_place(answer: object) -> str:
    """The columns and the parities of tiles that use three accumulators in turn."""
    cases = [(done,) for done in range(14)]
    given = returned(answer, cases, what="(first column, parity at acc_empty, parity at acc_full)")
    if given == [(160 * (t % 2), t // 2 % 2 ^ 1, t // 2 % 2) for (t,) in cases]:
        raise WrongAnswer(
            "That uses two accumulators, as in the chapter. Three of 160 columns fit.", where="place(2)"
        )
    if given == [(160 * (t % 3), t // 3 % 2, t // 3 % 2 ^ 1) for (t,) in cases]:
        raise WrongAnswer(
            "The two parities are exchanged. In its first turn the MMA warp must find acc_empty complete.",
            where="place(0)",
        )
    if given == [(160 * (t % 3), t // 3 % 2, t // 3 % 2) for (t,) in cases]:
        raise WrongAnswer(
            "The columns are right. For the first tile nobody can have arrived at acc_empty, so the MMA warp must ask "
            "for the phase before the first one.",
            where="place(0)",
        )
    if given == [(160 * (t % 3), t % 2 ^ 1, t % 2) for (t,) in cases]:
        raise WrongAnswer(
            "A parity changes with each turn of an accumulator, not with each tile.", where="place(1)"
        )
    on_many(
        answer,
        cases,
        lambda done: (160 * (done % 3), done // 3 % 2 ^ 1, done // 3 % 2),
        what="(first column, parity at acc_empty, parity at acc_full)",
    )
    return "An accumulator is a stage of another pipeline: the same turns, the same two parities."


@exercise(
    "14.2",
    "Eight warps that store",
    hints=[
        "A commit arrives once at each CTA's acc_full, however many warps wait there.",
        "Which warps of each CTA need to know the next tile? In the CTA that does not lead, no warp multiplies.",
    ],
)
def check_counts(answer: object) -> str:
    """The counts of a kernel with eight warps that store in each CTA of a pair."""
    same_sequence(
        answer,
        (1, 16, 19, 16),
        meaning="(arrivals at acc_full, at acc_empty, at next_empty, bytes at the other CTA's next_full)",
        tell=False,
        mistakes={
            (16, 16, 19, 16): "acc_full is completed by a commit of the MMA warp, which arrives once.",
            (2, 16, 19, 16): "A multicast commit arrives once at each of the two CTAs' barriers.",
            (
                1,
                8,
                19,
                16,
            ): "Those are one CTA's warps. The MMAs write the tensor memory of both, so both must be done.",
            (
                1,
                8,
                10,
                16,
            ): "Those are one CTA's warps. The other CTA's arrive at the leader's barriers, too.",
            (
                1,
                16,
                20,
                16,
            ): "In the CTA that does not lead, no warp multiplies, so that one reads no answer.",
            (1, 16, 18, 16): "The warp that multiplies needs to know when its last tile was, too.",
            (
                1,
                16,
                21,
                16,
            ): "The warp that asks reads each answer before it asks again. It need not tell itself.",
            (1, 16, 19, 0): "An answer is multicast: each CTA gets its 16 bytes, counted at its own barrier. "
            "Only tiles are counted at the leader's.",
            (1, 16, 19, 32): "Each CTA's barrier counts its own copy of the answer.",
        },
    )
    return "Count who reads: warps of both CTAs for the sums, and for an answer those that follow the tiles."


def _turning(number: int, group: int, tiles_m: int, tiles_n: int, *, turns: bool = True) -> tuple[int, int]:
    turn, within = number // (group * tiles_n), number % (group * tiles_n)
    rows = min(group, tiles_m - turn * group)
    column = within // rows
    back = turns and turn % 2 == 1
    return turn * group + within % rows, tiles_n - 1 - column if back else column


@exercise(
    "14.3",
    "There and back again",
    hints=[
        "Number the groups first. All groups before the last one have group * tiles_n tiles.",
        "Within a group, the row changes fastest. A last group with fewer rows has fewer tiles in each column.",
    ],
)
def check_tile(answer: object) -> str:
    """An order of tiles in groups of rows that turns around at the end of each group."""
    shapes = [(2, 4, 3), (2, 5, 3), (8, 20, 4), (3, 2, 5), (1, 3, 4)]
    cases = [(number, g, m, n) for g, m, n in shapes for number in range(m * n)]
    given = returned(answer, cases, what="(row, column) of a tile")
    if given == [_turning(*case, turns=False) for case in cases]:
        raise WrongAnswer("That is page b's order: every group begins at column 0.", where="tile(6, 2, 4, 3)")
    whole = []
    for number, g, _, n in cases:
        turn, within = number // (g * n), number % (g * n)
        column = within // g
        whole.append((turn * g + within % g, n - 1 - column if turn % 2 else column))
    if given == whole:
        raise WrongAnswer(
            "That is right while all groups are full. The last group may have fewer rows, and then its columns are "
            "shorter.",
            where="tile(13, 2, 5, 3)",
        )
    on_many(answer, cases, _turning, what="(row, column) of a tile")
    return (
        "The next group begins with the columns of B that L2 holds. The result does not depend on the order."
    )


@exercise(
    "14.4",
    "A bug to find: one piece too early",
    hints=[
        "The report names a load of columns that an MMA may overwrite. When do the warps that store say that they have all sums?",
        "A tile has four pieces, counted by %chunk from 0. After which of them does a warp arrive at acc_empty?",
    ],
)
def check_unhurried(answer: object) -> str:
    """The piece after which a warp gives its accumulator back."""
    import numpy as np

    from cutecourse.dtypes import encode
    from cutecourse.kernels import umma_persistent
    from cutecourse.kernels.spec import SpecError

    text = repaired_text(answer, "14.4")
    try:
        spec = umma_persistent.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error
    rng = np.random.default_rng(144)
    m, n, k = umma_persistent.MNK
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    same_outputs(
        spec,
        {"a": a, "b": b, "d": np.zeros((m, n), np.uint16)},
        {"d": encode(a.astype(np.float32) @ b.astype(np.float32).T, "bf16")},
        emulator_first=True,
        reports={
            "TensorMemoryLoadUnderWay": "A warp still gives the accumulator back before its last load is complete.",
            "no warp can go on": "Now nobody gives the accumulator back, or not all do. The counts were right before.",
        },
    )
    return (
        "The three pieces before were loaded and waited for. It takes all four to give an accumulator back."
    )


@exercise(
    "14.5",
    "What does the wrong count do?",
    hints=[
        "Which tile is the first whose MMAs wait for arrivals at acc_empty?",
        "Each tile brings eight arrivals. A phase that needs more is never complete in time, one that needs fewer is complete early.",
    ],
)
def check_verdict(answer: object) -> str:
    """The effect of a wrong count at acc_empty, by the number of tiles."""

    def right(count: int, tiles: int) -> str:
        if count == 8 or tiles <= 2:
            return "right"
        return "early" if count < 8 else "hangs"

    cases = [(count, tiles) for count in (1, 4, 7, 8, 9, 16) for tiles in (1, 2, 3, 6)]
    given = returned(answer, cases, what='"right", "hangs" or "early"')
    if given == ["right" if c == 8 else "early" if c < 8 else "hangs" for c, _ in cases]:
        raise WrongAnswer(
            "With one tile or two, no accumulator is used again, so nobody waits for an arrival.",
            where="verdict(4, 2)",
        )
    if given == ["right" if c == 8 or t <= 2 else "hangs" if c < 8 else "early" for c, t in cases]:
        raise WrongAnswer(
            "The other way round: a barrier that expects fewer arrivals completes its phase sooner.",
            where="verdict(4, 3)",
        )
    if given == ["right" if c == 8 or t <= 1 else "early" if c < 8 else "hangs" for c, t in cases]:
        raise WrongAnswer(
            "The second tile has an accumulator of its own, and does not wait either.", where="verdict(4, 2)"
        )
    on_many(answer, cases, right, what='"right", "hangs" or "early"')
    return "A test with as many tiles as accumulators tests no hand-over at all."


@exercise(
    "14.6",
    "A kernel to write: an epilogue from a blank page",
    hints=[
        "The order of a piece: load, wait, relu and round, wait for the buffer, warp barrier, store, fence, warp barrier, TMA.",
        "Row r's 16 bytes with number j go to `buffer + 64 * r + 16 * (j ^ (r / 2 % 4))`, and r is the lane.",
        "The other buffer is 4096 bytes away. Behind the loop, the thread that stored waits once more.",
    ],
)
def check_epilogue(answer: object) -> str:
    """An epilogue with relu, pieces of 32 columns and the 64-byte swizzle."""
    import numpy as np

    from cutecourse.dtypes import encode

    rng = np.random.default_rng(146)
    a, b = (rng.integers(-4, 5, (rows, 192)).astype(np.float16) for rows in (128, 256))
    sums = a.astype(np.float32) @ b.astype(np.float32).T
    eights = sums.reshape(128, 8, 4, 8)
    turns = np.arange(128) // 2 % 4  # of a row, in the map's swizzle
    unturned, of_128 = np.empty_like(eights), np.empty_like(eights)
    for row in range(128):
        for place in range(4):
            unturned[row, :, place] = eights[row, :, place ^ turns[row]]
            of_128[row, :, place] = eights[row, :, place ^ turns[row] ^ (row % 4)]
    same_outputs(
        answer,
        {"a": a, "b": b, "d": np.zeros((128, 256), np.uint16)},
        {"d": encode(np.maximum(sums, 0), "bf16")},
        emulator_first=True,
        mistakes={
            "d": [
                (encode(sums, "bf16"), "D has negative elements: relu is missing."),
                (
                    encode(np.maximum(unturned.reshape(128, 256), 0), "bf16"),
                    "Each row has its 16 bytes in another order: you wrote them without the swizzle.",
                ),
                (
                    encode(np.maximum(of_128.reshape(128, 256), 0), "bf16"),
                    "You turned by row % 4. With 64-byte rows two rows share a turn: r / 2 % 4.",
                ),
            ]
        },
        reports={
            "MissingProxyFence": "TMA reads what the threads wrote, and nothing orders that. Put the proxy fence between them.",
            "OverwrittenSource": "A buffer is written again while TMA may still read it.",
            "UnfinishedCopy": "The CTA ends, and TMA may still read its shared memory.",
        },
        notes={"load not waited for": "The registers are read before tcgen05.wait::ld."},
    )
    return "Load, wait, compute, wait for the buffer, write, fence, store: each arrow is somebody who must be told."
