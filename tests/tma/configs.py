"""Random TMA configurations: what a tensor, a tile and shared memory can look like, and what breaks."""

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from cutecourse.dtypes import dtype
from cutecourse.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    cosize,
    get_nonswizzle_portion,
    make_ordered_layout,
    rank,
    tile_to_shape,
)

STRATA = ("swizzled", "plain", "core matrices", "many modes", "nested", "recast", "mma tile", "wild")
TYPES = ("s8", "u8", "e4m3", "f16", "bf16", "f32", "tf32", "f64", "u32", "s32", "u64")
SPANS = {16: 0, 32: 1, 64: 2, 128: 3}


@dataclass(frozen=True)
class Config:
    """The arguments of an atom, as text and plain numbers."""

    stratum: str
    gtensor: str
    slayout: str
    tiler: Any
    dtype: str
    multicast: int = 1
    internal: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def arguments(self) -> tuple[Any, ...]:
        """What trace_tma_atom takes."""
        gtensor, slayout = Layout.parse(self.gtensor), Layout.parse(self.slayout)
        return gtensor, slayout, as_tuple(self.tiler), self.dtype, self.multicast, self.internal

    def staged(self, stages: int = 3) -> Layout | ComposedLayout:
        """The shared-memory layout with a mode of stages behind the tile, the tile in mode 0."""
        slayout = Layout.parse(self.slayout)
        plain = get_nonswizzle_portion(slayout)
        shape, stride = (plain.shape, stages), (plain.stride, cosize(plain))
        if isinstance(slayout, ComposedLayout):
            return slayout.replace_outer(Layout(shape, stride))
        return Layout(shape, stride)


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(part) for part in value) if isinstance(value, (list, tuple)) else value


def draw(seed: str, count: int) -> list[Config]:
    """The same configurations for the same seed, the strata in turn."""
    rng = random.Random(seed)
    return [_draw(rng, STRATA[number % len(STRATA)]) for number in range(count)]


def _draw(rng: random.Random, stratum: str) -> Config:
    name = rng.choice(TYPES)
    makers = {
        "swizzled": _swizzled,
        "plain": _plain,
        "core matrices": _core_matrices,
        "many modes": _many_modes,
        "nested": _nested,
        "recast": _recast,
        "mma tile": _mma_tile,
        "wild": _wild,
    }
    return makers[stratum](rng, stratum, name)


def _multicast(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 4, 8))


def _width(name: str) -> int:
    return dtype(name).bits // 8


