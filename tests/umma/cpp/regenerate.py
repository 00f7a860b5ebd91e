"""Ask CUTLASS's C++ headers what they make for tcgen05.mma, and keep the answers as `cutlass.json`.

    python tests/umma/cpp/regenerate.py            # all of it: some minutes of compiling
    python tests/umma/cpp/regenerate.py --check    # compare with the file; exit 1 if they differ

It needs nvcc and PyPI's `nvidia-cutlass`. The configurations are kept beside the answers, so that the tests
need neither. Nothing here imports `cutecourse`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent

CPP_TYPES = {
    "e4m3": ("float_e4m3_t", 8),
    "u8": ("uint8_t", 8),
    "f16": ("half_t", 16),
    "bf16": ("bfloat16_t", 16),
    "u32": ("uint32_t", 32),
    "tf32": ("tfloat32_t", 32),
    "f32": ("float", 32),
}
SWIZZLES = ("INTER", "SW32", "SW64", "SW128")
SPAN_BYTES = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128, "SW128_32B": 128}
ADDRESSES = (0, 1024, 16, 0x38000, 2064)


def static(text: str, maker: str = "make_shape") -> str:
    """`((128,16),1,4)` as C++ with numbers known when it compiles."""
    numbers = re.sub(r"\d+", lambda found: f"Int<{found.group()}>{{}}", text)
    return re.sub(r"\(", f"{maker}(", numbers)


def cpp_layout(text: str) -> str:
    shape, stride = text.split(":")
    return f"make_layout({static(shape)}, {static(stride, 'make_stride')})"


def cpp_smem(text: str, dtype: str) -> str:
    """`K_SW128 (128,64)` (an atom tiled to a shape), `Sw<3,4,3> o LAYOUT`, or a layout."""
    kind, bits = CPP_TYPES[dtype]
    atom = re.match(r"((?:MN|K)_\w+) (.*)", text)
    if atom:
        name, shape = atom.groups()
        return f"tile_to_shape(UMMA::Layout_{name}_Atom<{kind}>{{}}, {static(shape)})"
    swizzled = re.match(r"Sw(<.*?>) o (.*)", text)
    if swizzled:
        parameters, layout = swizzled.groups()
        flag = f"smem_ptr_flag_bits<{bits}>{{}}"
        return f"make_composed_layout(Swizzle{parameters}{{}}, {flag}, {cpp_layout(layout)})"
    return cpp_layout(text)


# ---- configurations ----


def described(name: str, dtype: str, smem: str, major: str, address: int = 0, kind: str = "desc") -> Case:
    return {"case": name, "kind": kind, "dtype": dtype, "smem": smem, "major": major, "address": address}


def grid() -> list[Case]:
    """Every major, swizzle and width: a tile of more than one atom along both modes."""
    cases = []
    for major in ("K", "MN"):
        for swizzle in SWIZZLES:
            for dtype in ("e4m3", "f16", "tf32"):
                run = SPAN_BYTES[swizzle] * 8 // CPP_TYPES[dtype][1]
                tile = (64, 2 * run) if major == "K" else (2 * run, 32)
                address = ADDRESSES[len(cases) % len(ADDRESSES)]
                smem = f"{major}_{swizzle} ({tile[0]},{tile[1]})"
                cases.append(described(f"{major}-{swizzle}-{dtype}", dtype, smem, major, address))
    return cases


WIDTHS = {"INTER": 1, "SW32": 2, "SW64": 4, "SW128": 8, "SW128_32B": 8}
PARAMETERS = {"INTER": "0,4,3", "SW32": "1,4,3", "SW64": "2,4,3", "SW128": "3,4,3", "SW128_32B": "2,5,2"}


def canonical() -> list[Case]:
    """Every major, swizzle and width: what one descriptor describes, its atoms with gaps between them."""
    cases = []
    for major in ("K", "MN"):
        for swizzle, width in WIDTHS.items():
            if (major, swizzle) == ("K", "SW128_32B"):
                continue
            for dtype in ("e4m3", "f16", "tf32"):
                bits = CPP_TYPES[dtype][1]
                unit = 128 // bits
                rows = 4 if swizzle == "SW128_32B" else 8
                near = 2 * rows * width * unit  # from atom to atom along MN: twice its size
                far = 4 * near
                if major == "K":
                    along_k = far if swizzle == "INTER" else unit
                    layout = f"((8,4),({unit},2)):(({width * unit},{near}),(1,{along_k}))"
                else:
                    deep = 256 // bits // rows
                    layout = (
                        f"(({unit},{width},4),({rows},{deep})):((1,{unit},{near}),({width * unit},{far}))"
                    )
                case = described(
                    f"canonical-{major}_{swizzle}-{dtype}",
                    dtype,
                    f"Sw<{PARAMETERS[swizzle]}> o {layout}",
                    major,
                )
                cases.append(case)
    return cases


def chosen() -> list[Case]:
    """One idea each: single atoms, hand-made layouts, other orders of the atoms."""
    return [
        described("MN-SW128_32B-tf32", "tf32", "MN_SW128_32B (64,16)", "MN"),
        described("MN-SW128_32B-f16", "f16", "MN_SW128_32B (128,16)", "MN", 1024),
        described("one-instruction-K", "f16", "K_SW128 (128,16)", "K")
        | {"smem": "Sw<3,4,3> o (128,16):(64,1)"},
        described("one-instruction-MN", "bf16", "Sw<3,4,3> o ((64,2),(8,2)):((1,1024),(64,512))", "MN", 1024),
        described("one-atom-K", "f16", "K_SW128 (8,64)", "K"),
        described("one-atom-MN", "f16", "MN_SW128 (64,8)", "MN"),
        described("wide-K", "f16", "K_SW64 (256,96)", "K", 512),
        described("wide-MN", "u8", "MN_SW64 (256,64)", "MN"),
        described("core-matrices-K", "f16", "((8,8),(8,2)):((8,64),(1,512))", "K"),
        described("core-matrices-K-wide", "f16", "((8,8),(8,2)):((8,128),(1,64))", "K", 32),
        described("core-matrices-MN", "f16", "((8,16),(8,2)):((1,64),(8,1024))", "MN"),
        described("core-matrices-MN-rows", "f32", "((4,16),(8,2)):((1,64),(4,32))", "MN"),
        described("padded-K", "f16", "((8,8),(8,2)):((8,72),(1,576))", "K"),
        described("K-SW32-stride", "f16", "Sw<1,4,3> o ((8,8),16):((16,256),1)", "K"),
    ]


def refused() -> list[Case]:
    """What make_umma_desc refuses."""
    return [
        described("refused-rows", "f16", "(128,64):(64,1)", "K"),
        described("refused-swizzled-rows", "f16", "Sw<3,4,3> o (128,64):(128,1)", "K"),
        described("refused-few-rows", "f16", "Sw<3,4,3> o (4,64):(64,1)", "K"),
        described("refused-wrong-swizzle", "f16", "Sw<2,4,3> o (128,64):(64,1)", "K"),
        described("refused-shift", "f16", "Sw<3,4,4> o (128,64):(64,1)", "K"),
        described("refused-base", "f16", "Sw<3,3,3> o (128,64):(64,1)", "K"),
        described("refused-base32-K", "tf32", "MN_SW128_32B (64,16)", "K"),
        described("refused-base32-bits", "tf32", "Sw<3,5,3> o (32,4):(1,32)", "MN"),
        described("refused-rank", "f16", "K_SW128 (128,64,2)", "K"),
        described("refused-as-MN", "f16", "K_SW128 (128,64)", "MN"),
        described("refused-as-K", "f16", "MN_SW128 (128,64)", "K"),
        described("refused-stride-of-atoms", "f16", "Sw<3,4,3> o (128,64):(60,1)", "K"),
        described("refused-profile", "f16", "Sw<3,4,3> o ((8,4,4),64):((64,512,4096),1)", "K"),
    ]


def gmma() -> list[Case]:
    """make_gmma_desc of what one wgmma takes."""
    return [
        described("gmma-K-SW128", "f16", "Sw<3,4,3> o (64,16):(64,1)", "K", 1024, "gmma"),
        described("gmma-K-SW64", "bf16", "Sw<2,4,3> o (64,16):(32,1)", "K", 0, "gmma"),
        described("gmma-K-SW32", "f16", "K_SW32 (128,16)", "K", 64, "gmma"),
        described("gmma-K-INTER", "f16", "K_INTER (64,16)", "K", 0, "gmma"),
        described("gmma-K-e4m3", "e4m3", "Sw<3,4,3> o (64,32):(128,1)", "K", 0, "gmma"),
        described("gmma-MN-SW128", "f16", "MN_SW128 (128,16)", "MN", 0, "gmma"),
        described("gmma-MN-SW64", "f16", "MN_SW64 (64,16)", "MN", 0, "gmma"),
        described("gmma-MN-SW32", "bf16", "MN_SW32 (64,16)", "MN", 16, "gmma"),
        described("gmma-MN-INTER", "f16", "MN_INTER (64,16)", "MN", 0, "gmma"),
        described("gmma-refused-K-size", "f16", "K_SW128 (64,64)", "K", 0, "gmma"),
        described("gmma-refused-MN-size", "f16", "MN_SW128 (64,64)", "MN", 0, "gmma"),
        described("gmma-refused-base32", "tf32", "MN_SW128_32B (32,8)", "MN", 0, "gmma"),
    ]


def mma_shapes() -> list[Case]:
    """tile_to_mma_shape: the examples' tiles, stages, several MMAs a tile, other orders and types."""
    rows = [
        ("03-A", "f16", "K_SW128", "((128,16),1,4)", ""),
        ("03-B", "f16", "K_SW128", "((256,16),1,4)", ""),
        ("04-stages", "f16", "K_SW128", "((128,16),1,4,3)", ""),
        ("two-M", "bf16", "K_SW128", "((64,16),2,4)", ""),
        ("two-M-last", "f16", "K_SW64", "((64,16),2,4)", "Step<_2, _1>"),
        ("two-M-stages", "f16", "K_SW32", "((64,16),2,2,2)", "Step<_2, _1, _3>"),
        ("K-INTER", "f16", "K_INTER", "((128,16),1,2)", ""),
        ("MN-SW128", "f16", "MN_SW128", "((128,16),1,4)", ""),
        ("MN-SW128-K-first", "f16", "MN_SW128", "((128,16),1,4)", "Step<_2, _1>"),
        ("MN-SW64", "f16", "MN_SW64", "((64,16),2,2)", ""),
        ("MN-SW32", "bf16", "MN_SW32", "((64,16),1,4,2)", ""),
        ("MN-INTER", "f16", "MN_INTER", "((64,16),1,2)", ""),
        ("tf32", "tf32", "K_SW128", "((128,8),1,4)", ""),
        ("tf32-MN", "tf32", "MN_SW128_32B", "((128,8),1,4)", ""),
        ("e4m3", "e4m3", "K_SW128", "((128,32),1,4)", ""),
        ("e4m3-MN", "e4m3", "MN_SW128", "((128,32),1,2)", ""),
        ("refused-tile", "f16", "K_SW128", "((128,16),1,2)", ""),
    ]
    names = ("case", "dtype", "atom", "shape", "order")
    return [{"kind": "mma_shape", **dict(zip(names, row, strict=True)), "address": 1024} for row in rows]


