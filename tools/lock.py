"""Lock the versions of everything the course installs, with uv.

    python -m tools.lock               write the lock files; present versions stay where they still fit
    python -m tools.lock --upgrade     write them with the newest versions
    python -m tools.lock --check       ask nothing outside; say whether the files are current

`requirements/all.txt` is everything. `requirements/book.txt` is the part that building the pages needs, with
the same versions, so that `make book` on a fresh clone does not wait for compilers that it never calls.
Markers say which systems and which Pythons a pin is for. `environment.yml` names all.txt for conda users.

The files name no package index: the configurations of uv and pip say where packages come from. They hold no
hashes either, since an index may serve wheels that it built itself. A digest in a file's head is that of the
requirements in pyproject.toml and of the file's pins, so a change of either one shows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tools.paths import ROOT

EXTRAS_OF = {"all": ("book", "kernels", "lab", "test", "widgets"), "book": ("book", "widgets")}
_HEAD = "# Written by `make lock` from pyproject.toml; do not edit. Digest {digest}.\n"


def problems(root: Path = ROOT) -> list[str]:
    """Why the lock files under `root` are not current; empty if they are."""
    found = []
    for which in EXTRAS_OF:
        head, *lines = _file(root, which).read_text(encoding="utf-8").splitlines(keepends=True)
        if head != _head(root, "".join(lines)):
            found.append(f"requirements/{which}.txt is not what `make lock` makes of pyproject.toml")
    return found


def write(root: Path = ROOT, *, upgrade: bool = False) -> None:
    """Resolve pyproject.toml and write the lock files. Errors: CalledProcessError, and uv says why."""
    lowest = re.search(r">=\s*([\d.]+)", _project(root)["requires-python"])
    everything = _file(root, "all")
    if upgrade:
        everything.unlink(missing_ok=True)
    for which, extras in EXTRAS_OF.items():
        path = _file(root, which)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--no-build"]
        command += ["--no-header", "--no-annotate", "--python-version", lowest[1] if lowest else ""]
        command += [word for extra in extras for word in ("--extra", extra)]
        if path != everything:
            path.unlink(missing_ok=True)
            command += ["--constraints", str(everything)]
        subprocess.run([*command, "--output-file", str(path), str(root / "pyproject.toml")], check=True)
        pins = path.read_text(encoding="utf-8")
        pins = "".join(line for line in pins.splitlines(keepends=True) if not line.startswith("#"))
        path.write_text(_head(root, pins) + pins, encoding="utf-8")


def _file(root: Path, which: str) -> Path:
    return root / "requirements" / f"{which}.txt"


def _project(root: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _head(root: Path, pins: str) -> str:
    project = _project(root)
    asked = [project[key] for key in ("requires-python", "dependencies", "optional-dependencies")]
    digest = hashlib.sha256(f"{json.dumps(asked, sort_keys=True)}\n{pins}".encode()).hexdigest()
    return _HEAD.format(digest=digest[:12])


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.lock", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; say whether the files are current")
    mode.add_argument("--upgrade", action="store_true", help="forget the present versions")
    options = parser.parse_args(arguments)
    if not options.check:
        try:
            write(upgrade=options.upgrade)
        except subprocess.CalledProcessError as error:
            return error.returncode
    found = problems()
    for line in found:
        print(line)
    print("run `make lock`" if found else "the lock files are current")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
