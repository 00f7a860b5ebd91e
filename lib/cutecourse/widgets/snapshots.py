"""The input of the widgets: plain layouts and atom snapshots, checked once, with errors in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cutecourse.errors import CourseError
from cutecourse.layout import Layout, cosize, size
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.tilers import parse_tiler

OPERANDS = ("A", "B", "C")
MAX_CELLS = 1024
MAX_OFFSETS = 4096


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def drawable_layout(layout: Any) -> Layout:
    """A layout whose offsets can be drawn in a memory line: integer strides of 0 and more, not too large.

    Errors: WidgetError, with the layout and the rule it breaks.
    """
    if not isinstance(layout, Layout):
        text = str(layout)
        try:
            layout = Layout.parse(text) if ":" in text else Layout(parse_tiler(text))
        except CourseError as error:
            raise WidgetError(f"{text!r} is not a layout such as '(4,8):(8,1)': {error}") from error
        if not isinstance(layout, Layout):
            raise WidgetError(
                f"{text} is {type(layout).__name__}; only plain layouts such as '(4,8):(8,1)' are drawn."
            )
    if any(not isinstance(step, int) for step in _leaves(layout.stride)):
        raise WidgetError(f"{layout} has coordinate strides; only integer strides have offsets to draw.")
    if any(step < 0 for step in _leaves(layout.stride)):
        raise WidgetError(
            f"{layout} has a negative stride, which leads before offset 0; use strides of 0 and more."
        )
    if size(layout) > MAX_CELLS or cosize(layout) > MAX_OFFSETS:
        raise WidgetError(
            f"{layout} has size {size(layout)} and cosize {cosize(layout)}; "
            f"up to {MAX_CELLS} cells and {MAX_OFFSETS} offsets are drawn."
        )
    return layout


@dataclass(frozen=True)
class OperandSnapshot:
    """One operand of an atom: `layout` takes (thread, value) to the index `row + rows * column`."""

    shape: tuple[int, int]
    layout: Layout
    values: int
    bits: int
    register_bits: int
    in_shared_memory: bool = False


@dataclass(frozen=True)
class AtomSnapshot:
    """The facts about an MMA atom that the widgets use."""

    name: str
    shape_mnk: tuple[int, int, int]
    threads: int
    operands: Mapping[str, OperandSnapshot]
    ptx: str
    plain: Mapping[str, Any]


def atom_snapshot(atom: Any) -> AtomSnapshot:
    """Read an atom (anything with `to_snapshot()`) or its snapshot.

    Errors: WidgetError, naming what is missing.
    """
    plain = atom.to_snapshot() if hasattr(atom, "to_snapshot") else atom
    if not isinstance(plain, Mapping):
        raise WidgetError(f"{atom!r} is neither an MMA atom nor the snapshot of one.")
    try:
        operands = {
            letter: OperandSnapshot(
                shape=tuple(plain["operands"][letter]["shape"]),
                layout=Layout.parse(plain["operands"][letter]["layout"]),
                values=plain["operands"][letter]["values"],
                bits=plain["operands"][letter]["bits"],
                register_bits=plain["operands"][letter]["register_bits"],
                in_shared_memory=plain["operands"][letter].get("in_shared_memory", False),
            )
            for letter in OPERANDS
        }
        return AtomSnapshot(
            plain["name"], tuple(plain["shape_mnk"]), plain["threads"], operands, plain["ptx"], dict(plain)
        )
    except KeyError as error:
        name = plain.get("name", "?")
        raise WidgetError(
            f"The snapshot of the atom {name} has no {error}; make it with atom.to_snapshot()."
        ) from error


def cells_of(operand: OperandSnapshot) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Every (thread, value, coordinate) of an operand: the layout's index is `row + rows * column`."""
    threads = size(operand.layout) // operand.values
    for value in range(operand.values):
        for thread in range(threads):
            column, row = divmod(operand.layout(thread + threads * value), operand.shape[0])
            yield thread, value, (row, column)


def register_name(letter: str, value: int, operand: OperandSnapshot) -> str:
    """The register a value lies in, and its part there: `a0` (all), `a0.lo`, `a0.hi`, `a1.b3`, `a1.e7`."""
    per_register = operand.register_bits // operand.bits
    register, part = divmod(value, per_register)
    name = f"{letter.lower()}{register}"
    if per_register == 1:
        return name
    if per_register == 2:
        return f"{name}.{('lo', 'hi')[part]}"
    return f"{name}.{'b' if operand.bits == 8 else 'e'}{part}"
