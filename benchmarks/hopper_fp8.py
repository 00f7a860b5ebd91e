"""Measure GEMMs of 8-bit floats on a Hopper GPU: the drift of their sums, and their speed beside rivals.

    python -m benchmarks.hopper_fp8                   writes benchmarks/results/hopper_fp8_<gpu>.json
    python -m benchmarks.hopper_fp8 --build F         compiles the kernels into F; needs ptxas, but no GPU
    python -m benchmarks.hopper_fp8 --built F         measures what F has; needs no CuTe DSL

The drift: `fp8_drift` adds up to 16384 products of e4m3, on the tensor core alone and promoted every 128, for
positive and for random numbers. Each sum is compared with float64, and bit for bit with the emulator's model.

The speed: C = A times B transposed, e4m3 in and bf16 out. A and B are normally distributed numbers that were
quantised with scales of blocks: 1x128 for A, 128x128 for B. All contestants get the same codes. Those that
take no scales multiply the codes as they are. The rivals are cuBLAS through PyTorch, with fast accumulation
(`cublas`), without it (`cublas_promoted`) and with scales (`cublas_scaled`), cuBLAS on the same numbers in
bf16 (`cublas_bf16`), and DeepGEMM, if Python finds the package. Rounds, sustained load and the checks are
those of `hopper_gemm.py`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import hopper_gemm, hopper_rivals
from benchmarks.hopper_gemm import SETS, Bench, Case, Contestant, WrongProductError, short, steady
from benchmarks.hopper_rivals import Launch
from benchmarks.launching import Built, Loaded, compiled, parameters
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.dtypes import decode, dtype, encode
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.tensor_core_sums import TENSOR_CORES, fused_float_products
from cutecourse.kernels import fp8_drift, fp8_gemm
from cutecourse.kernels.fp8.fp8_gemm.faults import FAULTS
from cutecourse.kernels.spec import LaunchSpec
from tools.facts import of_this_machine

Array = NDArray[Any]

PREDICTIONS = {"plain": 1350.0, "promoted": 1250.0, "scaled": 1230.0}
"""TFLOP/s at 4096 cubed in short rounds, written down before anything was measured."""
CASES = tuple(Case(mnk, "e4m3") for mnk in ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 2048)))
RUNGS = ("plain", "promoted", "promoted_turns", "scaled", "scaled_turns")
"""Our kernels: the kinds of sums, also with warpgroups that multiply in turns."""
SCALED = ("scaled", "scaled_turns", "cublas_scaled", "deepgemm")
"""The contestants that multiply with scales."""
LONG_SUMS = ("plain", "cublas")
"""The contestants whose tensor cores add all products of a dot product."""
RACE, RACE_RUNS = "one_warp_frees_the_scales", 50
BLOCK = fp8_gemm.BLOCK
LARGEST = 448.0
"""The largest number of e4m3."""
DRIFT_NK = (16, 16384)
DRIFT_NUMBERS = ("uniform", "normal")


# --- the drift --------------------------------------------------------------------------------------------


def drift_operands(numbers: str) -> tuple[Array, Array]:
    """The codes of A (64, K) and B (N, K): uniform from 0 to 1, or normally distributed."""
    random = np.random.default_rng(0)
    n, k = DRIFT_NK
    make = random.random if numbers == "uniform" else random.standard_normal
    a, b = (encode(make((rows, k)).astype(np.float32), dtype("e4m3")) for rows in (fp8_drift.ROWS, n))
    return a, b


def model_sums(a: Array, b: Array, *, promoted: bool) -> Array:
    """The sums (K / 128, 64, N) in f32 that the emulator computes for `fp8_drift`."""
    narrow, wide = FORMATS["e4m3"], FORMATS["f32"]
    nothing = np.zeros((len(a), len(b)), np.uint32)
    last, total, found = nothing, nothing.view(np.float32), []
    for first in range(0, a.shape[1], BLOCK):
        part = slice(first, first + BLOCK)
        begun = nothing if promoted else last
        last = fused_float_products(a[:, part], b[:, part].T, begun, narrow, wide, TENSOR_CORES["sm_90"])
        last = last.astype(np.uint32)
        total = total + last.view(np.float32) if promoted else last.view(np.float32)
        found.append(total)
    return np.stack(found)


def exact_sums(a: Array, b: Array) -> Array:
    """The sums (K / 128, 64, N) in float64: all products of e4m3 and these sums of them are exact."""
    left, right = (decode(x, dtype("e4m3")).astype(np.float64) for x in (a, b))
    blocks = [
        left[:, first : first + BLOCK] @ right[:, first : first + BLOCK].T
        for first in range(0, a.shape[1], BLOCK)
    ]
    return np.cumsum(blocks, axis=0)


def drift_of(sums: Array, exact: Array) -> dict[str, list[float]]:
    """Errors of the sums of 128, 256, ... products, relative to the root mean square of the exact ones.

    bias      the mean error: positive numbers lose, so it is negative.
    rms       the root mean square of the error.
    """
    places = [2**power - 1 for power in range(int(math.log2(len(exact))) + 1)]
    off, size = sums.astype(np.float64) - exact, np.sqrt((exact**2).mean(axis=(1, 2)))
    # The sign of the exact sum makes a loss negative for both kinds of numbers.
    bias = (off * np.sign(exact)).mean(axis=(1, 2)) / size
    rms = np.sqrt((off**2).mean(axis=(1, 2))) / size
    return {
        "k": [BLOCK * (place + 1) for place in places],
        "bias": bias[places].tolist(),
        "rms": rms[places].tolist(),
    }


def drift_rows(built: dict[str, Built]) -> list[dict[str, Any]]:
    """Run `fp8_drift` on the GPU and compare its sums with float64 and with the model."""
    import torch

    rows = []
    for numbers in DRIFT_NUMBERS:
        a, b = drift_operands(numbers)
        exact = exact_sums(a, b)
        for promoted in (False, True):
            spec = drift_spec(promoted=promoted)
            held = [torch.from_numpy(x).cuda() for x in (a, b)]
            held.append(torch.full(exact.shape, math.nan, device="cuda"))
            addresses = dict(zip(spec.arguments, (x.data_ptr() for x in held), strict=True))
            Loaded(built[f"drift, promoted {promoted}"]).launch(*parameters(spec, addresses))
            torch.cuda.synchronize()
            sums, model = held[2].cpu().numpy(), model_sums(a, b, promoted=promoted)
            rows.append(
                {
                    "numbers": numbers,
                    "promoted": promoted,
                    "sums": sums.size,
                    "not_the_models": int((sums.view(np.uint32) != model.view(np.uint32)).sum()),
                    **drift_of(sums, exact),
                    "first": [float(sums[-1, 0, 0]), float(exact[-1, 0, 0])],
                }
            )
    return rows


# --- the contestants --------------------------------------------------------------------------------------


def drift_spec(*, promoted: bool) -> LaunchSpec:
    """The launch of `fp8_drift` for the operands of the measurement."""
    found = fp8_drift.spec(*DRIFT_NK, promoted=promoted)
    assert isinstance(found, LaunchSpec)
    return found


def specs(sms: int = fp8_gemm.SMS) -> dict[str, LaunchSpec]:
    """All kernels of the measurement by their names in a file of `--build`."""
    drifts = {f"drift, promoted {promoted}": drift_spec(promoted=promoted) for promoted in (False, True)}
    racing = {RACE: specs_of_race(sms)[1]}
    return (
        drifts
        | racing
        | {
            f"{case} {name}": fp8_gemm.spec(*case.mnk, how=choice(name, case, sms), sms=sms)
            for case in CASES
            for name in RUNGS
        }
    )


def specs_of_race(sms: int) -> tuple[LaunchSpec, LaunchSpec]:
    """The kernel with scales for the first case: right, and with the fault that is `RACE`."""
    right = fp8_gemm.spec(*CASES[0].mnk, how=choice("scaled", CASES[0], sms), sms=sms)
    return right, right.with_fault(FAULTS[RACE])


def choice(name: str, case: Case, sms: int) -> fp8_gemm.Fp8Choice:
    """The choice of one of our kernels for a case."""
    sums, _, turns = name.partition("_")
    how = fp8_gemm.best(*case.mnk[:2], sums, sms)
    return how._replace(turns=bool(turns))


def build(name: str) -> Built:
    """Compile a kernel of `specs`."""
    return compiled(specs()[name], "sm_90a")


def build_all() -> dict[str, Built]:
    """Compile all kernels, in parallel."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(specs(), pool.map(build, specs()), strict=True))


