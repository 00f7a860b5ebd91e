"""Changes to PTX texts and to launches that nobody would make on purpose, chosen by a random generator.

A text change takes the text, all texts and the generator, and gives another text. It knows nothing of the
grammar but what a token, a statement and a register look like, so that most of what it makes is refused and
the rest runs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["LAUNCH_CHANGES", "TEXT_CHANGES", "WEIGHTS", "Launch"]


@dataclass(frozen=True)
class Launch:
    """What `emulator.launch` is called with, beside the text."""

    grid: Any
    block: Any
    cluster: Any
    args: Any
    dynamic_smem: Any
    entry: Any
    seed: Any = 0


TextChange = Callable[[str, Sequence[str], random.Random], str]
LaunchChange = Callable[[Launch, random.Random], Launch]

_TOKEN = re.compile(r"[%$]?\w[\w.$:]*|//[^\n]*|\"[^\"\n]*\"|[^\s\w]")
_STATEMENT = re.compile(r"[^;{}]*;")
_OPERANDS = re.compile(r"%\w+|\b\d\w*\b")
_TYPE = re.compile(r"\.(?:[usbf](?:8|16|32|64)|pred|f16x2|bf16|tf32|b128)\b")
_DIRECTIVE = re.compile(
    r"^[ \t]*\.(?:version|target|address_size|reg|shared|local|param|maxntid|reqntid|visible|extern|global"
    r"|const|file|section|pragma|align|minnctapersm)[^\n]*",
    re.MULTILINE,
)
_TYPES = (
    *("u8", "s16", "u16", "b16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64", "pred", "f16"),
    *("bf16", "f16x2", "b128", "tf32", "e4m3", "b1", ""),
)
_VALUES = (
    *("0", "1", "-1", "7", "31", "32", "255", "4096", "65536", "2147483647", "-2147483648", "4294967295"),
    *("9223372036854775807", "18446744073709551615", "9" * 30, "0x", "0x" + "f" * 18, "1e999", "_", "\u00e9"),
    *("0f7fc00000", "0f7f800000", "0d7ff0000000000000", "0f", "%nothing", "%tid", "%tid.x", "[%r1]", "{}"),
    *("tile", "!%p1", "%p1|%p2", "a+b", "[a+]", "{%r1, %r2}", '"text"'),
)
_DIRECTIVES = """
.reg .b32 %r<99999999>;
.reg .b32 %r<0>;
.reg .b64 %rd<-1>;
.shared .b8 big[9999999999];
.shared .align 3 .b8 odd[16];
.shared .align 99999999 .b8 far[16];
.shared .b32 a[2][3][4][5][6][7];
.extern .shared .b8 dyn[];
.local .b8 deep[1073741824];
.global .b32 table[4] = {1, 2, 3, 4, 5};
.const .b8 c[70000];
.param .b8 p[999999999];
.version 99.9
.version x
.target sm_1
.target sm_999a
.target
.address_size 32
.address_size 48
.maxntid 0
.maxntid 1
.reqntid 32, 4, 99
.reqnctapercluster 3
.maxclusterrank 0
.visible .entry again() { ret; }
.func f() { call f; }
.pragma "nounroll";
.loc 1 2 3
""".strip().splitlines()


def _place(text: str, random_: random.Random) -> int:
    return random_.randrange(len(text) + 1)


def _pick(pattern: re.Pattern[str], text: str, random_: random.Random) -> re.Match[str] | None:
    """One match of a pattern, found from a random place on."""
    for start in (_place(text, random_), 0):
        found = [match for match, _ in zip(pattern.finditer(text, start), range(40), strict=False)]
        if found:
            return random_.choice(found)
    return None


def _instead(text: str, match: re.Match[str] | None, other: str) -> str:
    return text if match is None else text[: match.start()] + other + text[match.end() :]


def byte(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A character changed, put in or taken out."""
    at, character = _place(text, random_), chr(random_.choice([0, 9, 10, 34, 127, 160, 955, *range(32, 127)]))
    return random_.choice([text[:at] + character + text[at + 1 :], text[:at] + character + text[at:],
                           text[:at] + text[at + 1 :]])  # fmt: skip


def token(text: str, texts: Sequence[str], random_: random.Random) -> str:
    """A token taken out, doubled, or in another's place."""
    one = _pick(_TOKEN, text, random_)
    other = _pick(_TOKEN, random_.choice([text, random_.choice(texts)]), random_)
    if one is None or other is None:
        return text
    return _instead(text, one, random_.choice(["", f"{one[0]} {one[0]}", other[0], other[0]]))


def statement(text: str, texts: Sequence[str], random_: random.Random) -> str:
    """A statement taken out, doubled, exchanged with another, or brought from another text."""
    one, two = _pick(_STATEMENT, text, random_), _pick(_STATEMENT, text, random_)
    if one is None or two is None:
        return text
    kind = random_.randrange(4)
    if kind == 0:
        return _instead(text, one, "")
    if kind == 1:
        return _instead(text, one, one[0] + one[0])
    if kind == 2:
        first, second = sorted((one, two), key=lambda match: match.start())
        if first.end() > second.start():
            return text
        return (text[: first.start()] + second[0] + text[first.end() : second.start()] + first[0]
                + text[second.end() :])  # fmt: skip
    brought = _pick(_STATEMENT, random_.choice(texts), random_)
    return text if brought is None else _instead(text, one, one[0] + brought[0])


