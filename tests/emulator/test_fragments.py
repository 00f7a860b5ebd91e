"""The fragment maps against the PTX ISA's own formulas, shape by shape, and as bijections."""

from collections.abc import Callable

import numpy as np
import pytest

from cutecourse.emulator.instructions.mma.fragments import Fragment, ldmatrix_fragment, mma_fragment
from cutecourse.emulator.instructions.mma.mma import MMA_FORMS, MmaForm

Formula = Callable[[int, int, int], int]
"""(groupID, threadID_in_group, i) -> row or column, as the PTX ISA writes it for element i."""

# (shape, bits of an element of A and B) -> row and col of ai, then row and col of bi.
# PTX ISA 9.0, sections "Matrix Fragments for mma.m8n8k4" to "Matrix Fragments for mma.m16n8k256".
ISA: dict[tuple[str, int], tuple[Formula, Formula, Formula, Formula]] = {
    ("m8n8k4", 64): (lambda g, t, i: g, lambda g, t, i: t, lambda g, t, i: t, lambda g, t, i: g),
    ("m16n8k4", 64): (
        lambda g, t, i: g if i == 0 else g + 8,
        lambda g, t, i: t,
        lambda g, t, i: t,
        lambda g, t, i: g,
    ),
    ("m16n8k8", 64): (
        lambda g, t, i: g if i in (0, 2) else g + 8,
        lambda g, t, i: t if i in (0, 1) else t + 4,
        lambda g, t, i: t if i == 0 else t + 4,
        lambda g, t, i: g,
    ),
    ("m16n8k16", 64): (
        lambda g, t, i: g if i % 2 == 0 else g + 8,
        lambda g, t, i: (i * 2) + t if i % 2 == 0 else (i * 2) - 2 + t,
        lambda g, t, i: t + (i * 4),
        lambda g, t, i: g,
    ),
    ("m16n8k4", 32): (
        lambda g, t, i: g if i == 0 else g + 8,
        lambda g, t, i: t,
        lambda g, t, i: t,
        lambda g, t, i: g,
    ),
    ("m16n8k8", 32): (
        lambda g, t, i: g if i in (0, 2) else g + 8,
        lambda g, t, i: t if i in (0, 1) else t + 4,
        lambda g, t, i: t if i == 0 else t + 4,
        lambda g, t, i: g,
    ),
    ("m16n8k8", 16): (
        lambda g, t, i: g if i in (0, 1) else g + 8,
        lambda g, t, i: t * 2 + (i & 0x1),
        lambda g, t, i: t * 2 + i,
        lambda g, t, i: g,
    ),
    ("m16n8k16", 16): (
        lambda g, t, i: g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        lambda g, t, i: (t * 2) + (i & 0x1) if i < 4 else (t * 2) + (i & 0x1) + 8,
        lambda g, t, i: (t * 2) + (i & 0x1) if i < 2 else (t * 2) + (i & 0x1) + 8,
        lambda g, t, i: g,
    ),
    ("m8n8k16", 8): (
        lambda g, t, i: g,
        lambda g, t, i: (t * 4) + i,
        lambda g, t, i: (t * 4) + i,
        lambda g, t, i: g,
    ),
    ("m16n8k16", 8): (
        lambda g, t, i: g if i < 4 else g + 8,
        lambda g, t, i: (t * 4) + (i & 0x3),
        lambda g, t, i: (t * 4) + i,
        lambda g, t, i: g,
    ),
    ("m16n8k32", 8): (
        lambda g, t, i: g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
        lambda g, t, i: (t * 4) + (i & 0x3) if i < 8 else (t * 4) + (i & 0x3) + 16,
        lambda g, t, i: (t * 4) + (i & 0x3) if i < 4 else (t * 4) + (i & 0x3) + 16,
        lambda g, t, i: g,
    ),
    ("m8n8k32", 4): (
        lambda g, t, i: g,
        lambda g, t, i: (t * 8) + i,
        lambda g, t, i: (t * 8) + i,
        lambda g, t, i: g,
    ),
    ("m16n8k32", 4): (
        lambda g, t, i: g if i < 8 else g + 8,
        lambda g, t, i: (t * 8) + (i & 0x7),
        lambda g, t, i: (t * 8) + (i & 0x7),
        lambda g, t, i: g,
    ),
    ("m16n8k64", 4): (
        lambda g, t, i: g if 0 <= i < 8 or 16 <= i < 24 else g + 8,
        lambda g, t, i: (t * 8) + (i & 0x7) if i < 16 else (t * 8) + (i & 0x7) + 32,
        lambda g, t, i: (t * 8) + (i & 0x7) if i < 8 else (t * 8) + (i & 0x7) + 32,
        lambda g, t, i: g,
    ),
    ("m8n8k128", 1): (
        lambda g, t, i: g,
        lambda g, t, i: (t * 32) + i,
        lambda g, t, i: (t * 32) + i,
        lambda g, t, i: g,
    ),
    ("m16n8k128", 1): (
        lambda g, t, i: g if i < 32 else g + 8,
        lambda g, t, i: (t * 32) + (i & 0x1F),
        lambda g, t, i: (t * 32) + i,
        lambda g, t, i: g,
    ),
    ("m16n8k256", 1): (
        lambda g, t, i: g if i < 32 or 64 <= i < 96 else g + 8,
        lambda g, t, i: (t * 32) + (i & 0x1F) if i < 64 else (t * 32) + (i & 0x1F) + 128,
        lambda g, t, i: (t * 32) + (i & 0x1F) if i < 32 else (t * 32) + (i & 0x1F) + 128,
        lambda g, t, i: g,
    ),
}


