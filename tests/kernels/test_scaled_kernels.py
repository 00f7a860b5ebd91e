"""GEMMs with scale factors against NumPy and ml_dtypes, element by element, on the emulator.

No Blackwell has run them. Operands are exact (`exact_operands`), so each element of a result is compared.
"""

import subprocess

import ml_dtypes
import numpy as np
import pytest

from cutecourse.block_scales import FORMATS, dequantise, packed, placed, quantise, read_back, scales_shape
from cutecourse.dtypes import encode
from cutecourse.kernels import SpecError, scale_stamp, scaled_one, scaled_persistent, scaled_tile
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.scaled_ladder import exact_operands
from cutecourse.runtime import compile as compile_kernel
from cutecourse.runtime import run

SILENT = {"fill multiplied"}  # a grid is rounded up to whole pairs


def by_ml_dtypes(given, form):
    """A and B as float64, by ml_dtypes and NumPy alone."""
    element = {"e4m3": ml_dtypes.float8_e4m3fn, "e2m1": ml_dtypes.float4_e2m1fn}[FORMATS[form].element]
    kind = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}[FORMATS[form].scale]
    found = []
    for name in ("a", "b"):
        codes = given[name]
        if element is ml_dtypes.float4_e2m1fn:
            codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
        factors = given[f"sf{name}"].view(np.uint8)
        rows = np.arange(len(codes))[:, None]
        blocks = np.arange(codes.shape[1])[None, :] // FORMATS[form].vector
        places = rows // 128, blocks // 4, rows % 32 * 16 + rows % 128 // 32 * 4 + blocks % 4
        found.append(codes.view(element).astype(np.float64) * factors[places].view(kind).astype(np.float64))
    return found


def multiplied(spec, form, **options):
    """A run, and the product of its operands."""
    given, product = exact_operands(spec, form, seed=1)
    a, b = by_ml_dtypes(given, form)
    np.testing.assert_array_equal(a @ b.T, product)
    outcome = run(spec, device="emulator", **given, **options)
    assert not {note.hazard.name for note in outcome.notes} - SILENT
    return outcome, product


@pytest.mark.parametrize("form", FORMATS)
def test_scaled_one__multiplies_blocks(form):
    outcome, product = multiplied(scaled_one.spec(form), form)
    np.testing.assert_array_equal(outcome["c"], product)


def test_scale_stamp__shows_four_copies_of_each_row():
    factors = np.random.default_rng(4).integers(0, 256, 512).astype(np.uint8)
    seen = run(scale_stamp, device="emulator", factors=factors, seen=np.zeros((128, 4, 4), np.uint8))["seen"]
    rows = read_back(factors.reshape(1, 1, 512), 128, 4)
    for lane in range(128):
        for column in range(4):
            np.testing.assert_array_equal(seen[lane, column], rows[32 * column + lane % 32])


SIZES = [
    ("mxf8", (2, 8, 16), {"sms": 1}),
    ("mxf8", (200, 264, 144), {"sms": 1}),
    ("mxf8", (384, 648, 1040), {"sms": 2, "pairs": 2}),  # twelve tiles and nine k-tiles, both odd at the end
    ("mxf4", (300, 136, 288), {"sms": 2}),
    ("nvf4", (130, 136, 1312), {"sms": 1, "pairs": 2}),
    ("nvf4", (520, 264, 544), {"sms": 2, "pairs": 8}),
]


@pytest.mark.parametrize(("form", "mnk", "options"), SIZES)
def test_scaled_persistent__is_right_for_ragged_sizes(form, mnk, options):
    outcome, product = multiplied(scaled_persistent.spec(*mnk, form=form, **options), form)
    np.testing.assert_array_equal(outcome["d"], encode((product / 2).astype(np.float32), "bf16"))


