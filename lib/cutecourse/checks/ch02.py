"""Checks of the exercises of chapter 2, Hello, MMA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutecourse.atoms import mma_atom
from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import (
    on_many,
    repaired_text,
    returned,
    same_layout,
    same_outputs,
    same_sequence,
)
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer

TF32 = "SM80_16x8x8_F32TF32TF32F32_TN"
BYTES = "SM80_16x8x32_S32S8S8S32_TN"


@exercise(
    "02.1",
    "Who owns A[m,k]?",
    hints=[
        "The thread mode is `(4,8):(16,1)`. A step of 16 in the offset is one column to the right.",
        "The first mode of the threads covers four columns, the second covers eight rows. Who holds the cells beyond them?",
    ],
)
def check_owner(answer: object) -> str:
    """The owner of each cell of A of the TF32 atom."""
    atom = mma_atom(TF32)
    cells = [(m, k) for m in range(16) for k in range(8)]
    given = returned(answer, cells, what="the thread that holds A[m,k]")
    slips: dict[str, Callable[[int, int], int]] = {
        "That is the map of C, where a thread holds two neighbours of a row. Here neighbouring columns belong to "
        "neighbouring threads.": lambda m, k: m % 8 * 4 + k // 2,
        "The upper half is right. A warp has 32 threads, and rows 8 to 15 begin again with thread 0.": lambda m, k: (
            m * 4 + k % 4
        ),
        "The left half is right. Columns 4 to 7 belong to the same four threads again, as other values.": (
            lambda m, k: m % 8 * 4 + k
        ),
        "That counts threads down a column. The first mode of the threads has the stride 16, which is one column "
        "to the right: thread 1 holds A[0,1].": lambda m, k: k % 4 * 8 + m % 8,
    }
    for message, slip in slips.items():
        if given == [slip(m, k) for m, k in cells]:
            raise WrongAnswer(message)
    on_many(answer, cells, lambda m, k: atom.owner("A", (m, k))[0], what="the thread that holds A[m,k]")
    return "Four threads share a row, eight such groups cover eight rows, and the values repeat this in both directions."


@exercise(
    "02.2",
    "Where is A[9,21]?",
    hints=[
        "The four blocks of A have 8 rows and 16 columns each. Which of them holds row 9 and column 21?",
        "Inside its block the element lies in row 1 and column 5. Four threads share a row, four bytes each.",
    ],
)
def check_place(answer: object) -> str:
    """Thread, register and byte of one element of A."""
    atom = mma_atom(BYTES)
    thread, value = atom.owner("A", (9, 21))
    register, byte = atom.register_of("A", value)
    mistakes: dict[tuple[object, ...], str] = {
        (
            thread,
            value,
            byte,
        ): "The second number counts values. Give the register: four values share a register.",
        (
            thread,
            1,
            byte,
        ): "Register a1 holds rows 8 to 15 of columns 0 to 15. Column 21 is in the other half.",
        (thread, 2, byte): "Register a2 holds columns 16 to 31 of rows 0 to 7. Row 9 is in the other half.",
        (
            thread + 1,
            register,
            byte,
        ): "With 16-bit values a thread holds two neighbours of a row. With bytes it holds four.",
        (
            9,
            21,
            0,
        ): "These are the row and the column. The thread comes first, then its register, then the byte in the register.",
    }
    mistakes[9 * 4 + byte, register, byte] = (
        "A warp has threads 0 to 31. Row 9 is row 1 of its block, and its threads begin again with those of row 1."
    )
    mistakes[thread, register, 21 % 16] = (
        "The byte is a number from 0 to 3. Count it from the thread's own first column."
    )
    mistakes[thread, f"a{register}", byte] = (
        f"This is right. Give the register as a number: {register} for a{register}."
    )
    for other in range(4):
        if other != byte:
            mistakes[thread, register, other] = (
                "Thread and register are right. The byte counts from the thread's own first column, not from the row's."
            )
    same_sequence(
        answer,
        (thread, register, byte),
        meaning="(thread, register, byte) of A[9,21]",
        tell=False,
        mistakes=mistakes,
    )
    return "The block gives the register. The place in the block gives the thread and the byte."


@exercise(
    "02.3",
    "B as a layout",
    hints=[
        "One step in the offset is one row down (n). Eight steps are one column to the right (k).",
        "Thread 1 holds the four columns after thread 0's. Thread 4 holds the next row.",
        "Values 0 to 3 are neighbours along K. Value 4 is in the next register, 16 columns on.",
    ],
)
def check_layout_b(answer: object) -> str:
    """B's thread-value layout."""
    same_layout(
        answer,
        mma_atom(BYTES).layout_b,
        tell=False,
        mistakes={
            "((4,8),(4,2)):((64,1),(16,256))": "Those are steps through columns of 16 elements, as A has them. "
            "A column of B has 8: one step along K is a stride of 8.",
            "((4,8),(4,2)):((4,32),(1,16))": "Those offsets run along the rows, k + 32 * n. The layout counts down "
            "the columns, n + 8 * k.",
            "((4,8),(4,2)):((64,1),(8,32))": "That gives each thread eight neighbours along K. It holds four, and "
            "its second register lies 16 columns on.",
            "((4,8),(4,2)):((32,1),(8,64))": "The threads and the first four values are right. Value 4 lies in the next "
            "register, 16 columns on. You put it 8 columns on.",
            "((4,8),(4,2)):((8,1),(32,128))": "You gave neighbouring columns to neighbouring threads. Here a thread "
            "holds four neighbours of a row, and the next thread begins four columns on.",
            "((4,8),(4,2)):((1,32),(8,128))": "You swapped the strides of the thread mode. Its first part has size 4: the "
            "four threads of a row. A row further down is the second part, with size 8.",
            "((8,4),(4,2)):((1,32),(8,128))": "You swapped the parts of the thread mode. Its shape is (4,8), and the first "
            "part counts fastest: thread 1 is in the same row as thread 0, not below it.",
            "((4,8),(4,2)):((32,1),(128,8))": "You swapped the strides of the value mode. Its first part has size 4: the four "
            "neighbours in one register. The second part has size 2, for the two registers.",
            "((4,8),(2,4)):((32,1),(128,8))": "You swapped the parts of the value mode. Its shape is (4,2): value 1 is value "
            "0's neighbour in the same register.",
            "((4,2),(4,8)):((8,128),(32,1))": "You swapped the two modes. The thread comes first, then the value.",
            "((4,8),(4,2)):((16,1),(8,64))": "Those are the strides of the 16-bit atom, where a register holds two "
            "values. Here it holds four, so the next thread begins four columns on.",
        },
    )
    return "CUTLASS's traits for this atom contain the same layout."


