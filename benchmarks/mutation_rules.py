"""Rules that put one mistake into a kernel's PTX, at every place where it can be made.

A rule is fixed before anything runs: which statements it changes and how, which of the emulator's reports
name the mistake, and where the change is none because the text means the same afterwards (`equivalent`
says why). A mutant is the kernel's text with one statement changed; no line moves, so that a report's line
is that of the kernel's own text.

Operands are changed by a register of the statement's own: `op %r1;` becomes
`{ .reg .b32 mutant; add.u32 mutant, %r1, 16; op mutant; }`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

WITHOUT_BYTES = frozenset({"UninitializedRead", "BarrierCountError"})
"""A phase that ends before its bytes are there: a read of what is not there, or bytes of no phase."""
EARLY = WITHOUT_BYTES | {"TensorMemoryHazard", "OverwrittenSource", "UnfinishedCopy", "BarrierStateError"}
"""Something goes on before what it should have waited for."""
NEVER = frozenset({"DeadlockError", "BudgetExceeded"})
"""Somebody waits for what does not come; hand-written loops that poll end in the budget."""
OUTSIDE = frozenset({"TensorMemoryAccessError", "UninitializedRead", "InvalidOperand"})
"""A place in tensor memory that is another's, or that nobody has written."""
OPERAND = frozenset({"InvalidOperand", "UninitializedRead", "AddressError", "AlignmentError"})
"""A tile read by another layout than it has: rows that are not there, or a field that cannot be."""

_GUARD = r"(?P<guard>@!?%\w+\s+)?"
_MMA = (
    _GUARD + r"(?P<op>tcgen05\.mma\.[\w.:]+)\s+\[(?P<d>%\w+)\],\s*(?P<a>%\w+),\s*(?P<b>%\w+),"
    r"\s*(?P<idesc>%\w+),\s*(?P<lanes>\{[^}]*\}),\s*(?P<enable>%\w+)\s*;"
)
_EXPECT = (
    _GUARD + r"mbarrier\.arrive\.expect_tx(?P<kind>[\w.:]*)\s+(?P<state>[%\w]+),"
    r"\s*\[(?P<barrier>[^\]]+)\],\s*(?P<bytes>%?\w+)\s*;"
)
_WAIT = (
    _GUARD + r"mbarrier\.try_wait\.parity[\w.:]*\s+(?P<done>%?\w+),\s*\[[^\]]+\],\s*(?P<parity>%?\w+)[^;]*;"
)
_INIT = _GUARD + r"mbarrier\.init[\w.:]*\s+\[[^\]]+\],\s*(?P<count>%?\w+)\s*;"
_LOAD = _GUARD + r"tcgen05\.ld\.[\w.:]+\s+\{[^}]*\},\s*\[(?P<from>%\w+)\]\s*;"
_COPY_MASK = _GUARD + r"cp\.async\.bulk\.tensor[^;]*multicast::cluster[^;]*\],\s*(?P<mask>%\w+)[^;]*;"
_COMMIT_MASK = _GUARD + r"tcgen05\.commit[^;]*multicast::cluster[^;]*\],\s*(?P<mask>%\w+)\s*;"

Change = Callable[["re.Match[str]"], str]
Why = Callable[[str, "re.Match[str]"], str | None]


@dataclass(frozen=True)
class Rule:
    """One mistake: the statements it is made at, the change, and the reports that name it.

    `right` are names of the emulator's errors, and of its notes with "note: " before. `equivalent` says of a
    text and a place why the change there means the same, or None.
    """

    name: str
    about: str
    pattern: str
    change: Change
    right: frozenset[str]
    equivalent: Why = lambda text, place: None


@dataclass(frozen=True)
class Mutant:
    """A kernel's text with one statement changed. `line` counts from 1; `excluded` is a reason or None."""

    rule: Rule
    line: int
    before: str
    after: str
    text: str
    excluded: str | None


def mutants_of(text: str, rules: tuple[Rule, ...]) -> Iterator[Mutant]:
    """Every rule at every place of a PTX text, in the order of the rules and of the text."""
    code = re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)
    for rule in rules:
        for place in re.finditer(rule.pattern, code):
            after = rule.change(place)
            lines = place[0].count("\n")
            after = " ".join(after.split()) + "\n" * lines
            yield Mutant(
                rule,
                code.count("\n", 0, place.start()) + 1,
                " ".join(place[0].split()),
                after.strip(),
                text[: place.start()] + after + text[place.end() :],
                rule.equivalent(code, place),
            )


