"""Record what this machine's GPU leaves in shared memory after each TMA load of tools/cases/tma_cases.py.

    python -m tools.record_tma [--output FILE]

The library makes the tensor map, the driver encodes it, the kernel dumps shared memory. Where there is no
git, CUTECOURSE_COMMIT says which commit this is. A dump that is not as predicted is named at the end, with
the first byte that differs, and the file is written all the same: it is what the GPU did.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cutecourse import runtime
from tools.cases import ptx_recordings, tma_cases


def main(arguments: list[str] | None = None) -> int:
    """Run every case and write the recording."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=tma_cases.RECORDING)
    options = parser.parse_args(arguments)

    found = runtime.discover()
    if not found.devices:
        print(f"record_tma: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    gpu = found.devices[0]
    entries, different = {}, []
    for name, case in tma_cases.CASES.items():
        spec = case.spec()
        arrays: Mapping[str, Any] = case.arguments()
        run = runtime.run(spec, device="cuda:0", **arrays)
        predicted = case.predicted()
        wrong = np.flatnonzero(run["out"] != predicted)
        if len(wrong):
            at = int(wrong[0])
            different.append(
                f"{name}: {len(wrong)} bytes differ, the first at {at}: {run['out'][at]} for {predicted[at]}"
            )
        entries[name] = {
            "ptx_sha256": hashlib.sha256((spec.ptx or "").encode()).hexdigest(),
            "outputs": {out: ptx_recordings.pack(run[out]) for out in ("out", "arrived")},
        }
    header = ptx_recordings.head(gpu.name, gpu.compute_capability, str(found.driver))
    ptx_recordings.write(header, entries, options.output)
    print(f"{len(entries)} loads on {gpu.name}, {len(different)} not as predicted; written: {options.output}")
    for line in different:
        print(f"  {line}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