def _global(rng: random.Random, tile: tuple[int, ...], major: int, element_bytes: int, extra: int = 0) -> str:
    """A tensor of at least one tile, ragged or not, rows padded to 16 bytes or more."""
    extents = []
    for side in tile:
        tiles = rng.choice((1, 2, 3, 4))
        ragged = rng.choice((0, 0, rng.randrange(side)))
        extents.append(max(side * tiles - ragged, 1))
    extents += [rng.choice((1, 2, 3, 5)) for _ in range(extra)]
    order = [major, *rng.sample([i for i in range(len(extents)) if i != major], len(extents) - 1)]
    strides = [0] * len(extents)
    unit, step = 16 // element_bytes, 1
    for position in order:
        strides[position] = step
        step *= extents[position]
        step = -(-step // unit) * unit + rng.choice((0, 0, unit))
    return str(Layout(tuple(extents), tuple(strides)))


def _swizzled_block(span: int, element_bytes: int, major: int) -> Layout:
    """Eight rows of a swizzle's span: CUTLASS's shared-memory atom, K- or MN-major."""
    inner = span // element_bytes
    return Layout((8, inner), (inner, 1)) if major == 1 else Layout((inner, 8), (1, inner))


def _composed(span: int, plain: Layout) -> str:
    bits = SPANS[span]
    return str(ComposedLayout(Swizzle(bits, 4, 3), 0, plain) if bits else plain)


def _swizzled(rng: random.Random, stratum: str, name: str) -> Config:
    width, major, span = _width(name), rng.randrange(2), rng.choice((32, 64, 128))
    block = _swizzled_block(span, width, major)
    rows, inner = 8 * rng.choice((1, 2, 4, 8, 16)), span // width * rng.choice((1, 1, 2, 4))
    tile = (rows, inner) if major == 1 else (inner, rows)
    plain = tile_to_shape(block, tile, rng.choice(((0, 1), (1, 0))))
    gtensor = _global(rng, tile, major, width, extra=rng.choice((0, 0, 1)))
    return Config(stratum, gtensor, _composed(span, plain), tile, name, _multicast(rng))


def _plain(rng: random.Random, stratum: str, name: str) -> Config:
    width, major = _width(name), rng.randrange(2)
    inner = 16 // width * rng.choice((1, 2, 3, 4, 8))
    outer = rng.choice((1, 2, 6, 8, 16, 24, 48, 64, 96, 128, 256))
    tile = (outer, inner) if major == 1 else (inner, outer)
    plain = make_ordered_layout(tile, (1, 0) if major == 1 else (0, 1))
    return Config(stratum, _global(rng, tile, major, width), str(plain), tile, name, _multicast(rng))


def _core_matrices(rng: random.Random, stratum: str, name: str) -> Config:
    width, major = _width(name), rng.randrange(2)
    block = _swizzled_block(16, width, major)
    tile = tuple(side * rng.choice((1, 2, 4, 8)) for side in block.shape)
    plain = tile_to_shape(block, tile, rng.choice(((0, 1), (1, 0))))
    return Config(stratum, _global(rng, tile, major, width), str(plain), tile, name, _multicast(rng))


def _many_modes(rng: random.Random, stratum: str, name: str) -> Config:
    width, modes = _width(name), rng.choice((1, 3, 4, 5))
    major = rng.randrange(modes)
    tile = [rng.choice((1, 2, 3, 4, 8)) for _ in range(modes)]
    tile[major] = 16 // width * rng.choice((1, 2, 4))
    order = [major, *rng.sample([i for i in range(modes) if i != major], modes - 1)]
    plain = make_ordered_layout(tuple(tile), tuple(order.index(i) for i in range(modes)))
    extra = rng.choice((0, 0, 1)) if modes < 5 else rng.choice((0, 1, 2))
    gtensor = _global(rng, tuple(tile), major, width, extra)
    return Config(stratum, gtensor, str(plain), tuple(tile), name, _multicast(rng))


def _nested(rng: random.Random, stratum: str, name: str) -> Config:
    """A mode of the tensor in two parts, which one tile takes as a tuple or counts through."""
    width = _width(name)
    unit = 16 // width
    inner, parts, rows = unit * rng.choice((1, 2, 4)), rng.choice((2, 3, 4)), rng.choice((4, 8, 16))
    extents = ((inner * rng.choice((1, 2)), parts), rows * rng.choice((1, 2)))
    step = extents[0][0]
    if rng.random() < 0.5:
        stride: Any = ((1, step), step * parts)
    else:
        stride = ((1, step * extents[1]), step)
    taken = rng.choice((1, parts))
    tile: Any = ((inner, taken), rows)
    if extents[0][0] == inner and rng.random() < 0.4:
        tile = (inner * taken, rows)
    plain = make_ordered_layout(
        tile, rng.choice((((0, 1), 2), ((0, 2), 1))) if rank(tile[0]) == 2 else (0, 1)
    )
    return Config(stratum, str(Layout(extents, stride)), str(plain), tile, name, rng.choice((1, 2)))


def _recast(rng: random.Random, stratum: str, name: str) -> Config:
    """An internal type that is narrower than the tensor's, as wide, or wider."""
    name = rng.choice(("u8", "f16", "f32", "f64", "u64"))
    base = _plain(rng, stratum, name) if rng.random() < 0.5 else _swizzled(rng, stratum, name)
    same = {"u8": "e4m3", "f32": "tf32", "f16": "bf16", "u64": "s64", "f64": "u64"}[name]
    internal = rng.choice(("u8", "u16", "u32", "u64", same))
    return replace(base, internal=internal)


def _mma_tile(rng: random.Random, stratum: str, name: str) -> Config:
    """Shared memory as an MMA reads it: ((rows, K of one MMA), MMAs along M, MMAs along K)."""
    name = rng.choice(("f16", "bf16"))
    span, rows, steps = 128, rng.choice((64, 128, 256)), rng.choice((4, 8))
    block = _swizzled_block(span, 2, 1)
    plain = tile_to_shape(block, (rows, 16 * steps), (0, 1))
    (row_shape, k_shape), (row_stride, k_stride) = plain.shape, plain.stride
    inner, outer = k_shape
    shape = ((row_shape, 16), 1, (inner // 16, outer))
    stride = ((row_stride, k_stride[0]), 0, (16 * k_stride[0], k_stride[1]))
    tile = (rows, 16 * steps)
    gtensor = _global(rng, tile, 1, 2)
    return Config(stratum, gtensor, _composed(span, Layout(shape, stride)), tile, name, rng.choice((1, 2, 4)))


def _wild(rng: random.Random, stratum: str, name: str) -> Config:
    """One thing is wrong, or only unusual."""
    base = _draw(rng, rng.choice(STRATA[:4]))
    gtensor = Layout.parse(base.gtensor)
    changes: dict[str, Any] = {}
    kind = rng.choice(("major", "multicast", "stride", "tile", "swizzle", "broadcast"))
    if kind == "major" and rank(gtensor) > 1:
        changes["gtensor"] = str(Layout(gtensor.shape, tuple(reversed(gtensor.stride))))
    elif kind == "multicast":
        changes["multicast"] = rng.choice((3, 5, 6, 16))
    elif kind == "stride":
        changes["gtensor"] = str(Layout(gtensor.shape, tuple(2 * d for d in gtensor.stride)))
    elif kind == "tile":
        tiler = list(base.tiler)
        tiler[rng.randrange(len(tiler))] *= 2
        changes["tiler"] = tuple(tiler)
    elif kind == "swizzle":
        plain = get_nonswizzle_portion(Layout.parse(base.slayout))
        swizzle = rng.choice((Swizzle(3, 3, 3), Swizzle(2, 4, 3), Swizzle(1, 4, 3), Swizzle(2, 5, 2)))
        changes["slayout"] = str(ComposedLayout(swizzle, 0, plain))
    elif kind == "broadcast" and rank(gtensor) > 1:
        strides = list(gtensor.stride)
        strides[next(i for i, d in enumerate(strides) if d != 1)] = 0
        changes["gtensor"] = str(Layout(gtensor.shape, tuple(strides)))
    return Config(**{**asdict(base), **changes, "stratum": stratum})
