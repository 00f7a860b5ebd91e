"""Random layout expressions, stratified; each reads the same for the CuTe DSL and for `cutecourse.layout`."""

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One expression and the stratum it was drawn from."""

    stratum: str
    expression: str


EXTENTS = (1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 8, 8, 16)


def text(value: Any) -> str:
    """Write nested tuples so that both sides can evaluate them."""
    if isinstance(value, tuple):
        return "(" + "".join(text(element) + "," for element in value) + ")"
    return str(value)


def leaves(value: Any) -> list[Any]:
    return [leaf for element in value for leaf in leaves(element)] if isinstance(value, tuple) else [value]


def fill(profile: Any, values: list[Any]) -> Any:
    """Put values into a profile, consuming the list from the front."""
    return tuple(fill(part, values) for part in profile) if isinstance(profile, tuple) else values.pop(0)


class Draw:
    """Draws operands from a seeded generator."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(seed)

    def shape(self, max_rank: int = 3, max_depth: int = 2, min_rank: int = 0) -> Any:
        """A shape of rank up to `max_rank`; 0 stands for a single integer."""
        rank = self.random.randint(min_rank, max_rank)
        if rank == 0 or max_depth == 0:
            return self.random.choice(EXTENTS)
        nested = (
            (lambda: self.shape(2, max_depth - 1)) if self.random.random() < 0.5 else (lambda: self.shape(0))
        )
        return tuple(nested() for _ in range(rank))

    def compact(self, shape: Any, *, shuffled: bool, padded: bool) -> Any:
        """Strides of a compact layout in some order, or with gaps."""
        extents = leaves(shape)
        order = list(range(len(extents)))
        if shuffled:
            self.random.shuffle(order)
        strides = [0] * len(extents)
        step = self.random.choice((1, 1, 2, 3)) if padded else 1
        for position in order:
            strides[position] = step
            step *= extents[position] * (self.random.choice((1, 1, 2, 3)) if padded else 1)
        return fill(shape, strides)

    def stride(self, shape: Any, kind: str) -> Any:
        extents = leaves(shape)
        if kind == "compact":
            return self.compact(shape, shuffled=False, padded=False)
        if kind == "ordered":
            return self.compact(shape, shuffled=True, padded=False)
        if kind == "strided":
            return self.compact(shape, shuffled=True, padded=True)
        if kind == "zero":
            some = leaves(self.compact(shape, shuffled=True, padded=False))
            return fill(shape, [0 if self.random.random() < 0.4 else d for d in some])
        if kind == "unit":
            return fill(
                shape, [1 if self.random.random() < 0.5 else self.random.choice((1, 2, 4)) for _ in extents]
            )
        if kind == "any":
            return fill(shape, [self.random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24)) for _ in extents])
        raise ValueError(kind)

    def layout(self, kind: str | None = None, **shape: Any) -> str:
        """A layout with integer strides."""
        kind = kind or self.random.choice(("compact", "ordered", "strided", "zero", "unit", "any"))
        drawn = self.shape(**shape)
        return f"L({text(drawn)},{text(self.stride(drawn, kind))})"

    def injective(self, **shape: Any) -> str:
        return self.layout(self.random.choice(("compact", "ordered", "strided")), **shape)

    def basis(self, path: tuple[int, ...], scaled: bool) -> str:
        scale = self.random.choice((2, 3, 4)) if scaled and self.random.random() < 0.3 else 1
        return f"{scale}*E({list(path)})" if scale > 1 else f"E({list(path)})"

    def basis_layout(self, *, scaled: bool = True, **shape: Any) -> str:
        """A coordinate tensor: each leaf steps along a coordinate, or nowhere."""
        drawn = self.shape(min_rank=1, **shape)
        paths: list[tuple[int, ...]] = [(0,), (1,), (2,)]
        if self.random.random() < 0.3:
            paths = [(0,), (1, 0), (1, 1)]
        if self.random.random() < 0.1:
            paths = [(0,), (0, 1), (1,)]
        if self.random.random() < 0.5:
            self.random.shuffle(paths)
        strides: list[Any] = []
        reach: dict[tuple[int, ...], int] = {}
        for position, extent in enumerate(leaves(drawn)):
            if self.random.random() < 0.1:
                strides.append("0")
                continue
            path = paths[position % 3] if self.random.random() < 0.7 else self.random.choice(paths)
            if self.random.random() < 0.7:
                step = reach.get(path, 1)
                strides.append(f"{step}*E({list(path)})")
                reach[path] = step * extent
            else:
                strides.append(self.basis(path, scaled))
        return f"L({text(drawn)},{text(fill(drawn, strides))})"

    def matching(self, total: int) -> str:
        """A layout whose extents and strides divide `total`: what composition mostly accepts."""
        left, parts, step = total, [], 1
        if self.random.random() < 0.3:
            step = self.random.choice([d for d in range(1, total + 1) if total % d == 0][:6])
            left //= step
        while left > 1 and len(parts) < 3 and self.random.random() < 0.85:
            extent = self.random.choice([d for d in range(2, left + 1) if left % d == 0])
            parts.append((extent, step))
            left, step = left // extent, step * extent
        self.random.shuffle(parts)
        if not parts:
            return f"L({self.random.choice((1, 2, 4))},{self.random.choice((0, 1, 2))})"
        if len(parts) == 1:
            return f"L({parts[0][0]},{parts[0][1]})"
        if len(parts) == 3 and self.random.random() < 0.5:
            (a, x), (b, y), (c, z) = parts
            return f"L(({a},({b},{c})),({x},({y},{z})))"
        return f"L({text(tuple(e for e, _ in parts))},{text(tuple(d for _, d in parts))})"

    def coord(self, shape: Any, *, keep: float = 0.0) -> Any:
        """A coordinate of a shape, with `None` at some places."""
        if self.random.random() < keep:
            return None
        if isinstance(shape, tuple) and self.random.random() < 0.75:
            return tuple(self.coord(mode, keep=keep) for mode in shape)
        size = math.prod(leaves(shape))
        return self.random.randrange(size + 2)

    def tiler(self, shape: Any, *, keep: float, nested: bool = True) -> str:
        """A tuple of tilers for the modes of a shape; sometimes one too many."""
        modes = shape if isinstance(shape, tuple) else (shape,)
        parts = []
        for mode in modes[: self.random.randint(1, len(modes))]:
            size = math.prod(leaves(mode))
            draw = self.random.random()
            if draw < keep:
                parts.append("None")
            elif draw < 0.65 + keep / 2:
                parts.append(str(self.random.choice((1, 2, 3, 4, size, 2, 4))))
            elif nested and isinstance(mode, tuple) and draw < 0.8:
                parts.append(self.tiler(mode, keep=keep))
            else:
                parts.append(self.matching(size))
        if self.random.random() < 0.04:
            parts.append("2")
        return "(" + "".join(part + "," for part in parts) + ")"

    def swizzle(self) -> str:
        bits = self.random.randint(1, 3)
        shift = self.random.randint(bits, 4) * self.random.choice((1, 1, 1, -1))
        return f"S({bits},{self.random.randint(0, 4)},{shift})"

    def composed(self) -> str:
        """A swizzle over a layout of powers of two."""
        shape = tuple(self.random.choice((2, 4, 8, 16)) for _ in range(self.random.randint(1, 3)))
        stride = self.compact(shape, shuffled=True, padded=False)
        return f"C({self.swizzle()},{self.random.choice((0, 0, 0, 8, 16))},L({text(shape)},{text(stride)}))"

    def int_tuple(self, shape: Any, low: int, high: int) -> Any:
        return fill(shape, [self.random.randint(low, high) for _ in leaves(shape)])


