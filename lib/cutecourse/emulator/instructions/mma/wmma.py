"""wmma: a warp loads, multiplies and stores matrices whose fragments only these instructions know.

The PTX ISA leaves open which lane holds which element. Here the fragments are those of mma.sync for the
blocks of 8 rows or columns of which a matrix consists, one behind the other, as ptxas makes them for sm_80.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DType, dtype
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps, whole_warps
from cutecourse.emulator.errors import AlignmentError, NonUniformOperand
from cutecourse.emulator.instructions.mma.fragments import Fragment
from cutecourse.emulator.instructions.mma.mma import MmaForm, operation_of, pack_elements, unpack_elements
from cutecourse.emulator.instructions.stating import by_modifiers, space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.numbers.formats import FORMATS, convert_float
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
    "m8n8k128": (8, 8, 128),
}
_FACTORS = {4: ("f64",), 8: ("tf32",), 16: ("f16", "bf16", "s8", "u8"), 32: ("s4", "u4"), 128: ("b1",)}
"""The types of A and B, by k."""
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
"""The types of C and D, by those of A and B; s32 for integers."""
_TYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s4", "u4", "b1", "s32")
_MOST_ALIGNMENT = 16
_F16_REGISTERS = 8
"""A fragment of A or B with elements of f16 has as many registers in every shape."""
_BLOCK = 8
_LANES_OF_ROW = 4


@cache
def _fragment(operand: str, shape: str, bits: int) -> Fragment:
    """The fragment of operand "a", "b", "c" or "d", without the elements that it holds more than once."""
    m, n, k = _SHAPES[shape]
    per_register = max(1, 32 // bits)
    side = 2 if operand in "cd" else per_register
    n_rows, n_cols = {"a": (m, k), "b": (n, k)}.get(operand, (m, n))
    lane = np.arange(WARP_SIZE)
    blocks = [
        (first_row + lane // _LANES_OF_ROW, first_col + lane % _LANES_OF_ROW * side + place)
        for first_col in range(0, n_cols, _LANES_OF_ROW * side)
        for first_row in range(0, n_rows, _BLOCK)
        for place in range(side)
    ]
    row, col = (np.stack(each, axis=1) for each in zip(*blocks, strict=True))
    if operand == "b":
        return Fragment(k, n, per_register, col, row)
    return Fragment(n_rows, n_cols, per_register, row, col)


def _repeats(operand: str, shape: str, element: str) -> int:
    """How many times the registers of a fragment hold all of its elements: several times with f16."""
    if operand in "cd" or element != "f16":
        return 1
    return _F16_REGISTERS // _fragment(operand, shape, 16).n_registers


@dataclass(frozen=True)
class _Held:
    """An operand: its type, its fragment, its registers."""

    element: DType
    fragment: Fragment
    rows_of: str
    slots: list[int]

    @classmethod
    def take(cls, site: Site, index: int, operand: str, shape: str, element: str, *, result: bool) -> _Held:
        """The operand at an index of an instruction."""
        kind = dtype(element)
        fragment = _fragment(operand, shape, kind.bits)
        rows_of = "u64" if kind.bits == 64 else "u32"
        slots = site.destinations(index, rows_of) if result else site.sources(index, rows_of)
        wanted = fragment.n_registers * _repeats(operand, shape, element)
        if len(slots) != wanted:
            site.invalid(
                f"{site.instruction.name} takes {wanted} registers for {operand.upper()}, and {len(slots)}"
                " are given"
            )
        return cls(kind, fragment, rows_of, slots)

    def registers(self, bundle: Bundle, warps: Any) -> NDArray[Any]:
        """The values of the registers, with each element once: (warps, 32, registers)."""
        rows = bundle.rows[self.rows_of]
        return np.stack([rows[slot][warps] for slot in self.slots[: self.fragment.n_registers]], axis=-1)

    def matrix(self, bundle: Bundle, warps: Any) -> NDArray[Any]:
        """The matrix that the registers hold."""
        return self.fragment.gather(unpack_elements(self.registers(bundle, warps), self.element))

    def put(self, bundle: Bundle, warps: Any, registers: NDArray[Any]) -> None:
        """Fill the registers."""
        rows = bundle.rows[self.rows_of]
        for index, slot in enumerate(self.slots):
            rows[slot][warps] = registers[..., index % self.fragment.n_registers]


class _Memory:
    """The matrix in memory that a load or a store names."""

    def __init__(self, site: Site, operand: str, *, stores: bool) -> None:
        site.expect("sync")
        site.expect("aligned")
        self.site = site
        by_rows = site.expect("row", "col") == "row"
        shape = site.expect(*_SHAPES)
        space = site.one_of("global", "shared", "shared::cta") or "generic"
        element = site.type(*_TYPES)
        known = _FACTORS[_SHAPES[shape][2]]
        if operand in "cd":
            known = tuple(dict.fromkeys(one for a in known for one in _SUMS.get(a, ("s32",))))
        if element not in known:
            site.unsupported(f"{operand.upper()} of .{shape} has the types {', '.join(known)}")
        site.converge()
        self.held = _Held.take(site, 1 if stores else 0, operand, shape, element, result=not stores)
        self.address = site.address(0 if stores else 1)
        bits, fragment = self.held.element.bits, self.held.fragment
        if bits < _BLOCK and by_rows == (operand == "b"):
            site.unsupported("A of elements of less than 8 bits is .row, and B is .col")
        # The elements of less than 8 bits that share a register are one word.
        self.elements_of_word = 32 // bits if bits < _BLOCK else 1
        self.bytes = bits * self.elements_of_word // 8
        outer, inner = (fragment.row, fragment.col) if by_rows else (fragment.col, fragment.row)
        self.outer = outer[:, :: self.elements_of_word]
        self.inner = inner[:, :: self.elements_of_word] // self.elements_of_word
        self.extent = fragment.n_cols if by_rows else fragment.n_rows
        self.stride = site.source(2, "u32") if len(site.operands) > 2 else None
        shared = "shared" if space == "shared::cta" else space
        self.alignment = min(_MOST_ALIGNMENT, max(4, bits // 8) * len(self.held.slots))
        self.access = Access(site, shared, self.bytes, 1, reads=not stores, writes=stores)

    def addresses(self, bundle: Bundle, mask: Mask) -> list[NDArray[Any]]:
        """The addresses of the lanes' first words, of their second ones, and so on. Errors: see `load`."""
        require_whole_warps(self.site, bundle, mask)
        base = self.address.lanes(bundle)
        stride = np.full_like(base, self.extent)
        if self.stride is not None:
            stride = bundle.rows["u32"][self.stride].astype(base.dtype)
        row_bits = stride * base.dtype.type(self.held.element.bits)
        row_bytes = row_bits // base.dtype.type(8)
        for what, values, unit in (("address", base, 1), ("stride", row_bits, 8)):
            lanes = bundle.lanes(mask)
            found = np.broadcast_to(values, (bundle.n, WARP_SIZE)).reshape(-1)[lanes]
            odd = np.flatnonzero(found % (unit * self.alignment))
            if odd.size:
                number = int(found[odd[0]])
                shown = f"0x{number:x}" if unit == 1 else f"of {number / unit:g} bytes"
                problem = f"the {what} {shown} is not a multiple of {self.alignment} bytes"
                raise self.site.error(AlignmentError, problem, bundle, int(lanes[odd[0]]))
            apart = np.flatnonzero(found != np.repeat(found[::WARP_SIZE], WARP_SIZE))
            if apart.size:
                problem = f"the {what} must be the same in all lanes of the warp"
                raise self.site.error(NonUniformOperand, problem, bundle, int(lanes[apart[0]]))
        return [
            base
            + self.outer[:, word].astype(base.dtype) * row_bytes
            + (self.inner[:, word] * self.bytes).astype(base.dtype)
            for word in range(self.outer.shape[1])
        ]


