"""Launches of one warp that execute one memory instruction with given addresses, in PTX written for this.

Each probe reads the offset of every lane from an array, so that no compiler can see the addresses. An offset
of IDLE leaves the lane out. The rules of `cutecourse.memory_access` can thus be asked about any pattern, and
Nsight Compute says what the hardware makes of the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse.kernels.spec import LaunchSpec, Tensor

__all__ = ["IDLE", "Probe", "probe", "probes"]

IDLE = 0xFFFFFFFF
TILE_BYTES = 8192
MEMORY_WORDS = 8192
LANES = range(32)

_TEMPLATE = """
.version 7.8
.target {target}
.address_size 64

.visible .entry probe(.param .u64 offsets, .param .u64 memory, .param .u64 out)
{{
    .shared .align 1024 .b8 tile[{tile}];
    .reg .b64 %offsets, %memory, %out, %lane_bytes, %wide;
    .reg .b32 %lane, %offset, %shared, %at, %v<4>;
    .reg .pred %active, %more;

    ld.param.u64        %offsets, [offsets];
    ld.param.u64        %memory, [memory];
    ld.param.u64        %out, [out];
    cvta.to.global.u64  %offsets, %offsets;
    cvta.to.global.u64  %memory, %memory;
    cvta.to.global.u64  %out, %out;
    mov.u32             %lane, %tid.x;
    mul.wide.u32        %lane_bytes, %lane, 4;
    add.u64             %offsets, %offsets, %lane_bytes;
    ld.global.b32       %offset, [%offsets];
    setp.ne.u32         %active, %offset, {idle};
    mov.u32             %shared, tile;
    mov.b32             %v0, %lane;
    mov.b32             %v1, %lane;
    mov.b32             %v2, %lane;
    mov.b32             %v3, %lane;
{fill}
    add.u32             %shared, %shared, %offset;
    cvt.u64.u32         %wide, %offset;
    add.u64             %memory, %memory, %wide;

{body}
{keep}
    ret;
}}
"""

_FILL = """
    // Every byte of the tile is written, 512 bytes at a time.
    shl.b32             %at, %lane, 4;
    add.u32             %at, %at, %shared;
    add.u32             %v0, %shared, {tile};
more:
    st.shared.v4.b32    [%at], {{%lane, %lane, %lane, %lane}};
    add.u32             %at, %at, 512;
    setp.lt.u32         %more, %at, %v0;
    @%more bra          more;
    mov.b32             %v0, %lane;
    bar.sync            0;
"""
_KEEP = """
    // What the instruction has loaded is used.
    mul.wide.u32        %lane_bytes, %lane, 16;
    add.u64             %out, %out, %lane_bytes;
    st.global.v4.b32    [%out], {%v0, %v1, %v2, %v3};
"""


@dataclass(frozen=True)
class Probe:
    """A launch of one warp: what it is called, its specification and its arrays.

    width   bytes that a lane accesses.
    offsets the lanes' offsets in bytes; None for an idle lane.
    """

    name: str
    spec: LaunchSpec
    width: int
    offsets: tuple[int | None, ...]

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays to launch it with."""
        offsets = [IDLE if offset is None else offset for offset in self.offsets]
        return {
            "offsets": np.array(offsets, np.uint32),
            "memory": np.zeros(MEMORY_WORDS, np.uint32),
            "out": np.zeros(128, np.uint32),
        }


def probe(
    name: str,
    instruction: str,
    offsets: Iterable[int | None],
    *,
    width: int,
    fill: bool = False,
    keep: bool = False,
    target: str = "sm_80",
) -> Probe:
    """A probe of one instruction, whose operands may be %shared, %memory, %offset, %lane and %v0 to %v3.

    fill  write all of the shared tile first, for an instruction that reads it.
    keep  store %v0 to %v3 at the end, so that a load is not dropped.
    """
    # A predicate with a warp-wide instruction such as ldmatrix would be wrong: there all lanes take part.
    lines = [f"    {line.strip()};" for line in instruction.strip(";").split(";")]
    text = _TEMPLATE.format(
        target=target,
        tile=TILE_BYTES,
        idle=IDLE,
        fill=_FILL.format(tile=TILE_BYTES) if fill else "",
        body="\n".join(lines),
        keep=_KEEP if keep else "",
    )
    spec = LaunchSpec(
        name="probe",
        language="ptx",
        ptx=text.lstrip(),
        entry="probe",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        target=target,
        params=(
            Tensor("offsets", "u32", (32,)),
            Tensor("memory", "u32", (MEMORY_WORDS,)),
            Tensor("out", "u32", (128,)),
        ),
    )
    return Probe(name, spec, width, tuple(offsets))


