"""What a Blackwell GPU made of the cases that no GPU at hand can run: a file from its owner, and its check.

A pack is one JSON file: the head that all recordings have, the outputs of the cases, the cases that the GPU
refused with its reason, and the rows of `benchmarks.umma_throughput`. `tools.blackwell_pack` makes it.
`check` refuses a pack that is not whole or not of today's cases. An output that differs from a case's
expectation is no reason to refuse it: that is what we want to know.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import umma_throughput as bench
from cutecourse.kernels.spec import runs_on
from tools.cases import ptx_cases, ptx_recordings
from tools.cases.ptx_cases import Case
from tools.paths import RECORDED_ON, ROOT, AuthoringError

FOLDER = ROOT / "tests" / "emulator" / "recordings" / "blackwell"
"""The accepted packs."""
TARGETS = {"10.0": "sm_100a", "10.3": "sm_103a"}
"""The target of the cases with an `a`, by a GPU's compute capability."""
MAX_BYTES = 1 << 20
_HEAD = ("machine", "driver", "driver_cuda", "python", "date", "commit")
_PARTS = {*_HEAD, "compute_capability", "cases", "refused", "throughput", "throughput_failed"}
_PLAIN = re.compile(r"[\w .,:()/+-]{1,80}", re.ASCII)  # what stands on a page
_MACHINE = re.compile(r"\bG?B([123])00\b")  # a B300 has compute capability 10.3, those before it have 10.0
_FIRST_CASE = dt.date(2026, 11, 21)
_MOST_TFLOPS = round(160 * 2.2e-3 * bench.FLOPS_PER_CYCLE)  # 160 SMs at 2.2 GHz


class BadPack(AuthoringError):
    """A pack that is not whole, or not of these cases; the message lists everything that is wrong."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What an accepted pack says."""

    machine: str
    compute_capability: str
    driver: str
    date: str
    agree: tuple[str, ...]
    """Cases whose outputs are the expected ones."""
    differ: Mapping[str, str]
    """Cases whose outputs are others, with the first difference."""
    refused: Mapping[str, str]
    """Cases that the GPU or its driver refused, with the reason."""
    fastest: Mapping[str, Any] | None
    """The row of the throughput with the most TFLOP/s."""

    @property
    def counts(self) -> str:
        """How many cases did what, in words."""
        return f"{len(self.agree)} cases as expected, {len(self.differ)} differ, {len(self.refused)} refused"

    def __str__(self) -> str:
        lines = [
            f"{self.machine} ({self.compute_capability}), driver {self.driver}, {self.date}: {self.counts}"
        ]
        lines += [f"  {name}: {why}" for name, why in {**self.differ, **self.refused}.items()]
        if self.fastest is not None:
            lines.append(
                f"  fastest: {self.fastest['kernel']}, {self.fastest['tflops']:.0f} TFLOP/s of "
                f"{min(filter(None, self.fastest['bound_tflops'].values())):.0f}"
            )
        return "\n".join(lines)


def cases_for_blackwell(cases: Iterable[Case] | None = None) -> dict[str, Case]:
    """The cases that need compute capability 10.0, by name."""
    return {
        case.name: case
        for case in (ptx_cases.all_cases() if cases is None else cases)
        if case.specification_only and runs_on(case.target, (10, 0)) and not runs_on(case.target, RECORDED_ON)
    }


def for_gpu(case: Case, compute_capability: str) -> Case:
    """The case with its target line changed for another Blackwell; its hash stays the first text's."""
    target = TARGETS[compute_capability] if case.target.endswith("a") else case.target
    return dataclasses.replace(case, ptx=case.ptx.replace(f".target {case.target}", f".target {target}", 1))


