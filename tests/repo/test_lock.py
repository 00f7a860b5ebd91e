"""The lock files, environment.yml and what is installed are the same set of versions."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock

PYTHON = ".".join(platform.python_version_tuple()[:2])


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


@pytest.fixture
def copy_of_locks(repository: Path, tmp_path: Path) -> Path:
    """The lock files in a folder of their own, to be changed."""
    shutil.copytree(repository / "requirements", tmp_path / "requirements")
    shutil.copy(repository / "environment.yml", tmp_path)
    return tmp_path


def read_environment(path: Path) -> dict[str, str]:
    """Read environment.yml's pins for this Python, without the tool that wrote them."""
    [pip] = [
        entry["pip"] for entry in yaml.safe_load(path.read_text())["dependencies"] if isinstance(entry, dict)
    ]
    pins = {}
    for requirement in map(Requirement, pip):
        if requirement.marker is None or requirement.marker.evaluate():
            [specifier] = requirement.specifier
            assert specifier.operator == "=="
            assert canonicalize_name(requirement.name) not in pins
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


def test_lock__is_current_with_pyproject(repository: Path, pyproject: dict[str, Any]) -> None:
    assert lock.problems(pyproject, repository) == []


def test_lock__pins_exactly_what_is_installed(repository: Path, pyproject: dict[str, Any]) -> None:
    pinned = {
        name: versions[PYTHON]
        for name, versions in lock.read_lock(repository / "requirements" / "all.txt").items()
        if PYTHON in versions
    }
    assert closure(lock.declared(pyproject, "all")) == pinned


def test_environment_yml__has_the_pins_of_the_lock(repository: Path) -> None:
    locked = {}
    for line in (repository / "requirements" / "all.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin, _, marker = line.partition(" ; ")
            name, _, version = pin.partition("==")
            if not marker or Requirement(f"x ; {marker}").marker.evaluate():  # type: ignore[union-attr]
                locked[name] = version
    assert len(locked) > 100
    assert read_environment(repository / "environment.yml") == locked


def test_environment_yml__takes_the_pythons_of_pyproject(repository: Path, pyproject: dict[str, Any]) -> None:
    entries = yaml.safe_load((repository / "environment.yml").read_text())["dependencies"]
    assert f"python {pyproject['project']['requires-python']}" in entries


def test_lock__covers_the_pythons_of_pyproject(pyproject: dict[str, Any]) -> None:
    wanted = Requirement(f"x{pyproject['project']['requires-python']}").specifier
    assert tuple(f"3.{minor}" for minor in range(30) if wanted.contains(f"3.{minor}")) == lock.PYTHONS
    named = [
        text.rpartition(" :: ")[2] for text in pyproject["project"]["classifiers"] if "Python :: 3." in text
    ]
    assert tuple(named) == lock.PYTHONS


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("requirements/all.txt", "numpy==2.", "numpy==3.", "requirements/all.txt pins 3."),
        ("requirements/all.txt", "nbval==0.11.0\n", "", "requirements/all.txt has no pin for 'nbval==0.11'"),
        ("requirements/book.txt", "sphinx==7", "sphinx==8", "book.txt has sphinx 8"),
        ("environment.yml", "nbval==0.11", "nbval==0.12", "environment.yml is not what this tool writes"),
    ],
)
def test_lock_check__says_what_has_drifted(
    copy_of_locks: Path, pyproject: dict[str, Any], file: str, old: str, new: str, complaint: str
) -> None:
    text = (copy_of_locks / file).read_text()
    assert old in text
    (copy_of_locks / file).write_text(text.replace(old, new))
    assert any(complaint in line for line in lock.problems(pyproject, copy_of_locks))


def test_lock_check__refuses_a_line_that_is_no_pin(copy_of_locks: Path, pyproject: dict[str, Any]) -> None:
    with (copy_of_locks / "requirements" / "all.txt").open("a") as file:
        file.write("numpy>=2\n")
    with pytest.raises(lock.LockError, match="'numpy>=2' is no pin"):
        lock.problems(pyproject, copy_of_locks)


DIFFERING = {
    "a": dict.fromkeys(lock.PYTHONS, "1"),
    "b": {"3.11": "1", "3.12": "2", "3.13": "2"},
    "c": {"3.11": "5"},
}


def test_format_lock__writes_a_marker_where_pythons_differ() -> None:
    assert lock.format_lock(DIFFERING) == [
        "a==1",
        'b==1 ; python_version == "3.11"',
        'b==2 ; python_version == "3.12" or python_version == "3.13"',
        'c==5 ; python_version == "3.11"',
    ]


def test_read_lock__reads_what_format_lock_writes(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("# a comment\n" + "\n".join(lock.format_lock(DIFFERING)))
    assert lock.read_lock(tmp_path / "lock.txt") == DIFFERING


def test_lock__no_installed_package_refuses_the_lowest_patch_of_its_python(repository: Path) -> None:
    asked = lock.installed()
    assert asked["numpy", importlib.metadata.version("numpy")].startswith(">=3.")
    assert lock.refusals(lock.read_lock(repository / "requirements" / "all.txt"), asked) == []


def test_refusals__names_a_pin_that_asks_for_a_later_patch() -> None:
    asked = {("a", "1"): ">=3.11.5", ("b", "2"): ">=3.12.0", ("c", "5"): ">=3.9"}
    assert lock.refusals(DIFFERING, asked) == ["a 1 asks for Python >=3.11.5, and 3.11.0 is none"]
