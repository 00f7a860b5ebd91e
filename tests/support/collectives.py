"""Running a case of the emulator's collective instructions and looking at what it made of its arguments."""

from __future__ import annotations

import re

import numpy as np

from cutecourse.emulator import launch
from cutecourse.emulator.instructions.mma.fragments import Fragment
from tools.cases import ptx_cases

__all__ = ["CASES", "PRODUCT", "matrix_of", "names", "product", "run"]

CASES = {case.name: case for case in ptx_cases.all_cases()}


def run(name: str, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A case's arguments before and after it ran."""
    case = CASES[name]
    before, after = case.make_args(), case.make_args()
    launch(case.ptx, grid=case.grid, block=case.block, args=list(after.values()), seed=seed)
    return before, after


def names(folder: str, pattern: str = "") -> list[str]:
    """The names of a folder's cases that match a pattern."""
    return [name for name in CASES if name.startswith(folder + "/") and re.search(pattern, name)]


def matrix_of(fragment: Fragment, held: np.ndarray) -> np.ndarray:
    """Element by element, by the fragment's rows and columns."""
    matrix = np.zeros((held.shape[0], fragment.n_rows, fragment.n_cols), dtype=held.dtype)
    for lane in range(32):
        for i in range(fragment.n_elements):
            matrix[:, fragment.row[lane, i], fragment.col[lane, i]] = held[:, lane, i]
    return matrix


PRODUCT = """
.version 8.0
.target sm_80
.address_size 64

.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{
    .shared .align 16 .b8 tile_a[768];
    .shared .align 16 .b8 tile_b[512];
    .reg .b32 %me, %at, %row, %r<8>, %f<4>, %g<2>, %acc<4>, %out<4>;
    .reg .b64 %from, %to;

    mov.u32 %me, %tid.x;
    ld.param.u64 %from, [a];
    cvta.to.global.u64 %from, %from;
    mad.wide.u32 %from, %me, 16, %from;
    ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%from];
    mov.u32 %at, tile_a;
    mad.lo.u32 %at, %me, 16, %at;
    st.shared.v4.b32 [%at], {%r0, %r1, %r2, %r3};
    and.b32 %row, %me, 15;
    mad.wide.u32 %from, %row, 16, %from;
    st.shared.v4.b32 [tile_a+512], {%r0, %r1, %r2, %r3};
    st.shared.v4.b32 [tile_a+528], {%r3, %r2, %r1, %r0};
    ld.param.u64 %from, [b];
    cvta.to.global.u64 %from, %from;
    mad.wide.u32 %from, %me, 16, %from;
    ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%from];
    mov.u32 %at, tile_b;
    mad.lo.u32 %at, %me, 16, %at;
    st.shared.v4.b32 [%at], {%r0, %r1, %r2, %r3};
    bar.sync 0;

    mov.u32 %at, tile_a;
    mad.lo.u32 %row, %me, 16, %at;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%f0, %f1, %f2, %f3}, [%row];
    mov.u32 %at, tile_b;
    and.b32 %row, %me, 15;
    mad.lo.u32 %row, %row, 16, %at;
    ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%g0, %g1}, [%row];
    ld.param.u64 %from, [c];
    cvta.to.global.u64 %from, %from;
    mad.wide.u32 %from, %me, 16, %from;
    ld.global.v4.b32 {%acc0, %acc1, %acc2, %acc3}, [%from];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%out0, %out1, %out2, %out3}, {%f0, %f1, %f2, %f3}, {%g0, %g1}, {%acc0, %acc1, %acc2, %acc3};
    ld.param.u64 %to, [d];
    cvta.to.global.u64 %to, %to;
    mad.wide.u32 %to, %me, 16, %to;
    st.global.v4.b32 [%to], {%out0, %out1, %out2, %out3};
    ret;
}
"""


def product(ptx: str, **changed: np.ndarray) -> np.ndarray:
    """The bits of D after a text like PRODUCT ran on random matrices, or on those that are given."""
    rng = np.random.default_rng(1)
    inputs = {
        "a": rng.normal(0, 1, (32, 8)).astype(np.float16),
        "b": rng.normal(0, 1, (32, 8)).astype(np.float16),
        "c": rng.normal(0, 1, (32, 4)).astype(np.float32),
        "d": np.full((32, 4), np.nan, dtype=np.float32),
        **changed,
    }
    launch(ptx, grid=1, block=32, args=list(inputs.values()))
    return inputs["d"].view(np.uint32)