def check(path: Path, cases: Iterable[Case] | None = None) -> Seen:
    """Accept a pack and say what it shows. Errors: BadPack.

    cases  in place of the repository's.
    """
    text = path.read_bytes()
    if len(text) > MAX_BYTES:
        raise BadPack(f"{path.name}: {len(text)} bytes; a pack has at most {MAX_BYTES}.")
    try:
        pack = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise BadPack(
            f"{path.name}: no JSON ({error}); make it with `python -m tools.blackwell_pack`."
        ) from error
    if not isinstance(pack, dict) or not _whole(pack):
        raise BadPack(f"{path.name}: no pack; make it with `python -m tools.blackwell_pack`.")
    wanted = cases_for_blackwell(cases)
    problems = [*_head_problems(pack), *_coverage_problems(pack, wanted)]
    agree, differ = [], {}
    for name in sorted(pack["cases"].keys() & wanted.keys()):
        try:
            said = _difference(wanted[name], pack["cases"][name])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problems.append(f"{name}: {error}")
            continue
        if said:
            differ[name] = said
        else:
            agree.append(name)
    rows = pack.get("throughput")
    problems += _row_problems(rows, pack.get("throughput_failed"))
    if problems:
        raise BadPack(f"{path.name} is refused:\n" + "\n".join(f"  {one}" for one in problems))
    assert isinstance(rows, list)
    return Seen(
        pack["machine"],
        pack["compute_capability"],
        pack["driver"],
        pack["date"],
        tuple(agree),
        differ,
        pack["refused"],
        max(rows, key=lambda row: float(row["tflops"])) if rows else None,
    )


def accepted(folder: Path = FOLDER) -> list[Seen]:
    """What all packs of a folder say. Errors: BadPack."""
    return [check(path) for path in sorted(folder.glob("*.json"))]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Errors: ValueError, where a key stands twice; a reader would see only one of them."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} stands there twice")
        found[key] = value
    return found


def _whole(pack: dict[str, Any]) -> bool:
    """Return whether a pack has its parts: entries and reasons, by case."""
    parts = ((pack.get("cases"), dict), (pack.get("refused"), str))
    return all(
        isinstance(part, dict) and all(isinstance(one, kind) for one in part.values()) for part, kind in parts
    )


def _head_problems(pack: dict[str, Any]) -> list[str]:
    problems = [f"{key}: no part of a pack" for key in sorted(pack.keys() - _PARTS)]
    for key in _HEAD:
        said = pack.get(key)
        if not isinstance(said, str) or said in ("", "unknown"):
            problems.append(f"{key}: not said")
        elif not _PLAIN.fullmatch(said):
            problems.append(f"{key}: {said[:80]!r} is no plain line of at most 80 letters and digits")
    if pack.get("compute_capability") not in TARGETS:
        problems.append(
            f"compute_capability: {pack.get('compute_capability')!r} is none of {', '.join(TARGETS)}"
        )
    if problems:
        return problems
    if not (machine := _MACHINE.search(pack["machine"])):
        problems.append(f"machine: {pack['machine']!r} is no Blackwell with tcgen05, such as 'NVIDIA B200'")
    elif (capability := "10.3" if machine[1] == "3" else "10.0") != pack["compute_capability"]:
        problems.append(f"compute_capability: a GPU called {pack['machine']!r} has {capability}")
    try:
        date = dt.date.fromisoformat(pack["date"])
        if date > dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1):
            problems.append(f"date: {pack['date']} is still to come")
        elif date < _FIRST_CASE:
            problems.append(f"date: {pack['date']} is before the first case")
    except ValueError:
        problems.append(f"date: {pack['date']!r} is no day such as 2026-11-26")
    if not re.fullmatch(r"[0-9a-f]{7,40}", pack["commit"]):
        problems.append(f"commit: {pack['commit']!r} is none; commit your changes, then record")
    return problems


def _coverage_problems(pack: dict[str, Any], wanted: Mapping[str, Case]) -> list[str]:
    """Each case is there once, with the text that it has now."""
    problems = []
    ran, refused = pack["cases"].keys(), pack["refused"].keys()
    if twice := sorted(ran & refused):
        problems.append(f"both recorded and refused: {', '.join(twice)}")
    if strangers := sorted((ran | refused) - wanted.keys()):
        problems.append(f"no cases that need a Blackwell: {', '.join(strangers)}")
    if missing := sorted(wanted.keys() - ran - refused):
        problems.append(f"{len(missing)} cases are missing: {', '.join(missing[:5])}")
    if not ran:
        problems.append("no case ran")
    problems += [
        f"{name}: recorded from another text than the case has now"
        for name in sorted(ran & wanted.keys())
        if pack["cases"][name].get("ptx_sha256") != wanted[name].sha256
    ]
    problems += [f"{name}: refused without a reason" for name, why in pack["refused"].items() if not why]
    return problems


