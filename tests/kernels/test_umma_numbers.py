"""The kernels of tcgen05 against NumPy, on the emulator and on a Blackwell GPU; whose barrier gets bytes."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import errors
from cutecourse.emulator.errors import (
    BarrierCountError,
    DeadlockError,
    OverwrittenSource,
    SharedMemoryRace,
    StageReusedEarly,
    TensorMemoryAccessError,
    TransactionBytesError,
    UninitializedRead,
)
from cutecourse.kernels import (
    SpecError,
    Tensor,
    twin,
    umma_broken,
    umma_classes,
    umma_gemm,
    umma_one,
    umma_persistent,
    umma_scheduled,
    umma_store,
    umma_tile,
    umma_tma,
    umma_tma_multicast,
    umma_two_sm,
    umma_two_sm_pipeline,
)
from cutecourse.kernels.faults import Fault, change_of, faults_of
from cutecourse.widgets.pair_roles import overlap, role_spans
from tools.cases.element_arrays import array_type

GPU = pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_100a"), id="gpu")
EVERYWHERE = pytest.mark.parametrize(("device", "seed"), [("emulator", 0), ("emulator", 1), GPU])
ONCE = pytest.mark.parametrize(("device", "seed"), [("emulator", 0), GPU])


def multiplied(spec, **where):
    """Run a GEMM; what came out, and what should. Whole numbers of f16 whose sums are exact in f32."""
    a, b, c = spec.arguments.values()
    random = np.random.default_rng(1)
    a, b = (
        random.integers(-8, 8, operand.extents, endpoint=True).astype(array_type(operand.dtype))
        for operand in (a, b)
    )
    run = runtime.run(spec, a=a, b=b, c=np.full(c.extents, np.nan, np.float32), **where)
    return run, a.astype(np.float32) @ b.astype(np.float32).T


@EVERYWHERE
@pytest.mark.parametrize(
    "kernel", [umma_one, umma_tile, umma_tma, umma_two_sm], ids=lambda kernel: kernel.LAUNCH.name
)
def test_rung__of_one_tile_multiplies(kernel, device, seed):
    run, expected = multiplied(kernel.LAUNCH, device=device, seed=seed)
    assert np.array_equal(run["c"], expected)


@ONCE
@pytest.mark.parametrize(
    "kernel", [umma_tma_multicast, umma_two_sm_pipeline], ids=lambda kernel: kernel.LAUNCH.name
)
def test_rung__of_a_4x4_cluster_multiplies(kernel, device, seed):
    run, expected = multiplied(kernel.LAUNCH, device=device, seed=seed)
    assert np.array_equal(run["c"], expected)


# Each value of each of these meets each value of every other one at least once: see the test below.
# Problem, SMs for an MMA, type, majors of A and B, cluster; "ragged" where the tiles stand over C's edges.
GEMMS = (
    ((256, 256, 64), 1, "f16", "mn", "mn", (2, 1)),
    ((130, 257, 72), 2, "bf16", "k", "k", (2, 1)),
    ((136, 264, 40), 1, "bf16", "mn", "mn", (2, 2)),
    ((256, 512, 320), 2, "f16", "k", "k", (2, 2)),  # five k-tiles: both phases of every stage
    ((256, 1024, 64), 1, "bf16", "mn", "k", (2, 4)),
    ((250, 520, 8), 2, "f16", "k", "mn", (2, 4)),
    ((512, 256, 64), 1, "f16", "k", "mn", (4, 1)),
    ((264, 250, 72), 2, "bf16", "mn", "k", (4, 1)),
    ((512, 512, 64), 1, "bf16", "k", "k", (4, 2)),
    ((520, 304, 56), 2, "f16", "mn", "mn", (4, 2)),
    ((512, 1024, 64), 1, "bf16", "mn", "k", (4, 4)),
    ((300, 528, 136), 2, "f16", "k", "mn", (4, 4)),
    ((2, 3, 8), 1, "f16", "k", "k", (2, 1)),
    ((130, 257, 72), 1, "f16", "k", "k", (1, 2)),
)


def factors(mnk, sms, dtype, major_a, major_b, cluster):
    """What a case stands for, with whether its tiles fill C."""
    whole = mnk[0] % (128 * cluster[0]) == mnk[1] % (256 * cluster[1]) == mnk[2] % 64 == 0
    return sms, dtype, major_a, major_b, cluster, "whole" if whole else "ragged"


def test_gemm_cases__have_every_pair_of_values():
    values = (
        (1, 2),
        ("f16", "bf16"),
        ("k", "mn"),
        ("k", "mn"),
        ((2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4)),
        ("whole", "ragged"),
    )
    rows = [factors(*case) for case in GEMMS]
    for one, other in combinations(range(len(values)), 2):
        assert set(product(values[one], values[other])) <= {(row[one], row[other]) for row in rows}


@ONCE
@pytest.mark.parametrize("case", GEMMS, ids=lambda case: "-".join(map(str, factors(*case))))
def test_gemm__multiplies_every_pair_of_types_majors_clusters_and_sizes(case, device, seed):
    mnk, sms, dtype, major_a, major_b, cluster = case
    spec = umma_gemm.gemm_spec(mnk, sms=sms, dtype=dtype, major_a=major_a, major_b=major_b, cluster=cluster)
    run, expected = multiplied(spec, device=device, seed=seed)
    assert np.array_equal(run["c"], expected)


def stored(spec, **where):
    """Run a kernel that stores bf16; what came out, and what should: exact sums, rounded once."""
    random = np.random.default_rng(1)
    given = {
        name: random.integers(-8, 8, param.extents, endpoint=True).astype(array_type(param.dtype))
        for name, param in spec.arguments.items()
        if isinstance(param, Tensor)
    }
    expected = given["a"].astype(np.float32) @ given["b"].astype(np.float32).T
    if "c" in given:
        given |= {"alpha": 0.5, "beta": -2.0}
        expected = 0.5 * expected - 2 * given["c"].astype(np.float32)
    if "scale" in given:
        expected = np.maximum(given["scale"][:, None] * expected + given["bias"], 0)
    elif "bias" in given:
        expected += given["bias"]
    given["d"][:] = np.nan
    run = runtime.run(spec, **given, **where)
    return run, expected.astype(given["d"].dtype)


@ONCE
@pytest.mark.parametrize(
    ("kernel", "mnk", "choices"),
    [
        (umma_store, (512, 512, 320), {}),
        (umma_store, (2, 8, 8), {"blends": True}),  # less than one piece
        (umma_store, (200, 408, 72), {"blends": True}),
        (umma_store, (130, 264, 136), {"sms": 1, "blends": True}),
        (umma_persistent, (2, 8, 8), {}),
        (umma_persistent, (256, 1280, 64), {}),  # five tiles: both phases of each accumulator, and an odd end
        (umma_persistent, (513, 776, 200), {"pairs": 2}),  # twelve ragged tiles for two pairs
        (umma_persistent, (256, 512, 64), {"pairs": 8, "blends": True}),  # more pairs than tiles
        (umma_persistent, (130, 1032, 72), {"sms": 1, "pairs": 3}),
        (umma_classes, (513, 776, 200), {"pairs": 2}),
        (umma_classes, (130, 1032, 72), {"sms": 1, "pairs": 3}),
        (umma_scheduled, (2, 8, 8), {"fuses": True}),
        (umma_scheduled, (768, 776, 72), {}),  # three rows of tiles: the last group has one
        (umma_scheduled, (264, 520, 72), {"pairs": 2, "stages": 1, "blends": True}),
        (umma_scheduled, (264, 264, 200), {"columns": 128, "stages": 5, "fuses": True}),
        (umma_scheduled, (300, 400, 72), {"sms": 1, "columns": 128, "ctas": 2, "fuses": True}),
        (umma_scheduled, (392, 328, 72), {"columns": 128, "ctas": 2, "blends": True}),
        (umma_scheduled, (392, 712, 136), {"columns": 192, "stages": 6, "fuses": True}),
        (umma_scheduled, (264, 1200, 72), {"columns": 192, "sms": 1, "pairs": 1, "stages": 3}),
        (umma_scheduled, (392, 200, 72), {"columns": 64, "sms": 1, "fuses": True}),  # one piece in a tile
    ],
)
def test_rung__stores_whole_and_ragged_tiles(kernel, mnk, choices, device, seed):
    run, expected = stored(kernel.spec(*mnk, **choices), device=device, seed=seed)
    assert run["d"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("mnk", [(512, 512, 128), (200, 408, 72)])
def test_store__by_matrices_of_16_lanes_gives_the_same_result(mnk):
    spec = umma_store.spec(*mnk).with_fault(change_of("umma_store", "by_matrices"))
    run, expected = stored(twin(spec), device="emulator")
    assert run["d"].tobytes() == expected.tobytes()
    assert run.emulated.count("stmatrix") == run.emulated.count("tcgen05.ld") * 4 > 0
    assert run.emulated.count("st.shared") == 0
    assert not run.notes


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.compilers), False])
def test_store__lanes_that_do_not_meet(compiled):
    """The epilogue's warps meet before their stores and behind them; each missing meeting is reported."""
    for name in ("not_met_before_the_stores", "not_met_behind_the_stores"):
        spec = umma_store.spec(256, 256, 64).with_fault(change_of("umma_store", name))
        run, expected = stored(spec if compiled else twin(spec), device="emulator")
        assert run["d"].tobytes() == expected.tobytes()
        assert {note.hazard.name for note in run.notes} == {"lanes not ordered"}


