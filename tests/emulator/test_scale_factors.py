"""Scale factors followed from global memory to the MMA: what is reported, and what a right kernel may do."""

import numpy as np
import pytest

from cutecourse.kernels import scaled_one, scaled_persistent
from cutecourse.kernels.scaled.scaled_one.faults import FAULTS
from cutecourse.kernels.scaled_ladder import exact_operands
from cutecourse.runtime import run

HAZARD = "another scale"


def notes(spec, form="mxf8", **changes):
    """What a launch says of its scale factors."""
    given, _ = exact_operands(spec, form, seed=1)
    done = run(spec, device="emulator", **{**given, **changes})
    return [str(note) for note in done.notes if note.hazard.name == HAZARD]


def test_columns_of_the_other_matrix__are_named_with_both_matrices():
    (note,) = notes(scaled_one.LAUNCH.with_fault(FAULTS["columns_of_a"]))
    assert "B is scaled by byte 0 of array argument 2" in note
    assert "at (0, 0) of b, but the same scale factor belongs to (0, 0) of a" in note


def persistent(mnk, *change):
    """A launch of the persistent kernel, one SM for each MMA, with a changed text."""
    spec = scaled_persistent.spec(*mnk, sms=1)
    text = spec.text
    for old, new in change:
        assert old in text
        text = text.replace(old, new)
    return spec.with_text(text, spec.name)


@pytest.mark.parametrize(
    ("coordinates", "words"),
    [
        ("%block_k, %tile_n", "the same scale factor belongs to (0, 0) of a"),
        ("%tile_n, %block_a", "which was scaled by byte"),
        ("%block_k, %tile_m + 1", "come from outside their tensor"),
    ],
)
def test_coordinates_of_another_block__are_reported(coordinates, words):
    change = [("[%sfa, {0, %block_k, %block_a}]", f"[%sfa, {{0, {coordinates}}}]")]
    if "+" in coordinates:
        change = [("[%sfa, {0, %block_k, %block_a}]", "[%sfa, {0, %block_k, %before}]")]
        change += [
            (
                "    mul.lo.u32          %block_k, ",
                "    add.u32 %before, %block_a, 1;\n    mul.lo.u32 %block_k, ",
            )
        ]
    found = notes(persistent((256, 256, 256), *change))
    assert any(words in note for note in found), found


@pytest.mark.parametrize("mnk", [(256, 256, 256), (130, 136, 288)])
@pytest.mark.parametrize(("form", "sms"), [("mxf8", 2), ("nvf4", 1)])
def test_right_kernels__are_silent(mnk, form, sms):
    assert not notes(scaled_persistent.spec(*mnk, form=form, sms=sms), form)


def test_one_factor_for_all_mmas_of_a_tile__is_right_for_another_tensor():
    assert not notes(scaled_one.LAUNCH.with_fault(FAULTS["one_id"]))


def test_one_tensor_as_a_and_as_b__has_the_same_factors():
    spec = scaled_one.LAUNCH
    given, _ = exact_operands(spec, "mxf8", seed=1)
    assert not notes(spec, b=given["a"], sfb=given["sfa"])
    assert np.array_equal(given["a"].shape, given["b"].shape)
