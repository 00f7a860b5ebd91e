"""Launching a kernel on the emulator: the one entry that everything else uses."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import cutecourse.emulator.instructions.families  # noqa: F401 - registers every instruction
from cutecourse.dtypes import encode
from cutecourse.emulator.checks import stuck
from cutecourse.emulator.checks.block_end import BlockEnds
from cutecourse.emulator.checks.earlier_launch import BesideEarlier, Earlier, Footprint, Reads
from cutecourse.emulator.checks.multiplications import follow_multiplications
from cutecourse.emulator.checks.provenance import provenance_of
from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.checks.races import look_for_races
from cutecourse.emulator.checks.scale_factors import follow_scale_factors
from cutecourse.emulator.checks.tensor_memory_copies import follow_copied_cells
from cutecourse.emulator.checks.tensor_memory_sums import follow_sums
from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.decode import decode
from cutecourse.emulator.core.frame import align_up, alignment_of, parameter_offsets, size_of
from cutecourse.emulator.core.hazards import severities
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.memory import Allocation, Memory
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.processes import run_parts
from cutecourse.emulator.core.program import Program
from cutecourse.emulator.core.scheduler import Scheduler
from cutecourse.emulator.core.special import N_SMS
from cutecourse.emulator.core.steering import Steering
from cutecourse.emulator.errors import EmulatorError, LaunchError
from cutecourse.emulator.instructions.wgmma.registers import watch
from cutecourse.emulator.memory.host_arrays import host_arrays
from cutecourse.emulator.memory.tensor_map import TOKEN_BYTES, BoundTensorMap, TensorMap, TensorMapError
from cutecourse.emulator.numbers.tensor_core_sums import DEFAULT_ARITHMETIC, TENSOR_CORES
from cutecourse.emulator.recording.events import Recording
from cutecourse.emulator.recording.memory_events import AccessLogging, MemoryRecording
from cutecourse.emulator.recording.replay import record
from cutecourse.errors import CourseError
from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.checks import read_module
from cutecourse.ptx.demangle import listed
from cutecourse.ptx.scopes import type_bits
from cutecourse.ptx.syntax import Function, Module, Variable
from cutecourse.trace import AccessLog, Recorder
from cutecourse.trace.words import number

if TYPE_CHECKING:
    from cutecourse.emulator.core.hazards import Note

__all__ = ["DEFAULT_BUDGET", "LaunchResult", "launch", "program_of", "shared_limit_bytes"]

DEFAULT_BUDGET = 20_000_000
"""A launch that issues more instructions, counted once for a bundle of warps, is considered endless."""

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)
_MAX_BLOCKS = 1 << 20
_SHARED_LIMIT_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227,
                     110: 227, 120: 99, 121: 99}  # fmt: skip
_STATIC_LIMIT = 48 << 10
_SM_LIMITS = {75: (1024, 16), 86: (1536, 16), 87: (1536, 16), 88: (1536, 24), 89: (1536, 24), 120: (1536, 24),
              121: (1536, 24)}  # fmt: skip
"""Threads and blocks that an SM has room for, where these are not 2048 and 32."""
_RESERVED_BYTES = 1 << 10
"""Shared memory that the system reserves for each block."""
_WORKSPACE_WORDS = 8


@dataclass(frozen=True)
class LaunchResult:
    """The result of a launch: counts, printed text and notes."""

    entry: str
    seed: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    warps: int
    """The number of warps that ran."""
    instructions: dict[str, int] = field(repr=False)
    """How often a warp executed each instruction, by its full name."""
    uncounted: dict[str, int] = field(repr=False)
    """How often a warp executed instructions that use memory in other ways than lane by lane."""
    issued: int
    """The number of instructions that the machine issued, each for a bundle of warps."""
    processes: int = 1
    """The number of processes that ran the grid."""
    printed: str = ""
    """The text that the kernel printed."""
    notes: tuple[Note, ...] = field(default=(), repr=False)
    """Hazards that did not end the launch (emulator.core.hazards), in the order of the PTX lines."""
    footprint: Footprint | None = field(default=None, repr=False)
    """The bytes that the launch has used, if it was launched with `has_dependents`."""

    @property
    def total(self) -> int:
        """The number of instructions executed, counted for each warp."""
        return sum(self.instructions.values())

    def count(self, prefix: str) -> int:
        """How often a warp executed the instruction `prefix`, or one whose name continues it after a dot."""
        return sum(
            n for name, n in self.instructions.items() if name == prefix or name.startswith(prefix + ".")
        )


def launch(
    ptx: str | CheckedModule,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any] = (),
    cluster: int | Sequence[int] = (1, 1, 1),
    dynamic_smem: int = 0,
    cooperative: bool = False,
    primary: LaunchResult | None = None,
    has_dependents: bool = False,
    entry: str | None = None,
    seed: int = 0,
    max_instructions: int = DEFAULT_BUDGET,
    arithmetic: str = DEFAULT_ARITHMETIC,
    recorder: Recorder | None = None,
    hazards: Mapping[str, str] | None = None,
    names: Mapping[str, tuple[int, int]] | None = None,
    processes: int | None = None,
    accesses: AccessLog | None = None,
    keep_going: bool = False,
    steering: Steering | None = None,
    observe: Callable[[Any], Observer | None] | None = None,
) -> LaunchResult:
    """Run a kernel from its PTX text, or the module that was read from it, on this machine's CPU.

    Arrays among `args` are pointers: the kernel works on their memory in place. They are NumPy's, or of any
    library with `__dlpack__` or `__array_interface__` whose arrays lie in the CPU's memory, such as PyTorch
    (bf16 and fp8 are their codes). A read-only array is an input, and a kernel that writes to it gets a
    ReadOnlyError. A `TensorMap` is a parameter of 128 bytes, or for a pointer 128 bytes of global memory; its
    array is worked on in place too. Other arguments are scalars of the parameter's declared type; a tuple
    fills a parameter declared as an array of bytes, field by field, and a field may be a `TensorMap` as well.
    `entry` is a kernel's name, or a part of it that no other kernel's name has.
    `seed` chooses the order in which blocks and warps run. `dynamic_smem` is in bytes.
    `cooperative` launches the grid as cudaLaunchCooperativeKernel does: all its blocks run at once, so that
    they can meet at a barrier of the whole grid (grid_group::sync()). A grid that does not fit on the GPU is
    a LaunchError.
    `primary` is the result of the launch before, made with `has_dependents`, for a launch that may begin
    while that one still runs (a programmatic dependent launch). Uses of bytes that it has written, and writes
    to bytes that it has read, are reported if no griddepcontrol.wait is in front of them. Give both launches
    the same arrays.
    `arithmetic` names the GPU whose tensor cores' sums mma.sync reproduces (see
    emulator.numbers.tensor_core_sums); the PTX's target does not choose it. `recorder` gets the events of
    barriers, waits and asynchronous copies; it keeps copies of the arrays, for the trace's snapshots.
    `hazards` gives some of `HAZARDS`, by name, another severity: "error", "warning", "note" or "off"; for one
    line or kernel with words such as "race at gemm.cu:64 in gemm" (emulator.core.hazards). `names`
    gives names to ranges (offset, bytes) of shared memory, for reports and events, such as
    {"full": (98304, 24)}. `accesses` collects the address of each lane in each load, store and atomic
    operation, for cutecourse.memory_report to count.
    `processes` limits the number of processes that share a long launch of a large grid, if its clusters
    cannot learn from each other and nothing is recorded; the default is one for each core. The results are
    the same.
    `keep_going` goes on after hazards that are errors where that is possible: they become notes with the
    severity "error", each pair of lines once. The launch ends at the first hazard after which it cannot go
    on, or after 20 others; the error then has the notes.
    `steering` delays some warps or work, for emulator.prove; `observe` makes one more observer of a cohort.

    Raises PtxError for a malformed text, and EmulatorError for every mistake of the launch or the kernel. A
    KeyboardInterrupt gets a note of the lines that ran most often.
    """
    checked = ptx if isinstance(ptx, CheckedModule) else read_module(ptx)
    module = checked.module
    function = _entry(module, entry)
    observers: list[Callable[[Any], Observer | None]] = [
        follow_multiplications,
        provenance_of,
        look_for_races,
        BlockEnds,
        follow_sums,
        follow_copied_cells,
        follow_scale_factors,
    ]
    try:
        shape = _extents("grid", grid, _MAX_GRID)
        threads = _extents("block", block, _MAX_BLOCK)
        clusters = _cluster(cluster, function, module)
        _check_launch(module, function, shape, threads, clusters)
        _check_numbers(seed, max_instructions, dynamic_smem, 1 if processes is None else processes)
        _check_kinds(hazards, names, recorder, accesses, arithmetic)
        chosen = severities(hazards, function.name)
        if primary is not None and primary.footprint is None:
            raise LaunchError("primary is the result of a launch with has_dependents=True")
        if recorder is not None:
            recording = Recording(recorder)
            observers.append(lambda cohort: recording)
            if recorder.memory:
                observers.append(lambda cohort: MemoryRecording())
        if accesses is not None:
            observers.append(lambda cohort: AccessLogging(accesses))
        if observe is not None:
            observers.append(observe)
        if steering is not None:
            observers.append(lambda cohort: steering)
        memory = Memory()
        args = _listed(args)
        parameters, tensor_maps = _bind(function, args, memory)
        program = _decoded(checked, function.name, int(dynamic_smem), steerable=steering is not None)
        machine = Machine(
            program.with_shared_names(names) if names else program,
            memory,
            parameters,
            tensor_maps,
            shape,
            threads,
            clusters,
            int(dynamic_smem),
            int(seed),
            arithmetic,
            chosen,
            observers,
            is_watched=any(one is not None for one in (recorder, accesses, observe, primary))
            or has_dependents,
            keep_going=bool(keep_going),
            steering=steering,
            workspace=_workspace(memory) if cooperative else 0,
            is_secondary=primary is not None,
            has_dependents=bool(has_dependents),
        )
        if primary is not None and primary.footprint is not None:
            earlier = machine.earlier = Earlier.of(primary.footprint, _arrays(memory))
            if earlier is not None:
                observers.append(lambda cohort: _beside(cohort, earlier))
        reads = Reads(_arrays(memory)) if has_dependents else None
        if reads is not None:
            observers.append(lambda cohort: reads)
            for allocation in _arrays(memory):
                allocation.keep_account()
        _check_shared(machine)
        if cooperative:
            _check_resident(machine)
    except EmulatorError as error:
        # An error in the launch as a whole does not have the kernel's name yet.
        if type(error) is LaunchError and error.line is None:
            error.kernel = function.name
        error.locate(module)
        raise
    scheduler = Scheduler(machine, max_instructions, stuck)
    if recorder is not None:
        again = partial(
            launch,
            checked,
            grid=shape,
            block=threads,
            cluster=clusters,
            dynamic_smem=dynamic_smem,
            cooperative=cooperative,
            primary=primary,
            has_dependents=has_dependents,
            entry=function.name,
            seed=seed,
            max_instructions=max_instructions,
            arithmetic=arithmetic,
            hazards=dict(hazards or {}),
            names=dict(names or {}),
            keep_going=keep_going,
        )
        record(recorder, scheduler, again, args)
    try:
        used = run_parts(scheduler, None if processes is None else int(processes))
    except EmulatorError as error:
        error.locate(module)
        error.notes = _in_order(machine)
        if recorder is not None:
            recorder.ended(f"{type(error).__name__}: {error.problem}")
            error.trace = recorder.trace()
        raise
    except (CourseError, KeyboardInterrupt) as stopped:
        stopped.add_note(stuck.hottest(program, scheduler.block_runs))
        raise
    finally:
        scheduler.close()
    if recorder is not None:
        recorder.ended()
    counts: Counter[str] = Counter()
    for index, runs in scheduler.block_runs.items():
        for instruction in program.blocks[index].instructions:
            counts[instruction.name] += runs
    uncounted: Counter[str] = Counter()
    for name, what in program.own(_uncounted).items():
        if counts[name]:
            uncounted[what] += counts[name]
    return LaunchResult(
        entry=function.name,
        seed=int(seed),
        grid=shape,
        block=threads,
        warps=prod(shape) * machine.warps_per_block,
        instructions=dict(sorted(counts.items())),
        uncounted=dict(uncounted),
        issued=machine.issued,
        processes=used,
        printed="".join(machine.printed),
        notes=_in_order(machine),
        footprint=None if reads is None else _footprint(machine, reads, counts),
    )


def _arrays(memory: Memory) -> list[Allocation]:
    """The arrays of a launch in global memory."""
    return [one for one in memory.allocations if one.space == "global" and one.element is not None]


def _beside(cohort: Cohort, earlier: Earlier) -> Observer:
    return BesideEarlier(cohort, cohort.machine.program.own(AccessPlan), earlier)


def _footprint(machine: Machine, reads: Reads, counts: Mapping[str, int]) -> Footprint:
    """The bytes that a launch which has ended has used."""
    releases = any(
        facts.releases_dependents and counts.get(one.name) for one, facts in machine.program.stated
    )
    used = [(one, one.written, read) for one, read in reads.marks if one.written is not None]
    return Footprint(machine.program.kernel, tuple(used), releases)


def _in_order(machine: Machine) -> tuple[Note, ...]:
    """The notes of a launch in the order of the PTX lines."""
    return tuple(sorted(machine.notes.values(), key=lambda note: (note.line, note.other_line or 0)))


@lru_cache(maxsize=32)
def _decoded(checked: CheckedModule, entry: str, dynamic_smem: int, *, steerable: bool) -> Program:
    """Decode an entry of a module; the program is kept for later launches, because nothing changes it."""
    return decode(checked, checked.module.entries[entry], dynamic_smem, wrap=watch, steerable=steerable)


def program_of(checked: CheckedModule, arguments: Mapping[str, Any]) -> Program:
    """The program that a launch with these arguments runs under a steering."""
    function = _entry(checked.module, arguments.get("entry"))
    return _decoded(checked, function.name, int(arguments.get("dynamic_smem", 0)), steerable=True)


def _uncounted(program: Program) -> dict[str, str]:
    """The names of instructions that use memory in other ways than lane by lane, and how they are listed."""
    return {one.name: facts.uncounted for one, facts in program.stated if facts.uncounted}


# --- the entry and the launch's extents ----------------------------------------------------------------


def _entry(module: Module, name: object) -> Function:
    entries = module.entries
    known = listed(list(entries))
    if name is None:
        if len(entries) != 1:
            raise LaunchError(f"the module has {len(entries)} entries. Say which with entry=:{known}")
        name = next(iter(entries))
    found = module.entries_named(name) if isinstance(name, str) else []
    if not found:
        raise LaunchError(f"the module has no entry {name!r}; its entries:{known}")
    if len(found) > 1:
        several = listed([one.name for one in found])
        raise LaunchError(f"{len(found)} entries have {name!r} in their names:{several}")
    if found[0].body is None:
        raise LaunchError(f"entry {name} is declared but has no body", line=found[0].line)
    return found[0]


def _extents(what: str, value: int | Sequence[int], limits: tuple[int, int, int]) -> tuple[int, int, int]:
    items: Any = [value] if isinstance(value, numbers.Integral) else value
    try:
        extents = [int(v) for v in items if isinstance(v, numbers.Integral)]
        wrong = len(extents) != len(items) or not 1 <= len(extents) <= 3
    except TypeError:
        wrong, extents = True, []
    if wrong:
        raise LaunchError(f"{what} is one to three integers, not {value!r}")
    extents += [1] * (3 - len(extents))
    for axis, extent, limit in zip("xyz", extents, limits, strict=True):
        if not 1 <= extent <= limit:
            raise LaunchError(f"{what}.{axis} is {extent}, but must be in 1..{limit}")
    return (extents[0], extents[1], extents[2])


def _required(function: Function, directive: str) -> tuple[int, int, int] | None:
    """The extents that a directive of the kernel gives; None without the directive."""
    given = function.directive(directive)
    if not given:
        return None
    x, y, z, *_ = (*given, 1, 1)
    return x, y, z


def _cluster(value: int | Sequence[int], function: Function, module: Module) -> tuple[int, int, int]:
    cluster = _extents("cluster", value, (16, 16, 16))
    required = _required(function, "reqnctapercluster")
    if required:
        if cluster not in {(1, 1, 1), required}:
            raise LaunchError(f"the kernel requires clusters of {required}, not {cluster}")
        cluster = required
    size = prod(cluster)
    if size > 16:
        raise LaunchError(f"a cluster of {size} blocks is too large: at most 16 are possible")
    most = function.directive("maxclusterrank")
    if most and size > most[0]:
        raise LaunchError(f"a cluster of {size} blocks is larger than the kernel's .maxclusterrank {most[0]}")
    if size > 1 and _capability(module) < 90:
        raise LaunchError(f"clusters need sm_90 or later, but the text is for {module.target[0]}")
    return cluster


def _check_numbers(seed: Any, max_instructions: Any, dynamic_smem: Any, processes: Any) -> None:
    for name, given in (("max_instructions", max_instructions), ("processes", processes)):
        if not isinstance(given, numbers.Integral) or given < 1:
            raise LaunchError(f"{name} is a number of at least 1, not {given!r}")
    if not isinstance(seed, numbers.Integral):
        raise LaunchError(f"the seed must be an integer, not {seed!r}")
    if not isinstance(dynamic_smem, numbers.Integral) or not 0 <= int(dynamic_smem) < 1 << 30:
        raise LaunchError(f"dynamic_smem is a number of bytes, not {dynamic_smem!r}")


def _check_kinds(hazards: Any, names: Any, recorder: Any, accesses: Any, arithmetic: Any) -> None:
    for name, given, kind, words in (
        ("hazards", hazards, Mapping, "a mapping"),
        ("names", names, Mapping, "a mapping"),
        ("recorder", recorder, Recorder, "a cutecourse.trace.Recorder"),
        ("accesses", accesses, AccessLog, "a cutecourse.trace.AccessLog"),
    ):
        if given is not None and not isinstance(given, kind):
            raise LaunchError(f"{name} is {words}, not {given!r}")
    if not isinstance(arithmetic, str) or arithmetic not in TENSOR_CORES:
        known = ", ".join(TENSOR_CORES)
        raise LaunchError(f"arithmetic={arithmetic!r} is no GPU whose sums are known:{known}")


def _capability(module: Module) -> int:
    digits = "".join(c for c in module.target[0] if c.isdecimal())
    return int(digits) if digits and len(digits) < 5 else 0


def _check_launch(
    module: Module,
    function: Function,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
) -> None:
    if module.address_size != 64:
        raise LaunchError(f"addresses of {module.address_size} bits are not supported, only 64")
    threads, blocks = prod(block), prod(grid)
    if threads > 1024:
        raise LaunchError(f"a block of {block} has {threads} threads, but at most 1024 are possible")
    if blocks > _MAX_BLOCKS:
        raise LaunchError(f"a grid of {grid} has {blocks} blocks: the emulator runs {_MAX_BLOCKS} at most")
    for axis, extent, part in zip("xyz", grid, cluster, strict=True):
        if extent % part:
            raise LaunchError(f"grid.{axis} = {extent} is not a multiple of cluster.{axis} = {part}")
    required = _required(function, "reqntid")
    if required and required != block:
        raise LaunchError(f"the kernel requires blocks of {required}, not {block}")
    most = function.directive("maxntid")
    if most and threads > prod(most):
        raise LaunchError(f"a block of {block} is larger than the kernel's .maxntid {most}")


def shared_limit_bytes(module: Module) -> int:
    """The shared memory that a CTA may have on the text's target, in bytes."""
    return _SHARED_LIMIT_KIB.get(_capability(module), 227) << 10