def test_persistent__takes_its_accumulators_in_turn():
    run, _ = stored(twin(umma_persistent.spec(256, 1024, 64)), device="emulator", trace=True)
    tiles, mmas_per_tile = 4, 64 // 16
    columns = [int(str(event["d"]), 0) & 0xFFFF for event in run.trace.of("mma.issue")]
    assert columns == ([0] * mmas_per_tile + [256] * mmas_per_tile) * (tiles // 2)


@pytest.mark.parametrize("name", faults_of("umma_persistent"))
def test_persistent__its_faults_are_reported_under_every_seed(name):
    fault = faults_of("umma_persistent")[name]
    spec = twin(umma_persistent.LAUNCH.with_fault(fault))
    for seed in range(2):  # the kept table of benchmarks/luck.py has fifty
        with pytest.raises(tuple(getattr(errors, kind) for kind in fault.reports)):
            stored(spec, device="emulator", seed=seed)


def test_persistent__a_late_warp_makes_the_forgotten_wait_lose():
    """The wrong rows are the late warp's, and they hold the third tile's numbers in place of the first's."""
    fault, late = faults_of("umma_persistent")["empty_not_waited"], change_of("umma_persistent", "late_warp")
    off = {"load under way": "off", "read before written": "off"}
    spec = umma_persistent.spec(256, 768, 128).with_fault(late)
    run, expected = stored(twin(spec), device="emulator")  # where the MMAs wait, a late warp costs only time
    assert run["d"].tobytes() == expected.tobytes()
    run, expected = stored(twin(spec.with_fault(fault)), device="emulator", hazards=off)
    wrong = run["d"] != expected
    assert not wrong[32:].any()
    assert not wrong[:, 256:].any()
    assert np.array_equal(run["d"][:32, :256], expected[:32, 512:])


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.compilers), False])
def test_scheduled__three_pieces_need_buffers_counted_from_tile_to_tile(compiled):
    """A tile of two or four pieces ends with the second buffer, and the next may begin with the first."""
    fault = change_of("umma_scheduled", "buffers_from_the_first")
    for columns in (192, 256):
        spec = umma_scheduled.spec(256, 2 * columns, 72, columns=columns, pairs=1).with_fault(fault)
        spec = spec if compiled else twin(spec)
        if columns == 192:
            with pytest.raises(OverwrittenSource):
                stored(spec, device="emulator")
        else:
            run, expected = stored(spec, device="emulator")
            assert run["d"].tobytes() == expected.tobytes()


