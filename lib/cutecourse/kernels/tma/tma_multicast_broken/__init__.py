"""Four CTAs that send each other the quarters of a tile: right, and with one thing wrong at a time.

Each CTA of a 1x4 cluster loads 4 rows of a 16x32 tile of 32-bit integers and sends them to all four. It waits
for the 16 rows and writes what it got to its part of `out`. As in tma_broken, a fault is a change in one
place of the PTX, and no wait goes on forever: a CTA that gives up says so in `gave_up` and writes down what
it has.
"""

from __future__ import annotations

from cutecourse.dtypes import dtype
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

CTAS = 4
ROWS, COLUMNS = 16, 32
NOTHING = 0xA5A5A5A5  # what shared memory holds before

PTX = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry tma_shared_tile(.param .align 64 .b8 source[128], .param .u64 out, .param .u64 gave_up)
{
    .reg .pred %done, %again, %elected;
    .reg .b16 %mask;
    .reg .b32 %thread, %rank, %row, %slice, %tries, %at, %value, %left;
    .reg .b64 %source, %out, %gave_up, %wide;
    .shared .align 128 .b8 tile[2048];
    .shared .align 8 .b64 full;

    mov.u32             %thread, %tid.x;
    mov.u32             %rank, %cluster_ctarank;
    mov.b64             %source, source;
    cvta.param.u64      %source, %source;
    ld.param.u64        %out, [out];
    ld.param.u64        %gave_up, [gave_up];
    cvta.to.global.u64  %out, %out;
    cvta.to.global.u64  %gave_up, %gave_up;

    // Fill the tile: what does not come stays visible.
    mov.u32             %slice, tile;
    mad.lo.u32          %at, %thread, 4, %slice;
    mov.u32             %left, 16;
FILL:
    st.shared.u32       [%at], 0xa5a5a5a5;
    add.u32             %at, %at, 128;
    sub.u32             %left, %left, 1;
    setp.ne.u32         %again, %left, 0;
    @%again bra         FILL;
    fence.proxy.async.shared::cta;

    elect.sync          _|%elected, -1;
    @%elected mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync       -1;
    @%elected mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;

    shl.b32             %row, %rank, 2;             // 4 rows of 128 bytes for each CTA
    mad.lo.u32          %slice, %rank, 512, %slice;
    mov.b16             %mask, 0b1111;
    @%elected cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
                        [%slice], [%source, {0, %row}], [full], %mask;

    mov.u32             %tries, 0;
UNTIL_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [full], 0, 10000;
    @%done bra          WRITE;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, 1000;
    @%again bra         UNTIL_FULL;
    mul.wide.u32        %wide, %rank, 4;
    add.u64             %gave_up, %gave_up, %wide;
    st.global.u32       [%gave_up], 1;

WRITE:
    mov.u32             %at, tile;
    mad.lo.u32          %at, %thread, 4, %at;
    mad.lo.u32          %value, %rank, 512, %thread;
    mul.wide.u32        %wide, %value, 4;
    add.u64             %out, %out, %wide;
    mov.u32             %left, 16;
NEXT_ROW:
    ld.shared.u32       %value, [%at];
    st.global.u32       [%out], %value;
    add.u32             %at, %at, 128;
    add.u64             %out, %out, 128;
    sub.u32             %left, %left, 1;
    setp.ne.u32         %again, %left, 0;
    @%again bra         NEXT_ROW;
    barrier.cluster.arrive.aligned;                 // nobody leaves while others may write to it
    barrier.cluster.wait.aligned;
    ret;
}
"""

_EXPECT = "[full], 2048;"
_SYNC = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n\n    shl.b32"

FAULTS = by_name(
    __name__,
    Fault(
        "receiver_missing",
        "the mask leaves out CTA 3, which waits for the bytes all the same",
        source=(("mov.b16             %mask, 0b1111;", "mov.b16             %mask, 0b0111;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "own_slice_expected",
        "each barrier expects the bytes that its own CTA loads, not those that come",
        source=((_EXPECT, _EXPECT.replace("2048", "512")),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "no_cluster_barrier",
        "a CTA may send before its neighbours' barriers are initialised",
        source=((_SYNC, "    shl.b32"),),
        reports=("NoBarrierError", "SharedMemoryRace"),
    ),
)


def broken(name: str) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    return LAUNCH.with_fault(FAULTS[name], f"tma_{name}")


_ENCODING = TensorMapEncoding(
    dtype("s32"), dims=(COLUMNS, ROWS), strides_bytes=(COLUMNS * 4,), box=(COLUMNS, ROWS // CTAS)
)
LAUNCH = LaunchSpec(
    name="tma_shared_tile",
    module="tma_multicast_broken",
    language="ptx",
    ptx=PTX.lstrip(),
    entry="tma_shared_tile",
    grid=(1, CTAS, 1),
    block=(32, 1, 1),
    cluster=(1, CTAS, 1),
    params=(
        TensorMapSpec.encoded("source", "s32", (ROWS, COLUMNS), (COLUMNS, 1), _ENCODING),
        Tensor("out", "s32", (CTAS, ROWS, COLUMNS)),
        Tensor("gave_up", "u32", (CTAS,)),
    ),
    target="sm_90",
)
