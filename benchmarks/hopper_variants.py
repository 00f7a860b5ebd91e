"""Variants of the last rung for Hopper: each is predicted, built, checked and timed beside cuBLAS.

    python -m benchmarks.hopper_variants --output F     adds a round to F
    python -m benchmarks.hopper_variants --only 2048    measures the trials of one size

`hopper_variant_kernel.py` is the kernel; a variant changes its constants. Each variant is built, launched and
checked in its own process first, and that process is killed if the kernel hangs. Then all variants and
`torch.mm` take turns in short rounds. The best ones also run for seconds while NVML counts the energy.
"""

from __future__ import annotations

import argparse
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks import hopper_rivals
from benchmarks.gemm_ladder import Size, matrices
from benchmarks.launching import Built, Loaded, alternating, compiled
from benchmarks.power import sustain
from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, TensorMapSpec
from cutecourse.layout import parse
from cutecourse.runtime.tensor_map import driver_tensor_map
from cutecourse.tma.encoding import L2Promotion
from tools.facts import of_this_machine

TEXT = Path(__file__).with_name("hopper_variant_kernel.py").read_text(encoding="utf-8")
ODD = (1000, 1032, 200)
SIZES: tuple[Size, ...] = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048))
SETS = 4
FIRST, LAST = 0x12F0000000000000, 0x14F0000000000000
"""Cache policies: L2 evicts the data first, or last."""


