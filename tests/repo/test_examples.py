"""The examples in docstrings of benchmarks and tools hold; pytest finds those of the library by itself."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path.relative_to(ROOT)
    for folder in ("benchmarks", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_examples__hold(source: Path) -> None:
    module = importlib.import_module(".".join(source.with_suffix("").parts))
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
