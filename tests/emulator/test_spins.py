"""Loops that nothing ends are reported at once; loops that something ends are not."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import DeadlockError

HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"
SOON = 400_000
"""The instructions after which a report has to be there; no kernel below needs more for one."""


def run(body, *, seed=0, budget=SOON):
    text = f"""{HEAD}.file 1 "spin.cu"
.visible .entry k(.param .u64 flag)
{{
    .shared .align 8 .b64 full;
    .shared .b32 ready;
    .reg .b64 %flag, %at, %time, %end;
    .reg .b32 %x, %n, %t;
    .reg .pred %p, %q;
    ld.param.u64 %flag, [flag];
    mov.u32 %t, %tid.x;
    mov.u32 %n, 0;
    setp.ne.u32 %q, %t, 0;
    @!%q mbarrier.init.shared.b64 [full], 1;
    @!%q st.shared.u32 [ready], 0;
    bar.sync 0;
{body}
    ret;
}}
"""
    flag = np.zeros(2, np.uint32)
    launch(text, grid=1, block=64, args=[flag], seed=seed, max_instructions=budget)
    return flag


SPIN = """
W:
    .loc 1 7 0
    ld.volatile.global.u32 %x, [%flag];
    .loc 1 8 0
    setp.eq.u32 %p, %x, 0;
    @%p bra W;
"""
SPIN_SHARED = SPIN.replace("global.u32 %x, [%flag]", "shared.u32 %x, [ready]")
LOCK = SPIN.replace("ld.volatile.global.u32 %x, [%flag]", "atom.acquire.gpu.global.cas.b32 %x, [%flag], 0, 1")
SECOND_WARP = "setp.ge.u32 %q, %t, 32;\n@%q bra B;\n"
ASK = "mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0;\n"
ENDLESS = {
    "a flag in global memory": SPIN,
    "a flag with a fence": SPIN.replace("setp", "fence.acq_rel.gpu;\n setp"),
    "a flag in shared memory, and others at a barrier": f"{SECOND_WARP}{SPIN_SHARED}B:\nbar.sync 0;",
    "a lock that nobody frees": LOCK.replace("eq", "ne").replace("@%p bra", "@%p nanosleep.u32 9;\n@%p bra"),
    "a lane that waits for its own warp": f"@!%q bra E;\n{SPIN}E:\nbar.warp.sync -1;",
    "a flag, and others at an mbarrier": f"{SECOND_WARP}{SPIN_SHARED}B:\n{ASK}@!%p bra B;",
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_spins__loop_that_nothing_ends_is_reported_at_once(body, seed):
    with pytest.raises(DeadlockError, match="no warp will ever change what the loop asks for") as caught:
        run(body, seed=seed)
    assert "(spin.cu:7)" in str(caught.value).split("\n  at kernel")[1]


LONG = "D:\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, {};\n@%p bra D;\n"
TEST = "{0}:\n" + ASK.replace("try_wait", "test_wait") + "@!%p bra {0};\n"
WAITS = {
    "warp 0": f"{SECOND_WARP}{LONG.format(6666)}W:\n{ASK}@!%p bra W;\nB:\n",
    "lanes 0, lanes 1": f"setp.ge.u32 %q, %t, 2;\n@%q bra B;\n{LONG.format(5333)}"
    f"setp.eq.u32 %q, %t, 0;\n@%q bra V;\n{TEST.format('W')}bra B;\n{TEST.format('V')}B:\n",
}
"""The warps, or the lanes, wait just when the emulator begins to look for loops that nothing ends."""


@pytest.mark.parametrize(("who", "body"), WAITS.items(), ids=WAITS)
def test_spins__if_all_wait_the_report_says_for_what_and_not_that_a_loop_runs(who, body):
    with pytest.raises(DeadlockError, match="no warp can go on, because phase 0 of mbarrier full") as caught:
        run(body)
    for each in who.split(", "):
        assert f"{each}: line" in str(caught.value)


DELAY = "D:\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 12000;\n@%p bra D;\n"
SET = "mov.u32 %x, 1;\nst.volatile.global.u32 [%flag], %x;\nE:\nst.global.u32 [%flag+4], 5;"
WAITING = f"{SPIN}bra E;\nS:\n"
CLOCK = "mov.u64 %time, %globaltimer;\n"
UNTIL = "setp.lt.u64 %p, %time, %end;\n"
COUNT = "C:\natom.global.add.u32 %x, [%flag], 1;\nsetp.lt.u32 %p, %x, 100000;\n@%p bra C;\n"
INIT = "mbarrier.inval.shared.b64 [full];\nmbarrier.init.shared.b64 [full], 30000;\n"
ARRIVE = "mbarrier.arrive.shared.b64 %at, [full];\nmbarrier.test_wait.parity.shared.b64 %p, [full], 0;\n"
ENDING = {
    "a lane of the same warp": f"@!%q bra S;\n{WAITING}{DELAY}{SET}".replace("12000", "2000"),
    "another warp": f"setp.lt.u32 %q, %t, 32;\n@!%q bra S;\n{WAITING}{DELAY}{SET}",
    "a clock": f"{CLOCK}add.u64 %end, %time, 60000;\nT:\n{CLOCK}{UNTIL}@%p bra T;\n{SET}",
    "a wait with a time limit": f"@!%q bra S;\n{WAITING}{ASK}{SET}",
    "a counter in memory": f"{COUNT}{SET}",
    "arrivals at an mbarrier": f"@%q bra E;\n{INIT}A:\n{ARRIVE}@!%p bra A;\n{SET}",
}


@pytest.mark.parametrize("body", ENDING.values(), ids=ENDING)
def test_spins__loop_that_something_ends_is_not_reported(body):
    assert run(body, budget=20_000_000)[1] == 5
