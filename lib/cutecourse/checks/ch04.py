"""Checks of the exercises of chapter 4, Banks and swizzles."""

from __future__ import annotations

import operator
import re
from typing import Any

from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import repaired_text, same_choice, same_int, same_outputs
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
        answer.strip().lower().removeprefix("ldmatrix.").removeprefix("sync.aligned.m8n8.")
        if isinstance(answer, str)
        else answer,
        "x2.trans",
        options={
            "x2": "Two blocks are right. But the 16 contiguous bytes run along N, and a register's pair has to run "
            "along K.",
            "x2.trans": "",
            "x4": "x4 fills four registers, and B's fragment has two. Besides, the contiguous bytes run along N.",
            "x4.trans": "The instruction has to transpose, but x4 fills four registers, and B's fragment has two.",
        },
    )
    return "The load takes one 8x8 block per register, two in all, and transposes it because N is contiguous."


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
        "In the layout (16,32):(32,1), which bits of an offset give the row, and which number the chunk of 8 halves?",
        "The offset counts halves: bits 0 to 2 lie inside a chunk, bits 3 and 4 number the chunk, bits 5 to 8 the row.",
        "Bit 5 already chooses a bank: rows 0 and 1 start 64 bytes apart. Which bits of the row do not?",
    ],
)
def check_swizzle(answer: object) -> str:
    """A swizzle that spreads rows of 64 bytes over all banks."""
    swizzle = _a_swizzle(answer)
    tile = composition(swizzle, make_layout((16, 32), stride=(32, 1)))
    offsets = [tile((m, k)) for m in range(16) for k in range(32)]
    if sorted(offsets) != list(range(512)):
        raise WrongAnswer("Some elements leave the tile, or two of them share an offset.", got=str(answer))
    for m in range(16):
        for chunk in range(4):
            start = tile((m, 8 * chunk))
            if start % 8 or [tile((m, 8 * chunk + i)) - start for i in range(8)] != list(range(8)):
                raise WrongAnswer(
                    "This splits the 16 bytes of a chunk, but ldmatrix needs them together. The lowest bit that "
                    "may change is the one that numbers the chunks.",
                    where=f"row {m}, chunk {chunk}",
                    got=str(answer),
                )
    taken = max(
        ldmatrix_bank_conflicts([2 * tile((top + m, 8 * chunk)) for m in range(8)]).wavefronts
        for top in (0, 8)
        for chunk in range(4)
    )
    if taken > 1:
        message = f"The load of a block still takes {taken} wavefronts."
        if str(answer) == "S<2,4,3>":
            message += (
                " S<2,4,3> is the swizzle of byte addresses. A layout's offsets count elements of two bytes."
            )
        elif str(answer) == "S<2,3,2>":
            message += " Bit 5, the lowest of the row, chooses a bank by itself. Rows 0, 2, 4 and 6 collide: which bits tell these apart?"
        elif str(answer).startswith("S<1,"):
            message += " Without a swizzle four rows collide. One bit leaves two: how many bits take four rows to four chunks?"
        else:
            message += " The bits that it mixes in do not tell all colliding rows of a block apart."
        raise WrongAnswer(message, got=str(answer))
    if swizzle.num_bits > 2:
        raise WrongAnswer(
            "There is no conflict any more, but fewer bits will do: at most four rows of a block start in the same bank.",
            got=str(answer),
        )
    return "Rows 0, 2, 4 and 6 collide. Two bits of the row, 6 and 7, are xored into the two bits that number the chunks. In bytes this is TMA's 64B."


def _a_swizzle(answer: object) -> Swizzle:
    if not isinstance(answer, Swizzle):
        raise WrongAnswer(
            "The answer is a swizzle.",
            expected="Swizzle(B, M, S)",
            got=f"{type(answer).__name__}: {answer!r}",
        )
    return answer


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

    text = repaired_text(answer, "04.4")
    rng = np.random.default_rng(11)
    a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 16)).astype(np.float16)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    twice: Any = wide_a[:, :8] @ wide_b[:, :8].T + wide_a[:, 8:] @ wide_b[:, :8].T
    spec = LaunchSpec(
        name="ldmatrix_raw",
        language="ptx",
        ptx=text,
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
    return "ldmatrix takes its addresses from eight lanes per block. It does not notice when two blocks get the same addresses."


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
                (empty, "C is unchanged: the kernel never stores its accumulator."),
                (wide_a @ blocks.T, "Each 8x8 block of B is transposed: B was loaded as if it were K-major."),
            ]
        },
    )
    _require_ldmatrix(answer, inputs)
    return "The layout in shared memory stays as it is. Only the copy atom says that blocks are transposed."