def test_persistent__one_accumulator_is_right_and_overlaps_less():
    change = change_of("umma_persistent", "one_accumulator")
    part = []
    for spec in (
        umma_persistent.spec(256, 768, 320),
        umma_persistent.spec(256, 768, 320).with_fault(change),
    ):
        run, expected = stored(twin(spec), device="emulator", trace=True)
        assert run["d"].tobytes() == expected.tobytes()
        part.append(overlap(role_spans(run.trace)))
    assert part[0] > 3 * part[1]


def barriers(spec):
    """What happens at a leader's barriers, in the order of their places: arrivals and phases of each."""
    run, _ = stored(spec, device="emulator", trace=True)
    happened = Counter(
        (event["barrier"]["offset"], event.kind)
        for kind in ("mbarrier.arrive", "mbarrier.phase", "mbarrier.expect_tx")
        for event in run.trace.of(kind)
        if event["barrier"]["rank"] == 0
    )
    inits = {e["barrier"]["offset"]: e["count"] for e in run.trace.of("mbarrier.init") if e.rank == 0}
    return [
        (inits[place], *(happened[place, f"mbarrier.{kind}"] for kind in ("arrive", "phase", "expect_tx")))
        for place in sorted(inits)
    ]


def test_classes__do_at_their_barriers_what_the_kernel_by_hand_does():
    """TmemAllocator's own barrier comes first: the warp that frees meets the other CTA's there."""
    assert barriers(umma_classes.LAUNCH) == [(32, 1, 1, 0), *barriers(umma_persistent.LAUNCH)]


