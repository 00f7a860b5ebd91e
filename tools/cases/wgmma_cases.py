"""The cases of wgmma: which kernels `wgmma_ptx` writes, and which numbers they multiply.

A case's inputs come from the seeds that follow the previous case's, so add a new case at the end of
`_all_cases`: a recording holds for the exact text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tools.cases.wgmma_ptx import ROWS, Wgmma

__all__ = ["CASES"]

_FLOATS: tuple[dict[str, Any], ...] = (
    {"d": "f32", "a": "f16"},
    {"d": "f16", "a": "f16"},
    {"d": "f32", "a": "bf16"},
    {"d": "f32", "a": "tf32"},
    {"d": "f32", "a": "e4m3"},
    {"d": "f16", "a": "e4m3"},
    {"d": "f32", "a": "e5m2"},
    {"d": "f16", "a": "e5m2"},
    {"d": "f32", "a": "e4m3", "b": "e5m2"},
    {"d": "f16", "a": "e5m2", "b": "e4m3"},
)
_INTEGERS: tuple[dict[str, Any], ...] = (
    {"d": "s32", "a": "s8"},
    {"d": "s32", "a": "u8"},
    {"d": "s32", "a": "s8", "b": "u8"},
    {"d": "s32", "a": "u8", "b": "s8"},
)
_FIRST_SEED = 1201


@dataclass(frozen=True)
class WgmmaCase:
    """One kernel and its inputs: one kind of values for each tile."""

    name: str
    about: str
    kernel: Wgmma
    kinds: str = "whole"
    kinds_c: str = ""
    tiles: int = 1
    seed: int = 0

    @property
    def bits(self) -> bool:
        """Whether A and B are any bits, and no numbers."""
        return self.kinds == "bits"

    def text(self) -> str:
        """The case: its header and the kernel."""
        kernel, tiles = self.kernel, self.tiles
        depth = kernel.k * kernel.steps
        a = (tiles, depth, ROWS) if kernel.trans_a else (tiles, ROWS, depth)
        b = (tiles, depth, kernel.n) if kernel.trans_b else (tiles, kernel.n, depth)
        d = (tiles, ROWS, kernel.n)
        kinds = (self.kinds, self.kinds, self.kinds_c or self.kinds)
        types = (self._type(kernel.a), self._type(kernel.b_type), kernel.d)
        lines = ["// ---", f"// about: {self.about}", f"// grid: {tiles}", "// block: 128", "// args:"]
        for i, (name, shape) in enumerate({"a": a, "b": b, "c": d}.items()):
            fields = f"dtype: {types[i]}, shape: {list(shape)}, kinds: {kinds[i]}, seed: {self.seed + i}"
            lines.append(f"//   {name}: {{{fields}}}")
        lines.append(f"//   d: {{dtype: {kernel.d}, shape: {list(d)}, kinds: poison, out: true}}")
        if self.kinds == "whole":
            lines += ["// expect:", f"//   d: {self._expected()}"]
        return "\n".join([*lines, "// ---", kernel.ptx()])

    def _type(self, element: str) -> str:
        if self.bits:
            return f"u{8 * self.kernel.item}"
        return "f32" if element == "tf32" else element

    def _expected(self) -> str:
        kernel = self.kernel
        wide = "np.int64" if kernel.d == "s32" else "np.float64"
        a = "a.transpose(0, 2, 1)" if kernel.trans_a else "a"
        b = "b" if kernel.trans_b else "b.transpose(0, 2, 1)"
        sign = "-" if kernel.scale_a * kernel.scale_b < 0 else ""
        product = f"{sign}({a}.astype({wide}) @ {b}.astype({wide}))"
        return f"{product} + c.astype({wide})" if kernel.accumulate else product


def _types(kernel: Wgmma) -> str:
    """The part of a case's name that gives D's type, A's, and B's if it is another."""
    return "_".join(filter(None, (kernel.d, kernel.a, kernel.b)))


def _all_cases() -> Iterator[WgmmaCase]:
    swizzled: dict[str, Any] = {"swizzle_a": "128B", "swizzle_b": "128B"}
    for types in (*_FLOATS, *_INTEGERS):
        for short, where in (("ss", "shared memory"), ("rs", "registers")):
            kernel = Wgmma(16, a_in_registers=short == "rs", **types)
            about = f"whole numbers, A from {where}: {kernel.name}"
            yield WgmmaCase(f"wgmma/whole_{_types(kernel)}_{short}", about, kernel, tiles=2)
    for n in (8, 24, 40, 64, 96, 136, 192, 256):
        yield WgmmaCase(f"wgmma/n{n}", f"N = {n}", Wgmma(n))
    for n in (8, 248):
        yield WgmmaCase(f"wgmma/n{n}_f16", f"N = {n}, D of f16", Wgmma(n, "f16"))
    yield from _layouts(swizzled)
    yield from _scales(swizzled)
    for satfinite in (False, True):
        for types in _INTEGERS[:2]:
            kernel = Wgmma(16, satfinite=satfinite, **types)
            name = f"wgmma/ends_{_types(kernel)}{'_satfinite' if satfinite else ''}"
            about = f"sums at the ends of 32 bits: {kernel.name}"
            yield WgmmaCase(name, about, kernel, "[bits, edge, bits, edge]", "[edge, edge, top, top]", 4)
    yield from _numbers(swizzled)


def _layouts(swizzled: dict[str, Any]) -> Iterator[WgmmaCase]:
    """Swizzles, operands that lie the other way, base offsets, chains."""
    for swizzle in ("32B", "64B", "128B"):
        about = f"A and B swizzled within {swizzle}, K-major"
        kernel = Wgmma(32, swizzle_a=swizzle, swizzle_b=swizzle)
        yield WgmmaCase(f"wgmma/swizzle_{swizzle}", about, kernel)
    about = "A swizzled within 32B and B within 128B"
    yield WgmmaCase("wgmma/swizzle_apart", about, Wgmma(32, swizzle_a="32B", swizzle_b="128B"))
    about = "tf32 swizzled within 128B, a chain of four"
    yield WgmmaCase("wgmma/swizzle_tf32", about, Wgmma(32, a="tf32", steps=4, **swizzled))
    majors = {"b": "B is N-major", "a": "A is M-major", "ab": "A is M-major and B is N-major"}
    for swizzle in ("none", "32B", "64B", "128B"):
        for which, about in majors.items():
            flags: dict[str, Any] = {f"trans_{operand}": True for operand in which}
            kernel = Wgmma(64, swizzle_a=swizzle, swizzle_b=swizzle, **flags)
            yield WgmmaCase(f"wgmma/transposed_{which}_{swizzle}", f"{about}, swizzle {swizzle}", kernel)
    about = "both MN-major, N of several atoms of the swizzle, a chain of two"
    kernel = Wgmma(192, steps=2, swizzle_a="64B", swizzle_b="128B", trans_a=True, trans_b=True)
    yield WgmmaCase("wgmma/transposed_wide", about, kernel)
    kernel = Wgmma(64, a="bf16", a_in_registers=True, swizzle_b="128B", trans_b=True)
    yield WgmmaCase("wgmma/transposed_bf16_rs", "bf16 with A from registers and B N-major", kernel)
    for base in (1, 2, 5):
        start = f"the swizzle's pattern starts {base} rows of 128 bytes behind an address"
        about = f"{start} that is a multiple of 1024"
        yield WgmmaCase(f"wgmma/base_offset_{base}", about, Wgmma(32, steps=2, base=base, **swizzled))
    about = "four in one group, through one swizzled row of K"
    yield WgmmaCase("wgmma/chain", about, Wgmma(32, steps=4, **swizzled))
    kernel = Wgmma(32, steps=4, a_in_registers=True, swizzle_b="128B")
    yield WgmmaCase("wgmma/chain_rs", "four in one group, A from registers", kernel)
    yield WgmmaCase("wgmma/chain_none", "two in one group, without a swizzle", Wgmma(32, steps=2))


def _scales(swizzled: dict[str, Any]) -> Iterator[WgmmaCase]:
    """The signs of A and B, and D without its old value."""
    yield WgmmaCase("wgmma/negated_a", "imm-scale-a is -1", Wgmma(16, scale_a=-1))
    yield WgmmaCase("wgmma/negated_b", "imm-scale-b is -1", Wgmma(16, scale_b=-1))
    kernel = Wgmma(16, a_in_registers=True, scale_a=-1, scale_b=-1)
    yield WgmmaCase("wgmma/negated_both", "both scales are -1, from registers", kernel)
    yield WgmmaCase("wgmma/negated_tf32", "imm-scale-a is -1, tf32", Wgmma(16, a="tf32", scale_a=-1))
    yield WgmmaCase("wgmma/negated_e4m3", "imm-scale-b is -1, e4m3", Wgmma(16, a="e4m3", scale_b=-1))
    about = "scale-d is false: the old D does not count"
    yield WgmmaCase("wgmma/no_scale_d", about, Wgmma(16, accumulate=False))
    about = "scale-d is false in the first of four only"
    yield WgmmaCase("wgmma/no_scale_d_chain", about, Wgmma(16, steps=4, accumulate=False, **swizzled))
    about = "scale-d is false, D of f16"
    yield WgmmaCase("wgmma/no_scale_d_f16", about, Wgmma(16, "f16", accumulate=False))


def _numbers(swizzled: dict[str, Any]) -> Iterator[WgmmaCase]:
    """Numbers of all sizes: how products are rounded and summed. Only a recording says what is right."""
    for types in _FLOATS:
        sources = ("", "_rs") if types == _FLOATS[0] else ("",)
        for source in sources:
            kernel = Wgmma(a_in_registers=source == "_rs", **types)
            end = f"{_types(kernel)}{source}"
            about = f"numbers of all sizes, and special ones: {kernel.name}"
            kinds = "[near, wide, middle, tiny, special, special]"
            kinds_c = "[near, near, wide, tiny, near, special]"
            yield WgmmaCase(f"wgmma_numbers/{end}", about, kernel, kinds, kinds_c, 6)
            kinds_c = "[bits, zeros, near, bits]"
            yield WgmmaCase(f"wgmma/bits_{end}", f"any bits: {kernel.name}", kernel, "bits", kinds_c, 4)
            about = f"an accumulator of zeros: {kernel.name}"
            kinds = "[near, wide, tiny, middle]"
            yield WgmmaCase(f"wgmma/zero_c_{end}", about, kernel, kinds, "zeros", 4)
        kernel = Wgmma(steps=4, accumulate=False, **swizzled, **types)
        about = f"numbers through a chain of four, the first without the old D: {kernel.name}"
        name = f"wgmma/chain_numbers_{_types(kernel)}"
        yield WgmmaCase(name, about, kernel, "[near, wide, middle]", "near", 3)
    for n in (40, 96, 128, 200, 256):
        kernel = Wgmma(n, **swizzled)
        yield WgmmaCase(f"wgmma_numbers/n{n}", f"numbers, N = {n}", kernel, "[near]")
    about, both = "numbers, imm-scale-a is -1", "[near, special]"
    yield WgmmaCase("wgmma_numbers/negated", about, Wgmma(16, scale_a=-1), both, tiles=2)
    about = "numbers, imm-scale-b is -1, tf32"
    yield WgmmaCase("wgmma_numbers/negated_tf32", about, Wgmma(16, a="tf32", scale_b=-1), both, tiles=2)
    kernel = Wgmma(64, a="bf16", swizzle_a="128B", swizzle_b="64B", trans_a=True, trans_b=True)
    about = "numbers, both operands MN-major, bf16"
    yield WgmmaCase("wgmma_numbers/transposed", about, kernel, "[near]")


CASES = [replace(case, seed=_FIRST_SEED + 3 * place) for place, case in enumerate(_all_cases())]
