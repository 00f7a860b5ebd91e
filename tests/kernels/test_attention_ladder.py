"""The Hopper attention kernels against float64: on the emulator without a report, and on a GPU."""

import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.kernels import (
    SpecError,
    attention_last,
    attention_one,
    attention_pingpong,
    attention_roles,
    twin,
)
from cutecourse.kernels.attention_ladder import RUNGS
from cutecourse.kernels.files import kernel_module

AttentionChoice = attention_last.AttentionChoice

DEVICES = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90a"), id="gpu")]
)


def expected(q, k, v, *, causal):
    """Attention in float64, of arrays (length, D, heads, batches)."""
    q, k, v = (one.astype(np.float64).transpose(2, 3, 0, 1) for one in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p @ v / p.sum(-1, keepdims=True)).transpose(2, 3, 0, 1)


def arguments(shape, *, seed=0, scale=1.0):
    """Q, K, V and an empty O, of (length, D, heads, batches) with a batch in one piece of memory."""
    length, heads, batches = shape
    random = np.random.default_rng(seed)
    q, k, v = (scale * random.standard_normal((batches, length, heads, 128)) for _ in range(3))
    o = np.full((batches, length, heads, 128), np.nan)
    arrays = {"q": q, "k": k, "v": v, "o": o}
    arrays = {name: one.astype(ml_dtypes.bfloat16).transpose(1, 3, 2, 0) for name, one in arrays.items()}
    return {**arrays, "counter": np.zeros(1, np.int32)}


def check_rung(spec, causal, device, *, seed=0, scale=1.0):
    """Compare a run of a rung with float64."""
    length, _, heads, batches = spec.params[0].extents
    given = arguments((length, heads, batches), scale=scale)
    del given["counter"]
    run = runtime.run(spec, device=device, seed=seed, **given)
    q, k, v = (given[name] for name in "qkv")
    off = np.abs(run["o"].astype(np.float64) - expected(q, k, v, causal=causal))
    assert off.max() <= 2.0**-7 * np.abs(v.astype(np.float64)).max()
    assert {note.hazard.name for note in run.notes} <= {"no wgmma fence", "fill multiplied"}


def check(shape, how, *, device="emulator", seed=0, sms=2, scale=1.0):
    """Compare a run with float64, and its counter with 0, which the next launch needs."""
    given = arguments(shape, seed=seed, scale=scale)
    run = runtime.run(attention_last.spec(*shape, how=how, sms=sms), device=device, seed=seed, **given)
    q, k, v = (given[name] for name in "qkv")
    off = np.abs(run["o"].astype(np.float64) - expected(q, k, v, causal=how.causal))
    # P is rounded to 8 bits before it is multiplied, and O once more when it is stored.
    assert off.max() <= 2.0**-7 * scale * np.abs(v.astype(np.float64)).max()
    assert run["counter"][0] == 0
    # ptxas adds the fence that moves of registers between it and the MMA call for. A warpgroup of the last
    # block may have no rows.
    noted = {note.hazard.name for note in run.notes}
    assert noted <= {"no wgmma fence", "fill multiplied"}


@DEVICES
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((130, 2, 1), AttentionChoice(keys=64)),
        pytest.param((200, 1, 2), AttentionChoice(True, keys=48, group=2), marks=pytest.mark.long),
        pytest.param((200, 3, 1), AttentionChoice(True, keys=96, group=2), marks=pytest.mark.long),
        pytest.param((66, 1, 3), AttentionChoice(keys=32, stages=5), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_attention_last__matches_float64_where_tiles_are_cut_off(shape, how, device):
    check(shape, how, device=device)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_attention_last__rescales_and_draws_its_tiles_in_any_order_of_the_warps(seed):
    check((136, 2, 1), AttentionChoice(True, keys=32, group=2), seed=seed, sms=2, scale=4.0)


@DEVICES
@pytest.mark.parametrize("name", RUNGS[:-1])
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((136, 2, 1), {"causal": True, "keys": 48}),
        pytest.param((66, 1, 3), {"keys": 64}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_rung__matches_float64_where_tiles_are_cut_off(name, shape, options, device):
    check_rung(kernel_module(name).spec(*shape, **options), options.get("causal", False), device)


@DEVICES
def test_attention_roles__has_three_consumers_too(device):
    check_rung(attention_roles.spec(200, 1, 1, causal=True, keys=32, consumers=3), True, device)


def test_attention_last__refuses_a_sequence_of_one_row():
    with pytest.raises(SpecError, match="2 rows or more"):
        attention_last.spec(1)


def test_best__keeps_the_groups_of_long_sequences_small():
    assert [attention_last.best(length, True).group for length in (2048, 4096, 16384)] == [16, 16, 8]


@pytest.mark.parametrize("kernel", [attention_one, attention_pingpong], ids=lambda kernel: kernel.FILE.name)
@pytest.mark.parametrize(
    "seeds", [range(1, 2), pytest.param(range(2, 101), marks=pytest.mark.long)], ids=["1", "2-100"]
)
def test_twin__rescales_without_a_report_in_any_order_of_the_warps(kernel, seeds):
    for seed in seeds:
        spec = twin(kernel.spec(130, 2, causal=True, keys=32))
        check_rung(spec, True, "emulator", seed=seed, scale=4.0)


@pytest.mark.program("ptxas")
@pytest.mark.parametrize(
    "kernel", [attention_one, attention_pingpong, attention_last], ids=lambda kernel: kernel.FILE.name
)
def test_twin__assembles_without_spills(kernel, tmp_path):
    source = tmp_path / "twin.ptx"
    source.write_text(runtime.compile(twin(kernel)).ptx)
    command = [shutil.which("ptxas"), "-v", "-arch=sm_90a", "-o", tmp_path / "twin", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "serialized" not in done.stderr
    spills = [int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr)]
    assert spills
    assert not any(spills)
