"""Run the launch that a form describes, and return all of its results as plain data."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from cutecourse.dtypes import decode
from cutecourse.emulator import EmulatorError, LaunchResult, explore, launch, prove
from cutecourse.emulator.core.hazards import Note, read_severities
from cutecourse.emulator.errors import LaunchError
from cutecourse.memory_report import MemoryReport, memory_report
from cutecourse.playground.arguments import Array, FormError, extents, make_arguments, whole
from cutecourse.playground.form import LIMIT, read
from cutecourse.ptx import CheckedModule, read_module
from cutecourse.ptx.demangle import short_name
from cutecourse.trace import AccessLog, Recorder, Trace
from cutecourse.trace.words import number

__all__ = ["Playground"]

_ROWS, _COLUMNS = 16, 16
_EVENTS = 120
_MOST_SEEDS = 50
_MOST_SECONDS = 60.0


class Playground:
    """Runs launches one after another, and keeps the arrays and the events of the last one.

    A request is a dict with `text`, `entry`, `grid`, `block`, `cluster`, `dynamic_smem` and `arguments`, in
    the form of `read`; all values are strings. It may have `seed`; `limit`, the most instructions to issue;
    `hazards`, lines such as "race = warning"; and `seeds`, the number of seeds for `explore`.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.trace: Trace | None = None
        self.end = ""

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch once.

        Returns `ended`: "ran", "error", or "refused" if nothing ran. Then `error` has `message` and, where
        they are known, `field`, `line`, `kind` (the error's class) and `hazard`. Of a launch that ran there
        are `record`, one line; `printed`; and `notes`. `arrays`, `events` and `memory`, the memory report,
        are there after an error as well, as they were when it ended the launch.
        """
        self.arrays, self.trace, self.end = {}, None, ""
        recorder, accesses = Recorder(), AccessLog()
        try:
            checked, options = self._prepared(request)
            result = launch(checked, **options, recorder=recorder, accesses=accesses, processes=1)
        except FormError as error:
            return {"ended": "refused", "error": {"message": str(error), "field": error.field, "line": None}}
        except EmulatorError as error:
            if error.trace is None:  # the launch has not begun
                return {"ended": "refused", "error": _error(error, request)}
            first = error.problem.splitlines()[0].partition(". ")[0].rstrip(".:")
            self.end = f"{type(error).__name__}: {first}."
            report = memory_report(accesses, checked.module)
            return {
                "ended": "error",
                "error": _error(error, request),
                "memory": _memory(report),
                **self._left(recorder),
            }
        report = memory_report(accesses, checked.module, uncounted=result.uncounted)
        return {
            "ended": "ran",
            "record": _record(result),
            "printed": result.printed,
            "notes": [_note(note) for note in result.notes],
            "memory": _memory(report),
            **self._left(recorder),
        }

    def explore(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Launch with several seeds, each with copies of the arrays.

        Returns `ended`: "ran", or "refused" with `error` as `run` has it. Then `agree`, and `text`, the
        seeds' outcomes and the first difference.
        """
        try:
            seeds = whole("seeds", request.get("seeds", ""), least=2)
            if seeds > _MOST_SEEDS:
                raise FormError("seeds", f"at most {_MOST_SEEDS} seeds")
            checked, options = self._prepared(request)
            first = options.pop("seed")
            found = explore(
                checked, seeds=range(first, first + seeds), max_seeds=seeds, processes=1, **options
            )
        except FormError as error:
            return {"ended": "refused", "error": {"message": str(error), "field": error.field, "line": None}}
        except EmulatorError as error:
            return {"ended": "refused", "error": _error(error, request)}
        return {"ended": "ran", "agree": found.agree, "text": str(found)}

    def prove(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Show that no order of events goes wrong, or an order that does.

        Returns `ended`: "ran", or "refused" with `error` as `run` has it. Then `verdict` and `text`, and
        `error` if a counterexample ends in one.
        """
        try:
            checked, options = self._prepared(request)
            options.pop("seed")
            proof = prove(checked, seconds=_MOST_SECONDS, **options)
        except FormError as error:
            return {"ended": "refused", "error": {"message": str(error), "field": error.field, "line": None}}
        except EmulatorError as error:
            return {"ended": "refused", "error": _error(error, request)}
        found = {"ended": "ran", "verdict": proof.verdict, "text": str(proof)}
        return found if proof.error is None else {**found, "error": _error(proof.error, request)}

    def file(self, name: str) -> str:
        """An array of the last launch as `numpy.save` writes it, in base64. Errors: KeyError."""
        buffer = io.BytesIO()
        np.save(buffer, self.arrays[name].memory, allow_pickle=False)
        return base64.b64encode(buffer.getvalue()).decode("ascii")

    def _prepared(self, request: Mapping[str, Any]) -> tuple[CheckedModule, dict[str, Any]]:
        text = str(request["text"])
        form = _form(text, request.get("entry"))
        if "error" in form:
            raise FormError("text", form["error"]["message"])
        values, self.arrays = make_arguments(form["parameters"], request["arguments"])
        options: dict[str, Any] = {
            name: extents(name, request[name]) for name in ("grid", "block", "cluster")
        }
        return read_module(text), {
            **options,
            "entry": form["entry"],
            "args": values,
            "dynamic_smem": whole("dynamic_smem", request["dynamic_smem"], least=0),
            "seed": whole("seed", request.get("seed", "0"), least=0),
            "max_instructions": whole("limit", request.get("limit", LIMIT), least=1),
            "hazards": _hazards(str(request.get("hazards", ""))),
        }

    def _left(self, recorder: Recorder) -> dict[str, Any]:
        self.trace = recorder.trace()
        table = self.trace.table(_EVENTS)
        return {
            "arrays": [_array(array) for array in self.arrays.values()],
            "events": {"count": len(self.trace.events), "head": table.head, "rows": table.rows},
        }


@lru_cache(maxsize=4)
def _form(text: str, entry: str | None) -> dict[str, Any]:
    return read(text, entry)


def _hazards(text: str) -> dict[str, str]:
    try:
        return read_severities(text.replace(",", "\n"))
    except LaunchError as error:
        raise FormError("hazards", error.problem) from None


_PARAMETER = re.compile(r"parameter (\S+) \(")
_FIELDS = {"grid": "grid", "the grid": "grid", "block": "block", "cluster": "cluster", "a cluster": "cluster",
           "clusters": "cluster", "the kernel requires clusters": "cluster", "dynamic_smem": "dynamic_smem",
           "hazards": "hazards"}  # fmt: skip


def _error(error: EmulatorError, request: Mapping[str, Any]) -> dict[str, Any]:
    hazard = getattr(type(error), "hazard", None)
    field = next((name for start, name in _FIELDS.items() if error.problem.startswith(start)), None)
    if isinstance(error, LaunchError) and (named := _PARAMETER.match(error.problem)):
        names = [
            parameter["name"] for parameter in _form(request["text"], request.get("entry"))["parameters"]
        ]
        field = f"arguments.{names.index(named[1])}.value"
    return {
        "message": str(error),
        "field": field if error.line is None else None,
        "line": error.line,
        "kind": type(error).__name__,
        "hazard": hazard.name if hazard is not None else None,
    }


def _record(result: LaunchResult) -> str:
    grid, block = ("x".join(map(str, shape)) for shape in (result.grid, result.block))
    return (
        f"{short_name(result.entry)} ran to its end on the emulator, in this browser: grid {grid}, block"
        f" {block}, seed {result.seed}. {number(result.warps, 'warp')} executed {result.total} instructions. "
        f"The emulator runs warps in bundles: it issued {result.issued} instructions."
    )


def _note(note: Note) -> dict[str, Any]:
    return {
        "severity": note.severity,
        "hazard": note.hazard.name,
        "line": note.line,
        "other_line": note.other_line,
        "message": str(note),
    }


def _memory(report: MemoryReport) -> dict[str, Any]:
    rows = [
        {
            "line": row.line,
            "instruction": row.instruction,
            "space": row.space,
            "times": row.executions,
            "transactions": row.transactions,
            "unit": row.unit,
            "least": row.least,
            "excess": row.excess,
        }
        for row in report
    ]
    return {"rows": rows, "totals": report.totals()}


def _array(array: Array) -> dict[str, Any]:
    """An array for the page: its first rows as texts, and which of these the launch has changed."""
    memory = array.memory
    size = memory.itemsize
    raw = [np.frombuffer(one.tobytes(), np.uint8).reshape(-1, size) for one in (memory, array.before)]
    changed = (raw[0] != raw[1]).any(axis=1)
    width = _COLUMNS if memory.ndim == 1 else memory.shape[-1]
    flat = memory.reshape(-1)
    rows, marks = [], []
    for start in range(0, flat.size, width)[:_ROWS]:
        part = slice(start, min(start + min(width, _COLUMNS), start + width))
        rows.append([_number(value) for value in decode(flat[part], array.kind)])
        marks.append([bool(one) for one in changed[part]])
    return {
        "name": array.name,
        "dtype": array.kind.name,
        "shape": list(memory.shape),
        "changed": int(changed.sum()),
        "size": int(flat.size),
        "rows": rows,
        "marks": marks,
        "cut_rows": max(0, -(-flat.size // width) - _ROWS),
        "cut_columns": max(0, width - _COLUMNS),
    }


def _number(value: Any) -> str:
    return f"{float(value):.6g}" if isinstance(value, np.floating) else str(value)
