"""Checks: what they say to a right, a wrong, an untouched and a failing answer, and what they never say."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from configparser import RawConfigParser
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from cutecourse import checks, runtime
from cutecourse.checks import CheckFailed, CheckResult, UnknownExercise, WrongAnswer, ch12, compare, registry
from cutecourse.checks.compare import same_outputs
from cutecourse.checks.pictures import grid
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec, Tensor
from cutecourse.layout import Layout
from cutecourse.runtime import Device, NoCompilerError
from cutecourse.runtime.discovery import Choice
from tools.paths import EXERCISES, ROOT


@pytest.fixture
def exercise(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register exercises of a chapter 99 that exists in this test alone."""
    monkeypatch.setattr(registry, "_exercises", {})
    monkeypatch.setattr(registry, "_hints_given", {})
    monkeypatch.setattr(registry, "_load", lambda chapter: None)
    monkeypatch.delenv("CUTECOURSE_STRICT", raising=False)

    def add(function: Any, hints: tuple[str, ...] = ("first", "second")) -> None:
        checks.exercise("99.1", "A title", hints=hints)(function)

    return add


def _refused(comparison: Any, *args: Any, **kwargs: Any) -> WrongAnswer:
    with pytest.raises(WrongAnswer) as caught:
        comparison(*args, **kwargs)
    return caught.value


def test_check__shows_the_lines_of_a_report_as_they_are() -> None:
    message = "It did not end: an error\n  at kernel `k`, line 4\n  bar.sync 0;"
    shown = CheckResult("99.1", "A title", "wrong", message)._repr_html_()
    assert "It did not end: an error</p>" in shown
    assert ">  at kernel `k`, line 4\n  bar.sync 0;</pre>" in shown


def test_check__shows_a_pass_as_text_and_html(exercise: Any) -> None:
    exercise(lambda answer: "Well <done>.")
    result = checks.check("99.1", 1)
    assert result
    assert repr(result) == "✓ 99.1 A title: passed\n  Well <done>."
    assert "Well &lt;done&gt;." in result._repr_html_()


def test_check__shows_a_wrong_answer_without_raising(exercise: Any) -> None:
    def wrong(answer: object) -> str:
        raise WrongAnswer(
            "The rows differ.", where="C[0, 1]", expected="3", got="<4>", picture=grid("C", [[4]], [[3]])
        )

    exercise(wrong)
    result = checks.check("99.1", 1)
    assert not result
    assert repr(result).splitlines()[:5] == [
        "✗ 99.1 A title: not yet",
        "  The rows differ.",
        "  where:    C[0, 1]",
        "  expected: 3",
        "  got:      <4>",
    ]
    assert "[4]" in repr(result)
    assert "&lt;4&gt;" in result._repr_html_()


@pytest.mark.parametrize("answer", [..., NotImplemented, None, (1, ...), [...], {"m": ...}])
def test_check__knows_an_untouched_placeholder(exercise: Any, answer: object) -> None:
    exercise(lambda answer: pytest.fail("an untouched answer reached its check"))
    result = checks.check("99.1", answer)
    assert result.status == "untouched"
    assert "replace the `...` with your answer" in result.message


def test_check__knows_an_untouched_function(exercise: Any) -> None:
    def owner(m: int, n: int) -> int:
        """Say which lane."""
        lane: Any = m + n
        if lane > 3:
            ...
        return int(lane)

    exercise(lambda answer: pytest.fail("an untouched answer reached its check"))
    assert "`owner` still has a `...` in its body" in checks.check("99.1", owner).message


def to_write(values: Any) -> Any:
    return dict(values, first=...)


def test_check__knows_an_untouched_function_that_the_kernel_calls(exercise: Any) -> None:
    def kernel(values: Any) -> Any:
        return to_write(values)

    exercise(lambda answer: pytest.fail("an untouched answer reached its check"))
    assert "`to_write` still has a `...` in its body" in checks.check("99.1", kernel).message


