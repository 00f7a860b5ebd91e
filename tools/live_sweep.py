"""Run all cells of the built pages in headless Chromium, and keep what came out and how long it took.

python -m tools.live_sweep                 every page with cells, and the exercises' pages
python -m tools.live_sweep 02 13a          these pages (02: its exercises as well); the other rows stay
python -m tools.live_sweep --exercises     the exercises' pages alone
python -m tools.live_sweep --output FILE   keep the result elsewhere

Needs the built pages (`make book`) and Chromium. Every cell runs through the runner of its page; the cells of
exercises get their solutions first. A request to the outside fails the sweep. The result also has the sizes
of the files that the first click fetches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.web import guarded_context
from tools.exercises import exercises_in, solution_notebook
from tools.facts import of_this_machine
from tools.look import opened
from tools.notebooks import code_cells
from tools.paths import BOOK, ROOT, choose, exercise_sources, notebook_sources

RESULTS = ROOT / "benchmarks" / "results" / "live_sweep.json"
_CELL_MS = 240_000
_MOST_LETTERS = 300

_TIMED_AGAIN = {"chapters/13a_two_sm_umma": "run(umma_two_sm, a=a"}
"""A page and a part of its cell that runs twenty times more at the end; `again_s` has median and maximum."""

_PASSED = re.compile(r"✓ (\d\d\.\d+)")
_NOTICES = ("LICENSE", "README")

_RUN = """async ([number, source]) => {
  const book = globalThis.cutecourseBook;
  const cell = book.cells[number];
  if (source !== null) cell.code.textContent = source;
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


def run_cells(
    browser: Any, address: str, name: str, sources: list[str] | None = None, again: str | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run the cells of one page in their order, with other texts in them if `sources` has these.

    Returns an answer for each cell, and the page's times and memory. The first cell whose text has `again` in
    it runs twenty times more at the end.

    Units: seconds as the page sees them, from the click on; megabytes of 10**6 bytes of Python's memory.
    """
    with guarded_context(browser) as context:
        page = context.new_page()
        page.set_default_timeout(_CELL_MS)
        page.goto(f"{address}/{name}.html")
        page.wait_for_selector("html[data-cc-widgets=ready]")
        count = page.locator("div.cell").count()
        texts = [None] * count if sources is None else sources
        start = time.perf_counter()
        page.evaluate("cutecourseBook.python.start()")
        started_s = time.perf_counter() - start
        answers = [page.evaluate(_RUN, [number, texts[number]]) for number in range(count)]
        all_s = time.perf_counter() - start
        repeated = {}
        if again is not None:
            shown = page.evaluate("cutecourseBook.cells.map(cell => cell.code.textContent)")
            number = next(number for number, text in enumerate(shown) if again in text)
            seconds = [page.evaluate(_RUN, [number, None])["seconds"] for _ in range(20)]
            repeated["again_s"] = [round(statistics.median(seconds), 3), round(max(seconds), 3)]
    return answers, {
        "start_s": round(started_s, 2),
        "first_result_s": round(started_s + answers[0]["seconds"], 2),
        "all_cells_s": round(all_s, 2),
        "slowest_cell_s": round(max(answer["seconds"] for answer in answers), 2),
        "memory_mb": round(max(answer["bytes"] for answer in answers) / 1e6),
        **repeated,
    }


def sweep_page(browser: Any, address: str, name: str) -> dict[str, Any]:
    """The row of a page: how many cells give the recorded output, and what the others give."""
    answers, costs = run_cells(browser, address, name, again=_TIMED_AGAIN.get(name))
    outcomes = [answer["outcome"] for answer in answers]
    return {
        "page": name,
        "cells": len(answers),
        **{kind: outcomes.count(kind) for kind in ("equal", "other", "missing", "record")},
        "by_hand": any(answer["by_hand"] for answer in answers),
        **costs,
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


def sweep_exercises(browser: Any, address: str, source: Path) -> dict[str, Any]:
    """The row of a page of exercises: with its solutions in the cells, which ones does `check` pass?

    An exercise that can be solved in PTX as well counts if one of its two solutions passes.
    """
    name = f"exercises/{source.stem}"
    solutions = [cell.source for cell in code_cells(solution_notebook(source))]
    answers, costs = run_cells(browser, address, name, solutions)
    passed = {found for answer in answers for found in _PASSED.findall(answer["shown"])}
    wanted = dict.fromkeys(exercise.id for exercise in exercises_in(source))
    return {
        "page": name,
        "exercises": len(wanted),
        "passed": sum(one in passed for one in wanted),
        **costs,
        "not_passed": [
            {"exercise": one, "why": _why(one, solutions, answers)} for one in wanted if one not in passed
        ],
    }


def _why(exercise: str, solutions: list[str], answers: list[dict[str, Any]]) -> str:
    """What stopped an exercise's solution, in the words of the cell that checks it."""
    number = max(n for n, text in enumerate(solutions) if f'check("{exercise}"' in text)
    answer = answers[number]
    return str(answer["missing"] or answer["error"] or answer["shown"])[:_MOST_LETTERS]


def sizes(html: Path) -> dict[str, Any]:
    """Bytes of what the first click fetches: each file as it is, and as a server sends it with gzip."""
    files = {}
    for path in sorted((html / "_python").iterdir()):
        if not path.name.startswith(_NOTICES):
            data = path.read_bytes()
            # An archive gains nothing, and servers send it as it is.
            packed = path.suffix in (".zip", ".whl")
            files[path.name] = [len(data), len(data) if packed else len(gzip.compress(data, 6, mtime=0))]
    whole, served = (sum(column) for column in zip(*files.values(), strict=True))
    return {"files": files, "bytes": whole, "served_bytes": served}


def summary(kept: dict[str, Any]) -> str:
    """One line on all rows."""
    rows, exercises = kept["rows"], kept["exercises"]
    slowest = max([*rows, *exercises], key=lambda row: row["all_cells_s"])
    largest = max([*rows, *exercises], key=lambda row: row["memory_mb"])
    return (
        f"{len(rows)} pages: of {_sum(rows, 'cells')} cells {_sum(rows, 'equal')} as recorded, "
        f"{_sum(rows, 'other')} otherwise, {_sum(rows, 'missing')} not in a browser, "
        f"{_sum(rows, 'record')} records. {_sum(exercises, 'passed')} of {_sum(exercises, 'exercises')} "
        f"exercises pass. The slowest page is {slowest['page']} with {slowest['all_cells_s']} s, the "
        f"largest {largest['page']} with {largest['memory_mb']} MB. The first click fetches "
        f"{kept['sizes']['served_bytes'] / 1e6:.1f} MB as served."
    )


def _sum(rows: list[dict[str, Any]], key: str) -> int:
    return sum(row[key] for row in rows)


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
    parser.add_argument("--exercises", action="store_true", help="run the exercises' pages alone")
    parser.add_argument("--html", type=Path, default=BOOK / "_build" / "html", help="the built pages")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file that keeps the result")
    options = parser.parse_args(arguments)
    before = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    kept = {
        "recorded": of_this_machine(),
        "browser": before.get("browser", ""),
        "sizes": sizes(options.html),
        "rows": before.get("rows", []),
        "exercises": before.get("exercises", []),
    }
    pages = [] if options.exercises else notebook_sources()
    asked = choose([*pages, *exercise_sources()], options.pages)
    with opened(options.html) as (browser, address):
        kept["browser"] = f"Chromium {browser.version}"
        for source in asked:
            load = os.getloadavg()[0]
            if source in notebook_sources():
                name = source.relative_to(BOOK).with_suffix("").as_posix()
                kind, row = "rows", sweep_page(browser, address, name)
                words = (
                    f"of {row['cells']} cells {row['equal']} as recorded, {row['other']} otherwise, "
                    f"{row['missing']} not in a browser, {row['record']} records"
                )
            else:
                kind, row = "exercises", sweep_exercises(browser, address, source)
                words = f"{row['passed']} of {row['exercises']} exercises pass"
            row |= {"commit": kept["recorded"]["commit"], "load_average": round(load, 1)}
            kept[kind] = merged(kept[kind], [row])
            options.output.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            print(f"{row['page']}: {words}; {row['all_cells_s']} s, {row['memory_mb']} MB", flush=True)
    print(summary(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
