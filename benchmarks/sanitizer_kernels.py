"""Small kernels for sm_80 and sm_90, right and with one fault at a time, for compute-sanitizer to judge.

Each is PTX by hand, and a fault changes one place of it. What the emulator has to say to each fault is
fixed here, before anything runs. No wait goes on forever, except where the fault is a barrier for which not
enough threads come.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse.kernels import LaunchSpec, Tensor, tma_broken, tma_multicast_broken
from cutecourse.kernels.faults import Fault

RIGHT = "right"

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """A right kernel with its arrays and their contents afterwards, and the faults that it can have."""

    name: str
    about: str
    spec: LaunchSpec
    arrays: Callable[[], Arrays]
    expected: Callable[[Arrays], Arrays]
    faults: tuple[Fault, ...]
    specs: dict[str, LaunchSpec] | None = None
    """The faults' launches, of a kernel that has a module of its own."""

    def launch(self, fault: str) -> LaunchSpec:
        """The launch of a fault, or of the right kernel."""
        if fault == RIGHT:
            return self.spec
        if self.specs is not None:
            return self.specs[fault]
        (found,) = (one for one in self.faults if one.name == fault)
        return self.spec.with_fault(found, self.spec.name)


def _fault(name: str, right: str, wrong: str, about: str, *named: str) -> Fault:
    return Fault(name, about, source=((right, wrong),), reports=named)


def _kernel(
    name: str,
    about: str,
    body: str,
    expected: Callable[[Any], Any],
    *faults: Fault,
    threads: int = 64,
    ctas: int = 1,
    words: int = 0,
    target: str = "sm_80",
) -> Kernel:
    """A kernel from `source` to `out`, words of 32 bits, as many as `words` or one for each thread.

    Each thread finds its number in %t, four times that in %t4, and the addresses of its own words in %from
    and %to.
    """
    parts = body.split("---\n")
    declared, text = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
    ptx = f""".version 8.0
.target {target}
.address_size 64

.visible .entry {name}(.param .u64 source, .param .u64 out)
{{
    .reg .pred %p, %first, %low, %done;
    .reg .b32 %t, %t4, %at, %v, %w, %i, %cta;
    .reg .b64 %from, %to, %wide;
{declared}
    ld.param.u64 %from, [source];
    ld.param.u64 %to, [out];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %to, %to;
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    shl.b32 %t4, %t, 2;
    setp.eq.u32 %first, %t, 0;
    setp.lt.u32 %low, %t, 32;
    mad.lo.u32 %i, %cta, {threads}, %t;
    mul.wide.u32 %wide, %i, 4;
    add.u64 %from, %from, %wide;
    add.u64 %to, %to, %wide;
{text}    ret;
}}
"""
    count = words or threads * ctas
    spec = LaunchSpec(
        name=name,
        language="ptx",
        ptx=ptx,
        entry=name,
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        cluster=(ctas, 1, 1),
        params=(Tensor("source", "u32", (count,)), Tensor("out", "u32", (count,))),
        target=target,
    )

    def arrays() -> Arrays:
        return {"source": np.arange(1000, 1000 + count, dtype=np.uint32), "out": np.zeros(count, np.uint32)}

    return Kernel(name, about, spec, arrays, lambda given: {"out": expected(given["source"])}, faults)


COPY = _kernel(
    "copy_pairs",
    "each thread copies 8 bytes of global memory",
    """
    .reg .b32 %a, %b;
---
    mul.wide.u32 %wide, %t4, 1;
    add.u64 %from, %from, %wide;
    add.u64 %to, %to, %wide;
    ld.global.v2.u32 {%a, %b}, [%from];
    st.global.v2.u32 [%to], {%a, %b};
""",
    lambda source: source,
    _fault(
        "read_past_the_end",
        "[%from];",
        "[%from+8];",
        "the last thread reads behind the array",
        "AddressError",
    ),
    _fault(
        "written_past_the_end",
        "[%to], {",
        "[%to+8], {",
        "the last thread writes behind the array",
        "AddressError",
    ),
    _fault("misaligned", "[%from];", "[%from+4];", "8 bytes from a multiple of 4", "AlignmentError"),
    _fault(
        "null_pointer",
        "    ld.global.v2",
        "    mov.u64 %from, 0;\n    ld.global.v2",
        "a read at address 0",
        "AddressError",
    ),
    words=128,
)

