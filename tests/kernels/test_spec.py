"""Launch specifications: what they refuse, and what their layouts say of memory."""

import pytest

from cutecourse.kernels.mma_timing import timing_spec
from cutecourse.kernels.spec import (
    LaunchSpec,
    Scalar,
    SpecError,
    Tensor,
    compute_capability_of,
    runs_on,
)


def spec(**changes):
    given = {"name": "k", "front": "ptx", "ptx": ".target sm_80", "grid": (4,), "block": 32, "params": ()}
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
        (lambda: spec(front="opencl"), "not 'opencl'"),
        (lambda: spec(front="numba"), 'front "numba" needs `kernel`'),
        (lambda: spec(params=(Scalar("n", "s32"), Tensor("n", "s32", 4))), "two parameters are called n"),
        (lambda: spec(front="cutedsl", host=len, params=(Tensor("a", "f16", (None,)),)), "a's is open"),
        (lambda: spec(front="cutedsl", host=len, params=(Tensor("a", "f16", (4, 4)),)), "say a's stride"),
    ],
)
def test_spec__refuses_what_contradicts_itself(make, message):
    with pytest.raises(Exception, match=message) as caught:
        make()
    assert type(caught.value).__module__.startswith("cutecourse")


def test_launched__changes_the_launch_and_nothing_else():
    first = spec()
    second = first.launched(grid=7, block=(8, 2))
    assert (second.grid, second.block) == ((7, 1, 1), (8, 2, 1))
    assert (first.grid, first.block) == ((4, 1, 1), (32, 1, 1))
    assert second.ptx == first.ptx
    with pytest.raises(SpecError, match="host function fixes the launch"):
        spec(front="cutedsl", host=len).launched(grid=2)


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
        timing_spec(chains, warps)
