"""CI: the workflows meet GitHub's schema and run the Makefile's commands on the supported Pythons."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

WORKFLOWS = ("cpu.yml", "gpu.yml", "publish.yml", "release.yml")


def read(repository: Path, name: str) -> dict[str, Any]:
    return yaml.safe_load((repository / ".github" / "workflows" / name).read_text())


def commands(workflow: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


def check_schema(schema: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_workflows__are_those_that_are_checked(repository: Path) -> None:
    assert sorted(path.name for path in (repository / ".github" / "workflows").iterdir()) == sorted(WORKFLOWS)


def test_workflows__meet_githubs_schema(repository: Path) -> None:
    folder = repository / ".github" / "workflows"
    result = check_schema("vendor.github-workflows", *(folder / name for name in WORKFLOWS))
    assert result.returncode == 0, result.stdout


def test_issue_forms__meet_githubs_schema(repository: Path) -> None:
    forms = sorted((repository / ".github" / "ISSUE_TEMPLATE").iterdir())
    assert forms
    result = check_schema("vendor.github-issue-forms", *forms)
    assert result.returncode == 0, result.stdout


def test_citation__meets_its_schema(repository: Path) -> None:
    result = check_schema("vendor.citation-file-format", repository / "CITATION.cff")
    assert result.returncode == 0, result.stdout


def test_cpu_workflow__covers_the_supported_pythons(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    supported = SpecifierSet(project["requires-python"])
    pythons = [f"3.{minor}" for minor in range(30) if supported.contains(f"3.{minor}")]
    assert [one.rpartition(" :: ")[2] for one in project["classifiers"] if "Python :: 3." in one] == pythons
    workflow = read(repository, "cpu.yml")
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == pythons
    assert "bash .ci/run" in commands(workflow)


def test_cpu_workflow__tries_other_systems_as_the_readme_installs_there(repository: Path) -> None:
    job = read(repository, "cpu.yml")["jobs"]["systems"]
    assert job["runs-on"] == "${{ matrix.system }}"
    assert {name.partition("-")[0] for name in job["strategy"]["matrix"]["system"]} == {
        "macos",
        "windows",
        "ubuntu",
    }
    run = commands({"jobs": {"systems": job}})
    assert 'pip install -e ".[course,test]"' in run
    assert 'pip install -e ".[course]"' in (repository / "README.md").read_text()
    tests = [word for word in run.split() if word.startswith("tests/")]
    assert "tests/notebooks/test_without_compilers.py" in tests
    assert all((repository / path).exists() for path in tests)


def test_cpu_workflow__tries_the_newest_compilers_once_a_week(repository: Path) -> None:
    workflow = read(repository, "cpu.yml")
    assert workflow[True]["schedule"]  # YAML reads `on` as a truth value
    newest = workflow["jobs"]["newest"]
    run = "\n".join(step.get("run", "") for step in newest["steps"])
    [upgrade] = [one for one in run.splitlines() if "--upgrade" in one]
    assert "nvidia-cutlass-dsl" in upgrade
    assert "numba-cuda" in upgrade
    assert run.index(upgrade) < run.index("make test")


def test_gpu_workflow__runs_the_same_tests_on_runners_labelled_by_capability(repository: Path) -> None:
    workflow = read(repository, "gpu.yml")
    job = workflow["jobs"]["test"]
    assert job["runs-on"] == ["self-hosted", "linux", "gpu", "${{ matrix.gpu }}"]
    assert "bash .ci/run test-gpu" in commands(workflow)
    assert "pull_request" not in workflow[True]  # YAML 1.1 reads the key `on` as true


def test_publish_workflow__publishes_where_the_book_is_built(repository: Path) -> None:
    workflow = read(repository, "publish.yml")
    [upload] = [
        step for step in workflow["jobs"]["build"]["steps"] if "upload-pages-artifact" in step.get("uses", "")
    ]
    assert "make book" in commands({"jobs": {"build": workflow["jobs"]["build"]}})
    assert upload["with"]["path"] in (repository / "Makefile").read_text()


def test_cpu_workflow__looks_at_what_a_release_would_publish(repository: Path) -> None:
    job = read(repository, "cpu.yml")["jobs"]["package"]
    run = commands({"jobs": {"package": job}})
    assert "twine check --strict dist/*" in run
    assert "gpu" not in str(job["runs-on"])
    for path in ("tests/testing/reverse.ptx", "book/use_in_tests.md"):
        assert path in run
        assert (repository / path).exists()


def test_release_workflow__publishes_a_tag_that_twine_has_checked(repository: Path) -> None:
    workflow = read(repository, "release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    run = commands({"jobs": {"build": build}})
    assert run.index("tools.release --repository") < run.index("twine check --strict")
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    assert "pypi-publish" in publish["steps"][-1]["uses"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow__runs_only_make_commands_there_are(repository: Path, name: str) -> None:
    [phony] = re.findall(r"^\.PHONY:(.*)$", (repository / "Makefile").read_text(), re.MULTILINE)
    text = commands(read(repository, name))
    named = set(re.findall(r"\bmake ([a-z-]+)", text)) | set(re.findall(r"\.ci/run ([a-z-]+)", text))
    assert named <= set(phony.split())


def run_ci(
    repository: Path, folder: Path, *arguments: str, chromium: bool, apt_fails: int = 0, make_fails: str = ""
) -> tuple[int, list[str], str]:
    """Run .ci/run where `apt-get`, `make` and `sleep` only note their calls; return status, calls, output."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    calls = folder / "calls"
    for name in ("bash", "cat", "dirname", "grep", "mktemp", "rm", "wc"):
        found = shutil.which(name)
        assert found is not None
        (bin_folder / name).symlink_to(found)
    # The first `apt_fails` calls of apt-get fail, as a registry that does not answer makes them.
    stubs = {
        "apt-get": f'[ "$(grep -c apt-get {calls})" -gt {apt_fails} ] || {{ echo "no answer"; exit 100; }}',
        "make": f'[ "$1" != "{make_fails}" ]',
        "sleep": "true",
        "id": "echo 0",
    }
    if chromium:
        stubs["chromium"] = "true"
    for name, body in stubs.items():
        note = "" if name == "id" else f'echo "{name} $*" CI=$CI >> {calls}\n'
        (bin_folder / name).write_text(f"#!/bin/bash\n{note}{body}\n")
        (bin_folder / name).chmod(0o755)
    run = subprocess.run(
        ["bash", str(repository / ".ci" / "run"), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": str(bin_folder)},
    )
    return run.returncode, calls.read_text().splitlines(), run.stdout + run.stderr


def test_ci_run__runs_the_readmes_two_commands(repository: Path, tmp_path: Path) -> None:
    status, calls, _ = run_ci(repository, tmp_path, chromium=True)
    assert (status, calls) == (0, ["make book CI=true", "make test CI=true"])


def test_ci_run__takes_another_command_for_the_tests(repository: Path, tmp_path: Path) -> None:
    status, calls, _ = run_ci(repository, tmp_path, "test-gpu", chromium=True)
    assert (status, calls) == (0, ["make book CI=true", "make test-gpu CI=true"])


def test_ci_run__installs_chromium_where_there_is_none(repository: Path, tmp_path: Path) -> None:
    status, calls, output = run_ci(repository, tmp_path, chromium=False)
    assert status == 0
    assert [call.split()[:2] for call in calls] == [
        ["apt-get", "update"],
        ["apt-get", "install"],
        ["make", "book"],
        ["make", "test"],
    ]
    assert " -y " in calls[1]
    assert " chromium " in calls[1]
    assert "Installing Chromium" in output


def test_ci_run__tries_again_when_the_registry_does_not_answer(repository: Path, tmp_path: Path) -> None:
    status, calls, output = run_ci(repository, tmp_path, chromium=False, apt_fails=2)
    assert status == 0
    assert [call.split()[1] for call in calls if call.startswith("apt-get")] == [
        "update",
        "update",
        "update",
        "install",
    ]
    assert "attempt 2 of 3" in output


def test_ci_run__fails_without_a_browser(repository: Path, tmp_path: Path) -> None:
    status, calls, output = run_ci(repository, tmp_path, chromium=False, apt_fails=99)
    assert status != 0
    assert "apt-get could not install: chromium" in output
    assert "no answer" in output
    assert not any(call.startswith("make") for call in calls)


@pytest.mark.parametrize("command", ["book", "test"])
def test_ci_run__fails_when_a_command_fails(repository: Path, tmp_path: Path, command: str) -> None:
    status, _, _ = run_ci(repository, tmp_path, chromium=True, make_fails=command)
    assert status != 0
