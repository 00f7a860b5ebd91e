"""Compile `cpp/probe.cu` against CUTLASS's headers and record what it prints.

    python tests/layout/cpp_data.py

writes `cpp/probe.txt`. It needs `nvcc` (on PATH or at /usr/local/cuda/bin) and PyPI's `nvidia-cutlass`
for the headers, and no GPU: the program runs on the host.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "cpp" / "probe.cu"
RECORD = SOURCE.with_suffix(".txt")


def find_nvcc() -> str | None:
    """The CUDA compiler, if there is one."""
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin:/usr/local/bin")


def find_headers() -> Path | None:
    """CuTe's headers in the `nvidia-cutlass` package, if it is installed."""
    found = importlib.util.find_spec("cutlass_library")
    if found is None or found.origin is None:
        return None
    headers = Path(found.origin).parent / "source" / "include"
    return headers if (headers / "cute" / "layout.hpp").exists() else None


def compile_and_run(nvcc: str, headers: Path) -> str:
    """Everything the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        subprocess.run(
            [nvcc, "-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_80", "-w", f"-I{headers}",
             str(SOURCE), "-o", str(program)],
            check=True,
        )  # fmt: skip
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Record the program's output."""
    nvcc, headers = find_nvcc(), find_headers()
    if nvcc is None or headers is None:
        print("needs nvcc and the package nvidia-cutlass", file=sys.stderr)
        return 1
    RECORD.write_text(compile_and_run(nvcc, headers))
    print(f"wrote {RECORD.name}: {len(RECORD.read_text().splitlines())} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
