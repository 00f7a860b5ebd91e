"""Random layouts and operands: deep and flat, compact and strided, zero strides, and what is refused."""

from __future__ import annotations

import random
from typing import Any

from cutecourse.layout import Layout, cosize, size

EXTENTS = (1, 2, 2, 3, 4, 4, 5, 6, 8)


def nested(rng: random.Random, leaves: list[Any]) -> Any:
    """Group leaves at random into modes, up to three deep."""
    if len(leaves) == 1:
        return leaves[0] if rng.random() < 0.8 else (leaves[0],)
    parts, rest = [], list(leaves)
    while rest:
        count = rng.randint(1, max(1, min(len(rest), 2)))
        group, rest = rest[:count], rest[count:]
        parts.append(
            group[0] if len(group) == 1 else nested(rng, group) if rng.random() < 0.7 else tuple(group)
        )
    return tuple(parts)


def like(profile: Any, leaves: list[Any]) -> Any:
    """Put leaves into a profile."""
    if isinstance(profile, tuple):
        return tuple(like(part, leaves) for part in profile)
    return leaves.pop(0)


def layout(
    rng: random.Random, most_leaves: int = 4, kinds: str = "compact permuted padded zeros wild"
) -> Layout:
    """One layout: compact, compact in another order, with gaps, with zero strides, or anything."""
    extents = [rng.choice(EXTENTS) for _ in range(rng.randint(1, most_leaves))]
    kind = rng.choice(kinds.split())
    order = list(range(len(extents)))
    if kind != "compact":
        rng.shuffle(order)
    strides, current = [0] * len(extents), 1
    for position in order:
        if kind == "padded" and rng.random() < 0.6:
            current *= rng.choice((1, 2, 3))
        strides[position] = current
        current *= extents[position]
        if kind == "wild":
            strides[position] = rng.choice((0, 1, 2, 3, 4, 6, 8, 12, 16))
        elif kind == "zeros" and rng.random() < 0.4:
            strides[position] = 0
    shape = nested(rng, extents)
    return Layout(shape, like(shape, strides))


def tiler(rng: random.Random, target: Layout, *, by_mode: bool = True) -> Any:
    """An operand for a divide, product or composition: an extent, a layout, or one a mode."""
    kind = rng.random()
    if by_mode and kind < 0.15:
        return rng.choice((1, 2, 3, 4, 8))
    if by_mode and kind < 0.45:
        return tuple(
            rng.choice((None, 1, 2, 3, 4, layout(rng, 1), layout(rng, 2)))
            for _ in range(rng.randint(1, len(target) + (rng.random() < 0.1)))
        )
    return layout(rng, 2 if kind < 0.8 else 3)


def operand(rng: random.Random, operation: str, target: Layout) -> str:
    """An operand's text for an operation, as a reader would type it."""
    if operation in {"filter", "right_inverse", "left_inverse"}:
        return ""
    if operation == "coalesce":
        choice = rng.random()
        return (
            ""
            if choice < 0.5
            else text(tuple(rng.choice((1, (1, 1), None)) for _ in range(rng.randint(1, len(target) + 1))))
        )
    if operation == "complement":
        choice = rng.random()
        if choice < 0.15:
            return ""
        if choice < 0.25:
            return text((rng.choice((2, 4, 12)), rng.choice((3, 8, 16))))
        return str(rng.choice((1, 7, 24, 64, size(target), cosize(target), 2 * cosize(target))))
    if operation in {"blocked_product", "raked_product"}:
        return text(tiler(rng, target, by_mode=rng.random() < 0.05))
    return text(tiler(rng, target))


def text(value: Any) -> str:
    """A tiler's notation."""
    if isinstance(value, tuple):
        return "(" + ",".join(text(part) for part in value) + ("," if len(value) == 1 else "") + ")"
    return "_" if value is None else str(value)
