"""tensormap.replace and tensormap.cp_fenceproxy: a kernel changes a tensor map and publishes it.

A replaced map is a new one with a token of its own, which takes the old token's place in memory. A map may
break cuTensorMapEncodeTiled's rules between two replacements; a copy that uses it is refused. 128 zero bytes
are a map whose fields must all be replaced; Triton's tensor descriptors begin like that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse
from cutecourse.emulator.core.kinds import WARP_SIZE, Mask
from cutecourse.emulator.core.memory import Allocation
from cutecourse.emulator.core.origin import Origin, each_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps
from cutecourse.emulator.errors import AddressError, InvalidOperand
from cutecourse.emulator.instructions.stating import by_modifiers, space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.emulator.memory.tensor_map import MOST_DIMENSIONS, TOKEN_BYTES, BoundTensorMap, TensorMap
from cutecourse.emulator.memory.tensor_map_fences import note_changed
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_WORDS = TOKEN_BYTES // 8
_ORDINAL = {
    "box_dim": "box",
    "global_dim": "dims",
    "global_stride": "strides",
    "element_stride": "element_strides",
}
"""The fields with a number for each dimension, and their names in a `TensorMap`."""
_CODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "elemtype": (
        "dtype",
        (
            *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32"),
            "tf32_ftz",
        ),
    ),
    "interleave_layout": ("interleave", ("none",)),
    "swizzle_mode": ("swizzle", ("none", "32B", "64B", "128B")),
    "swizzle_atomicity": ("", ("16B",)),
    "fill_mode": ("oob_fill", ("zeros", "nan")),
}
"""For each field with codes its name in a `TensorMap`, which has none for the atoms of a swizzle, and its
values by their codes."""
_BEYOND = {
    "elemtype": ("packed elements of 4 and of 6 bits are not supported: load them as .u8", 15),
    "interleave_layout": ("interleaved layouts are not supported: take 0, without", 2),
    "swizzle_mode": ("a swizzle of 96 bytes is not supported: take 0 to 3", 4),
    "swizzle_atomicity": ("only atoms of 16 bytes are supported: take 0", 3),
}
"""For a field whose further codes exist: the reason of the refusal, and the last such code."""
_WIDE = ("global_address", "global_stride")


@by_modifiers
def _replace_facts(one: Instruction) -> Facts:
    use = MemoryUse(space_of(one), TOKEN_BYTES, reads=True, writes=True)
    return Facts(category="TMA", results=0, uses=(use,), uncounted="tensormap.replace")


@instruction("tensormap.replace", facts=_replace_facts)
def tensormap_replace(site: Site) -> Step:
    """Replace a field of a tensor map in shared or global memory.

    Shapes:     each lane for itself, one after the other: elect one.
    Units:      global_dim, box_dim and element_stride in elements, global_stride in bytes (ordinal 0 is that
                of dimension 1), rank as one less. Codes are constants: elemtype 0 to 12 for u8, u16, u32,
                s32, u64, s64, f16, f32, f32.ftz, f64, bf16, tf32 and tf32.ftz; swizzle_mode 0 to 3 for none,
                32B, 64B and 128B; fill_mode 0 for zeros, 1 for NaN.
    Alignment:  the address 128 bytes.
    Errors:     AddressError, AlignmentError, UninitializedRead; InvalidOperand if there is no tensor map, or
                for an ordinal that its rank does not have.
    Simplified: elements of 4 and 6 bits, interleaved layouts, a swizzle of 96 bytes and one with other atoms
                than 16 bytes are not supported. A new rank keeps the fields of the dimensions that stay;
                those of new ones are 0, and a copy is refused until they are given. 128 zero bytes are taken
                as a map of five such dimensions; no document says so.
    Source:     PTX ISA 9.0, tensormap.replace
                (#data-movement-and-conversion-instructions-tensormap-replace).
    """
    site.expect("tile")
    field = site.expect("global_address", "rank", *_ORDINAL, *_CODES)
    space = site.one_of("global", "shared::cta", "shared") or "generic"
    if not site.has("b1024"):
        site.unsupported("it needs .b1024")
    kind = site.type("b64" if field in _WIDE else "b32").replace("b", "u")
    address = site.address(0)
    ordinal = site.constant(1) if field in _ORDINAL else None
    if field in _ORDINAL and ordinal is None:
        site.invalid("the ordinal is an integer constant")
    value = site.source(1 if ordinal is None else 2, kind)
    if field in _CODES:
        _check_code(site, field, site.constant(1))
    access = Access(site, space.removesuffix("::cta"), 8, _WORDS, reads=True, writes=True)

    def change(origin: Origin) -> None:
        bundle = origin.bundle
        one = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
        one.reshape(-1)[origin.lane] = True
        addresses = address.lanes(bundle)
        words = access.load(bundle, addresses, one)
        bound = _bound(origin, words)
        number = origin.value(bundle.rows[kind][value])
        changed = _changed(origin, bound, field, ordinal, number)
        access.store(bundle, addresses, one, np.frombuffer(changed.token, np.uint64).reshape(1, _WORDS))
        note_changed(bundle, origin.value(addresses))

    return each_lane(site, change)


def _check_code(site: Site, field: str, code: int | None) -> None:
    """Refuse what no map has, and what those here do not have."""
    known = len(_CODES[field][1])
    if code is None:
        site.invalid(f".{field} is an integer constant")
    why, last = _BEYOND.get(field, ("", -1))
    if known <= code <= last:
        site.unsupported(f".{field} {code}: {why}")
    if not 0 <= code < known:
        site.invalid(f".{field} is 0 to {max(known - 1, last)}, not {code}")


_BLANK = BoundTensorMap(
    TensorMap(
        np.zeros(0, np.uint8),
        dims=(0,) * MOST_DIMENSIONS,
        strides=(0,) * (MOST_DIMENSIONS - 1),
        box=(0,) * MOST_DIMENSIONS,
        element_strides=(0,) * MOST_DIMENSIONS,
        swizzle="none",
        oob_fill="zeros",
        interleave="none",
        l2_promotion="none",
        dtype="u8",
    ),
    Allocation("no memory", "global", 0, np.zeros(0, np.uint8)),
    0,
    0,
)
"""The map that 128 zero bytes stand for."""


def _bound(origin: Origin, words: NDArray[Any]) -> BoundTensorMap:
    """The tensor map with these bytes."""
    token = np.ascontiguousarray(words).tobytes()
    found: BoundTensorMap | None = origin.bundle.machine.tensor_maps.get(token)
    if found is None and not any(token):
        found = _BLANK
    if found is None:
        raise origin.error(
            InvalidOperand,
            "there is no tensor map at this address: copy all 128 bytes of a parameter's map there first, or"
            " store zeros there and replace every field",
        )
    return found


def _changed(
    origin: Origin, bound: BoundTensorMap, field: str, ordinal: int | None, value: int
) -> BoundTensorMap:
    """A map that differs in one field, with a token of its own."""
    machine, old = origin.bundle.machine, bound.map
    allocation, address = bound.allocation, bound.allocation.base + bound.base
    made = old
    if field == "global_address":
        found = machine.memory.find(value)
        if found is None or found.space != "global":
            raise origin.error(
                AddressError, f"global_address 0x{value:x} is in no global memory", address=value
            )
        allocation, address = found, value
    elif field == "rank":
        made = _of_rank(old, value + 1)
    elif ordinal == 0 and old.packed > 1:
        raise origin.error(
            InvalidOperand,
            f".{field} 0 of a map of packed elements is not supported ({old.describe()}): load bytes as .u8",
        )
    elif ordinal is not None:
        name = _ORDINAL[field]
        numbers = list(getattr(old, name))
        if not 0 <= ordinal < len(numbers):
            raise origin.error(
                InvalidOperand,
                f".{field} {ordinal}: the tensor map has {len(old.dims)} dimensions ({old.describe()})",
            )
        numbers[ordinal] = value
        fields: dict[str, Any] = {name: tuple(numbers)}
        made = replace(old, **fields)
    else:
        name, known = _CODES[field]
        fields = {name: known[value]} if name else {}
        made = replace(old, **fields)
    changed = BoundTensorMap(made, allocation, address, len(machine.tensor_maps))
    machine.tensor_maps[changed.token] = changed
    return changed


def _of_rank(old: TensorMap, rank: int) -> TensorMap:
    more = (0,) * (rank - len(old.dims))
    return replace(
        old,
        dims=(old.dims + more)[:rank],
        strides=(old.strides + more)[: rank - 1],
        box=(old.box + more)[:rank],
        element_strides=(old.element_strides + more)[:rank],
    )


_COPY_FORM = "global.shared::cta.tensormap::generic.release.{}.sync.aligned"


@instruction(
    "tensormap.cp_fenceproxy",
    facts=Facts(
        category="TMA",
        results=0,
        uses=(MemoryUse("global", TOKEN_BYTES, writes=True), MemoryUse("shared", TOKEN_BYTES, reads=True)),
        uncounted="tensormap.cp_fenceproxy",
        publishes=True,
    ),
)
def tensormap_cp_fenceproxy(site: Site) -> Step:
    """Copy a tensor map from shared to global memory, and release it to the copies that will read it.

    Shapes:     once for each warp, with the addresses of its first lane; the size is the constant 128.
    Alignment:  both addresses 128 bytes.
    Errors:     AddressError, AlignmentError, UninitializedRead, InvalidOperand (size), DivergedWarp.
    Source:     PTX ISA 9.0, tensormap.cp_fenceproxy
                (#parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy).
    """
    if ".".join(site.modifiers) not in {
        _COPY_FORM.format(scope) for scope in ("cta", "cluster", "gpu", "sys")
    }:
        site.unsupported(f"no form but .{_COPY_FORM.format('SCOPE')}")
    site.modifiers.clear()
    to, source = site.address(0), site.address(1)
    if site.constant(2) != TOKEN_BYTES:
        site.invalid(f"the size of a tensor map is {TOKEN_BYTES}")
    site.converge()
    read = Access(site, "shared", 8, _WORDS, reads=True)
    write = Access(site, "global", 8, _WORDS, writes=True)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        first = np.zeros((bundle.n, WARP_SIZE), dtype=np.bool_)
        active = site.active(bundle, mask)
        warps = np.flatnonzero(active.any(axis=1))
        first[warps, active[warps].argmax(axis=1)] = True
        addresses = to.lanes(bundle)
        write.store(bundle, addresses, first, read.load(bundle, source.lanes(bundle), first))
        for address in addresses[first].tolist():
            note_changed(bundle, address)

    return step
