"""Tiling a copy atom over threads and values, and cutting tensors into what each thread copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cutecourse.atoms.copy_atom import CopyAtom
from cutecourse.atoms.errors import PartitionError
from cutecourse.atoms.tensor import AnyLayout, LayoutTensor, as_tensor, outer_of, rewrapped, started
from cutecourse.atoms.tiled_mma import TiledMma
from cutecourse.layout import (
    Layout,
    LayoutError,
    coalesce,
    composition,
    left_inverse,
    logical_product,
    make_layout,
    make_layout_tv,
    right_inverse,
    size,
    upcast,
    zipped_divide,
)
from cutecourse.layout import filter as filter_modes
from cutecourse.layout.explanation import explained, note

__all__ = [
    "ThrCopy",
    "TiledCopy",
    "copy_partition",
    "make_cotiled_copy",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_C_atom",
    "make_tiled_copy_D",
    "make_tiled_copy_S",
    "make_tiled_copy_impl",
    "make_tiled_copy_tv",
    "tidfrg",
]

Side = Literal["S", "D"]
Tiler = tuple[int | Layout, ...]


@dataclass(frozen=True)
class TiledCopy:
    """A copy atom repeated until `layout_tv` threads and values have copied one tile.

    Shapes: `layout_tv` maps (thread, value) to the index of an element of the tile, first mode fastest,
            in the atom's reference arrangement; `tiler_mn` cuts the tile out of a tensor: a size or a
            layout for each mode.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, TiledCopy.

    >>> from cutecourse.atoms import copy_atom
    >>> copy = make_tiled_copy(
    ...     copy_atom("UniversalCopy<uint128_t>", "f16"), Layout((16, 2), (2, 1)), Layout((1, 8))
    ... )
    >>> print(copy.layout_tv, copy.size)
    ((2,16),8):((128,1),16) 32
    """

    atom: CopyAtom
    layout_tv: Layout
    tiler_mn: Tiler

    @property
    def size(self) -> int:
        """How many threads take part."""
        return int(size(self.layout_tv[0]))

    @property
    def values(self) -> int:
        """How many values of the tile each thread copies."""
        return int(size(self.layout_tv[1]))

    @property
    def tile_shape(self) -> tuple[Any, ...]:
        """The shape of the tile, one mode a mode of the tensor."""
        return tuple(tile if isinstance(tile, int) else tile.shape for tile in self.tiler_mn)

    # ---- threads ----

    def get_slice(self, thr_idx: int) -> ThrCopy:
        """One thread's view of the tiling.

        Errors: PartitionError for a thread out of range, which CuTe does not check.
        """
        if not 0 <= thr_idx < self.size:
            raise PartitionError(
                f"the tiled copy has threads 0 to {self.size - 1} ({self.layout_tv[0]}); there is no thread "
                f"{thr_idx}. CuTe does not check this: such a thread copies elements outside its tile."
            )
        return ThrCopy(self, thr_idx)

    def get_thread_slice(self, thr_idx: int) -> ThrCopy:
        """Do as `get_slice`: CuTe has both names."""
        return self.get_slice(thr_idx)

    # ---- layouts ----

    def tidfrg_S(self, layout: AnyLayout) -> AnyLayout:
        """Rearrange a source (M,N,...) to (Thr,(FrgV,FrgX),(RestM,RestN,...))."""
        return tidfrg(self, "S", layout)

    def tidfrg_D(self, layout: AnyLayout) -> AnyLayout:
        """Rearrange a destination (M,N,...) to (Thr,(FrgV,FrgX),(RestM,RestN,...))."""
        return tidfrg(self, "D", layout)

    def get_layoutS_TV(self) -> Layout:
        """(thread, value) at the source to the index of an element of the tile."""
        return self._layout_tv("S")

    def get_layoutD_TV(self) -> Layout:
        """(thread, value) at the destination to the index of an element of the tile."""
        return self._layout_tv("D")

    def _layout_tv(self, side: Side) -> Layout:
        cut = _tile2thrfrg(self, side, Layout((self.tile_shape, 1)))
        return make_layout(cut[0], cut[1])

    def retile(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """See registers as this copy does: the atom's values first, the repetitions as they were.

        Shapes: (V, RestM, RestN, ...) becomes ((AtomV, RestV), RestM', RestN', ...).
        Errors: PartitionError where the copy's tile does not fit the fragment.
        Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, TiledCopy::retile.
        """
        whole = as_tensor(tensor)
        outer = outer_of(whole.layout)
        try:
            return LayoutTensor(rewrapped(whole.layout, _retile(self, outer)), whole.offset)
        except LayoutError as error:
            raise PartitionError(
                f"retile: {whole.layout} is no fragment of this copy ({self.tile_shape}).\n{error}"
            ) from error

    def __str__(self) -> str:
        tiles = ",".join(str(Layout(t) if isinstance(t, int) else t) for t in self.tiler_mn)
        return f"Tiled Copy\n  Tiler MN:        ({tiles})\n  TV Layout tiled: {self.layout_tv}\n{self.atom}"

    def __repr__(self) -> str:
        return f"TiledCopy({self.atom.name}, {self.layout_tv})"


@dataclass(frozen=True)
class ThrCopy:
    """One thread's view of a tiled copy: what it reads and what it writes."""

    tiled_copy: TiledCopy
    thr_idx: int

    def partition_S(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This thread's part (CPY, CPY_M, CPY_N, ...) of the source (M, N, ...).

        >>> from cutecourse.atoms import copy_atom
        >>> copy = make_tiled_copy(
        ...     copy_atom("UniversalCopy<uint128_t>", "f16"), Layout((16, 2), (2, 1)), Layout((1, 8))
        ... )
        >>> print(copy.get_slice(3).partition_S(Layout((32, 16), (16, 1))))
        24 o ((8,1),2,1):((1,0),256,0)
        """
        return copy_partition(self.tiled_copy, "S", tensor, self.thr_idx)

    def partition_D(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This thread's part (CPY, CPY_M, CPY_N, ...) of the destination (M, N, ...)."""
        return copy_partition(self.tiled_copy, "D", tensor, self.thr_idx)

    def retile_S(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """The registers of a fragment as this copy reads them."""
        return self.tiled_copy.retile(tensor)

    def retile_D(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """The registers of a fragment as this copy writes them."""
        return self.tiled_copy.retile(tensor)

    def retile(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """Do as `retile_S` and `retile_D`: the DSL has one name for both."""
        return self.tiled_copy.retile(tensor)

    def __str__(self) -> str:
        return f"thread {self.thr_idx} of {self.tiled_copy.size}"


@explained("tidfrg(T)(t, v, r) = the cell of T that value v of thread t has in tile r")
def tidfrg(tiled_copy: TiledCopy, side: Side, layout: AnyLayout) -> AnyLayout:
    """Rearrange a tensor's layout into threads, values and repetitions, for one side of a tiled copy.

    Shapes: (M,N,...) becomes (Thr,(FrgV,FrgX),(RestM,RestN,...)): FrgV the values of one atom, FrgX the
            atoms that a thread repeats within the tile.
    Errors: PartitionError for a rank below the tiler's, or where the layout algebra refuses to divide.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, TiledCopy::tidfrg_S, tidfrg_D, tile2thrfrg.
    """
    outer = outer_of(layout)
    if len(outer) < len(tiled_copy.tiler_mn):
        raise PartitionError(
            f"partition_{side}: the tensor {layout} has {len(outer)} modes and the tiled copy's tile has "
            f"{len(tiled_copy.tiler_mn)}. CuTe: Rank of tensor to be partitioned too small."
        )
    try:
        tiled = zipped_divide(outer, tiled_copy.tiler_mn)
        note("tile", "cut the copy's tile out of the tensor: (Tile, Rest)", tiled=tiled)
        return rewrapped(layout, _tile2thrfrg(tiled_copy, side, tiled))
    except LayoutError as error:
        raise PartitionError(
            f"partition_{side}: the tensor {layout} cannot be cut into tiles of {tiled_copy.tile_shape} for "
            f"{tiled_copy.atom.name}.\n{error}"
        ) from error


@explained("copy_partition(T, t)(c) = tidfrg(T)(t, c)")
def copy_partition(
    tiled_copy: TiledCopy, side: Side, tensor: LayoutTensor | AnyLayout, thr_idx: int
) -> LayoutTensor:
    """One thread's part of the source (S) or destination (D) of a tiled copy: ((FrgV,FrgX),RestM,RestN,...).

    Shapes: where a mode is no multiple of the tile, the part reaches over the edge: kernels predicate.
    Errors: PartitionError as `tidfrg` and `TiledCopy.get_slice`.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, ThrCopy.
    """
    whole = as_tensor(tensor)
    place = tiled_copy.get_slice(thr_idx).thr_idx
    cut = tidfrg(tiled_copy, side, whole.layout)
    threads, values, rest = outer_of(cut)
    start = threads(place)
    note("slice", f"thread {thr_idx}: its part starts there", start=start)
    result = started(cut, make_layout(values, *rest), start, whole.offset)
    note("result", "what is left of the modes: (CPY, repetitions)", result=str(result))
    return result


def _tile2thrfrg(tiled_copy: TiledCopy, side: Side, tiled: Layout) -> Layout:
    atom = tiled_copy.atom
    target = atom.layout_src if side == "S" else atom.layout_dst
    ref_to_target = composition(right_inverse(atom.layout_ref), target)
    note(
        "atom",
        "(thread, value) of this side in the atom's reference arrangement",
        ref_to_target=ref_to_target,
    )

    sizes = (int(size(atom.layout_ref[0])), int(size(atom.layout_ref[1])))
    atoms = zipped_divide(tiled_copy.layout_tv, sizes)
    note(
        "split",
        f"split threads and values into atoms of {sizes[0]} and {sizes[1]}: (Atom, Rest)",
        atoms=atoms,
    )

    turned = composition(atoms[0], ref_to_target)
    rest = atoms[1]
    zipped = make_layout(make_layout(turned[0], rest[0]), make_layout(turned[1], rest[1]))
    thr_val = coalesce(zipped, (1, (1, 1)))
    note("thread-value", "put threads with threads and values with values", thr_val=thr_val)

    tile = composition(tiled[0], thr_val)
    result = make_layout(tile[0], tile[1], tiled[1])
    note("result", "let (thread, value) choose the element of the tile", result=result)
    return result


def _retile(tiled_copy: TiledCopy, layout: Layout) -> Layout:
    values = int(size(layout[0]))
    tile = composition(right_inverse(tiled_copy.layout_tv), Layout(tiled_copy.tile_shape))
    order = upcast(tile, tiled_copy.size * values)
    atom_values = int(size(tiled_copy.atom.layout_ref[1]))
    chosen = zipped_divide(logical_product(Layout(values), right_inverse(order)), Layout(atom_values))
    tiler = (values, *_extents(order))
    tiled = zipped_divide(layout, tiler)
    fragment = composition(tiled[0], chosen)
    return make_layout(fragment, *(tiled[1][i] for i in range(1, len(layout))))


def _extents(layout: Layout) -> tuple[int, ...]:
    return tuple(int(size(layout[mode])) for mode in range(len(layout)))


# ---- making tiled copies ----


def make_tiled_copy_impl(atom: CopyAtom, layout_tv: Layout, tiler_mn: Tiler) -> TiledCopy:
    """Tile a copy atom by a thread-value layout and a tiler; the DSL calls this make_tiled_copy.

    Errors: PartitionError where the atom needs more threads or more values than the layout has.
    """
    threads, values = int(size(layout_tv[0])), int(size(layout_tv[1]))
    need_threads, need_values = int(size(atom.layout_ref[0])), int(size(atom.layout_ref[1]))
    for have, need, what in ((threads, need_threads, "thread"), (values, need_values, "value")):
        if have % need:
            raise PartitionError(
                f"{atom.name} copies with {need} {what}s of {atom.dtype} at a time, and {layout_tv} has "
                f"{have}: no multiple of {need}. CuTe: TiledCopy uses too few {what[:3]}s for "
                f"selected CopyAtom."
            )
    return TiledCopy(atom, layout_tv, tuple(tiler_mn))


def make_tiled_copy(
    atom: CopyAtom, thr_layout: Layout | tuple[Any, ...], val_layout: Layout | tuple[Any, ...] | int = 1
) -> TiledCopy:
    """Tile a copy atom by where threads stand (`thr_layout`) and which block each copies (`val_layout`).

    Shapes: both map coordinates (m, n) to an index, of a thread and of a value; the tile is their product.
            `make_tiled_copy_tv` is the DSL's name for this.
    Law: element (m, n) of the tile belongs to thread `thr_layout(m / vm, n / vn)`, as its value
         `val_layout(m % vm, n % vn)`.
    Errors: PartitionError as `make_tiled_copy_impl`, or where the layouts are not compact.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_tiled_copy.

    >>> from cutecourse.atoms import copy_atom
    >>> copy = make_tiled_copy(
    ...     copy_atom("UniversalCopy<uint32_t>", "f16"), Layout((4, 8), (8, 1)), Layout((1, 2))
    ... )
    >>> print(copy.layout_tv, copy.tiler_mn)
    ((8,4),2):((8,1),4) (4, 16)
    """
    threads = thr_layout if isinstance(thr_layout, Layout) else Layout(thr_layout)
    values = val_layout if isinstance(val_layout, Layout) else Layout(val_layout)
    try:
        tiler, layout_tv = make_layout_tv(threads, values)
    except LayoutError as error:
        raise PartitionError(
            f"threads {threads} and values {values} make no tile: both layouts must be compact.\n{error}"
        ) from error
    return make_tiled_copy_impl(atom, layout_tv, tiler)


def make_tiled_copy_tv(
    atom: CopyAtom, thr_layout: Layout | tuple[Any, ...], val_layout: Layout | tuple[Any, ...] | int = 1
) -> TiledCopy:
    """Do as `make_tiled_copy`; this is the DSL's name."""
    return make_tiled_copy(atom, thr_layout, val_layout)


def make_tiled_copy_A(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A copy that brings each thread the values of A which it multiplies.

    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_tiled_copy_A.

    >>> from cutecourse.atoms import copy_atom, make_tiled_mma
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> print(make_tiled_copy_A(copy_atom("SM75_U32x4_LDSM_N", "f16"), mma).get_layoutS_TV())
    ((16,2,2,2),(8,1)):((1,256,16,0),(32,0))
    """
    return make_tiled_copy_impl(
        atom, tiled_mma.get_layoutA_TV(), (tiled_mma.tile_size(0), tiled_mma.tile_size(2))
    )


def make_tiled_copy_B(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A copy that brings each thread the values of B which it multiplies."""
    return make_tiled_copy_impl(
        atom, tiled_mma.get_layoutB_TV(), (tiled_mma.tile_size(1), tiled_mma.tile_size(2))
    )


def make_tiled_copy_C(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """A copy that takes each thread's values of C to or from memory."""
    return make_tiled_copy_impl(
        atom, tiled_mma.get_layoutC_TV(), (tiled_mma.tile_size(0), tiled_mma.tile_size(1))
    )


def make_tiled_copy_S(atom: CopyAtom, tiled_copy: TiledCopy) -> TiledCopy:
    """A copy by another atom whose threads hold what the sources of `tiled_copy` hold."""
    return make_tiled_copy_impl(atom, tiled_copy.get_layoutS_TV(), tiled_copy.tiler_mn)


def make_tiled_copy_D(atom: CopyAtom, tiled_copy: TiledCopy) -> TiledCopy:
    """A copy by another atom whose threads hold what the destinations of `tiled_copy` hold."""
    return make_tiled_copy_impl(atom, tiled_copy.get_layoutD_TV(), tiled_copy.tiler_mn)


def make_tiled_copy_C_atom(atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:
    """The smallest copy that stores a piece of C as its threads hold it, for epilogues in pieces.

    Errors: PartitionError where the atom takes more values than a thread has of C.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_tiled_copy_C_atom.
    """
    layout_c = tiled_mma.get_layoutC_TV()
    have = int(size(layout_c[1]))
    if atom.values_src > have:
        raise PartitionError(
            f"{atom.name} takes {atom.values_src} values of {atom.dtype}, a thread has {have} of C."
        )
    piece = composition(layout_c, Layout((int(size(layout_c[0])), atom.values_src)))
    return _by_elements(atom, piece, (tiled_mma.tile_size(0), tiled_mma.tile_size(1)))


def make_cotiled_copy(atom: CopyAtom, atom_layout_tv: Layout, data_layout: Layout) -> TiledCopy:
    """Tile a copy by addresses: thread and value say where in memory, `data_layout` which element that is.

    Shapes: `atom_layout_tv` maps (thread, value) to an offset in memory, `data_layout` a coordinate to one.
    Errors: PartitionError where an address is no element of the data.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_cotiled_copy.
    """
    off_the_end = Layout(1, 0)
    try:
        to_element = make_layout(left_inverse(data_layout), off_the_end)
        elements = composition(to_element, atom_layout_tv)
        back = coalesce(composition(make_layout(data_layout, off_the_end), elements[1]))
    except LayoutError as error:
        raise PartitionError(
            f"{atom_layout_tv} does not meet the elements of {data_layout}.\n{error}"
        ) from error
    if back != coalesce(atom_layout_tv[1]):
        raise PartitionError(
            f"CuTe: the memory pointed to by {atom_layout_tv} does not exist in the data_layout "
            f"{data_layout}."
        )
    return _by_elements(atom, elements, _extents(data_layout))


def _by_elements(atom: CopyAtom, elements: Layout, extents: tuple[int, ...]) -> TiledCopy:
    """A copy of just the elements of a tile that (thread, value) names: the tiler picks them out by mode."""
    tiler = tuple(
        filter_modes(
            composition(Layout(extents, tuple(int(i == mode) for i in range(len(extents)))), elements)
        )
        for mode in range(len(extents))
    )
    chosen = composition(Layout(extents), tiler)
    return make_tiled_copy_impl(atom, composition(left_inverse(chosen), elements), tiler)