def atoms() -> list[Case]:
    rows = [
        ("SS", "f16", "f16", "f32", 128, 256, "K", "K"),
        ("SS", "f16", "f16", "f32", 64, 8, "K", "MN"),
        ("SS", "bf16", "bf16", "f32", 128, 64, "MN", "K"),
        ("SS", "f16", "f16", "f16", 64, 248, "MN", "MN"),
        ("SS", "f16", "bf16", "f32", 128, 16, "K", "K"),
        ("2x1SM_SS", "f16", "f16", "f32", 256, 256, "K", "K"),
        ("2x1SM_SS", "bf16", "bf16", "f32", 128, 16, "MN", "K"),
        ("2x1SM_SS", "f16", "f16", "f16", 256, 48, "K", "MN"),
        # refused
        ("SS", "f16", "f16", "f32", 256, 64, "K", "K"),
        ("SS", "f16", "f16", "f32", 128, 12, "K", "K"),
        ("SS", "f16", "f16", "f32", 128, 264, "K", "K"),
        ("SS", "tf32", "tf32", "f32", 128, 64, "K", "K"),
        ("SS", "f16", "e4m3", "f32", 128, 64, "K", "K"),
        ("2x1SM_SS", "f16", "f16", "f32", 64, 64, "K", "K"),
        ("2x1SM_SS", "f16", "f16", "f32", 256, 24, "K", "K"),
        ("2x1SM_SS", "tf32", "tf32", "f32", 256, 32, "K", "K"),
    ]
    names = ("op", "a", "b", "c", "m", "n", "a_major", "b_major")
    return [
        {"case": "atom-" + "-".join(map(str, row)), "kind": "atom", **dict(zip(names, row, strict=True))}
        for row in rows
    ]


