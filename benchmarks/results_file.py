"""Where a measurement's result goes."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def result_path(benchmark: str, gpu: str) -> Path:
    """The file of a benchmark on a GPU: mma_latency on an NVIDIA H200 is in mma_latency_h200.json."""
    short = re.sub(r"[^a-z0-9]+", "_", gpu.lower().replace("nvidia", "")).strip("_")
    return RESULTS / f"{benchmark}_{short}.json"
