"""Moving values between registers: mov with its packing and unpacking, selp, slct."""

from __future__ import annotations

import numpy as np

from cutecourse.emulator.core.facts import Facts, IntegerOperation
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.lanes import Values, map_lanes
from cutecourse.emulator.instructions.runs import move
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Sink, Vector

__all__: list[str] = []


@instruction("mov", facts=Facts(computes=IntegerOperation.COPY, address="derived"))
def mov(site: Site) -> Step:
    """Copy a register, a constant, a special register or the address of a variable; pack and unpack.

    Shapes:     one value in each lane; braces hold two, four or eight parts that together have the type's
                bits, lowest part first.
    Units:      an address is in bytes, in the variable's own state space.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Data Movement and Conversion Instructions: mov
                (#data-movement-and-conversion-instructions-mov).
    """
    kind = site.one_of("b128") or site.type()
    if site.has("v2", "v4"):
        site.unsupported("vector registers")
    bits = type_bits(kind)
    if bits is None:
        site.unsupported(f"type .{kind}")
    word = "pred" if bits == 1 else f"u{bits}"
    rows, to, of = site.program.rows, site.operand(0), site.operand(1)
    if isinstance(to, Vector):
        part = _part(site, bits, len(to.items))
        targets = site.destinations(0, part)
        pairs = zip(targets, site.part_slots(word, site.source(1, word), part), to.items, strict=True)
        return move(rows, part, [(target, source) for target, source, i in pairs if not isinstance(i, Sink)])
    if isinstance(of, Vector):
        part = _part(site, bits, len(of.items))
        sources = site.sources(1, part)
        targets = site.part_slots(word, site.destination(0, word), part)
        return move(rows, part, list(zip(targets, sources, strict=True)))
    return move(rows, word, [(site.destination(0, word), site.source(1, word))])


def _part(site: Site, bits: int, count: int) -> str:
    if count not in {2, 4, 8} or not 8 <= bits // count <= 64 or (bits == 128 and count > 2):
        site.invalid(f"{count} parts of {bits} bits")
    return f"u{bits // count}"


@instruction("selp", facts=Facts(computes=IntegerOperation.SELECT, address="derived"))
def selp(site: Site) -> Step:
    """Choose between two values by a predicate.

    Shapes:     two values and one predicate in each lane.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: selp
                (#comparison-and-selection-instructions-selp).
    """
    word = f"u{type_bits(site.type())}"
    return map_lanes(site, lambda a, b, first: np.where(first, a, b), word, word, word, "pred")


@instruction("slct")
def slct(site: Site) -> Step:
    """Choose the first value if a number is not negative, otherwise the second.

    Shapes:     two values and one number in each lane.
    Errors:     UnsupportedInstruction if the number is neither s32 nor f32.
    Simplified: nothing; NaN chooses the second value, and -0.0 the first.
    Source:     PTX ISA 9.0, Comparison and Selection Instructions: slct
                (#comparison-and-selection-instructions-slct).
    """
    ftz = site.has("ftz")
    word = f"u{type_bits(site.type())}"
    chooser = site.type("s32", "f32")
    tiny = np.float32(2.0**-126)

    def function(a: Values, b: Values, number: Values) -> Values:
        first = number >= 0
        if ftz and chooser == "f32":
            first = first | (np.abs(number) < tiny)
        return np.where(first, a, b)

    return map_lanes(site, function, word, word, word, chooser)


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
    return lambda bundle, mask: None
