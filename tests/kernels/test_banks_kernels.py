"""The chapter on banks: its kernels against NumPy, the PTX ISA and counts by hand; and its broken kernels."""

import numpy as np
import pytest

from cutecourse.emulator.errors import AlignmentError, UninitializedRead
from cutecourse.kernels import (
    SpecError,
    epilogue_stmatrix,
    micro_gemm_swizzled,
    smem_broken,
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


@DEVICES
@pytest.mark.parametrize(
    "spec", [micro_gemm_swizzled.LAUNCH, micro_gemm_swizzled.PLAIN], ids=["S<3,3,3>", "plain"]
)
def test_micro_gemm_swizzled__is_numpys_product(device, spec):
    given, name, product = smem_broken.arguments(1)
    outcome = run(spec, device=device, **given)
    assert (outcome[name] == product).all()
    assert not outcome.notes


def conflicts(spec, **given):
    """The bank conflicts of each kind of instruction, of the shared side."""
    found = {}
    for row in run(spec, device="emulator", memory_report=True, **given).memory.rows:
        if row.space == "shared":
            kind = row.instruction.split(".")[0]
            found[kind] = found.get(kind, 0) + row.transactions - row.least
    return found


def test_micro_gemm_swizzled__has_no_conflict_with_the_swizzle():
    given, _, _ = smem_broken.arguments(2)
    assert set(conflicts(micro_gemm_swizzled.LAUNCH, **given).values()) == {0}
    # Plain rows of 128 bytes: the 8 rows of each of the (4 + 2) * 4 blocks queue up, 7 more passes each.
    assert conflicts(micro_gemm_swizzled.PLAIN, **given) == {"cp": 0, "ldmatrix": 7 * 24}


@pytest.mark.parametrize(
    ("kernel", "lost"), [(transpose_shared, 31), (transpose_padded, 0), (transpose_swizzled, 0)]
)
def test_transpose__loses_the_passes_that_the_layout_predicts(kernel, lost):
    given = {"source": np.zeros((32, 32), np.float32), "result": np.zeros((32, 32), np.float32)}
    # 8 warps read 4 columns each.
    assert conflicts(kernel.spec(32, 32), **given) == {"st": 0, "ld": 32 * lost}


def test_transpose_wide__has_no_conflict():
    given = {"source": np.zeros((64, 64), np.float32), "result": np.zeros((64, 64), np.float32)}
    assert conflicts(transpose_wide.spec(64, 64), **given) == {"st": 0, "ld": 0}


@DEVICES
def test_smem_right__is_numpys_product(device):
    given, name, product = smem_broken.arguments(3)
    outcome = run(smem_broken.RIGHT, device=device, **given)
    assert (outcome[name] == product).all()
    assert not outcome.notes


@pytest.mark.parametrize(
    ("fault", "report"), [("wrong_row_width", UninitializedRead), ("misaligned_rows", AlignmentError)]
)
def test_smem_broken__is_reported(fault, report):
    given, _, _ = smem_broken.arguments(4)
    with pytest.raises(report, match="ldmatrix"):
        run(smem_broken.broken(fault), device="emulator", **given)


def test_one_sided_swizzle__is_wrong_and_nobody_reports_it():
    given, name, product = smem_broken.arguments(5)
    outcome = run(smem_broken.broken("one_sided_swizzle"), device="emulator", **given)
    # Row 0 and row 8 are their own places. Each other row meets the chunks of k in another order.
    wrong = (outcome[name] != product).any(axis=1)
    assert wrong.tolist() == [row % 8 != 0 for row in range(16)]
    assert not outcome.notes


def test_smem_broken__knows_its_faults():
    with pytest.raises(SpecError, match="no fault 'swizzle'"):
        smem_broken.broken("swizzle")
