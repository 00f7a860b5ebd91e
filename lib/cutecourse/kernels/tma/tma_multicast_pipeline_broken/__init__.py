"""Two stages that four CTAs fill for each other, right; and the same with one thing wrong at a time.

Each CTA of a 1x4 cluster has a warp that loads and a warp that reads. The loading warp brings 4 rows of
every 16x32 tile of 32-bit integers and sends them to all four CTAs. The reading warp waits for the whole
tile, copies it to its CTA's part of `out`, and tells all four CTAs that it is done. CTA 3 reads more
slowly than the others. A fault is a change in one place of the PTX. No wait goes on forever: a warp that
gives up says so in `gave_up`.
"""

from __future__ import annotations

from cutecourse.dtypes import dtype
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

CTAS = 4
ROWS, COLUMNS = 16, 32
TILES = 5

PTX = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry tma_shared_stages(
    .param .align 64 .b8 source[128], .param .u64 out, .param .u64 gave_up, .param .u32 tiles)
{
    .reg .pred %first, %reads, %done, %again, %elected, %slow, %tells;
    .reg .b16 %mask;
    .reg .b32 %thread, %lane, %rank, %tile, %tiles, %stage, %turn, %parity, %row, %tries;
    .reg .b32 %stages, %full, %empty, %readers, %barrier, %remote, %at, %value, %left;
    .reg .b64 %source, %out, %gave_up, %wide;
    .shared .align 128 .b8 stages[4096];
    .shared .align 8 .b64 full[2];      // full[s] completes a phase when the 2048 bytes of stage s are here
    .shared .align 8 .b64 empty[2];     // empty[s] completes a phase when all four CTAs have read stage s

    mov.u32             %thread, %tid.x;
    and.b32             %lane, %thread, 31;
    mov.u32             %rank, %cluster_ctarank;
    setp.eq.u32         %first, %thread, 0;
    setp.ge.u32         %reads, %thread, 32;
    setp.eq.u32         %slow, %rank, 3;
    mov.b64             %source, source;
    cvta.param.u64      %source, %source;
    ld.param.u64        %out, [out];
    ld.param.u64        %gave_up, [gave_up];
    cvta.to.global.u64  %out, %out;
    cvta.to.global.u64  %gave_up, %gave_up;
    ld.param.u32        %tiles, [tiles];
    mov.u32             %stages, stages;
    mov.u32             %full, full;
    mov.u32             %empty, empty;
    mov.u32             %tile, 0;
    mov.u32             %tries, 0;

    mov.u32             %readers, 4;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.init.shared::cta.b64 [full+8], 1;
    @%first mbarrier.init.shared::cta.b64 [empty], %readers;
    @%first mbarrier.init.shared::cta.b64 [empty+8], %readers;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%reads bra         READ;

LOAD:
    and.b32             %stage, %tile, 1;
    shr.u32             %turn, %tile, 1;
    and.b32             %parity, %turn, 1;
    xor.b32             %parity, %parity, 1;
    mad.lo.u32          %barrier, %stage, 8, %empty;
UNTIL_EMPTY:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [%barrier], %parity, 10000;
    @%done bra          REFILL;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, 1000;
    @%again bra         UNTIL_EMPTY;
    bra                 GIVE_UP;
REFILL:
    mad.lo.u32          %barrier, %stage, 8, %full;
    mad.lo.u32          %at, %stage, 2048, %stages;
    mad.lo.u32          %at, %rank, 512, %at;       // 4 rows of 128 bytes from each CTA
    shl.b32             %row, %rank, 2;
    mad.lo.u32          %row, %tile, 16, %row;
    mov.b16             %mask, 0b1111;
    elect.sync          _|%elected, -1;
    @%elected mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], 2048;
    @%elected cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
                        [%at], [%source, {0, %row}], [%barrier], %mask;
    add.u32             %tile, %tile, 1;
    setp.lt.u32         %again, %tile, %tiles;
    @%again bra         LOAD;
    bra                 END;

READ:
    and.b32             %stage, %tile, 1;
    shr.u32             %turn, %tile, 1;
    and.b32             %parity, %turn, 1;
    mad.lo.u32          %barrier, %stage, 8, %full;
UNTIL_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], %parity, 10000;
    @%done bra          COPY;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, 1000;
    @%again bra         UNTIL_FULL;
    bra                 GIVE_UP;
