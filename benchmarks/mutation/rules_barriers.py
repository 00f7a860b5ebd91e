"""Mistakes with mbarriers, barriers of the CTA and of the cluster, and fences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.mutation import sites
from benchmarks.mutation.expected import (
    BESIDE,
    BYTES_BEFORE,
    BYTES_EXTRA,
    BYTES_MISSING,
    EXTRA_ARRIVAL,
    NEVER,
    SETUP,
    TEARDOWN,
    THROUGH_SHARED,
    THROUGH_TMEM,
    TOO_MUCH_ROOM,
    TOO_MUCH_ROOM_IN_TMEM,
    WAITS_TOO_LITTLE,
)
from benchmarks.mutation.rule import (
    Change,
    Find,
    Kernel,
    Place,
    Rule,
    Why,
    at,
    counted,
    dropped,
    moved,
    operand,
    replaced,
    twice,
)

# --- changes ------------------------------------------------------------------------------------------------


def passes(place: Place) -> str:
    """A wait that is over at once."""
    return f"{place['guard'] or ''}setp.eq.u32 {place['done']}, 0, 0;"


def only_arrives(place: Place) -> str:
    """The arrival without the bytes."""
    return f"{place['guard'] or ''}mbarrier.arrive{place['kind']} {place['state']}, [{place['address']}];"


def arrives_first(place: Place) -> str:
    """The arrival, and only then the bytes that it should have announced."""
    space = re.search(r"\.shared(?:::cta)?", place["kind"])
    announces = f"mbarrier.expect_tx.relaxed.cta{space[0] if space else ''}.b64"
    guard = place["guard"] or ""
    return f"{only_arrives(place)} {guard}{announces} [{place['address']}], {place['bytes']};"


def initialises_again(place: Place) -> str:
    """The barrier initialised before each use of it."""
    space = re.search(r"\.shared(?:::cta)?", place["kind"])
    initialises = f"mbarrier.init{space[0] if space else ''}.b64"
    return f"{place['guard'] or ''}{initialises} [{place['address']}], 1; {place[0]}"


def before_the_use(kernel: Kernel) -> Iterator[Change]:
    """An arrival moved to right behind the last wait in front of it, if its registers are set there."""
    for place in re.finditer(sites.ARRIVE, kernel.code):
        waits = list(re.finditer(sites.WAIT, kernel.code[: place.start()]))
        start = sites.behind_wait(kernel, waits[-1]) if waits else None
        if start is None or start > place.start():
            continue
        if not _set_in(kernel.code[start : place.start()], place[0]):
            text = " " + " ".join(place[0].split())
            yield Change(((start, start, text), (place.start(), place.end(), "")))


def _set_in(code: str, statement: str) -> bool:
    """Whether a part of the text sets a register that a statement uses."""
    names = set(re.findall(r"%\w+", statement))
    return any(re.search(rf"[\s|]{re.escape(name)}\s*,", code) for name in names)


def before_last(pattern: str, behind: str) -> Find:
    """A statement moved in front of the last one of another kind before it."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(pattern, kernel.code):
            starts = list(re.finditer(behind, kernel.code[: place.start()]))
            if not starts:
                continue
            between = kernel.code[starts[-1].start() : place.start()]
            if _set_in(between, place[0]):
                continue
            bare = place[0][len(place["guard"] or "") :]
            guard = starts[-1]["guard"] or ""
            put = (starts[-1].start(), starts[-1].start(), f"{guard}{' '.join(bare.split())} ")
            yield Change((put, (place.start(), place.end(), "")))

    return find


def barriers(*roles: str) -> Find:
    """Barriers of the CTA and of the cluster that are for one of these, dropped."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for pattern in (sites.BLOCK_BARRIER, sites.CLUSTER_BARRIER):
            for place in re.finditer(pattern, kernel.code):
                if sites.role(kernel, place) in roles:
                    yield Change(((place.start(), place.end(), ""),), excluded=all_has_come(kernel, place))

    return find


def cluster_waits(*roles: str) -> Find:
    """The waits of the cluster's barriers that are for one of these, dropped; the arrivals stay."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(sites.CLUSTER_BARRIER, kernel.code):
            if sites.role(kernel, place) in roles:
                start = kernel.code.index("barrier.cluster.wait", place.start())
                yield Change(((start, place.end(), ""),), excluded=all_has_come(kernel, place))

    return find


def own_end(kernel: Kernel) -> Iterator[Change]:
    """A barrier of the CTA in place of the cluster's before a pair frees its tensor memory."""
    if "tcgen05.dealloc.cta_group::2" in kernel.code:
        for place in re.finditer(sites.CLUSTER_BARRIER, kernel.code):
            if sites.role(kernel, place) == "end":
                yield Change(((place.start(), place.end(), "bar.sync 0;"),))


