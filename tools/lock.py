"""Lock the versions of everything the course installs.

`make lock` resolves the requirements of `pyproject.toml` for each supported Python with that Python's own
pip, for the lowest patch of it (a Debian or a conda may have any), and writes:

- `requirements/all.txt`: everything (`make test`, `make lab`, `make record`);
- `requirements/book.txt`: the part of it that building the pages needs, with the same versions, so that
  `make book` on a fresh clone does not wait for compilers it never calls;
- `environment.yml`: the same set for conda users.

A version that differs between Pythons gets one line for each with a marker. Without `--upgrade` the
versions of the present lock are kept wherever `pyproject.toml` still allows them. `--check` asks nothing
outside and says whether the files are current: every requirement has a pin that meets it, the files are what
this tool writes, and no pinned package that is installed here refuses the lowest patch of a Python it is
pinned for.

The files name no package index: pip's own configuration says where packages come from. They hold no
hashes either, since an index may serve wheels that it built itself.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
LOWEST_PATCH = {python: f"{python}.0" for python in PYTHONS}
"""What a lock has to hold for: pyproject.toml asks for no patch of a Python."""
EXTRAS_OF = {"book": ("book", "widgets"), "all": ("book", "kernels", "lab", "test", "widgets")}
HEADER = "# Written by `make lock` from pyproject.toml; do not edit. {what}\n"
WHAT = {
    "book": "What `make book` needs; a part of all.txt.",
    "all": "Everything the course uses.",
}

Versions = dict[str, str]
"""Canonical name to version."""
Lock = dict[str, dict[str, str]]
"""Canonical name to {Python: version}."""


class LockError(Exception):
    """A lock that cannot be made, or is not current; the message says what to do."""


def declared(pyproject: Mapping[str, Any], which: str) -> list[str]:
    """Return the requirements of `book` or `all`, as pyproject.toml has them, each once."""
    project = pyproject["project"]
    lines = [*project["dependencies"]]
    for extra in EXTRAS_OF[which]:
        lines += project["optional-dependencies"][extra]
    return sorted(set(lines), key=str.lower)


def applies(requirement: Requirement, python: str) -> bool:
    """Tell whether a requirement's marker holds on Linux with this Python."""
    if requirement.marker is None:
        return True
    environment = dict(default_environment())
    environment |= {"python_version": python, "python_full_version": LOWEST_PATCH[python]}
    environment |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return requirement.marker.evaluate(environment)


def read_lock(path: Path) -> Lock:
    """Read a lock file into {name: {Python: version}}."""
    lock: Lock = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        requirement = Requirement(text)
        pins = list(requirement.specifier)
        if len(pins) != 1 or pins[0].operator != "==":
            raise LockError(f"{path.name}:{number}: {text!r} is no pin (NAME==VERSION)")
        versions = lock.setdefault(canonicalize_name(requirement.name), {})
        versions |= {python: pins[0].version for python in PYTHONS if applies(requirement, python)}
    return lock


def format_lock(lock: Lock) -> list[str]:
    """Return a lock's lines: one for a package, or one for each version with the Pythons that take it."""
    lines = []
    for name in sorted(lock):
        versions = lock[name]
        by_version: dict[str, list[str]] = {}
        for python in PYTHONS:
            if python in versions:
                by_version.setdefault(versions[python], []).append(python)
        for version, pythons in by_version.items():
            marker = " or ".join(f'python_version == "{python}"' for python in pythons)
            lines.append(f"{name}=={version}" + ("" if len(pythons) == len(PYTHONS) else f" ; {marker}"))
    return lines


def format_environment(lines: Iterable[str], name: str = "cutecourse") -> str:
    """Return environment.yml for a lock's lines: Python from conda, the rest from pip with the same pins."""
    head = [
        HEADER.format(what="The set of requirements/all.txt.").rstrip(),
        "#   conda env create -f environment.yml && conda activate cutecourse",
        '#   make book VENV="$CONDA_PREFIX"',
        f"name: {name}",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        "  - python >=3.11,<3.14",
        "  - make",
        "  - pip",
        "  - pip:",
    ]
    quoted = [f"      - '{line}'" if ";" in line else f"      - {line}" for line in lines]
    return "\n".join([*head, *quoted]) + "\n"


def files_of(lock_all: Lock, lock_book: Lock) -> dict[Path, str]:
    """Return every file this tool writes with its text."""
    files = {}
    for which, lock in (("all", lock_all), ("book", lock_book)):
        text = HEADER.format(what=WHAT[which]) + "\n".join(format_lock(lock)) + "\n"
        files[Path("requirements") / f"{which}.txt"] = text
    files[Path("environment.yml")] = format_environment(format_lock(lock_all))
    return files


