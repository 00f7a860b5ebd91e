"""The wheel holds the whole package, and works where NumPy is the only other one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from packaging.requirements import Requirement

from tools.cases import ptx_cases


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
    assert set(metadata.get_all("Provides-Extra")) == {
        "book",
        "course",
        "kernels",
        "lab",
        "release",
        "test",
        "widgets",
    }


def test_wheel__needs_numpy_alone(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    declared = Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist")
    always = [one for one in map(Requirement, declared) if one.marker is None]
    assert [one.name for one in always] == ["numpy"]


@pytest.mark.parametrize(("system", "compiles"), [("linux", True), ("darwin", False), ("win32", False)])
def test_wheel__asks_for_compilers_where_there_are_some(
    wheel: zipfile.ZipFile, system: str, compiles: bool
) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    declared = [*map(Requirement, Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist"))]

    def asked_for(extra: str) -> set[str]:
        """What pip installs there for an extra, those that it names included."""
        held = [one for one in declared if one.marker is None or one.marker.evaluate(dict(here, extra=extra))]
        return {one.name for one in held}.union(*(asked_for(other) for one in held for other in one.extras))

    here = {"sys_platform": system}
    found = asked_for("course")
    assert {"numpy", "jupyterlab", "anywidget"} <= found
    assert ({"nvidia-cutlass-dsl", "numba-cuda"} <= found) == compiles
    assert compiles or not any("cuda" in name or "nvidia" in name for name in found)


def test_wheel__installs_the_command(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "cutecourse = cutecourse.cli:main" in wheel.read(name).decode()


# --- an environment with the wheel and NumPy ----------------------------------------------------------------

HALVES = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry halves(.param .u64 out, .param .u64 in, .param .b16 least)
{
    .reg .b32 %i, %x;
    .reg .b16 %h, %least;
    .reg .b64 %out, %in;
    .reg .pred %p;
    mov.u32 %i, %tid.x;
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    ld.param.b16 %least, [least];
    mad.wide.u32 %in, %i, 4, %in;
    mad.wide.u32 %out, %i, 2, %out;
    ld.global.b32 %x, [%in];
    cvt.rn.bf16.f32 %h, %x;
    setp.lt.bf16 %p, %h, %least;
    @%p mov.b16 %h, %least;
    st.global.b16 [%out], %h;
    ret;
}
"""


class Environment:
    """A virtual environment with the wheel, and NumPy as this environment has it; nothing else."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
        [packages] = (folder / "lib").glob("python3.*/site-packages")
        installed = Path(np.__file__).parent.parent
        for found in [*installed.glob("numpy"), *installed.glob("numpy.libs"), *installed.glob("numpy-*")]:
            (packages / found.name).symlink_to(found)
        self.pip("install", "--no-index", "--no-deps", "--no-compile", str(wheel))

    def _run(self, command: list[str], status: int) -> str:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=self.folder, env=kept, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def pip(self, *arguments: str) -> str:
        """This environment's pip at work on the other one."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        return self._run([*pip, "--python", str(self.folder / "bin" / "python"), *arguments], 0)

    def command(self, *arguments: str) -> str:
        """The command `cutecourse` there."""
        return self._run([str(self.folder / "bin" / "cutecourse"), *arguments], 0)

    def python(self, code: str, status: int = 0) -> str:
        return self._run([str(self.folder / "bin" / "python"), "-c", code], status)


@pytest.fixture(scope="module")
def alone(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    assert wheel.filename is not None
    return Environment(tmp_path_factory.mktemp("alone") / "env", Path(wheel.filename))


def test_numpy_alone__is_all_that_is_installed_and_all_that_is_needed(alone: Environment) -> None:
    found = {one["name"] for one in json.loads(alone.pip("list", "--format", "json"))}
    assert found == {"cutecourse", "numpy"}
    alone.pip("check")


def test_numpy_alone__imports_all_but_the_widgets_their_page_and_what_compiles(alone: Environment) -> None:
    said = alone.python(
        "import importlib, pkgutil, sys, cutecourse\n"
        "apart = ('cutecourse.page', 'cutecourse.widgets')\n"
        "PARTS = ('__main__', '.source', '.pytest_plugin')\n"
        "def below(path, name):\n"
        "    for one in pkgutil.iter_modules(path, name + '.'):\n"
        "        if not one.name.startswith(apart) and not one.name.endswith(PARTS):\n"
        "            module = importlib.import_module(one.name)\n"
        "            print(one.name)\n"
        "            if one.ispkg:\n"
        "                below(module.__path__, one.name)\n"
        "below(cutecourse.__path__, 'cutecourse')\n"
    )
    wanted = (
        "layout",
        "tma",
        "umma",
        "emulator.launch",
        "cli.emulate",
        "runtime.compile_cutedsl",
        "checks.ch10",
    )
    assert {f"cutecourse.{name}" for name in wanted} <= set(said.split())


def test_numpy_alone__emulates_bf16(alone: Environment) -> None:
    (alone.folder / "halves.ptx").write_text(HALVES)
    values = np.linspace(-3, 3, 32, dtype=np.float32)
    values[:3] = np.inf, -np.inf, 1 + 2**-8
    np.save(alone.folder / "in.npy", values)
    arguments = ["--arg", "out:out.npy:bf16:32", "--arg", "in:in.npy", "--arg", "bf16:-1.5"]
    alone.command("emulate", "halves.ptx", "--block", "32", *arguments)
    expected = np.maximum(values.astype(ml_dtypes.bfloat16), ml_dtypes.bfloat16(-1.5))
    np.testing.assert_array_equal(np.load(alone.folder / "out.npy"), expected.view(np.uint16))


def test_numpy_alone__emulates_tcgen05(alone: Environment) -> None:
    (alone.folder / "mma_m64.ptx").write_text(ptx_cases.load("tcgen05/mma_m64").ptx)
    random = np.random.default_rng(3)
    a, b = (random.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (64, 16))
    np.save(alone.folder / "a.npy", a)
    np.save(alone.folder / "b.npy", b)
    arguments = ["--arg", "in:a.npy", "--arg", "in:b.npy", "--arg", "out:d.npy:f32:64x16"]
    alone.command("emulate", "mma_m64.ptx", "--block", "128", *arguments)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(np.load(alone.folder / "d.npy"), expected)
    assert "tcgen05.mma" in alone.command("explain", "mma_m64.ptx")


def test_numpy_alone__doctor_says_what_is_missing(alone: Environment) -> None:
    packages = json.loads(alone.command("doctor", "--json"))["packages"]
    assert {name for name, version in packages.items() if version} == {"cutecourse", "numpy"}


def test_numpy_alone__widgets_name_their_extra(alone: Environment) -> None:
    said = alone.python("import cutecourse.widgets", status=1)
    assert "not installed: anywidget, ipywidgets, matplotlib" in said
    assert "pip install 'cutecourse[widgets]'" in said
