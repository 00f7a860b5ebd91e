"""Kernels of Triton and numba-cuda from one call: the compiled object, or the text with its metadata."""

from types import SimpleNamespace

import numpy as np
import pytest

from cutecourse.analysis import InputError
from cutecourse.analysis.jits import numba_launch, triton_launch
from cutecourse.emulator import TensorMap, launch

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
# As Triton 3.9 declares its kernels: the last two pointers are its scratch memory.
ADD = f"""{HEAD}
.extern .shared .align 16 .b8 global_smem[];
.visible .entry add(
    .param .u64 .ptr .global .align 1 add_param_0, .param .u64 .ptr .global .align 1 add_param_1,
    .param .u32 add_param_2, .param .u64 .ptr .global .align 1 add_param_3,
    .param .u64 .ptr .global .align 1 add_param_4
)
.reqntid 128
{{
    .reg .b32 %i, %n, %block, %smem;
    .reg .f32 %x;
    .reg .b64 %in, %out, %scratch, %far;
    .reg .pred %past;
    ld.param.b64 %in, [add_param_0];
    ld.param.b64 %out, [add_param_1];
    ld.param.b32 %n, [add_param_2];
    ld.param.b64 %scratch, [add_param_3];
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %smem, global_smem;
    mad.lo.u32 %smem, %i, 4, %smem;
    mad.lo.u32 %i, %block, 128, %i;
    mul.wide.u32 %far, %i, 4;
    add.s64 %scratch, %scratch, %far;
    st.global.b32 [%scratch], %i;
    st.shared.b32 [%smem], %i;
    setp.ge.s32 %past, %i, %n;
    @%past bra END;
    add.s64 %in, %in, %far;
    add.s64 %out, %out, %far;
    ld.global.f32 %x, [%in];
    add.f32 %x, %x, %x;
    st.global.f32 [%out], %x;
END:
    ret;
}}
"""
METADATA = {
    "name": "add",
    "num_warps": 4,
    "num_ctas": 1,
    "shared": 512,
    "global_scratch_size": 512,
    "profile_scratch_size": 0,
}
# A tensor descriptor is a map, its extents and its strides, the outermost first.
DESCRIPTOR = f"""{HEAD}
.visible .entry load(
    .param .align 64 .b8 map[128], .param .u32 rows, .param .u32 columns, .param .u64 far, .param .u64 near,
    .param .u64 out, .param .u64 scratch, .param .u64 profile
)
.reqntid 32
{{
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 full;
    .reg .b32 %me, %at, %x, %rows;
    .reg .b64 %map, %out, %to, %far;
    .reg .pred %other, %p;
    mov.u32 %me, %tid.x;
    setp.ne.u32 %other, %me, 0;
    mov.b32 %at, map;
    cvt.u64.u32 %map, %at;
    cvta.param.u64 %map, %map;
    ld.param.b64 %out, [out];
    @%other bra WAIT;
    mbarrier.init.shared.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [tile], [%map, {{0, 16}}], [full];
WAIT:
    bar.sync 0;
AGAIN:
    mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
    @!%p bra AGAIN;
    ld.param.b32 %rows, [rows];
    ld.param.b64 %far, [far];
    mov.u32 %at, tile;
    mad.lo.u32 %at, %me, 32, %at;
    mul.wide.u32 %to, %me, 4;
    add.u64 %out, %out, %to;
    ld.shared.b32 %x, [%at];
    mad.lo.u32 %x, %rows, 65536, %x;
    cvt.u32.u64 %at, %far;
    mad.lo.u32 %x, %at, 256, %x;
    st.global.b32 [%out], %x;
    ret;
}}
"""
BOX = {"swizzle": 0, "elem_size": 4, "elem_type": 2, "block_size": [32, 8]}


def of_dictionary(text, metadata):
    return {"kernel": text, "metadata": metadata}


def of_object(text, metadata):
    return {"kernel": SimpleNamespace(asm={"ptx": text}, metadata=SimpleNamespace(**metadata))}


@pytest.mark.parametrize("form", [of_dictionary, of_object])
def test_triton__metadata_and_scratch_come_from_the_compiler(form):
    x, out = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    options = triton_launch(**form(ADD, METADATA), grid=3, args=[x, out, 290])
    assert (options["block"], options["dynamic_smem"], len(options["args"])) == ((128,), 512, 5)
    launch(**options)
    np.testing.assert_array_equal(out, np.where(np.arange(300) < 290, 2 * x, 0))
    # The scratch memory holds 512 bytes for each program, and the other pointer has none.
    np.testing.assert_array_equal(options["args"][3].view(np.uint32), np.arange(384))
    assert options["args"][4] == 0


