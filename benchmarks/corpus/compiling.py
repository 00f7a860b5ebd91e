"""From an entry to PTX: what a compiler is asked, and what is kept of its answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus.entries import Entry
from benchmarks.corpus.problems import Draw, Mapped, Problem, Shaped, Tensor
from benchmarks.corpus.sources import CRASHED, PACKAGES, Nvcc, Worker
from cutecourse.analysis.dsl import pack

__all__ = ["compiled", "launch_arguments"]

_TRITON = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "bf16": "bf16", "e4m3": "fp8e4nv", "e5m2": "fp8e5",
           "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "u8": "u8", "u16": "u16",
           "u32": "u32"}  # fmt: skip
"""Triton's name of an element type."""


def compiled(
    entry: Entry, arch: str, folder: Callable[[], Path], worker: Worker | Nvcc, kept: Path
) -> dict[str, Any]:
    """The compiler's answer for this architecture: from the folder of kept answers, or asked now.

    `folder` finds or installs the package's files. Where every answer is kept, neither is needed.
    """
    if entry.compiler == "triton":
        request = _triton_request(entry, arch, entry.make(Draw(0)))
    elif entry.compiler == "nvcc":
        request = {"arch": arch, "text": entry.options["text"], "include": entry.options["include"]}
    else:
        module, _, function = entry.kernel.partition(":")
        request = {"module": module, "function": function, "arch": arch, **entry.options}
    wanted = [entry.compiler, PACKAGES[entry.package], entry.kernel, request]
    key = json.dumps(wanted, sort_keys=True, default=str)
    path = kept / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    if not path.exists():
        answer = worker.ask({**request, "folder": str(folder())})
        if answer.get("problem") == CRASHED:
            return answer
        kept.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(answer), encoding="utf-8")
    answer = json.loads(path.read_text(encoding="utf-8"))
    return {**answer, "path": str(path)}


def _triton_request(entry: Entry, arch: str, problem: Problem) -> dict[str, Any]:
    module, _, function = entry.kernel.partition(":")
    assert isinstance(problem.args, Mapping)
    signature, constants, divisible = {}, dict(problem.constants), []
    for name, value in problem.args.items():
        if isinstance(value, Tensor):
            signature[name] = f"*{_TRITON[value.kind.name]}"
            divisible.append(name)
        elif isinstance(value, float | np.floating):
            signature[name] = "fp32"
        elif value is None or value == 1:
            constants[name] = value
        else:
            signature[name] = "i64" if isinstance(value, np.int64) else "i32"
            if value % 16 == 0:
                divisible.append(name)
    capability = int(arch.removeprefix("sm_").rstrip("a"))
    return {
        "module": module,
        "function": function,
        "signature": signature,
        "constants": constants,
        "divisible": divisible,
        "capability": capability,
        "options": entry.options,
    }


def launch_arguments(entry: Entry, problem: Problem, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `cutecourse.emulator.launch`, without the seed."""
    if not isinstance(problem.args, Mapping):
        is_dsl = entry.compiler == "dsl"
        declared = (
            [_declared(one) for one in problem.args] if is_dsl else [_given(one) for one in problem.args]
        )
        return {
            "grid": problem.grid,
            "block": problem.block,
            "cluster": problem.cluster,
            "dynamic_smem": problem.smem_bytes,
            "entry": entry.options.get("entry"),
            "args": pack(answer["ptx"], declared) if is_dsl else declared,
        }
    args = [_given(problem.args[name]) for name in answer["order"]]
    blocks = int(np.prod(problem.grid))
    scratch = np.zeros(max(1, blocks * answer["scratch_bytes"]), np.uint8)
    return {
        "grid": problem.grid,
        "block": _threads(answer["ptx"], entry.options.get("num_warps", 4)),
        "cluster": answer["cluster"],
        "dynamic_smem": answer["smem_bytes"],
        "entry": answer["entry"],
        "args": [*args, scratch, np.zeros(1, np.uint8)],
    }


def _threads(ptx: str, n_warps: int) -> int:
    """The block that Triton's launcher takes: one of specialized warps has more than were asked for."""
    found = re.search(r"\.reqntid (\d+)", ptx)
    return int(found.group(1)) if found else 32 * n_warps


def _declared(value: Any) -> Any:
    return value.declared() if isinstance(value, Shaped | Mapped) else value


def _given(value: Any) -> Any:
    return value.codes if isinstance(value, Tensor) else value
