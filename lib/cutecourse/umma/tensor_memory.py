"""Tensor memory: how an accumulator lies in its lanes and columns, how it is allocated and read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from cutecourse.atoms import CopyAtom, PartitionError, Source, Tensor, TiledCopy, make_cotiled_copy
from cutecourse.atoms.tensor import AnyLayout
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import (
    Layout,
    LayoutError,
    coalesce,
    composition,
    cosize,
    make_identity_layout,
    make_layout,
    size,
    tiled_product,
    upcast,
)
from cutecourse.layout.int_tuple import is_node

from .errors import UmmaError
from .records import Record

__all__ = [
    "TMEM_COLUMNS",
    "TMEM_LANES",
    "TMEM_LOADS",
    "FragmentTrace",
    "TmemAllocator",
    "TmemCopyTrace",
    "TmemPlace",
    "allocator1sm",
    "allocator2sm",
    "make_fragment_C",
    "make_tmem_copy",
    "place_of",
]

TMEM_LANES = 128
TMEM_COLUMNS = 512
_CAPACITY_BITS = TMEM_LANES * TMEM_COLUMNS * 32
_DP_BITS = 1 << 21
"""One lane further, counted in bits: lanes stand in the upper half of an address, which counts 32 bits."""

_TRAITS = "include/cute/atom/mma_traits_sm100.hpp"
_COPY_TRAITS = "include/cute/atom/copy_traits_sm100.hpp"
_FRAGMENT_SOURCE = f"CUTLASS 4.2.0, {_TRAITS}, UMMA::tmem_frg"


# ---- places ----


@dataclass(frozen=True)
class TmemPlace:
    """Where an element lies: its lane, its column of 32 bits, and for narrow types its part of the column."""

    lane: int
    column: int
    part: int = 0

    @property
    def address(self) -> int:
        """The address that tcgen05 instructions take: the lane in the upper half, the column in the lower."""
        return self.lane << 16 | self.column

    @property
    def warp(self) -> int:
        """Which warp of four may load it: each reaches 32 lanes."""
        return self.lane // 32


def _shift(dtype: DType) -> int:
    """How far an offset in elements lies above an address: 0 for 32 bits, 1 for 16."""
    return (32 // dtype.bits).bit_length() - 1


def place_of(offset: int, dtype: DType) -> TmemPlace:
    """The place of an element at an offset of a tensor-memory layout, which counts elements of `dtype`.

    Source: CUTLASS 4.2.0, include/cute/pointer.hpp, tmem_ptr::operator+.
    """
    shift = _shift(dtype)
    address = offset >> shift
    return TmemPlace(address >> 16, address & 0xFFFF, offset & ((1 << shift) - 1))


# ---- accumulators ----


@dataclass(frozen=True)
class FragmentTrace(Record):
    """How CuTe lays an accumulator out in tensor memory, every value under CuTe's name.

    Shapes:     `tmem_shape` is ((M_MMA, N_MMA), MMAs along M, MMAs along N, ...) of one CTA, and so is
                `layout`. Up to `tmem_logical_layout` a lane is a step of 1 and a column a step of 128.
    Units:      `layout` counts elements of `value_type`; a lane is a step of 65536 columns of 32 bits.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tmem_frg::make.
    """

    OPERATION: ClassVar[str] = "make_fragment_C"
    LAW: ClassVar[str] = "layout(c) = 65536 lane + column, for 32-bit elements"
    OPERANDS: ClassVar[tuple[str, ...]] = ("tmem_shape", "value_type", "n_sm")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("atom", "one instruction's accumulator: (M, N) to lane + 128 column", "tmem_atom"),
        (
            "tile",
            "the others beside it: first along the lanes, then the columns",
            "tmem_logical_layout",
        ),
        ("restride", "lanes and columns as addresses have them", "tmem_restride"),
        ("result", "composed", "layout"),
        ("columns", "columns that it takes", "columns"),
    )
    RESULT: ClassVar[str] = "layout"

    tmem_shape: Any
    value_type: DType
    n_sm: int
    tmem_atom: Layout
    tmem_logical_layout: Layout
    tmem_restride: Layout
    layout: Layout

    @property
    def columns(self) -> int:
        """How many columns the accumulator takes: CUTLASS's find_tmem_tensor_col_offset."""
        return int(cosize(upcast(self.layout, 32 // self.value_type.bits))) & 0xFFFF

    def place(self, *coord: Any) -> TmemPlace:
        """Where an element of the accumulator lies.

        >>> make_fragment_C(((64, 128), 1, 1), "f32", n_sm=2).place((3, 100), 0, 0)
        TmemPlace(lane=67, column=36, part=0)
        """
        return place_of(int(self.layout(*coord)), self.value_type)

    def tensor(self, address: int = 0) -> Tensor:
        """The accumulator at an address, as a tensor that counts elements of `value_type`."""
        return Tensor(self.layout, address << _shift(self.value_type))


def make_fragment_C(tmem_shape: Any, dtype: DType | str = "f32", n_sm: int = 1) -> FragmentTrace:
    """Lay one CTA's accumulator out in tensor memory, as an MMA of one or two SMs writes it.

    Shapes:     `tmem_shape` is what `partition_shape_C` gives: ((M_MMA, N_MMA), MMAs along M, along N, ...),
                M_MMA of one CTA: half of M for two SMs.
    Errors:     UmmaError where CUTLASS's assertions refuse: `shape`, `capacity` for more than 128 x 512
                columns of 32 bits, `n_sm`, `m_size`, `dtype` for elements above 32 bits, `tiling` where the
                accumulators of several MMAs do not go beside each other.
    Simplified: the layouts of MMAs whose A lies in tensor memory (NonInterleaved, Duplicated) and of scale
                factors are left out. A column of 32 bits holds one element, 16-bit ones too.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tmem_frg::make.

    >>> print(make_fragment_C(((128, 256), 1, 1)).layout)
    ((128,256),1,1):((65536,1),0,0)
    >>> print(make_fragment_C(((64, 128), 1, 1)).layout)
    (((16,4),128),1,1):(((65536,2097152),1),0,0)
    """
    value_type = as_dtype(dtype)
    if (
        not is_node(tmem_shape)
        or len(tmem_shape) < 2
        or not is_node(tmem_shape[0])
        or len(tmem_shape[0]) != 2
    ):
        raise _refused(f"{tmem_shape} is no partitioned shape ((M_MMA, N_MMA), MMAs, ...)", "shape")
    if value_type.bits > 32:
        raise _refused(f"a column has 32 bits, {value_type} has {value_type.bits}", "dtype")
    elements = int(size(Layout(tmem_shape)))
    if elements * 32 > _CAPACITY_BITS:
        raise _refused(
            f"{tmem_shape} has {elements} elements; tensor memory has room for "
            f"{TMEM_LANES} x {TMEM_COLUMNS} of 32 bits",
            "capacity",
        )
    m_mma, n_mma = (int(size(Layout(extent))) for extent in tmem_shape[0])
    atom = _accumulator_atom(m_mma, n_mma, n_sm)
    others = Layout(tuple(tmem_shape[1:]))
    lane = _DP_BITS // value_type.bits
    restride = Layout((TMEM_LANES, 16384), (lane, 32 // value_type.bits))
    try:
        logical = tiled_product(atom, others)
        layout = composition(restride, logical)
    except LayoutError as error:
        raise UmmaError(
            f"accumulators of {m_mma} x {n_mma} do not go beside each other as {others.shape}.\n{error}",
            rule="tiling",
            source=_FRAGMENT_SOURCE,
        ) from error
    return FragmentTrace(tmem_shape, value_type, n_sm, atom, logical, restride, layout)


def _accumulator_atom(m: int, n: int, n_sm: int) -> Layout:
    """One instruction's accumulator in one CTA: (M, N) to lane + 128 column."""
    if n_sm not in (1, 2):
        raise _refused(f"an MMA is of 1 or 2 SMs, not of {n_sm}", "n_sm")
    known = (64, 128) if n_sm == 1 else (32, 64, 128)
    if m not in known:
        raise _refused(f"a CTA's M of an MMA of {n_sm} SMs is one of {known}, not {m}", "m_size")
    if m == 128:
        return Layout((128, n), (1, 128))
    if n_sm == 1:
        return Layout(((16, 4), n), ((1, 32), 128))
    sides = 128 // m
    if n % sides:
        raise _refused(f"N = {n} is not divided by {sides}: so many parts lie beside each other", "tiling")
    return Layout((m, (n // sides, sides)), (1, (128, m)))


def _refused(problem: str, rule: str) -> UmmaError:
    return UmmaError(problem, rule=rule, source=_FRAGMENT_SOURCE)


# ---- loads ----


_LOAD_LINES = (3378, 3426, 3474, 3522, 3576, 3642, 3732, 3870)
"""Where copy_sm100.hpp has the loads of 1, 2, 4, ... columns; their traits follow each other by 34 lines."""


def _load(power: int) -> CopyAtom:
    """32 lanes, `2 ** power` columns of 32 bits of each: lane i goes to thread i."""
    repetitions = 1 << power
    name = f"SM100_TMEM_LOAD_32dp32b{repetitions}x"
    bits = 32 * repetitions
    source = Layout((32, 32 * bits), (0, 1))
    return CopyAtom(
        name=name,
        thr_id=Layout(32),
        bit_layout_src=source,
        bit_layout_dst=Layout((32, bits), (bits, 1)),
        bit_layout_ref=source,
        ptx=f"tcgen05.ld.sync.aligned.32x32b.x{repetitions}.b32",
        source=Source(_COPY_TRAITS, 1458 + 34 * power, f"Copy_Traits<{name}>"),
        ptx_source=Source("include/cute/arch/copy_sm100.hpp", _LOAD_LINES[power], name),
    )


TMEM_LOADS: Mapping[str, CopyAtom] = MappingProxyType(
    {atom.name: atom for atom in (_load(power) for power in range(8))}
)
"""Loads of 32 lanes by 1 to 128 columns: a warp reads the 32 lanes that are its own, a thread one of them."""


@dataclass(frozen=True)
class TmemCopyTrace(Record):
    """How CuTe makes a copy from tensor memory to registers, every value under CuTe's name.

    Shapes:     `val_id` maps a bit that the instruction moves to its place in tensor memory;
                `atom_t_layout` a thread of four warps, `atom_v_layout` a value of one warp, to an offset.
    Units:      `val_id` counts bits; the atom's layouts and the fragment count elements.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100.hpp, make_tmem_copy.
    """

    OPERATION: ClassVar[str] = "make_tmem_copy"
    LAW: ClassVar[str] = "thread t, value v copies the element at atom_t_layout(t) + atom_v_layout(v)"
    OPERANDS: ClassVar[tuple[str, ...]] = ("op", "fragment_layout")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("bits", "where the bits that one warp moves lie", "val_id"),
        (
            "threads",
            "four warps, 32 lanes apart; threads of a warp name one address",
            "atom_t_layout",
        ),
        ("values", "the warp's elements, by their places", "atom_v_layout"),
        ("invert", "which elements of the accumulator these are: (thread, value)", "layout_tv"),
        ("result", "what all four warps load at a time, cut out of each mode", "tiler"),
    )
    RESULT: ClassVar[str] = "tiler"

    op: str
    fragment: FragmentTrace
    val_id: Layout
    atom_t_layout: Layout
    atom_v_layout: Layout
    tiled_copy: TiledCopy

    @property
    def fragment_layout(self) -> Layout:
        """The accumulator's layout."""
        return self.fragment.layout

    @property
    def layout_tv(self) -> Layout:
        """(thread, value) to the index of an element of the tile."""
        return self.tiled_copy.layout_tv

    @property
    def tiler(self) -> tuple[Any, ...]:
        """The tile that the four warps load at a time, mode by mode."""
        return self.tiled_copy.tiler_mn

    def partition_S(self, thread: int, address: int = 0) -> Tensor:
        """Where in tensor memory a thread's loads start: ((value, repetition), MMAs ..., ...).

        The offsets count elements; `place_of` gives lane and column. All threads of a warp have the same.
        """
        return self.tiled_copy.get_slice(thread).partition_S(self.fragment.tensor(address))

    def partition_D(self, thread: int, tensor: Tensor | AnyLayout | None = None) -> Tensor:
        """What a thread gets, of a tensor shaped as the accumulator; without one, the elements' coordinates.

        >>> fragment = make_fragment_C(((128, 256), 1, 1))
        >>> print(make_tmem_copy("SM100_TMEM_LOAD_32dp32b1x", fragment).partition_D(42)(5))
        ((42,5),0,0)
        """
        if tensor is None:
            tensor = make_identity_layout(self.fragment.tmem_shape)
        return self.tiled_copy.get_slice(thread).partition_D(tensor)

    def elements(self, thread: int) -> tuple[tuple[Any, TmemPlace], ...]:
        """Every element that a thread gets, in the order of its registers, and where it lay.

        >>> fragment = make_fragment_C(((128, 256), 1, 1))
        >>> for coord, place in make_tmem_copy("SM100_TMEM_LOAD_32dp32b1x", fragment).elements(42)[:2]:
        ...     print(coord, place)
        ((42,0),0,0) TmemPlace(lane=42, column=0, part=0)
        ((42,1),0,0) TmemPlace(lane=42, column=1, part=0)
        """
        places = self.partition_D(thread, self.fragment.layout)
        coords = self.partition_D(thread)
        return tuple(
            (coord, place_of(int(place), self.fragment.value_type))
            for coord, place in zip(coords.elements(), places.elements(), strict=True)
        )


def make_tmem_copy(op: str, fragment: FragmentTrace) -> TmemCopyTrace:
    """Four warps load an accumulator from tensor memory, each the 32 lanes that are its own.

    Errors:     UmmaError: `family` for loads of CUTLASS's that are not supported here, `op` for names that it
                has not, `lanes` where the instruction reads places that the accumulator does not have.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100.hpp, make_tmem_copy.

    >>> copy = make_tmem_copy("SM100_TMEM_LOAD_32dp32b4x", make_fragment_C(((128, 256), 1, 1)))
    >>> print(copy.atom_v_layout, copy.layout_tv)
    (4,32):(1,65536) ((32,4),(4,32)):((0,1),(4,16))
    """
    atom = TMEM_LOADS.get(op)
    source = f"CUTLASS 4.2.0, {_COPY_TRAITS}"
    if atom is None:
        there_is = ", ".join(TMEM_LOADS)
        if re.fullmatch(r"SM100_TMEM_(LOAD|STORE)_(16|32)dp\d+b\d+x(_16b)?", op):
            raise UmmaError(f"{op} is not supported here; there are {there_is}", rule="family", source=source)
        raise UmmaError(f"CUTLASS has no {op!r}; there are {there_is}", rule="op", source=source)
    value_type = fragment.value_type
    lane = _DP_BITS // value_type.bits
    bits = int(size(atom.bit_layout_dst[1]))
    val_id = Layout((bits, 32), (1, _DP_BITS))
    threads = Layout((32, 4), (0, 32 * lane))
    try:
        values = coalesce(upcast(val_id, value_type.bits))
        tiled = make_cotiled_copy(atom.of(value_type), make_layout(threads, values), fragment.layout)
    except (LayoutError, PartitionError) as error:
        raise UmmaError(
            f"{op} reads 32 lanes by {bits // 32} columns at a time, and the accumulator "
            f"{fragment.layout} has not all of these places.\n{error}",
            rule="lanes",
            source="CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, make_cotiled_copy",
        ) from error
    return TmemCopyTrace(op, fragment, val_id, threads, values, tiled)


# ---- allocation ----


@dataclass(frozen=True)
class TmemAllocator:
    """What CUTLASS's allocator asks for: how many columns there are, and how many one may take.

    Units:      columns of 32 bits in all 128 lanes.
    Source:     CUTLASS 4.2.0, include/cute/arch/tmem_allocator_sm100.hpp.
    """

    name: str
    cta_group: int
    rules: tuple[str, ...]
    columns_per_allocation_slice: int = 32
    capacity_columns: int = TMEM_COLUMNS

    @property
    def ptx(self) -> tuple[str, str, str]:
        """The instructions of allocate, free and release_allocation_lock."""
        group = f"cta_group::{self.cta_group}.sync.aligned"
        return (
            f"tcgen05.alloc.{group}.shared::cta.b32",
            f"tcgen05.dealloc.{group}.b32",
            f"tcgen05.relinquish_alloc_permit.{group}",
        )

    def check(self, num_columns: int) -> None:
        """Refuse a number of columns that cannot be allocated.

        Errors: UmmaError, rule `columns`. (C++ does not check.)
        """
        least, most = self.columns_per_allocation_slice, self.capacity_columns
        if not least <= num_columns <= most or num_columns & (num_columns - 1):
            raise UmmaError(
                f"{self.name} allocates a power of two of columns from {least} to {most}, not {num_columns}",
                rule="columns",
                source=f"CUTLASS 4.2.0, include/cute/arch/tmem_allocator_sm100.hpp, {self.name}",
                advice=f"allocate({self.columns_for(num_columns)})" if 0 < num_columns <= most else "",
            )

    def columns_for(self, columns: int) -> int:
        """The fewest columns that can be allocated and hold so many.

        Errors: UmmaError, rule `columns`, for none or more than there are.

        >>> allocator1sm.columns_for(20), allocator1sm.columns_for(384)
        (32, 512)
        """
        if not 0 < columns <= self.capacity_columns:
            raise UmmaError(
                f"tensor memory has {self.capacity_columns} columns; {columns} cannot be had",
                rule="columns",
                source=f"CUTLASS 4.2.0, include/cute/arch/tmem_allocator_sm100.hpp, {self.name}",
            )
        return max(self.columns_per_allocation_slice, 1 << (columns - 1).bit_length())


_COMMON_RULES = (
    "one whole warp allocates; never two warps at the same time",
    "the same warp makes all allocations",
    "what is allocated is freed, the same columns at a time",
)
allocator1sm = TmemAllocator("Allocator1Sm", 1, _COMMON_RULES)
"""TMEM::Allocator1Sm: tensor memory of one CTA."""

allocator2sm = TmemAllocator(
    "Allocator2Sm",
    2,
    (
        *_COMMON_RULES,
        "the warps of the two CTAs have the same number",
        "both CTAs write the address to the same place of their shared memory",
    ),
)
"""TMEM::Allocator2Sm: the same columns of both CTAs of a pair."""