@exercise(
    "02.4",
    "A bug to find",
    hints=[
        "Take lane 0. Which elements does each of its six loads of A and B read?",
        "An address counts bytes, and a half has two of them. b1 holds k = 8 to 15 of the same n as b0.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A load of B from the wrong address."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, Tensor

    text = repaired_text(answer, "02.4")
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 16)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)

    def with_b1(b1: Any) -> Any:
        """The product if b1 holds these columns of B instead of k = 8 to 15."""
        return wide_a[:, :8] @ wide_b[:, :8].T + wide_a[:, 8:] @ b1.T

    next_row = np.vstack([wide_b[1:, :8], np.zeros((1, 8), np.float32)])
    spec = LaunchSpec(
        name="mma_raw",
        language="ptx",
        ptx=text,
        entry="mma_raw",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=(
            Tensor("a", "f16", (16, 16), (16, 1)),
            Tensor("b", "f16", (9, 16), (16, 1)),  # a row more, which a step too far reads
            Tensor("c", "f32", (16, 8), (8, 1)),
        ),
    )
    padded_b = np.vstack([b, np.zeros((1, 16), np.float16)])
    same_outputs(
        spec,
        {"a": a, "b": padded_b, "c": np.zeros((16, 8), np.float32)},
        {"c": wide_a @ wide_b.T},
        mistakes={
            "c": [
                (with_b1(wide_b[:, 4:12]), "b1 still gets k = 4 to 11. Do you count bytes or elements?"),
                (with_b1(wide_b[:, :8]), "b1 gets k = 0 to 7, as b0 does."),
                (with_b1(next_row), "b1 gets k = 0 to 7 of the next row of B."),
            ]
        },
    )
    return "With ones every address gives the same value, so a wrong address does not show. Test with values that differ."


