"""Checks of the exercises of chapter 6, the TMA descriptor."""

from __future__ import annotations

from typing import Any

from cutecourse.checks.compare import on_many, same_layout, same_outputs
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.layout import ComposedLayout, Layout, Swizzle, get_nonswizzle_portion, size, tile_to_shape
from cutecourse.tma import TensorMapEncoding, TmaError, trace_tma_atom


def _is_encoding(answer: object) -> TensorMapEncoding:
    if not isinstance(answer, TensorMapEncoding):
        raise WrongAnswer(
            "The answer is to be a descriptor.", expected="a TensorMapEncoding", got=type(answer).__name__
        )
    try:
        answer.check()
    except TmaError as refused:
        raise WrongAnswer(f"The driver would refuse this descriptor: {refused}") from refused
    return answer


def _same_field(answer: TensorMapEncoding, field: str, right: object, mistakes: dict[object, str]) -> None:
    got = getattr(answer, field)
    if got != right:
        raise WrongAnswer(
            mistakes.get(got, f"`{field}` is not that of the matrix."), where=field, got=str(got)
        )


@exercise(
    "06.1",
    "A descriptor by hand",
    hints=[
        "Innermost first: columns, then rows, in `dims` and in `box` alike.",
        "`strides_bytes` has one number less than `dims`: the innermost stride is always one element.",
        "A row of the box has 32 floats. How many bytes are that?",
    ],
)
def check_descriptor(answer: object) -> str:
    """Fields of a descriptor for a padded matrix."""
    given = _is_encoding(answer)
    if given.dtype.name != "f32":
        raise WrongAnswer("The matrix holds f32.", where="dtype", got=str(given.dtype))
    _same_field(
        given,
        "dims",
        (200, 300),
        {
            (300, 200): "The innermost mode comes first: in a row-major matrix that is the columns.",
            (
                256,
                300,
            ): "256 floats is the distance from row to row. The extent is what may be read: 200 columns.",
        },
    )
    _same_field(
        given,
        "strides_bytes",
        (1024,),
        {
            (800,): "200 floats are 800 bytes, but a row starts 1024 bytes after the one before.",
            (256,): "That counts floats; strides are in bytes.",
        },
    )
    _same_field(given, "box", (32, 64), {(64, 32): "The box is innermost first as well: columns, then rows."})
    _same_field(
        given,
        "swizzle",
        "128B",
        {"none": "The swizzle is missing: it is to span a row of the box, 32 floats."},
    )
    return "Extents in elements, strides in bytes, innermost first: the same order in all of them."


