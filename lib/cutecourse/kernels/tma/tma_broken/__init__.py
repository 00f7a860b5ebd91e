"""A producer, a consumer and one stage between them: right, and with one thing wrong at a time.

Warp 0 loads 16x32 tiles of 32-bit integers by TMA. Warp 1 doubles each in place and stores it by TMA. The PTX
is written by hand, so that every fault is one changed line. `FAULTS` lists them, and `broken` puts one in. No
wait goes on forever: after 1000 tries a warp gives up, says so in `gave_up` and ends. So the wrong kernels
come back from a GPU as well, with whatever the hardware did.
"""

from __future__ import annotations

from cutecourse.dtypes import dtype
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

ROWS, COLUMNS = 16, 32
TILES = 3

PTX = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry tma_doubled(
    .param .align 64 .b8 source[128], .param .align 64 .b8 result[128],
    .param .u64 gave_up, .param .u32 tiles)
{
    .reg .pred %first, %consumer, %done, %again, %elected;
    .reg .b32 %thread, %tile, %row, %parity, %tries, %at, %end, %value, %tiles;
    .reg .b64 %source, %result, %gave_up;
    .shared .align 128 .b8 stage[2048];
    .shared .align 8 .b64 full;     // completes a phase when the tile's 2048 bytes are there
    .shared .align 8 .b64 empty;    // completes a phase when all 32 threads of the consumer are done

    mov.u32             %thread, %tid.x;
    setp.eq.u32         %first, %thread, 0;
    setp.ge.u32         %consumer, %thread, 32;
    mov.b64             %source, source;
    mov.b64             %result, result;
    cvta.param.u64      %source, %source;
    cvta.param.u64      %result, %result;
    ld.param.u64        %gave_up, [gave_up];
    cvta.to.global.u64  %gave_up, %gave_up;
    ld.param.u32        %tiles, [tiles];
    mov.u32             %tile, 0;
    mov.u32             %tries, 0;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.init.shared::cta.b64 [empty], 32;
    fence.mbarrier_init.release.cluster;
    bar.sync            0;
    @%consumer bra      CONSUME;

PRODUCE:
    shl.b32             %row, %tile, 4;
    and.b32             %parity, %tile, 1;
    xor.b32             %parity, %parity, 1;
UNTIL_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [empty], %parity, 10000;
    @%done bra          LOAD;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, 1000;
    @%again bra         UNTIL_EMPTY;
    bra                 GIVE_UP;
LOAD:
    elect.sync          _|%elected, -1;
    @%elected mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    @%elected cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
                        [stage], [%source, {0, %row}], [full];
    add.u32             %tile, %tile, 1;
    setp.lt.u32         %again, %tile, %tiles;
    @%again bra         PRODUCE;
    ret;

CONSUME:
    shl.b32             %row, %tile, 4;
    and.b32             %parity, %tile, 1;
UNTIL_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [full], %parity, 10000;
    @%done bra          DOUBLE;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, 1000;
    @%again bra         UNTIL_FULL;
    bra                 GIVE_UP;
DOUBLE:
    mov.u32             %at, stage;
    add.u32             %end, %at, 2048;
    mad.lo.u32          %at, %thread, 4, %at;
    sub.u32             %at, %at, 128;      // the consumer's threads are numbered from 32 on
NEXT_ROW:
    ld.shared.u32       %value, [%at];
    shl.b32             %value, %value, 1;
    st.shared.u32       [%at], %value;
    add.u32             %at, %at, 128;
    setp.lt.u32         %again, %at, %end;
    @%again bra         NEXT_ROW;
    fence.proxy.async.shared::cta;
    bar.warp.sync       -1;
    elect.sync          _|%elected, -1;
    @%elected cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%result, {0, %row}], [stage];
    @%elected cp.async.bulk.commit_group;
    @%elected cp.async.bulk.wait_group.read 0;
    bar.warp.sync       -1;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    add.u32             %tile, %tile, 1;
    setp.lt.u32         %again, %tile, %tiles;
    @%again bra         CONSUME;
    @%elected cp.async.bulk.wait_group 0;
    ret;