def _shape_of(expression: str) -> Any:
    """The shape a drawn layout was written with."""
    return eval(expression, {"L": lambda shape, stride: shape, "E": lambda path: 1})


def _total(expression: str) -> int:
    return math.prod(leaves(_shape_of(expression)))


def _coalesce(d: Draw) -> str:
    operation = d.random.choice(("coalesce", "coalesce", "filter", "filter_zeros", "flatten"))
    return f"{operation}({d.layout(max_depth=3)})"


def _coalesce_by_mode(d: Draw) -> str:
    a = d.layout(max_depth=3)
    profile = d.random.choice(
        ("1", "(1,)", "(1,1)", "(1,(1,1))", "((1,1),1)", "(1,1,1)", "(None,1)", "((1,),1)")
    )
    return f"coalesce({a},target_profile={profile})"


def _composition(d: Draw) -> str:
    a = d.layout(d.random.choice(("compact", "ordered", "strided", "zero")), max_depth=3)
    return f"composition({a},{d.matching(_total(a) * d.random.choice((1, 1, 2)))})"


def _composition_any(d: Draw) -> str:
    return f"composition({d.layout()},{d.layout(max_rank=2)})"


def _composition_tiler(d: Draw) -> str:
    a = d.layout(d.random.choice(("compact", "ordered", "strided")), min_rank=1)
    tiler = d.tiler(_shape_of(a), keep=0.2) if d.random.random() < 0.9 else str(d.random.choice(EXTENTS))
    return f"composition({a},{tiler})"


