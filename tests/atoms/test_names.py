"""What the name of an MMA operation says, against the instructions in CUTLASS's asm strings."""

import pytest
from atoms.oracles import CUTLASS

from cutecourse.atoms import MMA_ATOMS, AtomNameError, parse_mma_name
from cutecourse.errors import CourseError

PLAIN = {name: asm for name, asm in CUTLASS["asm"].items() if "C64" not in name}


def test_asm_strings__cover_every_order_of_the_letters() -> None:
    assert {name.rsplit("_", 1)[1] for name in PLAIN if name.startswith("SM70")} == {"TN", "NT", "NN", "TT"}
    assert len(PLAIN) == 81


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_parse_mma_name__gives_the_instruction_in_the_asm_string(name: str) -> None:
    assert parse_mma_name(name).ptx == PLAIN[name]


@pytest.mark.parametrize(
    ("letters", "major_a", "major_b", "ptx"),
    [
        ("TN", "K", "K", "row.col"),
        ("NT", "M", "N", "col.row"),
        ("NN", "M", "K", "col.col"),
        ("TT", "K", "N", "row.row"),
    ],
)
def test_parse_mma_name__reads_the_letters_as_blas_does(
    letters: str, major_a: str, major_b: str, ptx: str
) -> None:
    fields = parse_mma_name(f"SM70_8x8x4_F32F16F16F32_{letters}")
    assert (fields.major_a, fields.major_b) == (major_a, major_b)
    assert f".{ptx}." in PLAIN[fields.name]


def test_parse_mma_name__parts_join_to_the_name() -> None:
    for name in MMA_ATOMS:
        texts = [part.text for part in parse_mma_name(name).parts]
        joined = f"{texts[0]}_{texts[1]}_{''.join(texts[2:6])}_{texts[6]}{texts[7]}"
        assert "_".join([joined, *texts[8:]]) == name


def test_parse_mma_name__takes_the_types_in_the_order_d_a_b_c() -> None:
    fields = parse_mma_name("SM80_16x8x32_S32U8S8S32_TN_SATURATE")
    types = (fields.dtype_d, fields.dtype_a, fields.dtype_b, fields.dtype_c)
    assert [t.name for t in types] == ["s32", "u8", "s8", "s32"]
    assert fields.compute_capability == (8, 0)
    assert fields.ptx.endswith(".satfinite")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "SM80_16x8x16_F32F16F16F32",
        "SM80_16x8x16_F32F16F32_TN",
        "SM80_16x8_F32F16F16F32_TN",
        "SM80_16x8x16_F32F16F16F32_TX",
        "SM80_16x8x16_F32F16F16F32_TN_WRAP",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ],
)
def test_parse_mma_name__refuses_what_is_no_name(name: str) -> None:
    with pytest.raises(AtomNameError, match="SM80_16x8x16_F32F16F16F32_TN") as error:
        parse_mma_name(name)
    assert isinstance(error.value, CourseError)
