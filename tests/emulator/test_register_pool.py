"""setmaxnreg: how many registers a block starts with, who gives and who waits, and each broken rule."""

import re

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.errors import (
    DeadlockError,
    DivergedWarp,
    InvalidOperand,
    LaunchError,
    RegisterPoolError,
    SetmaxnregIgnored,
)
from cutecourse.trace import Recorder

ONE_BLOCK = ".reqntid 384, 1, 1\n.minnctapersm 1"
THREE_ROLES = """@%producer bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 {inc};
bra END;
PRODUCER: setmaxnreg.dec.sync.aligned.u32 {dec};
END:
"""


def dec(count):
    return f"setmaxnreg.dec.sync.aligned.u32 {count};\n"


def inc(count):
    return f"setmaxnreg.inc.sync.aligned.u32 {count};\n"


def text(body: str, directives: str = ONE_BLOCK) -> str:
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{directives}
{{
    .reg .b32 %me, %warp, %x;
    .reg .pred %producer, %p;
    mov.u32 %me, %tid.x;
    shr.u32 %warp, %me, 5;
    setp.lt.u32 %producer, %warp, 4;
    {body}
    ret;
}}
"""


def run(body: str, directives: str = ONE_BLOCK, *, block: int = 384, grid: int = 3, **options):
    return launch(
        text(body, directives),
        grid=grid,
        block=block,
        args=[np.zeros(1, np.uint32)],
        max_instructions=20_000,
        **options,
    )


def error(body: str, *args, **options) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run(body, *args, **options)
    return caught.value


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("low", "high"), [(24, 240), (40, 232), (152, 176)])
def test_setmaxnreg__who_gives_lets_the_others_go_on(low, high, seed):
    assert not run(THREE_ROLES.format(inc=high, dec=low), grid=8, seed=seed).notes


@pytest.mark.parametrize(
    ("directives", "block", "start"),
    [
        # "Used n registers" of ptxas 13.0 for such an entry, rounded up to a multiple of 8.
        (".reqntid 384, 1, 1\n.minnctapersm 1", 384, 168),
        (".reqntid 128, 1, 1\n.minnctapersm 4", 128, 128),
        (".reqntid 128, 1, 1\n.minnctapersm 3", 128, 168),
        (".maxntid 256, 1, 1\n.minnctapersm 2", 256, 128),
        (".maxntid 640, 1, 1\n.minnctapersm 1", 640, 96),
        (".maxntid 416, 1, 1\n.minnctapersm 1", 384, 128),
        (".maxnreg 100", 384, 104),
        (".maxnreg 20", 128, 24),
        (".maxnreg 200\n.reqntid 384, 1, 1\n.minnctapersm 1", 384, 168),
        (".maxnreg 128\n.reqntid 384, 1, 1", 384, 128),
        (".reqntid 256, 1, 1\n.minnctapersm 1", 256, 256),
    ],
)
def test_setmaxnreg__starts_with_the_registers_that_ptxas_gives(directives, block, start):
    if start > 24:
        run(dec(start - 8), directives, block=block)
    if start < 256:
        found = error(dec(start + 8), directives, block=block)
        assert type(found) is RegisterPoolError
        assert f"the warp has {start} registers" in found.problem


def test_setmaxnreg__starts_with_no_more_than_the_largest_increase():
    """ptxas 13.0: "Used 232 registers" for two warpgroups, although 256 would fit."""
    directives = ".reqntid 256, 1, 1\n.minnctapersm 1"
    found = error(THREE_ROLES.format(inc=232, dec=240), directives, block=256)
    assert "the warp has 232 registers" in found.problem
    run(THREE_ROLES.format(inc=232, dec=40), directives, block=256)


@pytest.mark.parametrize("directives", ["", ".reqntid 384, 1, 1", ".maxntid 384, 1, 1", ".minnctapersm 1"])
def test_setmaxnreg__without_a_start_does_nothing_and_is_noted(directives):
    notes = run(inc(240), directives).notes
    assert [note.hazard.error for note in notes] == ["SetmaxnregIgnored"]
    assert notes[0].count == 36
    found = error(inc(240), directives, hazards={"setmaxnreg ignored": "error"})
    assert type(found) is SetmaxnregIgnored


@pytest.mark.parametrize("seed", range(4))
def test_deadlock__names_the_pool_and_who_has_what(seed):
    found = error(THREE_ROLES.format(inc=240, dec=40), seed=seed, grid=1)
    assert type(found) is DeadlockError
    # 4 * 128 registers come; each consumer warp takes 72, so one of the eight does not get them.
    (last,) = re.findall(
        r"block \(0, 0, 0\) warp (\d+): line \d+, waits at setmaxnreg.inc for 72 more", found.problem
    )
    assert "the block's pool has 8 left: warps 0-3 have 40, " in found.problem
    assert f"warp {last} has 168" in found.problem
    assert found.problem.count("waits at") == 1


def test_deadlock__where_nobody_gives():
    found = error(f"@%producer bra END;\n{inc(232)}END:\n")
    assert "warps 4-11: line 15, waits at setmaxnreg.inc for 64 more registers per thread" in found.problem
    assert "the block's pool has none left: warps 0-11 have 168 per thread" in found.problem


def test_deadlock__names_warps_that_have_left_their_decrease_out():
    only_one = "setp.ne.u32 %p, %warp, 0;\n@%p bra END;\n"
    found = error(f"@%producer bra PRODUCER;\n{inc(232)}bra END;\nPRODUCER:\n{only_one}{dec(40)}END:\n")
    assert type(found) is DeadlockError
    assert "3 warps (1-3) of a warpgroup must still execute setmaxnreg.dec at line 20" in found.problem


def test_diverged__one_warp_of_the_warpgroup_alone():
    found = error(f"setp.ne.u32 %p, %warp, 0;\n@%p bra END;\n{dec(40)}END:\n")
    assert type(found) is DivergedWarp
    assert "warp 1, 2, 3 of the warpgroup never executed setmaxnreg.dec" in found.problem


def test_diverged__some_lanes():
    assert type(error(f"setp.ne.u32 %p, %me, 0;\n@%p bra END;\n{dec(40)}END:\n")) is DivergedWarp


def test_apart__a_warpgroup_that_the_block_cuts_short_is_noted():
    found = run(dec(40), ".reqntid 160, 1, 1\n.minnctapersm 1", block=160).notes
    assert [(note.hazard.name, note.warp) for note in found] == [("setmaxnreg apart", 4)]
    assert "the block has 160 threads, so this warp's warpgroup is not whole" in found[0].problem


def test_apart__the_same_count_at_two_lines_is_noted_and_gives_the_registers():
    roles = f"setp.eq.u32 %p, %warp, 0;\n@%p bra OTHER;\n{dec(40)}bra END;\nOTHER:\n{dec(40)}END:\n"
    notes = run(roles).notes
    assert {note.hazard.name for note in notes} == {"setmaxnreg apart"}
    assert all("of its warpgroup executed the setmaxnreg at line" in note.problem for note in notes)
    # 40 of 168 stay, so the pool has enough for 168 again.
    run(f"{roles}bar.sync 0;\n{inc(168)}")


def test_diverged__warps_of_one_warpgroup_execute_different_ones():
    found = error(f"setp.eq.u32 %p, %warp, 0;\n@%p bra OTHER;\n{dec(40)}bra END;\nOTHER:\n{dec(48)}END:\n")
    assert type(found) is DivergedWarp
    assert "must execute the same wgmma and setmaxnreg instructions in the same order" in found.problem


def test_pool__refuses_the_wrong_direction():
    assert type(error(dec(176))) is RegisterPoolError
    found = error(f"{dec(40)}bar.sync 0;\n{inc(168)}bar.sync 0;\n{inc(104)}")
    assert (
        "setmaxnreg.inc 104, but the warp has 168 registers per thread. .inc must not lower" in found.problem
    )
    run(f"{dec(168)}bar.sync 0;\n{inc(168)}")


def test_pool__asks_for_a_barrier_between_two():
    found = error(dec(104) + dec(40))
    assert type(found) is RegisterPoolError
    assert "before all warps of its warpgroup have executed setmaxnreg.dec at line" in found.problem
    run(f"{dec(104)}bar.sync 0;\n{dec(40)}bar.sync 0;\n{inc(168)}")


def test_pool__a_second_one_that_changes_nothing_needs_no_barrier():
    """Triton's specialized warps end with an .inc and begin with the same one."""
    notes = run(dec(104) + dec(104)).notes
    assert [note.hazard.name for note in notes] == ["setmaxnreg apart"]
    assert "before all warps of its warpgroup" in notes[0].problem