def examples() -> list[Case]:
    rows = [
        ("example-03", "SS", 128, 256, "(128,256,64)"),
        ("example-04", "2x1SM_SS", 256, 256, "(256,256,64)"),
        ("example-03-two-M", "SS", 64, 128, "(128,256,64)"),
        ("example-04-small", "2x1SM_SS", 128, 128, "(128,128,64)"),
    ]
    names = ("case", "op", "m", "n", "tiler")
    return [
        {
            "kind": "example", **dict(zip(names, row, strict=True)), "cluster": "(4,4,1)",
            "a": "f16", "b": "f16", "c": "f32", "a_major": "K", "b_major": "K",
        }
        for row in rows
    ]  # fmt: skip


def fragments() -> list[Case]:
    """Accumulators, and A in tensor memory (with its storage and its way to be put beside others)."""
    rows: list[tuple[object, ...]] = [
        (1, "f32", "((64,128),1,1)"),
        (1, "f32", "((64,64),2,1)"),
        (1, "f32", "((64,64),2,2)"),
        (1, "f32", "((64,64),1,3)"),
        (1, "f32", "((128,256),1,1)"),
        (1, "f32", "((128,64),2,1)"),
        (1, "f32", "((128,64),1,2,3)"),
        (1, "f32", "((128,128),1,1,4)"),
        (1, "f16", "((128,128),1,1)"),
        (1, "f16", "((64,64),2,1)"),
        (2, "f32", "((128,256),1,1)"),
        (2, "f32", "((128,128),1,2)"),
        (2, "f32", "((64,128),1,1)"),
        (2, "f32", "((64,64),2,2)"),
        (2, "f32", "((32,64),1,1)"),
        (2, "f16", "((64,128),1,1)"),
        # refused
        (1, "f32", "((128,256),2,2)"),
        (1, "f32", "((32,64),1,1)"),
        (1, "f32", "((256,64),1,1)"),
        (2, "f32", "((256,64),1,1)"),
        # A in tensor memory, and the accumulators beside it
        (1, "f16", "((128,16),1,4)", "f16", "NonInterleaved"),
        (1, "f16", "((128,16),2,4)", "f16", "NonInterleaved"),
        (1, "bf16", "((64,16),1,4)", "bf16", "NonInterleaved"),
        (1, "bf16", "((64,16),2,2)", "bf16", "NonInterleaved"),
        (1, "f16", "((64,16),1,8,2)", "f16", "NonInterleaved"),
        (1, "f32", "((64,128),1,1)", "u32", "NonInterleaved"),
        (1, "f32", "((64,64),2,2)", "u32", "NonInterleaved"),
        (1, "tf32", "((128,8),1,4)", "tf32", "NonInterleaved"),
        (1, "e4m3", "((128,32),1,4)", "e4m3", "NonInterleaved"),
        (2, "f16", "((128,16),1,4)", "f16", "Duplicated"),
        (2, "f16", "((64,16),1,4)", "f16", "Duplicated"),
        (2, "bf16", "((64,16),2,4)", "bf16", "Duplicated"),
        # refused
        (1, "f16", "((128,16),1,4)", "f16", "Duplicated"),
        (2, "f16", "((128,16),1,4)", "f16", "NonInterleaved"),
        (2, "f16", "((32,16),1,4)", "f16", "Duplicated"),
        (1, "f32", "((128,16),1,4)", "f16", "Interleaved"),
    ]
    cases = []
    for sms, dtype, shape, *more in rows:
        case: Case = {"case": f"fragment-{sms}-{dtype}-{shape}", "kind": "fragment"}
        case |= {"sms": sms, "dtype": dtype, "shape": shape}
        if more:
            case |= {"case": f"{case['case']}-{more[0]}-{more[1]}", "storage": more[0], "alloc": more[1]}
        cases.append(case)
    return cases


