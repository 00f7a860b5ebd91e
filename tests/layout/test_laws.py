"""The algebra's laws, on every layout of small domains."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest

from cutecourse.layout import (
    ComposedLayout,
    DivisibilityError,
    Layout,
    LayoutError,
    Swizzle,
    blocked_product,
    coalesce,
    complement,
    composition,
    cosize,
    crd2idx,
    filter,  # noqa: A004 - CuTe's name
    flatten,
    idx2crd,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    make_identity_layout,
    make_layout,
    make_ordered_layout,
    max_common_layout,
    max_common_vector,
    raked_product,
    recast_layout,
    right_inverse,
    size,
    slice_and_offset,
    tile_to_shape,
    zipped_divide,
)

EXTENTS = (1, 2, 3, 4)
STRIDES = (0, 1, 2, 3, 4, 6, 8)


def small_layouts(rank: int = 2) -> Iterator[Layout]:
    """Every layout of a rank with these extents and strides."""
    for shape in itertools.product(EXTENTS, repeat=rank):
        for stride in itertools.product(STRIDES, repeat=rank):
            yield Layout(shape, stride)


@functools.cache
def compact_layouts() -> list[Layout]:
    """Compact layouts in every order, flat and nested."""
    return sorted(set(_compact_layouts()), key=str)


def _compact_layouts() -> Iterator[Layout]:
    for shape in {*itertools.product((1, 2, 4), repeat=3), *itertools.product((2, 3), repeat=3)}:
        for order in itertools.permutations(range(3)):
            flat = make_ordered_layout(shape, order)
            yield flat
            yield Layout((shape[0], shape[1:]), (flat.stride[0], flat.stride[1:]))


def offsets(layout: Any) -> list[Any]:
    return [layout(i) for i in range(size(layout))]


def is_injective(layout: Layout) -> bool:
    return len(set(offsets(layout))) == size(layout)


def test_coalesce__keeps_the_function_with_fewest_modes() -> None:
    for layout in small_layouts():
        merged = coalesce(layout)
        assert offsets(merged) == offsets(layout)
        leaves = merged.leaves()
        for (extent, stride), (_, following) in itertools.pairwise(leaves):
            assert extent * stride != following
        assert len(leaves) == 1 or all(extent > 1 for extent, _ in leaves)


def test_filter__keeps_the_image() -> None:
    for layout in small_layouts():
        filtered = filter(layout)
        assert set(offsets(filtered)) == set(offsets(layout))
        assert all(stride != 0 for _, stride in filtered.leaves()) or filtered == Layout(1, 0)


def divides_strongly(a: Layout, b: Layout) -> bool:
    """Every stride of B divides, or is divided by, each run of A's extents below it."""
    runs = list(itertools.accumulate((extent for extent, _ in coalesce(a).leaves()), lambda x, y: x * y))[:-1]
    for extent, stride in b.leaves():
        if stride == 0 or extent == 1:
            continue
        for run in runs:
            if run % stride != 0 and stride % run != 0:
                return False
    return True


def test_composition__is_a_of_b() -> None:
    followed = 0
    for a in small_layouts():
        for extent, stride in itertools.product((1, 2, 3, 4, 6), (0, 1, 2, 3, 4, 6)):
            b = Layout(extent, stride)
            try:
                result = composition(a, b)
            except DivisibilityError:
                continue
            if divides_strongly(a, b):
                inside = [i for i in range(size(b)) if b(i) < size(a)]
                assert [result(i) for i in inside] == [a(b(i)) for i in inside], (a, b)
                followed += 1
    assert followed > 10_000


def test_composition__refuses_only_without_strong_divisibility_of_shapes_or_strides() -> None:
    for a in small_layouts():
        extents = [extent for extent, _ in coalesce(a).leaves()]
        for extent, stride in itertools.product((2, 4), (1, 2, 4)):
            if all(e in (1, 2, 4) for e in extents):
                composition(a, Layout(extent, stride))


def test_composition__leaves_its_law_where_the_docstring_says() -> None:
    """CuTe accepts this; the third element should come from offset 8 of A, which is 15."""
    a, b = Layout((6, 4), (7, 1)), Layout(4, 4)
    assert offsets(composition(a, b)) == [0, 28, 1, 29]
    assert [a(b(i)) for i in range(4)] == [0, 28, 15, 2]
    assert not divides_strongly(a, b)


