"""A tile of shared memory: where its elements lie, which bank holds them, and how an access is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from cutecourse.banks import SharedAccess, swizzled
from cutecourse.errors import CourseError
from cutecourse.layout import Layout, coalesce, cosize, flatten_to_tuple, size
from cutecourse.memory_access import (
    BANK_BYTES,
    BANKS,
    Operation,
    Wavefront,
    cost_of,
    lanes_at_once,
    wavefronts,
)
from cutecourse.widgets.errors import WidgetError

WARP_LANES = 32
MOST_CELLS = 4096
KINDS = ("load", "store", "atomic", "matrix")
ELEMENT_BITS = (8, 16, 32, 64)
MOST_SWIZZLE_BITS = 6
MOST_BASE = 12
MOST_SHIFT = 12
MOST_PADDING = 64


@dataclass(frozen=True)
class LaneAccess:
    """One access in a widget's state: the index row + rows * column of each lane, -1 for an idle lane."""

    name: str
    elems: int
    indices: tuple[int, ...]
    kind: str = "load"

    def to_snapshot(self) -> dict[str, Any]:
        """The access as plain data."""
        return {"name": self.name, "elems": self.elems, "kind": self.kind, "indices": list(self.indices)}

    @classmethod
    def of(cls, value: Any, extents: tuple[int, int]) -> LaneAccess:
        """Read a `SharedAccess`, a `LaneAccess` or its snapshot.

        Errors: WidgetError, for anything else and for a coordinate outside the tile.
        """
        if isinstance(value, SharedAccess):
            for lane, (row, column) in enumerate(value.coords):
                if not (0 <= row < extents[0] and 0 <= column < extents[1]):
                    raise WidgetError(
                        f"{value.name}: lane {lane} accesses ({row}, {column}), and the tile has "
                        f"{extents[0]} rows and {extents[1]} columns."
                    )
            indices = tuple(row + extents[0] * column for row, column in value.coords)
            return cls(value.name, value.elems, indices, value.kind)
        if isinstance(value, LaneAccess):
            return value
        try:
            indices = tuple(int(index) for index in value["indices"])
            made = cls(str(value["name"]), int(value["elems"]), indices, str(value.get("kind", "load")))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise WidgetError(
                f"{value!r} is no access; make one with row_access, column_access or ldmatrix_access."
            ) from error
        return made


def check_access(access: LaneAccess, places: int, element_bits: int) -> None:
    """Refuse an access that no instruction of a warp makes.

    Errors: WidgetError.
    """
    if access.elems * element_bits not in (8, 16, 32, 64, 128):
        raise WidgetError(
            f"{access.name}: {access.elems} elements of {element_bits} bits; a lane accesses "
            "1, 2, 4, 8 or 16 bytes at once."
        )
    if access.kind not in KINDS:
        raise WidgetError(f"{access.name}: {access.kind!r} is none of {', '.join(KINDS)}.")
    if not 1 <= len(access.indices) <= WARP_LANES or all(index < 0 for index in access.indices):
        raise WidgetError(f"{access.name}: a warp has 1 to {WARP_LANES} active lanes.")
    if max(access.indices) >= places:
        raise WidgetError(
            f"{access.name}: index {max(access.indices)} is none of the tile's {places} elements."
        )


