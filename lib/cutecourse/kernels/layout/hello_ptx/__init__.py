"""The smallest kernel that does something, in PTX: 32 threads write the squares of their indices."""

from cutecourse.kernels.spec import LaunchSpec, Tensor

PTX = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry hello_ptx(.param .u64 out)
{
    .reg .b32 %thread, %square;
    .reg .b64 %base, %offset;

    ld.param.u64        %base, [out];
    cvta.to.global.u64  %base, %base;
    mov.u32             %thread, %tid.x;
    mul.lo.u32          %square, %thread, %thread;
    mul.wide.u32        %offset, %thread, 4;
    add.u64             %base, %base, %offset;
    st.global.u32       [%base], %square;
    ret;
}
"""

LAUNCH = LaunchSpec(
    name="hello_ptx",
    module="hello_ptx",
    language="ptx",
    ptx=PTX.lstrip(),
    entry="hello_ptx",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    params=(Tensor("out", "u32", (32,)),),
)
