"""Checks of the exercises of chapter 9, wgmma."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from cutecourse.atoms import mma_atom
from cutecourse.checks.accumulators import UNWRITTEN, require_cleared
from cutecourse.checks.compare import on_many, repaired_text, returned, same_int, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.descriptors import SMEM_SM90, DescriptorError

if TYPE_CHECKING:
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec

_ATOM = "SM90_64x96x16_F16F16F16_SS"
_REPORTS = {
    "MissingProxyFence": "The tensor core reads shared memory through the async proxy. What orders the threads' stores "
    "before its reads?",
    "AccumulatorInFlight": "The registers are used while a wgmma is still working on them. wgmma is asynchronous: commit, and wait.",
    "UninitializedRead": "The kernel reads what nobody has written. Are all operands in shared memory?",
    "expects arch": "wgmma needs sm_90a: keep the target of the launch specification.",
}


@exercise(
    "09.1",
    "Sums in f16",
    hints=[
        "Who holds the cell does not depend on the type of the sums. Start from the chapter's map.",
        "In f32, the value n % 2 + 2 * (m % 16 // 8) + 4 * (n // 8) has a register of its own. In f16, two share one.",
    ],
)
def check_owner(answer: object) -> str:
    """The thread, register and half of each element of a 64x96 accumulator in f16."""
    atom = mma_atom(_ATOM)
    cells = [(m, n) for m in range(64) for n in range(96)]

    def held(m: int, n: int) -> tuple[int, int, int]:
        thread, value = atom.owner("C", (m, n))
        return (thread, *atom.register_of("C", value))

    got = returned(answer, cells, what="the thread, register and half that hold C[m, n]")
    wrong: dict[str, Callable[[int, int], object]] = {
        "You have the lane. The warp is missing: each warp has 16 rows.": lambda m, n: (
            held(m, n)[0] % 32,
            *held(m, n)[1:],
        ),
        "That is the register of a sum in f32. In f16, two values share a register.": lambda m, n: (
            held(m, n)[0],
            2 * held(m, n)[1] + held(m, n)[2],
            held(m, n)[2],
        ),
        "You have the thread. The two values that share a register are neighbours in a row, not 8 rows apart.": lambda m, n: (
            held(m, n)[0],
            n // 8 * 2 + n % 2,
            m % 16 // 8,
        ),
    }
    for message, mistake in wrong.items():
        if got == [mistake(*cell) for cell in cells]:
            raise WrongAnswer(message)
    on_many(answer, cells, held, what="the thread, register and half that hold C[m, n]")
    return (
        "The map of the cells is the same for f16 and f32. Only the registers that the values share differ."
    )


@exercise(
    "09.2",
    "A descriptor by hand",
    hints=[
        "Which fields does the chapter's table have, and in which unit are addresses and offsets?",
        "A row has 64 bytes. How many bytes lie between a row and the row 8 further down?",
        "K-block 1 starts 16 halves further in the same row.",
    ],
)
def check_descriptor(answer: object) -> str:
    """The descriptor of k-block 1 of a K-major tile with the 64-byte swizzle."""
    right = 258 | 1 << 16 | 32 << 32 | 2 << 62
    word = answer.__index__() if hasattr(answer, "__index__") else None
    if not isinstance(word, int) or not 0 <= word < 1 << 64:
        raise WrongAnswer("Give one number of 64 bits.", got=repr(answer))
    if word == right:
        return "The swizzle's name and the step of 8 rows change with the width of a row. The k-block moves the start by 2."
    try:
        fields = SMEM_SM90.decode(word)
    except DescriptorError as error:
        raise WrongAnswer(f"Bits that belong to no field must be 0: {error}", got=f"{word:#018x}") from None
    explained: dict[str, dict[object, str]] = {
        "start_address": {
            4096: "That is the start of k-block 0. K-block 1 starts 32 bytes further.",
            (4096 + 32) * 16: "The start address counts units of 16 bytes.",
            4096 + 256: "K-block 1 starts 16 halves further, not 16 units of 16 bytes.",
            4096 + 512: "32 is the step in bytes. The field counts units of 16 bytes.",
        },
        "stride_byte_offset": {
            1024: "Eight rows of 128 bytes are 1024 bytes. These rows have 64 bytes.",
            64: "That is the step from a row to the next. The offset leads over 8 rows.",
            512 * 16: "The stride byte offset counts units of 16 bytes.",
        },
        "layout_type": {
            "B128": "Layout type 1 is the 128-byte swizzle.",
            "B32": "Layout type 3 is the 32-byte swizzle.",
            "INTERLEAVE": "Layout type 0 has no swizzle. Which bits hold the layout type?",
        },
    }
    known = SMEM_SM90.decode(right)
    for field, messages in explained.items():
        if fields[field] != known[field]:
            message = messages.get(fields[field], f"The field {field} does not hold what it should.")
            raise WrongAnswer(message, where=field, got=f"{word:#018x}")
    raise WrongAnswer(
        "Start, stride and layout type are right. Another field is not: the leading byte offset is 1, all other bits "
        "are 0.",
        got=f"{word:#018x}",
    )


@exercise(
    "09.3",
    "Count the registers",
    hints=[
        "How many elements of C and of A does the warpgroup hold, and how many threads share them?",
        "Two halves share a register.",
    ],
)
def check_registers(answer: object) -> str:
    """The registers for a 64x192 accumulator and a k-tile of A."""
    same_int(
        answer,
        112,
        meaning="registers of one thread for A and C",
        mistakes={
            96: "That is C alone.",
            100: "That is A for one k-block. The warpgroup loads all four before the first wgmma.",
            128: "Two halves of A share a register.",
            64: "The sums are in f32: each has a register of its own.",
            448: "A warpgroup has 128 threads, not 32.",
        },
    )
    return "96 for C and 16 for A. With A in shared memory, the 16 are free."


@exercise(
    "09.4",
    "What is left for the copies?",
    hints=[
        "How many cycles does m64n128k16 take at 2048 multiply-adds per cycle?",
        "How many bytes of A and of B does it read?",
    ],
)
def check_left(answer: object) -> str:
    """Count the bytes of shared memory's 128 a cycle that m64n128k16 leaves."""
    same_int(
        answer,
        32,
        meaning="the bytes per cycle that are left",
        mistakes={
            96: "That is what the instruction takes.",
            64: "You counted B alone. A comes from shared memory too.",
            96 + 32: "The instruction reads its operands from shared memory each time.",
            80: "Bytes, not elements: a half has two.",
            2048: "That is for the whole instruction. How many cycles does it take?",
        },
    )
    return "6144 bytes in 64 cycles are 96 bytes in a cycle. A larger N leaves more, because A is read less often."


