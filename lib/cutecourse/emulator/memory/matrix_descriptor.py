"""The machine's reading of tcgen05's descriptors: bits, fields, and the addresses of a matrix's elements.

A shared-memory descriptor (64 bits) gives the address and the layout of a matrix A or B. An instruction
descriptor (32 bits) gives shape and types. An error names a field whose value no document allows.

A matrix comes in chunks of 16 bytes: along K where it is K-major, along M or N where it is MN-major. With T
elements in a chunk and a swizzle of S bytes, which are s = S / 16 chunks, they lie before the swizzle at

    K-major    none      row r, chunk j:  (r % 8) * 16 + (r // 8) * SBO + j * LBO
    K-major    swizzled  row r, chunk j:  (r % 8) * S  + (r // 8) * SBO + j * 16
    MN-major   none      chunk j, k:      j * SBO + (k % 8) * 16 + (k // 8) * LBO
    MN-major   swizzled  chunk j, k:      (j % s) * 16 + (j // s) * LBO + (k % a) * S + (k // a) * SBO

bytes from the start address, with a = 8, and a = 4 where the swizzle moves 32 bytes at a time. The swizzle
then works on the bits of the address itself: the chunk's number is combined with that of its 128-byte row,
which the base offset counts from where the pattern starts.

Source: PTX ISA 9.0, Shared memory descriptor (#tcgen05-shared-memory-descriptor), Instruction descriptor
        (#tcgen05-instruction-descriptor), Canonical layouts (#tcgen05-canonical-layouts), Strides, Valid
        Combinations of Type-Size, Major-ness and Swizzling
        (#tcgen05-matrix-layout-organization-valid-comb-type-size-majorness-swizzle), Shared Memory Layout and
        Swizzling (#tcgen05-shared-memory-layout-swizzling).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.errors import AddressError
from cutecourse.emulator.memory.swizzle import SPANS, swizzled

__all__ = [
    "FieldError",
    "InstructionDescriptor",
    "MatrixDescriptor",
    "MultipliedMatrix",
    "SharedMatrix",
    "chunk_offsets",
    "decode_instruction",
    "decode_matrix",
    "decode_scaled_instruction",
    "field_of",
    "matrix_of",
    "shared_matrix",
]

_ATOM = 8
"""Rows of a core matrix."""
_WIDE_ATOMS = "128B with 32B atoms"
_SWIZZLES = {0: "none", 1: _WIDE_ATOMS, 2: "128B", 4: "64B", 6: "32B"}


class FieldError(ValueError):
    """A field of a descriptor holds a value that is not allowed; `field` is its name."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field}: {problem}")


def field_of(value: int, low: int, high: int) -> int:
    """The bits low..high of a value."""
    return value >> low & ((1 << (high - low + 1)) - 1)


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A matrix in shared memory: its `start`, and its `leading` and `stride` offsets, in bytes."""

    start: int
    leading: int
    stride: int
    swizzle: str
    """"none", "32B", "64B", "128B" or "128B with 32B atoms"."""
    base: int = 0
    """The 128-byte row, modulo 8, in which the swizzle's pattern starts."""

    @classmethod
    def of(cls, bits: int, swizzle: str) -> MatrixDescriptor:
        """Read the fields that descriptors of wgmma and tcgen05 have in the same bits.

        The base offset is valid with a swizzle only. Triton writes one for scale factors, without a swizzle.
        """
        base = 0 if swizzle == "none" else field_of(bits, 49, 51)
        start, leading, stride = (field_of(bits, low, low + 13) << 4 for low in (0, 16, 32))
        return cls(start, leading, stride, swizzle, base)


@cache
def decode_matrix(bits: int) -> MatrixDescriptor:
    """Read a shared-memory descriptor. Errors: FieldError.

    >>> decode_matrix(0x4000_4040_0001_0040)
    MatrixDescriptor(start=1024, leading=16, stride=1024, swizzle='128B', base=0)
    """
    for low, high in ((14, 15), (30, 31)):
        if field_of(bits, low, high):
            raise FieldError(f"bits {low} to {high} of the shared-memory descriptor", "reserved: must be 0")
    if field_of(bits, 46, 48) != 0b001:
        raise FieldError(
            "bits 46 to 48 of the shared-memory descriptor",
            f"{field_of(bits, 46, 48):#05b}, but must be the constant 0b001 (wgmma's descriptors have 0)",
        )
    if field_of(bits, 53, 60):
        raise FieldError("bits 53 to 60 of the shared-memory descriptor", "must be 0")
    if field_of(bits, 52, 52):
        raise FieldError(
            "leading dimension stride mode (bit 52)",
            "an absolute address exists on sm_103a only, for a K of 48 bytes, and is not supported: give an"
            " offset",
        )
    mode = field_of(bits, 61, 63)
    if mode not in _SWIZZLES:
        raise FieldError(
            "swizzling mode (bits 61 to 63)", f"{mode} is not a mode; the modes are 0, 1, 2, 4 and 6"
        )
    return MatrixDescriptor.of(bits, _SWIZZLES[mode])