def quantised(matrix: Any, rows: int) -> tuple[Any, Any]:
    """The codes of a matrix (R, K), and a scale for each block of `rows` rows and 128 elements along K.

    The largest number of a block becomes 448. The scales are f32 (R / rows, K / 128).
    """
    import torch

    blocks = matrix.view(len(matrix) // rows, rows, -1, BLOCK)
    scales = blocks.abs().amax(dim=(1, 3)) / LARGEST
    codes = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    return codes.view(matrix.shape), scales


class Fp8Bench(Bench):
    """One case on the GPU: codes and scales in sets, both expected products, and the check."""

    def __init__(self, case: Case) -> None:
        import torch

        self.case, self.refused = case, {}
        m, n, k = case.mnk
        self.sets, self.scales = [], []
        for seed in range(SETS):
            generator = torch.Generator("cuda").manual_seed(seed)
            a, b = (torch.randn((rows, k), device="cuda", generator=generator) for rows in (m, n))
            (a, scale_a), (b, scale_b) = quantised(a, 1), quantised(b, BLOCK)
            self.sets.append((a, b, torch.empty((m, n), dtype=torch.bfloat16, device="cuda")))
            self.scales.append((scale_a.T.contiguous().T, scale_b))  # the rows of A are contiguous
        self._rows = torch.linspace(0, m - 1, min(m, hopper_gemm.ROWS_CHECKED), device="cuda").long()
        (a, b, _), (scale_a, scale_b) = self.sets[0], self.scales[0]
        plain = a.float(), b.float()
        wide = scale_b.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        scaled = plain[0] * scale_a.repeat_interleave(BLOCK, 1), plain[1] * wide
        self._products = {
            with_scales: (left[self._rows].double() @ right.double().T, left @ right.T)
            for with_scales, (left, right) in ((False, plain), (True, scaled))
        }
        self.cublas = Contestant("cublas", "rival", "fast accumulation", cublas(self, fast=True))
        self.launches = SETS
        (once,) = hopper_gemm.alternating({0: lambda: self.cublas.launch(0)}, 1)[0]
        self.launches = SETS * max(1, math.ceil(hopper_gemm.LAUNCHES_S / once / SETS))

    def check(self, one: Contestant) -> None:
        """Clear C and run a contestant's graph. Errors: WrongProductError if an element is off.

        An element may be off by the rounding to bf16, and by the drift of as many products as the tensor core
        adds in a row: 2^-11 of the root mean square of C, times the square root of their number. (The tensor
        core keeps 13 places.)
        """
        import torch

        for _, _, c in self.sets:
            c.fill_(math.nan)
        one.run()
        torch.cuda.synchronize()
        c = self.sets[0][2]
        expected, product = self._products[one.kind == "variant" or one.name in SCALED]
        added = self.case.mnk[2] if one.name in LONG_SUMS else BLOCK
        lost = 2.0**-11 * added**0.5 * float(expected.square().mean().sqrt())
        off = (c[self._rows].double() - expected).abs()
        one.max_error = float(off.max() / expected.square().mean().sqrt())
        wrong = ~(off <= lost + 2.0**-8 * expected.abs())
        far = ~((c.float() - product).abs() <= 1.01 * (lost + 2.0**-8 * product.abs()))
        if bool(wrong.any()) or bool(far.any()):
            raise WrongProductError(
                f"{one.name}, {self.case}: {int(wrong.sum())} elements are not float64's, {int(far.sum())} "
                f"of all are not f32's; the largest error is {one.max_error:.2e} of C's root mean square."
            )
        if not all(bool(other.isfinite().all()) for _, _, other in self.sets):
            raise WrongProductError(f"{one.name}, {self.case}: an element was not written.")


def rung(bench: Fp8Bench, name: str, built: Built, sms: int) -> Contestant:
    """One of our kernels, with the parameters of each set."""
    how = choice(name, bench.case, sms)
    spec, kernel, values = fp8_gemm.spec(*bench.case.mnk, how=how, sms=sms), Loaded(built), []
    for (a, b, c), (scale_a, scale_b) in zip(bench.sets, bench.scales, strict=True):
        named = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b}
        values.append(parameters(spec, {key: x.data_ptr() for key, x in named.items()}))

    def launch(number: int) -> None:
        kernel.launch(*values[number % len(values)])

    config = f"{how.tile[0]}x{how.tile[1]}, cluster {how.cluster[0]}x{how.cluster[1]}"
    return Contestant(name, "rung", config, launch, built)


