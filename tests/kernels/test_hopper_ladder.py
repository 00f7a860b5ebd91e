"""Each rung of the Hopper ladder against NumPy: on the emulator without a report, and on a GPU."""

import re
import shutil
import subprocess
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.emulator import launch
from cutecourse.emulator.errors import MissingGridWait
from cutecourse.kernels import SpecError, hopper_broken, hopper_store_broken, twin
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.hopper_ladder import RUNGS
from cutecourse.runtime.running import launch_of

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90a"), id="gpu")]
)
PERSISTENT = ("hopper_persistent", "hopper_pingpong", "hopper_last")
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# Cut off along M, along N and along K; less than a tile; a k-tile of which one MMA in four has something.
RAGGED = [(200, 136, 72), (2, 8, 8), (130, 264, 200)]
SEVERAL_TILES = [(512, 768, 192), (300, 520, 200)]


def pairs(rungs, others):
    """Each rung with each of the others; `make test` takes one for each rung, in turn."""
    return [
        pytest.param(rung, other, marks=() if row % len(others) == column else pytest.mark.long)
        for row, rung in enumerate(rungs)
        for column, other in enumerate(others)
    ]


def check(rung, mnk, dtype="f16", *, device="emulator", seed=0, **given):
    """Multiply small integers: each product and each sum is exact in f32; only C is rounded."""
    m, n, k = mnk
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(TYPES[dtype]) for rows in (m, n))
    c = np.full((m, n), np.nan, TYPES[dtype])
    run = runtime.run(kernel_module(rung).spec(*mnk, dtype, **given), device=device, seed=seed, a=a, b=b, c=c)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(TYPES[dtype])
    assert np.array_equal(run["c"].astype(np.float32), expected.astype(np.float32))
    # A cluster has whole tiles, so one of its CTAs may have a tile behind the end of A.
    noted = {note.hazard.name for note in run.notes} - {"grid dependency"}
    assert noted <= {"fill multiplied"}
    if m % 256 == 0 and n % 256 == 0:
        assert not noted


@DEVICES
@pytest.mark.parametrize(("rung", "dtype"), pairs(RUNGS, TYPES))
def test_rung__multiplies_whole_tiles(rung, dtype, device):
    check(rung, (256, 256, 192), dtype, device=device)


@DEVICES
@pytest.mark.parametrize(("rung", "mnk"), pairs(RUNGS, RAGGED))
def test_rung__multiplies_any_size(rung, mnk, device):
    check(rung, mnk, device=device, seed=1)


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("rung", RUNGS)
def test_rung__fills_every_stage_again_in_any_order_of_the_warps(rung, seed):
    check(rung, (200, 136, 64 * 9), seed=seed)


@pytest.mark.parametrize(("rung", "mnk"), pairs(PERSISTENT, SEVERAL_TILES))
def test_rung__goes_from_tile_to_tile(rung, mnk):
    check(rung, mnk, seed=5, sms=2)


@pytest.mark.sample(2)
@pytest.mark.parametrize("choice", range(1, len(kernel_module("hopper_last").CHOICES)))
def test_last_rung__multiplies_with_every_choice(choice):
    how, _ = kernel_module("hopper_last").CHOICES[choice]
    check("hopper_last", (264, 424, 136), seed=6, sms=2, how=how)


def test_last_rung__multiplies_with_a_shared_tile_of_a():
    how = kernel_module("hopper_last").COOPERATIVE._replace(cluster=(1, 2), along_n=True)
    check("hopper_last", (200, 776, 136), seed=7, sms=2, how=how)


@pytest.mark.parametrize(
    ("mn", "tile"),
    [
        ((4096, 4096), (128, 256, 64)),
        ((6144, 6144), (128, 208, 64)),
        ((8192, 8192), (128, 192, 64)),
        ((4000, 4104), (128, 208, 64)),
        ((256, 8192), (128, 128, 64)),
        ((64, 8192), (128, 64, 64)),
    ],
)
def test_best__leaves_few_multiprocessors_idle(mn, tile):
    assert kernel_module("hopper_last").best(*mn, 132).tile == tile


@pytest.mark.gpu("sm_90a")
@pytest.mark.parametrize("mnk", [(4096, 4096, 4096), (4000, 4104, 4056)])
@pytest.mark.parametrize("rung", RUNGS)
def test_rung__multiplies_large_matrices(rung, mnk):
    check(rung, mnk, device="cuda:0")


def test_last_rung__waits_for_the_kernel_ahead_in_each_role():
    launch = kernel_module("hopper_last").LAUNCH
    for spec in (launch, twin(launch)):
        assert spec.programmatic
        before, *roles = re.split(r"setmaxnreg.*", re.sub("//.*", "", runtime.compile(spec).ptx))
        touches = re.compile(r"cp\.async\.bulk\.tensor|(ld|st)\.global")
        assert not touches.search(before)
        assert len(roles) == 2
        for role in roles:
            assert role.index("griddepcontrol.wait") < touches.search(role).start()


