"""Count how each instruction of the emulator was verified, from the registry and the cases.

python -m tools.emulator_coverage      name the cases that are not yet recorded on hardware

Nothing here is typed: instructions, meanings, sources, simplifications and refusals come from the registry's
docstrings, hazards from `cutecourse.emulator.HAZARDS`, and counts from the PTX texts of the cases.

A case is in one of three states. It is recorded if a GPU ran this very text. It is "specification only" if
its header says why no GPU of compute capability 9.0 can run it. Otherwise it is not yet recorded on hardware:
until somebody with such a GPU records it, only its own expectation tests it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import html
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cutecourse import emulator
from cutecourse.emulator.core.registry import InstructionInfo, lookup, supported_instructions
from cutecourse.kernels.spec import runs_on
from cutecourse.ptx import parse
from cutecourse.ptx.scopes import flatten
from tools.cases.case_texts import case_texts, hint
from tools.cases.packs import FOLDER, Seen, accepted
from tools.paths import RECORDED_ON, RECORDED_TARGET, RECORDING_GPU, ROOT, AuthoringError

TESTS = ROOT / "tests" / "emulator"

_SPECIFICATION_ONLY = re.compile(r"^// specification_only: *(.+)$", re.MULTILINE)
_TARGET = re.compile(r"^\.target +(\w+)", re.MULTILINE)
_SECTION = re.compile(r"^(\w+): +(.*?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)
# An instruction in the text of a test: after a guard or whatever ends a statement, and before its semicolon.
_STATEMENT = re.compile(
    r"(?:^|[;{}:])[ \t]*(?:@!?%\w+[ \t]+)?([a-z]\w*(?:(?:\.|::)\w+)*)(?:[ \t]+[^;\n]*)?;", re.MULTILINE
)


class BadCoverage(AuthoringError):
    """A recording does not belong to its case's text, or a case says wrongly whether it can be recorded."""


@dataclass
class Count:
    """How one instruction was verified."""

    recorded: set[str] = field(default_factory=set)
    """Cases with it whose outputs a GPU gave."""
    forms: set[str] = field(default_factory=set)
    """Its different spellings, with all modifiers, in those."""
    unrecorded: set[str] = field(default_factory=set)
    """Cases with it that can be recorded and are not yet."""
    seen: set[str] = field(default_factory=set)
    """Cases with it whose outputs a Blackwell GPU gave as expected, by a pack from its owner."""
    specification: set[str] = field(default_factory=set)
    """Cases with it that no GPU at hand could run, compared with what the document says."""
    modules: set[str] = field(default_factory=set)
    """Test modules with PTX text of their own that has it."""


@dataclass(frozen=True)
class Coverage:
    """Counts by the instruction's name, the cases, and where the recorded ones ran."""

    counts: dict[str, Count]
    recorded: frozenset[str]
    unrecorded: dict[str, frozenset[str]]
    """The cases that are not yet recorded on hardware, each with the spellings that no recorded case has."""
    specification: frozenset[str]
    reasons: frozenset[str]
    """Why cases are specification only."""
    machines: frozenset[str]
    """Machine, driver and day of the recordings."""
    packs: tuple[Seen, ...]
    """What owners of Blackwell GPUs have sent."""


