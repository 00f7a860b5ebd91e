"""The built book, once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from support.pages import build_book


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the book with warnings as errors and return the folder of its pages.

    Whichever worker comes first builds it; the others wait, and find it. If it fails, each says so.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "book"
    shared.mkdir(exist_ok=True)
    pages, done = shared / "_build" / "html", shared / "errors.txt"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            built = build_book(shared)
            done.write_text(built.stderr if built.returncode or "WARNING" in built.stderr else "")
    assert done.read_text() == ""
    return pages
