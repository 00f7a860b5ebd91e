"""Time the emulated tcgen05 GEMM on this machine's CPU.

    python -m benchmarks.emulator_umma               writes benchmarks/results/emulator_umma.json
    python -m benchmarks.emulator_umma --before DIR  times another checkout's library as well, in turns
    python -m benchmarks.emulator_umma --cases N ... some of the cases; kept only with --output FILE
    python -m benchmarks.emulator_umma --output F    writes F
    python -m benchmarks.emulator_umma --turns NAME ... --before DIR
                                                     adds the times of kernels' launches in turns; `all`
                                                     stands for all kernels that both libraries have

The kernel is `cutecourse.kernels.umma_gemm` with two SMs for an MMA, f16 in and f32 sums, of normally
distributed numbers; its product is compared with NumPy's before a time counts. What is timed is the launch on
the emulator, with every check that it makes and without a trace; the kernel is compiled before. Each case
runs in processes of its own, one at a time: after one launch that loads the instructions' modules, which the
largest case goes without, `repeats` are timed, and of all processes' times the median is taken. `cpu` is the
processor's time for the same launches. The system's load average is noted at each start, since what else
runs on the machine shows in the times.

`peak_mb_above_tensors` is the largest resident size of the process while the emulator runs, interpreter and
compilers included, less the bytes of A, B, C and the product to compare with; `before_launch_mb` is its size
before the first launch. A long launch may take copies of the process to help: `processes` counts them all,
`cpu` has their time as well, and `copy_mb` is the size of the largest copy, which has most of its memory in
common with the process.

`turns` is for a busy machine, and for differences of a few percent. Two processes, one for each library, run
the kernel's twin in turns, launch by launch. What counts is the processor's time of each: the least of all,
and the median of the quotients of two launches that follow one another. Each process has its own layout of
memory, which changes the quotient by up to 5 %, so the median of several pairs of processes is taken.
`same_text` says whether both libraries have the same twin of the kernel; otherwise they do not do the same.
With `--jobs` several kernels are timed at once, on a machine with enough cores.

`profile` names, for one launch of the second case, the functions in which the processor spends most time by
itself, each with its share, as Python's profiler sees it: that is what remains to be made faster.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import os
import pstats
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gemm_timing import Size, ask, check, operands
from benchmarks.results_file import result_path, write_result
from tools.facts import of_this_machine
from tools.paths import ROOT


@dataclass(frozen=True)
class Case:
    """One problem: sizes, the cluster's CTAs along M and N, and how often each process times it."""

    mnk: Size
    cluster: tuple[int, int]
    repeats: int
    warm: bool = True

    @property
    def name(self) -> str:
        """Such as "512x1024x256 4x4"."""
        return f"{'x'.join(map(str, self.mnk))} {'x'.join(map(str, self.cluster))}"


CASES = (
    Case((512, 512, 256), (2, 1), 7),
    Case((512, 1024, 256), (4, 4), 7),
    Case((1024, 1024, 1024), (4, 4), 3),
    Case((2048, 2048, 2048), (4, 4), 1, warm=False),
)
ROUNDS = 3


# --- in a process of its own --------------------------------------------------------------------------------


def resident_mb(field: str) -> float:
    """A size of this process in MB, as Linux tells it: VmRSS now, VmHWM the largest so far."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"the system tells no {field} of a process")


def _cpu() -> float:
    """Seconds of the processor's time that this process and the copies that have ended have had."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _library() -> str:
    """The folder of the library that this process has."""
    import cutecourse

    return str(Path(cutecourse.__file__).resolve().parents[1])


def emulate(case: Case) -> dict[str, Any]:
    """Times and sizes of one process."""
    from cutecourse import runtime
    from cutecourse.kernels import umma_gemm

    os.environ["CUTECOURSE_CACHE"] = "off"  # the compile is timed too
    spec = umma_gemm.gemm_spec(case.mnk, cluster=case.cluster)
    compiled = runtime.compile(spec)
    a, b, expected = operands(case.mnk)
    c = np.zeros(expected.shape, np.float32)
    load = os.getloadavg()[0]
    before = resident_mb("VmRSS")
    seconds, cpu = [], []
    instructions, processes, peak = 0, 1, 0.0
    for repeat in range(case.warm + case.repeats):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the largest size starts anew
        start = _cpu()
        done = runtime.run(spec, device="emulator", a=a, b=b, c=c)
        if repeat >= case.warm:
            cpu.append(_cpu() - start)
            seconds.append(done.record.run_s)
        peak = max(peak, resident_mb("VmHWM"))  # before the check, which has arrays of its own
        check(case.name, done["c"], expected, case.mnk[2])
        if done.emulated:
            instructions = done.emulated.total
            processes = getattr(done.emulated, "processes", 1)  # of another checkout there may be none
        del done
    tensors = (a.nbytes + b.nbytes + c.nbytes) / 1e6
    return {
        "library": _library(),
        "compile_s": compiled.seconds,
        "seconds": seconds,
        "cpu": cpu,
        "instructions": instructions,
        "processes": processes,
        "tensors_mb": tensors,
        "before_launch_mb": before,
        "copy_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
        if processes > 1
        else 0.0,
        "peak_mb_above_tensors": peak - tensors - expected.nbytes / 1e6,
        "load": load,
    }