def _composition_basis(d: Draw) -> str:
    a = d.basis_layout()
    if d.random.random() < 0.5:
        return f"composition({a},{d.matching(_total(a))})"
    return f"composition({a},{d.tiler(_shape_of(a), keep=0.2)})"


def _composition_by_basis(d: Draw) -> str:
    return f"composition({d.layout(min_rank=1)},{d.basis_layout(scaled=True)})"


def _complement(d: Draw) -> str:
    a = d.injective() if d.random.random() < 0.8 else d.layout(d.random.choice(("unit", "zero")))
    target = d.random.choice((1, 8, 24, 64, 100, 256)) if d.random.random() < 0.7 else d.shape(max_depth=2)
    return f"complement({a},{text(target)})"


def _complement_any(d: Draw) -> str:
    return f"complement({d.layout('any')},{d.random.choice((16, 64, 96))})"


def _complement_basis(d: Draw) -> str:
    target = d.random.choice((64, (64, 32), (64, 32, 16), (16, (8, 32)), (16, (8, 32), 8)))
    return f"complement({d.basis_layout()},{text(target)})"


def _inverse(d: Draw) -> str:
    a = d.injective(max_depth=3) if d.random.random() < 0.7 else d.layout()
    return f"{d.random.choice(('left_inverse', 'right_inverse'))}({a})"


def _inverse_basis(d: Draw) -> str:
    return f"{d.random.choice(('left_inverse', 'right_inverse'))}({d.basis_layout()})"


DIVIDES = ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide")
PRODUCTS = (
    "logical_product",
    "zipped_product",
    "tiled_product",
    "flat_product",
    "blocked_product",
    "raked_product",
)


def _divide_by_layout(d: Draw) -> str:
    a = d.layout(d.random.choice(("compact", "ordered", "strided", "zero")))
    tiler = d.matching(_total(a)) if d.random.random() < 0.85 else d.layout(max_rank=2)
    return f"{d.random.choice(DIVIDES)}({a},{tiler})"


def _divide_by_tile(d: Draw) -> str:
    a = d.layout(d.random.choice(("compact", "ordered", "strided")), min_rank=1)
    operation = d.random.choice(DIVIDES)
    tiler = d.tiler(_shape_of(a), keep=0.1 if operation == "logical_divide" else 0.03)
    return f"{operation}({a},{tiler})"


def _divide_basis(d: Draw) -> str:
    a = d.basis_layout()
    tiler = d.tiler(_shape_of(a), keep=0.02) if d.random.random() < 0.7 else d.matching(_total(a))
    return f"{d.random.choice(DIVIDES)}({a},{tiler})"


