"""Short names, also against c++filt where it is installed."""

from __future__ import annotations

import re
import subprocess

import pytest

from cutecourse.ptx.demangle import short_name

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
    "_ZZ4hostvENKUlifE_clEif": "_ZZ4hostvENKUlifE_clEif",
    "_Z1fIXadL_Z1gvEEEvv": "_Z1fIXadL_Z1gvEEEvv",
    "_Znonsense": "_Znonsense",
    "_Z99short": "_Z99short",
    "_Z": "_Z",
    "kernel_cutlass_gemm": "kernel_cutlass_gemm",
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


@pytest.mark.program("c++filt")
def test_short_name__has_the_namespaces_of_cxxfilt() -> None:
    """What both say agrees, apart from template arguments and parameters."""
    known = [name for name, short in NAMES.items() if name != short and not name.startswith("_ZZ")]
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
