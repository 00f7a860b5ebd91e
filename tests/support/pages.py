"""Build the book once for a test module, and read its pages."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]


def build_book(output: Path, *, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Build the book of the tree at `root` into `output/_build/html`, as the command line does."""
    command = [sys.executable, "-m", "tools.book", "--all", "--output", str(output)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)


def parse(path: Path) -> BeautifulSoup:
    """A page of the built book; it is parsed once while it stays as it is, so leave it so."""
    return _parsed(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _parsed(path: Path, _written: int) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
