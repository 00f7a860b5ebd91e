"""The recorded verdicts of compute-sanitizer beside the emulator's, as rows and as a page's table.

python -m benchmarks.sanitizer_table      prints the table
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.results_file import RESULTS
from benchmarks.sanitizer import PLAIN, TOOLS, category, emulated
from benchmarks.sanitizer_kernels import KERNELS, RIGHT

RESULT = RESULTS / "sanitizer_h200.json"

_SILENT = "nothing"


@dataclass(frozen=True)
class Row:
    """One launch: what the GPU did by itself, what each tool said, what the emulator says."""

    kernel: str
    fault: str
    about: str
    alone: str
    """"right", "wrong result", an error of the driver, or that it never ended."""
    tools: dict[str, tuple[str, tuple[int, ...]]]
    """The words and PTX lines of each tool that reported something."""
    failed: dict[str, str]
    """The tools that could not say: why."""
    emulator: str
    """The error's class, "" for nothing."""
    line: int | None

    @property
    def emulator_reports(self) -> bool:
        """Whether the emulator reports the launch; a wrong result alone is no report."""
        return self.emulator not in ("", "wrong result")

    @property
    def same_line(self) -> bool:
        """Whether the emulator's line is one that a tool names."""
        return any(self.line in lines for _, lines in self.tools.values())


def words(said: str) -> str:
    """A tool's words without addresses, each once.

    >>> words("Error: Potential RAW hazard detected at __shared__ 0x47c in block (0,0,0) :; Missing init.")
    'Error: Potential RAW hazard detected; Missing init.'
    """
    return "; ".join(dict.fromkeys(category(part) for part in said.split("; ")))


@cache
def rows(path: Path = RESULT) -> tuple[Row, ...]:
    """Every recorded launch, with what the emulator says of it now."""
    return tuple(_rows(path))


def _rows(path: Path) -> Iterator[Row]:
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        kernel, fault, runs = KERNELS[row["kernel"]], row["fault"], row["runs"]
        about = next((one.about for one in kernel.faults if one.name == fault), kernel.about)
        said, line = emulated(kernel, fault)
        yield Row(
            kernel.name,
            fault,
            about,
            _alone(runs[PLAIN]),
            {
                tool: (words(runs[tool]["words"]), tuple(runs[tool]["lines"]))
                for tool in TOOLS
                if runs[tool]["state"] == "reports"
            },
            {tool: runs[tool]["words"] for tool in TOOLS if runs[tool]["state"] == "failed"},
            said,
            line,
        )


def _alone(run: dict[str, Any]) -> str:
    if run["state"] == "error":
        return str(run["words"]).removeprefix("CUDA_ERROR_").replace("did not end within", "no end in")
    return "wrong result" if run["state"] == "wrong" else "right result"


def recorded(path: Path = RESULT) -> str:
    """Where and when the verdicts were recorded, in a sentence."""
    facts = json.loads(path.read_text(encoding="utf-8"))["recorded"]
    return (
        f"compute-sanitizer {facts['compute_sanitizer']} on an {facts['gpu']} with driver {facts['driver']},"
        f" {facts['date']}"
    )


def summary(found: Sequence[Row]) -> str:
    """How many faults each of the two reports, and how many both do."""
    right, faults = [one for one in found if one.fault == RIGHT], [one for one in found if one.fault != RIGHT]
    tools = [one for one in faults if one.tools]
    ours = [one for one in faults if one.emulator_reports]
    passed = sum(not one.tools and not one.failed for one in right)
    return (
        f"{recorded()}: of {len(faults)} faults the four tools report {len(tools)}, the emulator"
        f" {len(ours)}; of those {len(tools)} the emulator reports"
        f" {sum(one.emulator_reports for one in tools)}, at a line that a tool names too in"
        f" {sum(one.same_line for one in tools)}. {passed} of {len(right)} right kernels pass all tools, and"
        f" {sum(not one.emulator_reports for one in right)} pass the emulator."
    )


def markdown() -> str:
    """The summary and the table of all faults."""
    found = rows()
    lines = [
        summary(found),
        "",
        "| kernel | what is wrong | the H200 alone | compute-sanitizer | emulator |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in found:
        if one.fault == RIGHT:
            continue
        tools = [f"{tool}: `{said}`{_at(lines_)}" for tool, (said, lines_) in one.tools.items()]
        if one.failed and not tools:
            tools = [f"no tool came to an end: {next(iter(one.failed.values()))}"]
        ours = f"`{one.emulator}`{_at((one.line,) if one.line else ())}" if one.emulator_reports else _SILENT
        cells = (f"`{one.kernel}`", one.about, one.alone, "<br>".join(tools) or _SILENT, ours)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _at(lines: tuple[int, ...]) -> str:
    return f", line {' and '.join(map(str, lines))}" if lines else ""


if __name__ == "__main__":
    print(markdown())
