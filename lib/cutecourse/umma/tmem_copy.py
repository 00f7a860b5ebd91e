"""make_tmem_copy: four warps move a fragment between tensor memory and their registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cutecourse.atoms import LayoutTensor, PartitionError, TiledCopy, make_cotiled_copy
from cutecourse.atoms.tensor import AnyLayout
from cutecourse.layout import Layout, LayoutError, coalesce, make_identity_layout, make_layout, size, upcast
from cutecourse.layout.record import Record

from .errors import UmmaError
from .tensor_memory import FragmentTrace, TmemPlace, place_of
from .tmem_atoms import DP_BITS, TmemCopyOp, tmem_copy_op

__all__ = ["TmemCopyTrace", "make_tmem_copy"]


@dataclass(frozen=True)
class TmemCopyTrace(Record):
    """How CuTe makes a copy between tensor memory and registers, every value under CuTe's name.

    Shapes:     `val_id` maps a bit that the instruction moves to its place in tensor memory;
                `atom_t_layout` a thread of four warps, `atom_v_layout` a value of one warp, to an offset.
                `layout_src` and `layout_dst` are the atom's: (thread, value) to a value of the warp.
    Units:      `val_id` counts bits; the atom's layouts and the fragment count elements.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100.hpp, make_tmem_copy.
    """

    OPERATION: ClassVar[str] = "make_tmem_copy"
    LAW: ClassVar[str] = "thread t, value v copies the element at atom_t_layout(t) + atom_v_layout(v)"
    OPERANDS: ClassVar[tuple[str, ...]] = ("op", "fragment_layout")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("ThrID", "the threads of one instruction", "thr_id"),
        ("bits", "the places of the bits that one warp moves", "val_id"),
        ("atom", "(thread, value) of the source and of the destination", "layout_src", "layout_dst"),
        (
            "threads",
            "four warps, 32 lanes apart; threads of a warp name one address",
            "atom_t_layout",
        ),
        ("values", "the places of a warp's elements", "atom_v_layout"),
        ("invert", "(thread, value) to the element of the fragment", "layout_tv"),
        ("result", "the tile that all four warps move at a time, mode by mode", "tiler"),
    )
    RESULT: ClassVar[str] = "tiler"

    copy_op: TmemCopyOp
    fragment: FragmentTrace
    atom_t_layout: Layout
    atom_v_layout: Layout
    tiled_copy: TiledCopy

    @property
    def op(self) -> str:
        """The operation's name."""
        return self.copy_op.name

    @property
    def thr_id(self) -> Layout:
        """The threads of one instruction: a warp."""
        return self.copy_op.atom.thr_id

    @property
    def val_id(self) -> Layout:
        """A bit that one warp moves to its place in tensor memory."""
        return self.copy_op.val_id

    @property
    def layout_src(self) -> Layout:
        """(thread, value) that is read to the value's number."""
        return self.tiled_copy.atom.layout_src

    @property
    def layout_dst(self) -> Layout:
        """(thread, value) that is written to the value's number."""
        return self.tiled_copy.atom.layout_dst

    @property
    def fragment_layout(self) -> Layout:
        """The fragment's layout."""
        return self.fragment.layout

    @property
    def layout_tv(self) -> Layout:
        """(thread, value) to the index of an element of the tile."""
        return self.tiled_copy.layout_tv

    @property
    def tiler(self) -> tuple[Any, ...]:
        """The tile that the four warps move at a time, mode by mode."""
        return self.tiled_copy.tiler_mn

    def partition_S(
        self, thread: int, tensor: LayoutTensor | AnyLayout | None = None, *, address: int = 0
    ) -> LayoutTensor:
        """The source of a thread's copy: tensor memory for a load, the thread's elements for a store.

        Shapes:     ((value, repetition), MMAs ..., ...), of a tensor shaped as the fragment. Without one:
                    for tensor memory the fragment at `address`, whose offsets count elements (`place_of`
                    gives lane and column) and are the same for all threads of a warp; for registers the
                    elements' coordinates.
        """
        given = self._given(tensor, address, memory=not self.copy_op.store)
        return self.tiled_copy.get_slice(thread).partition_S(given)

    def partition_D(
        self, thread: int, tensor: LayoutTensor | AnyLayout | None = None, *, address: int = 0
    ) -> LayoutTensor:
        """The destination of a thread's copy: the thread's elements for a load, tensor memory for a store.

        Shapes and units as `partition_S`.

        >>> from cutecourse.umma import make_fragment_C
        >>> fragment = make_fragment_C(((128, 256), 1, 1))
        >>> print(make_tmem_copy("SM100_TMEM_LOAD_32dp32b1x", fragment).partition_D(42)(5))
        ((42,5),0,0)
        """
        given = self._given(tensor, address, memory=self.copy_op.store)
        return self.tiled_copy.get_slice(thread).partition_D(given)

    def _given(
        self, tensor: LayoutTensor | AnyLayout | None, address: int, *, memory: bool
    ) -> LayoutTensor | AnyLayout:
        if tensor is not None:
            return tensor
        if memory:
            return self.fragment.tensor(address)
        rows, columns = (int(size(mode)) for mode in self.fragment.tmem_atom)
        return make_identity_layout(((rows, columns), *self.fragment.tmem_shape[1:]))

    def elements(self, thread: int) -> tuple[tuple[Any, TmemPlace], ...]:
        """Every element of the fragment that a thread moves, in the order of its registers, and its place.

        With `_16b` two elements after each other share a register, the first in its lower half.

        >>> from cutecourse.umma import make_fragment_C
        >>> fragment = make_fragment_C(((128, 256), 1, 1))
        >>> for coord, place in make_tmem_copy("SM100_TMEM_LOAD_32dp32b1x", fragment).elements(42)[:2]:
        ...     print(coord, place)
        ((42,0),0,0) TmemPlace(lane=42, column=0, part=0)
        ((42,1),0,0) TmemPlace(lane=42, column=1, part=0)
        """
        side = self.partition_S if self.copy_op.store else self.partition_D
        places, coords = side(thread, self.fragment.layout), side(thread)
        return tuple(
            (coord, place_of(int(place), self.fragment.value_type))
            for coord, place in zip(coords.elements(), places.elements(), strict=True)
        )


