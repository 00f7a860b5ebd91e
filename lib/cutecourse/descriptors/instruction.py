"""The instruction descriptor of tcgen05.mma: element types, majors, signs and the shape."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cutecourse.dtypes import DType

from .errors import DescriptorError
from .fields import DescriptorFormat, Field

__all__ = [
    "C_FORMATS",
    "ELEMENT_FORMATS",
    "INSTR_SM100",
    "MAJORS",
    "instr_format",
    "make_instr_desc",
    "make_instr_desc_block_scaled",
    "make_runtime_instr_desc",
]

_SOURCE = "CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::InstrDescriptor"

MAJORS = MappingProxyType({"K": 0, "MN": 1})
"""UMMA::Major: which of an operand's two modes lies side by side in memory."""

ELEMENT_FORMATS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "F16F32Format": MappingProxyType({"F16": 0, "BF16": 1, "TF32": 2}),
        "S8Format": MappingProxyType({"UINT8": 0, "INT8": 1}),
        "MXF8F6F4Format": MappingProxyType({"E4M3": 0, "E5M2": 1, "E2M3": 3, "E3M2": 4, "E2M1": 5}),
    }
)
"""The same bits name different types in different instructions: CuTe has one enumeration for each group."""

C_FORMATS = MappingProxyType({"F16": 0, "F32": 1, "S32": 2})
"""UMMA::CFormat: the type of the accumulator."""

_FORMAT_OF_KIND = {
    "f16": "F16F32Format",
    "tf32": "F16F32Format",
    "i8": "S8Format",
    "f8f6f4": "MXF8F6F4Format",
}
_BLOCK_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")

# element type -> CuTe's enumeration, its name there, the kind of instruction that takes it
_ELEMENTS: dict[str, tuple[str, str, str]] = {
    "f16": ("F16F32Format", "F16", "f16"),
    "bf16": ("F16F32Format", "BF16", "f16"),
    "tf32": ("F16F32Format", "TF32", "tf32"),
    "u8": ("S8Format", "UINT8", "i8"),
    "s8": ("S8Format", "INT8", "i8"),
    "e4m3": ("MXF8F6F4Format", "E4M3", "f8f6f4"),
    "e5m2": ("MXF8F6F4Format", "E5M2", "f8f6f4"),
    "e2m3": ("MXF8F6F4Format", "E2M3", "f8f6f4"),
    "e3m2": ("MXF8F6F4Format", "E3M2", "f8f6f4"),
    "e2m1": ("MXF8F6F4Format", "E2M1", "f8f6f4"),
}
_ACCUMULATORS = {"f16": "F16", "f32": "F32", "s32": "S32"}

_NEGATE = MappingProxyType({"One": 0, "Neg": 1})
_FLAG = MappingProxyType({"False": 0, "True": 1})

INSTR_SM100 = DescriptorFormat(
    "InstrDescriptor",
    32,
    (
        Field("sparse_id2", 0, 2, "which metadata a sparse A uses"),
        Field("sparse_flag", 2, 1, "A is sparse", names=_FLAG),
        Field("saturate", 3, 1, "an integer accumulator saturates", names=_FLAG),
        Field("c_format", 4, 2, "the accumulator's type", names=C_FORMATS),
        Field("a_format", 7, 3, "A's type", names=ELEMENT_FORMATS["F16F32Format"]),
        Field("b_format", 10, 3, "B's type", names=ELEMENT_FORMATS["F16F32Format"]),
        Field("a_negate", 13, 1, "A is negated", names=_NEGATE),
        Field("b_negate", 14, 1, "B is negated", names=_NEGATE),
        Field("a_major", 15, 1, "which mode of A lies side by side", names=MAJORS),
        Field("b_major", 16, 1, "which mode of B lies side by side", names=MAJORS),
        Field("n_dim", 17, 6, "N of the instruction", 8, "columns"),
        Field("m_dim", 24, 5, "M of the instruction, of both SMs together", 16, "rows"),
        Field(
            "max_shift",
            30,
            2,
            "the largest shift of a weight-stationary MMA",
            names=MappingProxyType({"NoShift": 0, "MaxShift8": 1, "MaxShift16": 2, "MaxShift32": 3}),
        ),
    ),
    _SOURCE,
)
"""The instruction descriptor with the types of the kinds f16 and tf32; `instr_format` has the others."""


