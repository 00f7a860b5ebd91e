"""A large grid on several processes: what comes out is what one process gives, and copies hide nothing."""

import errno
import itertools
import os
import time
from multiprocessing.context import ForkProcess

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, launch
from cutecourse.emulator.core import processes, scheduler
from cutecourse.emulator.core.processes import _Team
from cutecourse.emulator.core.scheduler import Scheduler
from cutecourse.emulator.errors import AddressError, BudgetExceeded, UninitializedRead
from cutecourse.trace import Recorder

BLOCKS, THREADS = 300, 64
N = BLOCKS * THREADS

KERNEL = """
.version 8.7
.target sm_90
.address_size 64
{declared}
.visible .entry k(.param .u64 from, .param .u64 to{more})
{{
    .reg .b32 %i, %t, %v, %s, %other;
    .reg .b64 %a, %from, %to, %wide;
    .reg .b16 %byte;
    .reg .pred %p;
    .shared .align 128 .b32 held[64];
    ld.param.u64 %from, [from];
    ld.param.u64 %to, [to];
    mov.u32 %t, %tid.x;
    mov.u32 %i, %ctaid.x;
    mad.lo.u32 %i, %i, 64, %t;
    {body}
    ret;
}}
"""
REVERSED = """
    mad.wide.u32 %a, %i, 4, %from;
    ld.global.nc.b32 %v, [%a];
    mov.u32 %s, held;
    mad.lo.u32 %s, %t, 4, %s;
    st.shared.b32 [%s], %v;
    bar.sync 0;
    mov.u32 %s, held;
    xor.b32 %other, %t, 63;
    mad.lo.u32 %s, %other, 4, %s;
    ld.shared.b32 %v, [%s];
"""
STORE = """
    mad.wide.u32 %a, %i, 4, %to;
    st.global.b32 [%a], %v;
"""
STORE_BYTES = """
    mul.lo.u32 %i, %i, 3;
    cvt.u64.u32 %wide, %i;
    add.u64 %a, %to, %wide;
    cvt.u16.u32 %byte, %v;
    st.global.u8 [%a+1], %byte;
"""
STAGED = """
    mov.u32 %s, held;
    mad.lo.u32 %s, %t, 4, %s;
    bar.sync 0;
    st.shared.b32 [%s], %v;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p, %t, 0;
    @%p ret;
    mov.u32 %s, held;
"""
BULK_STORE = (
    STAGED
    + """
    mad.wide.u32 %a, %i, 4, %to;
    cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
)
TENSOR_STORE = (
    STAGED
    + """
    mov.b64 %a, map;
    cvta.param.u64 %a, %a;
    cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%a, {%i}], [%s];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
)


def text(body, *, declared="", more=""):
    return KERNEL.format(body=body, declared=declared, more=more)


def given():
    return np.arange(N, dtype=np.int32) * 7


