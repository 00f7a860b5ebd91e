"""Ask CUTLASS's C++ headers for the TMA atoms of a tcgen05.mma's operands, and keep them as `tma_atoms.json`.

    python tests/umma/cpp/regenerate_tma_atoms.py            # all of it: about two minutes of compiling
    python tests/umma/cpp/regenerate_tma_atoms.py --check    # compare with the file; exit 1 if they differ

It needs nvcc and PyPI's `nvidia-cutlass`, as `regenerate.py` does. Nothing here imports `cutecourse`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from tma.cpp.regenerate import cpp_layout, cpp_value, parse, read
from umma.cpp.regenerate import CPP_TYPES, cpp_op

from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent

ONE, ONE_SHARED = "SM90_TMA_LOAD", "SM90_TMA_LOAD_MULTICAST"
TWO, TWO_SHARED = "SM100_TMA_2SM_LOAD", "SM100_TMA_2SM_LOAD_MULTICAST"
TILE, TILE_ONE = "(_256,_256,_64)", "(_128,_256,_64)"
ROWS = "(512,256):(256,_1)"
COLUMNS = "(512,256):(_1,512)"
STATIC = "(_512,_256):(_256,_1)"
BATCH = "(512,256,3):(256,_1,131072)"

# name, operand, copy op, (MMA op, types, m, n, majors), tensor, smem atom, tiler, cluster
ROW_NAMES = ("case", "operand", "copy_op", "mma", "gmem", "atom", "tiler", "cluster")
F16 = ("f16", "f16", "f32")
BF16 = ("bf16", "bf16", "f32")
SS_256 = ("SS", *F16, 128, 256, "K", "K")
SS_MN = ("SS", *BF16, 64, 128, "MN", "MN")
PAIR = ("2x1SM_SS", *F16, 256, 256, "K", "K")
PAIR_128 = ("2x1SM_SS", *F16, 128, 128, "K", "K")
PAIR_MIXED = ("2x1SM_SS", *BF16, 256, 64, "MN", "K")
PAIR_MN = ("2x1SM_SS", *BF16, 256, 128, "MN", "MN")


def all_cases() -> list[Case]:
    """Both operands, one and two SMs, every operation, cluster and major; tiles of several MMAs; refusals."""
    both: list[tuple[object, ...]] = [
        ("03", ONE_SHARED, SS_256, ROWS, "K_SW128", TILE_ONE, "(_4,_4,_1)"),
        ("04", TWO_SHARED, PAIR, ROWS, "K_SW128", TILE, "(_4,_4,_1)"),
        ("04-alone", TWO, PAIR, ROWS, "K_SW128", TILE, "(_2,_1,_1)"),
        ("04-wide", TWO_SHARED, PAIR, ROWS, "K_SW128", TILE, "(_2,_4,_1)"),
        ("04-tall", TWO_SHARED, PAIR, ROWS, "K_SW128", TILE, "(_8,_1,_1)"),
        ("04-static", TWO_SHARED, PAIR, STATIC, "K_SW128", TILE, "(_4,_2,_1)"),
        ("04-SW64", TWO_SHARED, PAIR, ROWS, "K_SW64", "(_256,_256,_32)", "(_2,_2,_1)"),
        ("04-INTER", TWO, PAIR, ROWS, "K_INTER", "(_256,_256,_32)", "(_2,_1,_1)"),
        ("04-SM90", ONE_SHARED, PAIR, ROWS, "K_SW128", TILE, "(_4,_4,_1)"),
        ("pair-128", TWO_SHARED, PAIR_128, ROWS, "K_SW128", "(_128,_128,_128)", "(_4,_2,_1)"),
        ("pair-two", TWO_SHARED, PAIR_128, ROWS, "K_SW128", TILE, "(_2,_2,_1)"),
        ("pair-MN", TWO_SHARED, PAIR_MN, COLUMNS, "MN_SW128", "(_256,_128,_64)", "(_2,_2,_1)"),
        ("one-MN", ONE, SS_MN, COLUMNS, "MN_SW128", "(_64,_128,_64)", "(_1,_1,_1)"),
        ("one-two", ONE_SHARED, SS_256, ROWS, "K_SW128", "(_256,_512,_64)", "(_2,_2,_1)"),
        ("batch", TWO_SHARED, PAIR, BATCH, "K_SW128", "(_256,_256,_64,_1)", "(_2,_2,_1)"),
        ("store", "SM90_TMA_STORE", SS_256, ROWS, "K_SW128", TILE_ONE, "(_1,_1,_1)"),
        ("refused", TWO, PAIR, ROWS, "K_SW128", TILE, "(_2,_1,_1)"),
        ("refused-op", "SM90_TMA_REDUCE_ADD", PAIR, ROWS, "K_SW128", TILE, "(_2,_1,_1)"),
        ("refused-major", TWO, PAIR, COLUMNS, "K_SW128", TILE, "(_2,_1,_1)"),
    ]  # fmt: skip
    rows: list[tuple[object, ...]] = [
        (f"{name}-{operand}", operand, *rest) for operand in "AB" for name, *rest in both
    ]
    rows += [
        ("pair-mixed-A", "A", TWO_SHARED, PAIR_MIXED, COLUMNS, "MN_SW64", "(_256,_64,_64)", "(_2,_2,_1)"),
        ("pair-mixed-B", "B", TWO_SHARED, PAIR_MIXED, ROWS, "K_SW128", "(_256,_64,_64)", "(_4,_1,_1)"),
        ("pair-ragged-A", "A", TWO, PAIR, "(300,72):(72,_1)", "K_SW128", TILE, "(_2,_1,_1)"),
        ("pair-16-cut-B", "B", TWO_SHARED, PAIR_128, ROWS, "K_SW128", "(_128,_128,_64)", "(_16,_1,_1)"),
    ]
    cases = []
    for row in rows:
        case: Case = {"kind": "tma_atom", **dict(zip(ROW_NAMES, row, strict=True))}
        op, a, b, c, m, n, a_major, b_major = case.pop("mma")
        case |= {"op": op, "a": a, "b": b, "c": c, "m": m, "n": n, "a_major": a_major, "b_major": b_major}
        refused_size = case["case"] in ("refused-A", "refused-B")
        case["smem_tiler"] = "(_256,_256,_128)" if refused_size else case["tiler"]
        cases.append(case)
    return cases


def call(case: Case) -> str:
    """The C++ call that prints one case."""
    first = "true" if case["operand"] == "A" else "false"
    element = CPP_TYPES[case["a"]][0]
    values = [
        f'"{case["case"]}"',
        f"{case['copy_op']}{{}}",
        f"make_tiled_mma({cpp_op(case)}{{}})",
        cpp_layout(case["gmem"]),
        f"UMMA::Layout_{case['atom']}_Atom<{element}>{{}}",
        cpp_value(parse(case["smem_tiler"])),
        cpp_value(parse(case["tiler"])),
        cpp_value(parse(case["cluster"])),
    ]
    return f"tma_atom<{first}, {element}>({', '.join(values)});"


PROGRAM = Program(
    header=HERE / "print_tma_atoms.hpp",
    data=HERE / "tma_atoms.json",
    call=call,
    cases=all_cases,
    read=read,
    cases_a_unit=7,
)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
