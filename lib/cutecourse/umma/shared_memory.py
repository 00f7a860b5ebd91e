"""Operands in shared memory: the layouts that an MMA reads, and the descriptors that say where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from cutecourse.descriptors import SMEM_SM90, SMEM_SM100, Descriptor, DescriptorFormat
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    get_nonswizzle_portion,
    get_swizzle_portion,
    is_congruent,
    logical_divide,
    make_layout,
    product,
    product_each,
    rank,
    size,
    tile_to_shape,
    tiled_divide,
    upcast,
)
from cutecourse.layout.int_tuple import is_node
from cutecourse.layout.record import Record

from .errors import UmmaError

__all__ = [
    "SMEM_LAYOUT_ATOMS",
    "DescriptorTensor",
    "MmaShapeTrace",
    "SmemDescriptorTrace",
    "gmma_descriptor",
    "make_smem_layout_atom",
    "smem_desc_tensor",
    "smem_descriptor",
    "tile_to_mma_shape",
]

AnyLayout = Layout | ComposedLayout

_SM90 = "CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp"
_SM100 = "CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp"
_MAJORS = ("K", "MN")
_UNIT_BITS = 128


def _atom_in_bits(swizzle: tuple[int, int, int], shape: tuple[int, int], major: str) -> ComposedLayout:
    stride = (1, shape[0]) if major == "MN" else (shape[1], 1)
    return ComposedLayout(Swizzle(*swizzle), 0, Layout(shape, stride))


SMEM_LAYOUT_ATOMS: Mapping[str, ComposedLayout] = MappingProxyType(
    {
        "MN_INTER": _atom_in_bits((0, 4, 3), (128, 8), "MN"),
        "MN_SW32": _atom_in_bits((1, 4, 3), (256, 8), "MN"),
        "MN_SW64": _atom_in_bits((2, 4, 3), (512, 8), "MN"),
        "MN_SW128": _atom_in_bits((3, 4, 3), (1024, 8), "MN"),
        "MN_SW128_32B": _atom_in_bits((2, 5, 2), (1024, 4), "MN"),
        "K_INTER": _atom_in_bits((0, 4, 3), (8, 128), "K"),
        "K_SW32": _atom_in_bits((1, 4, 3), (8, 256), "K"),
        "K_SW64": _atom_in_bits((2, 4, 3), (8, 512), "K"),
        "K_SW128": _atom_in_bits((3, 4, 3), (8, 1024), "K"),
    }
)
"""The smallest layouts that an MMA reads, (MN, K) in bits: CuTe's `Layout_K_SW128_Atom_Bits` and the others.