def instr_format(kind: str = "f16") -> DescriptorFormat:
    """The instruction descriptor as one kind of tcgen05.mma reads it: f16, tf32, i8 or f8f6f4.

    Errors: DescriptorError for the block-scaled kinds, whose descriptor has other fields
            (InstrDescriptorBlockScaled) and is not supported, and for names that are none.

    >>> instr_format("i8").explain(0x08200490).fields[4].meant
    'INT8'
    """
    if kind in _BLOCK_SCALED:
        raise _block_scaled(f"kind::{kind}")
    group = _FORMAT_OF_KIND.get(kind)
    if group is None:
        raise DescriptorError(
            f"there is no kind {kind!r}; there are {', '.join(_FORMAT_OF_KIND)}", field="kind", value=kind
        )
    return INSTR_SM100.with_names(a_format=ELEMENT_FORMATS[group], b_format=ELEMENT_FORMATS[group])


def make_instr_desc(
    a_type: DType | str,
    b_type: DType | str,
    c_type: DType | str,
    m: int,
    n: int,
    a_major: str = "K",
    b_major: str = "K",
    *,
    a_neg: bool = False,
    b_neg: bool = False,
    saturate: bool = False,
    is_sparse: bool = False,
    max_shift: str = "NoShift",
) -> int:
    """The 32 bits that tell tcgen05.mma what it multiplies.

    Units:      `m` and `n` in elements; for two SMs `m` is that of both together.
    Errors:     DescriptorError for a type without a number, types of two kinds, and a shape that its bits
                cannot hold. (C++ drops the bits that do not fit; which shapes an MMA has, its atom says.)
    Source:     CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::make_instr_desc.

    >>> hex(make_instr_desc("f16", "f16", "f32", 128, 256))
    '0x8400010'
    """
    a_group, a_name, a_kind = _element("a_format", a_type)
    b_group, b_name, b_kind = _element("b_format", b_type)
    if a_group != b_group:
        raise DescriptorError(
            f"A is {a_type} (kind {a_kind}) and B is {b_type} (kind {b_kind}): no instruction takes both",
            field="b_format",
            value=str(b_type),
        )
    c_name = _ACCUMULATORS.get(str(c_type))
    if c_name is None:
        raise DescriptorError(
            f"c_format has no number for {c_type}; there are {', '.join(_ACCUMULATORS)}",
            field="c_format",
            value=str(c_type),
        )
    return instr_format(a_kind).encode(
        sparse_flag=str(bool(is_sparse)),
        saturate=str(bool(saturate)),
        c_format=c_name,
        a_format=a_name,
        b_format=b_name,
        a_negate="Neg" if a_neg else "One",
        b_negate="Neg" if b_neg else "One",
        a_major=a_major,
        b_major=b_major,
        n_dim=n,
        m_dim=m,
        max_shift=max_shift,
    )


def make_runtime_instr_desc(desc: int) -> int:
    """The 64 bits that CuTe hands around: the instruction descriptor in the upper half.

    The lower half is the place of a sparse A's metadata in tensor memory, 0 for a dense one.
    Errors:     DescriptorError for a number of more than 32 bits.
    Source:     CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::make_runtime_instr_desc.

    >>> hex(make_runtime_instr_desc(0x08400010))
    '0x840001000000000'
    """
    return int(INSTR_SM100.explain(desc)) << 32


def make_instr_desc_block_scaled(*_: object, **__: object) -> int:
    """Refuse, by name: the block-scaled descriptor has other fields, which this library does not have."""
    raise _block_scaled("make_instr_desc_block_scaled")


def _element(field: str, element: DType | str) -> tuple[str, str, str]:
    known = _ELEMENTS.get(str(element))
    if known is None:
        raise DescriptorError(
            f"{field} has no number for {element}; there are {', '.join(_ELEMENTS)}",
            field=field,
            value=str(element),
        )
    return known


def _block_scaled(what: str) -> DescriptorError:
    return DescriptorError(
        f"{what}: block-scaled instruction descriptors (InstrDescriptorBlockScaled) are not supported",
        field="InstrDescriptorBlockScaled",
        advice="a kind without scale factors: f16, tf32, i8, f8f6f4",
    )
