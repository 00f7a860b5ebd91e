"""TmemViewer without a browser: placements against the emulator's own, allocation, refusals, its figure."""

from __future__ import annotations

import random
from typing import Any

import pytest
from widgets.accumulators import allocated, emulated

from cutecourse.emulator import EmulatorError
from cutecourse.umma import (
    UmmaError,
    make_fragment_C,
    make_tiled_mma,
    make_tmem_copy,
    partition_shape_C,
    place_of,
)
from cutecourse.widgets import TmemViewer, WidgetError
from cutecourse.widgets.tmem_figure import blocks, draw_tmem
from cutecourse.widgets.tmem_places import (
    LOADS,
    OPERATIONS,
    SHAPES,
    ColumnRequest,
    accumulator,
    allocate,
    free,
    load_of,
    shapes_snapshot,
    smallest_of,
)

# (M, N, cta_group): every placement, with the smallest and the largest N and some between.
ACCUMULATORS = [
    (64, 8, 1),
    (64, 128, 1),
    (128, 8, 1),
    (128, 40, 1),
    (128, 256, 1),
    (128, 16, 2),
    (128, 48, 2),
    (128, 256, 2),
    (256, 16, 2),
    (256, 128, 2),
]


# ---- where C lies ----


@pytest.mark.parametrize(("m", "n", "group"), ACCUMULATORS)
def test_place__is_where_the_emulators_mma_writes(m: int, n: int, group: int) -> None:
    one = accumulator(m, n, group)
    found = emulated(m, n, group)
    assert len(found) == m * n
    for (cta, lane, load, register), element in found.items():
        column = 8 * load + register
        assert one.place(*element) == (cta, lane, column), element
        assert one.element(cta, lane, column) == element
        assert load_of(column, 8) == (load, register)
    written = {(cta, lane, 8 * load + register) for cta, lane, load, register in found}
    empty = [
        (cta, lane, column)
        for cta in range(group)
        for lane in range(128)
        for column in range(one.columns + 2)
        if (cta, lane, column) not in written
    ]
    assert all(one.element(*place) is None for place in empty)
    assert one.columns == 1 + max(column for _, _, column in written)


@pytest.mark.parametrize("repetitions", [1, 4, 32, 128])
def test_load__fills_the_registers_that_the_emulator_fills(repetitions: int) -> None:
    viewer = TmemViewer(128, 128, cta_group=1, repetitions=repetitions)
    found = emulated(128, 128, 1, repetitions)
    assert len(found) == 128 * 128
    for (cta, thread, load, register), element in found.items():
        at_cta, lane, column = viewer.place(*element)
        assert (at_cta, lane, *load_of(column, repetitions)) == (cta, thread, load, register)


