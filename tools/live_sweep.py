"""Run all cells of the built pages in headless Chromium, and keep what came out and how long it took.

python -m tools.live_sweep                 every page with cells
python -m tools.live_sweep 02 13a          these pages; the rows of the others stay
python -m tools.live_sweep --output FILE   keep the result elsewhere

Needs the built pages (`make book`) and Chromium. Every cell runs through the runner of its page. A request to
the outside fails the sweep.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.web import guarded_context
from tools.facts import of_this_machine
from tools.look import opened
from tools.paths import BOOK, ROOT, choose, notebook_sources

RESULTS = ROOT / "benchmarks" / "results" / "live_sweep.json"
_CELL_MS = 240_000
_MOST_LETTERS = 300

_RUN = """async number => {
  const book = globalThis.cutecourseBook;
  const cell = book.cells[number];
  const start = performance.now();
  const answer = await book.execute(cell);
  const seconds = (performance.now() - start) / 1000;
  await cell.show(answer, book.python.models);
  const error = answer.outputs.findLast(output => output.output_type === "error");
  return {
    seconds, bytes: answer.bytes, missing: answer.missing, by_hand: answer.by_hand,
    outcome: cell.digest === "" ? "record" : answer.missing ? "missing" : cell.agrees ? "equal" : "other",
    error: error ? `${error.ename}: ${error.evalue}` : "",
    shown: cell.live.innerText,
  };
}"""


def sweep_page(browser: Any, address: str, name: str) -> dict[str, Any]:
    """Run the cells of one page in their order.

    Units: seconds as the page sees them, from the click on; megabytes of 10**6 bytes of Python's memory.
    """
    with guarded_context(browser) as context:
        page = context.new_page()
        page.set_default_timeout(_CELL_MS)
        page.goto(f"{address}/{name}.html")
        page.wait_for_selector("html[data-cc-widgets=ready]")
        start = time.perf_counter()
        page.evaluate("cutecourseBook.python.start()")
        started_s = time.perf_counter() - start
        answers = [page.evaluate(_RUN, number) for number in range(page.locator("div.cell").count())]
        all_s = time.perf_counter() - start
    outcomes = [answer["outcome"] for answer in answers]
    return {
        "page": name,
        "cells": len(answers),
        **{kind: outcomes.count(kind) for kind in ("equal", "other", "missing", "record")},
        "by_hand": any(answer["by_hand"] for answer in answers),
        "start_s": round(started_s, 2),
        "first_result_s": round(started_s + answers[0]["seconds"], 2),
        "all_cells_s": round(all_s, 2),
        "slowest_cell_s": round(max(answer["seconds"] for answer in answers), 2),
        "memory_mb": round(max(answer["bytes"] for answer in answers) / 1e6),
        "not_equal": [
            {
                "cell": number,
                "outcome": answer["outcome"],
                "why": (answer["missing"] or answer["error"] or answer["shown"])[:_MOST_LETTERS],
            }
            for number, answer in enumerate(answers)
            if answer["outcome"] in ("other", "missing")
            or (answer["outcome"] == "record" and answer["error"])
        ],
    }


def merged(before: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a run in place of those of the same pages, in the order of the pages' names."""
    by_page = {row["page"]: row for row in [*before, *rows]}
    return [by_page[name] for name in sorted(by_page)]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.live_sweep", description="Run the pages in Chromium."
    )
    parser.add_argument("pages", nargs="*", help="pages, as `make record` names them; without any, all")
    parser.add_argument("--html", type=Path, default=BOOK / "_build" / "html", help="the built pages")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file that keeps the result")
    options = parser.parse_args(arguments)
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    rows: list[dict[str, Any]] = before.get("rows", [])
    sources = choose(notebook_sources(), options.pages)
    with opened(options.html) as (browser, address):
        facts = of_this_machine()
        for source in sources:
            load = os.getloadavg()[0]
            row = sweep_page(browser, address, source.relative_to(BOOK).with_suffix("").as_posix())
            row |= {"commit": facts["commit"], "load_average": round(load, 1)}
            rows = merged(rows, [row])
            kept = {"recorded": facts, "browser": f"Chromium {browser.version}", "rows": rows}
            options.output.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(
                f"{row['page']}: of {row['cells']} cells {row['equal']} as recorded, "
                f"{row['other']} otherwise, {row['missing']} not in a browser, {row['record']} records; "
                f"{row['all_cells_s']} s, {row['memory_mb']} MB"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
