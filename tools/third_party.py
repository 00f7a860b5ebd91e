"""Compare the vendored files in `third_party` with their checksums and with Pyodide's own list of packages.

python -m tools.third_party --check                      compare; needs no network
python -m tools.third_party --check --package FILE.tgz   compare with the package from npm as well
python -m tools.third_party --write                      write SHA256SUMS anew, after a deliberate change
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import tarfile
from pathlib import Path

from tools.paths import ROOT, AuthoringError, relative

FOLDER = ROOT / "third_party"
PYODIDE = FOLDER / "pyodide"
SUMS = FOLDER / "SHA256SUMS"
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""Pyodide's files, as its package on npm has them."""
PACKAGE_INTEGRITY = (
    "sha512-sK40My6m8tmBUYtYH9au9rXUeh9x0wfahtHdOlGmJxZDsKBGKtP6KznyFB2+u/klbQTdDionR0uaVd176zVQzQ=="
)
"""The checksum that npm publishes for the package `pyodide` 314.0.3."""


def wheel(name: str) -> Path:
    """The one vendored wheel of a package. Errors: AuthoringError when there is none or more than one."""
    found = sorted((FOLDER / name).glob("*.whl"))
    if len(found) != 1:
        raise AuthoringError(f"{relative(FOLDER / name)} should hold one wheel, and holds {len(found)}")
    return found[0]


def listed_sums() -> dict[str, str]:
    """The checksums of `SHA256SUMS` by the file's path in `third_party`."""
    pairs = (line.split("  ", 1) for line in SUMS.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in pairs}


def computed_sums(folder: Path = FOLDER) -> dict[str, str]:
    """The checksums of the vendored files as they are now; the two files that we wrote are not vendored."""
    own = {folder / SUMS.name, folder / "README.md"}
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in own)
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()) for path in files}


def sha256(data: bytes) -> str:
    """The checksum as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def problems(listed: dict[str, str], computed: dict[str, str]) -> list[str]:
    """The differences between the list and the files, one sentence each."""
    found = [f"{name} is not in {SUMS.name}" for name in computed.keys() - listed.keys()]
    found += [f"{name} is listed in {SUMS.name} and is not there" for name in listed.keys() - computed.keys()]
    shared = listed.keys() & computed.keys()
    found += [
        f"{name} is not the file that {SUMS.name} lists" for name in shared if listed[name] != computed[name]
    ]
    return sorted(found)


def lock_problems() -> list[str]:
    """Compare the NumPy wheel with the one that Pyodide's own list names, one sentence a difference."""
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text(encoding="utf-8"))
    numpy, entry = wheel("numpy"), lock["packages"]["numpy"]
    found = []
    if numpy.name != entry["file_name"]:
        found.append(f"{numpy.name} is here, and Pyodide's lock names {entry['file_name']}")
    if sha256(numpy.read_bytes()) != entry["sha256"]:
        found.append(f"{numpy.name} has another checksum than in Pyodide's lock")
    return found


def package_problems(package: Path) -> list[str]:
    """How Pyodide's files differ from those in its package from npm."""
    data = package.read_bytes()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if integrity != PACKAGE_INTEGRITY:
        return [f"{package.name} is not the package whose checksum stands in tools/third_party.py"]
    found = []
    with tarfile.open(package) as archive:
        for name in CORE:
            member = archive.extractfile(f"package/{name}")
            if member is None or member.read() != (PYODIDE / name).read_bytes():
                found.append(f"pyodide/{name} is not the file of the package")
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.third_party", description="Check the vendored files."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare the files with their checksums")
    what.add_argument("--write", action="store_true", help="write SHA256SUMS anew")
    parser.add_argument("--package", type=Path, help="Pyodide's package from npm, to compare with")
    options = parser.parse_args(arguments)
    if options.write:
        lines = (f"{digest}  {name}\n" for name, digest in computed_sums().items())
        SUMS.write_text("".join(lines), encoding="utf-8")
    found = problems(listed_sums(), computed_sums()) + lock_problems()
    if options.package:
        found += package_problems(options.package)
    if found:
        print("the vendored files are not as listed:", *found, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{len(listed_sums())} vendored files are as listed, and NumPy is the one of Pyodide's lock")
    return 0


if __name__ == "__main__":
    sys.exit(main())
