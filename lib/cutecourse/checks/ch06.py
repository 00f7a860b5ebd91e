"""Checks of the exercises of chapter 6, the TMA descriptor."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.compare import on_many, returned, same_layout, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError
from cutecourse.layout import ComposedLayout, Layout, Swizzle, get_nonswizzle_portion, size, tile_to_shape
from cutecourse.tma import TensorMapEncoding, TmaError, trace_tma_atom

WHOLE_LINE = (
    "You xored the chunk with all bits of the line's number, so from row 8 on it leaves its row. The swizzle takes two "
    "bits: the line modulo 4."
)
LINES = (
    "You xored the chunk with the row's number. The swizzle takes the number of the 128-byte line instead, and two "
    "rows of 64 bytes share a line."
)


def _is_encoding(answer: object) -> TensorMapEncoding:
    if not isinstance(answer, TensorMapEncoding):
        raise WrongAnswer(
            "The answer should be a descriptor.", expected="a TensorMapEncoding", got=type(answer).__name__
        )
    return answer


def _encodes(answer: TensorMapEncoding) -> None:
    try:
        answer.check()
    except TmaError as refused:
        raise WrongAnswer(f"The driver would refuse this descriptor: {refused}") from refused


def _same_field(answer: TensorMapEncoding, field: str, right: object, mistakes: dict[object, str]) -> None:
    got = getattr(answer, field)
    if got != right:
        raise WrongAnswer(mistakes.get(got, f"`{field}` doesn't fit the matrix."), where=field, got=str(got))


@exercise(
    "06.1",
    "A descriptor by hand",
    hints=[
        "Innermost first: columns, then rows, in `dims` and in `box` alike.",
        "`strides_bytes` has one entry fewer than `dims`, because the innermost stride is always one element.",
        "The swizzle `128B` spans 128 bytes. How many elements of f64 are that?",
    ],
)
def check_descriptor(answer: object) -> str:
    """Fields of a descriptor for a padded matrix."""
    given = _is_encoding(answer)
    if given.dtype.name != "f64":
        raise WrongAnswer("The matrix holds f64.", where="dtype", got=str(given.dtype))
    _same_field(
        given,
        "dims",
        (120, 90),
        {
            (90, 120): "You put rows before columns. The innermost mode comes first, and in a row-major "
            "matrix that is the columns.",
            (128, 90): "128 elements is the distance from row to row. The extent is what may be read: "
            "120 columns.",
        },
    )
    _same_field(
        given,
        "strides_bytes",
        (1024,),
        {
            (960,): "120 elements are 960 bytes, but a row starts 1024 bytes after the one before.",
            (128,): "You counted elements. Strides are in bytes.",
            (120,): "You counted elements, and left out the padding. Strides are in bytes.",
            (8, 1024): "The innermost stride is not passed: it is always one element.",
            (1024, 8): "The innermost stride is not passed: it is always one element.",
        },
    )
    _same_field(
        given,
        "box",
        (16, 32),
        {
            (32, 16): "The box is innermost first as well: columns, then rows.",
            (128, 32): "The swizzle spans 128 bytes, not 128 elements.",
            (64, 32): "64 elements would be 128 bytes for halves; these are f64.",
        },
    )
    _same_field(
        given,
        "swizzle",
        "128B",
        {"none": "The swizzle is missing."},
    )
    _encodes(given)
    return "Extents in elements, strides in bytes, innermost first: the same order in all of them."


@exercise(
    "06.2",
    "Where does the byte go?",
    hints=[
        "Without a swizzle it is r * 64 + c * 4. The swizzle moves whole chunks of 16 bytes within a row's 64.",
        "Which bits does S<2,4,3> xor into bits 4 and 5 of the byte's address? Two rows share a line of 128 bytes.",
    ],
)
def check_byte_of(answer: object) -> str:
    """The byte of an element under the 64-byte swizzle."""
    swizzle = Swizzle(2, 4, 3)
    cells = [(r, c) for r in range(16) for c in range(16)]
    what = "the first byte of element (r, c)"

    def place(chunk: Any) -> list[int]:
        return [r * 64 + chunk(r, c // 4) * 16 + c % 4 * 4 for r, c in cells]

    mistakes = (
        (
            place(lambda r, c: c),
            "You left out the swizzle. Rows 0 and 1 are right only because the xor is 0 there.",
        ),
        (
            place(lambda r, c: c ^ r % 4),
            LINES,
        ),
        (
            place(lambda r, c: c ^ r // 2),
            WHOLE_LINE,
        ),
        (
            place(lambda r, c: (c + r // 2) % 4),
            "You rotated the chunks. A swizzle xors them, and the two differ from row 2 on.",
        ),
        (
            [(r * 64 + (c // 4 ^ r // 2 % 4) * 16 + c % 4 * 4) // 4 for r, c in cells],
            "You counted elements. The question asks for the byte.",
        ),
        (
            [r * 128 + (c // 4 ^ r % 8) * 16 + c % 4 * 4 for r, c in cells],
            "That is the swizzle 128B with 128 bytes to a row. These rows have 64.",
        ),
        (
            [c * 64 + (r // 4 ^ c // 2 % 4) * 16 + r % 4 * 4 for r, c in cells],
            "You swapped rows and columns: a row of the box is contiguous, not a column.",
        ),
    )
    given = returned(answer, cells, what=what)
    for wrong, words in mistakes:
        if given == wrong:
            raise WrongAnswer(words)
    on_many(answer, cells, lambda r, c: swizzle(r * 64 + c * 4), what=what)
    return "Two rows to a line and four chunks to a row: the pattern repeats after 8 rows, 512 bytes."


@exercise(
    "06.3",
    "The walk",
    hints=[
        "A column of the atom has 32 halves, so the first 32 offsets step along M, mode 0 of the tensor.",
        "tile_to_shape repeats the atom along M first. After how many columns does the walk jump to row 32?",
    ],
)
def check_walk(answer: object) -> str:
    """From the offset in shared memory to the coordinate, for an M-major tile of many boxes."""
    atom = ComposedLayout(Swizzle(2, 4, 3), 0, Layout((32, 8), (1, 32)))
    right = trace_tma_atom(Layout((512, 256), (1, 512)), tile_to_shape(atom, (128, 32)), (128, 32), "f16")
    same_layout(
        answer,
        right.sidx2gmode_full,
        tell=False,
        mistakes={
            "(128,32):(1@0,1@1)": "In shared memory, row 32 does not follow row 31: a column of the atom ends there.",
            "(32,8,4,4):(1@1,1@0,32@1,8@0)": "Mode 0 of the tensor is M. The 32 halves of a column run along M.",
            "(32,32,4):(1@0,1@1,32@0)": "You repeated the atoms along K first. By default, tile_to_shape repeats them along M first.",
            "(32,8,4,4):(1,32,256,1024)": "That leads from each offset back to itself. The walk leads to coordinates, so its strides are basis strides.",
            "(32,8,4,4):(1,128,32,1024)": "That is the inverse layout, from the offset to the element's number in the tile. "
            "Compose it with the tile's coordinates.",
            "(32,8,4,4):(1,512,32,4096)": "Those are strides in global memory. The walk leads to coordinates, so its strides are basis strides.",
        },
    )
    return "The first two modes are the box, 32x8; the other two say that there are 16 of them."


@exercise(
    "06.4",
    "Fewer instructions",
    hints=[
        "Which atom should follow the first one in shared memory, so that the walk continues along K?",
        "tile_to_shape takes an order of modes as its third argument.",
    ],
)
def check_fewest(answer: object) -> str:
    """An order of atoms in which the walk leaves the box as late as possible."""
    if isinstance(answer, str):
        answer = Layout.parse(answer)
    if not isinstance(answer, Layout | ComposedLayout):
        raise WrongAnswer("The answer should be a layout.", got=type(answer).__name__)
    atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((128, 8), (1, 128)))
    if not isinstance(answer, ComposedLayout) or answer.inner != atom.inner:
        raise WrongAnswer(
            "The layout has to be made of the swizzled atom. Without the swizzle, one instruction could load the tile, "
            "but the banks would conflict.",
            where="the swizzle",
        )
    plain = get_nonswizzle_portion(answer)
    if size(plain) != 256 * 64 or sorted(plain(i) for i in range(size(plain))) != list(range(256 * 64)):
        raise WrongAnswer(
            "The layout has to give each of the 256x64 elements a place of its own.", got=str(plain)
        )
    in_atom = [plain(m + 256 * k) - plain(0) for k in range(8) for m in range(128)]
    if in_atom != [m + 128 * k for k in range(8) for m in range(128)]:
        raise WrongAnswer(
            "The first 128x8 elements are not the atom: 128 down a column, then the next column.",
            got=str(plain),
        )
    best = tile_to_shape(atom, (256, 64), (2, 1))
    tensor = Layout((1024, 256), (1, 1024))
    fewest = trace_tma_atom(tensor, best, (256, 64), "u8").instructions
    try:
        given = trace_tma_atom(tensor, answer, (256, 64), "u8").instructions
    except TmaError as refused:
        raise WrongAnswer(f"CuTe refuses this layout: {refused}") from refused
    if given > fewest:
        default = tile_to_shape(atom, (256, 64))
        why = " That is the default order: the walk jumps to the next atom along N after 8 columns."
        raise WrongAnswer(
            f"That takes {given} instructions; fewer are possible.{why if answer == default else ''}",
            got=str(plain),
        )
    return "The swizzle spans 128 bytes, so 256 rows take two boxes. No layout of this atom takes fewer."


@exercise(
    "06.5",
    "A bug to find",
    hints=[
        "Where does batch 1 start, in bytes?",
        "The array has 18 rows for each matrix, and 16 of them count.",
    ],
)
def check_mended(answer: object) -> str:
    """A stride between matrices that leaves out the padding."""
    given = _is_encoding(answer)
    _same_field(
        given,
        "dims",
        (32, 16, 4),
        {(32, 18, 4): "The extents were right. With 18 rows, a box could read the padding."},
    )
    _same_field(
        given,
        "strides_bytes",
        (64, 18 * 32 * 2),
        {
            (64, 1024): "Batch 1 still starts 16 rows after batch 0, in its padding.",
            (64, 18 * 32): "You counted halves. Strides are in bytes.",
            (72, 1024): "The stride from row to row was right: 32 halves, 64 bytes.",
        },
    )
    _same_field(
        given,
        "box",
        (32, 16, 1),
        {(32, 18, 1): "The box was right. With 18 rows, it would load the padding too."},
    )
    _encodes(given)
    return "The extent says what may be read, the stride where it lies. Padding counts in the stride alone."


ELSEWHERE = "The layout in `host` differs from `sA`, from which the descriptor was made. Compare shape, stride and swizzle."
ONLY_ZEROS = (
    "Only zeros arrived, because the coordinates lie outside the tensor. A K-major layout in `host` has this "
    "effect: along its first mode, the coordinates then step by strides of A. Both A and the tile are M-major."
)
OTHER_MAJOR = (
    "A is M-major, but this layout is K-major. TMA does not transpose: the next element in shared memory must "
    "also be the next one in global memory."
)


@exercise(
    "06.6",
    "A kernel to write: an M-major tile",
    hints=[
        "Start with `sA`: tile_to_shape(atom, (64, 64), order). Which order takes two instructions?",
        "Print `sA`. Shape and stride of the DSL's layout are those after the second `o`.",
        "make_tiled_tma_atom takes the operation, the tensor, the layout of one tile, and the tile, here (64, 64).",
    ],
)
def check_m_major_tile(answer: object) -> str:
    """A tile of an M-major matrix through TMA."""
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec, TensorMapSpec

    right = tile_to_shape(ComposedLayout(Swizzle(3, 4, 3), 0, Layout((32, 8), (1, 32))), (64, 64), (2, 1))
    if isinstance(answer, LaunchSpec):
        given = next(one for one in answer.params if isinstance(one, TensorMapSpec))
        _check_shared_layout(given, right)
    a: Any = np.arange(256 * 128, dtype=np.float32).reshape(128, 256).T
    tile = np.ascontiguousarray(a[64:128, 64:128])
    same_outputs(
        answer,
        {"a": np.ascontiguousarray(a), "out": np.full((64, 64), -1, np.float32)},
        {"out": tile},
        mistakes={
            "out": [
                (
                    np.zeros((64, 64), np.float32),
                    ONLY_ZEROS,
                ),
                (
                    np.full((64, 64), -1, np.float32),
                    "Nothing was written to `out`: does `host` launch `tile_out`?",
                ),
                (np.ascontiguousarray(tile.T), "The tile arrived transposed: rows and columns are swapped."),
                (
                    np.ascontiguousarray(a[:64, :64]),
                    "That is the tile at (0, 0); the kernel asks for (1, 1).",
                ),
            ]
        },
        emulator_first=True,
        reports={
            "the copy's destination": ELSEWHERE,
            "StageReusedEarly": ELSEWHERE,
            "shape equivalence": "The tile and the layout passed to make_tiled_tma_atom have different extents. "
            "Both should be 64x64.",
        },
    )
    return "Two boxes of 32x64: the swizzle's span cuts M in two, and K is not cut."


def _check_shared_layout(given: Any, right: ComposedLayout) -> None:
    """Refuse a layout `sA` that is not the one that was asked for, and say why."""
    layout = given.smem_layout
    if not isinstance(layout, Layout | ComposedLayout):
        raise WrongAnswer("`sA` should be a layout.", where="sA", got=type(layout).__name__)
    if not isinstance(layout, ComposedLayout):
        raise WrongAnswer("The swizzle `128B` is missing from `sA`.", where="sA", got=str(layout))
    if layout.inner != right.inner:
        raise WrongAnswer(
            "The swizzle of `sA` is not `128B`. A swizzle permutes bytes, whatever the type of the elements.",
            where="sA",
            got=str(layout.inner),
        )
    plain = get_nonswizzle_portion(layout)
    if size(plain) != 64 * 64:
        raise WrongAnswer(
            "`sA` does not have the tile's 64x64 elements.", where="size(sA)", got=str(size(plain))
        )
    try:
        trace = given.trace
    except CourseError as refused:
        words = OTHER_MAJOR if "majorness" in str(refused) else "No descriptor can be made from `sA`."
        raise WrongAnswer(f"{words}\n{refused}", where="sA", got=str(layout)) from refused
    if trace.instructions != 2:
        raise WrongAnswer(
            f"With this `sA` the tile takes {trace.instructions} instructions. The exercise asks for two: "
            "repeat the atom in the other order.",
            where="sA",
            got=str(layout),
        )
