"""Measure how many powers of two a Hopper SM takes in a cycle, by themselves and while wgmma runs.

    python -m benchmarks.exp_rate             writes benchmarks/results/exp_rate_<gpu>.json
    python -m benchmarks.exp_rate --output F  writes F

A CTA on each SM: some warpgroups multiply with m64n128k16 over and over, others take powers, 16 of each
thread's own in a turn of the loop. "powers" is `ex2.approx.ftz.f32` and nothing else; "softmax" is what
attention does with a logit: a maximum, a multiply-add, the power, a sum, and half a conversion to bf16.
Nothing is loaded or stored in the loops. A warpgroup reads the SM's clock before and after its loop, and the
other kind has work for about twice as long, so that they overlap from the first turn to the last.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.launching import Loaded, assembled
from benchmarks.results_file import result_path, write_result
from cutecourse import runtime
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor
from tools.facts import of_this_machine

__all__ = ["CASES", "LoopMix", "mix_spec", "powers_after"]

POWERS = 16
"""Powers of a thread in a turn of the loop."""
MMAS = 8
"""wgmma instructions of a warpgroup in a turn of the loop: a k-tile of 128."""
MMA_CYCLES = 64 * 128 * 16 // 2048
TURNS = 4000
"""Turns of the loop that is measured: at least 100,000 cycles."""

_TEXT = """
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 smem[];

