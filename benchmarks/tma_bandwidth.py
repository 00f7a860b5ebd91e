"""Measure how fast tiles come into shared memory: by plain loads, by cp.async, by TMA, by TMA's multicast.

    python -m benchmarks.tma_bandwidth             writes benchmarks/results/tma_bandwidth_<gpu>.json
    python -m benchmarks.tma_bandwidth --output F  writes F

The same tiles of 16 KiB of the same matrix are loaded in every way (the kernels are in tile_loads, beside
this file), by one block alone and by blocks on all multiprocessors, from a matrix that stays in the L2 cache
and from one that is ten times larger. Then the blocks of each cluster of four all load the same tiles, each
for itself and by multicast. A launch is timed by events; the least of `REPEATS` counts, since anything else
on the GPU only adds. Every launch adds up words of what came, and the sums are checked: all words before a
way is timed, one word in 32 while it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path
from benchmarks.tile_loads import (
    CLUSTER,
    ROW_WORDS,
    TILE_BYTES,
    TILE_ROWS,
    TILE_WORDS,
    Method,
    encoding,
    loads_spec,
    matrix_rows,
)
from cutecourse import runtime
from tools.facts import of_this_machine

Array = np.ndarray[Any, np.dtype[Any]]

SOURCES = {"L2": 512, "memory": 32768}
"""The matrices, in tiles of 16 KiB: 8 MiB and 512 MiB."""
ONE_BLOCK_TILES = 16384
GRID_TILES = 131072
REPEATS = 9


class WrongSumError(runtime.GpuError):
    """The kernel did not bring the tiles that were timed."""


@dataclass(frozen=True)
class Way:
    """One way of loading: the method, the tiles that shared memory holds, the blocks on a multiprocessor."""

    method: Method
    stages: int
    blocks_per_multiprocessor: int = 1
    cluster: int = 1

    @property
    def bytes_ahead(self) -> int:
        """How many bytes a multiprocessor has asked for before it waits for the first of them."""
        tiles = self.stages if self.method in {"tma", "multicast"} else self.stages - 1
        return tiles * TILE_BYTES * self.blocks_per_multiprocessor

    def __str__(self) -> str:
        several = f", {self.blocks_per_multiprocessor} blocks" if self.blocks_per_multiprocessor > 1 else ""
        return f"{self.method}, {self.stages} stages{several}"


WAYS = (
    Way("plain", 2),
    Way("plain", 2, 4),
    *(Way("cp.async", stages) for stages in (2, 4, 8)),
    *(Way("tma", stages) for stages in (2, 4, 8)),
)
SHARED_WAYS = tuple(
    Way(method, stages, cluster=CLUSTER) for stages in (2, 4, 8) for method in ("tma", "multicast")
)


def make_matrix(tiles: int, seed: int = 0) -> Array:
    """A matrix of that many tiles of random words."""
    random = np.random.default_rng(seed)
    return random.integers(0, 1 << 32, (matrix_rows(tiles), ROW_WORDS), np.uint32)


def tile_sums(matrix: Array, words: int) -> Array:
    """What the threads add up of each tile, modulo 2^32: `words` words each, which are its first rows."""
    tiles = matrix.reshape(-1, TILE_ROWS, ROW_WORDS // TILE_WORDS, TILE_WORDS)[:, : 4 * words]
    return tiles.sum(axis=(1, 3), dtype=np.uint32).reshape(-1)


def expected_sums(sums: Array, blocks: int, cluster: int, count: int) -> Array:
    """What each block adds up, from its tiles' sums."""
    workers = blocks // cluster
    each = [
        sums[(np.arange(count) * workers + worker) % len(sums)].sum(dtype=np.uint32)
        for worker in range(workers)
    ]
    return np.repeat(np.array(each, np.uint32), cluster)


