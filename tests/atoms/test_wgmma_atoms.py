"""wgmma's atoms against the text of CUTLASS's headers, the CuTe DSL, and the fragments of the PTX ISA."""

from __future__ import annotations

import re
from functools import cache

import pytest
from atoms.oracles import ask_dsl

from cutecourse.atoms import WGMMA_ATOMS, OwnershipError, mma_atom
from cutecourse.layout import Layout
from support.cutlass_cpp import include_folder

FOLDER = include_folder() / "cute" / "atom"
DSL_OPS = (
    "SM90_64x24x16_F32F16F16_SS",
    "SM90_64x256x16_F32F16F16_RS",
    "SM90_64x16x16_F32BF16BF16_SS",
    "SM90_64x128x16_F16F16F16_RS",
    "SM90_64x64x32_F32E4M3E4M3_SS_TN",
    "SM90_64x64x32_F32E5M2E4M3_RS_TN",
)


@cache
def header() -> str:
    names = ("mma_traits_sm90_gmma.hpp", "mma_traits_sm90_gmma_ext.hpp")
    return "\n".join((FOLDER / name).read_text() for name in names)


def plain(text: str) -> Layout:
    """A layout as the headers write it, without the underscores of static numbers."""
    inner = re.sub(r"[\s_]", "", text).removeprefix("Layout<Shape").removesuffix(">")
    shape, stride = inner.split(",Stride", maxsplit=1)
    both = [re.sub("Shape|Stride", "", part).translate(str.maketrans("<>", "()")) for part in (shape, stride)]
    return Layout.parse(":".join(both))


@cache
def named(layout: str, n: int) -> Layout:
    """A layout that the traits name, with the header's definition of that name."""
    both = re.fullmatch(r"GMMA::ABLayout<(\d+),(\d+)>", layout.replace(" ", ""))
    if both:
        text = re.search(r"using ABLayout\s*=\s*(Layout<.*?>>>);", header(), re.DOTALL)[1]
        return plain(re.sub(r"Int<M>|_M\b", both[1], text).replace("Int<K>", both[2]))
    name = layout.removeprefix("GMMA::")
    text = re.search(rf"using {name}\s*=\s*(.*?);", header(), re.DOTALL)[1].strip()
    through = re.fullmatch(r"CLayout_64xN<\s*(\d+)>", text)
    if through:
        assert int(through[1]) == n
        text = re.search(r"using CLayout_64xN\s*=\s*(.*?);", header(), re.DOTALL)[1]
        text = text.replace("Int<N/8>", str(n // 8))
    return plain(text)


def traits() -> dict[str, dict[str, str]]:
    """Each dense floating-point operation with the names that its traits give to its layouts and types."""
    found = {}
    for name, body in re.findall(
        r"struct MMA_Traits<(SM90_64x\w+?)(?:<[^>]*>)?>\n\{(.*?)\n\};", header(), re.DOTALL
    ):
        if "_S32" not in name:
            found[name] = dict(re.findall(r"using (\w+)\s*=\s*(.*?);", body))
    return found


def test_table__has_every_floating_point_operation_of_the_headers() -> None:
    assert set(WGMMA_ATOMS) == set(traits())
    assert len(WGMMA_ATOMS) == 12 * 2 * 32


def test_table__equals_the_headers() -> None:
    for name, row in traits().items():
        atom = mma_atom(name)
        assert row["Shape_MNK"].replace(" ", "") == "Shape<_{},_{},_{}>".format(*atom.shape_mnk)
        assert row["ThrID"] == "Layout<_128>"
        for operand in ("A", "B", "C"):
            assert named(row[f"{operand}Layout"], atom.shape_mnk[1]) == atom.layout(operand), (name, operand)
        for operand, kind in (("A", "smem_desc"), ("B", "smem_desc")):
            assert (kind in row.get(f"FrgType{operand}", "")) == atom.in_shared_memory(operand), name


def test_table__equals_the_dsl() -> None:
    answers = ask_dsl([{"kind": "mma_atom", "op": op} for op in DSL_OPS], arch="sm_90a")
    for op, (status, answer) in zip(DSL_OPS, answers, strict=True):
        atom = mma_atom(op)
        assert status == "ok", answer
        assert answer["shape_mnk"] == "({},{},{})".format(*atom.shape_mnk)
        for operand in ("A", "B", "C"):
            assert Layout.parse(answer[f"layout_{operand.lower()}"]) == atom.layout(operand), (op, operand)


@pytest.mark.parametrize("n", [8, 24, 256])
def test_accumulator__is_the_one_of_the_ptx_isa(n: int) -> None:
    atom = mma_atom(f"SM90_64x{n}x16_F32F16F16_SS")
    for thread in range(128):
        for i in range(n // 2):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            assert atom.cell("C", thread, i) == (row, 8 * (i // 4) + 2 * (thread % 4) + i % 2)


def test_accumulator__of_16_columns_has_the_layout_of_a() -> None:
    atom = mma_atom("SM90_64x16x16_F32F16F16_RS")
    assert atom.layout_c == atom.layout_a


def test_owner__of_an_operand_in_shared_memory_is_nobody() -> None:
    with pytest.raises(OwnershipError, match="read from shared memory"):
        mma_atom("SM90_64x16x16_F32F16F16_SS").owner("A", (0, 0))
