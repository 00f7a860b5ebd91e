"""Checks of the exercises of chapter 16, Attention in One Pass."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from cutecourse.checks.accumulators import UNWRITTEN
from cutecourse.checks.compare import repaired_text, returned, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer

if TYPE_CHECKING:
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec

_ROW = 75  # elements of a row of exercise 16.1
_Items = list[tuple[int, int]]
_OTHERS_TURN = re.compile(r"warp 1: line \d+, waits at barrier 2|warp 2: line \d+, waits at barrier 1")


@exercise(
    "16.1",
    "A kernel to write: the sum of a row, read once",
    hints=[
        "Each lane keeps two numbers, m and the sum, as in the page's example by hand. It goes through its own columns only.",
        "A lane's m starts before its first element. With minus infinity there, what is m - new for an element that is minus infinity?",
        "Two lanes join as two numbers do: take the larger m, bring both sums to it, add. Five shuffles, with 16, 8, 4, 2 and 1, join 32 lanes.",
    ],
)
def check_row_sum(answer: object) -> str:
    """A row's maximum and its sum of powers of two, in one pass."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec
    from cutecourse.runtime import run

    x = _logits()
    right = np.column_stack([x.max(1), (2.0 ** (x - x.max(1, keepdims=True))).sum(1)]).astype(np.float32)
    m, total = _of_lanes(x)
    masked, large = right.copy(), right.copy()
    masked[5, 1], large[1:3, 1] = np.nan, np.nan
    unjoined = np.column_stack([right[:, 0], total.sum(1)])
    never, sums = _of_lanes(x, rescales=False)
    unscaled = np.column_stack([right[:, 0], (sums * 2.0 ** (never - right[:, :1])).sum(1)])
    from_zero = np.maximum(right[:, :1], 0)
    from_zero = np.column_stack([from_zero, right[:, 1:] * np.exp2(right[:, :1] - from_zero)])
    whole_warps = _joined(*_of_lanes(x[:, :64]))
    even = _joined(m[:, ::2], total[:, ::2])
    given: dict[str, Any] = {"x": x, "y": np.full((6, 2), UNWRITTEN, np.float32)}
    same_outputs(
        answer,
        given,
        {"y": right},
        mistakes={
            "y": [
                (masked, "In row 5, lane 11 sees masked elements only. Its maximum is -inf then, and -inf - -inf is no number."),
                (large, "Rows 1 and 2 have elements near 200 and near -300: 2^x is infinite there, or zero. Take the maximum off first."),
                (np.column_stack([m[:, 0], total[:, 0]]), "This is lane 0's part of each row. The other 31 lanes have theirs."),
                (np.column_stack([right[:, 0], total[:, 0]]), "The maximum is the row's, and the sum is lane 0's alone."),
                (unjoined, "You added the lanes' sums as they were. Each is measured against its own lane's maximum."),
                (from_zero, "In row 2 all elements are below zero, and your maximum starts at zero. Start below all finite elements."),
                (whole_warps, "Columns 64 to 74 are missing: a row has two full steps of 32 columns, and a third that only some lanes take."),
                (even, "One shuffle is missing: lane 0 has joined only the even lanes. Five offsets join 32 lanes."),
                (right[:, ::-1], "The maximum goes to Y[row, 0] and the sum to Y[row, 1]."),
                (unscaled, "When a lane's maximum grows, its sum so far has to be multiplied by 2^(old - new)."),
            ]
        },
    )  # fmt: skip
    assert isinstance(answer, LaunchSpec)  # same_outputs has refused everything else
    memory = run(answer, device="emulator", memory_report=True, **given).memory
    assert memory is not None
    loads = sum(row.executions for row in memory.of(space="global", kind="load"))
    if loads > 6 * 3:
        raise WrongAnswer(
            "The result is right, but elements are loaded more than once. A row of 75 elements takes three loads of its warp.",
            expected="18 loads by the six warps",
            got=f"{loads} loads",
        )
    return (
        "Two numbers for each lane stand for all that it has read, and two such pairs join like two elements."
    )


