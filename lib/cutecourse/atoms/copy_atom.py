"""Copy atoms: what one copy instruction moves, and which thread reads and writes which bits."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cutecourse.atoms.errors import PartitionError, unknown_atom
from cutecourse.atoms.mma_atom import CutlassSource
from cutecourse.dtypes import DType, b1
from cutecourse.dtypes import dtype as dtype_of
from cutecourse.layout import Layout, size, upcast

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COPY_ATOMS", "CopyAtom", "copy_atom"]


@dataclass(frozen=True)
class CopyAtom:
    """One copy operation: threads read values at the source and write values at the destination.

    Shapes: the layouts map (thread, value) to a position in the copied data. `bit_layout_*` count bits and
            belong to the operation; `layout_src`, `layout_dst` and `layout_ref` count values of `dtype`.
            The reference is the arrangement that a tiled copy's thread-value layout speaks of.
    Units:  threads are logical; `thr_id` maps them to lanes.
    Errors: PartitionError where a value of `dtype` does not fit the operation.
    Source: CUTLASS 4.2.0, include/cute/atom/copy_atom.hpp, Copy_Atom.

    >>> atom = copy_atom("SM75_U32x4_LDSM_N", "f16")
    >>> print(atom.layout_src, atom.layout_dst)
    (32,8):(8,1) (32,(2,4)):(2,(1,64))
    """

    name: str
    thr_id: Layout
    bit_layout_src: Layout
    bit_layout_dst: Layout
    bit_layout_ref: Layout
    ptx: str
    source: CutlassSource
    ptx_source: CutlassSource
    dtype: DType = b1

    def __repr__(self) -> str:
        return f"CopyAtom({self.name}, {self.dtype})"

    def __str__(self) -> str:
        return (
            f"Copy Atom {self.name}\n  ThrID:         {self.thr_id}\n  TV Layout Src: {self.layout_src}\n"
            f"  TV Layout Dst: {self.layout_dst}\n  Value type:    {self.dtype}"
        )

    def of(self, dtype: DType | str) -> CopyAtom:
        """The same operation moving values of another type.

        >>> print(COPY_ATOMS["UniversalCopy<uint128_t>"].of("f32").layout_src)
        (1,4):(0,1)
        """
        atom = replace(self, dtype=dtype_of(dtype) if isinstance(dtype, str) else dtype)
        for layout in (atom.layout_src, atom.layout_dst, atom.layout_ref):
            if int(size(layout[0])) != atom.threads:
                raise PartitionError(
                    f"{self.name} cannot move values of {atom.dtype} ({atom.dtype.bits} bits): seen as such "
                    f"values its {self.threads} threads become {layout}. "
                    f"CuTe: CopyOperation is not valid for ValType."
                )
        return atom

    @property
    def threads(self) -> int:
        """How many threads execute the operation together."""
        return int(size(self.thr_id))

    @cached_property
    def layout_src(self) -> Layout:
        """(thread, value) that is read to the position of the value."""
        return _in_values(self.bit_layout_src, self.dtype)

    @cached_property
    def layout_dst(self) -> Layout:
        """(thread, value) that is written to the position of the value."""
        return _in_values(self.bit_layout_dst, self.dtype)

    @cached_property
    def layout_ref(self) -> Layout:
        """The arrangement that the thread-value layout of a tiled copy is given in."""
        return _in_values(self.bit_layout_ref, self.dtype)

    @property
    def values_src(self) -> int:
        """How many values one thread reads."""
        return int(size(self.layout_src[1]))

    @property
    def values_dst(self) -> int:
        """How many values one thread writes."""
        return int(size(self.layout_dst[1]))

    def to_snapshot(self) -> dict[str, Any]:
        """All of the atom as plain JSON; layouts as text."""
        return {
            "name": self.name,
            "dtype": self.dtype.name,
            "bits": self.dtype.bits,
            "threads": self.threads,
            "thr_id": str(self.thr_id),
            "bit_layout_src": str(self.bit_layout_src),
            "bit_layout_dst": str(self.bit_layout_dst),
            "bit_layout_ref": str(self.bit_layout_ref),
            "layout_src": str(self.layout_src),
            "layout_dst": str(self.layout_dst),
            "layout_ref": str(self.layout_ref),
            "ptx": self.ptx,
            "source": str(self.source),
        }


# operation, layouts in bits of source, destination, reference; PTX; lines of arch/copy_sm75.hpp and
# atom/copy_traits_sm75.hpp. `_N` reads the matrices as they lie, `_T` transposes each 8 x 8 of 16 bits.
_WARP_ROWS: tuple[tuple[str, str, str, str, int, int], ...] = (
    (
        "SM75_U32x1_LDSM_N",
        "((8,4),128):((128,0),1)",
        "(32,32):(32,1)",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
        81,
        42,
    ),
    (
        "SM75_U32x2_LDSM_N",
        "((16,2),128):((128,0),1)",
        "(32,(32,2)):(32,(1,1024))",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
        101,
        59,
    ),
    (
        "SM75_U32x4_LDSM_N",
        "(32,128):(128,1)",
        "(32,(32,4)):(32,(1,1024))",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        121,
        76,
    ),
    (
        "SM75_U16x2_LDSM_T",
        "((8,4),128):((128,0),1)",
        "((4,8),(16,2)):((256,16),(1,128))",
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
        141,
        93,
    ),
    (
        "SM75_U16x4_LDSM_T",
        "((16,2),128):((128,0),1)",
        "((4,8),(16,2,2)):((256,16),(1,128,1024))",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
        161,
        110,
    ),
    (
        "SM75_U16x8_LDSM_T",
        "(32,128):(128,1)",
        "((4,8),(16,2,4)):((256,16),(1,128,1024))",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        181,
        127,
    ),
    (
        "SM75_U32x1_MOVM_T",
        "(32,32):(32,1)",
        "(32,32):(32,1)",
        "movmatrix.sync.aligned.m8n8.trans.b16",
        201,
        144,
    ),
)

# template, widths in bits, PTX, arch header and line, traits header and line
_THREAD_ROWS: tuple[tuple[str, tuple[int, ...], str, str, int, str, int], ...] = (
    ("UniversalCopy", (8, 16, 32, 64, 128), "", "copy.hpp", 46, "copy_traits.hpp", 66),
    (
        "SM80_CP_ASYNC_CACHEALWAYS",
        (32, 64, 128),
        "cp.async.ca.shared.global.L2::128B",
        "copy_sm80.hpp",
        47,
        "copy_traits_sm80.hpp",
        42,
    ),
    (
        "SM80_CP_ASYNC_CACHEGLOBAL",
        (128,),
        "cp.async.cg.shared.global.L2::128B",
        "copy_sm80.hpp",
        74,
        "copy_traits_sm80.hpp",
        57,
    ),
    (
        "SM80_CP_ASYNC_CACHEALWAYS_ZFILL",
        (32, 64, 128),
        "cp.async.ca.shared.global.L2::128B",
        "copy_sm80.hpp",
        101,
        "copy_traits_sm80.hpp",
        72,
    ),
    (
        "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL",
        (128,),
        "cp.async.cg.shared.global.L2::128B",
        "copy_sm80.hpp",
        131,
        "copy_traits_sm80.hpp",
        120,
    ),
)
_AUTO = "AutoVectorizingCopyWithAssumedAlignment"
_ALIASES = {"AutoVectorizingCopy": f"{_AUTO}<128>", "DefaultCopy": f"{_AUTO}<8>"}
_CPP_BITS = {"half_t": 16, "bfloat16_t": 16, "tfloat32_t": 32, "float": 32, "double": 64}


def _source(folder: str, header: str, line: int, name: str) -> CutlassSource:
    return CutlassSource(f"include/cute/{folder}/{header}", line, name)


def _thread_atom(
    name: str, layout: Layout, ptx: str, arch: tuple[str, int], traits: tuple[str, int]
) -> CopyAtom:
    bare = name.partition("<")[0]
    return CopyAtom(
        name=name,
        thr_id=Layout(1, 0),
        bit_layout_src=layout,
        bit_layout_dst=layout,
        bit_layout_ref=layout,
        ptx=ptx,
        source=_source("atom", *traits, f"Copy_Traits<{bare}>"),
        ptx_source=_source("arch", *arch, bare),
    )


def _universal(name: str, bits: int) -> CopyAtom:
    _, _, ptx, arch, arch_line, traits, traits_line = _THREAD_ROWS[0]
    return _thread_atom(name, Layout((1, bits), (0, 1)), ptx, (arch, arch_line), (traits, traits_line))


def _rows() -> Mapping[str, CopyAtom]:
    atoms: dict[str, CopyAtom] = {}
    for name, src, dst, ptx, arch_line, traits_line in _WARP_ROWS:
        atoms[name] = CopyAtom(
            name=name,
            thr_id=Layout(32, 1),
            bit_layout_src=Layout.parse(src),
            bit_layout_dst=Layout.parse(dst),
            bit_layout_ref=Layout.parse(dst),
            ptx=ptx,
            source=_source("atom", "copy_traits_sm75.hpp", traits_line, f"Copy_Traits<{name}>"),
            ptx_source=_source("arch", "copy_sm75.hpp", arch_line, name),
        )
    for template, widths, ptx, arch, arch_line, traits, traits_line in _THREAD_ROWS:
        for bits in widths:
            name = f"{template}<uint{bits}_t>"
            layout = Layout((1, bits), (0, 1))
            atoms[name] = _thread_atom(name, layout, ptx, (arch, arch_line), (traits, traits_line))
    for bits in (8, 16, 32, 64, 128):
        name = f"{_AUTO}<{bits}>"
        atoms[name] = _thread_atom(
            name, Layout((1, 1), (0, 0)), "", ("copy.hpp", 69), ("copy_traits.hpp", 81)
        )
    return MappingProxyType(atoms)


COPY_ATOMS: Mapping[str, CopyAtom] = _rows()


def copy_atom(name: str, dtype: DType | str = b1) -> CopyAtom:
    """The copy atom of that name, moving values of `dtype` (bits, when none is given).

    `UniversalCopy<T>` takes any of CUTLASS's type names; `AutoVectorizingCopy` and `DefaultCopy` are the
    aliases that CuTe has.
    Errors: UnknownAtomError, with the nearest names; PartitionError where the type does not fit.

    >>> copy_atom("UniversalCopy<uint64_t>", "f16").values_src
    4
    >>> copy_atom("SM75_U32x4_LDSM")
    Traceback (most recent call last):
      ...
    cutecourse.atoms.errors.UnknownAtomError: no copy atom is called 'SM75_U32x4_LDSM'. Did you mean ...
    """
    key = _ALIASES.get(name, name)
    found = COPY_ATOMS.get(key)
    if found is None:
        template = re.fullmatch(r"UniversalCopy<(?:cute::|cutlass::)?(\w+)>", key)
        bits = _type_bits(template[1]) if template else None
        if bits is None:
            raise unknown_atom("copy", name, [*COPY_ATOMS, *_ALIASES])
        found = _universal(key, bits)
    return found if (dtype == b1) else found.of(dtype)


def _type_bits(cpp: str) -> int | None:
    sized = re.fullmatch(r"u?int(8|16|32|64|128)_t", cpp)
    return int(sized[1]) if sized else _CPP_BITS.get(cpp)


def _in_values(bits: Layout, dtype: DType) -> Layout:
    layout: Layout = upcast(bits, dtype.bits)
    return layout