@exercise(
    "09.5",
    "A bug to find",
    hints=[
        "The cell before shows which column of C holds the column that you want. Which rows of B does the tensor core read?",
        "Columns 0 to 31 of C are products of A with something that is not B.",
        "Where do the 256 rows of B start in shared memory, in units of 16 bytes?",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """The place of B's tile in its descriptor."""
    import numpy as np

    from cutecourse.kernels import wgmma_one

    text = repaired_text(answer, "09.5")
    rng = np.random.default_rng(19)
    a, b = (rng.integers(-4, 5, (rows, 256)).astype(np.float16) for rows in (64, 256))
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    shifted = np.vstack([wide_a[32:], wide_b[:224]])
    same_outputs(
        wgmma_one.LAUNCH.with_text(text),
        {"a": a, "b": b, "c": np.full((64, 256), np.nan, np.float32)},
        {"c": wide_a @ wide_b.T},
        emulator_first=True,
        mistakes={
            "c": [
                (
                    wide_a @ shifted.T,
                    "The first 32 rows that the tensor core takes for B are rows 32 to 63 of A. Where does B's tile start?",
                )
            ]
        },
    )
    return "64 rows of 128 bytes are 8192 bytes, 512 units of 16. A descriptor with another start is just another matrix."


@exercise(
    "09.6",
    "A kernel to write: fp8",
    hints=[
        "K of one instruction is always 32 bytes. How many elements of e4m3 are that?",
        "The chapter's wgmma_one has everything that you need, and there is only one k-tile here.",
        "Clear nothing: set ACCUMULATE to False before the first k-block and to True after it.",
    ],
)
def check_gemm_fp8(answer: object) -> str:
    """A product in e4m3 with sums in f32."""
    import numpy as np

    from cutecourse.dtypes import encode

    rng = np.random.default_rng(23)
    wide_a, wide_b = (rng.integers(-4, 5, (64, 128)).astype(np.float32) for _ in range(2))
    a, b = (encode(wide, "e4m3") for wide in (wide_a, wide_b))
    empty = np.full((64, 64), UNWRITTEN, np.float32)
    _first_and_last(
        answer,
        {"a": a, "b": b, "c": empty},
        "c",
        wide_a @ wide_b.T,
        wide_a[:, 96:] @ wide_b[:, 96:].T,
        wide_a[:, :32] @ wide_b[:, :32].T,
    )
    return "The same kernel with another operation: 32 elements of K are 32 bytes again, so a row of 128 bytes has four k-blocks."


@exercise(
    "09.7",
    "A kernel to write: two products in a row",
    hints=[
        "Wait for the first product before you touch its registers.",
        "A thread's values of the accumulator are its values of A for the second product, in the same order: tCrP[i] comes from tCrS[i].",
        "cutlass.max(x, cutlass.Float32(0)).to(cutlass.Float16) is relu and the rounding.",
    ],
)
def check_two_products(answer: object) -> str:
    """Two products in a row, the first one's result in registers."""
    import numpy as np

    from cutecourse.runtime import run

    rng = np.random.default_rng(29)
    a, b, v = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(3))
    wide_a, wide_b, wide_v = (one.astype(np.float32) for one in (a, b, v))
    first = wide_a @ wide_b.T
    inputs: dict[str, Any] = {"a": a, "b": b, "v": v, "d": np.full((64, 64), UNWRITTEN, np.float32)}
    require_cleared(answer, inputs, "d")
    same_outputs(
        answer,
        inputs,
        {"d": np.maximum(first, 0) @ wide_v.T},
        emulator_first=True,
        reports=_REPORTS,
        mistakes={
            "d": [
                (inputs["d"], "D is unchanged: the kernel never stores it."),
                (first @ wide_v.T, "The relu is missing: P has negative values."),
                (np.maximum(first, 0), "That is P. The second product is missing."),
                (
                    np.maximum(first @ wide_v.T, 0),
                    "The relu comes between the two products, not after them.",
                ),
                (
                    np.maximum(first, 0)[:, 48:] @ wide_v[:, 48:].T,
                    "That is the product of the last k-block of P alone. When does the second MMA accumulate?",
                ),
            ]
        },
    )
    # same_outputs has refused what is not a specification.
    outcome = run(cast("LaunchSpec", answer), device="emulator", **{k: x.copy() for k, x in inputs.items()})
    if any(note.hazard.name == "no wgmma fence" for note in outcome.notes):
        raise WrongAnswer(
            "D is right, but only by luck: ptxas adds a wgmma.fence that the kernel lacks. The threads write the "
            "registers of P, and then a wgmma reads them."
        )
    text = str(outcome.ptx)
    after = text.partition("wgmma.wait_group")[2]
    if "st.shared" in after or "stmatrix" in after:
        raise WrongAnswer(
            "D is right, but P goes through shared memory. A thread holds what it needs already."
        )
    return "16 columns of an accumulator are laid out like A. So a product can be the next operand without leaving its thread."


def _first_and_last(
    answer: object,
    inputs: dict[str, Any],
    name: str,
    right: np.ndarray[Any, Any],
    last: np.ndarray[Any, Any],
    first: np.ndarray[Any, Any],
) -> None:
    """Compare the output, and recognise products of the first or of the last k-block alone."""
    require_cleared(answer, inputs, name)
    same_outputs(
        answer,
        inputs,
        {name: right},
        emulator_first=True,
        reports=_REPORTS,
        mistakes={
            name: [
                (inputs[name], "C is unchanged: the kernel never stores its accumulator."),
                (last, "That is the product of the last k-block alone. When is ACCUMULATE set to True?"),
                (first, "That is the product of the first k-block alone. A row of 128 elements has four."),
            ]
        },
    )