GIVE_UP:
    // One word for each warp: the number of the tile that it waited for, counted from 1.
    add.u32             %tile, %tile, 1;
    @%consumer add.u64  %gave_up, %gave_up, 4;
    st.global.u32       [%gave_up], %tile;
    ret;
}
"""


_EXPECT = "@%elected mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;"
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global"
_TO_DOUBLE = "mbarrier.try_wait.parity.shared::cta.b64 %done, [full], %parity, 10000;"
_TO_LOAD = "mbarrier.try_wait.parity.shared::cta.b64 %done, [empty], %parity, 10000;"

FAULTS = by_name(
    __name__,
    Fault(
        "too_many_bytes",
        "the barrier expects 128 bytes more than the load brings",
        source=((_EXPECT, _EXPECT.replace("2048", "2176")),),
        reports=("DeadlockError",),
    ),
    Fault(
        "too_few_bytes",
        "the barrier expects 128 bytes less than the load brings",
        source=((_EXPECT, _EXPECT.replace("2048", "1920")),),
        reports=("DeadlockError",),
    ),
    Fault(
        "parity_never_flipped",
        "the consumer waits for parity 0 of every tile",
        source=(
            (
                "    and.b32             %parity, %tile, 1;\nUNTIL_FULL:",
                "    mov.b32             %parity, 0;\nUNTIL_FULL:",
            ),
        ),
        reports=("ReadBeforeWait",),
    ),
    Fault(
        "no_wait",
        "the consumer does not wait for the tile",
        source=((_TO_DOUBLE, "setp.eq.u32         %done, 0, 0;"),),
        reports=("ReadBeforeWait", "UninitializedRead"),
    ),
    Fault(
        "not_elected",
        "all 32 threads of the producer issue the load",
        source=((f"@%elected {_LOAD}", _LOAD),),
        reports=("TransactionBytesError",),
    ),
    Fault(
        "no_proxy_fence",
        "nothing orders the consumer's writes before the store's reads",
        source=(("    fence.proxy.async.shared::cta;\n    bar.warp.sync", "    bar.warp.sync"),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "stage_reused",
        "the producer does not wait until the consumer is done with the stage",
        source=((_TO_LOAD, "setp.eq.u32         %done, 0, 0;"),),
        reports=("BarrierCountError",),
    ),
    Fault(
        "store_not_awaited",
        "the consumer hands the stage back while the store may still read it",
        source=(("    @%elected cp.async.bulk.wait_group.read 0;\n", ""),),
        reports=("StageReusedEarly",),
    ),
)


def broken(name: str, tiles: int = TILES) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    return doubled(tiles).with_fault(FAULTS[name], f"tma_{name}")


def doubled(tiles: int = TILES) -> LaunchSpec:
    """The launch without a fault, for a matrix of so many tiles."""
    shape, stride = (tiles * ROWS, COLUMNS), (COLUMNS, 1)
    encoding = TensorMapEncoding(
        dtype("s32"), dims=(COLUMNS, tiles * ROWS), strides_bytes=(COLUMNS * 4,), box=(COLUMNS, ROWS)
    )
    return LaunchSpec(
        name="tma_doubled",
        module="tma_broken",
        language="ptx",
        ptx=PTX.lstrip(),
        entry="tma_doubled",
        grid=(1, 1, 1),
        block=(64, 1, 1),
        params=(
            TensorMapSpec.encoded("source", "s32", shape, stride, encoding),
            TensorMapSpec.encoded("result", "s32", shape, stride, encoding),
            Tensor("gave_up", "u32", (2,)),
            Scalar("tiles", "u32"),
        ),
        target="sm_90",
    )


LAUNCH = doubled()
