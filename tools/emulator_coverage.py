"""What the emulator knows, and how each instruction was verified: counted from its registry and its cases.

Nothing here is typed: instructions, meanings, sources, simplifications and refusals come from the registry's
docstrings, hazards from `cutecourse.emulator.HAZARDS`, and counts from the PTX texts of the cases that stand
in the recordings.
"""

from __future__ import annotations

import ast
import hashlib
import html
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cutecourse import emulator
from cutecourse.emulator.core.registry import InstructionInfo, lookup, supported_instructions
from cutecourse.ptx import parse
from cutecourse.ptx.scopes import flatten
from tools.paths import ROOT, AuthoringError, relative

TESTS = ROOT / "tests" / "emulator"

_SPECIFICATION_ONLY = re.compile(r"^// specification_only: *(.+)$", re.MULTILINE)
_SECTION = re.compile(r"^(\w+): +(.*?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)
# An instruction in the text of a test: after a guard or whatever ends a statement, and before its semicolon.
_STATEMENT = re.compile(
    r"(?:^|[;{}:])[ \t]*(?:@!?%\w+[ \t]+)?([a-z]\w*(?:(?:\.|::)\w+)*)(?:[ \t]+[^;\n]*)?;", re.MULTILINE
)


class BadCoverage(AuthoringError):
    """The recordings are not of the cases: one is missing, has changed since, or is gone."""


@dataclass
class Count:
    """How one instruction was verified."""

    recorded: set[str] = field(default_factory=set)
    """Cases with it whose outputs a GPU gave."""
    forms: set[str] = field(default_factory=set)
    """Its different spellings, with all modifiers, in those."""
    specification: set[str] = field(default_factory=set)
    """Cases with it that no GPU at hand could run, compared with what the document says."""
    modules: set[str] = field(default_factory=set)
    """Test modules with PTX text of their own that has it."""


@dataclass(frozen=True)
class Coverage:
    """Counts by the instruction's name, the cases, and where the recorded ones ran."""

    counts: dict[str, Count]
    recorded: frozenset[str]
    specification: frozenset[str]
    reasons: frozenset[str]
    """Why cases are specification only."""
    machines: frozenset[str]
    """Machine, driver and day of the recordings."""


def measure(folder: Path = TESTS) -> Coverage:
    """Count the cases and the test modules under `folder`, which has cases/ and recordings/h200/.

    Errors: BadCoverage, where a case has neither a recording nor a reason, or has both, or is not what was
    recorded, or where a recording's case is gone.
    """
    hashes, machines = _recordings(folder / "recordings" / "h200")
    counts = {info.name: Count() for info in supported_instructions()}
    recorded, specification, reasons = set(), set(), set()
    for path in sorted((folder / "cases").glob("*/*.ptx")):
        text = path.read_text(encoding="utf-8")
        case = f"{path.parent.name}/{path.stem}"
        reason = _SPECIFICATION_ONLY.search(text)
        if bool(reason) == (case in hashes):
            problem = "is recorded, and not specification only" if reason else "was never recorded"
            raise BadCoverage(f"{relative(path)}: the case {problem}")
        if not reason and hashes[case] != hashlib.sha256(text.encode()).hexdigest():
            raise BadCoverage(f"{relative(path)}: the case has changed since it was recorded")
        if reason:
            specification.add(case)
            reasons.add(reason[1])
        else:
            recorded.add(case)
        for info, form in _instructions(text):
            count = counts[info.name]
            if reason:
                count.specification.add(case)
            else:
                count.recorded.add(case)
                count.forms.add(form)
    if gone := hashes.keys() - recorded:
        raise BadCoverage(f"recordings of cases that are gone: {', '.join(sorted(gone))}")
    for path in sorted(folder.glob("test_*.py")):
        for info in _named_in_test(path):
            counts[info.name].modules.add(path.stem)
    return Coverage(
        counts, frozenset(recorded), frozenset(specification), frozenset(reasons), frozenset(machines)
    )


def _recordings(folder: Path) -> tuple[dict[str, str], set[str]]:
    """The hash of each recorded case's text, and where the recordings were made."""
    hashes, machines = {}, set()
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
    on_gpu = sum(bool(count.recorded) for count in counts)
    specified = sum(bool(count.specification) and not count.recorded for count in counts)
    reasons = "; ".join(sorted(coverage.reasons))
    return (
        f"{len(known)} instructions: {on_gpu} stand in cases that a GPU ran, {specified} only in cases that"
        f" follow the specification, {len(known) - on_gpu - specified} in none.\n\n"
        f"{len(coverage.recorded)} cases were recorded ({_plain('; '.join(sorted(coverage.machines)))});"
        f" {len(coverage.specification)} are specification only ({_plain(reasons)})."
    )


def _unmet() -> str:
    """The families of instructions of which no GPU ran a single case, in one line."""
    counts = _measured().counts
    families: dict[str, list[Count]] = defaultdict(list)
    for info in supported_instructions():
        if not info.refused:
            families[info.name.partition(".")[0]].append(counts[info.name])
    unmet = {name: len(own) for name, own in families.items() if not any(count.recorded for count in own)}
    if not unmet:
        return "A GPU has run cases of every family of instructions."
    large = [f"`{name}` ({size} instructions)" for name, size in unmet.items() if size > 1]
    single = [f"`{name}`" for name, size in unmet.items() if size == 1]
    return f"No GPU has run a case of these families of instructions: {', '.join([*large, *single])}."


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
        "H200 cases",
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
        return "H200"
    if count.specification:
        return "specification"
    others = [other.name for other in infos if other.define is info.define and counts[other.name].recorded]
    if others:
        return f"H200, as {', '.join(f'`{name}`' for name in others)}: one definition"
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
