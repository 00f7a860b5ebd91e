"""`check`: what passes, what fails and with which text, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from cutecourse.emulator import HAZARDS
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.errors import CourseError
from cutecourse.protocols import Protocol
from cutecourse.ptx import read_module
from cutecourse.testing import KernelFailure, Output, check
from support.hazard_kernels import SCENES, Scene, plain
from support.protocols import SLOW_READER

HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n"
ADD_ONE = (
    HEAD
    + """
.visible .entry add_one(.param .u64 y, .param .u64 x, .param .u32 n)
.reqntid 32, 1, 1
{
    .reg .b32 %i, %n;
    .reg .f32 %v;
    .reg .b64 %y, %x, %at;
    .reg .pred %past;
    mov.u32 %i, %tid.x;
    ld.param.u32 %n, [n];
    ld.param.u64 %y, [y];
    ld.param.u64 %x, [x];
    setp.ge.u32 %past, %i, %n;
    @%past ret;
    mul.wide.u32 %at, %i, 4;
    add.u64 %x, %x, %at;
    add.u64 %y, %y, %at;
    ld.global.f32 %v, [%x];
    add.f32 %v, %v, 0f3F800000;
    st.global.f32 [%y], %v;
    ret;
}
"""
)
RACE = (
    HEAD
    + """
.visible .entry race(.param .u64 y)
.reqntid 64, 1, 1
{
    .shared .align 4 .b8 box[4];
    .reg .b32 %i, %v;
    .reg .b64 %y;
    .reg .pred %rest;
    ld.param.u64 %y, [y];
    mov.u32 %i, %tid.x;
    st.shared.b32 [box], %i;
    bar.sync 0;
    setp.ne.u32 %rest, %i, 0;
    @%rest ret;
    ld.shared.b32 %v, [box];
    st.global.b32 [%y], %v;
    ret;
}
"""
)
HALF = (
    HEAD
    + """
