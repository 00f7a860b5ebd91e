"""Count the bank conflicts of a layout in shared memory, and find the swizzle that removes them.

`memory_access` counts from addresses. Here a layout gives the addresses: an access names one coordinate of
the tile for each lane, and any layout, swizzled or not, says where these coordinates lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cutecourse.layout import (
    ComposedLayout,
    Layout,
    Swizzle,
    composition,
    cosize,
    get_nonswizzle_portion,
    get_swizzle_portion,
    size,
)
from cutecourse.memory_access import (
    BANK_BYTES,
    BANKS,
    BankAccess,
    MemoryAccessError,
    Operation,
    bank_conflicts,
)

__all__ = [
    "SharedAccess",
    "SwizzleChoice",
    "SwizzleCost",
    "bank_access",
    "best_swizzle",
    "block_access",
    "byte_addresses",
    "column_access",
    "ldmatrix_access",
    "row_access",
    "swizzle_conflicts",
]

NO_SWIZZLE = Swizzle(0, 4, 3)
MATRIX_ROWS = 8


@dataclass(frozen=True)
class SharedAccess:
    """One instruction of a warp, in coordinates of a tile.

    name    what the access is called in tables and widgets.
    coords  (row, column) of the first element of each lane, lane 0 first.
    elems   how many elements each lane accesses; they lie side by side in memory.
    kind    "load", "store", "atomic", or "matrix" for ldmatrix and stmatrix; see `bank_conflicts`.
    """

    name: str
    coords: Sequence[tuple[int, int]]
    elems: int = 1
    kind: str = "load"


def row_access(
    row: int = 0, *, lanes: int = 32, elems: int = 1, start: int = 0, kind: str = "load"
) -> SharedAccess:
    """Let the lanes go along a row: lane i accesses `elems` elements from column `start + i * elems`.

    >>> row_access(2, lanes=4).coords
    ((2, 0), (2, 1), (2, 2), (2, 3))
    """
    coords = tuple((row, start + lane * elems) for lane in range(lanes))
    return SharedAccess(f"row {row}", coords, elems, kind)


def column_access(
    column: int = 0, *, lanes: int = 32, elems: int = 1, start: int = 0, kind: str = "load"
) -> SharedAccess:
    """Let the lanes go down a column: lane i accesses `elems` elements of row `start + i`.

    >>> column_access(5, lanes=3, start=8).coords
    ((8, 5), (9, 5), (10, 5))
    """
    coords = tuple((start + lane, column) for lane in range(lanes))
    return SharedAccess(f"column {column}", coords, elems, kind)


def block_access(
    rows: int, columns: int, *, elems: int, at: tuple[int, int] = (0, 0), kind: str = "store"
) -> SharedAccess:
    """Let the lanes fill a block row by row, as cp.async does: `elems` elements for each lane.

    >>> block_access(2, 4, elems=2).coords
    ((0, 0), (0, 2), (1, 0), (1, 2))
    """
    coords = tuple(
        (at[0] + row, at[1] + column) for row in range(rows) for column in range(0, columns, elems)
    )
    return SharedAccess(f"block {rows}x{columns} at ({at[0]}, {at[1]})", coords, elems, kind)


def ldmatrix_access(
    at: tuple[int, int] = (0, 0), *, matrices: int = 4, elems: int = 8, trans: bool = False
) -> SharedAccess:
    """Let ldmatrix read 1, 2 or 4 matrices: 8 rows of 16 bytes each, one row's address from each lane.

    The matrices lie below each other in pairs, then beside each other: the order of a fragment of A. With
    `trans` rows and columns change places: a row of 16 bytes runs along mode 0, as in an M-major tile.
    `elems` elements fill a row of 16 bytes. stmatrix writes the same places.

    >>> ldmatrix_access(matrices=1).coords[:3], ldmatrix_access(matrices=1, trans=True).coords[:3]
    (((0, 0), (1, 0), (2, 0)), ((0, 0), (0, 1), (0, 2)))
    """
    starts = [(0, 0), (MATRIX_ROWS, 0), (0, elems), (MATRIX_ROWS, elems)][:matrices]
    pairs = [(down + row, across) for down, across in starts for row in range(MATRIX_ROWS)]
    if trans:
        pairs = [(across, down) for down, across in pairs]
    coords = tuple((at[0] + row, at[1] + column) for row, column in pairs)
    name = f"ldmatrix.x{matrices}{'.trans' if trans else ''} at ({at[0]}, {at[1]})"
    return SharedAccess(name, coords, elems, "matrix")


def byte_addresses(layout: Any, access: SharedAccess, *, element_bits: int = 16) -> list[int]:
    """Compute the byte address of each lane in a tile that starts at address 0.

    Errors: MemoryAccessError, for a coordinate outside the tile or a swizzle that moves the elements of one
    lane apart.

    >>> byte_addresses(Layout((8, 64), (64, 1)), column_access(1, lanes=3))
    [2, 130, 258]
    """
    _check_vector(get_swizzle_portion(layout), access.elems)
    return [offset * element_bits // 8 for offset in _offsets(layout, access)]


def bank_access(layout: Any, access: SharedAccess, *, element_bits: int = 16) -> BankAccess:
    """Count the wavefronts of one access to a tile with this layout.

    Errors: MemoryAccessError, as `byte_addresses` and `bank_conflicts`.

    >>> bank_access(Layout((32, 64), (64, 1)), column_access(0))
    BankAccess(wavefronts=32, ideal=1)
    """
    return _cost(byte_addresses(layout, access, element_bits=element_bits), access, element_bits)


@dataclass(frozen=True)
class SwizzleCost:
    """One swizzle, and the cost of each access with it, in the order of the accesses."""

    swizzle: Swizzle
    costs: tuple[BankAccess, ...]

    @property
    def conflicts(self) -> int:
        """The number of conflicts of all accesses together."""
        return sum(cost.conflicts for cost in self.costs)

    @property
    def wavefronts(self) -> int:
        """The wavefronts of all accesses together."""
        return sum(cost.wavefronts for cost in self.costs)

    def __str__(self) -> str:
        each = ", ".join(str(cost.conflicts) for cost in self.costs[:8])
        more = ", ..." if len(self.costs) > 8 else ""
        return f"{self.swizzle}: {_counted(self.conflicts, 'conflict')} ({each}{more})"


@dataclass(frozen=True)
class SwizzleChoice:
    """The swizzle with the fewest conflicts, beside the same accesses without a swizzle."""

    best: SwizzleCost
    without: SwizzleCost

    @property
    def swizzle(self) -> Swizzle:
        """The chosen swizzle; `S<0,4,3>`, which changes nothing, when none helps."""
        return self.best.swizzle

    @property
    def conflicts(self) -> int:
        """The conflicts that remain with the chosen swizzle."""
        return self.best.conflicts

    @property
    def helps(self) -> bool:
        """Whether the swizzle removes at least one conflict."""
        return self.best.conflicts < self.without.conflicts

    def __str__(self) -> str:
        before = _counted(self.without.conflicts, "conflict")
        if self.helps:
            return f"{self.swizzle}: {_counted(self.conflicts, 'conflict')}; {before} without a swizzle"
        if self.without.conflicts:
            return f"no swizzle of this tile helps: {before} with and without"
        return "no swizzle is needed: 0 conflicts without one"


def swizzle_conflicts(
    layout: Any, accesses: Iterable[SharedAccess], *, element_bits: int = 16
) -> list[SwizzleCost]:
    """List the conflicts of every swizzle that makes sense for a tile, the best first.

    `Swizzle<B,M,S>` makes sense if it flips only bits of the offset that choose a bank, keeps each lane's
    elements together (`2**M` is at least their number), reads only bits that vary within the tile, and leads
    to no place behind it. The list also holds `S<0,4,3>`, which changes nothing. A swizzle that the layout
    has already is replaced.
    Order:  fewest conflicts, then fewest bits B, then the largest base M (which keeps longer vectors whole),
            then the smallest shift S.
    Units:  the swizzles count in elements, like the offsets of the layout.
    Errors: MemoryAccessError, for an access that this tile does not have or no instruction makes.

    >>> tile, ldmatrix = Layout((8, 64), (64, 1)), ldmatrix_access(matrices=1)
    >>> print(*swizzle_conflicts(tile, [ldmatrix])[:2], sep="; ")
    S<3,3,3>: 0 conflicts (0); S<2,4,2>: 1 conflict (1)
    """
    listed = list(accesses)
    if not listed:
        raise MemoryAccessError(
            "give at least one access; without one every swizzle is as good as any other."
        )
    plain = get_nonswizzle_portion(layout)
    # The swizzle of a composed layout also acts on its offset.
    start = layout.offset if isinstance(layout, ComposedLayout) else 0
    offsets = [[start + offset for offset in _offsets(plain, access)] for access in listed]

    def cost(swizzle: Swizzle) -> SwizzleCost:
        addresses = [[swizzle(offset) * element_bits // 8 for offset in lanes] for lanes in offsets]
        each = (_cost(at, access, element_bits) for at, access in zip(addresses, listed, strict=True))
        return SwizzleCost(swizzle, tuple(each))

    places = start + cosize(plain)
    found = [cost(swizzle) for swizzle in _swizzles(places, element_bits, max(a.elems for a in listed))]
    return sorted(
        found,
        key=lambda one: (
            one.conflicts,
            one.swizzle.num_bits,
            -one.swizzle.num_base,
            one.swizzle.num_shift,
        ),
    )


def best_swizzle(layout: Any, accesses: Iterable[SharedAccess], *, element_bits: int = 16) -> SwizzleChoice:
    """Pick the swizzle with the fewest conflicts over all accesses, then with the fewest bits.

    Errors: as `swizzle_conflicts`.

    >>> print(best_swizzle(Layout((32, 32), (32, 1)), [row_access(3), column_access(3)], element_bits=32))
    S<5,0,5>: 0 conflicts; 31 conflicts without a swizzle
    """
    costs = swizzle_conflicts(layout, accesses, element_bits=element_bits)
    return SwizzleChoice(costs[0], next(one for one in costs if one.swizzle == NO_SWIZZLE))


def _swizzles(places: int, element_bits: int, vector_elems: int) -> Iterable[Swizzle]:
    """Every swizzle that makes sense for `places` elements, as `swizzle_conflicts` says."""
    yield NO_SWIZZLE
    # The bits of an offset that choose a bank: above those inside a word, below those that choose the line.
    lowest = max(_log2(max(1, 8 * BANK_BYTES // element_bits)), _log2(vector_elems))
    end = _log2(max(1, 8 * BANK_BYTES * BANKS // element_bits))
    top = (places - 1).bit_length()
    for base in range(lowest, end):
        for bits in range(1, end - base + 1):
            # A swizzle permutes each run of 2**(base + bits) offsets; a broken last run would lead outside.
            if places % (1 << (base + bits)) == 0:
                for shift in range(bits, top - base - bits + 1):
                    yield Swizzle(bits, base, shift)


def _cost(addresses: Sequence[int], access: SharedAccess, element_bits: int) -> BankAccess:
    # ldmatrix and stmatrix never serve two matrices together; neither does a store with two groups of lanes.
    kinds: dict[str, Operation] = {"load": "load", "store": "store", "atomic": "atomic", "matrix": "store"}
    if access.kind not in kinds:
        raise MemoryAccessError(f"{access.name}: {access.kind!r} is none of {', '.join(kinds)}.")
    return bank_conflicts(addresses, access.elems * element_bits // 8, kinds[access.kind])


def _offsets(layout: Any, access: SharedAccess) -> list[int]:
    if len(layout) != 2:
        raise MemoryAccessError(f"an access names rows and columns, and {layout} has {len(layout)} modes.")
    extents = (size(layout[0]), size(layout[1]))
    for lane, coord in enumerate(access.coords):
        if not all(0 <= part < extent for part, extent in zip(coord, extents, strict=True)):
            raise MemoryAccessError(
                f"{access.name}: lane {lane} accesses {coord}, and the tile has {extents[0]} rows "
                f"and {extents[1]} columns."
            )
    return [layout(coord) for coord in access.coords]


def _check_vector(swizzle: Swizzle, elems: int) -> None:
    if swizzle.num_bits and (1 << swizzle.num_base) < elems:
        raise MemoryAccessError(
            f"{swizzle} moves the {elems} elements of one lane apart; "
            f"its base must be at least {_log2(elems)}."
        )


def _log2(power: int) -> int:
    return power.bit_length() - 1


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def swizzled(layout: Layout, numbers: Sequence[int]) -> Any:
    """Put a swizzle, given as (B, M, S), in front of a layout; without bits the layout stays as it is.

    >>> print(swizzled(Layout((8, 64), (64, 1)), (3, 3, 3)))
    S<3,3,3> o 0 o (8,64):(64,1)
    """
    bits, base, shift = numbers
    return composition(Swizzle(bits, base, shift), layout) if bits else layout
