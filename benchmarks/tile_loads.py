"""Kernels that load tiles into shared memory in three ways and add up words of them, for tma_bandwidth.

A tile is 128 rows of 128 bytes of a matrix whose rows are 2048 bytes apart. A worker (a block, or a cluster
whose blocks all want the same tile) takes tiles w, w + workers, w + 2 workers, ... of the matrix, round and
round. What a thread adds up goes to its block's place in `sums`.

plain     128 threads load 16 bytes eight times into registers, one tile ahead, and store them to shared
          memory.
cp.async  the same threads copy without registers, `stages` - 1 tiles ahead.
tma       one thread of a fifth warp loads whole tiles up to `stages` ahead, each stage with a barrier for
          "full" and one for "empty"; with multicast each block of the cluster loads a slice for all of them.
"""

from __future__ import annotations

from typing import Literal

from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

__all__ = [
    "CLUSTER",
    "METHODS",
    "ROW_WORDS",
    "TILE_BYTES",
    "TILE_ROWS",
    "TILE_WORDS",
    "encoding",
    "loads_spec",
]

Method = Literal["plain", "cp.async", "tma", "multicast"]
METHODS: tuple[Method, ...] = ("plain", "cp.async", "tma", "multicast")

TILE_ROWS = 128
TILE_WORDS = 32  # in a row; a word is 4 bytes
TILE_BYTES = TILE_ROWS * TILE_WORDS * 4
ROW_WORDS = 512  # of the matrix
CLUSTER = 4
CONSUMERS = 128

_HEAD = """\
.version 8.0
.target sm_90
.address_size 64

.extern .shared .align 1024 .b8 stages[];

.visible .entry tile_loads(
    .param .align 64 .b8 map[128], .param .u64 matrix, .param .u64 sums,
    .param .u32 count, .param .u32 workers, .param .u32 last_tile, .param .u32 words)
{{
    .reg .pred %done, %again, %elected;
    .reg .b32 %thread, %worker, %count, %workers, %last, %words, %i, %tile, %row, %col, %stage, %phase, %smem;
    .reg .b32 %word, %sum, %at, %k, %thread_smem, %full, %empty, %rank, %lane, %peer, %n;
    .reg .b64 %matrix, %sums, %map, %from, %thread_from;
    .reg .b16 %mask;
    .reg .b32 %v<32>;
    .shared .align 8 .b64 full[{stages}];
    .shared .align 8 .b64 empty[{stages}];

    mov.u32             %thread, %tid.x;
    mov.u32             %worker, %ctaid.x;
    shr.u32             %worker, %worker, {cluster_shift};
    ld.param.u64        %matrix, [matrix];
    ld.param.u64        %sums, [sums];
    ld.param.u32        %count, [count];
    ld.param.u32        %workers, [workers];
    ld.param.u32        %last, [last_tile];
    ld.param.u32        %words, [words];
    cvta.to.global.u64  %matrix, %matrix;
    cvta.to.global.u64  %sums, %sums;
    mov.b64             %map, map;
    cvta.param.u64      %map, %map;
    mov.u32             %smem, stages;
    mov.u32             %sum, 0;
"""

# Each thread adds `words` of a tile's 32 words that are its own: one to see that a tile came, or all.
_CONSUME = """\
    mad.lo.u32          %at, %thread, 4, %at;
    mov.u32             %k, 0;
{label}_ADD:
    ld.shared.u32       %word, [%at];
    add.u32             %sum, %sum, %word;
    add.u32             %at, %at, 512;
    add.u32             %k, %k, 1;
    setp.lt.u32         %again, %k, %words;
    @%again bra         {label}_ADD;
"""

_TAIL = """\
    mov.u32             %at, %ctaid.x;
    mad.wide.u32        %sums, %at, 4, %sums;
    red.global.add.u32  [%sums], %sum;
"""

# The tile that is the worker's number `{index}`: its first row, and its first word in the row.
_TILE = """\
    mad.lo.u32          %tile, {index}, %workers, %worker;
    and.b32             %tile, %tile, %last;
    and.b32             %col, %tile, 15;
    shl.b32             %col, %col, 5;
    shr.u32             %row, %tile, 4;
    shl.b32             %row, %row, 7;
"""

# Where a thread's first 16 bytes of the tile lie: row tid / 8, 16-byte column tid % 8.
_THREAD_FROM = """\
    mad.wide.u32        %from, %row, 2048, %thread_from;
    mad.wide.u32        %from, %col, 4, %from;
"""

_THREADS = """\
    shr.u32             %row, %thread, 3;
    mad.wide.u32        %thread_from, %row, 2048, %matrix;
    and.b32             %col, %thread, 7;
    mad.wide.u32        %thread_from, %col, 16, %thread_from;
    mad.lo.u32          %thread_smem, %thread, 16, %smem;
"""


