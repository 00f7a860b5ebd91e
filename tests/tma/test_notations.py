"""One swizzle in many notations: each, read by whoever reads it, is the same permutation."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cutecourse.descriptors import SMEM_SM90, SMEM_SM100
from cutecourse.emulator.instructions.wgmma import descriptor as wgmma_descriptor
from cutecourse.emulator.memory import matrix_descriptor
from cutecourse.emulator.memory.swizzle import swizzled
from cutecourse.layout import Swizzle, recast_layout
from cutecourse.tma import swizzle_notations
from support.cutlass_cpp import include_folder

DTYPES = {"u8": 1, "f16": 2, "f32": 4, "f64": 8}
MODES = {0: "NONE", 1: "32B", 2: "64B", 3: "128B"}
SHAPES = [
    (bits, base, shift)
    for bits, base, shift in itertools.product(range(4), range(4), (-3, 2, 3, 4))
    if abs(shift) >= bits
]
BYTES = np.arange(4096, dtype=np.int64)


def permutation(swizzle: Swizzle) -> list[int]:
    return [swizzle(offset) for offset in range(4096)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", MODES)
def test_tma_and_descriptors__name_the_swizzle_that_the_emulator_applies(bits: int, dtype: str) -> None:
    """The emulator has its swizzles from the PTX ISA, and shares no code with CuTe's side."""
    on_bytes = Swizzle(bits, 4, 3)
    said = swizzle_notations(recast_layout(8 * DTYPES[dtype], 8, on_bytes), dtype)
    assert said.on_bytes == on_bytes
    assert said.tma == f"CU_TENSOR_MAP_SWIZZLE_{MODES[bits]}"
    mode = MODES[bits].replace("NONE", "none")
    assert swizzled(BYTES, mode).tolist() == permutation(on_bytes)
    assert said.wgmma is not None
    assert said.tcgen05 is not None
    hopper = wgmma_descriptor.decode(SMEM_SM90.encode(layout_type=said.wgmma))
    blackwell = matrix_descriptor.decode_matrix(SMEM_SM100.encode(layout_type=said.tcgen05, version=1))
    assert hopper.swizzle == blackwell.swizzle == mode


def test_the_swizzle_of_32_byte_chunks__is_one_that_only_tma_and_tcgen05_have() -> None:
    said = swizzle_notations(Swizzle(2, 4, 2), "f16")
    assert (said.tma, said.wgmma) == ("CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B", None)
    assert said.tcgen05 == "SWIZZLE_128B_BASE32B"
    assert "has no such swizzle" in str(said)


@pytest.mark.parametrize("numbers", SHAPES)
def test_bits__compute_the_swizzle(numbers: tuple[int, int, int]) -> None:
    said = swizzle_notations(Swizzle(*numbers), "f16")
    compiled = compile(said.bits, "bits", "eval")
    assert [eval(compiled, {"i": offset}) for offset in range(512)] == permutation(Swizzle(*numbers))[:512]


@pytest.mark.parametrize("numbers", SHAPES)
def test_elements_and_bytes__are_the_same_function(numbers: tuple[int, int, int]) -> None:
    for dtype, width in DTYPES.items():
        said = swizzle_notations(Swizzle(*numbers), dtype)
        assert all(said.on_bytes(width * i) == width * said.on_elements(i) for i in range(512))


def test_dsl__is_python_that_makes_the_swizzle() -> None:
    said = swizzle_notations(Swizzle(2, 3, 3), "f16").dsl
    match = re.fullmatch(r"cute\.make_swizzle\((\d), (\d), (\d)\)", said)
    assert match is not None
    assert [int(number) for number in match.groups()] == [2, 3, 3]


@pytest.mark.program("nvcc")
def test_cpp_and_bits__compile_to_the_same_function(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    lines = []
    for numbers in SHAPES:
        said = swizzle_notations(Swizzle(*numbers), "f16")
        lines.append(f"for (int i = 0; i < 512; ++i) if (({said.cpp})(i) != ({said.bits})) return 1;")
    program = tmp_path / "unit.cu"
    program.write_text(
        "#include <cute/swizzle.hpp>\nusing namespace cute;\nint main() {\n" + "\n".join(lines) + "\n}\n"
    )
    command = [nvcc, "-x", "c++", "-std=c++17", "-w", f"-I{include_folder()}", str(program)]
    subprocess.run([*command, "-o", str(tmp_path / "unit")], check=True, capture_output=True)
    assert subprocess.run([tmp_path / "unit"], check=False).returncode == 0
