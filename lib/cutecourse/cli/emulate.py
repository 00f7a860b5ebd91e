"""`cutecourse emulate`: run a kernel from its PTX text on the CPU, and say what is wrong with it.

Exit status: 0 the kernel ran to its end, with or without warnings; 1 it did something wrong, or --strict and
there is a warning, or --explore and seeds end differently; 2 it was not run: the command line, a file, the
text, an argument, the launch, or an instruction that the emulator does not have; 3 it was stopped at the
limit of instructions, time or memory; 130 Ctrl-C stopped it. Whatever is wrong is said once, on standard
error, as are warnings.
"""

from __future__ import annotations

import argparse
import errno
import io
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from cutecourse.analysis import InputError, find_entry, parameters
from cutecourse.analysis import arguments as words
from cutecourse.analysis.arguments import Arguments, check_writable
from cutecourse.analysis.files import read_ptx, read_text
from cutecourse.cli._events import WHAT_FILTERS, event_filter, new_recorder, print_events
from cutecourse.cli._formats import Findings, write_junit, write_sarif
from cutecourse.emulator import EmulatorError, Exploration, LaunchResult, explore, launch
from cutecourse.emulator.core.hazards import Note, grouped, lowering, read_severities
from cutecourse.emulator.errors import BudgetExceeded, LaunchError, UnsupportedInstruction
from cutecourse.emulator.launch import DEFAULT_BUDGET
from cutecourse.emulator.numbers.tensor_core_sums import DEFAULT_ARITHMETIC, TENSOR_CORES
from cutecourse.emulator.prove.order import EventOrder
from cutecourse.errors import CourseError
from cutecourse.memory_report import memory_report
from cutecourse.ptx import CheckedModule, Function, PtxError, read_module
from cutecourse.ptx.demangle import short_name
from cutecourse.trace import AccessLog, Recorder, Trace

__all__ = ["add_launch", "extents", "prepared", "register", "status_of"]

RAN, WRONG, NOT_RUN, STOPPED = range(4)
_WHAT_ARGUMENTS = (words.__doc__ or "").partition("\n\n")[2]
_LAUNCH = ("grid", "block", "cluster", "dynamic_smem")
_STATUSES = "exit status:" + (__doc__ or "").partition("Exit status:")[2]


class _Stopped(CourseError):
    """The launch came to the limit of time or memory."""


