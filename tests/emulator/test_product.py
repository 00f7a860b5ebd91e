"""Products are computed from what the instructions read: another operand or address changes the result."""

import re

import numpy as np
import pytest

from cutecourse.emulator.instructions.mma.mma import MMA_FORMS
from support.collectives import PRODUCT, matrix_of, product


def mutations() -> dict[str, str]:
    """Texts that differ from PRODUCT in one operand, address or modifier of ldmatrix or mma."""
    found = {}
    lines = PRODUCT.split("\n")
    for number, line in enumerate(lines):
        opcode = next(
            (word for word in ("ldmatrix", "mma.sync", "{%out0") if word in line and "st." not in line), None
        )
        if opcode is None:
            continue
        changes = []
        # Each register of a vector becomes its neighbour.
        for spot in re.finditer(r"%(f|g|acc|out)(\d)", line):
            count = 2 if spot.group(1) == "g" else 4
            other = f"%{spot.group(1)}{(int(spot.group(2)) + 1) % count}"
            changes.append((f"{spot.group()} at {spot.start()} as {other}", spot.span(), other))
        changes += [(f"address {m.group()}", m.span(), "[%row+16]") for m in re.finditer(r"\[%row\]", line)]
        for old, new in (
            (".trans", ""),
            (".x4.shared", ".x4.trans.shared"),
            ("f32.f16.f16.f32", "f32.bf16.bf16.f32"),
        ):
            at = line.find(old)
            if at >= 0:
                changes.append((f"{old} as {new or 'nothing'}", (at, at + len(old)), new))
        for what, (start, end), new in changes:
            changed = line[:start] + new + line[end:]
            found[f"line {number}, {what}"] = "\n".join([*lines[:number], changed, *lines[number + 1 :]])
    return found


MUTATIONS = mutations()


def test_product__is_that_of_the_matrices_in_memory() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (2, 32, 8)).astype(np.float16)
    c = rng.integers(-9, 9, (32, 4)).astype(np.float32)
    form = MMA_FORMS["m16n8k16", "f32", "f16", "f16", "f32", ""]
    found = matrix_of(form.fragment("D"), product(PRODUCT, a=a, b=b, c=c).view(np.float32)[None])[0]
    # ldmatrix.x4 takes four 8 x 8 matrices in operand A's order: upper and lower left, upper and lower right.
    quarters = a.astype(np.float64).reshape(4, 8, 8)
    left, right = np.vstack(quarters[:2]), np.vstack(quarters[2:])
    expected = (
        np.hstack([left, right]) @ b[:16].astype(np.float64) + matrix_of(form.fragment("C"), c[None])[0]
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("what", MUTATIONS)
def test_product__changes_with_each_operand_address_and_modifier(what: str) -> None:
    assert (product(MUTATIONS[what]) != product(PRODUCT)).any()


def test_product__mutations_reach_every_operand() -> None:
    # First ldmatrix: 4 registers, address, .trans; second: 2, address, .trans; mma: 14 and the types.
    assert len(MUTATIONS) == (4 + 1 + 1) + (2 + 1 + 1) + (14 + 1)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_product__changes_with_every_element_that_is_read(name: str) -> None:
    rng = np.random.default_rng(1)
    inputs = {
        "a": rng.normal(0, 1, (32, 8)).astype(np.float16),
        "b": rng.normal(0, 1, (32, 8)).astype(np.float16),
        "c": rng.normal(0, 1, (32, 4)).astype(np.float32),
    }
    base = product(PRODUCT)
    read = range(128) if name == "b" else range(inputs[name].size)
    for place in list(read)[:: 5 if name != "c" else 3]:
        changed = inputs[name].copy()
        changed.reshape(-1)[place] += 1
        differs = product(PRODUCT, **{name: changed}) != base
        # An element of A reaches one row, of B one column, of C one place.
        assert 1 <= differs.sum() <= {"a": 8, "b": 16, "c": 1}[name], place
