"""Checks of the exercises of chapter 10, A GEMM for Hopper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import (
    AGAIN,
    ELECTS,
    TOO_EARLY,
    on_many,
    repaired_text,
    returned,
    same_int,
    same_outputs,
)
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer

if TYPE_CHECKING:
    import numpy as np

_AT_ONCE = 132


@exercise(
    "10.1",
    "How many stages?",
    hints=[
        "How many bytes does the tile of C take? An f16 has two.",
        "A stage has 128 rows of A, 192 rows of B and two barriers of 8 bytes.",
    ],
)
def check_stages(answer: object) -> str:
    """The stages of a 128x192 tile beside a place for C."""
    same_int(
        answer,
        4,
        meaning="the stages that fit",
        mistakes={
            5: "Five stages fit if C has no place of its own.",
            8: "A stage has 320 rows of 64 elements, and an f16 has two bytes.",
            10: "An f16 has two bytes, and C needs a place as well.",
            11: "An f16 has two bytes, and C needs a place as well.",
            3: "A fourth stage fits: C in f16 takes 49,152 bytes. Did you count four bytes per element?",
        },
    )
    return "A larger tile reads fewer bytes per multiplication, and leaves room for fewer stages."


@exercise(
    "10.2",
    "Share out the registers",
    hints=[
        "Take one thread from each of the four warpgroups. How many registers do these four have together?",
        "Three of the four threads take 160 each. An increase waits until that many registers are free.",
    ],
)
def check_kept(answer: object) -> str:
    """Choose the registers that the loading warpgroup may keep."""
    same_int(
        answer,
        32,
        meaning="the registers that each thread of the loading warpgroup keeps",
        mistakes={
            24: "That works, but the threads may keep a few more.",
            40: "Then each thread of the last warpgroup is 8 registers short, and its setmaxnreg.inc waits forever.",
            96: "Three warpgroups take registers from the one that loads. You counted only one of them.",
            128: "The others can take only what this warpgroup gives away.",
            56: "That would be right for two warpgroups of 232 and one that loads, with 168 each at first.",
        },
    )
    return "4 * 128 = 3 * 160 + 32. One step more for the producer, and a consumer would wait for registers forever."


@exercise(
    "10.3",
    "How many arrivals?",
    hints=[
        "Whose stages do this CTA's loads reach? Those CTAs read them.",
        "The row has cluster_n CTAs and the column cluster_m. The CTA itself is in both. A warpgroup has four warps.",
    ],
)
def check_arrivals(answer: object) -> str:
    """The arrivals that `empty` counts."""
    cases = [(m, n, w) for m in (1, 2, 4) for n in (1, 2, 4) for w in (1, 2, 3)]
    what = "the arrivals of one phase"
    got = returned(answer, cases, what=what)
    explained = {
        "That counts warpgroups. In each of their four warps a thread arrives.": [
            (m + n - 1) * w for m, n, w in cases
        ],
        "That counts threads. One thread of each warp arrives.": [(m + n - 1) * 128 * w for m, n, w in cases],
        "The CTA itself is in its row and in its column, but its warps arrive once.": [
            (m + n) * 4 * w for m, n, w in cases
        ],
        "That counts all CTAs of the cluster. A CTA in another row and another column gets nothing from this one.": [
            m * n * 4 * w for m, n, w in cases
        ],
        "That counts the CTA's own warps. The others read what it sends as well.": [
            4 * w for _, _, w in cases
        ],
    }
    right = [(m + n - 1) * 4 * w for m, n, w in cases]
    for words, wrong in explained.items():
        if got == wrong != right:
            raise WrongAnswer(words, where="arrivals(2, 2, 2)")
    on_many(answer, cases, lambda m, n, w: (m + n - 1) * 4 * w, what=what)
    return "A 2x2 cluster with two warpgroups counts 24 arrivals: three CTAs read, with eight warps each."


@exercise(
    "10.4",
    "A deadlock to find",
    hints=[
        "384 rows are three tiles, and a cluster has two CTAs. What does the CTA without a tile do?",
        "The report says which bytes are missing. Who should have sent them?",
        "Each CTA loads one half of B for both.",
        "In PTX, all threads of the CTA without a tile take one branch.",
    ],
)
def check_deadlock(answer: object) -> str:
    """A CTA without a tile that no longer loads its half of B."""
    from cutecourse.kernels import broken_text, hopper_clusters, twin

    broken = hopper_clusters.spec(384, 256, 320).with_text(broken_text("10.4"))
    text = repaired_text(answer, "10.4", twin(broken).ptx)
    for m in (256, 384):
        a, b, right = _operands(31, m, 256, 320)  # more k-tiles than stages
        same_outputs(
            hopper_clusters.spec(m, 256, 320).with_text(text),
            {"a": a, "b": b, "c": _empty(m, 256, "f2")},
            {"c": right},
            emulator_first=True,
            reports={
                "16384 bytes are missing": f"With {m} rows a CTA still waits for the half of B that its neighbour loads.",
                "lacks 8 of 16 arrivals": f"With {m} rows a CTA waits until its neighbour's warps have read a stage, and they "
                "do not say so. Those of a CTA without a tile have to arrive at `empty` as well.",
                "DeadlockError": f"With {m} rows the kernel stands still.",
            },
        )
    return "In a cluster nobody works for itself alone: the CTA without a tile loads half of B for its neighbour."


@exercise(
    "10.5",
    "An order of the tiles",
    hints=[
        "A group has height * columns tiles, except the last one. divmod gives the group and the place in it.",
        "In the group, divide by the number of its rows. In odd columns, count down from its last row.",
        "read(lambda number: tile_of(number, 32, 64, height), 32, 64) is the model for one height.",
    ],
)
def check_order(answer: object) -> str:
    """Groups of rows in a serpentine order, and the height that reads least."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer("Give the function and the best height.", got=type(answer).__name__)
    function, best = answer
    shapes = ((5, 4, 2), (10, 3, 4), (3, 5, 8), (64, 32, 8))
    cases = [(i, r, c, h) for r, c, h in shapes for i in range(r * c)]
    what = "the row and the column of the number-th tile"
    got = returned(function, cases, what=what)
    explained = {
        "Every column goes down. Columns 1, 3, ... of a group go up.": [_down(*case) for case in cases],
        "The last group has fewer rows: divide by the rows that it has.": [
            _snake(i, -(-r // h) * h, c, h) for i, r, c, h in cases
        ],
        "You swapped the row and the column.": [_snake(*case)[::-1] for case in cases],
    }
    right = [_snake(*case) for case in cases]
    for words, wrong in explained.items():
        if got == wrong != right:
            raise WrongAnswer(words, where="tile_of(...)")
    on_many(function, cases, _snake, what=what)
    same_int(
        best,
        min((2**i for i in range(6)), key=_read),
        meaning="the height that reads least",
        mistakes={
            1: "With a height of 1, the 132 tiles are whole rows, and all of B is read for two rows and a bit.",
            4: "Groups of 4 are too flat: 132 tiles are 1024 rows of C and more than 4096 columns.",
            16: "16 is the best height for the chapter's tiles of 128x256. These are twice as tall as wide, so fewer rows of tiles make a square.",
            32: "With a height of 32, the order goes down whole columns: all 32 rows of tiles are read for four columns and a bit.",
        },
    )
    return (
        "The rectangle of 132 tiles that is most like a square needs the fewest rows of A and B: "
        f"{_read(8):,} of them are read with groups of 8 and {_read(32):,} with columns."
    )


@exercise(
    "10.6",
    "A kernel to write: bias and ReLU",
    hints=[
        "for i in cutlass.range_constexpr(cute.size(acc)): each thread goes through its own sums.",
        "cells[i] is (m, n). The bias belongs to the column n: mBias[n].",
        "cutlass.max(x, cutlass.Float32(0)) is ReLU, and .to(cutlass.Float16) rounds.",
    ],
)
def check_finish(answer: object) -> str:
    """A fused bias and ReLU."""
    import numpy as np

    a, b, _ = _operands(37, 128, 192, 128)
    random = np.random.default_rng(38)
    bias = (random.integers(-900, 900, 192) / 8).astype(np.float32)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    empty = _empty(128, 192, "f2")

    def rounded(x: Any) -> Any:
        return np.asarray(x, np.float32).astype(np.float16)

    twice = rounded(np.maximum(rounded(product).astype(np.float32) + bias, 0))
    same_outputs(
        answer,
        {"a": a, "b": b, "bias": bias, "c": empty},
        {"c": rounded(np.maximum(product + bias, 0))},
        emulator_first=True,
        reports={
            "AddressError": "A thread reads past the end of the bias. Which part of cells[i] is the column?"
        },
        mistakes={
            "c": [
                (np.zeros_like(empty), "C is zero: finish sets nothing in `rounded`."),
                (rounded(product), "That is the product alone."),
                (rounded(product + bias), "The ReLU is missing: C has negative elements."),
                (rounded(np.maximum(product, 0) + bias), "The ReLU comes before the bias. It comes last."),
                (
                    rounded(np.maximum(product + np.resize(bias, 128)[:, None], 0)),
                    "You added the bias of the row. bias[n] belongs to column n.",
                ),
                (rounded(np.maximum(product, 0)), "The bias is missing."),
                (twice, "The sums are rounded to f16 before the bias is added. Round once, at the end."),
            ]
        },
    )
    return "The epilogue costs no traffic but the bias: the sums are in registers anyway."


@exercise(
    "10.7",
    "From f16 to fp8",
    hints=[
        "Which numbers in the file count elements, and which count bytes? An e4m3 has one byte.",
        "K of one instruction is 32 bytes. What is that in elements, and how many elements has a row of 128 bytes?",
        "`dtype` is the type of A and B in shared memory, of the MMA, and of C. C keeps its type.",
    ],
)
def check_fp8(answer: object) -> str:
    """The changes that make hopper_one a kernel for e4m3."""
    import numpy as np

    from cutecourse.dtypes import encode
    from cutecourse.kernels import Tensor, TensorMapSpec, hopper_one, twin
    from cutecourse.layout import parse

    pairs = list(answer.items()) if isinstance(answer, dict) else answer
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(one, str) for one in pair)
        for pair in pairs
    ):
        raise WrongAnswer("Give a list of pairs of texts.", got=type(answer).__name__)
    m, n, k = 128, 256, 256
    text = hopper_one.FILE.text
    if pairs and pairs[0][0] not in text:  # then they may be changes of its twin
        text = twin(hopper_one.spec(m, n, k)).ptx or ""
    for old, new in pairs:
        if text.count(old) != 1:
            raise WrongAnswer(
                f"The text appears in the file {text.count(old)} times. It must appear exactly once.",
                where=repr(old),
            )
        text = text.replace(old, new)

    def operand(name: str, rows: int) -> TensorMapSpec:
        layout = parse("S<3,4,3> o 0 o (128,128):(128,1)")
        return TensorMapSpec(name, "e4m3", (rows, k), (k, 1), smem_layout=layout, cta_tiler=(128, 128))

    spec = hopper_one.LAUNCH.with_text(
        text,
        grid=(m // 128, n // 128, 1),
        params=(operand("a", m), operand("b", n), Tensor("c", "f16", (m, n), (n, 1))),
    )
    random = np.random.default_rng(41)
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float32) for rows in (m, n))
    same_outputs(
        spec,
        {"a": encode(a, "e4m3"), "b": encode(b, "e4m3"), "c": _empty(m, n, "f2")},
        {"c": a @ b.T},
        emulator_first=True,
        reports={
            "extent in the K-mode": "K of one instruction is 32 bytes: 32 elements of e4m3.",
            re.compile("bytes are missing|lacks \\d+ bytes"): "`full` waits for more bytes than TMA brings. "
            "An e4m3 has one byte.",
            "expects the 'ab_dtype'": "MmaF16BF16Op takes only f16 and bf16.",
            "expects the 'a_dtype'": "`dtype` is still C's type, f16. A and B have another one now.",
            "equal source and destination element type": "The rounded sums have the type of A and B, and C is f16. "
            "Which lines of the epilogue use `dtype`?",
            "make_gmma_smem_desc": "A row of shared memory has to fill 128 bytes. How many elements of e4m3 are that?",
        },
    )
    return "A k-tile of 128 bytes stays one: twice the elements, the same bytes, the same barriers."


