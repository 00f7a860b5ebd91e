"""Checks of the exercises of chapter 2, Hello, MMA."""

from __future__ import annotations

from typing import Any

from cutecourse.atoms import mma_atom
from cutecourse.checks.compare import on_many, same_choice, same_layout, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer

ATOM = "SM80_16x8x16_F32F16F16F32_TN"


@exercise(
    "02.1",
    "Who owns C[m,n]?",
    hints=[
        "A group of four threads holds the eight columns of a row: two columns a thread.",
        "There are eight groups of four. Which rows does group 0 hold?",
    ],
)
def check_owner(answer: object) -> str:
    """The owner of each cell of C."""
    atom = mma_atom(ATOM)
    cells = [(m, n) for m in range(16) for n in range(8)]
    if callable(answer):
        given = [answer(m, n) for m, n in cells]
        if given == [m % 4 + m // 4 % 2 * 16 + n // 2 * 4 for m, n in cells]:
            raise WrongAnswer(
                "That is the map which one of the course's sources prints. Look at row 0 of the computed one: "
                "neighbouring pairs of columns belong to neighbouring threads.",
                where="owner(0, 2)",
                expected="the next thread after owner(0, 0)",
                got="the fourth thread after it",
            )
        if given == [m * 4 + n // 2 for m, n in cells]:
            raise WrongAnswer(
                "The upper half is right. A warp has 32 threads, and rows 8 to 15 begin again with thread 0.",
                where="owner(8, 0)",
                expected="one of 0 to 31",
                got="32",
            )
    on_many(answer, cells, lambda m, n: atom.owner("C", (m, n))[0], what="the thread that holds C[m,n]")
    return "Groups of four threads share a row, eight groups cover eight rows, and then it starts again."


@exercise(
    "02.2",
    "Where is A[9,11]?",
    hints=[
        "A is four blocks of 8x8. In which block do row 9 and column 11 lie, and which register holds that block?",
        "Inside a block the thread is the one that holds row 1, columns 2 and 3 of C's upper half.",
    ],
)
def check_place(answer: object) -> str:
    """Thread, register and half of one element of A."""
    atom = mma_atom(ATOM)
    thread, value = atom.owner("A", (9, 11))
    register, half = atom.register_of("A", value)
    same_sequence(
        answer,
        (thread, register, half),
        meaning="(thread, register, half) of A[9,11]",
        tell=False,
        mistakes={
            (
                thread,
                value,
                half,
            ): "The second number is a value's, not a register's: two values share a register.",
            (
                thread,
                1,
                half,
            ): "Register a1 holds rows 8 to 15 of columns 0 to 7. Column 11 is in the other half.",
            (
                thread,
                2,
                half,
            ): "Register a2 holds columns 8 to 15 of rows 0 to 7. Row 9 is in the other half.",
        },
    )
    return "Row block and column block choose the register, the rest is the map of an 8x8 block."


@exercise(
    "02.3",
    "A as a layout",
    hints=[
        "One step in the index is one row down; 16 steps are one column to the right.",
        "Thread 1 holds the two columns after thread 0's: stride 32. Thread 4 holds the next row: stride 1.",
        "Values 0 and 1 are neighbours in a register; values 2 and 3 are in register a1.",
    ],
)
def check_layout_a(answer: object) -> str:
    """A's thread-value layout."""
    same_layout(
        answer,
        mma_atom(ATOM).layout_a,
        tell=False,
        mistakes={
            "((4,8),(2,2,2)):((32,1),(16,128,8))": "There registers a1 and a2 are exchanged: a1 holds the rows below, "
            "a2 the columns to the right.",
            "((4,8),(2,2,2)):((2,16),(1,128,8))": "That is an index which runs along the row, k + 16 * m; the layout's "
            "counts down the column, m + 16 * k.",
            "((4,8),(2,2)):((32,1),(16,8))": "That covers columns 0 to 7 only: a thread has eight values.",
        },
    )
    return "The same text stands in CUTLASS's traits of the atom."


@exercise(
    "02.4",
    "A bug to find",
    hints=[
        "Take lane 0. Which elements does each of its six loads of A and B read?",
        "An address counts bytes, and an f16 has two. b1 is to hold k = 8 to 15 of the same n as b0.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """A load of B from the wrong address."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, Tensor

    if not isinstance(answer, str):
        raise WrongAnswer("The answer is to be the PTX text.", expected="a str", got=type(answer).__name__)
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
        front="ptx",
        ptx=answer,
        entry="mma_raw",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=(
            Tensor("a", "f16", (16, 16), (16, 1)),
            Tensor("b", "f16", (9, 16), (16, 1)),  # a row more: a step too far reads it
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
                (with_b1(wide_b[:, 4:12]), "b1 still gets k = 4 to 11."),
                (with_b1(wide_b[:, :8]), "b1 gets k = 0 to 7, as b0 does."),
                (with_b1(next_row), "b1 gets k = 0 to 7 of the next row of B."),
            ]
        },
    )
    return "On ones every address gives the same value, and a wrong one does not show: test with values that differ."


@exercise(
    "02.5",
    "Which ldmatrix?",
    hints=[
        "How many 32-bit registers has B's fragment, and how many 8x8 blocks are that?",
        "Which mode has stride 1?",
    ],
)
def check_ldmatrix(answer: object) -> str:
    """The load of an N-major B."""
    same_choice(
        answer.strip().lower().removeprefix("ldmatrix.") if isinstance(answer, str) else answer,
        "x2.trans",
        options={
            "x2": "Two blocks are right. But the 16 contiguous bytes run along N, and a register's pair is to run along K.",
            "x2.trans": "",
            "x4": "That fills four registers; B's fragment has two. And the contiguous bytes run along N.",
            "x4.trans": "It has to transpose, but that fills four registers; B's fragment has two.",
        },
    )
    return "Two 8x8 blocks for two registers, each transposed on the way, because N is contiguous."


@exercise(
    "02.6",
    "A kernel to write: two steps along K",
    hints=[
        "tCrC.fill(0.0) once, before the loop.",
        "Mode 2 of a fragment counts the steps along K: tCrA[None, None, k] is one step's fragment.",
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
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.full((16, 8), np.nan, np.float32)},
        {"c": halves[0] + halves[1]},
        mistakes={
            "c": [
                (halves[0], "That is the product over the first 16 of K: one step is missing."),
                (halves[1], "That is the product over the last 16 of K: the first step's sum is lost."),
            ]
        },
    )
    return "The accumulator stays in the same registers from step to step; only A and B change."
