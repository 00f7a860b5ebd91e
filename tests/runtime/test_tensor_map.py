"""Parameters that are tensor maps: what reaches the kernel on the emulator and on a GPU, and the refusals."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.kernels.spec import LaunchSpec, Scalar, SpecError, Tensor, TensorMapSpec
from cutecourse.layout import Layout
from cutecourse.runtime import gpu
from cutecourse.runtime.arguments import bind, flat_arguments
from cutecourse.runtime.errors import ArgumentError, DeviceError, GpuError
from cutecourse.runtime.tensor_map import MappedArray, driver_tensor_map
from cutecourse.tma import TensorMapEncoding

EVERYWHERE = pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90"), id="gpu")]
)
LINE = TensorMapEncoding("f32", dims=(128,), strides_bytes=(), box=(32,))

# Loads 32 numbers of x at `at` by TMA. Each thread adds `step` to its own and writes it to x, by the pointer;
# the tile as it came goes to y at `at`, by TMA again. Maps, numbers and a pointer stand in a mixed order.
SHIFT = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry shift(
    .param .u32 at, .param .align 64 .b8 from[128], .param .f32 step,
    .param .align 64 .b8 to[128], .param .u64 x)
{
    .reg .pred %first, %done;
    .reg .b32 %lane, %at, %smem;
    .reg .f32 %value, %step;
    .reg .b64 %from, %to, %x;
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b64 full;

    mov.u32             %lane, %tid.x;
    setp.eq.u32         %first, %lane, 0;
    ld.param.u32        %at, [at];
    ld.param.f32        %step, [step];
    ld.param.u64        %x, [x];
    cvta.to.global.u64  %x, %x;
    mov.b64             %from, from;
    cvta.param.u64      %from, %from;
    mov.b64             %to, to;
    cvta.param.u64      %to, %to;

    @%first mbarrier.init.shared::cta.b64 [full], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync            0;
    @!%first bra        WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
                        [tile], [%from, {%at}], [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [full], 0;
    @!%done bra         WAIT;
    mov.u32             %smem, tile;
    mad.lo.u32          %smem, %lane, 4, %smem;
    ld.shared.f32       %value, [%smem];
    add.f32             %value, %value, %step;
    mad.wide.u32        %x, %lane, 4, %x;
    st.global.f32       [%x], %value;
    @!%first bra        END;
    cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%to, {%at}], [tile];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    ret;
}
"""
SHIFT_SPEC = LaunchSpec(
    name="shift",
    language="ptx",
    ptx=SHIFT.lstrip(),
    grid=1,
    block=32,
    params=(
        Scalar("at", "u32"),
        TensorMapSpec.encoded("from_map", "f32", 128, 1, LINE, array="x"),
        Scalar("step", "f32"),
        TensorMapSpec.encoded("y", "f32", 128, 1, LINE),
        Tensor("x", "f32", 128, 1),
    ),
    target="sm_90",
)

RANKS = """
.version 8.0
.target sm_90
.address_size 64

.visible .entry ranks(.param .u64 out)
{
    .reg .b32 %rank, %size, %x, %y, %width;
    .reg .b64 %out;
    ld.param.u64        %out, [out];
    cvta.to.global.u64  %out, %out;
    mov.u32             %rank, %cluster_ctarank;
    mov.u32             %size, %cluster_nctarank;
    mov.u32             %x, %ctaid.x;
    mov.u32             %y, %ctaid.y;
    mov.u32             %width, %nctaid.x;
    mad.lo.u32          %x, %y, %width, %x;
    mad.wide.u32        %out, %x, 8, %out;
    st.global.v2.b32    [%out], {%rank, %size};
    ret;
}
"""


def shift(device, **changes):
    x = np.arange(128, dtype=np.float32)
    given = {"at": 40, "step": 0.5, "x": x, "y": np.full(128, -1, np.float32)}
    return runtime.run(SHIFT_SPEC, device=device, **{**given, **changes}), x


@EVERYWHERE
def test_run__gives_maps_pointers_and_numbers_in_the_kernels_order(device):
    run, x = shift(device)
    tile = x[40:72]
    assert np.array_equal(run["x"][:32], tile + 0.5)
    assert np.array_equal(run["x"][32:], x[32:])
    assert np.array_equal(run["y"][40:72], tile)
    assert np.all(np.delete(run["y"], np.s_[40:72]) == -1)


@EVERYWHERE
def test_run__a_box_beyond_the_end_brings_zeros_and_stores_nothing_there(device):
    run, x = shift(device, at=120)
    assert np.array_equal(run["x"][:32], np.concatenate([x[120:], np.zeros(24, np.float32)]) + 0.5)
    assert np.array_equal(run["y"][120:], x[120:])
    assert np.all(run["y"][:120] == -1)


