"""What ptxas holds back until a tcgen05.ld is over: a use of its registers, and a barrier behind its wait.

Read from the machine code. An instruction of 16 bytes names in bits 110 to 112 the scoreboard that it sets,
and in bits 116 to 121 those that it waits for.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

_LOAD, _STORE, _BARRIER = 0x9EE, 0x986, 0xB1D
_TEXT = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry probe(.param .u64 out, .param .u32 taddr)
{{
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [taddr];
    mov.u32 %r6, %tid.x;
    mul.wide.u32 %d2, %r6, 16;
    add.s64 %d3, %d1, %d2;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r2, %r3, %r4, %r5}}, [%r1];
    {behind}
    ret;
}}
"""
_WAIT = "tcgen05.wait::ld.sync.aligned;"
_USE = "st.global.v4.b32 [%d3], {%r2, %r3, %r4, %r5};"
_SYNC = "bar.sync 0;"


def _first_held_back(ptxas: Path | None, folder: Path, *behind: str) -> int:
    """The opcode of the first instruction behind a load that waits for it."""
    (folder / "probe.ptx").write_text(_TEXT.format(behind="\n    ".join(behind)))
    command = [str(ptxas), "-arch=sm_100a", "-o", str(folder / "probe.cubin"), str(folder / "probe.ptx")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    code = _code((folder / "probe.cubin").read_bytes())
    words = [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]
    load = next(at for at, word in enumerate(words) if word & 0xFFF == _LOAD)
    scoreboard = words[load] >> 110 & 7
    assert scoreboard < 6
    # Another instruction may count on the same scoreboard; whoever waits for it waits for both.
    return next(word & 0xFFF for word in words[load + 1 :] if word >> 116 >> scoreboard & 1)


def _code(binary: bytes) -> bytes:
    """The kernel's section of machine code."""
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    count, names = struct.unpack_from("<HH", binary, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", binary, table + 64 * index) for index in range(count)]
    text = sections[names][4]
    for name, _, _, _, offset, size, *_ in sections:
        if binary[text + name :].startswith(b".text.probe\0"):
            return binary[offset : offset + size]
    raise AssertionError("no section .text.probe")


@pytest.mark.program("ptxas")
@pytest.mark.parametrize(
    "behind", [(_USE,), (_WAIT, _USE), (_USE, _WAIT)], ids=["alone", "wait", "wait-after"]
)
def test_load__holds_back_its_use_with_and_without_the_wait(
    find_program: Callable[[str], Path | None], tmp_path: Path, behind: tuple[str, ...]
) -> None:
    assert _first_held_back(find_program("ptxas"), tmp_path, *behind) == _STORE


@pytest.mark.program("ptxas")
def test_wait__holds_back_the_barrier_behind_it(
    find_program: Callable[[str], Path | None], tmp_path: Path
) -> None:
    """This is what the wait adds: without it, others are told while the load is under way."""
    ptxas = find_program("ptxas")
    assert _first_held_back(ptxas, tmp_path, _WAIT, _SYNC, _USE) == _BARRIER
    assert _first_held_back(ptxas, tmp_path, _SYNC, _USE) == _STORE