def test_composition__is_associative_for_compact_powers_of_two() -> None:
    shapes = [(2, 4), (4, 2), (8, 1), (2, 2, 2)]
    layouts = [make_ordered_layout(s, o) for s in shapes for o in itertools.permutations(range(len(s)))]
    for a, b, c in itertools.product(layouts, repeat=3):
        left, right = composition(composition(a, b), c), composition(a, composition(b, c))
        assert offsets(left) == offsets(right)


def test_composition__by_mode_is_composition_of_each_mode() -> None:
    for a in compact_layouts():
        if not isinstance(a.shape[1], tuple):
            tiler = tuple(Layout(extent, 1) for extent in a.shape)
            assert [offsets(mode) for mode in composition(a, tiler)] == [offsets(mode) for mode in a]


def test_complement__is_disjoint_ordered_and_fills() -> None:
    checked = 0
    for layout in small_layouts():
        for target in (1, 12, 24, 25):
            result = complement(layout, target)
            if 0 in [extent for extent, _ in result.leaves()]:
                assert not is_injective(filter(layout)) or not _nests(layout)
                continue
            places = offsets(result)
            assert places == sorted(set(places))
            if _nests(layout):
                image = set(offsets(layout))
                sums = [a + b for a in image for b in places]
                assert len(set(sums)) == len(sums), (layout, target)
                assert set(range(target)) <= set(sums)
                checked += 1
    assert checked > 1000


def _nests(layout: Layout) -> bool:
    """Each stride is a multiple of what the modes below it fill: the layout tiles."""
    filled = 1
    for extent, stride in sorted(filter(layout).leaves(), key=lambda leaf: leaf[1]):
        if stride % filled != 0:
            return False
        filled = max(stride * extent, 1)
    return True


def test_right_inverse__is_undone_and_longest() -> None:
    for layout in itertools.chain(small_layouts(), compact_layouts()):
        inverse = right_inverse(layout)
        assert [layout(inverse(i)) for i in range(size(inverse))] == list(range(size(inverse)))
        if sorted(offsets(layout)) == list(range(size(layout))):
            assert size(inverse) == size(layout)


def test_left_inverse__takes_back() -> None:
    taken_back = 0
    for layout in itertools.chain(small_layouts(), compact_layouts()):
        try:
            inverse = left_inverse(layout)
        except DivisibilityError:
            continue
        if not _nests(layout):
            continue
        assert [layout(inverse(offset)) for offset in offsets(layout)] == offsets(layout), layout
        if is_injective(layout):
            assert [inverse(offset) for offset in offsets(layout)] == list(range(size(layout)))
            taken_back += 1
    assert taken_back > 500


def test_logical_divide__is_composition_with_tile_and_complement() -> None:
    whole = 0
    for layout in compact_layouts():
        for tile in (Layout(2), Layout(2, 2), Layout((2, 2), (1, 4))):
            if size(layout) % cosize(tile):
                continue
            try:
                divided = logical_divide(layout, tile)
            except LayoutError:
                continue
            if size(divided) != size(layout):
                continue  # the last tiles reach behind the end of the layout
            rest = complement(tile, coalesce(layout).shape)
            flat = coalesce(layout)
            expected = [flat(tile(i) + rest(j)) for j in range(size(rest)) for i in range(size(tile))]
            assert offsets(divided) == expected
            assert sorted(expected) == sorted(offsets(layout))
            whole += 1
    assert whole > 100