def measure(folder: Path = TESTS) -> Coverage:
    """Count the cases and the test modules under `folder`, which has cases/ and recordings/sm_90/.

    Errors: BadCoverage if a recording is of another text than its case has now or of a case that is gone, or
    if a case that is not recorded cannot be and does not say so, or says so and is recorded.
    """
    hashes, machines = _recordings(folder / "recordings" / RECORDED_TARGET)
    counts = {info.name: Count() for info in supported_instructions()}
    sent = tuple(accepted(folder / "recordings" / FOLDER.name))
    seen = {case for one in sent for case in one.agree}
    recorded, specification, reasons = set(), set(), set()
    unrecorded: dict[str, set[str]] = {}
    for case, source in case_texts(folder / "cases").items():
        text = source.write()
        reason = _SPECIFICATION_ONLY.search(text)
        if problem := _problem(text, hashes.get(case), reason):
            raise BadCoverage(f"{source.place}: {problem}. {hint(case)}")
        forms = list(_instructions(text))
        if reason:
            specification.add(case)
            reasons.add(reason[1])
        elif case in hashes:
            recorded.add(case)
        else:
            unrecorded[case] = {form for _, form in forms}
        for info, form in forms:
            count = counts[info.name]
            if reason:
                count.specification.add(case)
                count.seen |= {case} & seen
            elif case in hashes:
                count.recorded.add(case)
                count.forms.add(form)
            else:
                count.unrecorded.add(case)
    if gone := hashes.keys() - recorded:
        raise BadCoverage(f"recordings of cases that are gone: {', '.join(sorted(gone))}; {_FORGET}")
    for path in sorted(folder.glob("test_*.py")):
        for info in _named_in_test(path):
            counts[info.name].modules.add(path.stem)
    known = {form for count in counts.values() for form in count.forms}
    return Coverage(
        counts,
        frozenset(recorded),
        {case: frozenset(forms - known) for case, forms in unrecorded.items()},
        frozenset(specification),
        frozenset(reasons),
        frozenset(machines),
        sent,
    )


_FORGET = "`python -m tools.record_cases --forget` removes such recordings"


def _problem(text: str, recorded: str | None, reason: re.Match[str] | None) -> str | None:
    """Say why a case is in none of the three states, or None."""
    if reason:
        return "the case is recorded, so it is not specification only" if recorded else None
    if recorded:
        stale = recorded != hashlib.sha256(text.encode()).hexdigest()
        return f"the case has changed since it was recorded; {_FORGET}" if stale else None
    target = _TARGET.search(text)
    if target is not None and not runs_on(target[1], RECORDED_ON):
        return f"{RECORDING_GPU} does not run {target[1]}: say in the header `specification_only: ` and why"
    return None


def _recordings(folder: Path) -> tuple[dict[str, str], set[str]]:
    """The hash of each recorded case's text, and where the recordings were made."""
    hashes: dict[str, str] = {}
    machines: set[str] = set()
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        hashes |= {case: entry["ptx_sha256"] for case, entry in data["cases"].items()}
        machines.add(f"{data['machine']} with driver {data['driver']} on {data['date']}")
    return hashes, machines


def _instructions(text: str) -> Iterator[tuple[InstructionInfo, str]]:
    """The instructions of a case, each with its spelling."""
    module = parse(text)
    for function in module.functions:
        if function.body is None:
            continue
        for one in flatten(module, function).instructions:
            found = lookup(one.opcode, one.modifiers)
            if found is None:
                raise BadCoverage(f"a case has {one.opcode}, which the emulator does not know")
            yield found[0], ".".join((one.opcode, *one.modifiers))


def _named_in_test(path: Path) -> Iterator[InstructionInfo]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for text in _strings(tree):
        for spelled in _STATEMENT.findall(text):
            opcode, *modifiers = spelled.split(".")
            if found := lookup(opcode, tuple(modifiers)):
                yield found[0]


def _strings(node: ast.AST) -> Iterator[str]:
    """Every string under a node but docstrings; what an f-string puts in stands there as 0."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "0" for part in child.values)
            yield "".join(parts)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        else:
            yield from _strings(child)


def sections(info: InstructionInfo) -> dict[str, str]:
    """The parts of an instruction's docstring by their titles: Shapes, Errors, Simplified, Source, ..."""
    text = inspect.getdoc(info.define) or ""
    return {title: " ".join(body.split()) for title, body in _SECTION.findall(text)}


# ---- Markdown ----


@cache
def _measured() -> Coverage:
    """The parts share one count."""
    return measure()


def markdown(what: str) -> str:
    """One part of a page: a key of `PARTS`. Errors: BadCoverage."""
    return PARTS[what]()


