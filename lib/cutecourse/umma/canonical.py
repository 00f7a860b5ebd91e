"""The layouts that a descriptor can say: from its offsets back to the places of the elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cutecourse.descriptors import UMMA_LAYOUT_TYPES
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import ComposedLayout, Layout, Swizzle, get_swizzle_portion
from cutecourse.layout.record import Record

from .errors import UmmaError
from .shared_memory import SMEM_LAYOUT_ATOMS, make_smem_layout_atom

__all__ = ["CanonicalLayout", "canonical_layout"]

_SOURCE = "CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, above UMMA::make_umma_desc"
_TYPES = {
    "INTER": "SWIZZLE_NONE",
    "SW32": "SWIZZLE_32B",
    "SW64": "SWIZZLE_64B",
    "SW128": "SWIZZLE_128B",
    "SW128_32B": "SWIZZLE_128B_BASE32B",
}
_WIDTH = {"INTER": 1, "SW32": 2, "SW64": 4, "SW128": 8, "SW128_32B": 8}


@dataclass(frozen=True)
class CanonicalLayout(Record):
    """The part of an operand that one descriptor describes, as the hardware reads it: CuTe's canonical form.

    Shapes:     `form` and `layout` are (MN, K): of K-major ((8, m), (T, 2)), of MN-major ((T, w, m), (r, k)),
                with T elements in 16 bytes, w times 16 bytes in a row of the swizzle and r rows.
                `form` has the offsets by their names, in elements; `layout` has their values.
    Units:      `leading_byte_offset` (LBO) and `stride_byte_offset` (SBO) in bytes.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, the comment above make_umma_desc.
    """

    OPERATION: ClassVar[str] = "canonical_layout"
    LAW: ClassVar[str] = "smem_descriptor(layout) has these offsets and this layout type"
    OPERANDS: ClassVar[tuple[str, ...]] = (
        "kind",
        "element",
        "m",
        "k",
        "leading_byte_offset",
        "stride_byte_offset",
    )
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("type", "the swizzle's name in the descriptor", "layout_type", "type_bits"),
        ("swizzle", "which bits of a byte's address it exchanges", "smem_swizzle"),
        ("unit", "elements in 16 bytes, and such units in a row", "unit", "width"),
        ("atom", "the smallest layout of this kind, in elements", "atom"),
        ("form", "the canonical form, its offsets by name", "form"),
        ("result", "with the offsets in elements", "layout"),
    )
    RESULT: ClassVar[str] = "layout"

    kind: str
    dtype: DType
    m: int
    k: int
    leading_byte_offset: int
    stride_byte_offset: int
    layout_type: str
    unit: int
    width: int
    atom: ComposedLayout
    form: str
    layout: ComposedLayout

    @property
    def element(self) -> str:
        """The element type's name."""
        return self.dtype.name

    @property
    def major(self) -> str:
        """K or MN."""
        return self.kind.split("_", maxsplit=1)[0]

    @property
    def type_bits(self) -> int:
        """The layout type as the descriptor's bits 61 to 63 have it."""
        return UMMA_LAYOUT_TYPES[self.layout_type]

    @property
    def smem_swizzle(self) -> Swizzle:
        """The swizzle of byte addresses."""
        return get_swizzle_portion(self.layout)

    def __repr__(self) -> str:
        return f"CanonicalLayout({self.kind}, {self.element}, {self.form})"


def canonical_layout(
    kind: str,
    dtype: DType | str,
    m: int = 2,
    leading_byte_offset: int | None = None,
    stride_byte_offset: int | None = None,
) -> CanonicalLayout:
    """The layout of one instruction's operand that a descriptor with these offsets describes.

    Shapes:     `m` counts atoms along MN: of K-major 8 rows each, of MN-major a row of the swizzle each. K is
                that of one instruction: 32 bytes.
    Units:      offsets in bytes; left out, atoms lie one after the other, along MN first. Where there is one
                atom only, nothing steps by its offset, and CuTe writes 0.
    Errors:     UmmaError: `atom` for a kind that there is not, `offset_bits` for offsets that are no
                multiples of 16.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp, the comment above make_umma_desc.

    >>> canonical = canonical_layout("K_SW128", "f16", 16, stride_byte_offset=1024)
    >>> print(canonical.form, canonical.layout)
    ((8,m),(T,2)):((8T,SBO),(1,T)) S<3,4,3> o 0 o ((8,16),(8,2)):((64,512),(1,8))
    >>> canonical_layout("MN_SW64", "f16").form
    '((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))'
    """
    if kind not in SMEM_LAYOUT_ATOMS:
        raise UmmaError(
            f"there is no shared-memory atom {kind!r}; there are {', '.join(SMEM_LAYOUT_ATOMS)}",
            rule="atom",
            source=_SOURCE,
        )
    element = as_dtype(dtype)
    major, swizzle = kind.split("_", maxsplit=1)
    unit, width = 128 // element.bits, _WIDTH[swizzle]
    rows = 8 if major == "K" or swizzle != "SW128_32B" else 4
    depth = 2 if major == "K" else 256 // element.bits // rows
    atom_bytes = rows * width * 16
    plain = swizzle == "INTER"
    # K-major: LBO steps along K (without a swizzle), SBO along MN; MN-major: LBO along MN, SBO along K,
    # and without a swizzle the other way round
    along_mn_is_stride = major == "K" or plain
    along_mn = atom_bytes if m > 1 else 0
    along_k = m * atom_bytes if depth > 1 else 0
    if major == "K" and not plain:
        along_k = 16  # not read: the two units of K lie side by side
    defaults = (along_k, along_mn) if along_mn_is_stride else (along_mn, along_k)
    leading = defaults[0] if leading_byte_offset is None else leading_byte_offset
    stride = defaults[1] if stride_byte_offset is None else stride_byte_offset
    for name, value in (("leading_byte_offset", leading), ("stride_byte_offset", stride)):
        if value % 16 or value < 0:
            raise UmmaError(f"{name} is a multiple of 16, not {value}", rule="offset_bits", source=_SOURCE)
    lbo, sbo = leading * 8 // element.bits, stride * 8 // element.bits
    shape: Any
    steps: Any
    if major == "K":
        shape = ((8, m), (unit, 2))
        steps = ((width * unit, sbo), (1, lbo if plain else unit))
        form = f"((8,m),(T,2)):(({_times(width)},SBO),(1,{'LBO' if plain else 'T'}))"
    else:
        mn, k = (sbo, lbo) if plain else (lbo, sbo)
        shape = ((unit, width, m), (rows, depth))
        steps = ((1, unit, mn), (width * unit, k))
        names = ("SBO", "LBO") if plain else ("LBO", "SBO")
        form = f"((T,{width},m),({rows},k)):((1,T,{names[0]}),({_times(width)},{names[1]}))"
    atom = make_smem_layout_atom(kind, element)
    layout = atom.replace_outer(Layout(shape, steps))
    return CanonicalLayout(
        kind, element, m, depth, leading, stride, _TYPES[swizzle], unit, width, atom, form, layout
    )


def _times(width: int) -> str:
    return "T" if width == 1 else f"{width}T"