def make_tmem_copy(op: str, fragment: FragmentTrace) -> TmemCopyTrace:
    """Four warps load a fragment from tensor memory or store it there, each the 32 lanes that are its own.

    Errors:     UmmaError: `family` for loads of CUTLASS's that are not supported here, `op` for names that it
                has not, `lanes` where the instruction reads or writes places that the fragment does not have.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100.hpp, make_tmem_copy.

    >>> from cutecourse.umma import make_fragment_C
    >>> copy = make_tmem_copy("SM100_TMEM_LOAD_32dp32b4x", make_fragment_C(((128, 256), 1, 1)))
    >>> print(copy.atom_v_layout, copy.layout_tv)
    (4,32):(1,65536) ((32,4),(4,32)):((0,1),(4,16))
    """
    known = tmem_copy_op(op)
    value_type = fragment.value_type
    threads = Layout((32, 4), (0, 32 * DP_BITS // value_type.bits))
    try:
        values = coalesce(upcast(known.val_id, value_type.bits))
        tiled = make_cotiled_copy(known.atom.of(value_type), make_layout(threads, values), fragment.layout)
    except (LayoutError, PartitionError) as error:
        verb = "writes" if known.store else "reads"
        raise UmmaError(
            f"{op} {verb} {known.lanes} lanes by {known.columns} columns at a time, and the fragment "
            f"{fragment.layout} has not all of these places.\n{error}",
            rule="lanes",
            source="CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_cotiled_copy",
        ) from error
    return TmemCopyTrace(known, fragment, threads, values, tiled)