def test_triton__a_program_of_several_ctas_is_a_cluster():
    metadata = {**METADATA, "num_ctas": 2, "num_warps": 8}
    options = triton_launch(ADD, metadata=metadata, grid=(3, 2), args=[np.zeros(1), np.zeros(1), 0])
    assert (options["grid"], options["cluster"]) == ((6, 2, 1), (2, 1, 1))
    assert options["block"] == (128,)
    without = ADD.replace(".reqntid 128", "")
    assert triton_launch(without, metadata=metadata, grid=3, args=[0, 0, 0])["block"] == (256,)


@pytest.mark.parametrize("how", ["array", "map"])
def test_triton__a_descriptor_is_a_map_with_extents_and_strides(how):
    array, out = np.arange(64 * 8, dtype=np.uint32).reshape(64, 8), np.zeros(32, np.uint32)
    tensor_map = TensorMap.tiled(array, dims=(8, 64), strides=(32,), box=(8, 32))
    metadata = {"name": "load", "num_warps": 1, "tensordesc_meta": [BOX]}
    described = array if how == "array" else tensor_map
    launch(**triton_launch(DESCRIPTOR, metadata=metadata, grid=1, args=[described, out]))
    np.testing.assert_array_equal(out, array[16:48, 0] + 64 * 65536 + 8 * 256)


TRITON_WRONG = {
    "no text": ({"kernel": object(), "args": []}, r"a Triton kernel has asm\['ptx'\] and metadata"),
    "no metadata": ({"kernel": ADD, "args": []}, r"a Triton kernel has asm\['ptx'\] and metadata"),
    "too few": (
        {"kernel": ADD, "metadata": METADATA, "args": [0, 0]},
        r"add has 5 parameters, but 2 arguments are given:(.|\n)*2  \.u32 +nothing",
    ),
    "too many": (
        {"kernel": ADD, "metadata": METADATA, "args": [0] * 6},
        r"but 6 arguments are given:(.|\n)*5  nothing +int",
    ),
    "another kernel": ({"kernel": ADD, "metadata": {"name": "sub"}, "args": []}, "no kernel 'sub'"),
    "no warps": (
        {"kernel": ADD.replace(".reqntid 128", ""), "metadata": {"name": "add"}, "args": [0, 0, 0]},
        "the metadata have no num_warps",
    ),
}


@pytest.mark.parametrize(("given", "said"), TRITON_WRONG.values(), ids=TRITON_WRONG)
def test_triton__what_does_not_fit_is_one_error(given, said):
    with pytest.raises(InputError, match=said):
        triton_launch(**given, grid=1)


# --- numba --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scaled_ptx():
    cuda = pytest.importorskip("numba.cuda")
    types = pytest.importorskip("numba.cuda.types")

    def scaled(source, target, factor):
        i = cuda.grid(1)
        if i < target.shape[0]:
            target[i, 1] = factor * source[i]

    signature = types.void(types.float32[::1], types.float32[:, :], types.float32)
    ptx, _ = cuda.compile(scaled, signature, device=False, abi="numba", cc=(8, 0), output="ptx")
    return ptx


class Dispatcher:
    """A kernel as numba-cuda returns it, in as far as its texts are asked for."""

    def __init__(self, **texts):
        self.texts = texts

    def inspect_asm(self, signature=None):
        return self.texts if signature is None else self.texts[signature]


@pytest.mark.parametrize("form", ["text", "kernel", "signature"])
def test_numba__an_array_is_all_its_parameters(scaled_ptx, form):
    kernel = scaled_ptx if form == "text" else Dispatcher(first=scaled_ptx)
    source, target = np.arange(50, dtype=np.float32), np.zeros((40, 3), np.float32)
    options = {"signature": "first"} if form == "signature" else {}
    launch(**numba_launch(kernel, grid=2, block=32, args=[source, target, np.float32(3)], **options))
    np.testing.assert_array_equal(target[:, 1], 3 * source[:40])
    assert not target[:, [0, 2]].any()


def test_numba__what_does_not_fit_is_one_error(scaled_ptx):
    array = np.zeros(4, np.float32)
    with pytest.raises(InputError, match=r"has 17 parameters, but 15 arguments are given:"):
        numba_launch(scaled_ptx, grid=1, block=32, args=[array, array, 1.0])
    with pytest.raises(InputError, match="compiled for 2 signatures: first, second"):
        numba_launch(Dispatcher(first="", second=""), grid=1, block=32, args=[])
    with pytest.raises(InputError, match="type int is no kernel: give a PTX text"):
        numba_launch(5, grid=1, block=32, args=[])
