"""ldmatrix, stmatrix and movmatrix: small matrices between shared memory and a warp's registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DType, b8, b16, dtype
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps, whole_warps
from cutecourse.emulator.instructions.mma.fragments import (
    Fragment,
    byte_accumulator,
    byte_columns,
    byte_rows,
    ldmatrix_fragment,
)
from cutecourse.emulator.instructions.mma.mma import pack_elements, unpack_elements
from cutecourse.emulator.instructions.stating import by_modifiers, shared_space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.numbers.narrow import unpacked
from cutecourse.ptx.syntax import Instruction
from cutecourse.trace.words import number

__all__: list[str] = []


def _facts(one: Instruction, *, reads: bool = False, writes: bool = False) -> Facts:
    return Facts(uses=(MemoryUse(shared_space_of(one), CHUNK, reads=reads, writes=writes),), passes="rows")


@instruction("ldmatrix.sync", facts=by_modifiers(partial(_facts, reads=True)))
def ldmatrix(site: Site) -> Step:
    """Load one, two or four matrices of 16-bit or 8-bit elements, each row from an address that a lane gives.

    Shapes:     .m8n8: register j of lane l gets elements 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 of
                matrix j; with `.trans`, of its transpose. Row r of matrix j is the 16 bytes at the address of
                lane 8 * j + r. .m8n16: the same with four elements of 8 bits from 4 * (l % 4) on. .m16n16
                with .trans: 16 rows, and two registers for columns l / 4 and l / 4 + 8, rows 4 * (l % 4) to
                4 * (l % 4) + 3. With .b8x16, the elements of a row are packed in its first 12 or 8 bytes, and
                come to the lower bits of bytes.
    Units:      addresses in bytes, multiples of 16; only those of the lanes that give a row are used.
    Errors:     AddressError, AlignmentError, UninitializedRead, DivergedWarp.
    Simplified: with .b8x16, the bytes of a row that hold no element must have been written too.
    Source:     PTX ISA 9.0, ldmatrix (#warp-level-matrix-instructions-ldmatrix); the registers of .m16n16:
                CUTLASS 4.5, examples/python/CuTeDSL/experimental/primitives/ldmatrix_stmatrix.py, whose
                kernel_b8_roundtrip joins this instruction to stmatrix.
    """
    form = _load_form(site)
    space = _take_space(site)
    fragment, n = form.fragment, form.n_matrices
    registers = site.destinations(0, "u32")
    _count(site, len(registers), n * fragment.n_registers)
    address = site.address(1)
    rows_of = Access(site, space, form.bytes, CHUNK // form.bytes, reads=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        read = rows_of.load(bundle, address.lanes(bundle), _address_lanes(bundle, warps, form.n_rows))
        rows = read.reshape(-1, n, fragment.n_rows, CHUNK // form.bytes)
        matrices = (
            rows
            if form.packed is None
            else unpacked(rows[..., : 2 * form.packed].astype(np.uint8), form.packed)
        )
        packed = pack_elements(fragment.scatter(matrices), form.element)
        held = packed.swapaxes(-1, 2).reshape(-1, len(registers), WARP_SIZE)
        for index, slot in enumerate(registers):
            bundle.rows["u32"][slot][warps] = held[:, index]

    return step


@instruction("stmatrix.sync", facts=by_modifiers(partial(_facts, writes=True)))
def stmatrix(site: Site) -> Step:
    """Store one, two or four matrices of 16-bit or 8-bit elements, each row to an address that a lane gives.

    Shapes:     .m8n8 as for ldmatrix, the other way round. .m16n8 with .trans: column c of matrix j is the 16
                bytes at the address of lane 8 * j + c; register j of lane l has the elements of columns
                2 * (l % 4) and 2 * (l % 4) + 1, first of row l / 4, then of row l / 4 + 8.
    Units:      addresses in bytes, multiples of 16; only those of lanes 0 to 8 * (number of matrices) - 1
                are used.
    Errors:     AddressError, AlignmentError, DivergedWarp.
    Simplified: if rows overlap, the row of the last lane wins.
    Source:     PTX ISA 9.0, stmatrix (#warp-level-matrix-instructions-stmatrix); .m16n8: CUTLASS 4.2.0,
                include/cute/atom/copy_traits_sm100.hpp, Copy_Traits<SM100_U8x4_STSM_T>.
    """
    form = _store_form(site)
    space = _take_space(site)
    fragment, n = form.fragment, form.n_matrices
    address = site.address(0)
    registers = site.sources(1, "u32")
    _count(site, len(registers), n)
    rows_of = Access(site, space, form.bytes, CHUNK // form.bytes, writes=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        held = np.stack([bundle.rows["u32"][slot][warps] for slot in registers], axis=1)
        matrices = fragment.gather(unpack_elements(held[..., None], form.element))
        lanes = _address_lanes(bundle, warps, form.n_rows)
        rows = matrices.astype(f"u{form.bytes}")
        shape = (-1, rows.shape[-1]) if lanes is not None else (-1, WARP_SIZE, rows.shape[-1])
        rows_of.store(bundle, address.lanes(bundle), lanes, rows.reshape(shape))

    return step


@instruction("movmatrix.sync")
def movmatrix(site: Site) -> Step:
    """Transpose one 8 x 8 matrix of 16-bit elements inside a warp's registers.

    Shapes:     source and destination hold two elements of the matrix in each lane, as ldmatrix leaves them.
    Errors:     DivergedWarp.
    Source:     PTX ISA 9.0, movmatrix (#warp-level-matrix-instructions-movmatrix).
    """
    site.expect("aligned")
    site.expect("m8n8")
    site.expect("trans")
    site.type("b16")
    site.converge()
    d, a = site.destination(0, "u32"), site.source(1, "u32")
    straight, turned = ldmatrix_fragment(False), ldmatrix_fragment(True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        matrix = straight.gather(unpack_elements(bundle.rows["u32"][a][warps][..., None], b16))
        bundle.rows["u32"][d][warps] = pack_elements(turned.scatter(matrix), b16)[..., 0]

    return step


@dataclass(frozen=True)
class _Form:
    """The matrices of an instruction: how many, which lane holds which element, and how memory holds one."""

    n_matrices: int
    fragment: Fragment
    element: DType
    packed: int | None = None
    """The bits of an element in memory, if they are fewer than in a register."""

    @property
    def bytes(self) -> int:
        """The bytes of an element in a register."""
        return self.element.bits // 8

    @property
    def n_rows(self) -> int:
        """The rows of all matrices, each with an address of its own."""
        return self.n_matrices * self.fragment.n_rows


_PACKED = {"b6x16_p32": 6, "b4x16_p64": 4}


def _load_form(site: Site) -> _Form:
    """Take the shape, the number of matrices, .trans and the types of ldmatrix."""
    site.expect("aligned")
    shape = site.expect("m8n8", "m8n16", "m16n16")
    n = int(site.expect("x1", "x2", "x4")[1:])
    transposed = site.has("trans")
    site.converge()
    packed = None
    if site.has("b8x16"):
        packed = _PACKED[site.expect(*_PACKED)]
        element = b8
    else:
        element = dtype(site.type("b16", "b8"))
    if shape == "m8n8":
        _require(site, element is b16, ".m8n8 has elements of type .b16")
        return _Form(n, ldmatrix_fragment(transposed), b16)
    _require(site, element is b8, f".{shape} has elements of 8 bits: .b8, or .b8x16 and a packed format")
    if shape == "m8n16":
        _require(site, packed is not None and not transposed, ".m8n16 takes .b8x16 and no .trans")
        return _Form(n, byte_rows(), b8, packed)
    _require(site, transposed and n < 4, ".m16n16 comes with .trans, and as .x1 or .x2")
    return _Form(n, byte_columns(), b8, packed)


def _store_form(site: Site) -> _Form:
    """Take the shape, the number of matrices, .trans and the type of stmatrix."""
    site.expect("aligned")
    shape = site.expect("m8n8", "m16n8")
    n = int(site.expect("x1", "x2", "x4")[1:])
    transposed = site.has("trans")
    site.converge()
    element = dtype(site.type("b16", "b8"))
    if shape == "m8n8":
        _require(site, element is b16, ".m8n8 has elements of type .b16")
        return _Form(n, ldmatrix_fragment(transposed), b16)
    _require(site, element is b8 and transposed, ".m16n8 comes with .trans and .b8")
    return _Form(n, byte_accumulator(), b8)


def _require(site: Site, holds: bool, why: str) -> None:
    if not holds:
        site.unsupported(why)


def _take_space(site: Site) -> str:
    return "shared" if site.one_of("shared", "shared::cta") else "generic"


def _count(site: Site, given: int, wanted: int) -> None:
    if given != wanted:
        site.invalid(f"{site.instruction.name} takes {number(wanted, 'register')}, but {given} are given")


def _address_lanes(bundle: Bundle, warps: slice | NDArray[np.intp], n_rows: int) -> Mask:
    """The lanes whose addresses are used."""
    if n_rows == WARP_SIZE and isinstance(warps, slice):
        return None
    lanes = np.zeros_like(bundle.full)
    lanes[warps, :n_rows] = True
    return lanes
