"""What the errata of the TMA chapters say of CUTLASS's headers, looked up there."""

from __future__ import annotations

import re
from importlib.metadata import files
from pathlib import Path

from cutecourse.layout import Layout, parse
from cutecourse.tma import trace_tma_atom


def header(name: str) -> str:
    """A header of the package nvidia-cutlass, its comments taken out."""
    found = next(f for f in files("nvidia-cutlass") or () if str(f).endswith(f"include/cute/atom/{name}"))
    text = Path(str(found.locate())).read_text()
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def parameters(text: str, function: str) -> list[list[str]]:
    """The parameter names of each definition of a function template."""
    found = re.findall(rf"\n{function}\(([^;]*?)\)\s*\n\{{", text)
    return [
        [part.split("=")[0].split()[-1] for part in re.split(r",\s*\n", signature)] for signature in found
    ]


def test_make_tma_atom__takes_an_operation() -> None:
    (names,) = parameters(header("copy_traits_sm90_tma.hpp"), "make_tma_atom")
    assert names[0] == "copy_op"
    assert len(names) == 5


def test_atom__has_traits_and_a_type_of_values() -> None:
    # in make_tma_copy_atom, which every way to a TMA atom goes through
    text = header("copy_traits_sm90_tma.hpp")
    (arguments,) = re.findall(r"using Atom\s*= Copy_Atom<(.*?)>;", text)
    assert [part.strip() for part in arguments.split(",")] == ["Traits", "typename GEngine::value_type"]


def test_make_tma_atom_a__takes_the_cluster() -> None:
    text = header("copy_traits_sm100_tma.hpp")
    assert {len(names) for names in parameters(text, "make_tma_atom_A_sm100")} == {6}
    assert {len(names) for names in parameters(text, "make_tma_copy_A_sm100")} == {5}


def test_the_trace__is_not_in_the_header() -> None:
    text = header("copy_traits_sm90_tma.hpp")
    assert "CUTE_DEBUG_TMA_GBASIS" not in text
    construct = text[text.index("construct_tma_gbasis(") : text.index("fill_tma_gmem_shape_stride(")]
    assert "print(" in construct
    assert "print(" not in re.sub(r"#if 0\n.*?#endif", "", construct, flags=re.DOTALL)


def test_mask__is_smeared_for_dynamic_layouts_only() -> None:
    text = header("copy_traits_sm90_tma.hpp")
    branches = re.split(r"if constexpr \(", text[text.index("create_tma_multicast_mask(") :])
    smearing = [part for part in branches if "|= mcast_mask <<" in part]
    assert len(smearing) == 1
    assert "not is_static<decltype(cta_layout)>::value" in smearing[0].split("{")[0]


def test_num_bits__is_that_of_one_block() -> None:
    # Both examples' A: the tile of one block is 128x64 in shared memory, whatever the MMA's thread ids.
    atom = trace_tma_atom(
        Layout((512, 256), (256, 1)), parse("S<3,4,3> o 0 o (128,64):(64,1)"), (128, 64), "f16", 4
    )
    assert atom.num_bits_per_tma == 128 * 64 * 16


def example() -> str:
    """The Hopper example that the log comes from."""
    found = next(
        f for f in files("nvidia-cutlass") or () if str(f).endswith("tutorial/hopper/wgmma_tma_sm90.cu")
    )
    return Path(str(found.locate())).read_text()


def test_gbasis__composes_before_it_recasts() -> None:
    text = header("copy_traits_sm90_tma.hpp")
    assert text.count("recast<TmaInternalType>(gtensor.compose(sidx2gmode))") == 1
    assert not re.search(r"recast<TmaInternalType>\(gtensor\)\.compose", text)


def test_the_example__refills_a_stage_in_every_turn() -> None:
    # the load in the main loop asks for the warp and the lane, and not whether a k-tile is left
    text = example()
    (loop,) = re.findall(r"while \(k_tile_count > -K_PIPE_MAX\)\s*\{(.*?)\n  \}", text, re.DOTALL)
    assert "copy(tma_a.with(" in loop
    assert re.findall(r"if \((.*)\)\n", loop) == ["(warp_idx == 0) && lane_predicate"]
    before = text[: text.index("while (k_tile_count")]
    assert "for (int pipe = 0; pipe < K_PIPE_MAX; ++pipe)" in before
    assert "copy(tma_a.with(" in before[before.index("for (int pipe") :]


def test_the_example__has_a_host_function_for_each_pair_of_equal_majors() -> None:
    majors = re.findall(
        r"\ngemm_(\w\w)\(.*?_SS<GMMA::Major::(\w+),\s*GMMA::Major::(\w+)>", example(), re.DOTALL
    )
    assert majors == [("nt", "MN", "MN"), ("tn", "K", "K")]


def test_the_example__leaves_at_once_on_another_gpu() -> None:
    # wgmma_tma_sm90 asks for the major version before it makes any descriptor, and returns 0
    text = example()
    start = text[text.index("int main(") :]
    check = start.index("props.major != 9")
    assert check < start.index("gemm(")
    branch = start[check : start.index("}", check)]
    assert "return 0;" in branch
    assert "assert" not in branch
