"""Parameters of CuTe DSL kernels, packed from what their author declares."""

import re
import tempfile

import numpy as np
import pytest

from cutecourse.analysis import InputError
from cutecourse.analysis.dsl import DslCoordTensor, DslFastDivmod, DslLayout, DslTensor, DslTmaAtom, pack
from cutecourse.emulator import TensorMap, launch
from cutecourse.runtime.compiled import with_lowered_version

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
DIVIDE = """
.visible .entry divide(.param .align 4 .b8 divisor[12], .param .align 8 .b8 out[24], .param .u32 first)
{
    .reg .b32 %d, %m, %n, %t, %q;
    .reg .b16 %s<2>;
    .reg .b64 %out, %step, %at;
    ld.param.b32 %d, [divisor];
    ld.param.b32 %m, [divisor+4];
    ld.param.v2.b8 {%s0, %s1}, [divisor+8];
    ld.param.b64 %out, [out];
    ld.param.b64 %step, [out+16];
    ld.param.b32 %n, [first];
    mov.u32 %t, %tid.x;
    cvt.u64.u32 %at, %t;
    mul.lo.u64 %at, %at, %step;
    shl.b64 %at, %at, 2;
    add.s64 %out, %out, %at;
    add.u32 %n, %n, %t;
    mul.hi.u32 %t, %m, %n;
    sub.u32 %q, %n, %t;
    cvt.u32.u16 %d, %s0;
    shr.u32 %q, %q, %d;
    add.u32 %q, %q, %t;
    cvt.u32.u16 %d, %s1;
    shr.u32 %q, %q, %d;
    st.global.b32 [%out], %q;
    ret;
}
"""
LOAD = """
.visible .entry load(
    .param .align 64 .b8 atom[128], .param .align 4 .b8 coordinates[8], .param .align 8 .b8 out[8]
)
{
    .shared .align 128 .b8 tile[64];
    .shared .align 8 .b64 full;
    .reg .b32 %me, %at, %x;
    .reg .b64 %map, %out, %to;
    .reg .pred %other, %p;
    mov.u32 %me, %tid.x;
    setp.ne.u32 %other, %me, 0;
    mov.b64 %map, atom;
    cvta.param.u64 %map, %map;
    ld.param.b64 %out, [out];
    @%other bra WAIT;
    mbarrier.init.shared.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 64;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [tile], [%map, {4, 1}], [full];
WAIT:
    bar.sync 0;
AGAIN:
    mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
    @!%p bra AGAIN;
    mov.u32 %at, tile;
    mad.lo.u32 %at, %me, 4, %at;
    ld.shared.b32 %x, [%at];
    mul.wide.u32 %to, %me, 4;
    add.u64 %out, %out, %to;
    st.global.b32 [%out], %x;
    ret;
}
"""
DIVISORS = [1, 2, 3, 5, 7, 8, 641, 65535, 1 << 20, (1 << 31) - 1]


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("first", [0, 12345, (1 << 31) - 32])
def test_pack__divides_as_the_kernel_does(divisor, first):
    out = np.zeros((32, 3), np.int32)
    text = HEAD + DIVIDE
    args = pack(text, [DslFastDivmod(divisor), DslTensor(out), first])
    launch(text, grid=1, block=32, args=args)
    np.testing.assert_array_equal(out[:, 0], (np.arange(32) + first) // divisor)


def tile_map(array):
    return TensorMap.tiled(array, dims=(16, 4), strides=(64,), box=(8, 2))


@pytest.mark.parametrize("left_out", [False, True])
def test_pack__a_tma_atom_holds_its_map(left_out):
    source, out = np.arange(64, dtype=np.uint32).reshape(4, 16), np.zeros(16, np.uint32)
    text = HEAD + (LOAD.replace(" .param .align 4 .b8 coordinates[8],", "") if left_out else LOAD)
    coordinates = DslCoordTensor(() if left_out else (4, 16))
    args = pack(text, [DslTmaAtom(tile_map(source)), coordinates, DslTensor(out, extents=())])
    launch(text, grid=1, block=16, args=args)
    np.testing.assert_array_equal(out, source[1:3, 4:12].ravel())


TENSOR = DslTensor(np.zeros((4, 3), np.int32))
WRONG = {
    "one too few": ([DslFastDivmod(3), TENSOR], r"2  \.u32 loads b32 at 0 +nothing  <- not declared"),
    "one too many": (
        [DslFastDivmod(3), TENSOR, 1, 2],
        r"3  nothing +int  <- the kernel has no such parameter",
    ),
    "another order": ([TENSOR, DslFastDivmod(3), 1], r"DslTensor of 24 bytes: pointer at 0, .*<- 12 bytes"),
    "a constant stride": (
        [DslFastDivmod(3), DslTensor(TENSOR.array, strides=()), 1],
        "<- 24 bytes are needed",
    ),
    "strides of 32 bits": (
        [DslFastDivmod(3), DslTensor(TENSOR.array, stride_bits=32), 1],
        "<- the kernel loads b64 at 16, where no such part is",
    ),
    "a number of another size": ([DslFastDivmod(3), TENSOR, np.int64(1)], "<- 4 bytes are needed"),
    "a number for a tensor": ([DslFastDivmod(3), 1, 1], "<- a number for a struct"),
    "a plain array": ([DslFastDivmod(3), TENSOR.array, 1], "ndarray is no argument of a DSL kernel"),
    "no divisor": ([DslFastDivmod(0), TENSOR, 1], "a divisor is in 1..2147483647, not 0"),
}


def test_pack__says_how_to_declare_constants_where_a_tensor_does_not_fit():
    with pytest.raises(InputError, match=r"\nSay which axes are no constants: DslTensor\(array, extents="):
        pack(HEAD + DIVIDE, [DslFastDivmod(3), DslTensor(TENSOR.array, strides=()), 1])
    with pytest.raises(InputError, match="differ") as caught:
        pack(HEAD + DIVIDE, [DslFastDivmod(3), TENSOR])
    assert "constants" not in str(caught.value)


POINTER = """
.visible .entry store(.param .u64 out)
{
    .reg .b64 %out;
    ld.param.b64 %out, [out];
    st.global.b32 [%out], 7;
    ret;
}
"""


def test_pack__a_tensor_of_constants_is_also_a_parameter_that_is_a_pointer():
    """The DSL passes a `cute.Pointer` like that: no struct around it."""
    out = np.zeros(1, np.int32)
    launch(HEAD + POINTER, grid=1, block=1, args=pack(HEAD + POINTER, [DslTensor(out, (), ())]))
    assert out[0] == 7


EXTENTS = """
.visible .entry extents(.param .align 8 .b8 out[32])
{
    .reg .b64 %out, %x<3>;
    ld.param.b64 %out, [out];
    ld.param.b64 %x0, [out+8];
    ld.param.b64 %x1, [out+16];
    ld.param.b64 %x2, [out+24];
    st.global.v2.b64 [%out], {%x0, %x1};
    st.global.b64 [%out+16], %x2;
    ret;
}
"""


def test_pack__extents_of_64_bits():
    """A tensor whose extents are `sym_int64()` holds them as its strides."""
    out = np.zeros((2, 4), np.int64)
    tensor = DslTensor(out, extent_bits=64)
    launch(HEAD + EXTENTS, grid=1, block=1, args=pack(HEAD + EXTENTS, [tensor]))
    assert out[0].tolist() == [2, 4, 4, 0]


@pytest.mark.parametrize(("declared", "said"), WRONG.values(), ids=WRONG)
def test_pack__shows_both_lists_where_they_differ(declared, said):
    with pytest.raises(InputError, match=said):
        pack(HEAD + DIVIDE, declared)


# --- compiled here ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled():
    cutlass = pytest.importorskip("cutlass")
    from cutlass import cute
    from cutlass.base_dsl.compiler import DumpDir
    from cutlass.cute.runtime import make_fake_tensor

    @cute.kernel
    def kernel(
        divisor: cute.FastDivmodDivisor, layout: cute.Layout, to: cute.Tensor, factor: cutlass.Float32
    ):
        thread, _, _ = cute.arch.thread_idx()
        quotient, remainder = divmod(thread, divisor)
        to[quotient, remainder, 1] = factor * cutlass.Float32(layout((thread, 2)))

    @cute.jit
    def host(to: cute.Tensor, n: cutlass.Int32, factor: cutlass.Float32):
        layout = cute.make_layout((n, 4), stride=(1, n))
        divisor = cute.fast_divmod_create_divisor(n)
        kernel(divisor, layout, to, factor).launch(grid=[1, 1, 1], block=[32, 1, 1])

    extents = tuple(cute.sym_int() for _ in range(3))
    strides = (cute.sym_int64(), cute.sym_int64(), 1)
    to = make_fake_tensor(cutlass.Float32, extents, strides, assumed_align=16)
    with tempfile.TemporaryDirectory() as folder:
        options = (cute.GPUArch("sm_80"), cute.KeepPTX(True), DumpDir(folder))
        done = cute.compile[options](host, to, cutlass.Int32(1), cutlass.Float32(1))
    return with_lowered_version(done.__ptx__)


@pytest.mark.compilers
@pytest.mark.parametrize("n", [1, 3, 7, 32])
def test_dsl__kernel_runs_with_what_its_author_declares(compiled, n):
    to = np.zeros((32, 32, 2), np.float32)
    args = pack(compiled, [DslFastDivmod(n), DslLayout((n,), (n,)), DslTensor(to), 0.5])
    launch(compiled, grid=1, block=32, args=args)
    wanted = np.zeros_like(to)
    for thread in range(32):
        wanted[thread // n, thread % n, 1] = 0.5 * (thread + 2 * n)
    np.testing.assert_array_equal(to, wanted)


@pytest.mark.compilers
def test_dsl__what_is_declared_wrongly_stands_beside_what_the_kernel_has(compiled):
    with pytest.raises(InputError) as caught:
        pack(compiled, [DslFastDivmod(3), DslTensor(np.zeros((2, 2, 2), np.float32)), 0.5])
    rows = str(caught.value).splitlines()[1:-1]
    assert len(rows) == 4
    assert re.search(r"\.b8\[40\].*<- 40 bytes are needed|float.*<- a number for a struct", rows[2])
