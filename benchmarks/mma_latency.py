"""Measure mma.sync's latency and throughput on this machine's GPU, by the multiprocessor's own clock.

    python -m benchmarks.mma_latency             writes benchmarks/results/mma_latency_<gpu>.json
    python -m benchmarks.mma_latency --output F  writes F

One block on one multiprocessor runs 1 to 16 warps with 1 to 8 independent chains of mma.sync.m16n8k16 (f16
in, f32 out). The time of `TURNS` turns is taken from that of twice as many, so what surrounds the loop falls
out; the least of `REPEATS` launches counts, since anything else on the GPU only adds. The sums that the
kernel writes show that each instruction ran.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import mma_timing
from tools.facts import of_this_machine

CHAINS = (1, 2, 3, 4, 5, 6, 7, 8)
WARPS = (1, 2, 4, 8, 12, 16)
TURNS = 64
REPEATS = 7
INSTRUCTION = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
FMAS = 16 * 8 * 16
ADDED_BY_ONE_MMA = 16 * 4


class WrongSumError(runtime.GpuError):
    """The kernel did not do the work that was timed."""


def cycles(kernel: runtime.GpuKernel, chains: int, warps: int, turns: int) -> int:
    """Cycles from the first warp's start to the last warp's stop, the least of the repeats."""
    best: list[int] = []
    for _ in range(REPEATS):
        start, stop = np.zeros(warps, np.uint64), np.zeros(warps, np.uint64)
        sums = np.full(32 * warps, np.nan, np.float32)
        kernel.launch([start, stop, sums, np.uint32(turns)], grid=(1, 1, 1), block=(32 * warps, 1, 1))
        expected = ADDED_BY_ONE_MMA * chains * mma_timing.UNROLLED * turns
        if not np.all(sums == expected):
            raise WrongSumError(
                f"{chains} chains, {warps} warps: the sums are {sums[:4]}..., not {expected}."
            )
        best.append(int(stop.max() - start.min()))
    return min(best)


def measure() -> list[dict[str, float]]:
    """One row for each number of chains and warps."""
    rows = []
    for warps in WARPS:
        for chains in CHAINS:
            compiled = runtime.compile(mma_timing.timing_spec(chains, warps))
            with runtime.GpuKernel(compiled.ptx, compiled.entry) as kernel:
                cycles(kernel, chains, warps, 1)  # wake the clocks
                spent = cycles(kernel, chains, warps, 2 * TURNS) - cycles(kernel, chains, warps, TURNS)
            rounds = mma_timing.UNROLLED * TURNS
            rows.append(
                {
                    "warps": warps,
                    "chains": chains,
                    "cycles_per_round": spent / rounds,
                    "cycles_per_mma_in_a_warp": spent / (rounds * chains),
                    "cycles_per_mma_on_the_multiprocessor": spent / (rounds * chains * warps),
                    "fmas_per_cycle": FMAS * rounds * chains * warps / spent,
                }
            )
    return rows


def table(rows: list[dict[str, float]]) -> str:
    """Cycles for one mma on the multiprocessor: a line for each number of warps, a column for the chains."""
    by_place = {(row["warps"], row["chains"]): row["cycles_per_mma_on_the_multiprocessor"] for row in rows}
    head = ["cycles per mma on one multiprocessor", "warps \\ chains" + "".join(f"{n:>8}" for n in CHAINS)]
    lines = [
        f"{warps:>14}" + "".join(f"{by_place[warps, chains]:>8.2f}" for chains in CHAINS) for warps in WARPS
    ]
    return "\n".join(head + lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"mma_latency: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    gpu = found.devices[0]
    rows = measure()
    one_chain = next(row for row in rows if (row["warps"], row["chains"]) == (1, 1))
    best = max(rows, key=lambda row: row["fmas_per_cycle"])
    result = {
        "instruction": INSTRUCTION,
        "recorded": {
            **of_this_machine(),
            "compute_capability": list(gpu.compute_capability),
            "multiprocessors": gpu.multiprocessors,
            "driver_cuda": found.driver,
        },
        "method": {
            "turns": TURNS,
            "unrolled": mma_timing.UNROLLED,
            "repeats": REPEATS,
            "takes": "least of the repeats",
        },
        "latency_cycles": one_chain["cycles_per_round"],
        "best_fmas_per_cycle": best["fmas_per_cycle"],
        "rows": rows,
    }
    output = options.output or result_path("mma_latency", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(rows))
    print(f"latency of one mma: {one_chain['cycles_per_round']:.1f} cycles")
    how = f"{best['warps']} warps of {best['chains']} chains"
    print(f"at best {best['fmas_per_cycle']:.0f} multiply-adds a cycle, with {how}")
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
