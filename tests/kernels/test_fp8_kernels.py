"""GEMMs of 8-bit floats on Hopper, on the emulator without a report and on a GPU; the drift of their sums."""

import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from benchmarks import hopper_fp8 as bench
from cutecourse import emulator, runtime
from cutecourse.kernels import SpecError, fp8_drift, fp8_gemm
from cutecourse.kernels.fp8.fp8_gemm.faults import FAULTS

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90a"), id="gpu")]
)
E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
BLOCK = fp8_gemm.BLOCK


def operands(mnk, seed=0):
    """Small integers, and scales that are powers of two: each product and each sum is exact."""
    m, n, k = mnk
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(E4M3) for rows in (m, n))
    blocks = -(-n // BLOCK), -(-k // BLOCK)
    scales = [
        np.exp2(random.integers(-2, 2, shape, endpoint=True)).astype(np.float32)
        for shape in ((m, blocks[1]), blocks)
    ]
    return a, b, *scales


def check(mnk, sums, *, device="emulator", seed=0, **given):
    m, n, k = mnk
    a, b, scale_a, scale_b = operands(mnk, seed)
    spec = fp8_gemm.spec(*mnk, sums, **given)
    arrays = {"a": a, "b": b, "c": np.full((m, n), np.nan, BF16)}
    left, right = a.astype(np.float64), b.astype(np.float64)
    if "scale_b" in spec.arguments:
        arrays |= {"scale_a": scale_a, "scale_b": scale_b}
        left *= np.repeat(scale_a, BLOCK, axis=1)[:, :k]
        right *= np.repeat(np.repeat(scale_b, BLOCK, axis=0), BLOCK, axis=1)[:n, :k]
    run = runtime.run(spec, device=device, seed=seed, **arrays)
    np.testing.assert_array_equal(
        run["c"].astype(np.float32), (left @ right.T).astype(BF16).astype(np.float32)
    )
    # A cluster has whole tiles, so one of its CTAs may have a tile behind the end of A.
    assert {note.hazard.name for note in run.notes} <= {"fill multiplied", "grid dependency"}


@DEVICES
@pytest.mark.parametrize(
    ("sums", "mnk"),
    [
        ("plain", (200, 136, 144)),
        ("promoted", (2, 8, 16)),
        ("scaled", (140, 264, 272)),
        ("scaled", (2, 8, 400)),
    ],
)
def test_gemm__multiplies_any_size(sums, mnk, device):
    check(mnk, sums, device=device, seed=1)


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("sums", "choice", "turns"),
    [("promoted", 0, True), ("promoted", 1, False), ("scaled", 0, False), ("scaled", 1, True)],
)
def test_gemm__goes_from_tile_to_tile_and_fills_every_stage_again(sums, choice, turns, seed):
    how, _ = fp8_gemm.CHOICES[sums][choice]
    how = how._replace(turns=turns, stages=2)
    check((70, 2 * how.tile[1] + 8, 400), sums, how=how, seed=seed, sms=2)


@pytest.mark.gpu("sm_90a")
@pytest.mark.parametrize("mnk", [(4096, 4096, 4096), (4000, 4104, 4064)])
@pytest.mark.parametrize("sums", fp8_gemm.SUMS)
def test_gemm__multiplies_large_matrices(sums, mnk):
    check(mnk, sums, device="cuda:0")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault__is_reported(fault):
    mnk = (130, 200, 144 + 5 * BLOCK)
    spec = fp8_gemm.spec(*mnk, how=fp8_gemm.CHOICES["scaled"][0][0], sms=2)
    a, b, scale_a, scale_b = operands(mnk)
    arrays = {"a": a, "b": b, "c": np.zeros(mnk[:2], BF16), "scale_a": scale_a, "scale_b": scale_b}
    with pytest.raises(emulator.EmulatorError) as caught:
        runtime.run(spec.with_fault(fault), device="emulator", **arrays)
    assert type(caught.value).__name__ in fault.reports, caught.value


@pytest.mark.parametrize(
    ("sums", "mn", "tile"),
    [
        ("promoted", (8192, 8192), (128, 192)),
        ("promoted", (4096, 4096), (128, 208)),
        ("scaled", (8192, 8192), (128, 192)),
        ("scaled", (4096, 4096), (256, 128)),
    ],
)
def test_best__leaves_few_multiprocessors_idle(sums, mn, tile):
    assert fp8_gemm.best(*mn, sums, 132).tile == (*tile, 128)


def test_spec__refuses_what_tma_cannot_step_along_and_other_sums():
    for mnk in ((128, 132, 128), (128, 128, 136), (1, 128, 128)):
        with pytest.raises(SpecError, match="N must be a multiple of 8, K one of 16"):
            fp8_gemm.spec(*mnk)
    with pytest.raises(SpecError, match="the sums are plain, promoted, scaled, not 'exact'"):
        fp8_gemm.spec(128, 128, 128, "exact")
    with pytest.raises(
        SpecError, match="N must be a multiple of 8 up to 256, and K one of 128; got 12 and 128"
    ):
        fp8_drift.spec(12, 128)


@pytest.mark.program("ptxas")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "how", [how for of_sums in fp8_gemm.CHOICES.values() for how, _ in of_sums], ids=lambda how: f"{how.sums}"
)
def test_gemm__assembles_without_spills_or_warnings(how, tmp_path):
    """A warning would say that ptxas serialises `wgmma`, or that it ignores `setmaxnreg`."""
    source = tmp_path / "kernel.ptx"
    source.write_text(str(runtime.compile(fp8_gemm.spec(4096, 4096, 4096, how=how)).ptx))
    done = subprocess.run(
        [shutil.which("ptxas"), "-v", "-arch=sm_90a", "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Performance Loss" not in done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr)]
    assert spills
    assert not any(spills)


@DEVICES
@pytest.mark.parametrize("promoted", [False, True])
def test_drift__is_the_models_bit_for_bit(promoted, device):
    n, k = 8, 1024
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((rows, k)).astype(E4M3) for rows in (fp8_drift.ROWS, n))
    sums = np.zeros((fp8_drift.ROWS, n, k // BLOCK), np.float32)
    run = runtime.run(fp8_drift.spec(n, k, promoted=promoted), device=device, a=a, b=b, sums=sums)
    assert not run.notes
    model = bench.model_sums(a.view(np.uint8), b.view(np.uint8), promoted=promoted)
    np.testing.assert_array_equal(run["sums"].transpose(2, 0, 1), model)


def test_drift__of_positive_numbers_grows_with_k_unless_promoted():
    a, b = bench.drift_operands("uniform")
    exact = bench.exact_sums(a, b)
    alone, promoted = (
        bench.drift_of(bench.model_sums(a, b, promoted=promoted), exact)["bias"] for promoted in (False, True)
    )
    assert sorted(alone, reverse=True) == alone
    assert -0.26 < alone[-1] < -0.24
    assert all(-6e-4 < bias < -4e-4 for bias in promoted)
