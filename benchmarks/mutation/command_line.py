"""The rules at sites of one's own choice: the options of `python -m benchmarks.mutants` that pick them."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutation.families import families
from benchmarks.mutation.family import Arrays, Family
from benchmarks.mutation.rule import Change, Kernel, Mutant, Rule, made, mutants_of
from benchmarks.mutation.rules import RULES
from benchmarks.mutation.running import NotRightError, run_right, try_mutant
from cutecourse import emulator
from cutecourse.analysis import find_entry, parameters
from cutecourse.analysis.arguments import Arguments
from cutecourse.cli.emulate import extents
from cutecourse.dtypes import encode
from cutecourse.emulator import HAZARDS
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec, Scalar, SpecError, Tensor
from cutecourse.kernels.files import kernel_module
from cutecourse.ptx import parse, read_module
from cutecourse.runtime.assembly import find_ptxas

_LIMIT_BYTES = 8 << 30


class _Asked(CourseError):
    """Options that do not go together, or name what is not there."""


@dataclass(frozen=True)
class Told(Family):
    """A kernel from a file, whose arguments are described as for `cutecourse emulate`."""

    specs: tuple[str, ...] = ()

    def arguments(self, maps: Mapping[str, Any]) -> tuple[list[Any], Callable[[], Arrays]]:
        """The arguments made anew from their files."""
        checked = read_module(self.compiled[0])
        entry = find_entry(checked.module, self.compiled[1])
        made = Arguments(_LIMIT_BYTES)
        values = made.make(self.specs, parameters(checked.functions[entry.name]))
        return values, lambda: {" ".join(key): array for key, array in made.arrays.items()}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options for one's own sites."""
    own = parser.add_argument_group("your own sites")
    own.add_argument("--list", action="store_true", help="print the sites instead of running them")
    own.add_argument(
        "--text", action="store_true", help="with --list: print the kernel's PTX, lines numbered"
    )
    own.add_argument("--family", help="one of the kernels of the suite, by its name")
    own.add_argument(
        "--kernel", metavar="MODULE[:NAME]", help="a launch specification; a module or a .py file"
    )
    own.add_argument("--set", action="append", default=[], metavar="N=5", help="a number that --kernel takes")
    own.add_argument("--ptx", type=Path, metavar="FILE", help="a PTX text, launched as the options below say")
    own.add_argument("--entry", help="which kernel of the text")
    own.add_argument("--grid", type=extents, default=(1, 1, 1))
    own.add_argument("--block", type=extents, default=(1, 1, 1))
    own.add_argument("--cluster", type=extents, default=(1, 1, 1))
    own.add_argument("--smem", type=int, default=0)
    own.add_argument("--arg", action="append", default=[])
    own.add_argument("--rule", help="this rule only")
    own.add_argument("--line", type=int, help="the site at this line only")
    own.add_argument("--replace", metavar="TEXT", help="what is to stand in the line instead")
    own.add_argument("--expect", metavar="RULE", help="with --replace: a rule, or reports, with commas")


def is_asked(options: argparse.Namespace) -> bool:
    """Whether the options pick sites."""
    picks = (options.family, options.kernel, options.ptx, options.rule, options.line, options.replace)
    return options.list or any(pick is not None for pick in picks)


