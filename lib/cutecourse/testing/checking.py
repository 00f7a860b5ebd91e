"""`check`: one kernel under several seeds, its outputs compared, its report as the failure."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutecourse.analysis import find_entry
from cutecourse.analysis.files import read_text
from cutecourse.analysis.texts import module_of
from cutecourse.dtypes import DType, dtype, from_numpy
from cutecourse.emulator import EmulatorError, LaunchResult, Note, TensorMap, launch, prove
from cutecourse.emulator.core.hazards import read_severities
from cutecourse.emulator.errors import LaunchError, UnsupportedInstruction
from cutecourse.emulator.launch import DEFAULT_BUDGET
from cutecourse.emulator.memory.host_arrays import host_arrays
from cutecourse.emulator.recording.argument_copies import Copies
from cutecourse.errors import CourseError
from cutecourse.ptx import CheckedModule, Function
from cutecourse.ptx.demangle import short_name
from cutecourse.testing.comparison import difference, unwritten
from cutecourse.trace.words import in_runs, number

__all__ = ["SEEDS", "CheckedRun", "KernelFailure", "Output", "check"]

Array = NDArray[Any]

SEEDS = 5
"""`check` runs so many seeds unless it is told otherwise."""
_CONTEXT = 2
_KINDS = {"error": "an error", "warning": "a warning"}


@dataclass(frozen=True)
class Output:
    """An array that the kernel is to fill: `check` makes a new one for each seed and poisons it.

    shape  its extents; None takes those of the expected array.
    dtype  its element type by name, such as "f32" or "bf16"; None takes that of the expected array.
    """

    shape: int | Sequence[int] | None = None
    dtype: str | None = None


class KernelFailure(CourseError, AssertionError):
    """A kernel does not do what its test says. The message ends in the emulator's report.

    error   the emulator's error, or None if the outputs are wrong or depend on the seed.
    note    the warning that made the check fail, or None.
    seed    the seed of the launch that failed.
    """

    def __init__(
        self,
        problem: str,
        *,
        seed: int,
        error: EmulatorError | None = None,
        note: Note | None = None,
        excerpt: str = "",
    ) -> None:
        self.seed, self.error, self.note, self.excerpt = seed, error, note, excerpt
        super().__init__(problem)

    @property
    def hazard(self) -> str | None:
        """The hazard's name, which `allow` takes."""
        if self.note is not None:
            return self.note.hazard.name
        hazard = getattr(self.error, "hazard", None)
        return None if hazard is None else str(hazard.name)


@dataclass(frozen=True)
class CheckedRun:
    """The launches of a check that passed."""

    arrays: Mapping[str, Array] = field(repr=False)
    """The arrays as the first seed left them, by the names of the arguments."""
    launches: tuple[LaunchResult, ...] = field(repr=False)
    """The result of each seed, in order."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """The first seed's hazards that did no harm, and those that `allow` names."""
        return self.launches[0].notes

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]


