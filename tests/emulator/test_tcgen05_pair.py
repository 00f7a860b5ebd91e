"""Two CTAs that share one tcgen05.mma: halves of the operands and of D, commits, loads' barriers."""

from functools import partial

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, launch
from cutecourse.emulator.errors import (
    AddressError,
    DeadlockError,
    InvalidOperand,
    ReadBeforeWait,
    TensorMemoryAccessError,
)
from cutecourse.layout import Layout
from cutecourse.trace import Recorder
from support import tcgen05
from support.tcgen05 import FENCE, copy_in, descriptor, idesc

K = 16
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
B_AT = 8192
IMAGE = 16384


def k_major(start):
    """K-major without a swizzle: the rows' atoms 256 bytes apart, the two halves of K 128."""
    return descriptor(start, 128, 256)


def image_of(a, b):
    """Shared memory of one CTA: its rows of A, and its columns of B as rows."""
    image = np.zeros(IMAGE // 2, np.float16)
    for at, values in ((0, a), (B_AT // 2, b)):
        layout = Layout(((8, len(values) // 8), (8, 2)), ((8, 128), (1, 64)))
        for mn, k in np.ndindex(values.shape):
            image[at + layout((mn, k))] = values[mn, k]
    return image.view(np.uint8)


def operands(m, n, pairs=1):
    """(A, B, images of all CTAs) with whole numbers, different in each pair."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, (pairs, extent, K)).astype(np.float32) for extent in (m, n))
    images = [
        image_of(np.split(a[pair], 2)[v], np.split(b[pair], 2)[v]) for pair in range(pairs) for v in (0, 1)
    ]
    return a, b, np.stack(images)


COPY_IN = copy_in(IMAGE) + FENCE + SYNC


def issue(m, n, *, a="%a", leader=0, mask=""):
    """One thread of the pair issues: thread 0 of the CTA whose rank has the parity `leader`."""
    return (
        f"mov.b64 %a, {k_major(0)};\nmov.b64 %b, {k_major(B_AT)};\nmov.b32 %x, {idesc(m, n)};\n"
        f"and.b32 %y, %rank, 1;\nsetp.eq.u32 %p, %y, {leader};\nand.pred %p, %p, %first;\n"
        f"setp.ne.u32 %q, %y, %y;\n"
        f"@%p tcgen05.mma.cta_group::2.kind::f16 [%tmem], {a}, %b, %x{mask}, %q;\n"
    )


def commit(mask="0x3"):
    """Behind the pair's first rank: the mask is for CTAs 0 and 1 of the pair."""
    return (
        f".reg .b16 %h;\nand.b32 %y, %rank, 14;\nmov.b32 %x, {mask};\nshl.b32 %x, %x, %y;\n"
        "cvt.u16.u32 %h, %x;\n"
        "@%p tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
        " [bar], %h;\n"
    )


WAIT = (
    "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
    "tcgen05.fence::after_thread_sync;\n"
)


def keep(n):
    text = f"mul.wide.u32 %at, %me, {4 * n};\nadd.u64 %at, %out, %at;\nadd.u32 %d, %tmem, %lane;\n"
    for first in range(0, n, 8):
        held = ", ".join(f"%r{i}" for i in range(8))
        text += f"add.u32 %x, %d, {first};\ntcgen05.ld.sync.aligned.32x32b.x8.b32 {{{held}}}, [%x];\n"
        text += "".join(f"st.global.b32 [%at+{4 * (first + i)}], %r{i};\n" for i in range(8))
    return text + "tcgen05.wait::ld.sync.aligned;\n"


def run(body, images, columns, **options):
    grid = len(images)
    out = np.zeros((grid, 128, columns), np.uint32)
    options = {"cluster": 2, "smem": IMAGE, **options}
    tcgen05.run(body, images, out, grid=grid, group=2, **options)
    return out.view(np.float32)


def gather(out, m, n):
    """D of one pair from both CTAs' lanes and columns, by the document's figures of layouts A and B."""
    if m == 256:
        return np.concatenate([out[0], out[1]])
    return np.concatenate([np.concatenate([cta[:64], cta[64:]], axis=1) for cta in out])


@pytest.mark.parametrize("leader", [0, 1])
@pytest.mark.parametrize(("m", "n"), [(256, 32), (256, 64), (128, 32), (128, 16), (256, 16)])
def test_pair__each_cta_gives_half_of_the_operands_and_gets_half_of_d(m, n, leader):
    a, b, images = operands(m, n)
    columns = n if m == 256 else n // 2
    out = run(COPY_IN + issue(m, n, leader=leader) + commit() + WAIT + keep(columns), images, columns)
    np.testing.assert_array_equal(gather(out, m, n), a[0] @ b[0].T)


@pytest.mark.parametrize(("scope", "right"), [(".release.cluster", True), ("", False)])
def test_pair__stores_of_the_peer_need_an_arrival_that_reaches_the_leader(scope, right):
    """As NVIDIA/cutlass #3324 and #3643 tell; the leader's own stores are in the scope of its CTA."""
    a, b, images = operands(256, 32)
    told = f"""
        .shared .align 8 .b64 told;
        .reg .b32 %told;
        @%first mbarrier.init.shared::cta.b64 [told], 1;
        {SYNC}
        {copy_in(IMAGE)}
        fence.proxy.async.shared::cta;
        bar.sync 0;
        mov.u32 %told, told;
        mapa.shared::cluster.u32 %told, %told, 0;
        setp.eq.u32 %p, %rank, 0;
        @%p bra LEADER;
        @%first mbarrier.arrive{scope}.shared::cluster.b64 _, [%told];
        bra TOLD;
        LEADER:
        mbarrier.try_wait.parity.shared::cta.b64 %q, [told], 0;
        @!%q bra LEADER;
        TOLD:
        """
    out = np.zeros((2, 128, 32), np.uint32)
    body = told + issue(256, 32) + commit() + WAIT + keep(32) + SYNC
    args = [out, images, out[0].nbytes, IMAGE]
    notes = launch(tcgen05.kernel(body, group=2, smem=IMAGE), grid=2, block=128, cluster=2, args=args).notes
    np.testing.assert_array_equal(gather(out.view(np.float32), 256, 32), a[0] @ b[0].T)
    found = [note for note in notes if note.hazard.name == "scope too narrow"]
    assert bool(found) == (not right), notes
    for note in found:
        assert "tcgen05.mma.cta_group::2.kind::f16 reads shared offset" in note.problem
        assert "of CTA 1, which warp" in note.problem


@pytest.mark.parametrize("waited", [True, False])
def test_pair__a_copy_of_the_peer_needs_a_wait_that_the_leader_knows_of(waited):
    """As NVIDIA/cutlass #3643 tells: each CTA loads its half, and the leader waits for its own half alone."""
    a, b, images = operands(256, 32)
    loaded = f"""
        .shared .align 8 .b64 full;
        @%first mbarrier.init.shared::cta.b64 [full], 1;
        fence.mbarrier_init.release.cluster;
        {SYNC}
        @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {IMAGE};
        @%first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [box], [%in], {IMAGE}, [full];
        FULL:
        mbarrier.try_wait.parity.shared::cta.b64 %q, [full], 0;
        @!%q bra FULL;
        """
    out = np.zeros((2, 128, 32), np.uint32)
    body = loaded + (SYNC if waited else "") + issue(256, 32) + commit() + WAIT + keep(32) + SYNC
    args = [out, images, out[0].nbytes, IMAGE]
    run = partial(launch, tcgen05.kernel(body, group=2, smem=IMAGE), grid=2, block=128, cluster=2, args=args)
    for seed in range(4):
        if waited:
            assert not run(seed=seed, hazards={"loaded and never read": "off"}).notes  # the image has gaps
            np.testing.assert_array_equal(gather(out.view(np.float32), 256, 32), a[0] @ b[0].T)
            continue
        with pytest.raises(ReadBeforeWait, match=r"[AB] reads shared offset .* of CTA 1, into which warp 0"):
            run(seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_pair__pairs_of_a_cluster_are_apart(seed):
    a, b, images = operands(256, 32, pairs=4)
    out = run(COPY_IN + issue(256, 32) + commit() + WAIT + keep(32), images, 32, cluster=4, seed=seed)
    for pair in range(4):
        np.testing.assert_array_equal(gather(out[2 * pair : 2 * pair + 2], 256, 32), a[pair] @ b[pair].T)


@pytest.mark.parametrize("m", [256, 128])
def test_pair__takes_a_from_both_tensor_memories(m):
    """With M = 128 the two halves of the lanes each hold the CTA's 64 rows."""
    n = 32
    a, b, images = operands(m, n)
    halves = np.split(a[0], 2)
    rows = [half if m == 256 else np.concatenate([half, half]) for half in halves]
    packed = np.stack(
        [np.ascontiguousarray(r.astype(np.float16)).view(np.uint8).reshape(128, 32) for r in rows]
    )
    both = np.concatenate([images, packed.reshape(2, -1)], axis=1)
    body = COPY_IN + "mul.wide.u32 %at, %me, 32;\nadd.u64 %at, %in, %at;\nadd.u32 %d, %tmem, %lane;\n"
    body += "add.u32 %d, %d, 64;\nadd.u32 %z, %tmem, 64;\n"
    body += "".join(f"ld.global.b32 %r{i}, [%at+{IMAGE + 4 * i}];\n" for i in range(8))
    body += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%d], {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};\n"
    body += "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n" + SYNC
    columns = n if m == 256 else n // 2
    body += "tcgen05.fence::after_thread_sync;\n" + issue(m, n, a="[%z]") + commit() + WAIT + keep(columns)
    out = run(body, both, columns)
    np.testing.assert_array_equal(gather(out, m, n), a[0] @ b[0].T)


def test_pair__masks_have_four_registers_for_each_cta():
    a, b, images = operands(256, 16)
    masks = [0, 0xFFFFFFFF, 0, 0, 0, 0, 0, 0xFFFFFFFF]
    body = COPY_IN + "".join(f"mov.b32 %r{i}, {m};\n" for i, m in enumerate(masks))
    registers = ", {" + ", ".join(f"%r{i}" for i in range(8)) + "}"
    body += issue(256, 16) + issue(256, 16, mask=registers).replace(
        "setp.ne.u32 %q, %y, %y", "setp.eq.u32 %q, %y, %y"
    )
    out = gather(run(body + commit() + WAIT + keep(16), images, 16), 256, 16)
    once = np.ones(256)
    once[32:64] = once[224:] = 0
    np.testing.assert_array_equal(out, (a[0] @ b[0].T) * (1 + once)[:, None])
    with pytest.raises(InvalidOperand, match="disable-output-lane has 8 registers here, not 4"):
        run(body + issue(256, 16, mask=", {%r0, %r1, %r2, %r3}"), images, 16)


def test_commit__that_leaves_out_the_follower_never_wakes_it():
    _, _, images = operands(256, 16)
    with pytest.raises(DeadlockError, match=r"block \(1, 0, 0\) .* waits for parity 0 of mbarrier bar"):
        run(COPY_IN + issue(256, 16) + commit("0x1") + WAIT, images, 16)


@pytest.mark.parametrize("when", ["before", "under way"])
def test_commit__to_a_cta_that_has_ended_is_refused_as_such(when):
    """CTA 2 of four ends; CTA 0 tells it of an MMA of its own pair."""
    _, _, images = operands(256, 16, pairs=2)
    leave = "setp.eq.u32 %q, %rank, 2;\n@%q bra GONE;\n"
    # The end of the kernel: CTA 2 frees, with its peer, and does not wait for the others.
    ends = (
        "bra.uni STAY;\nGONE:\nsetp.ne.u32 %p, %warp, 0;\n@%p bra OUT;\n"
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tmem, 128;\nOUT:\nret;\nSTAY:\n"
        "setp.eq.u32 %q, %rank, 3;\n@%q bra GONE;\n"
    )
    spin = "mov.b32 %x, 0;\nLOOP:\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %q, %x, 4000;\n@%q bra LOOP;\n"
    body = COPY_IN + leave + ends + (spin if when == "before" else "") + issue(256, 16) + commit("0x7")
    body += WAIT
    told = []
    for seed in range(1 if when == "before" else 8):
        try:
            run(body, images, 16, cluster=4, seed=seed)
        except AddressError as error:
            told.append(str(error))
        except DeadlockError:  # the others wait at the cluster's barrier for the CTAs that are gone
            pass
    assert told
    assert all("the mbarrier that it tells lies in CTA 2 of the cluster, which has ended" in x for x in told)
    assert all("tcgen05.commit" in x for x in told)


def test_mma__needs_columns_in_both_ctas_and_the_peer_itself():
    _, _, images = operands(256, 16)
    body = COPY_IN + "add.u32 %tmem, %tmem, 120;\n" + issue(256, 16) + "sub.u32 %tmem, %tmem, 120;\n"
    with pytest.raises(TensorMemoryAccessError, match="column 128 is not allocated"):
        run(body, images, 16)
    with pytest.raises(AddressError, match="the cluster has 1"):
        run(COPY_IN + issue(256, 16), images, 16, cluster=1)


def test_mma__names_the_shapes_of_a_pair():
    _, _, images = operands(256, 16)
    for m, n, match in ((64, 16, r"64; \.cta_group::2 has 128 or 256"), (256, 24, "24; .* multiple of 16")):
        with pytest.raises(InvalidOperand, match=match):
            run(COPY_IN + issue(m, n), images, 16)


# --- loads of a pair ----------------------------------------------------------------------------------------

LOAD = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out)
{{
    .shared .align 1024 .b8 tile[1024];
    .shared .align 8 .b64 bar;
    .reg .b32 %me, %bar, %rank, %y, %v, %to;
    .reg .b64 %map, %out, %at;
    .reg .b16 %mask;
    .reg .pred %first, %p, %q;
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %first, %me, 0;
    mov.u32 %bar, bar;
    @%first mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
    {sync}
    mov.b64 %map, m;
    cvta.param.u64 %map, %map;
    mov.u32 %to, tile;
    mov.b16 %mask, {mask};
    shl.b32 %v, %rank, 3;
    and.b32 %y, %rank, 1;
    setp.eq.u32 %p, %y, {waits};
    and.pred %p, %p, %first;
    and.b32 %bar, %bar, 0xFEFFFFFF;
    or.b32 %bar, %bar, {parity};
    {load}
    @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected};
    setp.ne.u32 %q, %y, {waits};
    @%q bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra WAIT;
DONE:
    {sync}
    ld.param.u64 %out, [out];
    mov.u32 %v, %ctaid.x;
    mad.lo.u32 %v, %v, 32, %me;
    mul.wide.u32 %at, %v, 32;
    add.u64 %out, %out, %at;
    shl.b32 %v, %me, 5;
    add.u32 %to, %to, %v;
    ld.shared.v4.b32 {{%me, %y, %v, %rank}}, [%to];
    st.global.v4.b32 [%out], {{%me, %y, %v, %rank}};
    ld.shared.v4.b32 {{%me, %y, %v, %rank}}, [%to+16];
    st.global.v4.b32 [%out+16], {{%me, %y, %v, %rank}};
    ret;
}}
"""
TENSOR = "@%first cp.async.bulk.tensor.2d{group}.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def load(*, group=".cta_group::2", parity=0, multicast=None, cluster=2, expected=2048, seed=0, elected=True):
    """Each CTA loads 8 rows of 128 bytes; the CTAs of parity `parity` count the bytes of their pair."""
    rows = np.arange(32 * 64, dtype=np.float16).reshape(32, 64)
    text = TENSOR.format(group=group)
    if multicast is None:
        text += " [%to], [%map, {0, %v}], [%bar];"
    else:
        text += ".multicast::cluster [%to], [%map, {0, %v}], [%bar], %mask;"
        text = "setp.eq.u32 %q, %rank, 0;\nand.pred %first, %first, %q;\n" + text
    if not elected:
        text = text.replace("@%first ", "")
    kernel = LOAD.format(
        sync=SYNC, mask=multicast or 0, waits=parity, parity=parity << 24, load=text, expected=expected
    )
    out = np.zeros((cluster, 512), np.float16)
    recorder = Recorder()
    tensor_map = TensorMap.tiled(rows, dims=[64, 32], strides=[128], box=[64, 8])
    launch(
        kernel, grid=cluster, block=32, cluster=cluster, args=[tensor_map, out], recorder=recorder, seed=seed
    )
    return rows.reshape(4, 512), out, recorder.trace()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parity", [0, 1])
def test_load__of_a_pair_tells_the_cta_of_the_barriers_parity(parity, seed):
    rows, out, trace = load(parity=parity, seed=seed)
    np.testing.assert_array_equal(out, rows[:2])
    assert {e["barrier"]["rank"] for e in trace.of("mbarrier.complete_tx")} == {parity}
    assert sum(e["bytes"] for e in trace.of("mbarrier.complete_tx")) == 2048
    assert {e["barrier"]["rank"] for e in trace.of("tma.issue")} == {parity}


def test_load__is_executed_once_for_each_lane_that_is_not_elected():
    """The tile is right; what 32 lanes load counts 32 times."""
    rows, out, trace = load(elected=False, expected=32 * 2048)
    np.testing.assert_array_equal(out, rows[:2])
    assert sum(e["bytes"] for e in trace.of("mbarrier.complete_tx")) == 32 * 2048
    assert len(trace.of("tma.issue")) == 64


def test_load__that_lands_before_it_is_expected_makes_the_count_negative():
    lowest = [min(e["state"]["tx"] for e in load(seed=s)[2].of("mbarrier.complete_tx")) for s in range(8)]
    assert min(lowest) < 0


@pytest.mark.parametrize("parity", [0, 1])
def test_load__multicast_tells_one_cta_of_each_destinations_pair(parity):
    rows, out, trace = load(parity=parity, multicast=0xF, cluster=4)
    np.testing.assert_array_equal(out, np.stack([rows[0]] * 4))
    told = {}
    for event in trace.of("mbarrier.complete_tx"):
        rank = event["barrier"]["rank"]
        told[rank] = told.get(rank, 0) + event["bytes"]
    assert told == {parity: 2048, parity + 2: 2048}


def test_load__without_the_pair_cannot_tell_the_peer():
    with pytest.raises(InvalidOperand, match="mbarrier lies in CTA 0 and the destination in CTA 1"):
        load(group="")
    with pytest.raises(InvalidOperand, match="both must be in the same"):
        load(group=".cta_group::1")


@pytest.mark.parametrize("seed", range(6))
def test_load__whose_bytes_nobody_expects_is_found(seed):
    """The leader expects its own bytes only: it reads too early, or waits for a count that went past zero."""
    with pytest.raises(DeadlockError, match=r"that no expect_tx announced|completed after 1024 bytes"):
        load(expected=1024, seed=seed)