@dataclass(frozen=True)
class Tile:
    """A tile with its padding and its swizzle.

    layout   the plain layout, without padding.
    bits     the width of an element.
    swizzle  (B, M, S), counted in elements.
    padding  elements added to the larger stride, so behind each row of a row-major tile.
    base     the byte at which the tile begins.
    """

    layout: Layout
    bits: int = 16
    swizzle: tuple[int, int, int] = (0, 3, 3)
    padding: int = 0
    base: int = 0

    @property
    def extents(self) -> tuple[int, int]:
        """(rows, columns)."""
        return size(self.layout[0]), size(self.layout[1])

    @cached_property
    def padded_mode(self) -> int | None:
        """The mode whose stride grows with the padding; None where the layout has no such single stride."""
        strides = flatten_to_tuple(self.layout.stride)
        if len(strides) != 2 or 1 not in strides or strides[0] == strides[1]:
            return None
        return 0 if strides[0] > strides[1] else 1

    @cached_property
    def plain(self) -> Layout:
        """The layout with the padding, without the swizzle."""
        if not self.padding or self.padded_mode is None:
            return self.layout
        strides = list(flatten_to_tuple(self.layout.stride))
        strides[self.padded_mode] += self.padding
        return Layout(self.extents, tuple(strides))

    @cached_property
    def whole(self) -> Any:
        """The layout with padding and swizzle."""
        return swizzled(self.plain, self.swizzle)

    @cached_property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """(offset, offset after the swizzle) of each element, by index."""
        return tuple((self.plain(i), self.whole(i)) for i in range(size(self.plain)))

    @property
    def places(self) -> int:
        """How many elements the tile takes in memory, its padding included."""
        if self.padded_mode is None:
            return cosize(self.plain)
        strides = flatten_to_tuple(self.plain.stride)
        return int(self.extents[self.padded_mode] * strides[self.padded_mode])

    @property
    def bytes(self) -> int:
        """How many bytes the tile takes."""
        return self.places * self.bits // 8

    @cached_property
    def across(self) -> int:
        """The mode that a picture draws across: the one that holds the stride 1."""
        return 0 if 1 in _strides(self.layout[0]) and 1 not in _strides(self.layout[1]) else 1

    def index(self, row: int, column: int) -> int:
        """The index of a coordinate."""
        return row + self.extents[0] * column

    def unit(self, access: LaneAccess | None) -> int:
        """How many elements a cell of the picture holds: what a lane accesses at once, at least a word.

        Fewer where so many elements do not lie side by side.
        """
        # A layout adds up over its modes, so one row tells for all.
        unit = max(BANK_BYTES * 8 // self.bits, access.elems if access else 1, 1)
        extent = self.extents[self.across]
        step = 1 if self.across == 0 else self.extents[0]
        while unit > 1:
            whole = extent % unit == 0 and all(
                self.offsets[i * step][0] == self.offsets[(i - i % unit) * step][0] + i % unit
                for i in range(extent)
            )
            if whole:
                break
            unit //= 2
        return unit

    def address(self, index: int) -> int:
        """The byte at which an element lies."""
        return self.base + self.offsets[index][1] * self.bits // 8

    def bank(self, index: int) -> int:
        """The bank of an element's first byte."""
        return self.address(index) // BANK_BYTES % BANKS

    def addresses(self, access: LaneAccess) -> list[int | None]:
        """The byte at which each lane begins; None for a lane that takes no part."""
        return [None if index < 0 else self.address(index) for index in access.indices]

    def access_bytes(self, access: LaneAccess) -> int:
        """How many bytes each lane accesses."""
        return access.elems * self.bits // 8

    def waves(self, access: LaneAccess | None) -> tuple[Wavefront, ...]:
        """The wavefronts of an access; none for one that cannot run on this tile."""
        if access is None or self.obstacle(access):
            return ()
        operation = "store" if access.kind == "matrix" else access.kind
        return wavefronts(self.addresses(access), self.access_bytes(access), cast(Operation, operation))

    def obstacle(self, access: LaneAccess) -> str:
        """Why the instruction cannot run on this tile; "" when it can."""
        bits, base, shift = self.swizzle
        if bits and 1 << base < access.elems:
            least = access.elems.bit_length() - 1
            return (
                f"Swizzle<{bits},{base},{shift}> moves the {access.elems} elements of one lane apart. "
                f"M must be at least {least}."
            )
        n_bytes = self.access_bytes(access)
        for lane, address in enumerate(self.addresses(access)):
            if address is not None and address % n_bytes:
                return (
                    f"Lane {lane} would access byte {address}, which is no multiple of {n_bytes}. "
                    "A GPU stops with a misaligned address."
                )
        return ""

    def overrun(self) -> str:
        """Say where the swizzle leads behind the tile; "" when it does not."""
        for before, after in self.offsets:
            if after >= self.places:
                return (
                    f"The swizzle sends offset {before} to {after}, and the tile ends after offset "
                    f"{self.places - 1}."
                )
        return ""


def _strides(layout: Layout) -> tuple[int, ...]:
    return tuple(flatten_to_tuple(layout.stride))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def spans(numbers: Sequence[int]) -> str:
    """Write ascending numbers as runs: `0 to 7, 12`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" if b > a + 1 else f"{a}, {b}" for a, b in runs)


def lanes_named(lanes: Sequence[int]) -> str:
    """Write lanes as words: `lane 3`, `lanes 0 to 7`."""
    return f"lane{'' if len(lanes) == 1 else 's'} {spans(lanes)}"


def sentence(tile: Tile, access: LaneAccess) -> str:
    """Say in words what an access costs: how many lanes meet in which bank, wavefronts, conflicts."""
    problem = tile.obstacle(access)
    if problem:
        return problem
    addresses = tile.addresses(access)
    n_bytes = tile.access_bytes(access)
    waves = tile.waves(access)
    groups = sorted({(wave.first, wave.span) for wave in waves})
    by_group = {group: [wave for wave in waves if wave.first == group[0]] for group in groups}
    cost = cost_of(waves)
    first, span = worst = max(groups, key=lambda group: (len(by_group[group]), -group[0]))
    depth = len(by_group[worst])
    bank = min(bank for bank, _, _ in by_group[worst][-1].words)
    active = [address for address in addresses[first : first + span] if address is not None]
    starting = [address // BANK_BYTES for address in active if address // BANK_BYTES % BANKS == bank]
    if depth == 1:
        told = "no bank is asked for two different words"
    elif len(set(starting)) == len(starting) == depth:
        told = f"{len(starting)} of {len(active)} lanes start in bank {bank}"
    elif access.kind == "atomic":
        told = f"{depth} lanes update words of bank {bank}, one after another"
    else:
        told = f"bank {bank} is asked for {depth} different words"
    would_do = f" where {cost.ideal} would do" if cost.conflicts else ""
    total = f"{_counted(cost.wavefronts, 'wavefront')}{would_do}, {_counted(cost.conflicts, 'conflict')}"
    if len(groups) == 1:
        return f"{told[0].upper()}{told[1:]}: {total}."
    at_once = lanes_at_once(n_bytes)
    merged = f", or {2 * at_once} if each wants what its neighbour wants"
    together = merged if any(width > at_once for _, width in groups) else ""
    served = f"Each lane accesses {n_bytes} bytes, so {at_once} lanes are served together{together}."
    if depth == 1:
        return f"{served} In each group {told}: {total}."
    told = told.replace(" lanes start", " start")
    group = f"Lanes {first} to {first + span - 1}: {told}, so {depth} wavefronts."
    return f"{served} {group} All {len(groups)} groups together: {total}."


def wavefront_sentence(waves: Sequence[Wavefront], wavefront: int) -> str:
    """Say in words what one wavefront serves; "" for 0, which stands for all of them."""
    if not wavefront or not waves:
        return ""
    wavefront = min(wavefront, len(waves))
    one = waves[wavefront - 1]
    busy = len(one.words)
    return (
        f"Wavefront {wavefront} of {len(waves)} serves {lanes_named(one.lanes)}: {busy} of the {BANKS} banks "
        f"{'delivers' if busy == 1 else 'deliver'} a word."
    )


def place_sentence(tile: Tile, row: int, column: int) -> str:
    """Say in words where an element lies."""
    index = tile.index(row, column)
    before, after = tile.offsets[index]
    address = tile.address(index)
    moved = f", and the swizzle makes it {after}" if after != before else ""
    return (
        f"({row}, {column}) has offset {before}{moved}. This is byte {address}, "
        f"in word {address // BANK_BYTES} of bank {tile.bank(index)}."
    )


def bits_of(tile: Tile) -> dict[str, Any]:
    """The bits of an offset: how many, those that choose the bank, those read and those flipped."""
    bits, base, shift = tile.swizzle
    low = max(0, (BANK_BYTES * 8 // tile.bits).bit_length() - 1)
    high = max(1, BANKS * BANK_BYTES * 8 // tile.bits).bit_length() - 1
    read = list(range(base + shift, base + shift + bits))
    count = max((tile.places - 1).bit_length(), high, *(bit + 1 for bit in read), 1)
    return {
        "count": count,
        "bank": [low, high],
        "read": read,
        "flipped": list(range(base, base + bits)),
    }


def mappable(layout: Any) -> tuple[Layout, tuple[int, int, int]]:
    """Read a layout of two modes, with or without a swizzle: the plain layout, and (B, M, S).

    Errors: WidgetError, with the layout and the rule it breaks.
    """
    if not isinstance(layout, Layout) and not hasattr(layout, "outer"):
        try:
            layout = Layout.parse(str(layout))
        except CourseError as error:
            raise WidgetError(f"{layout!r} is not a layout such as '(64,64):(64,1)': {error}") from error
    numbers = (0, 3, 3)
    plain = layout
    if hasattr(layout, "outer"):
        inner = layout.inner
        if not hasattr(inner, "num_bits") or layout.offset != 0:
            raise WidgetError(f"{layout}: BankMap shows a swizzle in front of a plain layout, at offset 0.")
        plain, numbers = layout.outer, (inner.num_bits, inner.num_base, inner.num_shift)
    if not isinstance(plain, Layout) or len(plain) != 2:
        raise WidgetError(f"{layout} has not two modes; BankMap draws rows and columns.")
    strides = flatten_to_tuple(plain.stride)
    if any(not isinstance(step, int) or step < 0 for step in strides):
        raise WidgetError(f"{layout}: BankMap draws layouts whose strides are integers of 0 and more.")
    if size(plain) > 4 * MOST_CELLS or cosize(plain) > 16 * MOST_CELLS:
        raise WidgetError(f"{layout} has {size(plain)} elements; up to {4 * MOST_CELLS} are drawn.")
    return coalesce(plain, (1, 1)), numbers


def recorded_accesses(
    name: str, kind: str, lanes: Sequence[Sequence[int | None]], access_bytes: int, row_bytes: int, most: int
) -> tuple[Layout, int, list[LaneAccess]]:
    """Turn addresses into a tile of bytes: its layout, the byte it begins at, the distinct accesses.

    Errors: WidgetError, for no access or a row that is no multiple of 4 bytes.
    """
    if row_bytes < BANK_BYTES or row_bytes % BANK_BYTES:
        raise WidgetError(f"row_bytes={row_bytes}: a row has a multiple of 4 bytes.")
    distinct: dict[tuple[int | None, ...], int] = {}
    for one in lanes:
        distinct[tuple(one)] = distinct.get(tuple(one), 0) + 1
    known = [address for one in distinct for address in one if address is not None]
    if not known:
        raise WidgetError(f"{name}: no lane accesses shared memory there.")
    # Swizzles and rows of a tile repeat at 1024 bytes at the latest.
    base = min(known) // 1024 * 1024
    rows = -(-(max(known) + access_bytes - base) // row_bytes)
    rows = max(rows, 1)
    layout = Layout((rows, row_bytes), (row_bytes, 1))
    made = []
    for number, (one, times) in enumerate(list(distinct.items())[:most], 1):
        indices = tuple(
            -1 if a is None else (a - base) // row_bytes + rows * ((a - base) % row_bytes) for a in one
        )
        label = f"{name}, {number} of {len(distinct)}" if len(distinct) > 1 else name
        made.append(
            LaneAccess(label if times == 1 else f"{label} ({times} times)", access_bytes, indices, kind)
        )
    return layout, base, made