COPY:
    @%slow nanosleep.u32 4000;
    mad.lo.u32          %at, %stage, 2048, %stages;
    mad.lo.u32          %at, %lane, 4, %at;
    mad.lo.u32          %row, %rank, %tiles, %tile; // out[rank][tile][row][lane]
    mad.lo.u32          %row, %row, 512, %lane;
    mul.wide.u32        %wide, %row, 4;
    add.u64             %wide, %out, %wide;
    mov.u32             %left, 16;
NEXT_ROW:
    ld.shared.u32       %value, [%at];
    st.global.u32       [%wide], %value;
    add.u32             %at, %at, 128;
    add.u64             %wide, %wide, 128;
    sub.u32             %left, %left, 1;
    setp.ne.u32         %again, %left, 0;
    @%again bra         NEXT_ROW;
    bar.warp.sync       -1;
    mad.lo.u32          %barrier, %stage, 8, %empty;
    setp.lt.u32         %tells, %lane, 4;           // lane r tells CTA r
    @%tells mapa.shared::cluster.u32 %remote, %barrier, %lane;
    @%tells mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%remote];
    add.u32             %tile, %tile, 1;
    setp.lt.u32         %again, %tile, %tiles;
    @%again bra         READ;
    bra                 END;

GIVE_UP:
    // One word for each CTA: the number of the tile that one of its warps waited for, counted from 1.
    add.u32             %tile, %tile, 1;
    mul.wide.u32        %wide, %rank, 4;
    add.u64             %wide, %gave_up, %wide;
    st.global.u32       [%wide], %tile;
END:
    bar.warp.sync       -1;
    barrier.cluster.arrive.aligned;         // nobody leaves while others may still arrive here
    barrier.cluster.wait.aligned;
    ret;
}
"""

_TELLS = "setp.lt.u32         %tells, %lane, 4;           // lane r tells CTA r"
_MAPA = "@%tells mapa.shared::cluster.u32 %remote, %barrier, %lane;"
_LAST_BARRIER = (
    "    barrier.cluster.arrive.aligned;         // nobody leaves while others may still arrive here\n"
    "    barrier.cluster.wait.aligned;\n"
)

FAULTS = by_name(
    __name__,
    Fault(
        "no_remote_arrive",
        "a CTA that has read a stage tells its own producer and nobody else's",
        source=((_TELLS, "setp.eq.u32         %tells, %lane, %rank;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "mapa_forgotten",
        "all four arrivals go to the CTA's own barrier, so that it refills when it alone is done",
        source=((_MAPA, "mov.b32             %remote, %barrier;"),),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "count_of_one",
        "the barrier counts the CTA that loads, not the four that read",
        source=(("mov.u32             %readers, 4;", "mov.u32             %readers, 1;"),),
        reports=("BarrierCountError", "StageReusedEarly"),
    ),
    Fault(
        "leaves_early",
        "a CTA ends while its neighbours may still arrive at its barriers",
        source=((_LAST_BARRIER + "    ret;", "    ret;"),),
        reports=("ExitedCTAError",),
    ),
)


def broken(name: str, tiles: int = TILES) -> LaunchSpec:
    """The launch with the fault `name` of `FAULTS` put in. Errors: SpecError for a name that is none."""
    return shared_stages(tiles).with_fault(FAULTS[name], f"tma_{name}")


def shared_stages(tiles: int = TILES) -> LaunchSpec:
    """The launch without a fault, for a matrix of so many tiles."""
    encoding = TensorMapEncoding(
        dtype("s32"),
        dims=(COLUMNS, tiles * ROWS),
        strides_bytes=(COLUMNS * 4,),
        box=(COLUMNS, ROWS // CTAS),
    )
    return LaunchSpec(
        name="tma_shared_stages",
        module="tma_multicast_pipeline_broken",
        language="ptx",
        ptx=PTX.lstrip(),
        entry="tma_shared_stages",
        grid=(1, CTAS, 1),
        block=(64, 1, 1),
        cluster=(1, CTAS, 1),
        params=(
            TensorMapSpec.encoded("source", "s32", (tiles * ROWS, COLUMNS), (COLUMNS, 1), encoding),
            Tensor("out", "s32", (CTAS, tiles, ROWS, COLUMNS)),
            Tensor("gave_up", "u32", (CTAS,)),
            Scalar("tiles", "u32"),
        ),
        target="sm_90",
    )


LAUNCH = shared_stages()
