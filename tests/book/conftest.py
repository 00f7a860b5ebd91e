"""The built book, once a test module."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import build_book


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the book with warnings as errors and return the folder of its pages."""
    output = tmp_path_factory.mktemp("book")
    built = build_book(output)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return output / "_build" / "html"
