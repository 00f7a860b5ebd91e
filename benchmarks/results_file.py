"""Where a measurement's result goes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.paths import ROOT

RESULTS = Path(__file__).parent / "results"


def result_path(benchmark: str, gpu: str | None = None) -> Path:
    """The file of a benchmark: one for each GPU, or one where it runs on the CPU; the machine stands inside.

    `mma_latency` on an NVIDIA H200 is in mma_latency_h200.json, `mutants` on whatever CPU in mutants.json.
    """
    if gpu is None:
        return RESULTS / f"{benchmark}.json"
    short = re.sub(r"[^a-z0-9]+", "_", gpu.lower().replace("nvidia", "")).strip("_")
    return RESULTS / f"{benchmark}_{short}.json"


def write_result(result: Mapping[str, Any], output: Path | None) -> None:
    """Write a result and say where it is; without `output` say that it is not kept.

    A part of a benchmark has no `output` of its own: it would take the place of the whole, which pages read.
    """
    if output is None:
        print("a part; --output FILE keeps it")
        return
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {output.relative_to(ROOT) if output.is_relative_to(ROOT) else output}")
