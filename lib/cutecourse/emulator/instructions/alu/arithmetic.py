"""Arithmetic whose name serves integers and floating-point numbers alike: add, mul, fma, div, min, ...

What a type means is in `integers` and `floats`; here each name finds the function for its type.
"""

from __future__ import annotations

from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.instructions.alu import floats, integers

__all__: list[str] = []


def _is_float(site: Site) -> bool:
    """Tell whether the type is a float. Errors: UnsupportedInstruction for two types, as in .f32.f16."""
    kinds = [m for m in site.modifiers if m in floats.FLOAT_KINDS]
    if len(kinds) > 1:
        site.unsupported(f"mixed precision (.{'.'.join(kinds)}): convert the operands first with cvt")
    return bool(kinds)


@instruction("add", "sub")
def add(site: Site) -> Step:
    """Add or subtract two numbers.

    Shapes:     one number in each lane; two in the packed types.
    Units:      integers wrap around, with `.sat` (s32) they clamp; floats round once as `.rn .rz .rm .rp`
                say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: without a rounding modifier the hardware may fuse with a multiplication; this does not.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: add, sub (#integer-arithmetic-instructions-add);
                Floating Point Instructions: add, sub (#floating-point-instructions-add);
                Half Precision Floating Point Instructions: add, sub
                (#half-precision-floating-point-instructions-add).
    """
    if _is_float(site):
        return floats.two_operands(site)
    if "cc" in site.modifiers:
        return integers.with_carry(site)
    return integers.add_sub(site)


@instruction("mul")
def mul(site: Site) -> Step:
    """Multiply two numbers; integers give the low half, the high half or all of the product.

    Shapes:     one number in each lane; two in the packed types. `.wide` writes a register of twice the
                width.
    Units:      floats round once as `.rn .rz .rm .rp` say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: without a rounding modifier the hardware may fuse with an addition; this does not.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: mul (#integer-arithmetic-instructions-mul);
                Floating Point Instructions: mul (#floating-point-instructions-mul);
                Half Precision Floating Point Instructions: mul
                (#half-precision-floating-point-instructions-mul).
    """
    if _is_float(site):
        return floats.two_operands(site)
    return integers.multiply(site)


@instruction("mad", "fma")
def mad(site: Site) -> Step:
    """Multiply two numbers and add a third.

    Shapes:     one number in each lane; two in the packed types. `.wide` adds and writes twice the width.
    Units:      floats round once at the end, as `.rn .rz .rm .rp` say.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: nothing; mad.f32 is the fused operation, as on all current targets.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: mad (#integer-arithmetic-instructions-mad);
                Floating Point Instructions: mad, fma (#floating-point-instructions-fma);
                Half Precision Floating Point Instructions: fma
                (#half-precision-floating-point-instructions-fma).
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
    Simplified: an integer divided by zero gives all ones, where the ISA leaves it open. `.approx` and
                `.full` are as exact as their format allows, where the hardware is off by up to 2 units in
                the last place; above 2^126 a divisor of `.approx` gives zero, as the ISA says.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: div (#integer-arithmetic-instructions-div);
                Floating Point Instructions: div (#floating-point-instructions-div).
    """
    if _is_float(site):
        return floats.divide(site)
    return integers.divide(site)


@instruction("min", "max")
def min_max(site: Site) -> Step:
    """The smaller or the larger of two numbers.

    Shapes:     one number in each lane; two in the packed types.
    Units:      for floats -0.0 is smaller than +0.0; a NaN loses against a number, with `.NaN` it wins;
                `.xorsign.abs` compares magnitudes and takes the product's sign; `.relu` (s32) clamps at zero.
    Errors:     InvalidOperand where widths do not agree.
    Simplified: the form with three sources is not supported.
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
    Simplified: only the sign of a NaN changes.
    Source:     PTX ISA 9.0, Integer Arithmetic Instructions: abs, neg (#integer-arithmetic-instructions-abs);
                Floating Point Instructions: abs, neg (#floating-point-instructions-abs);
                Half Precision Floating Point Instructions: abs, neg
                (#half-precision-floating-point-instructions-abs).
    """
    if _is_float(site):
        return floats.sign_only(site)
    return integers.abs_neg(site)
