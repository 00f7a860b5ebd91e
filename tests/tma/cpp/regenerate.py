"""Ask CUTLASS's C++ headers how they make TMA atoms, and keep the answers as `cutlass.json`.

    python tests/tma/cpp/regenerate.py            # all of it: about a minute and a half of compiling
    python tests/tma/cpp/regenerate.py --check    # the same, compared with the file; exit 1 if they differ

It needs nvcc (any CUDA 12 or 13; only its host compiler is used) and PyPI's `nvidia-cutlass`, which carries
the headers. The driver's encode function is answered by the program itself, which prints its arguments. The
configurations are kept in the file beside their answers, so that the tests need neither. Nothing here imports
`cutecourse`: an oracle sharing its code would share its mistakes.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent
SEED = 20261121

Nested = Any  # an int, a text such as "_8" (a static int), or a tuple of Nested

DTYPES = {  # name -> (C++ type, bits)
    "u8": ("uint8_t", 8),
    "s8": ("int8_t", 8),
    "e4m3": ("float_e4m3_t", 8),
    "f16": ("half_t", 16),
    "bf16": ("bfloat16_t", 16),
    "u16": ("uint16_t", 16),
    "f32": ("float", 32),
    "tf32": ("tfloat32_t", 32),
    "u32": ("uint32_t", 32),
    "s32": ("int32_t", 32),
    "f64": ("double", 64),
    "u64": ("uint64_t", 64),
    "s64": ("int64_t", 64),
}


# ---- CuTe's notation as C++ ----


def tokens(text: str) -> list[str]:
    return re.findall(r"[(),]|_?-?\d+", text)


def parse(text: str) -> Nested:
    """`(512,(_8,_1))` as a tuple of ints (run-time values) and texts (`_8`, static ones)."""
    queue = tokens(text)

    def value() -> Nested:
        token = queue.pop(0)
        if token != "(":
            return token if token.startswith("_") else int(token)
        items = []
        while queue[0] != ")":
            items.append(value())
            if queue[0] == ",":
                queue.pop(0)
        queue.pop(0)
        return tuple(items)

    return value()


def show(value: Nested) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(show(v) for v in value) + ")"
    return str(value)


def cpp_value(value: Nested, maker: str = "make_shape") -> str:
    if isinstance(value, tuple):
        return f"{maker}({', '.join(cpp_value(v, maker) for v in value)})"
    return f"Int<{value[1:]}>{{}}" if isinstance(value, str) else str(value)


def cpp_layout(text: str) -> str:
    shape, stride = (parse(part) for part in text.split(":"))
    return f"make_layout({cpp_value(shape)}, {cpp_value(stride, 'make_stride')})"


def cpp_smem(text: str, dtype: str) -> str:
    """`K_SW128 (_128,_64)` (an atom of CUTLASS tiled to a shape), `Sw<3,4,3> o LAYOUT`, or a layout."""
    kind, bits = DTYPES[dtype]
    atom = re.match(r"((?:MN|K)_\w+) (.*)", text)
    if atom:
        name, shape = atom.groups()
        return f"tile_to_shape(GMMA::Layout_{name}_Atom<{kind}>{{}}, {cpp_value(parse(shape))})"
    swizzled = re.match(r"Sw(<.*?>) o (.*)", text)
    if swizzled:
        parameters, layout = swizzled.groups()
        flag = f"smem_ptr_flag_bits<{bits}>{{}}"
        return f"make_composed_layout(Swizzle{parameters}{{}}, {flag}, {cpp_layout(layout)})"
    return cpp_layout(text)


# ---- configurations ----


def tma(
    name: str,
    dtype: str,
    gmem: str,
    smem: str,
    tiler: str,
    *,
    internal: str | None = None,
    multicast: int = 1,
    stages: int = 0,
) -> Case:
    return {
        "case": name,
        "kind": "tma",
        "dtype": dtype,
        "internal": internal or dtype,
        "gmem": gmem,
        "smem": smem,
        "tiler": tiler,
        "multicast": multicast,
        "stages": stages,
    }


def grid_cases() -> list[Case]:
    """Every major, swizzle and width; multicast, raggedness and static extents go round among them."""
    cases = []
    names = {
        8: ["u8", "e4m3", "s8"],
        16: ["f16", "bf16", "u16"],
        32: ["f32", "tf32", "u32"],
        64: ["f64", "u64"],
    }
    row_bytes = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128}
    index = 0
    for major in ("K", "MN"):
        for swizzle, span in row_bytes.items():
            for bits, dtypes in names.items():
                multicast = (1, 2, 4, 8)[(index + index // 4) % 4]
                run = span * 8 // bits  # elements of the swizzle's row
                tile = [64, 2 * run if index % 3 else run]
                extents = [200, 96] if index % 2 else [256, 128]
                if index % 5 == 0:
                    extents[1] = 4 * run + (128 // bits)  # ragged, and still 16-byte rows
                if major == "MN":
                    tile.reverse()
                    extents.reverse()
                leading = 1 if major == "K" else 0
                pitch = extents[leading] + (0 if index % 4 else 128 // bits)
                pitch += -pitch % (128 // bits)
                stride: tuple[Nested, ...] = (pitch, "_1") if major == "K" else ("_1", pitch)
                shape: tuple[Nested, ...] = tuple(extents)
                if index % 6 == 3:
                    shape = tuple(f"_{e}" for e in extents)
                    stride = tuple(s if isinstance(s, str) else f"_{s}" for s in stride)
                static_tile = show(tuple(f"_{t}" for t in tile))
                cases.append(
                    tma(
                        f"{major}-{swizzle}-{bits}",
                        dtypes[index % len(dtypes)],
                        f"{show(shape)}:{show(stride)}",
                        f"{major}_{swizzle} {static_tile}",
                        static_tile,
                        multicast=multicast,
                        stages=(0, 2, 3)[index % 3],
                    )
                )
                index += 1
    return cases


def chosen_cases() -> list[Case]:
    """One idea each: ranks, nested modes, other internal types, modes that stay out, boxes that split."""
    return [
        # the course's problem, not multicast, and B of both kinds of cluster
        tma("problem-A", "f16", "(512,256):(256,_1)", "K_SW128 (_128,_64)", "(_128,_64)", stages=3),
        tma("problem-B", "f16", "(1024,256):(256,_1)", "K_SW128 (_256,_64)", "(_256,_64)", stages=2),
        tma(
            "problem-A4",
            "f16",
            "(512,256):(256,_1)",
            "K_SW128 (_128,_64)",
            "(_128,_64)",
            multicast=4,
            stages=1,
        ),
        tma(
            "problem-A8",
            "f16",
            "(512,256):(256,_1)",
            "K_SW128 (_128,_64)",
            "(_128,_64)",
            multicast=8,
            stages=1,
        ),
        tma("problem-A-MN", "f16", "(512,256):(_1,512)", "MN_SW128 (_128,_64)", "(_128,_64)", stages=2),
        tma("problem-C", "f32", "(512,1024):(1024,_1)", "K_SW128 (_128,_32)", "(_128,_32)", stages=2),
        # rank 1
        tma("rank1", "f32", "(1024):(_1)", "(_256):(_1)", "(_256)", stages=2),
        tma("rank1-ragged", "u8", "(1000):(_1)", "(_128):(_1)", "(_128)", multicast=4, stages=1),
        tma("rank1-nested", "f16", "((_64,10)):((_1,128))", "(_128):(_1)", "(_128)"),
        # rank 2 without a swizzle
        tma("plain-rows", "f16", "(96,200):(200,_1)", "(_32,_64):(_64,_1)", "(_32,_64)", stages=2),
        tma(
            "plain-cols", "f32", "(100,50):(_1,100)", "(_64,_16):(_1,_64)", "(_64,_16)", multicast=2, stages=2
        ),
        tma("padded-smem", "f16", "(128,64):(64,_1)", "(_32,_64):(_72,_1)", "(_32,_64)", stages=2),
        tma("padded-gmem", "bf16", "(77,40):(48,_1)", "(_16,_32):(_32,_1)", "(_16,_32)", stages=1),
        tma(
            "core-matrices",
            "f16",
            "(256,128):(128,_1)",
            "((_8,_8),(_8,_4)):((_8,_64),(_1,_512))",
            "(_64,_32)",
            stages=2,
        ),
        tma(
            "wide-tile",
            "u8",
            "(300,512):(512,_1)",
            "(_16,_256):(_256,_1)",
            "(_16,_256)",
            multicast=8,
            stages=1,
        ),
        tma(
            "two-boxes",
            "u8",
            "(1024,256):(_1,1024)",
            "((_256,_2),_8):((_1,_2048),_256)",
            "(_512,_8)",
            stages=1,
        ),
        tma("static", "f16", "(_512,_256):(_256,_1)", "K_SW64 (_64,_32)", "(_64,_32)", multicast=2, stages=1),
        tma("whole", "f16", "(64,32):(32,_1)", "(_64,_32):(_32,_1)", "(_64,_32)", stages=1),
        tma("smaller-than-tile", "f16", "(20,24):(24,_1)", "K_SW128 (_64,_64)", "(_64,_64)", stages=2),
        tma("larger-shuffle", "f32", "(64,256):(256,_1)", "(_8,(_8,_4)):(_8,(_1,_64))", "(_8,_32)", stages=2),
        # modes that the box does not walk
        tma(
            "static-one",
            "f16",
            "(128,64,_1):(64,_1,_0)",
            "(_64,_64,_1):(_64,_1,_0)",
            "(_64,_64,_1)",
            stages=1,
        ),
        tma(
            "run-time-one",
            "f16",
            "(128,64,1):(64,_1,8192)",
            "(_64,_64,_1):(_64,_1,_0)",
            "(_64,_64,_1)",
            stages=1,
        ),
        tma(
            "broadcast", "f16", "(128,64,6):(64,_1,_0)", "(_64,_64,_1):(_64,_1,_0)", "(_64,_64,_1)", stages=1
        ),
        tma(
            "batch",
            "f16",
            "(200,96,3):(96,_1,19200)",
            "K_SW128 (_64,_64,_1)",
            "(_64,_64,_1)",
            multicast=2,
            stages=2,
        ),
        tma(
            "batch-MN", "f32", "(128,96,3):(_1,128,12288)", "MN_SW128 (_64,_16,_1)", "(_64,_16,_1)", stages=1
        ),
        # ranks 3 to 5, flat
        tma(
            "rank3", "f32", "(1024,32,512):(64,_1,65536)", "(_16,_8,_2):(_16,_1,_8)", "(_16,_8,_2)", stages=2
        ),
        tma(
            "rank3-order",
            "u16",
            "(40,24,16):(_1,1280,40)",
            "(_8,_4,_16):(_1,_128,_8)",
            "(_8,_4,_16)",
            multicast=4,
            stages=1,
        ),
        tma(
            "rank4",
            "f16",
            "(64,30,20,10):(_1,64,1920,38400)",
            "(_64,_4,_2,_2):(_1,_64,_256,_512)",
            "(_64,_4,_2,_2)",
            multicast=4,
            stages=1,
        ),
        tma(
            "rank5",
            "u8",
            "(48,12,10,6,5):(_1,48,576,5760,34560)",
            "(_16,_4,_2,_2,_2):(_1,_16,_64,_128,_256)",
            "(_16,_4,_2,_2,_2)",
            multicast=8,
            stages=1,
        ),
        tma(
            "rank5-ragged",
            "f64",
            "(14,9,7,5,3):(_1,14,126,882,4410)",
            "(_8,_4,_4,_2,_1):(_1,_8,_32,_128,_0)",
            "(_8,_4,_4,_2,_1)",
            stages=1,
        ),
        # nested global modes, and more of them than a tensor map has
        tma(
            "nested-4",
            "f32",
            "((_32,40),((_8,_4),656)):((_1,32),((1280,10240),81920))",
            "(_128,(_32,_2)):(_1,(_128,_4096))",
            "(_128,(_32,_2))",
        ),
        tma(
            "nested-static",
            "f16",
            "((_32,40),((_8,_8),16)):((_1,32),((1280,10240),81920))",
            "(_64,(_32,_2)):(_1,(_64,_2048))",
            "(_64,(_32,_2))",
        ),
        tma("nested-K", "f16", "(64,(_32,5)):(160,(_1,32))", "(_16,_32):(_32,_1)", "(_16,_32)", stages=1),
        tma(
            "nested-rows",
            "f16",
            "((16,12),64):((64,1024),_1)",
            "((_16,_2),_64):((_64,_1024),_1)",
            "((_16,_2),_64)",
            stages=1,
        ),
        tma(
            "nested-6",
            "f32",
            "((8,6,5),(4,3,2)):((_1,8,48),(240,960,2880))",
            "((_8,_2),(_4)):((_1,_8),(_16))",
            "((_8,_2),(_4))",
        ),
        tma(
            "nested-7",
            "u8",
            "((_16,3,2),(5,4),(3,2)):((_1,16,48),(96,480),(1920,5760))",
            "(_16,_1,_1):(_1,_0,_0)",
            "(_16,_1,_1)",
        ),
        tma(
            "grouped-gcd",
            "f16",
            "((_8,4),(3,2),(5,7)):((_1,8),(48,224),(448,3360))",
            "(_8,_1,_1):(_1,_0,_0)",
            "(_8,_1,_1)",
        ),
        tma(
            "rank6",
            "f16",
            "(32,4,3,2,5,2):(_1,32,128,384,768,3840)",
            "(_32,_2,_1,_1,_1,_1):(_1,_32,_0,_0,_0,_0)",
            "(_32,_2,_1,_1,_1,_1)",
        ),
        # an internal type of another kind or another width
        tma(
            "as-tf32", "f32", "(128,64):(64,_1)", "K_SW128 (_64,_32)", "(_64,_32)", internal="tf32", stages=1
        ),
        tma("as-u16", "f16", "(128,64):(64,_1)", "K_SW128 (_64,_64)", "(_64,_64)", internal="u16", stages=1),
        tma(
            "as-wider",
            "u8",
            "(128,256):(256,_1)",
            "K_SW128 (_64,_128)",
            "(_64,_128)",
            internal="u16",
            stages=1,
        ),
        tma(
            "as-wide",
            "f16",
            "(128,256):(256,_1)",
            "(_32,_128):(_128,_1)",
            "(_32,_128)",
            internal="u64",
            multicast=2,
            stages=2,
        ),
        tma(
            "as-narrow", "f64", "(64,32):(32,_1)", "(_16,_16):(_16,_1)", "(_16,_16)", internal="u32", stages=1
        ),
        tma(
            "as-narrow-MN",
            "f32",
            "(64,32):(_1,64)",
            "MN_SW128 (_32,_16)",
            "(_32,_16)",
            internal="u16",
            stages=1,
        ),
        # swizzles with another atom
        tma("atom-32B", "f32", "(128,64):(_1,128)", "Sw<2,5,2> o (_32,_16):(_1,_32)", "(_32,_16)"),
        tma(
            "multicast-over-two",
            "f16",
            "(64,16,8):(_1,64,1024)",
            "(_64,_8,_2):(_1,_64,_512)",
            "(_64,_8,_2)",
            multicast=8,
            stages=1,
        ),
        tma(
            "multicast-over-three",
            "u32",
            "(16,8,8):(_1,16,128)",
            "(_4,_2,_2):(_1,_4,_8)",
            "(_4,_2,_2)",
            multicast=8,
            stages=1,
        ),
    ]


def refused_cases() -> list[Case]:
    """What CUTLASS refuses: when compiling, or by an assertion when the atom is made."""
    return [
        # assertions of make_tma_copy_desc
        tma("refused-stride", "f16", "(512,250):(250,_1)", "K_SW128 (_128,_64)", "(_128,_64)"),
        tma("refused-stride-3", "u8", "(64,64,4):(64,_1,4104)", "(_16,_16,_1):(_16,_1,_0)", "(_16,_16,_1)"),
        tma("refused-major", "f16", "(512,256):(_1,512)", "K_SW128 (_128,_64)", "(_128,_64)"),
        tma("refused-no-major", "f16", "(512,256):(1024,2)", "K_SW128 (_128,_64)", "(_128,_64)"),
        tma("refused-box", "u8", "(1024,64):(_1,1024)", "(_512,_8):(_1,_512)", "(_512,_8)"),
        tma("refused-tall", "u8", "(2048,64):(64,_1)", "(_512,_16):(_16,_1)", "(_512,_16)"),
        tma("refused-multicast", "f16", "(96,64):(64,_1)", "(_24,_64):(_64,_1)", "(_24,_64)", multicast=16),
        tma("refused-extent", "u8", "(0,64):(64,_1)", "(_16,_64):(_64,_1)", "(_16,_64)"),
        # static assertions, and what the size of a tile that is known at run time only comes to
        tma(
            "refused-run-time-tile", "f32", "((32,40),64):((_1,32),1280)", "(_128,_8):(_1,_128)", "(_128,_8)"
        ),
        tma("refused-size", "f16", "(512,256):(256,_1)", "K_SW128 (_128,_64)", "(_128,_32)"),
        tma("refused-vector", "f16", "(512,256):(256,_1)", "(_128,_64):(_128,_2)", "(_128,_64)"),
        tma("refused-swizzle", "f16", "(512,256):(256,_1)", "Sw<3,3,3> o (_128,_64):(_64,_1)", "(_128,_64)"),
        tma("refused-shift", "f16", "(512,256):(256,_1)", "Sw<2,4,2> o (_128,_64):(_64,_1)", "(_128,_64)"),
    ]


def random_tma(rng: random.Random, name: str) -> Case:
    """A tensor of any rank, its modes in any order in memory, tiled by powers of two."""
    dtype = rng.choice(list(DTYPES))
    unit = 128 // DTYPES[dtype][1]  # elements in 16 bytes
    rank = rng.choice([1, 2, 2, 3, 3, 4, 5])
    order = list(range(rank))
    rng.shuffle(order)
    tile = [rng.choice([1, 2, 4, 8]) for _ in range(rank)]
    tile[order[0]] = unit * rng.choice([1, 2, 4])
    smem_order = [order[0], *rng.sample(order[1:], rank - 1)]
    smem_stride, step = [0] * rank, 1
    for mode in smem_order:
        smem_stride[mode] = 0 if tile[mode] == 1 else step
        step *= tile[mode]
    static = rng.random() < 0.25
    shape: list[Nested] = [0] * rank
    stride: list[Nested] = [0] * rank
    step = 1
    for mode in order:
        extent = tile[mode] * rng.choice([1, 2, 3]) + rng.choice([0, 0, 1, 3])
        nested = mode != order[0] and tile[mode] > 1 and rng.random() < 0.3
        padded = extent if mode != order[0] else extent + (-extent % unit) + rng.choice([0, unit])
        if nested:
            inner = tile[mode]
            outer = rng.choice([2, 3, 5])
            shape[mode], stride[mode] = (f"_{inner}", outer), (step, step * inner)
            padded = inner * outer
        else:
            shape[mode], stride[mode] = extent, "_1" if mode == order[0] else step
        step *= padded

    def fix(value: Nested) -> Nested:
        if isinstance(value, tuple):
            return tuple(fix(v) for v in value)
        return value if isinstance(value, str) else f"_{value}"

    if static:
        shape, stride = [fix(s) for s in shape], [fix(s) for s in stride]
    smem = f"{show(tuple(f'_{t}' for t in tile))}:{show(tuple(f'_{s}' for s in smem_stride))}"
    box = 1
    for mode in order[1:]:
        box *= tile[mode]
    multicast = rng.choice([m for m in (1, 2, 4, 8) if m <= box])
    return tma(
        name,
        dtype,
        f"{show(tuple(shape))}:{show(tuple(stride))}",
        smem,
        show(tuple(f"_{t}" for t in tile)),
        multicast=multicast,
        stages=rng.choice([0, 1, 2]),
    )


CLUSTERS = [
    (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (4, 4), (2, 8), (8, 2), (8, 1), (1, 8),
    (16, 1), (1, 16), (3, 2), (3, 4), (6, 1),
]  # fmt: skip


def cluster_cases() -> list[Case]:
    """Every shape with one and with two SMs an atom, static and, for some, known at run time only."""
    cases = []
    for m, n in CLUSTERS:
        for v in (1, 2):
            if m % v == 0:
                shape = f"(_{m},_{n},_1)"
                cases.append({"case": f"cluster-{m}x{n}-v{v}", "kind": "cluster", "v": v, "shape": shape})
    for m, n, v in ((4, 4, 1), (4, 4, 2), (2, 1, 2), (2, 8, 2), (3, 2, 1), (1, 16, 1)):
        shape = f"({m},{n},1)"
        cases.append({"case": f"cluster-{m}x{n}-v{v}-run-time", "kind": "cluster", "v": v, "shape": shape})
    cases.append({"case": "cluster-2x2x2-v2", "kind": "cluster", "v": 2, "shape": "(_2,_2,_2)"})
    return cases


def example_cases() -> list[Case]:
    """The loads of the tutorials that the course follows."""
    atoms = {"nt": "GMMA::Layout_MN_SW128_Atom<half_t>", "tn": "GMMA::Layout_K_SW128_Atom<half_t>"}
    cases: list[Case] = []
    for which, m, k in (
        ("nt", 128, 64),
        ("tn", 128, 64),
        ("nt", 512, 256),
        ("tn", 512, 256),
        ("nt", 200, 100),
    ):
        stride = f"(_1,{m})" if which == "nt" else f"({k},_1)"
        if k % 8 or m % 8:
            stride = "(_1,208)"
        cases.append(
            {
                "case": f"wgmma-{which}-{m}x{k}",
                "kind": "wgmma",
                "atom": atoms[which],
                "m": m,
                "k": k,
                "stride": stride,
            }
        )
    for name, op, thr in (
        ("03", "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 256, UMMA::Major::K, UMMA::Major::K>", 1),
        (
            "04",
            "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 256, UMMA::Major::K, UMMA::Major::K>",
            2,
        ),
    ):
        for operand, gshape in (("A", "(512,256)"), ("B", "(1024,256)")):
            cases.append(
                {
                    "case": f"blackwell-{name}-{operand}",
                    "kind": "blackwell",
                    "op": op,
                    "thr_id": thr,
                    "operand": operand,
                    "gshape": gshape,
                }
            )
    return cases


def all_cases(random_count: int = 24) -> list[Case]:
    rng = random.Random(SEED)
    drawn = [random_tma(rng, f"random-{i:02}") for i in range(random_count)]
    return [
        *example_cases(),
        *cluster_cases(),
        *chosen_cases(),
        *grid_cases(),
        *drawn,
        *refused_cases(),
    ]


# ---- C++ ----


def call(case: Case) -> str:
    """The C++ call that prints one case."""
    name = f'"{case["case"]}"'
    if case["kind"] == "cluster":
        return f"cluster<{case['v']}>({name}, {cpp_value(parse(case['shape']))});"
    if case["kind"] == "wgmma":
        stride = cpp_value(parse(case["stride"]), "make_stride")
        return f"wgmma_tma<{case['atom']}>({name}, {case['m']}, {case['k']}, {stride});"
    if case["kind"] == "blackwell":
        first = "true" if case["operand"] == "A" else "false"
        shape = cpp_value(parse(case["gshape"]))
        return f"blackwell<{first}>({name}, make_tiled_mma({case['op']}{{}}), {shape});"
    types = [
        DTYPES[case["dtype"]][0],
        DTYPES[case["internal"]][0],
        str(case["multicast"]),
        str(case["stages"]),
    ]
    values = [
        name,
        cpp_layout(case["gmem"]),
        cpp_smem(case["smem"], case["dtype"]),
        cpp_value(parse(case["tiler"])),
    ]
    return f"tma<{', '.join(types)}>({', '.join(values)});"


def numbers_of(value: str) -> Any:
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    return json.loads(value) if re.fullmatch(r"\[[\d,]*\]", value) else value


OF_ONE_CTA = (
    "multicast_offset",
    "multicast_coord",
    "gcoord",
    "scoord",
    "gresult",
    "sresult",
    "sresult_offset",
)


def read(printed: str) -> dict[str, Case]:
    """The printed lines as one mapping a case, with lists for CTAs, peers, loads and masks."""
    answers: dict[str, Case] = {}
    for line in printed.splitlines():
        key, _, text = line.partition("\t")
        value = numbers_of(text)
        if key == "case":
            case = answers.setdefault(text, {})
            current = case
            continue
        group, _, field = key.partition(".")
        if key in ("peer", "load"):
            current = {key: value}
            case.setdefault(f"{key}s", []).append(current)
        elif key == "mask":
            crd, *masks = text.split(" ")
            case.setdefault("masks", []).append([crd, *masks])
        elif key == "partition.cta":
            current["partition"].setdefault("ctas", []).append({"cta": value})
        elif group == "partition":
            part = current.setdefault("partition", {})
            (part["ctas"][-1] if field in OF_ONE_CTA else part)[field] = value
        elif field:
            inner = current if group == "load" else current.setdefault(group, {})
            inner[field] = value
        else:
            current[key] = value
    return answers


PROGRAM = Program(
    header=HERE / "print_tma.hpp",
    data=HERE / "cutlass.json",
    call=call,
    cases=all_cases,
    read=read,
    facts={"seed": SEED},
)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
