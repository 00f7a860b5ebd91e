"""Ask CUTLASS's C++ structs which bits their members have, and keep the answers as `cutlass.json`.

    python tests/descriptors/cpp/regenerate.py            # all of it: a few seconds
    python tests/descriptors/cpp/regenerate.py --check    # compare with the file; exit 1 if they differ

It needs nvcc and PyPI's `nvidia-cutlass`. The values that were set are kept beside the answers, so that the
tests need neither. Nothing here imports `cutecourse`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from support.cutlass_cpp import Case, Program

HERE = Path(__file__).parent
SEED = 20261121

# members in the order in which the C++ program sets them, with the bits that the headers' comments give
STRUCTS: dict[str, list[tuple[str, int]]] = {
    "smem_sm90": [
        ("start_address_", 14), ("leading_byte_offset_", 14), ("stride_byte_offset_", 14),
        ("base_offset_", 3), ("layout_type_", 2),
    ],
    "smem_sm100": [
        ("start_address_", 14), ("leading_byte_offset_", 14), ("stride_byte_offset_", 14), ("version_", 2),
        ("base_offset_", 3), ("lbo_mode_", 1), ("layout_type_", 3),
    ],
    "instr_sm100": [
        ("sparse_id2_", 2), ("sparse_flag_", 1), ("saturate_", 1), ("c_format_", 2), ("a_format_", 3),
        ("b_format_", 3), ("a_negate_", 1), ("b_negate_", 1), ("a_major_", 1), ("b_major_", 1), ("n_dim_", 6),
        ("m_dim_", 5), ("max_shift_", 2),
    ],
    "instr_scaled_sm100": [
        ("sparse_id2_", 2), ("sparse_flag_", 1), ("b_sf_id_", 2), ("a_format_", 3), ("b_format_", 3),
        ("a_negate_", 1), ("b_negate_", 1), ("a_major_", 1), ("b_major_", 1), ("n_dim_", 6),
        ("scale_format_", 1), ("m_dim_", 5), ("a_sf_id_", 2), ("k_size_", 1),
    ],
}  # fmt: skip
WIDTH = {"smem_sm90": 64, "smem_sm100": 64, "instr_sm100": 32, "instr_scaled_sm100": 32}

CPP_TYPES = {
    "f16": "half_t",
    "bf16": "bfloat16_t",
    "tf32": "tfloat32_t",
    "u8": "uint8_t",
    "s8": "int8_t",
    "e4m3": "float_e4m3_t",
    "e5m2": "float_e5m2_t",
    "e2m3": "detail::float_e2m3_unpacksmem_t",
    "e3m2": "detail::float_e3m2_unpacksmem_t",
    "e2m1": "detail::float_e2m1_unpacksmem_t",
    "f32": "float",
    "s32": "int32_t",
    "ue8m0": "float_ue8m0_t",
    "ue4m3": "float_ue4m3_t",
}


def struct_cases() -> list[Case]:
    """Each member alone with its largest value, random values in all of them, and random bits read back."""
    rng = random.Random(SEED)
    cases: list[Case] = []
    for struct, members in STRUCTS.items():
        width = WIDTH[struct]
        for member, bits in members:
            values = {name: (1 << bits) - 1 if name == member else 0 for name, _ in members}
            cases.append({"case": f"{struct}-{member}", "kind": "pack", "struct": struct, "values": values})
        for index in range(6):
            values = {name: rng.getrandbits(bits) for name, bits in members}
            cases.append(
                {"case": f"{struct}-random-{index}", "kind": "pack", "struct": struct, "values": values}
            )
        cases += [
            {"case": f"{struct}-bits-{i}", "kind": "unpack", "struct": struct, "bits": rng.getrandbits(width)}
            for i in range(8)
        ]
    return cases


def made_cases() -> list[Case]:
    """make_instr_desc for every type, and majors, signs and shapes in turn."""
    rows = [
        ("f16", "f16", "f32", 128, 256, "K", "K", "One", "One", "False"),
        ("f16", "f16", "f32", 256, 256, "K", "K", "One", "One", "False"),
        ("f16", "f16", "f32", 64, 8, "MN", "K", "One", "One", "False"),
        ("f16", "f16", "f16", 128, 16, "K", "MN", "One", "One", "False"),
        ("bf16", "bf16", "f32", 128, 128, "MN", "MN", "Neg", "One", "False"),
        ("f16", "bf16", "f32", 128, 64, "K", "K", "One", "Neg", "False"),
        ("tf32", "tf32", "f32", 64, 48, "K", "K", "Neg", "Neg", "False"),
        ("u8", "s8", "s32", 128, 32, "K", "K", "One", "One", "True"),
        ("s8", "s8", "s32", 64, 96, "MN", "K", "One", "One", "False"),
        ("e4m3", "e5m2", "f32", 128, 240, "K", "MN", "One", "One", "False"),
        ("e2m3", "e3m2", "f32", 128, 24, "K", "K", "One", "One", "False"),
        ("e2m1", "e4m3", "f16", 256, 32, "K", "K", "One", "Neg", "False"),
    ]
    names = ("a", "b", "c", "m", "n", "a_major", "b_major", "a_neg", "b_neg", "saturate")
    return [
        {"case": "made-" + "-".join(map(str, row[:5])), "kind": "made", **dict(zip(names, row, strict=True))}
        for row in rows
    ]


def scaled_cases() -> list[Case]:
    """make_instr_desc_block_scaled for every kind; where a kind has 4 bits alone, they are packed."""
    rows = [
        ("mxf8f6f4", "e4m3", "e5m2", "ue8m0", 128, 256, "K", "MN", "One", "One"),
        ("mxf8f6f4", "e2m3", "e3m2", "ue8m0", 256, 64, "K", "K", "Neg", "One"),
        ("mxf8f6f4", "e2m1", "e4m3", "ue8m0", 128, 8, "K", "MN", "One", "Neg"),
        ("mxf4", "e2m1", "e2m1", "ue8m0", 128, 192, "K", "K", "One", "One"),
        ("mxf4nvf4", "e2m1", "e2m1", "ue8m0", 256, 256, "K", "K", "One", "One"),
        ("mxf4nvf4", "e2m1", "e2m1", "ue4m3", 128, 128, "K", "K", "Neg", "Neg"),
    ]
    names = ("mma", "a", "b", "scales", "m", "n", "a_major", "b_major", "a_neg", "b_neg")
    return [
        {"case": "scaled-" + "-".join(map(str, row[:6])), "kind": "scaled"}
        | dict(zip(names, row, strict=True))
        for row in rows
    ]


def all_cases() -> list[Case]:
    enumerations = (
        "GMMA_LAYOUT_TYPES", "UMMA_LAYOUT_TYPES", "F16F32Format", "S8Format", "MXF8F6F4Format", "C_FORMATS",
        "MXF4Format", "SCALE_FORMATS",
    )  # fmt: skip
    return [
        *struct_cases(),
        *made_cases(),
        *scaled_cases(),
        *({"case": name, "kind": "enumeration"} for name in enumerations),
    ]


def call(case: Case) -> str:
    name = f'"{case["case"]}"'
    if case["kind"] == "pack":
        values = ", ".join(f"{value}u" for value in case["values"].values())
        return f"{{ unsigned v[] = {{{values}}}; {case['struct']}_pack({name}, v); }}"
    if case["kind"] == "unpack":
        return f"{case['struct']}_unpack({name}, {case['bits']}ull);"
    if case["kind"] == "enumeration":
        return "enumerations();" if case["case"] == "GMMA_LAYOUT_TYPES" else ""
    if case["kind"] == "scaled":
        packed = {"e2m1": "float_e2m1_t"} if case["mma"] != "mxf8f6f4" else {}
        kinds = {**CPP_TYPES, **packed}
        types = ", ".join((kinds[case["a"]], kinds[case["b"]], "float", kinds[case["scales"]]))
        majors = f"UMMA::Major::{case['a_major']}, UMMA::Major::{case['b_major']}"
        signs = f"UMMA::ScaleIn::{case['a_neg']}, UMMA::ScaleIn::{case['b_neg']}"
        arguments = f"{types}, {case['m']}, {case['n']}, {majors}, {signs}"
        return f"scaled({name}, UMMA::make_instr_desc_block_scaled<{arguments}>());"
    types = ", ".join(CPP_TYPES[case[which]] for which in "abc")
    majors = f"UMMA::Major::{case['a_major']}, UMMA::Major::{case['b_major']}"
    signs = f"UMMA::ScaleIn::{case['a_neg']}, UMMA::ScaleIn::{case['b_neg']}"
    more = f"UMMA::Saturate::{case['saturate']}"
    arguments = f"{types}, {case['m']}, {case['n']}, {majors}, {signs}, {more}"
    return f"made({name}, UMMA::make_instr_desc<{arguments}>());"


PROGRAM = Program(
    header=HERE / "print_descriptors.hpp",
    data=HERE / "cutlass.json",
    call=call,
    cases=all_cases,
    cases_a_unit=200,
)

if __name__ == "__main__":
    raise SystemExit(PROGRAM.main(__doc__))
