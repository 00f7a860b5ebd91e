"""Reading the name of an MMA operation: which instruction it is, and what each part of the name says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutecourse import dtypes
from cutecourse.atoms.errors import AtomNameError
from cutecourse.dtypes import DType

__all__ = ["MmaName", "NamePart", "parse_mma_name"]

# CUTLASS's spelling of an element type inside a name, and the course's (PTX's) type
_TYPES: dict[str, DType] = {
    "F64": dtypes.f64,
    "F32": dtypes.f32,
    "F16": dtypes.f16,
    "BF16": dtypes.bf16,
    "TF32": dtypes.tf32,
    "E4M3": dtypes.e4m3,
    "E5M2": dtypes.e5m2,
    "S32": dtypes.s32,
    "S8": dtypes.s8,
    "U8": dtypes.u8,
    "S4": dtypes.s4,
    "U4": dtypes.u4,
    "U1": dtypes.b1,
}
_TYPE = "|".join(_TYPES)
_NAME = re.compile(
    rf"SM(?P<sm>\d+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    rf"_(?P<d>{_TYPE})(?P<a>{_TYPE})(?P<b>{_TYPE})(?P<c>{_TYPE})"
    rf"_(?P<major>[TN][TN])(?:_(?P<suffix>SATURATE|XORPOPC|ANDPOPC))?"
)
_SUFFIXES = {
    "SATURATE": (".satfinite", "the integer result is clamped to the range of D instead of wrapping around"),
    "XORPOPC": (".xor.popc", "the product of two bits is their exclusive or, and the sum counts ones"),
    "ANDPOPC": (".and.popc", "the product of two bits is their and, and the sum counts ones"),
}


@dataclass(frozen=True)
class NamePart:
    """One part of an operation's name and what it says."""

    text: str
    meaning: str


@dataclass(frozen=True)
class MmaName:
    """The parts of an MMA operation's name.

    The four types come in the order D, A, B, C. The two letters are BLAS's for A and B, which count
    from column-major matrices A (M x K) and B (K x N): for A, T is K-major and N is M-major; for B,
    N is K-major and T is N-major. So TN is K-major twice. The letters describe the instruction's
    operands, which live in registers: no tensor in memory has to have these strides.

    Source: CUTLASS's names in include/cute/arch/mma_sm70.hpp to mma_sm89.hpp; PTX ISA 9.0, mma.
    """

    name: str
    sm: int
    shape_mnk: tuple[int, int, int]
    dtype_d: DType
    dtype_a: DType
    dtype_b: DType
    dtype_c: DType
    major: str
    suffix: str | None

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The lowest compute capability that has the instruction.

        >>> parse_mma_name("SM80_16x8x16_F32F16F16F32_TN").compute_capability
        (8, 0)
        """
        return divmod(self.sm, 10)

    @property
    def major_a(self) -> str:
        """Which mode of A, a matrix of (M, K), has stride one: "K" or "M"."""
        return "K" if self.major[0] == "T" else "M"

    @property
    def major_b(self) -> str:
        """Which mode of B, a matrix of (N, K), has stride one: "K" or "N".

        >>> parse_mma_name("SM70_8x8x4_F32F16F16F32_NT").major_b
        'N'
        """
        return "K" if self.major[1] == "N" else "N"

    @property
    def ptx(self) -> str:
        """The PTX instruction that the name stands for.

        PTX says row or col of A as a matrix of (M, K), and of B as a matrix of (K, N).

        >>> parse_mma_name("SM80_16x8x16_F32F16F16F32_TN").ptx
        'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32'
        >>> parse_mma_name("SM80_8x8x16_S32S8U8S32_TN_SATURATE").ptx
        'mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32.satfinite'
        """
        m, n, k = self.shape_mnk
        row_a = "row" if self.major_a == "K" else "col"
        row_b = "col" if self.major_b == "K" else "row"
        types = ".".join(t.name for t in (self.dtype_d, self.dtype_a, self.dtype_b, self.dtype_c))
        extra = _SUFFIXES[self.suffix][0] if self.suffix else ""
        return f"mma.sync.aligned.m{m}n{n}k{k}.{row_a}.{row_b}.{types}{extra}"

    @property
    def parts(self) -> tuple[NamePart, ...]:
        """The name's parts in order, each with what it says.

        >>> for part in parse_mma_name("SM80_16x8x16_F32F16F16F32_TN").parts:
        ...     print(part.text, "-", part.meaning)
        SM80 - compute capability 8.0 and later
        16x8x16 - one instruction multiplies A of 16 x 16 (M x K) by B of 8 x 16 (N x K) into 16 x 8 (M x N)
        F32 - D, the result, is f32
        F16 - A is f16
        F16 - B is f16
        F32 - C, what is added, is f32
        T - A is K-major: PTX says row
        N - B is K-major: PTX says col
        """
        m, n, k = self.shape_mnk
        texts = self.name.split("_")
        major, minor = self.compute_capability
        types = re.findall(_TYPE, texts[2])
        row_a = "row" if self.major_a == "K" else "col"
        row_b = "col" if self.major_b == "K" else "row"
        parts = [
            NamePart(texts[0], f"compute capability {major}.{minor} and later"),
            NamePart(
                texts[1],
                f"one instruction multiplies A of {m} x {k} (M x K) by B of {n} x {k} (N x K) "
                f"into {m} x {n} (M x N)",
            ),
            NamePart(types[0], f"D, the result, is {self.dtype_d}"),
            NamePart(types[1], f"A is {self.dtype_a}"),
            NamePart(types[2], f"B is {self.dtype_b}"),
            NamePart(types[3], f"C, what is added, is {self.dtype_c}"),
            NamePart(self.major[0], f"A is {self.major_a}-major: PTX says {row_a}"),
            NamePart(self.major[1], f"B is {self.major_b}-major: PTX says {row_b}"),
        ]
        if self.suffix:
            parts.append(NamePart(self.suffix, _SUFFIXES[self.suffix][1]))
        return tuple(parts)


def parse_mma_name(name: str) -> MmaName:
    """Read a name such as SM80_16x8x16_F32F16F16F32_TN: architecture, M x N x K, types of D A B C, majors.

    Law: `parse_mma_name(name).ptx` is the instruction in the operation's `asm` string.
    Errors: AtomNameError where the name is not built this way.
    Source: CUTLASS 4.2.0, include/cute/arch/mma_sm80.hpp.

    >>> fields = parse_mma_name("SM80_16x8x8_F32TF32TF32F32_TN")
    >>> fields.shape_mnk, fields.dtype_a.name, fields.dtype_d.name, fields.major_a, fields.major_b
    ((16, 8, 8), 'tf32', 'f32', 'K', 'K')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise AtomNameError(
            f"{name!r} is not the name of an MMA operation. One is built as SM<architecture>_<M>x<N>x<K>_"
            f"<types of D, A, B, C>_<TN, NT, NN or TT>, for example SM80_16x8x16_F32F16F16F32_TN; "
            f"types: {', '.join(_TYPES)}; at the end, if at all, {', '.join('_' + s for s in _SUFFIXES)}."
        )
    return MmaName(
        name=name,
        sm=int(match["sm"]),
        shape_mnk=(int(match["m"]), int(match["n"]), int(match["k"])),
        dtype_d=_TYPES[match["d"]],
        dtype_a=_TYPES[match["a"]],
        dtype_b=_TYPES[match["b"]],
        dtype_c=_TYPES[match["c"]],
        major=match["major"],
        suffix=match["suffix"],
    )
