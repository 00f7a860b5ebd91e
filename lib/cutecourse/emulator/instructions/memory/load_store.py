"""Loads and stores in every state space, prefetches, and the conversions between kinds of addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, Mask, put
from cutecourse.emulator.core.memory import (
    CONST_WINDOW,
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    WINDOW_BITS,
)
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import AddressSource, Site
from cutecourse.emulator.instructions import runs
from cutecourse.emulator.memory.access import Access
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Vector

__all__ = ["take_cache_hints", "take_space"]

_SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry",
    "param::func",
)  # fmt: skip
_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged",
    "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::evict_normal", "L2::evict_first",
    "L2::evict_last", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip


def take_space(site: Site) -> str:
    """Take the state space from the modifiers: "generic" where none is named."""
    space = site.one_of(*_SPACES, default="generic")
    space = space.removesuffix("::entry").removesuffix("::func")
    return "shared" if space == "shared::cta" else space


def take_cache_hints(site: Site) -> None:
    """Take what says how to cache: it changes nothing here."""
    site.has(*_HINTS)
    if site.has("L2::cache_hint"):
        site.operand(2)  # a policy behind address and value


def _take_semantics(site: Site) -> bool:
    """Take memory order and scope; whether the order is a stronger one than weak.

    All accesses happen in the order in which the machine issues them.
    """
    site.has("weak")
    strong = site.has("volatile", "relaxed", "acquire", "release", "mmio")
    site.has("cta", "cluster", "gpu", "sys")
    site.has("unified")
    return strong


def _where(site: Site, space: str, address: AddressSource) -> tuple[str, bool]:
    """The space that an access really goes to, and whether it is a kernel's parameter at a known place."""
    variable = address.symbol
    if variable is None:
        if space == "param":
            return ("param" if site.in_entry else "local"), False
        return space, False
    if variable.space == "param":
        inside = site.local_offset(variable) is not None
        return ("local", False) if inside else ("param", True)
    if space == "generic":
        return variable.space, False
    return space, False


def _vector(site: Site) -> int:
    width = site.one_of("v2", "v4", "v8")
    return int(width[1:]) if width else 1


def _word_type(site: Site) -> tuple[str, int]:
    kind = site.type()
    bits = type_bits(kind)
    if bits is None or bits not in {8, 16, 32, 64}:
        site.unsupported(f"no memory access of type .{kind}")
    return kind, bits // 8


@instruction("ld", "ldu")
def ld(site: Site) -> Step:
    """Read a word or a vector of words from memory.

    Shapes:     one address in each lane; one to eight destinations.
    Units:      addresses in bytes; words of 1, 2, 4 or 8 bytes, together at most 32.
    Errors:     AddressError, AlignmentError, UninitializedRead (shared memory; local memory where all of
                the access was never written).
    Simplified: cache operators, eviction hints and prefetch sizes change nothing; memory order and scope
                neither, as every access happens when it is issued.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: ld, ldu
                (#data-movement-and-conversion-instructions-ld).
    """
    strong = _take_semantics(site)
    space = take_space(site)
    take_cache_hints(site)
    count = _vector(site)
    kind, size = _word_type(site)
    address = site.address(1)
    space, known = _where(site, space, address)
    operand = site.operand(0)
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        site.invalid(f"{len(items)} destinations for {count} words")
    targets = [_target(site, item, kind, size) for item in items]
    if known and address.constant is not None:
        return _load_parameter(site, address.constant, size, targets)
    access = Access(site, space, size, count, reads=True, flags=strong)
    lanes = address.lanes
    signed = kind[0] == "s"
    word = np.dtype(f"{'i' if signed else 'u'}{size}")

    if count == 1:
        wide, slot = targets[0]

        def load(bundle: Bundle, mask: Mask) -> None:
            row = bundle.rows[wide][slot]
            parts = access.parts(bundle, lanes(bundle), mask)
            for part in parts:
                values = part.words[part.index]
                if signed:
                    values = values.view(word)
                if part.lanes is None:
                    row[...] = values
                else:
                    row.reshape(-1)[part.lanes] = values

        return load

    def load_vector(bundle: Bundle, mask: Mask) -> None:
        for part in access.parts(bundle, lanes(bundle), mask):
            values = access.read(part)
            if signed:
                values = values.view(word)
            for position, (wide, slot) in enumerate(targets):
                row = bundle.rows[wide][slot]
                if part.lanes is None:
                    row[...] = values[..., position]
                else:
                    row.reshape(-1)[part.lanes] = values[..., position]

    return load_vector


