"""Other choices for the last rung of the Hopper ladder, each predicted, checked and timed beside cuBLAS.

    python -m benchmarks.hopper_choices --build F      compiles them all into F; needs ptxas, but no GPU
    python -m benchmarks.hopper_choices --built F      times them, and adds a visit to the result

A choice is the tile, the roles and the buffers (`How` of the kernel's module), how much L2 fetches on a miss,
and whether the launch is programmatic: whether it may begin before the kernel ahead of it has ended. For each
size, the choices and `torch.mm` take turns in short rounds, and then run for a second each. `hopper_gemm.py`
prepares and checks them. The result keeps the earlier visits.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.hopper_gemm import WARM_S, Bench, Case, Contestant, quartiles, steady
from benchmarks.launching import Built, Loaded, alternating, compiled, parameters
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.kernels import hopper_last
from cutecourse.kernels.spec import LaunchSpec, TensorMapSpec
from cutecourse.tma.encoding import L2Promotion
from tools.facts import of_this_machine

ABOUT = "What L2 fetches, 256 bytes unless it is said; larger tiles in ping-pong. Each role waits by itself."
"""What this visit tries."""
ROUNDS = 51

How = hopper_last.HopperChoice

PP192 = How(pingpong=True, tile=(128, 192, 64), stages=5, piece=32, buffers=1)
PP208 = How(pingpong=True, tile=(128, 208, 64), stages=5, piece=16, buffers=2)
ONE_CTA = How(cluster=(1, 1))


@dataclass(frozen=True)
class Trial:
    """A choice for a size, the reason to try it, and the predicted ratio to cuBLAS."""

    mnk: tuple[int, int, int]
    how: How
    why: str
    predicted: float
    programmatic: bool = True
    promotion: L2Promotion = "256B"

    @property
    def spec(self) -> LaunchSpec:
        """The launch of this choice."""
        spec = replace(hopper_last.spec(*self.mnk, how=self.how), programmatic=self.programmatic)
        maps = []
        for param in spec.params:
            assert isinstance(param, TensorMapSpec)
            assert param.stride is not None
            encoding = replace(param.encoding, l2_promotion=self.promotion)
            maps.append(TensorMapSpec.encoded(param.name, param.dtype, param.shape, param.stride, encoding))
        return replace(spec, params=tuple(maps))

    @property
    def name(self) -> str:
        """The choice in words."""
        how = self.how
        roles = "ping-pong" if how.pingpong else "cooperative"
        text = f"{how.tile[0]}x{how.tile[1]} {roles}, cluster {how.cluster[0]}x{how.cluster[1]}"
        text += f", {how.stages} stages, {how.buffers} buffers of {how.piece} columns"
        if self.promotion != "256B":
            text += f", {self.promotion}"
        return text if self.programmatic else f"{text}, plain launch"


def cube(size: int) -> tuple[int, int, int]:
    """M = N = K."""
    return size, size, size


RAGGED = (4000, 4104, 4056)
ONCE_208 = How(tile=(128, 208, 64), piece=104, buffers=1)
TRIALS = (
    Trial(cube(2048), ONE_CTA, "as before", 1.02),
    Trial(cube(2048), ONE_CTA, "128 bytes from DRAM on a miss", 1.027, promotion="128B"),
    Trial(cube(2048), ONE_CTA, "64 bytes", 1.02, promotion="64B"),
    Trial(cube(2048), ONE_CTA, "a sector", 1.02, promotion="none"),
    Trial(cube(2048), How(), "pairs share B, 128 bytes", 1.01, promotion="128B"),
    Trial(RAGGED, ONCE_208, "128 bytes", 1.043, promotion="128B"),
    Trial(RAGGED, PP208, "ping-pong, 128 bytes", 1.053, promotion="128B"),
    Trial(RAGGED, PP208, "ping-pong, 64 bytes", 1.055, promotion="64B"),
    Trial(RAGGED, PP208, "ping-pong, a sector", 1.04, promotion="none"),
    Trial(cube(4096), How(), "as before", 1.032),
    Trial(cube(4096), How(), "128 bytes", 1.036, promotion="128B"),
    Trial(cube(4096), How(), "a sector", 1.03, promotion="none"),
    Trial(cube(4096), How(piece=32, buffers=4), "smaller pieces, 128 bytes", 1.036, promotion="128B"),
    Trial(cube(4096), PP208, "ping-pong, 128 bytes", 1.025, promotion="128B"),
    Trial(cube(6144), PP192, "as before", 1.03),
    Trial(cube(6144), PP192, "128 bytes", 1.03, promotion="128B"),
    Trial(cube(6144), PP208, "fewer bytes, 128 bytes", 1.04, promotion="128B"),
    Trial(cube(8192), PP192, "as before", 1.058),
    Trial(cube(8192), PP192, "128 bytes", 1.058, promotion="128B"),
    Trial(cube(8192), PP192._replace(stages=4, piece=64), "larger pieces for a stage", 1.06),
    Trial(cube(16384), PP192, "as before", 1.01),
    Trial(cube(16384), PP208, "fewer bytes", 1.02),
    Trial(cube(16384), PP208, "fewer bytes, 128 bytes", 1.02, promotion="128B"),
    Trial(cube(16384), How(), "the fewest bytes, 128 bytes", 1.015, promotion="128B"),
)


Row = dict[str, Any]


def build(trial: Trial) -> Built:
    """Compile a trial."""
    return compiled(trial.spec, "sm_90a")


def measure(built: list[Built], held: float, keep: Callable[[list[Row], dict[str, str]], None]) -> None:
    """Time the trials of each size in short rounds; after each size, pass the rows so far to `keep`."""
    rows: list[Row] = []
    refused: dict[str, str] = {}
    for mnk in dict.fromkeys(one.mnk for one in TRIALS):
        bench = Bench(Case(mnk))
        contestants: dict[str, Contestant] = {"cublas": bench.ready(bench.cublas)}
        chosen: dict[str, Trial] = {}
        for trial, code in zip(TRIALS, built, strict=True):
            if trial.mnk != mnk:
                continue
            kernel = Loaded(code)
            values = [
                parameters(trial.spec, dict(zip("abc", (one.data_ptr() for one in three), strict=True)))
                for three in bench.sets
            ]

            def launch(number: int, kernel: Loaded = kernel, values: list[Any] = values) -> None:
                kernel.launch(*values[number % len(values)])

            try:
                contestants[trial.name] = bench.ready(
                    Contestant(trial.name, "rung", trial.name, launch, code)
                )
                chosen[trial.name] = trial
            except runtime.GpuError as error:
                refused[f"{mnk}: {trial.name}"] = str(error)[:600]
        alternating({0: bench.cublas.run}, max(1, round(WARM_S / 4e-3)))
        seconds = alternating({name: one.run for name, one in contestants.items()}, ROUNDS)
        for name, spent in seconds.items():
            ratios = [base / mine for base, mine in zip(seconds["cublas"], spent, strict=True)]
            row: Row = {
                "mnk": list(mnk),
                "name": name,
                "tflops": bench.rate(statistics.median(spent)),
                "ratio": statistics.median(seconds["cublas"]) / statistics.median(spent),
                "ratio_quartiles": quartiles(ratios),
            }
            if name in chosen:
                trial = chosen[name]
                row |= {"why": trial.why, "predicted": trial.predicted, "programmatic": trial.programmatic}
            rows.append(row)
        for row, one in zip(
            rows[-len(seconds) :], steady(bench, list(contestants.values()), held), strict=True
        ):
            row |= {"sustained": {key: one[key] for key in ("tflops", "ratio", "watts", "clock_mhz")}}
        keep(rows, refused)
        del bench, contestants


def table(rows: list[Row]) -> str:
    """Format the rows: measured ratio, predicted ratio, quartiles, TFLOP/s."""
    lines = []
    for row in rows:
        low, high = row["ratio_quartiles"]
        said = f"{row['predicted']:.3f}" if "predicted" in row else "  -  "
        size = "x".join(map(str, row["mnk"]))
        lines.append(
            f"{size:<18}{row['ratio']:.3f} predicted {said} [{low:.3f}-{high:.3f}] "
            f"{row['tflops']:6.1f} sustained {row['sustained']['ratio']:.3f}  {row['name']}"
        )
    return "\n".join(lines)


def main() -> int:
    """Compile, or measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=Path, help="compile all choices into this file")
    parser.add_argument("--built", type=Path, help="the file that --build wrote")
    parser.add_argument("--seconds", type=float, default=1.0, help="sustained, each choice")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.build:
        with ProcessPoolExecutor() as pool:
            options.build.write_bytes(pickle.dumps(list(pool.map(build, TRIALS))))
        return 0
    import torch

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    built = pickle.loads(options.built.read_bytes()) if options.built else [build(one) for one in TRIALS]
    output = options.output or result_path("hopper_choices", torch.cuda.get_device_name())
    head: dict[str, object] = {"about": ABOUT, "recorded": {**of_this_machine(), "torch": torch.__version__}}
    if output.exists():
        before = json.loads(output.read_text())
        head["earlier"] = [before, *before.pop("earlier", [])]

    def keep(rows: list[Row], refused: dict[str, str]) -> None:
        output.write_text(
            json.dumps({**head, "rounds": ROUNDS, "rows": rows, "refused": refused}, indent=1) + "\n"
        )

    measure(built, options.seconds, keep)
    found = json.loads(output.read_text())
    write_result(found, output)
    print(table(found["rows"]))
    for what, why in found["refused"].items():
        print(f"left out: {what}: {why}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