def reversed_in_blocks():
    return given().reshape(BLOCKS, THREADS)[:, ::-1].reshape(-1)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Copies of the process begin as soon as they may, also in short launches."""
    monkeypatch.setattr(processes, "_PATIENCE_S", 0.0)


def both(ptx, to, *more, **options):
    """Results and what is written, on one process and on two."""
    found = []
    for count in (1, 2):
        out = to.copy()
        result = launch(
            ptx, grid=BLOCKS, block=THREADS, args=[given(), out, *more], seed=5, processes=count, **options
        )
        found.append((result, out))
    return found


# --- the same -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "shape"), [(STORE, 1), (STORE_BYTES, 3), (BULK_STORE, 1)], ids=["words", "bytes", "bulk"]
)
def test_processes__write_what_one_does(store, shape):
    dtype = np.uint8 if shape == 3 else np.int32
    (alone, one), (together, two) = both(text(REVERSED + store), np.full(shape * N, 77, dtype))
    assert (alone.processes, together.processes) == (1, 2)
    np.testing.assert_array_equal(two, one)
    written = one[1::3] if shape == 3 else one
    np.testing.assert_array_equal(written, reversed_in_blocks().astype(dtype))
    if shape == 3:
        assert set(one[::3]) | set(one[2::3]) == {77}
    assert (together.instructions, together.issued) == (alone.instructions, alone.issued)


def test_processes__write_tensors_as_one_does():
    ptx = text(REVERSED + TENSOR_STORE, more=", .param .align 64 .b8 map[128]")
    found = []
    for count in (1, 2):
        out = np.zeros(N, np.int32)
        unused = np.zeros(1, np.int32)
        args = [given(), unused, TensorMap.tiled(out, dims=[N], strides=[], box=[THREADS])]
        result = launch(ptx, grid=BLOCKS, block=THREADS, args=args, processes=count)
        found.append((result.processes, out))
    assert [count for count, _ in found] == [1, 2]
    for _, out in found:
        np.testing.assert_array_equal(out, reversed_in_blocks())


def test_processes__that_begin_late_take_what_has_not_begun(monkeypatch):
    """The copies begin while a part runs that is not the first: those before it are done."""
    parts = []
    run = Scheduler.run

    def slowly(scheduler, part):
        parts.append(part)
        if len(parts) == 4:
            time.sleep(0.5)
        run(scheduler, part)

    monkeypatch.setattr(processes, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(Scheduler, "run", slowly)
    blocks = 5 * 256 * 32 // THREADS
    given, out = np.arange(blocks * THREADS, dtype=np.int32), np.zeros(blocks * THREADS, np.int32)
    result = launch(text(REVERSED + STORE), grid=blocks, block=THREADS, args=[given, out], processes=2)
    assert result.processes == 2
    assert len(parts) == 4
    assert result.count("st.global") == blocks * THREADS // 32
    np.testing.assert_array_equal(out, given.reshape(blocks, THREADS)[:, ::-1].reshape(-1))


def test_processes__keep_the_notes_of_all_blocks():
    unwritten = "mov.u32 %s, held; mad.lo.u32 %s, %t, 4, %s; ld.shared.b32 %v, [%s];"
    hazards = {"never written": "note"}
    (alone, one), (together, two) = both(text(unwritten + STORE), np.zeros(N, np.int32), hazards=hazards)
    assert together.processes == 2
    np.testing.assert_array_equal(two, one)
    assert together.notes
    assert [str(note) for note in together.notes] == [str(note) for note in alone.notes]
    assert [note.count for note in together.notes] == [note.count for note in alone.notes]


# --- what one process has to say ----------------------------------------------------------------------------


def failure(ptx, kind, count, to, **options):
    with pytest.raises(kind) as caught:
        launch(ptx, grid=BLOCKS, block=THREADS, args=[given(), to], processes=count, **options)
    return str(caught.value)


@pytest.mark.parametrize("block", [0, 3, BLOCKS // 2, BLOCKS - 1])
def test_processes__an_error_anywhere_is_the_one_that_a_single_process_meets(block):
    past = f"""
    mov.u32 %s, %ctaid.x;
    setp.eq.u32 %p, %s, {block};
    @%p add.u64 %to, %to, 0x100000;
    """
    ptx = text(REVERSED + past + STORE)
    outputs = [np.zeros(N, np.int32) for _ in range(2)]
    messages = [failure(ptx, AddressError, count, out) for count, out in zip((1, 2), outputs, strict=True)]
    assert f"block ({block}, 0, 0)" in messages[0]
    assert messages[0] == messages[1]
    np.testing.assert_array_equal(*outputs)


def test_processes__share_one_budget():
    ptx = text(REVERSED + STORE)
    alone = launch(ptx, grid=BLOCKS, block=THREADS, args=[given(), np.zeros(N, np.int32)], processes=1)
    outputs = [np.zeros(N, np.int32) for _ in range(2)]
    messages = [
        failure(ptx, BudgetExceeded, count, out, max_instructions=alone.issued - 1)
        for count, out in zip((1, 2), outputs, strict=True)
    ]
    assert messages[0] == messages[1]


def test_processes__none_where_a_cluster_reads_what_another_has_written():
    """Who shifts an array in place reads, or does not read, what others have written: by the seed alone."""
    shifted = f"""
    add.u32 %other, %i, {THREADS * (BLOCKS // 2)};
    rem.u32 %other, %other, {N};
    mad.wide.u32 %a, %other, 4, %to;
    ld.global.nc.b32 %v, [%a];
    add.u32 %v, %v, 1;
    """
    (_, one), (together, two) = both(text(shifted + STORE), given())
    assert together.processes == 1
    np.testing.assert_array_equal(two, one)


def test_processes__none_where_a_cluster_loads_a_box_that_another_has_written(monkeypatch):
    """All load the same box, which the first block writes, also before copies of the process begin."""
    body = """
    mov.u32 %s, held;
    mov.u32 %other, bar;
    setp.eq.u32 %p, %t, 0;
    @%p mbarrier.init.shared::cta.b64 [%other], 1;
    bar.sync 0;
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%other], 256;
    mov.b64 %a, map;
    cvta.param.u64 %a, %a;
    mov.u32 %v, 0;
    @%p cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%a, {%v}], [%other];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%other], 0;
    @!%p bra wait;
    mad.lo.u32 %s, %t, 4, %s;
    ld.shared.b32 %v, [%s];
    add.u32 %v, %v, 1;