def chained(left_out):
    """Two launches of the last rung: C of the first one is A of the second one, which lacks some waits."""
    spec = twin(kernel_module("hopper_last").spec(128, 128, 128))
    given = [np.ones((128, 128), np.float16), np.eye(128, dtype=np.float16), np.zeros((128, 128), np.float16)]
    first, second = (launch_of(spec, **dict(zip(spec.arguments, given, strict=True))) for _ in range(2))
    before = launch(**first, has_dependents=True)
    second["args"][0] = replace(second["args"][0], array=first["args"][2].array)
    second["ptx"] = second["ptx"].replace("griddepcontrol.wait;", "", left_out)
    launch(**second, primary=before)
    assert (second["args"][2].array == 1).all()


def test_last_rung__waits_in_front_of_each_use_of_the_launch_ahead():
    chained(0)
    for left_out in (1, -1):
        with pytest.raises(MissingGridWait, match="a box of array argument 0"):
            chained(left_out)


@pytest.mark.gpu("sm_90a")
def test_last_rung__reads_and_overwrites_what_the_kernel_ahead_has_done_with():
    """Each launch shifts the columns of one buffer, and writes them over what the launch ahead has read."""
    torch = pytest.importorskip("torch", reason="PyTorch records the launches in a graph")
    from benchmarks.launching import Loaded, compiled, parameters

    n, launches = 2048, 60
    spec = kernel_module("hopper_last").spec(n, n, n)
    torch.zeros(1, device="cuda")
    first = torch.randn((n, n), device="cuda").half()
    one, other = first.clone(), torch.full_like(first, float("nan"))
    shift = torch.eye(n, device="cuda").half().roll(1, 0)
    kernel = Loaded(compiled(spec, "sm_90a"))
    values = [
        parameters(spec, {"a": a.data_ptr(), "b": shift.data_ptr(), "c": c.data_ptr()})
        for a, c in ((one, other), (other, one))
    ]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        for number in range(launches):
            kernel.launch(*values[number % 2])
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(one, first.roll(launches, 1))
    assert torch.equal(other, first.roll(launches - 1, 1))


@pytest.mark.parametrize("rung", RUNGS)
def test_spec__refuses_what_tma_cannot_step_along(rung):
    for mnk in ((128, 128, 60), (128, 132, 64), (1, 128, 64)):
        with pytest.raises(SpecError, match=f"{rung}: TMA steps along rows of whole 16 bytes"):
            kernel_module(rung).spec(*mnk)
    with pytest.raises(SpecError, match=f"{rung}: the type is f16 or bf16, not 'f32'"):
        kernel_module(rung).spec(128, 128, 64, "f32")


@pytest.mark.sample(4)  # the last rungs use the most registers
@pytest.mark.program("ptxas")
@pytest.mark.parametrize("rung", reversed(RUNGS))
def test_rung__assembles_without_spills_or_warnings(rung, tmp_path):
    """A warning would say that ptxas serialises `wgmma`, or that it ignores `setmaxnreg`."""
    source = tmp_path / "kernel.ptx"
    source.write_text(runtime.compile(kernel_module(rung).spec(4096, 4096, 4096)).ptx)
    done = subprocess.run(
        [shutil.which("ptxas"), "-v", "-arch=sm_90a", "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Performance Loss" not in done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr)]
    assert spills
    assert not any(spills)


@pytest.mark.parametrize(
    ("module", "fault", "kind", "said"),
    [
        (hopper_broken, "released_early", "StageReusedEarly", "Execute wgmma.wait_group, and a barrier"),
        (hopper_broken, "counts_one_warpgroup", "StageReusedEarly", "may not have read yet|has not waited"),
        (hopper_broken, "tells_its_own_cta", "StageReusedEarly", "of CTA [01]"),
        (hopper_broken, "remote_arrive_forgotten", "DeadlockError", "lacks 16 of 16 arrivals"),
        (hopper_broken, "starts_with_the_wrong_parity", "DeadlockError", "waits for parity 0 of mbarrier"),
        (hopper_broken, "expects_its_own_half", "UninitializedRead", "which must expect all its bytes"),
        (hopper_store_broken, "no_proxy_fence", "MissingProxyFence", "Each thread must fence its stores"),
        (hopper_store_broken, "buffer_reused_early", "OverwrittenSource", "may not have read yet"),
    ],
)
def test_fault__is_reported(module, fault, kind, said):
    arguments, _, _ = module.arguments(seed=0)
    with pytest.raises(emulator.EmulatorError, match=said) as caught:
        runtime.run(module.broken(fault), device="emulator", **arguments)
    assert type(caught.value).__name__ == kind


def test_fault__needs_a_name_that_there_is():
    with pytest.raises(SpecError, match="hopper_broken has no fault 'none'; it has released_early, counts_"):
        hopper_broken.broken("none")
