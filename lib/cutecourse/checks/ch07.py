"""Checks of the exercises of chapter 7, TMA in motion."""

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
from cutecourse.checks.untouched import refuse_untouched
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

TURNS = (
    "A wait names a phase that never comes. The parity changes every third k-tile, when the pipeline comes back to the "
    "same stage; `k % 2` changes with every k-tile."
)


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
    what = "the instruction's coordinates of a tile"
    given = returned(answer, tiles, what=what)
    explained = {
        "Those are the coordinates in the tensor's order, (N, K). The instruction takes them innermost first.": [
            (256 * n, 64 * k) for n, k in tiles
        ],
        "Those count tiles. The instruction counts elements.": [(k, n) for n, k in tiles],
        "Those count tiles, and they come in the tensor's order. The instruction counts elements, innermost first.": tiles,
        "Those are offsets in bytes. The instruction counts elements.": [
            (128 * k, 512 * n) for n, k in tiles
        ],
        "Each coordinate counts the steps of the other mode: K goes in steps of 64, N in steps of 256.": [
            (256 * k, 64 * n) for n, k in tiles
        ],
    }
    for words, wrong in explained.items():
        if given == wrong:
            raise WrongAnswer(words, where="coordinates(1, 2)")
    on_many(answer, tiles, lambda n, k: tuple(tensor(256 * n, 64 * k)), what=what)
    return "A coordinate tensor does this for you: its strides are 1@1 and 1@0."


