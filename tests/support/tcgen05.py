"""Kernels around tcgen05 instructions: one CTA or a pair that allocates, does something, and frees.

`kernel(body)` finds in its body %me (thread), %warp, %lane (32 times the warp's rank in its four, shifted to
an address's lane), %rank (in the cluster), %tmem (the address of the columns), %in and %out (this CTA's part
of the arguments), and the shared variables `bar` (two mbarriers) and `box`.

`descriptor` and `idesc` are the numbers that a tcgen05.mma takes. For what is not about products, `ZEROS` and
what follows it multiply zeros: bodies for `zeros_kernel` and `run_zeros`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.emulator import LaunchResult, launch

__all__ = [
    "COLUMNS",
    "COMMIT",
    "DESCRIPTOR",
    "FENCE",
    "MODES",
    "SETUP",
    "WIDE",
    "ZEROS",
    "copy_in",
    "descriptor",
    "done",
    "idesc",
    "kernel",
    "multiply",
    "run",
    "run_zeros",
    "zeros_kernel",
]

WIDE = "128B with 32B atoms"
MODES = {"none": 0, WIDE: 1, "128B": 2, "64B": 4, "32B": 6}
_TYPES = {"f16": 0, "bf16": 1, "tf32": 2}


def descriptor(start: int, leading: int, stride: int, swizzle: str = "none", base: int = 0) -> int:
    """A shared-memory descriptor; start, leading and stride dimension in bytes."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | base << 49 | MODES[swizzle] << 61


def idesc(
    m: int,
    n: int,
    *,
    ab: str = "f16",
    d: str = "f32",
    a_major: str = "K",
    b_major: str = "K",
    negate: tuple[int, int] = (0, 0),
    extra: int = 0,
) -> int:
    """An instruction descriptor; `extra` is set beside what the rest says."""
    value = (d == "f32") << 4 | _TYPES[ab] << 7 | _TYPES[ab] << 10 | negate[0] << 13 | negate[1] << 14
    value |= (a_major == "MN") << 15 | (b_major == "MN") << 16
    return value | n >> 3 << 17 | m >> 4 << 24 | extra


FENCE = "fence.proxy.async.shared::cta;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
ZEROS_BYTES = 4096
ZEROS = (
    "shl.b32 %x, %me, 5;\nmov.u32 %y, box;\nadd.u32 %x, %x, %y;\nmov.b32 %r0, 0;\n"
    "st.shared.v4.b32 [%x], {%r0, %r0, %r0, %r0};\nst.shared.v4.b32 [%x+16], {%r0, %r0, %r0, %r0};\n"
)
"""Operands: 128 x 16 of A and up to 128 x 16 of B at the same place, in atoms of 8 rows of 16 bytes."""
DESCRIPTOR = f"mov.b64 %a, {descriptor(0, 128, 256)};\n"
COLUMNS = "mov.b32 %r0, 0;\nadd.u32 %d, %tmem, %lane;\nmul.wide.u32 %at, %me, 32;\nadd.u64 %at, %out, %at;\n"
"""%d is the warp's lanes, %at the thread's 32 bytes of the result, %r0 zero."""
SETUP = ZEROS + FENCE + "bar.sync 0;\n" + DESCRIPTOR + COLUMNS


def multiply(n: int = 8, column: int = 0, a: str = "%a", m: int = 128) -> str:
    """One tcgen05.mma of m x n x 16 zeros by the first thread."""
    return (
        f"mov.b32 %x, {idesc(m, n)};\nadd.u32 %z, %tmem, {column};\nsetp.ne.u32 %q, 0, 0;\n"
        f"@%first tcgen05.mma.cta_group::1.kind::f16 [%z], {a}, %a, %x, %q;\n"
    )


def done(parity: int = 0, bar: str = "bar") -> str:
    """Commit, and wait for the commit's arrival."""
    label = f"DONE_{bar.replace('+', '_')}_{parity}"
    return (
        f"@%first {COMMIT.replace('[bar]', f'[{bar}]')}"
        f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [{bar}], {parity};\n@!%q bra {label};\n"
    )


def copy_in(n_bytes: int) -> str:
    """All 128 threads copy n_bytes from %in to `box`, 16 bytes each at a time."""
    text = ["shl.b32 %x, %me, 4;\nmul.wide.u32 %at, %me, 16;\nadd.u64 %at, %in, %at;\nmov.u32 %y, box;\n"]
    text.append("add.u32 %x, %x, %y;\n")
    for first in range(0, n_bytes, 2048):
        text.append(f"ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%at+{first}];\n")
        text.append(f"st.shared.v4.b32 [%x+{first}], {{%r0, %r1, %r2, %r3}};\n")
    return "".join(text)


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


def zeros_kernel(body: str) -> str:
    """The PTX text of a kernel with room for the zeros."""
    return kernel(body, smem=ZEROS_BYTES)


def run_zeros(body: str, **options: Any) -> LaunchResult:
    """Run such a kernel with one CTA of 128 threads; %out has 32 bytes for each."""
    given, out = np.zeros(ZEROS_BYTES, np.uint8), np.zeros((128, 8), np.uint32)
    args = [out, given, out.nbytes, given.nbytes]
    return launch(zeros_kernel(body), grid=1, block=128, args=args, **options)
