"""Rows: the arrays behind an instruction's slots. Registers, constants and special registers look alike.

While a kernel is decoded, slots are handed out for each way of looking at a value (a *kind*); when a bundle
of warps starts, each slot becomes an array of shape (n_warps, 32).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE
from cutecourse.emulator.core.memory import POISON, RANK_SHIFT
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.ptx.scopes import Register

__all__ = ["DYNAMIC", "RowTable"]

DYNAMIC = frozenset(
    ["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"]
    + [f"%pm{i}" for i in range(8)]
    + [f"%pm{i}_64" for i in range(8)]
)
"""Special registers whose value changes while a kernel runs."""
_ALL_BITS = (1 << 64) - 1
Recipe = tuple[Any, ...]
"""Says how to make a row: ("reg", bits, index), ("const", bits), ("shared", offset), ("special", name), ...

("part", bits, index, position) is a part of a register that is wider than the kind; position 0 is lowest.
("param", offset, bytes, signed) is a number among the kernel's parameters.
"""


class RowTable:
    """The slots of one program, and the recipes for their rows."""

    def __init__(self) -> None:
        self._count: dict[int, int] = {1: 0, 8: 0, 16: 0, 32: 0, 64: 0}
        self._registers: dict[tuple[str, int], tuple[int, int]] = {}
        self._recipes: dict[str, list[Recipe]] = {kind: [] for kind in KINDS}
        self._slots: dict[tuple[str, Recipe], int] = {}
        self._constants: dict[int, dict[tuple[str, int], NDArray[Any]]] = {}
        """The rows of constants, by the number of warps in a bundle: all bundles share them."""

    def slot(self, kind: str, recipe: Recipe) -> int:
        """The slot of a recipe, the same each time it is asked for."""
        key = (kind, recipe)
        found = self._slots.get(key)
        if found is None:
            found = self._slots[key] = len(self._recipes[kind])
            self._recipes[kind].append(recipe)
        return found

    def constant(self, kind: str, bits: int) -> int:
        """The slot of a constant bit pattern."""
        return self.slot(kind, ("const", bits & ((1 << KINDS[kind][0]) - 1)))

    @property
    def reads_clocks(self) -> bool:
        """True if the program reads a special register that changes while a kernel runs."""
        return any(
            recipe[0] == "special" and recipe[1] in DYNAMIC
            for recipes in self._recipes.values()
            for recipe in recipes
        )

    def register(self, function: str, register: Register) -> tuple[int, int]:
        """Width and number of a register's storage; each function has registers of its own."""
        key = (function, register.index)
        found = self._registers.get(key)
        if found is None:
            bits = register.bits
            if bits not in self._count:
                raise UnsupportedInstruction(f"registers of {bits} bits ({register.name}) are not supported")
            found = self._registers[key] = (bits, self._count[bits])
            self._count[bits] += 1
        return found

    def make(
        self, n: int, rank: int, special: Callable[[str], NDArray[np.uint64]], parameters: bytes
    ) -> dict[str, list[NDArray[Any]]]:
        """The rows of one bundle: registers hold poison, constants and special registers their values.

        n           warps of the bundle; rank: the rank of its blocks in their clusters.
        special     gives the values of a special register, shape (n, 32).
        parameters  the bytes of the kernel's parameters.
        """
        storage: dict[int, NDArray[Any]] = {}
        for bits, count in self._count.items():
            if bits == 1:
                storage[1] = np.zeros((count, n, WARP_SIZE), dtype=np.bool_)
            else:
                poison = int.from_bytes(bytes([POISON]) * (bits // 8), "little")
                storage[bits] = np.full((count, n, WARP_SIZE), poison, dtype=f"u{bits // 8}")
        rows: dict[str, list[NDArray[Any]]] = {}
        for kind, recipes in self._recipes.items():
            if recipes:
                bits, dtype, parts = KINDS[kind]
                view = storage[bits] if bits == 1 else storage[bits].view(dtype)
                if parts > 1:
                    view = view.reshape(-1, n, WARP_SIZE, parts)
                registers = list(view)
                constants = self._constants.setdefault(n, {})
                made = rows[kind] = []
                for recipe in recipes:
                    what = recipe[0]
                    if what == "reg":
                        row = registers[recipe[2]]
                    elif what == "const":
                        row = constants.get((kind, recipe[1]))
                        if row is None:
                            held = np.full((n, WARP_SIZE), recipe[1] & _ALL_BITS, dtype=np.uint64)
                            row = constants[kind, recipe[1]] = _as_kind(held, kind)
                            row.flags.writeable = False
                    else:
                        row = _make_row(n, rank, special, parameters, storage, kind, recipe)
                    made.append(row)
        return rows


def _make_row(
    n: int,
    rank: int,
    special: Callable[[str], NDArray[np.uint64]],
    parameters: bytes,
    storage: dict[int, NDArray[Any]],
    kind: str,
    recipe: Recipe,
) -> NDArray[Any]:
    what = recipe[0]
    _, dtype, parts = KINDS[kind]
    shape = (n, WARP_SIZE)
    if what == "part":
        wide = storage[recipe[1]][recipe[2]]
        pieces = wide.view(dtype).reshape(*shape, -1)
        first = recipe[3] * parts
        return pieces[..., first] if parts == 1 else pieces[..., first : first + parts]
    if what in {"temporary", "sink"}:
        return np.zeros(shape if parts == 1 else (*shape, parts), dtype=dtype)
    if what == "param":
        _, start, n_bytes, signed = recipe
        number = int.from_bytes(parameters[start : start + n_bytes], "little", signed=signed)
        held = np.full(shape, number & _ALL_BITS, dtype=np.uint64)
    elif what == "shared":
        held = np.full(shape, (rank << RANK_SHIFT) + recipe[1] & _ALL_BITS, dtype=np.uint64)
    else:
        name = recipe[1]
        held = np.zeros(shape, dtype=np.uint64) if name in DYNAMIC else special(name)
    return _as_kind(held, kind)


def _as_kind(held: NDArray[np.uint64], kind: str) -> NDArray[Any]:
    """The low bits of numbers, seen as a kind."""
    bits, dtype, parts = KINDS[kind]
    if bits == 1:
        return held.astype(np.bool_)
    raw = held.astype(f"u{bits // 8}").view(dtype)
    return raw.reshape(*held.shape, parts) if parts > 1 else raw
