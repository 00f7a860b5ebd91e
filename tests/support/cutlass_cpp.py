"""Compile small programs against CUTLASS's headers for the host, and keep what they print as data.

It needs nvcc (any CUDA 12 or 13; only its host compiler is used) and PyPI's `nvidia-cutlass`, which carries
the headers. Nothing here imports `cutecourse`: an oracle sharing its code would share its mistakes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def include_folder() -> Path:
    """Where PyPI's nvidia-cutlass keeps CUTLASS's headers. Errors: LookupError where it is missing."""
    spec = find_spec("cutlass_library")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "source" / "include"
        if folder.is_dir():
            return folder
    raise LookupError("CUTLASS's headers are missing: install nvidia-cutlass, as in requirements/all.txt")


class RefusedError(Exception):
    """Some calls of a unit do not compile: their positions, each with the reason that the compiler gives."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


def refusals(messages: str, lines_before: int) -> dict[int, str]:
    """Which calls of a unit the compiler refuses, and the first reason it gives for each."""
    reasons: dict[int, str] = {}
    position: int | None = None
    for line in messages.splitlines():
        where = re.search(r"unit\.cu:(\d+):\d+: +required from here", line)
        if where:
            position = int(where.group(1)) - lines_before - 1
        error = re.search(r"error: (?:static assertion failed(?:: )?)?(.*)", line)
        if error and position is not None:
            reasons.setdefault(position, error.group(1))
    if not reasons:
        raise RuntimeError(messages[-3000:])
    return reasons


def read_flat(printed: str) -> dict[str, Case]:
    """The printed lines as one mapping a case; a key that comes again becomes a list."""
    answers: dict[str, Case] = {}
    current: Case = {}
    for line in printed.splitlines():
        key, _, text = line.partition("\t")
        value: Any = int(text) if re.fullmatch(r"-?\d+", text) else text
        if key == "case":
            current = answers.setdefault(text, {})
        elif key in current:
            held = current[key]
            current[key] = [*(held if isinstance(held, list) else [held]), value]
        else:
            current[key] = value
    return answers


@dataclass(frozen=True)
class Program:
    """A header of ours whose functions print one case each, the data it fills, and how a case is called.

    `call` gives the C++ call of a case; each case prints `case<TAB>its name` first and `key<TAB>value` lines
    after it, which `read` makes a mapping of. `facts` stand at the head of the data.
    """

    header: Path
    data: Path
    call: Callable[[Case], str]
    cases: Callable[[], list[Case]]
    cases_a_unit: int = 14
    read: Callable[[str], dict[str, Case]] = read_flat
    facts: dict[str, Any] = field(default_factory=dict)

    def compile_and_run(self, calls: list[str], include: Path, nvcc: str) -> str:
        """Everything that a unit of these calls prints."""
        head = [f'#include "{self.header.name}"', "", "int main() {"]
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder) / "unit.cu"
            unit.write_text("\n".join([*head, *calls, "}", ""]))
            program = Path(folder) / "unit"
            # `-x c++`: everything here is host code, and the host compiler alone is several times faster.
            command = [nvcc, "-x", "c++", "-std=c++17", "-O0", "-w"]
            command += ["-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0"]
            command += ["-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", f"-I{include}"]
            command += [f"-I{self.header.parent}", "-o", str(program), str(unit)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RefusedError(refusals(done.stderr, len(head)))
            return subprocess.run([program], capture_output=True, text=True, check=True).stdout

    def answer(self, unit: list[Case], include: Path, nvcc: str) -> dict[str, Case]:
        """What one unit prints; a case that does not compile answers with the compiler's reason."""
        refused: dict[str, Case] = {}
        rest = unit
        while rest:
            try:
                return {
                    **self.read(self.compile_and_run([self.call(c) for c in rest], include, nvcc)),
                    **refused,
                }
            except RefusedError as error:
                refused |= {rest[i]["case"]: {"refused": reason} for i, reason in error.reasons.items()}
                rest = [c for c in rest if c["case"] not in refused]
        return refused

    def collect(self, include: Path, nvcc: str) -> dict[str, Any]:
        """All cases with their answers, and the version that gave them."""
        cases = self.cases()
        units = [cases[i : i + self.cases_a_unit] for i in range(0, len(cases), self.cases_a_unit)]
        answers: dict[str, Case] = {}
        with ThreadPoolExecutor(min(len(units), os.cpu_count() or 1)) as pool:
            for done, got in enumerate(pool.map(lambda unit: self.answer(unit, include, nvcc), units), 1):
                answers |= got
                print(f"{done} of {len(units)} units", file=sys.stderr, flush=True)
        return {
            "cutlass": metadata.version("nvidia-cutlass"),
            **self.facts,
            "cases": [{**c, "expect": answers[c["case"]]} for c in cases],
        }

    def main(self, description: str) -> int:
        """Write the data anew, or with --check compare it."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument(
            "--check", action="store_true", help="compare with the file instead of writing it"
        )
        arguments = parser.parse_args()
        include, nvcc = include_folder(), shutil.which("nvcc")
        if nvcc is None:
            print("needs nvcc on PATH.", file=sys.stderr)
            return 2
        text = dump(self.collect(include, nvcc))
        if arguments.check:
            same = self.data.read_text() == text
            print("the data is current" if same else "the data differs from what the headers say now")
            return 0 if same else 1
        self.data.write_text(text)
        return 0


def dump(data: dict[str, Any]) -> str:
    """JSON with one case a line, so that a change shows as a change of its lines."""
    rows = ",\n".join(f"  {json.dumps(case)}" for case in data["cases"])
    head = "".join(f" {json.dumps(k)}: {json.dumps(v)},\n" for k, v in data.items() if k != "cases")
    return f'{{\n{head} "cases": [\n{rows}\n ]\n}}\n'
