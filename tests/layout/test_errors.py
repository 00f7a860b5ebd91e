"""Errors name the operation, the mode and the rule, and show both operands."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from cutecourse.errors import CourseError
from cutecourse.layout import (
    ArithTuple,
    ComposedLayout,
    CoordinateError,
    DivisibilityError,
    E,
    Layout,
    LayoutError,
    OperandError,
    ProfileError,
    ScaledBasis,
    Swizzle,
    coalesce,
    complement,
    composition,
    crd2idx,
    filter,  # noqa: A004 - CuTe's name
    left_inverse,
    logical_divide,
    make_layout,
    make_layout_like,
    right_inverse,
    slice_,
)


def test_composition__shows_both_operands_the_mode_and_the_rule() -> None:
    with pytest.raises(DivisibilityError) as caught:
        composition(Layout((4, 6, 8), (1, 10, 100)), Layout((2, 4), (1, 5)))
    error = caught.value
    assert isinstance(error, CourseError)
    assert error.operation == "composition"
    assert error.mode == (1,)
    assert error.operands == (("lhs", Layout((4, 6, 8), (1, 10, 100))), ("rhs", Layout((2, 4), (1, 5))))
    assert str(error).splitlines() == [
        "composition: mode [1]: 4:5 reaches mode 4:1 of A with stride 5, which 4 does not divide",
        "  lhs = (4,6,8):(1,10,100)",
        "  rhs = (2,4):(1,5)",
        "  rule: stride divisibility: an extent of A divides the stride that is left, or is larger than it",
    ]


def test_composition__tells_shape_divisibility_apart() -> None:
    with pytest.raises(DivisibilityError, match="shape divisibility") as caught:
        composition(Layout((4, 8), (8, 1)), Layout((2, 3), (1, 2)))
    assert caught.value.mode == (1,)


def test_divide__names_the_mode_of_the_tiler() -> None:
    with pytest.raises(DivisibilityError) as caught:
        logical_divide(Layout((8, 8)), (2, Layout((2, 2), (1, 1))))
    assert caught.value.mode == (1,)
    assert "tiler = (2,(2,2):(1,1))" in str(caught.value)


def test_layout__refuses_other_nesting() -> None:
    with pytest.raises(ProfileError, match="congruence") as caught:
        Layout((4, 8), (1, (4, 8)))
    assert "shape = (4,8)" in str(caught.value)
    assert "stride = (1,(4,8))" in str(caught.value)


@pytest.mark.parametrize("shape", [0, -4, (4, 0), 2.0, "4", True, None, (4, None)])
def test_layout__refuses_what_is_no_shape(shape: object) -> None:
    with pytest.raises(OperandError, match="an extent is a positive integer"):
        Layout(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("stride", [2.0, "1", None, True])
def test_layout__refuses_what_is_no_stride(stride: object) -> None:
    with pytest.raises(OperandError, match="a stride is an integer or a scaled basis element"):
        Layout((4, 8), (1, stride))  # type: ignore[arg-type]


def test_coordinate__has_to_be_weakly_congruent() -> None:
    with pytest.raises(CoordinateError, match="weak congruence") as caught:
        crd2idx((1, (2, 3)), Layout((4, 8)))
    assert "coordinate = (1,(2,3))" in str(caught.value)
    assert "layout = (4,8):(1,4)" in str(caught.value)
    with pytest.raises(CoordinateError, match=r"\(_\) is no coordinate in \(4,8\)"):
        slice_(Layout((4, 8)), (None,))
    with pytest.raises(CoordinateError, match="is no integer"):
        Layout((4, 8))((1, 2.5))  # type: ignore[arg-type]


def test_slice__finds_no_modes_in_a_swizzle() -> None:
    with pytest.raises(CoordinateError, match="is no coordinate in S<2,0,3>"):
        ComposedLayout(Layout(64), 0, Swizzle(2, 0, 3))((None, 1))


def test_left_inverse__says_which_stride() -> None:
    with pytest.raises(DivisibilityError, match="the stride of 3:5 is no multiple of the 2 below it"):
        left_inverse(Layout((4, 3), (2, 5)))


def test_coordinates_and_offsets__do_not_add() -> None:
    with pytest.raises(OperandError, match="3 has no coordinate"):
        Layout((4, 8), (E(0), 3))((0, 1))
    assert Layout((4, 8), (E(0), 3))((1, 0)) == (1,)


@pytest.mark.parametrize(
    "operation",
    [
        coalesce,
        complement,
        composition,
        filter,
        left_inverse,
        logical_divide,
        make_layout_like,
        right_inverse,
    ],
)
def test_operations__refuse_what_is_no_layout(operation: Callable[..., object]) -> None:
    for wrong in ((4, 8), "4:1", 7):
        with pytest.raises(OperandError, match=operation.__name__):
            operation(wrong, 2) if operation in {complement, composition, logical_divide} else operation(
                wrong
            )


def test_layouts__bring_their_strides() -> None:
    with pytest.raises(OperandError, match="bring their own strides"):
        make_layout(Layout(4), Layout(8), stride=(1, 4))


@pytest.mark.parametrize("mode", [-1, (), (1, -2), True, "0"])
def test_basis__refuses_what_is_no_path(mode: object) -> None:
    with pytest.raises(OperandError, match="path of a mode"):
        ScaledBasis(1, mode)  # type: ignore[arg-type]


def test_values__do_not_change() -> None:
    for instance, attribute in ((Layout(4), "shape"), (E(0), "value"), (Swizzle(3, 4, 3), "num_bits")):
        with pytest.raises(AttributeError, match="does not change"):
            setattr(instance, attribute, 7)


def test_values__are_equal_and_hash_by_content() -> None:
    assert {Layout((4, 8)), Layout((4, 8), (1, 4)), Layout((4, 8), (8, 1))} == {
        Layout((4, 8)),
        Layout((4, 8), (8, 1)),
    }
    assert len({E(0), E(1), E(0, 1), 2 * E(0), E(0)}) == 4
    assert E(0) + E(1) == (1, 1) == ArithTuple((1, 1))
    assert Layout(4) != (4, 1)


def test_modes__index_and_iterate() -> None:
    layout = Layout((4, (2, 8)))
    assert [str(mode) for mode in layout] == ["4:1", "(2,8):(4,8)"]
    assert layout[-1] == layout[1]
    with pytest.raises(IndexError, match="has no mode 2"):
        layout[2]


def test_every_error__derives_from_layout_error() -> None:
    for kind in (CoordinateError, DivisibilityError, OperandError, ProfileError):
        assert issubclass(kind, LayoutError)
        assert issubclass(kind, CourseError)


def test_package__imports_no_numpy() -> None:
    program = (
        "import sys, cutecourse.layout; print(sorted(m for m in sys.modules if m.split('.')[0] == 'numpy'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