"""
    monkeypatch.setattr(processes, "_PATIENCE_S", 100)
    monkeypatch.setattr(processes, "perf_counter", lambda: 0)
    # A hundred turns of the scheduler, and not a time: by then blocks have asked for the box.
    monkeypatch.setattr(scheduler, "perf_counter", itertools.count().__next__)
    more = ", .param .align 64 .b8 map[128]"
    ptx = text(".shared .align 8 .b64 bar;" + body + STORE, more=more)
    found = []
    for most in (1, 2):
        out = given()
        args = [given(), out, TensorMap.tiled(out, dims=[N], strides=[], box=[THREADS])]
        found.append((launch(ptx, grid=BLOCKS, block=THREADS, args=args, seed=5, processes=most), out))
    assert [result.processes for result, _ in found] == [1, 1]
    np.testing.assert_array_equal(found[1][1], found[0][1])


def test_processes__none_where_two_arguments_share_bytes():
    memory = given()
    ptx = text(REVERSED + STORE)
    result = launch(ptx, grid=BLOCKS, block=THREADS, args=[memory, memory], processes=2)
    assert result.processes == 1


def test_processes__none_with_a_recorder():
    result = launch(
        text(REVERSED + STORE),
        grid=BLOCKS,
        block=THREADS,
        args=[given(), np.zeros(N, np.int32)],
        recorder=Recorder(),
        processes=2,
    )
    assert result.processes == 1


# --- copies that fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["ends", "says nothing", "waits"])
def test_processes__do_what_a_copy_leaves_undone(monkeypatch, fate):
    def work(scheduler, parts, answer):
        if fate == "ends":
            os._exit(3)
        if fate == "waits":
            time.sleep(60)

    monkeypatch.setattr(processes, "_work", work)
    monkeypatch.setattr(processes, "_LATE", 0)
    monkeypatch.setattr(processes, "_LATE_S", 0.5)
    started = time.monotonic()
    (_, one), (together, two) = both(text(REVERSED + STORE), np.zeros(N, np.int32))
    assert time.monotonic() - started < 30
    assert together.processes == 1
    np.testing.assert_array_equal(two, one)
    np.testing.assert_array_equal(two, reversed_in_blocks())


@pytest.mark.parametrize("fails", [1, 2])
def test_processes__none_where_the_system_has_no_room_for_them(monkeypatch, fails):
    begun = []
    start = ForkProcess.start

    def refuse(process):
        begun.append(process)
        if len(begun) == fails:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(ForkProcess, "start", refuse)
    blocks = 5 * 256 * 32 // THREADS
    source, out = np.arange(blocks * THREADS, dtype=np.int32), np.zeros(blocks * THREADS, np.int32)
    result = launch(text(REVERSED + STORE), grid=blocks, block=THREADS, args=[source, out], processes=3)
    assert (result.processes, len(begun)) == (1, fails)
    np.testing.assert_array_equal(out, source.reshape(blocks, THREADS)[:, ::-1].reshape(-1))


def test_processes__copies_end_with_a_launch_that_fails(monkeypatch):
    begun = []
    start = _Team.start

    def remember(team, count):
        start(team, count)
        begun.extend(copy.process.pid for copy in team.copies)

    monkeypatch.setattr(_Team, "start", remember)
    monkeypatch.setattr(processes, "_work", lambda scheduler, parts, answer: time.sleep(60))
    ptx = text("mov.u32 %s, held; ld.shared.b32 %v, [%s];" + STORE)
    failure(ptx, UninitializedRead, 2, np.zeros(N, np.int32))
    assert begun
    for pid in begun:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# --- kernels whose clusters may learn from each other -------------------------------------------------------

VPRINTF = """
.extern .func (.param .b32 done) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 words[4] = {104, 105, 10, 0};
"""
PRINT = """
    {
    .param .b64 format;
    .param .b64 values;
    .param .b32 done;
    mov.u64 %a, words;
    cvta.global.u64 %a, %a;
    st.param.b64 [format], %a;
    mov.u64 %a, 0;
    st.param.b64 [values], %a;
    call.uni (done), vprintf, (format, values);
    }