def test_same_outputs__says_what_a_report_means(monkeypatch: pytest.MonkeyPatch, exercise: Any) -> None:
    def hangs(*_: object, **__: object) -> None:
        raise CourseError("warp 4 lacks 128 of 128 arrivals")

    monkeypatch.setattr("cutecourse.runtime.run", hangs)
    reports = {"lacks 1 of": "Not this.", "lacks 128 of 128": "Nobody arrives."}
    exercise(lambda answer: same_outputs(answer, {}, {}, reports=reports))
    message = checks.check("99.1", LaunchSpec.__new__(LaunchSpec)).message
    assert message.splitlines()[0] == "Nobody arrives."
    assert "warp 4 lacks 128 of 128 arrivals" in message
    patterns = {re.compile(r"warp [13] lacks"): "Not this.", re.compile(r"warp \d lacks"): "A pattern."}
    error = _refused(same_outputs, LaunchSpec.__new__(LaunchSpec), {}, {}, reports=patterns)
    assert error.message.splitlines()[0] == "A pattern."


def test_same_outputs__explains_wrong_outputs_with_what_the_run_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cutecourse.kernels import hello_ptx

    right, wrong = np.arange(4, dtype=np.uint32), np.zeros(4, np.uint32)
    outcome = MagicMock(notes=["note: an address without lanes"])
    outcome.__getitem__.return_value = wrong
    monkeypatch.setattr("cutecourse.runtime.run", lambda *_, **__: outcome)
    reports = {"address with lanes": "Not this.", "address without lanes": "Whose lanes are these?"}

    def refused(mistakes: Any = None) -> list[str]:
        given: Any = {"reports": reports, "mistakes": mistakes}
        error = _refused(compare.same_outputs, hello_ptx.LAUNCH, {}, {"out": right}, **given)
        return str(error.message).splitlines()

    assert refused() == [
        "Whose lanes are these?",
        "The emulator's note: note: an address without lanes",
        "3 of 4 elements of out differ.",
    ]
    assert refused({"out": [(wrong, "Nothing was stored.")]}) == ["Nothing was stored."]
    outcome.notes = []
    assert refused() == ["3 of 4 elements of out differ."]


def test_check__does_not_take_an_index_for_a_gap(exercise: Any) -> None:
    def first(array: Any) -> Any:
        return array[..., 0]

    exercise(lambda answer: "fine")
    assert checks.check("99.1", first)


def test_check__tells_what_the_learners_code_raised_and_where(exercise: Any) -> None:
    def owner(m: int) -> float:
        return m / 0

    def calls(answer: Any) -> str:
        return str(answer(1))

    exercise(calls)
    result = checks.check("99.1", owner)
    assert result.status == "raised"
    assert "ZeroDivisionError: division by zero" in result.message
    assert "in owner" in result.message
    assert "return m / 0" in result.message