.visible .entry exp_rate(.param .u64 powers, .param .u64 cycles, .param .u32 mma_turns, .param .u32 exp_turns)
{{
    .reg .pred %more, %first;
    .reg .b32 %mine, %group, %at, %turn, %turns, %h;
    .reg .b64 %base, %offset, %desc, %t0, %t1;
    .reg .f32 %c<64>, %p<{powers}>, %x, %max, %sum;

    mov.u32       %mine, %tid.x;
    shr.u32       %group, %mine, 7;
    mov.u32       %at, smem;
    mad.lo.u32    %at, %mine, 16, %at;
    mov.u32       %turn, 0;
fill:
    st.shared.v4.b32 [%at], {{0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}};
    add.u32       %at, %at, {stride};
    add.u32       %turn, %turn, {stride};
    setp.lt.u32   %more, %turn, {smem_bytes};
@%more bra fill;
    mov.u32       %turn, 0;
    fence.proxy.async;
    bar.sync      0;
    mov.u64       %t0, %clock64;
    setp.ge.u32   %more, %group, {mma_groups};
@%more bra exps;

    ld.param.u32  %turns, [mma_turns];
    mov.u32       %at, smem;
    shr.u32       %at, %at, 4;
    cvt.u64.u32   %desc, %at;
    or.b64        %desc, %desc, 0x4000004000010000;
{clear}
again:
    wgmma.fence.sync.aligned;
{multiply}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    add.u32       %turn, %turn, 1;
    setp.lt.u32   %more, %turn, %turns;
@%more bra again;
    mov.u64       %t1, %clock64;
    mov.f32       %sum, %c0;
    bra           done;

exps:
    ld.param.u32  %turns, [exp_turns];
    mov.f32       %max, 0fFF800000;
    mov.f32       %sum, 0f00000000;
    and.b32       %h, %mine, 127;
{start}
more_exps:
{take}
    add.u32       %turn, %turn, 1;
    setp.lt.u32   %more, %turn, %turns;
@%more bra more_exps;
    mov.u64       %t1, %clock64;
{gather}
done:
    sub.u64       %t1, %t1, %t0;
    mov.u32       %at, %ctaid.x;
    mad.lo.u32    %at, %at, {threads}, %mine;
    ld.param.u64  %base, [powers];
    mul.wide.u32  %offset, %at, 4;
    add.u64       %base, %base, %offset;
    st.global.f32 [%base], %sum;
    and.b32       %h, %mine, 127;
    setp.eq.u32   %first, %h, 0;
    shr.u32       %at, %at, 7;
    ld.param.u64  %base, [cycles];
    mul.wide.u32  %offset, %at, 8;
    add.u64       %base, %base, %offset;
@%first st.global.u64 [%base], %t1;
    ret;
}}
"""


class LoopMix(NamedTuple):
    """A case: how many warpgroups multiply, how many take powers, and what these do beside it."""

    mma_groups: int
    exp_groups: int
    work: str = "powers"


CASES: dict[LoopMix, tuple[float | None, float | None]] = {
    LoopMix(0, 1): (16, None),
    LoopMix(0, 2): (16, None),
    LoopMix(0, 1, "softmax"): (12, None),
    LoopMix(0, 2, "softmax"): (14, None),
    LoopMix(1, 0): (None, 1950),
    LoopMix(2, 0): (None, 2040),
    LoopMix(1, 1): (16, 1900),
    LoopMix(1, 2): (16, 1850),
    LoopMix(2, 1): (16, 2000),
    LoopMix(1, 1, "softmax"): (12, 1900),
    LoopMix(1, 2, "softmax"): (14, 1850),
    LoopMix(2, 1, "softmax"): (12, 2000),
}
"""Each with its prediction from before the first run: powers, and multiply-adds, of an SM in a cycle."""


def mix_spec(blocks: int, mix: LoopMix) -> LaunchSpec:
    """The launch of one case.

    Parameters: powers, a number of each thread, the sum of its powers (or an accumulator); cycles, of each
    warpgroup; mma_turns and exp_turns.
    """
    groups = mix.mma_groups + mix.exp_groups
    accumulators = ", ".join(f"%c{one}" for one in range(64))
    take = []
    for at in range(POWERS):
        if mix.work == "powers":
            take.append(f"    neg.f32 %x, %p{at}; ex2.approx.ftz.f32 %p{at}, %x;")
        else:
            take.append(f"    max.f32 %max, %max, %p{at}; fma.rn.f32 %x, %p{at}, 0fBF800000, 0f00000000;")
            take.append(f"    ex2.approx.ftz.f32 %p{at}, %x; add.f32 %sum, %sum, %p{at};")
            if at % 2:
                take.append(f"    cvt.rn.bf16x2.f32 %h, %p{at}, %p{at - 1}; add.u32 %at, %at, %h;")
    gather = [f"    add.f32 %sum, %sum, %p{at};" for at in range(POWERS)] if mix.work == "powers" else []
    if mix.work == "softmax":  # what is not used is not computed
        gather = ["    xor.b32 %h, %at, %turn; cvt.rn.f32.u32 %x, %h; mul.f32 %x, %x, 0f00000000;"]
        gather += ["    add.f32 %sum, %sum, %x; fma.rn.f32 %sum, %max, 0f00000000, %sum;"]
    start = [f"    cvt.rn.f32.u32 %p{at}, %h; mul.f32 %p{at}, %p{at}, 0f3B800000;" for at in range(POWERS)]
    multiply = [
        f"    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{accumulators}}}, %desc, %desc, "
        f"{'1' if step else '0'}, 1, 1, 0, 0;"
        for step in range(MMAS)
    ]
    smem = 128 * 128
    text = _TEXT.format(
        powers=POWERS,
        stride=16 * 128 * groups,
        smem_bytes=smem,
        threads=128 * groups,
        mma_groups=mix.mma_groups,
        clear="\n".join(f"    mov.f32       %c{i}, 0f00000000;" for i in range(64)),
        multiply="\n".join(multiply),
        start="\n".join(start),
        take="\n".join(take),
        gather="\n".join(gather),
    )
    return LaunchSpec(
        name="exp_rate",
        language="ptx",
        ptx=text.lstrip(),
        entry="exp_rate",
        grid=(blocks, 1, 1),
        block=(128 * groups, 1, 1),
        dynamic_smem=-(-smem // (2048 * groups)) * 2048 * groups,
        params=(
            Tensor("powers", "f32", (blocks * 128 * groups,)),
            Tensor("cycles", "u64", (blocks * groups,)),
            Scalar("mma_turns", "u32"),
            Scalar("exp_turns", "u32"),
        ),
        target="sm_90a",
    )


def powers_after(turns: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The last power of each of 128 threads: x becomes 2 ** -x in each turn."""
    x = np.arange(128) / 256
    for _ in range(turns):
        x = 2.0**-x
    return x