def _check_layout(swizzle: str, *, k_major: bool, item: int | None) -> None:
    """Refuse a swizzle that a matrix of this majorness, and of elements of `item` bytes, cannot have."""
    wide, problem = swizzle == _WIDE_ATOMS, ""
    if k_major and wide:
        problem = "1, 128 bytes with 32-byte atoms: the document gives it atoms for MN-major only"
    elif not k_major and item == 4 and not wide:
        problem = (
            f"{swizzle}: an MN-major matrix of 32-bit elements allows only 1, 128 bytes with 32-byte atoms"
        )
    elif not k_major and item == 2 and wide:
        problem = (
            "1, 128 bytes with 32-byte atoms: an MN-major matrix of 16-bit elements takes any mode but this"
        )
    if problem:
        raise FieldError("swizzling mode (bits 61 to 63)", problem)


def chunk_offsets(
    descriptor: MatrixDescriptor, chunks: int, rows: int, *, k_major: bool, item: int | None = None
) -> NDArray[np.int64]:
    """The addresses of a matrix's 16-byte chunks in shared memory, in bytes: shape (rows, chunks).

    K-major: `rows` of M or N, `chunks` along K. MN-major: `rows` of K, `chunks` along M or N. `item` is an
    element's size in bytes; it is needed to check the rules for MN-major matrices.

    Errors:     FieldError.
    Simplified: the document says how to compute the base offset and not how it is applied: here it is the
                number of the 128-byte row from which the pattern counts. For a swizzle with atoms of 4
                columns, the document says that SBO leads from 8 columns to the next 8; here, as in
                CUTLASS's make_umma_desc, it leads from one atom to the next.

    >>> found = chunk_offsets(decode_matrix(0x4000_4040_0001_0040), 2, 9, k_major=True)
    >>> found[[0, 1, 8]].tolist()
    [[1024, 1040], [1168, 1152], [2048, 2064]]
    """
    swizzle, leading, stride = descriptor.swizzle, descriptor.leading, descriptor.stride
    _check_layout(swizzle, k_major=k_major, item=item)
    row = np.arange(rows, dtype=np.int64)[:, None]
    chunk = np.arange(chunks, dtype=np.int64)[None, :]
    span = 128 if swizzle == _WIDE_ATOMS else SPANS[swizzle]
    if k_major and not span:
        offset = row % _ATOM * CHUNK + row // _ATOM * stride + chunk * leading
    elif k_major:
        offset = row % _ATOM * span + row // _ATOM * stride + chunk * CHUNK
    elif not span:
        offset = chunk * stride + row % _ATOM * CHUNK + row // _ATOM * leading
    else:
        wide, atom = span // CHUNK, 4 if swizzle == _WIDE_ATOMS else _ATOM
        offset = chunk % wide * CHUNK + chunk // wide * leading + row % atom * span + row // atom * stride
    address = descriptor.start + offset
    if swizzle == _WIDE_ATOMS:
        return address ^ (((address >> 7) - descriptor.base & 3) << 5)
    return swizzled(address, swizzle, descriptor.base)


# --- the instruction --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """Shape and types of one tcgen05.mma: D (m x n) = A (m x k) * B (k x n) + D."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    negate_a: bool
    negate_b: bool
    a_k_major: bool
    b_k_major: bool
    saturate: bool = False
    """True if a sum of integers that is too large becomes the largest one."""
    scales: str = ""
    """The type of the scale factors; empty without any."""
    scale_ids: tuple[int, int] = (0, 0)
    """The byte of a word in which the scale factors of A and of B begin."""


_NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_TRANSPOSED = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"}
"""The types of which a matrix may be MN-major."""
_TYPES = {
    "f16": ({0: "f16", 1: "f32"}, {0: "f16", 1: "bf16"}, 16),
    "tf32": ({1: "f32"}, {2: "tf32"}, 8),
    "f8f6f4": ({0: "f16", 1: "f32"}, _NARROW, 32),
    "i8": ({2: "s32"}, {0: "u8", 1: "s8"}, 32),
    "mxf8f6f4": ({}, _NARROW, 32),
    "mxf4": ({}, {1: "e2m1"}, 64),
    "mxf4nvf4": ({}, {1: "e2m1"}, 64),
}
# For each number of scale factors in a row of K: the bytes of a word at which they may begin.
_SCALE_IDS = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
# The shapes by (CTAs, M): the smallest N and the step between them.
_SHAPES = {(1, 64): 8, (1, 128): 8, (2, 128): 16, (2, 256): 16}
_SCALED_SHAPES = {(1, 128): 8, (2, 128): 16, (2, 256): 16}
_INTEGER_SHAPES = {(1, 64): 8, (1, 128): 16, (2, 128): 32, (2, 256): 32}
_MOST_N = 256
_WHOLE_N = 32
"""From here on, integers allow only every second N of M = 64."""


