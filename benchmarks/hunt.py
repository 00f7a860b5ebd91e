"""The kernel of the museum's hunt on a GPU, before and after each repair; and how long a nap is.

    python -m benchmarks.hunt            on this machine's GPU, two minutes; writes
                                         benchmarks/results/hunt_<gpu>.json
    python -m benchmarks.hunt --compile  writes the PTX of `cutecourse.museum.hunt`; needs nvcc, no GPU

The runs of a launch are in a process of its own with a time limit. One that does not end counts as hung, and
then the launch gets no more runs. The nap is the code that the museum's page offers to readers, in C++ and in
PTX. Each of four warps reads the GPU's clock before and after the place where one of them sleeps.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.museum import ends
from benchmarks.results_file import result_path, write_result
from benchmarks.sanitizer import limited
from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, Scalar, Tensor
from cutecourse.museum import hunt
from tools.facts import of_this_machine
from tools.paths import BOOK

RUNS = 20
LIMIT_S = 15
LAUNCHES = ((4, 0), (5, 0), (6, 0), (6, 2), (6, 5))
"""Tiles of a row, and the tile that holds the token."""
PAGE = BOOK / "museum.md"
WARPS = 4
LATE = 2
"""The warp that is to come late."""
_OPTIONS = ("-std=c++17", "-arch=sm_90a", "-lineinfo", "-ptx")
_STAMPS = """
__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time) :: "memory");
    return time;
}

extern "C" __global__ void stamps(unsigned long long* took) {
    const unsigned long long start = now();
    LATE(0);
    const unsigned long long between = now();
    LATE(1);
    if (threadIdx.x % 32 == 0) {
        took[threadIdx.x / 16] = between - start;
        took[threadIdx.x / 16 + 1] = now() - between;
    }
}
"""


def compiled(source: str, name: str, *options: str) -> str:
    """The PTX that nvcc makes of a CUDA source; its line information names files without their folders."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.cu")
        path.write_text(source, encoding="utf-8")
        target = path.with_suffix(".ptx")
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        command = [nvcc, *_OPTIONS, *options, "-o", str(target), str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", target.read_text(encoding="utf-8"))


def spec(edits: int, tiles: int) -> LaunchSpec:
    """The launch of the hunted kernel for one row of so many tiles."""
    return LaunchSpec(
        name=f"first_match_{edits}",
        language="ptx",
        ptx=hunt.ptx(edits),
        entry="first_match",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        params=(
            Tensor("rows", "s32", (tiles * hunt.TILE,)),
            Tensor("found", "s32", (1,)),
            Scalar("tiles", "s32"),
            Scalar("token", "s32"),
        ),
        target="sm_90a",
    )


def run_here(edits: int, tiles: int, tile: int, runs: int, device: str = "cuda:0") -> None:
    """Run a launch in this process. Print the end of each run on a line of its own."""
    token = tile * hunt.TILE + 5
    for _ in range(runs):
        rows, found = np.arange(tiles * hunt.TILE, dtype=np.int32), np.full(1, -2, dtype=np.int32)
        try:
            ran = runtime.run(
                spec(edits, tiles), device=device, rows=rows, found=found, tiles=tiles, token=token
            )
        except runtime.GpuError as error:
            print("error", next(iter(str(error).splitlines())), flush=True)
            return
        print("right" if ran["found"][0] == token else "wrong", flush=True)


def pasted(language: str) -> str:
    """The block of code in that language that the museum's page offers for making a warp late."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (block,) = (block for block in blocks if "nanosleep" in block)
    return str(block)


def stamps(form: str, place: int, warp: int) -> str:
    """The PTX of a kernel that takes the time at two places, and in which a warp comes late to one."""
    if form == "C++":
        late = (f"-DLATE_PLACE={place}", f"-DLATE_WARP={warp}", "-DLATE_BLOCK=0")
        return compiled(pasted("cpp") + _STAMPS, "stamps", *late)
    plain = compiled(pasted("cpp") + _STAMPS, "stamps")
    clocks = [number for number, line in enumerate(plain.splitlines(), 1) if "%globaltimer" in line]
    command = pasted("bash").partition("\n\n")[0] + f"\nnap {clocks[place + 1]} {warp} 0"
    done = subprocess.run(["bash", "-c", command], input=plain, check=True, capture_output=True, text=True)
    return done.stdout


def nap_here(form: str, place: int) -> None:
    """Print how many milliseconds each warp has taken at each of two places."""
    late = LaunchSpec(
        name="stamps",
        language="ptx",
        ptx=stamps(form, place, LATE),
        entry="stamps",
        grid=(1, 1, 1),
        block=(32 * WARPS, 1, 1),
        params=(Tensor("took", "u64", (WARPS, 2)),),
        target="sm_90a",
    )
    took = runtime.run(late, device="cuda:0", took=np.zeros((WARPS, 2), dtype=np.uint64))["took"]
    print(json.dumps((took / 1e6).round(3).tolist()))


def _alone(*words: object) -> tuple[str, int | None]:
    """What this module prints with these arguments, in a process of its own."""
    return limited([sys.executable, "-m", "benchmarks.hunt", *map(str, words)], LIMIT_S)


def _ends(launch: tuple[int, int, int]) -> dict[str, Any]:
    edits, tiles, tile = launch
    found = ends(*_alone("--one", *launch, RUNS))
    return {"edits": edits, "tiles": tiles, "tile": tile, "ends": dict(found)}


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--compile", action="store_true", help="write the PTX again")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", nargs=4, type=int, metavar=("EDITS", "TILES", "TILE", "RUNS"))
    parser.add_argument("--nap", nargs=2, metavar=("FORM", "PLACE"))
    options = parser.parse_args(given)
    if options.compile:
        for edits in range(len(hunt.EDITS) + 1):
            path = Path(hunt.__file__).parent / f"first_match_{edits}.ptx"
            path.write_text(compiled(hunt.source(edits), "first_match"), encoding="utf-8")
    elif options.one:
        run_here(*options.one)
    elif options.nap:
        nap_here(options.nap[0], int(options.nap[1]))
    else:
        return _measure(options.output)
    return 0


def _measure(output: Path | None) -> int:
    found = runtime.discover()
    if not found.devices:
        print(f"hunt: a GPU is needed; {found.reason}.", file=sys.stderr)
        return 1
    launches = [(edits, *launch) for edits in range(len(hunt.EDITS) + 1) for launch in LAUNCHES]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(_ends, launches))
    for row in rows:
        print(row)
    naps = []
    for form in ("C++", "PTX"):
        for place in (0, 1):
            text, status = _alone("--nap", form, place)
            print(form, place, text)
            naps.append({"form": form, "place": place, "ms": json.loads(text) if status == 0 else None})
    result = {"recorded": of_this_machine(), "runs": RUNS, "rows": rows, "late_warp": LATE, "naps": naps}
    write_result(result, output or result_path("hunt", found.devices[0].name))
    sound = [row["ends"] for row in rows if row["edits"] == len(hunt.EDITS)]
    return int(any(set(ends) != {"right"} for ends in sound) or any(nap["ms"] is None for nap in naps))


if __name__ == "__main__":
    sys.exit(main())