def _target(site: Site, item: Any, kind: str, size: int) -> tuple[str, int]:
    """A destination register may be wider than the word, which is then extended by its type."""
    register = site.register(item)
    bits = max(register.bits if register else size * 8, 8)
    if bits < size * 8:
        site.invalid(f"{item} has {bits} bits, but the word has {size * 8}")
    wide = f"{'s' if kind[0] == 's' else 'u'}{bits}"
    return wide, site.write(item, wide)


def _load_parameter(site: Site, address: int, size: int, targets: list[tuple[str, int]]) -> Step:
    """A kernel parameter at a place known now is a constant."""
    start = address - PARAM_WINDOW
    total = size * len(targets)
    if not 0 <= start <= site.program.placement.parameter_bytes - total:
        site.invalid(f"a read of {total} bytes past the end of the kernel's parameters")
    if start % total:
        site.invalid(f"a read of {total} bytes of parameters at offset {start}, misaligned")
    pairs = [
        (wide, slot, site.parameter_slot(wide, start + position * size, size))
        for position, (wide, slot) in enumerate(targets)
    ]

    def load(bundle: Bundle, mask: Mask) -> None:
        for wide, slot, parameter in pairs:
            rows = bundle.rows[wide]
            put(rows[slot], rows[parameter], mask)

    return load