def test_check__says_that_it_checked_nothing_where_the_compiler_is_missing(exercise: Any) -> None:
    def launches(answer: Any) -> None:
        same_outputs(answer, {}, {})

    exercise(launches)
    missing = NoCompilerError("the CuTe DSL is not here", "cutlass")
    spec = LaunchSpec(name="kernel", language="cutedsl", host=lambda: None, grid=1, block=32, params=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutecourse.runtime.run", MagicMock(side_effect=missing))
        result = checks.check("99.1", spec)
    assert result.status == "unchecked"
    assert not result
    assert repr(result).startswith("? 99.1 A title: not checked")
    assert "nothing was checked" in result.message
    assert "the CuTe DSL is not here" in result.message


def test_check__says_that_a_name_is_missing_where_no_cell_has_defined_it(exercise: Any) -> None:
    exercise(lambda answer: str(answer()))
    passed_on = checks.check("99.1", lambda: _kernel_of_another_cell)  # type: ignore[name-defined]  # noqa: F821
    assert passed_on.status == "unchecked"
    assert "There is no `_kernel_of_another_cell` yet" in passed_on.message

    def misspelt() -> int:
        return _cuont  # type: ignore[name-defined, no-any-return]  # noqa: F821

    assert checks.check("99.1", misspelt).status == "raised"
    assert checks.check("99.1", lambda: str(misspelt())).status == "raised"


@pytest.mark.parametrize(
    ("threads", "lines"), [("(8,16):(1,8)", None), ("(4,32):(1,4)", 8), ("(8,16):(16,1)", 16)]
)
def test_check_of_03_2__counts_the_lines_of_a_request(threads: str, lines: int | None) -> None:
    result = checks.check("03.2", (Layout.parse(threads), Layout.parse("(8,1):(1,8)")))
    assert result
    assert (f"over {lines} lines" in result.message) == (lines is not None)
    assert ("lines" in result.message) == (lines is not None)


def test_check__knows_a_text_with_a_gap(exercise: Any) -> None:
    exercise(lambda answer: "fine")
    text = ".version 8.0\n.target sm_80\n    ...\n"
    spec = LaunchSpec(name="kernel", language="ptx", ptx=text, entry="k", grid=1, block=32, params=())
    for answer in (text, spec, dataclasses.replace(spec, ptx=...)):
        assert checks.check("99.1", answer).status == "untouched"
    assert checks.check("99.1", "// three dots ... in a comment")


def test_check__raises_when_strict(exercise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise(lambda answer: compare.same_int(answer, 3, meaning="three"))
    with pytest.raises(CheckFailed, match="too small"):
        checks.check("99.1", 2, strict=True)
    monkeypatch.setenv("CUTECOURSE_STRICT", "1")
    with pytest.raises(CheckFailed, match="not started"):
        checks.check("99.1", ...)
    assert not checks.check("99.1", 2, strict=False)


def test_check__refuses_an_id_that_does_not_exist() -> None:
    with pytest.raises(UnknownExercise, match=r"no exercise '01\.99'; there are: 01\.1"):
        checks.check("01.99", 1)
    with pytest.raises(UnknownExercise, match="no chapter '77'"):
        checks.check("77.1", 1)
    with pytest.raises(UnknownExercise, match="no chapter"):
        checks.hint("first")


def test_exercise__is_registered_once_and_with_hints(exercise: Any) -> None:
    exercise(lambda answer: None)
    with pytest.raises(UnknownExercise, match="twice"):
        exercise(lambda answer: None)
    with pytest.raises(UnknownExercise, match="no hint"):
        checks.exercise("99.2", "Another", hints=())(lambda answer: None)


def test_hint__comes_one_at_a_time_and_says_when_there_is_no_more(exercise: Any) -> None:
    exercise(lambda answer: None)
    assert [checks.hint("99.1").text for _ in range(2)] == ["first", "second"]
    assert "last hint" in checks.hint("99.1").text
    assert repr(checks.hint("99.1", restart=True)) == "Hint 1 of 2 for 99.1: first"


def test_collecting__sees_the_checks_of_its_block_alone(exercise: Any) -> None:
    exercise(lambda answer: None)
    checks.check("99.1", 1)
    with checks.collecting() as results:
        checks.check("99.1", ...)
        checks.check("99.1", 2)
    checks.check("99.1", 3)
    assert [result.status for result in results] == ["untouched", "passed"]
    assert all(isinstance(result, CheckResult) for result in results)


def test_same_int__accepts_numpy_and_says_the_direction_but_not_the_number() -> None:
    compare.same_int(np.int64(29), 29, meaning="the offset")
    error = _refused(compare.same_int, 23, 29, meaning="the offset")
    assert (error.message, error.expected, error.got) == ("That is too small.", "the offset", "23")
    assert "29" not in f"{error.message}{error.expected}"


@pytest.mark.parametrize("answer", ["29", 29.0, True, (29,), np.array([29, 29])])
def test_same_int__refuses_what_is_no_whole_number(answer: object) -> None:
    error = _refused(compare.same_int, answer, 29, meaning="the offset")
    assert "Give one whole number" in error.message


def test_same_int__says_what_a_known_mistake_is() -> None:
    assert (
        _refused(compare.same_int, 8, 4, meaning="x", mistakes={8: "bytes, not elements"}).message
        == "bytes, not elements"
    )


def test_same_choice__answers_to_the_choice() -> None:
    options = {"K": "right", "M": "That is how it is read.", "N": "B has N."}
    compare.same_choice(" K ", "K", options=options)
    assert _refused(compare.same_choice, "M", "K", options=options).message == "That is how it is read."
    assert "'K' or 'M' or 'N'" in str(_refused(compare.same_choice, "k-major", "K", options=options).expected)


def test_same_sequence__points_at_the_first_difference() -> None:
    compare.same_sequence(np.array([0, 1, 4]), (0, 1, 4), meaning="squares")
    error = _refused(compare.same_sequence, [0, 1, 5, 8], (0, 1, 4, 9), meaning="squares")
    assert (error.where, error.expected, error.got) == ("index 2", "4", "5")
    assert error.message.startswith("2 of 4 values differ")
    assert _refused(compare.same_sequence, [0, 1], (0, 1, 4), meaning="s").got == "2 values"
    assert "Give a sequence" in _refused(compare.same_sequence, 3, (0, 1), meaning="s").message


def test_tell__keeps_an_answer_of_few_numbers_out_of_the_message() -> None:
    few = _refused(compare.same_sequence, (5, 1, 1), (5, 3, 1), meaning="three", tell=False)
    assert (few.where, few.expected, few.got) == ("index 1", None, "1")
    stride = _refused(compare.same_layout, "(8,32):(30,1)", "(8,32):(40,1)", tell=False)
    assert stride.expected is None
    assert "40" not in f"{stride.message} {stride.where} {stride.got}"


@pytest.mark.parametrize("answer", ["123", {1, 2, 3}, {1: 0, 2: 0, 3: 0}])
def test_same_sequence__refuses_what_has_no_order_or_is_a_text(answer: object) -> None:
    assert "Give a sequence" in _refused(compare.same_sequence, answer, (1, 2, 3), meaning="three").message


def test_same_layout__compares_functions_not_spellings() -> None:
    compare.same_layout(Layout((2, 2, 8), (8, 16, 1)), "((2,2),8):((8,16),1)")
    compare.same_layout("(4,8):(8,1)", Layout((4, 8), (8, 1)))
    error = _refused(compare.same_layout, "(4,8):(8,1)", "((2,2),8):((8,16),1)", exact=True)
    assert "shape and stride are not written as asked" in error.message


def test_same_layout__shows_the_first_coordinate_and_a_picture() -> None:
    error = _refused(compare.same_layout, Layout((4, 8), (1, 4)), "(4,8):(8,1)")
    assert error.where == "coordinate (1, 0)"
    assert error.expected == "8"
    assert error.got == "1, by (4,8):(1,4)"
    assert error.message == "The layout sends 30 of 32 coordinates to a wrong offset."
    assert "(8,1)" not in str(error.message)
    picture = str(error.picture).splitlines()
    assert picture[1].split()[0] == "0"
    assert "[ 1]" in picture[2]


def test_same_layout__knows_a_mistake_under_any_spelling() -> None:
    error = _refused(
        compare.same_layout, "(4,(2,4)):(1,(4,8))", "(4,8):(8,1)", mistakes={"(4,8):(1,4)": "column-major"}
    )
    assert error.message == "column-major"


@pytest.mark.parametrize("answer", ["4:8:1", "(4,8)(8,1)", 12, (4, 8)])
def test_same_layout__refuses_what_is_no_layout(answer: object) -> None:
    assert "layout" in _refused(compare.same_layout, answer, "(4,8):(8,1)").message


def test_same_array__points_at_the_first_element_and_counts() -> None:
    right = np.arange(12.0).reshape(3, 4)
    compare.same_array(right.copy(), right)
    wrong = right.copy()
    wrong[1, 2], wrong[2, 0] = -1, -2
    error = _refused(compare.same_array, wrong, right, name="C")
    assert error.where == "C[1, 2], the first of 2"
    assert (error.expected, error.got) == ("6.0", "-1.0")
    assert str(error.picture).count("[") == 2
    assert error.picture is not None
    assert error.picture.html().count("#c62828") == 2


def test_same_array__takes_nan_for_nan_and_refuses_shapes_and_lists() -> None:
    right = np.array([1.0, np.nan])
    compare.same_array(right.copy(), right)
    assert _refused(compare.same_array, np.array([np.nan, np.nan]), right).got == "nan"
    assert _refused(compare.same_array, np.zeros((2, 1)), right).got == "shape (2, 1), float64"
    assert "must be a NumPy array" in _refused(compare.same_array, [1.0, 2.0], right).message


def test_same_array__says_what_a_known_mistake_is() -> None:
    right = np.arange(4).reshape(2, 2)
    assert (
        _refused(compare.same_array, right.T.copy(), right, mistakes=[(right.T, "transposed")]).message
        == "transposed"
    )


def test_on_many__points_at_the_first_case() -> None:
    cases = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]

    def owner(m: int, n: int) -> int:
        return m + n

    compare.on_many(owner, cases, lambda m, n: m + n, what="the sum")
    error = _refused(compare.on_many, owner, cases, lambda m, n: m + 2 * n, what="the sum")
    assert (error.where, error.expected, error.got) == ("owner(0, 1)", "2", "1")
    assert error.message.startswith("4 of 6 cases differ")
    nothing = _refused(compare.on_many, lambda m, n: None, cases, lambda m, n: 0, what="the sum")
    assert "returned None" in nothing.message
    assert "Give a function" in _refused(compare.on_many, 3, cases, owner, what="the sum").message


def test_on_many__writes_whole_numbers_as_asked() -> None:
    how = {"what": "a mask", "show": "{:#06x}".format}
    error = _refused(compare.on_many, lambda k: k, [(10,)], lambda k: 11, **how)
    assert (error.expected, error.got) == ("0x000b", "0x000a")
    error = _refused(compare.on_many, lambda k: "a", [(10,)], lambda k: 11, **how)
    assert (error.expected, error.got) == ("0x000b", "a")


def test_returned__takes_lists_for_tuples_and_refuses_what_is_no_function_and_none() -> None:
    pairs = compare.returned(lambda k: [k, [np.int32(2)]], [(1,), (3,)], what="pairs")
    assert pairs == [(1, (2,)), (3, (2,))]
    assert "Give a function" in _refused(compare.returned, 3, [(1,)], what="pairs").message
    error = _refused(compare.returned, lambda k: None, [(7,)], what="pairs")
    assert "returned None" in error.message
    assert "(7)" in str(error.where)


def test_picture__cuts_what_is_too_large_and_says_so() -> None:
    table = [[0] * 5 for _ in range(50)]
    text = str(grid("long", table, table))
    assert "the first 32 x 5 of 50 x 5 cells" in text
    assert len(text.splitlines()) == 33


def test_picture__counts_the_wrong_cells_of_blocks_where_there_are_many() -> None:
    right = np.zeros((32, 24), int)
    answer = right.copy()
    answer[:16, 8:16] = 1
    answer[31, 23] = 1
    lines = str(grid("C", answer.tolist(), right.tolist())).splitlines()
    assert lines[0].startswith("C: how many are wrong in each block of 8 x 8")
    assert [line.split() for line in lines[1:]] == [
        ["0", "[64]", "0"],
        ["0", "[64]", "0"],
        ["0", "0", "0"],
        ["0", "0", "[", "1]"],
    ]
    large = np.zeros((128, 64), int)
    assert len(str(grid("C", large.tolist(), (large + 1).tolist())).splitlines()) == 9


@pytest.mark.parametrize("gpu", [None, Device(0, "A GPU", (9, 0), 2**30, 1)])
def test_same_outputs__runs_on_the_gpu_what_passed_on_the_emulator(
    gpu: Device | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cutecourse.kernels import hello_ptx

    asked = []
    launch = runtime.run

    def spy(spec: LaunchSpec, *, device: str | None, **more: Any) -> Any:
        asked.append(device)
        return launch(spec, device="emulator", **more)

    monkeypatch.setattr(runtime, "run", spy)
    monkeypatch.setattr(runtime, "choose", lambda target, device: Choice(gpu, "of this test"))
    squares = np.arange(32, dtype=np.uint32) ** 2
    same_outputs(hello_ptx.LAUNCH, {"out": np.zeros(32, np.uint32)}, {"out": squares}, emulator_first=True)
    assert asked == (["emulator"] if gpu is None else ["emulator", None])


def test_same_outputs__runs_a_kernel_and_compares_what_it_wrote() -> None:
    from cutecourse.kernels import hello_ptx

    inputs = {"out": np.zeros(32, np.uint32)}
    squares = np.arange(32, dtype=np.uint32) ** 2
    compare.same_outputs(hello_ptx.LAUNCH, inputs, {"out": squares})
    assert not inputs["out"].any()
    shifted = squares.copy()
    shifted[5] += 1
    error = _refused(compare.same_outputs, hello_ptx.LAUNCH, inputs, {"out": shifted})
    assert (error.where, error.expected, error.got) == ("out[5], the first of 1", "26", "25")


def test_same_outputs__tells_what_stopped_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from cutecourse.kernels import hello_ptx

    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    small = {"out": np.zeros(8, np.uint32)}
    error = _refused(compare.same_outputs, hello_ptx.LAUNCH, small, {"out": np.zeros(8, np.uint32)})
    assert "The kernel did not run to its end" in error.message
    assert "Give a launch specification" in _refused(compare.same_outputs, 3, {}, {}).message


def test_same_outputs__shows_the_lines_that_a_report_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    lines = [".version 8.0", ".target sm_80", ".address_size 64", ".visible .entry k(.param .u64 out)", "{",
             ".shared .b32 box;", ".reg .b32 %me;", "mov.u32 %me, %tid.x;", "bar.warp.sync -1;",
             "st.shared.u32 [box], %me;", "ret;", "}"]  # fmt: skip
    spec = LaunchSpec(
        name="k",
        language="ptx",
        ptx="\n".join(lines),
        entry="k",
        grid=1,
        block=64,
        params=(Tensor("out", "u32", 8),),
    )
    out = {"out": np.zeros(8, np.uint32)}
    reports = {"bar.warp.sync": "A word of a neighbour only."}
    message = _refused(compare.same_outputs, spec, out, out, reports=reports).message
    assert message.startswith("The kernel did not run to its end: SharedMemoryRace")
    assert message.endswith("\n      9  bar.warp.sync -1;\n  >  10  st.shared.u32 [box], %me;\n     11  ret;")
    broken = dataclasses.replace(spec, ptx="\n".join(lines).replace("mov.u32 %me,", "mov.u32 %you,"))
    message = _refused(compare.same_outputs, broken, out, out).message
    assert message.endswith(
        "\n      7  .reg .b32 %me;\n  >   8  mov.u32 %you, %tid.x;\n      9  bar.warp.sync -1;"
    )


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        ("01.1", np.int64(30)),
        ("01.2", "(8,(4,8)):(40,(1,4))"),
        ("01.3", lambda index, shape, stride: np.dot(np.unravel_index(index, shape, order="F"), stride)),
        ("01.4", [Layout(4, 3), np.int64(4)]),
        ("01.4", ("4:3", "4:1")),
        ("02.1", lambda m, k: np.int32((m & 7) << 2 | k & 3)),
        ("02.2", np.array([5, 3, 1])),
        ("02.3", "((4,8),4,2):((32,1),8,128)"),
        ("04.1", "ldmatrix.x2.trans"),
        ("04.2", np.int64(40)),
        ("05.2", 8.0),
    ],
)
def test_check__accepts_a_right_answer_written_otherwise(number: str, answer: object) -> None:
    assert checks.check(number, answer)


