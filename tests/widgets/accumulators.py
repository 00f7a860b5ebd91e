"""Where the emulator puts an accumulator: one tcgen05.mma of products that all differ, read lane by lane.

The emulator takes placements from the PTX ISA and shares no table with the widgets, which have CuTe's.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from support import tcgen05

_K = 16
_B_AT = 8192
_IMAGE = 16384
_FACTOR = 256


def _image(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Shared memory of one CTA: its rows of A, and its columns of B as rows, K-major without a swizzle."""
    image = np.zeros(_IMAGE // 2, np.float16)
    for at, values in ((0, a), (_B_AT // 2, b)):
        rows, ks = np.indices(values.shape)
        image[at + rows % 8 * 8 + rows // 8 * 128 + ks % 8 + ks // 8 * 64] = values
    return image.view(np.uint8)


def _descriptor(start: int) -> int:
    """Rows' atoms 256 bytes apart, the two halves of K 128."""
    return tcgen05.descriptor(start, 128, 256)


def _body(m: int, n: int, columns: int, group: int, repetitions: int) -> str:
    text = [tcgen05.copy_in(_IMAGE)]
    text.append(
        f"""fence.proxy.async.shared::cta;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        mov.b64 %a, {_descriptor(0)};
        mov.b64 %b, {_descriptor(_B_AT)};
        mov.b32 %x, {tcgen05.idesc(m, n)};
        setp.eq.u32 %p, %rank, 0;
        and.pred %p, %p, %first;
        setp.ne.u32 %q, %y, %y;
        @%p tcgen05.mma.cta_group::{group}.kind::f16 [%tmem], %a, %b, %x, %q;
        """
    )
    if group == 1:
        text.append("@%p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n")
    else:
        text.append(
            ".reg .b16 %h;\nmov.b16 %h, 3;\n@%p tcgen05.commit.cta_group::2.mbarrier::arrive::one"
            ".shared::cluster.multicast::cluster.b64 [bar], %h;\n"
        )
    text.append("AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n")
    text.append("tcgen05.fence::after_thread_sync;\nadd.u32 %d, %tmem, %lane;\n")
    text.append(f"mul.wide.u32 %at, %me, {4 * columns};\nadd.u64 %at, %out, %at;\n")
    held = ", ".join(f"%r{i}" for i in range(repetitions))
    for first in range(0, columns, repetitions):
        text.append(
            f"add.u32 %x, %d, {first};\n"
            f"tcgen05.ld.sync.aligned.32x32b.x{repetitions}.b32 {{{held}}}, [%x];\n"
            "tcgen05.wait::ld.sync.aligned;\n"
        )
        text += [f"st.global.b32 [%at+{4 * (first + i)}], %r{i};\n" for i in range(repetitions)]
    return "".join(text)


@cache
def emulated(
    m: int, n: int, group: int, repetitions: int = 8
) -> dict[tuple[int, int, int, int], tuple[int, int]]:
    """What each register of each thread gets: (CTA, thread, load, register) to (row, column) of C.

    The accumulator's columns are loaded, `repetitions` at a time, which have to divide them; what no MMA
    wrote is left out. Columns that nobody wrote would be an error of the emulator's.
    """
    columns = n // 2 if (group, m) == (2, 128) else n  # PTX ISA 9.0, data path layouts: only B halves N
    a, b = np.zeros((m, _K), np.float32), np.zeros((n, _K), np.float32)
    # C[m, n] = 256 m + n + 1, exact in f32: every element has its own value, and none is 0.
    a[:, 0], a[:, 1], a[:, 2] = np.arange(m), 1, 1
    b[:, 0], b[:, 1], b[:, 2] = _FACTOR, np.arange(n), 1
    images = np.stack([_image(np.split(a, group)[cta], np.split(b, group)[cta]) for cta in range(group)])
    out = np.full((group, 128, columns), -1.0, np.float32)
    tcgen05.run(
        _body(m, n, columns, group, repetitions),
        images,
        out.view(np.uint32),
        grid=group,
        cluster=group,
        group=group,
        columns=max(32, 1 << (columns - 1).bit_length()),
        smem=_IMAGE,
    )
    found = {}
    for cta, thread, column in np.argwhere(out > 0).tolist():
        row, at = divmod(int(out[cta, thread, column]) - 1, _FACTOR)
        found[cta, thread, *divmod(column, repetitions)] = (row, at)
    return found


def allocated(steps: list[tuple[str, int]]) -> dict[str, int]:
    """The column that each allocation of a warp starts at, behind 128 that are taken; 0 columns free one."""
    out = np.full((1, len(steps)), 0xFFFFFFFF, np.uint32)
    body, sizes = ["setp.ne.u32 %p, %warp, 0;\n@%p bra OTHERS;\n"], {}
    names = list(dict.fromkeys(name for name, _ in steps))
    for at, (name, columns) in enumerate(steps):
        address = f"%r{names.index(name)}"
        if columns:
            sizes[name] = columns
            body.append(
                f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};\n"
                f"ld.shared.b32 {address}, [slot];\n@%first st.global.b32 [%out+{4 * at}], {address};\n"
            )
        else:
            freed = sizes.pop(name)
            body.append(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {address}, {freed};\n")
    for name, columns in sizes.items():
        body.append(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{names.index(name)}, {columns};\n")
    tcgen05.run("".join(body) + "OTHERS:\n", np.zeros((1, 16), np.uint8), out, columns=128)
    return {name: int(out[0, at]) for at, (name, columns) in enumerate(steps) if columns}