def register(subparsers: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "emulate",
        help="run a kernel from its PTX text on the CPU, and say what is wrong with it",
        description="Run a kernel from its PTX text on the CPU, and say what is wrong with it.",
        epilog=f"arguments:\n\n{_WHAT_ARGUMENTS}\nevents:\n\n{WHAT_FILTERS}\n{_STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_launch(parser)
    parser.add_argument(
        "--seed", type=int, default=0, help="chooses the order of everything that nothing orders"
    )
    parser.add_argument("--trace", metavar="FILE", help="write what happened, for ui.perfetto.dev")
    parser.add_argument(
        "--events",
        nargs="*",
        type=event_filter,
        metavar="KEY=VALUE",
        help="print what happened; with filters, only the events that pass all of them",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="print the sectors of global memory and the wavefronts of shared memory that each instruction "
        "moves, beside the least possible",
    )
    parser.add_argument(
        "--notes", action="store_true", help="print hazards that do no harm, in ten lines at most"
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="go on after an error where that is possible, and report all that the run meets",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the launch, its end and its reports as JSON and nothing else; the package's"
        " cli/emulate.schema.json describes it",
    )
    parser.add_argument("--junit", metavar="FILE", help="write a test case for each seed, as JUnit XML")
    parser.add_argument("--sarif", metavar="FILE", help="write the reports as SARIF 2.1.0")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if there is a warning")
    parser.add_argument(
        "--explore",
        type=int,
        metavar="N",
        help="run N seeds from --seed on, each with fresh copies of the arrays, and say where they differ; "
        "nothing is saved",
    )
    parser.add_argument(
        "--order", metavar="FILE", help="run the order of events that `cutecourse prove --save` has written"
    )
    parser.add_argument(
        "--then",
        nargs=argparse.REMAINDER,
        help="FILE [--grid ... --arg ...]: launch this kernel next, as one that may begin before the first"
        " has ended, and report what it uses without griddepcontrol.wait; all options after --then are the"
        " second launch's, a file that both name is one array, and --trace, --events and --memory show the"
        " second launch",
    )
    parser.set_defaults(run=_run)


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what is launched, and within which limits."""
    _add_kernel(parser)
    _add_limits(parser)


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which kernel is launched, and how."""
    parser.add_argument("file", help="the PTX text")
    parser.add_argument("--entry", help="which kernel, if the text has several")
    parser.add_argument("--grid", type=extents, default=(1, 1, 1), help="CTAs, as 2,1,1 (default: 1)")
    parser.add_argument("--block", type=extents, help="threads, as 128 (default: the kernel's .reqntid)")
    parser.add_argument("--cluster", type=extents, default=(1, 1, 1), help="CTAs of a cluster (default: 1)")
    parser.add_argument("--smem", type=int, default=0, help="dynamic shared memory in bytes (default: 0)")
    parser.add_argument(
        "--cooperative",
        action="store_true",
        help="run all CTAs at once, for kernels with a barrier of the whole grid",
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="ARG", help="an argument of the kernel, in order"
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that hold for all launches of a command line."""
    parser.add_argument(
        "--arithmetic",
        default=DEFAULT_ARITHMETIC,
        choices=sorted(TENSOR_CORES),
        help="the GPU whose tensor-core sums mma.sync gives (default: %(default)s)",
    )
    parser.add_argument(
        "--hazard",
        action="append",
        default=[],
        type=_hazard,
        metavar="NAME=SEVERITY",
        help="how severe a hazard is: error, warning, note or off; NAME as reports have it, with spaces or "
        "hyphens, also for one line or kernel: 'race at gemm.cu:64 in gemm=off'",
    )
    parser.add_argument(
        "--suppress",
        metavar="FILE",
        help="a text with one such NAME=SEVERITY a line, and comments after #; --hazard holds before it",
    )
    most = "to issue at most (default: %(default)s)"
    parser.add_argument("--budget", type=int, default=DEFAULT_BUDGET, help=f"instructions {most}")
    parser.add_argument(
        "--timeout", type=float, default=600, help="seconds to run at most (default: %(default)s)"
    )
    parser.add_argument(
        "--max-memory", type=float, default=8, help="GiB of memory to take at most (default: %(default)s)"
    )


def extents(text: str) -> tuple[int, int, int]:
    """A grid, block or cluster, as 2,1,1; what is left out is 1. Errors: argparse.ArgumentTypeError."""
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError:
        given = []
    if not 1 <= len(given) <= 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three integers such as 2,1,1")
    x, y, z = [*given, 1, 1][:3]
    return x, y, z


def _hazard(text: str) -> tuple[str, str]:
    name, equals, severity = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SEVERITY such as race=warning")
    return name.strip(), severity.strip()


def _run(arguments: argparse.Namespace) -> int:
    findings = Findings(arguments.file)
    with redirect_stdout(io.StringIO()) if arguments.json else nullcontext():
        findings.status = status_of(lambda: _emulate(arguments, findings), findings)
    if arguments.json:
        print(findings.to_json())
    try:
        for path, write in ((arguments.junit, write_junit), (arguments.sarif, write_sarif)):
            if path:
                write(findings, path)
    except InputError as error:
        return _say(error, NOT_RUN)
    return findings.status


def status_of(run: Callable[[], int], findings: Findings) -> int:
    """Run a kernel, keep what is found, and return the exit status."""
    try:
        return run()
    except CourseError as error:
        findings.error = error
        if isinstance(error, BudgetExceeded | _Stopped):
            return _say(error, STOPPED)
        if isinstance(error, InputError | PtxError | LaunchError | UnsupportedInstruction):
            return _say(error, NOT_RUN)
        if isinstance(error, EmulatorError):
            _say_errors(error.notes)
            about = lowering(error.hazard, error.line, error.source, final=error.final)
            return _say(error, WRONG, f"\n  {about}")
        raise


_OPTIONS = {"max_instructions": "--budget", "dynamic_smem": "--smem"}
"""An argument of the launch, as messages name it, and the option that gives it here."""


def _say_errors(notes: Sequence[Note], *severities: str) -> int:
    """Print the notes that are errors, or have one of these severities; their number."""
    said = [note for note in notes if note.severity in {"error", *severities}]
    for note in said:
        about = lowering(note.hazard, note.line, note.source)
        print(f"cutecourse: {note}\n  {about}", file=sys.stderr)
    return len(said)


def _say(error: CourseError, status: int, about: str = "") -> int:
    problem = "\n  ".join([str(error), *getattr(error, "__notes__", ())]) + about
    named = re.sub(rf"\b({'|'.join(_OPTIONS)})\b", lambda found: _OPTIONS[found[0]], problem)
    print(f"cutecourse: {named}", file=sys.stderr)
    return status


@contextmanager
def prepared(
    arguments: argparse.Namespace, findings: Findings
) -> Iterator[tuple[CheckedModule, dict[str, Any], Arguments]]:
    """Read the text and make the launch as the command line has it, within its limits.

    Gives:  the module, the arguments of the launch, and the arrays that are saved after it.
    Errors: InputError, PtxError.
    """
    for name in ("budget", "timeout", "max-memory"):
        given = getattr(arguments, name.replace("-", "_"))
        if not 0 < given < 1e12:
            raise InputError(f"--{name} {given}: give a number greater than 0")
    limit = int(arguments.max_memory * 2**30)
    with _at_most(arguments.timeout, limit):
        made = Arguments(limit)
        checked, options = _launch_of(arguments, arguments, made, findings)
        yield checked, options, made


def _launch_of(
    kernel: argparse.Namespace, limits: argparse.Namespace, made: Arguments, findings: Findings
) -> tuple[CheckedModule, dict[str, Any]]:
    """The module of a launch, and its arguments. Errors: InputError, PtxError."""
    findings.file = kernel.file
    checked = read_module(read_ptx(kernel.file))
    entry = find_entry(checked.module, kernel.entry)
    values = made.make(kernel.arg, parameters(checked.functions[entry.name]))
    options = _options(kernel, limits, entry, values)
    findings.kernel, findings.launch = entry.name, {name: options[name] for name in _LAUNCH}
    return checked, options


def _emulate(arguments: argparse.Namespace, findings: Findings) -> int:
    for path in filter(None, (arguments.trace, arguments.junit, arguments.sarif)):
        check_writable(path)
    if arguments.explore is not None and arguments.keep_going:
        raise InputError("--explore compares how runs end, so it takes no --keep-going")
    traced = arguments.trace or arguments.events is not None or arguments.memory
    if arguments.explore is not None and (arguments.explore < 2 or traced):
        why = "takes no --trace, no --events and no --memory" if traced else "takes 2 seeds or more"
        raise InputError(f"--explore {arguments.explore}: it {why}")
    if arguments.then is not None and (arguments.explore is not None or arguments.order is not None):
        raise InputError("--then runs two launches in one order, so it takes no --explore and no --order")
    then = None if arguments.then is None else _then_parser().parse_args(arguments.then)
    recorder = new_recorder(arguments.trace, arguments.events)
    accesses = AccessLog() if arguments.memory else None
    with prepared(arguments, findings) as (checked, options, made):
        options["keep_going"] = arguments.keep_going
        findings.launch["seed"] = arguments.seed
        if arguments.order is not None:
            if arguments.explore is not None:
                raise InputError("--explore runs orders that seeds choose, so it takes no --order")
            options["steering"] = EventOrder.from_json(read_text(arguments.order)).steering()
        if arguments.explore is not None:
            findings.exploration = _explore(arguments, checked, options)
            return _explored(findings.exploration)
        first = None
        if then is not None:
            first = launch(checked, **options, seed=arguments.seed, has_dependents=True)
            findings.earlier = arguments.file, first.notes
            _print_end(first)
            checked, options = _launch_of(then, arguments, made, findings)
            findings.launch["seed"] = arguments.seed
            options |= {"keep_going": arguments.keep_going, "primary": first}
        try:
            result = launch(checked, **options, seed=arguments.seed, recorder=recorder, accesses=accesses)
        except CourseError:
            _save_trace(recorder, arguments.trace)  # it shows how it came to this
            try:
                print_events(recorder, arguments.events)
            except InputError as wrong:
                _say(wrong, NOT_RUN)
            raise
    findings.result = result
    _print_end(result)
    if first is not None:
        result = replace(result, notes=(*first.notes, *result.notes))
    for path, array in made.saved.items():
        _save(path, array)
        findings.saved.append({"file": path, "dtype": str(array.dtype), "shape": list(array.shape)})
        print(f"wrote {path}: {array.dtype}, shape {'x'.join(map(str, array.shape))}")
    _save_trace(recorder, arguments.trace)
    if recorder is not None and arguments.trace:
        print(f"wrote {arguments.trace}: {len(recorder)} events, 1 us of it is 1 instruction issued")
    print_events(recorder, arguments.events)
    if accesses is not None:
        print(memory_report(accesses, checked.module, kernel=result.entry, uncounted=result.uncounted))
    _print_notes(result, arguments.notes)
    wrong = any(note.severity == "error" for note in result.notes)
    said = _say_errors(result.notes, "warning")
    return WRONG if wrong or (said and arguments.strict) else RAN


def _print_end(result: LaunchResult) -> None:
    """Print what a kernel has printed, and how its launch ended."""
    if result.printed:
        print(result.printed, end="" if result.printed.endswith("\n") else "\n")
    print(_summary(result))


def _explore(arguments: argparse.Namespace, checked: CheckedModule, options: dict[str, Any]) -> Exploration:
    seeds = range(arguments.seed, arguments.seed + arguments.explore)
    return explore(checked, seeds=seeds, max_seeds=arguments.explore, **options)


def _explored(found: Exploration) -> int:
    """Say whether several seeds differ and where, and return the exit status."""
    if found.agree and found.outcomes[0].error is None:
        print(found)
        return RAN
    first = found.outcomes[0]
    print(f"cutecourse: {found}" + (f"\n{first.message}" if found.agree else ""), file=sys.stderr)
    statuses = {BudgetExceeded.__name__: STOPPED, UnsupportedInstruction.__name__: NOT_RUN}
    return statuses.get(first.error or "", WRONG) if found.agree else WRONG


def _then_parser() -> argparse.ArgumentParser:
    """The parser of the words after --then."""
    parser = argparse.ArgumentParser(prog="cutecourse emulate ... --then", add_help=False)
    _add_kernel(parser)
    return parser


def _options(
    kernel: argparse.Namespace, limits: argparse.Namespace, entry: Function, values: Sequence[Any]
) -> dict[str, Any]:
    """A launch as the command line has it, but for its seed."""
    block = kernel.block or (*(entry.directive("reqntid") or ()), 1, 1)[:3]
    if kernel.block is None and entry.directive("reqntid") is None:
        raise InputError(
            f"{short_name(entry.name)} has no .reqntid. Say with --block how many threads a CTA has."
        )
    return {
        "entry": entry.name,
        "grid": kernel.grid,
        "block": block,
        "cluster": kernel.cluster,
        "dynamic_smem": kernel.smem,
        "cooperative": kernel.cooperative,
        "args": values,
        "max_instructions": limits.budget,
        "arithmetic": limits.arithmetic,
        "hazards": _hazards(limits),
    }


def _hazards(arguments: argparse.Namespace) -> dict[str, str]:
    """The severities of the file and then of the options, later ones last."""
    chosen = {}
    if arguments.suppress is not None:
        chosen = read_severities(read_text(arguments.suppress), f"{arguments.suppress}, line")
    for name, severity in arguments.hazard:
        chosen.pop(name, None)
        chosen[name] = severity
    return chosen


def _summary(result: LaunchResult) -> str:
    return (
        f"{short_name(result.entry)} ran to its end on the emulator: grid {result.grid}, block"
        f" {result.block}, seed {result.seed}\n{result.warps} warps executed {result.total} instructions,"
        f" issued as {result.issued} for bundles of warps"
    )


def _print_notes(result: LaunchResult, shown: bool) -> None:
    notes = [note for note in result.notes if note.severity == "note"]
    if shown:
        print(*grouped(notes), sep="\n", end="\n" if notes else "")
    if notes and not shown:
        times = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
        print(f"{times} about hazards that do no harm on hardware; --notes prints them")
    elif shown and not notes:
        print("no notes")


def _save(path: str, array: np.ndarray[Any, Any]) -> None:
    try:
        with Path(path).open("wb") as file:  # numpy.save by name would add an ending
            np.save(file, array, allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _save_trace(recorder: Recorder | None, path: str | None) -> None:
    if recorder is not None and path is not None:
        trace: Trace = recorder.trace()
        try:
            trace.save_chrome(path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None


# --- limits ------------------------------------------------------------------------------------------------


@contextmanager
def _at_most(seconds: float, n_bytes: int) -> Iterator[None]:
    """Stop what runs inside after a time, or where it asks for more memory; both with an error of ours.

    The time ends it in the main thread only, the only one that signals reach; where the system knows no
    limit of memory there is none.
    """
    with _memory(n_bytes), _time(seconds):
        try:
            yield
        except (MemoryError, ImportError, OSError) as error:
            if not _is_for_memory(error):
                raise
            message = f"the launch needs more than {n_bytes / 2**30:g} GiB of memory. See --max-memory."
            raise _Stopped(message) from None


def _is_for_memory(error: Exception) -> bool:
    """Return whether an error means that memory ran out, also in a library that was just loaded."""
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM


@contextmanager
def _time(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _Stopped(f"the kernel did not end within {seconds:g} seconds. See --timeout.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory(n_bytes: int) -> Iterator[None]:
    """Limit the address space to what is taken now and so many bytes more."""
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        yield
        return
    wanted = taken + n_bytes
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
