"""Which exercises there are, and how an answer is put to its check."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutecourse.checks.result import CheckFailed, CheckResult, Hint, Untouched, WrongAnswer
from cutecourse.checks.untouched import UNTOUCHED, refuse_untouched
from cutecourse.errors import CourseError

CheckFunction = Callable[[Any], str | None]

UNCHECKED = (
    "This answer needs a compiler that is not installed here, so nothing was checked. If the exercise has a "
    "cell for PTX, solve it there. Otherwise take the notebook to a machine that has the compiler."
)
UNDEFINED = (
    "There is no `{}` yet. Run the cell that defines it first. If that cell needs a compiler that is not "
    "here, solve the exercise in the cell for PTX."
)
_PACKAGE_FOLDER = str(Path(__file__).resolve().parent.parent)


class UnknownExercise(CourseError):
    """There is no exercise of this id, or it was registered twice."""


@dataclass(frozen=True)
class _Exercise:
    id: str
    title: str
    hints: tuple[str, ...]
    check: CheckFunction


_exercises: dict[str, _Exercise] = {}
_hints_given: dict[str, int] = {}
_collectors: list[list[CheckResult]] = []


def exercise(
    identifier: str, title: str, *, hints: Sequence[str]
) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check of an exercise, in the module `cutecourse.checks.chNN` of its chapter.

    The function takes the answer, raises WrongAnswer (the comparators of `cutecourse.checks.compare` do), and
    returns a sentence for whoever passed, or None. An exception in the learner's own code may pass through.
    """

    def register(function: CheckFunction) -> CheckFunction:
        if identifier in _exercises:
            raise UnknownExercise(f"exercise {identifier} is registered twice")
        if not hints:
            raise UnknownExercise(f"exercise {identifier} has no hint; give at least one")
        _exercises[identifier] = _Exercise(identifier, title, tuple(hints), function)
        return function

    return register


def exercises(chapter: str) -> tuple[str, ...]:
    """The ids of a chapter's exercises ("02"), in order."""
    _load(chapter)
    found = (name for name in _exercises if name.startswith(f"{chapter}."))
    return tuple(sorted(found, key=lambda name: int(name.partition(".")[2])))


def _load(chapter: str) -> None:
    module = f"cutecourse.checks.ch{chapter}"
    if not chapter.isdigit() or importlib.util.find_spec(module) is None:
        raise UnknownExercise(f"there is no chapter {chapter!r} with exercises; an id looks like '02.3'")
    importlib.import_module(module)


def _find(identifier: str) -> _Exercise:
    chapter = str(identifier).partition(".")[0]
    _load(chapter)
    if identifier not in _exercises:
        raise UnknownExercise(
            f"there is no exercise {identifier!r}; there are: {', '.join(exercises(chapter))}"
        )
    return _exercises[identifier]


def check(identifier: str, answer: object, *, strict: bool | None = None) -> CheckResult:
    """Check an answer; the result shows itself as a cell's last value, and is true when the answer is right.

    A wrong answer is no exception, so that a notebook shows no traceback, unless `strict` is set (or
    CUTECOURSE_STRICT=1 in the environment). Errors: UnknownExercise; CheckFailed when strict.
    """
    found = _find(identifier)
    result = _evaluate(found, answer)
    for collected in _collectors:
        collected.append(result)
    if strict is None:
        strict = os.environ.get("CUTECOURSE_STRICT") == "1"
    if strict and not result:
        raise CheckFailed(repr(result))
    return result


def _evaluate(found: _Exercise, answer: object) -> CheckResult:
    try:
        refuse_untouched(answer)
        message = found.check(answer)
    except Untouched as untouched:
        return CheckResult(found.id, found.title, "untouched", str(untouched))
    except NotImplementedError:
        return CheckResult(found.id, found.title, "untouched", UNTOUCHED)
    except WrongAnswer as wrong:
        return CheckResult(
            found.id,
            found.title,
            "wrong",
            wrong.message,
            wrong.expected,
            wrong.got,
            wrong.where,
            wrong.picture,
        )
    except Exception as error:  # noqa: BLE001 - whatever the learner's code raises is an answer to show
        if isinstance(error, NameError) and _is_only_passed_on(error, answer):
            return CheckResult(found.id, found.title, "unchecked", UNDEFINED.format(error.name))
        if _lacks_a_compiler(error):
            return CheckResult(found.id, found.title, "unchecked", f"{UNCHECKED}\n{error}")
        return CheckResult(found.id, found.title, "raised", _describe(error))
    return CheckResult(found.id, found.title, "passed", message or "That is right.")


def _lacks_a_compiler(error: Exception) -> bool:
    errors = sys.modules.get("cutecourse.runtime.errors")  # unless it is loaded, nothing was compiled
    return errors is not None and isinstance(error, errors.NoCompilerError)


def _is_only_passed_on(error: Exception, answer: object) -> bool:
    """Whether the error comes from the line that hands the answer to `check`: `lambda: launched(kernel)`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = getattr(answer, "__code__", None)
    return trace is not None and trace.tb_frame.f_code is code and code.co_name == "<lambda>"


def _describe(error: Exception) -> str:
    """An exception in words: its type and message, and the last line of the learner's own code."""
    text = f"{type(error).__name__}: {error}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_PACKAGE_FOLDER) and "site-packages" not in frame.filename:
            return f"{text}\nin {frame.name}, line {frame.lineno}: {frame.line}"
    return text


def hint(identifier: str, *, restart: bool = False) -> Hint:
    """Show the next hint of an exercise; after the last one it says so. `restart=True` begins again."""
    found = _find(identifier)
    given = 0 if restart else _hints_given.get(identifier, 0)
    total = len(found.hints)
    if given >= total:
        return Hint(
            identifier, total, total, "that was the last hint; hint(..., restart=True) shows them again."
        )
    _hints_given[identifier] = given + 1
    return Hint(identifier, given + 1, total, found.hints[given])


@contextlib.contextmanager
def collecting() -> Iterator[list[CheckResult]]:
    """Collect the results of all checks made in the block, in order."""
    results: list[CheckResult] = []
    _collectors.append(results)
    try:
        yield results
    finally:
        _collectors.remove(results)
