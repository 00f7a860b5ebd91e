"""The attention kernel for any GPU against float64: on the emulator, and under -m gpu on a GPU."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.kernels import SpecError, attention_map, attention_online, attention_turns, twin

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")]
)


def reference(q, k, v, causal=False):
    """softmax(Q K^T / sqrt(D)) V in float64, from the whole of S."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    if causal:
        s = np.where(np.tri(s.shape[1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


def check(heads, length, causal, seed, device, scale=1.0, grows=0.0):
    """Normal numbers, the keys longer by `grows` from one to the next, through the kernel and in float64.

    P is rounded to f16, so it errs by 2^-11 of itself at most, and O, a mean of V's rows with the weights P,
    by 2^-11 of the largest of V; O's own rounding and exp2.approx add less than as much again.
    """
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((heads, length, 64)) for _ in range(3))
    q *= scale
    k *= 1 + grows * np.arange(length)[:, None]
    q, k, v = (array.astype(np.float16) for array in (q, k, v))
    spec = attention_online.spec(heads, length, causal=causal)
    run = runtime.run(spec, device=device, seed=seed, q=q, k=k, v=v, o=np.full_like(q, np.nan))
    error = np.abs(run["o"].astype(np.float64) - reference(q, k, v, causal)).max()
    assert error <= 2.0**-10 * np.abs(v.astype(np.float64)).max()
    assert run.notes == ()


@DEVICES
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "length"), [(1, 1), (2, 65), (1, 192)])
def test_attention__is_that_of_float64(heads, length, causal, device):
    check(heads, length, causal, seed=length, device=device)


@DEVICES
def test_attention__keeps_large_logits_in_range(device):
    check(1, 130, False, seed=5, device=device, scale=40)


@DEVICES
def test_attention__rescales_where_the_maximum_grows_in_each_tile(device):
    check(1, 200, False, seed=6, device=device, scale=2, grows=0.02)


@pytest.mark.parametrize("seed", [0, pytest.param(7, marks=pytest.mark.long)])
def test_attention__is_right_in_any_order_of_the_warps(seed):
    check(1, 150, True, seed, "emulator")


@DEVICES
@pytest.mark.parametrize("seed", [0, 3])
def test_attention_turns__is_that_of_float64(seed, device):
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((rows, 16)).astype(np.float16) for rows in (32, 64, 64))
    empty = np.full((32, 16), np.nan, np.float32)
    run = runtime.run(attention_turns, device=device, seed=seed, q=q, k=k, v=v, o=empty)
    error = np.abs(run["o"] - reference(q[None], k[None], v[None])[0]).max()
    assert error <= 2.0**-10 * np.abs(v.astype(np.float64)).max()
    assert run.notes == ()


def test_spec__refuses_nothing_to_do():
    with pytest.raises(SpecError, match="attention_online: 0 heads of 5 queries; it needs one of each"):
        attention_online.spec(0, 5)


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_attention__assembles_without_spills(target, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(runtime.compile(attention_online.spec(16, 4096, causal=True)).ptx)
    done = subprocess.run(
        [shutil.which("ptxas"), "-v", f"-arch={target}", "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr)]
    assert spills
    assert not any(spills)


@DEVICES
@pytest.mark.parametrize("spec", [attention_map.LAUNCH, twin(attention_map)], ids=["kernel", "twin"])
def test_attention_map__leaves_s_where_operand_a_is_loaded(spec, device):
    """S[m, n] = 16 m + n names its place, so a register that holds another element would show."""
    q, k = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    q[:, 0], q[:, 1], k[:, 0], k[:, 1] = 16 * np.arange(16), 1, 1, np.arange(16)
    empty = np.full((32, 8), np.nan, np.float16)
    run = runtime.run(spec, device=device, q=q, k=k, left=empty, loaded=empty)
    lane, value = np.arange(32)[:, None], np.arange(8)
    m = (
        lane // 4 + value // 2 % 2 * 8
    )  # PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"
    n = lane % 4 * 2 + value % 2 + value // 4 * 8
    assert np.array_equal(run["loaded"], 16 * m + n)
    assert np.array_equal(run["left"], run["loaded"])
