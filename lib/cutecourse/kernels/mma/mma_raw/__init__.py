"""One mma.sync in PTX by hand, with fragments loaded at the addresses that the PTX ISA's tables give.

C (16x8) += A (16x16) times B (8x16) transposed. All three are row-major in global memory.
"""

from cutecourse.kernels.spec import LaunchSpec, Tensor

PTX = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry mma_raw(.param .u64 a, .param .u64 b, .param .u64 c)
{
    .reg .b32 %lane, %group, %in_group, %offset;
    .reg .b64 %pa, %pb, %pc, %wide;
    .reg .b32 %a<4>, %b<2>;
    .reg .f32 %c<4>;

    // A lane belongs to a group of four; the group picks the row, the place in the group the pair of columns.
    mov.u32 %lane, %tid.x;
    shr.u32 %group, %lane, 2;
    and.b32 %in_group, %lane, 3;

    // A and B: rows of 16 halves are 32 bytes, a pair of halves is one 32-bit register.
    mul.lo.u32       %offset, %group, 32;
    mad.lo.u32       %offset, %in_group, 4, %offset;
    cvt.u64.u32      %wide, %offset;
    ld.param.u64     %pa, [a];
    ld.param.u64     %pb, [b];
    cvta.to.global.u64 %pa, %pa;
    cvta.to.global.u64 %pb, %pb;
    add.u64          %pa, %pa, %wide;
    add.u64          %pb, %pb, %wide;
    ld.global.b32    %a0, [%pa];          // row group,     columns 0-7
    ld.global.b32    %a1, [%pa + 256];    // row group + 8, columns 0-7
    ld.global.b32    %a2, [%pa + 16];     // row group,     columns 8-15
    ld.global.b32    %a3, [%pa + 272];    // row group + 8, columns 8-15
    ld.global.b32    %b0, [%pb];          // k 0-7,  n = group
    ld.global.b32    %b1, [%pb + 16];     // k 8-15, n = group

    // C: rows of 8 floats are 32 bytes, a pair of floats is 8.
    mul.lo.u32       %offset, %group, 32;
    mad.lo.u32       %offset, %in_group, 8, %offset;
    cvt.u64.u32      %wide, %offset;
    ld.param.u64     %pc, [c];
    cvta.to.global.u64 %pc, %pc;
    add.u64          %pc, %pc, %wide;
    ld.global.v2.f32 {%c0, %c1}, [%pc];
    ld.global.v2.f32 {%c2, %c3}, [%pc + 256];

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};

    st.global.v2.f32 [%pc], {%c0, %c1};
    st.global.v2.f32 [%pc + 256], {%c2, %c3};
    ret;
}
"""

LAUNCH = LaunchSpec(
    name="mma_raw",
    module="mma_raw",
    language="ptx",
    ptx=PTX.lstrip(),
    entry="mma_raw",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(
        Tensor("a", "f16", (16, 16), (16, 1)),
        Tensor("b", "f16", (8, 16), (16, 1)),
        Tensor("c", "f32", (16, 8), (8, 1)),
    ),
)