@exercise(
    "06.2",
    "Where does the byte go?",
    hints=[
        "Without a swizzle it is r * 128 + c * 2. The swizzle moves whole chunks of 16 bytes within the row's 128.",
        "The chunk's number, c // 8, is xored with the row's number modulo 8.",
    ],
)
def check_byte_of(answer: object) -> str:
    """The byte of an element under the 128-byte swizzle."""
    swizzle = Swizzle(3, 4, 3)
    cells = [(r, c) for r in range(16) for c in range(64)]
    if callable(answer):
        given = [answer(r, c) for r, c in cells]
        if given == [r * 128 + c * 2 for r, c in cells]:
            raise WrongAnswer(
                "That is the box without a swizzle; row 0 is right.",
                where="byte_of(1, 0)",
                expected="another chunk of the row",
                got=str(answer(1, 0)),
            )
        if given == [r * 128 + ((c // 8 + r) % 8) * 16 + c % 8 * 2 for r, c in cells]:
            raise WrongAnswer(
                "Chunks are rotated there. A swizzle xors: rows 0 and 1 agree with that, row 1 in part only.",
                where="byte_of(1, 8)",
                expected="chunk 1 xor 1",
                got="chunk 1 + 1",
            )
        if given == [r * 64 + (c // 8 ^ r % 8) * 8 + c % 8 for r, c in cells]:
            raise WrongAnswer("That counts halves; asked is the byte.", where="byte_of(1, 0)")
    on_many(answer, cells, lambda r, c: swizzle(r * 128 + c * 2), what="the first byte of element (r, c)")
    return "Eight rows, eight different chunks for the same column: eight different groups of banks."


@exercise(
    "06.3",
    "The walk",
    hints=[
        "A row of the atom has 32 floats: the first 32 places step along K, mode 1 of the tensor.",
        "tile_to_shape repeats the atom down the rows first. After how many rows does the walk come to column 32?",
    ],
)
def check_walk(answer: object) -> str:
    """From place in shared memory to coordinate, for a tile that takes two boxes."""
    row_atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 32), (32, 1)))
    right = trace_tma_atom(Layout((512, 256), (256, 1)), tile_to_shape(row_atom, (64, 64)), (64, 64), "f32")
    same_layout(
        answer,
        right.sidx2gmode_full,
        tell=False,
        mistakes={
            "(64,64):(1@1,1@0)": "Column 32 does not follow column 31 in shared memory: a row of the atom ends there.",
            "(32,64,2):(1@0,1@1,32@0)": "Mode 0 of the tensor is M. The 32 floats of a row run along K, mode 1.",
            "(32,8,2,8):(1@1,1@0,32@1,8@0)": "The atoms are repeated down the rows first, then along K.",
        },
    )
    return "The first two modes are the box, 32x64; the third says that there are two of them."


@exercise(
    "06.4",
    "Fewer instructions",
    hints=[
        "After an atom of 64x8, which atom should come next in shared memory, so that the walk goes on along K?",
        "tile_to_shape takes an order of modes as its third argument.",
    ],
)
def check_fewest(answer: object) -> str:
    """An order of atoms in which the walk leaves the box as late as possible."""
    if isinstance(answer, str):
        answer = Layout.parse(answer)
    if not isinstance(answer, Layout | ComposedLayout):
        raise WrongAnswer("The answer is to be a layout.", got=type(answer).__name__)
    atom = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((64, 8), (1, 64)))
    if not isinstance(answer, ComposedLayout) or answer.inner != atom.inner:
        raise WrongAnswer("The layout is to be made of the swizzled atom.", where="the swizzle")
    plain = get_nonswizzle_portion(answer)
    if size(plain) != 256 * 64 or sorted(plain(i) for i in range(size(plain))) != list(range(256 * 64)):
        raise WrongAnswer(
            "The layout is to give each of the 256x64 elements a place of its own.", got=str(plain)
        )
    in_atom = [plain(m + 256 * k) - plain(0) for k in range(8) for m in range(64)]
    if in_atom != [m + 64 * k for k in range(8) for m in range(64)]:
        raise WrongAnswer(
            "The first 64x8 elements are not the atom: 64 down a column, then the next column.",
            got=str(plain),
        )
    best = tile_to_shape(atom, (256, 64), (2, 1))
    tensor = Layout((1024, 256), (1, 1024))
    fewest = trace_tma_atom(tensor, best, (256, 64), "f16").instructions
    try:
        given = trace_tma_atom(tensor, answer, (256, 64), "f16").instructions
    except TmaError as refused:
        raise WrongAnswer(f"CuTe refuses this layout: {refused}") from refused
    if given > fewest:
        raise WrongAnswer(f"That takes {given} instructions; it can be done with fewer.", got=str(plain))
    return "64 halves are the swizzle's span, so 256 rows take four boxes and no layout of this atom takes fewer."


@exercise(
    "06.5",
    "A bug to find",
    hints=[
        "Where does batch 1 start, in bytes?",
        "A matrix has 16 rows that count and 18 that are there.",
    ],
)
def check_mended(answer: object) -> str:
    """A stride between matrices that leaves out the padding."""
    given = _is_encoding(answer)
    _same_field(
        given,
        "dims",
        (32, 16, 4),
        {(32, 18, 4): "With 18 rows the padding could be read; the extents were right."},
    )
    _same_field(
        given,
        "strides_bytes",
        (64, 18 * 32 * 2),
        {
            (64, 1024): "Batch 1 still starts 16 rows after batch 0, in its padding.",
            (64, 18 * 32): "That counts halves; strides are in bytes.",
            (72, 1024): "The rows were right: 32 halves, 64 bytes.",
        },
    )
    _same_field(given, "box", (32, 16, 1), {})
    return "The extent says what may be read, the stride where it lies; padding belongs to the stride only."


ELSEWHERE = (
    "Your layout asks for boxes at other places than the descriptor, which is made for the layout `sA` of the cell above: "
    "shape, stride and swizzle are to be the same."
)


@exercise(
    "06.6",
    "A kernel to write: an M-major tile",
    hints=[
        "The shape and the stride of the DSL's layout are those that the cell above printed, without the swizzle.",
        "make_tiled_tma_atom takes the operation, the tensor, the layout of one tile and the tile, here (128, 64).",
    ],
)
def check_m_major_tile(answer: object) -> str:
    """A tile of an M-major matrix through TMA."""
    import numpy as np

    a: Any = np.arange(256 * 128, dtype=np.uint16).view(np.float16).reshape(128, 256).T
    tile = np.ascontiguousarray(a[128:, 64:])
    same_outputs(
        answer,
        {"a": np.ascontiguousarray(a), "out": np.zeros((128, 64), np.float16)},
        {"out": tile},
        emulator_first=True,
        reports={
            "the copy's destination": ELSEWHERE,
            "StageReusedEarly": ELSEWHERE,
        },
    )
    return "Two boxes of 64x64: the swizzle's span cuts M in two, and K is not cut."
