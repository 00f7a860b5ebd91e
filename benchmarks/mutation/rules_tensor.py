"""Mistakes with the tensor core: tcgen05 and its memory, descriptors of both kinds, and who issues it all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.mutation import sites
from benchmarks.mutation.expected import (
    BESIDE,
    BYTES_EXTRA,
    BYTES_MISSING,
    EXTRA_ARRIVAL,
    LAYOUT,
    NEVER,
    OTHER_ACCUMULATOR,
    OUTSIDE_TILE,
    OUTSIDE_TMEM,
    TOO_MUCH_ROOM,
)
from benchmarks.mutation.rule import (
    Change,
    Find,
    Kernel,
    Place,
    Rule,
    Why,
    Write,
    at,
    dropped,
    moved,
    never,
    operand,
    replaced,
    the_other,
    twice,
)
from benchmarks.mutation.rules_barriers import before_last

# The fields of a shared memory descriptor and of an instruction descriptor: PTX ISA 9.0, "Shared memory
# descriptor" and "Instruction descriptor" of tcgen05. Addresses and offsets count 16 bytes.
_LEADING_1_KIB = 64 << 16
_STRIDE = 0x3FFF << 32
_VERSION = 3 << 46
_BASE_OFFSET_1 = 1 << 49
_SWIZZLE = 7 << 61
_OTHER_SWIZZLE = 6 << 61  # 128 bytes (2) and 64 bytes (4) in each other's place
_ALL = (1 << 64) - 1
_N, _M = 0x3F << 17, 0x1F << 24
_D_IN_F32, _A_IN_BF16, _B_IN_BF16, _A_ALONG_M, _B_ALONG_N = 1 << 4, 1 << 7, 1 << 10, 1 << 15, 1 << 16

_ALLOCATION = frozenset({"TensorMemoryAllocationError"})
_FIELD = frozenset({"InvalidOperand"})


def enabled(value: int) -> Write:
    """The accumulate predicate as a constant."""

    def write(place: Place) -> str:
        statement = replaced(place, "enable", "mutant")
        return f"{{ .reg .pred mutant; mov.pred mutant, {-value}; {statement} }}"

    return write


def descriptor(name: str, *steps: str) -> Find:
    """A shared memory descriptor of each MMA, changed."""
    return at(sites.MMA_AB if name == "a" else sites.MMA, operand(name, 64, *steps))


def leading(name: str) -> Find:
    """The leading dimension's offset, where the layout has one."""
    write = operand(name, 64, f"add.u64 mutant, {{0}}, {_LEADING_1_KIB}")
    major = _A_ALONG_M if name == "a" else _B_ALONG_N

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(sites.MMA_AB, kernel.code):
            idesc = sites.constant(kernel.code, place["idesc"])
            swizzled = any(
                int(one, 0) >> 61 for one in re.findall(r"\b(?:0x[0-9a-fA-F]+|\d{17,})\b", kernel.code)
            )
            k_major = idesc is not None and not idesc & major
            none = "K-major and swizzled: the leading offset is not read" if k_major and swizzled else None
            yield Change(((place.start(), place.end(), write(place)),), excluded=none)

    return find


def of_idesc(*steps: str, excluded: Why = never, beyond: Why = never) -> Find:
    """An instruction descriptor, changed."""
    return at(sites.MMA, operand("idesc", 32, *steps), excluded=excluded, beyond=beyond)


def _halved(mask: int) -> tuple[str, ...]:
    return f"and.b32 mutant, {{0}}, {mask}", "shr.u32 mutant, mutant, 1", "sub.u32 mutant, {0}, mutant"


def _doubled(mask: int) -> tuple[str, ...]:
    return f"and.b32 mutant, {{0}}, {mask}", "add.u32 mutant, {0}, mutant"