@pytest.mark.parametrize(("m", "n", "group"), [shape for shape in ACCUMULATORS if shape[1] != 40])
@pytest.mark.parametrize("repetitions", [1, 8, 16])
def test_load__is_that_of_make_tmem_copy(m: int, n: int, group: int, repetitions: int) -> None:
    one = accumulator(m, n, group)
    op = f"SM100_TMEM_LOAD_32dp32b{repetitions}x"
    fragment = make_fragment_C(((m // group, n), 1, 1), "f32", group)
    if m == 64 or repetitions > one.columns:
        with pytest.raises(UmmaError, match="has not all of these places"):
            make_tmem_copy(op, fragment)
        return
    copy = make_tmem_copy(op, fragment)
    for thread in (0, 31, 32, 70, 127):
        for value, (((row, column), *_), place) in enumerate(copy.elements(thread)):
            cta_, lane, at = one.place(row, column)
            assert (cta_, lane, at) == (0, place.lane, place.column)
            assert lane == thread
            assert load_of(at, repetitions) == divmod(value, repetitions)


@pytest.mark.parametrize(("group", "m"), [shape for shape in SHAPES if shape != (2, 64)])
def test_place__is_the_fragment_of_partition_c(group: int, m: int) -> None:
    n = 64
    mma = make_tiled_mma(OPERATIONS[group], "f16", "f16", "f32", m, n)
    fragment = make_fragment_C(partition_shape_C(mma, (m, n)), "f32", group)
    one = accumulator(m, n, group)
    for cta in range(group):
        for value in random.Random(m).sample(range(m // group * n), 300):
            column, row = divmod(int(mma.layout_c(cta, value)), m)
            place = place_of(int(fragment.layout(value)), fragment.value_type)
            assert one.place(row, column) == (cta, place.lane, place.column)


def test_shapes__are_those_that_the_library_takes() -> None:
    snapshot = shapes_snapshot()
    assert list(snapshot) == [f"{group},{m}" for group, m in SHAPES]
    for key, shape in snapshot.items():
        group, m = map(int, key.split(","))
        for n in range(8, 264, 8):
            try:
                make_tiled_mma(OPERATIONS[group], "f16", "f16", "f32", m, n)
                taken = True
            except UmmaError:
                taken = False
            assert taken == (str(n) in shape["layouts"] and shape["operation"] != ""), (key, n)
    assert [key for key, shape in snapshot.items() if not shape["operation"]] == ["2,64"]
    assert accumulator(64, 64, 2).place(40, 50) == (1, 32 * 3 + 8, 2)


def test_blocks__are_what_each_warp_reaches() -> None:
    for m, n, group in [*ACCUMULATORS, (64, 64, 2)]:
        one = accumulator(m, n, group)
        covered = set()
        for cta, warp, (row, column, rows, columns), (lane, at, lanes, wide) in blocks(one):
            assert lane // 32 == (lane + lanes - 1) // 32 == warp
            assert (lanes, wide) == (rows, columns)
            for i in (*range(0, rows, 5), rows - 1):
                for j in (*range(0, columns, 7), columns - 1):
                    assert one.place(row + i, column + j) == (cta, lane + i, at + j)
            cells = {(row + i, column + j) for i in range(rows) for j in range(columns)}
            assert not covered & cells
            covered |= cells
        assert len(covered) == m * n


# ---- allocation ----


def test_allocate__is_first_fit_and_waits_and_refuses() -> None:
    held: list[ColumnRequest] = []
    for name, columns in (("a", 256), ("odd", 48), ("tiny", 16), ("huge", 1024), ("b", 128), ("more", 256)):
        held = allocate(held, name, columns, 1)
    assert [(one.column, one.state) for one in held] == [
        (0, "placed"),
        (-1, "refused"),
        (-1, "refused"),
        (-1, "refused"),
        (256, "placed"),
        (-1, "refused"),
    ]
    assert held[1].why == "48 is no power of two from 32 to 512"
    assert held[5].why == "256 columns after an allocation of 128: later ones of a CTA must not be larger"
    for name in ("c", "d"):
        held = allocate(held, name, 64, 1)
    held = allocate(held, "e", 64, 1)
    assert held[-1] == ColumnRequest("e", 64, state="waits")
    held = allocate(held, "f", 32, 1)
    assert held[-1].state == "waits"  # behind one that waits
    held = free(held, "b")
    assert [(one.column, one.state) for one in held[-2:]] == [(256, "placed"), (320, "placed")]
    assert next(one for one in held if one.name == "c").column == 384  # nothing moves
    assert smallest_of(held) == 32
    held = free(held, "f")
    # What was freed counts too.
    assert allocate(held, "g", 64, 1, smallest=32)[-1].state == "refused"
    assert allocate(held, "g", 32, 1, smallest=32)[-1].column == 320


def test_allocate__gives_the_columns_that_the_emulator_gives() -> None:
    steps = [("b", 128), ("c", 128), ("d", 64), ("b", 0), ("e", 64), ("f", 64), ("e", 0), ("g", 32)]
    steps += [("h", 32), ("c", 0), ("i", 32), ("j", 32)]
    given = allocated(steps)
    held: list[ColumnRequest] = []
    columns = {}
    smallest = 512
    for name, count in [("first", 128), *steps]:
        held = allocate(held, name, count, 1, smallest) if count else free(held, name)
        smallest = smallest_of(held, smallest)
        columns |= {one.name: one.column for one in held}
    assert columns == {"first": 0, **given}
    assert len(set(given.values())) < len(given)  # some columns were given twice, as they were free again


@pytest.mark.parametrize(
    "steps", [[("a", 48)], [("a", 16)], [("a", 64), ("b", 128)], [("a", 32), ("a", 0), ("b", 64)]]
)
def test_allocate__refuses_what_the_emulator_refuses(steps: list[tuple[str, int]]) -> None:
    with pytest.raises(EmulatorError, match=r"power of two|must not be larger"):
        allocated(steps)
    held: list[ColumnRequest] = []
    smallest = 512
    for name, count in steps:
        held = allocate(held, name, count, 1, smallest) if count else free(held, name)
        smallest = smallest_of(held, smallest)
    assert held[-1].state == "refused"


def test_allocations__by_default_hold_the_accumulator() -> None:
    for m, n, group in ACCUMULATORS:
        viewer = TmemViewer(m, n, cta_group=group)
        (one,) = viewer.allocations
        assert one["columns"] == max(32, 1 << (viewer.accumulator.columns - 1).bit_length())
        assert (viewer.start, viewer.holder) == (0, "accumulator")


def test_holder__moves_the_accumulator_to_its_columns() -> None:
    viewer = TmemViewer(
        128, 128, allocations={"other": 128, "odd": 33, "first": 128, "second": 128}, holder="second"
    )
    assert viewer.start == 256
    assert viewer.place(3, 5) == (0, 3, 261)
    assert viewer.element(0, 3, 261) == (3, 5)
    assert viewer.element(0, 3, 20) is None
    viewer.holder = "first"
    assert viewer.place(3, 5) == (0, 3, 133)
    with pytest.raises(WidgetError, match="'odd' has no columns; there are other, first, second"):
        viewer.holder = "odd"
    assert viewer.holder == "first"
    assert TmemViewer(128, 128, allocations=[48]).holder == ""


# ---- the widget ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"m": 256}, "M = 256 with cta_group 1 has no accumulator; there are M = 64 of cta_group 1"),
        ({"m": 96}, "no accumulator"),
        ({"n": 12}, "N is 8 to 256 in steps of 8"),
        ({"n": 24, "cta_group": 2}, "N is 16 to 256 in steps of 16"),
        ({"n": 264}, "N = 264"),
        ({"cta_group": 4}, "no accumulator"),
        ({"repetitions": 3}, "has no .x3"),
        ({"allocations": 256}, "are no allocations"),
        ({"allocations": "a"}, "are no allocations"),
        ({"allocations": {"a": 0}}, "no allocation"),
        ({"allocations": [("a", 32), ("a", 64)]}, "one name"),
        ({"allocations": {"a": "32"}}, "no allocation"),
        ({"holder": "b"}, "'b' has no columns; there are accumulator"),
        ({"element": (128, 0)}, "C is 128 x 256"),
        ({"element": (0, -1)}, "C is 128 x 256"),
    ],
)
def test_viewer__refuses_in_words(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        TmemViewer(**arguments)


def test_selected__is_a_place_of_the_ctas_there_are() -> None:
    viewer = TmemViewer(128, 256, cta_group=2, element=(70, 130))
    assert viewer.selected == {"cta": 1, "lane": 70, "column": 2}
    for bad in ({"cta": 2, "lane": 0, "column": 0}, {"cta": 0, "lane": 128, "column": 0}, {"lane": 3}):
        with pytest.raises(WidgetError, match="is no place"):
            viewer.selected = bad
    assert viewer.selected == {"cta": 1, "lane": 70, "column": 2}


def test_viewer__undoes_what_cannot_be() -> None:
    viewer = TmemViewer(128, 256)
    for name, value in (("m", 96), ("n", 12), ("cta_group", 3), ("repetitions", 5)):
        with pytest.raises(WidgetError):
            setattr(viewer, name, value)
    assert (viewer.m, viewer.n, viewer.cta_group, viewer.repetitions) == (128, 256, 1, 32)
    viewer.m = 256  # one at a time: with one CTA there is no such accumulator
    with pytest.raises(WidgetError, match="M = 256 with cta_group 1"):
        viewer.place(0, 0)
    viewer.cta_group = 2
    assert viewer.place(200, 3) == (1, 72, 3)


def test_repr__says_what_is_shown() -> None:
    assert repr(TmemViewer(256, 64, cta_group=2)) == (
        "TmemViewer(256, 64, cta_group=2, allocations={'accumulator': 64})"
    )
    shown = TmemViewer(128, 32, allocations={"a": 48, "b": 64}, repetitions=8, element=(4, 5))
    assert repr(shown) == (
        "TmemViewer(128, 32, cta_group=1, allocations={'a': 48, 'b': 64}, repetitions=8, selected=(0, 4, 5))"
    )
    assert LOADS[-1] == 128


def test_figure__shows_every_warps_part_twice_and_every_request() -> None:
    held = [
        ColumnRequest("scales", 32, 0, "placed"),
        ColumnRequest("accumulator", 128, 32, "placed"),
        ColumnRequest("odd", 48, why="48 is odd"),
        ColumnRequest("later", 512, state="waits"),
    ]
    one = accumulator(128, 256, 2)
    c, leader, peer, below = draw_tmem(one, held, 32, "accumulator").axes
    assert sorted(text.get_text() for text in c.texts) == [f"{v}.{w}" for v in (0, 1) for w in range(4)]
    for axes in (leader, peer):
        words = [text.get_text() for text in axes.texts]
        assert [word for word in words if word.startswith("warp")] == [f"warp {w}" for w in range(4)]
        assert "accumulator" in words
        edges = sorted({patch.get_x() for patch in axes.patches})
        assert edges == [0, 32]
    lines = [text.get_text() for text in below.texts]
    assert lines[:4] == [
        "scales: 32 columns from 0",
        "accumulator: 128 columns from 32",
        "odd: refused, 48 is odd",
        "later: 512 columns, waits until they are free",
    ]
