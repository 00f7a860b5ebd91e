"""Checks of the exercises of chapter 5, A GEMM on any GPU."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import repaired_text, same_int, same_outputs
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
    "Choose a permutation",
    hints=[
        "The layout takes a position in the atoms' order. Which parts does a position have: value, thread of the row, warp, atom? How many of each are there?",
        "The two values of an atom are neighbours. Four threads share a row of an atom. How far apart must two such threads be, if each owns 8 columns?",
        "A thread owns four atoms' pairs. Its next pair has to begin 2 columns further.",
    ],
)
def check_permutation(answer: object) -> str:
    """A permutation of N with which each thread owns 8 neighbouring columns."""
    from cutecourse.atoms import make_tiled_mma
    from cutecourse.layout import Layout, LayoutError, parse, size

    if isinstance(answer, int):
        raise WrongAnswer(
            "A plain size permutes nothing. Give a layout.", expected="a layout", got=str(answer)
        )
    if isinstance(answer, str):
        try:
            answer = parse(answer)
        except LayoutError as error:
            raise WrongAnswer(f"The text is not a layout: {error}") from error
    if not isinstance(answer, Layout):
        raise WrongAnswer("Give a layout for N.", expected="Layout(...)", got=type(answer).__name__)
    if size(answer) != 64:
        raise WrongAnswer(
            f"The layout {answer} holds {size(answer)} columns. The tile has 64, and the permutation takes each of them once.",
            expected="a layout of size 64",
            got=str(answer),
        )
    reached = sorted(int(answer(position)) for position in range(64))
    if reached != list(range(64)):
        raise WrongAnswer(
            "The layout has to give each of the columns 0 to 63 once. It gives "
            f"{len(set(reached))} different columns, and the largest is {reached[-1]}.",
            got=str(answer),
        )
    tiled_mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (None, answer, None))
    for thread in range(128):
        part = tiled_mma.get_slice(thread).partition_C(Layout((32, 64), (64, 1)))
        places = sorted(int(part.offset + part.layout(value)) for value in range(int(size(part.layout))))
        mine = [place % 64 for place in places[:8]]
        if mine == list(range(mine[0], mine[0] + 8)) and mine[0] % 8 == 0:
            continue
        run = next((count for count in range(1, 8) if mine[count] != mine[count - 1] + 1), 8)
        said = {
            2: "The pairs of a thread are not next to each other: between them lie other threads' columns. "
            "The stride of the threads decides how much room each has. The modes stand in the order of the position: "
            "value, thread, warp, atom.",
            4: "Four neighbouring columns are 8 bytes of f16. A thread owns four atoms' pairs in each row, so it can have 8.",
        }.get(run, "The columns of a thread do not begin at a multiple of 8.")
        raise WrongAnswer(
            said, where=f"thread {thread}, row {places[0] // 64}", expected="8 neighbours", got=str(mine)
        )
    return (
        "The values of an atom are neighbours, and a thread's next atom follows 2 columns further. "
        "The strides of threads and warps are multiples of 8, so each thread's columns stay together."
    )


@exercise(
    "05.4",
    "The smallest square warp tile",
    hints=[
        "Count cycles for 16 steps of K: MMAs, reads by the four warps, fills by cp.async.",
        "Four warps, two along M and two along N, make a block of 2s by 2s. cp.async writes 4s rows of 32 bytes.",
    ],
)
def check_smallest(answer: object) -> str:
    """The smallest s whose MMAs take at least as long as shared memory."""
    if isinstance(answer, int) and answer % 16:
        raise WrongAnswer("The edge has to be a multiple of 16.", got=str(answer))
    same_int(
        answer,
        96,
        meaning="the edge of the warp tile",
        mistakes={
            64: "With 64, the reads alone take as long as the MMAs. cp.async has to write the stages as well.",
            48: "You counted elements as if each had one byte. An f16 has two.",
            192: "A multiply-add counts once here: 2048 multiply-adds per cycle, not 1024.",
            128: "128 is large enough, but a smaller multiple of 16 is, too.",
            80: "With 80, the MMAs take 200 cycles and shared memory takes 240.",
            112: "112 is large enough, but a smaller multiple of 16 is, too.",
            32: "With 32, the MMAs take 32 cycles and the reads alone take 64.",
        },
    )
    return (
        "MMAs grow with the area, reads and fills with the edges. A faster tensor core needs a larger tile."
    )


@exercise(
    "05.5",
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

    text = repaired_text(answer, "05.5")
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 9, (16, 64)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 64)).astype(np.float16)
    steps: list[Any] = [
        a[:, k : k + 16].astype(np.float32) @ b[:, k : k + 16].astype(np.float32).T for k in range(0, 64, 16)
    ]
    spec = LaunchSpec(
        name="two_chains",
        language="ptx",
        ptx=text,
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
    if "{%c4, %c5, %c6, %c7}" not in text.partition("step 3")[2].partition("// the sum")[0]:
        raise WrongAnswer(
            "The product is right, but three steps now form one chain, which takes longer than two chains of two."
        )
    return "Two chains of two steps need two accumulators, which are added at the end."


@exercise(
    "05.6",
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
                (empty, "C is unchanged: the kernel never stores its accumulator."),
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
                    2 * right,
                    "Everything is counted twice: cute.gemm without an index for K already takes all steps, and your loop calls it for each step.",
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


@exercise(
    "05.7",
    "A kernel to write: a GEMM with bias",
    hints=[
        "Four warps share the tile: cute.make_layout((2, 2, 1)) is the second argument of make_tiled_mma.",
        "The bias of C[m, n] depends on n only. Which strides has a 64x64 tensor that shows the bias in each row?",
        "Cut the bias and partition it as you do with C. Then it has the accumulator's shape, and the accumulator can start from it.",
    ],
)
def check_gemm_bias(answer: object) -> str:
    """A product plus a bias for each column."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec
    from cutecourse.runtime import run

    rng = np.random.default_rng(17)
    a, b = (rng.integers(-8, 9, (64, 32)).astype(np.float16) for _ in "ab")
    bias = rng.integers(1, 200, 64).astype(np.float32)
    product: Any = a.astype(np.float32) @ b.astype(np.float32).T
    empty: Any = np.full((64, 64), UNWRITTEN, np.float32)
    inputs: dict[str, Any] = {"a": a, "b": b, "bias": bias, "c": empty}
    require_cleared(answer, inputs, "c")
    same_outputs(
        answer,
        inputs,
        {"c": product + bias},
        emulator_first=True,
        reports={
            "AddressError": "A thread reads or writes outside a matrix. Do the warps fit the tile? Along M they have 32 rows, "
            "which are two atoms, and along N 32 columns, which are four.",
        },
        mistakes={
            "c": [
                (empty, "C is unchanged: the kernel never stores its accumulator."),
                (product, "That is the product without the bias."),
                (
                    product + bias[:, None],
                    "You added the bias of the row. It belongs to the column: C[m, n] gets bias[n], so the stride along M is 0.",
                ),
                (
                    product + np.tile(bias[:32], 2),
                    "Each block adds the first 32 elements of the bias. Block (x, y) needs those of its own columns: cut the bias as you cut C.",
                ),
                (
                    product
                    + bias.reshape(2, 1, 32).repeat(32, axis=1).reshape(64, 32)[:, np.tile(np.arange(32), 2)],
                    "You chose the part of the bias by x. The bias belongs to the columns of C, and y counts these.",
                ),
                (
                    2 * product + bias,
                    "The product is counted twice: cute.gemm without an index for K already takes all steps, and your loop calls it for each step.",
                ),
                (
                    product + 2 * bias,
                    "The bias is added twice: once before the steps along K and once after, or once in each step.",
                ),
                (
                    np.tile(bias, (64, 1)),
                    "C holds the bias alone: the products are lost. Does the accumulator start from the bias and keep it?",
                ),
                (
                    a[:, :16].astype(np.float32) @ b[:, :16].astype(np.float32).T + bias,
                    "The product covers k = 0 to 15 only: one step is missing.",
                ),
            ]
        },
    )
    assert isinstance(answer, LaunchSpec)  # same_outputs has refused everything else
    given = {name: array.copy() for name, array in inputs.items()}
    memory = run(answer, device="emulator", memory_report=True, **given).memory
    assert memory is not None
    times = memory.of(space="global", kind="store").global_least // (empty.nbytes // 32)
    if times > 1:
        raise WrongAnswer(
            f"C is right, but each cell is computed and stored {times} times. Do the four warps share the tile? "
            "Without a second argument, make_tiled_mma is for one warp.",
            expected="each cell stored once",
            got=f"{times} times",
        )
    return "A bias is a C whose stride along M is 0. The same partition gives each thread the values for its own cells."
