"""Ask CUTLASS's C++ headers which shapes and types of tcgen05.mma they take, and keep it as `legality.json`.

    python tests/umma/cpp/regenerate_legality.py            # all of it: about a minute
    python tests/umma/cpp/regenerate_legality.py --check    # compare with the file; exit 1 if they differ

It needs nvcc and PyPI's `nvidia-cutlass`, as `regenerate.py` does. Nothing here imports `cutecourse`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent

OPS = ("SS", "TS", "2x1SM_SS", "2x1SM_TS")
MS = (32, 64, 128, 256)
NS = (0, 4, 8, 12, 16, 24, 32, 40, 48, 64, 248, 256, 264)
TYPES = (
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "f16"),
    ("f16", "bf16", "f32"),
    ("bf16", "f16", "f32"),
    ("f16", "bf16", "f16"),
    ("f16", "f16", "s32"),
    ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"),
)
CPP = {
    "f16": "half_t", "bf16": "bfloat16_t", "f32": "float", "s32": "int32_t", "tf32": "tfloat32_t",
    "e4m3": "float_e4m3_t",
}  # fmt: skip


def all_cases() -> list[Case]:
    """The shapes of every operation with f16, and the types at one shape."""
    rows = [(op, "f16", "f16", "f32", m, n) for op in OPS for m in MS for n in NS]
    rows += [(op, *types, 128, 64) for op in ("SS", "2x1SM_SS") for types in TYPES]
    names = ("op", "a", "b", "c", "m", "n")
    return [
        {"case": "-".join(map(str, row)), "kind": "legal", **dict(zip(names, row, strict=True))}
        for row in rows
    ]


def call(case: Case) -> str:
    """The C++ call that prints one case."""
    types = ", ".join(CPP[case[which]] for which in "abc")
    op = f"SM100_MMA_F16BF16_{case['op']}<{types}, {case['m']}, {case['n']}, UMMA::Major::K, UMMA::Major::K>"
    return f'legal<{op}>("{case["case"]}");'


PROGRAM = Program(
    header=HERE / "print_legality.hpp",
    data=HERE / "legality.json",
    call=call,
    cases=all_cases,
    cases_a_unit=120,
)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
