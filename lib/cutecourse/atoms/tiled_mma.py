"""Tiling an MMA atom over threads and values, and cutting tensors into what each thread needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from cutecourse.atoms.errors import PartitionError
from cutecourse.atoms.mma_atom import MmaAtom
from cutecourse.atoms.mma_table import mma_atom
from cutecourse.atoms.tensor import (
    AnyLayout,
    LayoutTensor,
    as_tensor,
    flat_coord,
    outer_of,
    rewrapped,
    started,
)
from cutecourse.layout import (
    Layout,
    LayoutError,
    complement,
    composition,
    logical_divide,
    make_layout,
    make_ordered_layout,
    right_inverse,
    size,
    tiled_product,
    unflatten,
    zipped_divide,
)
from cutecourse.layout.explanation import explained, note

__all__ = [
    "ThrMma",
    "TiledMma",
    "make_fragment_like",
    "make_tiled_mma",
    "partition",
    "partition_fragment_C",
    "thrfrg",
    "tile_size",
]

Operand = Literal["A", "B", "C"]
Permutation = int | Layout | None

# which modes of M, N, K an operand has
_MODES: dict[str, tuple[int, int]] = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


@dataclass(frozen=True)
class TiledMma:
    """MMA atoms tiled over more threads (`atom_layout_mnk`) and over a larger, perhaps permuted, tile.

    Shapes: `atom_layout_mnk` is a layout of rank 3: how many atoms stand side by side along M, N, K, and
            in which order the warps take them. `permutation_mnk` holds for each of M, N, K the tile that
            is cut out of a tensor before atoms are laid over it: a size, a layout (which says in
            which order its elements are taken), or None for as many as the atoms cover at once.
    Where a tensor is smaller than what the atoms cover, C++ and the DSL differ, and this is the DSL's way:
    with None all atoms share the tensor; in C++, or with a size given, they go on over its edge.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, TiledMMA.

    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> print(mma.thr_layout_vmnk, mma.size, mma.tile_shape_mnk)
    (32,2,2,1):(1,32,64,0) 128 (32, 32, 16)
    """

    atom: MmaAtom
    atom_layout_mnk: Layout
    permutation_mnk: tuple[Permutation, Permutation, Permutation] = (None, None, None)

    @cached_property
    def thr_layout_vmnk(self) -> Layout:
        """(thread of the atom, atom along M, N, K) to thread index."""
        layout: Layout = tiled_product(self.atom.thr_id, self.atom_layout_mnk)
        return layout

    @property
    def size(self) -> int:
        """How many threads take part."""
        return int(size(self.thr_layout_vmnk))

    def permutation(self, mode: int) -> int | Layout:
        """The tile of one mode: as given, or as many elements as the atoms side by side cover."""
        given = self.permutation_mnk[mode]
        if given is None:
            return self.atom.shape_mnk[mode] * int(size(self.thr_layout_vmnk[mode + 1]))
        return given

    def tile_size(self, mode: int) -> int:
        """How many elements of M, N or K one tile covers."""
        tile = self.permutation(mode)
        return tile if isinstance(tile, int) else int(size(tile))

    @property
    def tile_shape_mnk(self) -> tuple[int, int, int]:
        """The tile that all threads work on together: M, N, K."""
        return (self.tile_size(0), self.tile_size(1), self.tile_size(2))

    # ---- threads ----

    def get_slice(self, thr_idx: int) -> ThrMma:
        """One thread's view of the tiling.

        Errors: PartitionError for a thread out of range. CuTe does not check: there the index wraps around.
        """
        if not 0 <= thr_idx < self.size:
            raise PartitionError(
                f"the tiled MMA has threads 0 to {self.size - 1} ({self.thr_layout_vmnk}); there is no "
                f"thread {thr_idx}. CuTe does not check: there the index wraps around."
            )
        return ThrMma(self, thr_idx)

    def get_thread_slice(self, thr_idx: int) -> ThrMma:
        """Do as `get_slice`: CuTe has both names."""
        return self.get_slice(thr_idx)

    # ---- layouts ----

    def thrfrg_A(self, layout: AnyLayout) -> AnyLayout:
        """Rearrange (M,K,...) to ((ThrV,(ThrM,ThrK)),(FrgV,(RestM,RestK,...)))."""
        return thrfrg(self, "A", layout)

    def thrfrg_B(self, layout: AnyLayout) -> AnyLayout:
        """Rearrange (N,K,...) to ((ThrV,(ThrN,ThrK)),(FrgV,(RestN,RestK,...)))."""
        return thrfrg(self, "B", layout)

    def thrfrg_C(self, layout: AnyLayout) -> AnyLayout:
        """Rearrange (M,N,...) to ((ThrV,(ThrM,ThrN)),(FrgV,(RestM,RestN,...)))."""
        return thrfrg(self, "C", layout)

    def get_layoutA_TV(self) -> Layout:
        """(thread index, value) to the index of a cell of A's tile, M first.

        >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1))
        >>> print(mma.get_layoutA_TV())
        ((4,8,2),((2,2,2),(1,1))):((64,1,16),((32,8,256),(0,0)))
        """
        return _layout_tv(self, "A")

    def get_layoutB_TV(self) -> Layout:
        """(thread index, value) to the index of a cell of B's tile, N first."""
        return _layout_tv(self, "B")

    def get_layoutC_TV(self) -> Layout:
        """(thread index, value) to the index of a cell of C's tile, M first."""
        return _layout_tv(self, "C")

    # ---- shapes ----

    def partition_shape_A(self, shape_mk: Any) -> Any:
        """The shape (MMA, MMA_M, MMA_K, ...) of each thread's part of A.

        Law: MMA_M is M divided by what the atoms side by side cover of M, whatever the permutation.
        Errors: PartitionError where neither divides the other: the DSL's rule. (C++ takes the shape of
                `partition_A`, which keeps a permuted tile's repetitions nested and rounds up.)

        >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
        >>> mma.partition_shape_A((64, 64))
        ((2, 2, 2), 2, 4)
        """
        return _partition_shape(self, "A", shape_mk)

    def partition_shape_B(self, shape_nk: Any) -> Any:
        """The shape (MMA, MMA_N, MMA_K, ...) of each thread's part of B."""
        return _partition_shape(self, "B", shape_nk)

    def partition_shape_C(self, shape_mn: Any) -> Any:
        """The shape (MMA, MMA_M, MMA_N, ...) of each thread's part of C."""
        return _partition_shape(self, "C", shape_mn)

    def __str__(self) -> str:
        tiles = ",".join(
            "_" if p is None else f"{p}:1" if isinstance(p, int) else str(p) for p in self.permutation_mnk
        )
        return (
            f"Tiled MMA\n  Thr Layout VMNK: {self.thr_layout_vmnk}\n  Permutation MNK: ({tiles})\n{self.atom}"
        )

    def __repr__(self) -> str:
        return f"TiledMma({self.atom.name}, {self.atom_layout_mnk})"