def _plain() -> str:
    load = _TILE.format(index="%n") + _THREAD_FROM
    load += "\n".join(
        f"    ld.global.v4.b32    {{%v{4 * j}, %v{4 * j + 1}, %v{4 * j + 2}, %v{4 * j + 3}}}, "
        f"[%from + {j * 16 * 2048}];"
        for j in range(8)
    )
    store = "\n".join(
        f"    st.shared.v4.b32    [%at + {j * 2048}], "
        f"{{%v{4 * j}, %v{4 * j + 1}, %v{4 * j + 2}, %v{4 * j + 3}}};"
        for j in range(8)
    )
    return f"""{_THREADS}
    mov.u32             %i, 0;
    mov.u32             %n, 0;
{load}
LOOP:
    and.b32             %stage, %i, 1;
    mad.lo.u32          %at, %stage, {TILE_BYTES}, %thread_smem;
{store}
    add.u32             %n, %i, 1;
    setp.ge.u32         %done, %n, %count;
    @%done bra          STORED;
{load}
STORED:
    bar.sync            0;
    mad.lo.u32          %at, %stage, {TILE_BYTES}, %smem;
{_CONSUME.format(label="PLAIN")}
    add.u32             %i, %i, 1;
    setp.lt.u32         %again, %i, %count;
    @%again bra         LOOP;
"""


def _cp_async(stages: int) -> str:
    def issue(label: str) -> str:
        copies = "\n".join(
            f"    cp.async.cg.shared.global [%at + {j * 2048}], [%from + {j * 16 * 2048}], 16;"
            for j in range(8)
        )
        return f"""    setp.ge.u32         %done, %n, %count;
    @%done bra          {label};
    rem.u32             %at, %n, {stages};
    mad.lo.u32          %at, %at, {TILE_BYTES}, %thread_smem;
{_TILE.format(index="%n")}{_THREAD_FROM}{copies}
{label}:
    cp.async.commit_group;
"""

    return f"""{_THREADS}
    mov.u32             %n, 0;
FIRST:
{issue("FIRST_ISSUED")}
    add.u32             %n, %n, 1;
    setp.lt.u32         %again, %n, {stages - 1};
    @%again bra         FIRST;
    mov.u32             %i, 0;
LOOP:
    cp.async.wait_group {stages - 2};
    bar.sync            0;
    add.u32             %n, %i, {stages - 1};
{issue("ISSUED")}
    rem.u32             %at, %i, {stages};
    mad.lo.u32          %at, %at, {TILE_BYTES}, %smem;
{_CONSUME.format(label="ASYNC")}
    add.u32             %i, %i, 1;
    setp.lt.u32         %again, %i, %count;
    @%again bra         LOOP;
    cp.async.wait_all;
"""


def _tma(stages: int, multicast: bool) -> str:
    blocks = CLUSTER if multicast else 1
    arrivals = CONSUMERS // 32 * blocks
    if multicast:
        slice_bytes = TILE_BYTES // CLUSTER
        load = f"""    mad.lo.u32          %row, %rank, {TILE_ROWS // CLUSTER}, %row;
    mad.lo.u32          %at, %rank, {slice_bytes}, %at;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
                        [%at], [%map, {{%col, %row}}], [%full], %mask;"""
        # Without .release.cluster, as CUTLASS arrives: nothing was written that the other blocks would read,
        # and the fence that it brings takes longer than a tile.
        arrive = f"""    setp.ge.u32         %done, %lane, {CLUSTER};
    @%done bra          ARRIVED;
    mapa.shared::cluster.u32 %peer, %empty, %lane;
    mbarrier.arrive.shared::cluster.b64 _, [%peer];
ARRIVED:"""
        together = "    barrier.cluster.arrive;\n    barrier.cluster.wait;"
    else:
        load = """    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
                        [%at], [%map, {%col, %row}], [%full];"""
        arrive = """    setp.eq.u32         %elected, %lane, 0;
    @%elected mbarrier.arrive.shared::cta.b64 _, [%empty];"""
        together = "    bar.sync            0;"
    step = f"""    add.u32             %i, %i, 1;
    add.u32             %stage, %stage, 1;
    setp.lt.u32         %again, %stage, {stages};
    @%again bra         {{label}}_SAME;
    mov.u32             %stage, 0;
    xor.b32             %phase, %phase, 1;
{{label}}_SAME:
    setp.lt.u32         %again, %i, %count;
    @%again bra         {{label}};
"""
    where = """    mad.lo.u32          %full, %stage, 8, full_at;
    mad.lo.u32          %empty, %stage, 8, empty_at;
""".replace("full_at", "%v0").replace("empty_at", "%v1")
    return f"""
    and.b32             %lane, %thread, 31;
    mov.u32             %rank, %cluster_ctarank;
    mov.b16             %mask, {(1 << blocks) - 1};
    mov.u32             %v0, full;
    mov.u32             %v1, empty;
    setp.ne.u32         %done, %thread, 0;
    @%done bra          BEGUN;
    mov.u32             %k, 0;
INIT:
    mad.lo.u32          %full, %k, 8, %v0;
    mad.lo.u32          %empty, %k, 8, %v1;
    mbarrier.init.shared::cta.b64 [%full], 1;
    mbarrier.init.shared::cta.b64 [%empty], {arrivals};
    add.u32             %k, %k, 1;
    setp.lt.u32         %again, %k, {stages};
    @%again bra         INIT;
    fence.mbarrier_init.release.cluster;
BEGUN:
{together}
    mov.u32             %i, 0;
    mov.u32             %stage, 0;
    mov.u32             %phase, 0;
    setp.ge.u32         %done, %thread, {CONSUMERS};
    @%done bra          PRODUCER;

CONSUMER:
{where}
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%full], %phase;
    @!%done bra         FULL;
    mad.lo.u32          %at, %stage, {TILE_BYTES}, %smem;
{_CONSUME.format(label="TMA")}
    bar.warp.sync       -1;
{arrive}
{step.format(label="CONSUMER")}
    bra                 END;

PRODUCER:
    setp.ne.u32         %done, %lane, 0;
    @%done bra          END;
    mov.u32             %phase, 1;  // waiting for parity 1 of a fresh barrier passes: all stages are empty
NEXT:
{where}
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%empty], %phase;
    @!%done bra         EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {TILE_BYTES};
    mad.lo.u32          %at, %stage, {TILE_BYTES}, %smem;
{_TILE.format(index="%i")}{load}
{step.format(label="NEXT")}
END:
    bar.warp.sync       -1;
{together}
    setp.ge.u32         %done, %thread, {CONSUMERS};
    @%done bra          LEAVE;
"""