@exercise(
    "10.8",
    "A kernel to write: a rung from its specification",
    hints=[
        "hopper_roles has everything that you need. Here warp 4 loads, and warps 0 to 3 are the consumer.",
        "`full` counts one arrival and (64 + 128) * 64 * 2 bytes. `empty` counts four warps.",
        "wait_group(0), then the arrival at the stage's own `empty`, is enough. It leaves no wgmma in flight, but two stages hide the loads.",
    ],
)
def check_rung(answer: object) -> str:
    """A GEMM with a producer warp, a consumer warpgroup and two stages."""
    a, b, right = _operands(43, 128, 256, 320)
    inputs: dict[str, Any] = {"a": a, "b": b, "c": _empty(128, 256, "f4")}
    require_cleared(answer, inputs, "c")
    half, first = (a[:, :k].astype("f4") @ b[:, :k].astype("f4").T for k in (128, 64))
    same_outputs(
        answer,
        inputs,
        {"c": right.astype("f4")},
        emulator_first=True,
        mistakes={
            "c": [
                (inputs["c"], "C is unchanged: the kernel never stores its sums."),
                (half, "Only the first two k-tiles are in the sums."),
                (first, "Only the first k-tile is in the sums."),
                (
                    a[:, 256:].astype("f4") @ b[:, 256:].astype("f4").T,
                    "Only the last k-tile is in the sums. When is ACCUMULATE set to False?",
                ),
            ]
        },
        reports={
            "elect.sync": ELECTS,
            "waits at barrier 0": "sync_threads waits for all 160 threads, and the loading warp never gets there. In the "
            "main loop `full` and `empty` are enough.",
            re.compile(
                r"warps 0-3: [^\n]*mbarrier[^\n]*lacks \d+ of (4|128|160) arrivals"
            ): "The warps that multiply wait for `full`, which counts too many arrivals. Only one comes: that of the "
            "thread that expects the bytes.",
            re.compile(
                r"lacks [123] of 4 arrivals"
            ): "The loading warp waits for `empty`, which counts four warps, "
            "and not all of them arrive there.",
            re.compile(
                r"lacks 4 of 4 arrivals"
            ): "The loading warp waits for `empty`, and nobody has arrived there. "
            "In the first turn it must not wait: what is the parity of the phase before the first? If that is right, do the "
            "warps that multiply arrive, or do they wait for `full` with a wrong parity?",
            "BarrierCountError": "A barrier gets more arrivals than it counts. In each warp, one thread arrives.",
            AGAIN: "A stage is filled again while wgmma may still read it. What comes between commit_group and the "
            "arrival at `empty`?",
            TOO_EARLY: "A stage is read before its bytes are there: does `full` expect A and B, and does the "
            "warpgroup wait for it?",
            "TransactionBytesError": "The bytes do not add up: `full` has to expect both tiles of a stage.",
            "AccumulatorInFlight": "C is stored while a wgmma is still working on the registers: wait for the last group.",
        },
        notes={
            "no wgmma fence": "The sums are right, but nothing orders the registers' earlier uses before wgmma's."
        },
    )
    return "Loading and multiplying meet at two barriers only. The rest of the ladder changes who waits, and for how many."