@pytest.mark.compilers
def test_classes__take_another_tile_and_a_bias():
    """What page 14c changes in the script; each pair has several tiles of three pieces."""
    m, n, k = 392, 712, 136
    spec = umma_classes.spec(m, n, k, columns=192, further=(Tensor("bias", "f32", (n,), (1,)),))
    run, expected = stored(spec.with_fault(change_of("umma_classes", "another_tile")), device="emulator")
    assert run["d"].tobytes() == expected.tobytes()


@pytest.mark.compilers
def test_classes__take_a_tile_of_one_piece():
    """What page 14c says of 128 x 64 on one SM: pieces are counted on, since a tile has one."""
    first = "        for number in cutlass.range(first, count, pairs, unroll=1):\n            row ="
    commit = "                    stores.producer_commit()\n"
    small = Fault(
        "tile_of_one_piece",
        "tiles of 128 x 64",
        source=(
            ("COLUMNS = 256 ", "COLUMNS = 64 "),
            (first, f"        stored = cutlass.Int32(0)\n{first}"),
            ("+ i % BUFFERS", "+ stored % BUFFERS"),
            (commit, f"{commit}                stored += 1\n"),
        ),
        unreported="another kernel, and right",
    )
    spec = umma_classes.spec(300, 200, 136, columns=64, sms=1, pairs=1)
    run, expected = stored(spec.with_fault(small), device="emulator")
    assert run["d"].tobytes() == expected.tobytes()


@pytest.mark.compilers
def test_classes__the_script_stops_where_the_gpu_is_missing(capsys):
    script = umma_classes.FILE.load()
    script.main(["256", "256", "64"])
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "emulator, wrong elements of D: 0"
    if script.blackwell() is None:
        assert said[2:] == ["no PyTorch with a GPU of compute capability 10.0 or 10.3: the rest is left out"]


def test_scheduled__each_tile_is_multiplied_once_whoever_asks_for_it():
    """A pair that runs takes over tiles of pairs that do not start; the seed chooses which."""
    pairs = set()
    for seed in range(3):
        spec = twin(umma_scheduled.spec(1024, 512, 64))
        run, expected = stored(spec, device="emulator", seed=seed, trace=True)
        assert run["d"].tobytes() == expected.tobytes()
        issues = run.trace.of("mma.issue").events
        assert len(issues) == 8 * 64 // 16
        pairs.add(len({event.cluster for event in issues}))
    assert len(pairs) > 1
    assert min(pairs) < 8