def seconds(way: Way, matrix: Array, blocks: int, count: int, words: int, repeats: int) -> float:
    """Seconds of one launch, the least of the repeats. Errors: WrongSumError."""
    tiles = matrix.size * 4 // TILE_BYTES
    spec = loads_spec(way.method, stages=way.stages, tiles=tiles, blocks=blocks, cluster=way.cluster)
    compiled = runtime.compile(spec)
    sums = np.zeros(blocks, np.uint32)
    numbers = (np.uint32(n) for n in (count, blocks // way.cluster, tiles - 1, words))
    arguments = [runtime.MappedArray("matrix", encoding(way.method, tiles), matrix), matrix, sums, *numbers]
    with runtime.GpuKernel(compiled.ptx, compiled.entry, dynamic_smem=spec.dynamic_smem) as kernel:
        spent = kernel.launch(
            arguments, grid=spec.grid, block=spec.block, cluster=spec.cluster, repeat=repeats
        )
    wanted = expected_sums(tile_sums(matrix, words), blocks, way.cluster, count) * np.uint32(repeats)
    if not np.array_equal(sums, wanted):
        wrong = int(np.flatnonzero(sums != wanted)[0])
        raise WrongSumError(
            f"{way}, {blocks} blocks: block {wrong} added up {sums[wrong]}, not {wanted[wrong]}."
        )
    return min(spent)


def measure(multiprocessors: int, sources: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """One row for each way, source and number of multiprocessors."""
    matrices = {name: make_matrix(tiles) for name, tiles in (sources or SOURCES).items()}
    small = matrices["L2"]
    rows = []
    for way in (*WAYS, *SHARED_WAYS):
        shared = way.cluster > 1
        # A cluster's blocks run near each other, so the last multiprocessors may not make up a cluster.
        whole = (multiprocessors // CLUSTER - 1) * CLUSTER if shared else multiprocessors
        grids = [whole * way.blocks_per_multiprocessor]
        if way.blocks_per_multiprocessor == 1:
            grids.insert(0, way.cluster)
        seconds(way, small, grids[-1], count=37, words=TILE_WORDS, repeats=1)
        for source, matrix in matrices.items():
            for blocks in grids:
                count = ONE_BLOCK_TILES if blocks == way.cluster else GRID_TILES // blocks
                best = seconds(way, matrix, blocks, count, words=1, repeats=REPEATS)
                delivered = blocks * count * TILE_BYTES
                rows.append(
                    {
                        "method": way.method,
                        "stages": way.stages,
                        "blocks": blocks,
                        "blocks_per_multiprocessor": way.blocks_per_multiprocessor,
                        "cluster": way.cluster,
                        "source": source,
                        "bytes_ahead": way.bytes_ahead,
                        "bytes_delivered": delivered,
                        "bytes_requested_of_L2": delivered // (CLUSTER if way.method == "multicast" else 1),
                        "seconds": best,
                        "gigabytes_per_second": delivered / best / 1e9,
                    }
                )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """GB/s into shared memory: a line for each way; one block, or cluster, and all of them as columns."""
    lines = [
        "GB/s into shared memory",
        f"{'way':<32}{'ahead':>9}{'L2, 1':>10}{'memory, 1':>11}{'L2, all':>10}{'memory, all':>13}",
    ]
    for way in (*WAYS, *SHARED_WAYS):
        mine = [
            row
            for row in rows
            if (row["method"], row["stages"], row["blocks_per_multiprocessor"], row["cluster"])
            == (way.method, way.stages, way.blocks_per_multiprocessor, way.cluster)
        ]
        found = {(row["source"], row["blocks"] == way.cluster): row["gigabytes_per_second"] for row in mine}
        cells = [
            f"{found[key]:.0f}" if (key := (source, one)) in found else "-"
            for one in (True, False)
            for source in ("L2", "memory")
        ]
        name = f"{way}, cluster of {way.cluster}" if way.cluster > 1 else str(way)
        lines.append(
            f"{name:<32}{way.bytes_ahead // 1024:>5} KiB"
            f"{cells[0]:>10}{cells[1]:>11}{cells[2]:>10}{cells[3]:>13}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    found = runtime.discover()
    if not found.devices:
        print(f"tma_bandwidth: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    gpu = found.devices[0]
    if gpu.compute_capability < (9, 0):
        print(f"tma_bandwidth: left out, {gpu.name} has no TMA")
        return 0
    rows = measure(gpu.multiprocessors)
    result = {
        "tile_bytes": TILE_BYTES,
        "recorded": {
            **of_this_machine(),
            "compute_capability": list(gpu.compute_capability),
            "multiprocessors": gpu.multiprocessors,
            "driver_cuda": found.driver,
        },
        "method": {
            "repeats": REPEATS,
            "takes": "least of the repeats",
            "matrix_bytes": {name: tiles * TILE_BYTES for name, tiles in SOURCES.items()},
        },
        "rows": rows,
    }
    output = options.output or result_path("tma_bandwidth", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(rows))
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