def answer(options: argparse.Namespace) -> int:
    """List the sites, or run them. Exit status: 1 where a mistake is not named, 2 for wrong options."""
    try:
        chosen = _kernels(options)
        if options.list and options.text:
            for family in chosen:
                print(f"// {family.name}")
                for number, line in enumerate(family.kernel.text.split("\n"), 1):
                    print(f"{number:5} {line}")
            return 0
        pairs = [(family, mutant) for family in chosen for mutant in _mutants(family, options)]
        if not pairs:
            raise _Asked("there is no such site; --list shows those that there are")
        if options.list:
            for family, mutant in pairs:
                none = f"  [excluded: {mutant.excluded}]" if mutant.excluded else ""
                none += f"  [beyond reports: {mutant.beyond}]" if mutant.beyond else ""
                change = f"{mutant.rule.name}: {mutant.before} -> {mutant.after}"
                print(f"{family.name}:{mutant.line}: {change}{none}")
            return 0
        return max(_run(family, [one for of, one in pairs if of is family]) for family in chosen)
    except (CourseError, NotRightError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _run(family: Family, mutants: list[Mutant]) -> int:
    if not mutants:
        return 0
    right = run_right(family)
    status = 0
    for mutant in mutants:
        print(f"{family.name}:{mutant.line}: {mutant.rule.name}: {mutant.before} -> {mutant.after}")
        if mutant.excluded:
            print(f"  excluded by rule: {mutant.excluded}")
            continue
        found = try_mutant(family, mutant, right)
        print(f"  {found.outcome}: {', '.join(found.reports) or 'no report'} {found.message}")
        print(f"  named by: {', '.join(sorted(mutant.rule.right)) or mutant.beyond}")
        status |= found.outcome != "right"
    return int(status)


# --- which kernel -------------------------------------------------------------------------------------------


def _kernels(options: argparse.Namespace) -> list[Family]:
    if sum(one is not None for one in (options.family, options.kernel, options.ptx)) > 1:
        raise _Asked("give one of --family, --kernel and --ptx")
    if options.ptx is not None:
        return [_told(options)]
    known = families()
    if options.kernel is not None:
        return [_of_module(options.kernel, options.set, known)]
    if options.family is None:
        return known
    found = [family for family in known if family.name == options.family]
    if not found:
        raise _Asked(f"--family {options.family!r}: there are {', '.join(one.name for one in known)}")
    return found


def _told(options: argparse.Namespace) -> Told:
    text = options.ptx.read_text(encoding="utf-8")
    entry = find_entry(parse(text), options.entry).name
    target = next(
        (line.split()[1] for line in text.splitlines() if line.strip().startswith(".target")), "sm_80"
    )
    spec = LaunchSpec(
        name="own",
        language="ptx",
        ptx=text,
        entry=entry,
        grid=options.grid,
        block=options.block,
        cluster=options.cluster,
        dynamic_smem=options.smem,
        params=(),
        target=target.rstrip(","),
    )
    return Told(str(options.ptx), "your own", spec, {}, None, specs=tuple(options.arg))


def _of_module(where: str, numbers: list[str], known: list[Family]) -> Family:
    name, _, attribute = where.partition(":")
    if name.endswith(".py"):
        place = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert place is not None
        assert place.loader is not None
        module = importlib.util.module_from_spec(place)
        place.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(name) if "." in name else kernel_module(name)
        except (ModuleNotFoundError, SpecError) as error:
            raise _Asked(f"--kernel {where}: {error}") from None
    spec = getattr(module, attribute or "LAUNCH", None)
    if not isinstance(spec, LaunchSpec):
        raise _Asked(f"--kernel {where}: {attribute or 'LAUNCH'} is no launch specification")
    for family in known:
        if family.spec is spec:
            return family
    values = dict(one.split("=", 1) for one in numbers)
    return Family(where, "your own", spec, _arrays(spec, values), None)


def _arrays(spec: LaunchSpec, numbers: Mapping[str, str]) -> Arrays:
    """Small whole numbers for every array of a specification."""
    found: Arrays = {}
    for seed, (name, param) in enumerate(spec.arguments.items()):
        if isinstance(param, Scalar):
            if name not in numbers:
                raise _Asked(f"{spec.name} takes a number {name}: give it with --set {name}=...")
            found[name] = (float if param.dtype.kind == "float" else int)(numbers[name])
            continue
        assert isinstance(param, Tensor)
        shape = [extent for extent in param.extents if extent is not None]
        if len(shape) < len(param.extents):
            raise _Asked(f"{spec.name}: {name} has an open shape; use a specification with all extents")
        low = -8 if param.dtype.kind in ("float", "int") else 0
        drawn = np.random.default_rng(seed).integers(low, 8, shape, endpoint=True)
        found[name] = encode(drawn, param.dtype)
    return found


# --- which mutants ------------------------------------------------------------------------------------------


def _mutants(family: Family, options: argparse.Namespace) -> Iterator[Mutant]:
    kernel = family.kernel
    if options.replace is not None:
        yield _replaced(kernel, options)
        return
    rules = RULES if options.rule is None else (_rule(options.rule),)
    for mutant in mutants_of(kernel, rules):
        if options.line in (None, mutant.line):
            yield mutant


def _rule(name: str) -> Rule:
    found = next((rule for rule in RULES if rule.name == name), None)
    if found is None:
        raise _Asked(f"there is no rule {name!r}; there are {', '.join(rule.name for rule in RULES)}")
    return found


def _replaced(kernel: Kernel, options: argparse.Namespace) -> Mutant:
    lines = kernel.text.split("\n")
    if options.line is None or not 1 <= options.line <= len(lines):
        raise _Asked(f"--replace needs --line, from 1 to {len(lines)}")
    if options.expect is None:
        raise _Asked("--replace needs --expect: a rule, or the reports that name the mistake")
    if any(rule.name == options.expect for rule in RULES):
        right, why = _rule(options.expect).right, _rule(options.expect).why
    else:
        given = [one.strip() for one in options.expect.split(",")]
        for one in given:
            if one not in HAZARDS and not hasattr(emulator.errors, one):
                raise _Asked(f"--expect {one}: neither a rule, nor an error's class, nor a hazard")
        right = frozenset(HAZARDS[one].error if one in HAZARDS else one for one in given)
        why = "as you say"
    start = sum(len(line) + 1 for line in lines[: options.line - 1])
    edit = (start, start + len(lines[options.line - 1]), options.replace)
    rule = Rule("your own", "a line replaced", right, why, lambda kernel: iter(()))
    return made(rule, kernel, Change((edit,)))


# --- ptxas --------------------------------------------------------------------------------------------------

_TEXTS: list[tuple[str, str, Mutant]] = []


def ask_ptxas(chosen: list[Family], processes: int) -> int:
    """Let ptxas assemble every mutant: one that it refuses is none, and its rule has to say so."""
    program = find_ptxas()
    if program is None:
        print("there is no ptxas on this machine", file=sys.stderr)
        return 2
    _TEXTS[:] = [
        (str(program), family.name, mutant)
        for family in chosen
        for mutant in mutants_of(family.kernel, RULES)
        if not mutant.excluded and mutant.text != family.kernel.text
    ]
    refused: Counter[str] = Counter()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for problem, (_, name, mutant) in zip(pool.imap(_assembled, range(len(_TEXTS))), _TEXTS, strict=True):
            if problem:
                refused[mutant.rule.name] += 1
                print(f"{name}:{mutant.line}: {mutant.rule.name}: {problem}", flush=True)
    print(f"{len(_TEXTS)} mutants, {refused.total()} refused by ptxas {dict(refused)}")
    return int(bool(refused))


def _assembled(number: int) -> str | None:
    program, _, mutant = _TEXTS[number]
    target = next(line.split()[1] for line in mutant.text.splitlines() if line.strip().startswith(".target"))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(mutant.text, encoding="utf-8")
        done = subprocess.run(
            [program, "-O0", f"-arch={target.rstrip(',')}", "-o", str(path.with_suffix(".cubin")), str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    return None if done.returncode == 0 else " ".join((done.stderr or done.stdout).split())[:300]
