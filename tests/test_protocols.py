"""Small protocols: states, orders, and what is refused. test_prove.py compares them with a search."""

from math import comb

import pytest

from cutecourse.protocols import Protocol, ProtocolError, pipeline


def test_a_pipeline__loses_a_wait_and_deadlocks():
    right = pipeline(2, 3)
    assert not right.deadlocks
    assert not right.races
    broken = right.without(0, 6)
    (stuck,) = broken.deadlocks
    assert stuck.positions == (8, 0)
    way = broken.path(stuck)
    assert [state.positions for state in way] == [(steps, 0) for steps in range(9)]
    assert stuck.barriers[0] == (2, 1)


def test_orders__of_two_threads_that_never_meet_are_all_interleavings():
    protocol = Protocol((2,), ((("write", 0),) * 4, (("write", 1),) * 3))
    assert protocol.orders == comb(7, 3)
    assert len(protocol.states) == 5 * 4


@pytest.mark.parametrize(
    ("threads", "words"),
    [
        ((), "0 threads"),
        (((("jump", 0),),), "the action"),
        (((("wait", 0),),), "the action"),
        (((("read", -1),),), "the action"),
        ((((),),), "the action"),
        (((("arrive", 1),),), "uses barrier 1"),
        (((("wait", 0, 2),),), "waits for parity 2"),
    ],
)
def test_what_is_no_protocol__is_refused(threads, words):
    with pytest.raises(ProtocolError, match=words):
        Protocol((1,), threads)
