"""The two oracles for atoms: CUTLASS's headers, whose answers are kept as data, and the CuTe DSL."""

import json
import os
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from atoms.cpp import regenerate

HERE = Path(__file__).parent
CUTLASS: dict[str, Any] = json.loads((HERE / "cpp" / "cutlass.json").read_text())
DSL_MMA_OPS = (
    "SM80_16x8x16_F32F16F16F32_TN",
    "SM80_16x8x16_F16F16F16F16_TN",
    "SM80_16x8x8_F32F16F16F32_TN",
    "SM80_16x8x8_F16F16F16F16_TN",
    "SM80_16x8x16_F32BF16BF16F32_TN",
    "SM80_16x8x8_F32BF16BF16F32_TN",
    "SM80_16x8x8_F32TF32TF32F32_TN",
    "SM80_16x8x4_F32TF32TF32F32_TN",
)


def cutlass_cases(kind: str) -> list[dict[str, Any]]:
    """The random cases of one kind with what the headers say."""
    return [case for case in CUTLASS["cases"] if case["kind"] == kind]


def ask_dsl(cases: list[dict[str, Any]], arch: str | None = None) -> list[tuple[str, dict[str, str]]]:
    """What the DSL says of each case: ("ok", its prints), ("refused", why) or ("crashed", the signal)."""
    answers: list[tuple[str, dict[str, str]]] = []
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **({"CUTE_DSL_ARCH": arch} if arch else {})}
    while len(answers) < len(cases):
        rest = cases[len(answers) :]
        process = subprocess.run(
            [sys.executable, str(HERE / "dsl_worker.py")],
            input=json.dumps(rest),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        lines = [line for line in process.stdout.splitlines() if line.startswith("[")]
        for line in lines:
            status, answer = json.loads(line)
            answers.append((status, answer))
        if len(lines) < len(rest):
            if process.returncode >= 0:
                raise RuntimeError(f"the DSL worker stopped early:\n{process.stderr[-2000:]}")
            answers.append(("crashed", {"refused": f"signal {-process.returncode}"}))
    return answers


def ask_dsl_less(pairs: list[tuple[Any, Any]]) -> list[bool | None]:
    """The DSL's `elem_less` of each pair; None where it refuses."""
    process = subprocess.run(
        [sys.executable, str(HERE / "dsl_worker.py"), "--less"],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        check=True,
    )
    said: list[bool | None] = [None] * len(pairs)
    for number, less in re.findall(r"^less (\d+) (\d)$", process.stdout, re.MULTILINE):
        said[int(number)] = less == "1"
    return said


def in_dsl(case: dict[str, Any]) -> bool:
    """Whether the DSL has what the case needs: no int8 or f64 MMA, no zero fill, no C++ type of its own."""
    names = f"{case.get('op', '')} {case.get('copy', '')}"
    if "ZFILL" in names or "AutoVectorizing" in names or "MOVM" in names:
        return False
    return case["kind"] in ("tiled_copy", "cotiled_copy", "copy_atom") or case["op"] in DSL_MMA_OPS


@cache
def fresh_cases(seed: int, count: int) -> tuple[dict[str, Any], ...]:
    """Random cases for the DSL that are not among those kept from C++."""
    rng = random.Random(seed)
    makers = (
        regenerate.tiled_mma_case,
        regenerate.tiled_copy_case,
        regenerate.mma_copy_case,
        regenerate.cotiled_case,
        regenerate.edge_case,
    )
    cases: list[dict[str, Any]] = []
    while len(cases) < count:
        # cotiled copies have few shapes to choose from
        maker = rng.choices(makers, weights=(4, 3, 3, 1, 3))[0]
        case = maker(rng, f"fresh-{len(cases):04}")
        if in_dsl(case):
            cases.append(case)
    return tuple(cases)
