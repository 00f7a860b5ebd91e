"""Assemble every tcgen05 kernel for both Blackwell generations and keep what ptxas says of it.

    python -m benchmarks.umma_assembly             writes benchmarks/results/umma_assembly.json
    python -m benchmarks.umma_assembly --output F  writes F

Registers, stack and spills are a thread's, shared memory is a CTA's. It needs ptxas of the CUDA toolkit 12.9
or later, and no GPU. A test compares the hashes in the file with those of the kernels of today.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.results_file import RESULTS, write_result
from cutecourse.errors import CourseError
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.runtime import AssemblyReport, assembly_report
from tools.facts import of_this_machine

RESULT = RESULTS / "umma_assembly.json"


def kernels() -> dict[str, LaunchSpec]:
    """Each specification of tcgen05's chapters by its name; the second and later of a module with theirs.

    Modules of broken kernels launch a rung that is there already, and are left out.
    """
    found = {}
    for chapter in CHAPTERS:
        if chapter.target != "sm_100a":
            continue
        for name in (name for name in chapter.kernels if not name.endswith("_broken")):
            for attribute, spec in vars(kernel_module(name)).items():
                if isinstance(spec, LaunchSpec):
                    found[name if attribute == "LAUNCH" else f"{name}.{attribute}"] = spec
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the report. Returns 1 where there is no ptxas or where it refuses a kernel."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.umma_assembly", description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    try:
        report: AssemblyReport = assembly_report(kernels())
    except CourseError as error:
        print(f"umma_assembly: {error}", file=sys.stderr)
        return 1
    write_result({"recorded": of_this_machine(), **report.to_snapshot()}, options.output)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
