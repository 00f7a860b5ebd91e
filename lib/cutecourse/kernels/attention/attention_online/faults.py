"""What `attention_online` does wrong with one change, where a query sees the keys up to its own."""

from __future__ import annotations

import numpy as np

from cutecourse.kernels import attention_online
from cutecourse.kernels.faults import Fault, by_name

LAUNCH = attention_online.CAUSAL
ELSE = "the kernel reads and writes what it should, and computes something else"
LANES = """            for lane in (1, 2):  # a row lies in four lanes
                new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, offset=lane))
"""
LANES_PTX = """
    shfl.sync.bfly.b32 %there, %new, 1, 31, -1; max.f32 %new, %new, %there;
    shfl.sync.bfly.b32 %there, %new, 2, 31, -1; max.f32 %new, %new, %there;
"""
BARRIER = "cute.arch.sync_threads()  # V's tile is here, and everyone has read this tile of K"
BARRIER_PTX = "bar.sync            0;                              // V's tile is here"
ONE = "mov.f32 %rescale, 0f3F800000;"


def arguments(seed: int) -> tuple[dict[str, np.ndarray], str, np.ndarray]:
    """Q, K, V and an empty O for `LAUNCH`, the name of the result, and what it should be, in float64."""
    random = np.random.default_rng(seed)
    shape = attention_online.SHAPE
    q, k, v = (random.standard_normal(shape).astype(np.float16) for _ in range(3))
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(shape[-1])
    s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = p @ v.astype(np.float64) / p.sum(-1, keepdims=True)
    return {"q": q, "k": k, "v": v, "o": np.full(shape, np.nan, np.float16)}, "o", o


FAULTS = by_name(
    __name__,
    Fault(
        "never_rescaled",
        "the sum of a row is rescaled when its maximum grows, and its part of O is not",
        source=(("O[r, None].store(O[r, None].load() * rescale)", ""),),
        twin=tuple((f"%rescale, %s{first};", f"%rescale, %s{first}; {ONE}") for first in (0, 2)),
        unreported=ELSE,
    ),
    Fault(
        "lanes_apart",
        "each lane takes the maximum of its own columns, and not of the row",
        source=((LANES, ""),),
        twin=tuple((f"%s{last};{LANES_PTX}", f"%s{last};\n") for last in (29, 31)),
        unreported=ELSE,
    ),
    Fault(
        "mask_one_off",
        "a query sees one key more than it should",
        source=((">= end:", "> end:"),),
        twin=tuple(
            (
                f"%limit{row}, %end{row}, %index;",
                f"%other, %index, 1; sub.s32 %limit{row}, %end{row}, %other;",
            )
            for row in (0, 1)
        ),
        unreported=ELSE,
        exercise="16.3",
    ),
    Fault(
        "k_overwritten",
        "the next tile of K is loaded while other warps still read this one",
        source=((BARRIER, ""),),
        twin=((BARRIER_PTX, ""),),
        reports=("SharedMemoryRace", "UninitializedRead"),
    ),
    Fault(
        "v_too_early",
        "nobody waits for V's tile before the second MMA reads it",
        source=((f"cute.arch.cp_async_wait_group(0)\n        {BARRIER}", BARRIER),),
        twin=((f"cp.async.wait_group 0;\n    {BARRIER_PTX}", BARRIER_PTX),),
        reports=("SharedMemoryRace", "UninitializedRead"),
    ),
)
