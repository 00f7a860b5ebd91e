"""atom and red: read, change and write a word of memory in one step, with no other access in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.memory.load_store import take_vector
from cutecourse.emulator.instructions.stating import by_modifiers, bytes_of, space_of
from cutecourse.emulator.memory.access import Access, Part
from cutecourse.emulator.numbers.exact import first_nan
from cutecourse.emulator.numbers.reductions import INTEGER_OPERATIONS, reduction
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

Words = NDArray[Any]
Update = Callable[[Words, Words, Words], Words]
"""(old word in memory, operand b, operand c or else b) -> new word in memory, all as unsigned words."""

_WORD = 8
"""Bytes of the largest word that NumPy computes with."""
_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
}
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_FLOATS = (*_HALVES, "f32", "f64")


@by_modifiers
def _facts(one: Instruction) -> Facts:
    return Facts(
        uses=(MemoryUse(space_of(one), bytes_of(one), reads=True, writes=True),),
        publishes=True,
        depends_on_order=one.opcode == "atom",
    )


@instruction("atom", "red", facts=_facts)
def atom(site: Site) -> Step:
    """Change a word of memory atomically; atom returns the word's old value.

    Shapes:     d, b and c are registers of the type. red has no d. Only cas has c: it compares with b and
                stores c.
    Units:      addresses in bytes, multiples of the access's size. A word of 128 bits is two of 64.
    Errors:     AddressError, AlignmentError, UninitializedRead (shared memory that nobody has written).
    Simplified: lanes that use one address take turns in the order of their numbers; the hardware's order is
                not defined. Memory order and scope have no effect. add.f32 flushes subnormals in global
                memory and keeps them in shared memory, as the ISA says of today's implementation.
    Source:     PTX ISA 9.0, atom (#parallel-synchronization-and-communication-instructions-atom), red
                (#parallel-synchronization-and-communication-instructions-red).
    """
    returns = site.instruction.opcode == "atom"
    site.one_of("relaxed", "acquire", "release", "acq_rel")
    site.one_of("cta", "cluster", "gpu", "sys")
    space = site.one_of("global", "shared", "shared::cta", "shared::cluster") or "generic"
    space = "shared" if space == "shared::cta" else space
    name = site.expect(*_TYPES)
    if not returns and name in ("exch", "cas"):
        site.unsupported(f"red has no .{name}")
    hinted = site.has("L2::cache_hint")
    noftz = site.has("noftz")
    count = take_vector(site)
    extreme = count > 1 and name in ("min", "max")
    type_name = site.type(*(_HALVES if extreme else _TYPES[name]))
    if noftz != (type_name in _HALVES):
        site.unsupported(f"{name}.{type_name} {'needs' if not noftz else 'has no'} .noftz")
    if count > 1 and not (space == "global" and type_name in _FLOATS and (name == "add" or extreme)):
        site.unsupported("a vector is possible only for add, min and max of floats in global memory")

    n_bytes = KINDS[type_name][0] // 8
    is_wide = n_bytes > _WORD
    if is_wide:
        n_bytes, count = _WORD, n_bytes // _WORD
    kind = f"u{8 * n_bytes}"
    first = 1 if returns else 0

    def parts(slots: list[int]) -> list[int]:
        return site.part_slots("u128", slots[0], "u64") if is_wide else slots

    whole = "u128" if is_wide else kind
    results = parts(site.destinations(0, whole)) if returns else []
    address = site.address(first)
    operands = [parts(site.sources(first + 1, whole))]
    if name == "cas":
        operands.append(parts(site.sources(first + 2, whole)))
    expected = first + 1 + len(operands) + hinted
    if len(site.operands) != expected or any(len(slots) != count for slots in operands):
        site.invalid(f"{site.instruction.name} takes {expected} operands with {count} registers each")
    access = Access(site, space, n_bytes, count, reads=True, writes=True, flags=True, kind=type_name)
    shared_update = _update(name, type_name, in_global=False)
    global_update = _update(name, type_name, in_global=True)
    # A `red` returns no old values, so an operation with the same result in any order needs no order.
    unordered = None if returns or type_name in _FLOATS else INTEGER_OPERATIONS.get(name)
    signed = type_name[0] == "s"

    def step(bundle: Bundle, mask: Mask) -> None:
        def held(slots: list[int]) -> Words:
            rows = [bundle.rows[kind][slot].reshape(-1) for slot in slots]
            return rows[0] if count == 1 else np.stack(rows, axis=-1)

        values = [held(slots) for slots in operands]
        before = np.zeros((bundle.n * WARP_SIZE, *((count,) if count > 1 else ())), dtype=f"u{n_bytes}")
        for part in access.parts(bundle, address.lanes(bundle), mask):
            lanes = np.arange(bundle.n * WARP_SIZE) if part.lanes is None else part.lanes
            given = [value[lanes] for value in values]
            if unordered is not None:
                target = part.words.view(f"i{n_bytes}") if signed else part.words
                unordered.at(target, part.index.reshape(-1), given[0].view(target.dtype))
            else:
                update = global_update if part.in_global else shared_update
                before[lanes] = _one_after_the_other(part, given, update)
            if part.written is not None:
                part.written[part.index] = part.written.dtype.type(-1 % (1 << (8 * n_bytes)))
        shape = (bundle.n, WARP_SIZE)
        for index, slot in enumerate(results):
            column = before if count == 1 else before[:, index]
            put(bundle.rows[kind][slot], column.reshape(shape), mask)

    return step


def _one_after_the_other(part: Part, given: list[Words], update: Update) -> Words:
    """Apply the lanes' updates, those of one address in turn; return the old word that each lane found."""
    index = part.index.reshape(-1)
    b, c = given[0], given[-1]
    before = np.empty_like(b)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else ordered
    turn = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    for now in range(int(turn.max()) + 1 if len(turn) else 0):
        lanes = order[turn == now]
        before[lanes] = part.words[index[lanes]]
        part.words[index[lanes]] = update(before[lanes], b[lanes], c[lanes])
    return before


def _update(name: str, type_name: str, *, in_global: bool) -> Update:
    if name == "exch":
        return lambda old, b, c: b
    if name == "cas" and type_name == "b128":
        return lambda old, b, c: np.where((old == b).all(axis=-1, keepdims=True), c, old)
    if name == "cas":
        return lambda old, b, c: np.where(old == b, c, old)
    if type_name == "f64" and not in_global:
        return _add_f64_in_shared
    kind = type_name.removesuffix("x2")
    combine = reduction(name, "f32_ftz" if kind == "f32" and in_global else kind)
    if kind == type_name:
        return lambda old, b, c: combine(old, b)
    return lambda old, b, c: combine(old.view(np.uint16), b.view(np.uint16)).view(old.dtype)


def _add_f64_in_shared(old: Words, b: Words, c: Words) -> Words:
    """Add in shared memory: unlike global memory, an SM passes on the first NaN and makes it quiet."""
    total = old.view(np.float64) + b.view(np.float64)
    return first_nan(total.view(np.uint64), old, b)
