"""Variants of page 15c's last rung, each predicted, built, checked and timed beside DeepGEMM and the rung.

    python -m benchmarks.fp8_variants --build F             compiles the variants into F; needs ptxas, no GPU
    python -m benchmarks.fp8_variants --built F --output O  measures what F has; needs no CuTe DSL

`fp8_variant_kernel.py` is the kernel; a variant is its options. Cases, numbers, rounds, sustained load and
checks are those of `hopper_fp8.py`. Predictions are ratios to the rung of the same size in short rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import pickle
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import hopper_fp8, hopper_rivals
from benchmarks.hopper_fp8 import CASES, Fp8Bench
from benchmarks.hopper_gemm import Case, Contestant, short, steady
from benchmarks.launching import Built, Loaded, compiled
from cutecourse import runtime
from cutecourse.kernels import fp8_gemm
from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, TensorMapSpec
from cutecourse.layout import parse
from cutecourse.tma.encoding import L2Promotion
from tools.facts import of_this_machine

FILE = KernelFile(
    "fp8_variant", Path(__file__).with_name("fp8_variant_kernel.py").read_text(encoding="utf-8")
)
SMS, BLOCK, UNDER = int(fp8_gemm.SMS), int(fp8_gemm.BLOCK), int(fp8_gemm.UNDER)
A_WARPGROUP = 128  # threads


class How(NamedTuple):
    """The options of the kernel; a compiled kernel is kept under these and under its file's text.

    tile, cluster, stages, piece, buffers, group, along_n, unroll: as in `Fp8Choice`.
    consumers   warpgroups that multiply; each has as many rows of the tile.
    by_tma      TMA brings A's scales, and each warpgroup keeps the scales of B for the whole tile.
    counted     stage and parity are counted; they are no remainder and quotient of the k-tile's number.
    fixed       `stages` k-tiles in a turn of the loop, each with its own stage, which the compiler knows.
    read_first  the scales are read before the MMAs are issued.
    each        every warp says that it has read a stage; otherwise one does for its warpgroup.
    pending     two sums: the next MMAs are issued before these sums are promoted, within eight k-tiles.
    backwards   every other tile goes backwards along K.
    """

    tile: tuple[int, int, int] = (128, 192, 128)
    cluster: tuple[int, int] = (2, 1)
    stages: int = 4
    piece: int = 64
    buffers: int = 3
    group: int = 8
    along_n: bool = False
    unroll: int = 4
    consumers: int = 2
    by_tma: bool = False
    counted: bool = False
    fixed: bool = False
    read_first: bool = False
    each: bool = False
    pending: bool = False
    backwards: bool = False
    sms: int = SMS

    @property
    def rows(self) -> int:
        """The rows of a tile that one warpgroup has."""
        return self.tile[0] // self.consumers

    @property
    def ctas(self) -> int:
        """The CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def threads(self) -> int:
        """The threads of a CTA."""
        return A_WARPGROUP * (1 + self.consumers)

    @property
    def scales(self) -> int:
        """Room for the scales of a stage: of A's rows, and of B's blocks unless they are kept for a tile."""
        return self.tile[0] + (0 if self.by_tma else UNDER)


