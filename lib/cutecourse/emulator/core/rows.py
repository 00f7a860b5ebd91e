"""Rows: the arrays behind an instruction's slots. Registers, constants and special registers look alike.

The decoder hands out slots, which number the rows of each width. When a bundle of warps starts, the rows of a
width become one array of shape (slots, n_warps, 32). The array can be viewed as different kinds of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.kinds import KINDS, WARP_SIZE
from cutecourse.emulator.core.memory import POISON, RANK_SHIFT
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.ptx.scopes import Register

__all__ = ["DYNAMIC", "RowTable", "Rows", "Selection"]

DYNAMIC = frozenset(
    ["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"]
    + [f"%pm{i}" for i in range(8)]
    + [f"%pm{i}_64" for i in range(8)]
)
"""Special registers whose value changes while a kernel runs."""
Recipe = tuple[Any, ...]
"""Says how to fill a row: ("reg", function, number), ("const", bits), ("shared", offset), ("special", name).

("part", bits, slot, position) is a part of a wider row; position 0 is the lowest.
("param", offset, bytes, signed) is a number among the kernel's parameters.
"""
_MOST_OF = 0.75
"""If a kind views a larger share of the rows than this, it gets all rows, which NumPy does faster."""
_NOBODYS = np.zeros(0)
_FILLED = frozenset({"shared", "special", "param"})
"""Rows whose values depend on the launch or on the bundle."""


class Rows(dict[str, list[NDArray[Any]]]):
    """The rows of one bundle: `rows[kind][slot]` has shape (n, 32), with a third axis for a packed kind."""

    def __init__(
        self,
        storage: dict[int, NDArray[Any]],
        seen: dict[str, set[int]],
        parts: dict[int, list[tuple[int, Recipe]]],
    ) -> None:
        super().__init__()
        self._storage = storage
        self._seen = seen
        self._parts = parts

    def __missing__(self, kind: str) -> list[NDArray[Any]]:
        """Make the rows of a kind on first use; few bundles use all kinds."""
        rows, seen = self.all(kind), self._seen[kind]
        if len(seen) > _MOST_OF * len(rows):
            found = list(rows)
        else:
            found = list(repeat(_NOBODYS, len(rows)))
            for slot in seen:
                found[slot] = rows[slot]
        self[kind] = found
        bits, _, count = KINDS[kind]
        pieces = {wide: self.parts(kind, wide) for wide in self._storage if wide > bits > 1}
        for slot, (_, wide, of, position) in self._parts.get(bits, ()):
            if slot in seen:
                first = position * count
                part = first if count == 1 else slice(first, first + count)
                found[slot] = pieces[wide][of, :, :, part]
        return found

    def all(self, kind: str) -> NDArray[Any]:
        """All rows of a kind as one array, shape (slots, n, 32); the slots of parts are meaningless in it."""
        bits, dtype, count = KINDS[kind]
        held = self._storage[bits]
        return held.view(dtype).reshape(*held.shape, count) if count > 1 else held.view(dtype)

    def parts(self, kind: str, wide: int) -> NDArray[Any]:
        """All rows of a wider width, cut into parts: shape (slots, n, 32, parts of a row)."""
        held, dtype = self._storage[wide], KINDS[kind][1]
        return held.view(dtype).reshape(*held.shape, held.itemsize // dtype.itemsize)

    @property
    def storage(self) -> Iterable[NDArray[Any]]:
        """The memory of all rows, one array for each width."""
        return self._storage.values()

    def release(self) -> None:
        """Free the memory."""
        self.clear()
        self._storage = {}


class RowTable:
    """The slots of one program, and the recipes for their rows."""

    def __init__(self) -> None:
        self._recipes: dict[int, list[Recipe]] = {1: [], 8: [], 16: [], 32: [], 64: [], 128: []}
        self._slots: dict[tuple[int, Recipe], int] = {}
        self._seen: dict[str, set[int]] = {kind: set() for kind in KINDS}
        """The slots that instructions view as each kind."""
        self._parts: dict[int, list[tuple[int, Recipe]]] = {}
        self._made: tuple[dict[int, NDArray[Any]], list[tuple[int, int, Recipe]]] | None = None

    def slot(self, kind: str, recipe: Recipe) -> int:
        """The slot of a recipe: always the same one, for all kinds of a width."""
        bits = KINDS[kind][0]
        key = (bits, recipe)
        found = self._slots.get(key)
        if found is None:
            recipes = self._recipes[bits]
            found = self._slots[key] = len(recipes)
            recipes.append(recipe)
            if recipe[0] == "part":
                self._parts.setdefault(bits, []).append((found, recipe))
        self._seen[kind].add(found)
        return found

    def recipe(self, kind: str, slot: int) -> Recipe:
        """The recipe of a slot."""
        return self._recipes[KINDS[kind][0]][slot]

    def holder(self, kind: str, slot: int) -> tuple[int, int]:
        """Width and slot of the row that holds a row's memory: a part's wider row, or else the row itself."""
        what, *rest = self.recipe(kind, slot)
        return (rest[0], rest[1]) if what == "part" else (KINDS[kind][0], slot)

    def constant(self, kind: str, bits: int) -> int:
        """The slot of a constant bit pattern."""
        return self.slot(kind, ("const", bits & ((1 << KINDS[kind][0]) - 1)))

    @property
    def specials(self) -> frozenset[str]:
        """The special registers that the program reads."""
        recipes = (recipe for recipes in self._recipes.values() for recipe in recipes)
        return frozenset(str(recipe[1]) for recipe in recipes if recipe[0] == "special")

    @property
    def reads_clocks(self) -> bool:
        """True if the program reads a special register that changes while a kernel runs."""
        return any(name in DYNAMIC for name in self.specials)

    def register(self, function: str, register: Register, kind: str | None = None) -> int:
        """The slot of a register viewed as a kind; each function has registers of its own."""
        if kind is None:
            kind = "pred" if register.bits == 1 else f"u{register.bits}"
        if kind not in KINDS:
            raise UnsupportedInstruction(
                f"registers of {register.bits} bits ({register.name}) are not supported"
            )
        return self.slot(kind, ("reg", function, register.index))

    def make(
        self, n: int, rank: int, special: Callable[[str], NDArray[np.uint64]], parameters: bytes
    ) -> Rows:
        """Make the rows of a bundle: registers hold poison, constants and special registers their values.

        n           warps of the bundle; rank: the rank of its blocks in their clusters.
        special     gives the values of a special register, which broadcast to shape (n, 32).
        parameters  the bytes of the kernel's parameters.
        """
        if self._made is None:
            self._made = self._prepare()
        initial, filled = self._made
        storage = {}
        for bits, values in initial.items():
            storage[bits] = np.empty((len(values), n, WARP_SIZE), values.dtype)
            storage[bits][...] = values
        for bits, slot, recipe in filled:
            row = storage[bits][slot]
            if recipe[0] == "shared":
                row[...] = _patterns(bits, [(rank << RANK_SHIFT) + recipe[1]])
            elif recipe[0] == "param":
                _, start, n_bytes, signed = recipe
                raw = parameters[start : start + n_bytes]
                row[...] = _patterns(bits, [int.from_bytes(raw, "little", signed=signed)])
            else:
                row[...] = special(recipe[1])
        return Rows(storage, self._seen, self._parts)

    def _prepare(self) -> tuple[dict[int, NDArray[Any]], list[tuple[int, int, Recipe]]]:
        """Initial values by width, shape (slots, 1, 1), and (width, slot, recipe) of rows to fill later."""
        initial = {}
        filled = []
        for bits, recipes in self._recipes.items():
            poison = 0 if bits == 1 else int.from_bytes(bytes([POISON]) * (bits // 8), "little")
            held = [r[1] if r[0] == "const" else poison if r[0] == "reg" else 0 for r in recipes]
            initial[bits] = _patterns(bits, held).reshape(-1, 1, 1)
            filled += [
                (bits, slot, recipe)
                for slot, recipe in enumerate(recipes)
                if recipe[0] in _FILLED and recipe[1] not in DYNAMIC
            ]
        return initial, filled


def _patterns(bits: int, numbers: Sequence[int]) -> NDArray[Any]:
    """The low bits of integers as one array, of the type that rows of this width have."""
    mask = (1 << bits) - 1
    if bits <= 64:
        return np.array([number & mask for number in numbers], np.bool_ if bits == 1 else f"u{bits // 8}")
    raw = b"".join((number & mask).to_bytes(bits // 8, "little") for number in numbers)
    return np.frombuffer(raw, KINDS[f"u{bits}"][1])


class Selection:
    """Several rows of a kind that is not packed, which one NumPy operation reads or writes at once."""

    def __init__(self, table: RowTable, kind: str, slots: Sequence[int]) -> None:
        self._kind = kind
        self._slots = np.array(slots)
        recipes = [table.recipe(kind, slot) for slot in slots]
        self._wide: int | None = None
        """The width of the wider rows, if all rows are parts of such rows."""
        if all(recipe[0] == "part" for recipe in recipes) and len({recipe[1] for recipe in recipes}) == 1:
            self._wide = recipes[0][1]
            self._of, self._position = np.array([recipe[2:] for recipe in recipes]).T
        self._mixed = self._wide is None and any(recipe[0] == "part" for recipe in recipes)

    def take(self, rows: Rows) -> NDArray[Any]:
        """A copy of the rows, shape (rows, n, 32)."""
        found: NDArray[Any]
        if self._wide is not None:
            found = rows.parts(self._kind, self._wide)[self._of, :, :, self._position]
        elif self._mixed:
            found = np.stack([rows[self._kind][slot] for slot in self._slots])
        else:
            found = rows.all(self._kind)[self._slots]
        return found

    def put(self, rows: Rows, values: NDArray[Any]) -> None:
        """Write the rows; `values` has the shape that `take` returns."""
        if self._wide is not None:
            rows.parts(self._kind, self._wide)[self._of, :, :, self._position] = values
        elif self._mixed:
            for slot, held in zip(self._slots, values, strict=True):
                rows[self._kind][slot][...] = held
        else:
            rows.all(self._kind)[self._slots] = values
