"""Load one box by TMA, or several, and write shared memory out byte by byte.

The PTX is written by hand for tensor maps of any rank, so that only the tensor map decides where a byte goes.
Shared memory is filled with the byte 0xA5 first. A byte that still holds 0xA5 was not touched by a load.
"""

from collections.abc import Sequence
from typing import Any

from cutecourse.dtypes import dtype
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

FILL_BYTE = 0xA5
THREADS = 128
STATIC_SMEM_BYTES = 48 * 1024
TRIES = 1000  # of 10 microseconds each, so that a load that never completes does not hang a GPU

_PTX = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry tma_dump(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 arrived)
{{
    .reg .pred %first, %done, %again;
    .reg .b32 %thread, %at, %end, %smem, %word, %tries;
    .reg .b64 %map, %out, %arrived, %wide;
    .shared .align 1024 .b8 stage[{smem_bytes}];
    .shared .align 8 .b64 full;

    mov.u32             %thread, %tid.x;
    setp.eq.u32         %first, %thread, 0;
    ld.param.u64        %out, [out];
    ld.param.u64        %arrived, [arrived];
    cvta.to.global.u64  %out, %out;
    cvta.to.global.u64  %arrived, %arrived;
    mov.b64             %map, map;
    cvta.param.u64      %map, %map;
    mov.u32             %smem, stage;
    add.u32             %end, %smem, {smem_bytes};

    // Each thread writes 16 bytes of the pattern and goes on by what all threads write.
    mov.u32             %word, {fill};
    mad.lo.u32          %at, %thread, 16, %smem;
FILL:
    setp.ge.u32         %done, %at, %end;
    @%done bra          FILLED;
    st.shared.v4.b32    [%at], {{%word, %word, %word, %word}};
    add.u32             %at, %at, {stride};
    bra                 FILL;
FILLED:
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    bar.sync            0;

    @!%first bra        WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {expected};
{loads}
WAIT:
    mov.u32             %tries, 0;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [full], 0, 10000;
    @%done bra          ARRIVED;
    add.u32             %tries, %tries, 1;
    setp.lt.u32         %again, %tries, {tries};
    @%again bra         AGAIN;
    bra                 DUMP;
ARRIVED:
    @%first st.global.u32 [%arrived], 1;
DUMP:
    bar.sync            0;
    mad.lo.u32          %at, %thread, 16, %smem;
    mul.wide.u32        %wide, %thread, 16;
    add.u64             %out, %out, %wide;
COPY:
    .reg .b32 %v<4>;
    setp.ge.u32         %done, %at, %end;
    @%done bra          END;
    ld.shared.v4.b32    {{%v0, %v1, %v2, %v3}}, [%at];
    st.global.v4.b32    [%out], {{%v0, %v1, %v2, %v3}};
    add.u32             %at, %at, {stride};
    add.u64             %out, %out, {stride};
    bra                 COPY;
END:
    ret;
}}
"""

_LOAD = """\
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes
                        [stage + {offset}], [%map, {{{coords}}}], [full];"""


def dump(
    encoding: TensorMapEncoding,
    shape: Any,
    stride: Any,
    coords: Sequence[int],
    smem_bytes: int,
    *,
    offset: int = 0,
) -> LaunchSpec:
    """The launch that loads one box and dumps shared memory.

    encoding    of the tensor map; `shape` and `stride` are the array's that is passed as `source`.
    coords      where the box starts, innermost dimension first, in elements; may lie outside.
    smem_bytes  how much shared memory is filled and dumped: a multiple of 16, at most 48 KiB less a barrier.
    offset      where in shared memory the box goes, in bytes.
    Parameters: `source`, the array; `out`, smem_bytes bytes; `arrived`, one u32 that becomes 1 when the
                barrier's phase was complete.
    Errors:     SpecError for coordinates of another rank, or for shared memory that does not fit.
    """
    return dump_loads(encoding, shape, stride, [(offset, coords)], smem_bytes)


def dump_loads(
    encoding: TensorMapEncoding,
    shape: Any,
    stride: Any,
    loads: Sequence[tuple[int, Sequence[int]]],
    smem_bytes: int,
) -> LaunchSpec:
    """`dump` for several boxes under one barrier: each is (offset in bytes, coordinates)."""
    if not 16 <= smem_bytes <= STATIC_SMEM_BYTES - 8 or smem_bytes % 16:
        raise SpecError(
            f"tma_dump: {smem_bytes} bytes of shared memory cannot be dumped; "
            f"give a multiple of 16 up to {STATIC_SMEM_BYTES - 16}."
        )
    for offset, coords in loads:
        if len(coords) != encoding.rank:
            raise SpecError(
                f"tma_dump: a box of a tensor map of rank {encoding.rank} starts at {encoding.rank} "
                f"coordinates, not at {tuple(coords)}."
            )
        if offset < 0 or offset + encoding.shared_bytes > smem_bytes:
            raise SpecError(
                f"tma_dump: a box that spans {encoding.shared_bytes} bytes at offset {offset} does not fit "
                f"{smem_bytes} bytes of shared memory."
            )
    ptx = _PTX.format(
        smem_bytes=smem_bytes,
        fill=f"0x{FILL_BYTE:02x}{FILL_BYTE:02x}{FILL_BYTE:02x}{FILL_BYTE:02x}",
        stride=16 * THREADS,
        expected=encoding.box_bytes * len(loads),
        tries=TRIES,
        loads="\n".join(
            _LOAD.format(rank=encoding.rank, offset=offset, coords=", ".join(map(str, coords)))
            for offset, coords in loads
        ),
    )
    return LaunchSpec(
        name="tma_dump",
        module="tma_dump",
        language="ptx",
        ptx=ptx.lstrip(),
        entry="tma_dump",
        grid=(1, 1, 1),
        block=(THREADS, 1, 1),
        params=(
            TensorMapSpec.encoded("source", encoding.dtype, shape, stride, encoding),
            Tensor("out", "u8", (smem_bytes,)),
            Tensor("arrived", "u32", (1,)),
        ),
        target="sm_90",
    )


LAUNCH = dump(
    # A 64x128 row-major matrix of halves; 8 rows of 128 bytes, which is what the swizzle spans.
    TensorMapEncoding(dtype("f16"), dims=(128, 64), strides_bytes=(256,), box=(64, 8), swizzle="128B"),
    shape=(64, 128),
    stride=(128, 1),
    coords=(64, 16),
    smem_bytes=1024,
)