def _product(d: Draw) -> str:
    a = d.injective() if d.random.random() < 0.9 else d.layout("zero")
    b = d.layout(max_rank=2, max_depth=2) if d.random.random() < 0.5 else d.injective(max_rank=3)
    return f"{d.random.choice(PRODUCTS)}({a},{b})"


def _product_by_tile(d: Draw) -> str:
    a = d.injective(min_rank=1)
    modes = _shape_of(a)[: d.random.randint(1, 3)]
    parts = [d.random.choice(("2", "3", "4", "None", "L(3,5)", "L((2,2),(1,4))", "L(4,2)")) for _ in modes]
    return f"logical_product({a},({''.join(part + ',' for part in parts)}))"


def _product_basis(d: Draw) -> str:
    block = d.basis_layout(max_rank=2, max_depth=1)
    tiler = (
        d.layout("compact", max_rank=2)
        if d.random.random() < 0.5
        else d.basis_layout(max_rank=2, max_depth=1)
    )
    return f"{d.random.choice(('logical_product', 'blocked_product', 'zipped_product'))}({block},{tiler})"


def _layout_tv(d: Draw) -> str:
    shape = tuple(d.random.choice((1, 2, 4, 8)) for _ in range(d.random.choice((1, 2, 2, 2))))
    values: Any = tuple(d.random.choice((1, 2, 4)) for _ in shape)
    if d.random.random() < 0.3:
        values = (*values[:-1], (2, 2))
    threads = f"L({text(shape)},{text(d.compact(shape, shuffled=True, padded=False))})"
    return (
        f"make_layout_tv({threads},L({text(values)},{text(d.compact(values, shuffled=True, padded=False))}))"
    )


def _tile_to_shape(d: Draw) -> str:
    a = d.injective(max_rank=3, min_rank=1)
    shape = _shape_of(a)
    rank = len(shape) + d.random.choice((0, 0, 0, 1, -1))
    target = tuple(d.random.choice((4, 8, 12, 16, (2, 8), (4, 4))) for _ in range(max(rank, 1)))
    order = list(range(len(target)))
    d.random.shuffle(order)
    if d.random.random() < 0.05:
        order.append(7)
    return f"tile_to_shape({a},{text(target)},{text(tuple(order))})"


def _recast(d: Draw) -> str:
    new, old = d.random.choice(
        ((16, 8), (8, 16), (32, 8), (8, 32), (4, 8), (8, 4), (32, 16), (24, 8), (12, 8), (8, 8))
    )
    return (
        f"recast_layout({new},{old},{d.layout(d.random.choice(('compact', 'ordered', 'strided', 'zero')))})"
    )


def _recast_any(d: Draw) -> str:
    new, old = d.random.choice(((16, 8), (8, 16), (32, 8), (24, 16)))
    return f"recast_layout({new},{old},{d.layout('any') if d.random.random() < 0.8 else d.basis_layout()})"


def _slice(d: Draw) -> str:
    a = d.layout(max_depth=3) if d.random.random() < 0.7 else d.basis_layout(max_depth=2)
    coord = d.coord(_shape_of(a), keep=0.4)
    if d.random.random() < 0.05:
        coord = (coord,) if not isinstance(coord, tuple) else (*coord, 0)
    return f"{d.random.choice(('slice_', 'dice'))}({a},{text(coord)})"


def _apply(d: Draw) -> str:
    a = d.layout(max_depth=3) if d.random.random() < 0.6 else d.basis_layout(max_depth=2)
    coord = d.coord(_shape_of(a))
    if d.random.random() < 0.06:
        coord = (coord, 0)
    return f"crd2idx({text(coord)},{a})"


def _coordinates(d: Draw) -> str:
    shape = d.shape(max_depth=3)
    if d.random.random() < 0.5:
        return f"idx2crd({text(d.coord(shape))},{text(shape)})"
    return f"crd2idx({text(d.coord(shape))},{text(shape)})"


