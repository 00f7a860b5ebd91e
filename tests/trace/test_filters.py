"""Filters: events by kind, place, barrier, line, time and the memory that they touch."""

import pytest

from cutecourse.trace import Recorder, TraceError

FULL, EMPTY = ({"rank": 0, "offset": at, "name": name} for at, name in ((0, "full"), (8, "empty")))
THEIRS = {**FULL, "rank": 1}
STATE = {"phase": 0, "pending": 1, "tx": 0}


def recorded():
    """Two CTAs of a cluster: barriers, a load to both, its landings, an MMA, a tcgen05.ld, a store."""
    recorder = Recorder()
    recorder.begin(
        kernel="toy",
        grid=(4, 1, 1),
        block=(64, 1, 1),
        cluster=(2, 1, 1),
        variables={"full": (0, 8), "empty": (8, 16), "tile": (1024, 2048)},
    )
    count = 0

    def emit(kind, *, cluster=0, rank=0, warp=0, lane=0, line=10, **data):
        nonlocal count
        count += 1
        block = (2 * cluster + rank, 0, 0)
        where = {"cluster": cluster, "rank": rank, "block": block, "warp": warp, "lane": lane, "line": line}
        return recorder.emit(kind, time=10 * count, **where, **data)

    emit("mbarrier.init", barrier=FULL, count=1)  # 0
    emit("mbarrier.init", rank=1, barrier=THEIRS, count=1)
    emit("mbarrier.init", barrier=EMPTY, count=1, line=11)
    issue = emit(
        "tma.issue",
        line=20,
        operation="load",
        tensor="a",
        coords=(0, 0),
        box=(8, 8),
        bytes=512,
        destinations=[{"rank": 0, "offset": 1024}, {"rank": 1, "offset": 1024}],
        barrier=FULL,
        mask=3,
        source=None,
    )
    emit("tma.land", warp=None, lane=None, transfer=issue, offset=1024, bytes=256)
    emit("tma.land", rank=1, warp=None, lane=None, transfer=issue, offset=1280, bytes=256)  # 5
    emit("mbarrier.wait", warp=1, line=30, barrier=FULL, parity=0, outcome="blocked", name="try_wait")
    touches = [
        {"space": "tensor", "rank": 0, "lanes": [0, 64], "range": [32, 64], "writes": True},
        {"space": "shared", "rank": 0, "range": [1024, 1536], "writes": False},
    ]
    mma = {"m": 64, "n": 32, "k": 16, "types": "f32.f16.f16", "a": 0, "b": 0, "d": 32, "idesc": 0}
    multiply = emit("mma.issue", line=40, group=1, accumulate=False, touches=touches, **mma)
    emit("mma.complete", warp=None, lane=None, line=40, issue=multiply)
    read = {"space": "tensor", "rank": 0, "lanes": [32, 64], "range": [40, 48], "writes": False}
    emit(
        "tmem.load",
        warp=1,
        lane=None,
        line=50,
        address=0x200028,
        shape="32x32b",
        registers=8,
        touches=[read],
    )
    emit(
        "tma.issue",
        line=60,
        operation="store",
        tensor="c",
        coords=(0, 0),
        box=(8, 8),
        bytes=128,
        destinations=[],
        barrier=None,
        mask=None,
        source={"rank": 0, "offset": 1024},
    )  # 10
    emit("bulk.commit", cluster=1, rank=1, line=61, group=0)
    return recorder.trace()


def indices(trace):
    return [event.index for event in trace]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"kind": "tma"}, [3, 4, 5, 10]),
        ({"kind": ("tma.land", "*.complete")}, [4, 5, 8]),
        ({"kind": "mbarrier.*"}, [0, 1, 2, 6]),
        ({"rank": 1}, [1, 5, 11]),
        ({"block": 3}, [11]),
        ({"block": (1, 0, 0)}, [1, 5]),
        ({"cluster": 1}, [11]),
        ({"warp": 1}, [6, 9]),
        ({"warp": range(2), "line": {40, 50}}, [7, 9]),
        ({"lane": 0, "line": 40}, [7]),
        ({"time": range(10, 31)}, [0, 1, 2]),
        ({"line": range(60, 70)}, [10, 11]),
        ({"barrier": "full"}, [0, 1, 3, 6]),
        ({"barrier": "full", "rank": 1}, [1]),
        ({"barrier": 8}, [2]),
        ({"barrier": 1 << 24}, [1]),
        ({"barrier": 0x7000_0100_0000}, [1]),
        ({"smem": "tile"}, [3, 4, 5, 7, 8, 10]),
        ({"smem": "tile+256"}, [3, 5, 7, 8]),
        ({"smem": (1, "tile")}, [3, 5]),
        ({"smem": range(8)}, [0, 1, 3, 6]),
        ({"smem": 1200}, [3, 4, 7, 8]),
        ({"tmem": 44}, [7, 8, 9]),
        ({"tmem": range(40)}, [7, 8]),
        ({"tmem": (range(32), 44)}, [7, 8]),
        ({"gmem": "c"}, [10]),
        ({"gmem": ("a", range(64))}, [3]),
    ],
)
def test_where__keeps_what_all_conditions_hold_of(asked, expected):
    assert indices(recorded().where(**asked)) == expected


