"""The time of mma.sync: each warp issues chains of it and reads the clock before and after.

In a chain every instruction waits for the accumulator of the one before, so one chain in one warp shows the
latency. Several chains or warps are independent of each other, so they show the tensor cores' throughput.

All factors are 1, so an instruction adds 16 to each accumulator. The sums written at the end say how many
instructions ran.
"""

from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor

UNROLLED = 32
"""Rounds over the chains in one turn of the loop; `turns` turns of it are timed.

The branch back costs some 4 to 35 cycles a turn on an H200, so that eight rounds a turn would show too much.
"""

_ENTRY = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry mma_timing(.param .u64 start, .param .u64 stop, .param .u64 sums, .param .u32 turns)
{{
    .reg .pred %more, %first_lane;
    .reg .b32 %thread, %lane, %warp, %turn, %ones;
    .reg .b64 %t0, %t1, %base, %offset;
    .reg .f32 %c<{registers}>, %sum;

    mov.u32       %thread, %tid.x;
    and.b32       %lane, %thread, 31;
    shr.u32       %warp, %thread, 5;
    ld.param.u32  %turn, [turns];
    mov.b32       %ones, 0x3c003c00;              // two halves, 1.0 each
{clear}
    bar.sync      0;
    mov.u64       %t0, %clock64;
again:
{chains}
    sub.u32       %turn, %turn, 1;
    setp.ne.u32   %more, %turn, 0;
@%more bra again;
    mov.u64       %t1, %clock64;

    mov.f32       %sum, 0f00000000;
{add}
    mul.wide.u32  %offset, %thread, 4;
    ld.param.u64  %base, [sums];
    cvta.to.global.u64 %base, %base;
    add.u64       %base, %base, %offset;
    st.global.f32 [%base], %sum;

    setp.eq.u32   %first_lane, %lane, 0;
    mul.wide.u32  %offset, %warp, 8;
    ld.param.u64  %base, [start];
    cvta.to.global.u64 %base, %base;
    add.u64       %base, %base, %offset;
@%first_lane st.global.u64 [%base], %t0;
    ld.param.u64  %base, [stop];
    cvta.to.global.u64 %base, %base;
    add.u64       %base, %base, %offset;
@%first_lane st.global.u64 [%base], %t1;
    ret;
}}
"""


def timing_spec(chains: int, warps: int) -> LaunchSpec:
    """One block of `warps` warps, each with `chains` independent chains of mma.sync (1 to 16).

    Parameters of the launch: start, stop (clock cycles, one for each warp), sums (one a thread), turns.
    Each warp issues `chains * UNROLLED * turns` instructions.
    Errors: SpecError outside 1 to 16 chains or 1 to 32 warps.
    """
    if not 1 <= chains <= 16 or not 1 <= warps <= 32:
        raise SpecError(f"1 to 16 chains and 1 to 32 warps, not {chains} and {warps}.")
    accumulators = [[f"%c{4 * chain + register}" for register in range(4)] for chain in range(chains)]
    flat = [register for accumulator in accumulators for register in accumulator]
    chain_lines = []
    for accumulator in accumulators * UNROLLED:
        c = ", ".join(accumulator)
        chain_lines.append(
            "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            f"{{{c}}}, {{%ones, %ones, %ones, %ones}}, {{%ones, %ones}}, {{{c}}};"
        )
    text = _ENTRY.format(
        registers=len(flat),
        clear="\n".join(f"    mov.f32       {register}, 0f00000000;" for register in flat),
        chains="\n".join(chain_lines),
        add="\n".join(f"    add.f32       %sum, %sum, {register};" for register in flat),
    )
    return LaunchSpec(
        name="mma_timing",
        module="mma_timing",
        language="ptx",
        ptx=text.lstrip(),
        entry="mma_timing",
        grid=(1, 1, 1),
        block=(32 * warps, 1, 1),
        params=(
            Tensor("start", "u64", (warps,)),
            Tensor("stop", "u64", (warps,)),
            Tensor("sums", "f32", (32 * warps,)),
            Scalar("turns", "u32"),
        ),
    )


LAUNCH = timing_spec(chains=1, warps=1)