def check(
    ptx: Any,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int] | None = None,
    args: Sequence[Any] | Mapping[str, Any] = (),
    expect: Mapping[str, ArrayLike] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seeds: int | Iterable[int] = SEEDS,
    allow: Iterable[str] = (),
    suppress: str | PathLike[str] | None = None,
    may_differ: Iterable[str] = (),
    entry: str | None = None,
    cluster: int | Sequence[int] = (1, 1, 1),
    dynamic_smem: int = 0,
    cooperative: bool = False,
    max_instructions: int = DEFAULT_BUDGET,
    keep_going: bool = False,
    every_order: bool = False,
) -> CheckedRun:
    """Run a kernel on the emulator under several seeds; fail with the report of what it does wrong.

    ptx         a PTX text, the path of one, or a compiled kernel: with `asm["ptx"]` (Triton), `inspect_asm()`
                (numba-cuda) or `__ptx__` (the CuTe DSL).
    grid, block, cluster, dynamic_smem, cooperative, max_instructions, keep_going
                as `launch` takes them; block may be left out if the kernel has .reqntid. With keep_going the
                failure has all reports of the first seed that has any.
    args        the arguments in the order of the parameters. A mapping gives them names of your choice, in
                that order; in a sequence an argument has its parameter's name. An array is copied for each
                seed, so it keeps its values; `Output()` is a new array, filled with NaN (integers with
                0xCB bytes) to show what the kernel does not write.
    expect      the values that arrays must have in the end, by the arguments' names. Of a list of tensor
                maps, to which a kernel gets one pointer, the arrays are "maps[0]", "maps[1]" and so on.
    rtol, atol  the tolerance: |value - expected| <= atol + rtol * |expected|. The defaults depend on the
                element type and are those of torch.testing.assert_close; other types are exact.
    seeds       how many seeds to run, from 0 on, or the seeds themselves.
    allow       hazards that do not make the check fail, such as "race", or "race at gemm.cu:64 in gemm" for
                one line of one kernel (emulator.core.hazards explains the words). They become notes.
    suppress    a file that has such words, one a line; each may be followed by = and a severity.
    every_order after the seeds, prove that no order of events goes wrong (`cutecourse.emulator.prove`). The
                check fails with an order that does, and also if neither can be shown.
    may_differ  arrays without an expectation whose contents may depend on the seed, by name. Any other
                array must end with the same bits under each seed.

    Returns:    the arrays and the results.
    Errors:     KernelFailure, an AssertionError, for an error or a warning of the emulator, for an array that
                is not as expected, and for one that depends on the seed. InputError, PtxError, LaunchError
                and UnsupportedInstruction if the kernel could not be run as the test says.
    """
    __tracebackhide__ = True
    module = module_of(ptx)
    function = find_entry(module.module, entry)
    named = _named(args, function)
    expected = {_short(name, function): value for name, value in (expect or {}).items()}
    loose = {_short(name, function) for name in may_differ}
    for what, names in (("expect", expected), ("may_differ", loose)):
        known = {place for name, value in named.items() for place in (name, *_arrays(name, value))}
        if unknown := [name for name in names if name not in known]:
            raise LaunchError(
                f"{what} names {', '.join(unknown)}; the arguments: {', '.join(named) or 'none'}"
            )
    chosen = _seeds(seeds)
    options: dict[str, Any] = {
        "grid": grid,
        "block": _block(function, block),
        "cluster": cluster,
        "dynamic_smem": dynamic_smem,
        "cooperative": cooperative,
        "entry": function.name,
        "max_instructions": max_instructions,
        "hazards": _hazards(allow, suppress),
        "keep_going": keep_going,
    }
    first: dict[str, Array] = {}
    launches: list[LaunchResult] = []
    for seed in chosen:
        made = _Arguments(named, expected)
        under = f"kernel {short_name(function.name)}, seed {seed} of {in_runs(chosen, ' to ')}"
        try:
            result = launch(module, args=made.values, seed=seed, **options)
        except (LaunchError, UnsupportedInstruction):
            raise
        except EmulatorError as error:
            name = getattr(error, "hazard", None)
            what = type(error).__name__ if name is None else f"{name.name} ({type(error).__name__})"
            text = f"{under}: {what}{_all(error.notes)}\n\n{error}"
            raise KernelFailure(text, seed=seed, error=error, excerpt=_excerpt(module, error.line)) from None
        if wrong := _wrong(result.notes):
            note, name = wrong[0], wrong[0].hazard.name
            text = f"{under}: {name}, {_KINDS[note.severity]}. To allow it: allow=[{name!r}]"
            excerpt = _excerpt(module, note.line)
            raise KernelFailure(text + _all(result.notes), seed=seed, note=note, excerpt=excerpt)
        for name, right in expected.items():
            if problem := made.problem(name, right, rtol, atol):
                notes = "".join(f"\n{note}" for note in result.notes)
                raise KernelFailure(f"{under}: {problem}{notes}", seed=seed)
        first = first or made.arrays
        launches.append(result)
        for name, array in made.arrays.items():
            if name not in expected and name not in loose and array.tobytes() != first[name].tobytes():
                raise KernelFailure(_dependence(name, first[name], array, chosen[0], seed), seed=seed)
    if every_order:
        parameters = zip(named, function.params, strict=False)
        differs = {parameter.name: None for name, parameter in parameters if name in loose}
        proof = prove(module, args=_Arguments(named, expected).values, compare=differs, **options)
        if not proof.proved:
            text = f"kernel {short_name(function.name)}, in every order: {proof}"
            raise KernelFailure(text, seed=0, error=proof.error)
    return CheckedRun(first, tuple(launches))


# --- what the caller gives ----------------------------------------------------------------------------------


def _block(function: Function, block: int | Sequence[int] | None) -> Any:
    required = function.directive("reqntid")
    if block is None and not required:
        raise LaunchError(
            f"{short_name(function.name)} has no .reqntid: say with block= how many threads a CTA has"
        )
    return block if block is not None else required


def _short(name: Any, function: Function) -> str:
    """An argument's name as `_named` has it: the test may give a parameter's name as the text has it."""
    return str(name).removeprefix(f"{function.name}_")


def _named(args: Any, function: Function) -> dict[str, Any]:
    """The arguments by name; those of a sequence by their parameters' names."""
    if isinstance(args, Mapping):
        return {str(name): host_arrays(value) for name, value in args.items()}
    if isinstance(args, np.ndarray | str | bytes | Output) or not isinstance(args, Iterable):
        raise LaunchError("args is a sequence of arguments, or a mapping from names to arguments")
    given = [host_arrays(value) for value in args]
    names = [function.shown(parameter) for parameter in function.params]
    names += [f"argument {place}" for place in range(len(names), len(given))]
    return dict(zip(names, given, strict=False))


