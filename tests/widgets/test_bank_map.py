"""BankMap without a browser: counts against memory_access, words, refusals, its figure, recorded accesses."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from widgets.bank_cases import random_map

from cutecourse.banks import (
    SharedAccess,
    bank_access,
    block_access,
    column_access,
    ldmatrix_access,
    row_access,
)
from cutecourse.kernels import micro_gemm_ldmatrix
from cutecourse.layout import Layout, Swizzle, composition
from cutecourse.memory_access import BankAccess, wavefronts
from cutecourse.runtime import run
from cutecourse.widgets import BankMap, WidgetError
from cutecourse.widgets.bank_figure import draw_banks, runs_of, waiting_lanes
from cutecourse.widgets.bank_places import Tile, bits_of, place_sentence, spans

TILE = "(32,64):(64,1)"
EIGHT = "Each lane accesses 16 bytes, so 8 lanes are served together."
ACCESSES = [
    ldmatrix_access(matrices=1),
    ldmatrix_access(),
    row_access(3),
    column_access(2),
    block_access(4, 64, elems=8),
]


# ---- wavefronts ----


@pytest.mark.parametrize("seed", range(40))
def test_wavefronts__are_as_many_as_the_deepest_bank_needs_and_serve_every_word_once(seed: int) -> None:
    rng = random.Random(seed)
    width = rng.choice((1, 2, 4, 8, 8, 16, 16))
    spread = rng.choice((1, 4, 32, 40))
    kind = rng.choice(("load", "load", "store", "atomic"))
    lanes: list[int | None] = [width * rng.randrange(spread * 64) for _ in range(32)]
    together = rng.choice((0, 0, 1, 2))
    if together:  # neighbours want the same
        lanes = [lanes[lane & ~together] for lane in range(32)]
    if seed % 3 == 0:
        lanes = [None if rng.random() < 0.4 else address for address in lanes]
    waves = wavefronts(lanes, width, kind)  # type: ignore[arg-type]
    groups = sorted({(wave.first, wave.span) for wave in waves})
    assert all(first + span <= after for (first, span), (after, _) in pairwise(groups))
    for first, span in groups:
        served = [word for wave in waves if wave.first == first for word in wave.words]
        wanted = [
            (word, lane)
            for lane in range(first, first + span)
            if (address := lanes[lane]) is not None
            for word in sorted({(address + byte) // 4 for byte in range(width)})
        ]
        assert sorted((word, lane) for _, word, who in served for lane in who) == sorted(wanted)
        assert sum(wave.first == first for wave in waves) == max(
            Counter(bank for bank, _, _ in served).values()
        )
        words = [word for _, word, _ in served]
        assert kind == "atomic" or len(words) == len(set(words))
        assert all(bank == word % 32 for bank, word, _ in served)
    for wave in waves:
        banks = [bank for bank, _, _ in wave.words]
        assert banks == sorted(set(banks))
    # Within a group no wavefront is busier than the one before it.
    for one, after in pairwise(waves):
        assert one.first < after.first or len(after.words) <= len(one.words)


def test_wavefronts__of_a_load_serve_two_groups_together_where_neighbours_agree() -> None:
    # Rows of the thread layout (16,2) read 16 bytes each: lanes 2i and 2i + 1 the same.
    pairs: list[int | None] = [16 * (lane // 2) for lane in range(32)]
    assert [(wave.first, wave.span) for wave in wavefronts(pairs, 16)] == [(0, 16), (16, 16)]
    assert len(wavefronts(pairs, 16, "store")) == 4
    # All lanes of the warp have to agree.
    half = [*pairs[:16], *(16 * lane for lane in range(16, 32))]
    assert [(wave.first, wave.span) for wave in wavefronts(half, 16)] == [(8 * i, 8) for i in range(4)]
    shown = BankMap(
        "(1,64):(64,1)", 32, accesses=[SharedAccess("pairs", [(0, 4 * (i // 2)) for i in range(32)], 4)]
    )
    assert shown.cost == BankAccess(2, 2)
    assert shown.words.startswith(
        "Each lane accesses 16 bytes, so 8 lanes are served together, "
        "or 16 if each wants what its neighbour wants."
    )


def test_words__of_atomic_operations_at_one_word() -> None:
    lanes = [(0, lane % 4) for lane in range(32)]
    shown = BankMap("(1,32):(32,1)", 32, accesses=[SharedAccess("add", lanes, kind="atomic")])
    assert shown.cost == BankAccess(8, 1)
    assert shown.words.startswith("8 lanes update words of bank 0, one after another: 8 wavefronts where 1")


def test_runs__join_the_banks_of_one_lane() -> None:
    (wave,) = wavefronts([16 * lane for lane in range(8)], 16)
    assert runs_of(wave) == [(4 * lane, 4, (lane,)) for lane in range(8)]
    (wave,) = wavefronts([2 * lane for lane in range(4)], 2)
    assert runs_of(wave) == [(0, 1, (0, 1)), (1, 1, (2, 3))]
    waves = wavefronts([128 * lane for lane in range(4)], 4)
    assert waiting_lanes(waves) == {1, 2, 3}


# ---- the sentences ----


@pytest.mark.parametrize(
    ("access", "swizzle", "padding", "words"),
    [
        (0, (0, 3, 3), 0, "8 of 8 lanes start in bank 0: 8 wavefronts where 1 would do, 7 conflicts."),
        (0, (3, 3, 3), 0, "No bank is asked for two different words: 1 wavefront, 0 conflicts."),
        (
            1,
            (0, 3, 3),
            0,
            (
                f"{EIGHT} Lanes 0 to 7: 8 of 8 start in bank 0, so 8 wavefronts. "
                "All 4 groups together: 32 wavefronts where 4 would do, 28 conflicts."
            ),
        ),
        (
            1,
            (0, 3, 3),
            8,
            f"{EIGHT} In each group no bank is asked for two different words: 4 wavefronts, 0 conflicts.",
        ),
        (3, (0, 3, 3), 0, "32 of 32 lanes start in bank 1: 32 wavefronts where 1 would do, 31 conflicts."),
        (3, (3, 3, 3), 0, "4 of 32 lanes start in bank 1: 4 wavefronts where 1 would do, 3 conflicts."),
        (0, (3, 2, 3), 0, "Swizzle<3,2,3> moves the 8 elements of one lane apart. M must be at least 3."),
        (
            0,
            (0, 3, 3),
            2,
            (
                "Lane 1 would access byte 132, which is no multiple of 16. "
                "A GPU stops with a misaligned address."
            ),
        ),
    ],
)
def test_words__say_what_the_access_costs(
    access: int, swizzle: tuple[int, int, int], padding: int, words: str
) -> None:
    shown = BankMap(TILE, accesses=ACCESSES, access=access, swizzle=swizzle, padding=padding)
    assert shown.words == words
    if "conflict" in words:
        assert f", {shown.cost.conflicts} conflict" in words
        assert f"{shown.cost.wavefronts} wavefront" in words
    else:
        assert shown.problem == words
        with pytest.raises(WidgetError, match=r"M must be|misaligned"):
            _ = shown.cost


def test_conflicts__of_all_accesses_stand_side_by_side() -> None:
    shown = BankMap(TILE, accesses=ACCESSES, swizzle=(3, 3, 3))
    found = {}
    for number, access in enumerate(ACCESSES):
        shown.access = number
        found[access.name] = shown.cost.conflicts
    assert shown.conflicts == found
    assert list(found.values()) == [0, 0, 0, 3, 0]
    # Bit 5 of an offset is the same in all rows, so two bits are left to tell 32 rows apart.
    shown.swizzle = [3, 2, 3]
    assert list(shown.conflicts.values()) == [None, None, 0, 7, None]


def test_words__name_the_busiest_bank_when_lanes_share_words() -> None:
    lanes = tuple((lane // 2 % 8, 0) for lane in range(16))
    shown = BankMap("(8,32):(32,1)", 32, accesses=[SharedAccess("pairs", lanes)])
    assert shown.words == "Bank 0 is asked for 8 different words: 8 wavefronts where 1 would do, 7 conflicts."
    assert shown.cost == BankAccess(8, 1)


def test_words__of_a_wavefront_name_its_lanes_and_its_banks() -> None:
    shown = BankMap(TILE, accesses=ACCESSES, access=3, swizzle=(3, 3, 3), wavefront=2)
    assert shown.words.endswith("Wavefront 2 of 4 serves lanes 8 to 15: 8 of the 32 banks deliver a word.")
    shown.access = 0
    assert shown.words.endswith("Wavefront 1 of 1 serves lanes 0 to 7: 32 of the 32 banks deliver a word.")
    assert spans([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7, 8"


def test_words__warn_of_a_swizzle_that_leads_behind_the_tile() -> None:
    shown = BankMap("(3,64):(64,1)", accesses=[row_access(lanes=8, elems=8)], swizzle=(1, 6, 1))
    assert shown.words.endswith("The swizzle sends offset 128 to 192, and the tile ends after offset 191.")
    assert Swizzle(1, 6, 1)(128) == 192


def test_place__is_the_layouts() -> None:
    shown = BankMap(TILE, swizzle=(3, 3, 3), accesses=ACCESSES)
    layout = composition(Swizzle(3, 3, 3), Layout((32, 64), (64, 1)))
    assert (shown.layout(3, 8), layout((3, 8))) == (208, 208)
    assert place_sentence(shown.tile, 3, 8) == (
        "(3, 8) has offset 200, and the swizzle makes it 208. This is byte 416, in word 104 of bank 8."
    )
    assert place_sentence(BankMap(TILE).tile, 0, 5).startswith(
        "(0, 5) has offset 5. This is byte 10, in word 2"
    )


@pytest.mark.parametrize(
    ("bits", "swizzle", "bank", "read", "flipped"),
    [
        (16, (3, 3, 3), [1, 6], [6, 7, 8], [3, 4, 5]),
        (8, (3, 4, 3), [2, 7], [7, 8, 9], [4, 5, 6]),
        (32, (5, 0, 5), [0, 5], [5, 6, 7, 8, 9], [0, 1, 2, 3, 4]),
        (64, (2, 1, 3), [0, 4], [4, 5], [1, 2]),
    ],
)
def test_bits__of_the_bank_move_with_the_elements_width(
    bits: int, swizzle: tuple[int, int, int], bank: list[int], read: list[int], flipped: list[int]
) -> None:
    tile = Tile(Layout((32, 32), (32, 1)), bits, swizzle)
    found = bits_of(tile)
    assert (found["bank"], found["read"], found["flipped"]) == (bank, read, flipped)
    assert found["count"] == 10
    masks = Swizzle(*swizzle)
    assert (sum(1 << bit for bit in read), sum(1 << bit for bit in flipped)) == (
        masks.yyy_mask,
        masks.zzz_mask,
    )
    for index in range(0, 1024, 7):
        word = 0
        for bit in range(bank[0], bank[1]):
            word |= (tile.offsets[index][1] >> bit & 1) << bit
        first = word * bits // 32 % 32
        assert tile.bank(index) == first if bits > 32 else tile.bank(index) == word >> bank[0]


# ---- what it takes ----


@pytest.mark.parametrize("seed", range(20))
def test_cost__is_that_of_the_layout_with_padding_and_swizzle(seed: int) -> None:
    shown, layout, access, bits = random_map(random.Random(seed))
    if shown.problem:
        return
    assert shown.cost == bank_access(layout, access, element_bits=bits)


def test_layout__with_a_swizzle_of_its_own_and_modes_in_parts() -> None:
    own = composition(Swizzle(2, 3, 3), Layout(((8, 4), 64), ((64, 512), 1)))
    shown = BankMap(own, accesses=[ldmatrix_access()])
    assert (shown.notation, shown.swizzle) == ("(32,64):(64,1)", [2, 3, 3])
    assert [shown.layout(i) for i in range(0, 2048, 37)] == [own(i) for i in range(0, 2048, 37)]
    blocked = BankMap("((8,4),(8,2)):((8,128),(1,64))", accesses=[ldmatrix_access(matrices=2)])
    assert blocked.cost == BankAccess(2, 2)
    with pytest.raises(WidgetError, match="cannot be padded here"):
        blocked.padding = 8
    assert blocked.padding == 0


def test_padding__goes_behind_each_row_or_column() -> None:
    rows = BankMap("(32,64):(64,1)", padding=8)
    assert (str(rows.layout), rows.tile.bytes) == ("(32,64):(72,1)", 4608)
    columns = BankMap("(64,32):(1,64)", padding=8, accesses=[ldmatrix_access(trans=True)])
    assert (str(columns.layout), columns.tile.across) == ("(64,32):(1,72)", 0)
    assert columns.cost == BankAccess(4, 4)


def test_unit__is_what_a_lane_accesses_and_never_less_than_a_word() -> None:
    units = [BankMap(TILE, accesses=[one]) for one in ACCESSES]
    assert [shown.tile.unit(shown.chosen) for shown in units] == [8, 8, 2, 2, 8]
    assert Tile(Layout((32, 32), (32, 1)), 32).unit(None) == 1
    # In ((8,...),8) blocks of 8 columns lie together, but not 16.
    blocks = Tile(Layout((8, (8, 8)), (8, (1, 64))), 8)
    assert blocks.unit(BankMap("(8,64):(64,1)", 8, accesses=[row_access(lanes=4, elems=16)]).chosen) == 8
    # No two elements of a row lie side by side.
    assert Tile(Layout((8, 8), (2, 16)), 16).unit(None) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "(4,8"}, "is not a layout such as"),
        ({"layout": "64:1"}, "has not two modes"),
        ({"layout": "(8,8):(-8,1)"}, "not a layout|strides are integers"),
        ({"layout": "(256,128):(128,1)"}, "up to 16384 are drawn"),
        ({"layout": "(128,128):(128,1)", "element_bits": 32}, "show a part of it"),
        ({"element_bits": 12}, "an element has 8, 16, 32 or 64 bits"),
        ({"accesses": [3]}, "is no access"),
        ({"accesses": [column_access()]}, "lane 8 accesses \\(8, 0\\), and the tile has 8 rows"),
        ({"accesses": [row_access(lanes=2, elems=3)]}, "3 elements of 16 bits"),
        ({"accesses": [row_access(kind="copy")]}, "'copy' is none of load, store, atomic, matrix"),
        ({"accesses": [SharedAccess("none", ())]}, "1 to 32 active lanes"),
        ({"accesses": [row_access()], "access": 1}, "there are 1, counted from 0"),
        ({"accesses": [row_access()], "access": "row 1"}, "There is no access 'row 1'; there are row 0"),
        ({"swizzle": (3, 3)}, "give three numbers"),
        ({"swizzle": (3, 3, 2)}, "S from B to 12"),
        ({"swizzle": (7, 3, 8)}, "moves B from 0 to 6"),
        ({"padding": -1}, "0 to 64 more elements"),
        ({"layout": "(8,8):(2,16)", "padding": 8}, "cannot be padded here"),
        ({"selected": {"row": 8, "column": 0}}, "the tile has 8 rows and 64 columns"),
        ({"selected": {"row": 8}}, "is no element"),
    ],
)
def test_bank_map__refuses_in_words(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        BankMap(**arguments)


def test_bank_map__undoes_what_cannot_be() -> None:
    shown = BankMap(TILE, accesses=ACCESSES, swizzle=Swizzle(3, 3, 3))
    for name, value in (("swizzle", [4, 3, 3]), ("padding", 65), ("access", 5), ("notation", "(8,8):(8,1)")):
        with pytest.raises(WidgetError):
            setattr(shown, name, value)
    assert (shown.swizzle, shown.padding, shown.access, shown.notation) == ([3, 3, 3], 0, 0, TILE)
    with pytest.raises(WidgetError, match="has no access"):
        _ = BankMap(TILE).cost


def test_repr__says_what_is_shown() -> None:
    shown = BankMap(TILE, accesses=ACCESSES, access="column 2", swizzle=(3, 3, 3), padding=8)
    assert repr(shown) == "BankMap('(32,64):(64,1)', access='column 2', swizzle=(3, 3, 3), padding=8)"
    shown = BankMap("(8,8):(8,1)", 32, wavefront=1, selected={"row": 1, "column": 2})
    assert repr(shown) == "BankMap('(8,8):(8,1)', element_bits=32, wavefront=1, selected=(1, 2))"


# ---- the figure ----


def test_figure__draws_every_cell_every_word_and_the_sentences() -> None:
    shown = BankMap(TILE, accesses=ACCESSES, access=1, swizzle=(3, 3, 3), selected={"row": 3, "column": 8})
    tile, waves, below = shown.figure().axes
    numbers = [int(text.get_text()) for text in tile.texts]
    layout = composition(Swizzle(3, 3, 3), Layout((32, 64), (64, 1)))
    assert numbers == [layout((row, 8 * chunk)) // 2 % 32 for row in range(32) for chunk in range(8)]
    assert sorted(text.get_text() for text in waves.texts) == sorted(f"lane {lane}" for lane in range(32))
    words = " ".join(text.get_text() for text in below.texts)
    assert words.startswith("ldmatrix.x4 at (0, 0) on S<3,3,3> o 0 o (32,64):(64,1)")
    assert "4 wavefronts, 0 conflicts." in words
    assert "(3, 8) has offset 200" in words


def test_figure__of_a_large_tile_says_how_much_it_shows() -> None:
    figure = BankMap("(128,64):(64,1)", accesses=[column_access(3, start=32)]).figure()
    assert figure.axes[0].get_xlabel() == "the first 64 of 128"
    refused = BankMap(TILE, accesses=ACCESSES, swizzle=(3, 1, 3)).figure()
    assert len(refused.axes[1].texts) == 0
    assert len(BankMap(TILE).figure().axes[1].texts) == 0
    assert len(draw_banks(BankMap(TILE).tile, None, []).axes) == 3


# ---- recorded accesses ----


@dataclass
class Row:
    line: int
    instruction: str
    space: str = "shared"
    kind: str = "load"


@dataclass
class Logged:
    line: int
    n_bytes: Any
    space: str = "shared"


@dataclass
class Report:
    """What BankMap reads of a memory report."""

    lanes: list[list[int | None]]
    width: int
    rows: list[Row] = field(
        default_factory=lambda: [Row(12, "ld.shared.b32"), Row(9, "ld.global.f32", "global")]
    )

    @property
    def log(self) -> list[Logged]:
        return [Logged(12, np.full((1, 32), self.width)), Logged(9, np.full((1, 32), 64), "global")]

    def addresses(self, line: int, space: str = "shared") -> list[list[int | None]]:
        assert (line, space) == (12, "shared")
        return self.lanes


def test_of__shows_the_distinct_accesses_of_a_line_in_bytes() -> None:
    column: list[int | None] = [4096 + 128 * lane for lane in range(32)]
    row: list[int | None] = [4096 + 256 + 4 * lane if lane % 2 else None for lane in range(32)]
    shown = BankMap.of(Report([column, row, column], 4), 12)
    assert (shown.notation, shown.element_bits, shown.base) == ("(32,128):(128,1)", 8, 4096)
    assert [one["name"] for one in shown.accesses] == [
        "line 12: ld.shared.b32, 1 of 2 (2 times)",
        "line 12: ld.shared.b32, 2 of 2",
    ]
    assert shown.cost == BankAccess(32, 1)
    assert repr(BankMap.of(Report([column, row, column], 4))) == repr(shown)  # the first line by default
    shown.swizzle = [5, 2, 5]  # on bytes
    assert shown.cost.conflicts == 0
    shown.access, shown.swizzle = 1, [0, 4, 3]
    assert shown.chosen is not None
    assert shown.tile.addresses(shown.chosen) == row
    assert shown.cost == BankAccess(1, 1)
    shown.access, shown.padding = 0, 4
    assert shown.cost.conflicts == 0


def test_of__refuses_a_line_without_shared_memory() -> None:
    report = Report([[0] * 32], 4)
    with pytest.raises(
        WidgetError, match="No instruction at line 9 accesses shared memory; lines \\[12\\] have"
    ):
        BankMap.of(report, 9)
    with pytest.raises(WidgetError, match="a row has a multiple of 4 bytes"):
        BankMap.of(report, 12, row_bytes=6)
    with pytest.raises(WidgetError, match="No instruction of this report accesses shared memory"):
        BankMap.of(Report([], 4, []), 12)


def test_of__a_run_costs_what_its_memory_report_counts() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((16, 16), (8, 16)))
    outcome = run(
        micro_gemm_ldmatrix, device="emulator", memory_report=True, a=a, b=b, c=np.zeros((16, 8), np.float32)
    )
    rows = [row for row in outcome.memory.rows if row.space == "shared"]
    assert sum(row.excess for row in rows) > 20
    for row in rows:
        shown = BankMap.of(outcome.memory, row.line, row_bytes=32)
        costs = []
        for number, one in enumerate(shown.accesses):
            shown.access = number
            times = re.search(r"\((\d+) times\)", one["name"])
            costs.append((int(times[1]) if times else 1, shown.cost))
        assert sum(times for times, _ in costs) == row.executions
        assert sum(times * cost.wavefronts for times, cost in costs) == row.transactions
        assert sum(times * cost.ideal for times, cost in costs) == row.least
