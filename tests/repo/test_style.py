"""Style, types and the architecture's rows, as `make lint` and pre-commit have them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BIN = Path(sys.executable).parent


def run(
    folder: Path, *command: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=500,
        env={**os.environ, **(environment or {})},
    )


@pytest.mark.parametrize(
    "command",
    [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("lint-imports", "--no-cache")],
    ids=["ruff-check", "ruff-format", "mypy", "import-linter"],
)
def test_repository__is_clean(repository: Path, command: tuple[str, ...]) -> None:
    result = run(repository, *command)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("layout/__init__.py", "import cutecourse.runtime", "a row imports only the rows below it"),
        ("checks/__init__.py", "import cutecourse.widgets", "a row imports only the rows below it"),
        ("newcomer.py", "", "a row imports only the rows below it"),
        (
            "emulator/core/machine.py",
            "import cutecourse.emulator.checks",
            "within the emulator, a row imports",
        ),
        ("emulator/newcomer.py", "", "within the emulator, a row imports"),
        ("emulator/__init__.py", "import cutecourse.layout", "the machine's side never imports CuTe's side"),
        (
            "ptx/__init__.py",
            "from cutecourse.atoms import mma_atom",
            "the machine's side never imports CuTe's side",
        ),
        ("widgets/__init__.py", "import cutecourse.emulator", "a widget takes a plain snapshot"),
        (
            "runtime/__init__.py",
            "import cutlass.cute as cute",
            "the CuTe DSL is imported in the kernels' files",
        ),
        ("cli/__init__.py", "from numba import cuda", "numba is imported in the kernels' files"),
        ("kernels/spec.py", "import cutlass", "the CuTe DSL is imported in the kernels' files"),
        (
            "kernels/layout/stamp_layout/__init__.py",
            "from numba import cuda",
            "numba is imported in the kernels' files",
        ),
        (
            "kernels/umma/umma_one/__init__.py",
            "import cutecourse.kernels.umma.umma_one.source",
            "a kernel's file is named",
        ),
        ("layout/__init__.py", "import numpy", "the layout algebra is pure Python"),
    ],
)
def test_import_contracts__see_a_forbidden_import(
    repository: Path, tmp_path: Path, module: str, line: str, broken: str
) -> None:
    copy = tmp_path / "cutecourse"
    shutil.copytree(repository / "lib" / "cutecourse", copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / module).open("a") as file:
        file.write(f"\n{line}\n")
    config = str(repository / "pyproject.toml")
    result = run(
        tmp_path, "lint-imports", "--no-cache", "--config", config, environment={"PYTHONPATH": str(tmp_path)}
    )
    # The report is wrapped at the terminal's width.
    report = re.sub(r"\s+", " ", result.stdout)
    assert result.returncode == 1, result.stdout
    assert re.search(re.escape(broken) + r"[^.]*? BROKEN", report), result.stdout


def test_pre_commit__runs_the_tools_of_make_lint(repository: Path) -> None:
    config = yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    hooks = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]
    makefile = (repository / "Makefile").read_text()
    [recipe] = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    wanted = {
        line.strip()
        .replace("$(BIN)", ".venv/bin")
        .replace("$(PY)", ".venv/bin/python")
        .replace(" --check", "")
        for line in recipe.splitlines()
    }
    assert wanted <= {entry.replace(" --force-exclude", "").replace(" --check", "") for entry in hooks}


def test_pre_commit__has_a_valid_configuration(repository: Path) -> None:
    result = run(repository, "pre-commit", "validate-config", ".pre-commit-config.yaml")
    assert result.returncode == 0, result.stdout + result.stderr