def _in_ptx(chapter: str, name: str) -> str:
    """The text in PTX that solves an exercise, out of its source."""
    (source,) = (EXERCISES / "sources").glob(f"{chapter}_*.md")
    found = re.findall(
        rf'^{name} = """(.*?)"""', source.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return str(found[-1])  # the skeleton comes before the solution


_CLOSE, _EIGHT, _HALF = "begin too close together", "come from 256 bytes further on", "That is half a step"
_ROWS = {"%group, 64;": "%group, 32;"}
_ROW_PLUS_8 = {"[%pa + 512]": "[%pa + 256]", "[%pa + 528]": "[%pa + 272]"}
_STEP = {"%pa, 32;": "%pa, 16;", "%pb, 32;": "%pb, 16;"}
_LOAD_C = """    mul.lo.u32 %offset, %group, 32;
    mad.lo.u32 %offset, %in_group, 8, %offset;
    ld.param.u64 %pc, [c];
    mad.wide.u32 %pc, %offset, 1, %pc;
    ld.global.v2.f32 {%c0, %c1}, [%pc];
    ld.global.v2.f32 {%c2, %c3}, [%pc + 256];
"""
_NO_ZEROS = {f"    mov.f32 %c{at}, 0f00000000;\n": "" if at else _LOAD_C for at in range(4)}


@pytest.mark.parametrize(
    ("slips", "messages"),
    [
        (_ROWS, [_CLOSE]),
        (_ROW_PLUS_8, [_EIGHT]),
        (_STEP, [_HALF]),
        (_ROWS | _ROW_PLUS_8, [_CLOSE, _EIGHT]),
        (_ROWS | _STEP, [_CLOSE, _HALF]),
        (_NO_ZEROS, ["adds to the C that it finds in memory"]),
    ],
    ids=["rows", "row-plus-8", "step", "rows-and-row-plus-8", "rows-and-step", "c-loaded"],
)
def test_02_5__knows_distances_that_were_left_as_they_are_for_one_step(
    monkeypatch: pytest.MonkeyPatch, slips: dict[str, str], messages: list[str]
) -> None:
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    text = _in_ptx("02", "gemm_k32_ptx")
    for right, wrong in slips.items():
        assert right in text
        text = text.replace(right, wrong)
    parameters = (Tensor("a", "f16", (16, 32)), Tensor("b", "f16", (8, 32)), Tensor("c", "f32", (16, 8)))
    spec = LaunchSpec(
        name="gemm_k32", language="ptx", ptx=text, entry="gemm_k32", grid=1, block=32, params=parameters
    )
    result = checks.check("02.5", spec)
    assert result.status == "wrong", repr(result)
    assert [message for message in messages if message not in result.message] == []


_CPP_LOOP = """
  tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;
  for (int k = 0; k < size<1>(tAgA); ++k) {
    if (warp0 && elect_one_sync()) {
      set_barrier_transaction_bytes(shared.tma_barrier, (128 + 64) * 64 * 2);
      copy(tma_A.with(shared.tma_barrier), tAgA(_, k), tAsA);
      copy(tma_B.with(shared.tma_barrier), tBgB(_, k), tBsB);
    }
    wait_barrier(shared.tma_barrier, k % 2);
    if (warp0) {
      for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
        gemm(tiled_mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCtC);
        tiled_mma.accumulate_ = UMMA::ScaleOut::One;
      }
      cutlass::arch::umma_arrive(&shared.mma_barrier);
    }
    wait_barrier(shared.mma_barrier, k % 2);
  }
"""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("\n".join(_CPP_LOOP.splitlines()[::-1]), "closes nothing", id="lines-reversed"),
        pytest.param(_CPP_LOOP.replace("* 64 * 2);", "* 64 * 2;"), "bracket", id="bracket-missing"),
        pytest.param(_CPP_LOOP.replace("(128 + 64) * 64 * 2", "2*64*(64+32)"), "bytes announced", id="bytes"),
        pytest.param(_CPP_LOOP.replace("k % 2", "(k % 2) ^ 1", 1), "does not end", id="parity"),
        pytest.param(
            _CPP_LOOP.replace("++k) {", "++k) { tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;"),
            "Each k-tile overwrites the sum",
            id="zero-in-the-loop",
        ),
        pytest.param(_CPP_LOOP.replace("cutlass::arch::", ""), "write cutlass::arch::umma", id="namespace"),
        pytest.param(
            _CPP_LOOP.replace("wait_barrier(shared.tma_barrier, k % 2);", "").replace(
                "wait_barrier(shared.mma", "wait_barrier(shared.tma_barrier, k % 2); wait_barrier(shared.mma"
            ),
            "comes too early",
            id="order",
        ),
    ],
)  # fmt: skip
def test_12_7__reads_a_loop_where_nvcc_is_missing(
    monkeypatch: pytest.MonkeyPatch, answer: str, message: str
) -> None:
    monkeypatch.setattr(ch12, "has_nvcc", lambda: False)
    result = checks.check("12.7", answer)
    assert result.status == "wrong", repr(result)
    assert message in repr(result)


