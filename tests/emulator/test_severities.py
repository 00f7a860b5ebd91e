"""Severities for a kernel and for a line, and the text that lists them."""

from __future__ import annotations

import pytest

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.core.hazards import read_severities
from cutecourse.emulator.errors import LaunchError, SharedMemoryRace

RACE = """
.version 9.0
.target sm_100a
.address_size 64
.file 1 "/example/src/gemm.cu"
.file 2 "/example/src/helper.cuh"
.visible .entry warm_up() .reqntid 64
{
    .shared .b32 tile[64];
    .reg .b32 %r<3>;
    .reg .pred %p;
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p, %r0, 32;
    .loc 2 7 1, function_name $L, inlined_at 1 31 5
    @%p st.shared.b32 [tile], 5;
    .loc 1 32 1
    @!%p ld.shared.b32 %r1, [tile];
    ret;
}
"""


def notes(chosen: dict[str, str]) -> dict[str, str]:
    """The severities of the hazards that did not end the launch; "ended" for a race that did."""
    hazards = {"never written": "off", **chosen}
    try:
        found = launch(RACE, grid=1, block=64, hazards=hazards).notes
    except SharedMemoryRace:
        return {"race": "ended"}
    return {note.hazard.name: note.severity for note in found}


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ("race", True),
        ("race in warm_up", True),
        ("race in warm", True),
        ("race in gemm", False),
        ("race at gemm.cu:32", True),
        ("race at src/gemm.cu:32", True),
        ("race at m.cu:32", False),
        ("race at gemm.cu:33", False),
        ("race at 15", True),
        ("race at 17", True),
        ("race at 16", False),
        ("race at helper.cuh:7 in warm_up", True),
        ("race at helper.cuh:7 in gemm", False),
        ("race at gemm.cu:31", True),
    ],
)
def test_severity__holds_for_the_lines_and_kernels_that_it_names(words: str, holds: bool) -> None:
    assert notes({words: "note"}) == {"race": "note" if holds else "ended"}
    assert notes({"race": "off", words: "error"}) == ({"race": "ended"} if holds else {})


def test_severity__of_one_line_can_be_the_only_one_that_is_not_off() -> None:
    assert notes({"race": "off", "race at gemm.cu:31": "warning"}) == {"race": "warning"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rase", r"There is no such hazard. Did you mean race\?"),
        ("SharedMemoryRace", r"Did you mean race\?"),
        ("never-writen at gemm.cu:3", r"Did you mean never written\?"),
        ("zzz", "there are deadlock, "),
        ("race at gemm.cu", r"gemm.cu is no line. Give one as gemm.cu:64"),
        ("race on gemm.cu:3", r"after the hazard may follow|no such hazard"),
        ("deadlock at gemm.cu:3", "a launch cannot continue after it"),
    ],
)
def test_severities__say_what_the_words_lack(words: str, message: str) -> None:
    with pytest.raises(LaunchError, match=f"(?i){message}"):
        launch(RACE, grid=1, block=64, hazards={words: "note"})


def test_read_severities__reads_a_file() -> None:
    text = "# known\n\nrace at gemm.cu:32 = off #\nrace at gemm.cu:32\nsum-read-in-another-type in k=note"
    assert read_severities(text) == {"race at gemm.cu:32": "note", "sum-read-in-another-type in k": "note"}
    assert notes(read_severities("race at gemm.cu:31")) == {"race": "note"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rase = off", "list.txt, line 2: .*Did you mean race"),
        ("race = loud", "list.txt, line 2: .*a severity is one of"),
        ("= off", "list.txt, line 2: .*no such hazard"),
        ("endless", "list.txt, line 2: .*always an error"),
    ],
)
def test_read_severities__says_which_line_is_wrong(line: str, message: str) -> None:
    with pytest.raises(EmulatorError, match=message):
        read_severities(f"race = off\n{line}\n", "list.txt, line")
