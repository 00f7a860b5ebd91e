"""An MMA atom: one instruction, and which thread keeps which matrix cell in which register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from cutecourse.atoms.errors import OwnershipError
from cutecourse.dtypes import DType
from cutecourse.layout import Layout, size

__all__ = ["CUTLASS_VERSION", "CutlassSource", "MmaAtom", "Operand", "ownership_map"]

Operand = Literal["A", "B", "C", "D"]
OPERANDS: tuple[Operand, ...] = ("A", "B", "C", "D")
CUTLASS_VERSION = "4.2.0"


@dataclass(frozen=True)
class CutlassSource:
    """Where CUTLASS says it: file, line and name in the release that `CUTLASS_VERSION` names."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"CUTLASS {CUTLASS_VERSION} {self.file}:{self.line} {self.name}"


@dataclass(frozen=True)
class MmaAtom:
    """One MMA instruction as CuTe knows it: D = A B + C, spread over the registers of the threads.

    Shapes: A is (M, K), B is (N, K), C and D are (M, N).
    Units:  threads are logical; `thr_id` maps them to the lanes of the warp. A value is one element
            of a thread's fragment, a register has 32 bits (for f64: 64).
    Source: `source` for the layouts, `ptx_source` for the instruction.

    >>> from cutecourse.atoms import mma_atom
    >>> atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    >>> atom.shape_mnk, atom.threads, atom.ptx
    ((16, 8, 16), 32, 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32')
    """

    name: str
    shape_mnk: tuple[int, int, int]
    dtype_d: DType
    dtype_a: DType
    dtype_b: DType
    dtype_c: DType
    thr_id: Layout
    layout_a: Layout
    layout_b: Layout
    layout_c: Layout
    ptx: str
    source: CutlassSource
    ptx_source: CutlassSource
    note: str = ""
    """A remark beyond the table, such as a mistake in it; empty for nearly all atoms."""

    def __repr__(self) -> str:
        return f"MmaAtom({self.name})"

    def __str__(self) -> str:
        m, n, k = self.shape_mnk
        return (
            f"MMA Atom {self.name}\n  ThrID:       {self.thr_id}\n  Shape MNK:   ({m},{n},{k})\n"
            f"  TV Layout A: {self.layout_a}\n  TV Layout B: {self.layout_b}\n  TV Layout C: {self.layout_c}"
        )

    @property
    def threads(self) -> int:
        """How many threads execute the instruction together."""
        return int(size(self.thr_id))

    # ---- one operand ----

    def layout(self, operand: Operand) -> Layout:
        """The operand's thread-value layout: (thread, value) to the index of a cell, rows first."""
        return {"A": self.layout_a, "B": self.layout_b, "C": self.layout_c, "D": self.layout_c}[
            _operand(operand)
        ]

    def dtype(self, operand: Operand) -> DType:
        """The operand's element type."""
        return {"A": self.dtype_a, "B": self.dtype_b, "C": self.dtype_c, "D": self.dtype_d}[_operand(operand)]

    def operand_shape(self, operand: Operand) -> tuple[int, int]:
        """The operand's rows and columns.

        >>> from cutecourse.atoms import mma_atom
        >>> atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
        >>> [atom.operand_shape(operand) for operand in ("A", "B", "C")]
        [(16, 16), (8, 16), (16, 8)]
        """
        m, n, k = self.shape_mnk
        return {"A": (m, k), "B": (n, k), "C": (m, n), "D": (m, n)}[_operand(operand)]

    def values(self, operand: Operand) -> int:
        """How many elements of the operand one thread holds."""
        return int(size(self.layout(operand)[1]))

    def fragment_sizes(self) -> dict[str, int]:
        """How many elements of A, B and C one thread holds.

        Law: M K / T, N K / T and M N / T for T threads, where every cell has one owner.

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").fragment_sizes()
        {'A': 8, 'B': 4, 'C': 4}
        """
        return {operand: self.values(operand) for operand in ("A", "B", "C")}

    def in_shared_memory(self, operand: Operand) -> bool:
        """Return whether the instruction reads the operand from shared memory, so that no thread holds it.

        >>> from cutecourse.atoms import mma_atom
        >>> atom = mma_atom("SM90_64x128x16_F32F16F16_RS")
        >>> [atom.in_shared_memory(operand) for operand in ("A", "B", "C")]
        [False, True, False]
        """
        threads = self.layout(operand)[0]
        return size(threads) > 1 and threads(size(threads) - 1) == 0

    # ---- registers ----

    def register_bits(self, operand: Operand) -> int:
        """How many bits a register of the operand has in PTX: 64 for f64, else 32."""
        return max(32, self.dtype(operand).bits)

    def registers(self, operand: Operand) -> int:
        """How many registers of a thread the operand takes.

        >>> from cutecourse.atoms import mma_atom
        >>> atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
        >>> [atom.registers(operand) for operand in ("A", "B", "C")]
        [4, 2, 4]
        """
        return self.values(operand) * self.dtype(operand).bits // self.register_bits(operand)

    def register_of(self, operand: Operand, val: int) -> tuple[int, int]:
        """Which register holds a value, and which part of it, counted from the low bits.

        Law: `val = register * per_register + part`, so for 16-bit types part 0 is the low half.
        Errors: OwnershipError for a value that the fragment has not.

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").register_of("A", 5)
        (2, 1)
        """
        self._check_value(operand, val)
        return divmod(val, self._per_register(operand))

    def value_in(self, operand: Operand, register: int, part: int = 0) -> int:
        """Which value a part of a register holds: the inverse of `register_of`.

        Errors: OwnershipError for a register or a part that the operand has not.
        """
        per_register = self._per_register(operand)
        if not (0 <= register < self.registers(operand) and 0 <= part < per_register):
            raise OwnershipError(
                f"{self.name}: operand {operand} has registers 0 to {self.registers(operand) - 1} with parts "
                f"0 to {per_register - 1}, not register {register}, part {part}."
            )
        return register * per_register + part

    def _per_register(self, operand: Operand) -> int:
        return self.register_bits(operand) // self.dtype(operand).bits

    # ---- who owns what ----

    def cell(self, operand: Operand, thr: int, val: int) -> tuple[int, int]:
        """The row and column of the value `val` of thread `thr`.

        Law: `row + rows * column = layout(operand)(thr, val)`.
        Errors: OwnershipError for a thread or a value out of range.

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").cell("C", 7, 2)
        (9, 6)
        """
        self._check_thread(thr)
        self._check_value(operand, val)
        return _table(self.layout(operand), self.operand_shape(operand)[0])[thr][val]

    def cells(self, operand: Operand, thr: int) -> list[tuple[int, tuple[int, int]]]:
        """All that a thread holds of an operand: (value, (row, column)), values in order.

        Errors: OwnershipError for a thread out of range.

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").cells("C", 0)
        [(0, (0, 0)), (1, (0, 1)), (2, (8, 0)), (3, (8, 1))]
        """
        self._check_thread(thr)
        return list(enumerate(_table(self.layout(operand), self.operand_shape(operand)[0])[thr]))

    def owners(self, operand: Operand, cell: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """Every (thread, value) that holds a cell: one, wherever the table is right (see `note`).

        Errors: OwnershipError for a cell outside the operand.
        """
        rows, columns = self.operand_shape(operand)
        row, column = cell
        if not (0 <= row < rows and 0 <= column < columns):
            raise OwnershipError(
                f"{self.name}: operand {operand} is {rows} x {columns}; it has no cell ({row}, {column})."
            )
        return _inverse(self.layout(operand), rows).get((row, column), ())

    def owner(self, operand: Operand, cell: tuple[int, int]) -> tuple[int, int]:
        """Which thread holds a cell, and as which of its values.

        Law: `cell(operand, *owner(operand, c)) = c`.
        Errors: OwnershipError for a cell outside the operand, or one that the table gives to no thread
                or to several (`note` says why).

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").owner("C", (9, 6))
        (7, 2)
        """
        owners = self.owners(operand, cell)
        if self.in_shared_memory(operand):
            raise OwnershipError(f"{self.name}: no thread holds {operand}; it is read from shared memory.")
        if len(owners) != 1:
            held = "no thread" if not owners else f"{len(owners)} threads"
            raise OwnershipError(f"{self.name}: {held} holds cell {cell} of {operand}. {self.note}".strip())
        return owners[0]

    # ---- for pages and widgets ----

    def to_snapshot(self) -> dict[str, Any]:
        """All of the atom as plain JSON: numbers, strings, lists and dicts; layouts as text.

        Each operand has its shape (rows, columns), its thread-value layout, the number of values and
        of registers a thread has of it, its type, and the bits of a value and of a register.

        >>> from cutecourse.atoms import mma_atom
        >>> mma_atom("SM80_16x8x16_F32F16F16F32_TN").to_snapshot()["operands"]["B"]  # doctest: +ELLIPSIS
        {'shape': [8, 16], 'layout': '((4,8),(2,2)):((16,1),(8,64))', 'values': 4, 'registers': 2, ...}
        """
        return {
            "name": self.name,
            "shape_mnk": list(self.shape_mnk),
            "dtype_d": self.dtype_d.name,
            "dtype_a": self.dtype_a.name,
            "dtype_b": self.dtype_b.name,
            "dtype_c": self.dtype_c.name,
            "threads": self.threads,
            "thr_id": str(self.thr_id),
            "ptx": self.ptx,
            "operands": {operand: self._operand_snapshot(operand) for operand in OPERANDS},
            "source": str(self.source),
            "note": self.note,
        }

    def _operand_snapshot(self, operand: Operand) -> dict[str, Any]:
        return {
            "shape": list(self.operand_shape(operand)),
            "layout": str(self.layout(operand)),
            "values": self.values(operand),
            "registers": self.registers(operand),
            "dtype": self.dtype(operand).name,
            "bits": self.dtype(operand).bits,
            "register_bits": self.register_bits(operand),
            "in_shared_memory": self.in_shared_memory(operand),
        }

    # ---- checks ----

    def _check_thread(self, thr: int) -> None:
        if not 0 <= thr < self.threads:
            raise OwnershipError(
                f"{self.name} has threads 0 to {self.threads - 1}; there is no thread {thr}."
            )

    def _check_value(self, operand: Operand, val: int) -> None:
        if not 0 <= val < self.values(operand):
            raise OwnershipError(
                f"{self.name}: a thread holds values 0 to {self.values(operand) - 1} of {operand}, not {val}."
            )


def ownership_map(
    atom: MmaAtom, operand: Operand, what: Literal["thread", "value", "register"] = "thread"
) -> list[list[int]]:
    """The operand as a table of rows: in each cell the thread that owns it, its value, or its register.

    It is what a kernel finds in memory when every thread stamps its number on its part of the operand.
    Errors: OwnershipError where a cell has no owner or several.

    >>> from cutecourse.atoms import mma_atom
    >>> ownership_map(mma_atom("SM80_16x8x16_F32F16F16F32_TN"), "C")[1]
    [4, 4, 5, 5, 6, 6, 7, 7]
    """
    rows, columns = atom.operand_shape(operand)

    def entry(row: int, column: int) -> int:
        thr, val = atom.owner(operand, (row, column))
        if what == "thread":
            return int(atom.thr_id(thr))
        return val if what == "value" else atom.register_of(operand, val)[0]

    return [[entry(row, column) for column in range(columns)] for row in range(rows)]


def _operand(operand: str) -> str:
    if operand not in OPERANDS:
        raise OwnershipError(f"an MMA has the operands A, B, C and D; there is no operand {operand!r}.")
    return operand


@cache
def _table(layout: Layout, rows: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Every thread's cells, in the order of its values."""
    threads, values = int(size(layout[0])), int(size(layout[1]))
    return tuple(
        tuple((int(layout(t, v)) % rows, int(layout(t, v)) // rows) for v in range(values))
        for t in range(threads)
    )


@cache
def _inverse(layout: Layout, rows: int) -> Mapping[tuple[int, int], tuple[tuple[int, int], ...]]:
    """Every cell's owners, as (thread, value)."""
    owners: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
    for thr, cells in enumerate(_table(layout, rows)):
        for val, cell in enumerate(cells):
            owners[cell] = (*owners.get(cell, ()), (thr, val))
    return MappingProxyType(owners)
