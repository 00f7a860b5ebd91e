"""The steps behind a cell's owner and behind a partition, for pages and widgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from cutecourse.atoms.mma_atom import MmaAtom, Operand
from cutecourse.atoms.tensor import AnyLayout, LayoutTensor
from cutecourse.atoms.tiled_copy import ThrCopy, copy_partition
from cutecourse.atoms.tiled_mma import ThrMma, partition
from cutecourse.layout import Explanation, Step, explain, idx2crd, pretty_str, right_inverse

__all__ = ["explain_cell", "explain_owner", "explain_partition"]

_OWN_STEPS = ("partition", "thrfrg", "copy_partition", "tidfrg")


def explain_partition(
    thr: ThrMma | ThrCopy,
    operand: Literal["A", "B", "C", "S", "D"],
    tensor: LayoutTensor | AnyLayout,
    *,
    whole: bool = False,
) -> Explanation:
    """The steps of one partition: which tile, which atom, which thread and value, which slice.

    `whole` keeps the steps of the layout algebra inside each as well: some hundred.
    Errors: PartitionError as the partition itself.

    >>> from cutecourse.atoms import make_tiled_mma
    >>> from cutecourse.layout import Layout
    >>> thr = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").get_slice(7)
    >>> print(explain_partition(thr, "C", Layout((16, 8), (8, 1))))
    partition(thread 7 of SM80_16x8x16_F32F16F16F32_TN x (1,1,1):(0,0,0), C, (16,8):(8,1)) ...
      1. permute: cut each mode into tiles, if given, their elements in the tile's order  [tiled = ...]
      2. atom: cut out what one atom covers, 16 x 8: (Atom, Rest)  [atoms = ((16,8),(1,1)):((8,1),(0,0))]
      3. thread-value: let (thread, value) of the atom choose the cell: (ThrV, FrgV)  [thr_val = ...]
      4. threads: deal the repetitions to the atoms side by side: (Thr, Rest) of each mode  [...]
      5. result: threads first, then values  [result = (((4,8),(1,1)),((2,2),(1,1))):(((2,8),...
      6. slice: thread 7 has the place (7, (0, 0)): its part starts there  [start = 14]
      7. result: what is left of the modes: (MMA, repetitions)  [result = 14 o ((2,2),1,1):((1,64),0,0)]
      => 14 o ((2,2),1,1):((1,64),0,0)
    """
    if isinstance(thr, ThrMma):
        explanation = explain(partition, thr.tiled_mma, operand, tensor, thr.thr_idx)
        what = f"{thr.tiled_mma.atom.name} x {thr.tiled_mma.atom_layout_mnk}"
    else:
        explanation = explain(copy_partition, thr.tiled_copy, operand, tensor, thr.thr_idx)
        what = f"{thr.tiled_copy.atom.name} x {thr.tiled_copy.layout_tv}"
    steps = explanation.steps
    if not whole:
        steps = tuple(replace(step, level=0) for step in steps if step.operation in _OWN_STEPS)
    operands = (("slice", f"thread {thr.thr_idx} of {what}"), ("operand", operand), ("tensor", tensor))
    return replace(explanation, operands=operands, steps=steps)


def explain_cell(atom: MmaAtom, operand: Operand, thr: int, val: int) -> Explanation:
    """The steps from a thread and one of its values to a matrix cell.

    Law: `row + rows * column = layout(thr, val)`.
    Errors: OwnershipError for a thread or a value out of range.

    >>> from cutecourse.atoms import mma_atom
    >>> print(explain_cell(mma_atom("SM80_16x8x16_F32F16F16F32_TN"), "C", 7, 2))
    cell(SM80_16x8x16_F32F16F16F32_TN, C, 7, 2)    law: row + rows * column = layout(thread, value)
      1. thread: split the thread along the thread mode (4,8)  [coordinate = (3,1), offset = 97]
      2. value: split the value along the value mode (2,2)  [coordinate = (0,1), offset = 8]
      3. index: add the two offsets: (3,1) . (32,1) + (0,1) . (16,8)  [index = 105]
      4. cell: count down the 16 rows first  [row = 9, column = 6]
      5. register: 1 value in each register  [register = 2, part = 0]
      => (9,6)
    """
    cell = atom.cell(operand, thr, val)
    layout = atom.layout(operand)
    rows = atom.operand_shape(operand)[0]
    steps: list[Step] = []
    offsets = []
    for mode, number, name in ((layout[0], thr, "thread"), (layout[1], val, "value")):
        offset = mode(number)
        offsets.append(offset)
        text = f"split the {name} along the {name} mode {pretty_str(mode.shape)}"
        steps.append(_step("cell", name, text, coordinate=idx2crd(number, mode.shape), offset=offset))
    parts = " + ".join(
        f"{pretty_str(idx2crd(n, m.shape))} . {pretty_str(m.stride)}"
        for m, n in ((layout[0], thr), (layout[1], val))
    )
    steps.append(_step("cell", "index", f"add the two offsets: {parts}", index=sum(offsets)))
    steps.append(_step("cell", "cell", f"count down the {rows} rows first", row=cell[0], column=cell[1]))
    steps.append(_register_step("cell", atom, operand, val))
    operands = (("atom", atom.name), ("operand", operand), ("thread", thr), ("value", val))
    return Explanation("cell", operands, tuple(steps), cell, "row + rows * column = layout(thread, value)")


def explain_owner(atom: MmaAtom, operand: Operand, cell: tuple[int, int]) -> Explanation:
    """The steps from a matrix cell to the thread that owns it and the register that holds it.

    Law: `thread + threads * value = right_inverse(layout)(row + rows * column)`.
    Errors: OwnershipError as `MmaAtom.owner`.

    >>> from cutecourse.atoms import mma_atom
    >>> print(explain_owner(mma_atom("SM80_16x8x16_F32F16F16F32_TN"), "C", (9, 6)))
    owner(SM80_16x8x16_F32F16F16F32_TN, C, (9,6)) ...
      1. index: 9 + 16 * 6: count down the 16 rows first  [index = 105]
      2. inverse: turn the thread-value layout around  [inverse = (8,2,2,4):(4,64,32,1)]
      3. split: 71 = 7 + 32 * 2  [thread = 7, value = 2]
      4. register: 1 value in each register  [register = 2, part = 0]
      => (7,2)
    """
    thr, val = atom.owner(operand, cell)
    rows = atom.operand_shape(operand)[0]
    row, column = cell
    index = row + rows * column
    inverse = right_inverse(atom.layout(operand))
    steps = (
        _step("owner", "index", f"{row} + {rows} * {column}: count down the {rows} rows first", index=index),
        _step("owner", "inverse", "turn the thread-value layout around", inverse=inverse),
        _step(
            "owner",
            "split",
            f"{thr + atom.threads * val} = {thr} + {atom.threads} * {val}",
            thread=thr,
            value=val,
        ),
        _register_step("owner", atom, operand, val),
    )
    operands = (("atom", atom.name), ("operand", operand), ("cell", cell))
    law = "thread + threads * value = right_inverse(layout)(row + rows * column)"
    return Explanation("owner", operands, steps, (thr, val), law)


def _register_step(operation: str, atom: MmaAtom, operand: Operand, val: int) -> Step:
    register, part = atom.register_of(operand, val)
    count = atom.values(operand) // atom.registers(operand)
    text = f"{count} value{'s' if count > 1 else ''} in each register"
    return _step(operation, "register", text, register=register, part=part)


def _step(operation: str, rule: str, text: str, **values: Any) -> Step:
    return Step(rule, text, tuple(values.items()), operation)
