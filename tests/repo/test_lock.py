"""The lock files are current, and they pin what is installed here and nothing else."""

from __future__ import annotations

import importlib.metadata
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """The lock files and pyproject.toml in a folder of their own, to be changed."""
    shutil.copytree(repository / "requirements", tmp_path / "requirements")
    shutil.copy(repository / "pyproject.toml", tmp_path)
    return tmp_path


def pinned(path: Path) -> dict[str, str]:
    """The pins of a lock file for this machine."""
    pins = {}
    for line in path.read_text().splitlines()[1:]:
        requirement = Requirement(line)
        [specifier] = requirement.specifier
        assert specifier.operator == "=="
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.name not in pins
            pins[canonicalize_name(requirement.name)] = specifier.version
    return pins


def closure(requirements: list[str]) -> dict[str, str]:
    """Walk the installed packages' own requirements and return all that is reached, with its version."""
    reached: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra_of_parent = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra_of_parent}):
            continue
        name = canonicalize_name(requirement.name)
        distribution = importlib.metadata.distribution(name)
        reached[name] = distribution.version
        for extra in ["", *requirement.extras]:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(Requirement(text), extra) for text in distribution.requires or []]
    return reached


def test_lock__pins_exactly_what_is_installed(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = [text for extra in lock.EXTRAS_OF["all"] for text in project["optional-dependencies"][extra]]
    assert closure([*project["dependencies"], *extras]) == pinned(repository / "requirements" / "all.txt")


def test_lock__has_the_same_versions_for_the_book(repository: Path) -> None:
    book, everything = (pinned(repository / "requirements" / f"{which}.txt") for which in ("book", "all"))
    assert len(book) > 50
    assert book.items() <= everything.items()


def test_environment_yml__takes_the_pythons_of_pyproject_and_the_lock(repository: Path) -> None:
    entries = yaml.safe_load((repository / "environment.yml").read_text())["dependencies"]
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert f"python {project['requires-python']}" in entries
    assert {"pip": ["-r requirements/all.txt"]} in entries


@pytest.mark.parametrize(
    ("file", "old", "new", "complaints"),
    [
        ("requirements/all.txt", "nbval==0.11", "nbval==0.12", ["all"]),
        ("requirements/book.txt", "sphinx==7", "sphinx==8", ["book"]),
        ("pyproject.toml", '    "nbval==0.11",\n', "", ["all", "book"]),
        ("pyproject.toml", ">=3.11,<3.14", ">=3.12,<3.14", ["all", "book"]),
    ],
)
def test_problems__say_what_has_changed(
    copy: Path, file: str, old: str, new: str, complaints: list[str]
) -> None:
    assert lock.problems(copy) == []
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    assert lock.problems(copy) == [
        f"requirements/{which}.txt is not what `make lock` makes of pyproject.toml" for which in complaints
    ]
