"""`cutecourse doctor`: what this machine has, and which chapters run natively on it."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cutecourse
from cutecourse.kernels.chapters import CHAPTERS, COMPUTE_CAPABILITIES
from cutecourse.runtime.discovery import DEVICE_VARIABLE, Discovery, choose, discover, dotted
from cutecourse.runtime.errors import DeviceError

__all__ = ["examine", "register", "report"]

PACKAGES = {
    "cutecourse": "this course",
    "numpy": "arrays",
    "ml_dtypes": "bf16 and fp8 arrays in chapters",
    "nvidia-cutlass-dsl": "compiles the CuTe DSL kernels",
    "numba-cuda": "compiles the numba kernels",
    "cuda-bindings": "talks to the GPU",
    "matplotlib": "figures",
    "anywidget": "widgets",
    "jupyterlab": "notebooks",
    "jupyter-book": "pages",
    "nbval": "tests the notebooks",
}


def register(subparsers: Any) -> None:
    """Add the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser("doctor", help=__doc__, description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    found = examine()
    print(json.dumps(found, indent=2) if arguments.json else report(found))
    return 0


def examine(discovery: Discovery | None = None) -> dict[str, Any]:
    """Everything that the report says, as plain data. Missing packages and a missing driver are findings."""
    found = discovery or discover()
    return {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "cuda": {"driver": found.driver, "toolkit": _toolkit(), "ptxas": shutil.which("ptxas")},
        "gpus": [
            {
                "device": f"cuda:{gpu.ordinal}",
                "name": gpu.name,
                "compute_capability": dotted(gpu.compute_capability),
                "memory_bytes": gpu.memory_bytes,
                "multiprocessors": gpu.multiprocessors,
            }
            for gpu in found.devices
        ],
        "no_gpu_because": found.reason,
        "forced_device": os.environ.get(DEVICE_VARIABLE),
        "forced_device_refused": _refusal(discovery),
        "chapters": [
            {
                "chapter": chapter.name,
                "title": chapter.title,
                "target": chapter.target,
                "reason": chapter.reason,
                "runs": {
                    dotted(capability): "native" if chapter.native_on(capability) else "emulator"
                    for capability in COMPUTE_CAPABILITIES
                },
                "here": _here(chapter.target, found),
            }
            for chapter in CHAPTERS
        ],
    }


def _here(target: str, found: Discovery) -> str:
    from cutecourse.kernels.spec import runs_on

    return "native" if any(runs_on(target, gpu.compute_capability) for gpu in found.devices) else "emulator"


def _version(package: str) -> str | None:
    if package == "cutecourse":
        return cutecourse.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _refusal(discovery: Discovery | None) -> str | None:
    """The complaint of a run about the device that the environment asks for; None if the device is there."""
    try:
        choose("sm_80", None, discovery)
    except DeviceError as error:
        return str(error)
    return None


def _toolkit() -> str | None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    try:
        text = subprocess.run(
            [nvcc, "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"release ([\d.]+)", text)
    return f"{match[1]} ({Path(nvcc).parent})" if match else None


def report(found: dict[str, Any]) -> str:
    """The report as text: what was found, then the table chapter by compute capability."""
    lines = ["This machine", *_machine_lines(found), "", "Packages"]
    for name, version in found["packages"].items():
        lines.append(f"  {name:<20} {version or 'missing':<14} {PACKAGES[name]}")
    lines += ["", "Where each chapter runs, by the GPU's compute capability"]
    lines += _table(found)
    return "\n".join(lines)


def _machine_lines(found: dict[str, Any]) -> list[str]:
    cuda = found["cuda"]
    lines = [
        f"  Python     {found['python']['version']} ({found['python']['executable']})",
        f"  system     {found['platform']}",
        f"  driver     {'for CUDA ' + cuda['driver'] if cuda['driver'] else 'none'}",
        f"  toolkit    {cuda['toolkit'] or 'none (not needed)'}",
    ]
    lines += [
        f"  {gpu['device']}     {gpu['name']}, compute capability {gpu['compute_capability']}, "
        f"{gpu['memory_bytes'] / 2**30:.0f} GiB, {gpu['multiprocessors']} multiprocessors"
        for gpu in found["gpus"]
    ]
    if found["no_gpu_because"]:
        lines.append(f"  GPU        none found: {found['no_gpu_because']}. The emulator runs every chapter.")
    if found["forced_device"]:
        decides = f"{DEVICE_VARIABLE}={found['forced_device']} decides where kernels run"
        refused = found["forced_device_refused"]
        lines.append(f"  no kernel will run: {refused}" if refused else f"  {decides}")
    return lines


def _table(found: dict[str, Any]) -> list[str]:
    own = {gpu["compute_capability"] for gpu in found["gpus"]}
    columns = [dotted(capability) for capability in COMPUTE_CAPABILITIES]
    # A GPU between two columns (8.7, 12.1) is marked in a column of its own.
    extra = sorted(own - set(columns), key=lambda text: tuple(map(int, text.split("."))))
    heads = [f"[{text}]" if text in own else text for text in [*columns, *extra]]
    heads.append("no GPU" if own else "[no GPU]")
    width = max(17, *(len(chapter["chapter"]) for chapter in found["chapters"]))
    lines = ["  " + "chapter".ljust(width) + "".join(f"{head:>10}" for head in heads)]
    for chapter in found["chapters"]:
        cells = [chapter["runs"].get(column, chapter["here"]) for column in [*columns, *extra]]
        row = "".join(f"{cell:>10}" for cell in [*cells, "emulator"])
        lines.append(f"  {chapter['chapter']:<{width}}{row}")
    lines.append("  [ ] is this machine. The emulator runs the same PTX on the CPU.")
    lines += [
        f"  {chapter['chapter']} needs {chapter['target']}: {chapter['reason']}."
        for chapter in found["chapters"]
    ]
    return lines
