"""Moving values between registers: mov with its packing and unpacking, selp, slct; elect.sync and fences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE, Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.runs import move
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Sink, Vector

__all__: list[str] = []


@instruction("mov")
def mov(site: Site) -> Step:
    """Copy a register, a constant, a special register or the address of a variable; pack and unpack.

    Shapes:     one value in each lane; in braces two, four or eight that together have the type's bits, the
                first one lowest.
    Units:      an address is in bytes, in the variable's own state space.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: registers of 128 bits are not supported.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: mov
                (#data-movement-and-conversion-instructions-mov).
    """
    kind = site.type()
    if site.has("v2", "v4"):
        site.unsupported("vector registers")
    bits = type_bits(kind)
    if bits is None or bits > 64:
        site.unsupported(f"type .{kind}")
    word = "pred" if bits == 1 else f"u{bits}"
    if isinstance(site.operand(0), Vector):
        return _unpack(site, word, bits)
    if isinstance(site.operand(1), Vector):
        return _pack(site, word, bits)
    return move(site.program.rows, word, [(site.destination(0, word), site.source(1, word))])


def _part(site: Site, bits: int, count: int) -> str:
    if count not in {2, 4, 8} or bits // count < 8:
        site.invalid(f"{count} parts of {bits} bits")
    return f"u{bits // count}"


def _unpack(site: Site, word: str, bits: int) -> Step:
    operand = site.operand(0)
    assert isinstance(operand, Vector)
    count = len(operand.items)
    part = _part(site, bits, count)
    targets = site.destinations(0, part)
    register = site.register(site.operand(1))
    if register is not None and register.bits == bits:
        pairs = zip(targets, site.part_slots(register, part), operand.items, strict=True)
        kept = [(target, source) for target, source, item in pairs if not isinstance(item, Sink)]
        return move(site.program.rows, part, kept)
    source = site.source(1, word)
    dtype = KINDS[part][1]

    def step(bundle: Bundle, mask: Mask) -> None:
        pieces = np.ascontiguousarray(bundle.rows[word][source]).view(dtype).reshape(-1, WARP_SIZE, count)
        rows = bundle.rows[part]
        for position, target in enumerate(targets):
            put(rows[target], pieces[..., position], mask)

    return step


def _pack(site: Site, word: str, bits: int) -> Step:
    operand = site.operand(1)
    assert isinstance(operand, Vector)
    part = _part(site, bits, len(operand.items))
    sources = site.sources(1, part)
    register = site.register(site.operand(0))
    if register is not None and register.bits == bits:
        return move(site.program.rows, part, list(zip(site.part_slots(register, part), sources, strict=True)))
    target = site.destination(0, word)
    dtype, wide = KINDS[part][1], KINDS[word][1]

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[part]
        pieces: NDArray[Any] = np.empty((bundle.n, WARP_SIZE, len(sources)), dtype=dtype)
        for position, source in enumerate(sources):
            pieces[..., position] = rows[source]
        put(bundle.rows[word][target], pieces.view(wide)[..., 0], mask)

    return step


@instruction("selp")
def selp(site: Site) -> Step:
    """Choose between two values by a predicate.

    Shapes:     two values and one predicate in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: selp
                (#comparison-and-selection-instructions-selp).
    """
    bits = type_bits(site.type())
    word = f"u{bits}"
    target, a, b = site.destination(0, word), site.source(1, word), site.source(2, word)
    condition = site.source(3, "pred")

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[word]
        put(rows[target], np.where(bundle.rows["pred"][condition], rows[a], rows[b]), mask)

    return step


@instruction("slct")
def slct(site: Site) -> Step:
    """Choose the first value if a number is not negative, otherwise the second.

    Shapes:     two values and one number in each lane.
    Errors:     UnsupportedInstruction for other types than s32 and f32 of the number.
    Simplified: nothing; NaN chooses the second value, and -0.0 the first.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: slct
                (#comparison-and-selection-instructions-slct).
    """
    ftz = site.has("ftz")
    bits = type_bits(site.type())
    chooser = site.type("s32", "f32")
    word = f"u{bits}"
    target, a, b = site.destination(0, word), site.source(1, word), site.source(2, word)
    number = site.source(3, chooser)
    tiny = np.float32(2.0**-126)

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows[word]
        held = bundle.rows[chooser][number]
        first = held >= 0
        if ftz and chooser == "f32":
            first = first | (np.abs(held) < tiny)
        put(rows[target], np.where(first, rows[a], rows[b]), mask)

    return step


@instruction("pmevent")
def pmevent(site: Site) -> Step:
    """Trigger performance monitor events: this changes nothing that a program can see.

    Shapes:     one constant.
    Errors:     none.
    Simplified: no events are counted.
    Source:     PTX ISA 9.0, Miscellaneous Instructions: pmevent (#miscellaneous-instructions-pmevent).
    """
    site.has("mask")
    site.operand(0)

    def step(bundle: Bundle, mask: Mask) -> None:
        return

    return step