def counts(step: int) -> Find:
    """A barrier of the CTA that counts threads more or fewer, where it says a number and has so many."""

    def find(kernel: Kernel) -> Iterator[Change]:
        for pattern in (sites.BLOCK_BARRIER, sites.BLOCK_ARRIVE):
            for place in re.finditer(pattern, kernel.code):
                if (place["count"] or "").isdigit() and int(place["count"]) + step > 0:
                    yield Change(((place.start(), place.end(), counted("count", step)(place)),))

    return find


def all_of_them(kernel: Kernel) -> Iterator[Change]:
    """A `bar.sync` of the whole CTA that counts one warp fewer."""
    if kernel.warps is None or kernel.warps < 2:
        return
    for place in re.finditer(sites.BLOCK_BARRIER, kernel.code):
        if place["count"] is None:
            fewer = f"{place['guard'] or ''}barrier.sync {place['id']}, {32 * (kernel.warps - 1)};"
            yield Change(((place.start(), place.end(), fewer),))


def paired_ids(kernel: Kernel) -> Iterator[Change]:
    """Another barrier's number, where two statements have to name the same one."""
    pairs = {place["id"] for place in re.finditer(sites.BLOCK_ARRIVE, kernel.code)}
    for pattern in (sites.BLOCK_BARRIER, sites.BLOCK_ARRIVE):
        for place in re.finditer(pattern, kernel.code):
            alone = None if pairs else "every warp comes to this statement, so that any number does"
            other = "15" if place["id"] != "15" else "14"
            yield Change(((place.start(), place.end(), replaced(place, "id", other)),), excluded=alone)


# --- where a change is none ---------------------------------------------------------------------------------


def barrier_follows(kernel: Kernel, place: Place) -> str | None:
    """A barrier of the CTA or cluster right behind the fence releases the initialisations as well."""
    in_registers = r"(?:mov|add|sub|mul|mad|shl|shr|and|or)\.[^;]*;|[$\w]+:"
    behind = re.match(
        rf"\s*(?:(?:fence\.[^;]*;|{in_registers})\s*)*(barrier\.cluster\.arrive(?!\.relaxed)|bar\.sync)",
        kernel.code[place.end() :],
    )
    return "a barrier right behind it releases what was written before" if behind else None


def parity_is(value: int) -> Why:
    """A parity that is this constant already."""

    def why(kernel: Kernel, place: Place) -> str | None:
        return f"the parity is {value}" if place["parity"] == str(value) else None

    return why


def all_has_come(kernel: Kernel, place: Place) -> str | None:
    """The last barrier of a cluster in which CTAs receive nothing but the bytes that they wait for."""
    if "cluster" not in place[0] or sites.role(kernel, place) != "end":
        return None
    if re.search(
        r"\bmapa|ld\.shared::cluster|st\.async|arrive[\w.:]*shared::cluster|tcgen05\.dealloc", kernel.code
    ):
        return None
    return "a CTA receives nothing but the bytes that it has waited for"


def arrives_for_itself(kernel: Kernel, place: Place) -> str | None:
    """A `bar.warp.sync` right before an arrival of every lane: the phase waits for the lane that worked."""
    if re.match(r"\s*mbarrier\.arrive\.(?!expect_tx)", kernel.code[place.end() :]):
        return "each lane arrives for itself behind it, also the one that worked for all"
    return None


def fence_between(kernel: Kernel, place: Place) -> str | None:
    """A wait in the place of another: two fences of the same proxy with no store between.

    Or one for initialisations alone, behind which a barrier of the warps stands.
    """
    before = kernel.code[: place.start()]
    starts = [
        found.end() for found in re.finditer(r"^\s*[\w$]+:\s|\bbar\.|\bbarrier\.", before, re.MULTILINE)
    ]
    since = before[starts[-1] if starts else 0 :]
    if "mbarrier.init" in since and not re.search(r"st\.shared|ld\.shared", since):
        return "it follows initialisations alone, which the barrier behind it releases"
    last = max((found.end() for found in re.finditer(r"fence\.proxy\.async[^;]*;", before)), default=None)
    if last is not None and not re.search(r"st\.shared|atom\.shared", before[last:]):
        return "a fence of the same proxy stands before it, and no store between"
    return None


