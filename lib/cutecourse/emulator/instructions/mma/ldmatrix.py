"""ldmatrix, stmatrix and movmatrix: 8 x 8 matrices between shared memory and a warp's registers."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import b16
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps, whole_warps
from cutecourse.emulator.instructions.mma.fragments import ldmatrix_fragment
from cutecourse.emulator.instructions.mma.mma import pack_elements, unpack_elements
from cutecourse.emulator.instructions.stating import by_modifiers, shared_space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []


def _facts(one: Instruction, *, reads: bool = False, writes: bool = False) -> Facts:
    return Facts(uses=(MemoryUse(shared_space_of(one), CHUNK, reads=reads, writes=writes),), passes="rows")


@instruction("ldmatrix.sync", facts=by_modifiers(partial(_facts, reads=True)))
def ldmatrix(site: Site) -> Step:
    """Load one, two or four 8 x 8 matrices of 16-bit elements, each row from an address that one lane gives.

    Shapes:     register j of lane l gets elements 2 * (l % 4) and 2 * (l % 4) + 1 of row l / 4 of matrix j;
                with `.trans`, of its transpose. Row r of matrix j is the 16 bytes at the address of lane
                8 * j + r.
    Units:      addresses in bytes, multiples of 16; only those of lanes 0 to 8 * (number of matrices) - 1
                are used.
    Errors:     AddressError, AlignmentError, UninitializedRead, DivergedWarp.
    Source:     PTX ISA 9.0, ldmatrix (#warp-level-matrix-instructions-ldmatrix).
    """
    n_matrices, transposed, space = _form(site)
    fragment = ldmatrix_fragment(transposed)
    registers = site.destinations(0, "u32")
    _count(site, len(registers), n_matrices)
    address = site.address(1)
    rows_of = Access(site, space, 2, 8, reads=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        read = rows_of.load(bundle, address.lanes(bundle), _address_lanes(bundle, warps, n_matrices))
        matrices = read.reshape(-1, n_matrices, 8, 8)
        held = pack_elements(fragment.scatter(matrices), b16)[..., 0]
        for matrix, slot in enumerate(registers):
            bundle.rows["u32"][slot][warps] = held[:, matrix]

    return step


@instruction("stmatrix.sync", facts=by_modifiers(partial(_facts, writes=True)))
def stmatrix(site: Site) -> Step:
    """Store one, two or four 8 x 8 matrices of 16-bit elements, each row to an address that one lane gives.

    Shapes:     as for ldmatrix, the other way round.
    Units:      addresses in bytes, multiples of 16; only those of lanes 0 to 8 * (number of matrices) - 1
                are used.
    Errors:     AddressError, AlignmentError, DivergedWarp.
    Simplified: if rows overlap, the row of the last lane wins.
    Source:     PTX ISA 9.0, stmatrix (#warp-level-matrix-instructions-stmatrix).
    """
    n_matrices, transposed, space = _form(site)
    fragment = ldmatrix_fragment(transposed)
    address = site.address(0)
    registers = site.sources(1, "u32")
    _count(site, len(registers), n_matrices)
    rows_of = Access(site, space, 2, 8, writes=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        held = np.stack([bundle.rows["u32"][slot][warps] for slot in registers], axis=1)
        matrices = fragment.gather(unpack_elements(held[..., None], b16)).astype(np.uint16)
        lanes = _address_lanes(bundle, warps, n_matrices)
        values = matrices.reshape(-1, 8) if lanes is not None else matrices.reshape(-1, WARP_SIZE, 8)
        rows_of.store(bundle, address.lanes(bundle), lanes, values)

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


def _form(site: Site) -> tuple[int, bool, str]:
    site.expect("aligned")
    site.expect("m8n8")
    n_matrices = int(site.expect("x1", "x2", "x4")[1:])
    transposed = site.has("trans")
    space = "shared" if site.one_of("shared", "shared::cta") else "generic"
    site.type("b16")
    site.converge()
    return n_matrices, transposed, space


def _count(site: Site, given: int, n_matrices: int) -> None:
    if given != n_matrices:
        site.invalid(f"{site.instruction.name} takes {n_matrices} registers, but {given} are given")


def _address_lanes(bundle: Bundle, warps: slice | NDArray[np.intp], n_matrices: int) -> Mask:
    """The lanes whose addresses are used."""
    if n_matrices == 4 and isinstance(warps, slice):
        return None
    lanes = np.zeros_like(bundle.full)
    lanes[warps, : 8 * n_matrices] = True
    return lanes