@pytest.mark.parametrize(
    ("form", "mnk", "options"),
    [
        ("mxf8", (200, 144, 144), {"sms": 1, "quantises": "mxf8"}),
        ("mxf4", (520, 400, 288), {"sms": 2, "quantises": "mxf8"}),
        ("nvf4", (2, 16, 32), {"sms": 2, "quantises": "mxf8"}),
        ("nvf4", (2, 32, 32), {"sms": 2, "quantises": "nvf4"}),
        ("mxf8", (520, 192, 144), {"sms": 1, "pairs": 2, "quantises": "nvf4"}),  # a tile has half its columns
        ("nvf4", (300, 416, 1312), {"sms": 2, "quantises": "nvf4"}),
    ],
)
def test_scaled_persistent__quantises_its_own_output(form, mnk, options):
    (m, n, _), out = mnk, FORMATS[options["quantises"]]
    outcome, product = multiplied(scaled_persistent.spec(*mnk, form=form, **options), form)
    whole = np.zeros((m, -(-n // out.vector) * out.vector))
    whole[:, :n] = product / 2
    codes, scales = quantise(whole, out)
    np.testing.assert_array_equal(outcome["d"], packed(codes[:, :n], out))
    np.testing.assert_array_equal(read_back(outcome["sfd"], m, scales.shape[1]), scales)
    assert outcome["sfd"].shape == scales_shape(m, n, out.vector)
    # What lies behind the last factor of a row multiplies zeros in the next GEMM, so it must be a number.
    padding = read_back(outcome["sfd"], m, 4 * outcome["sfd"].shape[1])
    assert not (padding == (0xFF if out.scale == "ue8m0" else 0x7F)).any()


def by_hand(values):
    """Codes and factors of NVFP4 by ml_dtypes alone, in float32, for rows of whole blocks."""
    blocks = values.astype(np.float32).reshape(len(values), -1, 16)
    wished = np.abs(blocks).max(axis=2) / np.float32(6)
    factors = np.minimum(wished, np.float32(448)).astype(ml_dtypes.float8_e4m3fn)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = blocks / factors.astype(np.float32)[..., None]
    ratio = np.where(np.isfinite(ratio), np.clip(ratio, -6, 6), 0 * blocks)
    return ratio.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(values.shape), factors.view(np.uint8)


@pytest.mark.parametrize("seed", range(2))
def test_scaled_persistent__quantises_numbers_of_all_sizes(seed):
    """Rows from 2^-20 to 2^16: factors that are zero, subnormal, and the largest; B is the unit matrix."""
    random, form = np.random.default_rng(seed), FORMATS["nvf4"]
    spec = scaled_persistent.spec(128, 128, 128, form="nvf4", sms=1, quantises="nvf4")
    given, _ = exact_operands(spec, "nvf4", seed)
    a, _ = quantise(random.standard_normal((128, 128)), form)
    factors = random.integers(0x08, 0x7F, (128, 8)).astype(np.uint8)
    one = encode(1.0, "e2m1") * np.eye(128, dtype=np.uint8), np.full((128, 8), encode(1.0, "ue4m3"))
    given |= {"a": packed(a, form), "sfa": placed(factors).view(np.uint16)}
    given |= {"b": packed(one[0], form), "sfb": placed(one[1]).view(np.uint16)}
    values = dequantise(a, factors, form) + 0.0  # a sum of zeros is positive
    seen = set()
    for alpha in (2.0**-12, 2.0**-3, 3.0):
        ran = run(spec, device="emulator", **(given | {"alpha": alpha}))
        codes, scales = by_hand(alpha * values)
        np.testing.assert_array_equal(ran["d"], packed(codes, form))
        np.testing.assert_array_equal(read_back(ran["sfd"], 128, 8), scales)
        seen |= set(scales.reshape(-1).tolist())
    assert {0, 1, 0x7E} <= seen


@pytest.mark.parametrize(("m", "wide", "k"), [(200, 384, 256), (130, 416, 96)])
@pytest.mark.parametrize("form", ["mxf8", "nvf4"])
def test_scaled_persistent__feeds_itself(form, m, wide, k):
    """Two GEMMs in a row: the first one's D and its factors are the second one's A, byte for byte."""
    first = scaled_persistent.spec(m, wide, k, form=form, quantises=form)
    hidden, product = multiplied(first, form)
    second = scaled_persistent.spec(m, 136, wide, form=form)
    given, _ = exact_operands(second, form, seed=2)
    given |= {"a": hidden["d"], "sfa": hidden["sfd"].view(np.uint16), "alpha": 1.0}
    outcome = run(second, device="emulator", **given)
    a, b = by_ml_dtypes(given, form)
    exact = a @ b.T
    # The sums are no longer exact in f32: tensor cores keep 25 places of each product.
    off = np.abs(ml_dtypes_of(outcome["d"]) - exact)
    assert (off <= 2.0**-8 * np.abs(exact) + 2.0**-20 * (np.abs(a) @ np.abs(b).T)).all()
    # And what they multiply is the first product, to within a rounding of its elements.
    block = FORMATS[form].vector
    whole = np.zeros((m, -(-wide // block) * block))
    whole[:, :wide] = product / 2
    largest = np.abs(whole).reshape(m, -1, block).max(axis=2).repeat(block, axis=1)[:, :wide]
    assert (np.abs(a - product / 2) <= largest / (5 if form == "nvf4" else 14)).all()


def ml_dtypes_of(held):
    """Codes of bf16 as float64."""
    return held.view(ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.parametrize(("k", "seed"), [(128, 1), (384, 2)])
def test_scaled_tile__of_the_dsl_multiplies_without_a_warning(k, seed):
    random, form = np.random.default_rng(seed), FORMATS["mxf8"]
    codes = [encode(random.integers(-4, 5, (128, k)).astype(np.float32), "e4m3") for _ in "ab"]
    scales = [encode(2.0 ** random.integers(-1, 3, (128, k // 32)), "ue8m0") for _ in "ab"]
    a, b = (dequantise(held, of, form) for held, of in zip(codes, scales, strict=True))
    blocks = {name: placed(of).reshape(-1, 512).T for name, of in zip(("sfa", "sfb"), scales, strict=True)}
    c = np.full((128, 128), np.nan, np.float32)
    outcome = run(scaled_tile.spec(k), device="emulator", seed=seed, a=codes[0], b=codes[1], c=c, **blocks)
    np.testing.assert_array_equal(outcome["c"], a @ b.T)
    # The CuTe DSL leaves out a fence that the document asks for.
    assert {note.hazard.name for note in outcome.notes} <= {"no fence after"}


def test_scaled_tile__refuses_a_part_of_a_k_tile():
    with pytest.raises(SpecError, match="K must be a multiple of 128, not 192"):
        scaled_tile.spec(192)


@pytest.mark.parametrize("form", ["mxf8", "nvf4"])
def test_scaled_persistent__is_silent_under_seeds(form):
    spec = scaled_persistent.spec(256, 384, 320, form=form)
    for seed in range(4):
        outcome, product = multiplied(spec, form, seed=seed)
        np.testing.assert_array_equal(outcome["d"], encode((product / 2).astype(np.float32), "bf16"))


def test_scaled_persistent__of_a_nan_behind_the_last_factor_spoils_a_row():
    """The other way round: padding along K is multiplied, by zeros, and NaN times zero is NaN."""
    spec = scaled_persistent.spec(128, 128, 64, sms=1)
    given, _ = exact_operands(spec, "mxf8", seed=1)
    held = given["sfa"].view(np.uint8)
    held[0, 0, 2] = 0xFF  # row 0, the third factor: K has two
    outcome = run(spec, device="emulator", **given)
    assert np.isnan((outcome["d"][0].astype(np.uint32) << 16).view(np.float32)).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"form": "mxf6"}, "form is 'mxf8' or 'mxf4' or 'nvf4', not 'mxf6'"),
        ({"sms": 3}, "sms is 1 or 2, not 3"),
        ({"pairs": 0}, "pairs is at least 1, not 0"),
        ({"n": 12}, "rows of whole 16 bytes"),
        ({"k": 24}, "rows of whole 16 bytes"),
        ({"n": 8, "quantises": "mxf8"}, "rows of whole 16 bytes"),
        ({"n": 16, "quantises": "nvf4"}, "rows of whole 16 bytes"),
        ({"quantises": "mxf4"}, "quantises is 'mxf8', 'nvf4' or None, not 'mxf4'"),
    ],
)
def test_spec__refuses_what_the_kernel_cannot_do(arguments, said):
    with pytest.raises(SpecError, match=said):
        scaled_persistent.spec(**{"m": 128, "n": 128, "k": 128, **arguments})


@pytest.mark.parametrize("module", ["scaled_one.faults", "scaled_persistent.faults"])
def test_faults__that_nothing_reports_give_wrong_numbers(module):
    faults = kernel_module(module)
    given, name, expected = faults.arguments(0)
    np.testing.assert_array_equal(run(faults.LAUNCH, device="emulator", **given)[name], expected)
    for fault in faults.FAULTS.values():
        if not fault.reports:
            outcome = run(faults.LAUNCH.with_fault(fault), device="emulator", **given)
            assert (outcome[name] != expected).mean() > 0.1, fault.name


@pytest.mark.parametrize(
    ("fault", "changed"), [("rows_in_their_order", ["sfd"]), ("divided_by_the_wish", ["d"])]
)
def test_faults__of_the_epilogue_that_nothing_reports_change_one_array(fault, changed):
    faults = kernel_module("scaled_broken")
    given, name, expected = faults.arguments(0)
    right = run(faults.LAUNCH, device="emulator", **given)
    np.testing.assert_array_equal(right[name], expected)
    wrong = run(faults.LAUNCH.with_fault(faults.FAULTS[fault]), device="emulator", **given)
    assert [one for one in ("d", "sfd") if (wrong[one] != right[one]).any()] == changed


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_ptxas__assembles_each_form_without_spills(arch, tmp_path, find_program):
    specs = [scaled_one.spec(form) for form in FORMATS]
    specs += [
        scaled_persistent.spec(300, 160, 288, form=form, sms=sms, quantises=quantises)
        for form in FORMATS
        for sms in (1, 2)
        for quantises in (None, "mxf8", "nvf4")
    ]
    for spec in (scale_stamp.LAUNCH, scaled_tile.LAUNCH, *specs):
        text = compile_kernel(spec).ptx.replace(".target sm_100a", f".target {arch}")
        (tmp_path / "k.ptx").write_text(text)
        done = subprocess.run(
            [find_program("ptxas"), "-v", f"-arch={arch}", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr
