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
    "INSTR_BLOCK_SCALED_SM100",
    "INSTR_SM100",
    "MAJORS",
    "SCALE_FORMATS",
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
        "MXF4Format": MappingProxyType({"E2M1": 1}),
    }
)
"""The same bits name different types in different instructions: CuTe has one enumeration for each group."""

C_FORMATS = MappingProxyType({"F16": 0, "F32": 1, "S32": 2})
"""UMMA::CFormat: the type of the accumulator."""

SCALE_FORMATS = MappingProxyType({"UE4M3": 0, "UE8M0": 1})
"""UMMA::ScaleFormat: the type of the scale factors."""

_FORMAT_OF_KIND = {
    "f16": "F16F32Format",
    "tf32": "F16F32Format",
    "i8": "S8Format",
    "f8f6f4": "MXF8F6F4Format",
}
_BLOCK_SCALED = {"mxf8f6f4": "MXF8F6F4Format", "mxf4": "MXF4Format", "mxf4nvf4": "MXF4Format"}
_SCALES = {"mxf8f6f4": ("ue8m0",), "mxf4": ("ue8m0",), "mxf4nvf4": ("ue8m0", "ue4m3")}

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

INSTR_BLOCK_SCALED_SM100 = DescriptorFormat(
    "InstrDescriptorBlockScaled",
    32,
    (
        Field("sparse_id2", 0, 2, "which metadata a sparse A uses"),
        Field("sparse_flag", 2, 1, "A is sparse", names=_FLAG),
        Field("b_sf_id", 4, 2, "the byte where B's scale factors begin"),
        Field("a_format", 7, 3, "A's type", names=ELEMENT_FORMATS["MXF8F6F4Format"]),
        Field("b_format", 10, 3, "B's type", names=ELEMENT_FORMATS["MXF8F6F4Format"]),
        Field("a_negate", 13, 1, "A is negated", names=_NEGATE),
        Field("b_negate", 14, 1, "B is negated", names=_NEGATE),
        Field("a_major", 15, 1, "which mode of A lies side by side", names=MAJORS),
        Field("b_major", 16, 1, "which mode of B lies side by side", names=MAJORS),
        Field("n_dim", 17, 6, "N of the instruction", 8, "columns"),
        Field("scale_format", 23, 1, "the scale factors' type", names=SCALE_FORMATS),
        Field("m_dim", 24, 5, "M of the instruction, of both SMs together", 16, "rows"),
        Field("a_sf_id", 29, 2, "the byte where A's scale factors begin"),
        Field("k_size", 31, 1, "1 for a K of 96 elements of 4 bits"),
    ),
    "CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::InstrDescriptorBlockScaled",
)
"""The instruction descriptor of kinds with scale factors, with the types of mxf8f6f4."""


def instr_format(kind: str = "f16") -> DescriptorFormat:
    """The instruction descriptor as one kind of tcgen05.mma reads it.

    The kinds are f16, tf32, i8 and f8f6f4, and with scale factors mxf8f6f4, mxf4 and mxf4nvf4.

    Errors: DescriptorError for a name that is none of them.

    >>> instr_format("i8").explain(0x08200490).fields[4].meant
    'INT8'
    >>> instr_format("mxf4").name
    'InstrDescriptorBlockScaled'
    """
    group = {**_FORMAT_OF_KIND, **_BLOCK_SCALED}.get(kind)
    if group is None:
        known = ", ".join((*_FORMAT_OF_KIND, *_BLOCK_SCALED))
        raise DescriptorError(f"there is no kind {kind!r}; there are {known}", field="kind", value=kind)
    whole = INSTR_BLOCK_SCALED_SM100 if kind in _BLOCK_SCALED else INSTR_SM100
    return whole.with_names(a_format=ELEMENT_FORMATS[group], b_format=ELEMENT_FORMATS[group])


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


def make_instr_desc_block_scaled(
    a_type: DType | str,
    b_type: DType | str,
    c_type: DType | str,
    sf_type: DType | str,
    m: int,
    n: int,
    a_major: str = "K",
    b_major: str = "K",
    *,
    kind: str = "mxf8f6f4",
    a_neg: bool = False,
    b_neg: bool = False,
    is_sparse: bool = False,
    a_sf_id: int = 0,
    b_sf_id: int = 0,
) -> int:
    """The 32 bits that tell tcgen05.mma with .block_scale what it multiplies.

    C++ tells the kinds apart by its types for e2m1; here `kind` names it: mxf8f6f4, mxf4 or mxf4nvf4. The
    data IDs `a_sf_id` and `b_sf_id` name the bytes where the scale factors begin; CUTLASS sets them later.

    Units:      `m` and `n` in elements; for two SMs `m` is that of both together.
    Errors:     DescriptorError for a kind without scale factors, a type that the kind does not have, and a
                shape that its bits cannot hold.
    Source:     CUTLASS 4.2.0, include/cute/arch/mma_sm100_desc.hpp, UMMA::make_instr_desc_block_scaled.

    >>> hex(make_instr_desc_block_scaled("e2m1", "e2m1", "f32", "ue4m3", 128, 256, kind="mxf4nvf4"))
    '0x8400480'
    """
    group = _BLOCK_SCALED.get(kind)
    if group is None:
        raise DescriptorError(
            f"kind {kind!r} has no scale factors; {', '.join(_BLOCK_SCALED)} have", field="kind", value=kind
        )
    for field, element in (("a_format", a_type), ("b_format", b_type)):
        _, name, _ = _element(field, element)
        if name not in ELEMENT_FORMATS[group]:
            known = ", ".join(one.lower() for one in ELEMENT_FORMATS[group])
            raise DescriptorError(
                f"{field}: kind {kind} has no {element}; it has {known}", field=field, value=str(element)
            )
    if str(c_type) != "f32":
        raise DescriptorError(
            f"an accumulator beside scale factors is f32, not {c_type}", field="c_type", value=str(c_type)
        )
    if str(sf_type) not in _SCALES[kind]:
        raise DescriptorError(
            f"scale_format: kind {kind} has {' or '.join(_SCALES[kind])}, not {sf_type}",
            field="scale_format",
            value=str(sf_type),
        )
    return instr_format(kind).encode(
        sparse_flag=str(bool(is_sparse)),
        b_sf_id=b_sf_id,
        a_format=_element("a_format", a_type)[1],
        b_format=_element("b_format", b_type)[1],
        a_negate="Neg" if a_neg else "One",
        b_negate="Neg" if b_neg else "One",
        a_major=a_major,
        b_major=b_major,
        n_dim=n,
        scale_format=str(sf_type).upper(),
        m_dim=m,
        a_sf_id=a_sf_id,
    )


def _element(field: str, element: DType | str) -> tuple[str, str, str]:
    known = _ELEMENTS.get(str(element))
    if known is None:
        raise DescriptorError(
            f"{field} has no number for {element}; there are {', '.join(_ELEMENTS)}",
            field=field,
            value=str(element),
        )
    return known
