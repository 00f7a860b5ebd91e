"""Launch specifications: what they refuse, and what their layouts say of memory."""

import pytest

from cutecourse.kernels import mma_timing
from cutecourse.kernels.spec import (
    LaunchSpec,
    Scalar,
    SpecError,
    Tensor,
    TensorMapSpec,
    compute_capability_of,
    runs_on,
)
from cutecourse.layout import Layout
from cutecourse.tma import TensorMapEncoding


def spec(**changes):
    given = {"name": "k", "language": "ptx", "ptx": ".target sm_80", "grid": (4,), "block": 32, "params": ()}
    return LaunchSpec(**{**given, **changes})


@pytest.mark.parametrize(
    ("tensor", "extents", "strides", "cosize"),
    [
        (Tensor("c", "f32", (16, 8), (1, 16)), (16, 8), (1, 16), 128),
        (Tensor("c", "f32", (16, 8)), (16, 8), (8, 1), 128),
        (Tensor("c", "f32", ((2, 4), 8), ((1, 16), 2)), (2, 4, 8), (1, 16, 2), 1 + 48 + 14 + 1),
        (Tensor("c", "f32", (4, 4), (0, 1)), (4, 4), (0, 1), 4),
        (Tensor("c", "f32", 5, 3), (5,), (3,), 13),
    ],
)
def test_tensor__says_where_its_elements_lie(tensor, extents, strides, cosize):
    assert tensor.extents == extents
    assert tensor.strides_for(extents) == strides
    assert tensor.cosize == cosize


def test_tensor__with_an_open_extent_takes_it_from_the_array():
    tensor = Tensor("a", "f32", (None, 3))
    assert tensor.strides_for((5, 3)) == (3, 1)
    assert tensor.cosize_for((5, 3)) == 15
    with pytest.raises(SpecError, match=r"a: shape .* is open"):
        _ = tensor.cosize


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor("c", "f32", (16, 8), (1,)), "different nesting"),
        (lambda: Tensor("c", "f32", ((2, 4), 8), (1, 2, 16)), "different nesting"),
        (lambda: Tensor("c", "f32", (16, 8), (-1, 16)), "non-negative"),
        (lambda: Tensor("c", "f32", (16, 0)), "extent 0"),
        (lambda: Tensor("device", "f32", (1,)), "'device' cannot name a parameter"),
        (lambda: Scalar("n o", "s32"), "'n o' cannot name a parameter"),
        (lambda: Tensor("c", "float32", (1,)), "no element type 'float32'"),
        (lambda: spec(grid=(3,), cluster=(2,)), r"grid \(3, 1, 1\) is no multiple of the cluster"),
        (lambda: spec(grid=(1, 1, 1, 1)), "one to three positive integers"),
        (lambda: spec(block=0), "one to three positive integers"),
        (lambda: spec(dynamic_smem=-1), "cannot be negative"),
        (lambda: spec(target="sm80"), "'sm80' is no target"),
        (lambda: spec(name="two words"), "must be an identifier"),
        (lambda: spec(language="opencl"), "not 'opencl'"),
        (lambda: spec(language="numba"), 'language "numba" needs `kernel`'),
        (lambda: spec(params=(Scalar("n", "s32"), Tensor("n", "s32", 4))), "two parameters are called n"),
        (lambda: spec(language="cutedsl", host=len, params=(Tensor("a", "f16", (None,)),)), "a's is open"),
        (lambda: spec(language="cutedsl", host=len, params=(Tensor("a", "f16", (4, 4)),)), "say a's stride"),
    ],
)
def test_spec__refuses_what_contradicts_itself(make, message):
    with pytest.raises(Exception, match=message) as caught:
        make()
    assert type(caught.value).__module__.startswith("cutecourse")


LINE = TensorMapEncoding("f32", dims=(128,), strides_bytes=(), box=(32,))


def line(name, *, dtype="f32", extent=128, array=None):
    return TensorMapSpec.encoded(name, dtype, extent, 1, LINE, array=array)


def test_arguments__are_each_array_and_number_once_in_the_parameters_order():
    whole = spec(
        params=(line("load", array="x"), Scalar("n", "s32"), Tensor("y", "f32", 4), line("x"), line("z"))
    )
    assert list(whole.arguments) == ["x", "n", "y", "z"]
    assert [type(param) for param in whole.arguments.values()] == [
        TensorMapSpec,
        Scalar,
        Tensor,
        TensorMapSpec,
    ]
    assert [tensor.name for tensor in whole.tensors] == ["load", "y", "x", "z"]


