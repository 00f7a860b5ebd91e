"""Checks of the exercises of chapter 8, clusters and multicast."""

from __future__ import annotations

import re
from typing import Any

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
from cutecourse.layout import ComposedLayout, Layout, Swizzle, rank, size, tile_to_shape
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk, tma_coords, trace_tma_atom

SHAPES = [(m, n) for m in (1, 2, 4, 8, 16) for n in (1, 2, 4, 8, 16) if m * n <= 16]


@exercise(
    "08.1",
    "Where am I?",
    hints=[
        "V has one element. Then come M, N and K, and ranks run along M first.",
        "rank = m + 2 * n.",
    ],
)
def check_place(answer: object) -> str:
    """The layout of a cluster, and one coordinate."""
    layout = make_cluster_layout_vmnk((2, 4, 1), 1)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer("The answer must be the layout and the coordinate.", got=type(answer).__name__)
    same_layout(
        answer[0],
        layout,
        tell=False,
        mistakes={
            "((1),2,4,1):((0),4,1,0)": "That counts along N first. Ranks run along M first, as x does in CUDA.",
        },
    )
    given: Any = Layout.parse(answer[0]) if isinstance(answer[0], str) else answer[0]
    sizes = tuple(size(given[mode]) for mode in range(rank(given)))
    if sizes != (1, 2, 4, 1):
        raise WrongAnswer(
            "That is the layout for MMAs of two SMs: V counts the CTAs of a pair. Here each CTA has MMAs of its own."
            if sizes == (2, 1, 4, 1)
            else "That is a cluster of 4x2. M comes before N, and M is 2 here."
            if sizes == (1, 4, 2, 1)
            else "The ranks are right, but the modes are not: there have to be four, V, M, N and K.",
            where="the sizes of the modes",
            got=str(sizes),
        )
    same_sequence(
        answer[1],
        (0, 1, 2, 0),
        meaning="(v, m, n, k) of rank 5",
        tell=False,
        mistakes={
            (0, 1, 1, 0): "That counts along N first: there rank 5 would be at m = 1, n = 1.",
            (0, 2, 1, 0): "You swapped M and N: M is 2 here, so m is 0 or 1.",
            (1, 0, 2, 0): "That is the coordinate for MMAs of two SMs, where rank 5 is the second of a pair.",
        },
    )
    return "The rank is m + 2 * n, and get_flat_coord inverts it."


@exercise(
    "08.2",
    "A mask by hand",
    hints=[
        "All CTAs with the same n receive it. Which ranks are those?",
        "They are neighbours: cluster_m adjacent bits, starting with rank n * cluster_m.",
    ],
)
def check_mask_b(answer: object) -> str:
    """The mask for B, for all clusters of at most 16 CTAs."""
    cases = [(m, n, cm, cn) for cm, cn in SHAPES for m in range(cm) for n in range(cn)]
    what = "the mask for B"

    def right(m: int, n: int, cm: int, cn: int) -> int:
        layout = make_cluster_layout_vmnk((cm, cn, 1), 1)
        return create_tma_multicast_mask(layout, (0, m, n, 0), 1)

    given = returned(answer, cases, what=what)
    explained = {
        "That is the mask for A: the CTAs with the same m. B is shared by those with the same n.": [
            create_tma_multicast_mask(make_cluster_layout_vmnk((cm, cn, 1), 1), (0, m, n, 0), 2)
            for m, n, cm, cn in cases
        ],
        "That numbers the ranks as if they ran along N first. They run along M first: rank = m + n * cluster_m.": [
            sum(1 << (i * cn + n) for i in range(cm)) for m, n, cm, cn in cases
        ],
        "That takes the row instead of the column, and numbers the ranks as if they ran along N first.": [
            ((1 << cn) - 1) << (m * cn) for m, n, cm, cn in cases
        ],
        "That has a bit for every receiver, but starts at the wrong rank: the column of n begins at rank n * cluster_m.": [
            (1 << cm) - 1 for m, n, cm, cn in cases
        ],
        "That leaves the CTA itself out. It receives its own slice by the multicast as well.": [
            right(*case) & ~(1 << (case[0] + case[1] * case[2])) for case in cases
        ],
    }
    for words, wrong in explained.items():
        if given == wrong:
            raise WrongAnswer(words, where="mask_b(1, 2, 4, 4)")
    on_many(answer, cases, right, what=what, show=hex)
    return "Along M the receivers are neighbours; along N their bits are cluster_m apart."


