"""The kernels of the TMA chapters against NumPy, on the emulator in several orders and on the GPU; and the
broken ones, whose reports name what is wrong."""

import difflib

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator.errors import (
    BarrierCountError,
    DeadlockError,
    ExitedCTAError,
    MissingProxyFence,
    NoBarrierError,
    ReadBeforeWait,
    SharedMemoryRace,
    StageReusedEarly,
    TransactionBytesError,
    UninitializedRead,
)
from cutecourse.kernels import (
    SpecError,
    cluster_ranks,
    tma_broken,
    tma_cluster_loads,
    tma_load,
    tma_multicast,
    tma_multicast_broken,
    tma_multicast_pipeline,
    tma_multicast_pipeline_broken,
    tma_pipeline,
    tma_prefetch,
    tma_store,
)
from cutecourse.tma import create_tma_multicast_mask, make_cluster_layout_vmnk

EVERYWHERE = pytest.mark.parametrize(
    ("device", "seed"),
    [("emulator", seed) for seed in range(4)]
    + [pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_90"), id="gpu")],
)
ONCE = pytest.mark.parametrize(
    ("device", "seed"),
    [("emulator", 0), pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_90"), id="gpu")],
)


def halves(*shape, seed=0):
    """Small whole numbers, exact in f16, whose sums are exact in f32 in any order."""
    return np.random.default_rng(seed).integers(-8, 8, shape, endpoint=True).astype(np.float16)


def numbered(*shape):
    """Elements that all differ: their numbers, as bits of f16. Compare with `same`."""
    count = int(np.prod(shape))
    assert count <= 1 << 16
    return np.arange(count, dtype=np.uint16).reshape(shape).view(np.float16)


def same(a, b):
    return a.shape == b.shape and a.tobytes() == np.ascontiguousarray(b).tobytes()


@EVERYWHERE
def test_tma_load__brings_the_tile(device, seed):
    a = numbered(128, 256)
    run = runtime.run(tma_load, device=device, seed=seed, a=a, out=np.zeros((64, 64), np.float16))
    assert same(run["out"], a[64:128, 128:192])
    assert same(run["a"], a)


@EVERYWHERE
def test_tma_store__writes_the_tile_and_nothing_else(device, seed):
    tile, b = numbered(64, 64), np.full((128, 256), -1, np.float16)
    run = runtime.run(tma_store, device=device, seed=seed, tile=tile, b=b)
    b[64:128, 128:192] = tile
    assert same(run["b"], b)


@EVERYWHERE
@pytest.mark.parametrize("k_tiles", [1, 2, 3, 7])
def test_tma_pipeline__sums_rows_over_any_number_of_k_tiles(device, seed, k_tiles):
    spec = tma_pipeline.pipeline_spec(128, 64 * k_tiles)
    a = halves(128, 64 * k_tiles, seed=k_tiles)
    run = runtime.run(spec, device=device, seed=seed, a=a, out=np.full(128, np.nan, np.float32))
    assert np.array_equal(run["out"], a.astype(np.float32).sum(axis=1))


@ONCE
def test_tma_pipeline__sums_the_chapters_matrix(device, seed):
    a = halves(512, 256)
    run = runtime.run(tma_pipeline, device=device, seed=seed, a=a, out=np.full(512, np.nan, np.float32))
    assert np.array_equal(run["out"], a.astype(np.float32).sum(axis=1))


@EVERYWHERE
def test_tma_prefetch__fetches_zeros_behind_the_end_and_all_bytes_count(device, seed):
    a = numbered(128, 64)
    run = runtime.run(
        tma_prefetch,
        device=device,
        seed=seed,
        a=a,
        out=np.full((128, 64, 3), 5, np.float16),
        arrived=np.zeros(3, np.int32),
    )
    assert run["arrived"].tolist() == [1, 1, 1]
    assert same(run["out"][..., 0], a)
    assert not run["out"][..., 1:].view(np.uint16).any()


def test_tma_prefetch__counts_the_bytes_outside_too():
    run = runtime.run(
        tma_prefetch,
        device="emulator",
        trace=True,
        a=numbered(128, 64),
        out=np.zeros((128, 64, 3), np.float16),
        arrived=np.zeros(3, np.int32),
    )
    loads = list(run.trace.of("tma.issue"))
    assert [load["coords"][1] // 64 for load in loads] == [0] * 16 + [1] * 16 + [2] * 16
    assert {load["bytes"] for load in loads} == {64 * 8 * 2}
    counted = {}
    for event in run.trace.of("mbarrier.complete_tx"):
        offset = event["barrier"]["offset"]
        counted[offset] = counted.get(offset, 0) + event["bytes"]
    assert list(counted.values()) == [128 * 64 * 2] * 3


@EVERYWHERE
def test_tma_multicast__gives_every_cta_the_whole_tile(device, seed):
    a = numbered(128, 64)
    run = runtime.run(tma_multicast, device=device, seed=seed, a=a, out=np.full((4, 128, 64), -1, np.float16))
    assert same(run["out"], np.stack([a] * 4))


@pytest.mark.parametrize(
    ("device", "seed"),
    [("emulator", 0), ("emulator", 1), pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_90"), id="gpu")],
)
def test_tma_cluster_loads__brings_each_cta_its_row_of_a_and_its_column_of_b(device, seed):
    a, b = halves(512, 256, seed=1), halves(1024, 256, seed=2)
    run = runtime.run(
        tma_cluster_loads,
        device=device,
        seed=seed,
        a=a,
        b=b,
        out_a=np.full((16, 128, 256), np.nan, np.float16),
        out_b=np.full((16, 256, 256), np.nan, np.float16),
        masks=np.full((16, 2), -1, np.int32),
    )
    cluster = make_cluster_layout_vmnk((4, 4, 1))
    for rank in range(16):
        m, n = rank % 4, rank // 4
        assert np.array_equal(run["out_a"][rank], a[128 * m : 128 * (m + 1)]), rank
        assert np.array_equal(run["out_b"][rank], b[256 * n : 256 * (n + 1)]), rank
        along_n = sum(1 << (m + 4 * other) for other in range(4))
        along_m = sum(1 << (other + 4 * n) for other in range(4))
        assert run["masks"][rank].tolist() == [along_n, along_m]
        crd = (0, m, n, 0)
        assert along_n == create_tma_multicast_mask(cluster, crd, 2)
        assert along_m == create_tma_multicast_mask(cluster, crd, 1)


@ONCE
def test_cluster_ranks__are_those_of_cluster_layout_vmnk(device, seed):
    columns = cluster_ranks.COLUMNS
    run = runtime.run(cluster_ranks, device=device, seed=seed, out=np.full((32, len(columns)), -1, np.int32))
    one_sm, two_sm = (make_cluster_layout_vmnk((4, 4, 1), ctas) for ctas in (1, 2))
    for cta, numbers in enumerate(run["out"].tolist()):
        found = dict(zip(columns, numbers, strict=True))
        block_x, block_y = cta % 8, cta // 8
        assert (found["x"], found["y"], found["z"]) == (block_x % 4, block_y % 4, 0)
        assert (found["cluster_x"], found["cluster_y"], found["cluster_z"]) == (block_x // 4, block_y // 4, 0)
        assert found["rank"] == block_x % 4 + 4 * (block_y % 4)
        assert one_sm(tuple(found[name] for name in cluster_ranks.ONE_SM)) == found["rank"]
        assert two_sm(tuple(found[name] for name in cluster_ranks.TWO_SM)) == found["rank"]
        assert (found["v1"], found["m1"], found["n1"]) == (0, found["x"], found["y"])
        assert (found["v2"], found["m2"], found["n2"]) == (found["x"] % 2, found["x"] // 2, found["y"])


def doubled(spec, tiles=tma_broken.TILES, **where):
    """Run a kernel of tma_broken; the source, and the run."""
    source = np.random.default_rng(5).integers(1, 1000, (16 * tiles, 32)).astype(np.int32)
    run = runtime.run(
        spec,
        source=source,
        result=np.zeros_like(source),
        gave_up=np.zeros(2, np.uint32),
        tiles=tiles,
        **where,
    )
    return source, run


@EVERYWHERE
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_tma_broken__is_right_without_a_fault(device, seed, tiles):
    source, run = doubled(tma_broken.doubled(tiles), tiles, device=device, seed=seed)
    assert run["gave_up"].tolist() == [0, 0]
    assert np.array_equal(run["result"], 2 * source)


@pytest.mark.parametrize(
    "module", [tma_broken, tma_multicast_broken, tma_multicast_pipeline_broken], ids=lambda m: m.LAUNCH.name
)
def test_faults__each_change_one_place_of_the_ptx(module):
    for fault in module.FAULTS.values():
        assert module.PTX.count(fault.right) == 1, fault.name
        changes = list(difflib.ndiff(module.PTX.splitlines(), module.broken(fault.name).ptx.splitlines()))
        assert sum(line.startswith("+ ") for line in changes) <= 1, fault.name
        assert sum(line.startswith("- ") and bool(line[2:]) for line in changes) <= 2, fault.name
    with pytest.raises(SpecError, match="has no fault 'none'; it has "):
        module.broken("none")


def shared_tile(spec, **where):
    """Run a kernel of tma_multicast_broken; the source, and the run."""
    source = np.random.default_rng(6).integers(1, 1000, (16, 32)).astype(np.int32)
    run = runtime.run(
        spec,
        source=source,
        out=np.zeros((4, 16, 32), np.int32),
        gave_up=np.zeros(4, np.uint32),
        **where,
    )
    return source, run


@EVERYWHERE
def test_tma_multicast_broken__is_right_without_a_fault(device, seed):
    source, run = shared_tile(tma_multicast_broken.LAUNCH, device=device, seed=seed)
    assert run["gave_up"].tolist() == [0] * 4
    assert np.array_equal(run["out"], np.stack([source] * 4))


REPORTS = {
    "too_many_bytes": (DeadlockError, ["full", "128 bytes"]),
    "too_few_bytes": (DeadlockError, ["full", "128 bytes came that no expect_tx announced"]),
    "parity_never_flipped": (ReadBeforeWait, ["stage", "Wait for mbarrier full with parity 1"]),
    "no_wait": ((ReadBeforeWait, UninitializedRead), ["stage", "wait"]),
    "not_elected": (TransactionBytesError, ["stage", "the 2048 bytes that warp 0, lane "]),
    "no_proxy_fence": (MissingProxyFence, ["stage", "no fence.proxy.async after it"]),
    "stage_reused": (BarrierCountError, ["full", "all arrivals of phase 0 have come"]),
    "store_not_awaited": (StageReusedEarly, ["stage", "cp.async.bulk.wait_group.read"]),
}
MULTICAST_REPORTS = {
    "receiver_missing": (DeadlockError, ["full", "CTA 3"]),
    "own_slice_expected": (TransactionBytesError, ["tile", "completed after 512 bytes"]),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", tma_broken.FAULTS)
def test_fault__is_reported(name, seed):
    kind, words = REPORTS[name]
    with pytest.raises(kind) as error:
        doubled(tma_broken.broken(name), device="emulator", seed=seed)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("seed", range(4))
def test_fault__of_parity_over_two_tiles_is_reported_though_the_old_bytes_are_there(seed):
    with pytest.raises(ReadBeforeWait, match=r"\(in stage\).* with parity 1"):
        doubled(tma_broken.broken("parity_never_flipped", 2), 2, device="emulator", seed=seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MULTICAST_REPORTS)
def test_multicast_fault__is_reported(name, seed):
    kind, words = MULTICAST_REPORTS[name]
    with pytest.raises(kind) as error:
        shared_tile(tma_multicast_broken.broken(name), device="emulator", seed=seed)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("seed", range(8))
def test_multicast_fault__without_a_cluster_barrier_is_reported_in_any_order(seed):
    """Another CTA has no barrier yet, or clears its tile while the copy goes there."""
    with pytest.raises((NoBarrierError, SharedMemoryRace), match=r"\(full\)|\(in tile\)"):
        shared_tile(tma_multicast_broken.broken("no_cluster_barrier"), device="emulator", seed=seed)


def test_every_multicast_fault_is_tried():
    assert {*MULTICAST_REPORTS, "no_cluster_barrier"} == set(tma_multicast_broken.FAULTS)


@EVERYWHERE
def test_tma_multicast_pipeline__multiplies(device, seed):
    a, b = halves(64, 320, seed=1), halves(4, 320, seed=2)
    run = runtime.run(
        tma_multicast_pipeline, device=device, seed=seed, a=a, b=b, c=np.full((64, 4), np.nan, np.float32)
    )
    assert np.array_equal(run["c"], a.astype(np.float32) @ b.T.astype(np.float32))


def shared_stages(spec, tiles=tma_multicast_pipeline_broken.TILES, **where):
    """Run a kernel of tma_multicast_pipeline_broken; the tiles, and the run."""
    source = np.random.default_rng(6).integers(1, 1000, (tiles, 16, 32)).astype(np.int32)
    run = runtime.run(
        spec,
        source=source.reshape(-1, 32),
        out=np.zeros((4, tiles, 16, 32), np.int32),
        gave_up=np.zeros(4, np.uint32),
        tiles=tiles,
        **where,
    )
    return source, run


@EVERYWHERE
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_tma_multicast_pipeline_broken__is_right_without_a_fault(device, seed, tiles):
    spec = tma_multicast_pipeline_broken.shared_stages(tiles)
    source, run = shared_stages(spec, tiles, device=device, seed=seed)
    assert run["gave_up"].tolist() == [0] * 4
    assert np.array_equal(run["out"], np.stack([source] * 4))


PIPELINE_REPORTS = {
    "no_remote_arrive": (DeadlockError, ["empty", "lacks 3 of 4 arrivals"]),
    "mapa_forgotten": (StageReusedEarly, ["stages"]),
    "count_of_one": ((BarrierCountError, StageReusedEarly), []),
    "leaves_early": (ExitedCTAError, ["keeps that CTA from ending"]),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", tma_multicast_pipeline_broken.FAULTS)
def test_multicast_pipeline_fault__is_reported(name, seed):
    kind, words = PIPELINE_REPORTS[name]
    with pytest.raises(kind) as error:
        shared_stages(tma_multicast_pipeline_broken.broken(name), device="emulator", seed=seed)
    for word in words:
        assert word in str(error.value)
