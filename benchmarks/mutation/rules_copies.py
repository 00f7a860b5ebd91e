"""Mistakes with copies: TMA and its tensor maps, bulk groups, cp.async, ldmatrix, threads' own stores."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from benchmarks.mutation import sites
from benchmarks.mutation.expected import (
    BESIDE,
    BYTES_BEFORE,
    BYTES_EXTRA,
    BYTES_MISSING,
    ELSEWHERE,
    LAYOUT,
    OTHERS_FACTORS,
    OUTSIDE_TILE,
)
from benchmarks.mutation.rule import (
    Change,
    Find,
    Kernel,
    Place,
    Rule,
    Write,
    at,
    counted,
    dropped,
    moved,
    operand,
    replaced,
)
from cutecourse.errors import CourseError
from cutecourse.tma import TensorMapEncoding

_STORE_LOST = frozenset({"UnfinishedCopy", "OverwrittenSource", "StageReusedEarly"})
_NOT_MULTIPLIED = "threads read the tile, and nothing says by which layout they mean to"
_ONE_TILE = "the kernel is right for another tile, and nothing in it or its launch says which is meant"
_OWN_VALUES = "registers hold no layout: the kernel is right for other places of these values"

# --- changes ------------------------------------------------------------------------------------------------


def a_tile(kernel: Kernel, place: Place, axis: int) -> int:
    """The side of a load's box along an axis, or of all boxes of a multicast; 64 where it is not known."""
    param = sites.map_of(kernel, place)
    return param.encoding.box[axis] * (param.num_multicast if place["mask"] else 1) if param else 64


def coordinate(number: int, step: int) -> Write:
    """One of a copy's coordinates, `step` further on."""

    def write(place: Place) -> str:
        parts = [part.strip() for part in place["coords"].split(",")]
        made = f"add.s32 mutant, {parts[number]}, {step};"
        parts[number] = "mutant"
        return f"{{ .reg .b32 mutant; {made} {replaced(place, 'coords', ', '.join(parts))} }}"

    return write


def swapped(place: Place) -> str:
    """The first two coordinates in the other order."""
    first, second, *others = (part.strip() for part in place["coords"].split(","))
    return replaced(place, "coords", ", ".join([second, first, *others]))


def along(k: bool) -> Find:
    """A coordinate of a load, a tile further on: that along K, or the other."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(sites.LOAD, kernel.code):
            number = sites.along_k(kernel, place)
            axes = len(place["coords"].split(","))
            if number is None:  # no GEMM: each coordinate is of one tile
                chosen = [] if k else list(range(axes))
            else:
                chosen = [number] if k else [axis for axis in range(axes) if axis != number]
            for axis in chosen:
                beyond = _ONE_TILE if number is None and not k else None
                write = coordinate(axis, a_tile(kernel, place, axis))
                yield Change(((place.start(), place.end(), write(place)),), beyond=beyond)

    return find


def swaps(kernel: Kernel) -> Iterator[Change]:
    """Coordinates in the other order."""
    for place in re.finditer(sites.LOAD, kernel.code):
        parts = [part.strip() for part in place["coords"].split(",")]
        if len(parts) > 1:
            yield Change(
                ((place.start(), place.end(), swapped(place)),),
                excluded="both are the same" if parts[0] == parts[1] else None,
                beyond=_ONE_TILE if sites.along_k(kernel, place) is None else None,
            )


def of_maps(loads: bool, change: Callable[[TensorMapEncoding], TensorMapEncoding | None], words: str) -> Find:
    """A field of a tensor map that the host makes, where the driver would take it.

    Of maps for loads, or for stores: a map is for what the kernel uses its parameter for, and where that
    cannot be told from the text, for loads if the kernel has any.
    """

    def find(kernel: Kernel) -> Iterator[Change]:
        for param in kernel.maps:
            if loads != _loads_by(kernel, param.name):
                continue
            encoding = param.encoding
            wanted = change(encoding)
            if wanted is None or wanted == encoding:
                continue
            refused = None
            try:
                wanted.check()
            except CourseError as error:
                refused = f"the driver refuses the map: {str(error).splitlines()[0]}"
            yield Change(
                maps={param.name: wanted},
                before=f"{param.name}: box {encoding.box}, swizzle {encoding.swizzle}",
                after=f"{words}: box {wanted.box}, swizzle {wanted.swizzle}",
                excluded=refused,
                beyond=_beyond(kernel, encoding, wanted, loads),
            )

    return find


def _loads_by(kernel: Kernel, name: str) -> bool:
    """Whether a tensor map's parameter is what loads go by."""
    assert kernel.spec is not None
    number = [param.name for param in kernel.spec.params].index(name)
    found = {sites.source(kernel, place["map"]) for place in re.finditer(sites.LOAD, kernel.code)}
    stores = {sites.source(kernel, place["map"]) for place in re.finditer(sites.STORE, kernel.code)}
    ours = {one for one in found | stores if one and (one == name or one.endswith(f"_param_{number}"))}
    return bool(ours & found) if ours else bool(found)