@exercise(
    "08.3",
    "Which slice of B?",
    hints=[
        "Who needs the same tile of B? Two CTAs, with the same n. So a slice is 128 rows.",
        "In shared memory a row of the tile takes 128 bytes.",
    ],
)
def check_slice_of(answer: object) -> str:
    """Coordinates and place of each CTA's slice of B."""
    row_atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
    atom = trace_tma_atom(
        Layout((1024, 256), (256, 1)), tile_to_shape(row_atom, (256, 64)), (256, 64), "f16", 2
    )
    cases = [(m, n, k) for m in range(2) for n in range(4) for k in range(4)]
    what = "(coordinates, byte offset) of the slice"

    def right(m: int, n: int, k: int) -> Any:
        (one,) = tma_coords(atom, (n, k), m)
        return one.coords, one.smem_offset_bytes

    given = returned(answer, cases, what=what)
    explained = {
        "That offset counts halves. The question asks for bytes.": [
            ((64 * k, 256 * n + 128 * m), 128 * m * 64) for m, n, k in cases
        ],
        "With that offset both slices land on top of each other. Each slice has its own place in the stage, the same in "
        "every receiver.": [((64 * k, 256 * n + 128 * m), 0) for m, n, k in cases],
        "With those coordinates both CTAs of a column load the same slice.": [
            ((64 * k, 256 * n), 0) for m, n, k in cases
        ],
        "That cuts B as A is cut, among the four CTAs of a row. B's tile is shared along M, by two CTAs.": [
            ((64 * k, 256 * m + 64 * n), 64 * n * 128) for m, n, k in cases
        ],
        "You cut B's tile into four. B is shared along M, and the cluster has only two CTAs along M.": [
            ((64 * k, 256 * n + 64 * n), 64 * n * 128) for m, n, k in cases
        ],
        "You cut the tile along K. num_multicast cuts the last mode of the box first, and that is N.": [
            ((64 * k + 32 * m, 256 * n), 0) for m, n, k in cases
        ],
        "The coordinates are in the tensor's order, (N, K). The instruction takes them innermost first.": [
            ((256 * n + 128 * m, 64 * k), 128 * m * 128) for m, n, k in cases
        ],
    }
    for words, wrong in explained.items():
        if given == wrong:
            raise WrongAnswer(words, where="slice_of(1, 2, 0)")
    on_many(answer, cases, right, what=what)
    return "tma_partition derives both from multicast_offset: a number of values in the walk gives a coordinate and a place."