def interpreter(version: str) -> str:
    """Return a command that runs this Python, or say how to have one."""
    command = shutil.which(f"python{version}")
    if command is not None:
        run = subprocess.run([command, "-m", "pip", "--version"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return command
    raise LockError(
        f"python{version} with pip is not on the PATH, and a lock needs all of {', '.join(PYTHONS)}; "
        "with pyenv: PYENV_VERSION=3.11.7:3.12.1:3.13.0 make lock"
    )


def resolve(version: str, requirements: Iterable[str], constraints: Mapping[str, str]) -> Versions:
    """Return what pip would install into an empty environment of the lowest patch of this Python."""
    python = interpreter(version)
    with tempfile.TemporaryDirectory() as folder:
        wanted, limits, report = (Path(folder) / name for name in ("wanted.txt", "limits.txt", "report.json"))
        wanted.write_text("\n".join(requirements) + "\n")
        limits.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
        command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        # pip takes another Python's version only for wheels, and only beside a folder to install into.
        command += ["--python-version", LOWEST_PATCH[version], "--only-binary=:all:", "--target", folder]
        command += ["--report", str(report), "--requirement", str(wanted), "--constraint", str(limits)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise LockError(f"{' '.join(command[:4])} found no answer:\n{run.stderr.strip()}")
        installs = json.loads(report.read_text())["install"]
    return {canonicalize_name(one["metadata"]["name"]): one["metadata"]["version"] for one in installs}


def still_allowed(present: Mapping[str, str], requirements: Iterable[str], python: str) -> Versions:
    """Return the pins of the present lock that pyproject.toml still allows."""
    kept = dict(present)
    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if applies(requirement, python) and name in kept and kept[name] not in requirement.specifier:
            del kept[name]
    return kept


def make_lock(pyproject: Mapping[str, Any], present: Lock) -> tuple[Lock, Lock]:
    """Resolve for every Python, preferring one version for all of them; return (all, book)."""
    lock_all: Lock = {}
    lock_book: Lock = {}
    first: Versions = {}
    for version in PYTHONS:
        wanted = declared(pyproject, "all")
        own = {name: versions[version] for name, versions in present.items() if version in versions}
        constraints = first | still_allowed(own, wanted, version)
        print(f"resolving for Python {version} ...", flush=True)
        try:
            everything = resolve(version, wanted, constraints)
        except LockError:
            if not constraints:
                raise
            print("  the versions so far do not fit; resolving anew", flush=True)
            everything = resolve(version, wanted, {})
        first = first or everything
        for name, pin in everything.items():
            lock_all.setdefault(name, {})[version] = pin
        for name, pin in resolve(version, declared(pyproject, "book"), everything).items():
            lock_book.setdefault(name, {})[version] = pin
    return lock_all, lock_book


def installed() -> dict[tuple[str, str], str]:
    """Return which Pythons each package that is installed here asks for, by canonical name and version."""
    found = {}
    for one in distributions():
        asked = one.metadata.get("Requires-Python")
        if asked and one.metadata.get("Name"):
            found[canonicalize_name(one.metadata["Name"]), one.version] = asked
    return found


def refusals(lock: Lock, asked: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the pins that refuse the lowest patch of a Python; `asked` as `installed` returns it."""
    found = []
    for name, versions in lock.items():
        for python, pin in versions.items():
            wants = asked.get((name, pin))
            if wants is not None and LOWEST_PATCH[python] not in SpecifierSet(wants):
                found.append(f"{name} {pin} asks for Python {wants}, and {LOWEST_PATCH[python]} is none")
    return found


def problems(pyproject: Mapping[str, Any], root: Path) -> list[str]:
    """Return why the files under `root` are not current, asking nothing outside; empty when they are."""
    locks = {which: read_lock(root / "requirements" / f"{which}.txt") for which in EXTRAS_OF}
    found = []
    for which, lock in locks.items():
        for text in declared(pyproject, which):
            requirement = Requirement(text)
            for python in PYTHONS:
                if not applies(requirement, python):
                    continue
                pin = lock.get(canonicalize_name(requirement.name), {}).get(python)
                if pin is None:
                    found.append(f"requirements/{which}.txt has no pin for {text!r} on Python {python}")
                elif not requirement.specifier.contains(pin, prereleases=True):
                    found.append(
                        f"requirements/{which}.txt pins {pin}, which {text!r} refuses on Python {python}"
                    )
    found += refusals(locks["all"], installed())
    for name, versions in locks["book"].items():
        for python, pin in versions.items():
            if (other := locks["all"].get(name, {}).get(python)) != pin:
                found.append(f"book.txt has {name} {pin} on Python {python}, all.txt has {other}")
    for path, text in files_of(locks["all"], locks["book"]).items():
        if (root / path).read_text() != text:
            found.append(f"{path} is not what this tool writes")
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="say whether the files are current; write nothing"
    )
    parser.add_argument("--upgrade", action="store_true", help="forget the present versions")
    options = parser.parse_args(argv)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    try:
        if options.check:
            found = problems(pyproject, ROOT)
            for line in found:
                print(line)
            print("run `make lock`" if found else "the lock files are current")
            return 1 if found else 0
        path = ROOT / "requirements" / "all.txt"
        present = read_lock(path) if path.exists() and not options.upgrade else {}
        for path, text in files_of(*make_lock(pyproject, present)).items():
            (ROOT / path).write_text(text)
            print(f"wrote {path}: {len(re.findall('==', text))} pins")
    except LockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
