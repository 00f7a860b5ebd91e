"""The kept outcomes of the public kernels, as Markdown for a page of the book."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from benchmarks.results_file import result_path

__all__ = ["PARTS", "kept", "markdown"]

Rows = dict[str, list[dict[str, Any]]]


def kept() -> dict[str, Any]:
    """The kept result of `python -m benchmarks.corpus`."""
    result: dict[str, Any] = json.loads(result_path("corpus").read_text(encoding="utf-8"))
    return result


def markdown(part: str) -> str:
    """A part of the page: a key of PARTS."""
    return PARTS[part](kept())


def _by_kernel(result: dict[str, Any]) -> Rows:
    rows: Rows = {}
    for row in result["rows"]:
        rows.setdefault(row["kernel"], []).append(row)
    return rows


def _are_right(rows: Iterable[dict[str, Any]]) -> bool:
    return all(row["outcome"] == "right" for row in rows)


def _summary(result: dict[str, Any]) -> str:
    rows = _by_kernel(result)
    right = [found for found in rows.values() if _are_right(found)]
    blackwell = [found for found in right if any("tcgen05.mma" in row["uses"] for row in found)]
    hopper = [found for found in right if any("wgmma" in row["uses"] for row in found)]
    wrong = sum(row["outcome"] == "wrong" for row in result["rows"])
    refused = sum(row["outcome"] == "refused" for row in result["rows"])
    facts = result["recorded"]
    return (
        f"**{len(right)} of {len(rows)} kernels from {len(result['packages'])} sources give the right result,"
        f" on every architecture on which they were tried.** {len(blackwell)} of them run `tcgen05.mma` of"
        f" Blackwell, and {len(hopper)} run `wgmma` of Hopper. {wrong or 'None'} gave a wrong result, and the"
        f" emulator refused {refused or 'none'}. Recorded on {facts['date']}: {facts['machine']}, commit"
        f" {facts['commit']}."
    )


def _rates(result: dict[str, Any]) -> str:
    rows = [row for row in result["rows"] if row["outcome"] == "right"]
    rates = [row["instructions"] / row["seconds"] for row in rows if row["uses"] and row["seconds"] > 0]
    longest = max(rows, key=lambda row: row["seconds"])
    quick = sum(row["seconds"] < 1 for row in rows)
    rate = median(rates)
    return (
        f"{quick} of {len(rows)} runs took less than a second of one core. The longest one,"
        f" `{longest['kernel']}` on {longest['on']}, took {longest['seconds']:.1f} s for"
        f" {longest['instructions']:,} instructions of a warp. Half of the kernels with tensor cores run"
        f" more than {rate / 1000:.0f},000 such instructions per second, so ten seconds are enough for about"
        f" {10 * rate / 1e6:.1f} million. The result of `cutecourse.emulator.launch` counts them as `total`."
    )


def _packages(result: dict[str, Any]) -> str:
    rows = _by_kernel(result)
    packages = [found[0]["package"] for found in rows.values()]
    named = [[name, f"`{needed}`", str(packages.count(name))] for name, needed in result["packages"].items()]
    return _table(["name here", "package", "kernels"], named)


def _kernels(result: dict[str, Any]) -> str:
    return _table(
        ["kernel", "in the package", "architectures, CPU seconds", "MiB", "tensor cores", "notes"],
        (_kernel(name, rows) for name, rows in _by_kernel(result).items() if _are_right(rows)),
    )


def _kernel(name: str, rows: list[dict[str, Any]]) -> list[str]:
    notes = sorted({note for row in rows for note in row["notes"]})
    uses = dict.fromkeys(use for row in rows for use in row["uses"])
    return [
        name,
        f"`{rows[0]['source']}`",
        ", ".join(f"{row['on']}: {row['seconds']:.2g}" for row in rows),
        str(max(row["mib"] for row in rows)),
        ", ".join(f"`{use}`" for use in uses),
        ", ".join(notes),
    ]


def _others(result: dict[str, Any]) -> str:
    rows = [row for row in result["rows"] if row["outcome"] != "right"]
    return _table(
        ["kernel", "on", "outcome", "why"],
        ([row["kernel"], row["on"], row["outcome"], row["why"] or _one_line(row["said"])] for row in rows),
    )


def _findings(result: dict[str, Any]) -> str:
    return _table(
        ["kernel", "hazard", "first place in the PTX text", "why the report is right"],
        (
            [name, hazard, _place(rows, hazard), said]
            for name, rows in _by_kernel(result).items()
            for hazard, said in rows[0]["findings"].items()
        ),
    )


def _place(rows: list[dict[str, Any]], hazard: str) -> str:
    """Where the emulator saw a hazard of the kernel first, on the first architecture that has it."""
    row, place = next((row, row["places"][hazard]) for row in rows if hazard in row.get("places", {}))
    line, _, instruction = place.partition(": ")
    return f"{row['on']}, {line}: `{_one_line(instruction, 50)}`"


def _one_line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return (line if len(line) <= most else f"{line[:most]}...").replace("|", "\\|")


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "summary": _summary,
    "rates": _rates,
    "packages": _packages,
    "kernels": _kernels,
    "findings": _findings,
    "others": _others,
}
"""What a page can show, by the directive's argument."""