@pytest.mark.parametrize("operand", ["44", "16", "264", "%x"])
def test_operand__is_a_multiple_of_8_from_24_to_256(operand):
    found = error(f"setmaxnreg.dec.sync.aligned.u32 {operand};\n")
    assert type(found) is InvalidOperand


def test_launch__needs_room_for_all_registers():
    found = error(dec(40), ".maxnreg 255")
    assert type(found) is LaunchError
    assert "384 threads with 256 registers each do not fit" in found.problem
    assert "Lower .maxnreg to 168." in found.problem


def test_trace__tells_who_gives_waits_and_goes_on():
    recorder = Recorder()
    run(THREE_ROLES.format(inc=240, dec=24), grid=1, recorder=recorder)
    events = [event for event in recorder.trace() if event.kind.startswith("registers.")]
    released = [event.warp for event in events if event.kind == "registers.release"]
    assert sorted(released) == [0, 1, 2, 3]
    waits = [event for event in events if event.kind == "registers.wait"]
    assert sorted(event.warp for event in waits) == list(range(4, 12))
    blocked = [event.warp for event in waits if event.data["outcome"] == "blocked"]
    assert sorted(blocked) == sorted(event.warp for event in events if event.kind == "registers.resume")
    assert {event.data["registers"] for event in waits} == {240}