def _partition_shape(tiled_mma: TiledMma, operand: Operand, shape: Any) -> Any:
    layout = Layout(shape)
    _check_rank(operand, layout)
    repetitions = []
    for position, mode in enumerate(_MODES[operand]):
        have, atoms = int(size(layout[position])), int(size(tiled_mma.thr_layout_vmnk[mode + 1]))
        covered = tiled_mma.atom.shape_mnk[mode] * atoms
        if have % covered and covered % have:
            raise PartitionError(
                f"partition_shape_{operand}: {'MNK'[mode]} = {have} of {layout}, and the atoms side by side "
                f"cover {covered}: neither divides the other. CuTe: failed to partition the shape. "
                f"(partition_{operand} of a tensor rounds up and reaches over the edge.)"
            )
        repetitions.append(-(-have // covered))
    return (tiled_mma.atom.layout(operand)[1].shape, *repetitions, *layout.shape[2:])


def _check_rank(operand: Operand, layout: AnyLayout) -> None:
    if len(layout) < 2:
        raise PartitionError(
            f"partition_{operand} needs a tensor of at least two modes, {_names(operand)}; {layout} has "
            f"{len(layout)}."
        )


@dataclass(frozen=True)
class ThrMma:
    """One thread's view of a tiled MMA: which part of A, B and C it loads, multiplies and stores."""

    tiled_mma: TiledMma
    thr_idx: int

    @property
    def thr_vmnk(self) -> tuple[int, ...]:
        """The thread's place: within the atom, and its atom along M, N, K."""
        return flat_coord(self.thr_idx, self.tiled_mma.thr_layout_vmnk)

    def partition_A(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This thread's part (MMA, MMA_M, MMA_K, ...) of a tensor (M, K, ...).

        Law: mode 0 runs over the values of one atom, the others over the atom's repetitions.

        >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
        >>> print(mma.get_slice(7).partition_A(Layout((16, 16), (16, 1))))
        22 o ((2,2,2),1,1):((1,128,8),0,0)
        """
        return partition(self.tiled_mma, "A", tensor, self.thr_idx)

    def partition_B(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This thread's part (MMA, MMA_N, MMA_K, ...) of a tensor (N, K, ...)."""
        return partition(self.tiled_mma, "B", tensor, self.thr_idx)

    def partition_C(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This thread's part (MMA, MMA_M, MMA_N, ...) of a tensor (M, N, ...)."""
        return partition(self.tiled_mma, "C", tensor, self.thr_idx)

    def partition_fragment_A(self, tensor: LayoutTensor | AnyLayout) -> Layout:
        """The layout of the registers for this thread's part of A: compact, the atom's values first."""
        return make_fragment_like(self.partition_A(tensor))

    def partition_fragment_B(self, tensor: LayoutTensor | AnyLayout) -> Layout:
        """The layout of the registers for this thread's part of B."""
        return make_fragment_like(self.partition_B(tensor))

    def partition_fragment_C(self, tensor: LayoutTensor | AnyLayout) -> Layout:
        """The layout of the registers for this thread's part of C: compact, whatever C's strides are."""
        return Layout(self.partition_C(tensor).shape)

    def __str__(self) -> str:
        return f"thread {self.thr_idx} of {self.tiled_mma.size}, (V,M,N,K) = {self.thr_vmnk}"


def make_tiled_mma(
    atom: MmaAtom | str,
    atom_layout_mnk: Layout | tuple[Any, ...] = (1, 1, 1),
    permutation_mnk: tuple[Permutation, ...] | None = None,
) -> TiledMma:
    """Tile an MMA atom: how many side by side along M, N, K, and over which tile.

    Missing modes of either argument are appended: one atom, and no permutation. As in CuTe nothing checks
    that the atoms divide the tile, or that every atom has threads of its own.
    Errors: UnknownAtomError; PartitionError for a rank above 3.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, make_tiled_mma.

    >>> print(make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2)).tile_shape_mnk)
    (32, 16, 16)
    """
    if isinstance(atom, str):
        atom = mma_atom(atom)
    layout = atom_layout_mnk if isinstance(atom_layout_mnk, Layout) else Layout(tuple(atom_layout_mnk))
    tiles = tuple(permutation_mnk or ())
    if len(layout) > 3 or len(tiles) > 3:
        raise PartitionError(
            f"a tiled MMA has the modes M, N, K: the atom layout {layout} and the permutation {tiles} must "
            f"not have more than three."
        )
    if len(layout) < 3:
        layout = make_layout(*layout, *[Layout(1, 0)] * (3 - len(layout)))
    permutation = (*tiles, *[None] * (3 - len(tiles)))
    return TiledMma(atom, layout, (permutation[0], permutation[1], permutation[2]))


def tile_size(tiled: TiledMma, mode: int) -> int:
    """How many elements of M (0), N (1) or K (2) one tile covers."""
    return tiled.tile_size(mode)


@explained(
    "thrfrg(T)((v,(m,n)),(f,(r,s))) = the cell of T that value f of thread v in atom (m,n) has in tile (r,s)"
)
def thrfrg(tiled_mma: TiledMma, operand: Operand, layout: AnyLayout) -> AnyLayout:
    """Rearrange a tensor's layout into threads times values, for one operand of a tiled MMA.

    Shapes: (X,Y,...) becomes ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))): ThrV the threads of one
            atom, ThrX and ThrY the atoms side by side (nested as the atom layout is; C++ flattens
            these two), FrgV the values of one atom, Rest what repeats.
    Errors: PartitionError for a rank below 2, or where the layout algebra refuses to divide.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, TiledMMA::thrfrg_A, thrfrg_B, thrfrg_C.

    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    >>> print(thrfrg(mma, "A", Layout((64, 16), (16, 1))))
    (((4,8),(2,1)),((2,2,2),(2,1))):(((2,16),(256,0)),((1,128,8),(512,0)))
    """
    outer = outer_of(layout)
    _check_rank(operand, outer)
    try:
        return rewrapped(layout, _thrfrg(tiled_mma, operand, outer))
    except LayoutError as error:
        raise PartitionError(
            f"partition_{operand}: the tensor {layout} cannot be cut into tiles of "
            f"{_tiles(tiled_mma, operand)} for {tiled_mma.atom.name}.\n{error}"
        ) from error


def _thrfrg(tiled_mma: TiledMma, operand: Operand, layout: Layout) -> Layout:
    x, y = _MODES[operand]
    tiled = logical_divide(layout, (tiled_mma.permutation_mnk[x], tiled_mma.permutation_mnk[y]))
    note("permute", "cut each mode into tiles, if given, their elements in the tile's order", tiled=tiled)

    shape = tiled_mma.atom.shape_mnk
    atoms = zipped_divide(tiled, (Layout(shape[x]), Layout(shape[y])))
    note("atom", f"cut out what one atom covers, {shape[x]} x {shape[y]}: (Atom, Rest)", atoms=atoms)

    thr_val = composition(atoms[0], tiled_mma.atom.layout(operand))
    note("thread-value", "let (thread, value) of the atom choose the cell: (ThrV, FrgV)", thr_val=thr_val)

    vmnk = tiled_mma.thr_layout_vmnk
    split_x = logical_divide(atoms[1][0], Layout(vmnk[x + 1].shape))
    split_y = logical_divide(atoms[1][1], Layout(vmnk[y + 1].shape))
    more = [atoms[1][i] for i in range(2, len(atoms[1]))]
    note(
        "threads",
        "deal the repetitions to the atoms side by side: (Thr, Rest) of each mode",
        x=split_x,
        y=split_y,
    )

    result = make_layout(
        make_layout(thr_val[0], make_layout(split_x[0], split_y[0])),
        make_layout(thr_val[1], make_layout(split_x[1], split_y[1], *more)),
    )
    note("result", "threads first, then values", result=result)
    return result


@explained("partition(T, t)(c) = thrfrg(T)(place of t, c)")
def partition(
    tiled_mma: TiledMma, operand: Operand, tensor: LayoutTensor | AnyLayout, thr_idx: int
) -> LayoutTensor:
    """One thread's part of a tensor for an operand of a tiled MMA: (FrgV, RestX, RestY, ...).

    Shapes: a tensor (M,K,...) for A, (N,K,...) for B, (M,N,...) for C. Where a mode is no multiple of the
            tile, the part is rounded up and reaches over the edge, as in CuTe: a kernel has to predicate.
    Errors: PartitionError as `thrfrg` and `TiledMma.get_slice`.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, ThrMMA.

    >>> from cutecourse.layout import make_identity_layout
    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    >>> print(partition(mma, "A", make_identity_layout((64, 64)), 33))
    (16,2) o ((2,2,2),2,4):((1@1,8@0,8@1),32@0,16@1)
    """
    whole = as_tensor(tensor)
    place = tiled_mma.get_slice(thr_idx).thr_vmnk
    cut = thrfrg(tiled_mma, operand, whole.layout)
    threads, values = outer_of(cut)
    x, y = _MODES[operand]
    coord = (place[0], (place[x + 1], place[y + 1]))
    start = threads(coord)
    note("slice", f"thread {thr_idx} has the place {coord}: its part starts there", start=start)
    result = started(cut, make_layout(values[0], *values[1]), start, whole.offset)
    note("result", "what is left of the modes: (MMA, repetitions)", result=str(result))
    return result


def make_fragment_like(tensor: LayoutTensor | AnyLayout) -> Layout:
    """The compact layout of registers for a thread's part: mode 0 first, the rest in the tensor's order.

    Law: same shape; mode 0 has the strides 1 on; the other modes follow in the order of their strides, or for
         a coordinate tensor, which C++ refuses here, in the order of the modes.
    Source: CUTLASS 4.2.0, include/cute/layout.hpp, make_fragment_like. (The DSL's make_fragment_A takes a
            partition's shape and keeps the order of the modes.)

    >>> print(make_fragment_like(Layout(((2, 2, 2), 2, 4), ((1, 512, 8), 2048, 16))))
    ((2,2,2),2,4):((1,2,4),32,8)
    """
    layout = outer_of(as_tensor(tensor).layout)
    if len(layout) == 1:
        return Layout(layout.shape)
    first = _compact_left(layout[0])
    rest = make_layout(*(layout[i] for i in range(1, len(layout))))
    fragment: Layout = tiled_product(first, _ordered(rest))
    return fragment


def partition_fragment_C(tiled_mma: TiledMma, shape_mn: Any) -> Layout:
    """The layout of an accumulator's registers, from the shape of C's tile alone.

    >>> mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    >>> print(partition_fragment_C(mma, (64, 32)))
    ((2,2),2,2):((1,2),4,8)
    """
    return Layout(tiled_mma.partition_shape_C(shape_mn))


def _compact_left(layout: Layout) -> Layout:
    """Compact strides from the left; a mode of stride 0 repeats one value and keeps its stride."""
    current, strides = 1, []
    for extent, stride in layout.leaves():
        strides.append(0 if stride == 0 or extent == 1 else current)
        current *= 1 if stride == 0 else extent
    return Layout.unchecked(layout.shape, unflatten(strides, layout.shape))


def _ordered(layout: Layout) -> Layout:
    """Compact strides in the order of the given ones, as C++'s make_ordered_layout with strides for order."""
    leaves = layout.leaves()
    order = [stride if isinstance(stride, int) else position for position, (_, stride) in enumerate(leaves)]
    return make_ordered_layout(layout.shape, unflatten(order, layout.shape))


@cache
def _layout_tv(tiled_mma: TiledMma, operand: Operand) -> Layout:
    x, y = _MODES[operand]
    reference = Layout((tiled_mma.tile_size(x), tiled_mma.tile_size(y)))
    threads, values = outer_of(thrfrg(tiled_mma, operand, reference))
    vmnk = tiled_mma.thr_layout_vmnk
    atoms_mn = (int(size(vmnk[1])), int(size(vmnk[2])))
    if operand != "C":
        # threads that differ only along the mode which the operand lacks see the same cells
        keep = Layout(atoms_mn, (1, 0) if operand == "A" else (0, 1))
        threads = make_layout(threads[0], make_layout(composition(threads[1][0], keep), threads[1][1]))
    flat = make_layout(vmnk, complement(vmnk))
    to_place = composition(Layout((tiled_mma.size, 1), (1, 0)), right_inverse(flat))
    return make_layout(composition(threads, to_place), values)


def _names(operand: Operand) -> str:
    return {"A": "(M, K)", "B": "(N, K)", "C": "(M, N)"}[operand]


def _tiles(tiled_mma: TiledMma, operand: Operand) -> str:
    x, y = _MODES[operand]
    return f"{tiled_mma.permutation(x)} x {tiled_mma.permutation(y)}"