def _sanitized(text: str) -> str:
    """A text as nbval compares it."""
    rules = RawConfigParser()
    rules.read(ROOT / "tests" / "notebooks" / "sanitize.cfg")
    for section in rules.sections():
        text = re.sub(rules[section]["regex"], rules[section]["replace"], text)
    return text


@pytest.mark.parametrize(
    "answer",
    [
        _CPP_LOOP,
        re.sub(r"\bk\b", "t", _CPP_LOOP),
        _CPP_LOOP.replace("(128 + 64) * 64 * 2", "24576").replace("k % 2", "k & 1"),
        _CPP_LOOP.replace("(128 + 64) * 64 * 2", "sizeof(shared.A) + sizeof(shared.B)"),
        _CPP_LOOP.replace("tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;", "", 1).replace(
            "++k) {", "++k) { if (k == 0) { tiled_mma.accumulate_ = UMMA::ScaleOut::Zero; }"
        ),
    ],
)  # fmt: skip
def test_12_7__says_that_it_only_read_the_text_where_nvcc_is_missing(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(ch12, "has_nvcc", lambda: False)
    result = checks.check("12.7", answer)
    assert result, repr(result)
    assert "As far as reading can tell: nvcc is not installed here" in repr(result)
    assert _sanitized(repr(result)) == "✓ 12.7 A main loop in C++: passed\n  The check passed."