def freed_early(kernel: Kernel) -> Iterator[Change]:
    """The first warp frees tensor memory in front of the first load from it."""
    loads = re.search(sites.TMEM_LOAD, kernel.code)
    frees = list(re.finditer(sites.DEALLOC, kernel.code))
    if loads is None or not frees:
        return
    place = frees[-1]
    columns = sites.constant(kernel.code, place["columns"])
    if columns is None:
        return
    statement = place[0][len(place["guard"] or "") :].replace(place["columns"], str(columns))
    made = (
        "{ .reg .pred mutant; .reg .b32 thread; mov.u32 thread, %tid.x; setp.lt.u32 mutant, thread, 32;"
        f" @mutant {' '.join(statement.split())} }} "
    )
    yield Change(((loads.start(), loads.start(), made), (place.start(), place.end(), "")))


def other_accumulator(pattern: str, name: str) -> Find:
    """The address of the other accumulator, in a kernel that has allocated two and no more."""

    def find(kernel: Kernel) -> Iterator[Change]:
        alloc, mma = re.search(sites.ALLOC, kernel.code), re.search(sites.MMA, kernel.code)
        if alloc is None or mma is None:
            return
        allocated = sites.constant(kernel.code, alloc["columns"])
        idesc = sites.constant(kernel.code, mma["idesc"])
        if allocated is None or idesc is None or allocated != 2 * (columns := (idesc & _N) >> 17 << 3):
            return
        yield from at(pattern, operand(name, 32, f"xor.b32 mutant, {{0}}, {columns}"))(kernel)

    return find


def already(values: set[str]) -> Why:
    """The accumulate predicate has the value in any case: each of its definitions says so."""

    def why(kernel: Kernel, place: Place) -> str | None:
        found = sites.definitions(kernel.code, place["enable"])
        return "the predicate is this constant" if found and found <= values else None

    return why


def nothing_waits(kernel: Kernel, place: Place) -> str | None:
    """The permit matters to another CTA's allocation only, and the kernel's end gives it back."""
    return "it only lets other CTAs allocate earlier"


_OTHER_KIND = {"f16": "tf32", "tf32": "f16", "f8f6f4": "i8", "i8": "f8f6f4"}
_OTHER_KIND |= {"mxf8f6f4": "mxf4", "mxf4": "mxf8f6f4", "mxf4nvf4": "mxf8f6f4"}


def other_kind(place: Place) -> str:
    """Another kind, for which the descriptor's types are none; its blocks are the usual ones of that kind."""
    text = re.sub(r"\.scale_vec::\dX", "", place[0])
    return re.sub(r"kind::(\w+)", lambda found: f"kind::{_OTHER_KIND[found[1]]}", text)


def untyped(name: str) -> Why:
    """An operand of which nothing but the instruction descriptor says its type.

    Threads store it, or its tensor map is of bytes, which may hold any narrow type.
    """

    def why(kernel: Kernel, place: Place) -> str | None:
        if not kernel.maps or place[name].startswith("["):
            return "threads store the operand, and nothing else says its type"
        return None if "kind::f16" in place[0] else "the map is of bytes, which may hold any narrow type"

    return why


def says_which_factors(kernel: Kernel, place: Place) -> str | None:
    """The bits of D's type are those of B's scale factors where there are any."""
    return "the bits have another meaning" if place["scales_a"] else None


def own_barriers(place: Place) -> str:
    """A pair's load without .cta_group::2."""
    return place[0].replace(".cta_group::2", "", 1)


_ELECT = r"elect\.sync\s+(?P<lane>[%\w]+)\|(?P<elected>%\w+),\s*[^;]+;"


def elects(*what: str) -> Find:
    """All lanes instead of the elected one, where what it is elected for starts with one of these."""
    kinds = r"(mbarrier\.init|mbarrier\.arrive|cp\.async\.bulk|cp\.reduce|tcgen05\.mma|tcgen05\.commit|wgmma)"

    def find(kernel: Kernel) -> Iterator[Change]:
        for place in re.finditer(_ELECT, kernel.code):
            for_ = re.search(kinds, kernel.code[place.end() :])
            behind = kernel.code[place.end() + for_.start() :] if for_ else ""
            if behind.startswith(what):
                text = f"{place[0]} setp.eq.u32 {place['elected']}, 0, 0;"
                stores = re.match(sites.STORE, behind) is not None and "reduce" not in behind[:12]
                same = "a store of the same bytes to the same place" if stores else None
                yield Change(((place.start(), place.end(), text),), excluded=same)

    return find


