"""The multicast GEMM's faults: each breaks one rule, and the emulator's report names that rule."""

import re

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError
from cutecourse.emulator.errors import (
    DeadlockError,
    NoBarrierError,
    ReadBeforeWait,
    SharedMemoryRace,
    StageReusedEarly,
    TransactionBytesError,
)
from cutecourse.kernels import umma_tma_broken
from cutecourse.kernels.spec import SpecError
from cutecourse.runtime import run

# What is raised, with which words, with which of the emulator's orders.
REPORTS = {
    ("own_slices_expected",): (0, TransactionBytesError, "completed after 24576 bytes"),
    ("two_ctas_expected",): (0, DeadlockError, "is in phase 0 and lacks 49152 bytes"),
    ("commit_to_own_row",): (0, DeadlockError, "is in phase 0 and lacks 1 of 3 arrivals"),
    ("count_of_own_row",): (0, StageReusedEarly, "the copy writes"),
    ("commit_to_own_row", "count_of_own_row"): (0, StageReusedEarly, "shared offset 0x8000"),
    ("parity_never_flipped",): (0, ReadBeforeWait, "parity 1"),
    ("slice_along_m",): (0, SharedMemoryRace, "multicast mask of each"),
    ("parity_flipped",): (0, StageReusedEarly, "the copy writes"),
    ("no_cluster_barrier",): (0, NoBarrierError, "mbarrier.init"),
}


def multiplied(spec, seed=0, device="emulator"):
    """What the GEMM of the small problem makes of whole numbers, and what it is to make."""
    rng = np.random.default_rng(12)
    a, b = (rng.integers(-4, 5, (rows, 256)).astype(np.float16) for rows in (256, 512))
    c = np.full((256, 512), np.nan, np.float32)
    made = run(spec, device=device, seed=seed, a=a, b=b, c=c)["c"]
    return made, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(
    ("device", "seed"),
    [("emulator", 0), ("emulator", 5), pytest.param("cuda:0", 0, marks=pytest.mark.gpu("sm_100a"), id="gpu")],
)
def test_small_cluster__multiplies(device, seed):
    made, expected = multiplied(umma_tma_broken.LAUNCH, seed, device)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("names", REPORTS, ids="+".join)
def test_fault__is_reported(names):
    seed, kind, words = REPORTS[names]
    with pytest.raises(EmulatorError, match=re.escape(words)) as report:
        multiplied(umma_tma_broken.small(*names), seed)
    assert isinstance(report.value, kind)


def test_every_fault_is_tried():
    assert {name for names in REPORTS for name in names} == set(umma_tma_broken.FAULTS)


def test_slices_along_m__are_copied_to_one_place_by_two_ctas():
    """Both CTAs of a row load slice m of A, and send it to both."""
    for seed in range(4):
        with pytest.raises(SharedMemoryRace) as report:
            multiplied(umma_tma_broken.broken("slice_along_m"), seed)
        rank = int(re.search(r"of CTA (\d)", str(report.value)).group(1))
        assert f"offset 0x{rank % 2 * 64 * 128:x} " in str(report.value)


def test_broken__refuses_a_name_that_is_none():
    with pytest.raises(SpecError, match="commit_to_own_row"):
        umma_tma_broken.broken("none")


def test_deadlock__tells_each_barriers_own_history():
    """One commit arrives at several barriers: what the report says of one is not left out of the next."""
    with pytest.raises(DeadlockError) as report:
        multiplied(umma_tma_broken.broken("commit_to_own_row"))
    histories = re.split(r"\n  (?=mbarrier )", str(report.value))[1:]
    for m, history in enumerate(histories):
        # The CTAs (m, 0) and (m, 1) of the cluster, which are numbers m and m + 2, have told only each other.
        assert f"CTA {m} of its cluster" in history
        assert "(and 1 more like it)" in history
        said = rf"2 arrivals at line \d+ \([^)]*\) by warp 0 of CTAs {m}, {m + 2} \(1 each\)"
        assert re.search(said, history)
    assert len(histories) == 2