RULES: tuple[Rule, ...] = (
    Rule(
        "wait dropped",
        "an mbarrier wait passes at once",
        WAITS_TOO_LITTLE | TOO_MUCH_ROOM_IN_TMEM,
        "who waits for bytes or sums reads too soon; who waits for room fills too soon",
        at(sites.WAIT, passes),
    ),
    Rule(
        "parity flipped",
        "a wait for the other phase",
        WAITS_TOO_LITTLE | NEVER | {"BarrierStateError"},
        "the phase that it waits for is over already, never comes, or is none that can be asked for",
        at(sites.WAIT, operand("parity", 32, "xor.b32 mutant, {0}, 1")),
    ),
    Rule(
        "parity stuck at 0",
        "a wait for parity 0 every time",
        WAITS_TOO_LITTLE | NEVER | {"BarrierStateError"},
        "as a flipped parity, every second time",
        at(sites.WAIT, operand("parity", 32, "mov.b32 mutant, 0"), parity_is(0)),
    ),
    Rule(
        "parity stuck at 1",
        "a wait for parity 1 every time",
        WAITS_TOO_LITTLE | NEVER | {"BarrierStateError"},
        "as a flipped parity, every second time",
        at(sites.WAIT, operand("parity", 32, "mov.b32 mutant, 1"), parity_is(1)),
    ),
    Rule(
        "wait on the barrier beside",
        "a wait's address 8 bytes further on",
        WAITS_TOO_LITTLE | NEVER | BESIDE,
        "it waits for another stage, or for what is no barrier",
        at(sites.WAIT, moved("address", 8)),
    ),
    Rule(
        "arrive dropped",
        "a consumer does not hand back",
        NEVER,
        "the phase lacks an arrival",
        at(sites.ARRIVE, dropped),
    ),
    Rule(
        "arrive twice",
        "a thread arrives two times",
        EXTRA_ARRIVAL,
        "a phase ends an arrival early, or has one too many",
        at(sites.ARRIVE, twice),
    ),
    Rule(
        "arrive before the use",
        "a stage is handed back before it has been read",
        TOO_MUCH_ROOM | {"ReadBeforeWait"},
        "the producer fills what is still read: seen from either side",
        before_the_use,
    ),
    Rule(
        "arrive at the barrier beside",
        "an arrival's address 8 bytes further on",
        EXTRA_ARRIVAL | BESIDE,
        "one barrier lacks an arrival and the other has one too many, or there is none",
        at(sites.ARRIVE, moved("address", 8)),
    ),
    Rule(
        "expect_tx dropped",
        "an arrival without its bytes",
        BYTES_BEFORE,
        "the phase ends with the arrival",
        at(sites.EXPECT, only_arrives),
    ),
    Rule(
        "expect_tx behind the arrival",
        "the bytes are announced when the phase is over",
        BYTES_BEFORE,
        "the phase ends with the arrival, and the next one expects the bytes",
        at(sites.EXPECT, arrives_first),
    ),
    Rule(
        "arrive.expect_tx dropped",
        "neither arrival nor bytes",
        NEVER | BYTES_EXTRA,
        "the phase lacks an arrival",
        at(sites.EXPECT, dropped),
    ),
    Rule(
        "expect_tx at the barrier beside",
        "arrival and bytes 8 bytes further on",
        EXTRA_ARRIVAL | BESIDE | {"BytesNeverSent"},
        "one barrier lacks the arrival, and the other has one too many and waits for bytes that go elsewhere",
        at(sites.EXPECT, moved("address", 8)),
    ),
    Rule(
        "bytes + 16",
        "16 bytes that nobody brings",
        BYTES_MISSING,
        "the phase waits for bytes",
        at(sites.EXPECT, operand("bytes", 32, "add.u32 mutant, {0}, 16")),
    ),
    Rule(
        "bytes - 16",
        "16 bytes too few",
        BYTES_BEFORE,
        "the count comes to 0 early or never, depending on the order in which bytes arrive",
        at(sites.EXPECT, operand("bytes", 32, "sub.u32 mutant, {0}, 16")),
    ),
    Rule(
        "bytes halved",
        "half of the bytes",
        BYTES_BEFORE,
        "the count comes to 0 early or never",
        at(sites.EXPECT, operand("bytes", 32, "shr.u32 mutant, {0}, 1")),
    ),
    Rule(
        "bytes doubled",
        "twice the bytes",
        BYTES_MISSING,
        "the phase waits for bytes",
        at(sites.EXPECT, operand("bytes", 32, "shl.b32 mutant, {0}, 1")),
    ),
    Rule(
        "count + 1",
        "an arrival that nobody makes",
        NEVER,
        "the phase lacks an arrival",
        at(sites.INIT, operand("count", 32, "add.u32 mutant, {0}, 1")),
    ),
    Rule(
        "count - 1",
        "a phase that ends an arrival early",
        WAITS_TOO_LITTLE | TOO_MUCH_ROOM_IN_TMEM | NEVER,
        "the last arrival counts for the next phase, which ends early or never; 0 is out of range",
        at(sites.INIT, operand("count", 32, "sub.u32 mutant, {0}, 1")),
    ),
    Rule(
        "init dropped",
        "a barrier that is none",
        frozenset({"NoBarrierError"}),
        "the first use meets no barrier",
        at(sites.INIT, dropped),
    ),
    Rule(
        "init before each use",
        "a barrier initialised again and again",
        frozenset({"BarrierInUse"}),
        "an mbarrier that is one must be invalidated before it is initialised",
        at(sites.EXPECT, initialises_again),
    ),
    Rule(
        "init fence dropped",
        "initialisations not released",
        frozenset({"NoBarrierError", "MulticastError"}),
        "others meet a barrier that is none yet",
        at(r"fence\.mbarrier_init[^;]*;", dropped, barrier_follows),
    ),
    Rule(
        "proxy fence dropped",
        "writes not shown to the async proxy",
        frozenset({"MissingProxyFence"}),
        "a copy or a tensor core reads what threads wrote",
        at(r"fence\.proxy\.async[^;]*;", dropped, fence_between),
    ),
    Rule(
        "barrier of the setup dropped",
        "nobody waits for initialisations and allocations",
        SETUP,
        "others use what is not there yet",
        barriers("setup"),
    ),
    Rule(
        "barrier of setup and data dropped",
        "nobody waits for initialisations and stores",
        SETUP | THROUGH_SHARED,
        "others use what is not there yet, and threads' data without order",
        barriers("both"),
    ),
    Rule(
        "barrier of data dropped",
        "warps use shared memory without order",
        THROUGH_SHARED | {"LanesNotOrdered"},
        "stores, loads and copies of different warps or CTAs, or of a warp's lanes, have no order",
        barriers("data"),
    ),
    Rule(
        "barrier of tensor memory's data dropped",
        "warps use tensor memory without order",
        THROUGH_TMEM,
        "what others have stored there may not have come",
        barriers("tmem"),
    ),
    Rule(
        "barrier of the end dropped",
        "a CTA ends or frees while others still work",
        TEARDOWN,
        "memory goes away under those who use it",
        barriers("end"),
    ),
    Rule(
        "cluster wait of the setup dropped",
        "an arrival at the cluster's barrier without the wait",
        SETUP | {"BarrierError"},
        "as without the barrier; the next arrival comes without a wait for this one",
        cluster_waits("setup", "both"),
    ),
    Rule(
        "cluster wait of data dropped",
        "an arrival at the cluster's barrier without the wait",
        THROUGH_SHARED | {"BarrierError"},
        "as without the barrier; the next arrival comes without a wait for this one",
        cluster_waits("data"),
    ),
    Rule(
        "cluster wait of the end dropped",
        "an arrival at the cluster's barrier without the wait",
        TEARDOWN | {"BarrierError"},
        "as without the barrier; the CTA ends without a wait for its arrival",
        cluster_waits("end"),
    ),
    Rule(
        "barrier of a pair's end: of the CTA only",
        "tensor memory of both CTAs freed while the peer still loads",
        TEARDOWN,
        "memory goes away under those who use it",
        own_end,
    ),
    Rule(
        "named barrier: 32 threads more",
        "a barrier that waits for a warp that never comes",
        frozenset({"DeadlockError", "BarrierError"}),
        "it lacks threads, or its users disagree about the count",
        counts(32),
    ),
    Rule(
        "named barrier: 32 threads fewer",
        "a barrier that lets go a warp early",
        frozenset({"DeadlockError", "BarrierError"}) | THROUGH_SHARED,
        "the last warp waits alone, or its users disagree about the count, or what it orders has no order",
        counts(-32),
    ),
    Rule(
        "barrier of the CTA: a warp fewer",
        "bar.sync with too small a count",
        THROUGH_SHARED | {"DeadlockError", "BarrierError", "NoBarrierError", "TensorMemoryFreed"},
        "the last warp waits alone, or what it orders has no order",
        all_of_them,
    ),
    Rule(
        "named barrier: another number",
        "two sides meet at different barriers",
        frozenset({"DeadlockError", "BarrierError"}) | THROUGH_SHARED,
        "each side waits alone, or nothing orders them",
        paired_ids,
    ),
    Rule(
        "named arrive dropped",
        "bar.arrive forgotten",
        frozenset({"DeadlockError"}),
        "the other side waits alone",
        at(sites.BLOCK_ARRIVE, dropped),
    ),
    Rule(
        "warp barrier dropped",
        "bar.warp.sync forgotten",
        frozenset(
            {
                "SharedMemoryRace",
                "MissingProxyFence",
                "StageReusedEarly",
                "OverwrittenSource",
                "LanesNotOrdered",
            }
        ),
        "what the other lanes did has no order with what one lane does for all",
        at(r"bar\.warp\.sync[^;]*;", dropped, arrives_for_itself),
    ),
)