def _beyond(kernel: Kernel, before: TensorMapEncoding, after: TensorMapEncoding, loads: bool) -> str | None:
    if not loads:
        return "nothing counts a store's bytes, and nothing says by which layout threads wrote the tile"
    if before.box == after.box and not sites.multiplies_loads(kernel):
        return _NOT_MULTIPLIED
    row = before.box[0] * before.dtype.bits // 8
    if after.swizzle == "none" and before.box[0] == before.dims[0] and row == before.strides_bytes[0]:
        return "boxes without a swizzle that are contiguous may hold tiles that were arranged beforehand"
    return None


def _box(
    axis: int, numerator: int, denominator: int
) -> Callable[[TensorMapEncoding], TensorMapEncoding | None]:
    def change(encoding: TensorMapEncoding) -> TensorMapEncoding | None:
        box = list(encoding.box)
        number = axis if axis >= 0 else len(box) + axis
        if (box[number] * numerator) % denominator:
            return None
        box[number] = box[number] * numerator // denominator
        return dataclasses.replace(encoding, box=tuple(box))

    return change


def _swizzle(kind: str) -> Callable[[TensorMapEncoding], TensorMapEncoding | None]:
    return lambda encoding: dataclasses.replace(encoding, swizzle=kind)


def half_as_many(place: Place) -> str:
    """A copy of half the bytes."""
    return replaced(place, "bytes", str(int(place["bytes"]) // 2)).replace("cp.async.cg", "cp.async.ca")


def behind_the_barrier(place: Place) -> str:
    """A bulk wait and the barrier behind it, exchanged."""
    wait = place[0][: -len(place["between"] + place["barrier"])]
    return f"{place['between']}{place['barrier']} {wait}"


def flipped(place: Place) -> str:
    """.trans where it was not, and none where it was."""
    if place["trans"]:
        return place[0].replace(".trans", "", 1)
    return place[0].replace(f".x{place['n']}", f".x{place['n']}.trans", 1)


def exchanged(name: str, one: int, other: int) -> Write:
    """Two registers of an operand in each other's place."""

    def write(place: Place) -> str:
        parts = [part.strip() for part in place[name].split(",")]
        parts[one], parts[other] = parts[other], parts[one]
        return replaced(place, name, ", ".join(parts))

    return write


# --- where a change is none ---------------------------------------------------------------------------------


def last_of_kernel(kernel: Kernel, place: Place) -> str | None:
    """Behind a wait for the reads, the kernel's end waits for the writes."""
    ends = re.match(r"\s*(?:\$?\w+:\s*)*ret\s*;", kernel.code[place.end() :])
    reads = "wait_group.read" in kernel.code[: place.start()]
    return "only writes are left, and the kernel's end waits for them" if ends and reads else None


def last_commit(kernel: Kernel, place: Place) -> str | None:
    """A cp.async group behind which only a wait for all copies comes."""
    behind = kernel.code[place.end() :]
    waits = re.findall(r"cp\.async\.wait_(all|group\s+\d+)", behind)
    return "only cp.async.wait_all comes behind it" if waits and set(waits) == {"all"} else None


def beyond_registers(kernel: Kernel, place: Place) -> str | None:
    """What a warp holds in registers."""
    return _OWN_VALUES


_WAIT_GROUP = r"(?P<guard>@!?%\w+\s+)?cp\.async\.wait_group\s+(?P<groups>\d+)\s*;"
_BULK_WAIT = r"(?P<guard>@!?%\w+\s+)?cp\.async\.bulk\.wait_group(?:\.read)?\s+(?P<groups>\d+)\s*;"
_BARRIER = r"(?P<between>\s*(?:\$\w+:\s*)?)(?P<barrier>bar\.(?:warp\.)?sync[^;]*;)"


RULES: tuple[Rule, ...] = (
    Rule(
        "load dropped",
        "a tile that nobody loads",
        BYTES_MISSING,
        "its barrier waits for the bytes",
        at(sites.LOAD, dropped),
    ),
    Rule(
        "load to 128 bytes further on",
        "a copy's place in shared memory",
        ELSEWHERE,
        "the tile lies elsewhere",
        at(sites.LOAD, moved("to", 128)),
    ),
    Rule(
        "load with the barrier beside",
        "a copy's barrier 8 bytes further on",
        BYTES_MISSING | BYTES_EXTRA | BYTES_BEFORE | BESIDE | {"MulticastError"},
        "one barrier lacks the bytes, and another that expects none gets them, or there is none",
        at(sites.LOAD, moved("barrier", 8)),
    ),
    Rule(
        "k coordinate + a tile",
        "an operand's next k-tile",
        frozenset({"ReductionMismatch"}) | OTHERS_FACTORS,
        "A and B are of different k; scale factors lie behind their tensor's end at last",
        along(True),
    ),
    Rule(
        "row coordinate + a tile",
        "the tile beside",
        frozenset({"OperandOutsideTensor"}) | OTHERS_FACTORS,
        "some CTA's tile, or its scale factors, then lie behind the tensor's end",
        along(False),
    ),
    Rule(
        "coordinates swapped",
        "row and column in the wrong order",
        frozenset({"ReductionMismatch", "AlignmentError"}) | OTHERS_FACTORS,
        "A and B are of different k; a box may begin where none can",
        swaps,
    ),
    Rule(
        "copy mask: a CTA missing",
        "a receiver gets nothing",
        BYTES_MISSING | {"InvalidOperand"},
        "its barrier waits for the bytes",
        at(sites.COPY_MASK, operand("mask", 16, "sub.u16 mutant, {0}, 1", "and.b16 mutant, mutant, {0}")),
    ),
    Rule(
        "copy mask shifted",
        "other receivers",
        BYTES_MISSING | BYTES_EXTRA | {"MulticastError"},
        "one waits for bytes, another gets bytes that it does not expect, or is not there",
        at(sites.COPY_MASK, operand("mask", 16, "shl.b16 mutant, {0}, 1")),
    ),
    Rule(
        "map: box halved, inner",
        "the host's box has half of the columns",
        BYTES_MISSING | LAYOUT,
        "the barrier waits for the bytes; rows lie closer than they are read",
        of_maps(True, _box(0, 1, 2), "half a row"),
    ),
    Rule(
        "map: box halved, outer",
        "the host's box has half of the rows",
        BYTES_MISSING,
        "the barrier waits for the bytes",
        of_maps(True, _box(-1, 1, 2), "half of the rows"),
    ),
    Rule(
        "map: box doubled, outer",
        "the host's box has twice the rows",
        BYTES_EXTRA | BYTES_BEFORE | {"AddressError", "StageReusedEarly", "SharedMemoryRace"},
        "more bytes than expected, over what lies behind the tile",
        of_maps(True, _box(-1, 2, 1), "twice the rows"),
    ),
    Rule(
        "map: no swizzle",
        "the host's map does not swizzle",
        LAYOUT,
        "the tensor core reads the tile swizzled",
        of_maps(True, _swizzle("none"), "not swizzled"),
    ),
    Rule(
        "map: swizzle of 64 bytes",
        "the host's map swizzles otherwise",
        LAYOUT | {"StageReusedEarly", "SharedMemoryRace"},
        "the tensor core reads the tile by another swizzle; rows are further apart, over the next stage",
        of_maps(True, _swizzle("64B"), "another swizzle"),
    ),
    Rule(
        "map of a store: box halved",
        "the host's box has half of the rows",
        frozenset(),
        "no report can: see `beyond`",
        of_maps(False, _box(-1, 1, 2), "half of the rows"),
    ),
    Rule(
        "map of a store: no swizzle",
        "the host's map does not swizzle",
        frozenset(),
        "no report can: see `beyond`",
        of_maps(False, _swizzle("none"), "not swizzled"),
    ),
    Rule(
        "bulk commit dropped",
        "the wait behind it has no group",
        _STORE_LOST,
        "the source is written over, or the block ends, while the copy reads",
        at(r"(?P<guard>@!?%\w+\s+)?cp\.async\.bulk\.commit_group\s*;", dropped),
    ),
    Rule(
        "bulk wait dropped",
        "the store may still read",
        _STORE_LOST,
        "the source is written over, or the block ends, while the copy reads",
        at(_BULK_WAIT, dropped, last_of_kernel),
    ),
    Rule(
        "bulk wait for one group less",
        "wait_group with one more still under way",
        _STORE_LOST,
        "the source is written over, or the block ends, while the copy reads",
        at(_BULK_WAIT, counted("groups", 1), last_of_kernel),
    ),
    Rule(
        "bulk wait behind the barrier",
        "the barrier that tells of the wait comes before it",
        _STORE_LOST | {"LanesNotOrdered"},
        "other warps and lanes write over the source, and only one lane has waited for the copy",
        at(_BULK_WAIT + _BARRIER, behind_the_barrier),
    ),
    Rule(
        "cp.async commit dropped",
        "the wait behind it has one group less",
        frozenset({"ReadBeforeWait", "UninitializedRead", "UnfinishedLoad"}),
        "what the group brings is read before it is there",
        at(r"cp\.async\.commit_group\s*;", dropped, last_commit),
    ),
    Rule(
        "cp.async wait dropped",
        "a stage is read before it is there",
        frozenset({"ReadBeforeWait", "UninitializedRead", "UnfinishedLoad"}),
        "what the group brings is read before it is there",
        at(r"(?P<guard>@!?%\w+\s+)?cp\.async\.wait_(?:group\s+\d+|all)\s*;", dropped),
    ),
    Rule(
        "cp.async wait for one group less",
        "wait_group with one more still under way",
        frozenset({"ReadBeforeWait", "UninitializedRead", "UnfinishedLoad"}),
        "what the group brings is read before it is there",
        at(_WAIT_GROUP, counted("groups", 1)),
    ),
    Rule(
        "cp.async of half the bytes",
        "8 bytes where 16 are read",
        frozenset({"UninitializedRead"}),
        "the other half was never written",
        at(sites.CP_ASYNC, half_as_many),
    ),
    Rule(
        "cp.async to 16 bytes further on",
        "a copy's place in shared memory",
        frozenset(
            {"UninitializedRead", "SharedMemoryRace", "AddressError", "ReadBeforeWait", "StageReusedEarly"}
        ),
        "the first bytes were never written, and the last lie over others'",
        at(sites.CP_ASYNC, moved("to", 16)),
    ),
    Rule(
        "ldmatrix 2 bytes further on",
        "a row's address that is no multiple of 16",
        frozenset({"AlignmentError"}),
        "rows start at multiples of 16 bytes",
        at(sites.LDMATRIX, moved("from", 2)),
    ),
    Rule(
        "ldmatrix behind the tile",
        "rows 1 KiB further on",
        OUTSIDE_TILE,
        "what lies there is nobody's, or another stage's",
        at(sites.LDMATRIX, moved("from", 1024)),
    ),
    Rule(
        "ldmatrix .trans flipped",
        "a fragment of the transposed matrix",
        frozenset(),
        "no report can: see `beyond`",
        at(sites.LDMATRIX, flipped, beyond=beyond_registers),
    ),
    Rule(
        "mma.sync: registers of A exchanged",
        "the fragment's second and third register",
        frozenset(),
        "no report can: see `beyond`",
        at(sites.MMA_SYNC, exchanged("a", 1, 2), beyond=beyond_registers),
    ),
    Rule(
        "thread's store one vector further on",
        "st.shared at the neighbour's place",
        frozenset(
            {"UninitializedRead", "SharedMemoryRace", "AddressError", "AlignmentError", "NoBarrierError"}
        ),
        "the first place is never written, and the last lies over others' or outside",
        at(sites.SHARED_STORE, lambda place: moved("to", _width(place["kind"]))(place)),
    ),
    Rule(
        "vector access 4 bytes further on",
        "an address that is no multiple of the access",
        frozenset({"AlignmentError"}),
        "an access is aligned to its size",
        at(sites.VECTOR, moved("address", 4)),
    ),
)


def _width(kind: str) -> int:
    """Bytes of a store, of its modifiers: `.v4.b32` is 16."""
    vector = re.search(r"\.v(\d)", kind)
    bits = re.search(r"\.[bufs](\d+)$", kind)
    return (int(vector[1]) if vector else 1) * (int(bits[1]) // 8 if bits else 4)