LOCAL = _kernel(
    "local_sum",
    "each thread writes 16 words of local memory and adds them up",
    """
    .local .align 4 .b8 scratch[64];
    .reg .b32 %n, %sum, %begin, %last;
---
    ld.global.u32 %v, [%from];
    sub.u32 %n, %v, %t;
    sub.u32 %n, %n, 984;                // 16, which the compiler cannot know
    mov.u32 %begin, 0;
    mov.u32 %last, %n;
    mov.u32 %sum, 0;
FILL:
    shl.b32 %i, %begin, 2;
    mov.u32 %at, scratch;
    add.u32 %at, %at, %i;
    st.local.u32 [%at], %v;
    add.u32 %begin, %begin, 1;
    setp.lt.u32 %p, %begin, %last;
    @%p bra FILL;
    mov.u32 %begin, 0;
ADD:
    shl.b32 %i, %begin, 2;
    mov.u32 %at, scratch;
    add.u32 %at, %at, %i;
    ld.local.u32 %w, [%at];
    add.u32 %sum, %sum, %w;
    add.u32 %begin, %begin, 1;
    setp.lt.u32 %p, %begin, %n;
    @%p bra ADD;
    st.global.u32 [%to], %sum;
""",
    lambda source: source * 16,
    _fault(
        "written_past_the_end",
        "mov.u32 %last, %n;",
        "mov.u32 %last, 4096;",
        "the loop writes behind the thread's 64 bytes",
        "AddressError",
    ),
    _fault(
        "misaligned",
        "st.local.u32 [%at]",
        "st.local.u32 [%at+2]",
        "4 bytes at an odd half-word",
        "AlignmentError",
    ),
    _fault(
        "first_word_not_written",
        "    mov.u32 %begin, 0;\n    mov.u32 %last",
        "    mov.u32 %begin, 1;\n    mov.u32 %last",
        "the loop that writes begins at the second word",
        "UninitializedRead",
    ),
)