@exercise(
    "02.5",
    "A kernel to write: two steps along K",
    hints=[
        "You need make_tiled_mma, get_slice(tid), partition_A, _B and _C, and make_fragment_A, _B and _C.",
        "Clear the accumulator once: tCrC.fill(0.0) before the loop.",
        "Mode 2 of a fragment counts the steps along K: tCrA[None, None, k] is the fragment of step k.",
    ],
)
def check_gemm_k32(answer: object) -> str:
    """A product over two atoms along K."""
    import numpy as np

    rng = np.random.default_rng(13)
    a = rng.integers(-8, 9, (16, 32)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 32)).astype(np.float16)
    halves: list[Any] = [
        a[:, k : k + 16].astype(np.float32) @ b[:, k : k + 16].astype(np.float32).T for k in (0, 16)
    ]
    empty = np.full((16, 8), UNWRITTEN, np.float32)
    product = halves[0] + halves[1]
    inputs: dict[str, Any] = {"a": a, "b": b, "c": empty}
    require_cleared(answer, inputs, "c")
    same_outputs(
        answer,
        inputs,
        {"c": product},
        emulator_first=True,
        mistakes={
            "c": [
                *_from_wrong_addresses(a, b),
                (
                    product + empty,
                    "Your kernel adds to the C that it finds in memory. It has to overwrite C: start with zeros.",
                ),
                (empty, "C is unchanged: the kernel never stores its accumulator."),
                (
                    np.zeros((16, 8), np.float32),
                    "C is all zeros: the accumulator is cleared and stored, but never used.",
                ),
                (halves[0], "That is the product over k = 0 to 15 only: one step is missing."),
                (halves[1], "That is the product over k = 16 to 31 only: the first step's sum is lost."),
                (
                    2 * halves[0],
                    "That is twice the product over k = 0 to 15: both steps use the same fragments.",
                ),
            ]
        },
    )
    return "The accumulator stays in the same registers from step to step. Only A and B change."


def _from_wrong_addresses(a: Any, b: Any) -> list[tuple[Any, str]]:
    """The products if distances in bytes stay as they are for one step of 16 columns, and what to say to each."""
    import numpy as np

    slips = {
        "row": (
            32,
            64,
            "A row of 32 halves does not have 32 bytes. Your rows of A and B begin too close together.",
        ),
        "eight": (
            256,
            512,
            "a1 and a3 come from 256 bytes further on, but eight rows of 32 halves are longer than that.",
        ),
        "step": (
            16,
            32,
            "The second step starts 16 bytes further on. That is half a step: one step has 16 halves.",
        ),
    }
    found = []
    for wrong in range(1, 2 ** len(slips)):
        chosen = [wrong >> place & 1 for place in range(len(slips))]
        row, eight, step = (
            (slip if one else right) // 2
            for one, (slip, right, _) in zip(chosen, slips.values(), strict=True)
        )
        sums = np.zeros((16, 8), np.float32)
        column = np.arange(16)
        for k in (0, step):
            upper = np.arange(8)[:, None] * row + column + k
            of_a = a.reshape(-1)[np.vstack([upper, upper + eight])].astype(np.float32)
            sums += of_a @ b.reshape(-1)[upper].astype(np.float32).T
        said = " ".join(words for one, (_, _, words) in zip(chosen, slips.values(), strict=True) if one)
        found.append((sums, said))
    return found