def cublas(bench: Fp8Bench, *, fast: bool = False, scaled: bool = False) -> Launch:
    """The product by PyTorch with cuBLAS."""
    import torch

    one = torch.ones((), device="cuda")
    scales = [(a, b.T) for a, b in bench.scales] if scaled else [(one, one)] * SETS

    def launch(number: int) -> None:
        (a, b, c), (scale_a, scale_b) = bench.sets[number % SETS], scales[number % SETS]
        torch._scaled_mm(  # noqa: SLF001 - PyTorch 2.11 has no public function with these scales
            a, b.T, scale_a=scale_a, scale_b=scale_b, out_dtype=c.dtype, use_fast_accum=fast, out=c
        )

    return launch


def cublas_bf16(bench: Fp8Bench) -> Launch:
    """The product of the same numbers in 16 bits."""
    import torch

    wide = [(a.bfloat16(), b.bfloat16(), c) for a, b, c in bench.sets]

    def launch(number: int) -> None:
        a, b, c = wide[number % SETS]
        torch.mm(a, b.T, out=c)

    return launch


def deepgemm(bench: Fp8Bench) -> Launch:
    """DeepGEMM's product with scales. Errors: ImportError without the package."""
    package = importlib.import_module("deep_gemm")

    def launch(number: int) -> None:
        (a, b, c), (scale_a, scale_b) = bench.sets[number % SETS], bench.scales[number % SETS]
        package.fp8_gemm_nt((a, scale_a), (b, scale_b), c)

    return launch


