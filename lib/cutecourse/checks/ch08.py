"""Checks of the exercises of chapter 8, clusters and multicast."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.compare import TOO_EARLY, on_many, same_layout, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.layout import ComposedLayout, Layout, Swizzle, rank, size, tile_to_shape
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk, tma_coords, trace_tma_atom

TWICE = (
    "A part of the tile comes twice, and another part is not among the bytes that are waited for: do all four blocks load "
    "the same slice, or does one load its slice more than once?"
)


@exercise(
    "08.1",
    "Where am I?",
    hints=[
        "tiled_divide takes 2 blocks along M into a mode of their own, in front.",
        "Rank 6 is at (x, y) = (2, 1). Which of its pair is it, and which pair along M?",
    ],
)
def check_place(answer: object) -> str:
    """The layout of a cluster for two-SM MMAs, and one coordinate."""
    layout = make_cluster_layout_vmnk((4, 2, 1), 2)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer("The answer is to be the layout and the coordinate.", got=type(answer).__name__)
    same_layout(
        answer[0],
        layout,
        tell=False,
        mistakes={
            "((2),2,2,1):((4),1,2,0)": "There the two of a pair are 4 ranks apart; a pair is two neighbours along M.",
            "((2),2,2,1):((8),4,1,0)": "That counts N fastest and V slowest; ranks run along M first.",
        },
    )
    given: Any = Layout.parse(answer[0]) if isinstance(answer[0], str) else answer[0]
    sizes = tuple(size(given[mode]) for mode in range(rank(given)))
    if sizes != (2, 2, 2, 1):
        raise WrongAnswer(
            "That is the layout for MMAs of one SM: rank 6 is in the right place, but nobody has a partner."
            if sizes == (1, 4, 2, 1)
            else "The ranks are right, but not the modes: there are to be four, V, M, N and K.",
            where="the sizes of the modes",
            got=str(sizes),
        )
    same_sequence(
        answer[1],
        (0, 1, 1, 0),
        meaning="(v, m, n, k) of rank 6",
        tell=False,
        mistakes={
            (0, 2, 1, 0): "That is (v, m, n, k) for one SM. With two, m counts pairs.",
            (1, 1, 1, 0): "Rank 6 is even: it is the first of its pair.",
        },
    )
    return "v is the lowest bit of the rank: the even one of a pair leads it."


@exercise(
    "08.2",
    "A mask by hand",
    hints=[
        "All blocks with the same n receive it. Which ranks are those?",
        "They are neighbours: cluster_m bits in a row, from rank n * cluster_m on.",
    ],
)
def check_mask_b(answer: object) -> str:
    """The mask for B, for all clusters of at most 16 blocks."""
    shapes = [(cm, cn) for cm in (1, 2, 4, 8, 16) for cn in (1, 2, 4, 8, 16) if cm * cn <= 16]
    cases = [(m, n, cm, cn) for cm, cn in shapes for m in range(cm) for n in range(cn)]

    def right(m: int, n: int, cm: int, cn: int) -> int:
        layout = make_cluster_layout_vmnk((cm, cn, 1), 1)
        return create_tma_multicast_mask(layout, (0, m, n, 0), 1)

    if callable(answer):
        along_n = [
            create_tma_multicast_mask(make_cluster_layout_vmnk((cm, cn, 1), 1), (0, m, n, 0), 2)
            for m, n, cm, cn in cases
        ]
        given = [answer(*case) for case in cases]
        if given == along_n:
            raise WrongAnswer(
                "That is the mask for A: the blocks with the same m. B is shared by those with the same n.",
                where="mask_b(1, 2, 4, 4)",
            )
        if given == [((1 << cn) - 1) << (m * cn) for m, n, cm, cn in cases]:
            raise WrongAnswer(
                "That takes ranks as counted along N first. They are counted along M first: rank = m + n * cluster_m.",
                where="mask_b(1, 2, 4, 4)",
            )
    on_many(answer, cases, right, what="the mask for B")
    return "Along M the receivers are neighbours; along N their bits are cluster_m apart."


@exercise(
    "08.3",
    "Which rows?",
    hints=[
        "The four blocks of a row of the cluster have the same m. Their slices are 32 rows each.",
        "In shared memory a row of the tile takes 128 bytes.",
    ],
)
def check_slice_of(answer: object) -> str:
    """Coordinates and place of each block's slice of A."""
    row_atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
    atom = trace_tma_atom(
        Layout((512, 256), (256, 1)), tile_to_shape(row_atom, (128, 64)), (128, 64), "f16", 4
    )
    cases = [(m, n, k) for m in range(4) for n in range(4) for k in range(4)]

    def right(m: int, n: int, k: int) -> Any:
        (one,) = tma_coords(atom, (m, k), n)
        return one.coords, one.smem_offset_bytes

    if callable(answer):
        given = [answer(m, n, k) for m, n, k in cases]
        if given == [((64 * k, 128 * m + 32 * n), 32 * n * 64) for m, n, k in cases]:
            raise WrongAnswer("The offset counts halves there; asked are bytes.", where="slice_of(0, 1, 0)")
        if given == [((64 * k, 128 * m + 32 * n), 0) for m, n, k in cases]:
            raise WrongAnswer(
                "Then all four slices land on top of each other: each goes to its own place in the stage, and to the "
                "same place in every receiver.",
                where="slice_of(0, 1, 0)",
            )
        if given == [((64 * k, 128 * m), 0) for m, n, k in cases]:
            raise WrongAnswer("Then all four blocks of a row load the same slice.", where="slice_of(0, 1, 0)")
    on_many(answer, cases, right, what="(coordinates, byte offset) of the slice")
    return (
        "tma_partition's multicast_offset is both: an offset in the tile's walk is a coordinate and a place."
    )


