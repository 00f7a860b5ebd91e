"""A kernel of one CTA that loads tiles with tensor copies and multiplies them: for what is wrong with either.

`run(...)` takes tensor maps, the boxes to load and the tcgen05.mma to issue, all as numbers, and gives the
launch's result and D. Copies, MMAs and lines are counted as they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutecourse.emulator import LaunchResult, TensorMap, launch

__all__ = ["MMA", "Box", "run", "text"]

THREADS = 128


@dataclass(frozen=True)
class Box:
    """One tensor copy: the map's number, the coordinates, where it goes in shared memory and its bytes."""

    map: int
    coords: tuple[int, ...]
    to: int
    n_bytes: int


@dataclass(frozen=True)
class MMA:
    """One tcgen05.mma of operands in shared memory: descriptors, D's first column, and whether it adds."""

    a: int
    b: int
    idesc: int
    adds: bool = True
    column: int = 0
    kind: str = "f16"


def loads(dims: Sequence[int], boxes: Sequence[Box]) -> list[str]:
    """The copies of the boxes into shared memory, by one thread; `dims` are the maps' dimensions."""
    found = []
    for box in boxes:
        coords = ", ".join(str(at) for at in box.coords)
        found.append(
            f"mov.b64 %m, map{box.map};\ncvta.param.u64 %m, %m;\nadd.u32 %x, %box, {box.to};\n"
            f"@%first cp.async.bulk.tensor.{dims[box.map]}d.shared::cta.global.tile"
            f".mbarrier::complete_tx::bytes [%x], [%m, {{{coords}}}], [bar];\n"
        )
    return found


def text(
    n_maps: int,
    dims: Sequence[int],
    boxes: Sequence[Box],
    mmas: Sequence[MMA],
    *,
    columns: int,
    smem: int,
    before: str = "",
    after: str = "",
    packed: bool = False,
) -> str:
    """The PTX; `before` stands in front of the MMAs and `after` behind their wait, for all threads.

    `packed` loads two columns to a register, so that D has half as many.
    """
    maps = "".join(f", .param .align 64 .b8 map{i}[128]" for i in range(n_maps))
    copies = loads(dims, boxes)
    issued = [
        f"mov.b64 %a, {mma.a};\nmov.b64 %b, {mma.b};\nmov.b32 %x, {mma.idesc};\n"
        f"add.u32 %d, %tmem, {mma.column};\nsetp.ne.u32 %q, {int(mma.adds)}, 0;\n"
        f"@%first tcgen05.mma.cta_group::1.kind::{mma.kind} [%d], %a, %b, %x, %q;\n"
        for mma in mmas
    ]
    total = sum(box.n_bytes for box in boxes)
    stored = []
    held = ", ".join(f"%r{i}" for i in range(8))
    for first in range(0, columns, 8):
        stored.append(f"add.u32 %x, %d, {first << packed};\n")
        stored.append(f"tcgen05.ld.sync.aligned.32x32b.x8{'.pack::16b' * packed}.b32 {{{held}}}, [%x];\n")
        stored.append("tcgen05.wait::ld.sync.aligned;\n")
        stored.extend(f"st.global.b32 [%at+{4 * (first + i)}], %r{i};\n" for i in range(8))
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out{maps})
{{
    .shared .align 1024 .b8 box[{smem}];
    .shared .align 8 .b64 bar[2];
    .shared .align 4 .b32 slot;
    .reg .b32 %me, %warp, %lane, %box, %tmem, %d, %x, %r<8>;
    .reg .b64 %out, %at, %a, %b, %m;
    .reg .pred %first, %p, %q;
    ld.param.u64 %out, [out];
    mov.u32 %me, %tid.x;
    mov.u32 %box, box;
    shr.u32 %warp, %me, 5;
    shl.b32 %lane, %warp, 21;
    setp.eq.u32 %first, %me, 0;
    setp.ne.u32 %p, %warp, 0;
    @%p bra ALLOCATED;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;
    @%first mbarrier.init.shared::cta.b64 [bar], 1;
    @%first mbarrier.init.shared::cta.b64 [bar+8], 1;
ALLOCATED:
    bar.sync 0;
    ld.shared.b32 %tmem, [slot];
    @%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};
{"".join(copies)}
LOADED:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
    @!%q bra LOADED;
{before}
{"".join(issued)}
    @%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
DONE:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [bar+8], 0;
    @!%q bra DONE;
    tcgen05.fence::after_thread_sync;
{after}
    add.u32 %d, %tmem, %lane;
    mul.wide.u32 %at, %me, {4 * columns};
    add.u64 %at, %out, %at;
{"".join(stored)}
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    setp.ne.u32 %p, %warp, 0;
    @%p bra FREED;
    tcgen05.fence::after_thread_sync;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 256;
FREED:
    ret;
}}
"""


def run(
    maps: Sequence[TensorMap],
    boxes: Sequence[Box],
    mmas: Sequence[MMA],
    *,
    columns: int,
    smem: int = 40960,
    seed: int = 0,
    hazards: dict[str, str] | None = None,
    **parts: Any,
) -> tuple[LaunchResult, np.ndarray]:
    """(result, D as f32: 128 lanes by `columns`)."""
    out = np.zeros((THREADS, columns), np.float32)
    ptx = text(len(maps), [m.rank for m in maps], boxes, mmas, columns=columns, smem=smem, **parts)
    done = launch(ptx, grid=1, block=THREADS, args=[out, *maps], seed=seed, hazards=hazards)
    return done, out
