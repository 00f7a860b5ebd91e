"""hopper_clusters with waits that end: right, and with one thing wrong at a time.

One cluster computes C of 256x256, and K has ten k-tiles, so each of the four stages is filled again. A and B
hold small integers, whose sums are exact. CTA 1 multiplies more slowly than CTA 0, as it may at any time. No
wait goes on forever: a warp that has tried often enough says so in `gave_up` and goes on.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from cutecourse.kernels import hopper_clusters
from cutecourse.kernels.faults import Fault, by_name, changed_text
from cutecourse.kernels.spec import LaunchSpec, SpecError, Tensor

M, N, K = 256, 256, 640

WAIT = '''@cute.jit
def wait(barrier: cute.Pointer, parity: cutlass.Int32, gave_up: cute.Tensor):
    """Wait for a phase as mbarrier_wait does, but give up after some tries."""
    done = cute.arch.mbarrier_try_wait(barrier, parity)
    tries = cutlass.Int32(0)
    while not done and tries < 1000:
        done = cute.arch.mbarrier_try_wait(barrier, parity)
        tries += 1
    if not done:
        block_m, block_n, _ = cute.arch.block_idx()
        gave_up[block_m, block_n, cute.arch.warp_idx()] = 1


'''

SLOW = """
            if rank == 1:
                cute.arch.inline_ptx("nanosleep.u32 4000;")"""

BOUNDED = (
    ("@cute.kernel\n", f"{WAIT}@cute.kernel\n"),
    ("    mC: cute.Tensor,\n", "    mC: cute.Tensor,\n    gave_up: cute.Tensor,\n"),
    ("mC: cute.Tensor):\n", "mC: cute.Tensor, gave_up: cute.Tensor):\n"),
    ("mC, layout_a, layout_b)", "mC, gave_up, layout_a, layout_b)"),
    ("cute.arch.mbarrier_wait(full + stage, turn % 2)", f"wait(full + stage, turn % 2, gave_up){SLOW}"),
    (
        "cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)",
        "wait(empty + stage, turn % 2 ^ 1, gave_up)",
    ),
)
"""What gives the kernel waits that end, and a slow CTA 1."""

FAULTS = by_name(
    hopper_clusters,
    (
        Fault(
            "released_early",
            "warpgroup.wait_group(1)",
            "warpgroup.wait_group(2)",
            "a consumer releases a stage while its wgmma may still read it",
        ),
        Fault(
            "counts_one_warpgroup",
            "CLUSTER[0] * 4 * CONSUMERS)",
            "CLUSTER[0] * 4)",
            "empty completes a phase when one of two warpgroups has read the stage",
        ),
        Fault(
            "tells_its_own_cta",
            "empty + (k - 1) % STAGES, cta)",
            "empty + (k - 1) % STAGES)",
            "a CTA's warps arrive twice at home and never at the neighbour",
        ),
        Fault(
            "remote_arrive_forgotten",
            "range_constexpr(CLUSTER[0]):\n",
            "range_constexpr(CLUSTER[0] - 1):\n",
            "all warps tell CTA 0, and CTA 1 waits for ever",
        ),
        Fault(
            "starts_with_the_wrong_parity",
            "turn % 2 ^ 1",
            "turn % 2",
            "the producer waits until somebody has read a stage that nobody has filled",
        ),
        Fault(
            "expects_its_own_half",
            "tile_bytes = (TILE[0] + TILE[1])",
            "tile_bytes = (TILE[0] + TILE[1] // 2)",
            "full completes a phase before the neighbour's half of B is here",
        ),
    ),
)


def _bounded(m: int, n: int, k: int, fault: Fault | None = None) -> LaunchSpec:
    changes = [*BOUNDED]
    if fault:
        changes.append((fault.right, fault.wrong))
    right = hopper_clusters.spec(m, n, k)
    spec = right.with_text(
        changed_text(hopper_clusters, changes), f"hopper_{fault.name if fault else 'right'}"
    )
    warps = _warps(right)
    stride = (warps[1] * warps[2], warps[2], 1)
    return dataclasses.replace(spec, params=(*right.params, Tensor("gave_up", "s32", warps, stride)))


def _warps(spec: LaunchSpec) -> tuple[int, int, int]:
    """CTAs along M and N, and the warps of one."""
    return (*spec.grid[:2], spec.block[0] // 32)


def right(m: int = M, n: int = N, k: int = K) -> LaunchSpec:
    """The launch without a fault, with waits that end."""
    return _bounded(m, n, k)


def broken(fault: str, m: int = M, n: int = N, k: int = K) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    if fault not in FAULTS:
        raise SpecError(f"hopper_broken has no fault {fault!r}; it has {', '.join(FAULTS)}.")
    return _bounded(m, n, k, FAULTS[fault])


def arguments(
    seed: int, m: int = M, n: int = N, k: int = K
) -> tuple[dict[str, Any], str, np.ndarray[Any, Any]]:
    """A and B of small integers, C that nothing has been stored to, and what C should be."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-3, 3, (rows, k), endpoint=True).astype(np.float16) for rows in (m, n))
    given = {"a": a, "b": b, "c": np.full((m, n), -4096, np.float16)}
    gave_up = np.zeros(_warps(hopper_clusters.spec(m, n, k)), np.int32)
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    return {**given, "gave_up": gave_up}, "c", expected


RIGHT = LAUNCH = right()