@instruction("st")
def st(site: Site) -> Step:
    """Write a word or a vector of words to memory.

    Shapes:     one address in each lane; one to eight sources.
    Units:      addresses in bytes; words of 1, 2, 4 or 8 bytes, together at most 32.
    Errors:     AddressError, AlignmentError, ReadOnlyError.
    Simplified: of lanes that write the same word the last one wins (the hardware leaves open which); cache
                operators, memory order and scope change nothing.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: st
                (#data-movement-and-conversion-instructions-st).
    """
    strong = _take_semantics(site)
    space = take_space(site)
    take_cache_hints(site)
    count = _vector(site)
    _, size = _word_type(site)
    address = site.address(0)
    space, known = _where(site, space, address)
    if known:
        site.invalid("a kernel's parameters are read-only")
    word = f"u{8 * size}"
    sources = site.sources(1, word)
    if len(sources) != count:
        site.invalid(f"{len(sources)} sources for {count} words")
    access = Access(site, space, size, count, writes=True, flags=strong)
    lanes = address.lanes

    if count == 1:
        source = sources[0]

        def store(bundle: Bundle, mask: Mask) -> None:
            values = bundle.rows[word][source]
            if mask is not None:
                values = values[mask]
            access.store(bundle, lanes(bundle), mask, values)

        return runs.store(site.program.rows, access, address, word, sources, store)

    def store_vector(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[word]
        values: NDArray[Any] = np.empty((*bundle.full.shape, count), dtype=KINDS[word][1])
        for position, source in enumerate(sources):
            values[..., position] = rows[source]
        access.store(bundle, lanes(bundle), mask, values if mask is None else values[mask])

    return runs.store(site.program.rows, access, address, word, sources, store_vector)


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def prefetch(site: Site) -> Step:
    """Hints about caches: no effect that a program can see.

    Shapes:     one address in each lane.
    Units:      addresses in bytes.
    Errors:     none; the address is not looked at.
    Simplified: `discard` leaves the bytes as they are, where the hardware may lose them.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: prefetch, applypriority, discard
                (#data-movement-and-conversion-instructions-prefetch-prefetchu).
    """
    take_space(site)
    take_cache_hints(site)
    site.has("L1", "L2")
    site.address(0)
    if site.instruction.opcode in {"applypriority", "discard"}:
        site.operand(1)  # the size

    def step(bundle: Bundle, mask: Mask) -> None:
        return

    return step


@instruction("createpolicy")
def createpolicy(site: Site) -> Step:
    """Make a cache policy for `.L2::cache_hint` operands.

    Shapes:     one b64 in each lane.
    Units:      none; the value is opaque.
    Errors:     none.
    Simplified: the policy is zero, since no cache is modelled.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: createpolicy
                (#data-movement-and-conversion-instructions-createpolicy).
    """
    site.modifiers.clear()
    if not 2 <= len(site.operands) <= 4:
        site.invalid(f"createpolicy takes 2 to 4 operands, not {len(site.operands)}")
    target = site.destination(0, "u64")

    def step(bundle: Bundle, mask: Mask) -> None:
        put(bundle.rows["u64"][target], np.uint64(0), mask)

    return step


# --- kinds of addresses --------------------------------------------------------------------------------


@instruction("cvta")
def cvta(site: Site) -> Step:
    """Convert an address of a state space to a generic address; `.to` converts back.

    Shapes:     one address in each lane.
    Units:      bytes.
    Errors:     none; a generic address outside the space's window gives an address outside the space.
    Simplified: the windows lie at fixed addresses. A kernel parameter's address has 32 bits, and `cvta.param`
                adds the others.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: cvta
                (#data-movement-and-conversion-instructions-cvta).
    """
    back = site.has("to")
    space = take_space(site)
    kind = site.type("u64", "u32")
    if kind == "u32":
        site.unsupported("addresses of 32 bits")
    space = "local" if space == "param" and not site.in_entry else space
    window = {"shared": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    target, source = site.destination(0, "u64"), site.source(1, "u64")
    distance = site.constant_slot("u64", (-window if back else window) & ((1 << 64) - 1))
    high_bits = site.constant_slot("u64", PARAM_WINDOW)

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows["u64"]
        if space == "param" and not back:
            put(rows[target], np.bitwise_or(rows[source], rows[high_bits]), mask)
        elif window:
            put(rows[target], np.add(rows[source], rows[distance]), mask)
        else:
            put(rows[target], rows[source], mask)

    return step


@instruction("isspacep")
def isspacep(site: Site) -> Step:
    """Ask whether a generic address lies in a state space's window.

    Shapes:     one address and one predicate in each lane.
    Units:      bytes.
    Errors:     none.
    Simplified: the windows lie at fixed addresses.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: isspacep
                (#data-movement-and-conversion-instructions-isspacep).
    """
    exact = site.one_of(*_SPACES)
    if exact is None:
        site.unsupported("no state space")
    target, source = site.destination(0, "pred"), site.source(1, "u64")

    def step(bundle: Bundle, mask: Mask) -> None:
        address = bundle.rows["u64"][source]
        window = address >> np.uint64(WINDOW_BITS)
        if exact in {"shared", "shared::cta", "shared::cluster"}:
            inside = window == SHARED_WINDOW >> WINDOW_BITS
            if exact != "shared::cluster" and bundle.cohort.size > 1:
                low = address & np.uint64((1 << WINDOW_BITS) - 1)
                inside = inside & ((low >> np.uint64(RANK_SHIFT)) == bundle.rank)
        elif exact == "local":
            inside = window == LOCAL_WINDOW >> WINDOW_BITS
        elif exact == "const":
            inside = window == CONST_WINDOW >> WINDOW_BITS
        elif exact.startswith("param"):
            inside = window == PARAM_WINDOW >> WINDOW_BITS
        else:
            inside = (address >= GLOBAL_BASE) & (address < CONST_WINDOW)
        put(bundle.rows["pred"][target], inside, mask)

    return step