def test_scheduled__tiles_that_follow_each_other_share_rows_and_columns():
    run, _ = stored(twin(umma_scheduled.spec(768, 1024, 64, pairs=1)), device="emulator", trace=True)
    loads = [event for event in run.trace.of("tma.issue") if event.rank == 0]
    rows, columns = ([e["coords"][1] // 256 for e in loads if e["tensor"] == name] for name in "ab")
    assert list(zip(rows, columns, strict=True)) == [
        *((row, column) for column in range(4) for row in (0, 1)),
        *((2, column) for column in range(4)),
    ]


def bytes_by_cta(trace):
    """How many bytes were counted on the barriers of each CTA."""
    counted = {}
    for event in trace.of("mbarrier.complete_tx"):
        rank = event["barrier"]["rank"]
        counted[rank] = counted.get(rank, 0) + event["bytes"]
    return counted


def test_multicast__counts_each_ctas_bytes_on_its_own_barrier():
    run, _ = multiplied(umma_tma_multicast.LAUNCH, device="emulator", trace=True)
    assert bytes_by_cta(run.trace) == dict.fromkeys(range(16), (128 + 256) * 256 * 2)
    loads = list(run.trace.of("tma.issue"))
    # 16 CTAs load a quarter of two tiles for each of four k-tiles, and each load writes four CTAs.
    assert len(loads) == 16 * 2 * 4
    assert {len(load["destinations"]) for load in loads} == {4}


def test_two_sm__counts_all_bytes_on_the_leaders_barrier():
    run, _ = multiplied(umma_two_sm.LAUNCH, device="emulator", trace=True)
    assert bytes_by_cta(run.trace) == {0: (256 + 256) * 256 * 2}


def test_two_sm_pipeline__counts_each_pairs_bytes_on_its_own_leaders_barriers():
    run, expected = multiplied(
        umma_gemm.gemm_spec((512, 512, 128), cluster=(4, 2)), device="emulator", trace=True
    )
    assert np.array_equal(run["c"], expected)
    assert bytes_by_cta(run.trace) == dict.fromkeys([0, 2, 4, 6], (256 + 256) * 128 * 2)


# Shared offsets of the barriers: behind three stages of two tiles come three times `full`, then `empty`.
FULL, EMPTY = 3 * 32768, 3 * 32768 + 3 * 8
REPORTS = {
    "wrong_mask": (SharedMemoryRace, ["multicast mask of each"]),
    "peer_not_expected": (
        TransactionBytesError,
        ["A reads shared offset 0x0", f"+{FULL} (block", "after 32768 bytes, because the expect_tx at line "],
    ),
    "follower_multiplies": (
        DeadlockError,
        [
            f"shared offset {FULL}), which is in phase 0 and lacks 1 of 1 arrivals",
            f"CTA 1 of its cluster, shared offset {FULL}) (and 7 more like it): phase 0 has received nothing",
        ],
    ),
    "commit_to_itself": (
        DeadlockError,
        [f"shared offset {EMPTY}), which is in phase 0 and lacks 4 of 5 arr"],
    ),
    "stage_reused": (
        StageReusedEarly,
        [
            "the copy writes shared offset 0x0 ",
            "into which warp 0 of CTA 3 copies at line ",
            "nothing tells its thread that those bytes have been read. ",
            "Let the readers arrive at another mbarrier when they are done",
        ],
    ),
    "freed_too_early": (
        TensorMemoryAccessError,
        ["tcgen05.ld", "frees at line ", "both CTAs"],
    ),
    "never_cleared": (UninitializedRead, ["Should the first tcgen05.mma have enable-input-d false?"]),
    "not_finished": (
        UninitializedRead,
        ["tcgen05.ld", "has not been written since", "wait for its commit's mbarrier"],
    ),
}


def test_faults__each_change_one_place_of_the_kernel():
    for fault in umma_broken.FAULTS.values():
        assert umma_broken.SOURCE.count(fault.right) == 1, fault.name
    with pytest.raises(SpecError, match="has no fault 'none'; it has "):
        umma_broken.broken("none")


@pytest.mark.parametrize("name", umma_broken.FAULTS)
def test_fault__is_reported(name):
    kind, words = REPORTS[name]
    with pytest.raises(kind) as error:
        multiplied(umma_broken.broken(name), device="emulator")
    for word in words:
        assert word in str(error.value)


def test_fault__of_a_stage_that_is_reused_shows_at_its_barrier_under_another_seed():
    words = f"1 arrival at mbarrier __dynamic_shmem__0\\+{FULL} .* all arrivals of phase 0 have come"
    with pytest.raises(BarrierCountError, match=words) as error:
        multiplied(umma_broken.broken("stage_reused"), device="emulator", seed=2)
    assert "mbarrier.arrive.expect_tx" in error.value.text