def bits_of(form: MmaForm) -> int:
    return form.held("A").bits


def assert_follows(fragment: Fragment, row: Formula, col: Formula) -> None:
    for lane in range(32):
        group_id, thread_id_in_group = lane >> 2, lane % 4
        for i in range(fragment.n_elements):
            found = fragment.row[lane, i], fragment.col[lane, i]
            assert found == (row(group_id, thread_id_in_group, i), col(group_id, thread_id_in_group, i)), (
                lane,
                i,
            )


@pytest.mark.parametrize(("shape", "bits"), ISA, ids=str)
def test_mma_fragment__follows_the_isa(shape: str, bits: int) -> None:
    form = next(f for f in MMA_FORMS.values() if f.shape == shape and bits_of(f) == bits)
    a_row, a_col, b_row, b_col = ISA[shape, bits]
    assert_follows(form.fragment("A"), a_row, a_col)
    assert_follows(form.fragment("B"), b_row, b_col)


def test_mma_fragment__the_isa_table_covers_every_form() -> None:
    assert {(form.shape, bits_of(form)) for form in MMA_FORMS.values()} == set(ISA)


@pytest.mark.parametrize("form", MMA_FORMS.values(), ids=lambda f: f"{f.shape}-{f.kind}{f.d}-{f.a}-{f.b}")
def test_mma_fragment__accumulators_follow_the_isa(form: MmaForm) -> None:
    for operand in "CD":
        assert_follows(
            form.fragment(operand),
            lambda g, t, i: g if i < 2 else g + 8,
            lambda g, t, i: (t * 2) + (i & 0x1),
        )


@pytest.mark.parametrize("form", MMA_FORMS.values(), ids=lambda f: f"{f.shape}-{f.kind}{f.d}-{f.a}-{f.b}")
@pytest.mark.parametrize("operand", "ABCD")
def test_mma_fragment__every_element_has_exactly_one_owner(form: MmaForm, operand: str) -> None:
    fragment = form.fragment(operand)
    shape = {"A": (form.m, form.k), "B": (form.k, form.n), "C": (form.m, form.n), "D": (form.m, form.n)}[
        operand
    ]
    assert (fragment.n_rows, fragment.n_cols) == shape
    seen = sorted((fragment.row * fragment.n_cols + fragment.col).ravel().tolist())
    assert seen == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("form", MMA_FORMS.values(), ids=lambda f: f"{f.shape}-{f.kind}{f.d}-{f.a}-{f.b}")
def test_gather__undoes_scatter(form: MmaForm) -> None:
    for operand in "ABC":
        fragment = form.fragment(operand)
        matrix = np.arange(2 * fragment.n_rows * fragment.n_cols).reshape(2, fragment.n_rows, fragment.n_cols)
        held = fragment.scatter(matrix)
        assert held.shape == (2, 32, fragment.n_elements)
        np.testing.assert_array_equal(fragment.gather(held), matrix)


def test_mma_fragment__registers_are_those_of_the_syntax() -> None:
    registers = {
        (form.shape, bits_of(form)): [form.fragment(operand).n_registers for operand in "ABC"]
        for form in MMA_FORMS.values()
    }
    assert registers["m16n8k16", 16][:2] == [4, 2]
    assert registers["m16n8k8", 32] == [4, 2, 4]
    assert registers["m8n8k4", 64] == [1, 1, 2]
    assert registers["m16n8k16", 64] == [8, 4, 4]
    assert registers["m16n8k64", 4] == [4, 2, 4]
    assert registers["m16n8k256", 1] == [4, 2, 4]
    f16_accumulator = MMA_FORMS["m16n8k16", "f16", "f16", "f16", "f16", ""].fragment("D")
    assert f16_accumulator.n_registers == 2


def test_ldmatrix_fragment__follows_the_isa_and_its_transpose() -> None:
    straight, turned = ldmatrix_fragment(False), ldmatrix_fragment(True)
    assert_follows(straight, lambda g, t, i: g, lambda g, t, i: t * 2 + i)
    assert_follows(turned, lambda g, t, i: t * 2 + i, lambda g, t, i: g)


def test_ldmatrix_fragment__is_a_quarter_of_mma_operand_a() -> None:
    # Why ldmatrix.x4 feeds m16n8k16: each of A's registers holds one 8 x 8 matrix as ldmatrix leaves it.
    a = mma_fragment("A", 16, 8, 16, 16)
    part = ldmatrix_fragment(False)
    for register, (down, right) in enumerate([(0, 0), (8, 0), (0, 8), (8, 8)]):
        np.testing.assert_array_equal(a.row[:, 2 * register : 2 * register + 2], part.row + down)
        np.testing.assert_array_equal(a.col[:, 2 * register : 2 * register + 2], part.col + right)


def test_ldmatrix_fragment__transposed_feeds_operand_b() -> None:
    b = mma_fragment("B", 16, 8, 16, 16)
    # B's register r holds rows 8r to 8r + 7 of B column by column: the transpose of how its rows lie in
    # memory.
    turned = ldmatrix_fragment(True)
    for register in range(2):
        np.testing.assert_array_equal(b.row[:, 2 * register : 2 * register + 2], turned.row + 8 * register)
        np.testing.assert_array_equal(b.col[:, 2 * register : 2 * register + 2], turned.col)
