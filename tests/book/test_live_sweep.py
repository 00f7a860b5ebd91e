"""The kept sweep adds up, and where no text stands in for a compiler's, no output differs."""

from __future__ import annotations

import json
from pathlib import Path

from tools.live_sweep import RESULTS, merged, sizes, summary
from tools.paths import BOOK, exercise_sources, notebook_sources


def test_merged__takes_the_newer_row_of_a_page() -> None:
    rows = merged([{"page": "b", "cells": 1}, {"page": "a", "cells": 2}], [{"page": "b", "cells": 3}])
    assert rows == [{"page": "a", "cells": 2}, {"page": "b", "cells": 3}]


def test_sizes__count_what_is_fetched_and_what_compression_leaves_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "_python"
    folder.mkdir()
    for name, text in {"a.wasm": "x" * 10_000, "b.zip": "y" * 100, "LICENSE": "z" * 5}.items():
        (folder / name).write_text(text)
    found = sizes(tmp_path)
    assert found["files"].keys() == {"a.wasm", "b.zip"}
    assert found["bytes"] == 10_100
    assert found["files"]["b.zip"] == [100, 100]
    assert 100 < found["served_bytes"] < 200


def test_summary__adds_up_the_rows() -> None:
    counts = {"cells": 5, "equal": 3, "other": 1, "missing": 0, "record": 1}
    rows = [
        {"page": "a", **counts, "all_cells_s": 1.5, "memory_mb": 50},
        {"page": "b", **counts, "all_cells_s": 2.5, "memory_mb": 40},
    ]
    exercises = [{"page": "e", "exercises": 6, "passed": 4, "all_cells_s": 1.0, "memory_mb": 60}]
    line = summary({"rows": rows, "exercises": exercises, "sizes": {"served_bytes": 10_840_000}})
    assert "of 10 cells 6 as recorded, 2 otherwise" in line
    assert "4 of 6 exercises pass" in line
    assert "b with 2.5 s" in line
    assert "e with 60 MB" in line
    assert "10.8 MB" in line


def test_sweep__says_why_an_exercise_did_not_pass() -> None:
    rows = {row["page"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))["exercises"]}
    assert rows
    assert rows.keys() <= {f"exercises/{source.stem}" for source in exercise_sources()}
    for row in rows.values():
        assert row["passed"] + len(row["not_passed"]) == row["exercises"]
        assert all(entry["why"] for entry in row["not_passed"])


def test_sweep__is_of_pages_that_there_are_and_counts_each_cell_once() -> None:
    rows = {row["page"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]}
    assert rows.keys() <= {page.relative_to(BOOK).with_suffix("").as_posix() for page in notebook_sources()}
    assert len(rows) > 20
    for row in rows.values():
        assert row["cells"] == row["equal"] + row["other"] + row["missing"] + row["record"]
        unequal = [entry["outcome"] for entry in row["not_equal"] if entry["outcome"] != "record"]
        assert len(unequal) == row["other"] + row["missing"]


def test_sweep__finds_no_difference_where_every_kernel_is_the_recorded_text() -> None:
    """Without a compiler's text in the recording there is nothing to differ in, and nothing is missing."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    same = [row for row in rows if not row["by_hand"]]
    assert len(same) >= 5
    assert {row["page"]: row["not_equal"] for row in same if row["other"]} == {}
