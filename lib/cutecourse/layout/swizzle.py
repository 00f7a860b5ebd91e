"""The swizzle: a permutation of offsets by exclusive or."""

from __future__ import annotations

from typing import Any

from .errors import OperandError

__all__ = ["Swizzle", "make_swizzle"]


class Swizzle:
    """Flip the low bits `Z` of an offset wherever the high bits `Y` are set, to spread banks.

    `num_bits` bits take part, `num_base` bits at the bottom stay, and the bits Y lie `num_shift` above the
    bits Z (below, when it is negative).
    Law: `S(i) = i ^ ((i & Y) >> num_shift)`, and `S(S(i)) = i`.
    Errors: `OperandError` unless `num_bits >= 0`, `num_base >= 0` and `abs(num_shift) >= num_bits`.

    >>> swizzle = Swizzle(3, 4, 3)
    >>> print(swizzle, swizzle(128), swizzle(128 + 64))
    S<3,4,3> 144 208
    """

    __slots__ = ("num_base", "num_bits", "num_shift")
    num_bits: int
    num_base: int
    num_shift: int

    def __init__(self, num_bits: int, num_base: int, num_shift: int) -> None:
        numbers = (num_bits, num_base, num_shift)
        if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise OperandError(f"a swizzle is given by three integers, not {numbers}", operation="Swizzle")
        if num_bits < 0 or num_base < 0 or abs(num_shift) < num_bits:
            raise OperandError(
                f"<{num_bits},{num_base},{num_shift}> is no swizzle",
                operation="Swizzle",
                rule="num_bits >= 0, num_base >= 0, abs(num_shift) >= num_bits: Y and Z do not overlap",
            )
        object.__setattr__(self, "num_bits", num_bits)
        object.__setattr__(self, "num_base", num_base)
        object.__setattr__(self, "num_shift", num_shift)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Swizzle does not change")

    def __reduce__(self) -> tuple[Any, ...]:
        return Swizzle, (self.num_bits, self.num_base, self.num_shift)

    @property
    def yyy_mask(self) -> int:
        """The bits that are read."""
        return ((1 << self.num_bits) - 1) << (self.num_base + max(0, self.num_shift))

    @property
    def zzz_mask(self) -> int:
        """The bits that are flipped."""
        return ((1 << self.num_bits) - 1) << (self.num_base + max(0, -self.num_shift))

    def __call__(self, offset: int) -> int:
        """Permute one offset."""
        if isinstance(offset, bool) or not isinstance(offset, int):
            raise OperandError(
                f"a swizzle permutes integer offsets, not {offset}",
                operation="Swizzle",
                operands=(("swizzle", self),),
            )
        bits = offset & self.yyy_mask
        return offset ^ (bits >> self.num_shift if self.num_shift >= 0 else bits << -self.num_shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Swizzle) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((Swizzle, self._key()))

    def _key(self) -> tuple[int, int, int]:
        return (self.num_bits, self.num_base, self.num_shift)

    def __str__(self) -> str:
        return "S<{},{},{}>".format(*self._key())

    def __repr__(self) -> str:
        return "Swizzle({}, {}, {})".format(*self._key())


def make_swizzle(num_bits: int, num_base: int, num_shift: int) -> Swizzle:
    """Make a swizzle, as the CuTe DSL does: without bits, always the same one that changes nothing.

    >>> print(make_swizzle(2, 3, 3))
    S<2,3,3>
    """
    swizzle = Swizzle(num_bits, num_base, num_shift)
    return swizzle if num_bits else Swizzle(0, 4, 3)


def swizzle_from_masks(yyy: int, zzz: int) -> Swizzle:
    """Find the swizzle that reads the bits `yyy` and flips the bits `zzz`."""
    bits = yyy.bit_count()
    low_y, low_z = _lowest_bit(yyy), _lowest_bit(zzz)
    swizzle = (
        Swizzle(bits, min(low_y, low_z), low_y - low_z)
        if bits
        else Swizzle(0, min(low_y, low_z), low_y - low_z)
    )
    if (swizzle.yyy_mask, swizzle.zzz_mask) != (yyy, zzz):
        raise OperandError(
            f"no swizzle reads the bits {yyy:#b} and flips the bits {zzz:#b}",
            operation="make_swizzle",
            rule="equally many bits in both, each side without gaps",
        )
    return swizzle


def _lowest_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 0
