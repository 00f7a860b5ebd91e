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
from cutecourse.kernels.faults import Fault, by_name
from cutecourse.kernels.spec import LaunchSpec, Tensor

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

BOUNDED = Fault(
    "right",
    "waits end, and CTA 1 is slow",
    source=(
        ("@cute.kernel\n", f"{WAIT}@cute.kernel\n"),
        ("    mC: cute.Tensor,\n", "    mC: cute.Tensor,\n    gave_up: cute.Tensor,\n"),
        ("mC: cute.Tensor):\n", "mC: cute.Tensor, gave_up: cute.Tensor):\n"),
        ("mC, layout_a, layout_b)", "mC, gave_up, layout_a, layout_b)"),
        ("cute.arch.mbarrier_wait(full + stage, turn % 2)", f"wait(full + stage, turn % 2, gave_up){SLOW}"),
        (
            "cute.arch.mbarrier_wait(empty + stage, turn % 2 ^ 1)",
            "wait(empty + stage, turn % 2 ^ 1, gave_up)",
        ),
    ),
    twin=(
        (".param .u64 c)", ".param .u64 c, .param .u64 gave_up)"),
        (".reg .f32 %c<128>;", ".reg .f32 %c<128>;\n    .reg .b32 %tries;\n    .reg .b64 %gave_up;"),
        *(
            (
                f"""\
UNTIL_{what}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%full + {at}], %parity;
    @!%done bra         UNTIL_{what};
""",
                f"""\
    mov.u32             %tries, 1000;
UNTIL_{what}:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%full + {at}], %parity;
    @%done bra          IS_{what};
    sub.u32             %tries, %tries, 1;
    setp.ne.u32         %p, %tries, 0;
    @%p bra             UNTIL_{what};
    mov.u32             %at, %ctaid.x;                  // gave_up[CTA along M, CTA along N, warp] = 1
    mov.u32             %block, %nctaid.y;
    mul.lo.u32          %at, %at, %block;
    mov.u32             %block, %ctaid.y;
    add.u32             %at, %at, %block;
    shr.u32             %block, %thread, 5;
    mad.lo.u32          %at, %at, 12, %block;
    mul.wide.u32        %offset, %at, 4;
    ld.param.u64        %gave_up, [gave_up];
    cvta.to.global.u64  %gave_up, %gave_up;
    add.u64             %gave_up, %gave_up, %offset;
    mov.u32             %at, 1;
    st.global.u32       [%gave_up], %at;
IS_{what}:
{slow}""",
            )
            for what, at, slow in (
                (
                    "FULL",
                    196608,
                    """\
    setp.eq.u32         %p, %rank, 1;
    @%p nanosleep.u32   4000;
""",
                ),
                ("EMPTY", 196640, ""),
            )
        ),
    ),
    unreported="it is no fault",
)
"""The lines that the kernel with waits that end has instead of the kernel's own."""

FAULTS = by_name(
    __name__,
    Fault(
        "released_early",
        "a consumer releases a stage while its wgmma may still read it",
        source=(("warpgroup.wait_group(1)", "warpgroup.wait_group(2)"),),
        twin=(("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "counts_one_warpgroup",
        "empty completes a phase when one of two warpgroups has read the stage",
        source=(("CLUSTER[0] * 4 * CONSUMERS)", "CLUSTER[0] * 4)"),),
        twin=(("[%full + 196640], 16;", "[%full + 196640], 8;"),),
        reports=("StageReusedEarly", "ReadBeforeWait"),
    ),
    Fault(
        "tells_its_own_cta",
        "a CTA's warps arrive twice at home and never at the neighbour",
        source=(("empty + (k - 1) % STAGES, cta)", "empty + (k - 1) % STAGES)"),),
        twin=(("u32 %far, %at, %far;", "u32 %far, %at, %rank;"),),
        reports=("StageReusedEarly",),
    ),
    Fault(
        "remote_arrive_forgotten",
        "all warps tell CTA 0, and CTA 1 waits for ever",
        source=(("range_constexpr(CLUSTER[0]):\n", "range_constexpr(CLUSTER[0] - 1):\n"),),
        twin=(("setp.lt.u32         %tells, %at, 2;", "setp.lt.u32         %tells, %at, 1;"),),
        reports=("DeadlockError",),
    ),
    Fault(
        "starts_with_the_wrong_parity",
        "the producer waits until somebody has read a stage that nobody has filled",
        source=(("turn % 2 ^ 1", "turn % 2"),),
        twin=(("xor.b32             %parity, %parity, 1;", ""),),
        reports=("DeadlockError",),
    ),
    Fault(
        "expects_its_own_half",
        "full completes a phase before the neighbour's half of B is here",
        source=(("tile_bytes = (TILE[0] + TILE[1])", "tile_bytes = (TILE[0] + TILE[1] // 2)"),),
        twin=(("[%full], 49152;", "[%full], 32768;"),),
        reports=("UninitializedRead",),
    ),
)


def _warps(spec: LaunchSpec) -> tuple[int, int, int]:
    """CTAs along M and N, and the warps of one."""
    return (*spec.grid[:2], spec.block[0] // 32)


def right(m: int = M, n: int = N, k: int = K) -> LaunchSpec:
    """The launch without a fault, with waits that end."""
    launch = hopper_clusters.spec(m, n, k)
    warps = _warps(launch)
    gave_up = Tensor("gave_up", "s32", warps, (warps[1] * warps[2], warps[2], 1))
    bounded = launch.with_fault(BOUNDED, "hopper_right")
    return dataclasses.replace(bounded, params=(*launch.params, gave_up))


def broken(fault: str, m: int = M, n: int = N, k: int = K) -> LaunchSpec:
    """The launch with one fault. Errors: SpecError for a name that is none of `FAULTS`."""
    return right(m, n, k).with_fault(FAULTS[fault], f"hopper_{fault}")


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
