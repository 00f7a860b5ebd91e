"""Run a kernel: on a GPU that can, else on the emulator, from the same PTX and the same specification."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from cutecourse import emulator
from cutecourse.emulator import LaunchResult, Note
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.memory_report import MemoryReport
from cutecourse.memory_report import memory_report as report_of
from cutecourse.ptx import read_module
from cutecourse.runtime.arguments import Bound, bind, emulator_arguments, flat_arguments
from cutecourse.runtime.compiled import Compiled, PtxText
from cutecourse.runtime.compiling import compile_for, specification
from cutecourse.runtime.discovery import choose, discover, dotted
from cutecourse.runtime.errors import ArgumentError, DeviceError
from cutecourse.runtime.gpu import GpuKernel
from cutecourse.runtime.record import Launch, RunRecord, emulator_name
from cutecourse.trace import AccessLog, Recorder, Trace

__all__ = ["Run", "history", "launch_of", "run"]

Array = np.ndarray[Any, np.dtype[Any]]

_history: list[RunRecord] = []


def history() -> tuple[RunRecord, ...]:
    """The records of all runs in this process, in order; what records a notebook asks for them."""
    return tuple(_history)


@dataclass(frozen=True)
class Run:
    """The results of a run: `run["c"]` is an array after the kernel, `run.record` says where the kernel ran.

    `run.buffers["c"]` holds the same elements as the kernel saw them: flat, at the offsets the stride gives,
    with the bytes 0xA5 where the layout has gaps. `run.emulated` is what the emulator counted, None on a GPU.
    `run.trace` is what `trace=True` recorded, else None. `run.memory` is the report that `memory_report=True`
    asked for, else None.
    """

    arrays: dict[str, Array]
    buffers: dict[str, Array] = field(repr=False)
    record: RunRecord
    emulated: LaunchResult | None = field(default=None, repr=False)
    trace: Trace | None = field(default=None, repr=False)
    memory: MemoryReport | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            raise ArgumentError(
                f"{self.record.kernel} has no array {name!r}; it has {', '.join(self.arrays)}."
            )
        return self.arrays[name]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Hazards that the emulator met and went on: what a document asks for and ptxas makes up for."""
        return () if self.emulated is None else self.emulated.notes

    @property
    def ptx(self) -> PtxText:
        """The text of the PTX that ran."""
        return self.record.ptx


def _compiled(spec: LaunchSpec, bound: Mapping[str, Any]) -> tuple[Compiled, LaunchSpec]:
    """Compile a kernel for its arrays; the specification is that of the text that runs, maybe the twin's."""
    extents = {name: value.extents for name, value in bound.items() if isinstance(value, Bound)}
    compiled = compile_for(spec, extents)
    return compiled, spec if compiled.missing is None else spec.with_text(str(compiled.ptx))


