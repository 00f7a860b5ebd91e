"""A launch under many seeds: what agrees, what differs first, and where the traces of the two part."""

import itertools

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import TensorMap, explore, launch
from cutecourse.emulator.errors import LaunchError, UninitializedRead
from cutecourse.emulator.tools.trace_alignment import Stop, align_traces
from cutecourse.kernels import tma_broken, umma_broken, umma_tile, umma_tile_broken
from cutecourse.trace import Recorder

TICKETS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry tickets(.param .u64 count, .param .u64 queue)
{
    .reg .b32 %block, %ticket;
    .reg .b64 %count, %queue;
    ld.param.u64 %count, [count];
    ld.param.u64 %queue, [queue];
    mov.u32 %block, %ctaid.x;
    atom.global.add.u32 %ticket, [%count], 1;
    mad.wide.u32 %queue, %ticket, 4, %queue;
    st.global.u32 [%queue], %block;
    ret;
}
"""
BLOCKS = 6


def tickets(count=None, queue=None, **more):
    """Explore a kernel whose blocks put their numbers into a queue, in whatever order they come."""
    count = np.zeros(1, np.uint32) if count is None else count
    queue = np.zeros(BLOCKS, np.uint32) if queue is None else queue
    return explore(TICKETS, grid=BLOCKS, block=1, args=[count, queue], **more)


UNSEEN = dict.fromkeys(("race", "read before its wait", "stage reused early", "source overwritten"), "off")
"""What is reported under every seed; without it a fault shows in what the order makes of it."""


def running(spec, **arguments):
    """A callable that runs a specification on the emulator, with a trace where one is asked for."""

    def run(seed, recorder):
        return runtime.run(spec, device="emulator", seed=seed, trace=recorder is not None, **arguments)

    return run


def tile(spec, **more):
    a, b = (np.random.default_rng(i).integers(-4, 5, (128, 256)).astype(np.float16) for i in (1, 2))
    return running(spec, a=a, b=b, c=np.zeros((128, 128), np.float32), **more)


def doubled(spec, **more):
    source = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    arrays = {"source": source, "result": np.zeros_like(source), "gave_up": np.zeros(2, np.uint32)}
    return running(spec, tiles=3, **arrays, **more)


# --- kernels of the course --------------------------------------------------------------------------------


def test_explore__a_right_kernel_agrees_under_ten_seeds():
    found = explore(tile(umma_tile.LAUNCH))
    assert found.agree
    assert found.first_difference is None
    assert found.seeds == tuple(range(10))
    assert set(found.outcomes[0].arrays) == {"a", "b", "c"}
    assert len({outcome.arrays["c"] for outcome in found.outcomes}) == 1
    assert str(found).startswith("10 seeds agree: no error, ")


def test_explore__a_right_kernel_has_no_warp_that_parts():
    first, *others = (tile(umma_tile.LAUNCH)(seed, Recorder()).trace for seed in range(4))
    for other in others:
        found = align_traces(first, other)
        assert found.parting is None
        assert found.orders_part < min(len(first), len(other))
        assert "only the order between warps" in str(found)


def test_explore__a_fault_that_seeds_report_differently():
    found = explore(tile(umma_tile_broken.broken("no_wait"), hazards=UNSEEN))
    assert not found.agree
    difference = found.first_difference
    assert difference.kind == "error"
    assert difference.second is found.outcomes[-1]
    assert difference.first.error != difference.second.error
    parting = difference.alignment.parting
    stopped = difference.alignment.stops[0] if parting.first is None else difference.alignment.stops[1]
    assert (stopped.warp, stopped.block) == (parting.warp, (0, 0, 0))
    text = str(found)
    for outcome in (difference.first, difference.second):
        assert f"  seed {outcome.seed}: {outcome.error} at PTX line {outcome.line}: " in text
    assert f"warp {parting.warp} diverges after {parting.common} events of its own" in text
    assert f"{stopped.error} ends the launch" in text


@pytest.mark.parametrize(
    ("name", "error"), [("too_few_bytes", "TransactionBytesError"), ("no_proxy_fence", "MissingProxyFence")]
)
def test_explore__a_fault_that_all_seeds_report_alike(name, error):
    found = explore(doubled(tma_broken.broken(name)), seeds=range(5))
    assert found.agree
    assert [outcome.error for outcome in found.outcomes] == [error] * 5
    assert not found.outcomes[0].arrays
    assert f"5 seeds agree: {error} at PTX line " in str(found)


def test_explore__a_pair_that_reads_its_accumulator_too_early():
    spec = umma_broken.broken("not_finished")
    rng = np.random.default_rng(0)
    arrays = {
        name: np.zeros(param.extents, np.float32)
        if name == "c"
        else rng.integers(-4, 5, param.extents).astype(np.float16)
        for name, param in spec.arguments.items()
    }
    found = explore(running(spec, **arrays), seeds=range(3))
    assert found.agree
    assert [outcome.error for outcome in found.outcomes] == ["UninitializedRead"] * 3


# --- outputs and notes ------------------------------------------------------------------------------------


def test_explore__outputs_that_depend_on_the_order():
    count, queue = np.zeros(1, np.uint32), np.zeros(BLOCKS, np.uint32)
    found = tickets(count, queue, seeds=itertools.count())
    difference = found.first_difference
    assert (difference.kind, difference.array) == ("outputs", "queue")
    one, other = (arrays["queue"] for arrays in difference.arrays)
    assert sorted(one) == sorted(other) == list(range(BLOCKS))
    (index,) = difference.index
    assert index == np.flatnonzero(one != other)[0]
    assert difference.values == (one[index], other[index])
    assert difference.count == np.count_nonzero(one != other)
    assert f"queue[{index}] is {one[index]} under seed 0 and {other[index]} under seed " in str(found)
    assert "The traces hold no events" in str(found)
    assert not count.any()
    assert not queue.any()


@pytest.mark.parametrize("rule", [np.sort, None], ids=["sorted", "left_out"])
def test_explore__compares_what_counts_of_an_array(rule):
    assert tickets(compare={"queue": rule}).agree


def test_explore__arrays_that_share_memory_share_it_in_the_copies():
    both = np.zeros(1 + BLOCKS, np.uint32)
    outcomes = []
    for queue in (both[1:], both[:BLOCKS]):
        found = explore(
            TICKETS.replace("st.global.u32 [%queue], %block;", "st.global.u32 [%queue], 7;"),
            grid=1,
            block=1,
            args=[both, queue],
            seeds=range(2),
        )
        assert found.agree
        outcomes.append(found.outcomes[0].arrays["count"])
    assert outcomes[0] != outcomes[1]
    assert not both.any()


def test_explore__copies_the_arrays_of_tensor_maps():
    source = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    result = np.zeros_like(source)
    maps = [TensorMap.tiled(array, dims=(32, 48), strides=(128,), box=(32, 16)) for array in (source, result)]
    found = explore(
        tma_broken.doubled(3).ptx,
        grid=tma_broken.LAUNCH.grid,
        block=tma_broken.LAUNCH.block,
        args=[*maps, np.zeros(2, np.uint32), 3],
        seeds=range(3),
    )
    expected = explore(lambda seed, recorder: {"result": 2 * source}, seeds=range(2))
    assert found.agree
    assert found.outcomes[2].error is None
    assert found.outcomes[2].arrays["result"] == expected.outcomes[0].arrays["result"]
    assert not result.any()


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.float32([np.nan]), np.float32([np.nan]), True),
        (np.float32([1]), np.int32([1]), False),
        (np.zeros((2, 1)), np.zeros((1, 2)), False),
    ],
    ids=["signed_zero", "nan", "type", "shape"],
)
def test_explore__compares_bits_types_and_shapes(one, other, agree):
    found = explore(lambda seed, recorder: {"x": other if seed else one}, seeds=range(2))
    assert found.agree == agree
    assert ("x[0] is 0.0 under seed 0 and -0.0 under seed 1" in str(found)) == bool(np.signbit(other).any())


@pytest.mark.compilers
def test_explore__notes_that_differ():
    noted = tile(umma_tile.LAUNCH)(0, None)
    assert noted.notes

    def run(seed, recorder):
        without = launch(TICKETS, grid=1, block=1, args=[np.zeros(1, np.uint32) for _ in range(2)])
        return {}, without if seed < 3 else noted.emulated

    found = explore(run)
    assert found.seeds == (0, 1, 2, 3)
    assert found.first_difference.kind == "notes"
    assert f"only under seed 3: {noted.notes[0].hazard.name} at PTX line {noted.notes[0].line}" in str(found)


# --- bounds and refusals ----------------------------------------------------------------------------------


def test_explore__stops_at_the_first_difference_and_records_two_launches():
    calls = []

    def run(seed, recorder):
        calls.append((seed, recorder is not None))
        if seed == 3:
            raise UninitializedRead("nothing there", line=9)
        return {}

    found = explore(run, seeds=itertools.count())
    assert calls == [(0, False), (1, False), (2, False), (3, False), (0, True), (3, True)]
    assert found.first_difference.second.line == 9
    calls.clear()
    assert explore(run, seeds=itertools.count(4), max_seeds=5).seeds == (4, 5, 6, 7, 8)
    assert not any(recorded for _, recorded in calls)


def test_explore__refuses_a_launch_that_does_not_depend_on_its_seed_only():
    kept = np.zeros(1)

    def run(seed, recorder):
        kept[0] += 1
        return {"kept": kept}

    with pytest.raises(LaunchError, match=r"seed 0 ended .* make its arrays anew each time"):
        explore(run)


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda: tickets(seeds=[3]), "1 seed to explore: at least 2"),
        (lambda: tickets(max_seeds=1), "1 seed to explore"),
        (lambda: tickets(seeds=10), "seeds are integers, several of them, not 10"),
        (lambda: tickets(seeds=[0, 1.5]), r"seeds are integers, several of them, not \[0, 1.5\]"),
        (lambda: tickets(max_seeds=None), "max_seeds is an integer, not None"),
        (lambda: tickets(seed=1), "explore sets seed itself"),
        (lambda: tickets(compare={"que": None}), "compare names que; the arrays are count, queue"),
        (lambda: tickets(queue=np.zeros((BLOCKS, 2), np.uint32)[:, 0]), "is not contiguous"),
        (lambda: tickets(entry="none"), "no entry 'none'"),
        (lambda: explore(TICKETS, grid=1, block=1, args=np.zeros(1)), "args is a sequence"),
        (lambda: explore(lambda seed, recorder: {}, grid=1), "takes no grid"),
        (lambda: explore(lambda seed, recorder: 1), "the callable returned a int"),
    ],
)
def test_explore__refuses(give, words):
    with pytest.raises(LaunchError, match=words):
        give()


# --- how it is shown --------------------------------------------------------------------------------------


def test_table__has_a_row_for_each_way_to_end():
    found = explore(lambda seed, recorder: {"x": np.full(2, seed >= 3), "y": np.zeros(1)}, seeds=[0, 1, 2, 5])
    rows = [line.split() for line in found.table().splitlines()]
    assert rows[0][0] == "seeds"
    assert " ".join(rows[1]) == "0 to 2 the same bits in x, y no error, 0 notes"
    assert " ".join(rows[2]) == "5 other bits in x no error, 0 notes"
    shown = found._repr_html_()
    assert shown.index("4 seeds ran") < shown.index("<td style='text-align:left'>0 to 2</td>")
    assert "x[0] is False under seed 0 and True under seed 5" in shown


def test_exploration__shows_both_traces_where_they_part():
    found = explore(doubled(tma_broken.broken("parity_never_flipped"), hazards=UNSEEN), seeds=range(12))
    difference = found.first_difference
    text, shown = str(found), found._repr_html_()
    assert text.index(found.table()) < text.index(f"seed {difference.second.seed}\n")
    for said in (difference.first.error, difference.second.error, "seed 0"):
        assert said in text
        assert said in shown
    assert shown.count("<table>") == 2
    assert explore(doubled(tma_broken.LAUNCH), seeds=range(3))._repr_html_().count("<table>") == 1


def test_side_by_side__what_is_the_same_stands_in_one_row():
    one = trace(fence(0, 3), fence(1, 4), fence(0, 4), wait(0, "passed"), fence(1, 7), fence(0, 9))
    other = trace(fence(0, 3), fence(0, 4), fence(1, 4), fence(0, 8), fence(1, 7), seed=1)
    rows = align_traces(one, other).side_by_side()
    places = [(row.first and row.first.index, row.second and row.second.index, row.marked) for row in rows]
    # Warp 0 parts at its third event; before it two warps took turns in another order.
    assert (3, 3, True) in places
    assert (0, 0, False) in places
    assert (4, 4, False) in places
    assert (5, None, False) in places
    (crossed,) = [row for row in rows if row.first_there is not None]
    assert crossed.first_there == crossed.first.index % 2 + 1
    text = str(align_traces(one, other))
    (marked,) = [line for line in text.splitlines() if line.startswith(">")]
    assert marked.split("|")[0].split()[1:5] == ["3", "0:0", "0", "5"]
    assert marked.split("|")[1].split()[:4] == ["3", "0:0", "0", "8"]


def test_side_by_side__shows_how_the_shorter_launch_ended():
    one = trace(fence(0, 4), fence(0, 6))
    other = trace(fence(0, 4), seed=1)
    stop = Stop("DeadlockError", (0, 0, 0), 0)
    found = align_traces(one, other, (None, stop))
    (marked,) = [row for row in found.side_by_side() if row.marked]
    assert (marked.first.line, marked.second, marked.ended) == (
        6,
        None,
        ("", "DeadlockError ends the launch"),
    )
    assert "DeadlockError ends the launch" in found._repr_html_()


# --- alignment --------------------------------------------------------------------------------------------

FULL = {"rank": 0, "offset": 0, "name": "full"}


def trace(*events, seed=0):
    """A trace of (warp, kind, line, data) in this order."""
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(1, 1, 1), block=(64, 1, 1), seed=seed)
    for time, (warp, kind, line, data) in enumerate(events):
        where = {"cluster": 0, "rank": 0, "block": (0, 0, 0), "warp": warp, "line": line}
        recorder.emit(kind, time=time, **where, **data)
    return recorder.trace()


def wait(warp, outcome, line=5):
    data = {"barrier": FULL, "parity": 0, "outcome": outcome, "name": "try_wait"}
    return (warp, "mbarrier.wait", line, data)


def fence(warp, line):
    return (warp, "fence", line, {"name": "fence.proxy.async"})


def resume(warp):
    return (warp, "mbarrier.resume", 5, {"barrier": FULL, "parity": 0})


def test_align__a_wait_is_the_same_at_once_after_tries_and_after_a_block():
    plain = trace(wait(0, "passed"), fence(0, 6), fence(1, 6))
    other = trace(
        fence(1, 6), wait(0, "false"), wait(0, "blocked"), wait(0, "passed"), resume(0), fence(0, 6), seed=1
    )
    found = align_traces(plain, other)
    assert not found.partings
    assert found.same == (1, 5, 0)
    assert found.orders_part == 0


def test_align__the_first_event_where_a_warp_parts():
    one = trace(fence(1, 4), fence(0, 4), wait(0, "passed"), fence(0, 6), fence(1, 7))
    other = trace(fence(0, 4), fence(0, 8), fence(1, 4), fence(1, 7), seed=1)
    found = align_traces(one, other)
    (parting,) = found.partings
    assert (parting.cluster, parting.rank, parting.warp, parting.common) == (0, 0, 0, 1)
    assert (parting.first.kind, parting.second.line) == ("mbarrier.wait", 8)
    assert [event.index for event in found.around(1)[0]] == [1, 2, 3]
    assert [event.index for event in found.around(1)[1]] == [0, 1, 2]
    assert "under seed 1 it continues at PTX line 8 with fence.proxy.async" in str(found)


def test_align__a_warp_that_ends_early_parts_unless_an_error_of_another_cut_it_short():
    one = trace(fence(0, 4), fence(1, 4), fence(0, 6))
    other = trace(fence(0, 4), seed=1)
    assert [parting.warp for parting in align_traces(one, other).partings] == [1, 0]
    stop = Stop("DeadlockError", (0, 0, 0), 0)
    found = align_traces(one, other, (None, stop))
    assert [parting.warp for parting in found.partings] == [0]
    assert "it has no further event: the launch ends with DeadlockError" in str(found)


def test_align__what_a_warp_does_otherwise_comes_before_where_an_error_stops_it():
    one = trace(fence(0, 4), fence(0, 5), fence(1, 4), fence(1, 6))
    other = trace(fence(0, 4), fence(1, 4), fence(1, 7), seed=1)
    found = align_traces(one, other, (None, Stop("KernelTrap", (0, 0, 0), 0)))
    assert [parting.warp for parting in found.partings] == [1, 0]
    assert found.parting.second.line == 7


COPIED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copied(.param .u64 from, .param .u64 to)
{
    .reg .b32 %t, %at, %v, %n;
    .reg .b64 %from, %to, %state;
    .reg .pred %p;
    .shared .align 16 .b32 held[64];
    .shared .align 8 .b64 bars[2];
    ld.param.u64 %from, [from];
    ld.param.u64 %to, [to];
    mov.u32 %t, %tid.x;
    setp.ne.u32 %p, %t, 0;
    @%p bra READY;
    mbarrier.init.shared.b64 [bars], 64;
    mbarrier.init.shared.b64 [bars+8], 64;
READY:
    bar.sync 0;
    mad.wide.u32 %from, %t, 4, %from;
    mad.wide.u32 %to, %t, 4, %to;
    mov.u32 %at, held;
    mad.lo.u32 %at, %t, 4, %at;
    cp.async.ca.shared.global [%at], [%from], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [bars];
    mov.u32 %n, 0;
TURN:
    add.u32 %n, %n, 1;
    setp.lt.u32 %p, %n, 200;
    @%p bra TURN;
    mbarrier.arrive.shared.b64 %state, [bars+8];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p, [bars], 0;
    @!%p bra WAIT;
    ld.shared.b32 %v, [%at];
    st.global.b32 [%to], %v;
    ret;
}
"""