RIVALS: dict[str, tuple[str, Callable[[Fp8Bench], Launch]]] = {
    "cublas_promoted": ("no fast accumulation", cublas),
    "cublas_scaled": ("scales of blocks", lambda bench: cublas(bench, scaled=True)),
    "cublas_bf16": ("16 bits", cublas_bf16),
    "deepgemm": ("its own choice", deepgemm),
}


def race_row(built: dict[str, Built], sms: int) -> dict[str, Any]:
    """Run the kernel with the fault `RACE` many times; count the runs whose C is not the right kernel's."""
    import torch

    bench, (right, _) = Fp8Bench(CASES[0]), specs_of_race(sms)
    (a, b, c), (scale_a, scale_b) = bench.sets[0], bench.scales[0]
    named = {"a": a, "b": b, "c": c, "scale_a": scale_a, "scale_b": scale_b}
    values = parameters(right, {key: x.data_ptr() for key, x in named.items()})
    Loaded(built[f"{CASES[0]} scaled"]).launch(*values)
    torch.cuda.synchronize()
    expected, wrong, kernel = c.clone(), 0, Loaded(built[RACE])
    for _ in range(RACE_RUNS):
        c.fill_(math.nan)
        kernel.launch(*values)
        torch.cuda.synchronize()
        wrong += not torch.equal(c, expected)
    return {"fault": RACE, "mnk": list(CASES[0].mnk), "runs": RACE_RUNS, "wrong_runs": wrong}


