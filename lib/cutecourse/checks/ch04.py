"""Checks of the exercises of chapter 4, Banks and swizzles."""

from __future__ import annotations

import operator
from typing import Any

from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import same_choice, same_int, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.layout import Swizzle, composition, make_layout
from cutecourse.memory_access import ldmatrix_bank_conflicts


@exercise(
    "04.1",
    "Which ldmatrix?",
    hints=[
        "How many 32-bit registers does B's fragment have, and how many 8x8 blocks are that?",
        "Which mode has stride 1?",
    ],
)
def check_ldmatrix(answer: object) -> str:
    """The load of an N-major B."""
    same_choice(
        answer.strip().lower().removeprefix("ldmatrix.") if isinstance(answer, str) else answer,
        "x2.trans",
        options={
            "x2": "Two blocks are right. But the 16 contiguous bytes run along N, and a register's pair has to run "
            "along K.",
            "x2.trans": "",
            "x4": "x4 fills four registers, and B's fragment has two. Besides, the contiguous bytes run along N.",
            "x4.trans": "The instruction has to transpose, but x4 fills four registers, and B's fragment has two.",
        },
    )
    return "The load takes one 8x8 block for each of the two registers, and transposes it because N is contiguous."


@exercise(
    "04.2",
    "Pad a tile",
    hints=[
        "A row of 32 halves has 64 bytes. Which rows of a block start in the same bank?",
        (
            "A row may start at multiples of 16 bytes, so it grows by 8 halves at a time. Try them with "
            "ldmatrix_bank_conflicts."
        ),
    ],
)
def check_padding(answer: object) -> str:
    """The shortest padded row without conflicts."""
    try:
        row_elems = operator.index(answer)  # type: ignore[arg-type]  # what has no index is refused below
    except TypeError:
        row_elems = 0
    if row_elems > 32 and row_elems % 8 and row_elems != 36:
        raise WrongAnswer(
            "Rows of this length do not all start at multiples of 16 bytes, as ldmatrix needs.",
            got=str(row_elems),
        )
    same_int(
        answer,
        40,
        meaning="the number of halves in a padded row",
        mistakes={
            80: "That is the row's length in bytes. A half has two.",
            36: "Padding by 8 bytes spreads the banks, but every second row no longer starts at a multiple of 16 bytes.",
            32: "That is the row as it is: rows 0, 2, 4 and 6 of a block start in the same bank.",
            48: "Rows of 96 bytes are not free of conflicts: rows 0 and 4 start 384 bytes apart, in the same bank.",
            64: "Rows of 128 bytes are the worst case: every row starts in the same bank.",
            56: "Rows of 112 bytes have no conflict, but a shorter row will do.",
            8: "That is the padding. How long is the whole row?",
        },
    )
    return "With 16 bytes more, the eight rows of a block start in eight different groups of four banks."


@exercise(
    "04.3",
    "Swizzle a tile",
    hints=[
        "In the layout (8,64):(64,1), which bits of an offset say the row, and which say the piece of 8 halves?",
        "The offset counts halves: bits 0 to 2 lie inside a piece, bits 3 to 5 number the piece, bits 6 to 8 the row.",
    ],
)
def check_swizzle(answer: object) -> str:
    """A swizzle that spreads rows of 128 bytes over all banks."""
    if not isinstance(answer, Swizzle):
        raise WrongAnswer(
            "The answer is a swizzle.",
            expected="Swizzle(B, M, S)",
            got=f"{type(answer).__name__}: {answer!r}",
        )
    tile = composition(answer, make_layout((8, 64), stride=(64, 1)))
    offsets = [tile((m, k)) for m in range(8) for k in range(64)]
    if sorted(offsets) != list(range(512)):
        raise WrongAnswer("Some elements leave the tile, or two of them share an offset.", got=str(answer))
    for m in range(8):
        for piece in range(8):
            start = tile((m, 8 * piece))
            if start % 8 or [tile((m, 8 * piece + i)) - start for i in range(8)] != list(range(8)):
                raise WrongAnswer(
                    "This takes the 16 bytes of a piece apart, and ldmatrix needs them together. The lowest bit that "
                    "may change is the one that numbers the pieces.",
                    where=f"row {m}, piece {piece}",
                    got=str(answer),
                )
    passes = [
        ldmatrix_bank_conflicts([2 * tile((m, 8 * piece)) for m in range(8)]).wavefronts for piece in range(8)
    ]
    if max(passes) > 1:
        message = f"The load of a block still takes {max(passes)} passes."
        if str(answer) == "S<3,4,3>":
            message += (
                " S<3,4,3> is the swizzle of byte addresses. A layout's offsets count elements of two bytes."
            )
        elif max(passes) == 8:
            message += " The bits that it mixes in are the same in all eight rows of a block."
        elif str(answer).startswith("S<3,"):
            message += (
                " Three bits are right, but they have to be the bits that number the row, "
                "and they have to go to the bits that number the pieces."
            )
        else:
            message += " Eight rows have to go to eight pieces: how many bits does that take?"
        raise WrongAnswer(message, got=str(answer))
    return "Three bits of the row are xored into the three bits that number the pieces. So eight rows start in eight groups of banks."


