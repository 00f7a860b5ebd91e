"""Measure the tcgen05 GEMM on a Blackwell GPU: TFLOP/s against what the GPU could do, and against cuBLAS.

    python -m benchmarks.umma_throughput             writes benchmarks/results/umma_throughput_<gpu>.json
    python -m benchmarks.umma_throughput --output F  writes F
    python -m benchmarks.umma_throughput --n 128 --stages 4 6    other MMAs and stages for umma_scheduled

`make bench-blackwell` runs it. C = A times B transposed in f16 with sums in f32: chapter 13's kernel,
`umma_gemm`, by one SM for an MMA and by two, in clusters from 2x1 to 4x4; and chapter 14's rungs, whose
result is bf16. A and B hold whole numbers whose sums are exact, and one row of every tile of C is compared
with NumPy's product before a time counts. A launch is timed by events; the least of `REPEATS` counts, since
anything else on the GPU only adds.

Two bounds are computed for each size: the tensor cores', from the number of SMs, the highest clock and
`FLOPS_PER_CYCLE`; and the memory's, when A and B are read and C is written once. Where PyTorch is installed,
its product of the same matrices, which cuBLAS computes, is timed in the same way (with C in f16).

No Blackwell was at hand when this was written. Where there is none it says so and exits with status 77.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.dtypes import decode, encode
from cutecourse.kernels import umma_gemm
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec, SpecError, TensorMapSpec
from tools.facts import of_this_machine

Array = np.ndarray[Any, np.dtype[Any]]

SKIPPED = 77
"""The exit status of a measurement that this machine cannot make; `run_all.sh` counts it as no failure."""
TARGETS = {(10, 0): "sm_100a", (10, 3): "sm_103a"}
FLOPS_PER_CYCLE = 8192
"""Of one SM, f16 with f32 sums, dense: what makes NVIDIA's 2.25 PFLOP/s of a B200 (148 SMs, 1.86 GHz)."""
REPEATS = 20
TILE_ROWS = 128  # of C, in one CTA


class WrongProductError(runtime.GpuError):
    """The kernel that was timed did not multiply."""


