"""What timings of a GEMM on this machine's CPU have in common: operands, the check of C, processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tools.paths import ROOT

Size = tuple[int, int, int]
"""M, N, K."""
TOLERANCE = 2.0**-16
"""Of a sum of K products of normally distributed numbers, as a part of the square root of K."""


class WrongProductError(RuntimeError):
    """What was timed did not multiply."""


def operands(mnk: Size) -> tuple[Any, Any, Any]:
    """A (M, K), B (N, K) in f16 and their product in f64."""
    m, n, k = mnk
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((extent, k)).astype(np.float16) for extent in (m, n))
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


def check(name: str, found: Any, expected: Any, k: int) -> None:
    """Errors: WrongProductError where an element of C is off by more than its sum's rounding."""
    worst = float(np.abs(found - expected).max())
    if not worst <= TOLERANCE * k**0.5:
        raise WrongProductError(f"{name}: an element is off by {worst:.2e}.")


def ask(
    module: str,
    *arguments: str,
    library: Path = ROOT / "lib",
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Run a module with a library in a process of its own: what its last line of output says, as JSON.

    Errors: CalledProcessError where it ends in one.
    """
    path = os.pathsep.join(filter(None, (str(library), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
