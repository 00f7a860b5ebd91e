"""Checks of the exercises of chapter 11: tensor memory, descriptors and a first tcgen05 GEMM."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cutecourse import umma
from cutecourse.checks.compare import (
    ELECTS,
    on_many,
    repaired_text,
    returned,
    same_int,
    same_layout,
    same_outputs,
)
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.checks.untouched import refuse_untouched
from cutecourse.descriptors import make_instr_desc
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, get_nonswizzle_portion

_OP = "SM100_MMA_F16BF16_SS"


@exercise(
    "11.1",
    "How many instructions?",
    hints=[
        "Mode 0 is the operand of one instruction: its M (or N), and the K of a bf16 MMA.",
        "128 rows are twice 64, and 192 columns are twice 96. How many times does 16 go into a K of 128?",
    ],
)
def check_partition_shapes(answer: object) -> str:
    """The partition shapes of a tile of several MMAs, and the number of instructions."""
    answer = _nested(answer)
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise WrongAnswer("Give two shapes and a number.", got=type(answer).__name__)
    mma = umma.make_tiled_mma(_OP, "bf16", "bf16", "f32", 64, 96)
    right = umma.partition_shape_A(mma, (128, 128)), umma.partition_shape_B(mma, (192, 128))
    mistakes: dict[Any, str] = {
        ((128, 16), 1, 8): "You took M = 128 for one instruction. This MMA has M = 64.",
        ((192, 16), 1, 8): "You took N = 192 for one instruction. This MMA has N = 96.",
        ((64, 128), 2, 1): "One instruction takes 32 bytes of K, not the whole k-tile.",
        ((96, 128), 2, 1): "One instruction takes 32 bytes of K, not the whole k-tile.",
        ((64, 8), 2, 16): "You counted 4 bytes per element: 32 bytes of bf16 are 16 elements.",
        ((64, 32), 2, 4): "You counted bytes: 32 bytes of bf16 are 16 elements.",
        ((96, 32), 2, 4): "You counted bytes: 32 bytes of bf16 are 16 elements.",
    }
    for name, given, wanted in zip(("A", "B"), answer[:2], right, strict=True):
        if given in mistakes:
            raise WrongAnswer(mistakes[given], where=f"the shape of {name}", got=str(given))
        if given != wanted:
            raise WrongAnswer(
                "The shape is ((rows of one MMA, its K), MMAs along the rows, MMAs along K).",
                where=f"the shape of {name}",
                got=str(given),
            )
    same_int(
        answer[2],
        right[0][1] * right[1][1] * right[0][2],
        meaning="MMAs of a k-tile",
        mistakes={
            16: "You counted the MMAs along one of M and N. There are two along each, and every part of A meets every "
            "part of B.",
            8: "You counted the MMAs along K alone.",
            12: "You added the counts along M, N and K. Multiply them: every part of A meets every part of B.",
        },
    )
    return "Part i of A along M and part j of B along N meet in an accumulator of their own. There are four here."


@exercise(
    "11.2",
    "A tile by hand",
    hints=[
        "How many halves are in one row of the atom K_SW64? That is the stride along N.",
        "The second MMA along K starts in the same row, 16 halves further on, if the row is long enough.",
    ],
)
def check_tile(answer: object) -> str:
    """The plain part of an operand's layout."""
    right = umma.tile_to_mma_shape(umma.make_smem_layout_atom("K_SW64", "f16"), ((96, 16), 1, 2)).result
    same_layout(
        answer,
        get_nonswizzle_portion(right),
        tell=False,
        mistakes={
            "((96,16),1,2):((64,1),0,16)": "You took rows of 64 halves, 128 bytes. The 64 in K_SW64 counts bytes.",
            "((96,16),1,2):((16,1),0,1536)": "That is the tile with the atom K_SW32, whose rows hold the K of one MMA.",
            "((96,16),1,2):((1,96),0,1536)": "In your layout N has stride 1. The tile is K-major: K has stride 1.",
            "((96,16),1,2):((32,1),0,2)": "Your last stride counts units of 16 bytes, as a descriptor does. A layout "
            "counts elements: the next MMA along K starts 16 halves further on.",
            "((96,16),1,2):((32,1),0,32)": "Your last stride counts bytes. A layout counts elements: the next MMA along K "
            "starts 16 halves further on.",
            "S<2,4,3> o 0 o ((96,16),1,2):((32,1),0,16)": "Leave out the swizzle: give the plain layout.",
        },
    )
    layout = Layout.parse(answer) if isinstance(answer, str) else answer
    if getattr(layout, "shape", None) != ((96, 16), 1, 2):
        raise WrongAnswer(
            "The elements are where they should be, but the shape does not show the MMAs. It should read ((rows, k) of one "
            "MMA, MMAs along N, MMAs along K).",
            got=str(layout),
        )
    return "The swizzle is as wide as the row: 64 bytes hold the K of two MMAs side by side."


