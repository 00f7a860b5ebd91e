"""Tensor memory: how accumulators and operands lie in its lanes and columns, and how it is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from cutecourse.atoms import LayoutTensor
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import (
    Layout,
    LayoutError,
    composition,
    cosize,
    size,
    tiled_product,
    upcast,
)
from cutecourse.layout.int_tuple import is_node, map_leaves
from cutecourse.layout.record import Record

from .errors import UmmaError
from .tmem_atoms import DP_BITS

__all__ = [
    "TMEM_COLUMNS",
    "TMEM_LANES",
    "FragmentTrace",
    "TmemAllocMode",
    "TmemAllocator",
    "TmemPlace",
    "allocator1sm",
    "allocator2sm",
    "make_fragment_C",
    "make_tmem_fragment_A",
    "place_of",
    "tmem_frg",
]

TMEM_LANES = 128
TMEM_COLUMNS = 512
_CAPACITY_BITS = TMEM_LANES * TMEM_COLUMNS * 32
_TRAITS = "include/cute/atom/mma_traits_sm100.hpp"
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


# ---- fragments ----


TmemAllocMode = Literal["Interleaved", "NonInterleaved", "Duplicated"]
"""CUTLASS's ways to put the fragments of several MMAs beside each other.

Where one MMA leaves half of the lanes free (M = 64 of one SM), `Interleaved` fills them with the next one and
`NonInterleaved` does not, so that an A in tensor memory stands in the lanes of its accumulator. `Duplicated`
is for A of an MMA of two SMs with M = 128: the lower 64 lanes and the upper 64 hold the same rows.
"""


@dataclass(frozen=True)
class FragmentTrace(Record):
    """How CuTe lays a fragment out in tensor memory, every value under CuTe's name.

    Shapes:     `tmem_shape` is ((M_MMA, N_MMA), MMAs along M, along N, ...) of one CTA (of A: K for N), as is
                `layout`. Up to `tmem_logical_layout` a lane is a step of 1 and a column a step of 128.
    Units:      `layout` counts elements of `value_type`; a lane is a step of 65536 columns of 32 bits.
                `storage_bits` is what one element takes: 32 for an accumulator of any type, for an A that is
                read from tensor memory the width of its type.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tmem_frg::make.
    """

    OPERATION: ClassVar[str] = "tmem_frg::make"
    LAW: ClassVar[str] = "layout(c) = 65536 lane + column, for 32-bit elements"
    OPERANDS: ClassVar[tuple[str, ...]] = ("tmem_shape", "value_type", "storage_bits", "n_sm", "tmem_alloc")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("atom", "the part of one instruction: (M, N) to lane + 128 * column", "tmem_atom"),
        ("others", "the instructions: their number and their distance, in such parts", "tiles"),
        (
            "tile",
            "put the others beside it, along the lanes first, then along the columns",
            "tmem_logical_layout",
        ),
        ("restride", "lanes and columns as they stand in an address", "tmem_restride"),
        ("result", "the composition", "layout"),
        ("columns", "the columns that it takes", "columns"),
    )
    RESULT: ClassVar[str] = "layout"

    tmem_shape: Any
    value_type: DType
    n_sm: int
    tmem_atom: Layout
    tiles: Layout
    tmem_logical_layout: Layout
    tmem_restride: Layout
    layout: Layout
    storage_bits: int = 32
    tmem_alloc: TmemAllocMode = "Interleaved"

    @property
    def columns(self) -> int:
        """How many columns of 32 bits it takes: CUTLASS's find_tmem_tensor_col_offset."""
        return int(cosize(upcast(self.layout, 32 // self.value_type.bits))) & 0xFFFF

    def place(self, *coord: Any) -> TmemPlace:
        """Where an element lies.

        >>> make_fragment_C(((64, 128), 1, 1), "f32", n_sm=2).place((3, 100), 0, 0)
        TmemPlace(lane=67, column=36, part=0)
        """
        return place_of(int(self.layout(*coord)), self.value_type)

    def tensor(self, address: int = 0) -> LayoutTensor:
        """The fragment at an address, as a tensor that counts elements of `value_type`."""
        return LayoutTensor(self.layout, address << _shift(self.value_type))


def make_fragment_C(tmem_shape: Any, dtype: DType | str = "f32", n_sm: int = 1) -> FragmentTrace:
    """Lay one CTA's accumulator out in tensor memory, as an MMA of one or two SMs writes it.

    Shapes:     `tmem_shape` is what `partition_shape_C` gives: ((M_MMA, N_MMA), MMAs along M, along N, ...),
                M_MMA of one CTA: half of M for two SMs.
    Errors:     as `tmem_frg`. A column of 32 bits holds one element, 16-bit ones too.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, FrgTypeC of the SS traits.

    >>> print(make_fragment_C(((128, 256), 1, 1)).layout)
    ((128,256),1,1):((65536,1),0,0)
    >>> print(make_fragment_C(((64, 128), 1, 1)).layout)
    (((16,4),128),1,1):(((65536,2097152),1),0,0)
    """
    return tmem_frg(tmem_shape, dtype, n_sm)


def make_tmem_fragment_A(tmem_shape: Any, dtype: DType | str = "f16", n_sm: int = 1) -> FragmentTrace:
    """Lay one CTA's A out in tensor memory, as an MMA that reads A from there wants it (the TS operations).

    Shapes:     `tmem_shape` is what `partition_shape_A` gives: ((M_MMA, K_MMA), MMAs along M, along K, ...).
    Errors:     as `tmem_frg`. The TS operations themselves are not supported (`make_tiled_mma`).
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, FrgTypeA of the TS traits.

    >>> fragment = make_tmem_fragment_A(((128, 16), 1, 4))
    >>> print(fragment.layout, fragment.columns, fragment.place((3, 5), 0, 1))
    ((128,16),1,4):((131072,1),0,16) 32 TmemPlace(lane=3, column=10, part=1)
    """
    mode: TmemAllocMode = "NonInterleaved" if n_sm == 1 else "Duplicated"
    return tmem_frg(tmem_shape, dtype, n_sm, storage_bits=as_dtype(dtype).bits, tmem_alloc=mode)


def tmem_frg(
    tmem_shape: Any,
    dtype: DType | str = "f32",
    n_sm: int = 1,
    *,
    storage_bits: int = 32,
    tmem_alloc: TmemAllocMode = "Interleaved",
) -> FragmentTrace:
    """Lay a fragment out in tensor memory, by CUTLASS's rules for one CTA of an MMA of one or two SMs.

    Shapes:     `tmem_shape` is ((M_MMA, N_MMA), MMAs along M, along N, ...), of one CTA.
    Units:      `storage_bits` of one element: 32, or the type's own.
    Errors:     UmmaError where CUTLASS's assertions refuse: `shape`, `storage`, `capacity` for more than
                128 lanes x 512 columns of 32 bits, `n_sm`, `tmem_alloc` for a mode that the MMA does not
                have, `m_size`, `dtype` for elements above 32 bits, `tiling` where the parts of several MMAs
                do not go beside each other.
    Simplified: scale factors, sparse metadata and weight-stationary MMAs (tmem_sf_frg, tmem_e_frg,
                tmem_frg_ws) are left out.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tmem_frg::make.

    >>> print(tmem_frg(((64, 16), 1, 2), "f16", storage_bits=16, tmem_alloc="NonInterleaved").layout)
    (((16,4),16),1,2):(((131072,4194304),1),0,16)
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
    if storage_bits < value_type.bits or storage_bits not in (8, 16, 32):
        raise _refused(f"{storage_bits} bits do not hold an element of {value_type}", "storage")
    elements = int(size(Layout(tmem_shape)))
    if elements * storage_bits > _CAPACITY_BITS:
        raise _refused(
            f"{tmem_shape} has {elements} elements of {storage_bits} bits; tensor memory has room for "
            f"{TMEM_LANES} x {TMEM_COLUMNS} of 32 bits",
            "capacity",
        )
    m_mma, n_mma = (int(size(Layout(extent))) for extent in tmem_shape[0])
    atom = _fragment_atom(m_mma, n_mma, n_sm, tmem_alloc)
    rest = tuple(tmem_shape[1:])
    tiles = Layout(rest)
    if m_mma == 64 and n_sm == 1 and tmem_alloc == "NonInterleaved":
        # every other place: the lanes between stay free
        tiles = Layout(rest, map_leaves(lambda step: 2 * step, tiles.stride))
    lane = DP_BITS // value_type.bits
    restride = Layout((TMEM_LANES, 16384), (lane, storage_bits // value_type.bits))
    try:
        logical = tiled_product(atom, tiles)
        layout = composition(restride, logical)
    except LayoutError as error:
        raise UmmaError(
            f"parts of {m_mma} x {n_mma} do not go beside each other as {tiles}.\n{error}",
            rule="tiling",
            source=_FRAGMENT_SOURCE,
        ) from error
    return FragmentTrace(
        tmem_shape, value_type, n_sm, atom, tiles, logical, restride, layout, storage_bits, tmem_alloc
    )


def _fragment_atom(m: int, n: int, n_sm: int, tmem_alloc: TmemAllocMode) -> Layout:
    """One instruction's part in one CTA: (M, N) to lane + 128 column."""
    if n_sm not in (1, 2):
        raise _refused(f"an MMA is of 1 or 2 SMs, not of {n_sm}", "n_sm")
    other = "NonInterleaved" if n_sm == 1 else "Duplicated"
    if tmem_alloc not in ("Interleaved", other):
        modes = ", ".join(get_args(TmemAllocMode))
        raise _refused(
            f"an MMA of {n_sm} SMs has Interleaved and {other} fragments, not {tmem_alloc!r} (of {modes})",
            "tmem_alloc",
        )
    known = (64, 128) if n_sm == 1 else (32, 64, 128)
    if m not in known:
        raise _refused(f"a CTA's M of an MMA of {n_sm} SMs is one of {known}, not {m}", "m_size")
    if m == 32 and tmem_alloc != "Interleaved":
        raise _refused("with 32 rows in each CTA a fragment of two SMs is Interleaved", "tmem_alloc")
    if m == 128 or tmem_alloc == "Duplicated":
        return Layout((128, n), (1, 128))
    if n_sm == 1:
        return Layout(((16, 4), n), ((1, 32), 128))
    sides = 128 // m
    if n % sides:
        raise _refused(f"N = {n} is not divided by {sides}: so many parts lie beside each other", "tiling")
    return Layout((m, (n // sides, sides)), (1, (128, m)))


def _refused(problem: str, rule: str) -> UmmaError:
    return UmmaError(problem, rule=rule, source=_FRAGMENT_SOURCE)


# ---- allocation ----


@dataclass(frozen=True)
class TmemAllocator:
    """The rules of CUTLASS's allocator: how many columns there are, and how many a warp may take.

    Units:      columns of 32 bits in all 128 lanes.
    Source:     CUTLASS 4.2.0, include/cute/arch/tmem_allocator_sm100.hpp.
                The rule of allocations that do not grow is the PTX ISA's alone (tcgen05.alloc).
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
    "no allocation of a CTA asks for more columns than the one before it",
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
