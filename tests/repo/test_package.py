"""The wheel holds the whole package: a module, a type marker or a widget's script left out is seen here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build a wheel from a copy, since setuptools leaves a build folder beside what it builds."""
    copy = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, copy)
    shutil.copytree(
        repository / "lib", copy / "lib", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
    )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", str(copy / "dist"), str(copy)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=copy)
    assert run.returncode == 0, run.stdout + run.stderr
    [built] = (copy / "dist").glob("cutecourse-*.whl")
    return zipfile.ZipFile(built)


def test_wheel__holds_every_file_of_the_package(repository: Path, wheel: zipfile.ZipFile) -> None:
    library = repository / "lib"
    wanted = {
        str(path.relative_to(library))
        for path in (library / "cutecourse").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"cutecourse/py.typed", "cutecourse/layout/__init__.py"} <= wanted
    assert any(name.endswith(".js") for name in wanted)
    assert wanted - set(wheel.namelist()) == set()


def test_wheel__says_name_pythons_licence_and_extras(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "cutecourse"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata["Requires-Python"].split(",")) == {">=3.11", "<3.14"}
    assert set(metadata.get_all("Provides-Extra")) == {"book", "kernels", "lab", "test"}


def test_wheel__installs_the_command(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "cutecourse = cutecourse.cli:main" in wheel.read(name).decode()
