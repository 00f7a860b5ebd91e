"""Polls of mbarriers: a test of a phase orders what follows only if the thread goes on because it was true.

try_wait and test_wait may return false while the phase is still open. A kernel that does not look at the
answer is wrong, also in a run in which the answer was true. A report has to be the same under every seed.
"""

import numpy as np
import pytest
from emulator.test_races import COPY, EXPECT, kernel, stages

from cutecourse.emulator import EmulatorError, launch
from cutecourse.emulator.errors import (
    ReadBeforeWait,
    SharedMemoryRace,
    StageReusedEarly,
    UnfinishedLoad,
)
from support.order_events import judge

SEEDS = range(4)
JUDGED = 2
"""The model judges runs with seeds below this, because it is slow."""
EARLY = (ReadBeforeWait, StageReusedEarly)
"""The read came before the copy, or the copy over what is still read: one mistake, met from either side."""
ASK = "mbarrier.{test}_wait.parity.shared::cta.b64 %p, [full], 0;"
USE = "@%w1 ld.shared.b32 %y, [box];"


def consumer(poll, test="try", use=USE):
    """Warp 0 copies to `box`, warp 1 polls as `poll` says and reads; `ASK` is the test."""
    read = poll.replace("ASK", ASK.format(test=test)).replace("USE", use)
    return f"@%w2 bra END;\n@%w1 bra READ;\n{EXPECT}{COPY}\nbra END;\nREAD:\n{read}\nEND:"


def outcomes(body, seeds=SEEDS):
    found = []
    for seed in seeds:
        options = {"grid": 1, "block": 96, "args": [np.arange(1024, dtype=np.uint8)], "seed": seed}
        error = None
        if seed < JUDGED:
            judged = judge(lambda options=options: launch(kernel(body), **options).notes)
            judged.agree()
            error = judged.error
        else:
            try:
                launch(kernel(body), **options)
            except EmulatorError as raised:
                error = raised
        found.append(error)
    return found


RIGHT = {
    "a loop": "L: ASK\n@!%p bra L;\nUSE",
    "a loop as the DSL writes it": "L: ASK\n@%p bra DONE;\nbra L;\nDONE:\nUSE",
    "a loop that sleeps": "L: ASK\n@%p bra DONE;\nnanosleep.u32 20;\nbra L;\nDONE:\nUSE",
    "a loop over a number": "L: ASK\nselp.b32 %z, 1, 0, %p;\nsetp.eq.u32 %q, %z, 0;\n@%q bra L;\nUSE",
    "a loop over the opposite": "L: ASK\nnot.pred %q, %p;\n@%q bra L;\nUSE",
    "the use under the predicate": "L: ASK\n@%p ld.shared.b32 %y, [box];\n@!%p bra L;",
    "other work first": ("ASK\nst.shared.b32 [box+512], %me;\n@%p bra ON;\nL: ASK\n@!%p bra L;\nON:\nUSE"),
    "other work under a number": (
        "ASK\nselp.b32 %z, 1, 0, %p;\nst.shared.b32 [box+512], %me;\nsetp.ne.u32 %q, %z, 0;\n"
        "@%q bra ON;\nL: ASK\n@!%p bra L;\nON:\nUSE"
    ),
    "work while it is false": "L: ASK\n@%p bra ON;\nst.shared.b32 [box+512], %me;\nbra L;\nON:\nUSE",
    "no use where it is false": "ASK\n@!%p bra END;\nUSE",
    "so many tries, and then an error's mark": (
        "mov.u32 %x, 0;\nL: ASK\n@%p bra ON;\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %q, %x, 1000;\n@%q bra L;\n"
        "st.shared.b32 [box+512], %me;\nON:\nUSE"
    ),
    "the answer of another lane": (
        "L: ASK\nselp.b32 %z, 1, 0, %p;\nshfl.sync.idx.b32 %z, %z, 0, 31, -1;\nsetp.ne.u32 %q, %z, 0;\n"
        "@!%q bra L;\nUSE"
    ),
    "the answer of all lanes": "L: ASK\nvote.sync.all.pred %q, %p, -1;\n@!%q bra L;\nUSE",
}


@pytest.mark.parametrize("test", ["try", "test"])
@pytest.mark.parametrize("poll", RIGHT.values(), ids=RIGHT)
def test_polls__that_are_right_stay_without_a_report(poll, test):
    for error in outcomes(consumer(poll, test)):
        if "L:" in poll:
            # After so many tests that do not block, the bytes may still not be there.
            assert error is None or ("1000" in poll and test == "test" and isinstance(error, EARLY)), str(
                error
            )
        else:  # A kernel that asks once may go on without the data; then nobody waits for the copy.
            assert error is None or isinstance(error, UnfinishedLoad), str(error)


WRONG = {
    "no branch": "ASK\nUSE",
    "a branch to the next line": "ASK\n@%p bra DONE;\nDONE:\nUSE",
    "a branch that both answers take": "L: ASK\n@%p bra DONE;\nmov.u32 %z, 1;\nbra DONE;\nDONE:\nUSE",
    "the answer written over": "ASK\nsetp.eq.u32 %p, %me, %me;\n@!%p bra END;\nUSE",
    "the use before the branch": "L: ASK\nUSE\n@!%p bra L;",
    "two tests instead of a loop": "ASK\nASK\nUSE",
    "a number that nobody reads": "ASK\nselp.b32 %z, 1, 0, %p;\nUSE",
    "other work first, and no wait": "ASK\nst.shared.b32 [box+512], %me;\n@%p bra ON;\nON:\nUSE",
}


