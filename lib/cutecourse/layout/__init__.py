"""CuTe's layout algebra in plain Python: layouts, swizzles, coordinate tensors, and what is done with them.

Names, results, prints and refusals are those of the CuTe DSL; every operation can show its steps
(`explain`). Nothing here needs NumPy or a GPU.
"""

from .basis import ArithTuple, E, ScaledBasis
from .complements import complement
from .compose import composition
from .composed import ComposedLayout, get_nonswizzle_portion, get_swizzle_portion, make_composed_layout
from .divides import ceil_div, flat_divide, logical_divide, tiled_divide, zipped_divide
from .errors import (
    CoordinateError,
    DivisibilityError,
    LayoutError,
    NotationError,
    OperandError,
    ProfileError,
)
from .explanation import Explanation, Step, explain
from .int_tuple import (
    elem_less,
    flatten_to_tuple,
    has_underscore,
    is_congruent,
    is_weakly_congruent,
    pretty_str,
    product,
    product_each,
    product_like,
    repeat_like,
    shape_div,
    unflatten,
)
from .inverses import left_inverse, max_common_layout, max_common_vector, right_inverse
from .layout import (
    Layout,
    crd2idx,
    idx2crd,
    make_identity_layout,
    make_layout,
    make_layout_like,
    make_ordered_layout,
)
from .modes import (
    append,
    cosize,
    depth,
    flatten,
    get,
    group_modes,
    prepend,
    rank,
    select,
    shape,
    size,
    stride,
)
from .notation import parse
from .products import (
    blocked_product,
    flat_product,
    logical_product,
    make_layout_tv,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from .recast import downcast, recast_layout, upcast
from .simplify import coalesce, filter, filter_zeros  # noqa: A004 - CuTe's name
from .slicing import dice, local_partition, local_tile, slice_, slice_and_offset
from .swizzle import Swizzle, make_swizzle

__all__ = [
    "ArithTuple",
    "ComposedLayout",
    "CoordinateError",
    "DivisibilityError",
    "E",
    "Explanation",
    "Layout",
    "LayoutError",
    "NotationError",
    "OperandError",
    "ProfileError",
    "ScaledBasis",
    "Step",
    "Swizzle",
    "append",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "complement",
    "composition",
    "cosize",
    "crd2idx",
    "depth",
    "dice",
    "downcast",
    "elem_less",
    "explain",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "flatten_to_tuple",
    "get",
    "get_nonswizzle_portion",
    "get_swizzle_portion",
    "group_modes",
    "has_underscore",
    "idx2crd",
    "is_congruent",
    "is_weakly_congruent",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_composed_layout",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_layout_tv",
    "make_ordered_layout",
    "make_swizzle",
    "max_common_layout",
    "max_common_vector",
    "parse",
    "prepend",
    "pretty_str",
    "product",
    "product_each",
    "product_like",
    "raked_product",
    "rank",
    "recast_layout",
    "repeat_like",
    "right_inverse",
    "select",
    "shape",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "stride",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "unflatten",
    "upcast",
    "zipped_divide",
    "zipped_product",
]
