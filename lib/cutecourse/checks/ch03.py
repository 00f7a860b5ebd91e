"""Checks of the exercises of chapter 3, A parallel copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cutecourse.checks.compare import on_many, repaired_text, returned, same_int, same_outputs, same_sequence
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.checks.untouched import refuse_untouched
from cutecourse.layout import Layout, make_layout, rank, size
from cutecourse.memory_access import sectors_of_warp_store

if TYPE_CHECKING:
    import numpy as np


@exercise(
    "03.1",
    "Whose element?",
    hints=[
        "Each thread has a block of 2x2 elements. In which block does (m, n) lie?",
        "The block's coordinate goes into the threads' layout, and the position inside the block goes into the values' layout.",
    ],
)
def check_owner(answer: object) -> str:
    """The thread and the value of each element of a tile of 8x16."""
    cases = [(m, n) for m in range(8) for n in range(16)]
    what = "the pair (thread, value) of an element"
    mistakes: tuple[tuple[Callable[[int, int], tuple[int, int]], str], ...] = (
        (
            lambda m, n: (8 * (m % 4) + n % 8, 2 * (m // 4) + n // 8),
            "This gives a thread every fourth row and every eighth column. A tiled copy keeps the values of a thread together.",
        ),
        (
            lambda m, n: (8 * (m // 2) + n // 2, m % 2 + 2 * (n % 2)),
            "The threads are right. The values' layout is (2,2):(2,1): neighbours in a row are values 0 and 1.",
        ),
        (
            lambda m, n: (m // 2 + 4 * (n // 2), 2 * (m % 2) + n % 2),
            "The values are right. The threads' layout is (4,8):(8,1): neighbouring threads lie in a row.",
        ),
        (
            lambda m, n: (2 * (m % 2) + n % 2, 8 * (m // 2) + n // 2),
            "The two numbers are right, but the thread comes first.",
        ),
    )

    def right(m: int, n: int) -> tuple[int, int]:
        return 8 * (m // 2) + n // 2, 2 * (m % 2) + n % 2

    got = returned(answer, cases, what=what)
    if isinstance(got[0], int):
        raise WrongAnswer(
            "`owner` returns a pair: (thread, value).", where="owner(0, 0)", got=f"one number, {got[0]}"
        )
    for wrong, message in mistakes:
        if got == [wrong(*case) for case in cases]:
            m, n = next(case for case in cases if wrong(*case) != right(*case))
            raise WrongAnswer(
                message, where=f"owner({m}, {n})", expected=str(right(m, n)), got=str(wrong(m, n))
            )
    on_many(answer, cases, right, what=what)
    return "Divide by the block to find the thread. The remainder says which value it is."


@exercise(
    "03.2",
    "A plan for another matrix",
    hints=[
        "A vector of 16 bytes holds 8 halves. Along which mode do they lie?",
        "32 lanes load 16 bytes each, 512 bytes in all. What is the smallest number of sectors that can hold them? Which vectors should neighbouring lanes have?",
    ],
)
def check_plan(answer: object) -> str:
    """Threads and values for a column-major matrix of halves."""
    if not (
        isinstance(answer, tuple) and len(answer) == 2 and all(isinstance(one, Layout) for one in answer)
    ):
        raise WrongAnswer(
            "The answer is a pair of layouts: first the layout of the threads, then the layout of the values.",
            expected="(make_layout(...), make_layout(...))",
            got=f"({', '.join(type(one).__name__ for one in answer)})"
            if isinstance(answer, tuple)
            else type(answer).__name__,
        )
    from cutecourse.atoms import AtomError, copy_atom, make_tiled_copy_tv

    threads, values = answer
    if int(size(threads)) != 128:
        raise WrongAnswer(
            "There are 128 threads, so the layout needs 128 places, one for each thread.",
            where="size(threads)",
            expected="128",
            got=str(size(threads)),
        )
    if rank(threads) != 2:
        raise WrongAnswer(
            "The threads' layout takes the coordinate (m, n), so it needs two modes. A mode may have the size 1.",
            where="threads",
            expected="a layout with two modes",
            got=str(threads),
        )
    if sorted(threads(i) for i in range(128)) != list(range(128)):
        raise WrongAnswer(
            "The layout of the threads gives the same number to two places, or leaves a number out. Each of the 128 threads needs a place of its own.",
            where="threads",
            expected="each number from 0 to 127 once",
            got=str(threads),
        )
    if int(size(values)) % 8:
        message = "A vector of 16 bytes has 8 halves."
        if int(size(values)) in (4, 16):
            message += " Did you count elements of another size?"
        raise WrongAnswer(message, where="size(values)", expected="a multiple of 8", got=str(size(values)))
    try:
        plan = make_tiled_copy_tv(copy_atom("UniversalCopy<uint128_t>", "f16"), threads, values)
        rows, columns = (int(one) for one in plan.tile_shape)
        parts = [plan.get_slice(lane).partition_S(make_layout((64, 64))) for lane in range(32)]
        starts = [[part.offset + part.layout(i) for i in range(8)] for part in parts]
    except (AtomError, ValueError) as error:
        raise WrongAnswer(f"No tiled copy can be made from these layouts: {error}") from error
    if 64 % rows or 64 % columns:
        raise WrongAnswer(
            "The tile of the copy does not divide the matrix.",
            expected="a tile that divides 64x64",
            got=f"{rows}x{columns}",
        )
    for lane, offsets in enumerate(starts):
        if offsets != list(range(offsets[0], offsets[0] + 8)):
            raise WrongAnswer(
                "The eight values of a vector have to be contiguous. The matrix is column-major: its neighbours lie along M.",
                where=f"the first vector of thread {lane}",
                got=f"offsets {offsets}",
            )
    sectors = sectors_of_warp_store([2 * offsets[0] for offsets in starts], 16)
    if sectors != 16:
        raise WrongAnswer(
            "The vectors are contiguous, but each request of a warp touches more sectors than it needs. Neighbouring threads "
            "should have neighbouring vectors.",
            where="warp 0, first vector",
            expected="512 bytes / 32",
            got=f"{sectors} sectors",
        )
    lines = len({2 * offsets[0] // 128 for offsets in starts})
    if lines > 4:
        return (
            f"The request touches as few sectors as possible, 16. But these are spread over {lines} lines of 128 bytes, where 4 are enough. "
            "If the threads run down a whole column before the next one, the warp reads whole lines."
        )
    return "Values and threads both run along the mode with stride 1 first, whichever mode that is."


@exercise(
    "03.3",
    "How wide?",
    hints=[
        "How many bytes does a row have?",
        "Where does row 1 start? Which of the widths divides that number?",
    ],
)
def check_width(answer: object) -> str:
    """The widest access for rows of 1002 halves."""
    same_int(
        answer,
        4,
        meaning="the bytes of one access",
        mistakes={
            16: "The first row is aligned to 16 bytes. Where does the second row start?",
            8: "1002 elements are 2004 bytes. Is that a multiple of 8?",
            2: "Two bytes are always aligned, but a wider access is possible too. If you chose 2, you may have taken 1002 for the number of bytes in a row.",
            32: "No access of a thread is that wide here.",
        },
    )
    return "Row 1 starts after 2004 bytes, a multiple of 4 and of nothing wider. A padded row of 1008 halves would allow 16 bytes."


@exercise(
    "03.4",
    "What to wait for",
    hints=[
        "Before tile k is used, which groups have been committed?",
        "The groups that may be pending are those younger than tile k. How many are there near the end?",
    ],
)
def check_waits(answer: object) -> str:
    """The number of pending groups that each wait may allow."""
    same_sequence(
        answer,
        _MOST_PENDING,
        meaning="how many groups each wait may leave pending",
        mistakes=_wrong_waits(answer),
        tell=False,
    )
    return "When nothing new is committed, the number has to go down. Kernels often commit empty groups at the end, so that the number stays the same."


_MOST_PENDING = (2, 2, 2, 2, 1, 0)


def _wrong_waits(answer: object) -> dict[tuple[object, ...], str]:
    """Make the messages for wrong numbers: those that show a misconception, and the learner's own."""
    known: dict[tuple[object, ...], str] = {
        (2,)
        * 6: "In the last two turns nothing new is committed. Then wait_group(2) leaves tile 4 or 5 pending, and the loop uses that tile all the same.",
        (0,)
        * 6: "With these numbers every tile is there in time, but each wait also waits for the younger groups. Leave as many of them pending as you can.",
        (
            3,
            3,
            3,
            3,
            2,
            1,
        ): "That leaves tile k itself pending. Only groups younger than tile k may be pending.",
        (
            0,
            1,
            2,
            3,
            4,
            5,
        ): "The number does not name a tile. It counts the groups that may still be pending.",
        (1,) * 6: "Two younger groups may be pending at first, and none at the end.",
        (1, 1, 1, 1, 1, 0): "Two younger groups may be pending at first.",
    }
    given = tuple(answer) if isinstance(answer, (list, tuple)) else ()
    if (
        len(given) != len(_MOST_PENDING)
        or not all(isinstance(count, int) for count in given)
        or given in known
    ):
        return known
    for tile, (count, most) in enumerate(zip(given, _MOST_PENDING, strict=True)):
        if count == most:
            continue
        committed = f"Before the wait for tile {tile}, groups 0 to {min(tile + 2, 5)} are committed."
        if count > most:
            return known | {given: f"{committed} With your number, tile {tile} may itself be pending."}
        return known | {given: f"{committed} With your number, the wait is longer than tile {tile} needs."}
    return known