@exercise(
    "04.4",
    "A bug to find",
    hints=[
        "Take lanes 0, 8 and 16. Which row and which columns of A and of B does each of them name?",
        "An x2 load uses the addresses of lanes 0 to 15. Lanes 8 to 15 name the rows of its second block.",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """The rows of B that the lanes name for ldmatrix.x2."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, Tensor

    if not isinstance(answer, str):
        raise WrongAnswer("Give the PTX text.", expected="a str", got=type(answer).__name__)
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 16)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    twice: Any = wide_a[:, :8] @ wide_b[:, :8].T + wide_a[:, 8:] @ wide_b[:, :8].T
    spec = LaunchSpec(
        name="ldmatrix_raw",
        front="ptx",
        ptx=answer,
        entry="ldmatrix_raw",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=(
            Tensor("a", "f16", (16, 16), (16, 1)),
            Tensor("b", "f16", (8, 16), (16, 1)),
            Tensor("c", "f32", (16, 8), (8, 1)),
        ),
    )
    same_outputs(
        spec,
        {"a": a, "b": b, "c": np.full((16, 8), np.nan, np.float32)},
        {"c": wide_a @ wide_b.T},
        emulator_first=True,
        mistakes={"c": [(twice, "b1 gets k = 0 to 7, as b0 does. Which addresses do lanes 8 to 15 name?")]},
    )
    return "ldmatrix takes its addresses from eight lanes for each block. It does not notice when two blocks get the same addresses."


@exercise(
    "04.5",
    "A kernel to write: an N-major B",
    hints=[
        "The chapter's micro_gemm_ldmatrix does this for a K-major B. What changes?",
        "Give sB the layout (8,16):(1,8), so that it lies in shared memory as in global memory.",
        "LdMatrix8x8x16bOp(transpose=..., num_matrices=...): one copy atom for A and one for B.",
    ],
)
def check_gemm_n_major(answer: object) -> str:
    """A product with an N-major B, loaded by ldmatrix."""
    import numpy as np

    rng = np.random.default_rng(13)
    a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 16)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    empty = np.full((16, 8), UNWRITTEN, np.float32)
    inputs: dict[str, Any] = {"a": a, "b": b, "c": empty}
    require_cleared(answer, inputs, "c")
    blocks = np.hstack([wide_b[:, :8].T, wide_b[:, 8:].T])
    same_outputs(
        answer,
        inputs,
        {"c": wide_a @ wide_b.T},
        emulator_first=True,
        reports={
            "UninitializedRead": "The kernel reads shared memory that nobody has written. Are both tiles copied "
            "there first?",
            "does not meet requirement (128 bits)": "ldmatrix reads rows of 16 contiguous bytes. They run along K in A, "
            "but along N in B. Which of the two has to be transposed?",
        },
        mistakes={
            "c": [
                (empty, "C is as it was before: the kernel never stores its accumulator."),
                (wide_a @ blocks.T, "Each 8x8 block of B is transposed: B was loaded as if it were K-major."),
            ]
        },
    )
    _require_ldmatrix(answer, inputs)
    return "The layout in shared memory stays as it is. Only the copy atom says that blocks are transposed."


def _require_ldmatrix(answer: Any, inputs: dict[str, Any]) -> None:
    """Refuse a kernel whose product is right, but that loads a fragment without ldmatrix."""
    from cutecourse.runtime import run

    text = str(run(answer, device="emulator", **{k: v.copy() for k, v in inputs.items()}).record.ptx)
    for operand, instruction in (("A", "m8n8.x4.shared"), ("B", "m8n8.x2.trans.shared")):
        if f"ldmatrix.sync.aligned.{instruction}" not in text:
            raise WrongAnswer(
                f"The product is right, but {operand} is not loaded by one ldmatrix.",
                expected=f"ldmatrix with {instruction.removesuffix('.shared')} in the PTX",
                got="other loads from shared memory",
            )