@cache
def decode_instruction(bits: int, kind: str, group: int) -> InstructionDescriptor:
    """Read the instruction descriptor of a kind without scale factors. Errors: FieldError.

    >>> found = decode_instruction(0x0820_0010, "f16", 1)
    >>> found.m, found.n, found.k, found.d, found.a, found.b
    (128, 128, 16, 'f32', 'f16', 'f16')
    """
    results, operands, k = _TYPES[kind]
    integers = kind == "i8"
    _check_zero(
        bits,
        kind,
        ("sparsity selector (bits 0 to 1)", 0, 1),
        *([("negate A (bit 13)", 13, 13), ("negate B (bit 14)", 14, 14)] if integers else []),
        *([] if integers else [("saturate (bit 3)", 3, 3)]),
        ("bit 6", 6, 6),
        ("bit 23", 23, 23),
        ("bit 29", 29, 29),
        ("maximum shift (bits 30 to 31)", 30, 31),
    )
    d = _type(bits, kind, "dtype, the type of D", 4, results)
    a, b = _operand_types(bits, kind, operands)
    if d == "f16" and "bf16" in {a, b}:
        raise FieldError("dtype, the type of D (bits 4 to 5)", "0 (f16), which is for f16 operands only")
    m, n = _shape(bits, group, _INTEGER_SHAPES if integers else _SHAPES)
    if integers and n > _WHOLE_N and n % 16:
        raise FieldError("N (bits 17 to 22)", f"{n}; above {_WHOLE_N} it must be a multiple of 16")
    return InstructionDescriptor(
        m=m,
        n=n,
        k=k,
        d=d,
        a=a,
        b=b,
        negate_a=bool(field_of(bits, 13, 13)),
        negate_b=bool(field_of(bits, 14, 14)),
        a_k_major=not field_of(bits, 15, 15),
        b_k_major=not field_of(bits, 16, 16),
        saturate=bool(field_of(bits, 3, 3)),
    )


