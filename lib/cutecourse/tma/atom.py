"""make_tma_atom, step by step: from a tensor, a shared-memory layout and a tiler to a tensor map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cutecourse.atoms import LayoutTensor
from cutecourse.atoms.tensor import as_tensor
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import (
    ArithTuple,
    ComposedLayout,
    Layout,
    Swizzle,
    composition,
    get_nonswizzle_portion,
    get_swizzle_portion,
    is_congruent,
    make_identity_layout,
    rank,
    select,
    size,
)
from cutecourse.layout.int_tuple import flatten_to_tuple, wrap
from cutecourse.layout.record import Record

from .encoding import SWIZZLES, Swizzling, TensorMapEncoding, data_type
from .errors import TmaError
from .gbasis import SOURCE, basis_get, construct_tma_gbasis, tma_basis_stride
from .static import cpp_str, dynamic, static

__all__ = ["TmaTrace", "trace_tma_atom"]

_SWIZZLE_SOURCE = "CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma_swizzle.hpp"
_MAX_RANK = 5


@dataclass(frozen=True)
class TmaTrace(Record):
    """The values that make_tma_atom computes, under CuTe's names and in CuTe's order.

    Shapes:     `gmem_prob_*` and `smem_box_*` have five entries, as CuTe's arrays do; `encoding` holds the
                entries that the descriptor takes. Innermost first everywhere.
    Units:      elements of the internal type, or bytes where the name says so; `cta_v_tile` to `sidx2gmode`
                and `gmem_tma_basis_stride` count the tensor's own elements.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp.
    """

    OPERATION: ClassVar[str] = "make_tma_atom"
    LAW: ClassVar[str] = (
        "element i of the tile lies in shared memory at slayout(i), and comes from cta_v_tile(i)"
    )
    OPERANDS: ClassVar[tuple[str, ...]] = ("gtensor", "slayout", "cta_tiler", "dtype", "num_multicast")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("tile", "from the number of an element of the tile to its coordinate", "cta_v_tile"),
        (
            "split",
            "shared memory: a swizzle of bytes on top of a plain layout",
            "smem_swizzle",
            "smem_layout",
        ),
        ("invert", "from an offset in shared memory to the element that lies there", "inv_smem_layout"),
        ("follow", "from the offset on to the coordinate: a walk through shared memory", "sidx2gmode_full"),
        (
            "truncate",
            "one instruction: the modes before the first step that is not 1",
            "smem_rank",
            "sidx2gmode",
        ),
        ("strides", "the same walk in strides of global memory, in the internal type", "tile_gstride"),
        ("merge", "neighbours in memory become one side of the box, up to 256 elements", "tma_gstride"),
        ("name", "every mode of the tensor gets its own basis element", "gbasis"),
        ("indirect", "the walk again, in modes instead of strides", "tile_gbasis_tmp", "tile_gbasis"),
        ("box", "the sides of the box, and the mode of the tensor that each follows", "tma_gbasis_tile"),
        (
            "rest",
            "modes outside the box get extent 1, so that a coordinate can choose among them",
            "gtensor_T",
            "tile_gbasis_remaining_stride",
            "tile_gbasis_remaining_shape",
            "tma_gbasis_full",
        ),
        ("five", "a tensor map has five dimensions at most: the last ones share the fifth", "tma_gbasis"),
        (
            "problem",
            "extents and strides of the tensor in the order of the box",
            "gmem_prob_shape",
            "gmem_prob_stride",
            "gmem_prob_stride_bytes",
        ),
        (
            "multicast",
            "each CTA of the multicast loads one part; the outermost side is cut first",
            "smem_box_shape_pre_mcast",
            "smem_box_shape",
        ),
        ("swizzle", "the swizzle's number in the descriptor", "smem_swizzle_mode", "tma_format"),
        (
            "coordinates",
            "from the modes of the tensor to the coordinates of the instruction",
            "recast_ratio",
            "gmem_tma_basis_stride",
        ),
        ("size", "one instruction, counted for all CTAs together", "num_bits_per_tma", "num_val_src"),
        ("result", "sides of the box : modes of the tensor", "tma_gbasis"),
    )
    RESULT: ClassVar[str] = "tma_gbasis"

    gtensor: Layout
    slayout: Layout | ComposedLayout
    cta_tiler: Any
    dtype: DType
    num_multicast: int
    internal_type: DType
    cta_v_tile: Layout
    smem_swizzle: Swizzle
    smem_layout: Layout
    inv_smem_layout: Layout
    sidx2gmode_full: Layout
    smem_rank: int
    sidx2gmode: Layout
    tile_gstride: Layout
    tma_gstride: Layout
    gbasis: Layout
    tile_gbasis_tmp: Layout
    tile_gbasis: Layout
    tma_gbasis_tile: Layout
    gtensor_T: Layout
    tile_gbasis_remaining_stride: tuple[Any, ...]
    tile_gbasis_remaining_shape: tuple[int, ...]
    tma_gbasis_full: Layout
    tma_gbasis: Layout
    gmem_prob_shape: tuple[int, ...]
    gmem_prob_stride: tuple[int, ...]
    gmem_prob_stride_bytes: tuple[int, ...]
    smem_box_shape_pre_mcast: tuple[int, ...]
    smem_box_shape: tuple[int, ...]
    smem_box_stride: tuple[int, ...]
    tma_format: int
    smem_swizzle_mode: int
    recast_ratio: tuple[int, int]
    gmem_tma_basis_stride: Any
    num_bits_per_tma: int
    num_val_src: int
    encoding: TensorMapEncoding

    @property
    def rank(self) -> int:
        """The dimensions of the tensor map, and the coordinates that an instruction takes."""
        return rank(self.tma_gbasis)

    @property
    def tile_size(self) -> int:
        """Elements of one tile."""
        return size(self.smem_layout)

    @property
    def instructions(self) -> int:
        """The number of TMA instructions for one tile; with multicast, for each CTA."""
        return self.tile_size // self.num_val_src

    @property
    def tile_bytes(self) -> int:
        """Bytes of shared memory that a tile fills; the barrier of a load expects this number."""
        return self.tile_size * self.dtype.bits // 8

    def violations(self, address: int | None = None) -> tuple[TmaError, ...]:
        """The rules that this atom breaks: CUTLASS's first, then the driver's.

        Empty for an atom that `trace_tma_atom` gives without `check=False`.
        """
        found = self.encoding.violations(address)
        if self.gmem_prob_stride[0] == 1:
            return found
        error = TmaError(
            f"the innermost side of the box steps by {self.gmem_prob_stride[0]} elements through the tensor",
            rule="majorness",
            source=SOURCE,
            values=(
                ("tensor", self.gtensor),
                ("smem_layout", self.smem_layout),
                ("tma_gbasis", self.tma_gbasis),
            ),
            advice="the same major for the tensor and for shared memory: TMA does not transpose",
        )
        return (error, *found)

    def get_tma_tensor(self, shape: Any = None) -> LayoutTensor:
        """The tensor whose elements are the coordinates that a TMA instruction takes, innermost first.

        `shape` is nested as the tensor's is; without one it is the tensor's own.
        Errors: TmaError, rule `profile`, for a shape that is nested in another way.

        >>> trace = trace_tma_atom(Layout((512, 256), (256, 1)), Layout((128, 64), (64, 1)), (128, 64), "f16")
        >>> print(trace.get_tma_tensor((512, 256)))
        (0,0) o (512,256):(1@1,1@0)
        """
        shape = self.gtensor.shape if shape is None else shape
        if not is_congruent(shape, self.gtensor.shape):
            raise TmaError(
                "the shape is nested in another way than the tensor of the atom",
                rule="profile",
                source=SOURCE,
                values=(("shape", shape), ("tensor", self.gtensor)),
            )
        tensor = as_tensor(Layout(shape, self.gmem_tma_basis_stride))
        # a tensor of one element steps along no coordinate, but it has one
        return tensor if isinstance(tensor.offset, tuple) else LayoutTensor(tensor.layout, ArithTuple((0,)))

    def log(self, *, static_sizes: bool | None = None) -> dict[str, str]:
        """Each value as CuTe C++ prints it, in the order of its computation.

        A static number has an underscore. With `static_sizes=False`, the problem size is an argument of the
        program: all extents and strides of the tensor are dynamic, except the stride 1. True makes all of
        them static. By default they stay as they were given.
        Errors: TmaError where C++ refuses the atom with such sizes.

        >>> trace = trace_tma_atom(Layout((128, 64), (1, 128)), Layout((64, 64)), (64, 64), "f16")
        >>> trace.log(static_sizes=False)["tile_gstride"]
        '(_64,_64):(_1,128)'
        """
        if static_sizes is not None:
            gtensor = static(self.gtensor) if static_sizes else dynamic(self.gtensor)
            again = trace_tma_atom(
                gtensor,
                self.slayout,
                self.cta_tiler,
                self.dtype,
                self.num_multicast,
                self.internal_type,
                check=False,
            )
            return again.log()
        printed = {name: cpp_str(getattr(self, name)) for name in _LAYOUT_FIELDS}
        num, den = self.recast_ratio
        printed |= {
            "gmem_prob_shape": _array(self.gmem_prob_shape),
            "gmem_prob_stride[elem]": _array(self.gmem_prob_stride),
            "gmem_prob_stride[byte]": _array(self.gmem_prob_stride_bytes),
            "smem_box_shape pre-mcast": _array(self.smem_box_shape_pre_mcast),
            "smem_box_shape post-mcast": _array(self.smem_box_shape),
            "tma_format": str(self.tma_format),
            "smem_swizzle(enum)": str(self.smem_swizzle_mode),
            "recast_ratio": f"_{num}/_{den}",
            "gmem_tma_basis_stride": cpp_str(self.gmem_tma_basis_stride),
        }
        return printed

    def to_snapshot(self) -> dict[str, Any]:
        """Every value as JSON can hold it: layouts in the DSL's notation, CuTe's arrays as lists."""
        return {
            **super().to_snapshot(),
            **{name: [int(number) for number in getattr(self, name)] for name in _ARRAYS},
            "internal_type": self.internal_type.name,
            "encoding": self.encoding.to_snapshot(),
            "rank": self.rank,
            "instructions": self.instructions,
            "tile_bytes": self.tile_bytes,
        }

    def _value(self, name: str) -> Any:
        if name == "recast_ratio":
            return "{}/{}".format(*self.recast_ratio)
        return getattr(self, name)


_LAYOUT_FIELDS = (
    "cta_v_tile",
    "smem_swizzle",
    "smem_layout",
    "inv_smem_layout",
    "sidx2gmode_full",
    "smem_rank",
    "sidx2gmode",
    "tile_gstride",
    "tma_gstride",
    "gbasis",
    "tile_gbasis_tmp",
    "tile_gbasis",
    "tma_gbasis_tile",
    "gtensor_T",
    "tile_gbasis_remaining_stride",
    "tile_gbasis_remaining_shape",
    "tma_gbasis_full",
    "tma_gbasis",
)
_ARRAYS = (
    "gmem_prob_shape",
    "gmem_prob_stride",
    "gmem_prob_stride_bytes",
    "smem_box_shape_pre_mcast",
    "smem_box_shape",
    "smem_box_stride",
    "recast_ratio",
)


def _array(values: Sequence[int]) -> str:
    return "[" + ", ".join(str(int(value)) for value in values) + "]"


def trace_tma_atom(
    gtensor: Layout,
    slayout: Layout | ComposedLayout,
    cta_tiler: Any,
    dtype: DType | str,
    num_multicast: int = 1,
    internal_type: DType | str | None = None,
    *,
    check: bool = True,
) -> TmaTrace:
    """Make a TMA atom as CuTe's make_tma_atom does, and keep every value on the way.

    Shapes:     `gtensor` is the whole tensor in global memory; `slayout` the tile in shared memory, with as
                many elements as `cta_tiler` takes (with one mode more, the stages, these are left out). A
                swizzle of `slayout` permutes bytes, as in CuTe's shared-memory atoms: `S<3,4,3>` is 128B
                for every type. `cta_tiler` is a tuple of extents or layouts, nested where it names parts of
                a mode, or a layout that takes an element of the tile to its coordinates.
    Units:      elements of `dtype`; the descriptor counts in `internal_type`, when it is given.
    Errors:     TmaError for what CUTLASS refuses, and with `check` also for what the driver refuses (rules
                in `TensorMapEncoding.check`); `LayoutError` for a tiler that does not fit the tensor.
    Simplified: numbers are static, as in a program with a fixed problem size; a `Dynamic` is one that only
                the running program knows. CuTe merges static neighbours only. As CuTe C++, a side of the box
                that is longer than 256 elements or the swizzle's span is left for the driver to refuse; the
                CuTe DSL 4.8 cuts it there and takes more instructions.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, make_tma_atom.

    >>> slayout = Layout.parse("S<3,4,3> o 0 o ((64,2),(8,8)):((1,512),(64,1024))")
    >>> trace = trace_tma_atom(Layout((128, 64), (1, 128)), slayout, (128, 64), "f16")
    >>> print(trace.tma_gbasis, trace.encoding.box, trace.encoding.swizzle, trace.instructions)
    (64,8):(1@0,1@1) (64, 8) 128B 16
    """
    value_type = as_dtype(dtype)
    tma_type = value_type if internal_type is None else as_dtype(internal_type)
    tma_format = data_type(tma_type)[1]
    multicast = _check_multicast(num_multicast)
    if not isinstance(gtensor, Layout):
        raise TmaError(
            f"the tensor is given by its plain layout, not by {gtensor!r}",
            rule="gtensor",
            advice="Layout((512, 256), (256, 1))",
        )

    cta_tiler = _as_tiler(cta_tiler, rank(gtensor))
    identity = make_identity_layout(gtensor.shape)
    cta_v_tile = composition(identity, cta_tiler)
    slayout = _without_stages(slayout, cta_v_tile)
    smem_swizzle = get_swizzle_portion(slayout)
    smem_layout = get_nonswizzle_portion(slayout)
    bits, tma_bits = value_type.bits, tma_type.bits
    values = construct_tma_gbasis(gtensor, smem_layout, cta_v_tile, bits, tma_bits)
    tma_gbasis, gtensor_t = values["tma_gbasis"], values["gtensor_T"]

    shapes, strides = _problem(gtensor_t, tma_gbasis)
    strides_bytes = tuple(stride * tma_bits // 8 for stride in strides)
    dimensions = rank(tma_gbasis)
    whole_box = tuple(size(mode) for mode in tma_gbasis)
    box = _cut_for_multicast(whole_box, multicast)
    swizzle = swizzle_name(smem_swizzle)
    encoding = TensorMapEncoding(
        dtype=tma_type,
        dims=shapes[:dimensions],
        strides_bytes=strides_bytes[1:dimensions],
        box=box,
        swizzle=swizzle,
    )
    num_bits = math.prod(whole_box) * tma_bits
    ones = (1,) * _MAX_RANK
    trace = TmaTrace(
        gtensor=gtensor,
        slayout=slayout,
        cta_tiler=cta_tiler,
        dtype=value_type,
        num_multicast=multicast,
        internal_type=tma_type,
        cta_v_tile=cta_v_tile,
        smem_swizzle=smem_swizzle,
        smem_layout=smem_layout,
        **values,
        gmem_prob_shape=shapes,
        gmem_prob_stride=strides,
        gmem_prob_stride_bytes=strides_bytes,
        smem_box_shape_pre_mcast=(whole_box + ones)[:_MAX_RANK],
        smem_box_shape=(box + ones)[:_MAX_RANK],
        smem_box_stride=ones,
        tma_format=tma_format,
        smem_swizzle_mode=SWIZZLES[swizzle],
        recast_ratio=(bits, tma_bits),
        gmem_tma_basis_stride=tma_basis_stride(gtensor, gtensor_t, tma_gbasis, strides_bytes, bits, tma_bits),
        num_bits_per_tma=num_bits,
        num_val_src=num_bits // bits,
        encoding=encoding,
    )
    if check:
        for error in trace.violations():
            raise error
    return trace


def _as_tiler(tiler: Any, modes: int) -> Any:
    """Turn lists into tuples, and the extent of an only mode into a tuple of one."""
    if isinstance(tiler, (tuple, list)):
        return tuple(_as_tiler(part, 0) for part in tiler)
    return (tiler,) if modes == 1 and isinstance(tiler, int) else tiler


def swizzle_name(swizzle: Swizzle) -> Swizzling:
    """The driver's name for a swizzle of bytes.

    Errors: TmaError, rule `swizzle`, for one that TMA does not have.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma_swizzle.hpp.

    >>> swizzle_name(Swizzle(3, 4, 3)), swizzle_name(Swizzle(2, 4, 3)), swizzle_name(Swizzle(0, 4, 3))
    ('128B', '64B', 'none')
    """
    known: dict[tuple[int, int], dict[int, Swizzling]] = {
        (4, 3): {0: "none", 1: "32B", 2: "64B", 3: "128B"},
        (5, 2): {2: "128B_atom_32B"},
        (6, swizzle.num_shift): {2: "128B_atom_64B"},
    }
    name = known.get((swizzle.num_base, swizzle.num_shift), {}).get(swizzle.num_bits)
    if name is None:
        raise TmaError(
            f"TMA has no swizzle {swizzle}",
            rule="swizzle",
            source=_SWIZZLE_SOURCE,
            values=(("known", "S<0,4,3>, S<1,4,3>, S<2,4,3>, S<3,4,3> and, of wider chunks, S<2,5,2>"),),
            advice="it permutes bytes here; recast_layout(8, bits, swizzle) makes them of one for elements",
        )
    return name


def _check_multicast(num_multicast: Any) -> int:
    if isinstance(num_multicast, bool) or not isinstance(num_multicast, int) or not 1 <= num_multicast <= 16:
        raise TmaError(
            f"a multicast has 1 to 16 CTAs, not {num_multicast!r}",
            rule="multicast_count",
            source="PTX ISA 9.0, cp.async.bulk.tensor: the mask has 16 bits",
        )
    return num_multicast


def _without_stages(slayout: Any, cta_v_tile: Layout) -> Layout | ComposedLayout:
    """Drop the last mode of a layout with one mode more than the tile, and more elements: its stages."""
    if not isinstance(slayout, (Layout, ComposedLayout)):
        raise TmaError(
            f"shared memory is given by a layout, not by {slayout!r}",
            rule="slayout",
            advice='Layout.parse("S<3,4,3> o 0 o (128,64):(64,1)")',
        )
    plain = get_nonswizzle_portion(slayout)
    if isinstance(slayout, ComposedLayout) and (
        not isinstance(slayout.inner, Swizzle) or slayout.offset != 0 or not isinstance(plain, Layout)
    ):
        raise TmaError(
            f"{slayout} is no swizzle on top of a plain layout that starts at 0",
            rule="slayout",
            source=SOURCE,
        )
    modes = list(range(rank(cta_v_tile)))
    staged = rank(plain) == len(modes) + 1 and size(plain) != size(cta_v_tile)
    if staged and size(select(plain, modes)) == size(cta_v_tile):
        chosen: Layout | ComposedLayout = select(slayout, modes)
        return chosen
    return slayout


def _problem(gtensor: Layout, tma_gbasis: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides of the tensor in the order of the box, five of each.

    Several modes in one dimension become the coarsest grid that has all of their elements.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, fill_tma_gmem_shape_stride.
    """
    shapes, strides = [1] * _MAX_RANK, [0] * _MAX_RANK
    for i, mode in enumerate(wrap(tma_gbasis.stride)):
        bases = flatten_to_tuple(mode)
        for basis in bases:
            extent, stride = (int(basis_get(basis, part)) for part in (gtensor.shape, gtensor.stride))
            if len(bases) == 1:
                shapes[i], strides[i] = extent, stride
                continue
            old = strides[i]
            strides[i] = math.gcd(old, stride)
            if strides[i] == 0:
                shapes[i] = extent
            else:
                shapes[i] = (shapes[i] - 1) * (old // strides[i]) + (extent - 1) * (stride // strides[i]) + 1
    return tuple(shapes), tuple(strides)


def _cut_for_multicast(box: tuple[int, ...], num_multicast: int) -> tuple[int, ...]:
    """Cut a box among the CTAs of a multicast, from the outermost side inwards."""
    sides, left = list(box), num_multicast
    for i in reversed(range(len(sides))):
        if left == 1:
            break
        side = sides[i]
        if side % left and left % side:
            raise TmaError(
                f"{left} CTAs cannot share side {i} of the box, {side} elements: neither divides the other",
                rule="multicast_divides",
                source=SOURCE,
                values=(("box", box), ("num_multicast", num_multicast)),
            )
        sides[i], left = -(-side // left), -(-left // side)
    if left > 1:
        raise TmaError(
            f"the box has fewer elements than the multicast has CTAs ({num_multicast})",
            rule="multicast_divides",
            source=SOURCE,
            values=(("box", box),),
        )
    return tuple(sides)
