"""The status page lists every result that is kept, so each says when and where it was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.paths import ROOT

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_result__says_when_and_where_it_was_measured(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    facts = data.get("recorded", data)
    assert {"date", "machine", "gpu", "driver", "commit"} <= set(facts)
    assert facts["date"]
    assert facts["machine"]
    assert data.get("rows") or data.get("outcomes") or data.get("cases") or data["counts"]


def test_results__are_there() -> None:
    assert len(RESULTS) > 3