def _logits() -> np.ndarray[Any, Any]:
    """Rows of whole numbers: plain, large, small, growing, falling, and one with masked elements."""
    import numpy as np

    x = np.random.default_rng(16).integers(-5, 6, (6, _ROW)).astype(np.float32)
    x[1] += 195
    x[2] -= 295
    x[3] = np.arange(_ROW) // 8
    x[4] = -x[3]
    x[5, 3:70] = -np.inf
    return x


def _of_lanes(
    x: np.ndarray[Any, Any], *, rescales: bool = True
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The maximum and the sum of each lane in each row, f32; without the factor where it never rescales."""
    import numpy as np

    m, total = np.full((len(x), 32), -1e30, np.float32), np.zeros((len(x), 32), np.float32)
    for first in range(0, _ROW, 32):
        part = x[:, first : first + 32]
        lanes = slice(0, part.shape[1])
        new = np.maximum(m[:, lanes], part)
        factor = 2.0 ** (m[:, lanes] - new) if rescales else 1
        total[:, lanes] = total[:, lanes] * factor + 2.0 ** (part - new)
        m[:, lanes] = new
    return m, total


def _joined(m: np.ndarray[Any, Any], total: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The maximum and the sum of each row, from those of its lanes."""
    import numpy as np

    top = m.max(1, keepdims=True)
    return np.column_stack([top[:, 0], (total * 2.0 ** (m - top)).sum(1)])


@exercise(
    "16.2",
    "P for an fp8 MMA",
    hints=[
        "Lane 0 has the columns 0 and 1 of each of the four blocks: which eight keys are these? Which eight columns of A does it need?",
        "Write k as c + 2 b + 4 q + 16 h. The lane is q, so q must choose among the four pairs of a block.",
        "The layout has four modes: (2, 2, 4, 2). What does each of c, b, q and h add to the key?",
    ],
)
def check_keys(answer: object) -> str:
    """An order of the keys in which accumulators are an fp8 operand without a shuffle."""
    from cutecourse.atoms import mma_atom
    from cutecourse.layout import Layout, LayoutError, parse, size

    if isinstance(answer, str):
        try:
            answer = parse(answer)
        except LayoutError as error:
            raise WrongAnswer(f"The text is not a layout: {error}") from error
    if not isinstance(answer, Layout):
        raise WrongAnswer("Give a layout.", expected="Layout(...)", got=type(answer).__name__)
    if size(answer) != 32:
        raise WrongAnswer(
            "An operand A has 32 columns of keys.", expected="a layout of size 32", got=f"size {size(answer)}"
        )
    keys = [int(answer(k)) for k in range(32)]
    if sorted(keys) != list(range(32)):
        raise WrongAnswer(
            "Each of the keys 0 to 31 stands in one column. This layout leaves some out.",
            got=f"{len(set(keys))} different keys, the largest is {max(keys)}",
        )
    atom = mma_atom("SM89_16x8x32_F32E4M3E4M3F32_TN")
    for lane in range(32):
        has = {(m, n + 8 * block) for _, (m, n) in atom.cells("C", lane) for block in range(4)}
        for _, (m, k) in atom.cells("A", lane):
            if (m, keys[k]) in has:
                continue
            if keys == list(range(32)):
                said = "With the keys in their own order, a lane needs four neighbouring keys, and has two."
            elif [keys.index(k) for k in range(32)] == _keys():
                said = "Is this the layout from the key to the column? It is asked for the other way round."
            else:
                said = f"Lane {lane} needs an element that another lane has."
            raise WrongAnswer(
                said,
                where=f"lane {lane}, row {m}, column {k} of A",
                expected=f"one of its keys {sorted(n for row, n in has if row == m)}",
                got=str(keys[k]),
            )
    return "The order of the keys is free, as long as V's rows follow it. It is chosen so that no element has to move."


def _keys() -> list[int]:
    """The key in each column, block after block."""
    return [k % 2 + k // 2 % 2 * 8 + k // 4 % 4 * 2 + k // 16 * 16 for k in range(32)]


@exercise(
    "16.3",
    "A bug to find: a row in sixty-four",
    hints=[
        "Row 63 is right and row 62 is not. Which key lies between them?",
        "Row 63 would see key 64, if that key were in a tile that its CTA goes through.",
        "`end` is the first key that a row does not see.",
    ],
)
def check_mask(answer: object) -> str:
    """A causal mask that lets a row see one key more."""
    import numpy as np

    from cutecourse.kernels import attention_online, broken_text, twin

    spec = attention_online.spec(1, 150, causal=True)
    text = repaired_text(answer, "16.3", twin(spec.with_text(broken_text("16.3"))).ptx)
    # Each logit is 64 above the one before, so the last key that a row sees has all the weight: O is its row of V.
    q, k, v = np.zeros((3, 1, 150, 64), np.float16)
    q[0, :, 0], k[0, :, 0] = 32, 16 * np.arange(150)
    v[0] = np.random.default_rng(163).integers(-8, 9, (150, 64))
    row = np.arange(150)
    more = np.where((row % 64 == 63) | (row == 149), row, row + 1)
    fewer = v[0][np.maximum(row - 1, 0)]
    fewer[0] = np.nan
    same_outputs(
        spec.with_text(text),
        {"q": q, "k": k, "v": v, "o": np.full((1, 150, 64), UNWRITTEN, np.float16)},
        {"o": v},
        mistakes={
            "o": [
                (
                    v[:, more],
                    "A row still sees the key after its own, except where that key is in the next tile.",
                ),
                (fewer[None], "Now a row does not see its own key. Row 0 sees none at all."),
                (
                    v[:, np.minimum(row | 63, 149)],
                    "Nothing is masked: in its last tile, a row sees all keys.",
                ),
            ]
        },
    )
    return "At a tile's edge the loop hides what the mask lets through. So look at the rows beside the edge, and not only at the last one."


@exercise(
    "16.4",
    "Causal blocks for CTAs that don't ask",
    hints=[
        "Sort all items by their cost first. In which order do the first 132 go to the CTAs, and which CTA has the most then?",
        "Who got the most in the first round should get the least in the second.",
        "Turn every second round around: the list goes down and up like a snake.",
    ],
)
def check_causal_order(answer: object) -> str:
    """A list of causal blocks that loads all CTAs alike."""
    cases = [(8, 32, 64), (16, 16, 132), (4, 12, 10), (3, 8, 5)]
    for case, order in zip(cases, returned(answer, cases, what="the list of all (head, block)"), strict=True):
        heads, blocks, ctas = case
        where = f"causal_order({heads}, {blocks}, {ctas})"
        items = [(head, block) for head in range(heads) for block in range(blocks)]
        if not isinstance(order, tuple):
            raise WrongAnswer("Return a list.", where=where, expected="a list", got=type(order).__name__)
        try:
            given = sorted(tuple(item) for item in order)
        except TypeError:
            given = []
        if given != items:
            turned = given == sorted((block, head) for head, block in items)
            raise WrongAnswer(
                "Each item is (head, block), and here the block stands first."
                if turned
                else "The list has to hold each (head, block) once.",
                where=where,
                expected=f"{len(items)} pairs",
                got=f"{len(given)}",
            )
        least, got = _slowest(_snake(heads, blocks, ctas), ctas), _slowest([*order], ctas)
        if got <= least:
            continue
        costs = [block for _, block in order]
        cheapest = costs.index(0)
        if costs in (sorted(costs), sorted(costs, reverse=True)):
            said = "The list is sorted by cost, and in each round the same CTAs get the dearer items."
        elif got >= _slowest(items, ctas):
            said = "This is no better than one head after the other."
        elif costs == sorted(costs[:cheapest], reverse=True) + sorted(costs[cheapest:]):
            said = "The list goes down and up only once. Turn it around after every round of the CTAs."
        else:
            said = "Some CTA gets dear items again and again: who gets most in one round has to get least in the next."
        raise WrongAnswer(
            said, where=where, expected=f"{least} tiles for the slowest CTA", got=f"{got} tiles"
        )
    return "Long items first, and every second round turned around: what a CTA has too much of, its next item makes up for."


@exercise(
    "16.5",
    "A bug to find: the turn that goes nowhere",
    hints=[
        "Which barrier does warp 2 wait at, and who should arrive there?",
        "64 threads complete a turn: the 32 that wait, and 32 arrivals. May both be the same warp's?",
        "After its MMAs, a consumer arrives at a barrier. At which one?",
    ],
)
def check_turn(answer: object) -> str:
    """A consumer that hands the next turn to itself."""
    from cutecourse.runtime import run

    spec, given = _turns(repaired_text(answer, "16.5"))
    same_outputs(
        spec,
        given,
        {"o": _of_keys(given)},
        emulator_first=True,
        reports={
            _OTHERS_TURN: "A consumer waits at the barrier of the other's turn, and not at its own.",
            "BarrierError": "64 threads complete a turn: 32 that wait and 32 that arrive.",
            "waits at barrier 1": "The first consumer never gets its turn.",
            "waits at barrier 2": "The second consumer never gets its turn.",
            "DeadlockError": "The kernel stands still.",
        },
    )
    trace = run(spec, device="emulator", trace=True, **given).trace
    assert trace is not None
    turns = Counter(event["number"] for event in trace.of("barrier.wait"))
    if (turns[1], turns[2]) != (4, 4):
        raise WrongAnswer(
            "The result is right, but the consumers no longer take turns.",
            expected="4 waits at barrier 1 and 4 at barrier 2, one per tile",
            got=f"{turns[1]} and {turns[2]}",
        )
    if own := {(1, 1), (2, 2)} & {(event.warp, event["number"]) for event in trace.of("barrier.arrive")}:
        raise WrongAnswer(
            "The result is right, but a consumer gives a turn to itself, so nobody waits for the other.",
            got=", ".join(f"warp {warp} arrives at barrier {number}" for warp, number in sorted(own)),
        )
    return "A turn is given, not taken: a warp waits at its own barrier and arrives at the other's."


@exercise(
    "16.6",
    "A bug to find: V under the second product",
    hints=[
        "The report names a line that writes and a line that has read. What lies at byte 512 of a stage?",
        "`empty` tells the producer that nobody will read the stage again.",
        "Which instruction is the last one that reads the stage?",
    ],
)
def check_free(answer: object) -> str:
    """A stage that is freed before the second product has read V."""
    spec, given = _turns(repaired_text(answer, "16.6"))
    same_outputs(
        spec,
        given,
        {"o": _of_keys(given)},
        emulator_first=True,
        reports={
            "SharedMemoryRace": "The producer still overwrites a stage that a consumer reads.",
            "mbarrier empty": "The producer waits for a stage that nobody frees.",
        },
    )
    return "A stage belongs to its consumers until the last product that reads it, and with attention there are two."


@exercise(
    "16.7",
    "A bug to find: two readers of one stage",
    hints=[
        "The report names a stage and the warp that copies into it. Who said that the stage was free?",
        "A tile of K is multiplied with the queries of tile 0 and with those of tile 1. A commit tells that both have been.",
        "`%frees` is true for one lane, in the round of one of the two tiles. Of which?",
    ],
)
def check_both_tiles(answer: object) -> str:
    """A stage that is freed by the first of its two readers."""
    import numpy as np

    from cutecourse.kernels.files import kernel_module

    launch: LaunchSpec = kernel_module("umma_attention.faults").LAUNCH
    spec = launch.with_text(repaired_text(answer, "16.7"))
    # A query sees one key alone, its own: two keys that differ in a bit have logits that differ by 16.
    signs = 1.0 - 2 * (np.arange(200)[:, None] >> np.arange(8) & 1)
    q, k = (np.zeros((1, 200, 64), np.float16) for _ in range(2))
    q[0, :, :8], k[0, :, :8] = 64 * signs, signs
    v = np.random.default_rng(167).integers(1, 9, q.shape).astype(np.float16)
    same_outputs(
        spec,
        {"q": q, "k": k, "v": v, "o": np.full(q.shape, UNWRITTEN, np.float16)},
        {"o": v},
        emulator_first=True,
        reports={
            "ReadBeforeWait": "The stage still goes back while tile 1's MMAs have yet to read it.",
            "DeadlockError": "The load warp waits for a stage that nobody frees.",
        },
    )
    return "K and V are read twice in this kernel. The last reader frees, and a commit behind its MMAs speaks for the first one too."


@exercise(
    "16.8",
    "How many keys fit into tensor memory",
    hints=[
        "A row of S has one column for each key, and a row of O one for each element of the head.",
        "P is f16: two keys share a column.",
        "Two tiles: 2 S + 2 O + 2 P <= 512, in columns. Then round down to whole MMAs.",
    ],
)
def check_keys_that_fit(answer: object) -> str:
    """The keys of a round for which two tiles fit into tensor memory."""
    depths = (64, 32, 96, 128, 192, 256)
    got = returned(answer, [(depth,) for depth in depths], what="the keys of a round")

    def fitting(columns_per_key: float, per_element: int = 2, step: int = 16) -> list[int]:
        return [int((512 - per_element * depth) / columns_per_key) // step * step for depth in depths]

    mistakes = [
        (fitting(4), "P is f16, so two keys share a column: P has half as many columns as S."),
        (fitting(2), "P has columns of its own, too."),
        (fitting(3, step=1), "An MMA of P and V takes 16 keys: round down to a multiple."),
        (fitting(3, per_element=1), "There are two tiles, and each has an O."),
        (fitting(1.5, per_element=1), "This is one tile's room. There are two of them."),
        (fitting(3, per_element=0), "O lies in tensor memory as well."),
        ([keys // 16 for keys in fitting(3)], "These are MMAs. Each takes 16 keys."),
        (
            [-(-keys // 16) * 16 for keys in fitting(3, step=1)],
            "Rounded up to a multiple of 16, the keys no longer fit.",
        ),
        (fitting(3, step=32), "An MMA of P and V takes 16 keys, not 32."),
    ]
    right = fitting(3)
    if got != right:
        said = next((words for wrong, words in mistakes if got == wrong), "Some of these numbers are wrong.")
        place = next(i for i, (mine, one) in enumerate(zip(got, right, strict=True)) if mine != one)
        raise WrongAnswer(
            said, where=f"keys_that_fit({depths[place]})", expected=str(right[place]), got=str(got[place])
        )
    return "With heads of 128 only 80 keys fit, and with 256 none: O alone is full then. So kernels for such heads put P over S, or take one tile."


def _turns(text: str) -> tuple[LaunchSpec, dict[str, Any]]:
    """The launch of a text in place of attention_turns, and its arguments.

    In each query, one key has all the weight, so that O is exact: query i sees key 2 i alone.
    """
    import numpy as np

    from cutecourse.kernels import attention_turns

    q, k = np.zeros((32, 16), np.float16), np.zeros((64, 16), np.float16)
    # The bits of a number as signs: two numbers that differ in a bit have a logit less by 32.
    q[:, :6] = 64 - 128 * (2 * np.arange(32)[:, None] >> np.arange(6) & 1)
    k[:, :6] = 1 - 2 * (np.arange(64)[:, None] >> np.arange(6) & 1)
    v = (
        np.random.default_rng(165).integers(1, 9, (64, 16)).astype(np.float16)
    )  # a weight of 1e-14 would show beside 0
    given = {"q": q, "k": k, "v": v, "o": np.full((32, 16), UNWRITTEN, np.float32)}
    return attention_turns.LAUNCH.with_text(text), given


def _of_keys(given: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return what the kernel of `_turns` should store: the row of V of the one key that each query sees."""
    import numpy as np

    v: np.ndarray[Any, Any] = given["v"]
    return v[2 * np.arange(32)].astype(np.float32)


def _snake(heads: int, blocks: int, ctas: int) -> _Items:
    """All items by falling cost, every second round of the CTAs turned around."""
    items = [(head, block) for block in reversed(range(blocks)) for head in range(heads)]
    rounds = [items[first : first + ctas] for first in range(0, len(items), ctas)]
    return [item for number, one in enumerate(rounds) for item in (one[::-1] if number % 2 else one)]


def _slowest(order: _Items, ctas: int) -> int:
    """The tiles of the CTA that has the most."""
    return max(sum(block + 1 for _, block in order[cta::ctas]) for cta in range(ctas))
