"""Ask CUTLASS's C++ headers about atoms and their tilings, and keep the answers as `cutlass.json`.

    python tests/atoms/cpp/regenerate.py            # all of it: some minutes of compiling
    python tests/atoms/cpp/regenerate.py --atoms    # the atoms alone; the random cases keep their answers
    python tests/atoms/cpp/regenerate.py --check    # the same, compared with the file; exit 1 if they differ

It needs nvcc (any CUDA 12 or 13; only its host compiler is used) and PyPI's `nvidia-cutlass`, which carries
the headers. The random cases come from one seed and are kept in the file beside their answers, so that the
tests need neither. Nothing here imports `cutecourse`: an oracle sharing its code would share its mistakes.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from support.cutlass_cpp import include_folder

HERE = Path(__file__).parent
DATA = HERE / "cutlass.json"
SEED = 20251121
CASES_A_UNIT = 8

Nested = Any  # an int or a tuple of Nested


# ---- the headers ----


def header_structs(include: Path, name: str) -> dict[str, tuple[int, str]]:
    """`struct NAME` of one arch header -> (its line, the text of its first asm instruction)."""
    found: dict[str, tuple[int, str]] = {}
    lines = (include / "cute" / "arch" / name).read_text().splitlines()
    current = ""
    for number, line in enumerate(lines, 1):
        struct = re.match(r"struct (\w+)", line)
        if struct:
            current = struct.group(1)
            found.setdefault(current, (number, ""))
        asm = re.search(r'"((?:mma|ldmatrix|movmatrix|cp\.async)\.[\w.:]*)', line)
        if asm and current and not found[current][1]:
            found[current] = (found[current][0], asm.group(1))
    return found


def traits_lines(include: Path, name: str, template: str) -> dict[str, int]:
    """`TEMPLATE<NAME>` specialisations of one traits header -> their line."""
    lines = (include / "cute" / "atom" / name).read_text().splitlines()
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        match = re.match(rf"struct {template}<(\w+)", line)
        if match:
            found.setdefault(match.group(1), number)
    return found


# ---- layouts as text, as Python tuples and as C++ types ----


def parse(text: str) -> tuple[Nested, Nested]:
    shape, stride = text.split(":")
    return ast.literal_eval(shape), ast.literal_eval(stride)


def show(value: Nested) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(show(v) for v in value) + ")"
    return str(value)


def cpp_tuple(template: str, value: Nested) -> str:
    if isinstance(value, tuple):
        return f"{template}<{','.join(cpp_tuple(template, v) for v in value)}>"
    return f"Int<{value}>"


def cpp_layout(text: str) -> str:
    """`(4,8):(8,1)`, `S<3,3,3> o 0 o (4,8):(8,1)` or `(4,8)`, an identity, as a C++ type."""
    swizzled = re.match(r"S<(\d+),(\d+),(\d+)> o (\d+) o (.*)", text)
    if swizzled:
        b, m, s, offset, inner = swizzled.groups()
        return f"ComposedLayout<cute::Swizzle<{b},{m},{s}>,Int<{offset}>,{cpp_layout(inner)}>"
    if ":" not in text:
        return f"Identity<{cpp_tuple('Shape', ast.literal_eval(text))}>"
    shape, stride = parse(text)
    return f"Layout<{cpp_tuple('Shape', shape)},{cpp_tuple('Stride', stride)}>"


def cpp_tile(tiles: list[int | str | None]) -> str:
    def one(tile: int | str | None) -> str:
        if tile is None:
            return "Underscore"
        return f"Int<{tile}>" if isinstance(tile, int) else cpp_layout(tile)

    return f"Tile<{','.join(one(t) for t in tiles)}>"


# ---- random cases ----

MMA_OPS = {  # op -> (M, N, K)
    "SM80_16x8x16_F32F16F16F32_TN": (16, 8, 16),
    "SM80_16x8x16_F16F16F16F16_TN": (16, 8, 16),
    "SM80_16x8x8_F32BF16BF16F32_TN": (16, 8, 8),
    "SM80_16x8x8_F32TF32TF32F32_TN": (16, 8, 8),
    "SM80_16x8x4_F32TF32TF32F32_TN": (16, 8, 4),
    "SM80_16x8x32_S32S8S8S32_TN": (16, 8, 32),
    "SM80_16x8x16_S32U8S8S32_TN": (16, 8, 16),
    "SM80_8x8x16_S32S8U8S32_TN": (8, 8, 16),
    "SM80_8x8x4_F64F64F64F64_TN": (8, 8, 4),
}
MMA_ARCHITECTURES = (80, 89)
"""The headers whose MMA operations are asked about: mma_sm80.hpp, ..."""
VALUE_TYPES = {"f16": ("half_t", 16), "f32": ("float", 32), "s8": ("int8_t", 8), "f64": ("double", 64)}
LDMATRIX = [
    "SM75_U32x1_LDSM_N", "SM75_U32x2_LDSM_N", "SM75_U32x4_LDSM_N",
    "SM75_U16x2_LDSM_T", "SM75_U16x4_LDSM_T", "SM75_U16x8_LDSM_T",
]  # fmt: skip
PLAIN_COPIES = (
    [f"UniversalCopy<uint{n}_t>" for n in (8, 16, 32, 64, 128)]
    + [f"SM80_CP_ASYNC_CACHEALWAYS<uint{n}_t>" for n in (32, 64, 128)]
    + [f"SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint{n}_t>" for n in (32, 64, 128)]
    + ["SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>"]
    + [f"AutoVectorizingCopyWithAssumedAlignment<{n}>" for n in (8, 16, 32, 64, 128)]
)


def compact(shape: list[int], order: list[int], start: int = 1) -> list[int]:
    strides = [0] * len(shape)
    for mode in order:
        strides[mode] = start
        start *= shape[mode]
    return strides


def layout_text(shape: Nested, stride: Nested) -> str:
    return f"{show(shape)}:{show(stride)}"


def random_tensor(rng: random.Random, shape: tuple[int, ...], *, swizzle: bool) -> str:
    """A tensor's layout: rows, columns or a shuffle of both, padded, nested, swizzled, or coordinates."""
    swizzle = swizzle and all(s & (s - 1) == 0 for s in shape)
    kind = rng.choice(["row", "col", "pad", "nested", "swizzle" if swizzle else "row", "identity"])
    rank = len(shape)
    order = list(range(rank))
    if kind in ("row", "swizzle", "pad"):
        order[:2] = [1, 0]
    if kind == "identity":
        return show(shape)
    if kind == "swizzle":
        b = rng.choice([1, 2, 3])
        swz = f"S<{b},{rng.choice([2, 3])},3> o 0 o "
        return swz + layout_text(shape, tuple(compact(list(shape), order)))
    if kind == "pad":
        padded = [s + (rng.choice([1, 4, 8]) if i == 1 else 0) for i, s in enumerate(shape)]
        return layout_text(shape, tuple(compact(padded, order)))
    if kind == "nested":
        nested: list[Nested] = []
        leaves: list[int] = []
        for s in shape:
            inner = rng.choice([d for d in (2, 4, 8, 16) if s % d == 0 and s > d] or [0])
            nested.append((inner, s // inner) if inner else s)
            leaves += [inner, s // inner] if inner else [s]
        order = list(range(len(leaves)))
        rng.shuffle(order)
        strides = iter(compact(leaves, order))
        return layout_text(
            tuple(nested),
            tuple(tuple(next(strides) for _ in n) if isinstance(n, tuple) else next(strides) for n in nested),
        )
    return layout_text(shape, tuple(compact(list(shape), order)))


def random_atom_layout(rng: random.Random) -> tuple[str, tuple[int, int, int]]:
    shapes = [
        (1, 1, 1),
        (2, 1, 1),
        (1, 2, 1),
        (2, 2, 1),
        (4, 1, 1),
        (1, 4, 1),
        (2, 2, 2),
        (1, 1, 2),
        (4, 2, 1),
    ]
    shape = rng.choice(shapes)
    order = [0, 1, 2]
    rng.shuffle(order)
    return layout_text(shape, tuple(compact(list(shape), order))), shape


def random_permutation(rng: random.Random, natural: int) -> tuple[int | str | None, int]:
    kind = rng.choice(["none", "none", "int", "layout"])
    if kind == "none":
        return None, natural
    size = natural * rng.choice([1, 2])
    if kind == "int":
        return size, size
    factors = []
    rest = size
    while rest > 1 and len(factors) < 2:
        factor = rng.choice([f for f in (2, 4, 8) if rest % f == 0])
        factors.append(factor)
        rest //= factor
    if rest > 1:
        factors.append(rest)
    order = list(range(len(factors)))
    rng.shuffle(order)
    return layout_text(tuple(factors), tuple(compact(factors, order))), size


def random_mma(rng: random.Random, op: str) -> dict[str, Any]:
    atom_layout, atoms = random_atom_layout(rng)
    tiles: list[int | str | None] = []
    sizes = []
    for mode, extent in enumerate(MMA_OPS[op]):
        tile, size = random_permutation(rng, extent * atoms[mode])
        tiles.append(tile)
        sizes.append(size)
    return {
        "op": op,
        "atom_layout": atom_layout,
        "permutation": tiles,
        "tile": sizes,
        "threads": 32 * atoms[0] * atoms[1] * atoms[2],
    }


def some_threads(rng: random.Random, count: int) -> list[int]:
    return sorted({0, rng.randrange(count), rng.randrange(count), count - 1})


def tiled_mma_case(rng: random.Random, name: str) -> dict[str, Any]:
    mma = random_mma(rng, rng.choice(list(MMA_OPS)))
    m, n, k = (size * rng.choice([1, 2, 3]) for size in mma["tile"])
    stages = rng.choice([(), (), (3,)])
    return {
        "case": name,
        "kind": "tiled_mma",
        **mma,
        "a": random_tensor(rng, (m, k, *stages), swizzle=not stages),
        "b": random_tensor(rng, (n, k, *stages), swizzle=not stages),
        "c": random_tensor(rng, (m, n), swizzle=False),
        "slices": some_threads(rng, mma["threads"]),
    }


def tiled_copy_case(rng: random.Random, name: str) -> dict[str, Any]:
    dtype = rng.choice(list(VALUE_TYPES))
    bits = VALUE_TYPES[dtype][1]
    op = rng.choice([p for p in PLAIN_COPIES if int(re.findall(r"\d+", p)[-1]) >= bits and "ZFILL" not in p])
    per_atom = 1 if op.startswith("Auto") else int(re.findall(r"\d+", op)[-1]) // bits
    threads = rng.choice([(8, 4), (4, 8), (16, 8), (32, 4), (32, 1), (1, 32), (2, 16)])
    thr_order = rng.choice([[0, 1], [1, 0]])
    thr = layout_text(threads, tuple(compact(list(threads), thr_order)))
    along = rng.choice([0, 1])
    more = rng.choice([(1, 1), (1, 2), (2, 1)])
    values = [more[0], more[1]]
    values[along] *= per_atom
    val_order = [along, 1 - along]
    val = layout_text(tuple(values), tuple(compact(values, val_order)))
    tile = [threads[i] * values[i] for i in range(2)]
    shape = tuple(tile[i] * rng.choice([1, 2, 3]) for i in range(2)) + rng.choice([(), (), (2,)])
    return {
        "case": name,
        "kind": "tiled_copy",
        "op": op,
        "dtype": dtype,
        "thr": thr,
        "val": val,
        "s": random_tensor(rng, shape, swizzle=len(shape) == 2),
        "d": random_tensor(rng, shape, swizzle=len(shape) == 2),
        "slices": some_threads(rng, threads[0] * threads[1]),
    }


def matrices(ldmatrix: str) -> int:
    """How many 8 x 8 matrices of 16 bits an ldmatrix operation loads."""
    return int(ldmatrix.partition("x")[2][0]) // (2 if ldmatrix.endswith("T") else 1)


def mma_copy_case(rng: random.Random, name: str) -> dict[str, Any]:
    operand = rng.choice(["a", "a", "b", "b", "c", "C_atom"])
    sixteen_bits = [
        "SM80_16x8x16_F32F16F16F32_TN",
        "SM80_16x8x8_F32BF16BF16F32_TN",
        "SM80_16x8x16_F16F16F16F16_TN",
    ]
    if operand in ("a", "b"):
        op = rng.choice([*sixteen_bits, "SM80_16x8x32_S32S8S8S32_TN", "SM80_16x8x8_F32TF32TF32F32_TN"])
        dtype = {"S8": "s8", "TF": "f32"}.get(op.split("_")[2][3:5], "f16")
    else:
        op = rng.choice(sixteen_bits)
        dtype = "f16"
    while True:
        mma = random_mma(rng, op)
        extents = {"a": (0, 2), "b": (1, 2)}.get(operand, (0, 1))
        tile = [mma["tile"][i] for i in extents]
        atoms = parse(mma["atom_layout"])[0]
        per_thread = tile[0] * tile[1] // (32 * atoms[extents[0]] * atoms[extents[1]])
        if operand in ("a", "b"):
            ldsm = [c for c in LDMATRIX if matrices(c) * 32 // VALUE_TYPES[dtype][1] <= per_thread]
            if dtype != "f16":
                ldsm = [c for c in ldsm if c.endswith("N")]
            choices = [*ldsm, *ldsm, "UniversalCopy<uint32_t>"]
        else:
            choices = [*PLAIN_COPIES[2:0:-1], PLAIN_COPIES[-1]]
        copy = rng.choice(choices)
        if all(not isinstance(t, str) for t in mma["permutation"]) or operand == "c":
            break  # an atom that takes several values wants them together: no shuffled tile under it
    shape = tuple(t * rng.choice([1, 2]) for t in tile)
    return {
        "case": name,
        "kind": "mma_copy",
        "operand": operand,
        "copy": copy,
        "dtype": dtype,
        **mma,
        "tensor": random_tensor(rng, shape, swizzle=False),
        "slices": some_threads(rng, mma["threads"]),
    }


def cotiled_case(rng: random.Random, name: str) -> dict[str, Any]:
    bits = rng.choice([16, 32, 64, 128])
    values = bits // 16
    warps = rng.choice([1, 2, 4])
    shape = (rng.choice([64, 128]), rng.choice([32, 64]))
    order = rng.choice([[0, 1], [1, 0]])
    threads = 32 * warps
    if values * threads > shape[0] * shape[1]:
        shape = (128, 64)
    data = layout_text(shape, tuple(compact(list(shape), order)))
    return {
        "case": name,
        "kind": "cotiled_copy",
        "op": f"UniversalCopy<uint{bits}_t>",
        "dtype": "f16",
        "atom_tv": layout_text((threads, values), (values, 1)),
        "data": data,
        "s": data,
        "d": random_tensor(rng, shape, swizzle=False),
        "slices": some_threads(rng, threads),
    }


def edge_case(rng: random.Random, name: str) -> dict[str, Any]:
    """Atoms in a nested layout, and tensors that the tiles do not divide: parts reach over the edge."""
    case = tiled_mma_case(rng, name)
    shape: Nested = rng.choice(
        [((2, 2), 1, 1), (2, (2, 2), 1), ((2, 2), (1, 2), 1), (3, 1, 1), (1, 2, (2, 2))]
    )
    leaves = [leaf for mode in shape for leaf in (mode if isinstance(mode, tuple) else (mode,))]
    order = list(range(len(leaves)))
    rng.shuffle(order)
    strides = iter(compact(leaves, order))
    stride = tuple(tuple(next(strides) for _ in m) if isinstance(m, tuple) else next(strides) for m in shape)
    threads = 32
    for leaf in leaves:
        threads *= leaf
    m, n, k = (rng.choice([8, 24, 33, 64, 80]) for _ in range(3))
    return {
        **case,
        "kind": "tiled_mma",
        "atom_layout": layout_text(shape, stride),
        "permutation": [rng.choice([None, tile]) for tile in case["permutation"]],
        "threads": threads,
        "a": show((m, k)),
        "b": random_tensor(rng, (n, k, 2), swizzle=False),
        "c": layout_text((m, n), (n, 1)),
        "slices": some_threads(rng, threads),
    }


def random_cases(counts: tuple[int, int, int, int, int] = (40, 36, 32, 6, 8)) -> list[dict[str, Any]]:
    rng = random.Random(SEED)
    makers = (tiled_mma_case, tiled_copy_case, mma_copy_case, cotiled_case, edge_case)
    names = ("mma", "copy", "mma_copy", "cotiled", "edge")
    return [
        maker(rng, f"{name}-{i:03}")
        for maker, name, count in zip(makers, names, counts, strict=True)
        for i in range(count)
    ]


# ---- C++ ----


def braces(threads: list[int]) -> str:
    return "{" + ", ".join(map(str, threads)) + "}"


def call(case: dict[str, Any]) -> str:
    """The C++ call that prints one case."""
    name = f'"{case["case"]}"'
    if case["kind"] == "tiled_mma":
        types = [case["op"], cpp_layout(case["atom_layout"]), cpp_tile(case["permutation"])]
        types += [cpp_layout(case[operand]) for operand in "abc"]
        return f"tiled_mma<{', '.join(types)}>({name}, {braces(case['slices'])});"
    if case["kind"] == "mma_copy":
        atom = f"Copy_Atom<{case['copy']},{VALUE_TYPES[case['dtype']][0]}>"
        operand = "x" if case["operand"] == "C_atom" else case["operand"]
        types = [f"'{operand}'", atom, case["op"], cpp_layout(case["atom_layout"])]
        types += [cpp_tile(case["permutation"]), cpp_layout(case["tensor"])]
        return f"mma_copy<{', '.join(types)}>({name}, {braces(case['slices'])});"
    atom = f"Copy_Atom<{case['op']},{VALUE_TYPES[case['dtype']][0]}>"
    if case["kind"] == "tiled_copy":
        types = [atom, *(cpp_layout(case[key]) for key in ("thr", "val", "s", "d"))]
        return f"tiled_copy<{', '.join(types)}>({name}, {braces(case['slices'])});"
    types = [atom, *(cpp_layout(case[key]) for key in ("atom_tv", "data", "s", "d"))]
    return f"cotiled_copy<{', '.join(types)}>({name}, {braces(case['slices'])});"


class RefusedError(Exception):
    """Some calls of a unit do not compile: their positions, each with the reason that the compiler gives."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


def compile_and_run(calls: list[str], include: Path, nvcc: str) -> dict[str, dict[str, str]]:
    """One translation unit: its cases, each with its printed values."""
    head = ['#include "print_atoms.hpp"', "", "int main() {"]
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "unit.cu"
        unit.write_text("\n".join([*head, *calls, "}", ""]))
        program = Path(folder) / "unit"
        # `-x c++`: layouts are host code, and the host compiler alone is several times faster
        command = [nvcc, "-x", "c++", "-std=c++17", "-O0", "-w", f"-I{include}", f"-I{HERE}"]
        command += ["-o", str(program), str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RefusedError(refusals(done.stderr, len(head)))
        printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    cases: dict[str, dict[str, str]] = {}
    for line in printed.splitlines():
        key, _, value = line.partition("\t")
        if key == "case":
            current = cases.setdefault(value, {})
        else:
            current[key] = value
    return cases


def refusals(messages: str, lines_before: int) -> dict[int, str]:
    """Which calls of a unit the compiler refuses, and the first reason it gives for each."""
    reasons: dict[int, str] = {}
    position: int | None = None
    for line in messages.splitlines():
        where = re.search(r"unit\.cu:(\d+):\d+: +required from here", line)
        if where:
            position = int(where.group(1)) - lines_before - 1
        error = re.search(r"error: (?:static assertion failed(?:: )?)?(.*)", line)
        if error and position is not None:
            reasons.setdefault(position, error.group(1))
    if not reasons:
        raise RuntimeError(messages[-3000:])
    return reasons


def mma_operations(include: Path) -> dict[str, tuple[int, str, int]]:
    """MMA operation -> its line in its arch header, its instruction, the line of its traits.

    The complex ones are no instructions of their own.
    """
    found = {}
    for sm in MMA_ARCHITECTURES:
        traits = traits_lines(include, f"mma_traits_sm{sm}.hpp", "MMA_Traits")
        for name, (line, asm) in header_structs(include, f"mma_sm{sm}.hpp").items():
            if "C64" not in name:
                found[name] = (line, asm, traits[name])
    return found


def atom_calls(include: Path) -> list[str]:
    calls = [f'mma_atom<{name}>("{name}");' for name in mma_operations(include)]
    copies = [*LDMATRIX, "SM75_U32x1_MOVM_T", *PLAIN_COPIES]
    calls += [f'copy_atom<{name}>("{name}");' for name in copies]
    for name in copies:
        for dtype, (cpp, bits) in VALUE_TYPES.items():
            width = 8 if name.startswith("Auto") else int(re.findall(r"\d+", name)[-1]) if "<" in name else 16
            if bits <= width or (dtype == "f32" and name.endswith("N")):
                calls.append(f'copy_atom_values<{name},{cpp}>("{name} {dtype}");')
    return calls


def collect(include: Path, nvcc: str, cases: list[dict[str, Any]], *, atoms: bool = True) -> dict[str, Any]:
    data: dict[str, Any] = {"cutlass": metadata.version("nvidia-cutlass"), "seed": SEED}
    if atoms:
        printed = compile_and_run(atom_calls(include), include, nvcc)
        data["mma_atoms"] = {
            name: {**printed[name], "asm": asm, "arch_line": line, "traits_line": traits_line}
            for name, (line, asm, traits_line) in mma_operations(include).items()
        }
        data["copy_atoms"] = {k: v for k, v in printed.items() if "bit_layout_src" in v}
        arch = {**header_structs(include, "copy_sm75.hpp"), **header_structs(include, "copy_sm80.hpp")}
        arch |= header_structs(include, "copy.hpp")
        traits = {**traits_lines(include, "copy_traits_sm75.hpp", "Copy_Traits")}
        traits |= traits_lines(include, "copy_traits_sm80.hpp", "Copy_Traits")
        traits |= traits_lines(include, "copy_traits.hpp", "Copy_Traits")
        for name, row in data["copy_atoms"].items():
            bare = name.partition("<")[0]
            row |= {"asm": arch[bare][1], "arch_line": arch[bare][0], "traits_line": traits[bare]}
        data["copy_values"] = {k: v for k, v in printed.items() if "layout_src" in v}
        data["asm"] = {
            name: text
            for header in ("mma_sm70.hpp", "mma_sm75.hpp", "mma_sm80.hpp", "mma_sm89.hpp")
            for name, (_, text) in header_structs(include, header).items()
            if text.startswith("mma")
        }
    data["cases"] = []
    for start in range(0, len(cases), CASES_A_UNIT):
        unit = cases[start : start + CASES_A_UNIT]
        refused: dict[str, dict[str, str]] = {}
        try:
            answers = compile_and_run([call(c) for c in unit], include, nvcc)
        except RefusedError as error:  # a refusal is an answer too
            refused = {unit[i]["case"]: {"refused": reason} for i, reason in error.reasons.items()}
            rest = [call(c) for c in unit if c["case"] not in refused]
            answers = compile_and_run(rest, include, nvcc)
        answers |= refused
        data["cases"] += [{**c, "expect": answers[c["case"]]} for c in unit]
        print(f"{min(start + CASES_A_UNIT, len(cases))} of {len(cases)} cases", file=sys.stderr, flush=True)
    return data


def dump(data: dict[str, Any]) -> str:
    """JSON with one atom or case a line, so that a change shows as a change of its lines."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        elif isinstance(value, list):
            rows = ",\n".join(f"  {json.dumps(v)}" for v in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--atoms", action="store_true", help="ask about the atoms alone")
    arguments = parser.parse_args()
    include, nvcc = include_folder(), shutil.which("nvcc")
    if nvcc is None:
        print("regenerate.py needs nvcc on PATH.", file=sys.stderr)
        return 2
    data = collect(include, nvcc, [] if arguments.atoms else random_cases())
    if arguments.atoms:
        data["cases"] = json.loads(DATA.read_text())["cases"]
    text = dump(data)
    if arguments.check:
        same = DATA.read_text() == text
        print("the data is current" if same else "the data differs from what the headers say now")
        return 0 if same else 1
    DATA.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
