"""Severities for a kernel and for a line, and the text that lists them."""

from __future__ import annotations

import re

import pytest

from cutecourse.emulator import HAZARDS, EmulatorError, Note, launch
from cutecourse.emulator.core.hazards import grouped, lowering, read_severities
from cutecourse.emulator.core.report import MOST_ERRORS
from cutecourse.emulator.errors import AddressError, LaunchError, SharedMemoryRace, UninitializedRead

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


TWICE = RACE.replace(
    "    ret;", "    @%p st.shared.b32 [tile+4], 5;\n    @!%p ld.shared.b32 %r1, [tile+4];\n    ret;"
)


def test_keep_going__reports_each_pair_of_lines_once() -> None:
    result = launch(TWICE, grid=1, block=64, hazards={"never written": "off"}, keep_going=True)
    assert [(n.hazard.name, n.severity) for n in result.notes] == [("race", "error")] * 2
    assert len({(n.line, n.other_line) for n in result.notes}) == 2
    assert str(result.notes[0]).startswith("error: ")


def test_keep_going__ends_where_the_launch_cannot_go_on_and_tells_what_came_before() -> None:
    text = TWICE.replace("    ret;", "    bar.sync 0;\n    ld.shared.b32 %r1, [tile+8192];\n    ret;")
    with pytest.raises(AddressError) as caught:
        launch(text, grid=1, block=64, hazards={"never written": "off"}, keep_going=True)
    assert [note.hazard.name for note in caught.value.notes] == ["race", "race"]


def test_keep_going__ends_after_twenty_errors() -> None:
    many = "".join(f"    @!%p ld.shared.b32 %r1, [tile+{4 * i}];\n" for i in range(8, 38))
    with pytest.raises(UninitializedRead) as caught:
        launch(RACE.replace("    ret;", many + "    ret;"), grid=1, block=64, keep_going=True)
    assert len(caught.value.notes) == MOST_ERRORS


def test_lowering__gives_words_that_lower_the_hazard_at_its_line() -> None:
    with pytest.raises(SharedMemoryRace) as caught:
        launch(RACE, grid=1, block=64, hazards={"never written": "off"})
    error = caught.value
    words = lowering(error.hazard, error.line, error.source, final=error.final)
    everywhere, here = re.findall(r'"(.*?)" = note', words)
    assert everywhere == "race"
    assert notes({here: "note"}) == {"race": "note"}
    with pytest.raises(AddressError) as caught_too:
        launch(RACE.replace("[tile]", "[tile+8192]"), grid=1, block=64)
    assert "cannot be lowered" in lowering(caught_too.value.hazard, 3, None)


def test_grouped__has_ten_lines_at_most() -> None:
    made = [
        Note(hazard, "note", "", "k", line, None, "", (0, 0, 0), 0, count=3)
        for n, hazard in enumerate(HAZARDS.values())
        for line in range(1, 3 + (n == 4))
    ]
    rows = grouped(made)
    most = list(HAZARDS.values())[4]
    assert len(rows) == 10
    assert rows[0] == f"note: {most.name} at lines 1, 2, 3, 9 times: {most.why}"
    assert rows[-1] == f"and {len(HAZARDS) - 9} hazards more"
