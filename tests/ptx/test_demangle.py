"""Short names, also against c++filt where it is installed."""

from __future__ import annotations

import re
import subprocess

import pytest

from cutecourse.ptx.demangle import listed, named, short_name

NAMES = {
    "_Z4gemmPfi": "gemm",
    "_ZZ15missing_barrierE4tile": "tile",
    "_ZZN4math4sumsILi4EfEEvPT0_E5parts_0": "parts",
    "_Z6reduceILi128ELb1EfEvPKT1_PS0_m": "reduce<128, true, float>",
    "_ZN4mine4gemmINS_4TileILi128ELi64EEEEEvT_": "mine::gemm<Tile<...>>",
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEEvEEEEvNT_6ParamsE":
        "cutlass::device_kernel<GemmUniversal<...>>",
    "_ZN12_GLOBAL__N_16kernelEPKfS1_": "(anonymous)::kernel",
    "_ZL5localv": "local",
    "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<...>>::push_back",
    "_Z3runIJifdEEvDpT_": "run<int, float, double>",
    "_Z5applyILin3EEvPFviE": "apply<-3>",
    "_ZN4mine5tilesI6__halfLi4ELb1EEEvNS_6ParamsIT_XT0_EXT1_EEE": "mine::tiles<__half, 4, true>",
    "_ZZN4mine5tilesI6__halfLi4ELb0EEEvNS_6ParamsIT_XT0_EXT1_EEEE4tile": "tile",
    "_ZZ4hostvENKUlifE_clEif": "_ZZ4hostvENKUlifE_clEif",
    "_Z1fIXadL_Z1gvEEEvv": "_Z1fIXadL_Z1gvEEEvv",
    "_Znonsense": "_Znonsense",
    "_Z99short": "_Z99short",
    "_Z": "_Z",
    "kernel_cutlass_gemm": "kernel_cutlass_gemm",
    # What version 4.8.1 of the CuTe DSL writes; the last name is cut within an argument.
    "kernel_cutlass_scale_tensorptrf32gmemalign16o1281_tensorptrf32gmemalign16o1281___True_0":
        "scale(f32 gmem, f32 gmem, True)",
    "kernel_cutlass_scale_all_tensorptrbf16gmemo1281_tensorptrf32smemalign16o1281___False_1":
        "scale_all#1(bf16 gmem, f32 smem, False)",
    "kernel_cutlass_noargs_2": "noargs#2()",
    "kernel_cutlass_kernel___main__Gemm_object_at__tensorptrf16gmemalign16o1281_6464_0":
        "Gemm.kernel(f16 gmem)",
    "kernel_cutlass_kernel_examplesdense_gemmDenseGemm_object_at__TiledMMA_ThrLayoutVMNK128_0":
        "DenseGemm.kernel(TiledMMA)",
    "kernel_cutlass_loads_CopyAtom_ThrID10_TVLayoutSrc1409601_TVLayoutDst1409601_Valuetypef16_tensor00o1281281110"
    "_tensorptrf32gmemalign16o1281_S343o0o8864111645121000_TiledMMA_ThrLayoutVMNK128_0":
        "loads(CopyAtom, coordinates, f32 gmem, layout, ...)",
    "kernel_cutlass_loads_CopyAtom_ThrID10_tensor00o1281281110_Tile_0": "loads(CopyAtom, coordinates)",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_short_name__shows_what_people_wrote(name: str) -> None:
    assert short_name(name) == NAMES[name].replace("std::allocator", "allocator")


def test_short_name__has_80_characters_at_most() -> None:
    types = "".join(f"{len(word)}{word}" for word in ("Epilogue" * 8, "Mainloop" * 9))
    assert short_name(f"_ZN3lib7kernelsI{types}EEvv") == "lib::kernels<...>"
    for name in ("kernel_cutlass_kernel_tensorptr" * 30, "_ZN" + "9namespace" * 30 + "4kernE"):
        short = short_name(name)
        assert len(short) == 80
        assert short[:20] == name[:20] or short.startswith("namespace::")
        assert short.endswith(name[-20:] if name[0] == "k" else "::kern")


def test_listed__names_a_part_that_chooses_each_kernel() -> None:
    names = [name for name in NAMES if name != NAMES[name]]
    rows = listed(names).splitlines()[1:]
    assert len(rows) == len(names)
    for name, row in zip(names, rows, strict=True):
        part, short = re.fullmatch(r"  '(.*?)' +(.*)", row).groups()
        assert named(names, part) == [name]
        assert short == short_name(name)
        assert len(part) < len(name)


def test_listed__finds_a_part_where_long_names_differ_in_the_middle() -> None:
    names = [f"_Z4gemmI{'5tiles' * 9}L{letter}{'5tiles' * 9}EvT_T0_" for letter in ("i7E", "i8E")]
    parts = [re.match(r" *'(.*?)'", row)[1] for row in listed(names).splitlines()[1:]]
    assert [named(names, part) for part in parts] == [[name] for name in names]
    assert max(map(len, parts)) <= 3


@pytest.mark.program("c++filt")
def test_short_name__has_the_namespaces_of_cxxfilt() -> None:
    """What both say agrees, apart from template arguments and parameters."""
    known = [name for name, short in NAMES.items() if name != short and re.match("_Z[^Z]", name)]
    said = subprocess.run(["c++filt", *known], check=True, capture_output=True, text=True).stdout.splitlines()
    for name, full in zip(known, said, strict=True):
        assert bare(short_name(name)).replace("(anonymous)", "@") in bare(
            full.replace("(anonymous namespace)", "@")
        )


def bare(name: str) -> str:
    """A name with its template arguments left out."""
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name