"""
BULK_ADD = BULK_STORE.replace(
    "cp.async.bulk.global.shared::cta.bulk_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
)


@pytest.mark.parametrize(
    "body",
    [
        "mad.wide.u32 %a, %i, 4, %from; ld.global.b32 %v, [%a];",
        "mad.wide.u32 %a, %i, 4, %from; ld.volatile.global.b32 %v, [%a];",
        "mad.wide.u32 %a, %i, 4, %from; ld.b32 %v, [%a];",
        "atom.global.add.u32 %v, [%from], 1;",
        "mov.u32 %v, 1; red.global.add.u32 [%from], 1;",
        "mov.u32 %v, %clock;",
        "mov.u64 %a, %globaltimer; cvt.u32.u64 %v, %a;",
    ],
    ids=["load", "volatile", "generic", "atom", "red", "clock", "timer"],
)
def test_processes__none_where_clusters_may_learn(body):
    result, _ = both(text(body + STORE), np.zeros(N, np.int32))[1]
    assert result.processes == 1


def test_processes__none_where_blocks_print():
    result, _ = both(text(PRINT + STORE, declared=VPRINTF), np.zeros(N, np.int32))[1]
    assert (result.processes, result.printed) == (1, "hi\n" * N)


def test_processes__none_where_clusters_add_to_global_memory():
    (_, one), (result, two) = both(text(REVERSED + BULK_ADD), np.ones(N, np.int32))
    assert result.processes == 1
    np.testing.assert_array_equal(one, reversed_in_blocks() + 1)
    np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize(
    "body",
    [
        "mad.wide.u32 %a, %i, 4, %from; ld.global.nc.b32 %v, [%a];",
        (
            "mov.u32 %s, held; mad.lo.u32 %s, %t, 4, %s; st.shared.b32 [%s], 1; red.shared.add.u32 [%s], %t;"
            " ld.shared.b32 %v, [%s];"
        ),
        "mov.u32 %v, %smid; mov.u32 %v, %ctaid.x;",
    ],
    ids=["non-coherent", "red in shared memory", "special registers"],
)
def test_processes__two_where_they_cannot(body):
    (_, one), (result, two) = both(text(body + STORE), np.zeros(N, np.int32))
    assert result.processes == 2
    np.testing.assert_array_equal(two, one)


def test_processes__none_for_a_small_grid():
    ptx = text(REVERSED + STORE)
    result = launch(ptx, grid=200, block=THREADS, args=[given(), np.zeros(N, np.int32)], processes=2)
    assert result.processes == 1
