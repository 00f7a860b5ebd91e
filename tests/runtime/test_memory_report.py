"""The memory report of a launch, against cases counted by hand on paper."""

import dataclasses

import numpy as np
import pytest

from benchmarks.memory_probes import probe
from cutecourse import runtime
from cutecourse.emulator import launch
from cutecourse.kernels import epilogue_direct, micro_gemm, micro_gemm_ldmatrix, mma_raw, tma_load
from cutecourse.kernels.spec import LaunchSpec, Tensor
from cutecourse.memory_access import bank_conflicts, least_sectors, sectors_touched
from cutecourse.memory_report import MemoryRow
from cutecourse.runtime import Device, run, running
from cutecourse.trace import AccessLog
from tools.cases.element_arrays import array_type

LANES = range(32)
FOUR = "{%v0, %v1, %v2, %v3}"
LDMATRIX = f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {FOUR}, [%shared]"


def report(instruction, offsets, width, **options):
    """The report of a probe of one instruction."""
    one = probe("one", instruction, offsets, width=width, **options)
    return run(one.spec, device="emulator", memory_report=True, **one.arrays).memory


def counted(instruction, offsets, width, **options):
    """(transactions, least) of the instruction that is probed."""
    name = instruction.split()[1]
    kind = "load" if name.startswith("ld") else "store"
    # The probe loads its offsets before, fills the tile before and keeps what it loaded after: not asked for.
    rows = [row for row in report(instruction, offsets, width, **options) if row.instruction == name]
    row = rows[-1] if kind == "load" else rows[0]
    return row.transactions, row.least


def test_report__of_a_copy_of_one_warp_names_line_kind_and_sums():
    copied = probe(
        "copy",
        "ld.global.b32 %v0, [%memory]; st.shared.b32 [%shared], %v0",
        [8 * lane for lane in LANES],
        width=4,
    )
    outcome = run(copied.spec, device="emulator", memory_report=True, **copied.arrays)
    lines = outcome.ptx.splitlines()
    load = lines.index("    ld.global.b32 %v0, [%memory];") + 1
    # Every second word: 8 sectors where 4 would do, and 2 words in each even bank.
    assert outcome.memory.rows[1:] == (
        MemoryRow(load, "ld.global.b32", None, "global", "load", 1, 8, 4),
        MemoryRow(load + 1, "st.shared.b32", None, "shared", "store", 1, 2, 1),
    )
    # The probe's first row is its load of 32 offsets, 4 sectors.
    assert (outcome.memory.global_sectors, outcome.memory.global_least) == (4 + 8, 4 + 4)
    assert (outcome.memory.shared_wavefronts, outcome.memory.shared_least) == (2, 1)
    assert outcome.memory.conflicts == 1
    assert [row.excess for row in outcome.memory] == [0, 4, 1]
    assert str(outcome.memory).splitlines() == [
        "line  instruction    times  transactions  least  excess",
        "  21  ld.global.b32      1     4 sectors      4       0",
        f"  {load}  ld.global.b32      1     8 sectors      4       4",
        f"  {load + 1}  st.shared.b32      1  2 wavefronts      1       1",
        "global memory: 12 sectors, at least 8 needed",
        "shared memory: 2 wavefronts, at least 1 needed; bank conflicts: 1",
    ]
    assert [row.line for row in outcome.memory.worst(1)] == [load]
    assert [row.line for row in outcome.memory.worst()] == [load, load + 1]
    assert str(outcome.memory.by_instruction()).splitlines() == [
        "instruction    times  transactions  least  excess",
        "ld.global.b32      2    12 sectors      8       4",
        "st.shared.b32      1  2 wavefronts      1       1",
        *str(outcome.memory).splitlines()[-2:],
    ]


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [
        ([4 * lane for lane in LANES], (1, 1)),  # each lane another bank
        ([128 * lane for lane in LANES], (32, 1)),  # all lanes in bank 0
        ([0] * 32, (1, 1)),  # one word for all: a broadcast
        ([128 * (lane % 2) for lane in LANES], (2, 1)),  # two words of bank 0
        ([128 * lane if lane < 5 else None for lane in LANES], (5, 1)),  # 5 active lanes, all in bank 0
    ],
)
def test_report__shared_words_of_4_bytes(offsets, counts):
    assert counted("@%active ld.shared.b32 %v0, [%shared]", offsets, 4, fill=True, keep=True) == counts
    assert counted("@%active st.shared.b32 [%shared], %v0", offsets, 4) == counts


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [
        ([16 * lane for lane in LANES], (4, 4)),  # 512 bytes at 128 a wavefront
        ([128 * lane for lane in LANES], (32, 4)),  # 8 lanes at once, all on banks 0 to 3
        ([144 * lane for lane in LANES], (4, 4)),  # padded by 16 bytes: 8 lanes on 8 groups of 4 banks
        ([16 * lane if lane < 8 else None for lane in LANES], (1, 1)),
    ],
)
def test_report__shared_words_of_16_bytes(offsets, counts):
    load = f"@%active ld.shared.v4.b32 {FOUR}, [%shared]"
    assert counted(load, offsets, 16, fill=True, keep=True) == counts
    assert counted(f"@%active st.shared.v4.b32 [%shared], {FOUR}", offsets, 16) == counts


