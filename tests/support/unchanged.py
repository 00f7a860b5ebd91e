"""Tests that a few files decide: they run when one of these has changed, and in `make test-all`.

A test marked `inputs("a file", "a folder", ...)` compiles these files, or what they generate, against
CUTLASS's headers or with ptxas. `tests/passed.json` keeps the hash with which it passed: of the files, of the
test's own text, and of the version of the headers. `python -m tools.record_inputs` runs all of them and
writes that file anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "passed.json"
VARIABLE = "CUTECOURSE_RECORD_INPUTS"
"""Names the file that a run notes the hashes of the tests that passed in."""


def key(item: pytest.Item) -> str:
    """A test by its file and function, whatever its parameters."""
    return item.nodeid.partition("[")[0]


def hash_of(item: pytest.Item) -> str | None:
    """The hash of all that decides a test, or None for a test without the marker."""
    marker = item.get_closest_marker("inputs")
    function = getattr(item, "function", None)
    if marker is None or function is None:
        return None
    text = inspect.getsource(function)
    return hashlib.sha256("\n".join([_headers(), text, *map(_contents, marker.args)]).encode()).hexdigest()


def passed(item: pytest.Item) -> bool:
    """Whether a test passed with the inputs that it has now."""
    wanted = _recorded().get(key(item)) if item.get_closest_marker("inputs") else None
    return wanted is not None and wanted == hash_of(item)


def note(item: pytest.Item) -> None:
    """Add a test that has passed to the file that `VARIABLE` names."""
    path = os.environ.get(VARIABLE)
    found = hash_of(item) if path else None
    if path and found:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{key(item)} {found}\n")


@cache
def _recorded() -> dict[str, str]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


@cache
def _headers() -> str:
    try:
        return f"nvidia-cutlass {metadata.version('nvidia-cutlass')}"
    except metadata.PackageNotFoundError:
        return "no nvidia-cutlass"


@cache
def _contents(name: str) -> str:
    """A file's hash, or those of the files of a folder, with their names. Errors: FileNotFoundError."""
    path = ROOT / name
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    digests = (f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files)
    return "\n".join(digests)
