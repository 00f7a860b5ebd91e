"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import pytest
from testing.test_check import RACE

pytest_plugins = ["pytester"]

TEST = """
from pathlib import Path
import numpy as np
from cutecourse.testing import Output

KERNEL = Path(__file__).parent / "race.ptx"

def test_race(cutecourse_check):
    done = cutecourse_check(KERNEL, grid=1, args={"y": Output((1,), "u32")}, may_differ=["y"])
    print("seeds:", len(done.launches))
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a kernel that has a race, and a test of it."""
    # Whether or not the environment has the package's entry point, the plugin is loaded once.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makefile(".ptx", race=RACE)
    pytester.makepyfile(test_kernel=TEST)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "cutecourse.testing.pytest_plugin", "-s", *options)


def test_plugin__shows_the_report_and_the_ptx_around_it(project: pytest.Pytester) -> None:
    done = run(project)
    done.assert_outcomes(failed=1)
    said = done.stdout.str()
    assert "kernel race, seed 0 of 0 to 4: race (SharedMemoryRace)" in said
    assert "cutecourse_check(KERNEL, grid=1" in said
    assert "checking.py" not in said
    done.stdout.fnmatch_lines(["*PTX around the line*", ">*st.shared.b32 ?box], %i;"])


def test_plugin__takes_seeds_and_allowed_hazards_from_the_command_line(project: pytest.Pytester) -> None:
    done = run(project, "--cutecourse-allow", "race", "--cutecourse-seeds", "3")
    done.assert_outcomes(passed=1)
    assert "seeds: 3" in done.stdout.str()


def test_plugin__takes_them_from_the_configuration(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ncutecourse_seeds = 2\ncutecourse_allow = race\n")
    done = run(project)
    done.assert_outcomes(passed=1)
    assert "seeds: 2" in done.stdout.str()


@pytest.mark.parametrize("setting", [False, True])
def test_plugin__takes_a_file_of_suppressions(project: pytest.Pytester, setting: bool) -> None:
    line = next(at for at, text in enumerate(RACE.split("\n"), 1) if "st.shared" in text)
    project.makefile(".txt", known=f"race at {line} in race  # only the last value counts\n")
    if setting:
        project.makeini("[pytest]\ncutecourse_suppress = known.txt\n")
    run(project, *([] if setting else ["--cutecourse-suppress", "known.txt"])).assert_outcomes(passed=1)
    project.makefile(".txt", known=f"race at {line} in other\n")
    run(project, *([] if setting else ["--cutecourse-suppress", "known.txt"])).assert_outcomes(failed=1)


def test_plugin__keeps_going_to_the_other_reports(project: pytest.Pytester) -> None:
    barrier = "    bar.sync 0;\n"
    again = RACE.replace(barrier, f"{barrier}    st.shared.b32 [box + 0], %i;\n{barrier}")
    assert again != RACE
    project.makefile(".ptx", race=again)
    for options, reports in (((), 1), (("--cutecourse-keep-going",), 2)):
        done = run(project, *options)
        done.assert_outcomes(failed=1)
        said = {line.lstrip("E ") for line in done.outlines if "at kernel race, PTX line" in line}
        assert len(said) == reports


def test_plugin__refuses_a_setting_that_is_no_number(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ncutecourse_seeds = many\n")
    done = run(project)
    done.assert_outcomes(errors=1)
    assert "cutecourse_seeds = many: give a number of seeds" in done.stdout.str()
