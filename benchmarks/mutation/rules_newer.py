"""Mistakes with scale factors, bulk copies, changed tensor maps, blocks on demand, polls, arrays.

These rules came on 2026-11-26, after the checks that they are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.mutation import sites
from benchmarks.mutation.expected import (
    BESIDE,
    BYTES_BEFORE,
    BYTES_EXTRA,
    BYTES_MISSING,
    ELSEWHERE,
    NEVER,
    OTHERS_FACTORS,
    OUTSIDE_TMEM,
    TOO_MUCH_ROOM_IN_TMEM,
    TOO_SOON,
    WAITS_TOO_LITTLE,
)
from benchmarks.mutation.rule import (
    Change,
    Kernel,
    Place,
    Rule,
    Write,
    at,
    dropped,
    instead,
    moved,
    operand,
    replaced,
    the_other,
)

_NEXT_BYTE = 1 << 29
_OTHER_TENSOR = "the kernel is right for another tensor, and nothing says which is meant"
_FACTORS_OF_OTHERS = "the bytes beside may be the factors of another k"
_EITHER_TYPE = "the kind takes factors of both types, and nothing else says which they are"
_ANOTHER_TYPE = {"f32": "s32", "f64": "s64"}
_BACK = (
    r"\s*(?P<done>@%?\w+\s+bra(?:\.uni)?\s+\$?\w+\s*;\s*)?"
    r"(?P<back>(?:@!%?\w+\s+)?bra(?:\.uni)?\s+\$?\w+\s*;)"
)


def branch_back(kernel: Kernel) -> Iterator[Change]:
    """The branch back of the loop around a wait, dropped."""
    for wait in re.finditer(sites.WAIT, kernel.code):
        found = re.compile(_BACK).match(kernel.code, wait.end())
        if found is not None:
            yield Change(((found.start("back"), found.end("back"), ""),))


def copied_late(kernel: Kernel) -> Iterator[Change]:
    """Copies of scale factors moved behind the MMA that takes them."""
    for place in re.finditer(sites.TMEM_COPY, kernel.code):
        behind = re.compile(sites.SCALED_MMA).search(kernel.code, place.end())
        if behind is not None:
            text = " " + " ".join(place[0].split())
            yield Change(((place.start(), place.end(), ""), (behind.end(), behind.end(), text)))


def read_early(kernel: Kernel) -> Iterator[Change]:
    """The answer of a request read in front of the loop that waits for it."""
    for request in re.finditer(sites.TRY_CANCEL, kernel.code):
        read = re.compile(r"ld\.shared[\w.:]*b128\s[^;]*;").search(kernel.code, request.end())
        if read is not None:
            text = " " + " ".join(read[0].split())
            yield Change(((request.end(), request.end(), text), (read.start(), read.end(), "")))


def all_lanes_ask(kernel: Kernel) -> Iterator[Change]:
    """A request of every lane."""
    for place in re.finditer(sites.TRY_CANCEL, kernel.code):
        if place["guard"]:
            yield Change(((place.start("guard"), place.end("guard"), ""),))


def no_refusal(place: Place) -> str:
    """Every answer taken as granted."""
    return f"setp.eq.u32 {place['done']}, 0, 0;"


def ends_early(kernel: Kernel) -> Iterator[Change]:
    """The last warp ends in front of a `bar.sync` of all threads."""
    if kernel.spec is None or kernel.warps is None or kernel.warps < 2 or kernel.spec.block[1:] != (1, 1):
        return
    made = (
        f"{{ .reg .pred mutant; .reg .b32 thread; mov.u32 thread, %tid.x;"
        f" setp.ge.u32 mutant, thread, {32 * (kernel.warps - 1)}; @mutant exit; }} "
    )
    for place in re.finditer(sites.BLOCK_BARRIER, kernel.code):
        if place["count"] is None and not place["guard"]:
            yield Change(((place.start(), place.start(), made),), before=place[0])


def announced_at_the_end(kernel: Kernel) -> Iterator[Change]:
    """One more arrival with bytes at the end, at a barrier that has a name."""
    names = {place["address"] for place in re.finditer(sites.EXPECT, kernel.code)}
    ends = list(re.finditer(r"\bret\s*;", kernel.code))
    for name in sorted(one for one in names if re.fullmatch(r"[A-Za-z]\w*", one)):
        made = (
            "{ .reg .pred mutant; .reg .b32 thread; mov.u32 thread, %tid.x; setp.eq.u32 mutant, thread, 0;"
            f" @mutant mbarrier.arrive.expect_tx.shared::cta.b64 _, [{name}], 16; }} "
        )
        yield Change(((ends[-1].start(), ends[-1].start(), made),), before=ends[-1][0])


def arrays_of_another_type(kernel: Kernel) -> Iterator[Change]:
    """An array of integers on the host that the kernel uses as floats."""
    if not re.search(r"\b(?:ld|st|red|atom)\.global(?!\S*\.v[248])\S*\.f(?:32|64)\b", kernel.code):
        return
    for param in () if kernel.spec is None else kernel.spec.tensors:
        other = _ANOTHER_TYPE.get(param.dtype.name)
        if other is not None and param not in kernel.maps:
            text = f"{param.name}: {param.dtype.name}"
            yield Change(maps={param.name: other}, before=text, after=f"{param.name}: {other}")


def by_some(condition: str) -> Write:
    """The statement by some lanes or warps: `condition` sets the predicate `mutant` of %tid.x in `thread`."""

    def write(place: Place) -> str:
        made = "{ .reg .pred mutant; .reg .b32 thread; mov.u32 thread, %tid.x;"
        return f"{made} {condition} @mutant {place[0]} }}"

    return write


def in_turns(place: Place) -> str:
    """The statement twice, once for every second warp."""
    made = "{ .reg .pred mutant; .reg .b32 thread; mov.u32 thread, %tid.x; and.b32 thread, thread, 32;"
    return f"{made} setp.eq.u32 mutant, thread, 0; @mutant {place[0]} @!mutant {place[0]} }}"


def load_in_front(kernel: Kernel) -> Iterator[Change]:
    """The load behind a wait for the launch before, moved in front of it."""
    for place in re.finditer(sites.GRID_WAIT, kernel.code):
        load = re.compile(r"ld\.global[^;]*;").search(kernel.code, place.end())
        if load is not None:
            text = " ".join(load[0].split()) + " "
            yield Change(((place.start(), place.start(), text), (load.start(), load.end(), "")))


def other_tensor(kernel: Kernel, place: Place) -> str | None:
    """Of a change without which the map is of another tensor."""
    return _OTHER_TENSOR


def others_factors(kernel: Kernel, place: Place) -> str | None:
    """Of the byte of a word of scale factors."""
    return _FACTORS_OF_OTHERS


def of_either_type(kernel: Kernel, place: Place) -> str | None:
    """Of the type of scale factors, where the kind has both."""
    return _EITHER_TYPE if "kind::mxf4nvf4" in place[0] else None


def unknown_stride(place: Place) -> str:
    """A stride that is no multiple of 16, or an axis that the map has not."""
    if "stride" in place["field"]:
        return replaced(place, "value", "24")
    return replaced(place, "axis", "3") if place["axis"] else replaced(place, "value", "64")


_TMAP_FENCE = r"fence\.proxy\.tensormap::generic\.acquire[^;]*;"
_TMAP_COPY = r"tensormap\.cp_fenceproxy[^;]*;"

RULES: tuple[Rule, ...] = (
    Rule(
        "poll: branch back dropped",
        "a wait that goes on whatever its answer is",
        WAITS_TOO_LITTLE | TOO_MUCH_ROOM_IN_TMEM,
        "as without the wait, in every run: the answer true of one run orders nothing",
        branch_back,
    ),
    Rule(
        "bulk load dropped",
        "bytes that nobody brings",
        BYTES_MISSING,
        "their barrier waits for the bytes",
        at(sites.BULK_LOAD, dropped),
    ),
    Rule(
        "bulk load to 128 bytes further on",
        "a copy's place in shared memory",
        ELSEWHERE,
        "the bytes lie elsewhere",
        at(sites.BULK_LOAD, moved("to", 128)),
    ),
    Rule(
        "bulk load of half the bytes",
        "a copy's size",
        BYTES_MISSING,
        "its barrier waits for the other half",
        at(sites.BULK_LOAD, instead("bytes", lambda place: str(int(place["bytes"]) // 2))),
    ),
    Rule(
        "bulk load with the barrier beside",
        "a copy's barrier 8 bytes further on",
        BYTES_MISSING | BYTES_EXTRA | BYTES_BEFORE | BESIDE,
        "one barrier lacks the bytes, and another that expects none gets them, or there is none",
        at(sites.BULK_LOAD, moved("barrier", 8)),
    ),
    Rule(
        "scale factors: copy dropped",
        "factors that never come to tensor memory",
        frozenset({"UninitializedRead", "UnreadLoad"}),
        "nobody has written what the MMA takes, and nobody reads what was loaded",
        at(sites.TMEM_COPY, dropped),
    ),
    Rule(
        "scale factors: copy behind the MMA",
        "an MMA takes the factors of the k-tile before",
        frozenset({"UninitializedRead"}),
        "nobody has written what the first MMA takes",
        copied_late,
    ),
    Rule(
        "scale factors: copy to the columns beside",
        "four columns further on",
        OUTSIDE_TMEM | OTHERS_FACTORS,
        "nobody has written what the MMA takes, or it takes another's",
        at(sites.TMEM_COPY, operand("to", 32, "add.u32 mutant, {0}, 4")),
    ),
    Rule(
        "scale factors: copy from 128 bytes further on",
        "a descriptor's start",
        frozenset({"UnreadLoad"}) | ELSEWHERE | OTHERS_FACTORS,
        "the first factors are never read, and each row takes another's",
        at(sites.TMEM_COPY, operand("from", 64, "add.u64 mutant, {0}, 8")),
    ),
    Rule(
        "scale factors: those of A for B",
        "the columns of A's factors twice",
        frozenset({"UnreadLoad"}) | OTHERS_FACTORS,
        "the factors of B are never read, and those of A scale both",
        at(sites.SCALED_MMA, the_other("scales_b", "scales_a")),
    ),
    Rule(
        "scale factors: the column beside",
        "an address of factors, 4 columns further on",
        OUTSIDE_TMEM | {"UnreadLoad"} | OTHERS_FACTORS,
        "nobody has written what the MMA takes, or those of A are never read and others scale it",
        at(sites.SCALED_MMA, operand("scales_a", 32, "add.u32 mutant, {0}, 4")),
    ),
    Rule(
        "scale factors: another type",
        "ue4m3 where the kind has none",
        frozenset({"InvalidOperand"}),
        "the kind has no such factors",
        at(
            sites.SCALED_MMA,
            operand("idesc", 32, f"xor.b32 mutant, {{0}}, {1 << 23}"),
            beyond=of_either_type,
        ),
    ),
    Rule(
        "scale factors: the byte beside",
        "the second byte of each word",
        frozenset(),
        "no report can: see `beyond`",
        at(
            sites.SCALED_MMA,
            operand("idesc", 32, f"xor.b32 mutant, {{0}}, {_NEXT_BYTE}"),
            beyond=others_factors,
        ),
    ),
    Rule(
        "tensor map: fence dropped",
        "a changed map used without an acquire",
        frozenset({"MissingTensorMapFence"}),
        "the copy may see the map as it was",
        at(_TMAP_FENCE, dropped),
    ),
    Rule(
        "tensor map: copy of the map dropped",
        "a map that never comes to global memory",
        frozenset({"InvalidOperand", "UninitializedRead"}),
        "what lies there is no map",
        at(_TMAP_COPY, dropped),
    ),
    Rule(
        "tensor map: change dropped",
        "a field of the map as it was",
        frozenset({"AddressError"}),
        "see `beyond`",
        at(sites.MAP_CHANGE, dropped, beyond=other_tensor),
    ),
    Rule(
        "tensor map: no such field",
        "a stride of 24 bytes, an axis that the map has not, an address outside of memory",
        frozenset({"InvalidOperand", "AddressError"}),
        "the document refuses the value, or nothing lies there",
        at(sites.MAP_CHANGE, unknown_stride),
    ),
    Rule(
        "request dropped",
        "nobody asks for a block",
        BYTES_MISSING,
        "its barrier waits for the answer",
        at(sites.TRY_CANCEL, dropped),
    ),
    Rule(
        "request with the barrier beside",
        "a request's barrier 8 bytes further on",
        BYTES_MISSING | BYTES_EXTRA | BESIDE | {"AlignmentError", "MulticastError"},
        "there is no barrier, or one lacks the answer and another gets it",
        at(sites.TRY_CANCEL, moved("barrier", 8)),
    ),
    Rule(
        "answer read before the wait",
        "a load of the answer right behind the request",
        TOO_SOON,
        "the answer may not have come",
        read_early,
    ),
    Rule(
        "all lanes ask",
        "no elected lane",
        BYTES_EXTRA | {"StageReusedEarly", "SharedMemoryRace", "RequestAfterRefusal"},
        "32 answers, over each other",
        all_lanes_ask,
    ),
    Rule(
        "refusal ignored",
        "an answer taken as granted",
        frozenset({"RequestAfterRefusal", "InvalidOperand", "AddressError"}),
        "a refusal names no block, its numbers lead anywhere, and nobody may ask after it",
        at(sites.IS_CANCELED, no_refusal),
    ),
    Rule(
        "a warp ends before a barrier",
        "the last warp leaves where the others wait for all",
        frozenset({"BarrierSkipped", "UninitializedRead"}) | NEVER,
        "the document asks all threads for the barrier; what the warp had to do, or to write, is missing",
        ends_early,
    ),
    Rule(
        "bytes announced at the end",
        "one more expect_tx",
        frozenset({"BytesNeverSent", "BarrierCountError"}),
        "no copy brings them",
        announced_at_the_end,
    ),
    Rule(
        "remote arrival with the scope of its CTA",
        "an arrival at another CTA's barrier without .release.cluster",
        frozenset({"ScopeTooNarrow"}),
        "it shows stores to threads of its own CTA alone",
        at(sites.FAR_ARRIVE, instead("scope", dropped)),
    ),
    Rule(
        "proxy fence of one lane",
        "a proxy fence that an elected lane runs for all",
        frozenset({"MissingProxyFence"}),
        "it covers that lane's stores, and the others' only behind a barrier",
        at(sites.PROXY_FENCE, by_some("and.b32 thread, thread, 31; setp.eq.u32 mutant, thread, 0;")),
    ),
    Rule(
        "ld or st: an address for each lane",
        "tensor memory, by the lane's own address",
        frozenset({"NonUniformOperand"}),
        "the document asks for one address",
        at(sites.TMEM_LOAD, operand("from", 32, "mov.u32 mutant, %laneid", "add.u32 mutant, mutant, {0}")),
    ),
    Rule(
        "half a warp",
        "an .aligned statement that half of the lanes run",
        frozenset({"DivergedWarp"}) | NEVER,
        "the document asks for the whole warp; the lanes that run it wait for the others",
        at(sites.WHOLE_WARP, by_some("and.b32 thread, thread, 16; setp.eq.u32 mutant, thread, 0;")),
    ),
    Rule(
        "setmaxnreg at two places",
        "every second warp of a warpgroup has its own statement",
        frozenset({"SetmaxnregApart"}),
        "the document asks all four warps for the same one",
        at(sites.POOL, in_turns),
    ),
    Rule(
        "mma into lane 32",
        "D's address, 32 lanes further down",
        frozenset({"TensorMemoryOperandError"}),
        "D must start in lane 0",
        at(sites.MMA, operand("d", 32, f"add.u32 mutant, {{0}}, {32 << 16}")),
    ),
    Rule(
        "mma of an A in lane 32",
        "A's address in tensor memory, 32 lanes further down",
        frozenset({"TensorMemoryOperandError"}),
        "A must start in D's lane",
        at(sites.A_IN_TMEM_MMA, operand("a", 32, f"add.u32 mutant, {{0}}, {32 << 16}")),
    ),
    Rule(
        "grid wait dropped",
        "a kernel that does not wait for the launch before",
        frozenset({"MissingGridWait"}),
        "it reads what that launch may not have written",
        at(sites.GRID_WAIT, dropped),
    ),
    Rule(
        "grid wait behind the load",
        "a wait that comes too late",
        frozenset({"MissingGridWait"}),
        "it reads what that launch may not have written",
        load_in_front,
    ),
    Rule(
        "array of another type",
        "integers where the kernel reads floats",
        frozenset({"ArrayTypeMismatch"}),
        "the numbers are others",
        arrays_of_another_type,
    ),
)