@dataclass(frozen=True)
class Case:
    """One problem and one way to compute it.

    mnk      the problem.
    sms      how many SMs an MMA takes.
    cluster  CTAs along M and N; chapter 14's rungs have as many as an MMA takes SMs.
    kernel   `umma_gemm`, or a rung of chapter 14.
    columns  of an MMA's result, and `stages` for k-tiles: of `umma_scheduled`, else the kernel's own.
    """

    mnk: tuple[int, int, int]
    sms: int
    cluster: tuple[int, int]
    kernel: str = "umma_gemm"
    columns: int | None = None
    stages: int | None = None

    def spec(self, multiprocessors: int = 148) -> LaunchSpec:
        """The launch on a GPU with so many SMs. Errors: SpecError, for more stages than fit."""
        if self.kernel == "umma_gemm":
            return umma_gemm.gemm_spec(self.mnk, sms=self.sms, cluster=self.cluster)
        choices: dict[str, Any] = {}
        if self.kernel == "umma_scheduled":
            choices = {"columns": self.columns, "stages": self.stages}
        elif self.kernel in STAYING:
            choices = {"pairs": multiprocessors // self.sms}
        launch: LaunchSpec = kernel_module(self.kernel).spec(*self.mnk, sms=self.sms, **choices)
        return launch

    def __str__(self) -> str:
        way = f"{self.sms} SM{'' if self.sms == 1 else 's'}, cluster {'x'.join(map(str, self.cluster))}"
        if self.kernel == "umma_gemm":
            return way
        return f"{self.kernel.removeprefix('umma_')}, {way}" + (
            f", N {self.columns}, {self.stages} stages" if self.columns else ""
        )


SIZES = (2048, 4096, 8192)
WAYS = ((1, (1, 1)), (1, (2, 1)), (1, (4, 4)), (2, (2, 1)), (2, (2, 2)), (2, (4, 2)), (2, (4, 4)))
STAYING = ("umma_persistent", "umma_classes")
"""Rungs whose pairs take the tiles in turn: as many as the GPU has room for."""
COLUMNS, STAGES = (128, 256), (3, 4, 6)
"""What `umma_scheduled` is tried with unless the command line says otherwise."""


def rungs(size: int, columns: Sequence[int] = COLUMNS, stages: Sequence[int] = STAGES) -> tuple[Case, ...]:
    """Chapter 14's rungs for a square problem; of `umma_scheduled`, whatever fits into shared memory."""
    found = []
    for sms in (1, 2):
        at = (size, size, size), sms, (sms, 1)
        found += [Case(*at, kernel) for kernel in ("umma_store", *STAYING)]
        for case in (Case(*at, "umma_scheduled", n, depth) for n in columns for depth in stages):
            try:
                case.spec()
            except SpecError:
                continue
            found.append(case)
    return tuple(found)


def cases(columns: Sequence[int] = COLUMNS, stages: Sequence[int] = STAGES) -> tuple[Case, ...]:
    """Everything that is measured: chapter 13's kernel, then chapter 14's rungs, size by size."""
    return tuple(
        case
        for size in SIZES
        for case in (
            *(Case((size, size, size), sms, cluster) for sms, cluster in WAYS),
            *rungs(size, columns, stages),
        )
    )


def flops(mnk: Sequence[int]) -> int:
    """Multiplications and additions of a product."""
    m, n, k = mnk
    return 2 * m * n * k


def bounds(
    mnk: Sequence[int],
    multiprocessors: int,
    clock_hz: float,
    bytes_per_second: float | None,
    result_bytes: int = 4,
) -> dict[str, float | None]:
    """The TFLOP/s that the tensor cores and the memory allow; None for a memory of unknown speed.

    result_bytes  of an element of the result: 4 for f32, 2 for bf16.
    """
    m, n, k = mnk
    moved = 2 * (m * k + n * k) + result_bytes * m * n
    return {
        "tensor_cores": multiprocessors * clock_hz * FLOPS_PER_CYCLE / 1e12,
        "memory": None if not bytes_per_second else flops(mnk) / (moved / bytes_per_second) / 1e12,
    }


def operands(mnk: Sequence[int], seed: int = 0) -> tuple[Array, Array]:
    """A (M, K) and B (N, K) of whole numbers; a sum of K products is exact in f32 up to K = 2^18."""
    m, n, k = mnk
    random = np.random.default_rng(seed)
    a, b = (random.integers(-8, 8, (rows, k), np.int8, endpoint=True).astype(np.float16) for rows in (m, n))
    return a, b


def check(case: Case, a: Array, b: Array, c: Array, seed: int = 0) -> int:
    """Compare a row of each tile of C with NumPy's; how many rows that were. Errors: WrongProductError.

    c  f32, or the codes of bf16; then the sums are rounded once.
    """
    random = np.random.default_rng(seed)
    starts = np.arange(0, case.mnk[0], TILE_ROWS)
    rows = np.minimum(starts + random.integers(0, TILE_ROWS, len(starts)), case.mnk[0] - 1)
    wanted = a[rows].astype(np.float32) @ b.astype(np.float32).T
    got = c[rows]
    if c.dtype == np.uint16:
        got, wanted = decode(got, "bf16"), decode(encode(wanted, "bf16"), "bf16")
    wrong = np.argwhere(got != wanted)
    if len(wrong):
        row, column = rows[wrong[0][0]], wrong[0][1]
        raise WrongProductError(
            f"{case}, {'x'.join(map(str, case.mnk))}: C[{row},{column}] is {got[tuple(wrong[0])]}, not "
            f"{wanted[tuple(wrong[0])]}; {len(wrong)} of {wanted.size} compared elements differ."
        )
    return len(rows)


def no_result(spec: LaunchSpec) -> Array:
    """The array for a launch's result, filled with NaN: f32, or the codes of bf16."""
    result = spec.tensors[2]
    nan = np.array([np.nan], np.float32)
    return np.full(result.extents, nan[0] if result.dtype.name == "f32" else encode(nan, "bf16")[0])


def timed(
    spec: LaunchSpec, gpu: runtime.Device, a: Array, b: Array, repeats: int
) -> tuple[Array, list[float]]:
    """Run the kernel on the GPU that many times; C and the seconds of each launch."""
    compiled = runtime.compile(spec, target=TARGETS[gpu.compute_capability])
    c = no_result(spec)
    arguments = [
        runtime.MappedArray(param.argument, param.encoding, array)
        if isinstance(param, TensorMapSpec)
        else array
        for param, array in zip(spec.params, (a, b, c), strict=True)
    ]
    with runtime.GpuKernel(
        compiled.ptx, compiled.entry, ordinal=gpu.ordinal, dynamic_smem=spec.dynamic_smem
    ) as kernel:
        spent = kernel.launch(
            arguments, grid=spec.grid, block=spec.block, cluster=spec.cluster, repeat=repeats
        )
    return c, spent


def cublas(gpu: runtime.Device, a: Array, b: Array, repeats: int) -> float | None:
    """Seconds of PyTorch's product, the least of the repeats; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    spent = []
    with torch.cuda.device(gpu.ordinal):
        left, right = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda().T
        torch.mm(left, right)  # loads cuBLAS, and lets it choose its kernel
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.mm(left, right)
            end.record()
            end.synchronize()
            spent.append(begin.elapsed_time(end) / 1e3)
    return min(spent)


def clocks(ordinal: int) -> tuple[float, float | None]:
    """The SMs' highest clock in Hz, and the memory's bytes a second if the driver tells them."""
    from cuda.bindings import driver as cuda

    names = cuda.CUdevice_attribute
    handle = cuda.cuDeviceGet(ordinal)[1]

    def read(name: Any) -> int:
        return int(cuda.cuDeviceGetAttribute(name, handle)[1])

    memory_hz = 1e3 * read(names.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
    width = read(names.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
    speed = 2 * memory_hz * width / 8  # data at both edges of the clock
    return 1e3 * read(names.CU_DEVICE_ATTRIBUTE_CLOCK_RATE), speed or None


def measure(
    gpu: runtime.Device,
    cases: Sequence[Case],
    *,
    time: Callable[..., tuple[Array, list[float]]] = timed,
    library: Callable[[runtime.Device, Array, Array, int], float | None] = cublas,
    speeds: Callable[[int], tuple[float, float | None]] = clocks,
    repeats: int = REPEATS,
) -> list[dict[str, Any]]:
    """One row for each case, checked. Errors: WrongProductError."""
    clock_hz, bytes_per_second = speeds(gpu.ordinal)
    rows = []
    theirs: dict[tuple[int, int, int], float | None] = {}
    for case in cases:
        a, b = operands(case.mnk)
        c, spent = time(case.spec(gpu.multiprocessors), gpu, a, b, repeats)
        checked = check(case, a, b, c)
        if case.mnk not in theirs:
            theirs[case.mnk] = library(gpu, a, b, repeats)
        limits = bounds(case.mnk, gpu.multiprocessors, clock_hz, bytes_per_second, c.itemsize)
        limit = min(value for value in limits.values() if value is not None)
        other = theirs[case.mnk]
        speed = flops(case.mnk) / min(spent) / 1e12
        rows.append(
            {
                **asdict(case),
                "seconds": min(spent),
                "tflops": speed,
                "bound_tflops": limits,
                "of_bound": speed / limit,
                "cublas_tflops": None if other is None else flops(case.mnk) / other / 1e12,
                "rows_checked": checked,
            }
        )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """TFLOP/s, a line for each case."""
    lines = [f"{'M x N x K':<20}{'way':<52}{'TFLOP/s':>9}{'of bound':>10}{'cuBLAS':>9}"]
    for row in rows:
        way = Case(**{field.name: row[field.name] for field in fields(Case)})
        library = "-" if row["cublas_tflops"] is None else f"{row['cublas_tflops']:.1f}"
        size = " x ".join(map(str, row["mnk"]))
        lines.append(f"{size:<20}{way!s:<52}{row['tflops']:>9.1f}{row['of_bound']:>10.1%}{library:>9}")
    return "\n".join(lines)


def blackwell(found: runtime.Discovery) -> runtime.Device | str:
    """The first GPU that has tcgen05, or why there is none."""
    for gpu in found.devices:
        if gpu.compute_capability in TARGETS:
            return gpu
    have = ", ".join(f"{gpu.name} ({'.'.join(map(str, gpu.compute_capability))})" for gpu in found.devices)
    needs = "it needs a GPU of compute capability 10.0 or 10.3"
    return f"{needs}, and this machine has {have or f'none: {found.reason}'}"


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--n", nargs="+", type=int, choices=(64, 128, 192, 256), default=COLUMNS, metavar="N")
    parser.add_argument("--stages", nargs="+", type=int, default=STAGES, metavar="STAGES")
    options = parser.parse_args(arguments)
    chosen = cases(options.n, options.stages)
    for stages in options.stages:
        if stages < 1:
            parser.error(f"--stages {stages}: a kernel has at least one stage.")
        if all(case.stages != stages for case in chosen):
            parser.error(f"--stages {stages}: shared memory has no room for it with N {options.n}.")
    found = runtime.discover()
    gpu = blackwell(found)
    if isinstance(gpu, str):
        print(f"umma_throughput: left out, {gpu}.", file=sys.stderr)
        return SKIPPED
    result = result_of(gpu, found.driver, measure(gpu, chosen))
    output = options.output or result_path("umma_throughput", gpu.name)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result["rows"]))
    print(f"written: {output}")
    return 0


def result_of(gpu: runtime.Device, driver: str | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a measurement: the machine, how it was measured, and its rows."""
    return {
        "recorded": {
            **of_this_machine(),
            "compute_capability": list(gpu.compute_capability),
            "multiprocessors": gpu.multiprocessors,
            "driver_cuda": driver,
        },
        "method": {
            "repeats": REPEATS,
            "takes": "least of the repeats",
            "flops_per_cycle_of_an_sm": FLOPS_PER_CYCLE,
        },
        "rows": rows,
    }


if __name__ == "__main__":
    sys.exit(main())