def _memory_facts(one: Instruction, *, reads: bool = False, writes: bool = False) -> Facts:
    bits = dtype(next((name for name in one.modifiers if name in _TYPES), "s32")).bits
    use = MemoryUse(space_of(one), bits // 8 if bits >= _BLOCK else 4, reads=reads, writes=writes)
    return Facts(category="MMA", uses=(use,))


@instruction("wmma.load", facts=by_modifiers(partial(_memory_facts, reads=True)))
def load(site: Site) -> Step:
    """Load a matrix from memory into the registers of a warp.

    Shapes:     A is m x k, B is k x n, C is m x n. The address is that of the first element; rows (.row) or
                columns (.col) lie a stride apart, side by side if none is given.
    Units:      the address in bytes, the stride in elements.
    Errors:     AddressError, AlignmentError, UninitializedRead, NonUniformOperand, DivergedWarp.
    Simplified: which lane holds which element is left open by the ISA. It asks for an address and rows at
                multiples of the fragment's bytes in a lane, such as 32, and CUDA C++ for an address at a
                multiple of 32; here multiples of 16 are enough for both.
    Source:     PTX ISA 9.0, wmma.load (#warp-level-matrix-instructions-wmma-ld).
    """
    memory = _Memory(site, site.expect("a", "b", "c"), stores=False)
    held = memory.held

    def step(bundle: Bundle, mask: Mask) -> None:
        words = [
            memory.access.load(bundle, address, mask).reshape(-1, WARP_SIZE)
            for address in memory.addresses(bundle, mask)
        ]
        found = np.stack(words, axis=-1)
        registers = found if memory.elements_of_word > 1 else pack_elements(found, held.element)
        held.put(bundle, whole_warps(bundle, mask), registers)

    return step


@instruction("wmma.store", facts=by_modifiers(partial(_memory_facts, writes=True)))
def store(site: Site) -> Step:
    """Store a matrix from the registers of a warp to memory.

    Shapes:     D is m x n, otherwise as wmma.load.
    Units:      as wmma.load.
    Errors:     AddressError, AlignmentError, ReadOnlyError, NonUniformOperand, DivergedWarp.
    Simplified: as wmma.load.
    Source:     PTX ISA 9.0, wmma.store (#warp-level-matrix-instructions-wmma-st).
    """
    memory = _Memory(site, site.expect("d"), stores=True)
    held = memory.held

    def step(bundle: Bundle, mask: Mask) -> None:
        addresses = memory.addresses(bundle, mask)
        registers = held.registers(bundle, whole_warps(bundle, mask))
        words = unpack_elements(registers, held.element).astype(f"u{memory.bytes}")
        for word, address in enumerate(addresses):
            values = words[..., word]
            memory.access.store(bundle, address, mask, values if mask is None else values.reshape(-1))

    return step


@instruction("wmma.mma", facts=Facts(category="MMA"))
def multiply(site: Site) -> Step:
    """Multiply two matrices and add a third, D = A * B + C, each in the registers of a warp.

    Shapes:     A is m x k, B is k x n, C and D are m x n, as wmma.load leaves them.
    Errors:     UnsupportedInstruction for a shape and types that cannot be combined, InvalidOperand for a
                wrong number of registers, DivergedWarp.
    Simplified: sums of floats are those of mma.sync, and those of f64 are rounded to nearest only (.rn).
    Source:     PTX ISA 9.0, wmma.mma (#warp-level-matrix-instructions-wmma-mma).
    """
    site.expect("sync")
    site.expect("aligned")
    layouts = site.one_of("row", "col"), site.one_of("row", "col")
    if None in layouts:
        site.unsupported("it needs the layouts of A and B")
    shape = site.expect(*_SHAPES)
    given = sum(modifier in _TYPES for modifier in site.modifiers)
    names = [site.type(*_TYPES) for _ in range(given)]
    d, a, b, c = names if given == len("dabc") else (names[0], "f16", "f16", names[-1])
    sums = _SUMS.get(a, ("s32",))
    one_by_one = given == len("dabc")
    if (
        a not in _FACTORS[_SHAPES[shape][2]]
        or b != a
        or d not in sums
        or c not in sums
        or one_by_one == (a == "f16")
    ):
        site.unsupported(f".{shape} has no form with A of {a}, B of {b}, C of {c} and D of {d}")
    if dtype(a).bits < _BLOCK and layouts != ("row", "col"):
        site.unsupported("A of elements of less than 8 bits is .row, and B is .col")
    total = "f32" if "f32" in (c, d) else d
    form = MmaForm(*_SHAPES[shape], total, a, b, total)
    operation = operation_of(site, form, None)
    site.converge()
    held = {
        name: _Held.take(site, index, name, shape, element, result=not index)
        for index, (name, element) in enumerate(zip("dabc", (d, a, b, c), strict=True))
    }

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)
        added = held["c"].matrix(bundle, warps)
        if c != total:
            added = convert_float(added, FORMATS[c], FORMATS[total])
        left, right = held["a"].matrix(bundle, warps), held["b"].matrix(bundle, warps)
        result = operation(bundle, warps, left, right, added)
        if d != total:
            result = convert_float(result, FORMATS[total], FORMATS[d])
        elements = held["d"].fragment.scatter(result)
        held["d"].put(bundle, warps, pack_elements(elements, held["d"].element))

    return step