REPETITIONS = {"16dp256b": 6, "16dp128b": 7, "16dp64b": 8, "16dp32b": 8, "32dp32b": 8}


def tmem_operations() -> list[Case]:
    """Every load and store that the headers have, a family a case."""
    return [
        {
            "case": f"traits-{kind}-{family}{suffix}",
            "kind": "tmem_ops",
            "ops": [f"SM100_TMEM_{kind}_{family}{1 << i}x{suffix}" for i in range(count)],
        }
        for kind in ("LOAD", "STORE")
        for family, count in REPETITIONS.items()
        for suffix in ("", "_16b")
    ]


def tmem_copies() -> list[Case]:
    one, whole, half = "((128,64),1,1)", "((128,256),1,1)", "((64,128),1,1)"
    rows: list[tuple[object, ...]] = [(f"LOAD_32dp32b{1 << i}x", 1, "f32", whole) for i in range(8)]
    rows += [
        ("LOAD_32dp32b1x", 1, "f16", one),
        ("LOAD_32dp32b4x", 1, "f32", "((128,64),2,1)"),
        ("LOAD_32dp32b16x", 2, "f32", "((128,128),1,2)"),
        ("LOAD_32dp32b1x", 2, "f32", half),
        ("LOAD_32dp32b32x", 2, "f32", half),
        ("LOAD_32dp32b8x", 1, "f32", "((64,64),2,1)"),
        ("LOAD_32dp32b8x", 1, "f32", "((64,64),1,2)"),
        # refused
        ("LOAD_32dp32b1x", 1, "f32", half),
        ("LOAD_32dp32b128x", 1, "f32", one),
    ]
    # the other shapes and the stores, for 64 and 128 rows of one SM and of two
    for kind in ("LOAD", "STORE"):
        for family in ("16dp64b4x", "16dp128b4x", "16dp256b2x", "16dp32b4x", "32dp32b8x"):
            for sms, shape in ((1, one), (1, half), (2, whole), (2, half)):
                rows.append((f"{kind}_{family}", sms, "f32", shape))
        rows += [
            (f"{kind}_32dp32b4x_16b", 1, "f16", one),
            (f"{kind}_16dp256b1x_16b", 1, "f16", half),
            (f"{kind}_16dp128b2x_16b", 2, "f16", one),
            (f"{kind}_16dp256b8x", 1, "f32", whole),
            (f"{kind}_16dp256b32x", 2, "f32", whole),
            (f"{kind}_16dp64b128x", 1, "f32", whole),
            (f"{kind}_16dp32b64x", 2, "f32", whole),
        ]
    # A stored where an MMA reads it
    rows += [
        ("STORE_32dp32b8x", 1, "f16", "((128,16),1,4)", "f16", "NonInterleaved"),
        ("STORE_32dp32b16x", 1, "bf16", "((128,16),1,4)", "bf16", "NonInterleaved"),
        ("STORE_16dp128b2x", 1, "f16", "((64,16),1,4)", "f16", "NonInterleaved"),
        ("STORE_32dp32b8x", 2, "f16", "((64,16),1,4)", "f16", "Duplicated"),
    ]
    cases = []
    for op, sms, dtype, shape, *more in rows:
        case: Case = {"case": f"copy-SM100_TMEM_{op}-{sms}-{dtype}-{shape}", "kind": "tmem_copy"}
        case |= {"op": f"SM100_TMEM_{op}", "sms": sms, "dtype": dtype, "shape": shape}
        if more:
            case |= {"case": f"{case['case']}-{more[0]}-{more[1]}", "storage": more[0], "alloc": more[1]}
        cases.append(case)
    return cases


