"""Count what one memory instruction of a warp costs, from its addresses alone.

Global memory moves in sectors of 32 bytes: a warp's access costs as many as it touches. Shared memory has 32
banks of 4 bytes: threads that want different words of one bank are served one after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cutecourse.errors import CourseError

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "SECTOR_BYTES",
    "BankAccess",
    "MemoryAccessError",
    "Operation",
    "Wavefront",
    "bank_conflicts",
    "copy_bank_conflicts",
    "cost_of",
    "lanes_at_once",
    "ldmatrix_bank_conflicts",
    "least_sectors",
    "sectors_of_atomic",
    "sectors_of_warp_store",
    "sectors_touched",
    "wavefronts",
]

SECTOR_BYTES = 32
BANKS = 32
BANK_BYTES = 4
WARP_LANES = 32
LDMATRIX_ROW_BYTES = 16

Operation = Literal["load", "store", "atomic"]


class MemoryAccessError(CourseError):
    """Addresses that no single warp instruction could have."""


@dataclass(frozen=True)
class Wavefront:
    """One pass over the banks.

    first  the first lane of the group that it serves.
    span   how many lanes this group has: lanes are served 32, 16 or 8 at a time, by their width.
    words  (bank, word, lanes) of each bank that delivers, by bank.
    """

    first: int
    span: int
    words: tuple[tuple[int, int, tuple[int, ...]], ...]

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes that get a word."""
        return tuple(sorted({lane for _, _, lanes in self.words for lane in lanes}))


