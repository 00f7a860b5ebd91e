"""What a long launch does less of makes no difference: boxes that land whole, MMAs that complete at once."""

from functools import cache

import numpy as np
import pytest

from cutecourse import dtypes
from cutecourse.emulator import errors
from cutecourse.emulator.instructions.bulk import pieces as bulk_copies
from cutecourse.emulator.instructions.tcgen05 import completion as tcgen05_completion
from cutecourse.emulator.instructions.tcgen05 import linking
from cutecourse.kernels import umma_gemm, umma_tile_broken, umma_tma_broken
from cutecourse.runtime import run
from tools.cases.element_arrays import array_type

MNK = (256, 512, 192)
CONFIGS = {
    "one SM": {"sms": 1, "cluster": (1, 1)},
    "two SMs": {"cluster": (2, 2)},
    "MN-major": {"dtype": "bf16", "major_a": "mn", "major_b": "mn", "cluster": (2, 1)},
}


@pytest.fixture
def at_once(monkeypatch):
    """From the first copy and the first MMA on."""
    monkeypatch.setattr(bulk_copies, "_CUT_FIRST", 0)
    monkeypatch.setattr(linking, "_EACH_FIRST", 0)
    counts = []
    complete = tcgen05_completion._multiply
    monkeypatch.setattr(
        tcgen05_completion, "_multiply", lambda mmas: (counts.append(len(mmas)), complete(mmas))[1]
    )
    return counts


def operands(dtype="f16"):
    """Normally distributed numbers of the width; a row of infinities and NaNs, and one of subnormals."""
    m, n, k = MNK
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal((extent, k)).astype(np.float16) for extent in (m, n))
    a[5, ::7], b[9, 3], b[11] = np.inf, np.nan, 2.0**-20
    return tuple(x.astype(array_type(dtypes.dtype(dtype))) for x in (a, b))


def product(name, seed=0, *, trace=False):
    spec = umma_gemm.gemm_spec(MNK, **CONFIGS[name])
    a, b = operands(CONFIGS[name].get("dtype", "f16"))
    c = np.zeros(MNK[:2], np.float32)
    done = run(spec, device="emulator", seed=seed, trace=trace, a=a, b=b, c=c)
    return done["c"].view(np.uint32), done.trace


@cache
def one_by_one(name):
    """The bits without `at_once`, which is therefore asked for behind this."""
    return product(name)[0]


@pytest.mark.parametrize("name", CONFIGS)
def test_product__has_the_same_bits(name, request):
    expected = one_by_one(name)
    counts = request.getfixturevalue("at_once")
    for seed in range(4):
        assert np.array_equal(product(name, seed)[0], expected)
    assert max(counts) > 1
    assert min(counts) == 1


def test_trace__tells_of_each_mma(request):
    expected = one_by_one("two SMs")
    counts = request.getfixturevalue("at_once")
    made, trace = product("two SMs", trace=True)
    assert np.array_equal(made, expected)
    events = [event for event in trace if event.kind in ("mma.issue", "mma.complete")]
    issued = [event.index for event in events if event.kind == "mma.issue"]
    assert sorted(event.data["issue"] for event in events if event.kind == "mma.complete") == issued
    assert set(counts) == {1}


def reports(module, name):
    """The errors of which one must report a fault."""
    return tuple(getattr(errors, report) for report in module.FAULTS[name].reports)


@pytest.mark.parametrize(
    "name", ["no_wait", "no_proxy_fence", "parity_never_flipped", "every_warp_multiplies"]
)
def test_fault_of_one_tile__is_reported_with_every_seed(name, at_once):
    a, b = (np.random.default_rng(i).integers(-4, 5, (128, 256)).astype(np.float16) for i in (1, 2))
    for seed in range(4):
        with pytest.raises(reports(umma_tile_broken, name)):
            run(
                umma_tile_broken.broken(name),
                device="emulator",
                seed=seed,
                a=a,
                b=b,
                c=np.zeros((128, 128), np.float32),
            )


@pytest.mark.parametrize(
    "name", ["own_slices_expected", "count_of_own_row", "slice_along_m", "parity_flipped"]
)
def test_fault_of_multicast__is_reported_with_every_seed(name, at_once):
    a, b = (np.ones((extent, 256), np.float16) for extent in (256, 512))
    for seed in range(4):
        with pytest.raises(reports(umma_tma_broken, name)):
            run(
                umma_tma_broken.broken(name),
                device="emulator",
                seed=seed,
                a=a,
                b=b,
                c=np.zeros((256, 512), np.float32),
            )