def spec(m: int, n: int, k: int, how: How) -> LaunchSpec:
    """The launch of a variant, with the arguments of `fp8_gemm`."""
    tiles = [-(-extent // (how.tile[i] * how.cluster[i])) for i, extent in enumerate((m, n))]
    rung = fp8_gemm.spec(m, n, k, how=fp8_gemm.Fp8Choice("scaled", how.tile, how.cluster), sms=how.sms)
    a, b, _, scale_a, scale_b = rung.params
    bits = {64: 3, 32: 2, 16: 1}.get(how.piece, 0)
    c = TensorMapSpec(
        "c",
        "bf16",
        (m, n),
        (n, 1),
        smem_layout=parse(f"S<{bits},4,3> o 0 o ({how.rows},{how.piece}):({how.piece},1)"),
        cta_tiler=(how.rows, how.piece),
    )
    if how.by_tma:
        scale_a = TensorMapSpec(
            "scale_a",
            "f32",
            scale_a.extents,
            (1, m),
            smem_layout=parse(f"({how.tile[0]},1):(1,{how.tile[0]})"),
            cta_tiler=(how.tile[0], 1),
        )
    under = -(-(how.tile[1] + BLOCK - gcd(how.tile[1], BLOCK)) // BLOCK)
    loaded = (how.tile[0] + how.tile[1]) * how.tile[2] + 2 * 8 + 4 * how.scales
    kept = how.consumers * under * -(-k // BLOCK) * 4 if how.by_tma else 0
    return LaunchSpec(
        name="fp8_variant",
        language="cutedsl",
        kernel=FILE.function("fp8_variant"),
        host=FILE.function("host_for").given(*how),
        grid=(min(how.sms // how.ctas, tiles[0] * tiles[1]) * how.ctas, 1, 1),
        block=(how.threads, 1, 1),
        cluster=(how.ctas, 1, 1),
        dynamic_smem=how.stages * loaded + how.consumers * how.buffers * how.rows * how.piece * 2 + kept,
        params=(a, b, c, scale_a, scale_b),
        target="sm_90a",
        programmatic=True,
    )


@dataclass(frozen=True)
class Trial:
    """A variant, and for each of its cases the predicted ratio to the rung.

    how        its options, or None for the rung's own kernel.
    promotion  how many bytes L2 asks DRAM for, when TMA loads A and B.
    """

    name: str
    predicted: dict[int, float]
    how: How | None
    promotion: L2Promotion = "128B"

    def cases(self) -> list[Case]:
        """The cases that it takes part in."""
        return [case for case in CASES if sum(case.mnk) in self.predicted]

    def spec(self, case: Case) -> LaunchSpec:
        """Its launch for a case."""
        if self.how is None:
            found = fp8_gemm.spec(*case.mnk, how=hopper_fp8.choice("scaled", case, SMS), sms=SMS)
            assert isinstance(found, LaunchSpec)
            return found
        return spec(*case.mnk, self.how)


def at(cube_4096: float, cube_8192: float, short_k: float | None = None) -> dict[int, float]:
    """Predictions by the sums of M, N and K."""
    found = dict(zip((sum(case.mnk) for case in CASES), (cube_4096, cube_8192, short_k), strict=True))
    return {key: value for key, value in found.items() if value is not None}


WIDE = How()
TALL = How(tile=(256, 128, 128), stages=3, buffers=2)
THIRDS = How(tile=(192, 128, 128), consumers=3, buffers=2, by_tma=True, each=True)
LIKE_DEEPGEMM = TALL._replace(by_tma=True, counted=True, unroll=8, read_first=True, each=True)
TRIALS = (
    # The rung has 128x192 at 8192 and 256x128 elsewhere. DeepGEMM's own choice is 256x128 everywhere.
    Trial("the rung, 256 bytes from DRAM", at(1.0, 1.005, 1.0), None, "256B"),
    Trial("256x128, stages counted", at(1.0, 0.98, 1.0), TALL._replace(counted=True)),
    Trial("256x128, A's scales by TMA", at(1.01, 0.99, 1.01), TALL._replace(by_tma=True)),
    Trial("256x128, DeepGEMM's loop", at(1.02, 1.0, 1.01), LIKE_DEEPGEMM),
    Trial(
        "256x128, DeepGEMM's loop, 256 bytes, groups of 4",
        at(1.02, 1.01, 1.01),
        LIKE_DEEPGEMM._replace(group=4),
        "256B",
    ),
    Trial(
        "256x128, scales by TMA, 8 k-tiles a turn", at(1.02, 1.0, 1.02), TALL._replace(by_tma=True, unroll=8)
    ),
    Trial("128x192, scales by TMA", at(0.88, 1.01), WIDE._replace(by_tma=True)),
    Trial("128x192, four fixed stages", at(0.89, 1.02), WIDE._replace(fixed=True)),
    Trial("128x192, scales by TMA, fixed", at(0.9, 1.025, 0.95), WIDE._replace(by_tma=True, fixed=True)),
    Trial("128x192, every other tile backwards", at(0.87, 1.01), WIDE._replace(backwards=True)),
    Trial(
        "128x192, scales by TMA, fixed, backwards, 256 bytes",
        at(0.9, 1.03),
        WIDE._replace(by_tma=True, fixed=True, backwards=True),
        "256B",
    ),
    Trial("192x128, three warpgroups", at(0.95, 1.01), THIRDS),
    Trial(
        "128x128, two sums",
        at(0.97, 0.96, 0.97),
        How(tile=(128, 128, 128), stages=5, buffers=2, pending=True, by_tma=True),
    ),
)
RUNG, DEEPGEMM = "the rung", "deepgemm"


def build(job: tuple[int, Case]) -> Built:
    """Compile a trial for a case; -1 is the rung."""
    number, case = job
    trial = Trial(RUNG, {}, None) if number < 0 else TRIALS[number]
    return compiled(trial.spec(case), "sm_90a")


def build_all() -> dict[tuple[int, Case], Built]:
    """Compile the rung and all trials for their cases, in parallel."""
    jobs = [(-1, case) for case in CASES]
    jobs += [(number, case) for number, one in enumerate(TRIALS) if one.how for case in one.cases()]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(jobs, pool.map(build, jobs), strict=True))


def contestant(bench: Fp8Bench, trial: Trial, built: Built) -> Contestant:
    """A trial on the GPU, with the parameters of each set."""
    kernel, launch_spec, values = Loaded(built), trial.spec(bench.case), []
    for (a, b, c), (scale_a, scale_b) in zip(bench.sets, bench.scales, strict=True):
        named = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b}
        row: list[Any] = []
        for param in launch_spec.params:
            address = named[param.name].data_ptr()
            if isinstance(param, TensorMapSpec):
                promotion = trial.promotion if param.name in "ab" else "128B"
                encoding = dataclasses.replace(param.encoding, l2_promotion=promotion)
                row.append(runtime.driver_tensor_map(encoding, address))
            else:
                row.append(address)
        values.append(row)

    def launch(number: int) -> None:
        kernel.launch(*values[number % len(values)])

    return Contestant(trial.name, "variant", "", launch, built)


def try_one(number: int, built: Path) -> None:
    """Check one trial on the last case that it has, in a process that may hang. Errors: WrongProductError."""
    import torch

    torch.zeros(1, device="cuda")
    trial = TRIALS[number]
    case = trial.cases()[-1]
    kernels = pickle.loads(built.read_bytes())
    bench = Fp8Bench(case)
    bench.ready(contestant(bench, trial, kernels[number if trial.how else -1, case]))


def tried(built: Path, seconds: float) -> dict[int, str]:
    """The trials that are right and end in time, each in its own process; for the others the reason."""

    def one(number: int) -> str:
        command = [
            sys.executable,
            "-m",
            "benchmarks.fp8_variants",
            "--built",
            str(built),
            "--try",
            str(number),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"no end within {seconds:.0f} s"
        return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-600:]

    with ThreadPoolExecutor(4) as pool:
        return dict(enumerate(pool.map(one, range(len(TRIALS)))))


def measure(
    case: Case, kernels: dict[tuple[int, Case], Built], wanted: list[int], best: int, seconds: float
) -> list[dict[str, Any]]:
    """Time a case in short rounds, then the best variants of it beside DeepGEMM and the rung, steadily."""
    bench = Fp8Bench(case)
    contestants = [bench.ready(bench.cublas)]
    contestants.append(bench.ready(contestant(bench, Trial(RUNG, {}, None), kernels[-1, case])))
    try:
        contestants.append(bench.ready(Contestant(DEEPGEMM, "rival", "", hopper_fp8.deepgemm(bench))))
    except Exception as error:  # noqa: BLE001 - the variants are measured all the same
        print(f"deepgemm: {type(error).__name__}: {error}"[:500], flush=True)
    for number in wanted:
        if case in TRIALS[number].cases():
            key = (number if TRIALS[number].how else -1, case)
            contestants.append(bench.ready(contestant(bench, TRIALS[number], kernels[key])))
    rows = {row["name"]: row for row in short(bench, contestants)["rows"]}
    for row in rows.values():
        row["to_rung"] = row["tflops"] / rows[RUNG]["tflops"]
    ours = [one for one in contestants if one.kind == "variant" and one.name != RUNG]
    ours.sort(key=lambda one: -rows[one.name]["tflops"])
    chosen = [one for one in contestants if one not in ours] + ours[:best]
    found = {row["name"]: row for row in steady(bench, chosen, seconds)}
    for trial in TRIALS:
        if trial.name in rows:
            rows[trial.name]["predicted"] = trial.predicted[sum(case.mnk)]
    for name, row in found.items():
        kept = {key: row[key] for key in ("tflops", "watts", "clock_mhz", "joules_per_tflop")}
        rows[name]["sustained"] = {**kept, "turns": [one["tflops"] for one in row["turns"]]}
    return list(rows.values())


def table(case: Case, rows: list[dict[str, Any]]) -> str:
    """A line for each contestant, the fastest first."""
    lines = [f"{case}: TFLOP/s [quartiles], to the rung (predicted) | sustained [turns], W, MHz, J per TFLOP"]
    for row in sorted(rows, key=lambda row: -row["tflops"]):
        low, high = row["quartiles"]
        guess = f"{row['predicted']:.3f}" if row.get("predicted") else "  -  "
        text = f"{row['tflops']:7.1f} [{low:.0f}-{high:.0f}] {row['to_rung']:.3f} ({guess})"
        if long := row.get("sustained"):
            turns = " ".join(f"{one:.0f}" for one in long["turns"])
            text += f" | {long['tflops']:.0f} [{turns}] {long['watts']:.0f} {long['clock_mhz']:.0f}"
            text += f" {long['joules_per_tflop']:.4f}"
        spilled = f"  spills {row['spill_bytes']}" if row["spill_bytes"] else ""
        lines.append(f"{text}  {row['name']}{spilled}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compile, or measure, write the result and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=Path, help="compile the variants into this file, and stop")
    parser.add_argument("--built", type=Path, help="a file of --build")
    parser.add_argument("--try", type=int, dest="trial", help="only check this trial")
    parser.add_argument("--best", type=int, default=5, help="how many variants run steadily at each size")
    parser.add_argument("--seconds", type=float, default=1.6, help="steadily, each")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    if options.build:
        options.build.write_bytes(pickle.dumps(build_all()))
        return 0
    if options.trial is not None:
        try_one(options.trial, options.built)
        return 0
    start = time.monotonic()
    answers = tried(options.built, 90)
    refused = {TRIALS[number].name: why for number, why in answers.items() if why}
    print(
        f"{len(answers) - len(refused)} of {len(answers)} trials are right, {time.monotonic() - start:.0f} s"
    )
    for name, why in refused.items():
        print(f"refused {name}: {why[-300:]}", flush=True)
    import torch

    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which all kernels here share
    kernels = pickle.loads(options.built.read_bytes())
    result: dict[str, Any] = {
        "recorded": {**of_this_machine(), **hopper_rivals.versions("sgl-deep-gemm")},
        "refused": refused,
        "cases": [],
    }
    for case in CASES:
        rows = measure(
            case, kernels, [one for one, why in answers.items() if not why], options.best, options.seconds
        )
        result["cases"].append({"mnk": list(case.mnk), "rows": rows})
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(table(case, rows), f"\n{time.monotonic() - start:.0f} s\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