def _launch_arguments(
    spec: LaunchSpec, launched: LaunchSpec, entry: str, bound: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of `emulator.launch` for a kernel whose text is `launched`."""
    return {
        "grid": spec.grid,
        "block": spec.block,
        "cluster": spec.cluster,
        "args": emulator_arguments(launched, bound),
        "dynamic_smem": spec.dynamic_smem,
        "entry": entry,
    }


def launch_of(kernel: LaunchSpec | ModuleType, /, **arrays: Any) -> dict[str, Any]:
    """Compile a kernel and give the arguments with which the emulator launches it, `ptx` among them.

    arrays    as for `run`; they are copied.
    Errors:   ArgumentError, CompileError, NoCompilerError.
    """
    spec = specification(kernel)
    bound = bind(spec, arrays)
    compiled, launched = _compiled(spec, bound)
    return {"ptx": str(compiled.ptx), **_launch_arguments(spec, launched, compiled.entry, bound)}


def run(
    kernel: LaunchSpec | ModuleType,
    /,
    *,
    device: str | None = None,
    seed: int = 0,
    trace: bool = False,
    memory_report: bool = False,
    hazards: Mapping[str, str] | None = None,
    names: Mapping[str, tuple[int, int]] | None = None,
    **arrays: Any,
) -> Run:
    """Compile a kernel, run it once, and return its arrays and the record of the run.

    kernel   a kernel module (with `LAUNCH`) or a `LaunchSpec`.
    device   "auto", "emulator" or "cuda:0"; without it what CUTECOURSE_DEVICE says, else "auto".
    seed     orders the emulator's scheduling; a GPU ignores it.
    trace    record what the emulator does: barriers, asynchronous copies, waits. A GPU records nothing.
    memory_report  count the sectors and wavefronts of each load and store, as `run(...).memory`. A GPU counts
             nothing.
    hazards  other severities for some of `emulator.HAZARDS`: "error", "warning", "note" or "off".
    names    names for ranges of shared memory, (offset, bytes), in the emulator's reports.
    arrays   one NumPy array or number for each parameter, by its name. They are copied and stay as they are.
    Errors:  ArgumentError, CompileError, NoCompilerError, DeviceError, GpuError, or the emulator's own.

    >>> import numpy as np
    >>> from cutecourse.kernels import hello_ptx
    >>> run(hello_ptx, device="emulator", out=np.zeros(32, np.uint32))["out"][:4]
    array([0, 1, 4, 9], dtype=uint32)
    """
    spec = specification(kernel)
    bound = bind(spec, arrays)
    choice = choose(spec.target, device)
    if (trace or memory_report) and choice.device is not None:
        what = "records a trace" if trace else "makes a memory report"
        raise DeviceError(
            f"{spec.name}: only the emulator {what}, and this would run on {choice.device.name}; "
            f'ask for it with device="emulator".'
        )
    start = time.perf_counter()
    compiled, launched = _compiled(spec, bound)
    compile_s = min(compiled.seconds, time.perf_counter() - start)
    emulated, recorder = None, Recorder() if trace else None
    accesses = AccessLog() if memory_report else None
    if choice.device is None:
        start = time.perf_counter()
        emulated = emulator.launch(
            compiled.ptx,
            **_launch_arguments(spec, launched, compiled.entry, bound),
            seed=seed,
            recorder=recorder,
            accesses=accesses,
            hazards=hazards,
            names=names,
        )
        run_s = time.perf_counter() - start
    else:
        args = flat_arguments(launched, bound)
        ordinal = choice.device.ordinal
        with GpuKernel(
            compiled.ptx, compiled.entry, ordinal=ordinal, dynamic_smem=spec.dynamic_smem
        ) as loaded:
            (run_s,) = loaded.launch(
                args,
                grid=spec.grid,
                block=spec.block,
                cluster=spec.cluster,
                programmatic=spec.programmatic,
            )
    gpu = choice.device
    record = RunRecord(
        kernel=spec.name,
        module=spec.module,
        faults=tuple(fault.name for fault in spec.faults),
        language=launched.language,
        missing=compiled.missing,
        where="gpu" if gpu else "emulator",
        why=choice.why,
        device=gpu.name if gpu else emulator_name(),
        compute_capability=dotted(gpu.compute_capability) if gpu else None,
        driver=discover().driver if gpu else None,
        target=compiled.target,
        compile_s=compile_s,
        run_s=run_s,
        ptx=compiled.ptx,
        ptx_sha256=compiled.ptx.sha256,
        launch=Launch(compiled.entry, spec.grid, spec.block, spec.cluster, spec.dynamic_smem),
    )
    _history.append(record)
    after = {name: value for name, value in bound.items() if isinstance(value, Bound)}
    return Run(
        arrays={name: value.logical() for name, value in after.items()},
        buffers={name: value.buffer for name, value in after.items()},
        record=record,
        emulated=emulated,
        trace=recorder.trace() if recorder is not None else None,
        memory=None
        if accesses is None or emulated is None
        else report_of(
            accesses,
            read_module(compiled.ptx).module,
            kernel=spec.name,
            uncounted=emulated.uncounted,
        ),
    )
