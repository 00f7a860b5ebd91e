"""Checks of the exercises of chapter 7, TMA in motion."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.compare import AGAIN, TOO_EARLY, on_many, same_layout, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    group_modes,
    make_layout,
    rank,
    size,
    tile_to_shape,
)
from cutecourse.tma import tma_partition, trace_tma_atom


@exercise(
    "07.1",
    "Which coordinates?",
    hints=[
        "K is contiguous, so it is mode 0 of the descriptor.",
        "A coordinate counts elements, not tiles.",
    ],
)
def check_coordinates(answer: object) -> str:
    """The coordinates of each tile of B."""
    row_atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))
    atom = trace_tma_atom(Layout((1024, 256), (256, 1)), tile_to_shape(row_atom, (256, 64)), (256, 64), "f16")
    tensor = atom.get_tma_tensor((1024, 256))
    tiles = [(n, k) for n in range(4) for k in range(4)]
    if callable(answer):
        given = [answer(n, k) for n, k in tiles]
        if given == [(256 * n, 64 * k) for n, k in tiles]:
            raise WrongAnswer(
                "Those are the coordinates in the tensor's order, (N, K). The instruction takes them innermost first.",
                where="coordinates(1, 0)",
            )
        if given == [(k, n) for n, k in tiles]:
            raise WrongAnswer(
                "Those count tiles; the instruction counts elements.", where="coordinates(1, 0)"
            )
    on_many(
        answer,
        tiles,
        lambda n, k: tuple(tensor(256 * n, 64 * k)),
        what="the instruction's coordinates of a tile",
    )
    return "A coordinate tensor does this for you: its strides are 1@1 and 1@0."


@exercise(
    "07.2",
    "How many bytes?",
    hints=[
        "The number of instructions does not matter; what lands does.",
        "What happens to the elements of a box that lie outside the tensor?",
    ],
)
def check_bytes(answer: object) -> str:
    """Transaction bytes of a whole and of a ragged k-tile."""
    whole = (128 * 64 + 256 * 64) * 2
    ragged = (128 * 8 + 256 * 8) * 2
    same_sequence(
        answer,
        (whole, whole),
        meaning="(bytes of the first k-tile, bytes of the last one)",
        tell=False,
        mistakes={
            (
                whole,
                ragged,
            ): "Elements outside the tensor arrive as zeros, and their bytes count like all others.",
            (whole // 2, whole // 2): "Those are elements; a half has two bytes.",
            (128 * 64 * 2, 128 * 64 * 2): "That is A's tile alone; both are under the same barrier.",
        },
    )
    return "The whole box counts, wherever it lies."


@exercise(
    "07.3",
    "Which parity?",
    hints=[
        "Each stage is used once in `stages` k-tiles: its phase number is k // stages.",
        "The producer's first wait on a fresh barrier must not block. Which parity passes there?",
    ],
)
def check_parities(answer: object) -> str:
    """Stage and both parities of a pipeline."""
    cases = [(k, stages) for stages in (1, 2, 3, 4) for k in range(4 * stages)]
    if callable(answer):
        given = [tuple(answer(k, stages)) for k, stages in cases]
        if given == [(k % s, k // s % 2, k // s % 2) for k, s in cases]:
            raise WrongAnswer(
                "With that the producer waits in its first turn for something that nobody has done yet.",
                where="parities(0, 2)",
            )
        if given == [(k % s, k % 2, 1 - k % 2) for k, s in cases]:
            raise WrongAnswer(
                "The parity flips when the pipeline comes back to the same stage, not with every k-tile.",
                where="parities(1, 2)",
            )
    on_many(
        answer,
        cases,
        lambda k, stages: (k % stages, k // stages % 2, 1 - k // stages % 2),
        what="(stage, consumer's parity, producer's parity)",
    )
    return "CUTLASS's PipelineState keeps this pair, an index and a phase bit, and flips the bit when the index wraps."


@exercise(
    "07.4",
    "The partition",
    hints=[
        "logical_divide by 2048:1 splits the walk after 2048 values.",
        "32 times 64 is 2048: the first two modes are one instruction, the third counts instructions.",
    ],
)
def check_partition(answer: object) -> str:
    """layout_V of a tile of two boxes."""
    row_atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 32), (32, 1)))
    layout = tile_to_shape(row_atom, (64, 64))
    atom = trace_tma_atom(Layout((512, 256), (256, 1)), layout, (64, 64), "f32")
    tile = atom.get_tma_tensor().local_tile((64, 64), (0, 0))
    part = tma_partition(atom, 0, make_layout(1), group_modes(layout, 0, 2), tile.group_modes(0, 2))
    right = part.layout_V[0]
    same_layout(
        answer,
        right,
        tell=False,
        mistakes={
            "((32,64),2):((1,32),2048)": "Those are places in shared memory; layout_V gives the tile's values, "
            "and a step along K is 64 values.",
        },
    )
    given: Any = Layout.parse(answer) if isinstance(answer, str) else answer
    if isinstance(given, Layout) and rank(given) == 1:
        given = given[0]  # tma_partition keeps the result inside of one more pair of parentheses
    sizes = [size(given[mode]) for mode in range(rank(given))]
    if sizes != [size(right[0]), size(right[1])]:
        raise WrongAnswer(
            "The walk is right, but not where it is divided: mode 0 is to hold the values of one instruction.",
            where="the sizes of the modes",
            got=str(tuple(sizes)),
        )
    return "Mode 0: the values of one instruction, in the order of shared memory. Mode 1: the instructions."


@exercise(
    "07.5",
    "A bug to find",
    hints=[
        "Who arrives at `empty`, and how many are they?",
        "Look at both lines with mbarrier.init.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A barrier that announces too few arrivals."""
    import dataclasses

    import numpy as np

    from cutecourse.kernels import tma_broken

    if not isinstance(answer, str):
        raise WrongAnswer("The answer is to be the PTX text.", expected="a str", got=type(answer).__name__)
    numbers: Any = np.arange(5, 48 * 32 + 5, dtype=np.int32).reshape(48, 32)
    same_outputs(
        dataclasses.replace(tma_broken.LAUNCH, ptx=answer),
        {
            "source": numbers,
            "result": np.zeros_like(numbers),
            "gave_up": np.zeros(2, np.uint32),
            "tiles": np.uint32(3),
        },
        {"result": 2 * numbers},
        emulator_first=True,
        reports={
            "BarrierCountError": "`empty` still completes a phase with the first of the consumer's 32 threads; the "
            "other arrivals count for the phases after it.",
            "misses 32 of 64 arrivals": "`empty` waits for arrivals that nobody makes: the consumer has 32 threads.",
        },
    )
    return "The count of an mbarrier is the number of arrivals, and a plain arrive counts every thread."