def _summary() -> str:
    coverage = _measured()
    known = [info for info in supported_instructions() if not info.refused]
    counts = [coverage.counts[info.name] for info in known]
    on_gpu = sum(bool(count.recorded | count.seen) for count in counts)
    waiting = sum(bool(count.unrecorded) and not count.recorded | count.seen for count in counts)
    specified = sum(
        bool(count.specification) and not count.recorded | count.seen | count.unrecorded for count in counts
    )
    groups = [
        f"{on_gpu} stand in cases that a GPU ran",
        f"{waiting} only in cases that are not yet recorded on hardware" if waiting else "",
        f"{specified} only in cases that follow the specification",
        f"{len(known) - on_gpu - waiting - specified} in none",
    ]
    missing, reasons = len(coverage.unrecorded), "; ".join(sorted(coverage.reasons))
    states = [
        f"{len(coverage.recorded)} cases were recorded ({_plain('; '.join(sorted(coverage.machines)))})",
        f"{missing} {'is' if missing == 1 else 'are'} not yet recorded on hardware" if missing else "",
        f"{len(coverage.specification)} are specification only ({_plain(reasons)})",
    ]
    return (
        f"{len(known)} instructions: {', '.join(filter(None, groups))}.\n\n{'; '.join(filter(None, states))}."
    )


def _unrecorded_rows() -> str:
    """The cases that wait for a GPU, and the spellings that nothing else was recorded with."""
    rows = [
        [_code(case), ", ".join(f"`{form}`" for form in sorted(forms)) or "none"]
        for case, forms in _measured().unrecorded.items()
    ]
    if not rows:
        return f"None: every case that {RECORDING_GPU} can run is recorded."
    return _table(["case", "forms that no recorded case has"], rows)


def _unmet() -> str:
    """The families of instructions of which no GPU ran a single case, in one line."""
    counts = _measured().counts
    families: dict[str, list[Count]] = defaultdict(list)
    for info in supported_instructions():
        if not info.refused:
            families[info.name.partition(".")[0]].append(counts[info.name])
    unmet = {
        name: len(own)
        for name, own in families.items()
        if not any(count.recorded | count.seen for count in own)
    }
    if not unmet:
        return "A GPU has run cases of every family of instructions."
    large = [f"`{name}` ({size} instructions)" for name, size in unmet.items() if size > 1]
    single = [f"`{name}`" for name, size in unmet.items() if size == 1]
    return f"No GPU has run a case of these families of instructions: {', '.join([*large, *single])}."


def _blackwell() -> str:
    """What GPUs with tcgen05 did, by the packs of their owners."""
    packs = _measured().packs
    if not packs:
        return "No Blackwell GPU has run a case yet."
    rows = [
        [
            _plain(f"{one.machine} ({one.compute_capability}), driver {one.driver}, {one.date}"),
            one.counts,
            ", ".join(_code(name) for name in (*one.differ, *one.refused)) or "none",
            f"{one.fastest['tflops']:.0f} ({_code(one.fastest['kernel'])})"
            if one.fastest
            else "not measured",
        ]
        for one in packs
    ]
    return _table(["GPU", "cases", "those that differ or were refused", "most TFLOP/s of our kernels"], rows)


def _instruction_rows() -> str:
    coverage = _measured()
    infos = supported_instructions()
    rows = []
    for info in infos:
        if info.refused:
            continue
        count = coverage.counts[info.name]
        rows.append(
            [
                _code(info.name),
                f"{_plain(info.summary)}<br><small>{_plain(_section_names(info.source))}</small>",
                _plain(_verified(info, coverage.counts, infos)),
                f"{len(count.recorded)}",
                f"{len(count.forms)}",
                f"{len(count.specification)}",
                f"{len(count.modules)}",
            ]
        )
    header = [
        "instruction",
        "meaning, and its sections in the PTX ISA",
        "compared with",
        "GPU cases",
        "forms",
        "spec. cases",
        "tests",
    ]
    return _table(header, rows)