def test_tensor_map__is_hashable_and_equal_by_its_fields():
    """A compiled kernel is kept by its specification's parameters."""
    assert line("x") == line("x")
    assert hash(line("x")) == hash(line("x"))
    assert line("x") != line("x", array="y")
    tiled = {"smem_layout": Layout((8, 64), (64, 1)), "cta_tiler": (8, 64)}
    one, two = (TensorMapSpec("a", "f16", (64, 64), (64, 1), num_multicast=n, **tiled) for n in (1, 2))
    assert len({one, two}) == 2


def test_tensor_map__shows_how_it_was_made():
    tiled = TensorMapSpec(
        "a",
        "f16",
        (64, 64),
        (64, 1),
        smem_layout=Layout((8, 64), (64, 1)),
        cta_tiler=(8, 64),
        num_multicast=2,
    )
    assert repr(tiled) == (
        "TensorMapSpec('a', 'f16', (64, 64), (64, 1), smem_layout=(8,64):(64,1), cta_tiler=(8, 64), "
        "num_multicast=2)"
    )
    assert (
        repr(line("x", array="y"))
        == f"TensorMapSpec.encoded('x', 'f32', (128,), (1,), encoding={LINE}, array='y')"
    )


def test_tensor_map__with_its_fields_given_has_no_trace():
    assert line("x").encoding is LINE
    with pytest.raises(SpecError, match="x: the map's fields were given"):
        _ = line("x").trace


def test_tensor_map__that_cute_refuses_says_which_parameter_and_rule():
    refused = TensorMapSpec(
        "a", "f16", (64, 60), (60, 1), smem_layout=Layout((8, 60), (60, 1)), cta_tiler=(8, 60)
    )
    with pytest.raises(SpecError, match=r"parameter a: (.|\n)*rule: \w+"):
        _ = refused.trace


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorMapSpec("a", "f16", (64, None), (64, 1)), "a: a tensor map needs every extent"),
        (lambda: TensorMapSpec("a", "f16", (64, 64), (64, 1)), "a: say smem_layout and cta_tiler"),
        (
            lambda: TensorMapSpec("a", "f16", 64, 1, smem_layout=Layout(8), cta_tiler=8, fixed=LINE),
            "a: say smem_layout and cta_tiler",
        ),
        (lambda: line("trace"), "'trace' cannot name a parameter"),
        (lambda: line("a", array="seed"), "'seed' cannot name a parameter"),
        (lambda: spec(language="numba", kernel=len, params=(line("a"),)), "numba-cuda passes no tensor maps"),
        (
            lambda: spec(params=(line("a", array="x"), Tensor("x", "f16", 128, 1))),
            "a and x are the same array x, but their dtypes differ: f32 and f16",
        ),
        (
            lambda: spec(params=(line("a", array="x"), line("b", extent=256, array="x"))),
            r"a and b are the same array x, but their shapes differ: \(128,\) and \(256,\)",
        ),
        (
            lambda: spec(params=(line("a", array="n"), Scalar("n", "s32"))),
            "n is the name of an array and of a number",
        ),
    ],
)
def test_tensor_map__refuses_what_contradicts_itself(make, message):
    with pytest.raises(SpecError, match=message):
        make()


def test_launched__changes_the_launch_and_nothing_else():
    first = spec()
    second = first.launched(grid=7, block=(8, 2))
    assert (second.grid, second.block) == ((7, 1, 1), (8, 2, 1))
    assert (first.grid, first.block) == ((4, 1, 1), (32, 1, 1))
    assert second.ptx == first.ptx
    with pytest.raises(SpecError, match="host function fixes the launch"):
        spec(language="cutedsl", host=len).launched(grid=2)


@pytest.mark.parametrize(
    ("target", "native_on"),
    [
        ("sm_80", [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)]),
        ("sm_90", [(9, 0), (10, 0), (10, 3), (12, 0)]),
        ("sm_90a", [(9, 0)]),
        ("sm_100a", [(10, 0)]),
        ("sm_100f", [(10, 0), (10, 3)]),
        ("sm_103a", [(10, 3)]),
        ("sm_120", [(12, 0)]),
    ],
)
def test_runs_on__keeps_nvidias_rule_of_compatibility(target, native_on):
    columns = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)]
    assert [column for column in columns if runs_on(target, column)] == native_on


def test_compute_capability_of__reads_two_and_three_digits():
    assert compute_capability_of("sm_86") == (8, 6)
    assert compute_capability_of("sm_120") == (12, 0)


@pytest.mark.parametrize(("chains", "warps"), [(0, 1), (17, 1), (1, 0), (1, 33)])
def test_timing_spec__keeps_to_what_fits(chains, warps):
    with pytest.raises(SpecError, match="1 to 16 chains and 1 to 32 warps"):
        mma_timing.timing_spec(chains, warps)