def _require_ldmatrix(answer: Any, inputs: dict[str, Any]) -> None:
    """Refuse a kernel whose product is right, but that lacks a barrier or loads a fragment by other instructions."""
    from cutecourse.runtime import run

    text = str(run(answer, device="emulator", **{k: v.copy() for k, v in inputs.items()}).record.ptx)
    _require_barrier(text)
    words = [line.split()[0] for line in text.splitlines() if line.strip()]
    loads = sorted({word for word in words if word.startswith(("ldmatrix", "ld.shared"))})
    for operand, instruction in (("A", "m8n8.x4.shared"), ("B", "m8n8.x2.trans.shared")):
        if not any(instruction in load for load in loads):
            message = f"The product is right, but {operand} is not loaded by one ldmatrix of the right form."
            if operand == "B" and any("m8n8.x2.shared" in load for load in loads):
                message = "The product is right, but B lies K-major in shared memory. Copy it as it is, N-major, and let ldmatrix transpose it."
            elif operand == "B" and any("m8n8.x4.trans" in load for load in loads):
                message = "The product is right, but this ldmatrix loads four blocks, and B has two."
            raise WrongAnswer(
                message,
                expected=f"ldmatrix with {instruction.removesuffix('.shared')} in the PTX",
                got=", ".join(loads),
            )


def _require_barrier(text: str) -> None:
    """Refuse a kernel whose threads read what others write to shared memory, without a barrier in between."""
    if not any(word in text for word in ("bar.sync", "barrier.sync", "bar.warp.sync")):
        raise WrongAnswer(
            "The values are right only by luck: a thread reads what other threads write, and nothing orders the two. "
            "The lanes of a warp need not run in step.",
            expected="a barrier between the stores to shared memory and the loads",
        )


_COPY_OF_SCATTERED = re.compile("cannot vectorize copy|expects layouts of src and dst to be LayoutType")
"""The compiler's words for a wide copy whose elements are not neighbours; the second for a swizzled tile."""


