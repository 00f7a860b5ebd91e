"""What the errata of the Blackwell chapters say of CUTLASS's headers, looked up there."""

from __future__ import annotations

import re
from importlib.metadata import files
from pathlib import Path

import pytest


def header(name: str) -> str:
    """A header of the package nvidia-cutlass, its comments taken out."""
    found = next(f for f in files("nvidia-cutlass") or () if str(f).endswith(f"include/cute/{name}"))
    text = Path(str(found.locate())).read_text()
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def struct(text: str, name: str) -> str:
    """The text from a struct's head to the brace that closes it, at the margin."""
    found = re.search(rf"struct {re.escape(name)}.*?\n\}};", text, flags=re.DOTALL)
    assert found is not None
    return found.group()


@pytest.mark.parametrize(
    ("op", "fragment_c"),
    [("SM100_MMA_F16BF16_SS<", "tmem_frg_1sm"), ("SM100_MMA_F16BF16_2x1SM_SS<", "tmem_frg_2sm")],
)
def test_traits__name_descriptors_with_their_major(op: str, fragment_c: str) -> None:
    traits = struct(header("atom/mma_traits_sm100.hpp"), f"MMA_Traits<{op}")
    fragments = dict(re.findall(r"using FrgType(\w)\s*=\s*(.*?);", traits))
    assert fragments == {
        "A": "UMMA::smem_desc<a_major>",
        "B": "UMMA::smem_desc<b_major>",
        "C": f"UMMA::{fragment_c}<c_type>",
    }


def test_tiled_mma__has_the_atom_first() -> None:
    text = header("atom/mma_atom.hpp")
    (parameters,) = re.findall(r"template <([^<>]*?)(?:=[^{]*?)?>\s*struct TiledMMA", text)
    assert parameters.split(",")[0].split() == ["class", "MMA_Atom"]


def test_make_tiled_mma__takes_an_atom_layout_and_a_permutation() -> None:
    text = header("atom/mma_atom.hpp")
    signatures = re.findall(r"\nmake_tiled_mma\((.*?)\)\s*\{", text, flags=re.DOTALL)
    assert len(signatures) == 2
    for signature in signatures:
        names = [part.split("=")[0].split()[-1] for part in re.split(r",\s*\n", signature)]
        assert names[1:] == ["thr_layout", "permutations"]


def test_fma__elects_a_thread_and_tests_scale_c() -> None:
    op = struct(header("arch/mma_sm100_umma.hpp"), "SM100_MMA_F16BF16_SS")
    assert "cute::elect_one_sync()" in op
    assert "setp.ne.b32 p, %4, 0;" in op
    assert re.search(r'"r"\(scaleC\)', op)


def test_two_sm_operation__has_eight_masks_and_no_thread_id() -> None:
    text = header("arch/mma_sm100_umma.hpp")
    for name, masks in (("SM100_MMA_F16BF16_SS", 4), ("SM100_MMA_F16BF16_2x1SM_SS", 8)):
        op = struct(text, name)
        (operands,) = re.findall(r"tcgen05\.mma[^{]*\{([^}]*)\}, p;", op)
        assert len(operands.split(",")) == masks
        assert "ThrID" not in op
        assert "2SM MMA" not in op
    traits = struct(header("atom/mma_traits_sm100.hpp"), "MMA_Traits<SM100_MMA_F16BF16_2x1SM_SS<")
    assert re.search(r"using ThrID\s*=\s*Layout<_2>;", traits)


def test_allocate__takes_an_int_and_an_address_in_shared_memory() -> None:
    text = header("arch/tmem_allocator_sm100.hpp")
    signatures = set(re.findall(r"\n\s*allocate\((.*?)\)", text))
    assert signatures == {"int num_columns, uint32_t* dst_ptr"}


def test_tmem_dp__is_the_step_of_a_lane() -> None:
    text = header("arch/tmem_allocator_sm100.hpp")
    assert re.search(r"using DP = cute::constant<int32_t, shiftl\(\(1 << 16\), ", text)


def test_gemm__takes_an_atom_and_makes_four_tensors_of_three() -> None:
    text = header("algorithm/gemm.hpp")
    with_an_mma = re.search(r"gemm\(([^()]*MMA[^()]*)\)\s*\{\s*return gemm\(([^)]*)\);", text)
    assert with_an_mma is not None
    parameters, passed_on = with_an_mma.groups()
    assert parameters.split()[0] == "MMA_Atom<MMA>"
    assert len(re.findall(r"Tensor<", parameters)) == 3
    assert [name.strip() for name in passed_on.split(",")] == ["mma", "C", "A", "B", "C"]
    assert "TiledMMA" not in text
    assert re.search(r"struct TiledMMA : MMA_Atom\b", header("atom/mma_atom.hpp"))


def test_gemm__goes_down_to_tensors_of_rank_1_and_calls_the_atom() -> None:
    text = header("algorithm/gemm.hpp")
    calls = re.findall(r"DLayout::rank == (\d)[^{]*\{\s*mma\.call\(D, A, B, C\);", text)
    assert calls == ["1"]
    over_k = re.search(
        r"auto K = size<2>\(A\);.*?gemm\(mma, D, A\(_,_,k\), B\(_,_,k\), C\);", text, re.DOTALL
    )
    assert over_k is not None
    atom = header("atom/mma_atom.hpp")
    (body,) = re.findall(r"call\(Tensor<TD, DLayout> [^{]*\{(.*?)\n  \}", atom, re.DOTALL)
    assert re.findall(r"return (\w+)\(", body) == ["mma_unpack"]
    assert len(re.findall(r"Layout::rank == 1", body)) == 4


def test_make_tma_copy_a__makes_a_tiled_copy_of_the_same_parts() -> None:
    text = header("atom/copy_traits_sm100_tma.hpp")
    made = {
        function: re.findall(rf"\n{function}\(.*?return detail::(\w+)<", text, re.DOTALL)
        for function in ("make_tma_copy_A_sm100", "make_tma_atom_A_sm100")
    }
    assert {function: set(found) for function, found in made.items()} == {
        "make_tma_copy_A_sm100": {"make_tma_copy_tiled"},
        "make_tma_atom_A_sm100": {"make_tma_copy_atom"},
    }
    assert (
        "make_tma_copy_atom" in header("atom/copy_traits_sm90_tma.hpp").partition("\nmake_tma_copy_tiled(")[2]
    )