@dataclass(frozen=True)
class Variant:
    """One choice of the kernel's constants."""

    tile: tuple[int, int, int] = (128, 256, 64)
    consumers: int = 2
    pingpong: bool = False
    cluster: tuple[int, int] = (2, 1)
    stages: int = 4
    stores: int = 2
    group: int = 8
    along: str = "m"
    snake: bool = False
    backwards: bool = False
    registers: tuple[int, int] = (40, 232)
    release: str = "group"
    policies: tuple[int, int, int] = (0, 0, 0)
    box: int = 64
    prefetch: bool = False
    early: bool = False
    stagger: int = 0
    promotion: L2Promotion = "128B"
    late: bool = False
    row_major: bool = False
    sms: int = 132

    @property
    def file(self) -> KernelFile:
        """The kernel's text with these constants."""
        lines = TEXT.splitlines()
        wanted = {one.name.upper(): getattr(self, one.name) for one in fields(self)}
        for at, line in enumerate(lines):
            name = line.partition(" = ")[0]
            if name in wanted:
                lines[at] = f"{name} = {wanted.pop(name)!r}"
        assert not wanted, wanted
        return KernelFile("hopper_variant", "\n".join(lines) + "\n")

    @property
    def name(self) -> str:
        """The constants that differ from those of the first variant."""
        given = [
            f"{one.name}={getattr(self, one.name)}"
            for one in fields(self)
            if getattr(self, one.name) != one.default
        ]
        text = " ".join(given).replace(", ", ",").replace(str(FIRST), "first").replace(str(LAST), "last")
        return text.replace("policies=(0,0,", "policies=(-,-,") or "base"

    def spec(self, mnk: tuple[int, int, int], dtype: str = "f16") -> LaunchSpec:
        """The launch specification of this variant for one size."""
        m, n, k = mnk
        file, tile, cluster = self.file, self.tile, self.cluster
        rows = tile[0] if self.pingpong else tile[0] // self.consumers
        ctas = cluster[0] * cluster[1]
        tiles = -(-m // (tile[0] * cluster[0])) * -(-n // (tile[1] * cluster[1]))

        def mapped(
            name: str, extents: tuple[int, int], box: tuple[int, int], multicast: int = 1
        ) -> TensorMapSpec:
            bits = {64: 3, 32: 2, 16: 1}.get(box[1], 0)
            layout = parse(f"S<{bits},4,3> o 0 o ({box[0]},{box[1]}):({box[1]},1)")
            return TensorMapSpec(
                name,
                dtype,
                extents,
                (extents[1], 1),
                smem_layout=layout,
                cta_tiler=box,
                num_multicast=multicast,
            )

        smem = (
            self.stages * (tile[0] + tile[1]) * tile[2] * 2
            + self.stores * self.consumers * rows * self.box * 2
        )
        smem += 16 * self.stages
        assert smem <= 232448, smem
        return LaunchSpec(
            name="hopper_variant",
            language="cutedsl",
            kernel=file.function("hopper_variant"),
            host=file.function("host"),
            grid=(min(self.sms // ctas, tiles) * ctas, 1, 1),
            block=(128 * (self.consumers + 1), 1, 1),
            cluster=(ctas, 1, 1),
            dynamic_smem=smem,
            params=(
                mapped("a", (m, k), (tile[0], tile[2]), cluster[1]),
                mapped("b", (n, k), (tile[1], tile[2]), cluster[0]),
                mapped("c", (m, n), (rows, self.box)),
            ),
            target="sm_90a",
            programmatic=self.early,
        )


@dataclass(frozen=True)
class Trial:
    """A variant, the reason to try it, and the predicted ratio to cuBLAS for each size."""

    variant: Variant
    why: str
    predicted: dict[int, float]


def trial(why: str, predicted: dict[int, float], **constants: Any) -> Trial:
    """A trial of the variant with these constants."""
    return Trial(Variant(**constants), why, predicted)


def both(at_4096: float, at_8192: float) -> dict[int, float]:
    """Predictions for both sizes."""
    return {4096: at_4096, 8192: at_8192}


PP = {"pingpong": True, "tile": (128, 192, 64)}
LATE = {"late": True, "registers": (24, 240)}
BY_256 = {"promotion": "256B"}
ALONE = {"cluster": (1, 1), "early": True, **LATE, **BY_256}
"""The last rung's choice at 2048 cubed, where all tiles of C are in work at once."""
TRIALS = (
    trial("128x256 by two consumers, pairs share B", both(1.0, 1.02)),
    trial("a tile of C leaves while the next one is multiplied", both(1.02, 1.04), **LATE),
    trial("late, TMA asks DRAM for 256 bytes", both(1.025, 1.045), **LATE, **BY_256),
    trial("late, launched before the kernel ahead has ended", both(1.03, 1.04), early=True, **LATE),
    trial("late, 256 bytes, early", both(1.035, 1.045) | {2048: 1.02}, early=True, **LATE, **BY_256),
    trial("late, k back and forth", both(1.02, 1.05), backwards=True, **LATE, **BY_256),
    trial("late, groups along N", both(1.025, 1.045), along="n", **LATE, **BY_256),
    trial("late, groups of 4", both(1.02, 1.04), group=4, **LATE, **BY_256),
    trial("late, groups of 16", {4096: 1.03}, group=16, **LATE, **BY_256),
    trial(
        "late, 256x128, pairs share A",
        both(1.01, 1.03),
        tile=(256, 128, 64),
        cluster=(1, 2),
        stores=1,
        **LATE,
        **BY_256,
    ),
    trial("late, 128x224", {8192: 1.04}, tile=(128, 224, 64), box=112, stores=1, **LATE, **BY_256),
    trial("ping-pong 128x192", {8192: 1.035}, **PP),
    trial("ping-pong 128x192, 256 bytes", {8192: 1.035}, **PP, **BY_256),
    trial("ping-pong 128x192, k back and forth", {8192: 1.045}, backwards=True, **PP, **BY_256),
    trial("ping-pong 128x192, an accumulator's MMAs together", {8192: 1.04}, row_major=True, **PP, **BY_256),
    trial("ping-pong 128x192, five stages", {8192: 1.035}, stages=5, box=32, stores=1, **PP, **BY_256),
    trial("2048: the last rung's choice", {2048: 1.03}, **ALONE),
    trial("2048: pairs share A", {2048: 1.03}, **{**ALONE, "cluster": (1, 2)}),
    trial("2048: stored at once", {2048: 1.03}, cluster=(1, 1), early=True, **BY_256),
    trial("2048: groups along N", {2048: 1.03}, along="n", **ALONE),
    trial("2048: groups of 4, 1024 by 1024", {2048: 1.035}, group=4, **ALONE),
    trial("2048: TMA asks DRAM for 128 bytes", {2048: 1.025}, **{**ALONE, "promotion": "128B"}),
    trial("2048: the tensor maps prefetched", {2048: 1.03}, prefetch=True, **ALONE),
    trial("2048: four buffers of 32 columns", {2048: 1.035}, box=32, stores=4, **ALONE),
    trial(
        "2048: two tiles of 128x128, ping-pong",
        {2048: 1.0},
        tile=(128, 128, 64),
        pingpong=True,
        cluster=(1, 1),
        stages=5,
        early=True,
        **BY_256,
    ),
)


class Fitted(Loaded):
    """A variant on the GPU. It starts as many clusters as fit at once; more would have to wait."""

    def __init__(self, built: Built) -> None:
        super().__init__(built)
        driver, config, ctas = self._driver, self._config, built.cluster[0]
        self.clusters = built.grid[0] // ctas
        if ctas > 1:
            fit = int(self._call(driver.cuOccupancyMaxActiveClusters(self._function, config)))
            self.clusters = min(self.clusters, fit)
            config.gridDimX = self.clusters * ctas


def launcher(variant: Variant, built: Built, mnk: Size, sets: list[Any]) -> tuple[Callable[[int], None], int]:
    """A function that launches a variant on one of the sets, by number, and the number of its clusters."""
    kernel = Fitted(built)
    maps = [
        [
            driver_tensor_map(replace(param.encoding, l2_promotion=variant.promotion), tensor.data_ptr())
            for param, tensor in zip(variant.spec(mnk).params, tensors, strict=True)
            if isinstance(param, TensorMapSpec)
        ]
        for tensors in sets
    ]
    return lambda number: kernel.launch(*maps[number % len(maps)]), kernel.clusters


def prepare(number: int, folder: str) -> None:
    """Build a trial for each size, launch it, and compare C with PyTorch's. Sums of integers are exact."""
    import torch

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    found, variant = {}, TRIALS[number].variant
    for mnk in (ODD, *(size for size in SIZES if size[0] in TRIALS[number].predicted)):
        found[mnk] = compiled(variant.spec(mnk), "sm_90a")
        sets = matrices(mnk, integers=True, sets=1)
        launch, _ = launcher(variant, found[mnk], mnk, sets)
        ((a, b, c),) = sets
        for _ in range(3):
            launch(0)
            torch.cuda.synchronize()
            expected = torch.mm(a, b.T)
            if not torch.equal(c, expected):
                raise SystemExit(f"{mnk}: {int((c != expected).sum())} of {c.numel()} elements are wrong")
            c.fill_(float("nan"))
    Path(folder, f"{number}.pickle").write_bytes(pickle.dumps(found))


def prepared(
    folder: str, seconds: float, wanted: list[int]
) -> tuple[dict[int, dict[Any, Built]], dict[int, str]]:
    """The wanted trials that compile and multiply correctly, and for each other trial the reason."""

    def one(number: int) -> str:
        command = [sys.executable, "-m", "benchmarks.hopper_variants", "--prepare", str(number), folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"no end within {seconds:.0f} s"
        return "" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-600:]

    with ThreadPoolExecutor(16) as pool:
        answers = dict(zip(wanted, pool.map(one, wanted), strict=True))
    right = {
        number: pickle.loads(Path(folder, f"{number}.pickle").read_bytes())
        for number, why in answers.items()
        if not why
    }
    return right, {number: why for number, why in answers.items() if why}


def several(launch: Callable[[int], None], launches: int) -> Callable[[], None]:
    """A function that launches `launches` times, one set of buffers after the other, from a CUDA graph."""
    import torch

    for number in range(SETS):
        launch(number)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        for number in range(launches):
            launch(number)

    def all_of_them(keep: Any = launch) -> None:
        graph.replay()

    return all_of_them


def quack(sets: list[Any]) -> dict[str, Callable[[int], None]]:
    """QuACK's configurations with this tile, if QuACK is installed."""
    if not hopper_rivals.installed("quack"):
        return {}
    found = [one for one in hopper_rivals.candidates("quack", None) if one.config.startswith("128x256 coop")]
    return {f"QuACK, {one.config}": one.prepare(sets) for one in found}


def sustained(launch: Callable[[int], None], work: float, seconds: float) -> dict[str, float]:
    """The rate of a case under sustained load, with clock and power."""
    launches = max(1, int(0.03 / (work / 600e12)))
    found = sustain(several(launch, launches), launches, seconds / 4, seconds)
    tflops = work / found.seconds / 1e12
    return {
        "tflops": tflops,
        "clock_mhz": found.clock_mhz,
        "watts": found.watts,
        "joules_per_tflop": found.watts / tflops,
    }


def measure(right: dict[int, dict[Any, Built]], best: int, seconds: float) -> list[dict[str, Any]]:
    """Time all variants in short rounds, then the best ones of each size under sustained load."""
    import torch

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    rows = []
    clusters: dict[str, int] = {}
    for mnk in SIZES:
        if not any(mnk in built for built in right.values()):
            continue
        sets = matrices(mnk, integers=False, sets=SETS)

        def cublas(number: int, sets: Any = sets) -> None:
            a, b, c = sets[number % SETS]
            torch.mm(a, b.T, out=c)

        cases: dict[str, Callable[[int], None]] = {"cuBLAS": cublas, **quack(sets)}
        for number, built in right.items():
            if mnk in built:
                variant = TRIALS[number].variant
                cases[variant.name], clusters[variant.name] = launcher(variant, built[mnk], mnk, sets)
        work = 2.0 * mnk[0] * mnk[1] * mnk[2]
        launches, number = {2048: (128, 101), 4096: (8, 101), 8192: (3, 61)}[mnk[0]]
        turns = alternating({name: several(one, launches) for name, one in cases.items()}, number)
        spent = {name: [value / launches for value in values] for name, values in turns.items()}
        base = statistics.median(spent["cuBLAS"])
        found = {}
        for name, values in spent.items():
            low, middle, high = statistics.quantiles(values, n=4)
            found[name] = {
                "name": name,
                "mnk": list(mnk),
                "tflops": work / middle / 1e12,
                "quartiles": [work / high / 1e12, work / low / 1e12],
                "ratio": base / middle,
                "clusters": clusters.get(name),
            }
        order = sorted(found, key=lambda name: -found[name]["ratio"])
        chosen = [name for name in order if name != "cuBLAS"][:best]
        # cuBLAS runs between the others again and again, because the GPU warms up.
        order_of_turns = ["cuBLAS"]
        for at, name in enumerate(chosen):
            order_of_turns += [name, "cuBLAS"] if at % 6 == 5 else [name]
        steady = [sustained(cases[name], work, seconds) for name in order_of_turns]
        ours = [one for name, one in zip(order_of_turns, steady, strict=True) if name == "cuBLAS"]
        mean = {key: statistics.fmean(one[key] for one in ours) for key in ours[0]}
        found["cuBLAS"]["sustained"] = mean
        for name, one in zip(order_of_turns, steady, strict=True):
            if name != "cuBLAS":
                found[name] |= {"sustained": one, "sustained_ratio": one["tflops"] / mean["tflops"]}
        rows += [found[name] for name in order]
        del sets, cases
    return rows


def report(rows: list[dict[str, Any]], refused: dict[str, str]) -> str:
    """Format the table."""
    lines = []
    for row in rows:
        steady = row.get("sustained")
        low, high = row["quartiles"]
        text = f"{row['mnk'][0]:>5} {row['ratio']:.3f} {row['tflops']:6.1f} [{low:.0f}-{high:.0f}]"
        if steady:
            text += (
                f" | {row.get('sustained_ratio', 1.0):.3f} {steady['tflops']:6.1f} "
                f"{steady['clock_mhz']:.0f} MHz {steady['watts']:.0f} W {steady['joules_per_tflop']:.3f} J"
            )
        lines.append(f"{text}  {row['name']} {row['clusters'] or ''}")
    lines += [f"refused {name}: {why[-300:]}" for name, why in refused.items()]
    return "\n".join(lines)


def main() -> int:
    """Measure, write the result, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=False)
    parser.add_argument("--prepare", nargs=2, metavar=("NUMBER", "FOLDER"))
    parser.add_argument("--only", type=int, choices=[size[0] for size in SIZES], help="M = N = K")
    parser.add_argument("--sustained", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--timeout", type=float, default=60)
    options = parser.parse_args()
    if options.prepare:
        prepare(int(options.prepare[0]), options.prepare[1])
        return 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            number
            for number, one in enumerate(TRIALS)
            if options.only is None or options.only in one.predicted
        ]
        right, refused = prepared(folder, options.timeout, wanted)
    print(f"{len(right)} of {len(wanted)} are right, {time.monotonic() - start:.0f} s", flush=True)
    import torch

    torch.zeros(1, device="cuda")
    rows = measure(right, options.sustained, options.seconds)
    known = {one.variant.name: (number, one) for number, one in enumerate(TRIALS)}
    for row in rows:
        if row["name"] in known:
            number, one = known[row["name"]]
            built = right[number][tuple(row["mnk"])]
            row |= {
                "why": one.why,
                "predicted": one.predicted[row["mnk"][0]],
                "constants": asdict(one.variant),
            }
            row |= {"spill_bytes": built.spill_bytes}
    names = {TRIALS[one].variant.name: why for one, why in refused.items()}
    result: dict[str, Any] = {
        "recorded": {**of_this_machine(), "torch": torch.__version__},
        "rows": rows,
        "refused": names,
    }
    if options.output and options.output.exists():
        before = json.loads(options.output.read_text())
        result["earlier"] = [before, *before.pop("earlier", [])]
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(report(rows, names))
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
