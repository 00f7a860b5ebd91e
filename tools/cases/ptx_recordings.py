"""The files of recorded outputs: what a GPU made of each case.

A file's head says which machine made its recordings, and when. Files of one folder may come from different
machines of the compute capability that the folder is named for.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import platform
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tools import facts
from tools.cases.ptx_cases import RECORDING, Case


def head(machine: str, compute_capability: tuple[int, int], driver_cuda: str) -> dict[str, Any]:
    """A file's head: the GPU, the newest CUDA that its driver serves, the day and the commit."""
    _, driver = facts.gpu()
    return {
        "machine": machine,
        "compute_capability": ".".join(map(str, compute_capability)),
        "driver_cuda": driver_cuda,
        "driver": driver or "unknown",
        "python": platform.python_version(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": facts.commit() or "unknown",
    }


def pack(values: np.ndarray) -> dict[str, Any]:
    """An array as JSON: its bytes compressed, in base64."""
    raw = zlib.compress(np.ascontiguousarray(values).view(np.uint8).tobytes(), 9)
    return {"shape": list(values.shape), "bytes": base64.b64encode(raw).decode()}


def unpack(packed: dict[str, Any], like: np.ndarray) -> np.ndarray:
    """The array that `pack` was given; `like` has its type. Errors: ValueError, for bytes that don't fit."""
    size = math.prod(packed["shape"]) * like.itemsize
    stream = zlib.decompressobj()
    raw = stream.decompress(base64.b64decode(packed["bytes"], validate=True), size + 1)
    if len(raw) > size:
        raise ValueError(f"holds more than {size} bytes")
    return np.frombuffer(raw, dtype=np.uint8).view(like.dtype).reshape(packed["shape"])


def read(folder: Path = RECORDING) -> dict[str, Any]:
    """The recorded cases of all families by name."""
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {name: entry for one in files for name, entry in one["cases"].items()}


def forget(cases: list[Case], folder: Path) -> list[str]:
    """Remove the recordings of cases that have changed or are gone; return their names."""
    current = {case.name: case.sha256 for case in cases}
    removed = []
    for path in sorted(folder.glob("*.json")):
        header = json.loads(path.read_text())
        recorded = header.pop("cases")
        kept = {name: entry for name, entry in recorded.items() if entry["ptx_sha256"] == current.get(name)}
        if len(kept) == len(recorded):
            continue
        removed += sorted(recorded.keys() - kept.keys())
        path.unlink()
        if kept:
            write(header, kept, path)
    return removed


def write_families(
    header: dict[str, Any], cases: dict[str, dict[str, Any]], folder: Path, only: list[str] | None = None
) -> None:
    """Write one file for each family of cases, so that none grows large, and remove the others.

    With `only` those families' files, and no other is touched.
    """
    for old in folder.glob("*.json"):
        if only is None or old.stem in only:
            old.unlink()
    for family in sorted({name.partition("/")[0] for name in cases}):
        own = {name: entry for name, entry in cases.items() if name.startswith(f"{family}/")}
        write(header, own, folder / f"{family}.json")


def write(header: dict[str, Any], cases: dict[str, dict[str, Any]], path: Path) -> None:
    """Write the file with one line for each case, so that a diff shows which have changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"  {json.dumps(name)}: {json.dumps(entry, sort_keys=True)}" for name, entry in sorted(cases.items())
    ]
    head = json.dumps(header, indent=2, sort_keys=True)[1:-2]
    path.write_text("{" + head + ',\n  "cases": {\n' + ",\n".join(lines) + "\n  }\n}\n")


def entry_of(case: Case, outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """A case's entry in its file: the hash of its text, and its outputs."""
    return {"ptx_sha256": case.sha256, "outputs": {name: pack(values) for name, values in outputs.items()}}