RULES: tuple[Rule, ...] = (
    Rule(
        "commit dropped",
        "no arrival behind the MMAs",
        NEVER,
        "the phase lacks an arrival",
        at(sites.COMMIT, dropped),
    ),
    Rule(
        "commit before the last MMA",
        "an arrival that does not wait for it",
        frozenset({"StageReusedEarly", "OverwrittenSource", "ReadBeforeWait", "TensorMemoryWriteUnderWay"}),
        "its operands are written over, or its sums read, before it is done",
        before_last(sites.COMMIT, sites.MMA),
    ),
    Rule(
        "commit twice",
        "two arrivals behind the MMAs",
        EXTRA_ARRIVAL,
        "a phase ends an arrival early, or has one too many",
        at(sites.COMMIT, twice),
    ),
    Rule(
        "commit at the barrier beside",
        "a commit's address 8 bytes further on",
        EXTRA_ARRIVAL | BESIDE | {"MulticastError"},
        "one barrier lacks an arrival and the other has one too many, or there is none",
        at(sites.COMMIT, moved("address", 8)),
    ),
    Rule(
        "commit mask: a CTA missing",
        "somebody does not hear of the MMAs",
        NEVER | {"InvalidOperand"},
        "its phase lacks an arrival",
        at(sites.COMMIT_MASK, operand("mask", 16, "sub.u16 mutant, {0}, 1", "and.b16 mutant, mutant, {0}")),
    ),
    Rule(
        "commit mask shifted",
        "others hear of the MMAs",
        EXTRA_ARRIVAL | {"MulticastError"},
        "one phase lacks an arrival, another has one too many, or there is no such CTA",
        at(sites.COMMIT_MASK, operand("mask", 16, "shl.b16 mutant, {0}, 1")),
    ),
    Rule(
        "load of a pair: .cta_group::2 dropped",
        "each CTA's barrier is told instead of the first one's",
        BYTES_MISSING | BYTES_EXTRA | _FIELD,
        "the barrier has to be of the CTA that is written to; else the pair's lacks the other's bytes",
        at(sites.LOAD.replace(r"\.global[\w.:]*", r"\.global[\w.:]*cta_group::2[\w.:]*", 1), own_barriers),
    ),
    Rule(
        "alloc dropped",
        "no tensor memory",
        _ALLOCATION | {"UninitializedRead", "TensorMemoryOutside"},
        "nobody writes the address that is read, and nothing is allocated",
        at(sites.ALLOC, dropped),
    ),
    Rule(
        "alloc of half the columns",
        "too few columns",
        _ALLOCATION | {"TensorMemoryOutside"},
        "the accumulator is larger than the allocation, or the free is",
        at(sites.ALLOC, operand("columns", 32, "shr.u32 mutant, {0}, 1")),
    ),
    Rule(
        "alloc of 32 columns more",
        "no power of two",
        _ALLOCATION,
        "the number of columns is a power of two",
        at(sites.ALLOC, operand("columns", 32, "add.u32 mutant, {0}, 32")),
    ),
    Rule(
        "dealloc dropped",
        "tensor memory kept",
        frozenset({"TensorMemoryLeak"}),
        "the CTA ends with it",
        at(sites.DEALLOC, dropped),
    ),
    Rule(
        "dealloc of half the columns",
        "a part of the tensor memory kept",
        _ALLOCATION | {"TensorMemoryLeak"},
        "an allocation is freed as it was made",
        at(sites.DEALLOC, operand("columns", 32, "shr.u32 mutant, {0}, 1")),
    ),
    Rule(
        "dealloc before the loads",
        "tensor memory freed and then read",
        frozenset({"TensorMemoryFreed", "TensorMemoryLoadUnderWay"}),
        "what is read is not allocated any more",
        freed_early,
    ),
    Rule(
        "relinquish dropped",
        "the permit kept",
        frozenset(),
        "see why it is excluded",
        at(r"tcgen05\.relinquish[^;]*;", dropped, nothing_waits),
    ),
    Rule(
        "wait::ld dropped",
        "registers used before they are loaded",
        frozenset({"TensorMemoryLoadUnderWay", "LoadNotWaitedFor"}),
        "the memory is written or freed with a load under way",
        at(r"tcgen05\.wait::ld[^;]*;", dropped),
    ),
    Rule(
        "wait::st dropped",
        "tensor memory used before it is stored",
        frozenset({"TensorMemoryWriteUnderWay"}),
        "what is read has still to be written",
        at(r"tcgen05\.wait::st[^;]*;", dropped),
    ),
    Rule(
        "tcgen05 fence dropped",
        "tensor memory used in another order",
        frozenset({"MissingFenceAfter", "MissingFenceBefore"}),
        "the document asks for it between threads",
        at(r"tcgen05\.fence::[^;]*;", dropped),
    ),
    Rule(
        "ld column + 16",
        "columns beside",
        OUTSIDE_TMEM | OTHER_ACCUMULATOR,
        "it reads 16 columns that are no sums, and not the first ones",
        at(sites.TMEM_LOAD, operand("from", 32, "add.u32 mutant, {0}, 16")),
    ),
    Rule(
        "ld from the other accumulator",
        "the sums of the tile before or after",
        OTHER_ACCUMULATOR,
        "nobody has waited for these sums, or they are not there yet",
        other_accumulator(sites.TMEM_LOAD, "from"),
    ),
    Rule(
        "mma into the other accumulator",
        "a part of a tile's sums added to another tile's",
        OTHER_ACCUMULATOR,
        "nobody has said that it is empty, or its sums are not there yet; the right one lacks this part",
        other_accumulator(sites.MMA, "d"),
    ),
    Rule(
        "ld lane + 32",
        "another warp's lanes",
        frozenset({"TensorMemoryLanesError"}),
        "a warp reaches its own 32 lanes",
        at(sites.TMEM_LOAD, operand("from", 32, "add.u32 mutant, {0}, 2097152")),
    ),
    Rule(
        "st lane + 32",
        "another warp's lanes",
        frozenset({"TensorMemoryLanesError"}),
        "a warp reaches its own 32 lanes",
        at(sites.TMEM_STORE, operand("to", 32, "add.u32 mutant, {0}, 2097152")),
    ),
    Rule(
        "mma column + 16",
        "an accumulator beside",
        OUTSIDE_TMEM,
        "the sums lie 16 columns further on than they are read",
        at(sites.MMA, operand("d", 32, "add.u32 mutant, {0}, 16")),
    ),
    Rule(
        "mma dropped",
        "a part of K left out",
        frozenset({"UnreadLoad", "UninitializedRead"}),
        "what was loaded for it is never read; without any there are no sums",
        at(sites.MMA, dropped),
    ),
    Rule(
        "mma of another kind",
        "kind::tf32 with a descriptor for f16",
        _FIELD,
        "the kind has no such types",
        at(sites.MMA, other_kind),
    ),
    Rule(
        "idesc: N halved",
        "half of the columns",
        _FIELD | {"UninitializedRead", "UnreadLoad"},
        "half of the sums are never written, and half of B is never read",
        of_idesc(*_halved(_N)),
    ),
    Rule(
        "idesc: N doubled",
        "twice the columns",
        _FIELD | OUTSIDE_TILE | {"TensorMemoryOutside"},
        "no such N, or it reads behind B and writes behind the accumulator",
        of_idesc(*_doubled(_N)),
    ),
    Rule(
        "idesc: M halved",
        "half of the rows",
        _FIELD | {"UninitializedRead", "UnreadLoad"},
        "no such M, or the sums lie in other lanes and half of A is never read",
        of_idesc(*_halved(_M)),
    ),
    Rule(
        "idesc: M doubled",
        "twice the rows",
        _FIELD | OUTSIDE_TILE,
        "no such M, or it reads behind A",
        of_idesc(*_doubled(_M)),
    ),
    Rule(
        "idesc: A transposed",
        "A read along M",
        LAYOUT | _FIELD,
        "another major than the one A was written by",
        of_idesc(f"xor.b32 mutant, {{0}}, {_A_ALONG_M}"),
    ),
    Rule(
        "idesc: B transposed",
        "B read along N",
        LAYOUT | _FIELD,
        "another major than the one B was written by",
        of_idesc(f"xor.b32 mutant, {{0}}, {_B_ALONG_N}"),
    ),
    Rule(
        "idesc: D in f16",
        "sums of half the width",
        _FIELD | {"SumTypeMismatch", "UninitializedRead"},
        "words of 32 bits are read of which a sum fills half",
        of_idesc(f"xor.b32 mutant, {{0}}, {_D_IN_F32}", excluded=says_which_factors),
    ),
    Rule(
        "idesc: A in the other type",
        "f16 read as bf16",
        _FIELD | {"OperandTypeMismatch"},
        "the types of A and B are not of one kind of product, and the tensor map's is another",
        of_idesc(f"xor.b32 mutant, {{0}}, {_A_IN_BF16}", beyond=untyped("a")),
    ),
    Rule(
        "idesc: B in the other type",
        "f16 read as bf16",
        _FIELD | {"OperandTypeMismatch"},
        "the types of A and B are not of one kind of product, and the tensor map's is another",
        of_idesc(f"xor.b32 mutant, {{0}}, {_B_IN_BF16}", beyond=untyped("b")),
    ),
    Rule(
        "start of A + 32 bytes",
        "the next k of A",
        frozenset({"ReductionMismatch"}) | LAYOUT,
        "A and B are of different k; behind the last k lies another row or tile",
        descriptor("a", "add.u64 mutant, {0}, 2"),
    ),
    Rule(
        "start of B + 32 bytes",
        "the next k of B",
        frozenset({"ReductionMismatch"}) | LAYOUT,
        "A and B are of different k; behind the last k lies another row or tile",
        descriptor("b", "add.u64 mutant, {0}, 2"),
    ),
    Rule(
        "start of A + 1 KiB",
        "the next eight rows of A",
        frozenset({"ReductionMismatch"}) | LAYOUT,
        "the first rows are never read, and the last lie behind the tile",
        descriptor("a", "add.u64 mutant, {0}, 64"),
    ),
    Rule(
        "start of B + 1 KiB",
        "the next eight rows of B",
        frozenset({"ReductionMismatch"}) | LAYOUT,
        "the first rows are never read, and the last lie behind the tile",
        descriptor("b", "add.u64 mutant, {0}, 64"),
    ),
    Rule(
        "A's descriptor for B",
        "A times itself",
        frozenset({"ReductionMismatch", "UnreadLoad"}) | OUTSIDE_TILE,
        "B is never read, or more rows are read than A has",
        at(sites.MMA_AB, the_other("b", "a")),
    ),
    Rule(
        "B's descriptor for A",
        "B times itself",
        frozenset({"ReductionMismatch", "UnreadLoad"}) | OUTSIDE_TILE,
        "A is never read, or more rows are read than B has",
        at(sites.MMA_AB, the_other("a", "b")),
    ),
    Rule(
        "leading offset of A + 1 KiB",
        "the next part along M from elsewhere",
        LAYOUT,
        "another stride than the one A was written by",
        leading("a"),
    ),
    Rule(
        "leading offset of B + 1 KiB",
        "the next part along N from elsewhere",
        LAYOUT,
        "another stride than the one B was written by",
        leading("b"),
    ),
    Rule(
        "stride of A doubled",
        "every second group of rows",
        LAYOUT,
        "another stride than the one A was written by",
        descriptor("a", f"and.b64 mutant, {{0}}, {_STRIDE}", "add.u64 mutant, mutant, {0}"),
    ),
    Rule(
        "stride of B doubled",
        "every second group of rows",
        LAYOUT,
        "another stride than the one B was written by",
        descriptor("b", f"and.b64 mutant, {{0}}, {_STRIDE}", "add.u64 mutant, mutant, {0}"),
    ),
    Rule(
        "stride of A: 0",
        "one group of rows again and again",
        LAYOUT,
        "the same bytes are several rows of A",
        descriptor("a", f"and.b64 mutant, {{0}}, {hex(_ALL ^ _STRIDE)}"),
    ),
    Rule(
        "stride of B: 0",
        "one group of rows again and again",
        LAYOUT,
        "the same bytes are several rows of B",
        descriptor("b", f"and.b64 mutant, {{0}}, {hex(_ALL ^ _STRIDE)}"),
    ),
    Rule(
        "swizzle of A: none",
        "A read without its swizzle",
        LAYOUT,
        "another swizzle than the one A was written by",
        descriptor("a", f"and.b64 mutant, {{0}}, {hex(_ALL ^ _SWIZZLE)}"),
    ),
    Rule(
        "swizzle of B: none",
        "B read without its swizzle",
        LAYOUT,
        "another swizzle than the one B was written by",
        descriptor("b", f"and.b64 mutant, {{0}}, {hex(_ALL ^ _SWIZZLE)}"),
    ),
    Rule(
        "swizzle of A: another",
        "A read with another swizzle",
        LAYOUT,
        "another swizzle than the one A was written by",
        descriptor("a", f"xor.b64 mutant, {{0}}, {hex(_OTHER_SWIZZLE)}"),
    ),
    Rule(
        "swizzle of B: another",
        "B read with another swizzle",
        LAYOUT,
        "another swizzle than the one B was written by",
        descriptor("b", f"xor.b64 mutant, {{0}}, {hex(_OTHER_SWIZZLE)}"),
    ),
    Rule(
        "swizzle of A: no such mode",
        "a field that cannot be",
        _FIELD,
        "the field has no such value",
        descriptor("a", f"or.b64 mutant, {{0}}, {hex(_SWIZZLE)}"),
    ),
    Rule(
        "base offset of A: 1",
        "the swizzle's phase one row on",
        LAYOUT | _FIELD,
        "the tile starts where the pattern of the swizzle does, and the field says otherwise",
        descriptor("a", f"or.b64 mutant, {{0}}, {hex(_BASE_OFFSET_1)}"),
    ),
    Rule(
        "descriptor's version: 0",
        "a descriptor as wgmma has it",
        _FIELD,
        "the field is 1 for tcgen05",
        descriptor("b", f"and.b64 mutant, {{0}}, {hex(_ALL ^ _VERSION)}"),
    ),
    Rule(
        "accumulate always",
        "the first MMA adds to what was there",
        frozenset({"UninitializedRead"}),
        "nobody has written what it adds to",
        at(sites.MMA, enabled(1), already({"-1", "1"})),
    ),
    Rule(
        "accumulate never",
        "an MMA throws the sum away",
        frozenset({"UnreadSum"}),
        "sums are written over that nobody has read",
        at(sites.MMA, enabled(0), already({"0"})),
    ),
    Rule(
        "all lanes initialise",
        "no elected lane",
        frozenset({"BarrierInUse"}),
        "the barrier is initialised 32 times",
        elects("mbarrier.init"),
    ),
    Rule(
        "all lanes arrive",
        "no elected lane",
        EXTRA_ARRIVAL | BYTES_MISSING,
        "32 arrivals, and 32 times the bytes",
        elects("mbarrier.arrive"),
    ),
    Rule(
        "all lanes load",
        "no elected lane",
        TOO_MUCH_ROOM | BYTES_EXTRA | {"ReadBeforeWait", "UninitializedRead"},
        "32 times the bytes, over each other, and over what is read",
        elects("cp.async.bulk.tensor"),
    ),
    Rule(
        "all lanes multiply",
        "no elected lane",
        frozenset(
            {
                "UnreadSum",
                "ReductionMismatch",
                "OverwrittenSource",
                "StageReusedEarly",
                "TensorMemoryWriteUnderWay",
            }
        ),
        "a product 32 times, or sums written over; a commit waits for its own lane's MMAs only",
        elects("tcgen05.mma"),
    ),
    Rule(
        "all lanes commit",
        "no elected lane",
        EXTRA_ARRIVAL,
        "32 arrivals where one is counted",
        elects("tcgen05.commit"),
    ),
)