@exercise(
    "07.6",
    "A kernel to write: the consumer",
    hints=[
        "Wait for `full + stage` with the parity turn % 2, read, then arrive at `empty + stage`.",
        "sA[row, column, stage].to(cutlass.Float32) reads one element.",
    ],
)
def check_row_maxima(answer: object) -> str:
    """The consumer of a two-stage pipeline."""
    import numpy as np

    rng = np.random.default_rng(17)
    a = rng.permutation(128 * 192).reshape(128, 192).astype(np.float16)
    maxima = [a[:, k : k + 64].max(axis=1).astype(np.float32) for k in (0, 64, 128)]
    same_outputs(
        answer,
        {"a": a, "out": np.full(128, np.nan, np.float32)},
        {"out": np.maximum(np.maximum(maxima[0], maxima[1]), maxima[2])},
        mistakes={
            "out": [
                (maxima[0], "That is the largest of the first k-tile alone."),
                (maxima[2], "That is the largest of the last k-tile alone."),
                (
                    np.maximum(maxima[0], maxima[1]),
                    "The third k-tile is missing: its stage is stage 0 again.",
                ),
            ]
        },
        emulator_first=True,
        reports={
            "misses 128 of 128 arrivals": "The producer waits for an empty stage, and no consumer has arrived "
            "there: say that you are done with a stage.",
            " of 128 arrivals": "The producer waits for an empty stage, and not all consumers have arrived there: each "
            "of the 128 threads is to.",
            TOO_EARLY: "A stage was read before its tile was there: wait for `full`, in the right phase.",
            "UnfinishedLoad": "The third k-tile is missing: it is loaded, and nobody waits for it. Its stage is stage 0 "
            "again.",
            AGAIN: "A stage is filled again before all have read it: arrive at `empty` behind the reads.",
        },
    )
    return "The same three lines stand in every pipeline: wait for full, use, arrive at empty."
