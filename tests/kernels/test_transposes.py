"""The transposes and the stores by stmatrix against NumPy and the PTX ISA."""

import numpy as np
import pytest

from cutecourse.kernels import (
    SpecError,
    epilogue_stmatrix,
    transpose_naive,
    transpose_padded,
    transpose_shared,
    transpose_swizzled,
    transpose_wide,
)
from cutecourse.runtime import run

KERNELS = (transpose_naive, transpose_shared, transpose_padded, transpose_swizzled, transpose_wide)
DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
)


@DEVICES
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.LAUNCH.name)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 2)])
def test_transpose__is_numpys(device, kernel, shape):
    m, n = (kernel.TILE * tiles for tiles in shape)
    source = np.random.default_rng(m + n).standard_normal((m, n), np.float32)
    outcome = run(kernel.spec(m, n), device=device, source=source, result=np.full((n, m), np.nan, np.float32))
    assert (outcome["result"] == source.T).all()
    assert not outcome.notes


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.LAUNCH.name)
def test_spec__refuses_a_matrix_of_broken_tiles(kernel):
    with pytest.raises(SpecError, match="do not divide"):
        kernel.spec(kernel.TILE, kernel.TILE + 4)


@pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90"), id="gpu")]
)
@pytest.mark.parametrize(
    "spec", [epilogue_stmatrix.LAUNCH, epilogue_stmatrix.TRANSPOSED], ids=["rows", "columns"]
)
def test_epilogue_stmatrix__puts_each_value_where_the_fragment_says(device, spec):
    outcome = run(spec, device=device, c=np.full((16, 16), np.nan, np.float16))
    expected = np.empty((16, 16))
    for m, n in np.ndindex(16, 16):
        # PTX ISA, mma.m16n8k16, C: group g holds rows g and g + 8, its thread p holds columns 2p and 2p + 1.
        thread = m % 8 * 4 + n % 8 // 2
        expected[m, n] = thread * 8 + n % 2 + 2 * (m // 8) + 4 * (n // 8)
    assert (outcome["c"] == expected).all()
    assert not outcome.notes