# --- changes ------------------------------------------------------------------------------------------------


def dropped(place: re.Match[str]) -> str:
    """Nothing in the statement's place."""
    return ""


def passes(place: re.Match[str]) -> str:
    """A wait that is over at once."""
    return f"{place['guard'] or ''}setp.eq.u32 {place['done']}, 0, 0;"


def operand(name: str, bits: int, *steps: str) -> Change:
    """The operand by a register of `bits` bits that the steps make of it: `{0}` is the operand."""

    def change(place: re.Match[str]) -> str:
        start, end = (at - place.start() for at in place.span(name))
        made = " ".join(f"{step.format(place[name])};" for step in steps)
        statement = place[0][:start] + "mutant" + place[0][end:]
        return f"{{ .reg .b{bits} mutant; {made} {statement} }}"

    return change


def only_arrives(place: re.Match[str]) -> str:
    """The arrival without the bytes."""
    return f"{place['guard'] or ''}mbarrier.arrive{place['kind']} {place['state']}, [{place['barrier']}];"


def enabled(value: int) -> Change:
    """The accumulate predicate as a constant."""

    def change(place: re.Match[str]) -> str:
        start, end = (at - place.start() for at in place.span("enable"))
        statement = place[0][:start] + "mutant" + place[0][end:]
        return f"{{ .reg .pred mutant; mov.pred mutant, {-value}; {statement} }}"

    return change


# --- where a change is none ---------------------------------------------------------------------------------


def definitions(text: str, register: str) -> set[str]:
    """The sources of all `mov` to a register, and "other" for any other statement that writes it."""
    name = re.escape(register)
    found = set(re.findall(rf"mov\.\w+\s+{name},\s*([^;]+);", text))
    others = re.findall(rf"(?:^|[;\s])(?!mov\.)[a-z][\w.]*\.\w+\s+{name}(?:\s*\||,)", text)
    return found | ({"other"} if others else set())


def already(values: set[str]) -> Why:
    """The accumulate predicate has the value in any case: each of its definitions says so."""

    def why(text: str, place: re.Match[str]) -> str | None:
        found = definitions(text, place["enable"])
        return "the predicate is this constant" if found and found <= values else None

    return why


def barrier_follows(text: str, place: re.Match[str]) -> str | None:
    """A barrier of the CTA or cluster right behind the fence releases the initialisations as well."""
    follows = re.match(r"\s*(barrier\.cluster\.arrive|bar\.sync)", text[place.end() :])
    return "a barrier right behind it releases what was written before" if follows else None


def last_of_kernel(text: str, place: re.Match[str]) -> str | None:
    """Behind a wait for the reads, the kernel's end waits for the writes."""
    ends = re.match(r"\s*(?:\$?\w+:\s*)*ret\s*;", text[place.end() :])
    reads = "wait_group.read" in text[: place.start()]
    return "only writes are left, and the kernel's end waits for them" if ends and reads else None


def nothing_waits(text: str, place: re.Match[str]) -> str | None:
    """The permit matters to another CTA's allocation only, and the kernel's end gives it back."""
    return "it only lets other CTAs allocate earlier"


def parity_is_constant(text: str, place: re.Match[str]) -> str | None:
    """A parity that is the constant 0 already."""
    return "the parity is 0" if place["parity"] == "0" else None


# --- the rules ----------------------------------------------------------------------------------------------

_TO_CLUSTER = r"barrier\.cluster\.arrive[\w.]*\s*;\s*barrier\.cluster\.wait[\w.]*\s*;"
_SYNC_LOST = frozenset(
    {
        "NoBarrierError",
        "BarrierInUse",
        "UninitializedRead",
        "AddressError",
        "TensorMemoryAccessError",
        "TensorMemoryAllocationError",
        "TensorMemoryHazard",
        "UnfinishedCopy",
        "MissingProxyFence",
        "OverwrittenSource",
    }
)
# A phase ends where the count of bytes is 0. Bytes beyond what was expected end it early, if a part of the
# copies adds up to what was expected, or take the count past 0, so that it never ends.
_LESS = WITHOUT_BYTES | NEVER | {"TensorMemoryHazard"}
_MORE_MASK = NEVER | WITHOUT_BYTES | {"InvalidOperand", "MulticastError", "NoBarrierError"}

