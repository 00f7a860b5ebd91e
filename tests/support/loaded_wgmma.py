"""A kernel of one warpgroup that loads tiles with tensor copies and multiplies them by wgmma.

As support.loaded_mma for tcgen05: tensor maps, boxes and the wgmma.mma_async to issue, all as numbers. D is
64 x 32; every operation is waited for, so that threads may write D between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutecourse.emulator import LaunchResult, TensorMap, launch
from support.loaded_mma import Box, loads

__all__ = ["THREADS", "M", "N", "Product", "descriptor", "registers", "run"]

M, N = 64, 32
THREADS = 128
_REGISTERS = N // 2
_MODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}


@dataclass(frozen=True)
class Product:
    """One wgmma.mma_async of f16: descriptors, whether it adds, and what threads do before it.

    `d` is the letter of its accumulator; `a` is None where A is in registers.
    """

    a: int | None
    b: int
    adds: bool = True
    before: str = ""
    d: str = "d"
    transposed: tuple[int, int] = (0, 0)


def descriptor(start: int, leading: int, stride: int, swizzle: str) -> int:
    """A matrix descriptor of wgmma; all in bytes."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | _MODES[swizzle] << 62


def registers(template: str, d: str = "d") -> str:
    """A statement for each register of an accumulator; `{}` in it is the register."""
    return "\n".join(template.format(f"%{d}{i}") for i in range(_REGISTERS))


def _text(dims: Sequence[int], boxes: Sequence[Box], products: Sequence[Product], smem: int) -> str:
    maps = "".join(f", .param .align 64 .b8 map{i}[128]" for i in range(len(dims)))
    copies = loads(dims, boxes)
    issued = []
    for one in products:
        d = ", ".join(f"%{one.d}{i}" for i in range(_REGISTERS))
        a, flags = "%a", one.transposed
        if one.a is None:
            a, flags = "{%w0, %w1, %w2, %w3}", one.transposed[1:]
        issued.append(
            f"{one.before}\nmov.b64 %a, {one.a or 0};\nmov.b64 %b, {one.b};\n"
            f"setp.ne.u32 %q, {int(one.adds)}, 0;\nwgmma.fence.sync.aligned;\n"
            f"wgmma.mma_async.sync.aligned.m{M}n{N}k16.f32.f16.f16 {{{d}}}, {a}, %b, %q, 1, 1"
            f"{''.join(f', {flag}' for flag in flags)};\n"
            "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
        )
    total = sum(box.n_bytes for box in boxes)
    stored = [f"st.global.b32 [%out+{4 * i}], %d{i};\n" for i in range(_REGISTERS)]
    return f"""
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out{maps})
{{
    .shared .align 1024 .b8 box[{smem}];
    .shared .align 8 .b64 bar;
    .reg .b32 %me, %warp, %box, %x, %d<{_REGISTERS}>, %e<{_REGISTERS}>, %w<4>;
    .reg .b64 %out, %at, %a, %b, %m;
    .reg .pred %first, %q;
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    shr.u32 %warp, %me, 5;
    mov.u32 %box, box;
    mul.wide.u32 %at, %me, {4 * _REGISTERS};
    add.u64 %out, %out, %at;
    setp.eq.u32 %first, %me, 0;
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};
{"".join(copies)}
LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra LOADED;
{"".join(issued)}
{"".join(stored)}
    ret;
}}
"""


def run(
    maps: Sequence[TensorMap],
    boxes: Sequence[Box],
    products: Sequence[Product],
    *,
    smem: int,
    seed: int = 0,
    hazards: dict[str, str] | None = None,
) -> tuple[LaunchResult, np.ndarray]:
    """(result, D as f32: 64 x 32)."""
    out = np.zeros((THREADS, _REGISTERS), np.float32)
    ptx = _text([m.rank for m in maps], boxes, products, smem)
    done = launch(ptx, grid=1, block=THREADS, args=[out, *maps], seed=seed, hazards=hazards)
    # Register 4 j + 2 h + p of lane 4 g + t of warp w is row 16 w + 8 h + g, column 8 j + 2 t + p.
    return done, out.reshape(4, 8, 4, N // 8, 2, 2).transpose(0, 4, 1, 3, 2, 5).reshape(M, N)
