"""The Makefile's commands: help lists each, documents name only those there are, refusals are readable."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "RECIPES.md")


def make(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    # These tests may run under `make test` themselves, whose variables and flags are not theirs.
    outer = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "VENV"}
    clean = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(command, capture_output=True, text=True, cwd=repository, timeout=60, env=clean)


@pytest.fixture(scope="module")
def targets(repository: Path) -> set[str]:
    makefile = (repository / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE)
    return set(phony.split())


def test_make_help__lists_every_command_with_what_it_does(repository: Path, targets: set[str]) -> None:
    listed = dict(re.findall(r"^  ([a-z-]+) +(\S.*)$", make(repository, "help").stdout, re.MULTILINE))
    assert set(listed) == targets
    assert all(len(text.split()) > 2 for text in listed.values())


def test_make__without_a_command_is_help(repository: Path) -> None:
    assert make(repository).stdout == make(repository, "help").stdout != ""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document__names_only_commands_of_make_there_are(
    repository: Path, targets: set[str], document: str
) -> None:
    text = (repository / document).read_text()
    named = set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)", "\n".join(code_of(text))))
    assert "test" in named
    assert named <= targets


def test_documents__name_every_make_command(repository: Path, targets: set[str]) -> None:
    text = "\n".join(part for document in DOCUMENTS for part in code_of((repository / document).read_text()))
    assert {target for target in targets if f"make {target}" not in text} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document__links_only_to_files_there_are(repository: Path, document: str) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (repository / document).read_text())
    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_readme__links_to_every_folder(repository: Path, tracked: list[Path]) -> None:
    parts = [path.relative_to(repository).parts for path in tracked]
    folders = {first for first, *rest in parts if rest}
    links = re.findall(r"\]\((\w+)[)/]", (repository / "README.md").read_text())
    assert {name for name in folders if not name.startswith(".")} <= {*links}


def test_documents__name_only_commands_there_are(repository: Path) -> None:
    named: dict[str, set[str]] = {}
    for document in (*DOCUMENTS, "tools/gpu/README.md"):
        for part in code_of((repository / document).read_text()):
            for line in part.splitlines():
                for command, given in re.findall(r"\bpython (?:-m )?([\w./]+)([^;#]*)", line):
                    named.setdefault(command, set()).update(re.findall(r"(?<!\S)--[a-z-]+", given))
    assert len(named) > 10
    for command, options in named.items():
        file = command.endswith(".py")
        assert (repository / command).is_file() if file else importlib.util.find_spec(command), command
        if options:
            run = [sys.executable, *([] if file else ["-m"]), command, "--help"]
            said = subprocess.run(run, capture_output=True, text=True, cwd=repository, timeout=60, check=True)
            assert [option for option in options if option not in said.stdout] == [], command


def test_recipes__name_only_files_there_are(repository: Path) -> None:
    found = {
        part
        for part in code_of((repository / "RECIPES.md").read_text())
        if re.fullmatch(r"[\w./*-]+/[\w./*-]*\w", part)
    }
    # Words in capitals stand for the names of what is added; CUTLASS's headers are not in the repository.
    files = {
        name
        for name in found
        if not re.search(r"NAME|NN|FAMILY", name) and not name.startswith((".venv/", "include/"))
    }
    assert len(files) > 30
    folders = [repository, repository / "lib" / "cutecourse" / "widgets"]
    missing = {name for name in files if not any(list(folder.glob(name)) for folder in folders)}
    assert missing == set()


def test_contributing__says_where_every_result_comes_from(repository: Path) -> None:
    text = (repository / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(benchmarks/results/\S+)`", text, re.MULTILINE)
    on_gpu = re.findall(r"-m benchmarks\.(\w+)", (repository / "tools" / "gpu" / "run_all.sh").read_text())
    found = sorted((repository / "benchmarks" / "results").glob("*.json"))
    assert found
    for path in found:
        measured = any(path.name.startswith(f"{name}_") for name in on_gpu)
        assert measured or any(path.match(row) for row in rows), path.name


@pytest.mark.parametrize("version", ["3.10.13", "3.14.0", "2.7.18"])
def test_environment__refuses_another_python_in_words(repository: Path, tmp_path: Path, version: str) -> None:
    other = tmp_path / "other-python"
    # Answers as that Python would: the version test fails, and --version says which one it is.
    other.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "Python {version}" && exit 0\nexit 1\n')
    other.chmod(0o755)
    result = make(repository, "book", f"VENV={tmp_path / 'venv'}", f"PYTHON={other}")
    assert result.returncode != 0
    assert f"is Python {version}; CuTe Course needs Python 3.11, 3.12 or 3.13" in result.stderr
    assert "make book PYTHON=/path/to/python3.12" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_environment__says_so_when_no_python_fits(repository: Path, tmp_path: Path) -> None:
    result = make(repository, "test", f"VENV={tmp_path / 'venv'}", "PYTHON=")
    assert result.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13, and none was found" in result.stderr


def test_environment__refuses_to_change_its_python(repository: Path, tmp_path: Path) -> None:
    for name, version in (("venv/bin/python", "3.11"), ("other", "3.12")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    result = make(repository, "test", f"VENV={tmp_path / 'venv'}", f"PYTHON={tmp_path / 'other'}")
    assert result.returncode != 0
    assert f"venv was made with Python 3.11, not with {tmp_path / 'other'}; make clean first" in result.stderr


def test_environment__is_renewed_when_a_lock_file_changes(repository: Path) -> None:
    def would_install(*newer: str) -> set[str]:
        flags = [flag for file in newer for flag in ("-W", file)]
        plan = make(repository, "-n", "test", *flags).stdout
        return set(re.findall(r"-r (requirements/\w+\.txt)", plan))

    everything = {"requirements/all.txt", "requirements/book.txt"}
    assert would_install("requirements/all.txt") >= {"requirements/all.txt"}
    assert would_install("requirements/book.txt") == everything
    assert would_install("pyproject.toml") == everything


def code_of(markdown: str) -> list[str]:
    """Return the code in a document: blocks and inline spans."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return blocks + re.findall(r"`([^`\n]+)`", rest)
