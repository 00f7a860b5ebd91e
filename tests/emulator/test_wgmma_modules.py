"""wgmma as CuTe uses it, on the emulator: nvcc's PTX of C++ atoms, and the DSL's of a GEMM with TMA.

Shared memory is filled through CuTe's layouts there and read through CuTe's descriptors, so that both have to
mean the same here.
"""

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import launch
from support import cutlass_cpp

SOURCE = Path(__file__).resolve().parent / "modules" / "wgmma.cu"
KERNELS = {
    "f16_128_64": (np.float16, np.float32),
    "f16_none": (np.float16, np.float16),
    "bf16_mn": (ml_dtypes.bfloat16, np.float32),
    "bf16_mn_none": (ml_dtypes.bfloat16, np.float32),
    "bf16_k_mn": (ml_dtypes.bfloat16, np.float32),
    "f16_mn_k": (np.float16, np.float32),
    "f16_registers": (np.float16, np.float32),
    "f16_registers_mn": (np.float16, np.float32),
    "tf32": (np.float32, np.float32),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.float32),
    "s8": (np.int8, np.int32),
}
SHARED_BYTES = 2 * 128 * 128 * 2


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, find_program):
    nvcc = find_program("nvcc")
    assert nvcc is not None
    target = tmp_path_factory.mktemp("wgmma") / "wgmma.ptx"
    options = ["-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_90a", "-ptx"]
    done = subprocess.run(
        [nvcc, *options, f"-I{cutlass_cpp.include_folder()}", "-o", target, SOURCE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target.read_text()


def whole(shape, kind, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)


@pytest.mark.program("nvcc")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.inputs("tests/emulator/modules/wgmma.cu")
def test_cute__atoms_and_layouts_of_the_cpp_headers(compiled, name):
    kind, sums = KERNELS[name]
    k = 256
    a, b = whole((128, k), kind, 1), whole((128, k), kind, 2)
    c = np.full((128, 128), 77, sums)
    done = launch(
        compiled,
        entry=name,
        grid=1,
        block=128,
        dynamic_smem=SHARED_BYTES,
        args=[a, b, c, np.int32(k)],
        seed=5,
    )
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(c.astype(np.float64), wanted)
    assert not [note for note in done.notes if note.severity != "note"]


@pytest.mark.compilers
@pytest.mark.parametrize(
    ("device", "seed"),
    [("emulator", seed) for seed in range(4)]
    + [pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_90a"), id="gpu")],
)
@pytest.mark.parametrize("mnk", [(128, 128, 64), (256, 128, 512)])
def test_dsl__gemm_with_tma_and_three_stages(mnk, device, seed):
    from benchmarks.wgmma_gemm import gemm_spec

    m, n, k = mnk
    a, b = whole((m, k), np.float16, 1), whole((n, k), np.float16, 2)
    run = runtime.run(
        gemm_spec(m, n, k), device=device, seed=seed, a=a, b=b, c=np.full((m, n), np.nan, np.float32)
    )
    np.testing.assert_array_equal(run["c"], a.astype(np.float32) @ b.astype(np.float32).T)
    assert not run.notes
