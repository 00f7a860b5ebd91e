"""What the errata say of CUTLASS's types and of its compiled example 03: the compiler decides."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.cutlass_cpp import include_folder

_HEAD = """
#include <cute/tensor.hpp>
#include <cute/arch/mma_sm100_umma.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/copy_traits_sm90_tma.hpp>
using namespace cute;
"""
_TYPES = """
using Op = SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 256, UMMA::Major::K, UMMA::Major::K>;
using Mma = decltype(make_tiled_mma(Op{}));
using Atoms = Layout<Shape<_1, _1, _1>>;
static_assert(is_same_v<Mma, TiledMMA<MMA_Atom<Op>, Atoms, Tile<Underscore, Underscore, Underscore>>>);
static_assert(not is_same_v<MMA_Atom<Op>, MMA_Atom<MMA_Traits<Op>>>);
static_assert(std::is_base_of_v<MMA_Atom<MMA_Traits<Op>>, MMA_Atom<Op>>);

using SmemA = decltype(UMMA::tile_to_mma_shape(UMMA::Layout_K_SW128_Atom<half_t>{},
                                               partition_shape_A(Mma{}, Shape<_128, _64>{})));

int main() {
  auto sA = make_tensor(make_smem_ptr(static_cast<half_t*>(nullptr)), SmemA{});
  auto tile = layout<0>(group_modes<0, 3>(sA));
  static_assert(is_same_v<decltype(get_nonswizzle_portion(tile)), decltype(tile)>);
  static_assert(is_same_v<get_swizzle_t<remove_cvref_t<decltype(sA.data())>>, Swizzle<3, 4, 3>>);
  static_assert(not is_same_v<decltype(get_nonswizzle_portion(SmemA{})), SmemA>);

  auto tiled_copy = make_tiled_copy(Copy_Atom<UniversalCopy<float>, float>{}, Layout<_128>{}, Layout<_1>{});
  static_assert(sizeof(tiled_copy.get_slice(42)) == sizeof(int));
}
"""
_MASKS = """
template <int... Modes, class CtaLayout, class CtaCoord>
constexpr uint16_t as_printed(CtaLayout const& layout, CtaCoord const& crd) {
  return as_printed<Modes...>(layout, replace<2>(crd, _));
}
using Cluster = decltype(tiled_divide(make_layout(Shape<_4, _4, _1>{}), make_tile(Int<1>{})));
constexpr uint16_t mask = FUNCTION<2>(Cluster{}, make_coord(_0{}, _1{}, _2{}, _0{}));
static_assert(mask == 0x2222);
int main() {}
"""


def _compile(find_program, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Compile host code, which is several times faster than a whole run of nvcc."""
    unit = folder / "unit.cu"
    unit.write_text(_HEAD + text)
    command = [str(find_program("nvcc")), "-x", "c++", "-std=c++17", "-w", f"-I{include_folder()}"]
    command += ["-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", "-c", "-o", str(folder / "unit.o")]
    command += ["-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/book/test_cutlass_claims.py")
def test_types__hold_the_operation_the_swizzle_and_the_thread_s_index(tmp_path, find_program):
    """TiledMMA names MMA_Atom<Op>; a shared tensor's pointer has the swizzle; a copy's slice is one index."""
    done = _compile(find_program, tmp_path, _TYPES)
    assert done.returncode == 0, done.stderr
    swapped = _compile(
        find_program,
        tmp_path,
        _TYPES.replace(
            "is_same_v<Mma, TiledMMA<MMA_Atom<Op>", "is_same_v<Mma, TiledMMA<MMA_Atom<MMA_Traits<Op>>"
        ),
    )
    assert "static assertion failed" in swapped.stderr


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/book/test_cutlass_claims.py")
def test_mask__is_a_recursion_without_end_as_printed(tmp_path, find_program):
    done = _compile(find_program, tmp_path, _MASKS.replace("FUNCTION", "create_tma_multicast_mask"))
    assert done.returncode == 0, done.stderr
    printed = _compile(find_program, tmp_path, _MASKS.replace("FUNCTION", "as_printed"))
    assert "evaluation depth exceeds maximum" in printed.stderr


@pytest.fixture(scope="module")
def example_03(tmp_path_factory, find_program) -> str:
    """The PTX of gemm_device in CUTLASS's example 03, compiled for sm_100a."""
    source = include_folder().parent
    example = source / "examples" / "cute" / "tutorial" / "blackwell" / "03_mma_tma_multicast_sm100.cu"
    output = tmp_path_factory.mktemp("example") / "example.ptx"
    command = [str(find_program("nvcc")), "-w", "-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_100a"]
    command += ["-ptx", "-DCUTLASS_ARCH_MMA_SM100_SUPPORTED", f"-I{source / 'include'}"]
    command += [f"-I{source / 'tools' / 'util' / 'include'}", "-o", str(output), str(example)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    kernels = re.split(r"^(?:\.visible )?\.entry ", output.read_text(), flags=re.MULTILINE)
    (kernel,) = (text for text in kernels if "gemm_device" in text.splitlines()[0])
    return kernel


def _written(kernel: str, register: str) -> list[str]:
    """The instructions whose first operand is this register."""
    return re.findall(rf"^\s*(\w[\w.]*\s+{re.escape(register)}, .*);", kernel, re.MULTILINE)


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/book/test_cutlass_claims.py")
def test_example_03__takes_one_operand_of_the_mma_from_a_parameter(example_03):
    """The instruction descriptor, from offset 0 of a parameter. The other operands are computed."""
    found = re.findall(
        r"tcgen05\.mma\.cta_group::1\.kind::f16 \[(%\w+)\], (%\w+), (%\w+), (%\w+), \{[^}]*\}, p;", example_03
    )
    assert len(found) >= 4
    accumulators, of_a, of_b, instructions = (set(registers) for registers in zip(*found, strict=True))
    (accumulator,), (instruction,) = accumulators, instructions
    (load,) = _written(example_03, instruction)
    assert re.fullmatch(rf"ld\.param\.u32\s+{instruction}, \[\w+_param_\d+\]", load)  # with no "+4" behind it
    (load,) = _written(example_03, accumulator)
    assert load.startswith("ld.shared.u32")
    scales = set(re.findall(r"setp\.ne\.b32 p, (%\w+), 0;", example_03))
    computed = [made for register in of_a | of_b | scales for made in _written(example_03, register)]
    assert len(computed) >= len(of_a | of_b | scales)
    assert [made for made in computed if made.startswith("ld.")] == []
    assert example_03.count("elect.sync") > len(found)


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/book/test_cutlass_claims.py")
def test_example_03__gives_its_loads_a_descriptor_s_address_and_a_cache_policy(example_03):
    found = re.findall(
        r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\.mbarrier::complete_tx::bytes"
        r"\.multicast::cluster\.L2::cache_hint"
        r" \[(%r\w+)\], \[(%rd\w+), \{%r\w+, %r\w+\}\], \[(%r\w+)\], (%rs\w+), (%rd\w+);",
        example_03,
    )
    assert len(found) >= 2
    assert len(found) == example_03.count("cp.async.bulk.tensor")
    for _, descriptor, _, _, policy in found:
        (made,) = _written(example_03, descriptor)
        assert made.startswith("cvta.param.u64")
        assert _written(example_03, policy) == [f"mov.b64 \t{policy}, {0x1000000000000000}"]
    assert "cvta.to.shared" not in example_03