The swizzle permutes byte addresses, so it stays the same in elements of any width.
Source: CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp; `MN_SW128_32B` is in mma_traits_sm100.hpp
(the CuTe DSL 4.8.1 has it with 8 rows of K, two of these: so larger tiles come out in another order).
"""


def make_smem_layout_atom(kind: str, dtype: DType | str) -> ComposedLayout:
    """The smallest shared-memory layout of a kind, in elements: CuTe's `Layout_K_SW128_Atom<T>` and its like.

    Shapes:     (MN, K). The swizzle counts bytes, the layout elements, as in CuTe.
    Errors:     UmmaError, rule `atom`, for a kind that there is not.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp.

    >>> print(make_smem_layout_atom("K_SW128", "f16"))
    S<3,4,3> o 0 o (8,64):(64,1)
    """
    bits = SMEM_LAYOUT_ATOMS.get(kind)
    if bits is None:
        raise UmmaError(
            f"there is no shared-memory atom {kind!r}; there are {', '.join(SMEM_LAYOUT_ATOMS)}",
            rule="atom",
            source=_SM90,
        )
    return bits.replace_outer(upcast(bits.outer, as_dtype(dtype).bits))


# ---- descriptors ----


@dataclass(frozen=True)
class SmemDescriptorTrace(Record):
    """How CuTe makes the descriptor of a matrix in shared memory, every value under CuTe's name.

    Shapes:     `canonical_layout` is ((atom, atoms) along MN, (atom, atoms) along K), in units of 16 bytes.
    Units:      `u128_layout`, the canonical layout and its strides count 16 bytes; `layout` counts elements;
                the properties that end in `_bytes` bytes.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::make_umma_desc, and
                mma_traits_sm90_gmma.hpp, SM90::GMMA::make_gmma_desc.
    """

    OPERATION: ClassVar[str] = "make_umma_desc"
    LAW: ClassVar[str] = "the element (i, j) lies where the canonical layout of the descriptor's offsets says"
    OPERANDS: ClassVar[tuple[str, ...]] = ("layout", "major", "start_address")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("recast", "count in units of 16 bytes", "u128_layout"),
        ("swizzle", "the layout type follows from the swizzle", "smem_swizzle", "layout_type"),
        ("atom", "the size of an atom in these units, along MN and along K", "atom_mn_size", "atom_k_size"),
        ("divide", "((atom, atoms) along MN, (atom, atoms) along K)", "canonical_layout"),
        ("check", "the steps inside an atom are fixed", "stride_00", "stride_10"),
        ("steps", "from atom to atom along MN and along K", "stride_01", "stride_11"),
        ("offsets", "in bytes", "leading_byte_offset", "stride_byte_offset"),
        ("result", "the bits together", "hexadecimal"),
    )
    RESULT: ClassVar[str] = "hexadecimal"

    layout: AnyLayout
    dtype: DType
    major: str
    start_address: int
    u128_layout: Layout
    smem_swizzle: Swizzle
    layout_type: str
    atom_mn_size: int
    atom_k_size: int
    canonical_layout: Layout
    format: DescriptorFormat
    desc: int

    @property
    def stride_00(self) -> int:
        """The step inside of an atom along MN."""
        return _stride(self.canonical_layout, 0, 0)

    @property
    def stride_01(self) -> int:
        """The step from atom to atom along MN."""
        return _stride(self.canonical_layout, 0, 1)

    @property
    def stride_10(self) -> int:
        """The step inside of an atom along K."""
        return _stride(self.canonical_layout, 1, 0)

    @property
    def stride_11(self) -> int:
        """The step from atom to atom along K."""
        return _stride(self.canonical_layout, 1, 1)

    @property
    def leading_byte_offset(self) -> int:
        """The leading-dimension byte offset (LBO)."""
        return int(self.format.decode(self.desc)["leading_byte_offset"])

    @property
    def stride_byte_offset(self) -> int:
        """The stride-dimension byte offset (SBO)."""
        return int(self.format.decode(self.desc)["stride_byte_offset"])

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor as a table of its fields."""
        return self.format.explain(self.desc)

    @property
    def hexadecimal(self) -> str:
        """The descriptor's 64 bits."""
        return f"0x{self.desc:016x}"


def smem_descriptor(
    layout: AnyLayout, dtype: DType | str, major: str = "K", start_address: int = 0
) -> SmemDescriptorTrace:
    """The descriptor that tells tcgen05.mma where an operand lies in shared memory.

    Shapes:     `layout` is (MN, K), in elements; its swizzle counts bytes.
    Units:      `start_address` in bytes from the start of shared memory.
    Errors:     UmmaError where CUTLASS's assertions refuse: `rank`, `recast`, `swizzle`, `mn_size`,
                `profile`, `stride`; and, which C++ drops without a word, `start_address` for one that is no
                multiple of 16 below 2^18 and `offset_bits` for an offset of 2^18 bytes or more.
    Simplified: CuTe sets the base offset to 0 always: it is right where each 8 rows of a swizzle start at
                a multiple of 8 times their width.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::make_umma_desc.

    >>> from cutecourse.layout import tile_to_shape
    >>> tile = tile_to_shape(make_smem_layout_atom("K_SW128", "f16"), (128, 64))
    >>> trace = smem_descriptor(tile, "f16", "K", 1024)
    >>> print(trace.canonical_layout, trace.layout_type, trace.stride_byte_offset, trace.hexadecimal)
    ((8,16),(2,4)):((8,64),(1,2)) SWIZZLE_128B 1024 0x4000404000010040
    """
    dtype = as_dtype(dtype)
    u128 = _in_units(layout, dtype, _SM100)
    swizzle = get_swizzle_portion(layout)
    layout_type = _umma_layout_type(swizzle)
    base32 = layout_type == "SWIZZLE_128B_BASE32B"
    _check_major(major)
    if major == "K" and base32:
        raise _refused("SWIZZLE_128B_BASE32B is for MN-major operands only", "swizzle", _SM100, layout)
    atom_mn = {0: 1, 1: 2, 2: 4, 3: 8}[3 if base32 else swizzle.num_bits]
    atom_k = 2 if major == "K" else 4 if base32 else 8
    return _described(
        SMEM_SM100, layout, dtype, major, start_address, u128, layout_type, atom_mn, atom_k, {"version": 1}
    )