def _section_names(source: str) -> str:
    """A docstring's source without version and anchors; a page needs the section titles only."""
    return re.sub(r"^PTX ISA [\d.]+, *|(?<=; )PTX ISA [\d.]+, *| *\(#[^)]*\)", "", source)


def _verified(info: InstructionInfo, counts: dict[str, Count], infos: Iterable[InstructionInfo]) -> str:
    """The strongest of what an instruction was compared with."""
    count = counts[info.name]
    if count.recorded:
        return "a GPU"
    if count.seen:
        return "a Blackwell GPU of a reader"
    if count.unrecorded:
        return "its cases' expectations"
    if count.specification:
        return "specification"
    others = [other.name for other in infos if other.define is info.define and counts[other.name].recorded]
    if others:
        return f"a GPU, as {', '.join(f'`{name}`' for name in others)}: one definition"
    return "tests" if count.modules else "nothing of its own"


def _refused_rows() -> str:
    refused = [info for info in supported_instructions() if info.refused]
    rows = [[_code(info.name), _plain(info.summary), _plain(info.source)] for info in refused]
    return _table(["instruction", "meaning", "source"], rows) if rows else "None."


def _simplified_rows() -> str:
    names: dict[Callable[..., object], list[InstructionInfo]] = defaultdict(list)
    for info in supported_instructions():
        names[info.define].append(info)
    rows = [
        [", ".join(_code(info.name) for info in infos), _plain(said)]
        for infos in names.values()
        if (said := sections(infos[0]).get("Simplified"))
    ]
    return _table(["instructions", "where this machine is simpler than the hardware"], rows)


def _hazard_rows() -> str:
    rows = [
        [_plain(hazard.name), hazard.severity, _plain(hazard.what), _plain(hazard.why), _code(hazard.error)]
        for hazard in emulator.HAZARDS.values()
    ]
    return _table(["hazard", "severity", "what", "why", "error"], rows)


def _error_rows() -> str:
    rows = []
    for name in sorted(emulator.errors.__all__):
        kind = getattr(emulator.errors, name)
        if isinstance(kind, type) and issubclass(kind, emulator.EmulatorError):
            rows.append([_code(name), _plain((inspect.getdoc(kind) or "").splitlines()[0])])
    return _table(["error", "when"], rows)


PARTS: dict[str, Callable[[], str]] = {
    "summary": _summary,
    "unmet": _unmet,
    "unrecorded": _unrecorded_rows,
    "blackwell": _blackwell,
    "instructions": _instruction_rows,
    "refused": _refused_rows,
    "simplified": _simplified_rows,
    "hazards": _hazard_rows,
    "errors": _error_rows,
}
"""The parts of the pages, by the argument of their directive."""


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _code(name: str) -> str:
    """A name as code that may break behind a dot or an underscore, or before a capital."""
    parts = re.sub(r"([._:])(?=\w)|(?<=[a-z])(?=[A-Z])", r"\1<wbr>", html.escape(name))
    return f"<code>{parts}</code>" if name else ""


def _plain(text: str) -> str:
    r"""Text of a docstring as Markdown: `code` stays, and nothing else means anything.

    >>> print(_plain("D = A * B, `a*b`"))
    D = A \* B, `a*b`
    """
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*|<>\[\]$~])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def main(arguments: list[str] | None = None, folder: Path = TESTS) -> int:
    """The command line; returns the exit status."""
    argparse.ArgumentParser(
        prog="python -m tools.emulator_coverage", description="Name what is not yet recorded on hardware."
    ).parse_args(arguments)
    try:
        unrecorded = measure(folder).unrecorded
    except BadCoverage as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not unrecorded:
        print(f"every case that {RECORDING_GPU} can run is recorded")
        return 0
    print("not yet recorded on hardware:")
    for case, forms in unrecorded.items():
        print(f"    {case}" + (f" (no recorded case has {', '.join(sorted(forms))})" if forms else ""))
    families = dict.fromkeys(case.partition("/")[0] for case in unrecorded)
    print(f"record them on {RECORDING_GPU}:")
    print(f"    python -m tools.record_cases --family {' '.join(families)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