def test_align__arrivals_of_copies_are_nothing_that_the_warp_does():
    """They come when the copies are complete: before or behind what the warp does meanwhile."""
    traces = []
    for seed in range(8):
        given, out, recorder = np.arange(64, dtype=np.int32), np.zeros(64, np.int32), Recorder()
        launch(COPIED, grid=1, block=64, args=[given, out], seed=seed, recorder=recorder)
        np.testing.assert_array_equal(out, given)
        traces.append(recorder.trace())
    orders = {tuple(event.line for event in trace.of("mbarrier.arrive")) for trace in traces}
    assert len(orders) > 1
    assert [align_traces(traces[0], other).partings for other in traces[1:]] == [()] * 7


def test_align__the_arrival_that_a_commit_asked_for_is_nothing_that_the_warp_does():
    commit = (0, "mma.commit", 3, {"group": 1, "barrier": FULL, "mask": None, "issues": []})
    state = {"phase": 0, "pending": 0, "tx": 0}

    def arrive(**more):
        data = {"barrier": FULL, "count": 1, "dropped": 0, "state": state, **more}
        return (0, "mbarrier.arrive", 3, data)

    asked = arrive(asynchronous=True)
    one = trace(commit, asked, fence(0, 6))
    assert not align_traces(one, trace(commit, fence(0, 6), asked, seed=1)).partings
    own = trace(commit, arrive(), fence(0, 6))
    assert align_traces(own, trace(commit, fence(0, 6), arrive(), seed=1)).parting.common == 1