@exercise(
    "04.6",
    "An epilogue without bank conflicts",
    hints=[
        "A thread's values 0 and 1 are neighbours in a row: 8 bytes. So 16 lanes are served at a time. Which rows and columns do lanes 0 to 15 store?",
        "Lanes 0 to 15 store 32 bytes in each of four rows. Rows of 128 bytes all start in bank 0. Which two bits of the row have to move these 32 bytes, and where to?",
        "In floats: bits 0 to 2 lie inside the 32 bytes, and bits 5 and 6 are the lowest bits of the row. The loads of whole rows have no conflict either way.",
        "For the second half, make_tiled_copy_tv with a 128-bit CopyUniversalOp: threads (4,8):(8,1), values (1,4).",
    ],
)
def check_epilogue(answer: object) -> str:
    """Accumulators that reach global memory in 16-byte stores, without a bank conflict on the way."""
    import numpy as np

    from cutecourse.runtime import run

    stamped = np.empty((16, 32), np.float32)
    for m, n in np.ndindex(16, 32):
        stamped[m, n] = (m % 8 * 4 + n % 8 // 2) * 16 + n % 2 + 2 * (m // 8) + 4 * (n // 8)
    empty = np.full((16, 32), UNWRITTEN, np.float32)
    places = np.arange(512, dtype=np.float32).reshape(16, 32)
    same_outputs(
        answer,
        {"c": empty},
        {"c": stamped},
        emulator_first=True,
        reports={
            re.compile(
                r"UninitializedRead[\s\S]*ld\.shared\.(b32|v2)"
            ): "The kernel reads shared memory that nobody has "
            "written, in loads of less than 16 bytes. Does the swizzle keep 16 bytes together?",
            "UninitializedRead": "The kernel reads shared memory that nobody has written. Does the second half of the "
            "kernel read the tile through the same layout, and only the 16 rows that exist?",
            _COPY_OF_SCATTERED: "A copy of 16 bytes needs four floats that are neighbours in memory on both sides. In C they "
            "are neighbours in a row. Which four does a thread take, and are they neighbours in your tile too?",
            "does not meet requirement (128 bits)": "An access of 16 bytes needs an address that is a multiple of 16. Does "
            "each row of your tile start at one, and is the tile allocated at one?",
            "restAtomVRank": "The two sides of a copy are cut differently. Take both from the same tiled copy.",
            "NVVM backend compilation failed": "There is no such instruction for these values or for this GPU. "
            "stmatrix, for example, needs compute capability 9.0 and moves 16-bit values, and these are f32.",
        },
        mistakes={
            "c": [
                (empty, "C is unchanged: the kernel never stores to it."),
                (places, "These are places in the tile. Value v of thread t is 16 * t + v."),
            ]
        },
    )
    outcome = run(answer, device="emulator", memory_report=True, c=empty.copy())  # type: ignore[arg-type]
    report = outcome.memory
    assert report is not None
    shared = [row for row in report.rows if row.space == "shared"]
    if not shared:
        raise WrongAnswer(
            "The values are right, but the kernel does not go through shared memory.",
            expected="st.shared, a barrier, ld.shared",
            got="stores straight from the registers",
        )
    _require_barrier(str(outcome.ptx))
    narrow = [row for row in report.rows if row.space == "global" and ".v4" not in row.instruction]
    if narrow:
        raise WrongAnswer(
            "The values are right, but the stores to global memory are narrower than 16 bytes.",
            where=f"PTX line {narrow[0].line}",
            expected="st.global.v4",
            got=narrow[0].instruction,
        )
    for row in shared:
        if row.excess:
            side = "load from" if row.kind == "load" else "store to"
            raise WrongAnswer(
                f"The values are right, but a {side} shared memory has bank conflicts. List the rows that 16 lanes "
                f"of 8 bytes, or 8 lanes of 16 bytes, access together.",
                where=f"{row.instruction}, PTX line {row.line}",
                expected=f"{row.least} wavefronts",
                got=f"{row.transactions} wavefronts",
            )
    return "The layout serves two accesses of different widths: 8 bytes per thread going in, 16 bytes per thread coming out."


@exercise(
    "04.7",
    "The same swizzle for another type",
    hints=[
        "A chunk has 16 bytes. How many floats are that?",
        "The number of bits and their distance stay the same. Only the position of the lowest bit that changes is counted in another unit.",
    ],
)
def check_other_type(answer: object) -> str:
    """S<2,4,3> on bytes, counted in elements of four bytes."""
    swizzle = _a_swizzle(answer)
    if swizzle == Swizzle(2, 2, 3):
        return "An element of 2^k bytes takes k from M. Chunks of 16 bytes stay whole: four floats."
    messages = {
        Swizzle(
            2, 6, 3
        ): "You went from elements to bytes. An element is larger than a byte, so its numbers are smaller.",
        Swizzle(2, 4, 3): "This is the swizzle on bytes. Counted in floats it would move chunks of 64 bytes.",
        Swizzle(
            2, 3, 3
        ): "This is right for halves: a chunk has eight of them. How many floats does a chunk have?",
        Swizzle(2, 0, 3): "M is a number of bits, so a factor of 4 takes 2 from it, not 4.",
        Swizzle(
            2, 1, 3
        ): "2^M elements stay together, and two floats are 8 bytes. The swizzle on bytes keeps 16 together.",
        Swizzle(3, 2, 3): "This is the mode 128B for floats. The mode 64B has B = 2.",
    }
    if (swizzle.num_bits, swizzle.num_base) == (2, 2):
        messages[swizzle] = "The distance S does not change: both ends move by the same number of bits."
    for offset in range(1 << 10):
        if 4 * swizzle(offset) != Swizzle(2, 4, 3)(4 * offset):
            raise WrongAnswer(
                messages.get(swizzle, "This swizzle moves the bytes to other places."),
                where=f"float {offset}, which is at byte {4 * offset}",
                expected=f"byte {Swizzle(2, 4, 3)(4 * offset)} after the swizzle",
                got=f"byte {4 * swizzle(offset)}",
            )
    raise WrongAnswer("This is a different swizzle.", got=str(swizzle))
