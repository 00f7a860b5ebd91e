"""Compare the counting functions of cutecourse.memory_access with the GPU's own counters (Nsight Compute).

    python -m benchmarks.memory_counters             writes benchmarks/results/memory_counters_<gpu>.json

Needs `ncu` and the right to read the counters. Exits with 1 where a prediction and a counter differ.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import epilogue_direct, micro_gemm, micro_gemm_ldmatrix, mma_raw
from cutecourse.memory_access import bank_conflicts, ldmatrix_bank_conflicts, sectors_of_warp_store
from tools.facts import of_this_machine

STORE_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
STORE_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
LOAD_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
SHARED_LOAD_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
METRICS = (STORE_SECTORS, STORE_REQUESTS, LOAD_SECTORS, SHARED_LOAD_CONFLICTS)

LANES = [(lane // 4, lane % 4) for lane in range(32)]  # the group and the place in it, as the PTX ISA counts


def predictions() -> dict[str, dict[str, int]]:
    """What the counting functions say of each kernel, from the addresses of its instructions.

    The tensors start at multiples of 256 bytes, so offsets from their starts are as good as addresses.
    """
    fragment = [32 * group + 4 * place for group, place in LANES]  # one register of A or B, rows of 32 bytes
    c_columns = [
        [4 * (group + 8 * (v // 2) + 16 * (2 * place + v % 2)) for group, place in LANES] for v in range(4)
    ]
    c_rows = [[32 * (group + 8 * half) + 8 * place for group, place in LANES] for half in range(2)]
    columns = sum(sectors_of_warp_store(addresses, 4) for addresses in c_columns)
    rows = sum(sectors_of_warp_store(addresses, 8) for addresses in c_rows)
    matrices = [32 * row for row in range(8)]  # one 8x8 matrix: 8 rows of A or B, 32 bytes apart
    return {
        "epilogue_direct (column-major)": {STORE_SECTORS: columns, STORE_REQUESTS: 4},
        "epilogue_direct (row-major)": {STORE_SECTORS: rows, STORE_REQUESTS: 2},
        # 4 registers of A and 2 of B, then C read and written row by row.
        "mma_raw": {LOAD_SECTORS: 6 * sectors_of_warp_store(fragment, 4) + rows, STORE_SECTORS: rows},
        "micro_gemm": {SHARED_LOAD_CONFLICTS: 6 * bank_conflicts(fragment, 4).conflicts},
        # .x4 for A and .x2 for B are six matrices.
        "micro_gemm_ldmatrix": {SHARED_LOAD_CONFLICTS: 6 * ldmatrix_bank_conflicts(matrices).conflicts},
    }


def launches() -> list[Callable[[], runtime.Run]]:
    """The kernels, in the order of the predictions."""
    a, b = np.ones((16, 16), np.float16), np.ones((8, 16), np.float16)
    c = np.zeros((16, 8), np.float32)
    on_gpu = {"device": "cuda:0", "c": c}
    return [
        lambda: runtime.run(epilogue_direct.LAUNCH, **on_gpu),
        lambda: runtime.run(epilogue_direct.ROW_MAJOR, **on_gpu),
        lambda: runtime.run(mma_raw, a=a, b=b, **on_gpu),
        lambda: runtime.run(micro_gemm, a=a, b=b, **on_gpu),
        lambda: runtime.run(micro_gemm_ldmatrix, a=a, b=b, **on_gpu),
    ]


def counters(text: str) -> list[dict[str, int]]:
    """Nsight Compute's CSV, one dictionary for each launch in order."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise runtime.GpuError(f"ncu printed no table:\n{text[-2000:]}")
    by_launch: dict[int, dict[str, int]] = defaultdict(dict)
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        by_launch[int(row["ID"])][row["Metric Name"]] = round(float(row["Metric Value"].replace(",", "")))
    return [by_launch[launch] for launch in sorted(by_launch)]


def profile() -> list[dict[str, int]]:
    """Run the kernels under Nsight Compute, in a process of their own, without touching the GPU's clocks."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise runtime.GpuError("ncu (Nsight Compute) is not on the PATH.")
    command = [ncu, "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS), sys.executable]
    command += ["-m", "benchmarks.memory_counters", "--launch-only"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise runtime.GpuError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return counters(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    """Profile, compare, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--launch-only", action="store_true", help="launch the kernels; what ncu is given")
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"memory_counters: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if options.launch_only:
        for launch in launches():
            launch()
        return 0
    rows = []
    for (kernel, predicted), measured in zip(predictions().items(), profile(), strict=True):
        for metric, count in predicted.items():
            rows.append({"kernel": kernel, "metric": metric, "counted": count, "measured": measured[metric]})
            print(f"{kernel:<32} {metric:<58} counted {count:>4} measured {measured[metric]:>4}")
    gpu = found.devices[0]
    output = options.output or result_path("memory_counters", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"recorded": of_this_machine(), "rows": rows}, indent=1) + "\n")
    return int(any(row["counted"] != row["measured"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
