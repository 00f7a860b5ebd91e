"""Ask CUTLASS's C++ headers what chapters 3 to 5 add to tilings, and keep the answers as `copies.json`.

    python tests/atoms/cpp/regenerate_copies.py            # all of it: some minutes of compiling
    python tests/atoms/cpp/regenerate_copies.py --check    # compare with the file; exit 1 if they differ

The cases are permutations with nested modes, copies made from copies, predicates, tensors counted from
another coordinate on, and swizzles on pointers. It needs nvcc and PyPI's `nvidia-cutlass`.
Nothing here imports `cutecourse`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.path.insert(0, str(Path(__file__).parents[3]))
from atoms.cpp import regenerate
from atoms.cpp.regenerate import compact, cpp_layout, cpp_tile, cpp_tuple, layout_text, show

from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent
SEED = 20251122
LDMATRIX_A = "SM75_U32x4_LDSM_N"
MMA = "SM80_16x8x16_F32F16F16F32_TN"
INTEGERS = {"u8": ("uint8_t", 1), "u16": ("uint16_t", 2), "u32": ("uint32_t", 4), "u64": ("uint64_t", 8)}


def nested_permutation(rng: random.Random, natural: int, copies: int) -> tuple[str, int]:
    """A tile with modes in modes, as `((8,2),2):((1,16),8)`: in which order its elements are taken."""
    extents = [2] * copies
    while natural > 1:
        extents.append(rng.choice([f for f in (2, 4, 8) if natural % f == 0]))
        natural //= extents[-1]
    order = list(range(len(extents)))
    rng.shuffle(order)
    strides = compact(extents, order)
    cut = rng.randrange(1, len(extents))
    shape = (*_grouped(extents[:cut]), *_grouped(extents[cut:]))
    return layout_text(shape, (*_grouped(strides[:cut]), *_grouped(strides[cut:]))), _product(extents)


def _grouped(values: list[int]) -> tuple[Any, ...]:
    return (tuple(values),) if len(values) > 1 else tuple(values)


def _product(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def nested_case(rng: random.Random, name: str) -> Case:
    """A tiled MMA whose permutation has nested modes along M or N."""
    case = regenerate.tiled_mma_case(rng, name)
    op = rng.choice([MMA, "SM80_16x8x8_F32BF16BF16F32_TN", "SM80_16x8x16_F16F16F16F16_TN"])
    atom_layout, atoms = regenerate.random_atom_layout(rng)
    natural = [extent * count for extent, count in zip(regenerate.MMA_OPS[op], atoms, strict=True)]
    tiles: list[int | str | None] = [None, None, None]
    sizes = list(natural)
    for mode in rng.choice([(0,), (1,), (0, 1)]):
        tiles[mode], sizes[mode] = nested_permutation(rng, natural[mode], rng.choice([1, 2]))
    m, n, k = (size * rng.choice([1, 2]) for size in sizes)
    threads = 32 * atoms[0] * atoms[1] * atoms[2]
    return {
        **case,
        "op": op,
        "atom_layout": atom_layout,
        "permutation": tiles,
        "tile": sizes,
        "threads": threads,
        "a": layout_text((m, k), (k, 1)),
        "b": layout_text((n, k), (1, n)),
        "c": show((m, n)),
        "slices": regenerate.some_threads(rng, threads),
    }


def side_case(rng: random.Random, name: str) -> Case:
    """Another atom for the threads of a copy: for what they read (s) or what they write (d)."""
    if rng.random() < 0.5:
        base: Case = {
            "kind": "mma_copy",
            "operand": "a",
            "copy": LDMATRIX_A,
            "dtype": "f16",
            "op": MMA,
            "atom_layout": rng.choice(["(2,2,1):(1,2,0)", "(1,2,1):(0,1,0)", "(4,1,1):(1,0,0)"]),
            "permutation": [None, None, None],
        }
        atoms = regenerate.parse(base["atom_layout"])[0]
        tile, threads = (16 * atoms[0], 16), 32 * atoms[0] * atoms[1]
    else:
        base = {**regenerate.tiled_copy_case(rng, name), "op": "UniversalCopy<uint64_t>", "dtype": "f16"}
        shape = rng.choice([(8, 16), (16, 8), (32, 4)])
        base |= {"thr": layout_text(shape, (shape[1], 1)), "val": rng.choice(["(1,4):(4,1)", "(2,4):(4,1)"])}
        values = regenerate.parse(base["val"])[0]
        tile, threads = (shape[0] * values[0], shape[1] * values[1]), shape[0] * shape[1]
    shape = tuple(extent * rng.choice([1, 2]) for extent in tile)
    return {
        "case": name,
        "kind": "side_copy",
        "side": rng.choice("sd"),
        "op": rng.choice(["UniversalCopy<uint16_t>", "UniversalCopy<uint32_t>"]),
        "dtype": "f16",
        "base": {key: value for key, value in base.items() if key not in ("s", "d", "case", "slices")},
        "tensor": regenerate.random_tensor(rng, shape, swizzle=False),
        "slices": regenerate.some_threads(rng, threads),
    }


def predicate_case(rng: random.Random, name: str) -> Case:
    """A tile at the edge of a tensor that no tile divides."""
    threads = rng.choice([(8, 4), (4, 8), (16, 2)])
    vector = rng.choice([1, 2, 4])
    values = rng.choice([(1, vector), (2, vector)])
    tile = (threads[0] * values[0], threads[1] * values[1])
    at = (rng.randrange(2), rng.randrange(2))
    shape = tuple(t * a + rng.randrange(1, t + 1) for t, a in zip(tile, at, strict=True))
    return {
        "case": name,
        "kind": "predicate",
        "op": f"UniversalCopy<uint{16 * vector}_t>",
        "dtype": "f16",
        "thr": layout_text(threads, (threads[1], 1)),
        "val": layout_text(values, (values[1], 1)),
        "shape": show(shape),
        "at": list(at),
        "slices": [0, 7, 21, 31],
    }


def moved_case(rng: random.Random, name: str) -> Case:
    """A tensor counted from another coordinate on, before its start too."""
    shape = (rng.choice([8, 16]), rng.choice([16, 32]))
    source = regenerate.random_tensor(rng, shape, swizzle=True)
    low = 0 if source.startswith("S") else -8
    return {
        "case": name,
        "kind": "moved",
        "tensor": source,
        "coord": [rng.randrange(low, shape[0]), rng.randrange(low, shape[1])],
    }


def pointer_case(rng: random.Random, name: str) -> Case:
    """A tensor of one integer type behind a swizzled pointer, seen as another type."""
    old, new = rng.sample(list(INTEGERS), 2)
    widest = max(INTEGERS[old][1], INTEGERS[new][1])
    bits, shift = rng.choice([(1, 3), (2, 3), (3, 3), (2, 2), (3, 4)])
    base = rng.choice([b for b in (3, 4, 5) if 1 << b >= widest])
    row = rng.choice([64, 128]) // INTEGERS[old][1]
    shape = (rng.choice([8, 16]), row)
    stride = rng.choice([(row, 1), (2 * row, 1)])
    aligned = rng.random() < 0.7
    span = 1 << (base + bits + shift)
    start = span * rng.randrange(3) + (0 if aligned else 8 * rng.randrange(1, span // 8))
    return {
        "case": name,
        "kind": "pointer",
        "dtype": old,
        "new": new,
        "swizzle": [bits, base, shift],
        "layout": layout_text(shape, stride),
        "start": start,
        "aligned": aligned,
    }


def flagged_case(rng: random.Random, name: str) -> Case:
    """The layout of a swizzled pointer's tensor, as CuTe's layout atoms have it."""
    element_bits = rng.choice([8, 16, 32])
    row = 1024 // element_bits
    return {
        "case": name,
        "kind": "flagged",
        "swizzle": [rng.choice([1, 2, 3]), 4, 3],
        "bits": element_bits,
        "layout": layout_text((8, row), (row, 1)),
    }


def random_cases() -> list[Case]:
    makers = (
        (nested_case, "nested", 8),
        (side_case, "side", 8),
        (predicate_case, "predicate", 16),
        (moved_case, "moved", 8),
        (pointer_case, "pointer", 16),
        (flagged_case, "flagged", 6),
    )
    return [
        make(random.Random(f"{SEED} {name} {number}"), f"{name}-{number:03}")
        for make, name, count in makers
        for number in range(count)
    ]


# ---- C++ ----


def swizzle_type(numbers: list[int]) -> str:
    return f"cute::Swizzle<{','.join(map(str, numbers))}>"


def copy_call(case: Case) -> str:
    """The C++ expression that makes a copy."""
    if case["kind"] == "mma_copy":
        tiles = ", ".join((f"MMA_Atom<{case['op']}>{{}}", cpp_layout(case["atom_layout"]) + "{}"))
        return (
            f"make_tiled_copy_A(Copy_Atom<{case['copy']},half_t>{{}}, "
            f"make_tiled_mma({tiles}, {cpp_tile(case['permutation'])}{{}}))"
        )
    layouts = ", ".join(cpp_layout(case[key]) + "{}" for key in ("thr", "val"))
    return f"make_tiled_copy(Copy_Atom<{case['op']},half_t>{{}}, {layouts})"


def call(case: Case) -> str:
    """The C++ call that prints one case."""
    name, kind = f'"{case["case"]}"', case["kind"]
    if kind == "tiled_mma":
        return regenerate.call(case)
    if kind == "side_copy":
        base = copy_call(case["base"])
        types = f"'{case['side']}', Copy_Atom<{case['op']},half_t>, decltype({base})"
        return (
            f"copy_of<{types}, {cpp_layout(case['tensor'])}>({name}, {base}, "
            f"{regenerate.braces(case['slices'])});"
        )
    if kind == "predicate":
        types = ", ".join(
            (f"Copy_Atom<{case['op']},half_t>", cpp_layout(case["thr"]), cpp_layout(case["val"]))
        )
        m, n = case["at"]
        return (
            f"predicate<{types}>({name}, make_shape{case['shape']}, {m}, {n}, "
            f"{regenerate.braces(case['slices'])});"
        )
    if kind == "moved":
        coord = cpp_tuple("Coord", tuple(case["coord"]))
        return f"moved({name}, {cpp_layout(case['tensor'])}{{}}, {coord}{{}});"
    swizzle = swizzle_type(case["swizzle"])
    if kind == "flagged":
        return f"flagged<{swizzle}, {case['bits']}, {cpp_layout(case['layout'])}>({name});"
    types = ", ".join((INTEGERS[case["dtype"]][0], INTEGERS[case["new"]][0], swizzle))
    aligned = str(case["aligned"]).lower()
    return f"pointer<{types}, {cpp_layout(case['layout'])}, {aligned}>({name}, {case['start']});"


def read(printed: str) -> dict[str, Case]:
    """The printed lines as one mapping a case, its values as text."""
    answers: dict[str, Case] = {}
    current: Case = {}
    for line in printed.splitlines():
        key, _, value = line.partition("\t")
        if key == "case":
            current = answers.setdefault(value, {})
        else:
            current[key] = value
    return answers


PROGRAM = Program(
    header=HERE / "print_copies.hpp",
    data=HERE / "copies.json",
    call=call,
    cases=random_cases,
    cases_a_unit=16,
    read=read,
    facts={"seed": SEED},
)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
