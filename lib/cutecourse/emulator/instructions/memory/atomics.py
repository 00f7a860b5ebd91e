"""atom and red: read-modify-write of one word of memory that nobody can come between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import decode, dtype, encode
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.memory.access import Access, Part
from cutecourse.emulator.numbers.exact import first_nan
from cutecourse.emulator.numbers.formats import FORMATS, flush_subnormals

__all__: list[str] = []

Words = NDArray[Any]
Update = Callable[[Words, Words, Words], Words]
"""(what is in memory, operand b, operand c if there is one) -> what memory holds next, as unsigned words."""

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_BYTES = {"f16": 2, "bf16": 2, "b16": 2, "f16x2": 4, "bf16x2": 4}
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
# Operations whose outcome does not depend on the order, so that a `red` need not keep one.
_UNORDERED: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@instruction("atom")
def atom(site: Site) -> Step:
    """Change a word of memory atomically and return its old value.

    Shapes:     d and b registers of the type, c too for cas (b the value to compare with, c the one to
                store).
    Units:      addresses in bytes, multiples of the access's size.
    Errors:     AddressError, AlignmentError, UninitializedRead (shared memory that nobody has written).
    Simplified: lanes that meet at one address go in the order of their numbers, and all orders and scopes are
                as strong as .sys: the hardware's order is not defined. atom.add.f32 flushes subnormals in
                global memory and keeps them in shared memory, as the ISA says of today's implementation.
    Source:     PTX ISA 9.0, atom (#parallel-synchronization-and-communication-instructions-atom).
    """
    return _define(site, returns=True)


@instruction("red")
def red(site: Site) -> Step:
    """Change a word of memory atomically and return nothing.

    Shapes:     b a register of the type.
    Units:      addresses in bytes, multiples of the access's size.
    Errors:     AddressError, AlignmentError, UninitializedRead (shared memory that nobody has written).
    Simplified: as for atom.
    Source:     PTX ISA 9.0, red (#parallel-synchronization-and-communication-instructions-red).
    """
    return _define(site, returns=False)


def _define(site: Site, *, returns: bool) -> Step:
    site.one_of("relaxed", "acquire", "release", "acq_rel")
    site.one_of("cta", "cluster", "gpu", "sys")
    space = site.one_of("global", "shared", "shared::cta", "shared::cluster", default="generic")
    space = "shared" if space == "shared::cta" else space
    name = site.expect(*_OPERATIONS)
    if not returns and name in ("exch", "cas"):
        site.unsupported(f"red has no .{name}")
    hinted = site.has("L2::cache_hint")
    noftz = site.has("noftz")
    count = _VECTORS[site.one_of(*_VECTORS) or "v1"] if set(_VECTORS) & set(site.modifiers) else 1
    type_name = site.type(*_TYPES[name])
    if noftz != (type_name in ("f16", "f16x2", "bf16", "bf16x2")):
        site.unsupported(f"add.{type_name} {'needs' if not noftz else 'has no'} .noftz")
    if count > 1 and (name != "add" or type_name not in _FLOATS or space != "global"):
        site.unsupported("a vector is possible only for add of floats in global memory")

    n_bytes = _BYTES.get(type_name) or int(type_name[1:]) // 8
    kind = f"u{8 * n_bytes}"
    first = 1 if returns else 0
    results = site.destinations(0, kind) if returns else []
    address = site.address(first)
    operands = [site.sources(first + 1, kind)]
    if name == "cas":
        operands.append(site.sources(first + 2, kind))
    expected = first + 1 + len(operands) + hinted
    if len(site.operands) != expected or any(len(slots) != count for slots in operands):
        site.invalid(f"{site.instruction.name} takes {expected} operands with {count} registers each")
    access = Access(site, space, n_bytes, count, reads=True, writes=True, flags=True)
    shared_update = _update(name, type_name, in_global=False)
    global_update = _update(name, type_name, in_global=True)
    whole_numbers = type_name not in _FLOATS
    unordered = _UNORDERED.get(name) if whole_numbers and not returns else None
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
                # Only shared memory keeps a record of writes.
                in_global = part.written is None
                update = global_update if in_global else shared_update
                before[lanes] = _one_after_the_other(part, given, update)
            if part.written is not None:
                part.written[part.index] = part.written.dtype.type(-1 % (1 << (8 * n_bytes)))
        shape = (bundle.n, WARP_SIZE)
        for index, slot in enumerate(results):
            column = before if count == 1 else before[:, index]
            put(bundle.rows[kind][slot], column.reshape(shape), mask)

    return step


def _one_after_the_other(part: Part, given: list[Words], update: Update) -> Words:
    """Apply the lanes' updates so that those of one address follow each other; give what each has found."""
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
    if name == "cas":
        return lambda old, b, c: np.where(old == b, c, old)
    if name == "inc":
        return lambda old, b, c: np.where(old >= b, np.uint32(0), old + np.uint32(1))
    if name == "dec":
        return lambda old, b, c: np.where((old == 0) | (old > b), b, old - np.uint32(1))
    if type_name == "f64":
        return _add_f64_in_global if in_global else _add_f64
    if type_name in _FLOATS:
        add = _float_add(type_name)
        if type_name == "f32" and in_global:
            return lambda old, b, c: _flushed(add(_flushed(old), _flushed(b), c))
        return add
    operation = _UNORDERED[name]
    if type_name[0] == "s":
        signed = f"i{int(type_name[1:]) // 8}"
        return lambda old, b, c: operation(old.view(signed), b.view(signed)).view(old.dtype)
    return lambda old, b, c: operation(old, b)


def _flushed(words: Words) -> Words:
    return flush_subnormals(words, FORMATS["f32"]).astype(words.dtype)


def _float_add(type_name: str) -> Update:
    """Add floats to nearest even; NaN is the canonical NaN. Packed types add each half on its own."""
    kind = dtype(type_name.removesuffix("x2"))
    element = np.dtype(f"u{kind.bits // 8}")
    nan = element.type(int(FORMATS[kind.name].nan))

    def add(old: Words, b: Words, c: Words) -> Words:
        x, y = (decode(np.ascontiguousarray(words).view(kind.numpy), kind) for words in (old, b))
        with np.errstate(all="ignore"):
            total = x + y
        # A sum of two bf16 in float32 has bits enough that rounding it again is rounding it once.
        found: Words = np.where(np.isnan(total), nan, encode(total, kind).view(element)).view(old.dtype)
        return found

    return add


def _add_f64(old: Words, b: Words, c: Words) -> Words:
    with np.errstate(all="ignore"):
        total = np.ascontiguousarray(old).view(np.float64) + np.ascontiguousarray(b).view(np.float64)
    return first_nan(total.view(np.uint64), old, b)


def _add_f64_in_global(old: Words, b: Words, c: Words) -> Words:
    """As _add_f64, but of two NaNs b comes out, and as it is: an H200's memory does not make it quiet."""
    total = _add_f64(old, b, c)
    infinity = FORMATS["f64"].infinity
    for operand in (old, b):
        total = np.where((operand & ~FORMATS["f64"].sign_bit) > infinity, operand, total)
    return total
