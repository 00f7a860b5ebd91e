"""Conflicts of layouts and swizzles, against counts by hand, brute force, and TMA's modes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cutecourse.banks import (
    SharedAccess,
    bank_access,
    best_swizzle,
    block_access,
    byte_addresses,
    column_access,
    ldmatrix_access,
    row_access,
    swizzle_conflicts,
    swizzled,
)
from cutecourse.layout import Layout, Swizzle, composition, cosize, recast_layout, size
from cutecourse.memory_access import BankAccess, MemoryAccessError
from cutecourse.tma.atom import swizzle_name


def deepest(addresses: list[int], access_bytes: int) -> int:
    """Wavefronts by a count of its own: each group of lanes that moves 128 bytes, byte by byte."""
    at_once = 128 // max(4, access_bytes)
    total = 0
    for start in range(0, len(addresses), at_once):
        lines: dict[int, set[int]] = {}
        for address in addresses[start : start + at_once]:
            for byte in range(address, address + access_bytes):
                lines.setdefault(byte % 128 // 4, set()).add(byte // 128)
        total += max(map(len, lines.values()))
    return total


def every_legal_swizzle(places: int, vector: int) -> list[Swizzle]:
    """All swizzles of at most 14 bits that keep a vector whole and permute the places, whatever their use."""
    found = []
    for bits in range(7):
        for base in range(10):
            for shift in range(bits, 12):
                swizzle = Swizzle(bits, base, shift)
                if (bits and 1 << base < vector) or base + bits + shift > 14:
                    continue
                if max(map(swizzle, range(places))) < places:
                    found.append(swizzle)
    return found


# ---- accesses ----


def test_accesses__name_one_coordinate_for_each_lane() -> None:
    assert row_access(3, lanes=4, elems=8, start=16).coords == ((3, 16), (3, 24), (3, 32), (3, 40))
    assert column_access(2, lanes=3, start=5).coords == ((5, 2), (6, 2), (7, 2))
    assert block_access(4, 64, elems=8, at=(8, 64)).coords == tuple(
        (8 + lane // 8, 64 + lane % 8 * 8) for lane in range(32)
    )
    x4 = ldmatrix_access((16, 32)).coords
    assert x4 == tuple((16 + lane % 16, 32 + lane // 16 * 8) for lane in range(32))
    assert [len(ldmatrix_access(matrices=n).coords) for n in (1, 2, 4)] == [8, 16, 32]
    turned = ldmatrix_access((32, 16), trans=True).coords
    assert turned == tuple((column, row) for row, column in ldmatrix_access((16, 32)).coords)


@pytest.mark.parametrize(
    ("layout", "access", "bits", "cost"),
    [
        (Layout((32, 64), (64, 1)), column_access(7), 16, BankAccess(32, 1)),
        (Layout((32, 64), (66, 1)), column_access(7), 16, BankAccess(1, 1)),  # rows padded by one word
        (Layout((32, 64), (72, 1)), column_access(7), 16, BankAccess(4, 1)),  # by 16 bytes: bank 4 row mod 32
        (Layout((32, 64), (64, 1)), row_access(5), 16, BankAccess(1, 1)),  # two lanes share each word
        (Layout((32, 64), (64, 1)), ldmatrix_access(), 16, BankAccess(32, 4)),
        (Layout((32, 64), (72, 1)), ldmatrix_access(), 16, BankAccess(4, 4)),
        (Layout((32, 32), (32, 1)), column_access(), 32, BankAccess(32, 1)),
        (Layout((32, 32), (33, 1)), column_access(), 32, BankAccess(1, 1)),
        (Layout((64, 32), (1, 64)), ldmatrix_access(trans=True), 16, BankAccess(32, 4)),
    ],
)
def test_bank_access__counts_what_was_counted_by_hand(
    layout: Layout, access: SharedAccess, bits: int, cost: BankAccess
) -> None:
    assert bank_access(layout, access, element_bits=bits) == cost


@pytest.mark.parametrize(
    ("layout", "access", "message"),
    [
        (Layout((8, 8), (8, 1)), column_access(8, lanes=8), "lane 0 accesses \\(0, 8\\), and the tile has 8"),
        (Layout((8, 8), (8, 1)), column_access(), "lane 8 accesses \\(8, 0\\)"),
        (Layout((8, 8), (8, 1)), SharedAccess("odd", ((0, 1),), 8), "address 2 is no multiple of 16"),
        (Layout(64), row_access(), "has 1 modes"),
        (
            composition(Swizzle(3, 2, 3), Layout((8, 64), (64, 1))),
            ldmatrix_access(matrices=1),
            "S<3,2,3> moves the 8 elements of one lane apart; its base must be at least 3",
        ),
        (Layout((8, 8), (8, 1)), row_access(lanes=8, kind="copy"), "'copy' is none of load, store, atomic"),
    ],
)
def test_bank_access__refuses_in_words(layout: Any, access: SharedAccess, message: str) -> None:
    with pytest.raises(MemoryAccessError, match=message):
        bank_access(layout, access)


def test_bank_access__knows_loads_stores_matrices_and_atomics() -> None:
    tile = Layout((1, 128), (128, 1))
    pairs = [(0, 4 * (lane // 2)) for lane in range(32)]
    costs = {kind: SharedAccess("pairs", pairs, 4, kind) for kind in ("load", "store", "matrix")}
    # 16 lanes of a load are served together, for each wants what its neighbour wants.
    assert {kind: bank_access(tile, one, element_bits=32).wavefronts for kind, one in costs.items()} == {
        "load": 2,
        "store": 4,
        "matrix": 4,
    }
    add = SharedAccess("add", [(0, 0)] * 32, kind="atomic")
    assert bank_access(tile, add, element_bits=32) == BankAccess(32, 1)


# ---- every swizzle ----


@pytest.mark.parametrize(("row_halves", "mode"), [(16, "32B"), (32, "64B"), (64, "128B")])
def test_best_swizzle__of_ldmatrix_is_tmas_mode_for_a_row_of_that_size(row_halves: int, mode: str) -> None:
    layout = Layout((64, row_halves), (row_halves, 1))
    rows = block_access(256 // row_halves, row_halves, elems=8)
    choice = best_swizzle(layout, [ldmatrix_access((8, 0)), rows])
    assert choice.conflicts == 0
    assert choice.helps
    assert swizzle_name(recast_layout(8, 16, choice.swizzle)) == mode


def random_case(rng: random.Random) -> tuple[Layout, list[SharedAccess], int]:
    bits = rng.choice((8, 16, 16, 32))
    rows, columns = rng.choice((8, 16, 32)), rng.choice((16, 32, 64))
    padding = rng.choice((0, 0, 0, 16))
    layout = Layout((rows, columns), (columns + padding, 1))
    if rng.random() < 0.3:  # blocks of 8 rows, one after another
        layout = Layout(((8, rows // 8), columns), ((columns, 8 * columns), 1))
    accesses = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("row", "column", "ldmatrix", "block", "any"))
        if kind == "row":
            accesses.append(row_access(rng.randrange(rows), lanes=min(32, columns)))
        elif kind == "column":
            accesses.append(column_access(rng.randrange(columns), lanes=rows))
        elif kind == "ldmatrix":
            elems = 128 // bits
            count = 1 if rows < 16 else 2 if columns < 2 * elems else 4
            accesses.append(ldmatrix_access(matrices=count, elems=elems))
        elif kind == "block":
            elems = 64 // bits
            high = max(1, min(rows, 32 * elems // columns))
            wide = min(columns, 32 * elems)
            accesses.append(block_access(high, wide, elems=elems))
        else:
            coords = tuple((rng.randrange(rows), rng.randrange(columns)) for _ in range(rng.randint(1, 32)))
            accesses.append(SharedAccess("any", coords))
    return layout, accesses, bits


@pytest.mark.parametrize("seed", range(8))
def test_swizzle_conflicts__counts_right_and_no_legal_swizzle_is_better(seed: int) -> None:
    layout, accesses, bits = random_case(random.Random(seed))
    costs = swizzle_conflicts(layout, accesses, element_bits=bits)
    assert len({one.swizzle for one in costs}) == len(costs)
    index = {crd: layout(crd) for access in accesses for crd in access.coords}

    def wavefronts(swizzle: Swizzle) -> list[int]:
        return [
            deepest([swizzle(index[crd]) * bits // 8 for crd in access.coords], access.elems * bits // 8)
            for access in accesses
        ]

    for one in costs:
        assert [cost.wavefronts for cost in one.costs] == wavefronts(one.swizzle)
    legal = every_legal_swizzle(cosize(layout), max(access.elems for access in accesses))
    assert {one.swizzle for one in costs} - {Swizzle(0, 4, 3)} <= set(legal)
    fewest = min(sum(wavefronts(swizzle)) for swizzle in legal)
    assert costs[0].wavefronts == fewest
    fewest_bits = min(swizzle.num_bits for swizzle in legal if sum(wavefronts(swizzle)) == fewest)
    assert costs[0].swizzle.num_bits == fewest_bits


@pytest.mark.parametrize("seed", range(6))
def test_swizzle_conflicts__of_a_swizzle_is_what_the_composed_layout_costs(seed: int) -> None:
    layout, accesses, bits = random_case(random.Random(100 + seed))
    for one in swizzle_conflicts(layout, accesses, element_bits=bits):
        made = composition(one.swizzle, layout)
        assert one.costs == tuple(bank_access(made, access, element_bits=bits) for access in accesses)
        offsets = [made(i) for i in range(size(layout))]
        assert len(set(offsets)) == size(layout)
        assert max(offsets) < cosize(layout)
    # The tile's own swizzle makes no difference to the list.
    own = composition(Swizzle(1, 3, 3), layout)
    assert swizzle_conflicts(own, accesses, element_bits=bits) == swizzle_conflicts(
        layout, accesses, element_bits=bits
    )


def test_swizzle_conflicts__is_sorted_and_each_row_says_its_conflicts() -> None:
    layout = Layout((32, 64), (64, 1))
    costs = swizzle_conflicts(layout, [ldmatrix_access(), row_access(4)])
    keys = [(one.conflicts, one.swizzle.num_bits, -one.swizzle.num_base) for one in costs]
    assert keys == sorted(keys)
    assert str(costs[0]) == "S<3,3,3>: 0 conflicts (0, 0)"
    assert costs[0].wavefronts == 5
    many = swizzle_conflicts(layout, [column_access(c) for c in range(9)])
    assert str(many[0]) == "S<5,1,5>: 0 conflicts (0, 0, 0, 0, 0, 0, 0, 0, ...)"


def test_best_swizzle__says_when_none_helps_or_none_is_needed() -> None:
    tile = Layout((32, 64), (64, 1))
    helped = best_swizzle(tile, [column_access(9)])
    assert (helped.swizzle, helped.conflicts, helped.without.conflicts) == (Swizzle(5, 1, 5), 0, 31)
    assert str(helped) == "S<5,1,5>: 0 conflicts; 31 conflicts without a swizzle"
    # Every swizzle of these 2047 places would lead to place 2047, behind the tile.
    short = best_swizzle(Layout((32, 63), (64, 1)), [column_access(9)])
    assert (short.helps, short.swizzle) == (False, Swizzle(0, 4, 3))
    assert str(short) == "no swizzle of this tile helps: 31 conflicts with and without"
    fine = best_swizzle(tile, [row_access()])
    assert (fine.helps, fine.swizzle) == (False, Swizzle(0, 4, 3))
    assert str(fine) == "no swizzle is needed: 0 conflicts without one"
    with pytest.raises(MemoryAccessError, match="at least one access"):
        best_swizzle(tile, [])


def test_swizzled__without_bits_is_the_layout() -> None:
    tile = Layout((8, 64), (64, 1))
    assert swizzled(tile, (0, 3, 3)) == tile
    assert byte_addresses(swizzled(tile, (3, 3, 3)), column_access(lanes=8)) == [144 * i for i in range(8)]
