"""Checks of the exercises of chapter 5, A GEMM on any GPU."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import same_int, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer


@exercise(
    "05.1",
    "How many in flight?",
    hints=[
        "How many MMAs can start before the first one's result is ready?",
        "33 / 8 is not a whole number. What happens with the whole number below it, and with the one above?",
    ],
)
def check_in_flight(answer: object) -> str:
    """The independent MMAs that cover a latency."""
    if isinstance(answer, float) and not answer.is_integer():
        raise WrongAnswer(
            "Only whole MMAs can be in flight. Does the whole number below this one cover the latency?",
            expected="a whole number",
            got=str(answer),
        )
    same_int(
        answer,
        5,
        meaning="the independent MMAs on one tensor core",
        mistakes={
            4: "Four MMAs cover 32 cycles, but the first result comes after 33: the tensor core waits one cycle in each round.",
            264: "Multiplying latency and interval has no meaning here: how many intervals fit into the latency?",
            20: "The question is about one tensor core, not about a multiprocessor with four.",
            33: "One MMA per cycle would need that many. This tensor core starts one every 8 cycles.",
            8: "That is the interval between two MMAs.",
        },
    )
    return "You need the latency divided by the interval, rounded up."


@exercise(
    "05.2",
    "Read a datasheet",
    hints=[
        "How many multiply-adds does one m16n8k16 do? How many operations does the datasheet count for each?",
        "Divide the rate by 2, by the number of tensor cores and by the clock. This gives multiply-adds per cycle on one tensor core.",
    ],
)
def check_interval(answer: object) -> str:
    """The cycles between two MMAs at a datasheet's rate."""
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, float) and 0 < answer < 1:
        raise WrongAnswer(
            "This looks like MMAs per cycle. The question asks for cycles per MMA.",
            expected="more than one cycle",
            got=str(answer),
        )
    same_int(
        answer,
        8,
        meaning="the cycles between two m16n8k16 on one tensor core",
        mistakes={
            4: "A multiply-add counts as two operations in a datasheet.",
            2: "That is the interval of a whole multiprocessor. It has four tensor cores.",
            1: "A multiply-add counts as two operations, and a multiprocessor has four tensor cores.",
            16: "You counted the two operations of a multiply-add twice.",
            32: "A multiprocessor has four tensor cores, and each does a quarter of its work.",
            256: "That is the number of multiply-adds per cycle. How many cycles does one m16n8k16 take?",
        },
    )
    return "This is the shortest interval that the promised rate allows. A measured one can only be longer."


@exercise(
    "05.3",
    "A bug to find",
    hints=[
        "Write down for each of the four MMAs which accumulator it reads and which one it writes.",
        "An MMA of a chain reads the same accumulator that it writes.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """An MMA that reads the other chain's accumulator."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, Tensor

    if not isinstance(answer, str):
        raise WrongAnswer("Give the PTX text.", expected="a str", got=type(answer).__name__)
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 9, (16, 64)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 64)).astype(np.float16)
    steps: list[Any] = [
        a[:, k : k + 16].astype(np.float32) @ b[:, k : k + 16].astype(np.float32).T for k in range(0, 64, 16)
    ]
    spec = LaunchSpec(
        name="two_chains",
        front="ptx",
        ptx=answer,
        entry="two_chains",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=(
            Tensor("a", "f16", (16, 64), (64, 1)),
            Tensor("b", "f16", (8, 64), (64, 1)),
            Tensor("c", "f32", (16, 8), (8, 1)),
        ),
    )
    same_outputs(
        spec,
        {"a": a, "b": b, "c": np.full((16, 8), np.nan, np.float32)},
        {"c": sum(steps)},
        emulator_first=True,
        mistakes={
            "c": [
                (
                    2 * steps[0] + 2 * steps[2] + steps[3],
                    "The first chain is counted twice and step 1 is lost: an MMA still adds to the other chain.",
                ),
                (steps[0] + steps[2] + steps[3], "Step 1 is lost: its sum is overwritten."),
            ]
        },
    )
    if "{%c4, %c5, %c6, %c7}" not in answer.partition("step 3")[2].partition("// the sum")[0]:
        raise WrongAnswer(
            "The product is right, but three steps now form one chain, which takes longer than two chains of two."
        )
    return "Two chains of two steps need two accumulators, which are added at the end."


@exercise(
    "05.4",
    "A kernel to write: one tile for each block",
    hints=[
        "x, y, _ = cute.arch.block_idx(). Cut the tiles first, then partition them as in chapter 2.",
        "Which of A, B and C depend on x, and which on y?",
        "Clear the accumulator once, and step through mode 2 of the fragments.",
    ],
)
def check_gemm_tiles(answer: object) -> str:
    """A product over a grid of blocks."""
    import numpy as np

    rng = np.random.default_rng(13)
    a = rng.integers(-8, 9, (32, 32)).astype(np.float16)
    b = rng.integers(-8, 9, (24, 32)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    right: Any = wide_a @ wide_b.T
    empty: Any = np.full((32, 24), UNWRITTEN, np.float32)
    first_only: Any = empty.copy()
    first_only[:16, :8] = right[:16, :8]
    same_b: Any = np.tile(right[:, :8], (1, 3))
    b_by_x: Any = np.vstack([np.tile(right[:16, :8], (1, 3)), np.tile(right[16:, 8:16], (1, 3))])
    inputs: dict[str, Any] = {"a": a, "b": b, "c": empty}
    require_cleared(answer, inputs, "c")
    same_outputs(
        answer,
        inputs,
        {"c": right},
        emulator_first=True,
        reports={
            "AddressError": "A block uses a tile that does not exist. x counts the 2 tiles along M, which A and C have. "
            "y counts the 3 tiles along N, which B and C have."
        },
        mistakes={
            "c": [
                (empty, "C is as it was before: the kernel never stores its accumulator."),
                (
                    same_b,
                    "Every block multiplies by the first tile of B. The tile of B depends on y: (y, 0).",
                ),
                (
                    b_by_x,
                    "You chose the tile of B by x. The rows of B are the columns of C, and y counts these.",
                ),
                (first_only, "Only the first tile of C is written: every block works on the same tile."),
                (
                    np.tile(right[:16, :8], (2, 3)),
                    "Every tile of C holds the first tile's product: A and B are not cut into tiles.",
                ),
                (
                    wide_a[:, :16] @ wide_b[:, :16].T,
                    "That is the product over k = 0 to 15 only: one step is missing.",
                ),
                (
                    wide_a[:, 16:] @ wide_b[:, 16:].T,
                    "That is the product over k = 16 to 31 only: the first step's sum is lost.",
                ),
            ]
        },
    )
    return "Block (x, y) reads rows of tiles x of A and y of B, and writes tile (x, y) of C. Every block works alone."
