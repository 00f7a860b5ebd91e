"""Kernels around tcgen05 instructions: one CTA or a pair that allocates, does something, and frees.

`kernel(body)` finds in its body %me (thread), %warp, %lane (32 times the warp's rank in its four, shifted to
an address's lane), %rank (in the cluster), %tmem (the address of the columns), %in and %out (this CTA's part
of the arguments), and the shared variables `bar` (two mbarriers) and `box`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.emulator import launch

__all__ = ["kernel", "run"]


def kernel(body: str, *, group: int = 1, columns: int = 128, smem: int = 1024) -> str:
    """The PTX text; `smem` is in bytes."""
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 out_bytes, .param .u32 in_bytes)
{{
    .shared .align 1024 .b8 box[{smem}];
    .shared .align 8 .b64 bar[2];
    .shared .align 4 .b32 slot;
    .reg .b32 %me, %warp, %lane, %rank, %cta, %tmem, %d, %x, %y, %z, %r<160>;
    .reg .b64 %in, %out, %at, %a, %b;
    .reg .pred %first, %p, %q;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    ld.param.u32 %x, [out_bytes];
    ld.param.u32 %y, [in_bytes];
    mov.u32 %cta, %ctaid.x;
    mad.wide.u32 %out, %cta, %x, %out;
    mad.wide.u32 %in, %cta, %y, %in;
    mov.u32 %me, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    shr.u32 %warp, %me, 5;
    and.b32 %lane, %warp, 3;
    shl.b32 %lane, %lane, 21;
    setp.eq.u32 %first, %me, 0;
    setp.ne.u32 %p, %warp, 0;
    @%p bra ALLOCATED;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {columns};
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    @%first mbarrier.init.shared::cta.b64 [bar+8], 1;
ALLOCATED:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ld.shared.b32 %tmem, [slot];
{body}
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    setp.ne.u32 %p, %warp, 0;
    @%p bra FREED;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tmem, {columns};
FREED:
    ret;
}}
"""


def run(
    body: str,
    given: np.ndarray,
    out: np.ndarray,
    *,
    grid: int = 1,
    block: int = 128,
    cluster: int = 1,
    group: int = 1,
    columns: int = 128,
    smem: int = 1024,
    **options: Any,
) -> np.ndarray:
    """Run on the emulator; the arrays' first axis counts CTAs where there are several."""
    launch(
        kernel(body, group=group, columns=columns, smem=smem),
        grid=grid,
        block=block,
        cluster=cluster,
        args=[out, given, out.nbytes // grid, given.nbytes // grid],
        **options,
    )
    return out
