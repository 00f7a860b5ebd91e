"""DescriptorBits without a browser: words it takes and refuses, what it says of them, its figure."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import pytest

from cutecourse.atoms.tensor import AnyLayout
from cutecourse.descriptors import (
    INSTR_SM100,
    SMEM_SM90,
    SMEM_SM100,
    DescriptorError,
    DescriptorFormat,
    instr_format,
)
from cutecourse.dtypes import dtype
from cutecourse.layout import composition, get_nonswizzle_portion, tile_to_shape
from cutecourse.umma import UmmaError, gmma_descriptor, make_smem_layout_atom, make_tiled_mma, smem_descriptor
from cutecourse.widgets import DescriptorBits, WidgetError
from cutecourse.widgets.descriptor_figure import draw_descriptor
from cutecourse.widgets.descriptor_reading import chunk_byte, problems, reserved, segments, taken_by

FORMATS = (SMEM_SM90, SMEM_SM100, INSTR_SM100, *map(instr_format, ("i8", "f8f6f4", "mxf4")))
OPERATIONS = ("SM100_MMA_F16BF16_SS", "SM100_MMA_F16BF16_2x1SM_SS")


def some_words(fmt: DescriptorFormat, count: int) -> list[int]:
    """Words of all kinds: any bits, only bits that fields have, and few bits set."""
    rng = random.Random(f"{fmt.name} {count}")
    any_bits = [rng.getrandbits(fmt.bits) for _ in range(count)]
    used = [word & fmt.used for word in any_bits]
    few = [sum(1 << rng.randrange(fmt.bits) for _ in range(3)) % (1 << fmt.bits) for _ in range(count)]
    return [0, (1 << fmt.bits) - 1, fmt.used, *any_bits, *used, *few]


# ---- what refuses a word ----


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_problems__are_what_the_format_refuses(fmt: DescriptorFormat) -> None:
    outcomes = set()
    for word in some_words(fmt, 300):
        found = problems(fmt, word)
        try:
            assert fmt.encode(**fmt.decode(word)) == word
            refused = False
        except DescriptorError:
            refused = True
        # The format itself holds no field constant; tcgen05's version is.
        if fmt is SMEM_SM100:
            refused = refused or word >> 46 & 3 != 1
        assert bool(found) == refused, hex(word)
        outcomes.add(refused)
    assert outcomes == {True, False}


def test_problems__name_every_reserved_bit_and_number() -> None:
    for fmt in FORMATS:
        named = [field for field in fmt.fields if field.names is not None]
        legal = sum(min(field.names.values()) << field.low for field in named)
        legal |= 1 << 46 if fmt is SMEM_SM100 else 0
        bits = {low + i for low, count in reserved(fmt) for i in range(count)}
        assert sum(1 << bit for bit in bits) == ((1 << fmt.bits) - 1) & ~fmt.used
        for bit in bits:
            (said,) = problems(fmt, legal | 1 << bit)
            (run,) = [(low, count) for low, count in reserved(fmt) if low <= bit < low + count]
            assert re.match(rf"bits? {run[0]}\b.*reserved", said)
    (said,) = problems(SMEM_SM100, 0x4000404000000040 | 3 << 61)
    assert said.startswith("layout_type holds 3, which stands for nothing; there are SWIZZLE_NONE (0)")
    (said,) = problems(SMEM_SM100, 0x4000004000000040)
    assert said.startswith("version holds 0: a tcgen05 descriptor holds 1")
    assert problems(SMEM_SM90, 0x4000004000000040) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_segments__hold_every_bit_once_and_no_field_is_cut_in_rows_of_16(fmt: DescriptorFormat) -> None:
    parts = list(segments(fmt, 16))
    assert [bit for _, low, bits in parts for bit in range(low + bits - 1, low - 1, -1)] == list(
        range(fmt.bits - 1, -1, -1)
    )
    assert [field.name for field, *_ in reversed(parts) if field] == [field.name for field in fmt.fields]


# ---- what a word says ----


def test_taken_by__are_exactly_the_descriptors_that_the_operations_make() -> None:
    made: dict[str, set[int]] = {op: set() for op in OPERATIONS}
    for op, m, n in product(OPERATIONS, (64, 128, 256), range(8, 264, 8)):
        for a, b, c in product(("f16", "bf16"), ("f16", "bf16"), ("f16", "f32")):
            try:
                made[op].add(make_tiled_mma(op, a, b, c, m, n).idesc)
            except UmmaError:
                continue
    assert all(len(words) >= 100 for words in made.values())
    signs = sum(INSTR_SM100.field(name).mask for name in ("a_negate", "b_negate", "a_major", "b_major"))
    rng = random.Random(4)
    words = {word | rng.getrandbits(32) & signs for words in made.values() for word in words}
    words |= {word ^ 1 << rng.randrange(32) for word in words}
    words |= set(some_words(INSTR_SM100, 200))
    outcomes = set()
    for word in words:
        if word & ~INSTR_SM100.used:
            continue  # refused before anyone asks who takes it
        for op, why in taken_by(INSTR_SM100, word):
            assert (why == "") == (word & ~signs in made[op]), (hex(word), op, why)
            outcomes.add((op, why == ""))
    assert len(outcomes) == 4
    assert taken_by(SMEM_SM100, 0) == taken_by(instr_format("i8"), 0) == []


def test_taken_by__says_why_not() -> None:
    shape = INSTR_SM100.encode(c_format="F32", m_dim=256, n_dim=24)
    assert dict(taken_by(INSTR_SM100, shape)) == {
        OPERATIONS[0]: "M is 256; it takes 64 or 128",
        OPERATIONS[1]: "N is 24; with M = 256 it takes 16 to 256 in steps of 16",
    }
    types = INSTR_SM100.encode(c_format="S32", a_format="TF32", m_dim=128, n_dim=64)
    assert DescriptorBits(INSTR_SM100, types).taken_by[OPERATIONS[0]].startswith("A TF32, B F16 and D S32")
    sparse = INSTR_SM100.encode(sparse_flag="True", m_dim=128, n_dim=64)
    assert taken_by(INSTR_SM100, sparse)[0][1].startswith("sparse_flag holds 1")


def _bytes(layout: AnyLayout, at: tuple[int, int], bits: int) -> int:
    return int(get_nonswizzle_portion(layout)(at)) * bits // 8


KINDS = [f"{major}_{kind}" for major in ("K", "MN") for kind in ("INTER", "SW32", "SW64", "SW128")]


@pytest.mark.parametrize(("kind", "name"), [*product(KINDS, ("f16", "tf32")), ("MN_SW128_32B", "tf32")])
def test_chunk_byte__is_where_cutes_layout_has_the_elements(kind: str, name: str) -> None:
    element, (major, swizzle) = dtype(name), kind.split("_", maxsplit=1)
    # What one instruction reads, 128 rows or columns by 32 bytes along K, out of a tile of 128 bytes.
    extents = (128, 256 // element.bits)
    whole = tile_to_shape(make_smem_layout_atom(kind, element), (128, 1024 // element.bits))
    tile = composition(whole, extents)
    traces = [(SMEM_SM100, smem_descriptor(tile, element, major, 1024))]
    if swizzle != "SW128_32B":
        traces.append((SMEM_SM90, gmma_descriptor(tile, element, major, 1024)))
    step = 128 // element.bits
    for fmt, trace in traces:
        word = int(trace.hexadecimal, 16)
        for mn, k in product(range(extents[0]), range(extents[1])):
            at = {"r": mn, "j": k // step} if major == "K" else {"j": mn // step, "k": k}
            rest = (k if major == "K" else mn) % step * element.bits // 8
            found = chunk_byte(fmt, word, major, **at) + rest
            assert found == _bytes(tile, (mn, k), element.bits), (fmt.name, mn, k)


# ---- the widget ----


def test_descriptor_bits__takes_words_in_many_ways() -> None:
    one = DescriptorBits(SMEM_SM100, 0x4000404000010040)
    assert one.value == 0x4000404000010040
    assert one.fields == SMEM_SM100.decode(0x4000404000010040)
    assert one.problems == []
    assert DescriptorBits("SmemDescriptor", SMEM_SM100.explain(0x4000404000010040)).value == one.value
    assert DescriptorBits(SMEM_SM100).fields["version"] == 1
    assert (DescriptorBits(SMEM_SM90).value, DescriptorBits(INSTR_SM100).value) == (0, 0)
    several = DescriptorBits(SMEM_SM100, {"k-block 0": 64, "k-block 1": 66}, chosen="k-block 1")
    assert (several.value, several.chosen) == (66, 1)
    assert DescriptorBits(SMEM_SM100, [5, 6]).words == [["0", f"0x{5:016x}"], ["1", f"0x{6:016x}"]]
    # A number that stands for nothing has no meaning.
    assert DescriptorBits(SMEM_SM100, 7 << 61).fields["layout_type"] is None


def test_value__can_be_set_and_only_the_shown_word_changes() -> None:
    widget = DescriptorBits(SMEM_SM100, {"a": 1, "b": 2}, chosen=1)
    widget.value = 1 << 46
    assert (widget.words[0][1], widget.value, widget.fields["version"]) == (f"0x{1:016x}", 1 << 46, 1)
    with pytest.raises(WidgetError, match="64 bits"):
        widget.value = 1 << 64
    assert widget.value == 1 << 46


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("NoDescriptor", 0), "no format of a descriptor; there are GmmaDescriptor"),
        ((SMEM_SM100, 1 << 64), "has 64 bits"),
        ((INSTR_SM100, -1), "has 32 bits"),
        ((SMEM_SM100, "0x40"), "no word of SmemDescriptor"),
        ((SMEM_SM100, 1.0), "no word of SmemDescriptor"),
        ((SMEM_SM100, {}), "one to 8 words, not 0"),
        ((SMEM_SM100, list(range(9))), "one to 8 words, not 9"),
    ],
)
def test_descriptor_bits__refuses_in_words(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        DescriptorBits(*arguments)


def test_descriptor_bits__refuses_words_and_fields_that_are_not_there() -> None:
    with pytest.raises(WidgetError, match="no word 'c'; there are a, b"):
        DescriptorBits(SMEM_SM100, {"a": 1, "b": 2}, chosen="c")
    with pytest.raises(WidgetError, match="no word 2; there are 2"):
        DescriptorBits(SMEM_SM100, [1, 2], chosen=2)
    with pytest.raises(WidgetError, match="no field 'm_dim'"):
        DescriptorBits(SMEM_SM100, 0, field="m_dim")


def test_repr__says_every_word() -> None:
    assert repr(DescriptorBits(INSTR_SM100, 0x08400010)) == "DescriptorBits(InstrDescriptor, 0x0840_0010)"
    named = DescriptorBits(SMEM_SM100, {"a": 0x40, "b": 0x42}, chosen=1, field="start_address")
    assert repr(named) == (
        "DescriptorBits(SmemDescriptor, {'a': 0x0000_0000_0000_0040, 'b': 0x0000_0000_0000_0042}, "
        "chosen=1, field='start_address')"
    )


def test_figure__prints_all_bits_marks_those_that_differ_and_names_what_is_wrong() -> None:
    words = [("a", 0x4000404000010040), ("b", 0x4000404000010042 | 1 << 14)]
    first, second, below = draw_descriptor(SMEM_SM100, words, 1, "Two words").axes
    for axes, (name, word) in zip((first, second), words, strict=True):
        digits = [text.get_text() for text in axes.texts if text.get_fontsize() == 7.5]
        assert "".join(digits) == f"{word:064b}"
        assert axes.get_title(loc="left").startswith(f"{name}: 0x{word:016x}")
        # Of all patches, the bars of two differing bits are the low ones.
        assert sum(patch.get_height() < 0.5 for patch in axes.patches) == 2
    lines = [text.get_text() for text in below.texts]
    assert any(re.search(r"start_address +66  1056 bytes", line) for line in lines)
    assert any("bits 14 to 15 are reserved and must be 0, but hold 0b1" in line for line in lines)