@pytest.mark.parametrize("test", ["try", "test"])
@pytest.mark.parametrize("poll", WRONG.values(), ids=WRONG)
def test_polls__whose_answer_decides_nothing_are_reported_in_every_run(poll, test):
    for error in outcomes(consumer(poll, test)):
        assert isinstance(error, EARLY), str(error)


def test_polls__a_report_names_the_branch_that_is_missing():
    text = kernel(consumer("ASK\nUSE"))
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "try_wait" in one)
    for seed in SEEDS:
        with pytest.raises(ReadBeforeWait) as error:
            launch(text, grid=1, block=96, args=[np.arange(1024, dtype=np.uint8)], seed=seed)
        assert (
            f"The mbarrier.try_wait at line {line} asks for a phase of mbarrier full (shared offset 1024),"
            " but no branch depends on its answer, which may be false. Branch back to it while it is false."
        ) in str(error.value)


def test_polls__of_the_one_who_fills_are_reported_too():
    body = stages()
    (wait,) = [line for line in body.split("\n") if line.startswith("@!%p bra EMPTY")]
    for error in outcomes(body.replace(wait, "")):
        assert isinstance(error, EmulatorError)
        assert type(error).__name__ in {"StageReusedEarly", "BarrierCountError"}
    reuse = [error for error in outcomes(body.replace(wait, "")) if isinstance(error, StageReusedEarly)]
    assert any("no branch depends on its answer" in str(error) for error in reuse)


def test_polls__between_threads():
    body = (
        "@%w2 bra END;\n@%w1 bra READ;\nst.shared.b32 [box], %me;\nbar.warp.sync -1;\n"
        "@%first mbarrier.arrive.shared::cta.b64 _, [full];\nbra END;\nREAD:\n"
        f"{ASK.format(test='try')}\n{{}}\n{USE}\nEND:"
    )
    for error in outcomes(body.format("")):
        assert isinstance(error, SharedMemoryRace)
    assert outcomes(body.replace("READ:\n", "READ:\nL: ").format("@!%p bra L;")) == [None] * len(SEEDS)


def test_polls__of_many_blocks_each_by_itself():
    """The blocks of a bundle come to the use of their answers at different times."""
    options = {"grid": 9, "block": 96, "args": [np.arange(1024, dtype=np.uint8)]}
    right = kernel(consumer("L: ASK\nst.shared.b32 [box+512], %me;\n@%p bra ON;\nbra L;\nON:\nUSE", "test"))
    for seed in range(4):
        launch(right, **options, seed=seed)
        with pytest.raises(EARLY):
            launch(right.replace("bra L;\nON:", "ON:"), **options, seed=seed)


def test_polls__two_at_once_each_decide_for_themselves():
    poll = (
        "ASK\nmbarrier.try_wait.parity.shared::cta.b64 %q, [empty], 0;\n@%p bra ON;\nL: ASK\n@!%p bra L;\n"
        "ON:\nUSE\n@%q bra END;\nM: mbarrier.try_wait.parity.shared::cta.b64 %q, [empty], 0;\n@!%q bra M;"
    )
    body = consumer(poll).replace(
        "bra END;\nREAD:", "@%first mbarrier.arrive.shared::cta.b64 _, [empty];\nbra END;\nREAD:"
    )
    assert outcomes(body) == [None] * len(SEEDS)


LOOP = """
@%w2 bra END;
@%w1 bra READ;
mov.u32 %x, 0;
FILL:
mbarrier.try_wait.parity.shared::cta.b64 %q, [empty], %z;
BACK_EMPTY
@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%in], 256, [full];
add.u32 %x, %x, 1;
xor.b32 %z, %z, 1;
setp.lt.u32 %p, %x, 4;
@%p bra FILL;
bra END;
READ:
mov.u32 %x, 0;
NEXT:
mbarrier.try_wait.parity.shared::cta.b64 %q, [full], %z;
BACK_FULL
ld.shared.b32 %y, [box];
bar.warp.sync -1;
setp.eq.u32 %q, %me, 32;
@%q mbarrier.arrive.shared::cta.b64 _, [empty];
add.u32 %x, %x, 1;
xor.b32 %z, %z, 1;
setp.lt.u32 %p, %x, 4;
@%p bra NEXT;
END:
"""


@pytest.mark.parametrize("drop", [None, "BACK_EMPTY", "BACK_FULL"])
def test_polls__in_the_loop_of_a_pipeline(drop):
    """The loop of the pipeline leads back to the test as well, and is no loop around it."""
    body = LOOP.replace("@%w2 bra END;", "@%w2 bra END;\nselp.b32 %z, 0, 1, %w1;", 1)
    body = body.replace("FILL:", "FILL:\n", 1)
    for name, back in (("BACK_EMPTY", "@!%q bra FILL;"), ("BACK_FULL", "@!%q bra NEXT;")):
        body = body.replace(name, "" if name == drop else back)
    for error in outcomes(body):
        if drop is None:
            assert error is None, str(error)
        else:
            assert type(error).__name__ in {"ReadBeforeWait", "StageReusedEarly", "BarrierCountError"}
