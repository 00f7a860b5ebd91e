"""Where the assembler put the wait for O among a tile's instructions, in variants of attention for Hopper.

    python -m benchmarks.attention_order              writes benchmarks/results/attention_order.json
    python -m benchmarks.attention_order --output F   writes F

It reads machine code, so it needs no GPU: ptxas of the CUDA toolkit and nvdisasm, both on the PATH (PyPI has
nvdisasm in the package nvidia-cuda-nvdisasm). After its turn a warpgroup waits for S, and later for O. A row
has the maxima, exponentials and additions of a thread between the two waits, and those after the second.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.attention_variants import TRIALS
from benchmarks.launching import compiled
from benchmarks.results_file import result_path, write_result
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec, attention_lazy
from tools.facts import of_this_machine

__all__ = ["KINDS", "RESULT", "after_the_waits", "launches"]

RESULT = result_path("attention_order")
SHAPE = (4096, 16, 4)  # the sequence's length, heads, batches
VARIANTS = ("wait moved up", "sums after the wait", "128 keys")
KINDS = {"FMNMX": "maxima", "MUFU.EX2": "exponentials", "FADD": "additions"}
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)")


def launches() -> Iterator[tuple[str, LaunchSpec]]:
    """The variants of page 16b's story, and the rung that has both repairs."""
    for one in TRIALS:
        if one.name in VARIANTS:
            yield one.name, one.spec(SHAPE)
    yield "attention_lazy", attention_lazy.spec(*SHAPE)


def after_the_waits(sass: str) -> list[dict[str, int]]:
    """Count the kinds of a tile's instructions after each of its waits, up to the next wait.

    sass  what nvdisasm prints. A tile begins where a warpgroup passes its turn on (BAR.ARV after an HGMMA),
          and ends at the next HGMMA or conversion of P. Of several tiles, one with a mask and one without,
          the shortest counts.

    Errors: ValueError if no tile has two waits.
    """
    tiles: list[list[str]] = []
    tile: list[str] | None = None
    issued = False
    for operation in _INSTRUCTION.findall(sass):
        if operation.startswith("HGMMA"):
            issued, tile = True, None
        elif operation.startswith("BAR.ARV") and issued:
            tile = []
            tiles.append(tile)
        elif operation.startswith("F2FP"):
            tile = None
        elif tile is not None:
            tile.append(operation)
    with_waits = [tile for tile in tiles if sum(name.startswith("WARPGROUP.DEPBAR") for name in tile) == 2]
    if not with_waits:
        raise ValueError("no tile waits twice, for S and for O")
    found: list[Counter[str]] = []
    for operation in min(with_waits, key=len):
        kinds = [kind for name, kind in KINDS.items() if operation.startswith(name)]
        if operation.startswith("WARPGROUP.DEPBAR"):
            found.append(Counter())
        elif found:
            found[-1].update(kinds)
    return [{kind: counted[kind] for kind in KINDS.values()} for counted in found]


def disassembled(spec: LaunchSpec) -> str:
    """The machine code of a kernel, as nvdisasm prints it. Errors: CourseError where a program is missing."""
    nvdisasm = shutil.which("nvdisasm")
    if nvdisasm is None:
        raise CourseError("nvdisasm is not on the PATH; PyPI has it in nvidia-cuda-nvdisasm.")
    with tempfile.TemporaryDirectory(prefix="cutecourse-") as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled(spec, "sm_90a").cubin)
        return subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout


def version_of(program: str) -> str:
    """The version that a program of the toolkit reports."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"V(\d[\d.]+)", said)
    return match[1] if match else "unknown"


def main(arguments: list[str] | None = None) -> int:
    """Write the rows. Returns 1 where ptxas or nvdisasm is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention_order", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    try:
        for name, spec in launches():
            waits = after_the_waits(disassembled(spec))
            rows.append({"name": name, "waits": waits})
            print(
                f"{name:<22} after the wait for S: {waits[0]}, after the wait for O: {waits[1]}", flush=True
            )
    except CourseError as error:
        print(f"attention_order: {error}", file=sys.stderr)
        return 1
    tools = {program: version_of(program) for program in ("ptxas", "nvdisasm")}
    write_result({"recorded": of_this_machine(), **tools, "rows": rows}, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