def all_cases() -> list[Case]:
    return [
        *grid(),
        *canonical(),
        *chosen(),
        *refused(),
        *gmma(),
        *mma_shapes(),
        *atoms(),
        *examples(),
        *fragments(),
        *tmem_operations(),
        *tmem_copies(),
    ]


# ---- C++ ----


def cpp_op(case: Case) -> str:
    types = ", ".join(CPP_TYPES[case[which]][0] for which in "abc")
    majors = f"UMMA::Major::{case['a_major']}, UMMA::Major::{case['b_major']}"
    return f"SM100_MMA_F16BF16_{case['op']}<{types}, {case['m']}, {case['n']}, {majors}>"


def cpp_fragment(case: Case) -> str:
    element = CPP_TYPES[case["dtype"]][0]
    more = ""
    if "storage" in case:
        more = f", {CPP_TYPES[case['storage']][0]}, UMMA::TmemAllocMode::{case['alloc']}"
    return f"UMMA::tmem_frg_{case['sms']}sm<{element}{more}>"


def call(case: Case) -> str:
    """The C++ call that prints one case."""
    name, kind = f'"{case["case"]}"', case["kind"]
    if kind in ("desc", "gmma"):
        space, function = ("UMMA", "desc") if kind == "desc" else ("GMMA", "gmma_desc")
        element = CPP_TYPES[case["dtype"]][0]
        smem = cpp_smem(case["smem"], case["dtype"])
        return f"{function}<{space}::Major::{case['major']}, {element}>({name}, {smem}, {case['address']}u);"
    if kind == "mma_shape":
        element = CPP_TYPES[case["dtype"]][0]
        major = case["atom"].split("_")[0]
        order = f"{case['order']}{{}}" if case["order"] else "GenColMajor{}"
        atom = f"UMMA::Layout_{case['atom']}_Atom<{element}>{{}}"
        arguments = f"{name}, {atom}, {static(case['shape'])}, {order}, {case['address']}u"
        return f"mma_shape<UMMA::Major::{major}, {element}>({arguments});"
    if kind == "atom":
        return f"atom({name}, {cpp_op(case)}{{}});"
    if kind == "example":
        return f"example({name}, {cpp_op(case)}{{}}, {static(case['tiler'])}, {static(case['cluster'])});"
    if kind == "fragment":
        return f"fragment<{cpp_fragment(case)}>({name}, {static(case['shape'])});"
    if kind == "tmem_ops":
        return f"tmem_ops<{', '.join(case['ops'])}>({name});"
    store = "true" if "_STORE_" in case["op"] else "false"
    arguments = f"{name}, {case['op']}{{}}, {static(case['shape'])}"
    return f"tmem_copy<{store}, {case['op']}, {cpp_fragment(case)}>({arguments});"


PROGRAM = Program(header=HERE / "print_umma.hpp", data=HERE / "cutlass.json", call=call, cases=all_cases)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