# --- patterns --------------------------------------------------------------------------------------------

Pattern = Callable[[int], int | None]
_NAMES = {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}
_VALUES = {1: "%v0", 2: "%v0", 4: "%v0", 8: "{%v0, %v1}", 16: "{%v0, %v1, %v2, %v3}"}


def _every(stride: int, width: int) -> Pattern:
    """Lane l at l * stride accesses, wrapped so that it stays inside of the tile."""
    return lambda lane: lane * stride * width % TILE_BYTES


def _pairs(lane: int) -> int:
    return lane // 2


def _twos(lane: int) -> int:
    return lane // 4 * 2 + lane % 2


def _mixed(lane: int) -> int:
    return _pairs(lane) if lane < 16 else _twos(lane)


PATTERNS: dict[int, dict[str, Pattern]] = {
    1: {"consecutive": _every(1, 1)},
    2: {"consecutive": _every(1, 2), "every 4th": _every(4, 2), "stride 66": _every(66, 2)},
    4: {
        **{f"stride {n}": _every(n, 4) for n in (1, 2, 3, 4, 8, 16, 32, 33)},
        "one word": lambda lane: 0,
        "two words of one bank": lambda lane: lane % 2 * 128,
        "two words of two banks": lambda lane: lane % 2 * 4,
        "one word each, stride 32, odd lanes idle": lambda lane: None if lane % 2 else lane * 128,
        "reversed": lambda lane: 124 - 4 * lane,
        "upper half idle": lambda lane: 4 * lane if lane < 16 else None,
    },
    8: {
        **{f"stride {n}": _every(n, 8) for n in (1, 2, 3, 4, 16, 17)},
        "one word": lambda lane: 0,
        "halves alike": lambda lane: lane % 16 * 8,
        "lanes 2i and 2i+1 alike": lambda lane: _pairs(lane) * 8,
        "lanes i and i+2 alike": lambda lane: _twos(lane) * 8,
        "lanes i and i+4 alike": lambda lane: (lane // 8 * 4 + lane % 4) * 8,
        "four lanes alike": lambda lane: lane // 4 * 8,
        "odd lanes idle": lambda lane: None if lane % 2 else lane // 2 * 8,
        "every 4th lane": lambda lane: None if lane % 4 else lane // 4 * 8,
        "lanes 2i and 2i+1 alike, stride 16": lambda lane: lane // 2 * 128,
        "lanes 2i and 2i+1 alike, but two": lambda lane: 8 * 40 if lane == 1 else lane // 2 * 8,
        "upper half idle": lambda lane: 8 * lane if lane < 16 else None,
        "two words of one bank": lambda lane: lane % 2 * 128,
        "one half like i+1, one like i+2": lambda lane: _mixed(lane) * 8,
        "one in four idle": lambda lane: None if lane % 4 == 0 else lane * 8,
    },
    16: {
        **{f"stride {n}": _every(n, 16) for n in (1, 2, 3, 4, 8, 9)},
        "one word": lambda lane: 0,
        "halves alike": lambda lane: lane % 16 * 16,
        "quarters alike": lambda lane: lane % 8 * 16,
        "lanes 2i and 2i+1 alike": lambda lane: _pairs(lane) * 16,
        "lanes i and i+2 alike": lambda lane: _twos(lane) * 16,
        "lanes i and i+4 alike": lambda lane: (lane // 8 * 4 + lane % 4) * 16,
        "four lanes alike": lambda lane: lane // 4 * 16,
        "eight lanes alike": lambda lane: lane // 8 * 16,
        "odd lanes idle": lambda lane: None if lane % 2 else lane // 2 * 16,
        "only 8 lanes": lambda lane: lane * 16 if lane < 8 else None,
        "two words of one bank": lambda lane: lane % 2 * 128,
        "one half like i+1, one like i+2": lambda lane: _mixed(lane) * 16,
        "quarters like i+1 and like i+2": lambda lane: (_pairs(lane) if lane % 16 < 8 else _twos(lane)) * 16,
        "lower half in pairs": lambda lane: (_pairs(lane) if lane < 16 else lane) * 16,
        "first quarter in pairs": lambda lane: (_pairs(lane) if lane < 8 else lane) * 16,
        "odd lanes idle, stride 8": lambda lane: None if lane % 2 else lane // 2 * 128,
    },
}
_STORED = {
    1: ("consecutive",),
    2: ("consecutive", "stride 66"),
    4: ("stride 1", "stride 2", "stride 32", "stride 33", "one word", "two words of one bank"),
    8: ("stride 1", "stride 2", "stride 16", "lanes 2i and 2i+1 alike", "odd lanes idle", "one word"),
    16: ("stride 1", "stride 2", "stride 8", "stride 9", "quarters alike", "lanes 2i and 2i+1 alike",
         "odd lanes idle", "one word"),
}  # fmt: skip
_GLOBAL: dict[int, dict[str, Pattern]] = {
    4: {
        **{f"stride {n}": _every(n, 4) for n in (1, 2, 8, 32)},
        "begun at byte 16": lambda lane: 16 + 4 * lane,
        "one word": lambda lane: 0,
        "odd lanes idle": lambda lane: None if lane % 2 else 4 * lane,
    },
    8: {
        "stride 1": _every(1, 8),
        "stride 4": _every(4, 8),
        "halves alike": lambda lane: lane % 16 * 8,
        "lanes i and i+8 alike": lambda lane: lane % 8 * 8,
    },
    16: {
        "stride 1": _every(1, 16),
        "stride 2": _every(2, 16),
        "stride 8": _every(8, 16),
        "begun at byte 16": lambda lane: 16 + 16 * lane,
        "quarters alike": lambda lane: lane % 8 * 16,
        "lanes i and i+2 alike": lambda lane: (lane // 4 * 2 + lane % 2) * 16,
        "one word": lambda lane: 0,
    },
}


def _offsets(pattern: Pattern) -> list[int | None]:
    return [pattern(lane) for lane in LANES]


def _lane_by_lane() -> Iterable[Probe]:
    for width, patterns in PATTERNS.items():
        for name, pattern in patterns.items():
            kind, value, offsets = _NAMES[width], _VALUES[width], _offsets(pattern)
            load = f"@%active ld.shared.{kind} {value}, [%shared]"
            yield probe(f"ld.shared.{kind}, {name}", load, offsets, width=width, fill=True, keep=True)
            if name in _STORED[width]:
                store = f"@%active st.shared.{kind} [%shared], {value}"
                yield probe(f"st.shared.{kind}, {name}", store, offsets, width=width)
    for width, patterns in _GLOBAL.items():
        for name, pattern in patterns.items():
            kind, value, offsets = _NAMES[width], _VALUES[width], _offsets(pattern)
            load = f"@%active ld.global.{kind} {value}, [%memory]"
            yield probe(f"ld.global.{kind}, {name}", load, offsets, width=width, keep=True)
            store = f"@%active st.global.{kind} [%memory], {value}"
            yield probe(f"st.global.{kind}, {name}", store, offsets, width=width)


def _matrices() -> Iterable[Probe]:
    registers = {"x1": "{%v0}", "x2": "{%v0, %v1}", "x4": "{%v0, %v1, %v2, %v3}"}
    for count, values in registers.items():
        for stride in (16, 32, 48, 64, 128, 144) if count == "x4" else (16, 128):
            rows = [row * stride % TILE_BYTES for row in LANES]
            load = f"ldmatrix.sync.aligned.m8n8.{count}.shared.b16 {values}, [%shared]"
            name = f"ldmatrix.{count}, rows {stride} bytes apart"
            yield probe(name, load, rows, width=16, fill=True, keep=True)
    four = registers["x4"]
    same: list[int | None] = [row % 8 * 16 for row in LANES]
    load = f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {four}, [%shared]"
    yield probe("ldmatrix.x4, one matrix four times", load, same, width=16, fill=True, keep=True)
    yield probe("ldmatrix.x4, one row", load, [0] * 32, width=16, fill=True, keep=True)
    for stride in (128, 144):
        rows = [row * stride for row in LANES]
        load = f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {four}, [%shared]"
        name = f"ldmatrix.x4.trans, rows {stride} bytes apart"
        yield probe(name, load, rows, width=16, fill=True, keep=True)
    for modifier in ("", ".trans"):
        for stride in (16, 128, 144):
            rows = [row * stride for row in LANES]
            store = f"stmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 [%shared], {four}"
            name = f"stmatrix.x4{modifier}, rows {stride} bytes apart"
            yield probe(name, store, rows, width=16, target="sm_90")


def _copies() -> Iterable[Probe]:
    wait = "cp.async.wait_all"
    for width in (4, 8, 16):
        for name, stride in (("consecutive", width), ("rows of 128 bytes", 128)):
            offsets = [lane * stride for lane in LANES]
            copy = f"@%active cp.async.ca.shared.global [%shared], [%memory], {width}"
            yield probe(f"cp.async.ca {width}, {name}", f"{copy}; {wait}", offsets, width=width)
    for name, pattern in {
        "consecutive": _every(1, 16),
        "rows of 128 bytes": _every(8, 16),
        "odd lanes idle": lambda lane: None if lane % 2 else lane * 16,
        "128-byte swizzle": lambda lane: lane // 8 * 128 + (lane % 8 ^ lane // 8 % 8) * 16,
    }.items():
        copy = "@%active cp.async.cg.shared.global [%shared], [%memory], 16"
        yield probe(f"cp.async.cg 16, {name}", f"{copy}; {wait}", _offsets(pattern), width=16)
    # Here the rows of the source lie apart, and the lanes write one behind the other.
    behind = "shl.b32 %v1, %lane, 4; mov.u32 %v2, tile; add.u32 %v1, %v1, %v2"
    for lanes, apart in ((1, 128), (2, 128), (4, 128), (4, 192), (4, 144), (8, 144)):
        offsets = [lane // lanes * apart + lane % lanes * 16 for lane in LANES]
        name = f"rows of {16 * lanes} bytes, {apart} apart"
        for cache in ("ca", "cg"):
            copy = f"cp.async.{cache}.shared.global [%v1], [%memory], 16; {wait}"
            yield probe(f"cp.async.{cache} 16, {name}", f"{behind}; {copy}", offsets, width=16)
        load = f"ld.global.v4.b32 {_VALUES[16]}, [%memory]"
        yield probe(f"ld.global.v4.b32, {name}", load, offsets, width=16, keep=True)
    first = "and.b32 %v3, %lane, 3; setp.eq.u32 %active, %v3, 0; selp.b32 %v3, 16, 0, %active"
    offsets = [lane // 4 * 144 + lane % 4 * 16 for lane in LANES]
    for name, copy in {
        "3 of 4 lanes fill with zeros": "cp.async.cg.shared.global [%v1], [%memory], 16, %v3",
        "3 of 4 lanes idle": "@%active cp.async.cg.shared.global [%v1], [%memory], 16",
    }.items():
        text = f"{behind}; {first}; {copy}; {wait}"
        yield probe(f"cp.async.cg 16, rows 144 apart, {name}", text, offsets, width=16)
    zeros = "and.b32 %v0, %lane, 1; shl.b32 %v0, %v0, 4"
    copy = "@%active cp.async.cg.shared.global [%shared], [%memory], 16, %v0"
    yield probe(
        "cp.async.cg 16, even lanes fill with zeros",
        f"{zeros}; {copy}; {wait}",
        _offsets(_every(1, 16)),
        width=16,
    )


def _atomics() -> Iterable[Probe]:
    for name, pattern in {
        "stride 1": _every(1, 4),
        "stride 32": _every(32, 4),
        "one word": lambda lane: 0,
        "lanes 2i and 2i+1 alike": lambda lane: _pairs(lane) * 4,
        "lanes i and i+4 alike": lambda lane: lane % 4 * 4,
        "lanes 0 and 1 alike": lambda lane: max(lane, 1) * 4,
        "two words of one bank": lambda lane: lane % 2 * 128,
    }.items():
        offsets = _offsets(pattern)
        red = "@%active red.global.add.u32 [%memory], %lane"
        atom = "@%active atom.global.add.u32 %v0, [%memory], %lane"
        yield probe(f"red.global.add, {name}", red, offsets, width=4)
        yield probe(f"atom.global.add, {name}", atom, offsets, width=4, keep=True)
        red = "@%active red.shared.add.u32 [%shared], %lane"
        atom = "@%active atom.shared.exch.b32 %v0, [%shared], %lane"
        yield probe(f"red.shared.add, {name}", red, offsets, width=4, fill=True)
        yield probe(f"atom.shared.exch, {name}", atom, offsets, width=4, fill=True, keep=True)
    red = "cvt.rn.f32.u32 %v0, %lane; @%active red.shared.add.f32 [%shared], %v0"
    yield probe("red.shared.add.f32, stride 1", red, _offsets(_every(1, 4)), width=4, fill=True)


def probes() -> list[Probe]:
    """All probes, by name."""
    return [*_lane_by_lane(), *_matrices(), *_copies(), *_atomics()]
