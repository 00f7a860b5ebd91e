"""Numbers that only a running program knows: what the algebra may no longer merge, drop or leave out.

The rules are CuTe C++'s: `is_constant` looks at a type, so a number that is not in a type never fulfils it.
"""

import operator

import pytest

from cutecourse.layout import Layout, coalesce, composition, logical_divide, make_layout
from cutecourse.layout.dynamic import Dynamic, is_constant, is_static


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod"])
@pytest.mark.parametrize(("a", "b"), [(7, 3), (0, 5), (6, 1), (-7, 3), (5, 5)])
def test_arithmetic__is_that_of_integers(name: str, a: int, b: int) -> None:
    compute = getattr(operator, name)
    for left, right in ((Dynamic(a), b), (a, Dynamic(b)), (Dynamic(a), Dynamic(b))):
        assert compute(left, right) == compute(a, b)
        assert isinstance(compute(left, right), int)


def test_arithmetic__stays_dynamic_but_for_a_known_zero() -> None:
    n = Dynamic(128)
    for value in (n + 0, 0 + n, n - n, n * 1, 1 * n, n // 64, 64 // n, n % 3, -n, abs(n)):
        assert not is_static(value)
    for value in (0 * n, n * 0, 0 // n, 0 % n, n % 1):
        assert is_static(value)
        assert value == 0


def test_constant__is_static() -> None:
    assert is_constant(1, 1)
    assert not is_constant(1, Dynamic(1))
    assert not is_constant(1, 2)


def test_coalesce__keeps_apart_what_is_not_known() -> None:
    assert coalesce(Layout((4, 8), (1, 4))) == Layout(32, 1)
    for mode in ((Dynamic(4), 8), (4, Dynamic(8))):
        assert len(coalesce(Layout(mode, (1, 4)))) == 2
    assert len(coalesce(Layout((4, 8), (1, Dynamic(4))))) == 2
    assert coalesce(Layout((4, 1), (1, 9))) == Layout(4, 1)
    assert len(coalesce(Layout((4, Dynamic(1)), (1, 9)))) == 2


def test_divide__counts_tiles_that_are_not_known() -> None:
    """One tile of 128 in a dynamic extent of 128: the count is 1 and stays, with its stride."""
    divided = logical_divide(Layout((Dynamic(128),), (1,)), (128,))
    assert (divided.shape, divided.stride) == (((128, 1),), ((1, 128),))
    assert is_static(divided.shape[0][0])
    assert not is_static(divided.shape[0][1])
    static = logical_divide(Layout((128,), (1,)), (128,))
    assert (static.shape, static.stride) == (((128, 1),), ((1, 0),))


def test_composition__with_dynamic_strides_scales_them() -> None:
    layout = Layout((Dynamic(128), Dynamic(64)), (1, Dynamic(128)))
    tile = composition(layout, (64, 8))
    assert tile == Layout((64, 8), (1, 128))
    assert is_static(tile.shape)
    assert [is_static(stride) for stride in tile.stride] == [True, False]


def test_make_layout__compact_strides_of_a_dynamic_one() -> None:
    assert make_layout((4, 1, 8)).stride == (1, 0, 4)
    assert make_layout((4, Dynamic(1), 8)).stride == (1, 4, 4)
