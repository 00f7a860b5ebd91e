"""CuTe C++ in answers: compiled to PTX where nvcc is installed, and launched on the emulator."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import tempfile
from pathlib import Path

from cutecourse.checks.result import WrongAnswer
from cutecourse.runtime.kept import keep, kept

__all__ = ["WITHOUT_NVCC", "compile_cpp", "has_nvcc"]

WITHOUT_NVCC = "nvcc is not installed here, so this check reads the calls and compiles nothing."
OPTIONS = ("-w", "-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_100a", "-ptx")
_SECONDS = 300
_MESSAGE_LINES = 4


def has_nvcc() -> bool:
    """Say whether nvcc and CUTLASS's headers are installed here."""
    return shutil.which("nvcc") is not None and _headers() is not None


def compile_cpp(text: str) -> str:
    """Return the PTX that nvcc makes of a CuTe C++ text for sm_100a.

    Errors: WrongAnswer with the compiler's first error.
    """
    nvcc, headers = shutil.which("nvcc"), _headers()
    if nvcc is None or headers is None:
        raise WrongAnswer(WITHOUT_NVCC)
    # The same text compiles to the same PTX: `runtime.kept` has it from an earlier check.
    compiler = Path(nvcc).resolve()
    version = importlib.metadata.version("nvidia-cutlass")
    inputs = (str(compiler), compiler.stat().st_mtime_ns, version, OPTIONS, text)
    key = hashlib.sha256(repr(inputs).encode()).hexdigest()
    if (found := kept(key)) is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "answer.cu"), Path(folder, "answer.ptx")
        source.write_text(text, encoding="utf-8")
        command = [nvcc, *OPTIONS, "-I", str(headers), "-o", str(output), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            raise WrongAnswer(f"nvcc does not compile it.\n{_first_error(done.stderr)}")
        ptx = output.read_text(encoding="utf-8")
    keep(key, ptx)
    return ptx


def _headers() -> Path | None:
    try:
        files = importlib.metadata.files("nvidia-cutlass") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (file for file in files if str(file).endswith("include/cute/layout.hpp"))
    file = next(found, None)
    return None if file is None else Path(str(file.locate())).parents[1]


def _first_error(report: str) -> str:
    lines = report.splitlines()
    first = next((i for i, line in enumerate(lines) if "error" in line), 0)
    return "\n".join(line.rpartition("/")[2] for line in lines[first : first + _MESSAGE_LINES])
