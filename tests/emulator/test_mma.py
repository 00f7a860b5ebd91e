"""mma.sync in whole kernels: exact on whole numbers, for every form; what it refuses."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from cutecourse.emulator import launch, supported_instructions
from cutecourse.emulator.errors import DivergedWarp, InvalidOperand, LaunchError, UnsupportedInstruction
from cutecourse.emulator.instructions.mma.mma import MMA_FORMS, MmaForm
from support.collectives import CASES, matrix_of, names, run


def form_and_suffix(name: str) -> tuple[MmaForm, str]:
    ptx = CASES[name].ptx
    found = re.search(
        r"^ +mma\.sync\.aligned\.(\w+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.(\w+)([.\w]*)$", ptx, re.MULTILINE
    )
    assert found is not None
    return MMA_FORMS[(*found.groups()[:5], "")], found.group(6)


def elements(array: np.ndarray, type_name: str) -> np.ndarray:
    """(tiles, 32, words or elements) -> (tiles, 32, elements) as whole numbers."""
    bits = {"s4": 4, "u4": 4, "b1": 1}.get(type_name)
    if bits is None:
        return array.astype(np.int64)
    per_word = 32 // bits
    spread = [(array.astype(np.int64) >> (bits * i)) & ((1 << bits) - 1) for i in range(per_word)]
    values = np.stack(spread, axis=-1).reshape(*array.shape[:2], -1)
    return np.where(values >= 8, values - 16, values) if type_name == "s4" else values


def test_mma_sync__every_form_and_suffix_has_a_case() -> None:
    found = {form_and_suffix(name) for name in names("mma")}
    wanted = set()
    for form in (one for one in MMA_FORMS.values() if not one.kind):
        if form.a == "b1":
            wanted |= {(form, ".xor.popc"), (form, ".and.popc")}
        elif form.d == "s32":
            wanted |= {(form, ""), (form, ".satfinite")}
        else:
            wanted.add((form, ""))
    assert found == wanted
    assert len(wanted) == 82


def test_mma_sync__runs_every_instruction_of_cutlass_sm80_atoms() -> None:
    package = importlib.util.find_spec("cutlass_library")
    assert package is not None, "nvidia-cutlass brings the headers: install the test requirements"
    assert package.origin is not None
    header = Path(package.origin).parent / "source" / "include" / "cute" / "arch" / "mma_sm80.hpp"
    texts = set(re.findall(r'"(mma\.sync[\w.]+) *"?', header.read_text(encoding="utf-8")))
    assert len(texts) > 50
    for text in texts:
        _, _, _, shape, _, _, *rest = text.split(".")
        assert (shape, *rest[:4], "") in MMA_FORMS, text
        assert set(rest[4:]) <= {"satfinite", "xor", "and", "popc"}, text


@pytest.mark.parametrize("name", names("mma", "_s32_"))
def test_mma_sync__whole_numbers_are_exact(name: str) -> None:
    form, suffix = form_and_suffix(name)
    before, after = run(name)
    a, b, c = (
        matrix_of(form.fragment(operand), elements(before[operand.lower()], type_name))
        for operand, type_name in (("A", form.a), ("B", form.b), ("C", "s32"))
    )
    if suffix == ".xor.popc":
        total = (a[:, :, :, None] ^ b[:, None, :, :]).sum(axis=2) + c
    else:
        total = np.einsum("tmk,tkn->tmn", a, b) + c
    if suffix == ".satfinite":
        wanted = np.clip(total, -(2**31), 2**31 - 1)
    else:
        wanted = total.astype(np.uint64).astype(np.uint32).view(np.int32)
    found = matrix_of(form.fragment("D"), after["d"].astype(np.int64))
    np.testing.assert_array_equal(found, wanted)
    if form.a != "b1" or suffix == ".xor.popc":
        assert len(np.unique(found)) > 50


@pytest.mark.parametrize("name", names("mma", r"_(f16|f32|f64)_\w+(?<!rounded)$"))
def test_mma_sync__floats_are_exact_where_the_sum_is(name: str) -> None:
    form, _ = form_and_suffix(name)
    before, after = run(name)
    tile = next(i for i, kind in enumerate(CASES[name].args["c"]["kinds"]) if kind == "whole")
    a, b, c = (
        matrix_of(form.fragment(operand), before[operand.lower()][tile : tile + 1].astype(np.float64))
        for operand in "ABC"
    )
    found = matrix_of(form.fragment("D"), after["d"][tile : tile + 1].astype(np.float64))
    np.testing.assert_array_equal(found, a @ b + c)
    assert len(np.unique(found)) > 10


def test_mma_sync__arithmetic_chooses_the_generation() -> None:
    case = CASES["mma/m16n8k16_f32_f16"]
    results = {}
    for arithmetic in ("sm_80", "sm_90", None):
        arguments = case.make_args()
        chosen = {} if arithmetic is None else {"arithmetic": arithmetic}
        launch(case.ptx, grid=case.grid, block=case.block, args=list(arguments.values()), **chosen)
        results[arithmetic] = arguments["d"].view(np.uint32)
    np.testing.assert_array_equal(results[None], results["sm_90"])
    assert (results["sm_80"] != results["sm_90"]).any()
    with pytest.raises(LaunchError, match=r"sm_42.*sm_80"):
        launch(case.ptx, grid=1, block=32, args=list(case.make_args().values()), arithmetic="sm_42")


def test_mma_sync__a_broken_warp_is_an_error() -> None:
    case = CASES["mma/m16n8k16_f32_f16"]
    with pytest.raises(DivergedWarp, match=r"lane 24 does not take part") as caught:
        launch(case.ptx, grid=1, block=24, args=list(case.make_args().values()))
    assert "mma.sync" in caught.value.text


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (".f32.f16.f16.f32", ".f32.bf16.f16.f32", "m16n8k16 takes the types"),
        (".row.col.", ".row.row.", "row.col"),
        ("{%b0, %b1}", "{%b0}", "2 registers for B, and 1 are given"),
        (".m16n8k16.", ".m16n8k12.", "m16n8k12|needs one of the modifiers"),
    ],
)
def test_mma_sync__refuses_what_is_no_form(old: str, new: str, says: str) -> None:
    ptx = CASES["mma/m16n8k16_f32_f16"].ptx.replace(old, new)
    with pytest.raises((UnsupportedInstruction, InvalidOperand), match=says) as caught:
        launch(ptx, grid=1, block=32, args=list(CASES["mma/m16n8k16_f32_f16"].make_args().values()))
    assert caught.value.line is not None


def test_supported_instructions__lists_the_collectives_with_their_sources() -> None:
    listed = {info.name: info for info in supported_instructions()}
    for name in (
        *("mma.sync", "ldmatrix.sync", "stmatrix.sync", "movmatrix.sync", "shfl.sync", "vote.sync"),
        *(
            "match.any.sync",
            "match.all.sync",
            "redux.sync",
            "activemask",
            "atom",
            "red",
            "cvt",
            "cvt.pack.sat",
        ),
        *("cp.async.ca", "cp.async.cg", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all"),
    ):
        assert listed[name].source.startswith("PTX ISA 9.0, ")