def encoding(method: Method, tiles: int) -> TensorMapEncoding:
    """The tensor map of a matrix of that many tiles; with multicast a box is a block's slice of a tile."""
    rows = TILE_ROWS // CLUSTER if method == "multicast" else TILE_ROWS
    return TensorMapEncoding(
        "u32", (ROW_WORDS, matrix_rows(tiles)), (ROW_WORDS * 4,), (TILE_WORDS, rows), l2_promotion="128B"
    )


def matrix_rows(tiles: int) -> int:
    """The rows of a matrix of that many tiles, a power of two of at least 16: each row has 16 tiles."""
    if tiles < 16 or tiles & (tiles - 1):
        raise SpecError(f"tile_loads: {tiles} tiles; give a power of two of at least 16.")
    return tiles // (ROW_WORDS // TILE_WORDS) * TILE_ROWS


def loads_spec(method: Method, *, stages: int, tiles: int, blocks: int, cluster: int = 1) -> LaunchSpec:
    """The launch of one way of loading.

    stages   tiles that shared memory holds: 2 for "plain", 2 to 12 for the others.
    tiles    of the matrix; `blocks` of the grid.
    cluster  1, or CLUSTER: then its blocks want the same tiles.
    Parameters: `matrix` (rows, ROW_WORDS) of u32; `sums` (blocks,) of u32, which the kernel adds to; `count`,
                the tiles of each worker; `workers`; `last_tile` = tiles - 1; `words` that each thread adds of
                a tile, 1 to TILE_WORDS.
    Errors: SpecError for what does not fit.
    """
    if method not in METHODS:
        raise SpecError(f"tile_loads: there is no method {method!r}; there are {', '.join(METHODS)}.")
    if not 2 <= stages <= 12 or (method == "plain" and stages != 2):
        raise SpecError(f"tile_loads: {stages} stages do not fit {method}; 2 for plain, else 2 to 12.")
    if cluster not in {1, CLUSTER} or (method == "multicast" and cluster != CLUSTER):
        raise SpecError(f"tile_loads: a cluster of {cluster} does not fit {method}; 1, or {CLUSTER}.")
    body = {
        "plain": _plain,
        "cp.async": lambda: _cp_async(stages),
        "tma": lambda: _tma(stages, multicast=False),
        "multicast": lambda: _tma(stages, multicast=True),
    }[method]()
    head = _HEAD.format(stages=stages, cluster_shift=cluster.bit_length() - 1)
    by_tma = method in {"tma", "multicast"}
    shape = (matrix_rows(tiles), ROW_WORDS)
    return LaunchSpec(
        name="tile_loads",
        language="ptx",
        ptx=f"{head}{body}{_TAIL}LEAVE:\n    ret;\n}}\n",
        grid=blocks,
        block=CONSUMERS + 32 if by_tma else CONSUMERS,
        cluster=cluster,
        dynamic_smem=stages * TILE_BYTES,
        params=(
            TensorMapSpec.encoded(
                "map", "u32", shape, (ROW_WORDS, 1), encoding(method, tiles), array="matrix"
            ),
            Tensor("matrix", "u32", shape, (ROW_WORDS, 1)),
            Tensor("sums", "u32", blocks),
            *(Scalar(name, "u32") for name in ("count", "workers", "last_tile", "words")),
        ),
        target="sm_90",
    )