@pytest.mark.parametrize(
    ("row_bytes", "swizzled", "counts"),
    [
        (128, False, (32, 4)),  # the 8 rows of a matrix in one column of 16 bytes
        (128, True, (4, 4)),  # chunk xor row: each row another column
        (64, False, (16, 4)),
        (144, False, (4, 4)),
    ],
)
def test_report__ldmatrix_with_and_without_a_swizzle(row_bytes, swizzled, counts):
    rows = [row * row_bytes + (row % 8 * 16 if swizzled else 0) for row in LANES]
    one = report(LDMATRIX, rows, 16, fill=True, keep=True).of(instruction="ldmatrix")
    assert [(row.transactions, row.least) for row in one] == [counts]


@pytest.mark.parametrize(
    ("offsets", "width", "counts"),
    [
        ([4 * lane for lane in LANES], 4, (4, 4)),
        ([16 + 4 * lane for lane in LANES], 4, (5, 4)),  # begun in the middle of a sector
        ([64 * lane for lane in LANES], 4, (32, 4)),  # a column of 16 floats to the row
        ([16 * lane for lane in LANES], 16, (16, 16)),
        ([0] * 32, 4, (1, 1)),
        ([4 * lane if lane % 2 else None for lane in LANES], 4, (4, 2)),  # half of each sector
        ([4 * lane if lane < 8 else None for lane in LANES], 4, (1, 1)),
    ],
)
def test_report__global_sectors(offsets, width, counts):
    kind, value = ("b32", "%v0") if width == 4 else ("v4.b32", FOUR)
    assert counted(f"@%active ld.global.{kind} {value}, [%memory]", offsets, width, keep=True) == counts
    assert counted(f"@%active st.global.{kind} [%memory], {value}", offsets, width) == counts


def test_report__a_copy_in_the_background_has_both_sides_once():
    copy = "cp.async.cg.shared.global [%shared], [%memory], 16; cp.async.wait_all"
    both = report(copy, [128 * lane for lane in LANES], 16).of(instruction="cp.async")
    assert [(row.space, row.kind, row.executions, row.transactions, row.least) for row in both] == [
        ("global", "load", 1, 32, 16),  # 16 bytes of each of 32 lines
        ("shared", "store", 1, 32, 32),  # a wavefront for each line that comes
    ]
    assert both.rows[0].line == both.rows[1].line


def test_report__a_copy_that_fills_with_zeros_reads_only_what_it_is_told():
    # Odd lanes read 16 bytes, even lanes none: 16 sectors, each half used.
    size = "and.b32 %v0, %lane, 1; shl.b32 %v0, %v0, 4"
    copy = "cp.async.cg.shared.global [%shared], [%memory], 16, %v0; cp.async.wait_all"
    both = report(f"{size}; {copy}", [16 * lane for lane in LANES], 16).of(instruction="cp.async")
    assert [(row.space, row.transactions, row.least) for row in both] == [("global", 16, 8), ("shared", 4, 4)]


