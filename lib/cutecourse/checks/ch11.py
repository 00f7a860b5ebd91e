"""Checks of the exercises of chapter 11, hello UMMA."""

from __future__ import annotations

from typing import Any

from cutecourse import umma
from cutecourse.checks.compare import ELECTS, on_many, returned, same_int, same_layout, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.descriptors import make_instr_desc
from cutecourse.layout import get_nonswizzle_portion

_OP = "SM100_MMA_F16BF16_SS"


@exercise(
    "11.1",
    "How many instructions?",
    hints=[
        "Mode 0 is what one instruction takes: its M (or N), and the K of a bf16 MMA.",
        "128 rows are two times 64, 192 columns two times 96; K of 128 is how many times 16?",
    ],
)
def check_partition_shapes(answer: object) -> str:
    """The partition shapes of a tile of several MMAs, and the number of instructions."""
    answer = _nested(answer)
    if not isinstance(answer, tuple) or len(answer) != 3:
        raise WrongAnswer("The answer is to be two shapes and a number.", got=type(answer).__name__)
    mma = umma.make_tiled_mma(_OP, "bf16", "bf16", "f32", 64, 96)
    right = umma.partition_shape_A(mma, (128, 128)), umma.partition_shape_B(mma, (192, 128))
    mistakes: dict[Any, str] = {
        ((128, 16), 1, 8): "One instruction of this MMA has M of 64.",
        ((64, 128), 2, 1): "One instruction takes 32 bytes of K, and not all of the k-tile.",
        ((64, 8), 2, 16): "32 bytes of bf16 are 16 elements.",
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
            16: "Along M and along N there are two each: every part of A meets every part of B.",
            8: "That is along K alone.",
        },
    )
    return "A's part i along M and B's part j along N meet in an accumulator of their own: four of them here."


@exercise(
    "11.2",
    "A tile by hand",
    hints=[
        "How many halves has a row of the atom K_SW64? That is the stride along N.",
        "The second MMA along K starts in the same row, 16 halves on, if the row is long enough.",
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
            "((96,16),1,2):((64,1),0,16)": "A row of 64 halves is 128 bytes; the atom K_SW64 has rows of 64 bytes.",
            "((96,16),1,2):((16,1),0,1536)": "That is the tile of the atom K_SW32, whose rows hold one MMA's K.",
            "((96,16),1,2):((1,96),0,1536)": "There N runs along the row; the tile is K-major.",
            "((96,16),1,2):((32,1),0,2)": "The next MMA along K starts 16 halves on; 2 are the units of 16 bytes that a "
            "descriptor counts.",
            "S<2,4,3> o 0 o ((96,16),1,2):((32,1),0,16)": "Asked is the layout without its swizzle.",
        },
    )
    return "The swizzle's width is the row's: 64 bytes hold two MMAs' K side by side."


