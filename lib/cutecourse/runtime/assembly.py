"""The cost of a kernel after ptxas: registers, spills and shared memory for an architecture."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from cutecourse.kernels.spec import LaunchSpec
from cutecourse.runtime.compiling import compile as compile_kernel
from cutecourse.runtime.compiling import specification
from cutecourse.runtime.errors import CompileError

__all__ = ["BLACKWELL", "Assembly", "AssemblyReport", "assembly_report", "find_ptxas"]

BLACKWELL = ("sm_100a", "sm_103a")
"""The architectures of the data centre's Blackwell GPUs: compute capability 10.0 and 10.3."""

_HEAD = ("kernel", "target", "registers", "stack", "spills", "static smem", "dynamic smem", "barriers")
_SECONDS = 120


@dataclass(frozen=True)
class Assembly:
    """One kernel assembled for one architecture.

    registers      of a thread.
    stack_bytes    of a thread's local memory that the kernel lays out, spills included.
    spill_bytes    that a thread stores and loads because its registers do not suffice.
    static_smem    bytes of shared memory that the PTX declares; `dynamic_smem`, that the launch asks for.
    barriers       of the CTA's sixteen (`bar.sync`).
    ptx_sha256     of the PTX text that was assembled.
    """

    kernel: str
    target: str
    registers: int
    stack_bytes: int
    spill_bytes: int
    static_smem: int
    dynamic_smem: int
    barriers: int
    ptx_sha256: str

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        numbers = (self.registers, self.stack_bytes, self.spill_bytes, self.static_smem, self.dynamic_smem)
        return (self.kernel, self.target, *map(str, numbers), str(self.barriers))


@dataclass(frozen=True)
class AssemblyReport:
    """Kernels by architectures, and which ptxas it was. Prints as a table."""

    ptxas: str
    rows: tuple[Assembly, ...]

    def __iter__(self) -> Iterator[Assembly]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = [_HEAD, *(row.cells() for row in self.rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(_HEAD))]
        lines = (
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        )
        return "\n".join([*lines, f"ptxas {self.ptxas}"])

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        rule = "|".join([" --- "] * 2 + [" ---: "] * (len(_HEAD) - 2))
        lines = [f"| {' | '.join(_HEAD)} |", f"|{rule}|"]
        lines += [f"| {' | '.join(row.cells())} |" for row in self.rows]
        return "\n".join([*lines, "", f"ptxas {self.ptxas}"])

    def to_snapshot(self) -> dict[str, Any]:
        """The report as JSON can hold it."""
        return {"ptxas": self.ptxas, "rows": [asdict(row) for row in self.rows]}

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any]) -> AssemblyReport:
        """The report that a snapshot was made of."""
        return cls(snapshot["ptxas"], tuple(Assembly(**row) for row in snapshot["rows"]))


def find_ptxas() -> Path | None:
    """Where ptxas is: on the PATH, under CUDA_HOME or /usr/local/cuda, or in a wheel of NVIDIA's; or None."""
    if found := shutil.which("ptxas"):
        return Path(found)
    places = [Path(root) for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if root]
    wheels = importlib.util.find_spec("nvidia")
    for root in wheels.submodule_search_locations or () if wheels else ():
        places += sorted(Path(root).iterdir())
    candidates = (place / "bin" / "ptxas" for place in places)
    return next((one for one in candidates if os.access(one, os.X_OK)), None)


def assembly_report(
    kernels: LaunchSpec | ModuleType | Iterable[LaunchSpec | ModuleType] | Mapping[str, LaunchSpec],
    targets: str | Iterable[str] = BLACKWELL,
    *,
    ptxas: Path | str | None = None,
) -> AssemblyReport:
    """Compile kernels for each target, let ptxas assemble them, and tell what each needs.

    kernels  one kernel module or specification, several, or specifications by the names to call them.
    targets  architectures. A kernel is compiled anew for each: PTX of `sm_100a` is assembled for compute
             capability 10.0 alone, and ptxas refuses it for sm_103a. (PTX of `sm_100f`, the family, is
             assembled for both.)
    ptxas    the program; by default the one that `find_ptxas` finds. It needs no GPU.
    Errors:  CompileError without a ptxas, for a kernel that a compiler refuses, and for PTX that ptxas does.
    """
    program = Path(ptxas) if ptxas is not None else find_ptxas()
    if program is None or not os.access(program, os.X_OK):
        raise CompileError(
            f"there is no ptxas{f' at {ptxas}' if ptxas else ' on this machine'}, and only it can say what a "
            "kernel needs; it comes with the CUDA toolkit, and with the package nvidia-cuda-nvcc."
        )
    if isinstance(kernels, Mapping):
        named = dict(kernels)
    else:
        several = [kernels] if isinstance(kernels, LaunchSpec | ModuleType) else kernels
        named = {spec.name: spec for spec in map(specification, several)}
    wanted = [targets] if isinstance(targets, str) else list(targets)
    rows = [_assemble(program, name, spec, target) for name, spec in named.items() for target in wanted]
    return AssemblyReport(_version(program), tuple(rows))


def _assemble(program: Path, name: str, spec: LaunchSpec, target: str) -> Assembly:
    compiled = compile_kernel(spec, target=target)
    with tempfile.TemporaryDirectory(prefix="cutecourse-") as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(compiled.ptx, encoding="utf-8")
        said = _ask(program, "-v", f"-arch={target}", "-o", str(Path(folder) / "kernel.cubin"), str(source))
    if said.returncode != 0:
        reason = " ".join((said.stderr or said.stdout).split())
        raise CompileError(f"{name}: ptxas did not assemble its PTX for {target}: {reason}")
    text = said.stderr + said.stdout

    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, text)))

    return Assembly(
        kernel=name,
        target=target,
        registers=number(r"Used (\d+) registers"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
        spill_bytes=number(r"(\d+) bytes spill \w+"),
        static_smem=number(r"(\d+) bytes smem"),
        dynamic_smem=spec.dynamic_smem,
        barriers=number(r"used (\d+) barriers"),
        ptx_sha256=compiled.ptx.sha256,
    )


def _version(program: Path) -> str:
    match = re.search(r"release [\d.]+, V([\d.]+)", _ask(program, "--version").stdout)
    return match[1] if match else "of unknown version"


def _ask(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
