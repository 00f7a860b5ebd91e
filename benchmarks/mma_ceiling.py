"""The ceiling of a GEMM that uses mma.sync: a loop of MMAs on registers that fills the GPU and loads nothing.

Each warp holds fragments of A and B and multiplies every one of A with every one of B, over and over. So it
has as many chains of MMAs as accumulators, and only the tensor cores can limit it. The fragments come from
memory once, because their bits matter: zeros and ones use less power than random numbers, and power decides
the clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor

__all__ = ["ceiling_spec", "flops", "fragments", "product_of_fragments"]

Array = np.ndarray[Any, np.dtype[Any]]

_TEXT = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry mma_ceiling(
    .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 cycles, .param .u32 turns)
{{
    .reg .pred %more;
    .reg .b32 %thread, %block, %turn;
    .reg .b64 %base, %offset, %t0, %t1;
    .reg .b32 %a<{a_registers}>, %b<{b_registers}>;
    .reg .f32 %c<{c_registers}>;

    mov.u32       %thread, %tid.x;
    mov.u32       %block, %ctaid.x;
    mad.lo.u32    %thread, %block, {threads}, %thread;
    ld.param.u32  %turn, [turns];

    ld.param.u64  %base, [a];
    mul.wide.u32  %offset, %thread, {a_bytes};
    add.u64       %base, %base, %offset;
{load_a}
    ld.param.u64  %base, [b];
    mul.wide.u32  %offset, %thread, {b_bytes};
    add.u64       %base, %base, %offset;
{load_b}
{clear}
    bar.sync      0;
    mov.u64       %t0, %clock64;
again:
{multiply}
    sub.u32       %turn, %turn, 1;
    setp.ne.u32   %more, %turn, 0;
@%more bra again;
    mov.u64       %t1, %clock64;
    sub.u64       %t1, %t1, %t0;

    ld.param.u64  %base, [cycles];
    mul.wide.u32  %offset, %thread, 8;
    add.u64       %base, %base, %offset;
    st.global.u64 [%base], %t1;
    ld.param.u64  %base, [c];
    mul.wide.u32  %offset, %thread, {c_bytes};
    add.u64       %base, %base, %offset;
{store_c}
    ret;
}}
"""


def ceiling_spec(blocks: int, warps: int, along_m: int, along_n: int) -> LaunchSpec:
    """`blocks` CTAs of `warps` warps, each with `along_m` fragments of A and `along_n` of B.

    Parameters: a (threads, along_m * 8) and b (threads, along_n * 4) f16, each thread's fragments together;
    c (threads, along_m * along_n * 4) f32; cycles (threads,) u64, what the loop took each thread; turns, each
    of which adds every product to its accumulator once.
    """
    places = [(i, j) for i in range(along_m) for j in range(along_n)]

    def registers(kind: str, fragment: int, count: int) -> str:
        return ", ".join(f"%{kind}{count * fragment + one}" for one in range(count))

    multiply = [
        "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        f"{{{registers('c', i * along_n + j, 4)}}}, {{{registers('a', i, 4)}}}, "
        f"{{{registers('b', j, 2)}}}, {{{registers('c', i * along_n + j, 4)}}};"
        for i, j in places
    ]
    threads = blocks * warps * 32
    text = _TEXT.format(
        threads=warps * 32,
        a_registers=4 * along_m,
        b_registers=2 * along_n,
        c_registers=4 * len(places),
        a_bytes=16 * along_m,
        b_bytes=8 * along_n,
        c_bytes=16 * len(places),
        load_a="\n".join(f"    ld.global.b32 %a{i}, [%base+{4 * i}];" for i in range(4 * along_m)),
        load_b="\n".join(f"    ld.global.b32 %b{i}, [%base+{4 * i}];" for i in range(2 * along_n)),
        clear="\n".join(f"    mov.f32       %c{i}, 0f00000000;" for i in range(4 * len(places))),
        multiply="\n".join(multiply),
        store_c="\n".join(f"    st.global.f32 [%base+{4 * i}], %c{i};" for i in range(4 * len(places))),
    )
    return LaunchSpec(
        name="mma_ceiling",
        language="ptx",
        ptx=text.lstrip(),
        entry="mma_ceiling",
        grid=(blocks, 1, 1),
        block=(warps * 32, 1, 1),
        params=(
            Tensor("a", "f16", (threads, along_m * 8)),
            Tensor("b", "f16", (threads, along_n * 4)),
            Tensor("c", "f32", (threads, along_m * along_n * 4)),
            Tensor("cycles", "u64", (threads,)),
            Scalar("turns", "u32"),
        ),
    )


def flops(spec: LaunchSpec, turns: int) -> int:
    """Multiplications and additions of a launch."""
    c = spec.tensors[2].extents
    assert c[0] is not None
    assert c[1] is not None
    return 2 * 16 * turns * c[0] * c[1]


def fragments(spec: LaunchSpec, seed: int) -> tuple[Array, Array]:
    """A's and B's fragments for a launch, normally distributed."""
    random = np.random.default_rng(seed)
    a, b = (random.standard_normal(one.extents, np.float32).astype(np.float16) for one in spec.tensors[:2])
    return a, b


def product_of_fragments(a: Array, b: Array) -> Array:
    """What one turn adds to c, for whole warps of fragments (PTX ISA, mma.m16n8k16, f16)."""
    warps, lanes = len(a) // 32, np.arange(32)
    group, place = lanes // 4, lanes % 4
    along_m, along_n = a.shape[1] // 8, b.shape[1] // 4
    A = np.zeros((warps, along_m, 16, 16), np.float32)
    B = np.zeros((warps, along_n, 8, 16), np.float32)
    for i in range(8):
        row, column = group + 8 * (i // 2 % 2), 2 * place + i % 2 + 8 * (i // 4)
        A[:, :, row, column] = a.reshape(warps, 32, along_m, 8)[..., i].transpose(0, 2, 1)
    for i in range(4):
        B[:, :, group, 2 * place + i % 2 + 8 * (i // 2)] = b.reshape(warps, 32, along_n, 4)[..., i].transpose(
            0, 2, 1
        )
    C = np.einsum("wmik,wnjk->wmnij", A, B)
    c = np.stack(
        [C[..., group + 8 * (i // 2), 2 * place + i % 2] for i in range(4)], -1
    )  # (w, m, n, lane, i)
    return c.transpose(0, 3, 1, 2, 4).reshape(warps * 32, -1)
