"""Comparators for checks: each raises WrongAnswer that points at a difference, and gives no answer away."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from cutecourse.checks.pictures import AnswerPicture, grid
from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError
from cutecourse.layout import ComposedLayout, Layout, depth, idx2crd, rank, size

if TYPE_CHECKING:
    import numpy as np

    from cutecourse.kernels.spec import LaunchSpec

_MAX_PICTURE_CELLS = 256 * 256
_MOST_NAMED = 4
"""From so many lines that a report names the neighbours are shown."""
# What to say where a report names elect.sync: cute.copy or cute.gemm was called inside of elect_one().
ELECTS = (
    "cute.copy and cute.gemm elect a thread themselves, so the whole warp has to call them. If one "
    "thread calls them, it waits for the other 31."
)
# Reports of a read that comes too early, and of a write over what others may have still to read.
TOO_EARLY = re.compile("ReadBeforeWait|UninitializedRead|TransactionBytesError: phase")
_WAIT = re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(%\w+)\s*,\s*(\[[^]]*\])")
AGAIN = re.compile("StageReusedEarly|OverwrittenSource")


def same_int(
    answer: object,
    right: int,
    *,
    meaning: str,
    mistakes: Mapping[int, str] | None = None,
    otherwise: str = "",
) -> None:
    """Accept one whole number; a number in `mistakes` gets its own message.

    `meaning` says in words what is asked ("the offset of (3, 5), in elements"); the number is not shown.
    `otherwise` says to any other number what to check.
    """
    try:
        value = operator.index(answer)  # type: ignore[arg-type]  # what has no index is refused here
    except TypeError:
        value = None
    if value is None or isinstance(answer, bool):
        raise WrongAnswer(
            f"Give one whole number: {meaning}.",
            expected="an int",
            got=_type_and_value(answer),
        )
    if value == right:
        return
    explained = (mistakes or {}).get(value)
    direction = "too small" if value < right else "too large"
    raise WrongAnswer(
        explained or f"That is {direction}. {otherwise}".strip(),
        expected=None if explained else meaning,
        got=str(value),
    )


def same_choice(answer: object, right: str, *, options: Mapping[str, str]) -> None:
    """Accept one of several texts; `options` maps each text to what is said to whoever chose it wrongly."""
    if not isinstance(answer, str) or answer.strip() not in options:
        raise WrongAnswer(
            "Give one of the options as a text.",
            expected=" or ".join(repr(option) for option in options),
            got=_type_and_value(answer),
        )
    if answer.strip() != right:
        raise WrongAnswer(options[answer.strip()], got=repr(answer.strip()))


def same_sequence(
    answer: object,
    right: Sequence[object],
    *,
    meaning: str,
    mistakes: Mapping[tuple[object, ...], str] | None = None,
    tell: bool = True,
) -> None:
    """Accept a tuple, list or one-dimensional array; says the first place that differs and how many do.

    tell  says which value was expected there; False where few are asked for and this is the answer.
    """
    try:
        if isinstance(answer, (str, set, frozenset, Mapping)):
            raise TypeError("it has no order of its own, or is a text")
        values = tuple(_plain(value) for value in answer)  # type: ignore[attr-defined]
    except TypeError:
        raise WrongAnswer(
            f"Give a sequence: {meaning}.",
            expected=f"{len(right)} values",
            got=_type_and_value(answer),
        ) from None
    wanted = tuple(right)
    if values == wanted:
        return
    explained = (mistakes or {}).get(values)
    if len(values) != len(wanted):
        raise WrongAnswer(
            explained or f"The number of values is not right: {meaning}.",
            expected=f"{len(wanted)} values",
            got=f"{len(values)} values",
        )
    wrong = [index for index in range(len(wanted)) if values[index] != wanted[index]]
    raise WrongAnswer(
        explained or f"{len(wrong)} of {len(wanted)} values differ: {meaning}.",
        where=f"index {wrong[0]}",
        expected=str(wanted[wrong[0]]) if tell else None,
        got=str(values[wrong[0]]),
    )


def same_layout(
    answer: object,
    right: Layout | str,
    *,
    exact: bool = False,
    mistakes: Mapping[str, str] | None = None,
    tell: bool = True,
) -> None:
    """Accept a layout, or its text; compares as functions from coordinates to indices.

    Law:      they are equal when `size(answer) == size(right)` and `answer(i) == right(i)` for all `i`.
    exact     asks for the same shape and stride besides.
    mistakes  maps the text of a plausible wrong layout to what to say to it; it is matched as a function too.
    tell      says which index was expected there; False where that is a stride which was asked for.
    """
    layout = _as_layout(answer)
    wanted = right if isinstance(right, Layout) else Layout.parse(right)
    explained = _explained_layout(layout, mistakes or {})
    if size(layout) != size(wanted):
        raise WrongAnswer(
            explained or "The layout does not have the right number of elements.",
            where="size(layout)",
            expected=str(size(wanted)),
            got=f"{size(layout)}, of {layout}",
        )
    wrong = [index for index in range(size(wanted)) if layout(index) != wanted(index)]
    if wrong:
        first = wrong[0]
        raise WrongAnswer(
            explained or f"The layout sends {len(wrong)} of {size(wanted)} coordinates to a wrong offset.",
            where=f"coordinate {idx2crd(first, wanted.shape)}",
            expected=str(wanted(first)) if tell else None,
            got=f"{layout(first)}, by {layout}",
            picture=_layout_picture(layout, wanted),
        )
    if exact and str(layout) != str(wanted):
        raise WrongAnswer(
            explained
            or "The layout is right as a function, but its shape and stride are not written as asked.",
            expected=f"{rank(wanted)} modes, {_depth_words(wanted)}",
            got=f"{layout}: {rank(layout)} modes, {_depth_words(layout)}",
        )


def _as_layout(answer: object) -> Layout:
    if isinstance(answer, (Layout, ComposedLayout)):
        return cast(Layout, answer)  # both map coordinates to indices, which is all that is compared
    if isinstance(answer, str):
        try:
            parsed: Layout = Layout.parse(answer)
        except CourseError as error:
            raise WrongAnswer(
                f"The text is not a layout: {error}", expected="(shape):(stride)", got=answer
            ) from None
        return parsed
    raise WrongAnswer(
        "Give a layout, or its text.",
        expected="Layout(shape, stride)",
        got=_type_and_value(answer),
    )


def _explained_layout(layout: Layout, mistakes: Mapping[str, str]) -> str | None:
    for text, message in mistakes.items():
        other = Layout.parse(text)
        if size(other) == size(layout) and all(other(i) == layout(i) for i in range(size(other))):
            return message
    return None


def _depth_words(layout: Layout) -> str:
    return "nested" if depth(layout) > 1 else "flat"


def _layout_picture(layout: Layout, wanted: Layout) -> AnswerPicture | None:
    if rank(wanted) != 2 or size(wanted) > _MAX_PICTURE_CELLS:
        return None
    rows, cols = size(wanted[0]), size(wanted[1])
    # Index i is the coordinate (i % rows, i // rows): the first mode runs fastest.
    table = [[layout(row + col * rows) for col in range(cols)] for row in range(rows)]
    right = [[wanted(row + col * rows) for col in range(cols)] for row in range(rows)]
    return grid("offset at each coordinate, by your layout", table, right)


def same_array(
    answer: object,
    right: np.ndarray[Any, Any],
    *,
    name: str = "the array",
    mistakes: Sequence[tuple[np.ndarray[Any, Any], str]] = (),
    reason: str | None = None,
    columns: int | None = None,
) -> None:
    """Accept an array equal to `right`, element by element; NaN equals NaN.

    Shapes:   answer and right alike; the message says both when they are not.
    mistakes  pairs a plausible wrong array with what to say to it; NaN equals NaN there too.
    reason    is said where no mistake fits, before the number of elements that differ.
    columns   breaks the picture of a flat array into rows of so many elements.
    Shows the first element that differs, how many do, and for up to two dimensions where.
    """
    import numpy as np

    if not isinstance(answer, np.ndarray):
        raise WrongAnswer(
            f"{name} must be a NumPy array.", expected=_shape_words(right), got=_type_and_value(answer)
        )
    if answer.shape != right.shape:
        raise WrongAnswer(
            f"{name} does not have the right shape.", expected=_shape_words(right), got=_shape_words(answer)
        )
    differs = ~_equal(answer, right)
    if not differs.any():
        return
    explained = next(
        (text for other, text in mistakes if other.shape == right.shape and _equal(answer, other).all()), None
    )
    first = tuple(int(index) for index in np.argwhere(differs)[0])
    counted = f"{int(differs.sum())} of {right.size} elements of {name} differ."
    raise WrongAnswer(
        explained or (f"{reason}\n{counted}" if reason else counted),
        where=f"{name}[{', '.join(map(str, first))}], the first of {int(differs.sum())}",
        expected=str(right[first]),
        got=str(answer[first]),
        picture=_array_picture(name, answer, right, columns or right.shape[-1]),
    )


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> Any:
    """The places in which two arrays agree; NaN equals NaN, also of types for which isnan is not defined."""
    return (one == other) | ((one != one) & (other != other))  # noqa: PLR0124 - only a NaN differs from itself


def _array_picture(
    name: str, answer: np.ndarray[Any, Any], right: np.ndarray[Any, Any], columns: int
) -> AnswerPicture | None:
    if right.ndim not in (1, 2) or right.size > _MAX_PICTURE_CELLS:
        return None
    return grid(name, answer.reshape(-1, columns).tolist(), right.reshape(-1, columns).tolist())


def _shape_words(array: np.ndarray[Any, Any]) -> str:
    return f"shape {array.shape}, {array.dtype}"


def repaired_text(answer: object, exercise: str, *others: object) -> str:
    """Return the answer to a bug hunt: a text that differs from the broken one.

    others  are further texts of the broken kernel that the exercise gives, such as its twin's.
    Errors: WrongAnswer for a text as it was given, for a single line, and for what is no text.
    """
    from cutecourse.kernels import broken_text

    if not isinstance(answer, str):
        raise WrongAnswer("Give the kernel's whole text.", expected="a str", got=type(answer).__name__)
    if "\n" not in answer.strip():
        raise WrongAnswer(
            "Give the whole text, not the corrected line alone: `replace(old, new)` returns the text with "
            "`new` in place of `old`."
        )
    if answer.strip() in [str(text).strip() for text in (broken_text(exercise), *others)]:
        raise WrongAnswer(
            "Nothing has changed: this is the broken text as it was. `replace` returns the same text if it "
            "does not find its first argument. Check the spaces."
        )
    return answer


def same_outputs(
    spec: Any,
    inputs: Mapping[str, np.ndarray[Any, Any] | np.generic],
    expected: Mapping[str, np.ndarray[Any, Any]],
    *,
    mistakes: Mapping[str, Sequence[tuple[np.ndarray[Any, Any], str]]] | None = None,
    emulator_first: bool = False,
    reports: Mapping[Any, str] | None = None,
    notes: Mapping[str, str] | None = None,
    names: Mapping[str, tuple[int, int]] | None = None,
    columns: int | None = None,
) -> None:
    """Run a kernel's launch specification on this machine's device or the emulator, and compare its outputs.

    An error of the emulator or of a compiler is a wrong answer with that error's message, which names
    line, block, warp and lane. NoCompilerError passes through: nothing was checked.

    emulator_first  is for kernels that wait for barriers: a wrong one would hang a GPU, and the emulator says
                    what it waits for, so only what passed there runs elsewhere.
    reports         maps a part of an error's type and message, or a pattern that is searched for in them, to
                    what to say before it; the first that is found counts. Where outputs are wrong and no
                    mistake fits, it explains the run's notes in the same way.
    notes           maps a part of a note of the emulator's run to why an answer that earns it is refused,
                    though its outputs are right.
    names           gives parts of shared memory the names that the emulator's reports use: name to
                    (offset, bytes).
    columns         breaks the pictures of flat outputs into rows of so many elements.
    """
    from cutecourse.kernels.spec import LaunchSpec
    from cutecourse.runtime import NoCompilerError, choose, run

    if not isinstance(spec, LaunchSpec):
        raise WrongAnswer(
            "Give a launch specification of your kernel.",
            expected="LaunchSpec(...)",
            got=_type_and_value(spec),
        )
    _refuse_waits_without_retry(spec)
    for device in ("emulator", None) if emulator_first else (None,):
        try:
            copies: dict[str, Any] = {name: array.copy() for name, array in inputs.items()}
            outcome = run(spec, device=device, names=names, **copies)
        except NoCompilerError:
            raise
        except CourseError as error:
            report = f"{type(error).__name__}: {error}"
            explained = _explained(report, reports or {})
            stopped = f"The kernel did not run to its end: {report}{lines_named(spec, error)}"
            raise WrongAnswer(f"{explained}\n{stopped}" if explained else stopped) from error
        reasons = ((note, _explained(str(note), reports or {})) for note in outcome.notes)
        reason = next((f"{words}\nThe emulator's note: {note}" for note, words in reasons if words), None)
        for name, right in expected.items():
            said = (mistakes or {}).get(name, ())
            same_array(outcome[name], right, name=name, mistakes=said, reason=reason, columns=columns)
        for note, (part, words) in itertools.product(outcome.notes, (notes or {}).items()):
            if part in str(note):
                raise WrongAnswer(f"{words}\nThe emulator's note: {note}")
        if choose(outcome.record.target, None).device is None:
            return  # there is no other device to run it on


def _refuse_waits_without_retry(spec: LaunchSpec) -> None:
    """Refuse a wait in PTX whose result nothing uses: try_wait may return false before its phase is complete.

    The emulator cannot see that: there, try_wait waits until the phase is complete.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", spec.ptx or "", flags=re.DOTALL)
    for wait in _WAIT.finditer(code):
        until_next = code[wait.end() :].split("_wait")[0]
        if re.search(rf"{re.escape(wait[1])}\b", until_next) is None:
            raise WrongAnswer(
                f"Nothing uses the result of the wait on {wait[2]}. try_wait may return false when its "
                "time limit is over, before the phase is complete. The kernel then has to wait again."
            )


