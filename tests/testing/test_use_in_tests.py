"""The page "Use it in your tests": its test, failure, workflow and command are as it shows them."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cutecourse.cli import main
from cutecourse.testing import check

pytest_plugins = ["pytester"]
KERNEL = Path(__file__).with_name("reverse.ptx")
BARRIER = "    bar.sync 0;\n"


def block(repository: Path, language: str) -> str:
    """The page's one code block of a language."""
    page = (repository / "book" / "use_in_tests.md").read_text()
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def project(repository: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the page's test and kernel."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    shutil.copy(KERNEL, pytester.path)
    pytester.makepyfile(test_reverse=block(repository, "python"))
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "cutecourse.testing.pytest_plugin", *options)


def test_page__its_test_passes_with_the_options_of_its_workflow(
    repository: Path, project: pytest.Pytester
) -> None:
    [command] = re.findall(r"run: pytest (.*)", block(repository, "yaml"))
    run(project, *shlex.split(command)).assert_outcomes(passed=1)


def test_page__its_test_fails_as_the_page_says(repository: Path, project: pytest.Pytester) -> None:
    text = KERNEL.read_text()
    assert text.count(BARRIER) == 1
    (project.path / "reverse.ptx").write_text(text.replace(BARRIER, ""))
    done = run(project)
    done.assert_outcomes(failed=1)
    said = " ".join(line.removeprefix("E ") for line in done.outlines)
    shown = " ".join(block(repository, "text").split())
    assert shown in " ".join(said.split()).replace("cutecourse.testing.checking.", "")


def test_page__its_workflow_meets_githubs_schema(repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernels.yml"
    file.write_text(block(repository, "yaml"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    result = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout


def test_page__its_command_runs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(KERNEL, tmp_path)
    np.save("x.npy", np.arange(64, dtype=np.int32))
    program, *words = shlex.split(block(repository, "bash").replace("\\\n", ""))
    assert program == "cutecourse"
    assert main(words) == 0
    assert Path("report.xml").exists()
    assert Path("report.sarif").exists()


def test_page__every_option_that_it_names_is_there(repository: Path) -> None:
    page = (repository / "book" / "use_in_tests.md").read_text()
    named = set(re.findall(r"`(\w+)=", page))
    assert {"rtol", "atol", "seeds", "allow", "may_differ"} <= named
    assert named <= set(inspect.signature(check).parameters)