.visible .entry half(.param .u64 y)
.reqntid 4, 1, 1
{
    .reg .b32 %i;
    .reg .b64 %y, %at;
    .reg .b16 %v;
    .reg .f32 %f;
    ld.param.u64 %y, [y];
    mov.u32 %i, %tid.x;
    mul.wide.u32 %at, %i, 2;
    add.u64 %y, %y, %at;
    cvt.rn.f32.u32 %f, %i;
    cvt.rn.bf16.f32 %v, %f;
    st.global.b16 [%y], %v;
    ret;
}
"""
)
X = np.arange(32, dtype=np.float32)


def add_one(**changes):
    how = {"grid": 1, "args": {"y": Output(), "x": X, "n": 32}, "expect": {"y": X + 1}}
    return check(ADD_ONE, **how | changes)


def test_check__passes_and_gives_back_what_the_kernel_left():
    done = add_one()
    np.testing.assert_array_equal(done["y"], X + 1)
    assert [one.seed for one in done.launches] == [0, 1, 2, 3, 4]
    assert done.notes == ()


def test_check__leaves_the_callers_arrays_alone():
    y = np.zeros(32, np.float32)
    check(ADD_ONE, grid=1, args=[y, X, 32], expect={"y": X + 1}, seeds=[7])
    assert not y.any()


@pytest.mark.parametrize("form", ["text", "module", "path", "name", "triton", "numba", "dsl"])
def test_check__takes_the_forms_in_which_a_test_has_a_kernel(tmp_path: Path, form: str):
    path = tmp_path / "add_one.ptx"
    path.write_text(ADD_ONE)
    forms = {
        "text": ADD_ONE,
        "module": read_module(ADD_ONE),
        "path": path,
        "name": str(path),
        "triton": SimpleNamespace(asm={"ptx": ADD_ONE, "cubin": b""}),
        "numba": SimpleNamespace(inspect_asm=lambda: {("signature",): ADD_ONE}),
        "dsl": SimpleNamespace(__ptx__=ADD_ONE),
    }
    args = {"y": Output(), "x": X, "n": 32}
    check(forms[form], grid=1, args=args, expect={"y": X + 1}, seeds=1)


def test_check__says_which_elements_were_never_written():
    with pytest.raises(
        KernelFailure, match=r"(?s)2 of 32 elements.*y\[30\] was never written; expected 31.0"
    ):
        add_one(args={"y": Output(), "x": X, "n": 30})


def test_check__shows_the_first_elements_that_are_wrong():
    right = X + 1
    right[3:20] = 0
    with pytest.raises(
        KernelFailure, match=r"(?s)17 of 32 .*rtol 1.3e-06.*y\[3\] is 4.0; expected 0.0.*12 more"
    ):
        add_one(expect={"y": right})


def test_check__says_if_the_shapes_differ():
    with pytest.raises(KernelFailure, match=r"y has the shape \(32,\), but the expected array has \(3,\)"):
        add_one(args={"y": Output((32,), "f32"), "x": X, "n": 32}, expect={"y": X[:3]})


def test_check__compares_with_the_tolerance_that_is_given():
    near = (X + 1) * np.float32(1 + 1e-4)
    with pytest.raises(KernelFailure):
        add_one(expect={"y": near})
    add_one(expect={"y": near}, rtol=1e-3)


def test_check__compares_numbers_of_a_type_that_numpy_lacks():
    for right in (np.arange(4), np.arange(4).astype(ml_dtypes.bfloat16)):
        done = check(HALF, grid=1, args=[Output((4,), "bf16")], expect={"y": right})
        assert done["y"].dtype == np.uint16
    with pytest.raises(KernelFailure, match=r"y\[2\] is 2.0; expected 3"):
        check(HALF, grid=1, args=[Output((4,), "bf16")], expect={"y": [0, 1, 3, 3]})


def test_check__ends_its_failure_with_the_report():
    with pytest.raises(KernelFailure) as caught:
        check(RACE, grid=1, args=[Output((1,), "u32")])
    failure = caught.value
    assert isinstance(failure, AssertionError)
    assert failure.hazard == "race"
    assert str(failure).startswith("kernel race, seed 0 of 0 to 4: race (SharedMemoryRace)\n")
    assert str(failure).endswith(str(failure.error))
    assert f"> {failure.error.line}" in failure.excerpt
    assert "st.shared.b32 [box], %i;" in failure.excerpt


FAULTS = [
    name
    for name, scene in SCENES.items()
    if isinstance(scene, Scene) and not scene.tensor and HAZARDS[name].severity != "note"
]


@pytest.mark.parametrize("name", FAULTS)
def test_check__fails_with_the_report_of_every_kind_of_fault(name: str):
    scene = SCENES[name]
    how = {"grid": 1, "block": 32, "seeds": scene.seeds, "args": [np.zeros(64, np.uint32)], **scene.options}
    with pytest.raises(KernelFailure) as caught:
        check(plain(scene.body, scene.directives), **how)
    assert caught.value.hazard == name
    assert str(caught.value).endswith(str(caught.value.error or caught.value.note))


def test_check__allows_a_hazard_and_then_sees_what_depends_on_the_seed():
    with pytest.raises(KernelFailure, match=r"y depends on the seed: y\[0\] is \d+ under seed 0 and"):
        check(RACE, grid=1, args=[Output((1,), "u32")], allow=["race"], seeds=20)
    done = check(RACE, grid=1, args=[Output((1,), "u32")], allow="race", may_differ=["y"], seeds=20)
    assert [note.hazard.name for note in done.notes] == ["race"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"args": [X]}, "1 argument for 3 parameters"),
        ({"args": X}, "args is a sequence"),
        ({"expect": {"z": X}}, "expect names z; the arguments: y, x, n"),
        ({"expect": {"n": X}}, "y is an Output that expect does not name"),
        ({"expect": {"y": X, "n": X}}, "expect names n, which is not an array but a int"),
        ({"seeds": 0}, "at least 1"),
        ({"seeds": "ab"}, "a list of seeds"),
        ({"allow": ["rice"]}, "hazard"),
        ({"suppress": "none.txt"}, "none.txt cannot be read"),
        ({"allow": ["deadlock"]}, "always an error"),
        ({"entry": "other"}, "no kernel 'other'"),
    ],
)
def test_check__refuses_a_wrong_call_with_one_clear_error(changes, message):
    with pytest.raises(CourseError, match=message) as caught:
        add_one(**changes)
    assert not isinstance(caught.value, KernelFailure)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (3, "an object of type int is no kernel"),
        ("there_is_none.ptx", "there_is_none.ptx cannot be read"),
        (SimpleNamespace(inspect_asm=lambda: {1: "", 2: ""}), "compiled for 2 signatures"),
        (SimpleNamespace(__ptx__=None), r"holds no PTX: compile it with cute.compile\[cute.KeepPTX"),
        (SimpleNamespace(__ptx__="/x/kernel.ptx"), "holds no PTX"),
    ],
)
def test_check__says_what_it_takes_as_a_kernel(kernel, message):
    with pytest.raises(CourseError, match=message):
        check(kernel, grid=1)


def test_check__does_not_call_a_missing_instruction_a_failure_of_the_kernel():
    with pytest.raises(UnsupportedInstruction):
        check(
            HEAD + ".visible .entry k() .reqntid 1 { .reg .b32 %r; cvt.rzi.sat.e3m2x2 %r, %r; ret; }", grid=1
        )


TWO_RACES = RACE.replace("    setp.ne.u32 %rest", "    st.shared.b32 [box], %i;\n    setp.ne.u32 %rest")


def test_check__that_keeps_going_has_all_reports_of_a_seed():
    with pytest.raises(KernelFailure) as first:
        check(TWO_RACES, grid=1, args=[np.zeros(1, np.uint32)])
    with pytest.raises(KernelFailure) as every:
        check(TWO_RACES, grid=1, args=[np.zeros(1, np.uint32)], keep_going=True)
    assert (first.value.hazard, every.value.hazard) == ("race", "race")
    assert str(first.value).count("PTX line") == 1
    assert str(every.value).count("PTX line") > 1
    assert "race, an error. To allow it: allow=['race']" in str(every.value)


def test_every_order__fails_with_one_that_goes_wrong():
    """All seeds go well: the third thread would have to be two phases late."""
    slow = SLOW_READER.ptx
    check(slow, grid=1, block=96)
    with pytest.raises(KernelFailure, match="in every order: counterexample") as failure:
        check(slow, grid=1, block=96, every_order=True)
    assert failure.value.hazard == "deadlock"
    right = Protocol(SLOW_READER.counts, SLOW_READER.threads[:2])
    check(right.ptx, grid=1, block=64, every_order=True)