@EVERYWHERE
@pytest.mark.parametrize("cluster", [(1, 1, 1), (2, 2, 1), (4, 2, 1), (4, 4, 1), (16, 1, 1)])
def test_run__launches_clusters_up_to_16_ctas(device, cluster):
    grid = (16, 4, 1)
    spec = LaunchSpec(
        name="ranks",
        language="ptx",
        ptx=RANKS.lstrip(),
        grid=grid,
        block=1,
        cluster=cluster,
        params=(Tensor("out", "u32", (4, 16, 2)),),
        target="sm_90",
    )
    run = runtime.run(spec, device=device, out=np.zeros((4, 16, 2), np.uint32))
    y, x = np.mgrid[0:4, 0:16]
    width, height, _ = cluster
    assert np.array_equal(run["out"][..., 0], x % width + y % height * width)
    assert np.all(run["out"][..., 1] == width * height)


def test_run__with_trace_tells_what_the_emulator_did():
    run = runtime.run(
        SHIFT_SPEC,
        device="emulator",
        seed=3,
        trace=True,
        at=40,
        step=0.5,
        x=np.zeros(128, np.float32),
        y=np.zeros(128, np.float32),
    )
    snapshot = run.trace.to_snapshot()
    assert {name: snapshot[name] for name in snapshot if name != "events"} == {
        "kernel": "shift",
        "where": "emulator",
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
        "cluster": [1, 1, 1],
        "seed": 3,
        "variables": {"tile": [0, 128], "full": [128, 136]},
        "memory": False,
    }
    load, store = run.trace.transfers()
    assert (load.issue["operation"], load.issue["tensor"], load.issue["bytes"]) == ("load", "x", 128)
    assert (store.issue["operation"], store.issue["tensor"], store.issue["coords"]) == ("store", "y", [40])
    assert sum(landing.bytes for landing in load.landings) == 128
    (full,) = run.trace.barriers()
    assert (full.states[0].pending, full.states[-1].phase) == (1, 1)


@EVERYWHERE
def test_run__takes_the_dsls_atoms_in_any_order_with_numbers_and_pointers(device):
    pytest.importorskip("cutlass", reason="the CuTe DSL compiles the kernel")
    from runtime import two_maps_dsl

    random = np.random.default_rng(3)
    a, b = (random.integers(-99, 99, shape).astype(np.int32) for shape in ((64, 64), (32, 128)))
    run = runtime.run(
        two_maps_dsl, device=device, a=a, scale=-3, b=b, out=np.zeros(two_maps_dsl.TILE, np.int32)
    )
    assert np.array_equal(run["out"], a[32:64] * -3 + b[:, 64:128])
    assert np.all(run["a"][:, 0] == -3)
    assert np.array_equal(run["a"][:, 1:], a[:, 1:])
    assert np.array_equal(run["b"], b)


def test_run__without_trace_has_none():
    assert shift("emulator")[0].trace is None


@pytest.mark.gpu("sm_90")
def test_run__records_no_trace_on_a_gpu():
    with pytest.raises(DeviceError, match=r'shift: only the emulator records a trace.*device="emulator"'):
        shift("cuda:0", trace=True)


# --- the driver's maps ------------------------------------------------------------------------------------


@pytest.mark.gpu("sm_90")
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"box": (257,)}, "box"),
        ({"box": (3,)}, "inner_multiple"),
        ({"box": (64,), "swizzle": "128B"}, "swizzle_span"),
        ({"element_strides": (9,)}, "element_strides"),
    ],
)
def test_driver_tensor_map__tells_the_drivers_refusal(changes, rule):
    encoding = LINE.replace(**changes)
    assert rule in {error.rule for error in encoding.violations()}
    with pytest.raises(GpuError, match=r"refuses the tensor map: CUDA_ERROR_INVALID_VALUE"):
        driver_tensor_map(encoding, 1 << 20)


@pytest.mark.gpu("sm_90")
def test_driver_tensor_map__is_128_bytes_that_depend_on_the_fields_alone():
    first = driver_tensor_map(LINE, 1 << 20)
    assert len(first) == 128
    assert driver_tensor_map(LINE, 1 << 20) == first
    assert driver_tensor_map(LINE, 2 << 20) != first


def test_launch__copies_an_array_once_and_maps_its_copy(monkeypatch, on_host):
    """The map is made of the address on the GPU, and lies byte for byte where the launch points."""
    seen = {}

    def kernel(parameters):
        seen["map"] = ctypes.string_at(parameters[0], 128)
        seen["pointer"] = ctypes.c_uint64.from_address(parameters[1]).value
        (ctypes.c_float * 4).from_address(seen["pointer"])[2] = 7

    monkeypatch.setattr(gpu, "driver_tensor_map", lambda encoding, at: at.to_bytes(8, "little") * 16)
    driver = on_host(kernel)
    array = np.zeros(4, np.float32)
    with gpu.GpuKernel("ptx", "k") as loaded:
        loaded.launch([MappedArray("a", LINE, array), array], grid=(1, 1, 1), block=(1, 1, 1))
    assert driver.calls.count("cuMemAlloc") == driver.calls.count("cuMemcpyDtoH") == 1
    assert seen["map"] == seen["pointer"].to_bytes(8, "little") * 16
    assert array.tolist() == [0, 0, 7, 0]
    assert driver.memory == {}