@cache
def decode_scaled_instruction(bits: int, kind: str, group: int, block: int) -> InstructionDescriptor:
    """Read the instruction descriptor of a kind with scale factors, one for each `block` elements along K.

    Errors:     FieldError.
    Source:     PTX ISA 9.0, Instruction descriptor for .kind::mxf8f6f4, mxf4 and mxf4nvf4; CUTLASS 4.2.0,
                include/cute/arch/mma_sm100_desc.hpp, UMMA::InstrDescriptorBlockScaled.

    >>> found = decode_scaled_instruction(0x28A0_0000, "mxf8f6f4", 1, 32)
    >>> found.m, found.n, found.k, found.a, found.scales, found.scale_ids
    (128, 128, 32, 'e4m3', 'ue8m0', (1, 0))
    """
    _, operands, k = _TYPES[kind]
    _check_zero(
        bits,
        kind,
        ("sparsity selector (bits 0 to 1)", 0, 1),
        ("bit 3", 3, 3),
        ("bit 6", 6, 6),
        ("K size (bit 31)", 31, 31),
    )
    # Where all elements have 4 bits, btype has two bits, and bit 12 is for a sparse A alone.
    a, b = _operand_types(bits & ~(kind.startswith("mxf4") << 12), kind, operands)
    m, n = _shape(bits, group, _SCALED_SHAPES)
    scales = "ue8m0" if field_of(bits, 23, 23) else "ue4m3"
    if scales == "ue4m3" and not (kind == "mxf4nvf4" and block == 16):
        raise FieldError(
            "scale matrix type (bit 23)", f"0 (ue4m3); .kind::{kind} has 1 (ue8m0) for blocks of {block}"
        )
    ids = []
    for name, low in (("A", 29), ("B", 4)):
        ids.append(field_of(bits, low, low + 1))
        allowed = _SCALE_IDS[k // block]
        if ids[-1] not in allowed:
            raise FieldError(
                f"scale factor data ID of {name} (bits {low} to {low + 1})",
                f"{ids[-1]}; {k // block} for each row begin at {' or '.join(map(str, allowed))}",
            )
    return InstructionDescriptor(
        m=m,
        n=n,
        k=k,
        d="f32",
        a=a,
        b=b,
        negate_a=bool(field_of(bits, 13, 13)),
        negate_b=bool(field_of(bits, 14, 14)),
        a_k_major=not field_of(bits, 15, 15),
        b_k_major=not field_of(bits, 16, 16),
        scales=scales,
        scale_ids=(ids[0], ids[1]),
    )


def _check_zero(bits: int, kind: str, *fields: tuple[str, int, int]) -> None:
    """Refuse sparsity, and fields that are not zero."""
    if field_of(bits, 2, 2):
        raise FieldError("sparsity (bit 2)", "set: tcgen05.mma without .sp takes dense matrices")
    for name, low, high in fields:
        if field_of(bits, low, high):
            raise FieldError(f"{name} of the instruction descriptor", f"must be 0 for .kind::{kind} here")


def _type(bits: int, kind: str, name: str, low: int, known: dict[int, str]) -> str:
    high = low + (1 if low == 4 else 2)
    code = field_of(bits, low, high)
    if code not in known:
        allowed = ", ".join(f"{each} ({type_})" for each, type_ in known.items())
        raise FieldError(f"{name} (bits {low} to {high})", f"{code}; .kind::{kind} has {allowed}")
    return known[code]


def _operand_types(bits: int, kind: str, known: dict[int, str]) -> tuple[str, str]:
    """The types of A and B, of which some are K-major only."""
    a, b = (
        _type(bits, kind, f"{x.lower()}type, the type of {x}", low, known) for x, low in (("A", 7), ("B", 10))
    )
    for name, place, found in (("A", 15, a), ("B", 16, b)):
        if field_of(bits, place, place) and found not in _TRANSPOSED:
            raise FieldError(f"transpose {name} (bit {place})", f"set, but a matrix of {found} is K-major")
    return a, b


def _shape(bits: int, group: int, shapes: dict[tuple[int, int], int]) -> tuple[int, int]:
    """M and N."""
    m, n = field_of(bits, 24, 28) << 4, field_of(bits, 17, 22) << 3
    step = shapes.get((group, m))
    if step is None:
        known_m = " or ".join(str(shape) for ctas, shape in shapes if ctas == group)
        raise FieldError("M (bits 24 to 28)", f"{m}; .cta_group::{group} has {known_m}")
    if n % step or not step <= n <= _MOST_N:
        raise FieldError(
            "N (bits 17 to 22)", f"{n}; with M = {m} it must be a multiple of {step} from {step} to {_MOST_N}"
        )
    return m, n


@dataclass(frozen=True, eq=False, slots=True)
class SharedMatrix:
    """A CTA's part of a matrix in shared memory."""

    chunks: NDArray[np.int64]
    """The numbers of its chunks, by row of M or N if the matrix is K-major, else by row of K."""
    stop: int
    """The byte past the last one."""
    first: int
    """The number of the lowest chunk."""

    def span(self, start: int) -> tuple[int, int]:
        """The lowest and the highest chunk, where the CTA's chunks are counted from `start`."""
        return start + self.first, start + self.stop // CHUNK - 1


@lru_cache(maxsize=4096)
def shared_matrix(
    decode: Callable[[int], MatrixDescriptor], bits: int, extent: int, k: int, item: int, *, k_major: bool
) -> SharedMatrix:
    """The matrix that a descriptor's bits stand for: `extent` rows of M or N, and `k`.

    item    bytes of an element.
    decode  reads the bits. Errors: those of `decode`, and as for `chunk_offsets`.
    """
    per_chunk = CHUNK // item
    chunks, rows = (k // per_chunk, extent) if k_major else (extent // per_chunk, k)
    found = chunk_offsets(decode(bits), chunks, rows, k_major=k_major, item=item)
    return SharedMatrix(found // CHUNK, int(found.max()) + CHUNK, int(found.min()) // CHUNK)


def matrix_of(
    origin: Origin,
    name: str,
    decode: Callable[[int], MatrixDescriptor],
    bits: int,
    extent: int,
    k: int,
    item: int,
    *,
    k_major: bool,
) -> SharedMatrix:
    """`shared_matrix` for the descriptor `name` of an instruction. Errors: also AddressError."""
    found = shared_matrix(decode, bits, extent, k, item, k_major=k_major)
    limit = origin.bundle.program.shared_bytes
    if found.stop > limit:
        raise origin.error(
            AddressError,
            f"{name} 0x{bits:016x} reaches to byte {found.stop} of shared memory, but the CTA has only"
            f" {limit}",
        )
    return found


@dataclass(frozen=True, eq=False, slots=True)
class MultipliedMatrix:
    """A matrix that an MMA reads from the shared memory of each CTA that has a part of it."""

    name: str
    """"A" or "B"."""
    bits: int
    descriptor: MatrixDescriptor
    """The bits, decoded."""
    places: NDArray[np.int64]
    """The numbers of its chunks in the cohort, shape (CTAs, rows, chunks); rows as in `SharedMatrix`."""
    spans: list[tuple[int, int]]
    """The lowest and the highest of them, for each CTA."""
    kind: str
    """The type of its elements, as PTX names it."""
    item: int
    """Bytes of an element."""
    k_major: bool
