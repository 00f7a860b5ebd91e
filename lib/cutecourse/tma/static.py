"""Numbers that C++ knows when it compiles, and numbers that it knows only when it runs.

CuTe C++ keeps a number of the first kind in a type and prints it with an underscore (`_64`); one of the
second kind is a plain integer (`64`). The difference decides what CuTe may merge and drop. Here a plain
`int` is static and a `Dynamic` is known at run time only; arithmetic with a `Dynamic` gives a `Dynamic`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from cutecourse.atoms import LayoutTensor
from cutecourse.layout import ArithTuple, ComposedLayout, Layout, ScaledBasis, Swizzle
from cutecourse.layout.basis import basis_terms
from cutecourse.layout.dynamic import Dynamic, is_constant, is_static
from cutecourse.layout.int_tuple import is_node, map_leaves

__all__ = ["Dynamic", "cpp_str", "dynamic", "is_constant", "is_static", "parse_cpp", "static"]


def dynamic(value: Any, *, unit_stride: bool = True) -> Any:
    """Make every number of a value dynamic; of a layout, all but its strides 0 and 1.

    That is what a C++ program has whose sizes are arguments while its major is part of its types;
    `unit_stride=False` makes the stride 1 dynamic as well.

    >>> cpp_str(dynamic(Layout((128, 64), (1, 128))))
    '(128,64):(_1,128)'
    """
    if isinstance(value, Layout):
        keep = (0, 1) if unit_stride else (0,)
        stride = map_leaves(lambda d: d if d in keep else dynamic(d), value.stride)
        return Layout.unchecked(dynamic(value.shape), stride)
    if isinstance(value, ScaledBasis):
        step = value.value
        return ScaledBasis(step if isinstance(step, Fraction) else dynamic(step), value.mode)
    if is_node(value):
        return tuple(dynamic(element) for element in value)
    return Dynamic(value)


def static(value: Any) -> Any:
    """Make every number of a value a plain, static one.

    >>> cpp_str(static(dynamic(Layout((128, 64), (1, 128)))))
    '(_128,_64):(_1,_128)'
    """
    if isinstance(value, Layout):
        return Layout.unchecked(static(value.shape), static(value.stride))
    if isinstance(value, ComposedLayout):
        return ComposedLayout(value.inner, static(value.offset), static(value.outer))
    if isinstance(value, ScaledBasis):
        return ScaledBasis(static(value.value), value.mode)
    if isinstance(value, ArithTuple):
        return ArithTuple([static(element) for element in value])
    if is_node(value):
        return tuple(static(element) for element in value)
    return value if isinstance(value, Fraction) else int(value)


def cpp_str(value: Any) -> str:
    """Print as CuTe C++ does: static numbers with an underscore, `Sw<3,4,3>`, `_` for a kept mode.

    >>> cpp_str(Layout.parse("(64,8):(1@0,1@1)")), cpp_str((None, 3))
    ('(_64,_8):(_1@0,_1@1)', '(_,_3)')
    >>> cpp_str(Layout.parse("S<3,4,3> o 0 o (8,64):(64,1)"))
    'Sw<3,4,3> o _0 o (_8,_64):(_64,_1)'
    """
    if value is None:
        return "_"
    if isinstance(value, Dynamic):
        return str(int(value))
    if isinstance(value, int):
        return f"_{value}"
    if isinstance(value, Fraction):
        return f"_{value.numerator}/_{value.denominator}"
    if isinstance(value, ScaledBasis):
        return cpp_str(value.value) + "".join(f"@{mode}" for mode in reversed(value.mode))
    if isinstance(value, Swizzle):
        return f"Sw<{value.num_bits},{value.num_base},{value.num_shift}>"
    if isinstance(value, Layout):
        return f"{cpp_str(value.shape)}:{_stride_str(value.stride)}"
    if isinstance(value, ComposedLayout):
        return f"{cpp_str(value.inner)} o {cpp_str(value.offset)} o {cpp_str(value.outer)}"
    if isinstance(value, LayoutTensor):
        start = ("ArithTuple" if isinstance(value.offset, tuple) else "") + cpp_str(value.offset)
        return f"{start} o {cpp_str(value.layout)}"
    if isinstance(value, (tuple, list)):
        return "(" + ",".join(cpp_str(element) for element in value) + ")"
    return str(value)


def _stride_str(stride: Any) -> str:
    if isinstance(stride, ArithTuple):
        return "+".join(cpp_str(term) for term in basis_terms(stride)) or "_0"
    if is_node(stride):
        return "(" + ",".join(_stride_str(element) for element in stride) + ")"
    return cpp_str(stride)


_NUMBER = re.compile(r"(?<![\d@_])(_?)(-?\d+)")


def parse_cpp(text: str) -> Layout:
    """Read a layout as CuTe C++ prints it, and keep which of its numbers are static.

    Errors: `NotationError` as `Layout.parse`; the text must be a plain layout.

    >>> cpp_str(parse_cpp("(128,64):(_1,128)"))
    '(128,64):(_1,128)'
    """
    layout = Layout.parse(text)
    marks = [bool(mark) for mark, _ in _NUMBER.findall(text)]
    leaves = iter(marks)

    def marked(value: Any) -> Any:
        if is_node(value):
            return tuple(marked(element) for element in value)
        return value if next(leaves) else dynamic(value)

    return Layout.unchecked(marked(layout.shape), marked(layout.stride))
