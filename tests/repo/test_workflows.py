"""CI: the workflows meet GitHub's schema and run the Makefile's doors on the Pythons the course supports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import lock

WORKFLOWS = ("cpu.yml", "gpu.yml", "publish.yml")


def read(repository: Path, name: str) -> dict[str, Any]:
    return yaml.safe_load((repository / ".github" / "workflows" / name).read_text())


def commands(workflow: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])


def check_schema(schema: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_workflows__are_the_three_that_are_checked(repository: Path) -> None:
    assert sorted(path.name for path in (repository / ".github" / "workflows").iterdir()) == sorted(WORKFLOWS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow__meets_githubs_schema(repository: Path, name: str) -> None:
    result = check_schema("vendor.github-workflows", repository / ".github" / "workflows" / name)
    assert result.returncode == 0, result.stdout


def test_schema_check__refuses_a_wrong_workflow(repository: Path, tmp_path: Path) -> None:
    text = (repository / ".github" / "workflows" / "cpu.yml").read_text()
    (tmp_path / "cpu.yml").write_text(text.replace("runs-on:", "run-on:"))
    assert check_schema("vendor.github-workflows", tmp_path / "cpu.yml").returncode == 1


def test_citation__meets_its_schema(repository: Path) -> None:
    result = check_schema("vendor.citation-file-format", repository / "CITATION.cff")
    assert result.returncode == 0, result.stdout


def test_cpu_workflow__covers_the_supported_pythons(repository: Path) -> None:
    workflow = read(repository, "cpu.yml")
    assert tuple(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) == lock.PYTHONS
    assert "bash .ci/run" in commands(workflow)


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


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow__runs_only_doors_there_are(repository: Path, name: str) -> None:
    [phony] = re.findall(r"^\.PHONY:(.*)$", (repository / "Makefile").read_text(), re.MULTILINE)
    text = commands(read(repository, name))
    named = set(re.findall(r"\bmake ([a-z-]+)", text)) | set(re.findall(r"\.ci/run ([a-z-]+)", text))
    assert named <= set(phony.split())


def test_ci_run__is_shell_and_runs_both_commands(repository: Path) -> None:
    script = repository / ".ci" / "run"
    assert subprocess.run(["bash", "-n", str(script)], timeout=30).returncode == 0
    text = script.read_text()
    assert "export CI=true" in text
    assert text.rstrip().endswith('make book\nmake "${1:-test}"')
