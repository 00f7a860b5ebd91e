"""Mistakes with the tensor core of Hopper: wgmma's fences, groups and descriptors, and the register pool."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.mutation import sites
from benchmarks.mutation.expected import LAYOUT, NEVER, OUTSIDE_TILE
from benchmarks.mutation.rule import (
    Change,
    Kernel,
    Rule,
    Write,
    at,
    counted,
    dropped,
    instead,
    operand,
    the_other,
)

# The fields of the descriptor: PTX ISA 9.0, "Matrix descriptor format" of wgmma.mma_async.
_STRIDE = 0x3FFF << 32
_BASE_OFFSET_1 = 1 << 49
_SWIZZLE = 3 << 62  # 1: 128 bytes, 2: 64 bytes
_ALL = (1 << 64) - 1
_K = frozenset({"ReductionMismatch"})
_IN_FLIGHT = frozenset({"AccumulatorInFlight", "StageReusedEarly", "OverwrittenSource"})
_DEC = r"setmaxnreg\.(?P<action>dec)\.sync\.aligned\.u32\s+(?P<count>\d+)\s*;"
_INC = r"setmaxnreg\.inc\.sync\.aligned\.u32\s+(?P<count>\d+)\s*;"
_WAIT = r"wgmma\.wait_group\.sync\.aligned\s+(?P<groups>\d+)\s*;"


def _transposed(name: str) -> Write:
    """The other major for an operand."""
    return instead(name, lambda place: str(1 - int(place[name])))


def _no_start(kernel: Kernel) -> Iterator[Change]:
    """An entry that has setmaxnreg without .minnctapersm and .maxnreg."""
    if "setmaxnreg" in kernel.code:
        yield from at(r"\.(?:minnctapersm|maxnreg)\s+\d+", dropped)(kernel)


def _of(name: str, *rules: tuple[str, str, frozenset[str], str, tuple[str, ...]]) -> tuple[Rule, ...]:
    """Rules for the descriptor of A or of B."""
    return tuple(
        Rule(
            f"wgmma: {what} of {name}", about, right, why, at(sites.WGMMA, operand(name.lower(), 64, *steps))
        )
        for what, about, right, why, steps in rules
    )


_DESCRIPTOR = (
    (
        "start + 32 bytes",
        "the next k",
        _K | LAYOUT,
        "A and B are of different k; behind the last k lies another row or tile",
        ("add.u64 mutant, {0}, 2",),
    ),
    (
        "start + 1 KiB",
        "the next eight rows",
        _K | LAYOUT,
        "the first rows are never read, and the last lie behind the tile",
        ("add.u64 mutant, {0}, 64",),
    ),
    (
        "stride doubled",
        "every second group of rows",
        LAYOUT,
        "another stride than it was written by",
        (f"and.b64 mutant, {{0}}, {_STRIDE}", "add.u64 mutant, mutant, {0}"),
    ),
    (
        "stride 0",
        "one group of rows again and again",
        LAYOUT,
        "the same bytes are several rows",
        (f"and.b64 mutant, {{0}}, {hex(_ALL ^ _STRIDE)}",),
    ),
    (
        "swizzle none",
        "read without its swizzle",
        LAYOUT,
        "another swizzle than it was written by",
        (f"and.b64 mutant, {{0}}, {hex(_ALL ^ _SWIZZLE)}",),
    ),
    (
        "other swizzle",
        "read with another swizzle",
        LAYOUT,
        "another swizzle than it was written by",
        (f"xor.b64 mutant, {{0}}, {hex(_SWIZZLE)}",),
    ),
    (
        "base offset 1",
        "the swizzle's phase one row on",
        LAYOUT | {"InvalidOperand"},
        "the tile starts where the pattern of the swizzle does, and the field says otherwise",
        (f"or.b64 mutant, {{0}}, {hex(_BASE_OFFSET_1)}",),
    ),
)

RULES: tuple[Rule, ...] = (
    Rule(
        "wgmma fence dropped",
        "registers used before without a fence",
        frozenset({"MissingWgmmaFence"}),
        "the document asks for it before the first wgmma, and where registers have been used",
        at(r"wgmma\.fence[^;]*;", dropped),
    ),
    Rule(
        "wgmma commit dropped",
        "the wait behind it has no group",
        _IN_FLIGHT,
        "its registers are used, and its operands written over, while it is under way",
        at(r"wgmma\.commit_group[^;]*;", dropped),
    ),
    Rule(
        "wgmma wait dropped",
        "nobody waits for the group",
        _IN_FLIGHT,
        "its registers are used, and its operands written over, while it is under way",
        at(_WAIT, dropped),
    ),
    Rule(
        "wgmma wait for one group less",
        "wait_group with one more still under way",
        _IN_FLIGHT,
        "its registers are used, and its operands written over, while it is under way",
        at(_WAIT, counted("groups", 1)),
    ),
    Rule(
        "wgmma dropped",
        "a part of the product left out",
        frozenset({"UnreadLoad"}),
        "what was loaded for it is never read",
        at(sites.WGMMA, dropped),
    ),
    Rule(
        "wgmma: A's descriptor for B",
        "A times itself",
        OUTSIDE_TILE | {"ReductionMismatch", "UnreadLoad"},
        "B is never read, or more rows are read than A has",
        at(sites.WGMMA, the_other("b", "a")),
    ),
    Rule(
        "wgmma: B's descriptor for A",
        "B times itself",
        OUTSIDE_TILE | {"ReductionMismatch", "UnreadLoad"},
        "A is never read, or more rows are read than B has",
        at(sites.WGMMA, the_other("a", "b")),
    ),
    Rule(
        "wgmma: A transposed",
        "A read along M",
        LAYOUT,
        "another major than the one A was written by",
        at(sites.WGMMA, _transposed("trans_a")),
    ),
    Rule(
        "wgmma: B transposed",
        "B read along N",
        LAYOUT,
        "another major than the one B was written by",
        at(sites.WGMMA, _transposed("trans_b")),
    ),
    *_of("A", *_DESCRIPTOR),
    *_of("B", *_DESCRIPTOR),
    Rule(
        "setmaxnreg.dec dropped",
        "nobody gives registers",
        NEVER,
        "the warps that ask for more wait for good",
        at(_DEC, dropped),
    ),
    Rule(
        "setmaxnreg.dec: 8 registers more are kept",
        "too few are given",
        NEVER,
        "the last warp that asks for more waits for good",
        at(_DEC, counted("count", 8)),
    ),
    Rule(
        "setmaxnreg.inc: 8 registers more",
        "too many are asked for",
        NEVER,
        "the last warp that asks for more waits for good",
        at(_INC, counted("count", 8)),
    ),
    Rule(
        "setmaxnreg.inc for .dec",
        "asked for fewer registers than there are",
        frozenset({"RegisterPoolError"}) | NEVER,
        "it must not lower the number, and gives nothing to those that wait",
        at(_DEC, instead("action", lambda place: "inc")),
    ),
    Rule(
        "register count dropped",
        "an entry with setmaxnreg that does not say how many registers there are",
        frozenset({"SetmaxnregIgnored"}),
        "ptxas leaves setmaxnreg out",
        _no_start,
    ),
)
