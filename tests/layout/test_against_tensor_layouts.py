"""A third opinion: PyPI's `tensor-layouts`, where it covers the algebra.

Where it differs, the CuTe DSL decides: it must agree with us, and the difference must have a known reason.
"""

import random
import re
from typing import Any

import pytest

from .cases import Draw, text
from .dsl import ask
from .evaluate import evaluate

tensor_layouts = pytest.importorskip("tensor_layouts")
pytest.importorskip("cutlass.cute")

COVERED = (
    "coalesce",
    "complement",
    "composition",
    "right_inverse",
    "left_inverse",
    "logical_divide",
    "zipped_divide",
    "logical_product",
    "blocked_product",
    "max_common_vector",
)


def _expression(draw: Draw, operation: str) -> str:
    a = draw.layout(draw.random.choice(("compact", "ordered", "strided")), max_rank=3, max_depth=2)
    if operation in ("coalesce", "right_inverse", "left_inverse"):
        return f"{operation}({a})"
    if operation == "complement":
        return f"complement({a},{draw.random.choice((64, 96, 256))})"
    if operation in ("composition", "logical_divide", "zipped_divide"):
        return f"{operation}({a},{draw.matching(draw.random.choice((8, 12, 16, 24, 48)))})"
    return f"{operation}({a},{draw.injective(max_rank=2, max_depth=1)})"


def _theirs(expression: str) -> str:
    names: dict[str, Any] = {name: getattr(tensor_layouts, name) for name in COVERED if name != "composition"}
    names |= {"composition": tensor_layouts.compose, "L": tensor_layouts.Layout}
    try:
        value = eval(expression, names)
    except Exception:  # noqa: BLE001 - whatever it raises, it refuses
        return "refused"
    if isinstance(value, int):
        return str(value)
    return f"{_print(value.shape)}:{_print(value.stride)}"


def _print(value: Any) -> str:
    return "(" + ",".join(_print(part) for part in value) + ")" if isinstance(value, tuple) else str(value)


def _without_singles(printed: str) -> str:
    """Forget tuples of one element, which tensor-layouts does not keep."""
    while (unwrapped := re.sub(r"\((-?\d+|\([^()]*\))\)", r"\1", printed)) != printed:
        printed = unwrapped
    return printed


def test_algebra__agrees_with_tensor_layouts_or_the_dsl_decides() -> None:
    draw = Draw("tensor-layouts")
    cases = [_expression(draw, operation) for operation in COVERED for _ in range(66)]
    random.Random(0).shuffle(cases)
    ours = {case: evaluate(case) for case in cases}
    differing = []
    for case in cases:
        status, printed = ours[case]
        mine = printed if status == "ok" else "refused"
        if _without_singles(mine) != _without_singles(_theirs(case)):
            differing.append(case)
    assert len(differing) <= len(cases) // 8, f"{len(differing)} of {len(cases)} differ"
    wrong = []
    for case, answer in zip(differing, ask(differing), strict=True):
        status, printed = ours[case]
        if (status == "ok") != (answer.status == "ok") or (status == "ok" and printed != answer.text):
            wrong.append(f"{case}\n  DSL: {answer}\n  ours: {ours[case]}\n  theirs: {_theirs(case)}")
    assert not wrong, "\n".join(wrong)


def test_comparison__covers_answers_not_only_refusals() -> None:
    assert _theirs("composition(L((4,8),(8,1)),L(4,2))") == "(2,2):(16,1)"
    assert _theirs(f"coalesce(L({text((2, (1, 6)))},{text((1, (6, 2)))}))") == "12:1"
    assert _without_singles("((4),(2,(8))):((1),(4,(8)))") == "(4,(2,8)):(1,(4,8))"