@dataclass(frozen=True)
class BankAccess:
    """The cost of one access to shared memory.

    wavefronts   passes over the banks that were needed.
    ideal        passes that the same bytes need when no two words want the same bank.
    conflicts    the difference, which is what a profiler reports.
    """

    wavefronts: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Passes lost to conflicts."""
        return self.wavefronts - self.ideal


def sectors_touched(addresses: Iterable[int | None], access_bytes: int) -> frozenset[int]:
    """The sectors (address // 32) that hold any byte of the access.

    Units:  `addresses` in bytes, one for each lane, None for a lane that takes no part; `access_bytes` for
            each lane: 1, 2, 4, 8 or 16.
    Errors: MemoryAccessError for another width or an address that is no multiple of it.

    >>> sorted(sectors_touched([0, 4, 60], 4))
    [0, 1]
    """
    checked = _checked(addresses, access_bytes)
    return frozenset(address // SECTOR_BYTES for address in checked.values())


def least_sectors(addresses: Iterable[int | None], access_bytes: int) -> int:
    """How many sectors would hold the bytes of the access if they lay one behind the other.

    Lanes that want the same byte want it once.
    Units:  as for `sectors_touched`.
    Errors: as for `sectors_touched`.

    >>> least_sectors([64 * lane for lane in range(32)], 4), least_sectors([0] * 32, 4)
    (4, 1)
    """
    checked = _checked(addresses, access_bytes)
    return -(-len(set(checked.values())) * access_bytes // SECTOR_BYTES)


def sectors_of_warp_store(addresses: Iterable[int | None], access_bytes: int) -> int:
    """How many 32-byte sectors one store (or load) instruction of a warp touches.

    The best possible is bytes / 32: 4 for 32 lanes of 4 bytes. Loads and stores count alike.
    Simplified: caches and the merging of stores in L2 are left out.
    Source:     CUDA C++ Best Practices Guide, Coalesced Access to Global Memory.

    >>> sectors_of_warp_store([4 * lane for lane in range(32)], 4)
    4
    >>> sectors_of_warp_store([64 * lane for lane in range(32)], 4)
    32
    """
    return len(sectors_touched(addresses, access_bytes))


def sectors_of_atomic(addresses: Iterable[int | None], access_bytes: int) -> int:
    """How many sectors a red or atom of a warp touches: lanes at the same word go one after another.

    Each time around, the sectors of the lanes that go are touched anew.
    Units:  as for `sectors_touched`.
    Errors: as for `sectors_touched`.
    Source: as an H200 counts them (benchmarks/memory_counters.py).

    >>> sectors_of_atomic([4 * lane for lane in range(32)], 4), sectors_of_atomic([0] * 32, 4)
    (4, 32)
    """
    checked = _checked(addresses, access_bytes)
    most: dict[int, int] = {}
    for address, count in Counter(checked.values()).items():
        sector = address // SECTOR_BYTES
        most[sector] = max(count, most.get(sector, 0))
    return sum(most.values())


def bank_conflicts(
    addresses: Iterable[int | None], access_bytes: int, operation: Operation = "load"
) -> BankAccess:
    """How many passes over the 32 banks one shared-memory instruction of a warp takes.

    Lanes that want the same word share it. Accesses of 8 and 16 bytes are served for 16 and for 8 lanes at a
    time, so without a conflict they take 2 and 4 passes for a full warp.

    A load is served faster if all lanes of the warp agree with their neighbours: each active lane i has the
    address of lane i xor 1, or each that of lane i xor 2, where those are active. Then 32 lanes with 8 bytes,
    or 16 lanes with 16 bytes, are served at a time. Stores have no such rule. Atomic operations at the same
    word wait for each other.
    Units:      `addresses` in bytes, lane 0 first, None for a lane that takes no part; `access_bytes` for
                each lane: 1, 2, 4, 8 or 16; `operation` "load", "store" or "atomic".
    Errors:     MemoryAccessError for another width, a misaligned address or more than 32 lanes.
    Source:     CUDA C++ Programming Guide, Shared Memory (32 banks of 4 bytes); the groups, and when they
                merge, as an H200 counts them (benchmarks/memory_counters.py).

    >>> bank_conflicts([4 * lane for lane in range(32)], 4)
    BankAccess(wavefronts=1, ideal=1)
    >>> bank_conflicts([128 * lane for lane in range(32)], 4).wavefronts
    32
    """
    return cost_of(wavefronts(addresses, access_bytes, operation))


def lanes_at_once(access_bytes: int) -> int:
    """How many lanes are served together: as many as 128 bytes are enough for."""
    return BANKS * BANK_BYTES // max(access_bytes, BANK_BYTES)


def wavefronts(
    addresses: Iterable[int | None], access_bytes: int, operation: Operation = "load"
) -> tuple[Wavefront, ...]:
    """Deal the words of an access to wavefronts: each bank delivers its words in the order of the lanes.

    Arguments, errors and source are those of `bank_conflicts`.

    >>> [wave.lanes for wave in wavefronts([0, 128, 4], 4)]
    [(0, 2), (1,)]
    """
    checked = _checked(addresses, access_bytes)
    span = lanes_at_once(access_bytes)
    if operation == "load" and span < WARP_LANES and _neighbours_agree(checked):
        span *= 2
    found = []
    for first in range(0, WARP_LANES, span):
        wanted: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(BANKS)]
        for lane, address in _some(checked, first, span).items():
            for byte in range(address, address + max(access_bytes, BANK_BYTES), BANK_BYTES):
                word = byte // BANK_BYTES
                # Lanes share a word, but atomic operations on it come one after another.
                one = (word, lane if operation == "atomic" else -1)
                wanted[word % BANKS].setdefault(one, []).append(lane)
        queues = [(bank, [*queue.items()]) for bank, queue in enumerate(wanted) if queue]
        for turn in range(max((len(queue) for _, queue in queues), default=0)):
            served = [(bank, *queue[turn]) for bank, queue in queues if turn < len(queue)]
            found.append(
                Wavefront(first, span, tuple((bank, word, tuple(lanes)) for bank, (word, _), lanes in served))
            )
    return tuple(found)


def cost_of(waves: Iterable[Wavefront]) -> BankAccess:
    """How many wavefronts an access takes, and how many would do if no two of its words met in a bank."""
    count = 0
    words: dict[int, set[int]] = {}
    for wave in waves:
        count += 1
        words.setdefault(wave.first, set()).update(word for _, word, _ in wave.words)
    return BankAccess(count, sum(-(-len(one) // BANKS) for one in words.values()))


def ldmatrix_bank_conflicts(row_addresses: Sequence[int]) -> BankAccess:
    """How many passes an ldmatrix takes: each 8x8 matrix is 8 rows of 16 bytes, all 32 banks once at best.

    Each matrix is served by itself, also if two are the same. stmatrix counts alike, and so do both with
    `.trans`.
    `row_addresses` in bytes: 8, 16 or 32 of them, lane 0 first, for .x1, .x2 and .x4.
    Errors: MemoryAccessError for another number of rows or a row that is not aligned to 16 bytes.

    >>> ldmatrix_bank_conflicts([16 * row for row in range(8)])
    BankAccess(wavefronts=1, ideal=1)
    >>> ldmatrix_bank_conflicts([128 * row for row in range(8)]).conflicts
    7
    """
    if len(row_addresses) not in (8, 16, 32):
        raise MemoryAccessError(f"ldmatrix takes 8, 16 or 32 rows (.x1, .x2, .x4), not {len(row_addresses)}.")
    return bank_conflicts(row_addresses, LDMATRIX_ROW_BYTES, "store")


def copy_bank_conflicts(
    sources: Iterable[int | None], destinations: Iterable[int | None], access_bytes: int, *, cached: bool
) -> BankAccess:
    """How many passes the shared side of a cp.async takes, which depends on its source as well.

    Lanes are served in the groups of a store. With `.ca` (`cached`) the bytes come from L1, which has the
    same 32 banks: lanes whose sources want different words of one bank wait as well. With `.cg` they come
    from L2, line by line: a group takes a pass for each line of 128 bytes that it reads from, and if it reads
    both whole and half sectors of that line, two.
    Units:  both addresses in bytes, lane 0 first, None for a lane that takes no part; a lane that fills with
            zeros counts with the address that it names. `access_bytes` for each lane: 4, 8 or 16.
    Errors: as for `bank_conflicts`.
    Source: as Nsight Compute counts them for an H200 (benchmarks/memory_counters.py).

    >>> lanes = range(32)
    >>> behind, rows = [16 * lane for lane in lanes], [lane // 4 * 192 + lane % 4 * 16 for lane in lanes]
    >>> copy_bank_conflicts(behind, behind, 16, cached=False)
    BankAccess(wavefronts=4, ideal=4)
    >>> copy_bank_conflicts(rows, behind, 16, cached=False)
    BankAccess(wavefronts=8, ideal=8)
    >>> copy_bank_conflicts(rows, behind, 16, cached=True)
    BankAccess(wavefronts=4, ideal=4)
    """
    checked, origins = _checked(destinations, access_bytes), _checked(sources, access_bytes)
    lanes_at_once = WARP_LANES * BANK_BYTES // access_bytes
    wavefronts = ideal = 0
    for start in range(0, WARP_LANES, lanes_at_once):
        group, origin = _some(checked, start, lanes_at_once), _some(origins, start, lanes_at_once)
        if not group:
            continue
        if cached:
            depths = (_deepest_bank(_words(some.values(), access_bytes)) for some in (group, origin))
            wavefronts, ideal = wavefronts + max(depths), ideal + 1
            continue
        for lanes in _by_line(origin, access_bytes):
            wavefronts += _deepest_bank(_words((group[lane] for lane in lanes), access_bytes))
            ideal += 1
    return BankAccess(wavefronts, ideal)


def _by_line(origin: Mapping[int, int], access_bytes: int) -> list[list[int]]:
    """The lanes of a group by the line of their source, and by whether its sector is read whole."""
    held = Counter(address // SECTOR_BYTES for address in set(origin.values()))
    found: dict[tuple[int, bool], list[int]] = {}
    for lane, address in origin.items():
        whole = held[address // SECTOR_BYTES] * access_bytes == SECTOR_BYTES
        found.setdefault((address // (BANKS * BANK_BYTES), whole), []).append(lane)
    return list(found.values())


def _words(addresses: Iterable[int], access_bytes: int) -> set[int]:
    return {
        (address + byte) // BANK_BYTES for address in addresses for byte in range(0, access_bytes, BANK_BYTES)
    }


def _some(checked: Mapping[int, int], start: int, count: int) -> dict[int, int]:
    return {lane: address for lane, address in checked.items() if start <= lane < start + count}


def _neighbours_agree(checked: Mapping[int, int]) -> bool:
    """Return whether every lane of the warp has the address of the lane at distance 1, or of that at 2."""
    return any(
        all(checked.get(lane ^ distance, address) == address for lane, address in checked.items())
        for distance in (1, 2)
    )


def _deepest_bank(words: Iterable[int]) -> int:
    wanted = [0] * BANKS
    for word in words:
        wanted[word % BANKS] += 1
    return max(wanted)


def _checked(addresses: Iterable[int | None], access_bytes: int) -> Mapping[int, int]:
    """The lanes that take part and their addresses."""
    if access_bytes not in (1, 2, 4, 8, 16):
        raise MemoryAccessError(f"a lane accesses 1, 2, 4, 8 or 16 bytes at once, not {access_bytes}.")
    listed = [None if address is None else int(address) for address in addresses]
    active = {lane: address for lane, address in enumerate(listed) if address is not None}
    if not active or len(listed) > WARP_LANES:
        count = len(listed) if active else 0
        raise MemoryAccessError(f"a warp has 1 to {WARP_LANES} active lanes, not {count}.")
    for lane, address in active.items():
        if address < 0 or address % access_bytes:
            raise MemoryAccessError(
                f"lane {lane}'s address {address} is no multiple of {access_bytes} bytes; a GPU would fault."
            )
    return active