def profile(case: Case, most: int = 25) -> list[dict[str, Any]]:
    """The functions of one launch by the time that each takes by itself, the longest first."""
    from cutecourse import runtime
    from cutecourse.kernels import umma_gemm

    spec = umma_gemm.gemm_spec(case.mnk, cluster=case.cluster)
    a, b, expected = operands(case.mnk)
    c = np.zeros(expected.shape, np.float32)
    profiler = cProfile.Profile()
    runtime.run(spec, device="emulator", a=a, b=b, c=c)
    profiler.runcall(runtime.run, spec, device="emulator", a=a, b=b, c=c)
    stats = pstats.Stats(profiler)
    rows = [
        {
            "function": f"{Path(file).stem}.{name}:{number}" if number else name,
            "calls": calls,
            "share": round(own / stats.total_tt, 3),
        }
        for (file, number, name), (_, calls, own, _, _) in stats.stats.items()
    ]
    return sorted(rows, key=lambda row: -row["share"])[:most]


def serve(name: str) -> None:
    """Print the library's folder and a digest of a kernel's twin; then launch it once per line of the input.

    The time of each launch is printed.
    """
    from cutecourse import runtime
    from cutecourse.dtypes import encode
    from cutecourse.kernels import twin

    # An older library may have no `kernel_module`.
    spec = twin(getattr(__import__("cutecourse.kernels", fromlist=[name]), name))
    text = runtime.compile(spec).ptx
    print(_library(), hashlib.sha256(text.encode()).hexdigest(), flush=True)
    random = np.random.default_rng(0)
    arrays = {
        one.argument: encode(random.standard_normal([extent or 1 for extent in one.extents]), one.dtype)
        for one in spec.tensors
    }
    runtime.run(spec, device="emulator", **arrays)
    for _ in sys.stdin:
        start = time.process_time()
        runtime.run(spec, device="emulator", **arrays)
        print(time.process_time() - start, flush=True)