@exercise(
    "11.3",
    "A descriptor from shifts and ors",
    hints=[
        "Addresses and offsets are stored divided by 16: start from bit 0, leading offset from 16, stride offset from 32.",
        "The stride byte offset leads from one group of 8 rows to the next.",
        "Two more fields: the version, 1, in bits 46 and 47, and the layout type in bits 61 to 63.",
    ],
)
def check_descriptor(answer: object) -> str:
    """Descriptors of K-major tiles, for all three swizzles."""
    kinds = {32: "K_SW32", 64: "K_SW64", 128: "K_SW128"}
    cases = [(1024 * start, width) for start in (0, 1, 7, 100, 223) for width in kinds]

    def right(start: int, width: int) -> int:
        atom = umma.make_smem_layout_atom(kinds[width], "f16")
        tile = umma.tile_to_mma_shape(atom, ((128, 16), 1, width // 32))
        return umma.smem_desc_tensor(tile.result, "f16", "K", start).first.desc

    given = returned(answer, cases, what="the descriptor")
    if all(type(word) is int for word in given):
        wanted = [right(*case) for case in cases]
        if given == [word & ~(3 << 46) for word in wanted]:
            raise WrongAnswer(
                "You left out the version, as Hopper's descriptor does. Blackwell's is version 1.",
                where="bits 46 and 47",
            )
        off = [g ^ w for g, w in zip(given, wanted, strict=True)]
        if any(off) and all(bits & (1 << 61) - 1 == 0 for bits in off):
            raise WrongAnswer(
                "Everything but the layout type is right: 2 stands for 128 bytes, 4 for 64 and 6 for 32.",
                where="bits 61 to 63",
            )
        if any(off) and all(bits & ~(((1 << 14) - 1) << 32) == 0 for bits in off):
            raise WrongAnswer(
                "Everything but the stride byte offset is right: it leads from 8 rows to the next 8 rows, in units of "
                "16 bytes.",
                where="bits 32 to 45",
            )
        if any(off) and all(bits & ~(((1 << 14) - 1) << 16) == 0 for bits in off):
            raise WrongAnswer(
                "Everything but the leading byte offset is right: 16 bytes, stored in units of 16 bytes.",
                where="bits 16 to 29",
            )
        undivided = [word - (start >> 4) | start for word, (start, _) in zip(wanted, cases, strict=True)]
        if any(off) and (given == undivided or all(bits & ~((1 << 14) - 1) == 0 for bits in off)):
            raise WrongAnswer(
                "Everything but the start is right: the field counts units of 16 bytes, not bytes.",
                where="bits 0 to 13",
            )
    on_many(answer, cases, right, what="the descriptor", show="{:#018x}".format)
    return "The descriptor holds no number of rows, no K and no type. The instruction descriptor has those."


@exercise(
    "11.4",
    "Read a word",
    hints=[
        "Bits 4 and 5 hold the type of C, bits 7 to 9 the type of A, bits 15 and 16 the majors.",
        "Bits 17 to 22 hold N / 8, bits 24 to 28 hold M / 16.",
    ],
)
def check_read(answer: object) -> str:
    """Instruction descriptors taken apart."""
    cases = []
    meant = {}
    for m, n in ((64, 8), (128, 128), (128, 256), (256, 240)):
        for a in ("f16", "bf16"):
            for c in ("f16", "f32") if a == "f16" else ("f32",):
                for majors in (("K", "K"), ("K", "MN"), ("MN", "K")):
                    word = make_instr_desc(a, a, c, m, n, *majors)
                    cases.append((word,))
                    meant[word] = (m, n, a, c, *majors)
    given = returned(answer, cases, what="(M, N, A, C, major of A, major of B)")
    if given == [(m // 16, n // 8, *rest) for m, n, *rest in meant.values()]:
        raise WrongAnswer(
            "You read the fields as they are. They count M in sixteens and N in eights.",
            where="read(0x8400010)",
        )
    if given == [(m, n, a, c, y, x) for m, n, a, c, x, y in meant.values()]:
        raise WrongAnswer("You swapped the majors: bit 15 belongs to A, bit 16 to B.", where="the majors")
    on_many(answer, cases, meant.__getitem__, what="(M, N, A, C, major of A, major of B)")
    return "No bit holds K. It is 32 bytes of the operand's type."


@exercise(
    "11.5",
    "Who gets C[m, n]?",
    hints=[
        "With M = 128, row m is lane m. With M = 64, each warp's 32 lanes hold 16 rows.",
        "Each thread reads the lane of its own number: warp w reads lanes 32 w to 32 w + 31.",
        (
            "Load number 0 takes the first `width` columns, load number 1 the next. Registers count from the load's "
            "own first column."
        ),
    ],
)
def check_who(answer: object) -> str:
    """The lane and column of an element, and its thread, load and register."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswer("Give two functions: (where, who).", got=type(answer).__name__)
    where, who = answer
    refuse_untouched(where)
    _check_where(where)
    refuse_untouched(who)
    _check_receiver(who)
    return "A thread reads only its own lane. That is why it gets a row of C."


def _check_where(answer: object) -> None:
    cases = [
        (m, n, rows, first)
        for rows in (64, 128)
        for m in sorted({0, 1, 15, 16, 31, 32, 47, 63, rows - 1})
        for n in (0, 5, 31, 32, 100, 127)
        for first in (0, 128)
    ]
    fragments = {rows: umma.make_fragment_C(((rows, 128), 1, 1)) for rows in (64, 128)}

    def right(m: int, n: int, rows: int, first: int) -> tuple[int, int]:
        place = fragments[rows].place((m, n), 0, 0)
        return place.lane, first + place.column

    given = returned(answer, cases, what="(lane, column)")
    mistakes: list[tuple[Callable[..., object], str]] = [
        (
            lambda m, n, rows, first: (m, first + n),
            "You put row m into lane m. That holds for M = 128. With M = 64, only the first 16 of every 32 lanes hold rows.",
        ),
        (
            lambda m, n, rows, first: (m * (128 // rows), first + n),
            "You left out every second lane. With M = 64, each group of 16 rows fills 16 neighbouring lanes.",
        ),
        (
            lambda m, n, rows, first: (right(m, n, rows, 0)[0], n),
            "You left out `first`: the accumulator starts at that column.",
        ),
        (
            lambda m, n, rows, first: (first + n, right(m, n, rows, 0)[0]),
            "You swapped lanes and columns: rows of C lie in lanes.",
        ),
    ]
    for mistake, message in mistakes:
        if given == [mistake(*case) for case in cases]:
            raise WrongAnswer(message, where="where(m, n, rows, first)")
    on_many(answer, cases, right, what="(lane, column)")


def _check_receiver(answer: object) -> None:
    widths = (16, 32, 64)
    cases = [
        (m, n, width) for width in widths for m in (0, 15, 31, 32, 70, 127) for n in (0, 5, 16, 40, 100, 127)
    ]
    fragment = umma.make_fragment_C(((128, 128), 1, 1))
    owners: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for width in widths:
        load = umma.make_tmem_copy(f"SM100_TMEM_LOAD_32dp32b{width}x", fragment)
        for thread in {case[0] for case in cases}:
            for value, (coord, _) in enumerate(load.elements(thread)):
                owners[*coord[0], width] = thread, value // width, value % width

    given = returned(answer, cases, what="(thread, load, register)")
    mistakes: list[tuple[Callable[..., object], str]] = [
        (
            lambda m, n, width: (m % 32, n // width, n % width),
            "You gave the thread's place in its warp. The exercise asks for its number in the CTA.",
        ),
        (
            lambda m, n, width: (m, n // width, n),
            "Thread and load are right. The registers of a load count from its own first column.",
        ),
        (
            lambda m, n, width: (m, n % width, n // width),
            "You swapped load and register: one load takes `width` neighbouring columns.",
        ),
        (
            lambda m, n, width: (m, n // 32, n % 32),
            "You assumed loads of 32 columns. They take `width`.",
        ),
        (
            lambda m, n, width: (n, m // width, m % width),
            "You gave a thread a column of C. A thread reads one lane, and a lane holds a row.",
        ),
    ]
    for mistake, message in mistakes:
        if given == [mistake(*case) for case in cases]:
            raise WrongAnswer(message, where="who(m, n, width)")
    on_many(answer, cases, lambda *case: owners[case], what="(thread, load, register)")


@exercise(
    "11.6",
    "A bug to find",
    hints=[
        "The report names a store into a stage that an MMA may still read. Which wait should have prevented it?",
        (
            "A commit tracks the operations of its own thread. Compare the thread that multiplies with the one that "
            "commits."
        ),
    ],
)
def check_multiply(answer: object) -> str:
    """MMAs and their commit from one thread: the launch of a kernel, or its text in PTX."""
    if isinstance(answer, str):
        answer = _of_text(answer)
    unelected = _unelected_commit(answer)
    try:
        _check_gemm(
            answer,
            {
                "does not dominate": "You call cute.gemm inside elect_one(). It elects a thread itself and needs the "
                "whole warp; only the commit belongs inside. (The compiler's message is about tiled_mma.set: it changes "
                "a value in the elected block, and the value is used outside.)",
                "OverwrittenSource": "The stage is filled again while MMAs still read it: the "
                "barrier completes before they are done.",
                "has not written": "C is loaded before all MMAs have written it.",
                "arrivals are missing": "A warp waits for a phase that never completes: nobody commits.",
                "elect.sync": ELECTS,
                "lacks": "A warp waits for an arrival that never comes: nobody commits.",
            },
        )
    except WrongAnswer as wrong:
        if not unelected:
            raise
        raise WrongAnswer(
            "tcgen05.commit does not elect a thread, and here every thread that reaches it commits. All but one "
            f"of them have issued no MMA, so they arrive at once.\n{wrong.message}"
        ) from wrong
    if unelected:
        raise WrongAnswer(
            "The result is right, but only by luck. cute.gemm lets elect.sync choose the thread that issues the MMAs; "
            "you chose the thread that commits yourself. The ISA does not say which lane elect.sync chooses, and a "
            "commit tracks only the MMAs of its own thread. Let elect_one() choose for the commit as well."
        )
    return "The thread that issues the MMAs must also issue their commit. elect.sync gives the same thread both times."


def _of_text(ptx: str) -> object:
    from cutecourse.kernels import SpecError, broken_text, twin, umma_tile

    text = repaired_text(ptx, "11.6", twin(umma_tile.LAUNCH.with_text(broken_text("11.6"))).ptx)
    try:
        return umma_tile.LAUNCH.with_text(text)
    except SpecError as error:
        raise WrongAnswer(f"The text cannot be used: {error}") from error


def _unelected_commit(answer: object) -> bool:
    """True where a tcgen05.commit has no elect.sync of its own behind the last tcgen05.mma.

    PTX written by hand may keep the elected thread in a predicate that guards both.
    """
    from cutecourse import runtime

    try:
        ptx = str(runtime.compile(answer).ptx)  # type: ignore[arg-type]  # what is no launch is refused here
    except (CourseError, TypeError, AttributeError):
        return False  # the launch will say it
    elected = False
    choices: set[str] = set()
    for line in ptx.splitlines():
        if "elect.sync" in line:
            elected = True
        elif "tcgen05.mma" in line:
            elected = False
        elif "tcgen05.commit" in line and not elected and not _guard(line) & choices:
            return True
        if match := re.search(r"elect\.sync\s+\S+\|(%\w+)", line):
            choices.add(match[1])
    return False


def _guard(line: str) -> set[str]:
    match = re.match(r"\s*@(%\w+)", line)
    return {match[1]} if match else set()


_WAIT_BY_LUCK = (
    "The numbers are right, but nothing protects the columns. Each use of a register follows its load, because the "
    "ISA keeps register dependencies. They order nothing else: warp 0 may free the columns while a load still reads "
    "them. Each warp has to execute tcgen05.wait::ld (fence_view_async_tmem_load) before the barrier in front of the "
    "dealloc."
)


@exercise(
    "11.7",
    "A kernel to write: from tensor memory to global memory",
    hints=[
        (
            "Make a tiled copy with make_tmem_copy and take this thread's slice. The source is tensor memory, the destination "
            "global memory."
        ),
        (
            "In a loop over the loads: out of tensor memory into registers, a multiplication, out of the registers. The "
            "loop also needs a wait."
        ),
        (
            "cute.copy(load, tDtC[None, i, 0, 0], tDrC), tDrC.store(tDrC.load() * 0.5), "
            "cute.autovec_copy(tDrC, tDgC[None, i, 0, 0])."
        ),
    ],
)
def check_epilogue(answer: object) -> str:
    """The epilogue of a tile, with a factor of one half."""
    a, b, product = _operands()
    half = product * 0.5
    blocks = {width: half.reshape(128, 128 // width, width) for width in (1, 2, 4, 8, 16, 32, 64)}
    repeated = [
        (
            block[:, :1].repeat(block.shape[1], axis=1).reshape(128, 128),
            (
                f"C repeats its first {width} column{'s' if width > 1 else ''}: you load "
                "from the same columns in every turn of the loop."
            ),
        )
        for width, block in blocks.items()
    ]
    only_first = []
    for width, block in blocks.items():
        alone = block.copy()
        alone[:, 1:] = 0
        only_first.append(
            (
                alone.reshape(128, 128),
                f"Only the first {width} columns are stored. Loop over all loads: mode 1 of the partition counts them.",
            )
        )
    same_outputs(
        answer,
        {"a": a, "b": b, "c": _zeros()},
        {"c": half},
        mistakes={
            "c": [
                (product, "You stored the product itself. The factor 0.5 is missing."),
                (product * 0.25, "You multiplied by 0.5 twice."),
                (product * 2, "You multiplied by 2."),
                (half.T, "Your C is transposed: a thread holds a row of C, not a column."),
                (_zeros(), "C is still zero: nothing was stored."),
                *repeated,
                *only_first,
            ]
        },
        emulator_first=True,
        reports={
            "reaches lanes": "A warp names lanes that are not its own. Which thread's slice did you take?",
            "NonUniformOperand": "All threads of a warp must name the same address: that of the warp's first lane. Which "
            "partition belongs to the source?",
            "load under way": _WAIT_BY_LUCK,
            "TensorMemoryLoadUnderWay": "The columns are freed while a load may still read them: "
            + _WAIT_BY_LUCK,
        },
        notes={"no tcgen05.wait::ld since": _WAIT_BY_LUCK},
    )
    if _uses_before_wait(answer):
        return (
            "Your wait comes after the first use of the registers, and that is right: a register dependency alone makes "
            "a use follow its load. The wait protects the columns, and it comes before the barrier that lets warp 0 "
            "free them."
        )
    return (
        "One address per warp, one row per thread. The registers needed no wait. The columns did: after it, "
        "warp 0 may free them."
    )


def _uses_before_wait(answer: Any) -> bool:
    """True where a register of a tcgen05.ld is read in front of the tcgen05.wait::ld that follows."""
    from cutecourse import runtime

    loaded: set[str] = set()
    for line in str(runtime.compile(answer).ptx).splitlines():
        if "tcgen05.ld" in line:
            loaded.update(re.findall(r"%r\d+", line.split("}")[0]))
        elif "tcgen05.wait::ld" in line:
            loaded.clear()
        elif loaded & set(re.findall(r"%r\d+", line)):
            return True
    return False


def _nested(value: object) -> Any:
    """Lists as tuples, inside too: shapes are compared as tuples."""
    return tuple(_nested(item) for item in value) if isinstance(value, (list, tuple)) else value


def _operands() -> tuple[Any, Any, Any]:
    """A, B and their product, exact in f32."""
    import numpy as np

    a, b = (np.random.default_rng(seed).integers(-4, 5, (128, 256)).astype(np.float16) for seed in (3, 4))
    return a, b, a.astype(np.float32) @ b.T.astype(np.float32)


def _zeros() -> Any:
    import numpy as np

    return np.zeros((128, 128), np.float32)


def _check_gemm(answer: object, reports: dict[Any, str]) -> None:
    import numpy as np

    a, b, product = _operands()
    last = a[:, 48:].astype(np.float32) @ b[:, 48:].T.astype(np.float32)
    same_outputs(
        answer,
        {"a": a, "b": b, "c": _zeros()},
        {"c": product},
        mistakes={
            "c": [
                (
                    last,
                    (
                        "The first 48 columns of K are missing: each of the first four MMAs overwrote the accumulator. "
                        "Only the very first one should."
                    ),
                )
            ]
        },
        emulator_first=True,
        reports=reports,
    )
