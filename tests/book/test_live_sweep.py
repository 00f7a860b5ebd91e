"""The kept sweep adds up, and where no text stands in for a compiler's, no output differs."""

from __future__ import annotations

import json

from tools.live_sweep import RESULTS, merged
from tools.paths import BOOK, notebook_sources


def test_merged__takes_the_newer_row_of_a_page() -> None:
    rows = merged([{"page": "b", "cells": 1}, {"page": "a", "cells": 2}], [{"page": "b", "cells": 3}])
    assert rows == [{"page": "a", "cells": 2}, {"page": "b", "cells": 3}]


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