@exercise(
    "08.4",
    "What it costs",
    hints=[
        "Without multicast each of the 16 blocks fetches its tiles of A and of B for all four k-tiles.",
        "In a cluster of c x c each block fetches a c-th of each.",
    ],
)
def check_fetched(answer: object) -> str:
    """Bytes fetched with growing clusters."""
    tiles, k_tiles = 16, 4
    right = tuple(tiles * (128 * 64 + 256 * 64) // c * k_tiles * 2 for c in (1, 2, 4))
    same_sequence(
        answer,
        right,
        meaning="bytes fetched with clusters of 1x1, 2x2, 4x4",
        tell=False,
        mistakes={
            (right[0],) * 3: "What lands is the same for all of them; asked is what is fetched.",
            (
                right[0],
                right[0] // 4,
                right[0] // 16,
            ): "Four blocks share a tile of A in a 4x4 cluster, not sixteen.",
            tuple(v // 2 for v in right): "Those are elements; a half has two bytes.",
        },
    )
    return "With 4x4 every element is fetched exactly once."


@exercise(
    "08.5",
    "A bug to find",
    hints=[
        "Write down the masks that the four blocks compute, line by line.",
        "All four blocks need every slice. Does the mask depend on the block at all?",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A mask that is shifted by the block's own rank."""
    import dataclasses

    import numpy as np

    from cutecourse.kernels import tma_multicast_broken

    if not isinstance(answer, str):
        raise WrongAnswer("The answer is to be the PTX text.", expected="a str", got=type(answer).__name__)
    tile: Any = np.arange(3, 16 * 32 + 3, dtype=np.int32).reshape(16, 32)
    same_outputs(
        dataclasses.replace(tma_multicast_broken.LAUNCH, ptx=answer),
        {"source": tile, "out": np.zeros((4, 16, 32), np.int32), "gave_up": np.zeros(4, np.uint32)},
        {"out": np.broadcast_to(tile, (4, 16, 32))},
        emulator_first=True,
        reports={
            "names CTA": "A block sends to one that is not there: the cluster's ranks are 0 to 3.",
            "misses 512 bytes": "A block waits for a quarter that nobody sends to it: one mask leaves it out.",
            "misses 1536 bytes": "A block waits for three quarters: the others' masks leave it out.",
            "misses 2048 bytes": "A block waits, and nothing ever comes to it: all masks leave it out.",
        },
    )
    return "In a 1x4 cluster the mask for A is 0b1111 in every block."


@exercise(
    "08.6",
    "A kernel to write: multicast along M",
    hints=[
        "The modes of cluster_layout_vmnk are (v, m, n, k): M is mode 1.",
        "The receivers' layout has as many elements as the cluster has blocks along M; cta_coord[1] is this block's place.",
    ],
)
def check_shared_b(answer: object) -> str:
    """A multicast of B along M."""
    import numpy as np

    b: Any = np.arange(256 * 64, dtype=np.uint16).view(np.float16).reshape(256, 64)
    same_outputs(
        answer,
        {"b": b, "out": np.zeros((4, 256, 64), np.float16)},
        {"out": np.broadcast_to(b, (4, 256, 64))},
        emulator_first=True,
        reports={
            "misses 24576 bytes": "Each block received its own quarter alone: the mask is to name its neighbours "
            "along M.",
            "misses 32768 bytes": "A block waits, and nothing ever comes to it.",
            "SharedMemoryRace": TWICE,
            TOO_EARLY: TWICE,
        },
    )
    return "For A it is mode 2, for B mode 1: the mode along which the blocks differ."
