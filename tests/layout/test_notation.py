"""Printing and reading: every layout reads back as itself, and wrong text is answered with its position."""

import copy
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutecourse.layout import ComposedLayout, E, Layout, NotationError, Swizzle, make_composed_layout

EXTENTS = st.integers(1, 64)
SHAPES = st.recursive(EXTENTS, lambda parts: st.lists(parts, min_size=1, max_size=3).map(tuple), max_leaves=5)
PATHS = st.lists(st.integers(0, 3), min_size=1, max_size=3)
STRIDES = st.one_of(st.integers(-64, 64), st.builds(lambda v, p: v * E(p), st.integers(-8, 8), PATHS))


def _fill(profile: Any, draw: Any) -> Any:
    return tuple(_fill(part, draw) for part in profile) if isinstance(profile, tuple) else draw(STRIDES)


# Drawing takes longer on a busy machine, and Hypothesis would call that a fault of the test.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def layouts(draw: Any) -> Layout:
    shape = draw(SHAPES)
    return Layout(shape, _fill(shape, draw))


@unhurried
@given(layouts())
def test_layout__reads_back_as_itself(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout
    assert eval(repr(layout), {"Layout": Layout.parse}) == layout


@unhurried
@given(layouts())
def test_layout__reads_back_from_cpp(layout: Layout) -> None:
    in_cpp = "".join(f"_{c}" if c.isdigit() and not p.isdigit() and p not in "-@" else c
                     for p, c in zip(" " + str(layout), str(layout), strict=False))  # fmt: skip
    assert Layout.parse(in_cpp.replace("-", "_-")) == layout


@unhurried
@given(
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(4, 6),
    st.sampled_from((1, -1)),
    SHAPES,
    st.integers(0, 99),
)
def test_swizzled_layout__reads_back_as_itself(
    bits: int, base: int, shift: int, sign: int, shape: Any, offset: int
) -> None:
    swizzle = Swizzle(bits, base, sign * shift)
    assert Layout.parse(str(swizzle)) == swizzle
    layout = make_composed_layout(swizzle, offset, Layout(shape))
    assert Layout.parse(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("(_64,_8):(_1@0,_1@1)", Layout((64, 8), (E(0), E(1)))),
        ("(4,8):(1@0@1,2@1)", Layout((4, 8), (E(1, 0), 2 * E(1)))),
        ("(4):(1)", Layout((4,), (1,))),
        (" ( 4 , ( 2, 8 ) ) : ( 1 , ( 4 , 8 ) ) ", Layout((4, (2, 8)))),
        ("4:1", Layout(4, 1)),
        ("():()", Layout((), ())),
        ("_4:_-1", Layout(4, -1)),
        ("4:1@0+2@1", Layout(4, E(0) + 2 * E(1))),
        ("S<3,4,3>", Swizzle(3, 4, 3)),
        ("Sw<3,4,-3>", Swizzle(3, 4, -3)),
        ("Swizzle<2, 0, 3>", Swizzle(2, 0, 3)),
        ("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)", ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))),
        ("S<3,4,3> o (8,64):(64,1)", ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1)))),
        (
            "(4,8):(8,1) o (1,2) o (2,4):(1@0,1@1)",
            ComposedLayout(Layout((4, 8), (8, 1)), (1, 2), Layout((2, 4), (E(0), E(1)))),
        ),
        ("(4,8):(8,1) o 3 o 8:2", ComposedLayout(Layout((4, 8), (8, 1)), 3, Layout(8, 2))),
    ],
)
def test_parse__reads(text: str, layout: Any) -> None:
    assert Layout.parse(text) == layout


@pytest.mark.parametrize(
    ("text", "problem", "character"),
    [
        ("", "expected a number", 1),
        ("(4,8)", "a layout has a stride", 6),
        ("(4,8):(8,1", "expected ')'", 11),
        ("(4,8):(8,x)", "'x' does not belong there", 10),
        ("(4,8):8", "nested differently", 1),
        ("(4,0):(1,4)", "an extent is a positive integer", 1),
        ("(?,8):(8,1)", "'?' does not belong there", 2),
        ("(4,8):(8,1) 7", "is left over", 13),
        ("S<3,4>", "expected ','", 6),
        ("S<3,4,1>", "is no swizzle", 1),
        ("4:1 o 2 o 3 o 4:1", "three parts", 1),
        ("S<3,4,3> o (0,0) o 8:1", "permutes integer offsets", 1),
        ("S<3,4,3> o 0 o S<3,4,3>", "reads: inner o offset o outer", 1),
        ("(4,8):(1@,1)", "expected a number", 10),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "'s' does not belong there", 13),
    ],
)
def test_parse__says_what_is_wrong_and_where(text: str, problem: str, character: int) -> None:
    with pytest.raises(NotationError) as caught:
        Layout.parse(text)
    message = str(caught.value)
    assert problem in message
    assert f"at character {character} of {text!r}" in message
    assert "try:" in message


def test_print__is_the_dsl_s() -> None:
    assert str(Layout((4, (2, 1)), (1, (E(1, 0), 0)))) == "(4,(2,1)):(1,(1@0@1,0))"
    assert f"{Layout((4,))}" == "(4):(1)"
    assert repr(Layout(4)) == 'Layout("4:1")'
    assert str(E(0) + 2 * E(1)) == "(1,2)"
    assert str(2 * E(0, 1)) == "2@1@0"


@pytest.mark.parametrize(
    "value",
    [
        Layout((4, (2, 3)), (1, (12, 4))),
        Layout.parse("(4,8):(1@0,2@1@0)"),
        Swizzle(3, 4, 3),
        ComposedLayout(Swizzle(3, 4, 3), 8, Layout((8, 64), (64, 1))),
    ],
    ids=str,
)
def test_values__survive_copying_and_pickling(value):
    for twin in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(twin) is type(value)
        assert twin == value
        assert str(twin) == str(value)