@exercise(
    "07.2",
    "How many bytes?",
    hints=[
        "Count the bytes that land. The number of instructions does not matter.",
        "What arrives for the elements of a box that lie outside the tensor?",
    ],
)
def check_bytes(answer: object) -> str:
    """Transaction bytes of a whole and of a ragged k-tile."""
    whole = (64 + 96) * 32 * 4
    same_sequence(
        answer,
        (whole, whole),
        meaning="(bytes of the first k-tile, bytes of the last one)",
        tell=False,
        mistakes={
            (
                whole,
                whole // 2,
            ): "Elements outside the tensor arrive as zeros, and their bytes count like all others.",
            (whole // 4, whole // 4): "Those are elements. A float has four bytes.",
            (
                whole // 4,
                whole // 8,
            ): "Those are elements, and a float has four bytes. Elements outside the tensor count as well.",
            (whole // 2, whole // 2): "That counts two bytes per element. A float has four.",
            (64 * 32 * 4, 64 * 32 * 4): "That is A's tile alone. One barrier covers both tiles.",
            (96 * 32 * 4, 96 * 32 * 4): "That is B's tile alone. One barrier covers both tiles.",
            (
                whole * 2,
                whole * 2,
            ): "That counts every byte twice. The instructions share the tile: each moves a part of it.",
        },
    )
    return "The whole box counts, wherever it lies."


@exercise(
    "07.3",
    "A state instead of a division",
    hints=[
        "The parity changes when the index comes back to 0, and at no other time.",
        "The producer's first wait on a fresh barrier must not block. Which parity passes there?",
    ],
)
def check_state(answer: object) -> str:
    """Where a pipeline's state starts, and how it advances."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer("The answer must be both functions, (start, advance).", got=type(answer).__name__)
    start, advance = answer
    for function in answer:
        refuse_untouched(function)
    roles = ("consumer", "producer")
    first = dict(
        zip(roles, returned(start, [(role,) for role in roles], what="(index, parity)"), strict=True)
    )
    if first["producer"] == (0, 0):
        raise WrongAnswer(
            "With this state the producer's first wait blocks: it waits for readers of a stage that nobody has filled yet.",
            where='start("producer")',
        )
    if first["consumer"] == (0, 1):
        raise WrongAnswer(
            "With this state the consumer's first wait passes on a fresh barrier, before anything has come.",
            where='start("consumer")',
        )
    on_many(
        start,
        [("consumer",), ("producer",)],
        lambda role: (0, int(role == "producer")),
        what="(index, parity)",
    )
    cases = [(k, stages) for stages in (1, 2, 3, 4) for k in range(4 * stages)]
    states = [(k % stages, k // stages % 2, stages) for k, stages in cases]
    given = returned(advance, states, what="the (index, parity) that follows")
    explained = {
        "That flips the parity with every k-tile. Each barrier is used once in `stages` k-tiles, so its parity changes "
        "when the index comes back to 0.": [((i + 1) % s, p ^ 1) for i, p, s in states],
        "The parity never changes there. When the index comes back to 0, each barrier is in its next phase.": [
            ((i + 1) % s, p) for i, p, s in states
        ],
        "The index never comes back to 0: there are only `stages` stages.": [
            (i + 1, p) for i, p, s in states
        ],
        "That flips one step too early: the last stage still belongs to the old turn.": [
            ((i + 1) % s, p ^ (i + 1 == s - 1)) for i, p, s in states
        ],
        "That flips one step too late: stage 0 already belongs to the new turn.": [
            ((i + 1) % s, p ^ (i == 0)) for i, p, s in states
        ],
    }
    right = [((i + 1) % s, p ^ (i + 1 == s)) for i, p, s in states]
    for words, wrong in explained.items():
        if given == wrong != right:
            raise WrongAnswer(words, where="advance(1, 0, 3)")
    on_many(
        advance,
        states,
        lambda i, p, s: ((i + 1) % s, p ^ (i + 1 == s)),
        what="the (index, parity) that follows",
    )
    return "CUTLASS's PipelineState keeps this pair, and starts a producer with the phase bit 1."


@exercise(
    "07.4",
    "A partition by hand",
    hints=[
        "Values are numbered down the columns: one step to the right is 64 values further.",
        "The walk is (32,64,2):(64,1,2048). Divide it after 2048 values.",
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
    if "@" in str(answer):
        raise WrongAnswer(
            "Those are coordinates. layout_V comes before them: it gives the number of a value in the tile, and the "
            "tensors are composed with it afterwards.",
            got=str(answer),
        )
    same_layout(
        answer,
        right,
        tell=False,
        mistakes={
            "((32,64),2):((1,32),2048)": "Those are places in shared memory. layout_V gives the numbers of the tile's "
            "values, and one step along K skips 64 values.",
            "((64,32),2):((1,64),2048)": "That walks down a column first. Shared memory holds 32 columns of one row "
            "before the next row.",
            "((32,64),2):((1,64),32)": "That numbers the values along the rows. Layouts number them down the columns: "
            "the first mode counts fastest.",
        },
    )
    given: Any = Layout.parse(answer) if isinstance(answer, str) else answer
    if isinstance(given, Layout) and rank(given) == 1:
        given = given[0]  # tma_partition keeps the result inside of one more pair of parentheses
    sizes = [size(given[mode]) for mode in range(rank(given))]
    if sizes != [size(right[0]), size(right[1])]:
        raise WrongAnswer(
            "The walk is right, but it is divided in the wrong place: mode 0 has to hold the values of one instruction.",
            where="the sizes of the modes",
            got=str(tuple(sizes)),
        )
    return "Mode 0: the values of one instruction, in the order of shared memory. Mode 1: the instructions."


@exercise(
    "07.5",
    "A bug to find",
    hints=[
        "How many threads arrive at `empty` per tile?",
        "Look at both lines with mbarrier.init.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A barrier that is initialised for too few arrivals."""
    import numpy as np

    from cutecourse.kernels import SpecError, tma_broken

    text = repaired_text(answer, "07.5")
    try:
        launch = tma_broken.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be launched: {error}") from error
    numbers: Any = np.arange(5, 48 * 32 + 5, dtype=np.int32).reshape(48, 32)
    same_outputs(
        launch,
        {
            "source": numbers,
            "result": np.zeros_like(numbers),
            "gave_up": np.zeros(2, np.uint32),
            "tiles": np.uint32(3),
        },
        {"result": 2 * numbers},
        emulator_first=True,
        reports={
            "BarrierCountError": "A barrier gets more arrivals than it counts: `empty` still completes a phase before "
            "all of the consumer's 32 threads have arrived.",
            AGAIN: "The stage is filled again while the consumer is still reading it: `empty` completes a phase too early.",
            "lacks 32 of 64 arrivals": "`empty` counts arrivals that nobody makes: the consumer has 32 threads.",
            " of 64 arrivals": "`empty` counts arrivals that nobody makes: the consumer has 32 threads.",
        },
    )
    return "The count of an mbarrier is the number of arrivals, and a plain arrive counts every thread."


@exercise(
    "07.6",
    "The consumer of three stages",
    hints=[
        "k-tile k lies in stage k % 3, and its turn is k // 3.",
        "Wait for `full` of the stage with the parity of the turn, read, then arrive at `empty` of the stage.",
    ],
)
def check_row_maxima(answer: object) -> str:
    """The consumer of a three-stage pipeline."""
    import numpy as np

    rng = np.random.default_rng(17)
    a = rng.permutation(128 * 320).reshape(128, 320).astype(np.float16)
    maxima = [a[:, k : k + 64].max(axis=1).astype(np.float32) for k in range(0, 320, 64)]
    right = np.max(maxima, axis=0)
    same_outputs(
        answer,
        {"a": a, "out": np.full(128, np.nan, np.float32)},
        {"out": right},
        mistakes={
            "out": [
                (maxima[0], "That is the largest of the first k-tile alone."),
                (maxima[4], "That is the largest of the last k-tile alone."),
                (
                    np.max(maxima[:3], axis=0),
                    "The last two k-tiles are missing: they lie in stages 0 and 1 again.",
                ),
            ]
        },
        emulator_first=True,
        reports={
            re.compile(
                r"waits for parity 0 of mbarrier [^,]*49152[^,]*, which is in phase 2"
            ): "Stage 0 holds k-tiles 0 and 3 alone. There are three stages: k-tile k lies in stage k % 3.",
            # A consumer waits for the second phase of stage 1's `full`: in its first turn it needs phase 0.
            re.compile(r"waits for parity 1 of mbarrier [^,]*49160"): TURNS,
            "lacks 128 of 128 arrivals": "The producer waits for an empty stage, and no consumer has arrived "
            "there: arrive at `empty` when you have finished with a stage.",
            " of 128 arrivals": "The producer waits for an empty stage, and not all consumers have arrived there: each "
            "of the 128 threads has to.",
            "BarrierCountError": "`empty` gets more arrivals than it counts: each thread arrives once per k-tile.",
            "DeadlockError": TURNS,
            TOO_EARLY: "A stage was read before its tile was there: wait for `full` of that stage, with the parity of "
            "its own turn. The turn changes every third k-tile.",
            "UnfinishedLoad": "The last two k-tiles are loaded, and nobody waits for them. They lie in stages 0 and 1 "
            "again.",
            AGAIN: "A stage is filled again before all have read it: arrive at `empty` after the reads.",
        },
    )
    return "Every pipeline has these three lines: wait for full, use, arrive at empty."


@exercise(
    "07.7",
    "A kernel to write: there and back",
    hints=[
        "The load is the kernel tma_load of chapter 7b, the store is tma_store. Between them the threads change the tile.",
        "Before the store: fence_proxy in each thread, then a barrier of all threads, then one thread stores.",
    ],
)
def check_there_and_back(answer: object) -> str:
    """A load, a change in place and a store."""
    import numpy as np

    rng = np.random.default_rng(23)
    a = (rng.permutation(128 * 256).reshape(128, 256) / 16 - 1000).astype(np.float16)
    same_outputs(
        answer,
        {"a": a, "out": np.full((128, 256), np.nan, np.float16)},
        {"out": np.maximum(a, np.float16(0))},
        mistakes={
            "out": [
                (a, "The tile came back unchanged: no thread replaced the negative elements."),
                (np.full((128, 256), np.nan, np.float16), "Nothing was stored."),
                (np.minimum(a, np.float16(0)), "The negative elements are kept, and the others replaced."),
            ]
        },
        emulator_first=True,
        reports={
            "MissingProxyFence": "The threads' writes are not fenced before the store. On a GPU this may give the right "
            "result, by luck: chapter 7b's table has such a kernel.",
            "elect.sync": ELECTS,
            "BarrierCountError": "The barrier gets more arrivals than it counts: let one thread arrive, with elect_one.",
            "TransactionBytesError": "The barrier's bytes do not add up: it has to expect the bytes of the whole tile, once.",
            "NoBarrierError": "The barrier is used before it is initialised: initialise, fence, and let all threads meet.",
            "DeadlockError": "A wait never ends. Does the barrier know how many bytes to expect, and does the wait name "
            "phase 0 by its parity?",
            TOO_EARLY: "The tile is read before it is there: every thread that touches it has to wait for the barrier, and "
            "the barrier has to expect the bytes of the whole tile.",
            "SharedMemoryRace": "The store may read the tile while threads still write it: fence, then let all threads "
            "meet, then store.",
            "OverwrittenSource": "The store may read the tile while threads still write it: fence, then let all threads "
            "meet, then store.",
            "UnfinishedCopy": "Nobody waits for the store: commit_group, then wait_group, in the thread that issued it.",
        },
    )
    return "Load, wait, change, fence, meet, store, commit, wait: the skeleton of every epilogue."