def _sizes(d: Draw) -> str:
    a = d.layout(max_depth=3) if d.random.random() < 0.6 else d.basis_layout()
    function = d.random.choice(("size", "cosize", "rank", "depth", "cosize"))
    mode = (
        f",mode=[{d.random.randint(0, 1)}]"
        if function in ("size", "rank") and d.random.random() < 0.4
        else ""
    )
    if not isinstance(_shape_of(a), tuple):
        mode = ""
    elif mode and len(_shape_of(a)) < 2:
        mode = ",mode=[0]"
    return f"{function}({a}{mode})"


def _regroup(d: Draw) -> str:
    a = d.layout(min_rank=1) if d.random.random() < 0.8 else d.basis_layout()
    rank = len(_shape_of(a))
    choice = d.random.randrange(5)
    if choice == 0:
        begin = d.random.randrange(rank)
        return f"group_modes({a},{begin},{d.random.randint(begin, rank)})"
    if choice == 1:
        return f"select({a},mode={[d.random.randrange(rank + (d.random.random() < 0.1)) for _ in range(2)]})"
    if choice == 2:
        return f"get({a},mode=[{d.random.randrange(rank + (d.random.random() < 0.1))}])"
    extension = d.layout(max_rank=1)
    upto = d.random.choice(("", "", f",{rank}", f",{rank + 2}"))
    return f"{d.random.choice(('append', 'prepend'))}({a},{extension}{upto})"


def _make(d: Draw) -> str:
    shape = d.shape(max_depth=3)
    choice = d.random.randrange(4)
    if choice == 0:
        return f"L({text(shape)})"
    if choice == 1:
        return f"make_identity_layout({text(shape)})"
    if choice == 2:
        return f"make_layout([{d.layout()},{d.layout()}])"
    if not isinstance(shape, tuple):
        return f"make_ordered_layout({shape},{d.random.randint(0, 2)})"
    order: Any = tuple(d.random.sample(range(len(shape) + 2), len(shape)))
    if d.random.random() < 0.3:
        order = tuple(d.random.randint(0, 2) for _ in shape)
    elif d.random.random() < 0.3:
        order = d.int_tuple(shape, 0, 5)
    return f"make_ordered_layout({text(shape)},{text(order)})"


def _common(d: Draw) -> str:
    a = d.injective(max_rank=2)
    shape = _shape_of(a)
    stride = d.stride(shape, d.random.choice(("compact", "ordered", "strided")))
    b = f"L({text(shape)},{text(stride)})" if d.random.random() < 0.7 else d.injective(max_rank=2)
    return f"{d.random.choice(('max_common_layout', 'max_common_vector'))}({a},{b})"


def _swizzled(d: Draw) -> str:
    a = d.composed()
    shape = eval(
        a, {"C": lambda inner, offset, outer: outer, "S": lambda *_: 0, "L": lambda shape, stride: shape}
    )
    choice = d.random.randrange(9)
    if choice == 0:
        return f"{d.random.choice(('coalesce', 'filter', 'size', 'cosize', 'rank', 'depth'))}({a})"
    if choice == 1:
        return f"{a}({text(d.coord(shape))})"
    if choice == 2:
        return f"{d.random.choice(DIVIDES)}({a},{d.tiler(shape, keep=0.0)})"
    if choice == 3:
        return f"{d.random.choice(PRODUCTS)}({a},{d.injective(max_rank=2)})"
    if choice == 4:
        return f"composition({a},{d.matching(math.prod(shape))})"
    if choice == 5:
        target = tuple(d.random.choice((16, 32)) for _ in shape)
        return f"tile_to_shape({a},{text(target)},{text(tuple(range(len(shape))))})"
    if choice == 6:
        new, old = d.random.choice(((8, 16), (8, 32), (4, 8), (4, 8), (16, 8), (32, 8), (8, 24)))
        return f"recast_layout({new},{old},{a})"
    if choice == 7:
        return f"slice_({a},{text(tuple(d.coord(mode, keep=0.5) for mode in shape))})"
    return a


