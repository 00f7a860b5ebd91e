"""Run the pages' cells as a browser would, without one, and show where an output is not the recorded one.

python -m tools.native_sweep                every page with cells
python -m tools.native_sweep 02 13a         these pages
python -m tools.native_sweep 05b --beside   compare with a run on this machine's emulator with its compilers

Each page runs in a process of its own, in which the packages that no browser has cannot be imported, no
process can be started, and no kernel is kept from before. `--beside` is for pages whose cells were changed
since they were recorded. `python -m tools.live_sweep` does the same in Chromium and keeps the result.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.paths import BOOK, NOTEBOOKS, ROOT, choose, notebook_sources

_MOST_LINES = 40
_RUNNER = ("-c", "from tools.native_sweep import run_here; run_here()")


def answers(cells: Sequence[str], *, compilers: bool = False) -> list[dict[str, Any]]:
    """What each cell of a page gives where a browser's lack of packages is imitated.

    compilers   true to leave this machine's packages in place; kernels still run on the emulator.
    Returns what `page.kernel.Kernel.run` returns, and for each cell its `seconds`.
    """
    variables = {"CUTECOURSE_CACHE": "off"} if not compilers else {}
    paths = [str(path) for path in (ROOT / "lib", ROOT)]
    done = subprocess.run(
        [sys.executable, *_RUNNER],
        input=json.dumps({"cells": list(cells), "compilers": compilers}),
        env={**os.environ, **variables, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(paths)},
        cwd=NOTEBOOKS,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [*json.loads(done.stdout)]


def run_here() -> None:
    """Run the cells that standard input brings, as JSON, and write the answers. The process stays changed."""
    import numpy as np  # noqa: F401 - before the platform changes, by which NumPy's own modules choose

    asked = json.load(sys.stdin)
    platform, sys.platform = sys.platform, "emscripten"
    import cutecourse.widgets  # noqa: F401 - they choose what they are when they are imported
    from cutecourse.page import widgets
    from cutecourse.page.kernel import DISTRIBUTIONS, Kernel

    if asked["compilers"]:
        sys.platform = platform
    else:
        # As subprocess decides when a browser imports it.
        vars(subprocess)["_can_fork_exec"] = False
        sys.meta_path[:] = [_Without(finder, set(DISTRIBUTIONS)) for finder in sys.meta_path]
    stdout = sys.stdout
    widgets.connect(lambda message: None)
    kernel = Kernel({"__name__": "__main__"})
    told = []
    for cell in asked["cells"]:
        start = time.perf_counter()
        answer = kernel.run(cell)
        told.append({**answer, "seconds": time.perf_counter() - start})
    json.dump(told, stdout)


class _Without:
    """A finder of modules that does not find some packages."""

    def __init__(self, finder: Any, packages: set[str]) -> None:
        self._finder, self._packages = finder, packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return (
            None if name.partition(".")[0] in self._packages else self._finder.find_spec(name, path, target)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def sweep_page(source: Path, *, beside: bool) -> tuple[dict[str, int], list[str]]:
    """Run a page: how many cells came out how, and a report on each cell that did not give what it should."""
    from cutecourse.page.outputs import canonical, digest
    from tools.notebooks import code_cells, tags
    from tools.pages import read_source
    from tools.recordings import read_recording
    from tools.tidy import RUN_RECORD

    cells = code_cells(read_source(source))
    texts = [cell.source.strip() for cell in cells]
    if beside:
        wanted = [answer["outputs"] for answer in answers(texts, compilers=True)]
    else:
        recorded = {cell.source.strip(): cell.outputs for cell in code_cells(read_recording(source))}
        wanted = [recorded.get(text) for text in texts]
    counts = dict.fromkeys(("equal", "other", "missing", "record", "edited"), 0)
    reports = []
    for number, (cell, outputs, answer) in enumerate(zip(cells, wanted, answers(texts), strict=True)):
        error = next((f"{o['ename']}: {o['evalue']}" for o in answer["outputs"] if "ename" in o), "")
        if counts["missing"] and error.startswith("NameError"):
            answer["missing"] = "a cell above"  # as the page decides it
        if RUN_RECORD in tags(cell):
            outcome = "record"
        elif answer["missing"]:
            outcome = "missing"
        elif outputs is None:
            outcome = "edited"
        else:
            outcome = "equal" if digest(outputs) == answer["digest"] else "other"
        counts[outcome] += 1
        if outcome == "equal" or (outcome == "record" and not error):
            continue
        was = "\n".join(canonical(outputs or [])).splitlines()
        now = "\n".join(canonical(answer["outputs"])).splitlines()
        changes = list(difflib.unified_diff(was, now, lineterm="", n=0))[2:]
        first = texts[number].splitlines()[0]
        lines = [answer["missing"] or error] if outcome in ("missing", "record") else changes[:_MOST_LINES]
        reports.append("\n    ".join([f"cell {number} {outcome}: {first}", *lines]))
    return counts, reports


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.native_sweep", description="Run the pages as a browser would."
    )
    parser.add_argument("pages", nargs="*", help="pages, as `make record` names them; without any, all")
    parser.add_argument("--beside", action="store_true", help="compare with a run that has the compilers")
    parser.add_argument("--width", type=int, default=200, help="letters of each line that are shown")
    options = parser.parse_args(arguments)
    for source in choose(notebook_sources(), options.pages):
        counts, reports = sweep_page(source, beside=options.beside)
        told = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
        print(f"{source.relative_to(BOOK).with_suffix('').as_posix()}: {told}")
        for report in reports:
            print("\n".join(f"  {line[: options.width]}" for line in report.splitlines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
