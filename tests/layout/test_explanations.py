"""Explanations: the steps come from the computation, end in its result, and hold its intermediate values."""

import inspect
import json
from html import escape
from typing import Any

import pytest

import cutecourse.layout as layout_package
from cutecourse.layout import (
    Explanation,
    Layout,
    LayoutError,
    OperandError,
    Step,
    coalesce,
    complement,
    composition,
    explain,
    logical_divide,
    pretty_str,
    right_inverse,
)

from .cases import draw
from .evaluate import NAMES, value

OPERATIONS = sorted(
    name
    for name in layout_package.__all__
    if inspect.isfunction(getattr(layout_package, name)) and hasattr(getattr(layout_package, name), "law")
)


def explained(expression: str) -> Explanation:
    """Explain the outermost call of an expression."""
    name, _, _ = expression.partition("(")
    wrapped = dict(NAMES)
    wrapped[name] = lambda *args, **kwargs: explain(NAMES[name], *args, **kwargs)
    result: Any = eval(expression, wrapped)
    assert isinstance(result, Explanation)
    return result


CASES = [case.expression for case in draw("explain", 1500) if case.expression.partition("(")[0] in OPERATIONS]


def test_operations__all_explain_themselves() -> None:
    assert set(OPERATIONS) >= {
        "blocked_product", "coalesce", "complement", "composition", "downcast", "filter", "flat_divide",
        "flat_product", "left_inverse", "logical_divide", "logical_product", "max_common_layout",
        "max_common_vector", "raked_product", "recast_layout", "right_inverse", "tile_to_shape",
        "tiled_divide", "tiled_product", "upcast", "zipped_divide", "zipped_product",
    }  # fmt: skip
    assert {case.partition("(")[0] for case in CASES} | {"upcast", "downcast"} >= set(OPERATIONS)


def test_explanation__ends_in_the_result_of_the_plain_call() -> None:
    compared = 0
    for expression in [*CASES, "upcast(L((8,64),(64,1)),2)", "downcast(L((8,64),(64,1)),2)"]:
        try:
            plain = value(expression)
        except LayoutError:
            with pytest.raises(LayoutError):
                explained(expression)
            continue
        explanation = explained(expression)
        last = explanation.steps[-1]
        assert explanation.result == plain
        assert dict(last.values)["result"] == plain
        assert (last.rule, last.level, last.operation) == ("result", 0, explanation.operation)
        json.dumps(explanation.to_snapshot())
        assert pretty_str(plain) in str(explanation)
        assert f"Result: <code>{escape(pretty_str(plain))}</code>" in explanation._repr_html_()
        compared += 1
    assert compared > 500


def test_coalesce__shows_a_result_that_grows_with_the_function_so_far() -> None:
    layout = Layout((2, 1, 6, 4), (1, 6, 2, 24))
    explanation = explain(coalesce, layout)
    shown = [dict(step.values)["so far"] for step in explanation.steps if "so far" in dict(step.values)]
    assert len(shown) == 4
    for count, so_far in enumerate(shown, 1):
        part = Layout(layout.shape[:count], layout.stride[:count])
        assert isinstance(so_far, Layout)
        assert [so_far(i) for i in range(2)] == [part(i) for i in range(2)]
        assert coalesce(part) == so_far
    assert [step.rule for step in explanation.steps] == ["flatten", "keep", "drop", "merge", "keep", "result"]


def test_composition__shows_what_is_taken_from_each_mode() -> None:
    explanation = explain(composition, Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    taken = [str(dict(step.values)["taken"]) for step in explanation.steps if "taken" in dict(step.values)]
    assert taken == ["2:24", "(2,2):(24,2)", "3:8"]
    assert str(explanation.result) == "((2,2),3):((24,2),8)"


def test_complement__shows_the_gaps_in_order() -> None:
    explanation = explain(complement, Layout((2, 2), (1, 6)), 24)
    gaps = [str(dict(step.values)["gaps"]) for step in explanation.steps if "gaps" in dict(step.values)]
    assert gaps == ["(1):(1)", "(1,3):(1,2)", "(1,3,2):(1,2,12)"]


def test_divide__holds_the_steps_of_its_complement_and_composition() -> None:
    explanation = explain(logical_divide, Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
    inner = {step.operation for step in explanation.steps if step.level == 1}
    assert {"coalesce", "complement", "composition"} <= inner
    both = next(dict(step.values)["tiler"] for step in explanation.steps if step.rule == "tile and rest")
    assert str(both) == "(4,(2,3)):(2,(1,8))"


def test_explain__leaves_no_recorder_behind_after_an_error() -> None:
    with pytest.raises(LayoutError):
        explain(composition, Layout((4, 6), (1, 10)), Layout(3, 2))
    explanation = explain(coalesce, Layout(4))
    assert {step.operation for step in explanation.steps} == {"coalesce"}


def test_snapshot__holds_only_plain_values() -> None:
    snapshot = explain(right_inverse, Layout((2, 2), (2, 1))).to_snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert set(snapshot) == {"operation", "law", "operands", "steps", "result"}
    assert snapshot["operation"] == "right_inverse"
    assert snapshot["operands"] == [{"name": "layout", "value": "(2,2):(2,1)"}]
    assert snapshot["result"] == "(2,2):(2,1)"
    assert all(set(step) == {"operation", "level", "rule", "text", "values"} for step in snapshot["steps"])


def test_explain__refuses_what_is_no_operation() -> None:
    with pytest.raises(OperandError, match="pretty_str has no steps to show"):
        explain(pretty_str, 4)


def test_step__prints_its_values() -> None:
    step = Step("merge", "two modes", (("so far", Layout(4)), ("stride", 2)))
    assert str(step) == "merge: two modes  [so far = 4:1, stride = 2]"
