"""The widgets' JavaScript against the Python reference, in Chromium, on many random cases."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from widgets.cases import layout, operand

from cutecourse import layout as algebra
from cutecourse.atoms import MMA_ATOMS, WGMMA_ATOMS
from cutecourse.errors import CourseError
from cutecourse.layout import cosize, explain, idx2crd, size
from cutecourse.palette import quad_of, ramp_step
from cutecourse.widgets import OPERATIONS, parse_tiler
from cutecourse.widgets.layout_pictures import operation_picture
from cutecourse.widgets.snapshots import atom_snapshot, cells_of, register_name
from support import machine

pytestmark = pytest.mark.browser

CASES_EACH = machine.amount(100, 600)


def test_layout_function__same_offsets_coordinates_size_and_cosize(javascript: Callable[..., Any]) -> None:
    rng = random.Random(11)
    layouts = [layout(rng) for _ in range(CASES_EACH)]
    expected = [
        {
            "size": size(one),
            "cosize": cosize(one),
            "offsets": [one(i) for i in _sample(one)],
            "coordinates": [_lists(idx2crd(i, one.shape)) for i in _sample(one)],
            "text": str(one),
        }
        for one in layouts
    ]
    found = javascript(
        "layout_explorer.js",
        """return x.map(([text, at]) => {
          const one = m.parseLayout(text);
          return { size: m.size(one), cosize: m.cosize(one), offsets: at.map((i) => m.offsetAt(one, i)),
                   coordinates: at.map((i) => m.idx2crd(i, one.shape)), text: m.formatLayout(one) };
        });""",
        [[str(one), _sample(one)] for one in layouts],
    )
    for one, python, js in zip(layouts, expected, found, strict=True):
        assert js == python, one


def _sample(one: Any) -> list[int]:
    """At most about 60 indices of a layout, and a few past its end."""
    return [*range(0, size(one), max(1, size(one) // 60)), *range(size(one), size(one) + 3)]


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if isinstance(value, tuple) else value


def _reference(operation: str, target: Any, text: str) -> dict[str, Any] | None:
    """What Python says: the result and the steps, or None for a refusal."""
    try:
        operands = (parse_tiler(text),) if text else ()
        snapshot = explain(getattr(algebra, operation), target, *operands).to_snapshot()
    except CourseError:
        return None
    keep = ("operation", "level", "rule", "values")
    return {
        "result": snapshot["result"],
        "steps": [{name: step[name] for name in keep} for step in snapshot["steps"]],
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation__same_result_steps_and_refusals(operation: str, javascript: Callable[..., Any]) -> None:
    rng = random.Random(f"operation {operation}")
    cases = []
    for _ in range(CASES_EACH):
        target = layout(rng)
        cases.append((target, operand(rng, operation, target)))
    expected = [_reference(operation, target, text) for target, text in cases]
    found = javascript(
        "layout_explorer.js",
        """return x.cases.map(([text, operand]) => {
          try {
            const operands = operand === "" ? [] : [m.parseTiler(operand)];
            const { result, steps } = m.perform(x.operation, m.parseLayout(text), operands);
            const kept = ({ operation, level, rule, values }) => ({ operation, level, rule, values });
            return { result, steps: steps.map(kept) };
          } catch (error) {
            if (error instanceof TypeError || error instanceof RangeError || !error.message) throw error;
            return null; // refused, in words
          }
        });""",
        {"operation": operation, "cases": [[str(target), text] for target, text in cases]},
    )
    for (target, text), python, js in zip(cases, expected, found, strict=True):
        assert js == python, f"{operation}({target}, {text})"
    outcomes = Counter("refused" if python is None else "done" for python in expected)
    assert outcomes["done"] >= CASES_EACH // 4, outcomes
    if operation not in {"filter", "complement", "right_inverse"}:  # these have an answer for every layout
        assert outcomes["refused"] >= CASES_EACH // 30, outcomes


def _drawn(operation: str, target: Any, text: str) -> Any:
    """The picture as Python draws it, as JSON would hold it; None where there is none."""
    operands = [parse_tiler(text)] if text else []
    try:
        result = getattr(algebra, operation)(target, *operands)
    except CourseError:
        return None
    picture = operation_picture(operation, target, operands, result)
    return picture and json.loads(json.dumps(asdict(picture)))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_picture__same_boards_and_words(operation: str, javascript: Callable[..., Any]) -> None:
    rng = random.Random(f"picture {operation}")
    cases = []
    for _ in range(CASES_EACH // 2):
        target = layout(rng)
        cases.append((target, operand(rng, operation, target)))
    found = javascript(
        "layout_explorer.js",
        """return x.cases.map(([text, operand]) => {
          const target = m.parseLayout(text);
          const operands = operand === "" ? [] : [m.parseTiler(operand)];
          let result;
          try {
            result = m.perform(x.operation, target, operands).result;
          } catch {
            return null; // refused
          }
          return m.operationPicture(x.operation, target, operands, result);
        });""",
        {"operation": operation, "cases": [[str(target), text] for target, text in cases]},
    )
    drawn = 0
    for (target, text), js in zip(cases, found, strict=True):
        assert js == _drawn(operation, target, text), f"{operation}({target}, {text})"
        drawn += js is not None
    assert drawn >= CASES_EACH // 15


@pytest.mark.parametrize(
    "text",
    ["4", "4:2", "(4,8):(8,1)", "(2,4:2)", "(_,4)", "( 2 , (2,2):(1,4) )", "(_4,_8)", "(4,)", "((2,_),3:1)"],
)
def test_tiler__both_readers_agree(text: str, javascript: Callable[..., Any]) -> None:
    js = javascript("layout_explorer.js", "return m.formatTiler(m.parseTiler(x))", text)
    assert js == algebra.pretty_str(parse_tiler(text))


@pytest.mark.parametrize(
    "text", ["", "(", "(2,", "2)", "(2,,3)", "x", "2 3", "(2,3):1", "4:", ":4", "0", "(0,2)", "2@1"]
)
def test_tiler__both_readers_refuse(text: str, javascript: Callable[..., Any]) -> None:
    js = "try { m.parseTiler(x); return 'accepted'; } catch (error) { return error.message; }"
    message = javascript("layout_explorer.js", js, text)
    assert message.startswith(f'operand "{text.strip()}"'), message
    with pytest.raises(CourseError, match="operand"):
        parse_tiler(text)


def test_ownership__same_cells_and_registers_for_every_atom(javascript: Callable[..., Any]) -> None:
    looks = {
        (atom.layout_a, atom.layout_b, atom.layout_c, atom.dtype_a.bits): atom for atom in MMA_ATOMS.values()
    }
    assert len(looks) >= 10
    wgmma = [WGMMA_ATOMS[f"SM90_64x{name}"] for name in ("24x16_F32F16F16_RS", "8x32_F32E4M3E4M3_RS_TN")]
    for atom in (*looks.values(), *wgmma):
        snapshot = atom_snapshot(atom)
        for letter in (one for one in "ABC" if not atom.in_shared_memory(one)):
            shown = snapshot.operands[letter]
            expected = {
                (thread, value): [list(cell), register_name(letter, value, shown), quad_of(thread)]
                for thread, value, cell in cells_of(shown)
            }
            found = javascript(
                "mma_ownership.js",
                """return m.ownership(x[0], x[1]).byThread.flat()
                     .map((e) => [e.thread, e.value, [e.cell, e.register, m.quadOf(e.thread)]]);""",
                [letter, snapshot.plain["operands"][letter]],
            )
            assert {(thread, value): rest for thread, value, rest in found} == expected, (atom.name, letter)
            for (thread, value), (cell, _, _) in expected.items():
                assert atom.cell(letter, thread, value) == tuple(cell)


def test_ramp__same_step_for_every_offset(javascript: Callable[..., Any]) -> None:
    pairs = [(offset, span) for span in (1, 2, 7, 8, 9, 32, 100, 257) for offset in range(span)]
    found = javascript("layout_explorer.js", "return x.map(([o, n]) => m.rampStep(o, n))", pairs)
    assert found == [ramp_step(offset, span) for offset, span in pairs]