def gmma_descriptor(
    layout: AnyLayout, dtype: DType | str, major: str = "K", start_address: int = 0
) -> SmemDescriptorTrace:
    """The descriptor that tells wgmma where an operand lies in shared memory: of one instruction's K only.

    Shapes, units and errors as `smem_descriptor`, and UmmaError, rule `k_size`, where K is not what one
    instruction takes (32 bytes, 64 for a sparse one).
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp, SM90::GMMA::make_gmma_desc.

    >>> trace = gmma_descriptor(Layout.parse("S<3,4,3> o 0 o (64,16):(64,1)"), "f16")
    >>> print(trace.layout_type, trace.hexadecimal)
    B128 0x4000004000010000
    """
    dtype = as_dtype(dtype)
    u128 = _in_units(layout, dtype, _SM90)
    swizzle = get_swizzle_portion(layout)
    if (swizzle.num_base, swizzle.num_shift) != (4, 3) or swizzle.num_bits > 3:
        raise _refused(f"wgmma has no swizzle {swizzle}", "swizzle", _SM90, layout)
    layout_type = ("INTERLEAVE", "B32", "B64", "B128")[swizzle.num_bits]
    _check_major(major)
    taken = (2, 4) if major == "K" else tuple(bits // dtype.bits for bits in (256, 128, 512))
    along_k = int(size(u128[1]))
    if major == "K":
        _check_mn_size(u128, layout, _SM90)
    if along_k not in taken:
        unit = "units of 16 bytes" if major == "K" else "elements"
        raise _refused(f"K has {along_k} {unit}; one wgmma takes {taken}", "k_size", _SM90, layout)
    atom_mn, atom_k = 1 << swizzle.num_bits, 2 if major == "K" else 8
    return _described(SMEM_SM90, layout, dtype, major, start_address, u128, layout_type, atom_mn, atom_k, {})


def _described(
    fmt: DescriptorFormat,
    layout: AnyLayout,
    dtype: DType,
    major: str,
    start_address: int,
    u128: Layout,
    layout_type: str,
    atom_mn: int,
    atom_k: int,
    more: dict[str, int],
) -> SmemDescriptorTrace:
    source = _SM100 if fmt is SMEM_SM100 else _SM90
    plain = layout_type in ("SWIZZLE_NONE", "INTERLEAVE")
    if major == "K":
        _check_mn_size(u128, layout, source)
    tiler = (Layout(8), Layout(2)) if major == "K" else (Layout(atom_mn), Layout(atom_k))
    try:
        canonical = logical_divide(u128, tiler)
    except LayoutError as error:
        raise _refused(
            f"no atoms of {tiler[0]} by {tiler[1]} in it:\n{error}", "profile", source, layout
        ) from error
    if not is_congruent(canonical.shape, ((1, 1), (1, 1))):
        raise _refused(
            f"in units of 16 bytes the atoms are {canonical}, and not ((atom, atoms), (atom, atoms))",
            "profile",
            source,
            layout,
        )
    expected_mn = (atom_mn if major == "K" else None) if plain or major == "K" else 1
    expected_k = (None if plain else 1) if major == "K" else atom_mn
    for mode, expected, along in ((0, expected_mn, "MN"), (1, expected_k, "K")):
        given = _stride(canonical, mode, 0)
        if expected is not None and given != expected:
            raise _refused(
                f"inside an atom, a step along {along} is {given} units of 16 bytes, not {expected}: "
                f"{canonical}",
                "stride",
                source,
                layout,
            )
    along_mn, along_k = _stride(canonical, 0, 1), _stride(canonical, 1, 1)
    if major == "K":
        leading, step = _stride(canonical, 1, 0), along_mn
    else:
        leading, step = (along_k, along_mn) if plain else (along_mn, along_k)
    if start_address % 16 or not 0 <= start_address < 1 << 18:
        raise UmmaError(
            f"a matrix starts at a multiple of 16 below 2^18, not at {start_address}",
            rule="start_address",
            source=fmt.source,
            advice="the start is an address of shared memory in bytes",
        )
    for name, units in (("leading_byte_offset", leading), ("stride_byte_offset", step)):
        if not 0 <= units <= fmt.field(name).largest:
            raise UmmaError(
                f"{name} is {units * 16} bytes; its bits hold 0 to {fmt.field(name).largest * 16}",
                rule="offset_bits",
                source=fmt.source,
                values=(("canonical_layout", canonical),),
            )
    desc = fmt.encode(
        start_address=start_address,
        leading_byte_offset=leading * 16,
        stride_byte_offset=step * 16,
        layout_type=layout_type,
        **more,
    )
    swizzle = get_swizzle_portion(layout)
    return SmemDescriptorTrace(
        layout, dtype, major, start_address, u128, swizzle, layout_type, atom_mn, atom_k, canonical, fmt, desc
    )


def _umma_layout_type(swizzle: Swizzle) -> str:
    bits, base, shift = swizzle.num_bits, swizzle.num_base, swizzle.num_shift
    if base == 4 and shift == 3 and bits <= 3:
        return ("SWIZZLE_NONE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B")[bits]
    if (bits, base, shift) == (2, 5, 2):
        return "SWIZZLE_128B_BASE32B"
    raise UmmaError(
        f"tcgen05 has no swizzle {swizzle}; there are S<0,4,3>, S<1,4,3>, S<2,4,3>, S<3,4,3> and S<2,5,2>, "
        f"which count bytes",
        rule="swizzle",
        source=f"{_SM100}, UMMA::layout_type",
    )


def _in_units(layout: AnyLayout, dtype: DType, source: str) -> Layout:
    """The layout without its swizzle, in units of 16 bytes."""
    plain = get_nonswizzle_portion(layout)
    if rank(plain) != 2:
        raise _refused(
            f"a descriptor is of a matrix (MN, K); the layout has {rank(plain)} modes", "rank", source, layout
        )
    return _upcast(plain, dtype, source)


def _upcast(plain: Layout, dtype: DType, source: str) -> Layout:
    try:
        units: Layout = upcast(plain, _UNIT_BITS // dtype.bits)
    except LayoutError as error:
        raise _refused(
            f"elements of {dtype} make no units of 16 bytes:\n{error}", "recast", source, plain
        ) from error
    return units


def _check_major(major: str) -> None:
    if major not in _MAJORS:
        raise UmmaError(f"an operand is K- or MN-major, not {major!r}", rule="major", source=_SM100)


def _check_mn_size(u128: Layout, layout: AnyLayout, source: str) -> None:
    if int(size(u128[0])) % 8:
        raise _refused(f"MN is {size(u128[0])}, no multiple of 8", "mn_size", source, layout)


def _stride(canonical: Layout, mode: int, part: int) -> int:
    stride = canonical.stride[mode][part]
    return int(stride)


def _refused(problem: str, rule: str, source: str, layout: object) -> UmmaError:
    return UmmaError(problem, rule=rule, source=source, values=(("layout", layout),))


# ---- an operand's tile: instructions, each with its descriptor ----


@dataclass(frozen=True)
class DescriptorTensor:
    """Descriptors of every instruction's part of an operand: the first one, and steps to the others.

    Shapes:     `layout` is (1, MMAs along MN, along K, ...), in units of 16 bytes: what
                `make_fragment_A` and `make_fragment_B` give.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, MakeTensor<UMMA::smem_desc>.
    """

    first: SmemDescriptorTrace
    layout: Layout

    def __call__(self, *coord: int) -> int:
        """The descriptor at a coordinate, or at an index that counts with the first mode fastest.

        Law: the step is added to the lower 32 bits, as CuTe does, and so to the start address.
        """
        offset = int(self.layout(*coord))
        low = (self.first.desc + offset) & 0xFFFFFFFF
        return self.first.desc >> 32 << 32 | low

    def explain(self, *coord: int) -> Descriptor:
        """The descriptor at a coordinate as a table of its fields."""
        return self.first.format.explain(self(*coord))


def smem_desc_tensor(
    layout: AnyLayout, dtype: DType | str, major: str = "K", start_address: int = 0
) -> DescriptorTensor:
    """The descriptors of a partitioned operand ((MMA_MN, MMA_K), MMAs along MN, MMAs along K, ...).

    Errors:     as `smem_descriptor`.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, MakeTensor<UMMA::smem_desc>.

    >>> tile = tile_to_mma_shape(make_smem_layout_atom("K_SW128", "f16"), ((128, 16), 1, 4)).result
    >>> tensor = smem_desc_tensor(tile, "f16", "K", 1024)
    >>> print(tensor.layout, hex(tensor(0, 0, 1) - tensor(0, 0, 0)))
    (1,1,4):(0,0,2) 0x2
    """
    plain = get_nonswizzle_portion(layout)
    matrix = plain[0]
    first_layout = layout.replace_outer(matrix) if isinstance(layout, ComposedLayout) else matrix
    first = smem_descriptor(first_layout, dtype, major, start_address)
    units = _upcast(plain, first.dtype, _SM100)
    return DescriptorTensor(first, make_layout(Layout(1, 0), *(units[i] for i in range(1, len(units)))))


@dataclass(frozen=True)
class MmaShapeTrace(Record):
    """How CuTe tiles an atom to the shape of an MMA's tile, every value on the way.

    Shapes:     `mma_tile_shape` is ((MMA_MN, MMA_K), MMAs along MN, MMAs along K, ...), as is `result`;
                `mn_shape` and `mn_tiled` are the tile with instructions put together: (MN, K, ...).
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tile_to_mma_shape.
    """

    OPERATION: ClassVar[str] = "tile_to_mma_shape"
    LAW: ClassVar[str] = "result(((i, k), a, b, ...)) = mn_tiled((i + MMA_MN a, k + MMA_K b, ...))"
    OPERANDS: ClassVar[tuple[str, ...]] = ("atom", "mma_tile_shape", "order")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("zip", "the extent of one instruction, and the number of instructions, for MN and for K", "zipped"),
        ("tuple_cat", "append the stages", "mn_shape"),
        ("tile_to_shape", "repeat the atom over the whole tile", "mn_tiled"),
        ("product_each", "the extents of one instruction", "tiler"),
        ("tiled_divide", "cut the tile into instructions again", "result"),
    )
    RESULT: ClassVar[str] = "result"

    atom: AnyLayout
    mma_tile_shape: Any
    order: Any
    zipped: Any
    mn_shape: Any
    mn_tiled: AnyLayout
    tiler: Any
    result: AnyLayout


def tile_to_mma_shape(atom: AnyLayout, mma_tile_shape: Any, order: Any = None) -> MmaShapeTrace:
    """Tile a shared-memory atom (MN, K) to the shape of an MMA's tile.

    Shapes:     `mma_tile_shape` as `partition_shape_A` gives it: ((MMA_MN, MMA_K), MMAs along MN, MMAs along
                K, ...); `order` says along which of (MN, K, ...) the atom is repeated first.
    Errors:     UmmaError: `mma_tile_shape` for a shape that is not so nested, `tile_to_shape` where the atom
                does not divide the tile.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, UMMA::tile_to_mma_shape.

    >>> trace = tile_to_mma_shape(make_smem_layout_atom("K_SW128", "f16"), ((128, 16), 1, 4))
    >>> print(trace.mn_shape, trace.mn_tiled)
    ((128, 1), (16, 4)) S<3,4,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))
    >>> print(trace.result)
    S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)
    """
    shape = mma_tile_shape
    if not is_node(shape) or len(shape) < 3 or not is_node(shape[0]) or len(shape[0]) != 2:
        raise UmmaError(
            f"{shape} is no shape of an MMA's tile",
            rule="mma_tile_shape",
            source=_SM100,
            advice="((MMA_MN, MMA_K), MMAs along MN, MMAs along K), as partition_shape_A gives",
        )
    zipped = ((shape[0][0], shape[1]), (shape[0][1], shape[2]))
    mn_shape = (*zipped, *shape[3:])
    block = [product(extent) for extent in get_nonswizzle_portion(atom).shape]
    for position, (have, wanted) in enumerate(zip(block, mn_shape, strict=False)):
        whole = product(wanted)
        if whole % have:
            raise UmmaError(
                f"the atom has {have} elements along {'MN' if position == 0 else 'K'}, the tile {whole}",
                rule="tile_to_shape",
                source="CUTLASS 4.2.0, include/cute/layout.hpp, tile_to_shape",
                values=(("atom", atom), ("mma_tile_shape", shape)),
                advice="an atom with a narrower swizzle, or a larger tile",
            )
    mn_tiled = tile_to_shape(atom, mn_shape, order)
    tiler: Any = product_each(shape[0])
    return MmaShapeTrace(atom, shape, order, zipped, mn_shape, mn_tiled, tiler, tiled_divide(mn_tiled, tiler))
