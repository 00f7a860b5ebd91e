"""Cooperative launches: a barrier of the whole grid as nvcc writes it, and grids that do not fit."""

import subprocess

import numpy as np
import pytest

from cutecourse.analysis import explain
from cutecourse.emulator import launch
from cutecourse.emulator.core import scheduler
from cutecourse.emulator.errors import EmulatorError, KernelTrap, LaunchError
from cutecourse.testing import check

# The barrier is what nvcc 13.0 makes of grid_group::sync() for sm_90, with names for registers.
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry reverse(.param .u64 data, .param .u64 out, .param .u32 n)
.reqntid 64, 1, 1
{
    .reg .b32 %low, %high, %me, %t, %b, %blocks, %add, %old, %now, %changed, %n, %v;
    .reg .b64 %workspace, %wide, %word, %data, %out, %at;
    .reg .pred %is_set, %waits, %is_first, %again, %outside;
    mov.u32 %low, %envreg2;
    cvt.u64.u32 %workspace, %low;
    mov.u32 %high, %envreg1;
    cvt.u64.u32 %wide, %high;
    bfi.b64 %workspace, %wide, %workspace, 32, 32;
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mad.lo.u32 %me, %b, 64, %t;
    ld.param.u32 %n, [n];
    setp.ge.u32 %outside, %me, %n;
    ld.param.u64 %data, [data];
    mad.wide.u32 %at, %me, 4, %data;
    mul.lo.u32 %v, %me, 3;
    @!%outside st.global.u32 [%at], %v;
    setp.ne.s64 %is_set, %workspace, 0;
    @%is_set bra READY;
    trap;
READY:
    barrier.sync 0;
    setp.ne.u32 %waits, %t, 0;
    @%waits bra DONE;
    add.s64 %word, %workspace, 4;
    mov.u32 %blocks, %nctaid.x;
    sub.s32 %add, -2147483647, %blocks;
    setp.eq.u32 %is_first, %b, 0;
    selp.b32 %add, %add, 1, %is_first;
    atom.add.release.gpu.u32 %old, [%word], %add;
AGAIN:
    ld.acquire.gpu.u32 %now, [%word];
    xor.b32 %changed, %now, %old;
    setp.gt.s32 %again, %changed, -1;
    @%again bra AGAIN;
DONE:
    barrier.sync 0;
    @%outside bra END;
    sub.u32 %n, %n, 1;
    sub.u32 %n, %n, %me;
    mad.wide.u32 %at, %n, 4, %data;
    ld.global.u32 %v, [%at];
    ld.param.u64 %out, [out];
    mad.wide.u32 %at, %me, 4, %out;
    st.global.u32 [%at], %v;
END:
    ret;
}
"""
SOURCE = """
#include <cooperative_groups.h>
__global__ void __launch_bounds__(64) reverse(unsigned* data, unsigned* out, unsigned n) {
  auto grid = cooperative_groups::this_grid();
  for (int turn = 1; turn < 4; ++turn) {
    unsigned i = grid.thread_rank();
    if (i < n) data[i] = 3 * i * turn;
    grid.sync();
    if (i < n) out[i] = data[n - 1 - i];
    grid.sync();
  }
}
"""


def run(text: str, blocks: int, *, seed: int = 0, **options) -> tuple[np.ndarray, np.ndarray]:
    n = 64 * blocks - 5
    data, out = np.zeros(n, np.uint32), np.zeros(n, np.uint32)
    launch(text, grid=blocks, block=64, args=[data, out, n], seed=seed, **options)
    return data, out


@pytest.mark.parametrize(("blocks", "seed"), [(1, 0), (5, 0), (5, 1), (40, 2)])
def test_grid_barrier__all_blocks_see_what_all_have_written(blocks: int, seed: int, monkeypatch) -> None:
    """40 blocks have more warps than other launches run at once here, and each needs all the others."""
    monkeypatch.setattr(scheduler, "_RESIDENT_WARPS", 32)
    data, out = run(KERNEL, blocks, seed=seed, cooperative=True)
    np.testing.assert_array_equal(data, 3 * np.arange(len(data)))
    np.testing.assert_array_equal(out, data[::-1])


@pytest.mark.program("nvcc")
def test_grid_barrier__of_cooperative_groups_as_nvcc_compiles_it(tmp_path, find_program) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    command = [find_program("nvcc"), "-arch=sm_90", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    text = (tmp_path / "k.ptx").read_text()
    data, out = run(text, 7, cooperative=True)
    np.testing.assert_array_equal(data, 9 * np.arange(len(data)))
    np.testing.assert_array_equal(out, data[::-1])
    with pytest.raises(KernelTrap, match="cooperative=True"):
        run(text, 7)


def test_grid_barrier__in_an_ordinary_launch_traps_and_says_why() -> None:
    with pytest.raises(
        KernelTrap, match=r"%envreg1.*is 0 here.*cooperative=True.*cudaLaunchCooperativeKernel"
    ):
        run(KERNEL, 2)


def test_grid_barrier__that_one_block_does_not_reach_is_reported_as_a_loop() -> None:
    early = KERNEL.replace("READY:", "READY:\n    setp.eq.u32 %is_first, %b, 2;\n    @%is_first ret;")
    with pytest.raises(EmulatorError, match="3 warps repeat their loops") as caught:
        run(early, 4, cooperative=True)
    assert "ld.acquire.gpu.u32 %now, [%word]" in str(caught.value)


@pytest.mark.parametrize(
    ("blocks", "shared", "match"),
    [
        (32 * 132 + 1, 0, r"4225 of 64 threads.*at most 32 run on each of 132 SMs.*at most 4224"),
        (265, 100 << 10, "at most 2 run on each of 132 SMs.*at most 264"),
    ],
)
def test_cooperative_launch__of_a_grid_that_does_not_fit_is_refused(
    blocks: int, shared: int, match: str
) -> None:
    with pytest.raises(LaunchError, match=match):
        run(KERNEL, blocks, cooperative=True, dynamic_smem=shared)


def test_cooperative_launch__leaves_a_kernel_without_a_grid_barrier_as_it_is() -> None:
    start, rest = KERNEL.split("    setp.ne.s64 %is_set")
    plain = start + rest[rest.index("DONE:") + len("DONE:") :]
    for cooperative in (False, True):
        data, _ = run(plain, 3, cooperative=cooperative)
        np.testing.assert_array_equal(data, 3 * np.arange(len(data)))


def test_check__takes_a_cooperative_launch() -> None:
    data, out = np.zeros(128, np.uint32), np.zeros(128, np.uint32)
    wanted = 3 * np.arange(128, dtype=np.uint32)[::-1]
    check(
        KERNEL, grid=2, args={"d": data, "o": out, "n": 128}, expect={"o": wanted}, seeds=2, cooperative=True
    )


def test_explain__prints_the_option_for_a_grid_barrier() -> None:
    assert "--cooperative" in explain(KERNEL)["needs"]["command"]
    assert "--cooperative" not in explain(KERNEL.replace("%envreg1", "%envreg3"))["needs"]["command"]