def _check_shared(machine: Machine) -> None:
    module, placement = machine.program.module, machine.program.placement
    if placement.shared_static > _STATIC_LIMIT:
        raise LaunchError(
            f"{placement.shared_static} bytes of static shared memory are too many: at most {_STATIC_LIMIT}"
            " are possible"
        )
    limit = shared_limit_bytes(module)
    if placement.shared_bytes > limit:
        raise LaunchError(
            f"{placement.shared_bytes} bytes of shared memory ({placement.shared_static} static,"
            f" {machine.dynamic_smem} dynamic) do not fit: {module.target[0]} has {limit} bytes for a block"
        )


def _workspace(memory: Memory) -> int:
    """The address of a new workspace: its size, and the word at which the grid's blocks meet."""
    words = np.array([_WORKSPACE_WORDS * 4] + [0] * (_WORKSPACE_WORDS - 1), np.uint32)
    return memory.allocate("the cooperative launch's workspace", words.view(np.uint8)).base


def _check_resident(machine: Machine) -> None:
    """Refuse a cooperative grid whose blocks cannot all run at once. Errors: LaunchError."""
    capability = _capability(machine.program.module)
    threads, blocks = _SM_LIMITS.get(capability, (2048, 32))
    per_sm = min(blocks, threads // (machine.warps_per_block * WARP_SIZE))
    room = shared_limit_bytes(machine.program.module) + _RESERVED_BYTES
    per_sm = min(per_sm, room // (machine.program.shared_bytes + _RESERVED_BYTES))
    most, asked = per_sm * N_SMS, prod(machine.grid)
    if asked > most:
        raise LaunchError(
            f"all blocks of a cooperative grid run at once. {asked} of {machine.threads_per_block} threads"
            f" and {machine.program.shared_bytes} bytes of shared memory do not fit: at most {per_sm} run on"
            f" each of {N_SMS} SMs, even if their registers fit. Launch at most {most}, and let each block do"
            " more (on a GPU: cudaErrorCooperativeLaunchTooLarge)"
        )


# --- arguments -------------------------------------------------------------------------------------------


def _listed(args: Any) -> list[Any]:
    """The arguments as a list, and their arrays as NumPy arrays. Errors: LaunchError."""
    is_one = isinstance(args, np.ndarray | str | bytes) or hasattr(args, "__dlpack__")
    if is_one or not isinstance(args, Iterable):
        raise LaunchError("args is a sequence of arguments; put the one argument into a list")
    return [host_arrays(argument) for argument in args]


def _bind(
    function: Function, given: Sequence[Any], memory: Memory
) -> tuple[bytes, dict[bytes, BoundTensorMap]]:
    """The bytes of parameter space as the kernel declares it, and the tensor maps by their tokens."""
    if len(given) != len(function.params):
        raise LaunchError(
            f"{number(len(given), 'argument')} for {number(len(function.params), 'parameter')}:"
            f" {_signature(function)}"
        )
    pointers = _Pointers(memory)
    data = bytearray()
    offsets, _ = parameter_offsets(function.params)
    for parameter, argument in zip(function.params, given, strict=True):
        size, name = size_of(parameter), function.shown(parameter)
        if size > 1 << 16:
            raise LaunchError(f"parameter {name} has {size} bytes: too many")
        data.extend(b"\0" * (offsets[parameter.name] - len(data)))
        try:
            data.extend(_encode(parameter, name, size, argument, pointers))
        except TensorMapError as error:
            raise TensorMapError(f"parameter {name}: {error.problem}", rule=error.rule) from None
        except LaunchError as error:
            raise LaunchError(
                f"parameter {name} (.{parameter.type}, {size} bytes): {error.problem}"
            ) from None
    return bytes(data), pointers.tensor_maps


def _signature(function: Function) -> str:
    shown = (f".{one.type}" + "".join(f"[{extent}]" for extent in one.dims) for one in function.params)
    return f"({', '.join(shown)})"


class _Pointers:
    """Addresses of array arguments: arrays that overlap share one allocation."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.known: list[tuple[int, int, Allocation]] = []
        self.tensor_maps: dict[bytes, BoundTensorMap] = {}

    def token(self, tensor_map: TensorMap, parameter: str) -> bytes:
        """The bytes that stand for a tensor map in the kernel's parameters."""
        address = self.address(tensor_map.array, parameter)
        allocation = self.memory.find(address) or self.known[-1][2]
        bound = BoundTensorMap.bind(tensor_map, allocation, address, len(self.tensor_maps), parameter)
        self.tensor_maps[bound.token] = bound
        return bound.token

    def behind(self, tensor_maps: Sequence[TensorMap], parameter: str) -> bytes:
        """A pointer to tensor maps in global memory, one behind the other."""
        data = np.frombuffer(b"".join(self.token(one, parameter) for one in tensor_maps), np.uint8).copy()
        what = "tensor map" if len(tensor_maps) == 1 else f"{len(tensor_maps)} tensor maps"
        return self.memory.allocate(f"{what} of {parameter}", data).base.to_bytes(8, "little")

    def address(self, array: NDArray[Any], parameter: str) -> int:
        """The address of an array's memory, which `parameter` points to. Errors: LaunchError."""
        if array.dtype.hasobject:
            raise LaunchError("an array of Python objects cannot be a kernel's memory")
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise LaunchError(
                f"an array of shape {array.shape} and strides {array.strides} is not contiguous:"
                " pass numpy.ascontiguousarray(...)"
            )
        start: int = array.__array_interface__["data"][0]
        end = start + array.nbytes
        for low, high, allocation in self.known:
            if (start < high and low < end) or (start == low and end == high):
                if start < low or end > high:
                    raise LaunchError("two arrays overlap in part: pass the one that holds both first")
                allocation.writable |= array.flags.writeable  # one of its names may be a read-only view
                return allocation.base + (start - low)
        flat = array.reshape(-1, order="A").view(np.uint8) if array.size else np.zeros(0, dtype=np.uint8)
        what = f"array argument {len(self.known)} ({array.dtype}, shape {array.shape})"
        if not array.flags.writeable:
            what = f"the read-only array for parameter {parameter} ({array.dtype}, shape {array.shape})"
        allocation = self.memory.allocate(what, flat, array.dtype, writable=array.flags.writeable)
        self.known.append((start, end, allocation))
        return allocation.base


def _encode(parameter: Variable, name: str, size: int, argument: Any, pointers: _Pointers) -> bytes:
    if isinstance(argument, np.ndarray):
        if size != 8 or parameter.type[0] == "f":
            advice = (
                "; give a struct's fields as a tuple, such as (array, numpy.int32(4))"
                if parameter.dims
                else ""
            )
            raise LaunchError(f"an array is a pointer of 8 bytes, but the parameter is not one{advice}")
        return pointers.address(argument, name).to_bytes(8, "little")
    maps = [argument] if isinstance(argument, TensorMap) else argument
    if _are_maps(maps) and size == 8 and parameter.type[0] != "f":
        return pointers.behind(maps, name)
    if isinstance(argument, TensorMap):
        if size != TOKEN_BYTES or alignment_of(parameter) < 64:
            raise LaunchError(
                f"a tensor map is a parameter of {TOKEN_BYTES} bytes aligned to 64, as"
                f" '.param .align 64 .b8 name[{TOKEN_BYTES}]', or a pointer to such bytes"
            )
        return pointers.token(argument, name)
    if parameter.dims:
        return _encode_bytes(name, size, argument, pointers)
    return _encode_scalar(parameter.type, size, argument)


def _are_maps(argument: Any) -> bool:
    """Return whether an argument is several tensor maps, to which the kernel gets a pointer."""
    is_sequence = isinstance(argument, tuple | list) and bool(argument)
    return is_sequence and all(isinstance(one, TensorMap) for one in argument)


def _encode_bytes(name: str, size: int, argument: Any, pointers: _Pointers) -> bytes:
    """Encode a parameter that is declared as an array of bytes: a struct."""
    if isinstance(argument, tuple | list):
        data = bytearray()
        for item in argument:
            if isinstance(item, np.ndarray):
                raw = pointers.address(item, name).to_bytes(8, "little")
            elif isinstance(item, TensorMap):
                raw = pointers.token(item, name)
            elif _are_maps(item):
                raw = pointers.behind(item, name)
            elif isinstance(item, np.generic | bytes):
                raw = bytes(item) if isinstance(item, bytes) else item.tobytes()
            else:
                raise LaunchError(f"a field of type {type(item).__name__} has no size; use a NumPy scalar")
            step = 1 if isinstance(item, bytes) else min(len(raw), 64)
            data.extend(b"\0" * (align_up(len(data), step) - len(data)))
            data.extend(raw)
        if len(data) > size:
            raise LaunchError(f"the fields take {len(data)} bytes")
        return bytes(data).ljust(size, b"\0")
    if isinstance(argument, np.generic):
        argument = argument.tobytes()
    if isinstance(argument, bytes | bytearray | memoryview):
        raw = bytes(argument)
        if len(raw) != size:
            raise LaunchError(f"{len(raw)} bytes were given")
        return raw
    raise LaunchError(
        f"a value of type {type(argument).__name__}; give bytes, a NumPy scalar of that size, or a tuple of"
        " fields"
    )


def _encode_scalar(kind: str, size: int, argument: Any) -> bytes:
    if kind == "bf16" and isinstance(argument, np.uint16):
        return argument.tobytes()  # a code, as in an array
    is_numpy, is_whole = isinstance(argument, np.generic), isinstance(argument, numbers.Integral | np.bool_)
    is_half = is_numpy and argument.dtype.name in {"float16", "bfloat16"}
    if not (is_whole or is_half or isinstance(argument, numbers.Real)):
        raise LaunchError(f"a value of type {type(argument).__name__} is not a scalar")
    if is_whole and (kind[0] == "f" or kind == "bf16"):
        return _encode_float(kind, float(argument))
    if not is_whole and kind[0] in "su":
        raise LaunchError(f"the number {argument!r} is not an integer")
    if is_numpy and kind[0] == "b" and argument.nbytes != size:
        raise LaunchError(f"numpy.{argument.dtype} has {argument.nbytes} bytes")
    if is_whole:
        value, bits = int(argument), type_bits(kind) or 8
        # Compilers declare signed parameters as .u32 as well.
        low, high = -(1 << (bits - 1)), (1 << (bits - (kind[0] == "s"))) - 1
        if not low <= value <= high:
            raise LaunchError(f"{value} does not fit: it must be in {low}..{high}")
        return (value & ((1 << bits) - 1)).to_bytes(size, "little")
    if isinstance(argument, np.generic) and kind[0] == "b":
        return argument.tobytes()
    return _encode_float({"b16": "f16", "b32": "f32", "b64": "f64"}.get(kind, kind), float(argument))


def _encode_float(kind: str, value: float) -> bytes:
    if kind == "bf16":
        return encode(value, kind).tobytes()
    types: dict[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    if kind not in types:
        raise LaunchError(f"the number {value!r} for a parameter of type .{kind}")
    with np.errstate(over="ignore"):
        return types[kind](value).tobytes()