# --- everything -------------------------------------------------------------------------------------------


def contestant(bench: Fp8Bench, name: str, built: dict[str, Built], sms: int) -> Contestant:
    """A rival or one of our kernels by its name. Errors: any, where a rival is not installed or refuses."""
    if name in RUNGS:
        return rung(bench, name, built[f"{bench.case} {name}"], sms)
    config, make = RIVALS[name]
    return Contestant(name, "rival", config, make(bench))


def measure(
    cases: Sequence[Case],
    built: dict[str, Built],
    seconds: float,
    sms: int,
    keep: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measure the drift, then the cases; after each one, pass the result so far to `keep`."""
    result: dict[str, Any] = {"drift": drift_rows(built), "race": race_row(built, sms)}
    result |= {"rows": [], "sustained": [], "refused": {}}
    result["ceiling"] = {"by_size": [], "sustained_by_size": []}
    for case in cases:
        bench = Fp8Bench(case)
        contestants = [bench.ready(bench.cublas)]
        for name in (*RIVALS, *RUNGS):
            try:
                contestants.append(bench.ready(contestant(bench, name, built, sms)))
            except Exception as error:  # noqa: BLE001 - the other contestants are measured all the same
                bench.refused[name] = f"{type(error).__name__}: {error}"[:600]
        result["refused"] |= {f"{case}: {what}": why for what, why in bench.refused.items()}
        rows = short(bench, contestants)["rows"]
        for row in rows:
            row["predicted"] = PREDICTIONS.get(row["name"]) if case == CASES[0] else None
        result["rows"] += rows
        if seconds:
            result["sustained"] += steady(bench, contestants, seconds)
        keep(result)
        print(hopper_gemm.table(result, case), flush=True)
    return result


def main(arguments: list[str] | None = None) -> int:
    """Compile, or measure, write the result and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, help="compile the kernels into this file, and stop")
    parser.add_argument("--built", type=Path, help="a file of --build")
    parser.add_argument("--seconds", type=float, default=2.0, help="sustained, each contestant; 0 for none")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    if options.build:
        options.build.write_bytes(pickle.dumps(build_all()))
        return 0
    found = runtime.discover()
    gpu = found.devices[0] if found.devices else None
    if gpu is None or gpu.compute_capability != (9, 0):
        why = gpu.name if gpu else found.reason
        print(f"hopper_fp8: needs a Hopper GPU, and this machine has none: {why}", file=sys.stderr)
        return 1
    import torch

    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which all kernels here share
    built = pickle.loads(options.built.read_bytes()) if options.built else build_all()
    head = {
        "recorded": {
            **of_this_machine(),
            "multiprocessors": gpu.multiprocessors,
            **hopper_rivals.versions("sgl-deep-gemm"),
        },
        "method": {
            "short": f"median of {hopper_gemm.ROUNDS} rounds, each contestant once in each, in a CUDA graph",
            "sustained": f"{options.seconds} s each in two turns, after {hopper_gemm.SETTLE_S} s; the means",
            "sets": SETS,
            "numbers": "normally distributed, quantised to e4m3 in blocks; the same codes for all",
            "ratio": "to cuBLAS with fast accumulation in the same run",
            "checked": f"{hopper_gemm.ROWS_CHECKED} rows against float64, all of C against f32",
        },
    }
    output = options.output or result_path("hopper_fp8", gpu.name)

    # Visits in search of the choices, which this measurement does not repeat.
    earlier = json.loads(output.read_text(encoding="utf-8")).get("search", []) if output.exists() else []
    head["search"] = earlier

    def keep(result: dict[str, Any]) -> None:
        output.write_text(json.dumps({**head, **result}, indent=1) + "\n", encoding="utf-8")

    write_result({**head, **measure(CASES, built, options.seconds, gpu.multiprocessors, keep)}, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
