"""`python -m benchmarks.corpus --folder DIR`: run the public kernels, and keep what came of each."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpus.compiling import compiled
from benchmarks.corpus.kernels import ENTRIES
from benchmarks.corpus.one import Running
from benchmarks.corpus.sources import COMPILERS, PACKAGES, Nvcc, Worker, package_folder
from benchmarks.corpus.table import kept
from benchmarks.results_file import result_path, write_result
from tools.facts import of_this_machine


def still(running: list[tuple[dict[str, Any], Running]]) -> list[tuple[dict[str, Any], Running]]:
    """Those that have no outcome yet; the others get theirs and are printed."""
    left = []
    for row, one in running:
        found = one.result(0.02)
        if found is None:
            left.append((row, one))
            continue
        row.update(found)
        said = found.get("said", f"{found.get('seconds')} s, {found.get('mib')} MiB {found.get('notes')}")
        print(f"{found['outcome']:<14} {row['kernel']} {row['on']}: {said[:1500]}", flush=True)
    return left


def main() -> None:
    """Parse the command line, run, print one line per kernel, write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, required=True, help="for packages, compilers and compiled texts"
    )
    parser.add_argument("--from", dest="given", action="append", default=[], metavar="NAME=FOLDER",
                        help="a package's folder, or NAME=PYPI to install it")  # fmt: skip
    parser.add_argument("--only", default="", help="only kernels whose name has this text")
    parser.add_argument("--on", default="", help="only this architecture, such as sm_100a")
    parser.add_argument(
        "--compile", action="store_true", help="compile only: a machine without compilers can run the folder"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=180, help="limit for the three runs of a kernel")
    parser.add_argument("--gib", type=float, default=8, help="limit of a kernel's memory")
    parser.add_argument(
        "--update", action="store_true", help="keep the rows of a part, beside the others' rows"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # A process that is forked while BLAS has threads can wait for them forever.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.corpus", *sys.argv[1:]])
    given = dict(one.split("=", 1) for one in options.given)
    chosen = [
        (entry, arch)
        for entry in ENTRIES.values()
        if options.only in entry.name
        for arch in entry.on
        if options.on in arch
    ]
    workers = {
        (compiler, arch): Nvcc() if compiler == "nvcc" else Worker(compiler, arch, options.folder)
        for compiler, arch in {(entry.compiler, arch) for entry, arch in chosen}
    }
    rows: list[dict[str, Any]] = []
    running: list[tuple[dict[str, Any], Running]] = []
    for entry, arch in chosen:
        folder = partial(package_folder, entry.package, options.folder, given)
        answer = compiled(entry, arch, folder, workers[entry.compiler, arch], options.folder / "compiled")
        if options.compile:
            print(entry.name, arch, answer.get("problem", "compiled"), flush=True)
            continue
        uses = [word for word in ("tcgen05.mma", "wgmma", "mma.sync") if word in answer.get("ptx", "")]
        row = {
            "kernel": entry.name,
            "package": entry.package,
            "source": entry.kernel,
            "on": arch,
            "uses": uses[:1],
            "findings": entry.findings,
            "why": entry.why,
        }
        rows.append(row)
        while len(running) >= options.jobs:
            running = still(running)
        running.append((row, Running(entry, answer, options.seconds, options.gib)))
    while running:
        running = still(running)
    for worker in workers.values():
        worker.close()
    if options.compile:
        return
    print(dict(Counter(row["outcome"] for row in rows)))
    used = sorted({entry.package for entry, _ in chosen})
    made = {
        "packages": {name: PACKAGES[name] for name in used},
        "compilers": {
            name: list(COMPILERS[name]) for name in sorted({one for one, _ in workers}) if name in COMPILERS
        },
    }
    if options.update:
        ran = {(row["kernel"], row["on"]): row for row in rows}
        result = kept()
        known = {(row["kernel"], row["on"]): row for row in result["rows"]} | ran
        places = [(entry.name, arch) for entry in ENTRIES.values() for arch in entry.on]
        parts = {part: dict(sorted({**result[part], **made[part]}.items())) for part in made}
        updated = {**result, **parts, "rows": [known[one] for one in places if one in known]}
        write_result(updated, result_path("corpus"))
        return
    is_whole = not options.only and not options.on
    output = options.output or (result_path("corpus") if is_whole else None)
    write_result({"recorded": of_this_machine(), **made, "rows": rows}, output)


if __name__ == "__main__":
    main()
