"""clusterlaunchcontrol: who does which block, what is granted, and answers that are read too early."""

import re

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.errors import (
    InvalidOperand,
    ReadBeforeWait,
    RequestAfterRefusal,
    SharedMemoryRace,
    StageReusedEarly,
    UninitializedRead,
)
from tools.cases import ptx_cases

ALONE, PAIRS = (ptx_cases.load(f"launch_control/{name}") for name in ("one_block", "cluster"))
ANSWER = "    ld.shared.b128 %word, [answer];\n"
WAIT = re.search(r"wait:\n.*?bra wait;\n", ALONE.ptx, re.DOTALL)[0]


def errors(text, seeds=20, **given):
    """The errors of a changed kernel under several seeds."""
    found = []
    for seed in range(seeds):
        times = np.zeros((48, 32), np.uint32)
        try:
            launch(text, **({"grid": (6, 4, 2), "block": 32, "args": [times], "seed": seed} | given))
        except EmulatorError as error:
            found.append(error)
    return found


@pytest.mark.parametrize("case", [ALONE, PAIRS], ids=["alone", "pairs"])
def test_launch_control__each_block_is_done_once_under_every_seed(case):
    for seed in range(12):
        np.testing.assert_array_equal(ptx_cases.run_on_emulator(case, seed=seed)["times"], 1)


def test_launch_control__the_seed_chooses_how_many_blocks_are_taken():
    counted = ALONE.ptx.replace("work:\n", "    red.global.add.u32 [%to + 6144], 1;\nwork:\n", 1)
    assert counted != ALONE.ptx
    counts = []
    for seed in range(12):
        times = np.zeros((49, 32), np.uint32)
        launch(counted, grid=(6, 4, 2), block=32, args=[times], seed=seed)
        assert (times[:48] == 1).all()
        counts.append(int(times[48, 0]) // 32)
    assert all(1 <= count <= 48 for count in counts)
    assert len(set(counts)) > 4


def test_answer__read_without_the_wait_is_reported():
    kinds = {type(error) for error in errors(ALONE.ptx.replace(WAIT, ""))}
    assert kinds
    assert kinds <= {UninitializedRead, ReadBeforeWait}


def test_answer__is_read_by_all_warps_before_the_next_request():
    two_warps = ALONE.ptx.replace("%x, 32, %me", "%x, 64, %me").replace(
        "bar.warp.sync 0xffffffff", "bar.sync 0"
    )
    given = {"block": 64, "seeds": 8}
    assert not errors(two_warps, args=[np.zeros((48, 64), np.uint32)], **given)
    text = two_warps.replace(
        ANSWER + "    fence.proxy.async.shared::cta;\n    bar.sync 0;\n",
        ANSWER + "    fence.proxy.async.shared::cta;\n",
    )
    assert text != two_warps
    kinds = {type(error) for error in errors(text, args=[np.zeros((48, 64), np.uint32)], **given)}
    assert kinds & {SharedMemoryRace, StageReusedEarly}


def test_request__after_a_refusal_is_an_error_of_its_own():
    found = errors(ALONE.ptx.replace("    @%granted bra work;\n", "    bra work;\n"))
    assert len(found) == 20
    assert {type(error) for error in found} == {RequestAfterRefusal}
    assert "Leave the loop" in str(found[0])


def test_query__of_what_is_no_answer_is_refused():
    (error,) = errors(ALONE.ptx.replace(ANSWER, "    mov.b128 %word, {%to, %to};\n"), seeds=1)
    assert type(error) is InvalidOperand
    assert "no answer" in str(error)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[answer], [bar]", "[answer + 8], [bar]", "not a multiple of 16"),
        (".async.shared::cta.mbarrier", ".async.shared::cluster.mbarrier", "no model of .shared::cluster"),
        ("get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}", "get_first_ctaid.b32.b128 %x", "gives .v4"),
    ],
)
def test_launch_control__says_what_is_wrong(old, new, says):
    text = ALONE.ptx.replace(old, new)
    assert text != ALONE.ptx
    (error,) = errors(text, seeds=1)
    assert says in str(error)