def _arrays(name: str, value: Any) -> dict[str, Array]:
    """The arrays of an argument by name: its own, a tensor map's, or those of a list of tensor maps."""
    if isinstance(value, TensorMap):
        return {name: value.array}
    if isinstance(value, tuple | list):
        maps = {f"{name}[{place}]": one for place, one in enumerate(value) if isinstance(one, TensorMap)}
        return {place: one.array for place, one in maps.items()}
    return {name: value} if isinstance(value, np.ndarray) else {}


def _hazards(allow: Iterable[str], suppress: str | PathLike[str] | None) -> dict[str, str]:
    """The severities that a check chooses: those of the file, and before them the allowed hazards."""
    given = {} if suppress is None else read_severities(read_text(suppress), str(suppress))
    return given | dict.fromkeys([allow] if isinstance(allow, str) else allow, "note")


def _seeds(seeds: Any) -> list[int]:
    chosen = range(seeds) if isinstance(seeds, numbers.Integral) else seeds
    try:
        found = [int(seed) for seed in chosen if isinstance(seed, numbers.Integral)]
        wrong = not found or len(found) != len(list(chosen))
    except TypeError:
        wrong = True
    if wrong:
        raise LaunchError(f"seeds is a number of seeds, at least 1, or a list of seeds, not {seeds!r}")
    return found


class _Arguments:
    """The arguments of one launch: copies of the arrays, and new outputs."""

    def __init__(self, named: Mapping[str, Any], expected: Mapping[str, ArrayLike]) -> None:
        copies = Copies()
        self.arrays: dict[str, Array] = {}
        self.kinds: dict[str, DType] = {}
        self.poison: dict[str, Array] = {}
        self.values: list[Any] = []
        for name, given in named.items():
            value = self._output(name, given, expected.get(name)) if isinstance(given, Output) else given
            value = value if name in self.poison else copies.of(value)
            found = _arrays(name, value)
            for place, array in found.items():
                self.arrays[place] = array
                if place not in self.kinds and place in expected:
                    self.kinds[place] = from_numpy(array.dtype)
            if name in expected and name not in found:
                raise LaunchError(f"expect names {name}, which is not an array but a {type(value).__name__}")
            self.values.append(value)

    def _output(self, name: str, wanted: Output, expected: ArrayLike | None) -> Array:
        if expected is None and (wanted.shape is None or wanted.dtype is None):
            raise LaunchError(f"{name} is an Output that expect does not name: give its shape and dtype")
        like = np.asarray(expected)
        kind = dtype(wanted.dtype) if wanted.dtype is not None else from_numpy(like.dtype)
        array = np.empty(like.shape if wanted.shape is None else wanted.shape, kind.numpy)
        array.view(np.uint8)[...] = 0xFF if kind.kind == "float" else 0xCB
        self.kinds[name], self.poison[name] = kind, array.copy()
        return array

    def problem(self, name: str, right: ArrayLike, rtol: float | None, atol: float | None) -> str | None:
        """The difference of an array from what is expected; None if there is none."""
        held = self.arrays[name]
        unset = unwritten(held, self.poison[name]) if name in self.poison else None
        return difference(name, held, self.kinds[name], right, rtol, atol, unset)


# --- what it says -------------------------------------------------------------------------------------------


def _wrong(notes: Iterable[Note]) -> list[Note]:
    """The notes that make a check fail, errors before warnings."""
    return sorted((note for note in notes if note.severity != "note"), key=lambda note: note.severity)


def _all(notes: Iterable[Note]) -> str:
    """The notes that make a check fail, a paragraph each."""
    return "".join(f"\n\n{note}" for note in _wrong(notes))


def _dependence(name: str, one: Array, other: Array, first: int, seed: int) -> str:
    """Say that an array has other bits under another seed, and where."""
    size = one.dtype.itemsize
    bits = [np.frombuffer(array.tobytes(), np.uint8).reshape(-1, size) for array in (one, other)]
    unlike = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    index = np.unravel_index(int(unlike[0]), one.shape)
    where = ", ".join(map(str, map(int, index)))
    return (
        f"{name} depends on the seed: {name}[{where}] is {one[index]} under seed {first} and {other[index]}"
        f" under seed {seed}; {number(len(unlike), 'element')} of {name} differ. If any order is right, give"
        f" the values to expect= with a tolerance, or may_differ=[{name!r}]"
    )


def _excerpt(module: CheckedModule, line: int | None) -> str:
    """The PTX around a line, which is marked."""
    if line is None:
        return ""
    lines = range(max(1, line - _CONTEXT), line + _CONTEXT + 1)
    texts = [(at, module.module.line_text(at)) for at in lines]
    width = len(str(lines[-1]))
    return "\n".join(f"{'>' if at == line else ' '} {at:{width}}  {text}".rstrip() for at, text in texts)
