"""Variants of a big copy in PTX: vector width, vectors in flight, cache hints, CTAs that stay."""

from __future__ import annotations

from dataclasses import dataclass

from cutecourse.kernels.spec import LaunchSpec, Tensor

__all__ = ["VARIANTS", "Variant", "variant_spec"]

_REGISTERS = {1: "{v}0", 2: "{{{v}0, {v}1}}", 4: "{{{v}0, {v}1, {v}2, {v}3}}"}


@dataclass(frozen=True)
class Variant:
    """A copy of a contiguous array.

    width      elements of 4 bytes in each access.
    vectors    loads that a thread issues before its first store.
    threads    in a CTA.
    load, store  what stands between `.global` and the width: cache hints.
    ctas_per_sm  None: one CTA for each tile. Otherwise so many CTAs stay on each SM and go through the tiles.
    """

    width: int = 4
    vectors: int = 4
    threads: int = 256
    load: str = ""
    store: str = ""
    ctas_per_sm: int | None = None

    @property
    def name(self) -> str:
        """The variant in a few words."""
        words = [f"{4 * self.width} bytes x {self.vectors}", f"{self.threads} threads"]
        words += [f"load{self.load}"] * bool(self.load) + [f"store{self.store}"] * bool(self.store)
        if self.ctas_per_sm:
            words.append(f"{self.ctas_per_sm} CTAs stay on each SM")
        return ", ".join(words)

    @property
    def tile(self) -> int:
        """Elements that a CTA copies at once."""
        return self.width * self.vectors * self.threads


VARIANTS = (
    *(Variant(width=width, vectors=1) for width in (1, 2, 4)),
    *(Variant(width=1, vectors=vectors) for vectors in (2, 4, 8)),
    *(Variant(vectors=vectors) for vectors in (2, 4, 8)),
    *(Variant(threads=threads) for threads in (128, 512, 1024)),
    Variant(load=".cs"),
    Variant(store=".cs"),
    Variant(load=".cs", store=".cs"),
    Variant(load=".L1::no_allocate"),
    Variant(load=".L1::no_allocate", store=".cs"),
    Variant(store=".wt"),
    Variant(vectors=8, load=".cs", store=".cs"),
    *(Variant(ctas_per_sm=count) for count in (2, 4, 8)),
    Variant(vectors=8, ctas_per_sm=4, load=".cs", store=".cs"),
)


def variant_spec(variant: Variant, m: int, n: int, sms: int) -> LaunchSpec:
    """The launch that copies an f32 matrix of m x n as one array. Errors: ValueError without whole tiles."""
    tiles = m * n // variant.tile
    if m * n % variant.tile:
        raise ValueError(f"{variant.name}: {m}x{n} is not a multiple of {variant.tile} elements")
    ctas = tiles if variant.ctas_per_sm is None else min(tiles, variant.ctas_per_sm * sms)
    width = f".v{variant.width}.b32" if variant.width > 1 else ".b32"
    step = 4 * variant.width * variant.threads
    registers = [_REGISTERS[variant.width].format(v=f"%v{i}_") for i in range(variant.vectors)]
    names = [f"%v{i}_{j}" for i in range(variant.vectors) for j in range(variant.width)]
    loads = [
        f"    ld.global{variant.load}{width} {one}, [%from + {i * step}];" for i, one in enumerate(registers)
    ]
    stores = [
        f"    st.global{variant.store}{width} [%to + {i * step}], {one};" for i, one in enumerate(registers)
    ]
    text = "\n".join(
        [
            ".version 8.0",
            ".target sm_80",
            ".address_size 64",
            ".visible .entry copy_variant(.param .u64 source, .param .u64 result)",
            "{",
            "    .reg .pred %more;",
            f"    .reg .b32 %thread, %tile, {', '.join(names)};",
            "    .reg .b64 %a, %b, %from, %to, %offset, %at;",
            "    ld.param.u64 %a, [source];",
            "    ld.param.u64 %b, [result];",
            "    cvta.to.global.u64 %a, %a;",
            "    cvta.to.global.u64 %b, %b;",
            "    mov.u32 %thread, %tid.x;",
            f"    mul.wide.u32 %at, %thread, {4 * variant.width};",
            "    mov.u32 %tile, %ctaid.x;",
            "NEXT:",
            f"    mul.wide.u32 %offset, %tile, {4 * variant.tile};",
            "    add.u64 %offset, %offset, %at;",
            "    add.u64 %from, %a, %offset;",
            "    add.u64 %to, %b, %offset;",
            *loads,
            *stores,
            f"    add.u32 %tile, %tile, {ctas};",
            f"    setp.lt.u32 %more, %tile, {tiles};",
            "    @%more bra NEXT;",
            "    ret;",
            "}",
            "",
        ]
    )
    return LaunchSpec(
        name="copy_variant",
        language="ptx",
        ptx=text,
        entry="copy_variant",
        grid=(ctas, 1, 1),
        block=(variant.threads, 1, 1),
        params=(Tensor("source", "f32", (m, n), (n, 1)), Tensor("result", "f32", (m, n), (n, 1))),
    )