# --- one process after the other ----------------------------------------------------------------------------


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several processes with one case."""
    seconds = [time for run in runs for time in run["seconds"]]
    return {
        "median_s": statistics.median(seconds),
        "seconds": seconds,
        "cpu_median_s": statistics.median(time for run in runs for time in run["cpu"]),
        "compile_s": statistics.median(run["compile_s"] for run in runs),
        "instructions": runs[0]["instructions"],
        "processes": max(run["processes"] for run in runs),
        "peak_mb_above_tensors": max(run["peak_mb_above_tensors"] for run in runs),
        "before_launch_mb": max(run["before_launch_mb"] for run in runs),
        "copy_mb": max(run["copy_mb"] for run in runs),
        "load": [run["load"] for run in runs],
    }


def _refuse_another(timed: str, library: Path) -> None:
    """Errors: RuntimeError if a process has timed another library than this one."""
    if Path(timed) != library.resolve():
        raise RuntimeError(f"{timed or 'no library'} was timed, not {library}")


def measure(cases: list[int], rounds: int, before: Path | None) -> list[dict[str, Any]]:
    """One row for each case; the libraries take turns."""
    libraries = {"after": ROOT / "lib"} | ({"before": before / "lib"} if before else {})
    rows = []
    for number in cases:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in libraries}
        for _ in range(rounds):
            for name, library in libraries.items():
                run = ask("benchmarks.emulator_umma", "--case", str(number), library=library)
                _refuse_another(run["library"], library)
                runs[name].append(run)
        row = {"case": CASES[number].name, "tensors_mb": runs["after"][0]["tensors_mb"]}
        row |= {name: summary(found) for name, found in runs.items()}
        print(line(row), flush=True)
        rows.append(row)
    return rows


def in_turns(name: str, count: int, before: Path, pairs: int = 8) -> dict[str, Any]:
    """The times of a kernel's launches by this library and another one, in turns. Errors: RuntimeError.

    count  launches of each library in each of `pairs` pairs of processes
    """
    least, quotients, same = [], [], True
    for _ in range(pairs):
        times, same = _pair_in_turns(name, count, before)
        least.append([min(of_library) for of_library in times])
        quotients.append(statistics.median(after / earlier for earlier, after in zip(*times, strict=True)))
    before_s, after_s = (min(of_library) for of_library in zip(*least, strict=True))
    return {
        "before_s": before_s,
        "after_s": after_s,
        "after_by_before": round(statistics.median(quotients), 3),
        "of_each_pair": sorted(round(quotient, 3) for quotient in quotients),
        "launches": count,
        "same_text": same,
    }


def _pair_in_turns(name: str, count: int, before: Path) -> tuple[list[list[float]], bool]:
    """The seconds of each launch in two processes, of the other library and of this one; if texts agree."""
    times: list[list[float]] = [[], []]
    command = [sys.executable, "-m", "benchmarks.emulator_umma", "--serve", name]
    with ExitStack() as running:
        workers, texts = [], set()
        for library in (before / "lib", ROOT / "lib"):
            path = os.pathsep.join((str(library), str(ROOT)))
            worker = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.enter_context(worker)
            assert worker.stdin is not None
            assert worker.stdout is not None
            found, _, text = worker.stdout.readline().rstrip("\n").rpartition(" ")
            _refuse_another(found, library)
            texts.add(text)
            workers.append((worker.stdin, worker.stdout))
        for turn in range(count):
            for number in (0, 1) if turn % 2 else (1, 0):
                asked, said = workers[number]
                print(file=asked, flush=True)
                times[number].append(float(said.readline()))
    return times, len(texts) == 1


def kernels_of_both(before: Path) -> list[str]:
    """The kernels with a twin and an array that both libraries have."""
    twins = sorted((ROOT / "lib" / "cutecourse" / "kernels").rglob("twin.ptx"))
    names = " ".join(twin.parent.name for twin in twins)
    for library in (before / "lib", ROOT / "lib"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.emulator_umma", "--known", *names.split()],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((str(library), str(ROOT)))},
            capture_output=True,
            text=True,
            check=True,
        )
        names = done.stdout
    return names.split()


def known(names: list[str]) -> Iterator[str]:
    """Those kernels that this process's library has, with a twin whose arguments are arrays."""
    from cutecourse.kernels import twin
    from cutecourse.kernels.files import SpecError

    for name in names:
        try:
            spec = twin(getattr(__import__("cutecourse.kernels", fromlist=[name]), name))
        except (AttributeError, ImportError, LookupError, SpecError):
            continue
        if getattr(spec, "tensors", None):
            yield name


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    shown = [f"{row['case']:24}"]
    for name in ("before", "after"):
        if name in row:
            found = row[name]
            shown.append(
                f"{name} {found['median_s']:6.3f} s (cpu {found['cpu_median_s']:6.3f} s,"
                f" {found['peak_mb_above_tensors']:4.0f} MB above the tensors)"
            )
    return "  ".join(shown)


def commit_of(checkout: Path) -> str:
    """The commit that a checkout is at."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()[:12]


def main(given: list[str] | None = None) -> int:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, help="where the result goes")
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="a checkout of the library to compare with"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes for each case and library")
    every = range(len(CASES))
    parser.add_argument("--cases", type=int, nargs="+", choices=every, default=list(every), help="by number")
    parser.add_argument("--turns", metavar="NAME", nargs="+", help="kernels with a twin, launched in turns")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at once, for --turns (default: 1)")
    parser.add_argument("--launches", type=int, default=14, help="for --turns (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=8, help="of processes, for --turns (default: 8)")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--known", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.case is not None:
        print(json.dumps(emulate(CASES[options.case])))
        return 0
    if options.serve is not None:
        serve(options.serve)
        return 0
    if options.known is not None:
        print(*known(options.known))
        return 0
    path = result_path("emulator_umma")
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    facts = of_this_machine() | ({"before": commit_of(options.before)} if options.before else {})
    if options.turns is not None:
        if options.before is None:
            parser.error("--turns compares with another library: say with --before where it is")
        names = kernels_of_both(options.before) if options.turns == ["all"] else options.turns
        turns = kept.get("turns", {})
        with ThreadPoolExecutor(options.jobs) as pool:
            work = partial(in_turns, count=options.launches, before=options.before, pairs=options.pairs)
            for name, found in zip(names, pool.map(work, names), strict=True):
                print(f"{name:<28} {found['after_by_before']:.3f}  {found['after_s']:.4f} s", flush=True)
                turns[name] = {"recorded": facts, **found}
        write_result(kept | {"turns": dict(sorted(turns.items()))}, options.output or path)
        return 0
    rows = measure(options.cases, options.rounds, options.before)
    for row in rows:
        m, n, k = (int(extent) for extent in row["case"].split()[0].split("x"))
        row["multiply_adds_per_s"] = m * n * k / row["after"]["median_s"]
    result = {
        "recorded": facts,
        "method": {"rounds": options.rounds, "takes": "median", "python": sys.version.split()[0]},
        "rows": rows,
        "turns": kept.get("turns", {}),
        "profile": {"case": CASES[1].name, "functions": profile(CASES[1])},
    }
    whole = set(options.cases) == set(every)
    write_result(result, options.output or (path if whole else None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