def test_launch__a_refused_map_names_its_parameter_and_frees_the_memory(monkeypatch, on_host):
    def refuse(encoding, address):
        raise GpuError("refused")

    monkeypatch.setattr(gpu, "driver_tensor_map", refuse)
    driver = on_host()

    def attempt():
        with gpu.GpuKernel("ptx", "k") as loaded:
            loaded.launch([MappedArray("a", LINE, np.zeros(4))], grid=(1, 1, 1), block=(1, 1, 1))

    with pytest.raises(GpuError, match="k: parameter a: refused"):
        attempt()
    assert driver.memory == {}


# --- arguments --------------------------------------------------------------------------------------------


def maps(*params):
    return LaunchSpec(
        name="k", language="ptx", ptx=".target sm_90", target="sm_90", grid=1, block=1, params=params
    )


def tiles(shape=(64, 64), stride=(64, 1), **changes):
    given = {"smem_layout": Layout((8, 64), (64, 1)), "cta_tiler": (8, 64)}
    return TensorMapSpec("a", "f16", shape, stride, **{**given, **changes})


def test_flat_arguments__an_array_by_map_and_by_pointer_is_one_memory():
    spec = maps(TensorMapSpec.encoded("m", "f32", 128, 1, LINE, array="x"), Tensor("x", "f32", 128, 1))
    assert list(spec.arguments) == ["x"]
    mapped, pointer = flat_arguments(spec, bind(spec, {"x": np.zeros(128, np.float32)}))
    assert mapped.array is pointer
    assert (mapped.name, mapped.encoding) == ("x", LINE)


def test_emulator_arguments__have_the_emulators_maps_over_the_same_memory():
    twice = [TensorMapSpec.encoded(name, "f32", 128, 1, LINE, array="x") for name in ("m", "n")]
    spec = maps(twice[0], Scalar("step", "f32"), Tensor("x", "f32", 128, 1), twice[1])
    bound = bind(spec, {"x": np.zeros(128, np.float32), "step": 2})
    m, step, x, n = runtime.emulator_arguments(spec, bound)
    assert x is bound["x"].buffer
    assert (step, step.dtype) == (2, np.float32)
    assert [(one.name, one.dims, one.box) for one in (m, n)] == [("x", (128,), (32,))] * 2
    assert all(np.shares_memory(one.array, x) for one in (m, n))
    # Another box for the second.
    m, _, _, n = runtime.emulator_arguments(spec, bound, {"n": replace(LINE, box=(64,))})
    assert (m.box, n.box) == ((32,), (64,))
    with pytest.raises(ArgumentError, match="k has no tensor map x; it has m, n"):
        runtime.emulator_arguments(spec, bound, {"x": LINE})


def test_tensor_map__takes_its_fields_from_cutes_trace():
    (mapped,) = flat_arguments(maps(tiles()), bind(maps(tiles()), {"a": np.zeros((64, 64), np.float16)}))
    encoding = mapped.encoding
    assert encoding == tiles().trace.encoding
    # The tensor's rows of 64 halves, innermost first, and a tile of 8 of them.
    assert (encoding.dims, encoding.strides_bytes, encoding.box) == ((64, 64), (128,), (64, 8))


@pytest.mark.parametrize(
    ("param", "array", "message"),
    [
        (tiles(), np.zeros((64, 32), np.float16), r"k: a must have shape \(64, 64\), not \(64, 32\)"),
        (tiles(), np.zeros((64, 64), np.float32), r"k: a must hold f16 .*not float32"),
        (tiles(), [[0.0]], "k: a must be a NumPy array of f16, not list"),
        (
            TensorMapSpec.encoded("a", "f32", 128, 1, LINE.replace(box=(3,))),
            np.zeros(128, np.float32),
            r"k: the tensor map a is not possible: (.|\n)*rule: inner_multiple",
        ),
        (
            TensorMapSpec.encoded("a", "f32", 100, 1, LINE),
            np.zeros(100, np.float32),
            r"the tensor map a has dims \(128,\) .* reaches 512 bytes far; the array a has 400",
        ),
    ],
)
def test_bind__refuses_an_array_or_a_map_that_cannot_be(param, array, message):
    with pytest.raises(ArgumentError, match=message):
        bind(maps(param), {"a": array})


def test_bind__names_the_parameter_whose_rows_tma_cannot_step_by():
    narrow = tiles((64, 60), (60, 1))
    with pytest.raises((ArgumentError, SpecError), match=r"a(.|\n)*rule: stride_multiple"):
        bind(maps(narrow), {"a": np.zeros((64, 60), np.float16)})