@exercise(
    "11.3",
    "A descriptor from shifts and ors",
    hints=[
        "Addresses and offsets are stored divided by 16: start from bit 0, leading offset from 16, stride offset from 32.",
        "The stride byte offset is from 8 rows to the next 8 rows.",
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
                "Hopper's descriptor has no version; this one is version 1.", where="bits 46 and 47"
            )
        off = [g ^ w for g, w in zip(given, wanted, strict=True)]
        if any(off) and all(bits & (1 << 61) - 1 == 0 for bits in off):
            raise WrongAnswer(
                "All but the layout type is right: 128 bytes are 2, 64 are 4, 32 are 6.",
                where="bits 61 to 63",
            )
        if any(off) and all(bits & ~(((1 << 14) - 1) << 32) == 0 for bits in off):
            raise WrongAnswer(
                "All but the stride byte offset is right: it goes from 8 rows to the next 8 rows, in units of 16 bytes.",
                where="bits 32 to 45",
            )
        if any(off) and all(bits & ~(((1 << 14) - 1) << 16) == 0 for bits in off):
            raise WrongAnswer(
                "All but the leading byte offset is right: 16 bytes, stored in units of 16 bytes.",
                where="bits 16 to 29",
            )
        undivided = [word - (start >> 4) | start for word, (start, _) in zip(wanted, cases, strict=True)]
        if any(off) and (given == undivided or all(bits & ~((1 << 14) - 1) == 0 for bits in off)):
            raise WrongAnswer(
                "All but the start is right: an address is stored in units of 16 bytes.",
                where="bits 0 to 13",
            )
    on_many(answer, cases, right, what="the descriptor", show="{:#018x}".format)
    return "Rows, columns and types are not in it: the instruction knows them."


@exercise(
    "11.4",
    "Read a word",
    hints=[
        "C's type is bits 4 and 5, A's bits 7 to 9, the majors bits 15 and 16.",
        "N is bits 17 to 22 in eights, M bits 24 to 28 in sixteens.",
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
        raise WrongAnswer("The bits count M in sixteens and N in eights.", where="read(0x8400010)")
    if given == [(m, n, a, c, y, x) for m, n, a, c, x, y in meant.values()]:
        raise WrongAnswer("Bit 15 is A's major, bit 16 B's.", where="the majors")
    on_many(answer, cases, meant.__getitem__, what="(M, N, A, C, major of A, major of B)")
    return "And K? 32 bytes of A's type: it is in no bit."


@exercise(
    "11.5",
    "Who gets C[m, n]?",
    hints=[
        "With M of 128, row m is lane m. With 64, sixteen lanes of each warp's 32 are used.",
        "The thread is the lane: warp w reads lanes 32 w to 32 w + 31, one for each of its threads.",
        "The address that is loaded from is a multiple of 32 columns from the first; the register counts from there.",
    ],
)
def check_who(answer: object) -> str:
    """Lane, column, thread and register of an element."""
    cases = [
        (m, n, rows, first)
        for rows in (64, 128)
        for m in (0, 1, 15, 16, 31, 32, 47, 63, rows - 1)
        for n in (0, 5, 31, 32, 100, 127)
        for first in (0, 128)
    ]
    places: dict[tuple[int, int, int], tuple[int, int, int, int]] = {}
    for rows in (64, 128):
        fragment = umma.make_fragment_C(((rows, 128), 1, 1))
        copy = umma.make_tmem_copy("SM100_TMEM_LOAD_32dp32b32x", fragment) if rows == 128 else None
        for m, n, of, _ in cases:
            if of == rows:
                place = fragment.place((m, n), 0, 0)
                places[m, n, rows] = (place.lane, place.column, place.lane, place.column % 32)
        if copy is not None:
            # Where the copy's own layouts can say it, they do.
            for thread in range(128):
                for register, (coord, place) in enumerate(copy.elements(thread)):
                    key = (*coord[0], rows)
                    if key in places:
                        places[key] = (place.lane, place.column, thread, register % 32)

    def right(m: int, n: int, rows: int, first: int) -> tuple[int, int, int, int]:
        lane, column, thread, register = places[m, n, rows]
        return lane, first + column, thread, register

    given = returned(answer, cases, what="(lane, column, thread, register)")
    if given == [(m, first + n, m, n % 32) for m, n, rows, first in cases]:
        raise WrongAnswer(
            "For M of 128. With 64 the rows are spread: sixteen of every 32 lanes.",
            where="who(16, 0, 64, 0)",
        )
    wanted = [right(*case) for case in cases]
    four = all(isinstance(one, tuple) and len(one) == 4 for one in given)
    if four and given != wanted and [one[:3] for one in given] == [one[:3] for one in wanted]:
        raise WrongAnswer(
            "The place and the thread are right. A load brings 32 columns; its registers count from its own first "
            "column.",
            where="the register",
        )
    on_many(answer, cases, right, what="(lane, column, thread, register)")
    return "A thread never sees another lane than its own: that is why rows of C go to threads."


@exercise(
    "11.6",
    "A bug to find",
    hints=[
        "The report says that a store writes what an MMA may have still to read. Who was to prevent that?",
        "A commit tracks what its own thread has issued before. What has the elected thread of warp 1 issued?",
    ],
)
def check_multiply(answer: object) -> str:
    """MMAs and their commit from one thread."""
    _check_gemm(
        answer,
        {
            "OverwrittenSource": "The stage is filled again while MMAs still read it: the "
            "barrier completes before they are done.",
            "has still to write": "C is loaded before all MMAs have written it.",
            "arrivals are missing": "A warp waits for a phase that never completes: who commits?",
            "elect.sync": ELECTS,
            "misses": "A warp waits for an arrival that never comes: who commits?",
        },
    )
    return "Whoever issues the MMAs issues the commit behind them: the same thread, the same warp."


@exercise(
    "11.7",
    "A kernel to write: from tensor memory to global memory",
    hints=[
        "get_slice takes the thread. The source is in tensor memory, the destination in global memory.",
        "Three steps in the loop: out of tensor memory into registers, a wait, out of the registers. umma_one has them.",
        "In the loop: cute.copy from tDtC[None, i, 0, 0], fence_view_async_tmem_load, autovec_copy to tDgC[None, i, 0, 0].",
    ],
)
def check_epilogue(answer: object) -> str:
    """The epilogue of a tile."""
    _check_gemm(
        answer,
        {
            "reaches lanes": "A warp names lanes that are not its own: which thread's slice does it take?",
            "NonUniformOperand": "The threads of a warp name one address, the warp's first lane: which partition is "
            "of the source?",
        },
        notes={
            "no tcgen05.wait::ld since": "The numbers are right, but a load is asynchronous, and nothing waits for it "
            "before its registers are stored.",
        },
    )
    return "One address for each warp, one row for each thread."


def _nested(value: object) -> Any:
    """Lists as tuples, inside too: shapes are compared as tuples."""
    return tuple(_nested(item) for item in value) if isinstance(value, (list, tuple)) else value


def _check_gemm(answer: object, reports: dict[Any, str], notes: dict[str, str] | None = None) -> None:
    import numpy as np

    a, b = (np.random.default_rng(seed).integers(-4, 5, (128, 256)).astype(np.float16) for seed in (3, 4))
    product, last = (a[:, k:].astype(np.float32) @ b[:, k:].T.astype(np.float32) for k in (0, 48))
    same_outputs(
        answer,
        {"a": a, "b": b, "c": np.zeros((128, 128), np.float32)},
        {"c": product},
        mistakes={
            "c": [
                (
                    last,
                    "The first 48 columns of K are missing: each of the first four MMAs has written, and none has added.",
                )
            ]
        },
        emulator_first=True,
        reports=reports,
        notes=notes,
    )
