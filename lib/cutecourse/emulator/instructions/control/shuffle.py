"""Lanes of a warp share values or elect one of them: shfl, vote, match, redux, activemask, elect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import (
    ALL_LANES,
    KINDS,
    LANE_BITS,
    WARP_SIZE,
    Mask,
    all_true,
    lane_masks,
    put,
)
from cutecourse.emulator.core.memory import POISON
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.numbers.reductions import INTEGER_OPERATIONS, extreme_f32

__all__: list[str] = []

_LANES = np.arange(WARP_SIZE, dtype=np.int64)
_POISON = np.uint32(int.from_bytes(bytes([POISON]) * 4, "little"))


@instruction("shfl.sync", facts=Facts(address="derived"))
def shfl(site: Site) -> Step:
    """Read a register of the lane at a distance up, down or across (xor), or of the lane with an index.

    Shapes:     d and a are 32-bit registers; b is the distance or index (its low 5 bits); c holds the clamp
                in bits 0 to 4 and the segment mask in bits 8 to 12. Lane l reads lane j; the predicate says
                whether j lies in the segment of l. If it does not, l reads its own a.
    Errors:     DivergedWarp if a lane that the membermask names cannot get here.
    Simplified: reading a lane that takes no part, or that the membermask does not name, gives 0xCBCBCBCB;
                the hardware's value is not defined.
    Source:     PTX ISA 9.0, shfl.sync (#data-movement-and-conversion-instructions-shfl-sync).
    """
    mode = site.expect("up", "down", "bfly", "idx")
    site.type("b32")
    d, p = site.pair(0, "u32")
    a, b, c = (site.source(index, "u32") for index in (1, 2, 3))
    site.converge(4)
    members = None if site.constant(4) in {-1, ALL_LANES} else site.source(4, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows["u32"]
        lane = _LANES
        distance = (rows[b] & 0x1F).astype(np.int64)
        clamp = (rows[c] & 0x1F).astype(np.int64)
        segment = ((rows[c] >> 8) & 0x1F).astype(np.int64)
        top = (lane & segment) | (clamp & ~segment)
        if mode == "up":
            other = lane - distance
        elif mode == "down":
            other = lane + distance
        elif mode == "bfly":
            other = lane ^ distance
        else:
            other = (lane & segment) | (distance & ~segment)
        inside = other >= top if mode == "up" else other <= top
        other = np.where(inside, other, lane)
        held = rows[a]
        if mask is not None:
            held = np.where(mask, held, _POISON)
        found = np.take_along_axis(held, other, axis=1)
        if members is not None:
            found = np.where(rows[members] >> other.astype(np.uint32) & 1, found, _POISON)
        put(rows[d], found, mask)
        if p is not None:
            put(bundle.rows["pred"][p], inside, mask)

    return step


def _members(bundle: Bundle, mask: Mask, slot: int) -> NDArray[np.bool_]:
    """(n, 32, 32): for each lane, which lanes its membermask names among those that take part."""
    named = (bundle.rows["u32"][slot][..., None] & LANE_BITS) != 0
    found: NDArray[np.bool_] = named if mask is None else named & mask[:, None, :]
    return found


@instruction("vote.sync")
def vote(site: Site) -> Step:
    """Test if a predicate holds in all lanes, in any lane, or equally in all; or collect it from each lane.

    Shapes:     all, any and uni give a predicate, ballot a mask with bit l for lane l.
    Errors:     DivergedWarp if a lane that the membermask names cannot get here.
    Source:     PTX ISA 9.0, vote.sync (#parallel-synchronization-and-communication-instructions-vote-sync).
    """
    mode = site.expect("all", "any", "uni", "ballot")
    site.type("b32" if mode == "ballot" else "pred")
    kind = "u32" if mode == "ballot" else "pred"
    d, a = site.destination(0, kind), site.source(1, "pred")
    site.converge(2)
    members = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        held = bundle.rows["pred"][a][:, None, :]
        named = _members(bundle, mask, members)
        if mode == "ballot":
            result: NDArray[Any] = lane_masks(held & named)
        elif mode == "all":
            result = np.all(held | ~named, axis=-1)
        elif mode == "any":
            result = np.any(held & named, axis=-1)
        else:
            result = np.all(held | ~named, axis=-1) | ~np.any(held & named, axis=-1)
        put(bundle.rows[kind][d], result, mask)

    return step


@instruction("match.any.sync", "match.all.sync")
def match(site: Site) -> Step:
    """Compare a value across lanes: `any` finds the lanes with the same value, `all` tests if all agree.

    Shapes:     a has 32 or 64 bits, d is a mask of lanes. With `all`, d is the mask of the named lanes that
                take part and p is true if all of these agree; otherwise d is 0 and p is false.
    Errors:     DivergedWarp if a lane that the membermask names cannot get here.
    Source:     PTX ISA 9.0, match.sync (#parallel-synchronization-and-communication-instructions-match-sync).
    """
    everyone = "all" in site.instruction.modifiers
    kind = site.type("b32", "b64").replace("b", "u")
    d, p = site.pair(0, "u32")
    if p is not None and not everyone:
        site.invalid("match.any gives no predicate")
    a = site.source(1, kind)
    site.converge(2)
    members = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        held = bundle.rows[kind][a]
        named = _members(bundle, mask, members)
        equal = (held[:, :, None] == held[:, None, :]) & named
        if not everyone:
            put(bundle.rows["u32"][d], lane_masks(equal), mask)
            return
        agreed = (equal == named).all(axis=-1)
        found = np.where(agreed, lane_masks(named), np.uint32(0))
        put(bundle.rows["u32"][d], found, mask)
        if p is not None:
            put(bundle.rows["pred"][p], agreed, mask)

    return step


@instruction("redux.sync")
def redux(site: Site) -> Step:
    """Reduce a 32-bit number over the lanes of a membermask and give each of them the result.

    Shapes:     dst, src are 32-bit registers; add, min and max take .u32 and .s32; and, or and xor .b32; min
                and max also .f32, where -0 is less than +0.
    Units:      .abs takes each f32 without its sign. A NaN counts only with .NaN or if all lanes hold one;
                the result is then the canonical NaN.
    Errors:     DivergedWarp if a lane that the membermask names cannot get here.
    Source:     PTX ISA 9.0, redux.sync (#parallel-synchronization-and-communication-instructions-redux-sync).
    """
    name = site.expect(*INTEGER_OPERATIONS)
    if name in ("min", "max") and site.has("f32"):
        return _redux_f32(site, lowest=name == "min")
    kind = site.type(*(("u32", "s32") if name in ("add", "min", "max") else ("b32",))).replace("b", "u")
    limits = np.iinfo(KINDS[kind][1])
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(name, 0)
    d, a = site.destination(0, kind), site.source(1, kind)
    site.converge(2)
    members = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        held = bundle.rows[kind][a]
        named = _members(bundle, mask, members)
        seen = np.where(named, held[:, None, :], held.dtype.type(neutral))
        put(bundle.rows[kind][d], INTEGER_OPERATIONS[name].reduce(seen, axis=-1, dtype=held.dtype), mask)

    return step


def _redux_f32(site: Site, *, lowest: bool) -> Step:
    """Define redux of f32."""
    absolute, keeps_nan = site.has("abs"), site.has("NaN")
    d, a = site.destination(0, "u32"), site.source(1, "u32")
    site.converge(2)
    members = site.source(2, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        held = bundle.rows["u32"][a][:, None, :]
        named = _members(bundle, mask, members)
        found = extreme_f32(held, named, lowest=lowest, absolute=absolute, keeps_nan=keeps_nan)
        put(bundle.rows["u32"][d], found, mask)

    return step


@instruction("activemask", facts=Facts(depends_on_order=True))
def activemask(site: Site) -> Step:
    """Give the mask of the lanes that execute this instruction together.

    Shapes:     d is a 32-bit mask with bit l for lane l.
    Simplified: without a `.sync` instruction the scheduler chooses which lanes run together, as on hardware.
    Source:     PTX ISA 9.0, activemask (#parallel-synchronization-and-communication-instructions-activemask).
    """
    site.type("b32")
    d = site.destination(0, "u32")

    def step(bundle: Bundle, mask: Mask) -> None:
        here = lane_masks(site.active(bundle, mask))
        put(bundle.rows["u32"][d], here[:, None], mask)

    return step


@instruction("elect.sync")
def elect(site: Site) -> Step:
    """Choose one of the lanes that a membermask names.

    Shapes:     all lanes get the chosen lane's number; the predicate is true in the chosen lane alone.
    Units:      lanes.
    Errors:     InvalidOperand if the membermask does not name the lane that executes the instruction.
    Simplified: the lowest lane is chosen, as on the GPUs that the cases were recorded on; the document says
                only that the same mask gives the same lane each time.
    Source:     PTX ISA 9.0, Parallel Synchronization and Communication Instructions: elect.sync
                (#parallel-synchronization-and-communication-instructions-elect-sync).
    """
    target, chosen = site.pair(0, "u32")
    members = site.source(1, "u32")
    site.converge(1)

    def step(bundle: Bundle, mask: Mask) -> None:
        named = bundle.rows["u32"][members]
        if not all_true(bundle.live):
            named = named & lane_masks(bundle.live)[:, None]
        lowest = named & (~named + np.uint32(1))
        put(bundle.rows["u32"][target], np.bitwise_count(lowest - np.uint32(1)), mask)
        if chosen is not None:
            put(bundle.rows["pred"][chosen], lowest == LANE_BITS, mask)

    return step