def lines_named(spec: LaunchSpec, error: CourseError) -> str:
    """The lines of a kernel in PTX that a report names, numbered and with neighbours; "" for other kernels.

    A cell shows no line numbers, and the lines of an answer may stand in a longer text.
    """
    text = (spec.ptx or "").splitlines()
    numbers = re.findall(r"\bline (\d+)", f"line {getattr(error, 'line', None)}, {error}")
    named = list(dict.fromkeys(map(int, numbers)))[:_MOST_NAMED]
    near = sorted({number + step for number in named for step in (-1, 0, 1)} & {*range(1, len(text) + 1)})
    return "".join(f"\n  {' >'[number in named]} {number:>3}  {text[number - 1]}" for number in near)


def _explained(report: str, reports: Mapping[Any, str]) -> str | None:
    """The words of the first part or pattern that a report or note contains; None where it contains none."""
    found = (
        words
        for part, words in reports.items()
        if (part in report if isinstance(part, str) else part.search(report))
    )
    return next(found, None)


def returned(answer: object, cases: Sequence[tuple[Any, ...]], *, what: str) -> list[Any]:
    """The learner's results for all cases, lists as tuples, to compare with plausible mistakes.

    The values may be of any type: compare them, do not compute with them. Cases are argument tuples.
    Errors: WrongAnswer for what is no function and for None; an exception of the learner's function passes
    through.
    """
    if not callable(answer):
        raise WrongAnswer(f"Give a function: {what}.", expected="a function", got=_type_and_value(answer))
    name = getattr(answer, "__name__", "your function")
    values = []
    for case in cases:
        got = _plain(answer(*case))
        if got is None:
            raise WrongAnswer(
                f"`{name}` returned None: return the answer.", where=_call(name, case), got="None"
            )
        values.append(got)
    return values