_STORE = "    st.shared.u32 [%at], %v;\n"
_SYNC = "    bar.sync 0;\n"
REVERSE = _kernel(
    "reverse",
    "two warps turn 64 words around in shared memory",
    """
    .shared .align 4 .b8 tile[256];
---
    ld.global.u32 %v, [%from];
    mov.u32 %at, tile;
    add.u32 %at, %at, %t4;
    st.shared.u32 [%at], %v;
    bar.sync 0;
    mov.u32 %at, tile;
    sub.u32 %at, %at, %t4;
    ld.shared.u32 %v, [%at+252];
    st.global.u32 [%to], %v;
""",
    lambda source: source[::-1],
    _fault(
        "no_barrier",
        _SYNC,
        "",
        "no barrier between the writes and the reads",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
    _fault(
        "written_past_the_end",
        "[%at], %v;",
        "[%at+4], %v;",
        "the last thread writes behind the tile",
        "AddressError",
    ),
    _fault("misaligned", "[%at], %v;", "[%at+2], %v;", "4 bytes at an odd half-word", "AlignmentError"),
    _fault(
        "half_not_written",
        _STORE,
        _STORE.replace("st", "@%low st"),
        "only one warp writes",
        "UninitializedRead",
    ),
    _fault(
        "barrier_in_half_a_warp",
        _SYNC,
        "    and.b32 %i, %t, 31;\n    setp.lt.u32 %p, %i, 16;\n    @%p bar.sync 0;\n",
        "half of each warp executes an aligned barrier",
        "DivergedWarp",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
    _fault(
        "barrier_in_one_warp",
        _SYNC,
        "    @%low bar.sync 0;\n",
        "one of two warps comes to the barrier",
        "SharedMemoryRace",
        "UninitializedRead",
        "DeadlockError",
    ),
    _fault(
        "barrier_of_too_many",
        _SYNC,
        "    bar.sync 0, 96;\n",
        "a barrier of 96 threads in a block of 64",
        "DeadlockError",
        "BarrierError",
    ),
)

ROUNDS = _kernel(
    "two_rounds",
    "two warps turn 64 words around twice, in the same shared memory",
    """
    .shared .align 4 .b8 tile[256];
---
    ld.global.u32 %v, [%from];
    mov.u32 %at, tile;
    add.u32 %w, %at, %t4;
    sub.u32 %at, %at, %t4;
    st.shared.u32 [%w], %v;
    bar.sync 0;
    ld.shared.u32 %v, [%at+252];
    add.u32 %v, %v, 1;
    bar.sync 1;
    st.shared.u32 [%w], %v;
    bar.sync 2;
    ld.shared.u32 %v, [%at+252];
    st.global.u32 [%to], %v;
""",
    lambda source: source + 1,
    _fault(
        "overwritten_too_early",
        "    bar.sync 1;\n",
        "",
        "no barrier between the reads and the next writes",
        "SharedMemoryRace",
    ),
)

HANDOVER = _kernel(
    "two_writers",
    "one warp writes a word, then the other writes it, then all read it",
    """
    .shared .align 4 .b8 word[4];
---
    ld.global.u32 %v, [%from];
    @%first st.shared.u32 [word], %v;
    bar.sync 0;
    setp.eq.u32 %p, %t, 63;
    @%p st.shared.u32 [word], %v;
    bar.sync 1;
    ld.shared.u32 %v, [word];
    st.global.u32 [%to], %v;
""",
    lambda source: np.full_like(source, source[63]),
    _fault("no_order_of_writes", _SYNC, "", "no barrier between the two writes", "SharedMemoryRace"),
)

COUNT = _kernel(
    "count_threads",
    "64 threads add to a word of shared memory",
    """
    .shared .align 4 .b8 word[4];
---
    @%first st.shared.u32 [word], 0;
    bar.sync 0;
    atom.shared.add.u32 %w, [word], 1;
    bar.sync 1;
    ld.shared.u32 %v, [word];
    st.global.u32 [%to], %v;
""",
    lambda source: np.full_like(source, 64),
    _fault(
        "not_atomic",
        "    atom.shared.add.u32 %w, [word], 1;\n",
        "    ld.shared.u32 %w, [word];\n    add.u32 %w, %w, 1;\n    st.shared.u32 [word], %w;\n",
        "each thread reads, adds and writes",
        "SharedMemoryRace",
    ),
    _fault(
        "not_behind_the_zero",
        _SYNC,
        "",
        "no barrier between writing the zero and the additions",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
)

EXCHANGE = _kernel(
    "exchange_in_a_warp",
    "the lanes of one warp turn 32 words around in shared memory",
    """
    .shared .align 4 .b8 tile[128];
---
    ld.global.u32 %v, [%from];
    mov.u32 %at, tile;
    add.u32 %w, %at, %t4;
    sub.u32 %at, %at, %t4;
    st.shared.u32 [%w], %v;
    bar.warp.sync -1;
    ld.shared.u32 %v, [%at+124];
    st.global.u32 [%to], %v;
""",
    lambda source: source[::-1],
    _fault("no_warp_barrier", "    bar.warp.sync -1;\n", "", "nothing orders the lanes", "LanesNotOrdered"),
    _fault(
        "mask_without_the_lane",
        "bar.warp.sync -1;",
        "bar.warp.sync 0xffff;",
        "lanes that the mask leaves out execute the barrier",
        "InvalidOperand",
        "DivergedWarp",
    ),
    threads=32,
)

CP_ASYNC = _kernel(
    "cp_async_reverse",
    "64 threads bring 16 bytes each by cp.async and read one another's",
    """
    .shared .align 16 .b8 tile[1024];
    .reg .b32 %a, %b, %c, %d;
---
    mul.wide.u32 %wide, %t4, 3;
    add.u64 %from, %from, %wide;
    add.u64 %to, %to, %wide;
    shl.b32 %i, %t, 4;
    mov.u32 %at, tile;
    add.u32 %w, %at, %i;
    sub.u32 %at, %at, %i;
    cp.async.cg.shared.global [%w], [%from], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.v4.u32 {%a, %b, %c, %d}, [%at+1008];
    st.global.v4.u32 [%to], {%a, %b, %c, %d};
""",
    lambda source: source.reshape(64, 4)[::-1].reshape(-1),
    _fault(
        "no_wait",
        "    cp.async.wait_group 0;\n",
        "",
        "nobody waits for the copies",
        "ReadBeforeWait",
        "UninitializedRead",
    ),
    _fault(
        "waits_for_another_group",
        "wait_group 0;",
        "wait_group 1;",
        "the wait lets the latest group go on",
        "ReadBeforeWait",
        "UninitializedRead",
    ),
    _fault(
        "no_barrier",
        _SYNC,
        "",
        "each thread has waited for its own copy only",
        "SharedMemoryRace",
        "ReadBeforeWait",
        "UninitializedRead",
    ),
    _fault(
        "misaligned_source",
        "[%from], 16;",
        "[%from+8], 16;",
        "16 bytes from a multiple of 8",
        "AlignmentError",
    ),
    _fault(
        "misaligned_destination",
        "[%w], [%from]",
        "[%w+8], [%from]",
        "16 bytes to a multiple of 8",
        "AlignmentError",
    ),
    _fault(
        "written_past_the_end",
        "[%w], [%from]",
        "[%w+16], [%from]",
        "the last thread's copy ends behind the tile",
        "AddressError",
    ),
    words=256,
)


def _half_product(source: Any) -> Any:
    """A (16x16) times B (16x8, kept as 8 columns of 16), f16 in, f32 out, in the order of the out array."""
    halves = source[:192].view(np.float16).astype(np.float32)
    product = halves[:256].reshape(16, 16) @ halves[256:].reshape(8, 16).T
    out = np.zeros_like(source)
    out[:128] = np.ascontiguousarray(product).reshape(-1).view(np.uint32)
    return out


_MMA = _kernel(
    "ldmatrix_mma",
    "two warps bring A and B to shared memory, one multiplies them by ldmatrix and mma.sync",
    """
    .shared .align 16 .b8 tiles[768];
    .reg .b32 %a<4>, %b<2>, %c<4>, %row;
    .reg .f32 %d<4>;
---
    mul.wide.u32 %wide, %t4, 3;
    add.u64 %from, %from, %wide;
    setp.lt.u32 %p, %t, 48;
    shl.b32 %i, %t, 4;
    mov.u32 %at, tiles;
    add.u32 %w, %at, %i;
    @%p ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%from];
    @%p st.shared.v4.u32 [%w], {%c0, %c1, %c2, %c3};
    bar.sync 0;
    @!%low bra END;
    // Lanes 0 to 15 name the 16 rows' first 16 bytes, lanes 16 to 31 their last.
    and.b32 %row, %t, 15;
    shl.b32 %row, %row, 5;
    and.b32 %i, %t, 16;
    add.u32 %row, %row, %i;
    add.u32 %row, %row, %at;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%a0, %a1, %a2, %a3}, [%row];
    and.b32 %row, %t, 7;
    shl.b32 %row, %row, 5;
    and.b32 %i, %t, 8;
    shl.b32 %i, %i, 1;
    add.u32 %row, %row, %i;
    add.u32 %row, %row, %at;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%b0, %b1}, [%row+512];
    mov.f32 %d0, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1},
        {%d0, %d0, %d0, %d0};
    shr.u32 %i, %t, 2;
    shl.b32 %i, %i, 5;
    and.b32 %w, %t, 3;
    shl.b32 %w, %w, 3;
    add.u32 %i, %i, %w;
    ld.param.u64 %to, [out];
    cvta.to.global.u64 %to, %to;
    cvt.u64.u32 %wide, %i;
    add.u64 %to, %to, %wide;
    st.global.v2.f32 [%to], {%d0, %d1};
    st.global.v2.f32 [%to+256], {%d2, %d3};
END:
""",
    _half_product,
    _fault(
        "no_barrier",
        _SYNC,
        "",
        "no barrier between the stores and ldmatrix",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
    _fault(
        "row_misaligned",
        "{%a0, %a1, %a2, %a3}, [%row];",
        "{%a0, %a1, %a2, %a3}, [%row+8];",
        "rows of ldmatrix at multiples of 8",
        "AlignmentError",
    ),
    _fault("rows_past_the_end", "[%row+512];", "[%row+640];", "rows of B behind the tiles", "AddressError"),
    _fault(
        "b_not_written",
        "setp.lt.u32 %p, %t, 48;",
        "setp.lt.u32 %p, %t, 32;",
        "nobody brings B",
        "UninitializedRead",
    ),
    _fault(
        "half_a_warp",
        "    ldmatrix.sync.aligned.m8n8.x2",
        "    setp.lt.u32 %p, %t, 16;\n    @%p ldmatrix.sync.aligned.m8n8.x2",
        "half of the warp executes an aligned ldmatrix",
        "DivergedWarp",
    ),
    words=256,
)


def _halves() -> Arrays:
    """Whole numbers whose sums of products are exact."""
    source = np.zeros(256, np.uint32)
    source[:192] = np.random.default_rng(7).integers(-8, 9, 384).astype(np.float16).view(np.uint32)
    return {"source": source, "out": np.zeros(256, np.uint32)}


MMA = Kernel(_MMA.name, _MMA.about, _MMA.spec, _halves, _MMA.expected, _MMA.faults)

_ARRIVE = "    mbarrier.arrive.shared.b64 %state, [full];\n"
MBARRIER = _kernel(
    "mbarrier_reverse",
    "two warps turn 64 words around in shared memory behind an mbarrier",
    """
    .shared .align 4 .b8 tile[256];
    .shared .align 8 .b64 full;
    .reg .b64 %state;
---
    ld.global.u32 %v, [%from];
    mov.u32 %at, tile;
    add.u32 %w, %at, %t4;
    sub.u32 %at, %at, %t4;
    @%first mbarrier.init.shared.b64 [full], 64;
    bar.sync 0;
    st.shared.u32 [%w], %v;
    mbarrier.arrive.shared.b64 %state, [full];
    mov.u32 %i, 0;
AGAIN:
    mbarrier.test_wait.parity.shared.b64 %done, [full], 0;
    @%done bra READ;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 1000;
    @%p bra AGAIN;
READ:
    ld.shared.u32 %v, [%at+252];
    st.global.u32 [%to], %v;
""",
    lambda source: source[::-1],
    _fault(
        "no_init",
        "    @%first mbarrier.init.shared.b64 [full], 64;\n",
        "",
        "the mbarrier is never initialised",
        "NoBarrierError",
    ),
    _fault(
        "init_not_awaited",
        _SYNC,
        "",
        "threads may arrive before the mbarrier is initialised",
        "NoBarrierError",
        "SharedMemoryRace",
        "BarrierInUse",
    ),
    _fault(
        "count_too_high",
        "[full], 64;",
        "[full], 65;",
        "the mbarrier waits for one arrival more than there are",
        "SharedMemoryRace",
        "OpenPhase",
    ),
    _fault(
        "count_too_low",
        "[full], 64;",
        "[full], 32;",
        "the phase is complete when one warp has arrived",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
    _fault(
        "other_parity",
        "[full], 0;",
        "[full], 1;",
        "a wait for the phase before the first, which passes at once",
        "SharedMemoryRace",
        "UninitializedRead",
    ),
    _fault(
        "initialised_again",
        _ARRIVE,
        _ARRIVE + "    @%first mbarrier.init.shared.b64 [full], 64;\n",
        "an mbarrier in use is initialised once more",
        "BarrierInUse",
    ),
)

_LEAVE = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n    ret;"
NEIGHBOUR = _kernel(
    "neighbours_words",
    "each of two CTAs reads the other's shared memory",
    """
    .shared .align 4 .b8 tile[128];
    .reg .b32 %other;
---
    ld.global.u32 %v, [%from];
    mov.u32 %at, tile;
    add.u32 %at, %at, %t4;
    st.shared.u32 [%at], %v;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;       // both have written
    xor.b32 %other, %cta, 1;
    mapa.shared::cluster.u32 %w, %at, %other;
    ld.shared::cluster.u32 %v, [%w];
    st.global.u32 [%to], %v;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;       // both have read
""",
    lambda source: source.reshape(2, 32)[::-1].reshape(-1),
    _fault(
        "not_behind_the_writes",
        "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;       // both have written\n",
        "",
        "a CTA reads before the other has written",
        "SharedMemoryRace",
        "UninitializedRead",
        "AddressError",
        "ExitedCTAError",
    ),
    _fault(
        "ends_too_early",
        "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;       // both have read\n",
        "",
        "a CTA may end while the other reads its shared memory",
        "ExitedCTAError",
        "AddressError",
    ),
    _fault(
        "no_such_cta",
        "xor.b32 %other, %cta, 1;",
        "add.u32 %other, %cta, 2;",
        "a CTA that the cluster does not have",
        "AddressError",
        "InvalidOperand",
    ),
    _fault(
        "past_the_end",
        "[%w];",
        "[%w+128];",
        "the other CTA's memory behind its tile",
        "AddressError",
    ),
    threads=32,
    ctas=2,
    target="sm_90",
)

BULK = _kernel(
    "bulk_load",
    "one thread brings 256 bytes by cp.async.bulk, all read them",
    """
    .shared .align 16 .b8 tile[256];
    .shared .align 8 .b64 full;
    .reg .b32 %size;
---
    mov.u32 %size, 256;
    @%first mbarrier.init.shared.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%from], %size, [full];
    mov.u32 %i, 0;
AGAIN:
    mbarrier.try_wait.parity.shared.b64 %done, [full], 0, 10000;
    @%done bra READ;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 1000;
    @%p bra AGAIN;
READ:
    mov.u32 %at, tile;
    add.u32 %at, %at, %t4;
    ld.shared.u32 %v, [%at];
    st.global.u32 [%to], %v;
""",
    lambda source: source,
    _fault(
        "no_wait",
        "mbarrier.try_wait.parity.shared.b64 %done, [full], 0, 10000;",
        "setp.eq.u32 %done, 0, 0;",
        "nobody waits for the copy",
        "ReadBeforeWait",
        "UninitializedRead",
    ),
    _fault(
        "misaligned_source",
        "[%from], %size",
        "[%from+8], %size",
        "16 bytes from a multiple of 8",
        "AlignmentError",
    ),
    _fault(
        "read_past_the_end",
        "[%from], %size",
        "[%from+128], %size",
        "the copy reads behind the array",
        "AddressError",
    ),
    _fault(
        "written_past_the_end",
        "[tile], [%from]",
        "[tile+128], [%from]",
        "the copy writes behind the tile",
        "AddressError",
    ),
    _fault(
        "odd_size",
        "mov.u32 %size, 256;",
        "mov.u32 %size, 248;",
        "a copy whose size is no multiple of 16",
        "AlignmentError",
        "InvalidOperand",
    ),
    target="sm_90",
)

_TILES = 16


def _doubled() -> Arrays:
    shape = (_TILES * tma_broken.ROWS, tma_broken.COLUMNS)
    source = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    return {
        "source": source,
        "result": np.zeros_like(source),
        "gave_up": np.zeros(2, np.uint32),
        "tiles": _TILES,
    }


def _shared_tile() -> Arrays:
    shape = (tma_multicast_broken.ROWS, tma_multicast_broken.COLUMNS)
    ctas = tma_multicast_broken.CTAS
    tile = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    return {"source": tile, "out": np.zeros((ctas, *shape), np.int32), "gave_up": np.zeros(ctas, np.uint32)}


def _of(faults: dict[str, Any], named: dict[str, tuple[str, ...]]) -> tuple[Fault, ...]:
    return tuple(dataclasses.replace(one, reports=named[name]) for name, one in faults.items())


TMA = Kernel(
    "tma_broken",
    "a producer and a consumer warp with one stage of TMA loads and stores",
    tma_broken.doubled(_TILES),
    _doubled,
    lambda given: {"result": 2 * given["source"]},
    _of(
        tma_broken.FAULTS,
        {
            "too_many_bytes": ("TransactionBytesError", "DeadlockError", "BarrierCountError", "OpenPhase"),
            "too_few_bytes": ("BarrierCountError", "TransactionBytesError", "DeadlockError"),
            "parity_never_flipped": (
                "ReadBeforeWait",
                "OverwrittenSource",
                "DeadlockError",
                "BarrierCountError",
            ),
            "no_wait": ("ReadBeforeWait", "UninitializedRead"),
            "not_elected": (
                "BarrierCountError",
                "TransactionBytesError",
                "UninitializedRead",
                "ReadBeforeWait",
                "StageReusedEarly",
            ),
            "no_proxy_fence": ("MissingProxyFence",),
            "stage_reused": ("StageReusedEarly", "OverwrittenSource", "ReadBeforeWait", "BarrierCountError"),
            "store_not_awaited": ("StageReusedEarly", "OverwrittenSource", "UninitializedRead"),
        },
    ),
    {name: tma_broken.broken(name, _TILES) for name in tma_broken.FAULTS},
)
MULTICAST = Kernel(
    "tma_multicast_broken",
    "four CTAs send each other the quarters of a tile",
    tma_multicast_broken.LAUNCH,
    _shared_tile,
    lambda given: {"out": np.broadcast_to(given["source"], given["out"].shape)},
    _of(
        tma_multicast_broken.FAULTS,
        {
            "receiver_missing": ("TransactionBytesError", "DeadlockError", "MulticastError", "OpenPhase"),
            "own_slice_expected": (
                "BarrierCountError",
                "TransactionBytesError",
                "ReadBeforeWait",
                "MulticastError",
                "UninitializedRead",
            ),
            "no_cluster_barrier": (
                "NoBarrierError",
                "MulticastError",
                "StageReusedEarly",
                "SharedMemoryRace",
            ),
        },
    ),
    {name: tma_multicast_broken.broken(name) for name in tma_multicast_broken.FAULTS},
)

KERNELS = {
    kernel.name: kernel
    for kernel in (
        *(COPY, LOCAL, REVERSE, ROUNDS, HANDOVER, COUNT, EXCHANGE),
        *(CP_ASYNC, MMA, MBARRIER, NEIGHBOUR, BULK, TMA, MULTICAST),
    )
}
"""Every kernel, by name."""