def test_zipped_divide__has_tile_and_rest_and_loses_nothing() -> None:
    for layout in compact_layouts():
        if isinstance(layout.shape[1], tuple):
            continue
        tiler = tuple(2 if extent % 2 == 0 else 1 for extent in layout.shape)
        divided = zipped_divide(layout, tiler)
        assert divided.shape[0] == tiler
        for crd in itertools.product(*(range(extent) for extent in layout.shape)):
            inside = tuple(c % t for c, t in zip(crd, tiler, strict=True))
            which = tuple(c // t for c, t in zip(crd, tiler, strict=True))
            assert divided((inside, which)) == layout(crd)
            tile, offset = local_tile(layout, tiler, which)
            assert tile(inside) + offset == layout(crd)


def test_logical_product__repeats_the_block_without_overlap() -> None:
    for block in compact_layouts():
        for tiler in (Layout(3), Layout((2, 2)), Layout((2, 3), (3, 1))):
            result = logical_product(block, tiler)
            assert result[0] == block
            assert is_injective(result)
            assert size(result) == size(block) * size(tiler)


def test_blocked_and_raked_product__place_the_same_blocks() -> None:
    for block in compact_layouts():
        if isinstance(block.shape[1], tuple):
            continue
        tiler = Layout((2, 1, 3))
        blocked, raked = blocked_product(block, tiler), raked_product(block, tiler)
        assert sorted(offsets(blocked)) == sorted(offsets(raked)) == list(range(size(block) * size(tiler)))
        for crd in itertools.product(*(range(extent) for extent in block.shape)):
            for step in itertools.product(range(2), range(1), range(3)):
                near = tuple(c + s * t for c, s, t in zip(crd, block.shape, step, strict=True))
                far = tuple(t + r * c for c, r, t in zip(crd, tiler.shape, step, strict=True))
                assert blocked(near) == raked(far)


def test_tile_to_shape__has_the_shape_and_fills_it() -> None:
    for order in itertools.permutations(range(3)):
        result = tile_to_shape(Layout((2, 3, 1), (3, 1, 0)), (4, 6, 5), order)
        assert [size(mode) for mode in result] == [4, 6, 5]
        assert sorted(offsets(result)) == list(range(120))


def test_max_common_layout__is_shared_and_contiguous() -> None:
    layouts = [layout for layout in compact_layouts() if size(layout) == 8]
    for a, b in itertools.product(layouts, repeat=2):
        common = max_common_layout(a, b)
        assert [a(common(i)) for i in range(size(common))] == list(range(size(common)))
        assert [b(common(i)) for i in range(size(common))] == list(range(size(common)))
        assert max_common_vector(a, b) == size(common)
        run = 0
        while run < 8 and [i for i in range(8) if a(i) == run] == [i for i in range(8) if b(i) == run]:
            run += 1
        assert size(common) <= run
        assert (size(common) == 8) == (offsets(a) == offsets(b))


def test_recast__counts_the_same_bytes() -> None:
    for layout in (Layout((8, 6)), Layout((6, 8), (8, 1)), Layout((4, 4), (16, 1))):
        wide = recast_layout(16, 8, layout)
        bytes_of_wide = {2 * offset + part for offset in offsets(wide) for part in range(2)}
        assert bytes_of_wide == set(offsets(layout))
        assert recast_layout(8, 16, wide) == layout


def test_identity_layout__returns_the_coordinate() -> None:
    for shape in ((4,), (2, 3), (2, (3, 2)), ((2, (2, 2)), 3)):
        identity = make_identity_layout(shape)
        for i in range(math.prod(size(mode) for mode in make_layout(shape))):
            crd = idx2crd(i, shape)
            assert identity(crd) == identity(i) == crd
            assert crd2idx(crd, shape) == i


def test_coordinates__count_leftmost_first() -> None:
    for shape in ((2, 3), (2, (3, 2)), ((2, (2, 2)), 3), 5):
        compact = Layout(shape)
        assert offsets(compact) == list(range(size(compact)))
        assert offsets(flatten(compact)) == offsets(compact)


def test_slice_and_offset__add_up() -> None:
    layout = Layout((4, (2, 3)), (6, (3, 1)))
    for i, j, k in itertools.product(range(4), range(2), range(3)):
        part, offset = slice_and_offset((None, (j, None)), layout)
        assert part((i, k)) + offset == layout((i, (j, k)))


@pytest.mark.parametrize("shift", [3, -3])
def test_slice_and_offset__of_a_swizzled_layout_start_where_the_layout_says(shift: int) -> None:
    layout = ComposedLayout(Swizzle(2, 1, shift), 0, Layout((8, 16), (16, 1)))
    for row, column in itertools.product(range(8), range(16)):
        part, offset = slice_and_offset((row, None), layout)
        assert part.inner == Swizzle(0, 4, 3)
        assert offset + part((column,)) == layout((row, column))


def test_local_partition__deals_every_element_out_once() -> None:
    layout = Layout((8, 6), (6, 1))
    for threads in (Layout((4, 2)), Layout((4, 2), (2, 1)), Layout((2, 3), (3, 1))):
        dealt: list[int] = []
        for thread in range(size(threads)):
            part, offset = local_partition(layout, threads, thread)
            dealt += [offset + part(i) for i in range(size(part))]
        assert sorted(dealt) == sorted(offsets(layout))


def test_swizzle__is_a_permutation_that_undoes_itself() -> None:
    for bits, base, shift in itertools.product(range(3), range(3), (-3, -2, 2, 3)):
        swizzle = Swizzle(bits, base, shift)
        image = [swizzle(i) for i in range(1 << 9)]
        assert sorted(image) == list(range(1 << 9))
        assert [swizzle(i) for i in image] == list(range(1 << 9))