def on_many(
    answer: object,
    cases: Sequence[tuple[Any, ...]],
    reference: Any,
    *,
    what: str,
    show: Callable[[Any], str] = str,
) -> None:
    """Call the learner's function and a reference on each case; points at the first case that differs.

    Cases are argument tuples; `show` writes a whole number (a mask in hexadecimal, say).
    Errors: an exception of the learner's function passes through.
    """
    name = getattr(answer, "__name__", "your function")
    wrong: list[tuple[tuple[Any, ...], Any, Any]] = []
    for case, got in zip(cases, returned(answer, cases, what=what), strict=True):
        right = _plain(reference(*case))
        if got != right:
            wrong.append((case, got, right))
    if wrong:
        case, got, right = wrong[0]
        raise WrongAnswer(
            f"{len(wrong)} of {len(cases)} cases differ: {what}.",
            where=_call(name, case),
            expected=show(right),
            got=show(got) if type(got) is int else str(got),
        )


def _call(name: str, case: tuple[Any, ...]) -> str:
    return f"{name}({', '.join(map(str, case))})"


def _plain(value: Any) -> Any:
    """A NumPy scalar as a Python number, sequences as tuples: what is equal is to compare equal."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(_plain(item) for item in value) if isinstance(value, (tuple, list)) else value


def _type_and_value(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__}: {text if len(text) <= 80 else text[:77] + '...'}"