RULES: tuple[Rule, ...] = (
    Rule("wait dropped", "an mbarrier wait passes at once", _WAIT, passes, EARLY),
    Rule(
        "parity flipped",
        "a wait for the other phase",
        _WAIT,
        operand("parity", 32, "xor.b32 mutant, {0}, 1"),
        EARLY | NEVER,
    ),
    Rule(
        "parity stuck",
        "a wait for parity 0 every time",
        _WAIT,
        operand("parity", 32, "mov.b32 mutant, 0"),
        EARLY | NEVER,
        parity_is_constant,
    ),
    Rule(
        "arrive dropped",
        "a consumer does not hand back",
        _GUARD + r"mbarrier\.arrive\.(?!expect_tx)[^;]*;",
        dropped,
        NEVER,
    ),
    Rule("expect_tx dropped", "an arrival without its bytes", _EXPECT, only_arrives, WITHOUT_BYTES),
    Rule(
        "arrive.expect_tx dropped",
        "neither arrival nor bytes",
        _EXPECT,
        dropped,
        NEVER | {"BarrierCountError"},
    ),
    Rule(
        "bytes + 16",
        "16 bytes that nobody brings",
        _EXPECT,
        operand("bytes", 32, "add.u32 mutant, {0}, 16"),
        NEVER,
    ),
    Rule("bytes - 16", "16 bytes too few", _EXPECT, operand("bytes", 32, "sub.u32 mutant, {0}, 16"), _LESS),
    Rule("bytes halved", "half of the bytes", _EXPECT, operand("bytes", 32, "shr.u32 mutant, {0}, 1"), _LESS),
    Rule("bytes doubled", "twice the bytes", _EXPECT, operand("bytes", 32, "shl.b32 mutant, {0}, 1"), NEVER),
    Rule(
        "count + 1",
        "an arrival that nobody makes",
        _INIT,
        operand("count", 32, "add.u32 mutant, {0}, 1"),
        NEVER,
    ),
    Rule(
        "count - 1",
        "a phase that ends an arrival early",
        _INIT,
        operand("count", 32, "sub.u32 mutant, {0}, 1"),
        EARLY | NEVER,
    ),
    Rule("init dropped", "a barrier that is none", _INIT, dropped, frozenset({"NoBarrierError"})),
    Rule(
        "init fence dropped",
        "initialisations not released",
        r"fence\.mbarrier_init[^;]*;",
        dropped,
        frozenset({"NoBarrierError"}),
        barrier_follows,
    ),
    Rule(
        "proxy fence dropped",
        "writes not shown to the async proxy",
        r"fence\.proxy\.async[^;]*;",
        dropped,
        frozenset({"MissingProxyFence"}),
    ),
    Rule("block barrier dropped", "warps of a CTA not in step", r"bar\.sync[^;]*;", dropped, _SYNC_LOST),
    Rule("cluster barrier dropped", "CTAs of a cluster not in step", _TO_CLUSTER, dropped, _SYNC_LOST),
    Rule("commit dropped", "no arrival behind the MMAs", _GUARD + r"tcgen05\.commit[^;]*;", dropped, NEVER),
    Rule(
        "bulk commit dropped",
        "the wait behind it has no group",
        _GUARD + r"cp\.async\.bulk\.commit_group\s*;",
        dropped,
        frozenset({"UnfinishedCopy", "OverwrittenSource"}),
    ),
    Rule(
        "bulk wait dropped",
        "the store may still read",
        _GUARD + r"cp\.async\.bulk\.wait_group[^;]*;",
        dropped,
        frozenset({"UnfinishedCopy", "OverwrittenSource"}),
        last_of_kernel,
    ),
    Rule(
        "copy mask: a CTA missing",
        "a receiver gets nothing",
        _COPY_MASK,
        operand("mask", 16, "sub.u16 mutant, {0}, 1", "and.b16 mutant, mutant, {0}"),
        NEVER | {"UninitializedRead", "InvalidOperand"},
    ),
    Rule(
        "copy mask shifted",
        "other receivers",
        _COPY_MASK,
        operand("mask", 16, "shl.b16 mutant, {0}, 1"),
        _MORE_MASK,
    ),
    Rule(
        "commit mask: a CTA missing",
        "somebody does not hear of the MMAs",
        _COMMIT_MASK,
        operand("mask", 16, "sub.u16 mutant, {0}, 1", "and.b16 mutant, mutant, {0}"),
        NEVER | {"InvalidOperand"},
    ),
    Rule(
        "commit mask shifted",
        "others hear of the MMAs",
        _COMMIT_MASK,
        operand("mask", 16, "shl.b16 mutant, {0}, 1"),
        _MORE_MASK | EARLY,
    ),
    Rule(
        "alloc dropped",
        "no tensor memory",
        r"tcgen05\.alloc[^;]*;",
        dropped,
        OUTSIDE | {"TensorMemoryAllocationError"},
    ),
    Rule(
        "dealloc dropped",
        "tensor memory kept",
        r"tcgen05\.dealloc[^;]*;",
        dropped,
        frozenset({"TensorMemoryLeak"}),
    ),
    Rule(
        "relinquish dropped",
        "the permit kept",
        r"tcgen05\.relinquish[^;]*;",
        dropped,
        frozenset(),
        nothing_waits,
    ),
    Rule(
        "wait::ld dropped",
        "registers used before they are loaded",
        r"tcgen05\.wait::ld[^;]*;",
        dropped,
        frozenset({"TensorMemoryHazard", "note: load not waited for"}),
    ),
    Rule("ld column + 16", "columns beside", _LOAD, operand("from", 32, "add.u32 mutant, {0}, 16"), OUTSIDE),
    Rule(
        "ld lane + 32",
        "another warp's lanes",
        _LOAD,
        operand("from", 32, "add.u32 mutant, {0}, 2097152"),
        OUTSIDE,
    ),
    Rule(
        "mma column + 16", "an accumulator beside", _MMA, operand("d", 32, "add.u32 mutant, {0}, 16"), OUTSIDE
    ),
    Rule(
        "idesc: N halved",
        "half of the columns",
        _MMA,
        operand(
            "idesc",
            32,
            "and.b32 mutant, {0}, 8257536",
            "shr.u32 mutant, mutant, 1",
            "sub.u32 mutant, {0}, mutant",
        ),
        OUTSIDE,
    ),
    Rule(
        "idesc: M halved",
        "half of the rows",
        _MMA,
        operand(
            "idesc",
            32,
            "and.b32 mutant, {0}, 520093696",
            "shr.u32 mutant, mutant, 1",
            "sub.u32 mutant, {0}, mutant",
        ),
        OUTSIDE,
    ),
    Rule(
        "idesc: A transposed",
        "A read along M",
        _MMA,
        operand("idesc", 32, "xor.b32 mutant, {0}, 32768"),
        OPERAND,
    ),
    Rule(
        "idesc: D in f16",
        "sums of half the width",
        _MMA,
        operand("idesc", 32, "xor.b32 mutant, {0}, 16"),
        OUTSIDE,
    ),
    Rule(
        "swizzle of A: none",
        "A read without its swizzle",
        _MMA,
        operand("a", 64, "and.b64 mutant, {0}, 2305843009213693951"),
        OPERAND,
    ),
    Rule(
        "swizzle of B: 64 bytes",
        "B read with another swizzle",
        _MMA,
        operand("b", 64, "xor.b64 mutant, {0}, -4611686018427387904"),
        OPERAND,
    ),
    Rule(
        "swizzle of A: no such mode",
        "a field that cannot be",
        _MMA,
        operand("a", 64, "or.b64 mutant, {0}, -6917529027641081856"),
        frozenset({"InvalidOperand"}),
    ),
    Rule(
        "stride of A doubled",
        "every second group of rows",
        _MMA,
        operand("a", 64, "and.b64 mutant, {0}, 70364449210368", "add.u64 mutant, mutant, {0}"),
        OPERAND,
    ),
    Rule(
        "stride of B: 0",
        "one group of rows again and again",
        _MMA,
        operand("b", 64, "and.b64 mutant, {0}, -70364449210369"),
        OPERAND,
    ),
    Rule(
        "accumulate always",
        "the first MMA adds to what was there",
        _MMA,
        enabled(1),
        frozenset({"UninitializedRead"}),
        already({"-1"}),
    ),
    Rule(
        "accumulate never",
        "an MMA throws the sum away",
        _MMA,
        enabled(0),
        frozenset({"TensorMemoryHazard"}),
        already({"0"}),
    ),
)
"""In the order of the table. The fields' bits are those of PTX ISA, "Instruction descriptor" and "Shared
memory descriptor" of tcgen05: N / 8 in bits 17 to 22, M / 16 in bits 24 to 28, A's major in bit 15, D's type
in bits 4 and 5; the stride in bits 32 to 45, the swizzle in bits 61 to 63 (2: 128 bytes, 4: 64 bytes)."""