def operand(text: str, _: Sequence[str], random_: random.Random) -> str:
    """An operand by another register of the text or an odd value."""
    one, other = _pick(_OPERANDS, text, random_), _pick(_OPERANDS, text, random_)
    if one is None or other is None:
        return text
    return _instead(
        text, one, random_.choice([other[0], other[0], random_.choice(_VALUES), f"{one[0]}+{other[0]}"])
    )


def kind(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A type by another one, or by none."""
    name = random_.choice(_TYPES)
    return _instead(text, _pick(_TYPE, text, random_), f".{name}" if name else "")


def directive(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A directive taken out, doubled, or by an odd one."""
    one = _pick(_DIRECTIVE, text, random_)
    if one is None:
        return text
    odd = random_.choice(_DIRECTIVES)
    return _instead(text, one, random_.choice(["", f"{one[0]}\n{one[0]}", odd, f"{one[0]}\n{odd}"]))


def number(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A number by another: near, far, or of another sign."""
    one = _pick(re.compile(r"\b\d+\b"), text, random_)
    if one is None:
        return text
    value = int(one[0])
    return _instead(
        text, one, str(random_.choice([value + 1, value - 1, -value, value * 2, value << 20, value ^ 1]))
    )


def splice(text: str, texts: Sequence[str], random_: random.Random) -> str:
    """The beginning of one text and the end of another."""
    other = random_.choice(texts)
    return text[: _place(text, random_)] + other[_place(other, random_) :]


def cut(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A piece taken out."""
    start, end = sorted((_place(text, random_), _place(text, random_)))
    return (
        text[:start]
        + text[start if random_.random() < 0.5 else end :][: len(text) if random_.random() < 0.5 else 0]
    )


def repeat(text: str, _: Sequence[str], random_: random.Random) -> str:
    """A short piece again and again: nesting, long names, long lists."""
    at = _place(text, random_)
    piece = random_.choice(["{", "}", "(", "[", "a", "%r1, ", ".u32", "ret;", "/*", "\n", text[at : at + 20]])
    return text[:at] + piece * random_.choice([3, 100, 5000]) + text[at:]


TEXT_CHANGES: dict[str, TextChange] = {
    change.__name__: change
    for change in (byte, token, statement, operand, kind, directive, number, splice, cut, repeat)
}
"""Every change to a text, by name."""
WEIGHTS = {
    "operand": 10,
    "statement": 8,
    "number": 6,
    "kind": 5,
    "token": 4,
    "byte": 2,
    "directive": 2,
    "splice": 1,
    "cut": 1,
    "repeat": 1,
}
"""How often each is chosen: most often what leaves a text that can run."""

_EXTENTS = (
    *(0, -1, 1, 3, 33, 1025, 2**31, 2**40, True, None, "8", 1.5, [2], np.int64(2), np.array([2, 2]), np.nan),
    *((), (2, 3), (2, 3, 4), (1, 1, 1, 1), (0, 1), (7, 65536), (2, None)),
)
_SIZES = (-1, 1, 7, 1024, 232448, 232449, 1 << 29, 1 << 31, 1 << 70, None, "1024", 1.5, np.int32(64))


def grid(launch: Launch, random_: random.Random) -> Launch:
    """Another grid."""
    return replace(launch, grid=random_.choice(_EXTENTS))


def block(launch: Launch, random_: random.Random) -> Launch:
    """Another block."""
    return replace(launch, block=random_.choice(_EXTENTS))


def cluster(launch: Launch, random_: random.Random) -> Launch:
    """Another cluster."""
    return replace(launch, cluster=random_.choice(_EXTENTS))


def shared_size(launch: Launch, random_: random.Random) -> Launch:
    """Another size of dynamic shared memory."""
    return replace(launch, dynamic_smem=random_.choice(_SIZES))


def entry(launch: Launch, random_: random.Random) -> Launch:
    """Another entry."""
    return replace(launch, entry=random_.choice(["", "no", None, 3, "a b"]))


def seed(launch: Launch, random_: random.Random) -> Launch:
    """Another seed."""
    return replace(launch, seed=random_.choice([-1, 2**80, None, "x", 1.5, np.uint64(9)]))


def arguments(launch: Launch, random_: random.Random) -> Launch:
    """An argument too few, too many, or of another kind."""
    args = list(launch.args)
    at = random_.randrange(len(args) + 1)
    readonly = np.zeros(64, np.float32)
    readonly.setflags(write=False)
    odd = random_.choice(
        [
            *(
                None,
                "text",
                b"bytes",
                1.5,
                -1,
                2**70,
                (),
                (1, 2, 3),
                [1],
                {},
                object(),
                readonly,
                np.nan,
                True,
            ),
            *(np.zeros(0), np.zeros(3), np.zeros(64)[::2], np.zeros((4, 4)).T, np.array(3), np.array(["a"])),
            *(np.zeros(4, object), np.zeros(2, "M8[s]"), np.zeros(8, "c8"), np.float16(1)),
        ]
    )
    if random_.random() < 0.2:
        return replace(
            launch, args=random_.choice([None, 3, "args", args[:-1], args + args, tuple(args), np.zeros(4)])
        )
    args[at : at + random_.randrange(2)] = [odd] if random_.random() < 0.9 else []
    return replace(launch, args=args)


LAUNCH_CHANGES: dict[str, LaunchChange] = {
    change.__name__: change for change in (grid, block, cluster, shared_size, entry, seed, arguments)
}
"""Every change to a launch, by name."""