def _difference(case: Case, entry: dict[str, Any]) -> str:
    """How a case's outputs differ from the expected ones; empty if they do not.

    Errors: ValueError, KeyError, for an entry that holds no such outputs.
    """
    expected = case.expected()
    if set(entry["outputs"]) != set(case.outputs):
        raise ValueError(f"has the outputs {', '.join(entry['outputs'])}, not {', '.join(case.outputs)}")
    before = case.make_args()
    for name, packed in entry["outputs"].items():
        if list(packed["shape"]) != list(before[name].shape):
            raise ValueError(f"{name} has the shape {packed['shape']}, not {list(before[name].shape)}")
        try:
            got = ptx_recordings.unpack(packed, before[name])
        except Exception as error:  # whatever base64, zlib or NumPy says of bytes that are none
            raise ValueError(f"{name} cannot be read: {error}") from error
        if said := ptx_cases.difference(name, got, expected[name], case.tolerance, any_nan=True):
            return " ".join(said.split())
    return ""


def _row_problems(rows: Any, failed: Any) -> list[str]:
    """Each case of the benchmark has a row or a reason; a row is checked and not faster than its bound."""
    if not isinstance(rows, list):
        return ["throughput: no list of rows"]
    if not isinstance(failed, list) or not all(isinstance(why, str) and why for why in failed):
        return ["throughput_failed: no list of reasons"]
    problems = []
    ways = bench.cases()
    if len(rows) + len(failed) != len(ways):
        problems.append(
            f"throughput: {len(rows)} rows and {len(failed)} failures, of {len(ways)} cases of the benchmark"
        )
    places: dict[bench.Case, int] = {}
    for place, row in enumerate(rows):
        try:
            given: dict[str, Any] = {one.name: row[one.name] for one in dataclasses.fields(bench.Case)}
            given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
            case = bench.Case(**given)
            if case not in ways:
                said = f"no case of the benchmark: {case}, {case.mnk}"
            elif (first := places.setdefault(case, place)) != place:
                said = f"the same case as row {first}"
            else:
                said = _row_problem(case, row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            said = f"{type(error).__name__} {error}"
        if said:
            problems.append(f"throughput, row {place}: {said}")
    return problems


def _row_problem(case: bench.Case, row: dict[str, Any]) -> str:
    """What is wrong with the numbers of a case's row; empty if nothing is."""
    for key in ("seconds", "tflops"):
        if not _is_positive(row[key]):
            return f"{key} is {row[key]!r}, which is no positive number"
    bounds = row["bound_tflops"]
    cores, memory = bounds.get("tensor_cores"), bounds.get("memory")
    if not _is_positive(cores) or cores > _MOST_TFLOPS:
        return f"the tensor cores' bound is {cores!r}; a Blackwell has at most {_MOST_TFLOPS} TFLOP/s"
    if memory is not None and not _is_positive(memory):
        return f"the memory's bound is {memory!r}"
    speed = bench.flops(case.mnk) / row["seconds"] / 1e12
    bound = cores if memory is None else min(cores, memory)
    tiles = -(-case.mnk[0] // bench.TILE_ROWS)  # each compared in one row
    if abs(row["tflops"] / speed - 1) > 1e-6:
        return f"{row['tflops']:.1f} TFLOP/s, but its seconds give {speed:.1f}"
    if speed > bound:
        return f"{speed:.0f} TFLOP/s are more than its bound {bound:.0f}"
    if row["rows_checked"] != tiles:
        return f"{row['rows_checked']} rows checked of {tiles}"
    return ""


def _is_positive(value: Any) -> bool:
    """Return whether a value of a JSON file is a number above 0 and finite."""
    return type(value) in (int, float) and math.isfinite(value) and value > 0
