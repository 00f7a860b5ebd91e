"""Arithmetic instructions for both integers and floating-point numbers: add, mul, mad, div, min, ...

Each one picks the function for its type from `integers` or `floats`.
"""

from __future__ import annotations

from cutecourse.emulator.core.facts import Facts, IntegerOperation
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu import floats, integers
from cutecourse.emulator.instructions.stating import by_modifiers
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []


def _is_float(site: Site) -> bool:
    """True if the type is a float."""
    return not set(floats.FLOAT_KINDS).isdisjoint(site.modifiers)


_WHOLE = {
    "add": IntegerOperation.ADD,
    "sub": IntegerOperation.SUBTRACT,
    "mul": IntegerOperation.MULTIPLY,
}
_OTHERWISE = {*floats.FLOAT_KINDS, "cc", "sat", "hi", "wide"}
"""With these the result is another one than the low bits of the whole number."""


@by_modifiers
def _facts(one: Instruction) -> Facts:
    return Facts(
        computes=_WHOLE[one.opcode] if _OTHERWISE.isdisjoint(one.modifiers) else None,
        address="" if one.opcode == "mul" else "derived",
    )


@instruction("add", "sub", facts=_facts)
def add(site: Site) -> Step:
    """Add or subtract two numbers.

    Shapes:     one number in each lane; two in the packed types. With mixed precision (`.f32.f16`,
                `.f32.bf16`) the first source has 16 bits and is converted to f32 before.
    Units:      integers wrap around, or are clamped with `.sat` (s32); floats round once, as `.rn .rz .rm
                .rp` say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: without a rounding modifier ptxas may fuse a multiply and an add; the emulator does not.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: add, sub (#integer-arithmetic-instructions-add);
                Floating Point Instructions: add, sub (#floating-point-instructions-add);
                Half Precision Floating Point Instructions: add, sub
                (#half-precision-floating-point-instructions-add); Mixed Precision Floating Point
                Instructions: add, sub (#mixed-precision-floating-point-instructions-add).
    """
    if _is_float(site):
        return floats.two_operands(site)
    if "cc" in site.modifiers:
        return integers.with_carry(site)
    return integers.add_sub(site)


@instruction("mul", facts=_facts)
def mul(site: Site) -> Step:
    """Multiply two numbers; an integer result is the low half, the high half or all of the product.

    Shapes:     one number in each lane; two in the packed types. `.wide` writes a register of twice the
                width.
    Units:      floats round once, as `.rn .rz .rm .rp` say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: without a rounding modifier ptxas may fuse a multiply and an add; the emulator does not.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: mul (#integer-arithmetic-instructions-mul);
                Floating Point Instructions: mul (#floating-point-instructions-mul);
                Half Precision Floating Point Instructions: mul
                (#half-precision-floating-point-instructions-mul).
    """
    if _is_float(site):
        return floats.two_operands(site)
    return integers.multiply(site)


@instruction("mad", "fma", facts=Facts(address="derived"))
def mad(site: Site) -> Step:
    """Multiply two numbers and add a third.

    Shapes:     one number in each lane; two in the packed types. `.wide` adds and writes twice the width.
                With mixed precision (`.f32.f16`, `.f32.bf16`) the factors have 16 bits and are converted to
                f32 before.
    Units:      floats round once at the end, as `.rn .rz .rm .rp` say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: nothing; mad.f32 is the fused operation, as on all current targets.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: mad (#integer-arithmetic-instructions-mad);
                Floating Point Instructions: mad, fma (#floating-point-instructions-fma);
                Half Precision Floating Point Instructions: fma
                (#half-precision-floating-point-instructions-fma); Mixed Precision Floating Point
                Instructions: fma (#mixed-precision-floating-point-instructions-fma).
    """
    if _is_float(site):
        return floats.fused(site)
    if site.instruction.opcode == "fma":
        site.unsupported("fma of integers")
    if "cc" in site.modifiers:
        return integers.with_carry(site)
    return integers.multiply(site)


@instruction("div")
def div(site: Site) -> Step:
    """Divide two numbers; an integer quotient is rounded towards zero.

    Shapes:     one number in each lane.
    Units:      `.rn .rz .rm .rp` round once; `.approx` and `.full` are rounded to nearest here.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: an integer divided by zero gives all ones; the ISA leaves this result open. `.approx` and
                `.full` are correctly rounded; the hardware is off by up to 2 units in the last place.
                `.approx` gives zero for a divisor above 2^126, as the ISA says.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: div (#integer-arithmetic-instructions-div);
                Floating Point Instructions: div (#floating-point-instructions-div).
    """
    if _is_float(site):
        return floats.divide(site)
    return integers.divide(site)


@instruction("min", "max")
def min_max(site: Site) -> Step:
    """Choose the smallest or the largest of two or three numbers.

    Shapes:     one number in each lane; two in the packed types. f32 may have three sources.
    Units:      for floats -0.0 is smaller than +0.0; of a NaN and a number the result is the number, or NaN
                with `.NaN`; `.xorsign.abs` compares magnitudes and gives the result the product's sign, and
                `.abs` with three sources gives the magnitude; `.relu` (s32, s16x2) raises negative results
                to zero.
    Errors:     InvalidOperand where widths do not agree.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: min, max (#integer-arithmetic-instructions-min);
                Floating Point Instructions: min, max (#floating-point-instructions-min);
                Half Precision Floating Point Instructions: min, max
                (#half-precision-floating-point-instructions-min).
    """
    if _is_float(site):
        return floats.min_max(site)
    return integers.min_max(site)


@instruction("abs", "neg")
def abs_neg(site: Site) -> Step:
    """Give the absolute value of a number, or negate the number.

    Shapes:     one number in each lane; two in the packed types.
    Units:      the smallest signed integer stays as it is.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: nothing; as on an H200, a NaN keeps its sign in f64 and becomes canonical in other formats.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: abs, neg (#integer-arithmetic-instructions-abs);
                Floating Point Instructions: abs, neg (#floating-point-instructions-abs);
                Half Precision Floating Point Instructions: abs, neg
                (#half-precision-floating-point-instructions-abs).
    """
    if _is_float(site):
        return floats.sign_only(site)
    return integers.abs_neg(site)