@exercise(
    "08.4",
    "What a cluster saves",
    hints=[
        "Without multicast each CTA fetches 128 rows of A and 256 rows of B, over all of K.",
        "CTAs along N share A's tile, so each fetches one N-th of it. CTAs along M share B's tile.",
    ],
)
def check_fetched(answer: object) -> str:
    """Bytes fetched with growing clusters."""
    ctas, k_bytes = 16 * 4, 512 * 2
    right = tuple(ctas * (128 // n + 256 // m) * k_bytes for m, n in ((1, 1), (4, 1), (2, 4)))
    swapped = tuple(ctas * (128 // m + 256 // n) * k_bytes for m, n in ((1, 1), (4, 1), (2, 4)))
    all_share = tuple(ctas * 384 // c * k_bytes for c in (1, 4, 8))
    mistakes: dict[tuple[object, ...], str] = {
        (right[0],)
        * 3: "That many bytes land, the same for all three clusters. The question asks what is fetched.",
        swapped: "That shares A along M and B along N. It is the other way round: CTAs of a row need the same rows of A.",
        all_share: "Not all CTAs of a cluster share a tile: A's is shared only along N, and B's only along M.",
        tuple(v // 2 for v in right): "Those are elements. A half has two bytes.",
        tuple(v // 8 for v in right): "That is one k-tile. There are eight.",
        tuple(v // ctas for v in right): "That is what one CTA fetches. The question asks for all of them.",
    }
    same_sequence(
        answer,
        right,
        meaning="bytes fetched with clusters of 1x1, 4x1, 2x4",
        tell=False,
        mistakes=mistakes,
    )
    return "Each CTA of a cluster of M x N fetches an N-th of its tile of A and an M-th of its tile of B."


@exercise(
    "08.5",
    "A bug to find",
    hints=[
        "Write down the masks that the four CTAs compute, line by line.",
        "All four CTAs need every slice. Does the mask depend on the CTA at all?",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A mask that is shifted by the CTA's own rank."""
    import numpy as np

    from cutecourse.kernels import SpecError, tma_multicast_broken

    text = repaired_text(answer, "08.5")
    try:
        launch = tma_multicast_broken.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be launched: {error}") from error
    tile: Any = np.arange(3, 16 * 32 + 3, dtype=np.int32).reshape(16, 32)
    same_outputs(
        launch,
        {"source": tile, "out": np.zeros((4, 16, 32), np.int32), "gave_up": np.zeros(4, np.uint32)},
        {"out": np.broadcast_to(tile, (4, 16, 32))},
        emulator_first=True,
        reports={
            "names CTA": "A CTA sends to one that is not there: the cluster's ranks are 0 to 3.",
            "lacks 512 bytes": "A CTA waits for a quarter that nobody sends to it: one mask leaves it out.",
            "lacks 1536 bytes": "A CTA waits for three quarters: the others' masks leave it out.",
            "lacks 2048 bytes": "A CTA waits, and nothing ever comes to it: all masks leave it out.",
            "lacks 1024 bytes": "A CTA waits for two quarters: two masks leave it out.",
        },
    )
    return "In a 1x4 cluster the mask for A is 0b1111 in every CTA."


@exercise(
    "08.6",
    "Whom to tell",
    hints=[
        "Whose slices did this CTA read? All CTAs of its row sent it A, and all CTAs of its column sent it B.",
        "The CTA itself is in its row and in its column, but it is told only once.",
    ],
)
def check_tells(answer: object) -> str:
    """The senders of a CTA's slices, for all clusters of at most 16 CTAs."""
    cases = [(r, cm, cn) for cm, cn in SHAPES for r in range(cm * cn)]
    what = "the ranks that are told"

    def parts(r: int, cm: int, cn: int) -> tuple[list[int], list[int]]:
        m, n = r % cm, r // cm
        return [m + cm * i for i in range(cn)], [i + cm * n for i in range(cm)]

    def right(r: int, cm: int, cn: int) -> tuple[int, ...]:
        row, column = parts(r, cm, cn)
        return tuple(sorted({*row, *column}))

    given = [
        tuple(sorted(one)) if isinstance(one, (tuple, list)) else one
        for one in returned(answer, cases, what=what)
    ]
    explained = {
        "That tells the CTA itself twice. It reads both its slices, and then arrives once.": [
            tuple(sorted(parts(*case)[0] + parts(*case)[1])) for case in cases
        ],
        "Those are the senders of A alone. B comes along M, from the CTA's column.": [
            tuple(parts(*case)[0]) for case in cases
        ],
        "Those are the senders of B alone. A comes along N, from the CTA's row.": [
            tuple(parts(*case)[1]) for case in cases
        ],
        "That leaves out the CTA itself. It loads a slice as well, and its producer waits like the others.": [
            tuple(other for other in right(*case) if other != case[0]) for case in cases
        ],
        "That tells everybody. CTAs in another row and another column sent it nothing, and their `empty` would count too "
        "many arrivals.": [tuple(range(cm * cn)) for _, cm, cn in cases],
        "That tells nobody but the CTA itself: the others would wait for it forever.": [
            (r,) for r, _, _ in cases
        ],
        "That counts ranks along N first. They run along M first: m is rank % cluster_m.": [
            tuple(sorted({*(r // cn * cn + i for i in range(cn)), *(r % cn + cn * i for i in range(cm))}))
            for r, cm, cn in cases
        ],
    }
    correct = [right(*case) for case in cases]
    for words, wrong in explained.items():
        if given == wrong != correct:
            raise WrongAnswer(words, where="tells(5, 4, 4)")
    on_many(answer, cases, right, what=what)
    return "It is the union of both masks. Its size, cluster_m + cluster_n - 1, is the count of each `empty`."


@exercise(
    "08.7",
    "A kernel to write: two operands, two stages",
    hints=[
        "A is shared along N: tma_partition(atom_a, n, make_layout(2), ...) and mcast_mode=2. For B it is m and mode 1.",
        "`full` expects both whole tiles, 8192 bytes. `empty` counts three readers: the CTA, one of its row, one of its column.",
        "The reading warp arrives at `empty` of three CTAs: mbarrier_arrive(empty + stage, rank).",
        "In PTX, the CTA's slice of A starts at row 32 m + 16 n of the array and at byte 2048 n of the stage.",
        "In PTX, its slice of B starts at row 32 n + 16 m of the array and at byte 2048 m of the stage.",
        "In PTX, the mask for A is 0b0101 << m, and the mask for B is 0b0011 << 2 n.",
        "In PTX, the 16 bytes at byte p of row r lie at byte p ^ (16 * (r % 8)) of that row.",
        "In PTX, mapa.shared::cluster.u32 gives the address of `empty` in another CTA. An arrival there names .shared::cluster.",
    ],
)
def check_shared_products(answer: object) -> str:
    """A pipeline with two multicast operands."""
    import numpy as np

    rng: Any = np.random.default_rng(29)
    a, b = (rng.integers(-4, 5, (64, 320)).astype(np.float16) for _ in "ab")
    tiles_a, same_row = (one.astype(np.float32).reshape(2, 32, 320) for one in (a, b))
    tiles_b = same_row[:, ::-1]
    # In rows t and 31 - t all three bits of the swizzle differ.
    unswizzled = tiles_b.reshape(2, 32, 5, 8, 8)[:, :, :, ::-1].reshape(2, 32, 320)

    def expected(m: Any, n: Any, k: int = 320, tiles_b: Any = tiles_b) -> Any:
        return np.stack([(tiles_a[m(r)] * tiles_b[n(r)])[:, :k].sum(axis=1) for r in range(4)])

    def m_of(r: int) -> int:
        return r % 2

    def n_of(r: int) -> int:
        return r // 2

    relaxed = (
        "An arrival that is .relaxed does not order the reads before it, so a stage may be filled again while they are "
        "under way. Use .release, or leave the order out: .release is what an arrival has without one."
    )
    same_outputs(
        answer,
        {"a": a, "b": b, "out": np.full((4, 32), np.nan, np.float32)},
        {"out": expected(m_of, n_of)},
        mistakes={
            "out": [
                (expected(n_of, m_of), "M and N have changed places: the rank is m + 2 * n."),
                (expected(m_of, n_of, 128), "Only the first two k-tiles are in the sums."),
                (
                    expected(m_of, n_of, tiles_b=unswizzled),
                    "Pieces of A meet other pieces of B: TMA has swizzled the rows, and not all rows in the same way.",
                ),
                (
                    expected(m_of, n_of, tiles_b=same_row),
                    "You multiplied row t of A by row t of B. B's row is 31 - t.",
                ),
            ]
        },
        emulator_first=True,
        reports={
            "ExitedCTAError": "A CTA has ended while a neighbour still sends to it or arrives at its barriers: the cluster "
            "has to meet once more before any CTA leaves.",
            "NoBarrierError": "A CTA's barrier is used before it is initialised: after the initialisation, the whole cluster "
            "has to meet, not only this CTA.",
            "elect.sync": ELECTS,
            re.compile(
                r"TransactionBytesError: \d+ bytes are missing"
            ): "Bytes are missing at `full`. Does it expect both "
            "whole tiles, 8192 bytes, and does each load multicast its slice to both receivers?",
            re.compile(
                r"BarrierCountError.*still waits for \d+ bytes", re.DOTALL
            ): "`full` gets more arrivals than it counts: one thread of the loading warp arrives there per k-tile.",
            re.compile(
                r"lacks [12] of 3 arrivals"
            ): "A producer waits for `empty`, and not all readers of its slices have "
            "arrived there: each reader tells every CTA that sent it a slice, its own included.",
            re.compile(
                r"lacks [123] of 4 arrivals"
            ): "`empty` counts four, but only three CTAs read what a CTA sends: its "
            "row and its column, counting itself once.",
            re.compile(
                r"lacks 3 of 3 arrivals"
            ): "A producer waits for `empty`, and no reader has arrived there.",
            "BarrierCountError": "A barrier gets more arrivals than it counts. Is `empty` told by CTAs that read nothing from "
            "this one, or told twice, or does it count fewer than three?",
            AGAIN: relaxed
            if re.search(r"\bmbarrier\.arrive\S*\.relaxed", getattr(answer, "ptx", None) or "")
            else "A slice is refilled while a CTA may still read the old one. Either two CTAs load the same slice (the rank "
            "is m + 2 * n), or `empty` does not count every reader, in every CTA that receives the slice.",
            "TransactionBytesError": "The bytes do not add up. `full` has to expect both whole tiles: what lands in this CTA, "
            "whoever sent it; and each mask has to name both receivers.",
            "SharedMemoryRace": "A part of a tile comes twice, or too early: does each CTA load its own slice, into a stage "
            "that is free?",
            TOO_EARLY: "A stage is read before both tiles are there: does `full` expect both tiles, and does each CTA of a row or "
            "a column load a slice of its own?",
        },
    )
    return "Two masks, one `full`, one `empty` that counts three readers: this is how a GEMM's main loop gets its tiles."