def _operands(seed: int, m: int, n: int, k: int) -> tuple[np.ndarray[Any, Any], ...]:
    """A, B of small integers and their product in f16, which is exact."""
    import numpy as np

    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    return a, b, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


def _empty(m: int, n: int, kind: str) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.full((m, n), UNWRITTEN, kind)


def _down(number: int, rows: int, columns: int, height: int) -> tuple[int, int]:
    """Groups of rows in which every column goes down."""
    group, within = divmod(number, height * columns)
    column, down = divmod(within, min(height, rows - group * height))
    return group * height + down, column


def _snake(number: int, rows: int, columns: int, height: int) -> tuple[int, int]:
    """Groups of rows in which every second column goes up."""
    row, column = _down(number, rows, columns, height)
    group = number // (height * columns)
    last = min(height, rows - group * height) - 1
    return (row if column % 2 == 0 else group * height + last - (row - group * height)), column


def _read(height: int) -> int:
    """The rows of A and B that waves of 132 tiles of 256x128 read for C of 8192x8192."""
    tiles = [_snake(number, 32, 64, height) for number in range(32 * 64)]
    waves = [tiles[first : first + _AT_ONCE] for first in range(0, len(tiles), _AT_ONCE)]
    return sum(
        256 * len({row for row, _ in wave}) + 128 * len({column for _, column in wave}) for wave in waves
    )