def measured(mix: LoopMix, blocks: int) -> dict[str, Any]:
    """One case on the GPU: powers and multiply-adds of an SM in a cycle."""
    import torch

    spec = mix_spec(blocks, mix)
    kernel = Loaded(assembled(spec.ptx or "", spec, "exp_rate", "sm_90a"))
    groups = mix.mma_groups + mix.exp_groups
    out = torch.zeros(blocks * 128 * groups, device="cuda")
    cycles = torch.zeros((blocks, groups), dtype=torch.int64, device="cuda")
    exp_cycles = mix.exp_groups * 128 * POWERS / 16  # of a turn, at 16 powers a cycle
    mma_cycles = mix.mma_groups * MMAS * MMA_CYCLES
    row: dict[str, Any] = {**mix._asdict(), "registers": kernel.built.registers}
    row["serialized"] = kernel.built.serialized
    for what, groups_of, turn, other in (
        ("powers", slice(mix.mma_groups, groups), exp_cycles, mma_cycles),
        ("fmas", slice(0, mix.mma_groups), mma_cycles, exp_cycles),
    ):
        if not turn:
            continue
        turns = [TURNS, int(3 * TURNS * turn / other) if other else 0]
        given = turns[::-1] if what == "powers" else turns
        for _ in range(3):
            kernel.launch(out.data_ptr(), cycles.data_ptr(), *(np.uint32(one) for one in given))
        torch.cuda.synchronize()
        spent = float(cycles[:, groups_of].amax(dim=1).double().median())
        work = 128 * POWERS * mix.exp_groups if what == "powers" else 64 * 128 * 16 * MMAS * mix.mma_groups
        row[f"{what}_per_cycle"] = TURNS * work / spent
    row["predicted_powers"], row["predicted_fmas"] = CASES[mix]
    if mix.exp_groups and mix.work == "powers":
        found = out.view(blocks, groups, 128)[:, mix.mma_groups :] / POWERS
        wanted = torch.tensor(powers_after(TURNS), device="cuda")
        if not bool(((found - wanted).abs() <= 1e-5).all()):
            raise runtime.GpuError(f"{mix}: a power is wrong.")
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Format the cases: measured, and predicted in brackets."""

    def cell(row: dict[str, Any], what: str) -> str:
        rate, said = row.get(f"{what}_per_cycle"), row[f"predicted_{what}"]
        return "" if rate is None else f"{rate:.1f} ({said:.0f})"

    lines = ["warpgroups that multiply, that take powers    powers per cycle    multiply-adds per cycle"]
    for row in rows:
        what = f"{row['mma_groups']}, {row['exp_groups']} {row['work']}"
        lines.append(f"{what:<44} {cell(row, 'powers'):>17} {cell(row, 'fmas'):>26}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the result, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    found = runtime.discover()
    gpu = found.devices[0] if found.devices else None
    if gpu is None or gpu.compute_capability != (9, 0):
        print(f"exp_rate: missing: a Hopper GPU: {gpu.name if gpu else found.reason}", file=sys.stderr)
        return 1
    import torch

    torch.zeros(1, device="cuda")  # PyTorch's context is the primary one, which the kernels share
    rows = [measured(mix, gpu.multiprocessors) for mix in CASES]
    result = {
        "recorded": {**of_this_machine(), "multiprocessors": gpu.multiprocessors},
        "method": f"the last of 3 launches, {TURNS} turns; a CTA's slowest warpgroup, the CTAs' median",
        "rows": rows,
    }
    print(table(rows))
    write_result(json.loads(json.dumps(result)), options.output or result_path("exp_rate", gpu.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
