"""The model of tensor cores' sums against MMA-Sim's answers, kept by tools/record_mmasim.py."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cutecourse.dtypes import decode
from cutecourse.emulator.numbers.formats import FORMATS, to_float64
from cutecourse.emulator.numbers.tcgen05_sums import accumulate_in_turn
from cutecourse.emulator.numbers.tensor_core_sums import (
    TENSOR_CORES,
    byte_float_products,
    fused_float_products,
    scaled_float_products,
)
from support.tensor_core_model import rounded_once_bound

RECORDING = Path(__file__).resolve().parent / "recordings" / "mmasim.npz"
GPUS = {
    "Ampere": "sm_80",
    "Ada Lovelace": "sm_89",
    "Hopper": "sm_90",
    "Blackwell": "sm_100",
    "RTX Blackwell": "sm_120",
}

with np.load(RECORDING) as _held:
    HELD = {name: _held[name] for name in _held.files}
HEADER = json.loads(str(HELD.pop("header")))
EVERY = [name.split(" D ") for name in HELD if " D " in name]
NARROW = [(form, generation) for form, generation in EVERY if re.search(r"\.e\dm\d", form)]
"""Forms whose A and B have 8 bits or fewer."""
ASKED = [(form, generation) for form, generation in EVERY if (form, generation) not in NARROW]
ROUNDED_ONCE = [form for form, _ in NARROW if form.startswith("tcgen05")]
NARROW = [(form, generation) for form, generation in NARROW if form not in ROUNDED_ONCE]


def operands(form):
    """A, B and C as bits, the formats of A and B and of C, and the kind of each matrix."""
    a, b, c = (HELD[f"{form} {operand}"].astype(np.uint64) for operand in "ABC")
    accumulator, source = [part for part in form.split()[1].split(".") if "kind" not in part][1:3]
    kinds = np.repeat(HEADER["kinds"], len(a) // len(HEADER["kinds"]))
    return a, b, c, FORMATS[source], FORMATS[accumulator], kinds


def test_recording__says_what_made_it_and_is_small():
    assert HEADER["program"].startswith("mmasim 2.1.1")
    assert "MIT License" in HEADER["program"]
    assert RECORDING.stat().st_size < 1 << 20
    assert len(ASKED) == 48
    assert (len(NARROW), len(ROUNDED_ONCE)) == (15, 4)
    assert sum(HELD[f"{form} D {generation}"].size for form, generation in ASKED) > 100_000


@pytest.mark.parametrize(("form", "generation"), ASKED)
def test_fused_float_products__are_mmasims_bit_for_bit(form, generation):
    a, b, c, source, accumulator, kinds = operands(form)
    got = fused_float_products(a, b, c, source, accumulator, TENSOR_CORES[GPUS[generation]])
    expected = HELD[f"{form} D {generation}"]
    differ = [
        f"{kind}: {np.count_nonzero(one)}"
        for kind, one in zip(kinds, got != expected, strict=True)
        if one.any()
    ]
    assert not differ


@pytest.mark.parametrize(("form", "generation"), NARROW)
def test_narrow_products__are_mmasims_bit_for_bit(form, generation):
    a, b, c = (HELD[f"{form} {operand}"].astype(np.uint64) for operand in "ABC")
    into, of_a, of_b = (FORMATS[name] for name in re.findall(r"\.(e\dm\d|f16|f32)\b", form)[:3])
    core = TENSOR_CORES[GPUS[generation]]
    if "block" in form:
        scales = HELD[f"{form} SA"], HELD[f"{form} SB"].swapaxes(-1, -2)
        got = scaled_float_products(a, b, c, (of_a, of_b), scales, form.rpartition(".")[2])
    elif form.startswith("mma ") and "kind" not in form:
        got = byte_float_products(a, b, c, of_a, into, core, of_b)
    else:
        got = fused_float_products(a, b, c, of_a, into, core, source_of_b=of_b)
    expected = HELD[f"{form} D {generation}"]
    differ = [
        f"{kind}: {np.count_nonzero(one)}"
        for kind, one in zip(HEADER["kinds"], got != expected, strict=True)
        if one.any()
    ]
    assert not differ


def test_narrow_products__differ_between_generations():
    for form in ("m16n8k32.f32.e4m3.e4m3.f32", "m16n8k16.f32.e5m2.e5m2.f32"):
        ada, rtx = (HELD[f"mma {form} D {generation}"] for generation in ("Ada Lovelace", "RTX Blackwell"))
        assert (ada != rtx).any()


def test_recording__tells_the_generations_apart():
    """A model of one generation would not pass for another's: f16, bf16 and tf32 each tell."""
    for form in ("m16n8k16.f32.f16.f16.f32", "m16n8k16.f32.bf16.bf16.f32", "m16n8k8.f32.tf32.tf32.f32"):
        of = {generation: HELD[f"mma {form} D {generation}"] for generation in GPUS}
        assert (of["Ampere"] != of["Hopper"]).any()
        assert (of["Ampere"] == of["Ada Lovelace"]).all()
        assert (of["Hopper"] == of["Blackwell"]).all()
        assert (of["Hopper"] == of["RTX Blackwell"]).all()


