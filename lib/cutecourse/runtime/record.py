"""The record of one run: where it ran and why, how long it took, and the PTX that ran."""

from __future__ import annotations

import html
import platform
import sys
from dataclasses import dataclass
from typing import Literal

from cutecourse.runtime.compiled import PtxText

__all__ = ["Launch", "RunRecord"]


@dataclass(frozen=True)
class Launch:
    """The launch as it was made; `dynamic_smem` in bytes."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_smem: int

    def __str__(self) -> str:
        cluster = "" if self.cluster == (1, 1, 1) else f" cluster {self.cluster}"
        smem = f" with {self.dynamic_smem} bytes of dynamic shared memory" if self.dynamic_smem else ""
        return f"{self.entry} <<<grid {self.grid}, block {self.block}>>>{cluster}{smem}"


@dataclass(frozen=True)
class RunRecord:
    """Where and how one kernel ran. Prints as a short table; a notebook shows one line that opens.

    where     "gpu" or "emulator", and `why` it was that one.
    target    what the PTX was compiled for; `compute_capability` and `driver` (its CUDA version) are the
              GPU's, None on the emulator.
    module    the kernel of `cutecourse.kernels` that the specification comes from, None for another; `faults`
              are those of it that were put in, by name.
    missing   the compiler that is not installed, where the kernel's twin ran; `language` is then "ptx".
    module    the kernel of `cutecourse.kernels` that ran, by the name of its folder; None for another kernel.
    compile_s seconds the compiler took (0.0 when the PTX was at hand); `run_s` seconds of the launch: on a
              GPU between two events, on the emulator by the host's clock. They are not to be compared.
    """

    kernel: str
    language: str
    where: Literal["gpu", "emulator"]
    why: str
    device: str
    compute_capability: str | None
    driver: str | None
    target: str
    compile_s: float
    run_s: float
    ptx: PtxText
    ptx_sha256: str
    launch: Launch
    missing: str | None = None
    module: str | None = None
    faults: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """The table's rows."""
        gpu = f"{self.device}, compute capability {self.compute_capability}, driver for CUDA {self.driver}"
        return [
            ("kernel", f"{self.kernel} ({self._text()})"),
            ("ran on", gpu if self.where == "gpu" else self.device),
            ("because", self.why),
            ("launch", str(self.launch)),
            ("PTX", f"{self.target}, {len(self.ptx.splitlines())} lines, sha256 {self.ptx_sha256[:12]}"),
            ("time", f"compile {_duration(self.compile_s)}, run {_duration(self.run_s)}"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<8} {text}" for name, text in self.rows())

    __repr__ = __str__

    def line(self) -> str:
        """Where the kernel ran and how long that took, in one line."""
        place = self.device if self.where == "gpu" or sys.platform == "emscripten" else "the emulator"
        text = "" if self.missing is None else f": {self._text()}"
        return f"{self.kernel} ran on {place} in {_duration(self.run_s)}{text}"

    def _text(self) -> str:
        """Who wrote the PTX, and why it was not the compiler."""
        if self.missing is None:
            return _LANGUAGES[self.language]
        return f"PTX written by hand, because {self.missing} is not installed"

    def _repr_html_(self) -> str:
        """The line; whoever opens it sees the table."""
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in self.rows())
        return (
            f'<details class="cute-run"><summary>{html.escape(self.line())}</summary>'
            f"<table>{rows}</table></details>"
        )


_LANGUAGES = {"cutedsl": "CuTe DSL", "numba": "numba-cuda", "ptx": "PTX"}


def emulator_name() -> str:
    """The emulator's name in a record: a browser, or the machine's processor, is all there was."""
    if sys.platform == "emscripten":
        return "the emulator, in this browser"
    return f"the emulator, on this machine's CPU ({platform.machine()})"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