def test_where__is_chainable_and_one_after_the_other_is_both():
    trace = recorded()
    assert indices(trace.where(kind="tma").where(rank=0).where(smem="tile")) == [3, 4, 10]
    # What an event refers to may have been filtered out before.
    assert indices(trace.where(kind="mma.complete").where(tmem=32)) == [8]
    assert indices(trace.where(kind="bulk").where(barrier="full")) == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "tmaland"}, r"no events 'tmaland'; the kinds are mbarrier\.init"),
        ({"kind": "*.lands"}, r"no events '\*\.lands'"),
        ({"barrier": "ful"}, "barrier='ful': the trace has no such barrier; it has full at 0, empty at 8"),
        ({"barrier": 24}, "barrier=24: the trace has no such barrier"),
        ({"barrier": 2 << 24}, "no such barrier"),
        ({"rank": 2}, "rank=2: the launch has rank 0 to 1"),
        ({"cluster": 2}, "cluster=2: the launch has cluster 0 to 1"),
        ({"warp": [0, 2]}, "warp=2: the launch has warp 0 to 1"),
        ({"lane": 32}, "lane=32: the launch has lane 0 to 31"),
        ({"block": (0, 1)}, r"block=\(0, 1, 0\) is not in the grid \(4, 1, 1\)"),
        ({"block": "1"}, "block='1': give x, \\(x, y\\) or \\(x, y, z\\)"),
        ({"block": (0, 0, 0, 1)}, "give x, "),
        ({"block": 1.5}, "block=1.5: give x, "),
        ({"line": "40"}, r"line='40': give a number or several, such as line=range\(4\)"),
        ({"warp": True}, "warp=True: give a number"),
        ({"smem": "tiles"}, r"no shared variable 'tiles'; the variables are: 'full' \(8 bytes\)"),
        ({"smem": "tile+1024"}, "'tile\\+1024' lies past the end of tile, which has 1024 bytes"),
        ({"smem": [1, 2]}, r"smem=\[1, 2\]: give a number, or a range"),
        ({"tmem": "0"}, "tmem='0': give a number, or a range"),
        ({"gmem": "b"}, "gmem='b': no event touches it; the tensors and arguments are 'a', 'c'"),
    ],
)
def test_where__says_what_there_is_instead(asked, message):
    with pytest.raises(TraceError, match=message):
        recorded().where(**asked)


def test_touches__of_an_event_and_of_what_it_completes():
    trace = recorded()
    (landed,) = trace.touches(5)
    assert (landed.space, landed.rank, landed.first, landed.stop, landed.writes) == (
        "shared",
        1,
        1280,
        1536,
        True,
    )
    assert trace.touches(8) == trace.touches(7)
    store = trace.touches(10)
    assert [(touch.space, touch.writes) for touch in store] == [("shared", False), ("global", True)]
    with pytest.raises(TraceError, match="event 99 is none; this trace's last one is 11"):
        trace.touches(99)
    with pytest.raises(TraceError, match="event 0 is of another trace"):
        trace.touches(other_trace().events[0])


def other_trace():
    recorder = Recorder()
    recorder.begin(kernel="other", grid=(1, 1, 1), block=(32, 1, 1))
    recorder.emit("fence", time=1, cluster=0, rank=0, block=(0, 0, 0), line=5, name="fence")
    return recorder.trace()


def test_snapshot__needs_a_launch_that_can_run_again():
    with pytest.raises(TraceError, match="not made by a launch of this process"):
        recorded().snapshot(3)
