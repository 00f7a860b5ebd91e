"""The findings of `cutecourse emulate`, for programs: JSON, JUnit XML and SARIF.

The JSON is described by `emulate.schema.json` beside this file. Its field `schema` is the version of this
form: it grows by 1 when a field changes its meaning or goes away, and not when one is added.

Sources: SARIF 2.1.0 (OASIS Standard, 27 March 2020); the JUnit XML that Jenkins and GitLab read.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from cutecourse.analysis import InputError
from cutecourse.emulator import HAZARDS, EmulatorError, Exploration, LaunchResult, Note, Outcome
from cutecourse.errors import CourseError
from cutecourse.ptx.sources import SourceLine

__all__ = ["SCHEMA", "Findings", "write_junit", "write_sarif"]

SCHEMA = 1
_ENDS = {0: "ran", 1: "wrong", 2: "not run", 3: "stopped"}
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


@dataclass
class Findings:
    """One call of the command: the launch, how it ended, and its reports."""

    file: str
    kernel: str | None = None
    launch: dict[str, Any] = field(default_factory=dict)
    result: LaunchResult | None = None
    exploration: Exploration | None = None
    error: CourseError | None = None
    saved: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    earlier: tuple[str, Sequence[Note]] = ("", ())
    """The file of a launch before this one, and its notes."""

    def reports(self) -> list[dict[str, Any]]:
        """The error and the notes, as the JSON has them."""
        file, notes = self.earlier
        found = [_of_note(note) | {"file": file} for note in notes]
        found += [] if self.result is None else [_of_note(note) for note in self.result.notes]
        if self.exploration is not None:
            found += _of_exploration(self.exploration)
        if self.error is not None:
            found.append(_of_error(self.error))
        return found

    def to_json(self) -> str:
        """All of it, as `emulate.schema.json` describes it."""
        result = self.result
        described: dict[str, Any] = {
            "schema": SCHEMA,
            "tool": {"name": "cutecourse", "version": _version()},
            "file": self.file,
            "kernel": self.kernel,
            "launch": self.launch,
            "end": _ENDS[self.status],
            "exit_status": self.status,
            "reports": self.reports(),
            "counts": None,
            "printed": "" if result is None else result.printed,
            "saved": self.saved,
            "seeds": None,
        }
        if result is not None:
            described["counts"] = {
                "warps": result.warps,
                "instructions": result.total,
                "issued": result.issued,
                "by_instruction": result.instructions,
            }
        if self.exploration is not None:
            described["seeds"] = {
                "agree": self.exploration.agree,
                "outcomes": [
                    {"seed": one.seed, "error": one.error, "line": one.line, "message": one.message or None}
                    for one in self.exploration.outcomes
                ],
            }
        return json.dumps(described, indent=2)


def _version() -> str:
    try:
        return importlib.metadata.version("cutecourse")
    except importlib.metadata.PackageNotFoundError:  # a source tree that is not installed
        return "unknown"


# --- reports as plain data -----------------------------------------------------------------------------


def _report(kind: str, severity: str, problem: str, message: str, **known: Any) -> dict[str, Any]:
    """A report with every field; those that do not apply are None."""
    names = ("hazard", "why", "line", "other_line", "text", "source", "block", "rank", "warp", "lane",
             "address", "allocation")  # fmt: skip
    given = {name: known.get(name) for name in names}
    if isinstance(given["source"], SourceLine):
        first, *callers = [{"file": one.path, "line": one.line} for one in given["source"].chain()]
        given["source"] = first | ({"inlined_at": callers} if callers else {})
    count = known.get("count", 1)
    return {
        "kind": kind, "severity": severity, "problem": problem, "message": message, "count": count, **given
    }  # fmt: skip


def _of_note(note: Note) -> dict[str, Any]:
    return _report(
        note.hazard.error,
        note.severity,
        note.problem,
        str(note),
        hazard=note.hazard.name,
        why=note.hazard.why,
        line=note.line,
        other_line=note.other_line,
        text=note.text,
        source=note.source,
        block=note.block,
        warp=note.warp,
        count=note.count,
    )


def _of_error(error: CourseError) -> dict[str, Any]:
    kind = type(error).__name__
    if not isinstance(error, EmulatorError):
        return _report(kind, "error", str(error), str(error), line=getattr(error, "line", None))
    hazard = getattr(error, "hazard", None)
    return _report(
        kind,
        "error",
        error.problem,
        str(error),
        hazard=None if hazard is None else hazard.name,
        why=None if hazard is None else hazard.why,
        line=error.line,
        text=error.text.strip() or None,
        source=error.source,
        block=error.block,
        rank=error.rank,
        warp=error.warp,
        lane=error.lane,
        address=error.address,
        allocation=error.allocation,
    )


def _of_exploration(found: Exploration) -> list[dict[str, Any]]:
    """Each error once, and the first difference."""
    reports: dict[tuple[str | None, int | None], dict[str, Any]] = {}
    for one in found.outcomes:
        if one.error is None:
            continue
        key = (one.error, one.line)
        if key in reports:
            reports[key]["count"] += 1
        else:
            reports[key] = _of_outcome(one)
    listed = list(reports.values())
    if found.first_difference is not None:
        headline = found.first_difference.headline
        listed.append(_report("SeedDependence", "error", headline, str(found.first_difference)))
    return listed


def _of_outcome(outcome: Outcome) -> dict[str, Any]:
    hazard = next((one for one in HAZARDS.values() if one.error == outcome.error), None)
    return _report(
        str(outcome.error),
        "error",
        outcome.message,
        str(outcome),
        hazard=None if hazard is None else hazard.name,
        why=None if hazard is None else hazard.why,
        line=outcome.line,
        block=outcome.block,
        warp=outcome.warp,
    )


# --- JUnit XML -----------------------------------------------------------------------------


def write_junit(findings: Findings, path: str) -> None:
    """Write a test case for each seed; a fault is a failure, what was not run or stopped is an error.

    Errors: InputError.
    """
    explored = findings.exploration
    seeds = [findings.launch.get("seed", 0)] if explored is None else list(explored.seeds)
    errors = {} if explored is None else {one.seed: one for one in explored.outcomes if one.error is not None}
    reports = findings.reports()
    suite = ET.Element("testsuite", name="cutecourse emulate", tests=str(len(seeds)))
    counts = {"failure": 0, "error": 0}
    for seed in seeds:
        name = f"{findings.kernel or 'kernel'}, seed {seed}"
        case = ET.SubElement(suite, "testcase", classname=findings.file, name=name)
        wrong = [one for one in reports if one["severity"] == "error"]
        if explored is not None:
            # The difference belongs to the last seed, which ended otherwise than the first.
            wrong = [_of_outcome(errors[seed])] if seed in errors else []
            wrong += [one for one in reports if one["kind"] == "SeedDependence" and seed == seeds[-1]]
        elif findings.status == 1:
            wrong = wrong or [one for one in reports if one["severity"] == "warning"]
        if wrong:
            kind = "error" if findings.status in {2, 3} else "failure"
            counts[kind] += 1
            child = ET.SubElement(
                case, kind, type=wrong[0]["hazard"] or wrong[0]["kind"], message=_xml(wrong[0]["problem"])
            )
            child.text = _xml("\n\n".join(one["message"] for one in wrong))
        told = [one["message"] for one in reports if one["severity"] != "error"]
        if told:
            ET.SubElement(case, "system-out").text = _xml("\n\n".join(told))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    _write(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


# --- SARIF -----------------------------------------------------------------------------


def write_sarif(findings: Findings, path: str) -> None:
    """Write the reports as results of one run; a rule's id is the hazard's name, or else the error's class.

    A result's location is the line of the source language if the PTX has line information: the innermost one
    in a file of the current folder, or else the kernel's. Its other lines and the PTX line are related
    locations then. Errors: InputError.
    """
    reports = findings.reports()
    ids = list(dict.fromkeys(one["hazard"] or one["kind"] for one in reports))
    run = {
        "tool": {
            "driver": {
                "name": "cutecourse emulate",
                "version": _version(),
                "rules": [_rule(name, reports) for name in ids],
            }
        },
        "invocations": [{"executionSuccessful": findings.status in {0, 1}, "exitCode": findings.status}],
        "results": [_result(one, ids, one.get("file", findings.file)) for one in reports],
    }
    document = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    _write(path, json.dumps(document, indent=2) + "\n")


def _rule(name: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    hazard = HAZARDS.get(name)
    if hazard is None:
        said = next(one["problem"] for one in reports if one["kind"] == name)
        return {"id": name, "shortDescription": {"text": said.split("\n")[0]}}
    return {
        "id": name,
        "name": hazard.error,
        "shortDescription": {"text": hazard.what},
        "help": {"text": f"{hazard.severity}: {hazard.why}"},
        "defaultConfiguration": {"level": hazard.severity},
    }


def _result(report: dict[str, Any], ids: list[str], file: str) -> dict[str, Any]:
    name = report["hazard"] or report["kind"]
    result = {
        "ruleId": name,
        "ruleIndex": ids.index(name),
        "level": report["severity"],
        "message": {"text": report["message"]},
    }
    places = []
    if report["source"] is not None:
        chain = [report["source"], *report["source"].get("inlined_at", ())]
        # A reviewer's page shows only lines of the project: not those of a compiler's header.
        mine = next((one for one in chain if _is_here(one["file"])), chain[-1])
        places = [
            _place(one["file"], one["line"]) for one in (mine, *(one for one in chain if one is not mine))
        ]
    places.append(_place(file, report["line"], report["text"]))
    result["locations"] = places[:1]
    related = places[1:]
    if report["other_line"] is not None:
        related.append(_place(file, report["other_line"]))
    if related:
        result["relatedLocations"] = related
    if report["count"] > 1:
        result["occurrenceCount"] = report["count"]
    return result


def _is_here(file: str) -> bool:
    """Return whether a source file lies in the current folder."""
    return not Path(file).is_absolute() or Path(file).is_relative_to(Path.cwd())


def _place(file: str, line: int | None, text: str | None = None) -> dict[str, Any]:
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None:
        place["region"] = {"startLine": line}
        if text:
            place["region"]["snippet"] = {"text": text}
    return {"physicalLocation": place}


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