@pytest.mark.parametrize(
    ("cache", "apart", "counts"),
    [
        ("cg", 64, (4, 4)),  # the source is one piece: 8 lanes read one line
        ("cg", 128, (8, 8)),  # 8 lanes read two lines, which arrive one after the other
        ("cg", 192, (8, 8)),
        ("ca", 128, (8, 4)),  # both rows begin in bank 0 of L1
        ("ca", 192, (4, 4)),  # one row begins in bank 0, the next in bank 16
    ],
)
def test_report__the_wavefronts_of_a_copy_depend_on_its_source(cache, apart, counts):
    behind = "shl.b32 %v1, %lane, 4; mov.u32 %v2, tile; add.u32 %v1, %v1, %v2"
    copy = f"{behind}; cp.async.{cache}.shared.global [%v1], [%memory], 16; cp.async.wait_all"
    rows_of_64_bytes = [lane // 4 * apart + lane % 4 * 16 for lane in LANES]
    (row,) = report(copy, rows_of_64_bytes, 16).of(instruction="cp.async", space="shared")
    assert (row.transactions, row.least) == counts


def test_report__a_copy_that_nobody_waits_for_is_counted_too():
    both = report("cp.async.ca.shared.global [%shared], [%memory], 4", [4 * lane for lane in LANES], 4)
    assert [(row.space, row.transactions) for row in both.of(instruction="cp.async")] == [
        ("global", 4),
        ("shared", 1),
    ]


def test_report__an_atomic_is_one_row():
    one = report("red.global.add.u32 [%memory], %lane", [128 * lane for lane in LANES], 4)
    (row,) = one.of(kind="atomic")
    assert (row.space, row.transactions, row.least) == ("global", 32, 4)


def test_report__lanes_that_are_all_idle_are_no_execution():
    rows = report("@%active st.global.b32 [%memory], %v0", [None] * 32, 4).of(kind="store").rows
    assert rows == ()


def test_report__an_incomplete_warp_counts_its_lanes():
    one = probe("one", "st.global.b32 [%memory], %v0", [4 * lane for lane in LANES], width=4)
    more = Tensor("offsets", "u32", (40,))
    spec = dataclasses.replace(one.spec, block=(40, 1, 1), params=(more, *one.spec.params[1:]))
    arrays = {**one.arrays, "offsets": np.arange(0, 160, 4, dtype=np.uint32)}
    # 32 lanes write 4 sectors and 8 lanes another one.
    (row,) = run(spec, device="emulator", memory_report=True, **arrays).memory.of(kind="store")
    assert (row.executions, row.transactions, row.least) == (2, 5, 5)


def test_report__agrees_with_memory_access_for_odd_addresses():
    numbers = np.random.default_rng(3)
    for width, kind, value in ((4, "b32", "%v0"), (8, "v2.b32", "{%v0, %v1}"), (16, "v4.b32", FOUR)):
        for _ in range(5):
            offsets = [
                None if numbers.random() < 0.2 else int(numbers.integers(8192 // width)) * width
                for _ in LANES
            ]
            shared = bank_conflicts(offsets, width, "store")
            asked = f"@%active st.shared.{kind} [%shared], {value}"
            assert counted(asked, offsets, width) == (shared.wavefronts, shared.ideal)
            asked = f"@%active st.global.{kind} [%memory], {value}"
            sectors = len(sectors_touched(offsets, width))
            assert counted(asked, offsets, width) == (sectors, least_sectors(offsets, width))


A, B = np.ones((16, 16), np.float16), np.ones((8, 16), np.float16)
C = np.zeros((16, 8), np.float32)


def test_report__of_the_first_kernels_is_what_was_counted_by_hand():
    def of(kernel, **arrays):
        return run(kernel, device="emulator", memory_report=True, c=C, **arrays).memory

    # Two ways to store 128 floats, each sector written once.
    column_major, row_major = of(epilogue_direct.LAUNCH), of(epilogue_direct.ROW_MAJOR)
    assert (column_major.global_sectors, column_major.global_requests) == (16, 4)
    assert (row_major.global_sectors, row_major.global_requests) == (16, 2)
    # 6 fragment loads of 8 rows with 16 bytes of a sector each; C's 16 sectors are read and written.
    raw = of(mma_raw, a=A, b=B)
    assert [raw.of(kind=kind).global_sectors for kind in ("load", "store")] == [6 * 8 + 16, 16]
    assert [raw.of(kind=kind).global_least for kind in ("load", "store")] == [6 * 4 + 16, 16]
    # Rows 32 bytes apart: a 2-way conflict for each of 6 registers, and for each of 6 matrices.
    assert of(micro_gemm, a=A, b=B).of(space="shared", kind="load").conflicts == 6
    assert of(micro_gemm_ldmatrix, a=A, b=B).of(instruction="ldmatrix").conflicts == 6


def test_report__counts_every_warp_of_every_cta_whatever_the_seed():
    one = probe("one", "st.shared.b32 [%shared], %v0", [8 * lane for lane in LANES], width=4)
    spec = dataclasses.replace(one.spec, grid=(3, 2, 1))
    reports = [
        run(spec, device="emulator", memory_report=True, seed=seed, **one.arrays).memory for seed in range(3)
    ]
    (row,) = reports[0].of(kind="store")
    assert (row.executions, row.transactions, row.least) == (6, 12, 6)
    assert reports[0] == reports[1] == reports[2]
    assert str(reports[0]) == str(reports[2])
    assert len(reports[0].addresses(row.line)) == 6


def test_report__names_the_source_line_where_the_text_has_loc():
    text = """
.version 7.8
.target sm_80
.address_size 64
.file 1 "/somewhere/copy.py"
.visible .entry k(.param .u64 out)
{
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    .loc 1 12 0
    st.global.b32 [%out], 7;
    ret;
}
"""
    spec = LaunchSpec(
        name="k",
        language="ptx",
        ptx=text.lstrip(),
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        params=(Tensor("out", "u32", (1,)),),
    )
    found = run(spec, device="emulator", memory_report=True, out=np.zeros(1, np.uint32)).memory
    assert [row.source for row in found] == ["copy.py:12"]
    assert "copy.py:12" in str(found)


def test_report__lists_what_it_does_not_count():
    assert "not counted" not in str(report("st.global.b32 [%memory], %v0", [0] * 32, 4))
    arrays = {p.name: np.zeros(p.shape, array_type(p.dtype)) for p in tma_load.LAUNCH.params}
    found = run(tma_load, device="emulator", memory_report=True, **arrays).memory
    assert found.unseen["cp.async.bulk"] >= 1
    assert str(found).splitlines()[-1].startswith("not counted: ")


def test_report__gives_the_addresses_that_it_counted():
    offsets = [8 * lane if lane != 3 else None for lane in LANES]
    found = report("@%active st.shared.b32 [%shared], %v0", offsets, 4)
    (line,) = {row.line for row in found.of(space="shared")}
    assert found.addresses(line) == [offsets]


def test_run__without_a_report_has_none_and_logs_nothing():
    one = probe("one", "st.global.b32 [%memory], %v0", [0] * 32, width=4)
    assert run(one.spec, device="emulator", **one.arrays).memory is None
    log = AccessLog()
    args = list(one.arrays.values())
    launch(one.spec.ptx, grid=1, block=32, args=args)
    assert len(log) == 0
    launch(one.spec.ptx, grid=1, block=32, args=args, accesses=log)
    assert [access.space for access in log] == ["global", "global"]


def test_run__refuses_a_report_on_a_gpu(monkeypatch):
    gpu = Device(0, "Some GPU", (9, 0), 1 << 30, 1)
    monkeypatch.setattr(running, "choose", lambda *_: type("Choice", (), {"device": gpu, "why": ""})())
    one = probe("one", "st.global.b32 [%memory], %v0", [0] * 32, width=4)
    with pytest.raises(runtime.DeviceError, match=r'memory report.*device="emulator"'):
        run(one.spec, memory_report=True, **one.arrays)


def spaces(log):
    """(space, kind, active lanes) of each access."""
    return [(access.space, access.kind, int((access.n_bytes != 0).sum())) for access in log]


def test_log__generic_addresses_go_where_they_point():
    text = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .shared .align 16 .b8 tile[128];
    .local .align 4 .b8 own[4];
    .reg .b64 %out, %to, %shared, %local;
    .reg .b32 %lane, %at;
    .reg .pred %low;
    ld.param.u64 %out, [out];
    mov.u32 %lane, %tid.x;
    mov.u64 %shared, tile;
    cvta.shared.u64 %shared, %shared;
    mov.u64 %local, own;
    cvta.local.u64 %local, %local;
    mul.wide.u32 %to, %lane, 4;
    add.u64 %out, %out, %to;
    add.u64 %shared, %shared, %to;
    setp.lt.u32 %low, %lane, 20;
    selp.b64 %to, %shared, %out, %low;
    st.b32 [%to], %lane;
    st.b32 [%local], %lane;
    ret;
}
"""
    log = AccessLog()
    launch(text.lstrip(), grid=1, block=32, args=[np.zeros(32, np.uint32)], accesses=log)
    assert spaces(log) == [("global", "store", 12), ("shared", "store", 20), ("local", "store", 32)]
    # Shared memory is counted from its start, however it is addressed.
    assert log.accesses[1].addresses[0, :20].tolist() == list(range(0, 80, 4))


def test_log__another_ctas_shared_memory_is_not_ones_own():
    text = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
.reqnctapercluster 2
{
    .shared .align 16 .b8 tile[128];
    .reg .b32 %at, %there, %rank;
    mov.u32 %at, tile;
    mov.u32 %rank, %cluster_ctarank;
    mad.lo.u32 %at, %rank, 4, %at;
    mapa.shared::cluster.u32 %there, %at, 1;
    st.shared::cluster.b32 [%there], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
"""
    log = AccessLog()
    launch(text.lstrip(), grid=2, block=32, cluster=2, accesses=log)
    assert sorted(spaces(log)) == [("remote", "store", 32), ("shared", "store", 32)]