@pytest.mark.parametrize("form", [form for form, _ in ASKED if form.startswith("tcgen05")])
def test_accumulate_in_turn__stays_within_the_stated_bound_of_mmasims(form):
    """What tcgen05.mma gives is rounded once, and is no further from MMA-Sim's Blackwell than we say."""
    a, b, c, source, accumulator, kinds = operands(form)
    expected = HELD[f"{form} D Blackwell"]
    limit = 2.0**16 if accumulator.name == "f16" else 2.0**128
    other, largest = 0, 0.0
    for kind, *one, wanted in zip(kinds, a, b, c, expected, strict=True):
        if kind == "special":
            continue
        left, right, addend = (
            to_float64(bits, fmt).view(np.float64)
            for bits, fmt in zip(one, (source, source, accumulator), strict=True)
        )
        got = accumulate_in_turn([(left, right.T, False)], addend, accumulator.name).astype(np.uint64)
        # An infinity stands for the first number that is too large.
        got_number, number = (
            np.clip(to_float64(bits, accumulator).view(np.float64), -limit, limit)
            for bits in (got, wanted.astype(np.uint64))
        )
        with np.errstate(all="ignore"):  # a sum that is too large has no bound
            bound = rounded_once_bound(left, right.T, addend, accumulator, TENSOR_CORES["sm_100"])
        finite = np.isfinite(bound)
        if kind == "large":
            assert (np.isinf(to_float64(got, accumulator)) == (np.abs(number) == limit))[~finite].all()
        away = np.abs(got_number - number)
        assert (away <= bound)[finite].all()
        other += np.count_nonzero(away)
        largest = max(largest, float((away / bound).max(initial=0, where=finite)))
    assert other, "the two round differently"
    assert largest > 0.05  # the bound is none that anything would keep


@pytest.mark.parametrize("form", ROUNDED_ONCE)
def test_accumulate_in_turn__of_narrow_types_stays_within_the_bound_of_mmasims(form):
    a, b, c = (HELD[f"{form} {operand}"].astype(np.uint64) for operand in "ABC")
    into, of_a, of_b = (FORMATS[name] for name in re.findall(r"\.(e\dm\d|f16|f32)\b", form)[:3])
    expected = to_float64(HELD[f"{form} D Blackwell"].astype(np.uint64), into)
    left, right, addend = to_float64(a, of_a), to_float64(b, of_b), to_float64(c, into)
    if "block" in form:
        kind = form.rpartition(".")[2]
        for operand, values, axis in (("SA", left, 2), ("SB", right, 1)):
            factors = decode(HELD[f"{form} {operand}"], kind).astype(np.float64)
            values *= np.repeat(factors, values.shape[axis] // factors.shape[axis], axis=axis)
    compared = 0
    for kind, *one, wanted in zip(HEADER["kinds"], left, right, addend, expected, strict=True):
        if kind in ("large", "special"):
            continue
        x, y, z = one
        got = to_float64(accumulate_in_turn([(x, y.T, False)], z, into.name).astype(np.uint64), into)
        bound = rounded_once_bound(x, y.T, z, into, TENSOR_CORES["sm_100"])
        assert (np.abs(got - wanted) <= bound).all(), kind
        compared += np.count_nonzero(wanted)
    assert compared > 1000


@pytest.mark.parametrize("form", [form for form, _ in ASKED if form.startswith("tcgen05")])
def test_accumulate_in_turn__has_the_same_infinities_and_nans(form):
    a, b, c, source, accumulator, kinds = operands(form)
    special = kinds == "special"
    left, right, addend = (
        to_float64(bits[special], fmt).view(np.float64)
        for bits, fmt in ((a, source), (b, source), (c, accumulator))
    )
    expected = to_float64(HELD[f"{form} D Blackwell"][special].astype(np.uint64), accumulator).view(
        np.float64
    )
    for one_a, one_b, one_c, wanted in zip(left, right, addend, expected, strict=True):
        got = accumulate_in_turn([(one_a, one_b.T, False)], one_c, accumulator.name).astype(np.uint64)
        number = to_float64(got, accumulator).view(np.float64)
        np.testing.assert_array_equal(np.isnan(number), np.isnan(wanted))
        np.testing.assert_array_equal(number[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isnan(expected).any()
