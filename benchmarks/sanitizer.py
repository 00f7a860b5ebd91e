"""What compute-sanitizer says of kernels that are wrong on purpose, beside what the emulator says of them.

    python -m benchmarks.sanitizer              runs on this machine's GPU; writes
                                                benchmarks/results/sanitizer_<gpu>.json
    python -m benchmarks.sanitizer --output F   writes F
    python -m benchmarks.sanitizer --only K ... some of the kernels; kept only with --output FILE
    python -m benchmarks.sanitizer --seconds S  starts no further process after S seconds

Every kernel of `benchmarks.sanitizer_kernels`, right and with each of its faults, runs once without a tool
and once under each of the four. Each of these runs is a process of its own with a time limit, since a fault
ends the process's use of the GPU and a wrong barrier may wait forever. A tool's report is kept in its own
words; lines are those of the PTX text, which goes to the driver with `.loc` directives that name them.

The emulator's verdicts are not kept: `emulated` gives them on any machine, `benchmarks.sanitizer_table` puts
them beside the recorded ones.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results_file import result_path
from benchmarks.sanitizer_kernels import KERNELS, RIGHT, Kernel
from cutecourse import runtime
from cutecourse.emulator import EmulatorError
from cutecourse.emulator.errors import BudgetExceeded
from cutecourse.ptx import parse
from cutecourse.ptx.scopes import flatten
from cutecourse.runtime.arguments import flat_arguments
from tools.facts import of_this_machine

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PLAIN = "no tool"
LIMIT_S = 25
REPORTED = 86
"""The exit status that a tool is asked to give where it has reported something."""
SEEDS = range(4)
_TOOLKIT = "/usr/local/cuda/bin"

_OPTIONS = (
    ("--error-exitcode", str(REPORTED)),
    ("--report-api-errors", "no"),
    ("--racecheck-report", "all"),
    ("--target-processes", "application-only"),
)
_PLACE = re.compile(
    r" at (?:__\w+__ 0x[0-9a-f]+ in block \([\d,]+\) ?:?"
    r"|(?:0x[0-9a-f]+ in )?\S*\+0x[0-9a-f]+(?: in [^\s:]+:\d+:?)?)"
)
_NO_REPORT = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Target application returned",
    "Error: process didn't terminate successfully",
    "Error: Target application terminated",
    "Program hit",
    "Saved host backtrace",
    "Host Frame",
)


# --- the emulator -------------------------------------------------------------------------------------------


def emulated(kernel: Kernel, fault: str) -> tuple[str, int | None]:
    """The class of what the emulator reports of a launch under any of the seeds, and its PTX line.

    "" where it reports nothing; "wrong result" where it reports nothing and the result is wrong.
    """
    spec = kernel.launch(fault)
    silent = ""
    for seed in SEEDS:
        given = kernel.arrays()
        try:
            run = runtime.run(spec, device="emulator", seed=seed, **given)
        except BudgetExceeded as error:
            return type(error).__name__, None
        except EmulatorError as error:
            return type(error).__name__, error.line
        assert run.emulated is not None
        for note in run.emulated.notes:
            if note.severity == "warning":
                return note.hazard.error, note.line
        if not _correct(kernel, given, run.arrays):
            silent = "wrong result"
    return silent, None


def _correct(kernel: Kernel, given: dict[str, Any], found: dict[str, Any]) -> bool:
    return all(np.array_equal(found[name], value) for name, value in kernel.expected(given).items())


# --- one run on the GPU -------------------------------------------------------------------------------------


def lined(ptx: str, name: str) -> str:
    r"""The text with a `.loc` before each instruction: the driver's line table then has the text's lines.

    >>> print(lined(".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n ret;\n}", "k"))
    .version 8.0
    .target sm_80
    .address_size 64
    .file 1 "k.ptx"
    .entry k()
    {
    .loc 1 6 1
     ret;
    }
    """
    module = parse(ptx)
    lines = {
        one.line for function in module.entries.values() for one in flatten(module, function).instructions
    }
    text = []
    for number, line in enumerate(ptx.split("\n"), 1):
        if number in lines:
            text.append(f".loc 1 {number} 1")
        text.append(line)
        if line.startswith(".address_size"):
            text.append(f'.file 1 "{name}.ptx"')
    return "\n".join(text)


class LinedKernel(runtime.GpuKernel):
    """A kernel whose module is loaded with the lines of its text."""

    def _load(self, ptx: str) -> Any:
        option = self._driver.CUjit_option.CU_JIT_GENERATE_LINE_INFO
        text = lined(ptx, self._entry).encode() + b"\0"
        status, module = self._driver.cuModuleLoadDataEx(text, 1, [option], [1])
        return module if status == self._driver.CUresult.CUDA_SUCCESS else super()._load(ptx)


def one(kernel: Kernel, fault: str) -> dict[str, str]:
    """Run a launch on the GPU in this process: its state is "right", "wrong" or "error"."""
    spec = kernel.launch(fault)
    given = kernel.arrays()
    bound = runtime.bind(spec, given)
    try:
        with LinedKernel(str(spec.ptx), str(spec.entry)) as loaded:
            loaded.launch(flat_arguments(spec, bound), grid=spec.grid, block=spec.block, cluster=spec.cluster)
    except runtime.GpuError as error:
        words = re.search(r"CUDA_ERROR_\w+", str(error))
        return {"state": "error", "words": words[0] if words else str(error).splitlines()[0]}
    found = {name: value.logical() for name, value in bound.items() if isinstance(value, runtime.Bound)}
    return {"state": "right" if _correct(kernel, given, found) else "wrong", "words": ""}


# --- a tool's words -----------------------------------------------------------------------------------------


def reports(text: str) -> list[list[str]]:
    """A tool's reports: each its heading and the lines below it that say more."""
    found: list[list[str]] = []
    current: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        said = line[len("=========") :]
        if not said.strip():
            continue
        if said.startswith("  "):
            if current is not None and not said.strip().startswith(_NO_REPORT):
                current.append(said.strip())
            continue
        current = None
        if not said.strip().startswith(_NO_REPORT):
            current = [said.strip()]
            found.append(current)
    return found


def category(heading: str) -> str:
    """A report's heading without the places that it names.

    >>> category("Error: Race reported between Write access at k+0x90 in k.ptx:9 and Read access at k+0xd0")
    'Error: Race reported between Write access and Read access'
    >>> category("Error: Potential RAW hazard detected at __shared__ 0x47c in block (0,0,0) :")
    'Error: Potential RAW hazard detected'
    """
    return _PLACE.sub("", heading).strip()


def verdict(text: str, status: int | None, entry: str) -> dict[str, Any]:
    """What a tool said: "reports" with its words and PTX lines, "silent", or "failed" with the reason.

    `status` is None where the process was ended at its limit; what it had reported until then counts.
    """
    found = reports(text)
    failure = next((one[0] for one in found if re.search(r"nternal|not supported|No attachable", one[0])), "")
    if found and not failure:
        said = list(dict.fromkeys(category(one[0]) for one in found))
        lines = re.findall(re.escape(entry) + r"\.ptx:(\d+)", " ".join(found[0]))
        return {
            "state": "reports",
            "words": "; ".join(said[:3]),
            "lines": list(dict.fromkeys(map(int, lines))),
            "count": len(found),
            "text": found[0][:5],
        }
    if status is None:
        return {"state": "failed", "words": f"did not end within {LIMIT_S} s"}
    if failure or "COMPUTE-SANITIZER" not in text:
        last = text.strip().splitlines() or ["no output"]
        return {"state": "failed", "words": failure or last[-1][:160]}
    if status == REPORTED:
        return {"state": "reports", "words": "(no words)", "lines": [], "count": 0, "text": []}
    return {"state": "silent", "words": ""}


def limited(command: Sequence[str], limit_s: float) -> tuple[str, int | None]:
    """A command's output and exit status; its whole process group is ended at the limit (status None)."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        text, _ = process.communicate(timeout=limit_s)
        return text, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return text, None


def observe(sanitizer: str, options: Sequence[str], kernel: str, fault: str, tool: str) -> dict[str, Any]:
    """One launch under one tool, or none, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sanitizer", "--one", kernel, fault]
    start = time.monotonic()
    if tool != PLAIN:
        command = [sanitizer, "--tool", tool, *options, *command]
    text, status = limited(command, LIMIT_S)
    if tool != PLAIN:
        answer = verdict(text, status, str(KERNELS[kernel].spec.entry))
    else:
        said = [line for line in text.splitlines() if line.startswith("{")]
        if said:
            answer = json.loads(said[-1])
        else:
            last = text.strip().splitlines() or ["no output"]
            answer = {
                "state": "error",
                "words": f"did not end within {LIMIT_S} s" if status is None else last[-1][:160],
            }
    return {**answer, "seconds": round(time.monotonic() - start, 1)}


def known_options(sanitizer: str) -> list[str]:
    """Those of the options that this version has, as its help says."""
    text, _ = limited([sanitizer, "--help"], LIMIT_S)
    return [word for name, value in _OPTIONS if name in text for word in (name, value)]


def version(sanitizer: str) -> str:
    """What the sanitizer calls itself."""
    text, _ = limited([sanitizer, "--version"], LIMIT_S)
    found = re.search(r"[Vv]ersion\s+(\S+)", text)
    return found[1] if found else (text.strip().splitlines() or ["unknown"])[-1]


# --- all of them --------------------------------------------------------------------------------------------


def launches() -> list[tuple[str, str]]:
    """Every kernel's name with every fault's, right ones first."""
    every = [(kernel.name, fault.name) for kernel in KERNELS.values() for fault in kernel.faults]
    return [(name, RIGHT) for name in KERNELS] + every


def measure(sanitizer: str, seconds: float, workers: int, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every launch under every tool. A run for which there was no time is missing from its row."""
    end = time.monotonic() + seconds
    options = known_options(sanitizer)
    chosen = [(kernel, fault) for kernel, fault in launches() if not only or kernel in only]
    rows: dict[tuple[str, str], dict[str, Any]] = {
        (kernel, fault): {"kernel": kernel, "fault": fault, "runs": {}} for kernel, fault in chosen
    }

    def work(job: tuple[str, str, str]) -> None:
        kernel, fault, tool = job
        if time.monotonic() < end:
            found = observe(sanitizer, options, kernel, fault, tool)
            rows[kernel, fault]["runs"][tool] = found
            print(f"{kernel:22}{fault:26}{tool:10} {found['state']:8} {found['words'][:100]}", flush=True)

    jobs = [(kernel, fault, tool) for kernel, fault in chosen for tool in (PLAIN, *TOOLS)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, jobs))
    for row in rows.values():
        row["runs"] = {tool: row["runs"][tool] for tool in (PLAIN, *TOOLS) if tool in row["runs"]}
    return list(rows.values())


def main(given: list[str] | None = None) -> int:
    """Run every launch under every tool, and write what they said."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=220)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4))
    parser.add_argument("--only", nargs="+", default=[], choices=[*KERNELS], metavar="KERNEL")
    installed = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=_TOOLKIT)
    parser.add_argument("--sanitizer", default=installed)
    parser.add_argument("--one", nargs=2, metavar=("KERNEL", "FAULT"), help="one launch, in this process")
    options = parser.parse_args(given)
    if options.one:
        kernel, fault = options.one
        print(json.dumps(one(KERNELS[kernel], fault)))
        return 0
    found = runtime.discover()
    if not found.devices:
        print(f"sanitizer: needs a GPU; {found.reason}.", file=sys.stderr)
        return 1
    if not options.sanitizer:
        print(
            "sanitizer: there is no compute-sanitizer on the PATH; --sanitizer says where.", file=sys.stderr
        )
        return 1
    recorded = {**of_this_machine(), "compute_sanitizer": version(options.sanitizer)}
    rows = measure(options.sanitizer, options.seconds, options.workers, options.only)
    output = options.output or (None if options.only else result_path("sanitizer", found.devices[0].name))
    if output:  # a part is not what the pages read
        output.parent.mkdir(parents=True, exist_ok=True)
        body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        head = json.dumps({"recorded": recorded}, indent=1)[:-2]
        output.write_text(f'{head},\n "rows": [\n{body}\n ]\n}}\n', encoding="utf-8")
    missing = sum(len(TOOLS) + 1 - len(row["runs"]) for row in rows)
    print(f"{len(rows)} launches; {missing} runs had no time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
