"""Sectors and bank conflicts, against cases counted by hand on paper."""

import pytest

from cutecourse.memory_access import (
    BankAccess,
    MemoryAccessError,
    bank_conflicts,
    ldmatrix_bank_conflicts,
    least_sectors,
    sectors_of_atomic,
    sectors_of_warp_store,
    sectors_touched,
)


@pytest.mark.parametrize(
    ("addresses", "access_bytes", "sectors"),
    [
        ([4 * lane for lane in range(32)], 4, 4),  # 128 contiguous bytes
        ([16 + 4 * lane for lane in range(32)], 4, 5),  # the same, begun in the middle of a sector
        ([16 * lane for lane in range(32)], 16, 16),  # 512 contiguous bytes
        ([0] * 32, 4, 1),  # all lanes at one place
        ([8 * lane for lane in range(32)], 4, 8),  # every second word
        ([128 * lane for lane in range(32)], 4, 32),  # one word of each line
        ([96], 2, 1),  # one active lane
    ],
)
def test_sectors_of_warp_store__counts_what_was_counted_by_hand(addresses, access_bytes, sectors):
    assert sectors_of_warp_store(addresses, access_bytes) == sectors


def test_sectors_of_warp_store__row_major_and_column_major_c_of_the_mma():
    # m16n8 C: lane = 4 g + t holds (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1), all f32.
    lanes = [(lane // 4, lane % 4) for lane in range(32)]
    column_major = [[4 * (g + 8 * (v // 2) + 16 * (2 * t + v % 2)) for g, t in lanes] for v in range(4)]
    # One value: 8 rows of 4 bytes are one sector, in each of 4 columns.
    assert [sectors_of_warp_store(addresses, 4) for addresses in column_major] == [4, 4, 4, 4]
    row_major = [[4 * (8 * (g + 8 * half) + 2 * t) for g, t in lanes] for half in range(2)]
    # One pair: a row of 8 floats is one sector, and there are 8 rows.
    assert [sectors_of_warp_store(addresses, 8) for addresses in row_major] == [8, 8]
    # Both ways each sector is written whole over the four or two stores: 16 sectors in all.
    assert len(set().union(*(sectors_touched(addresses, 4) for addresses in column_major))) == 16
    assert len(set().union(*(sectors_touched(addresses, 8) for addresses in row_major))) == 16


@pytest.mark.parametrize(
    ("addresses", "access_bytes", "access"),
    [
        ([4 * lane for lane in range(32)], 4, BankAccess(1, 1)),
        ([0] * 32, 4, BankAccess(1, 1)),  # one word for all: a broadcast
        ([2 * lane for lane in range(32)], 2, BankAccess(1, 1)),  # two lanes share a word
        ([8 * lane for lane in range(32)], 4, BankAccess(2, 1)),  # even banks only, two words each
        ([128 * lane for lane in range(32)], 4, BankAccess(32, 1)),  # bank 0 only
        ([132 * lane for lane in range(32)], 4, BankAccess(1, 1)),  # rows padded by one word
        ([8 * lane for lane in range(32)], 8, BankAccess(2, 2)),  # two halves of the warp
        ([16 * lane for lane in range(32)], 16, BankAccess(4, 4)),  # four quarters
        ([128 * lane for lane in range(32)], 16, BankAccess(32, 4)),  # each quarter on four banks: 8 deep
    ],
)
def test_bank_conflicts__counts_what_was_counted_by_hand(addresses, access_bytes, access):
    assert bank_conflicts(addresses, access_bytes) == access


def test_bank_conflicts__of_the_micro_gemms_a_fragment():
    # K-major A, rows of 32 bytes: lane 4g+t reads word 8g + t, so g and g+4 share a bank.
    fragment = [32 * (lane // 4) + 4 * (lane % 4) for lane in range(32)]
    assert bank_conflicts(fragment, 4) == BankAccess(wavefronts=2, ideal=1)
    # Rows padded from 16 to 24 halves: words 12 g + t, and g*12 mod 32 are 8 different starts, 4 apart.
    padded = [48 * (lane // 4) + 4 * (lane % 4) for lane in range(32)]
    assert bank_conflicts(padded, 4).conflicts == 0


@pytest.mark.parametrize(
    ("row_bytes", "rows", "access"),
    [
        (16, 8, BankAccess(1, 1)),  # 8 rows side by side fill the 32 banks
        (32, 8, BankAccess(2, 1)),  # every second place: banks 0-3, 8-11, 16-19, 24-27 twice
        (128, 8, BankAccess(8, 1)),
        (144, 8, BankAccess(1, 1)),  # padded by 16 bytes
        (16, 32, BankAccess(4, 4)),
        (32, 16, BankAccess(4, 2)),
    ],
)
def test_ldmatrix_bank_conflicts__counts_what_was_counted_by_hand(row_bytes, rows, access):
    assert ldmatrix_bank_conflicts([row_bytes * row for row in range(rows)]) == access


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sectors_of_warp_store([0, 2], 4), "lane 1's address 2 is no multiple of 4"),
        (lambda: sectors_of_warp_store([0], 3), "1, 2, 4, 8 or 16 bytes at once, not 3"),
        (lambda: sectors_of_warp_store([], 4), "1 to 32 active lanes, not 0"),
        (lambda: bank_conflicts(range(0, 132, 4), 4), "1 to 32 active lanes, not 33"),
        (lambda: ldmatrix_bank_conflicts([0, 16]), "8, 16 or 32 rows"),
        (lambda: ldmatrix_bank_conflicts([8 * row for row in range(8)]), "lane 1's address 8"),
    ],
)
def test_memory_access__refuses_what_no_warp_does(call, message):
    with pytest.raises(MemoryAccessError, match=message):
        call()


def pairs(lane):
    """Lanes 2i and 2i+1 alike."""
    return lane // 2


def twos(lane):
    """Lanes i and i+2 alike."""
    return lane // 4 * 2 + lane % 2


@pytest.mark.parametrize(
    ("place", "access_bytes", "wavefronts"),
    [
        # Measured on an H200 (benchmarks/results/memory_counters_h200.json has these and more).
        (lambda lane: 0, 8, 1),
        (pairs, 8, 1),
        (twos, 8, 1),
        (lambda lane: lane % 16, 8, 2),  # the halves are alike, the neighbours are not
        (lambda lane: lane // 8 * 4 + lane % 4, 8, 2),  # lanes i and i+4 alike
        (lambda lane: 40 if lane == 1 else pairs(lane), 8, 2),  # one lane spoils it
        (lambda lane: None if lane % 2 else lane // 2, 8, 1),  # an idle neighbour agrees
        (lambda lane: 0, 16, 2),  # only two quarters become one
        (pairs, 16, 2),
        (twos, 16, 2),
        (lambda lane: lane % 8, 16, 4),
        (lambda lane: lane // 8 * 4 + lane % 4, 16, 4),
        (lambda lane: None if lane % 2 else lane // 2, 16, 2),
        (lambda lane: lane % 2 * 8, 16, 4),  # two halves, each with two words of the same banks
        (lambda lane: pairs(lane) if lane < 16 else lane, 16, 4),  # all lanes of the warp have to agree,
        (lambda lane: pairs(lane) if lane < 16 else twos(lane), 16, 4),  # and in the same way
    ],
)
def test_bank_conflicts__of_a_load_whose_neighbours_agree(place, access_bytes, wavefronts):
    places = [place(lane) for lane in range(32)]
    addresses = [None if one is None else one * access_bytes for one in places]
    assert bank_conflicts(addresses, access_bytes).wavefronts == wavefronts
    # A store serves each half or quarter by itself.
    alone = bank_conflicts(addresses, access_bytes, "store")
    assert alone.ideal == 32 * access_bytes // 128
    assert alone.wavefronts >= wavefronts


@pytest.mark.parametrize(
    ("words", "wavefronts", "sectors"),
    [
        (range(32), 1, 4),
        ([32 * lane for lane in range(32)], 32, 32),
        ([0] * 32, 32, 32),  # one after another, each with the sector to itself
    ],
)
def test_atomics__at_one_word_wait_for_each_other(words, wavefronts, sectors):
    addresses = [4 * word for word in words]
    assert bank_conflicts(addresses, 4, "atomic").wavefronts == wavefronts
    assert sectors_of_atomic(addresses, 4) == sectors


def test_idle_lanes__are_neither_counted_nor_served():
    addresses = [None if lane % 2 else 128 * lane for lane in range(32)]
    assert bank_conflicts(addresses, 4) == BankAccess(16, 1)
    assert sectors_of_warp_store(addresses, 4) == 16
    assert least_sectors(addresses, 4) == 2
    with pytest.raises(MemoryAccessError, match="1 to 32 active lanes, not 0"):
        bank_conflicts([None] * 32, 4)