def _behind_layout(d: Draw) -> str:
    inner = d.injective(max_depth=1)
    outer = d.injective(max_rank=2, max_depth=1)
    a = f"C({inner},{d.random.choice((0, 0, 3, 5))},{outer})"
    shape = _shape_of(outer)
    choice = d.random.randrange(5)
    if choice == 0:
        return f"coalesce({a})"
    if choice == 1:
        return f"{a}({text(d.coord(shape))})"
    if choice == 2:
        return f"composition({a},{d.matching(math.prod(leaves(shape)))})"
    if choice == 3:
        return f"slice_({a},{text(d.coord(shape, keep=0.5))})"
    return f"zipped_divide({a},{d.tiler(shape, keep=0.0)})"


def _negative(d: Draw) -> str:
    shape = d.shape(max_rank=2, max_depth=1)
    stride = d.compact(shape, shuffled=True, padded=False)
    flipped = fill(stride, [x * d.random.choice((1, -1)) for x in leaves(stride)])
    a = f"L({text(shape)},{text(flipped)})"
    return d.random.choice(
        (
            f"coalesce({a})",
            f"cosize({a})",
            f"crd2idx({text(d.coord(shape))},{a})",
            f"composition({a},{d.matching(math.prod(leaves(shape)))})",
            f"recast_layout(16,8,{a})",
            f"recast_layout(8,16,{a})",
            f"right_inverse({a})",
            f"left_inverse({a})",
        )
    )


def _arithmetic(d: Draw) -> str:
    shape = d.shape(max_depth=2)
    function = d.random.choice(("shape_div", "ceil_div"))
    if d.random.random() < 0.5 or not isinstance(shape, tuple):
        return f"{function}({text(shape)},{d.random.choice((1, 2, 3, 4, 6, 8, 16))})"
    other = tuple(d.random.choice((1, 2, 4)) for _ in shape)
    return f"{function}({text(tuple(math.prod(leaves(mode)) for mode in shape))},{text(other)})"


STRATA: dict[str, tuple[int, Callable[[Draw], str]]] = {
    "coalesce": (6, _coalesce),
    "coalesce by mode": (3, _coalesce_by_mode),
    "composition": (14, _composition),
    "composition, anything": (6, _composition_any),
    "composition with a tiler": (8, _composition_tiler),
    "composition of coordinates": (5, _composition_basis),
    "composition by coordinates": (4, _composition_by_basis),
    "complement": (6, _complement),
    "complement, anything": (3, _complement_any),
    "complement of coordinates": (4, _complement_basis),
    "inverse": (7, _inverse),
    "inverse of coordinates": (4, _inverse_basis),
    "divide by a layout": (8, _divide_by_layout),
    "divide by a tile": (8, _divide_by_tile),
    "divide coordinates": (4, _divide_basis),
    "product": (9, _product),
    "product by a tile": (3, _product_by_tile),
    "product of coordinates": (3, _product_basis),
    "threads and values": (2, _layout_tv),
    "tile to shape": (4, _tile_to_shape),
    "recast": (4, _recast),
    "recast, anything": (2, _recast_any),
    "slice": (5, _slice),
    "apply": (5, _apply),
    "coordinates": (4, _coordinates),
    "sizes": (4, _sizes),
    "regroup": (5, _regroup),
    "make": (5, _make),
    "common": (4, _common),
    "swizzled": (8, _swizzled),
    "behind a layout": (3, _behind_layout),
    "negative strides": (3, _negative),
    "arithmetic": (2, _arithmetic),
}


def draw(seed: object, count: int) -> list[Case]:
    """Draw `count` cases; every stratum gets its share, the first one what rounding leaves over."""
    total = sum(weight for weight, _ in STRATA.values())
    cases: list[Case] = []
    for stratum, (weight, make) in STRATA.items():
        source = Draw(f"{seed}/{stratum}")
        cases += [Case(stratum, make(source)) for _ in range(math.ceil(count * weight / total))]
    return cases
