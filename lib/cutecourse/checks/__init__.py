"""The checks of the exercises: `check("02.3", answer)` says what was expected and where an answer differs."""

from cutecourse.checks.registry import UnknownExercise, check, collecting, exercise, exercises, hint
from cutecourse.checks.result import CheckFailed, CheckResult, Hint, WrongAnswer

__all__ = [
    "CheckFailed",
    "CheckResult",
    "Hint",
    "UnknownExercise",
    "WrongAnswer",
    "check",
    "collecting",
    "exercise",
    "exercises",
    "hint",
]