@exercise(
    "03.5",
    "A bug to find",
    hints=[
        "The report names the load that comes too early. Which wait stands before that load?",
        "How many groups were committed by then, and how many of them may be pending?",
    ],
)
def check_fixed_ptx(answer: object) -> str:
    """The wait for the first of two groups."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, Tensor

    text = repaired_text(answer, "03.5")
    shape = (16, 128)
    source = np.random.default_rng(35).standard_normal(shape).astype(np.float32)
    spec = LaunchSpec(
        name="copy_two_groups",
        language="ptx",
        ptx=text,
        entry="copy_two_groups",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        params=(Tensor("source", "f32", shape, (128, 1)), Tensor("result", "f32", shape, (128, 1))),
    )
    same_outputs(
        spec,
        {"source": source, "result": np.full(shape, np.nan, np.float32)},
        {"result": source},
        emulator_first=True,
        reports={
            "UninitializedRead": "A load from shared memory comes before its bytes are there. wait_group says how many of the youngest "
            "groups may be pending.",
        },
    )
    if "wait_group 1;" not in text and "wait_group\t1;" not in text:
        raise WrongAnswer(
            "The copy is right, but the first wait now waits for both groups. The second group should still be on its way "
            "while the first two vectors are stored."
        )
    return "wait_group counts groups, not copies. Here a group holds two vectors."


@exercise(
    "03.6",
    "A kernel to write: a transpose for any shape",
    hints=[
        "Exchange the modes of mD, as the chapter's transpose does. Then the source and this view of the result both have the shape (M, N).",
        "Cut and partition an identity tensor of mS.shape in the same way. Its elements are coordinates.",
        "Loop over the thread's elements, and copy an element only if elem_less(coordinate, mS.shape).",
    ],
)
def check_transpose(answer: object) -> str:
    """A transpose that is guarded on both edges."""
    import numpy as np

    if not callable(answer):
        raise WrongAnswer(
            "The answer is a function of (m, n) that gives the launch.",
            expected="lambda m, n: ...",
            got=type(answer).__name__,
        )
    for m, n in ((64, 32), (37, 53), (5, 100), (70, 31)):
        source = np.arange(1, m * n + 1, dtype=np.float32).reshape(m, n)
        empty = np.full((n, m), -1, np.float32)
        inputs: dict[str, Any] = {"source": source, "result": empty}
        launch = answer(m, n)
        refuse_untouched(launch)
        same_outputs(
            launch,
            inputs,
            {"result": np.ascontiguousarray(source.T)},
            emulator_first=True,
            reports={
                "AddressError": f"With {m}x{n}, a thread reads or writes outside the matrices. Both M and N have a tail that needs a guard, "
                "and a guard needs the coordinate in the matrix, not the one in the tile.",
                "Race": f"With {m}x{n}, two threads write the same element: a row's tail runs into the next row. Guard both modes.",
            },
            mistakes={
                "result": [
                    (empty, "The result has not changed: nothing was stored."),
                    (
                        source.reshape(n, m),
                        "The elements are in the source's order: the source was copied, not transposed.",
                    ),
                    *_wrong_transposes(source),
                ]
            },
        )
    return "The identity tensor is cut like the data, so the same comparison guards both edges, however the data lies."


def _wrong_transposes(source: np.ndarray[Any, Any]) -> list[tuple[np.ndarray[Any, Any], str]]:
    """Wrong results of a matrix of two tiles, 64x32, and what to say to each; none for another shape."""
    import numpy as np

    if source.shape != (64, 32):
        return []
    right = np.ascontiguousarray(source.T)
    top, bottom = source[:32], source[32:]
    half = np.where(np.arange(64) < 32, right, -1)
    first = np.where(np.arange(64) % 32 < 8, right, -1)
    return [
        (
            np.hstack([top, bottom]),
            "Each tile is in its new place, but its elements are not transposed. Exchange the modes of the result's tile, too.",
        ),
        (
            half,
            "Only the first tile was stored. The coordinates are those of mS, (m, n): compare them with the shape of mS.",
        ),
        (
            first,
            "Each thread stored one element. A tile of 32x32 has 1024 elements, so each of the 256 threads has four.",
        ),
    ]
