"""The pytest plugin: the fixture `cutecourse_check`, its options, and the PTX around a failure.

pytest loads this module at its start wherever the package is installed, so it imports the emulator only when
a test asks for the fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest

__all__ = ["cutecourse_check", "pytest_addoption", "pytest_runtest_makereport"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the settings for the configuration file."""
    group = parser.getgroup("cutecourse", "kernels on the emulator of CuTe Course")
    group.addoption(
        "--cutecourse-seeds",
        type=int,
        metavar="N",
        help="run each kernel of cutecourse_check under N seeds (default: cutecourse_seeds, or 5)",
    )
    group.addoption(
        "--cutecourse-allow",
        action="append",
        default=[],
        metavar="HAZARD",
        help="a hazard that does not make cutecourse_check fail; may be given several times",
    )
    group.addoption(
        "--cutecourse-suppress",
        metavar="FILE",
        help="a file of hazards that do not make cutecourse_check fail, by line and kernel",
    )
    group.addoption(
        "--cutecourse-keep-going",
        action="store_true",
        help="a failure of cutecourse_check has all reports of its seed, not the first alone",
    )
    parser.addini("cutecourse_suppress", "the file for --cutecourse-suppress, from the folder of this file")
    parser.addini("cutecourse_seeds", "the number of seeds that cutecourse_check runs")
    parser.addini("cutecourse_allow", "hazards that do not make cutecourse_check fail", type="linelist")


@pytest.fixture
def cutecourse_check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`cutecourse.testing.check` with the options of this run of pytest; see there for its arguments.

    The options --cutecourse-seeds and --cutecourse-keep-going, if they are given, override what a test says.
    """
    from cutecourse.testing.checking import SEEDS, check

    config = request.config
    always = [*config.getini("cutecourse_allow"), *config.getoption("--cutecourse-allow")]
    asked = config.getoption("--cutecourse-seeds")
    setting = config.getini("cutecourse_seeds")
    try:
        usual = int(setting) if setting else SEEDS
    except ValueError:
        raise pytest.UsageError(f"cutecourse_seeds = {setting}: give a number of seeds") from None

    named = config.getini("cutecourse_suppress")
    file = config.getoption("--cutecourse-suppress") or (config.rootpath / named if named else None)

    @wraps(check)
    def checked(ptx: Any, *, seeds: Any = usual, allow: Any = (), suppress: Any = file, **how: Any) -> Any:
        __tracebackhide__ = True
        if config.getoption("--cutecourse-keep-going"):
            how["keep_going"] = True
        own = [allow] if isinstance(allow, str) else allow
        number = seeds if asked is None else asked
        return check(ptx, seeds=number, allow=[*always, *own], suppress=suppress, **how)

    return checked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section with the PTX around the line that a failed check names."""
    report = yield
    checking = sys.modules.get("cutecourse.testing.checking")
    if call.excinfo is not None and checking is not None:
        failure = call.excinfo.value
        if isinstance(failure, checking.KernelFailure) and failure.excerpt:
            report.sections.append(("PTX around the line", failure.excerpt))
    return report
