"""Loads and stores in every state space, prefetches, and the conversions between kinds of addresses."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import Mask, put
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
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions import runs
from cutecourse.emulator.instructions.lanes import map_lanes
from cutecourse.emulator.instructions.stating import by_modifiers, bytes_of, shared_space_of, space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Instruction, Vector

__all__ = ["take_vector"]

_SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry",
    "param::func",
)  # fmt: skip
_HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged",
    "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::evict_normal", "L2::evict_first",
    "L2::evict_last", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip

_STRONG = {"volatile", "relaxed", "acquire", "release", "mmio"}
"""Memory orders stronger than weak."""
_BULK_UNIT = 8
_WINDOWS = {
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "const": CONST_WINDOW,
    "param": PARAM_WINDOW,
}
"""Where the generic addresses of each state space begin. A global address is its own generic address."""


def _take_space(site: Site) -> str:
    """Take the state space from the modifiers: "generic" where none is named."""
    space = site.one_of(*_SPACES) or "generic"
    space = space.removesuffix("::entry").removesuffix("::func")
    return "shared" if space == "shared::cta" else space


def _take_cache_hints(site: Site) -> None:
    """Take the cache hints, which have no effect here."""
    site.has(*_HINTS)
    if site.has("L2::cache_hint"):
        site.operand(2)  # a policy behind address and value


def _take_semantics(site: Site) -> bool:
    """Take memory order and scope; True if the order is stronger than weak.

    All accesses happen in the order in which the machine issues them.
    """
    site.has("weak")
    strong = site.has(*_STRONG)
    site.has("cta", "cluster", "gpu", "sys")
    site.has("unified")
    return strong


def _where(site: Site, space: str, address: AddressSource) -> tuple[str, bool]:
    """The space that an access really uses, and whether it is a kernel parameter at a known address."""
    variable = address.symbol
    if variable is None:
        return ("local" if space == "param" and not site.in_entry else space), False
    if variable.space == "param":
        inside = site.local_offset(variable) is not None
        return ("local", False) if inside else ("param", True)
    return (variable.space if space == "generic" else space), False


def take_vector(site: Site) -> int:
    """Take the number of words from the modifiers."""
    width = site.one_of("v2", "v4", "v8")
    return int(width[1:]) if width else 1


def _take_form(site: Site) -> tuple[bool, str, int, str, int]:
    """Take an access: whether it is strong, its space, the number of words, and a word's type and bytes.

    A word of 128 bits counts as two of 64 bits, because the alignment and the bytes are the same.
    """
    strong = _take_semantics(site)
    space = _take_space(site)
    _take_cache_hints(site)
    count = take_vector(site)
    kind = site.one_of("b128") or site.type()
    bits = type_bits(kind)
    if bits == 128 and count == 1:
        return strong, space, 2, kind, 8
    if bits is None or bits not in {8, 16, 32, 64}:
        site.unsupported(f"no memory access of type .{kind}")
    return strong, space, count, kind, bits // 8


@by_modifiers
def _load_facts(one: Instruction) -> Facts:
    use = MemoryUse(space_of(one), bytes_of(one), reads=True, coherent="nc" not in one.modifiers)
    return Facts(uses=(use,), wider_registers=True, depends_on_order=not _STRONG.isdisjoint(one.modifiers))


@instruction("ld", "ldu", facts=_load_facts)
def ld(site: Site) -> Step:
    """Read a word or a vector of words from memory.

    Shapes:     one address in each lane; one to eight destinations.
    Units:      addresses in bytes; words of 1, 2, 4 or 8 bytes, together at most 32, or one of 16 bytes.
    Errors:     AddressError, AlignmentError, UninitializedRead (shared memory; local memory if no byte of
                the access was ever written).
    Simplified: cache operators, eviction hints, prefetch sizes, memory order and scope do not change what
                is read: every access happens when it is issued.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: ld, ldu
                (#data-movement-and-conversion-instructions-ld).
    """
    strong, space, count, kind, size = _take_form(site)
    address = site.address(1)
    space, known = _where(site, space, address)
    if kind == "b128":
        targets = [("u64", slot) for slot in site.part_slots("u128", site.destination(0, "u128"), "u64")]
    else:
        operand = site.operand(0)
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != count:
            site.invalid(f"{len(items)} destinations for {count} words")
        targets = [_target(site, item, kind, size) for item in items]
    if known and address.constant is not None:
        return _load_parameter(site, address.constant, size, targets)
    access = Access(site, space, size, count, reads=True, flags=strong, kind=kind)
    lanes = address.lanes
    signed = f"i{size}" if kind[0] == "s" else None

    def load(bundle: Bundle, mask: Mask) -> None:
        for part in access.parts(bundle, lanes(bundle), mask):
            values = access.read(part)
            if signed:
                values = values.view(signed)
            for position, (wide, slot) in enumerate(targets):
                row = bundle.rows[wide][slot]
                words = values if count == 1 else values[..., position]
                if part.lanes is None:
                    row[...] = words
                else:
                    row.reshape(-1)[part.lanes] = words

    return load


def _target(site: Site, item: Any, kind: str, size: int) -> tuple[str, int]:
    """The kind and slot of a destination; a register wider than the word extends it by the word's type."""
    register = site.register(item)
    bits = max(register.bits if register else size * 8, 8)
    if not size * 8 <= bits <= 64:
        site.invalid(f"{item} has {bits} bits, but the word has {size * 8}")
    wide = f"{'s' if kind[0] == 's' else 'u'}{bits}"
    return wide, site.write(item, wide)


def _load_parameter(site: Site, address: int, size: int, targets: list[tuple[str, int]]) -> Step:
    """Copy a kernel parameter at a known address from its row: it is constant during the launch."""
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


@by_modifiers
def _store_facts(one: Instruction) -> Facts:
    return Facts(
        uses=(MemoryUse(space_of(one), bytes_of(one), writes=True),),
        wider_registers=True,
        publishes=not _STRONG.isdisjoint(one.modifiers),
    )


@instruction("st", facts=_store_facts)
def st(site: Site) -> Step:
    """Write a word or a vector of words to memory.

    Shapes:     one address in each lane; one to eight sources.
    Units:      addresses in bytes; words of 1, 2, 4 or 8 bytes, together at most 32, or one of 16 bytes.
    Errors:     AddressError, AlignmentError, ReadOnlyError.
    Simplified: if lanes write the same word, the last one wins; on hardware any of them may win. Cache
                operators, memory order and scope do not change what is written.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: st
                (#data-movement-and-conversion-instructions-st).
    """
    strong, space, count, kind, size = _take_form(site)
    address = site.address(0)
    space, known = _where(site, space, address)
    if known:
        site.invalid("a kernel's parameters are read-only")
    word = f"u{8 * size}"
    if kind == "b128":
        sources = site.part_slots("u128", site.source(1, "u128"), word)
    else:
        sources = site.sources(1, word)
    if len(sources) != count:
        site.invalid(f"{len(sources)} sources for {count} words")
    access = Access(site, space, size, count, writes=True, flags=strong, kind=kind)
    lanes = address.lanes

    def store(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[word]
        values = rows[sources[0]]
        if count > 1:
            values = np.empty((*bundle.full.shape, count), dtype=values.dtype)
            for position, source in enumerate(sources):
                values[..., position] = rows[source]
        access.store(bundle, lanes(bundle), mask, values if mask is None else values[mask])

    return runs.store(site.program.rows, access, address, word, sources, store)


@by_modifiers
def _bulk_facts(one: Instruction) -> Facts:
    use = MemoryUse(shared_space_of(one), _BULK_UNIT, writes=True)
    return Facts(category="bulk store", results=0, uses=(use,), uncounted="st.bulk")


@instruction("st.bulk", facts=_bulk_facts)
def st_bulk(site: Site) -> Step:
    """Fill bytes of shared memory with zeros.

    Shapes:     one address and one size in each lane.
    Units:      address and size in bytes, multiples of 8; the initial value is the constant 0.
    Errors:     AddressError, AlignmentError; InvalidOperand for a size that is no multiple of 8.
    Simplified: it is a store of the thread, done at once.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: st.bulk
                (#data-movement-and-conversion-instructions-st-bulk).
    """
    site.has("weak")
    space = "shared" if site.has("shared::cta") or site.has("shared") else "generic"
    address, size = site.address(0), site.source(1, "u64")
    if site.constant(2) != 0:
        site.invalid("st.bulk fills with the constant 0")
    words = Access(site, space, _BULK_UNIT, writes=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        active = site.active(bundle, mask)
        sizes = np.where(active, bundle.rows["u64"][size], np.uint64(0))
        odd = sizes % np.uint64(_BULK_UNIT) != 0
        if odd.any():
            lane = int(np.flatnonzero(odd)[0])
            wrong = int(sizes.reshape(-1)[lane])
            raise site.error(InvalidOperand, f"{wrong} bytes are no multiple of {_BULK_UNIT}", bundle, lane)
        start = address.lanes(bundle)
        for offset in range(0, int(sizes.max()), _BULK_UNIT):
            inside = sizes > offset
            words.store(bundle, start + start.dtype.type(offset), inside, np.zeros(inside.sum(), np.uint64))

    return step


@instruction(
    "prefetch", "prefetchu", "applypriority", "discard", facts=lambda one: Facts(uncounted=one.opcode)
)
def prefetch(site: Site) -> Step:
    """Give the caches a hint, with no effect that a program can see.

    Shapes:     one address in each lane.
    Units:      addresses in bytes.
    Errors:     none; the address is not checked.
    Simplified: `discard` leaves the bytes as they are; the hardware may lose them.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: prefetch, applypriority, discard
                (#data-movement-and-conversion-instructions-prefetch-prefetchu).
    """
    _take_space(site)
    _take_cache_hints(site)
    site.has("L1", "L2")
    site.address(0)
    if site.instruction.opcode in {"applypriority", "discard"}:
        site.operand(1)  # the size
    return lambda bundle, mask: None


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


@instruction("cvta", facts=Facts(address="converted"))
def cvta(site: Site) -> Step:
    """Convert an address of a state space to a generic address; `.to` converts back.

    Shapes:     one address in each lane.
    Units:      bytes.
    Errors:     none; a generic address outside the space's window gives an address outside the space.
    Simplified: the windows lie at fixed addresses. A kernel parameter's address has 32 bits, and `cvta.param`
                adds the upper ones.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: cvta
                (#data-movement-and-conversion-instructions-cvta).
    """
    back = site.has("to")
    space = _take_space(site)
    kind = site.type("u64", "u32")
    if kind == "u32":
        site.unsupported("addresses of 32 bits: take cvta.u64")
    if space == "param" and site.in_entry and not back:
        return map_lanes(site, np.bitwise_or, "u64", "u64", ("u64", site.constant_slot("u64", PARAM_WINDOW)))
    space = "local" if space == "param" and not site.in_entry else space.removesuffix("::cluster")
    window = _WINDOWS[space] if space in {"shared", "local"} else 0
    distance = site.constant_slot("u64", -window if back else window)
    return map_lanes(site, np.add, "u64", "u64", ("u64", distance))


@instruction("isspacep")
def isspacep(site: Site) -> Step:
    """Test whether a generic address lies in a state space's window.

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
    window = _WINDOWS.get(exact.partition("::")[0])

    def step(bundle: Bundle, mask: Mask) -> None:
        address = bundle.rows["u64"][source]
        if window is None:
            inside = (address >= GLOBAL_BASE) & (address < CONST_WINDOW)
        else:
            inside = address >> np.uint64(WINDOW_BITS) == window >> WINDOW_BITS
        if exact in {"shared", "shared::cta"} and bundle.cohort.size > 1:
            low = address & np.uint64((1 << WINDOW_BITS) - 1)
            inside &= (low >> np.uint64(RANK_SHIFT)) == bundle.rank
        put(bundle.rows["pred"][target], inside, mask)

    return step
