"""tma_partition, step by step: a tile divided into instructions, and the part of one CTA of a multicast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from cutecourse.atoms import LayoutTensor
from cutecourse.atoms.tensor import AnyLayout, as_tensor, outer_of, started
from cutecourse.dtypes import DType
from cutecourse.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    append,
    coalesce,
    composition,
    cosize,
    crd2idx,
    get_swizzle_portion,
    logical_divide,
    rank,
    right_inverse,
    size,
    tile_to_shape,
)
from cutecourse.layout.record import Record

from .atom import TmaTrace
from .errors import TmaError
from .static import cpp_str

__all__ = ["TmaPartition", "tma_partition"]

_SOURCE = "CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, tma_partition"
_TILE_PROFILE = ((1, 1),)


@dataclass(frozen=True)
class TmaPartition(Record):
    """The values that tma_partition computes, under CuTe's names; unpacks as `(smem, gmem)`.

    Shapes:     the results are `((TMA, TMA_Iter), Rest...)`: elements of one instruction, instructions of a
                tile, then the modes behind the tile.
    Simplified: the CuTe DSL gives shared memory first and so does this; CuTe C++ gives
                `(gresult, sresult)`. C++ 4.2.0 has `glayout_V` and `slayout_V`, one for each tensor; today's
                takes any number of tensors and has one `tlayout_V` for each instead, with the same value.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, tma_partition.
    """

    OPERATION: ClassVar[str] = "tma_partition"
    LAW: ClassVar[str] = "instruction i moves gresult((_, i)) to sresult((_, i)), element by element"
    OPERANDS: ClassVar[tuple[str, ...]] = ("cta_coord", "cta_layout", "stensor", "gtensor")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("invert", "which element of the tile each place of shared memory holds", "inv_smem_layout"),
        ("cover", "repeat it until the whole tile is walked", "layout_v"),
        ("instruction", "one instruction moves this many elements", "tma_layout_v"),
        ("divide", "(elements of an instruction, instructions)", "layout_V"),
        ("keep", "the modes behind the tile stay as they are", "glayout_V", "slayout_V"),
        ("compose", "both tensors in the order of shared memory", "gtensor_v", "stensor_v"),
        ("share", "where this CTA's part of an instruction starts", "multicast_offset", "multicast_coord"),
        ("place", "that place as a coordinate of either tensor", "gcoord", "scoord"),
        ("result", "both tensors from there on", "sresult", "gresult"),
    )
    RESULT: ClassVar[str] = "results"

    cta_coord: Any
    cta_layout: Layout
    stensor: LayoutTensor
    gtensor: LayoutTensor
    inv_smem_layout: Layout
    layout_v: Layout
    tma_layout_v: Layout
    layout_V: tuple[Layout]
    glayout_V: tuple[Any, ...]
    slayout_V: tuple[Any, ...]
    gtensor_v: LayoutTensor
    stensor_v: LayoutTensor
    multicast_offset: int
    multicast_coord: Any
    gcoord: Any
    scoord: Any
    gresult: LayoutTensor
    sresult: LayoutTensor
    dtype: DType | None = None

    @property
    def results(self) -> tuple[LayoutTensor, LayoutTensor]:
        """Shared memory first, as in the CuTe DSL."""
        return self.sresult, self.gresult

    def __iter__(self) -> Iterator[LayoutTensor]:
        return iter(self.results)

    def log(self, *, smem_address: int = 0, bits: int | None = None) -> dict[str, str]:
        """Each value as CuTe C++ prints it, in the order of its computation.

        Shared-memory tensors print with a pointer: `smem_address` is the address of their first element.
        Units:      `bits` of one element; without it those of the atom's type.
        Errors:     TmaError, rule `dtype`, without bits when only a number of values was given.
        """
        width = bits if bits is not None else self.dtype.bits if self.dtype is not None else None
        if width is None:
            raise TmaError("the pointer's element has no width", rule="dtype", advice="log(bits=16)")
        printed = {}
        for name in _LOGGED:
            value = getattr(self, name)
            if name in ("stensor_v", "sresult"):
                printed[name] = _smem_str(value, smem_address, width)
            else:
                printed[name] = cpp_str(value)
        return printed


_LOGGED = (
    "inv_smem_layout",
    "layout_v",
    "tma_layout_v",
    "layout_V",
    "glayout_V",
    "slayout_V",
    "gtensor_v",
    "stensor_v",
    "multicast_offset",
    "multicast_coord",
    "gcoord",
    "scoord",
    "gresult",
    "sresult",
)


def tma_partition(
    atom: TmaTrace | int,
    cta_coord: Any,
    cta_layout: Layout | int,
    stensor: LayoutTensor | AnyLayout,
    gtensor: LayoutTensor | AnyLayout,
) -> TmaPartition:
    """Divide a tile in shared memory and the coordinates of its elements into TMA instructions.

    Shapes:     `stensor` is `(TMATile, Rest...)` and `gtensor` `(TMATile, Rest...)` of coordinates, with the
                same number of elements in mode 0 (`group_modes`). `cta_layout` maps a CTA's coordinate along
                the multicast to its number in it: `Layout(1)` without multicast.
    Units:      `atom` is the trace of the atom, or its NumValSrc: elements of one instruction.
    Errors:     TmaError: `tile_size` for tiles of different sizes, `instructions` where an instruction does
                not divide the tile, `multicast_divides` where the CTAs do not divide an instruction.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm90_tma.hpp, tma_partition.

    >>> from cutecourse.tma import trace_tma_atom
    >>> slayout = Layout((128, 64), (64, 1))
    >>> trace = trace_tma_atom(Layout((512, 256), (256, 1)), slayout, (128, 64), "f16", 4)
    >>> tiles = trace.get_tma_tensor((512, 256)).local_tile((128, 64), (1, None)).group_modes(0, 2)
    >>> smem, gmem = tma_partition(trace, 1, Layout(4), Layout(((128, 64), 3), ((64, 1), 8192)), tiles)
    >>> print(smem, gmem, sep="; ")
    2048 o ((8192,1),3):((1,0),8192); (0,160) o (((64,128),1),4):(((1@0,1@1),0),64@0)
    """
    num_val_src = atom.num_val_src if isinstance(atom, TmaTrace) else atom
    if isinstance(cta_layout, int):
        cta_layout = Layout(cta_layout)
    smem, gmem = as_tensor(stensor), as_tensor(gtensor)
    stile, gtile = outer_of(smem.layout)[0], outer_of(gmem.layout)[0]
    if size(stile) != size(gtile):
        raise TmaError(
            f"the tile in shared memory has {size(stile)} elements, that of coordinates {size(gtile)}",
            rule="tile_size",
            source=_SOURCE,
            values=(("stensor", smem), ("gtensor", gmem)),
            advice="group_modes(tensor, 0, n) puts the modes of a tile into mode 0",
        )
    inv_smem_layout = right_inverse(stile)
    if size(stile) % size(inv_smem_layout) or size(stile) % num_val_src:
        raise TmaError(
            f"instructions of {num_val_src} elements do not fill a tile of {size(stile)}, of which "
            f"{size(inv_smem_layout)} lie together in shared memory",
            rule="instructions",
            source=_SOURCE,
        )
    layout_v = tile_to_shape(
        Layout.unchecked((inv_smem_layout.shape,), (inv_smem_layout.stride,)), size(stile)
    )
    tma_layout_v = Layout(num_val_src)
    layout_whole = (logical_divide(layout_v, tma_layout_v),)
    glayout_whole = layout_whole + (None,) * (rank(gmem.layout) - 1)
    slayout_whole = layout_whole + (None,) * (rank(smem.layout) - 1)
    gtensor_v = _arranged(gmem, glayout_whole)
    stensor_v = _arranged(smem, slayout_whole)

    parts = cosize(cta_layout)
    if num_val_src % parts:
        raise TmaError(
            f"{parts} CTAs cannot share an instruction of {num_val_src} elements",
            rule="multicast_divides",
            source=_SOURCE,
            values=(("cta_layout", cta_layout),),
        )
    multicast_offset = cta_layout(cta_coord) * (num_val_src // parts)
    multicast_coord = ((multicast_offset, 0),)
    gcoord = append(multicast_coord, 0, rank(gmem.layout))
    scoord = append(multicast_coord, 0, rank(smem.layout))
    return TmaPartition(
        cta_coord=cta_coord,
        cta_layout=cta_layout,
        stensor=smem,
        gtensor=gmem,
        inv_smem_layout=inv_smem_layout,
        layout_v=layout_v,
        tma_layout_v=tma_layout_v,
        layout_V=layout_whole,
        glayout_V=glayout_whole,
        slayout_V=slayout_whole,
        gtensor_v=gtensor_v,
        stensor_v=stensor_v,
        multicast_offset=multicast_offset,
        multicast_coord=multicast_coord,
        gcoord=gcoord,
        scoord=scoord,
        gresult=_moved(gtensor_v, gcoord),
        sresult=_moved(stensor_v, scoord),
        dtype=atom.dtype if isinstance(atom, TmaTrace) else None,
    )


def _arranged(tensor: LayoutTensor, tiler: tuple[Any, ...]) -> LayoutTensor:
    composed = composition(tensor.layout, tiler)
    return LayoutTensor(coalesce(composed, _TILE_PROFILE), tensor.offset)


def _moved(tensor: LayoutTensor, crd: Any) -> LayoutTensor:
    """The tensor from a coordinate on: CuTe's domain_offset."""
    outer = outer_of(tensor.layout)
    return started(tensor.layout, outer, crd2idx(crd, outer), tensor.offset)


def _smem_str(tensor: LayoutTensor, address: int, bits: int) -> str:
    swizzle = get_swizzle_portion(tensor.layout)
    inner = tensor.layout.offset if isinstance(tensor.layout, ComposedLayout) else 0
    start = address + (int(tensor.offset) + int(inner)) * bits // 8
    front = f"{cpp_str(swizzle)}_" if swizzle != Swizzle(0, 4, 3) else ""
    return f"{front}smem_ptr[{bits}b]({start:#x}) o {cpp_str(outer_of(tensor.layout))}"
