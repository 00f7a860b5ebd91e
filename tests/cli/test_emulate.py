"""`cutecourse emulate`: what it runs and writes, and one error with an exit status for all it refuses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cutecourse.cli import main
from support.chrome_trace import problems

HEAD = """
.version 8.8
.target sm_90
.address_size 64
"""
SCALE = (
    HEAD
    + """
.visible .entry scale(.param .u64 out, .param .u64 in, .param .f32 factor, .param .u32 n)
.reqntid 32, 1, 1
{
    .reg .b32 %i, %n, %block;
    .reg .b64 %out, %in, %at;
    .reg .f32 %x, %factor;
    .reg .pred %p;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    ld.param.f32 %factor, [factor];
    ld.param.u32 %n, [n];
    cvta.to.global.u64 %out, %out;
    cvta.to.global.u64 %in, %in;
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %i, %block, 32, %i;
    setp.ge.u32 %p, %i, %n;
    @%p bra DONE;
    mul.wide.u32 %at, %i, 4;
    add.u64 %in, %in, %at;
    add.u64 %out, %out, %at;
    ld.global.f32 %x, [%in];
    mul.f32 %x, %x, %factor;
    st.global.f32 [%out], %x;
DONE:
    ret;
}
"""
)
LOAD = (
    HEAD
    + """
.visible .entry load(.param .align 64 .b8 map[128], .param .u64 out)
{
    .shared .align 128 .b8 tile[64];
    .shared .align 8 .b64 full;
    .reg .b32 %me, %at, %x;
    .reg .b64 %map, %out, %to;
    .reg .pred %first, %p;
    mov.u32 %me, %tid.x;
    setp.eq.u32 %first, %me, 0;
    mov.u64 %map, map;
    cvta.param.u64 %map, %map;
    ld.param.u64 %out, [out];
    @%first mbarrier.init.shared.b64 [full], 1;
    @%first fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%first bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 64;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [tile], [%map, {4, 1}], [full];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p, [full], PARITY;
    @!%p bra WAIT;
    shl.b32 %at, %me, 2;
    mov.u32 %x, tile;
    add.u32 %x, %x, %at;
    ld.shared.b32 %x, [%x];
    mul.wide.u32 %to, %me, 4;
    add.u64 %out, %out, %to;
    st.global.b32 [%out], %x;
    ret;
}
"""
)
ENDLESS = (
    HEAD
    + """
.visible .entry endless()
{
    .reg .b32 %n;
L:
    add.u32 %n, %n, 1;
    bra L;
}
"""
)
FIRST = (
    HEAD
    + """
.visible .entry first(.param .u64 out)
.reqntid 32, 1, 1
{
    .reg .b32 %me;
    .reg .b64 %out;
    mov.u32 %me, %tid.x;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %me, 4, %out;
    griddepcontrol.launch_dependents;
    st.global.u32 [%out], %me;
    ret;
}
"""
)
SECOND = (
    HEAD
    + """
.visible .entry second(.param .u64 in, .param .u64 out)
.reqntid 32, 1, 1
{
    .reg .b32 %me, %x;
    .reg .b64 %in, %out;
    mov.u32 %me, %tid.x;
    ld.param.u64 %in, [in];
    mad.wide.u32 %in, %me, 4, %in;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %me, 4, %out;
    griddepcontrol.wait;
    ld.global.u32 %x, [%in];
    add.u32 %x, %x, 1;
    st.global.u32 [%out], %x;
    ret;
}
"""
)
HOTTEST = re.compile(r"\n    line \d+, \d{4,} times: add.u32 %n, %n, 1;")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(50, dtype=np.float32))


def run(capsys, text, *arguments):
    """The status, what was printed, and the one error, for a kernel's text."""
    with open("kernel.ptx", "w", encoding="utf-8") as file:
        file.write(text)
    status = main(["emulate", "kernel.ptx", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


GOOD = ("--arg", "out:c.npy:f32:50", "--arg", "in:a.npy", "--arg", "f32:-2.5", "--arg", "u32:40")


def test_emulate__saves_what_the_kernel_wrote(capsys):
    status, out, err = run(capsys, SCALE, "--grid", "2", *GOOD)
    assert (status, err) == (0, "")
    expected = np.where(np.arange(50) < 40, np.arange(50) * np.float32(-2.5), 0)
    found = np.load("c.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    assert "wrote c.npy: float32, shape 50" in out
    assert "grid (2, 1, 1), block (32, 1, 1), seed 0" in out
    np.testing.assert_array_equal(np.load("a.npy"), np.arange(50))


def test_emulate__memory_prints_what_each_line_moves(capsys):
    status, out, err = run(capsys, SCALE, "--grid", "2", *GOOD, "--memory")
    assert (status, err) == (0, "")
    # 40 of 64 threads take part: 32 lanes with 4 sectors and 8 lanes with one.
    table = out[out.index("line") :].splitlines()
    assert table[:4] == [
        "line  instruction    times  transactions  least  excess",
        "  27  ld.global.f32      2     5 sectors      5       0",
        "  29  st.global.f32      2     5 sectors      5       0",
        "global memory: 10 sectors, the least possible",
    ]
    assert "sectors" not in run(capsys, SCALE, "--grid", "2", *GOOD)[1]


def test_emulate__one_array_for_a_file_that_is_named_twice(capsys):
    run(capsys, SCALE, "--grid", "2", "--arg", "inout:a.npy:b.npy", "--arg", "in:a.npy", *GOOD[4:])
    expected = np.where(np.arange(50) < 40, np.arange(50) * np.float32(-2.5), np.arange(50))
    np.testing.assert_array_equal(np.load("b.npy"), expected)


def test_emulate__moves_a_tensor_maps_box(capsys):
    np.save("t.npy", np.arange(64, dtype=np.uint32).reshape(4, 16))
    encoding = {"array": "in:t.npy", "dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
    with open("map.json", "w", encoding="utf-8") as file:
        json.dump(encoding, file)
    text = LOAD.replace("PARITY", "0")
    arguments = ("--block", "16", "--arg", "map:map.json", "--arg", "out:c.npy:u32:16", "--trace", "t.json")
    status, out, err = run(capsys, text, *arguments)
    assert (status, err) == (0, "")
    expected = np.arange(64).reshape(4, 16)[1:3, 4:12].ravel()
    np.testing.assert_array_equal(np.load("c.npy"), expected)
    with open("t.json", encoding="utf-8") as file:
        trace = json.load(file)
    assert problems(trace) == []
    assert "load map (4, 1)" in {event["name"] for event in trace["traceEvents"]}
    assert "1 us of it is 1 instruction issued" in out


@pytest.mark.parametrize("behind", [False, True])
def test_emulate__a_tensor_map_may_stand_in_the_line_and_lie_behind_a_pointer(capsys, behind):
    np.save("t.npy", np.arange(64, dtype=np.uint32).reshape(4, 16))
    encoding = {"array": "in:t.npy", "dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
    text = LOAD.replace("PARITY", "0")
    if behind:
        text = text.replace(".param .align 64 .b8 map[128]", ".param .u64 map")
        text = text.replace("mov.u64 %map, map;", "ld.param.u64 %map, [map];").replace(
            "cvta.param.u64", "mov.u64"
        )
    arguments = ("--block", "16", "--arg", f"map:{json.dumps(encoding)}", "--arg", "out:c.npy:u32:16")
    assert run(capsys, text, *arguments)[::2] == (0, "")
    np.testing.assert_array_equal(np.load("c.npy"), np.arange(64).reshape(4, 16)[1:3, 4:12].ravel())


def test_emulate__a_struct_may_begin_with_a_tensor_map(capsys):
    np.save("t.npy", np.arange(64, dtype=np.uint32).reshape(4, 16))
    encoding = {"array": "in:t.npy", "dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
    text = LOAD.replace("PARITY", "0").replace(".align 64 .b8 map[128]", ".align 128 .b8 map[256]")
    field = f"{{map:{json.dumps(encoding)}, u32:7}}"
    arguments = ("--block", "16", "--arg", field, "--arg", "out:c.npy:u32:16")
    assert run(capsys, text, *arguments)[::2] == (0, "")
    np.testing.assert_array_equal(np.load("c.npy"), np.arange(64).reshape(4, 16)[1:3, 4:12].ravel())
    status, _, err = run(capsys, text, "--arg", "{{u32:7}}", "--arg", "out:c.npy:u32:16")
    assert (status, "a struct's field cannot be a struct" in err) == (2, True)
    path = Path("load.ptx")
    path.write_text(text)
    assert main(["explain", str(path)]) == 0
    said = capsys.readouterr().out
    assert "map  .align 128 .b8[256]  struct with a tensor map" in said
    [line] = [one for one in said.splitlines() if "cutecourse emulate" in one]
    assert main(shlex.split(line)[1:]) == 1  # the printed map has another box than the kernel waits for
    assert "bytes" in capsys.readouterr().err


@pytest.mark.parametrize("in_file", [False, True])
def test_emulate__a_pointer_may_lead_to_several_tensor_maps(capsys, in_file):
    groups = np.arange(192, dtype=np.uint32).reshape(3, 4, 16)
    maps = []
    for place, one in enumerate(groups):
        np.save(f"{place}.npy", one)
        encoding = {"dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
        maps.append({"array": f"in:{place}.npy", **encoding})
    text = (Path(__file__).parents[1] / "emulator/modules/grouped_maps.ptx").read_text()
    words = json.dumps(maps)
    if in_file:
        Path("maps.json").write_text(words)
        words = "maps.json"
    arguments = ("--grid", "3", "--arg", f"map:{words}", "--arg", "out:c.npy:u32:3x16")
    assert run(capsys, text, *arguments)[::2] == (0, "")
    np.testing.assert_array_equal(np.load("c.npy"), groups[:, 1:3, 4:12].reshape(3, 16))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("[]", "the tensor map is an empty list: give one object for each tensor map"),
        ('[{"array": "zeros:u32:4x16"}]', "the tensor map 0 is not a tensor map: give an object with array"),
        ("[1]", "the tensor map 0 is not a tensor map: give an object with array"),
    ],
)
def test_emulate__says_which_of_several_tensor_maps_is_wrong(capsys, words, said):
    text = (Path(__file__).parents[1] / "emulator/modules/grouped_maps.ptx").read_text()
    status, _, err = run(capsys, text, "--arg", f"map:{words}", "--arg", "out:c.npy:u32:16")
    assert status == 2
    assert said in err


def test_emulate__a_part_of_a_kernels_name_chooses_it(capsys):
    two = SCALE + SCALE.split(".address_size 64")[1].replace("entry scale(", "entry _Z6scaledPf(")
    status, out, _ = run(capsys, two, "--grid", "2", *GOOD, "--entry", "Z6")
    assert (status, out.split()[0]) == (0, "scaled")
    status, out, _ = run(capsys, two, "--grid", "2", *GOOD, "--entry", "scale")
    assert (status, out.split()[0]) == (0, "scale")
    status, _, err = run(capsys, two, "--grid", "2", *GOOD, "--entry", "cal")
    assert status == 2
    assert err.splitlines() == [
        "cutecourse: 2 kernels have 'cal' in their names:",
        "  'scale'   scale",
        "  'scaled'  scaled",
    ]


def test_emulate__of_a_kernel_that_hangs_says_who_waits_and_keeps_the_trace(capsys):
    np.save("t.npy", np.arange(64, dtype=np.uint32).reshape(4, 16))
    encoding = {"array": "in:t.npy", "dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
    with open("map.json", "w", encoding="utf-8") as file:
        json.dump(encoding, file)
    text = LOAD.replace("PARITY", "0").replace("[full], 64;", "[full], 128;")
    arguments = ("--block", "16", "--arg", "map:map.json", "--arg", "out:c.npy:u32:16", "--trace", "t.json")
    status, out, err = run(capsys, text, *arguments)
    assert status == 1
    assert out == ""
    assert err.startswith("cutecourse: ")
    assert "full" in err
    with open("t.json", encoding="utf-8") as file:
        assert problems(json.load(file)) == []
    with pytest.raises(FileNotFoundError):
        np.load("c.npy")


def test_emulate__prints_notes_where_asked(capsys):
    _, out, _ = run(capsys, SCALE, "--grid", "2", *GOOD, "--notes")
    assert out.endswith("no notes\n")


UNWRITTEN = (
    HEAD
    + """
.visible .entry unwritten(.param .u64 out)
.reqntid 64, 1, 1
{
    .shared .b32 sum;
    .reg .b32 %x, %me;
    .reg .b64 %out;
    .reg .pred %p;
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.u32 %me, %tid.x;
    setp.lt.u32 %p, %me, 32;
    @%p bra DONE;
    ld.shared.b32 %x, [sum];
DONE:
    ret;
}
"""
)


@pytest.mark.parametrize(
    ("options", "status", "where"),
    [
        ([], 1, "was never written"),
        (["--hazard", "never-written=warning"], 0, "cutecourse: warning: "),
        (["--hazard", "never written=warning", "--strict"], 1, "cutecourse: warning: "),
        (["--hazard", "never-written=warning", "--hazard", "never-written=off", "--strict"], 0, ""),
        (["--hazard", "never-written=note", "--strict"], 0, ""),
        (["--hazard", "never-written=loud"], 2, "a severity is one of error, warning, note, off"),
        (["--hazard", "nonsense=off"], 2, "no such hazard"),
        (["--hazard", "never-writen=off"], 2, "Did you mean never written?"),
        (["--suppress", "known.txt"], 0, ""),
        (["--suppress", "known.txt", "--hazard", "never-written at 18=error"], 1, "was never written"),
        (["--suppress", "nowhere.txt"], 2, "nowhere.txt cannot be read"),
        (["--suppress", "kernel.ptx"], 2, "kernel.ptx, line 2: "),
        (["--hazard", "deadlock=off"], 2, "a launch cannot continue after it"),
    ],
)
def test_emulate__takes_severities(capsys, options, status, where):
    with open("known.txt", "w", encoding="utf-8") as file:
        file.write("never written = off  # the kernel adds nothing to it\n")
    found, out, err = run(capsys, UNWRITTEN, "--arg", "out:c.npy:f32:50", *options)
    assert found == status
    assert where in err
    assert bool(err) == bool(where)
    assert ("1 note about hazards" in out) == ("never-written=note" in options)


def test_emulate__names_the_hazard_and_keeps_going(capsys):
    twice = UNWRITTEN.replace("%x, [sum];", "%x, [sum];\n    ld.shared.b32 %me, [sum];")
    line = twice[: twice.index("ld.shared")].count("\n") + 1
    once = run(capsys, twice, "--arg", "out:c.npy:f32:50")
    lower = f'hazard: never written. To lower it: "never written" = note, or "never written at {line}" = note'
    assert once[0] == 1
    assert lower in once[2]
    assert once[2].count("hazard: ") == 1
    status, out, err = run(capsys, twice, "--arg", "out:c.npy:f32:50", "--keep-going")
    assert (status, err.count("cutecourse: error: "), err.count("hazard: never written.")) == (1, 2, 2)
    assert "ran to its end" in out
    assert run(capsys, twice, "--arg", "out:c.npy:f32:50", "--keep-going", "--explore", "2")[0] == 2


ORDER = UNWRITTEN.replace("    ld.shared.b32 %x, [sum];\nDONE:\n", "DONE:\n    st.global.b32 [%out], %me;\n")


MIDDLE, LAST = "out:h.npy:u32:32", "out:y.npy:u32:32"


def test_then__gives_both_launches_one_array(capsys):
    status, out, err = run(capsys, FIRST, "--arg", MIDDLE, "--then", second(), "--arg", MIDDLE, "--arg", LAST)
    assert (status, err) == (0, "")
    np.testing.assert_array_equal(np.load("h.npy"), np.arange(32))
    np.testing.assert_array_equal(np.load("y.npy"), np.arange(1, 33))
    assert out.index("first ran to its end") < out.index("second ran to its end")
    assert "note" not in out


def test_then__reports_a_wait_that_is_missing(capsys):
    given = ["--arg", MIDDLE, "--then", second("griddepcontrol.wait;"), "--arg", MIDDLE, "--arg", LAST]
    status, _, err = run(capsys, FIRST, *given)
    assert status == 1
    assert "of array argument 0 (uint32, shape (32,)) is used, which kernel first of the launch before" in err
    assert 'hazard: no grid wait. To lower it: "no grid wait" = note' in err
    status, _, err = run(capsys, FIRST, "--hazard", "no-grid-wait=warning", *given)
    assert (status, err.count("hazard: no grid wait")) == (0, 1)
    status, out, _ = run(capsys, FIRST, "--json", *given)
    found = json.loads(out)
    assert (found["file"], found["launch"]["seed"]) == ("second.ptx", 0)
    assert (found["kernel"], [report["hazard"] for report in found["reports"]]) == (
        "second",
        ["no grid wait"],
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--explore", "3"], "it takes no --explore"),
        (["--order", "a.json"], "it takes no --explore and no --order"),
    ],
)
def test_then__refuses_what_compares_orders(capsys, options, said):
    status, _, err = run(capsys, FIRST, *options, "--arg", MIDDLE, "--then", second())
    assert (status, said in err) == (2, True)


def test_then__says_what_the_second_launch_lacks(capsys):
    status, _, err = run(capsys, FIRST, "--arg", MIDDLE, "--then", second(), "--arg", MIDDLE)
    assert status == 2
    assert "1 argument for 2 parameters" in err
    with pytest.raises(SystemExit):
        run(capsys, FIRST, "--arg", MIDDLE, "--then")
    assert "required: file" in capsys.readouterr().err


def second(without: str = "") -> str:
    """The second launch's text in a file, with a statement left out."""
    Path("second.ptx").write_text(SECOND.replace(without, "") if without else SECOND, encoding="ascii")
    return "second.ptx"


def test_emulate__explores_seeds(capsys):
    same = run(capsys, SCALE, "--grid", "2", *GOOD, "--explore", "4", "--seed", "3")
    assert same[0] == 0
    assert same[1].startswith("4 seeds agree: no error")
    different = run(capsys, ORDER, "--arg", "out:c.npy:u32:1", "--explore", "20")
    assert different[0] == 1
    assert different[2].startswith("cutecourse: ")
    assert "seed" in different[2]
    wrong = run(capsys, UNWRITTEN, "--arg", "out:c.npy:u32:1", "--explore", "3")
    assert wrong[0] == 1
    assert "3 seeds agree: UninitializedRead" in wrong[2]
    with pytest.raises(FileNotFoundError):
        np.load("c.npy")


@pytest.mark.parametrize("options", [["1"], ["3", "--trace", "t.json"], ["3", "--memory"]])
def test_emulate__refuses_explorations_that_cannot_be(capsys, options):
    status, _, err = run(capsys, SCALE, "--grid", "2", *GOOD, "--explore", *options)
    assert status == 2
    assert "--explore" in err


def test_emulate__struct_of_fields(capsys):
    text = (
        HEAD
        + """
.visible .entry k(.param .align 8 .b8 both[16])
{
    .reg .b64 %at; .reg .b32 %x;
    ld.param.u64 %at, [both];
    ld.param.u32 %x, [both+8];
    st.global.u32 [%at], %x;
    ret;
}
"""
    )
    status, *_ = run(capsys, text, "--block", "1", "--arg", "{out:c.npy:u32:1,u32:0x2a}")
    assert status == 0
    assert np.load("c.npy").tolist() == [42]


WRONG_ARGUMENTS = {
    "too few": (GOOD[:6], "3 arguments for 4 parameters:"),
    "too many": ((*GOOD, "--arg", "u32:1"), "5 arguments for 4 parameters:"),
    "a float for an integer": ((*GOOD[:6], "--arg", "f32:1"), "a floating-point number"),
    "an integer for a float": ((*GOOD[:4], "--arg", "u32:1", *GOOD[6:]), "an integer, but the parameter is"),
    "a number of another size": ((*GOOD[:6], "--arg", "u64:1"), "it has 8 bytes, but the parameter has 4"),
    "a number that does not fit": ((*GOOD[:6], "--arg", "u32:-1"), "-1 does not fit into u32"),
    "no number": ((*GOOD[:6], "--arg", "u32:ten"), "'ten' is not a number of type u32"),
    "an array for a number": ((*GOOD[:6], "--arg", "in:a.npy"), "parameter n (.u32, 4 bytes)"),
    "no kind": ((*GOOD[:6], "--arg", "40"), "'40' is not an argument"),
    "no such file": (("--arg", "in:no.npy", *GOOD[2:]), "no.npy cannot be read: No such file or directory"),
    "no array": (
        ("--arg", "in:kernel.ptx", *GOOD[2:]),
        "kernel.ptx is not an array of numbers that numpy.save wrote\n",
    ),
    "no type": (("--arg", "zeros:f31:4", *GOOD[2:]), "there is no element type 'f31'"),
    "no shape": (("--arg", "zeros:f32:4x", *GOOD[2:]), "'4x' is not a shape"),
    "an absurd shape": (("--arg", "zeros:f32:1000000x1000000", *GOOD[2:]), "more than the"),
    "no folder": (
        ("--arg", "out:no/c.npy:f32:4", *GOOD[2:]),
        "no/c.npy cannot be written: there is no",
    ),
    "no map": (("--arg", "map:a.npy", *GOOD[2:]), "a.npy is not JSON"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_emulate__refuses_arguments_that_do_not_fit(capsys, arguments, said):
    status, out, err = run(capsys, SCALE, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("cutecourse: ")
    assert said in err


MAPS = {
    "no object": ([1], "is not a tensor map: give an object with array, dtype"),
    "a field that is none": ({"swizle": "128B"}, "a tensor map has no swizle"),
    "a rule that is broken": ({"box": [9, 4]}, "multiple of 16"),
    "words for numbers": ({"dims": ["x", 4]}, "invalid literal"),
    "no array": ({"array": 5}, '"array" is a text such as'),
    "another array's type": ({"dtype": "f99"}, "f99"),
}


@pytest.mark.parametrize(("change", "said"), MAPS.values(), ids=MAPS)
def test_emulate__refuses_a_tensor_map_that_is_none(capsys, change, said):
    good = {"array": "in:a.npy", "dtype": "f32", "dims": [8, 4], "strides_bytes": [32], "box": [8, 4]}
    with open("map.json", "w", encoding="utf-8") as file:
        json.dump({**good, **change} if isinstance(change, dict) else change, file)
    arguments = ("--block", "16", "--arg", "map:map.json", "--arg", "out:c.npy:u32:16")
    status, out, err = run(capsys, LOAD.replace("PARITY", "0"), *arguments)
    assert (status, out) == (2, "")
    assert said in err


WRONG_LAUNCHES = {
    "an absurd grid": (("--grid", "99999999999"), "grid.x is 99999999999"),
    "too many blocks": (("--grid", "1000000,1000"), "the emulator runs 1048576 at most"),
    "no blocks": (("--grid", "0"), "grid.x is 0"),
    "a block that is not the kernel's": (("--block", "64"), "requires blocks of (32, 1, 1)"),
    "a cluster that does not divide": (("--grid", "3", "--cluster", "2"), "not a multiple of cluster.x"),
    "a cluster of too many": (("--grid", "32", "--cluster", "32"), "cluster.x is 32"),
    "shared memory of a rack": (("--smem", "1000000"), "of shared memory"),
    "less than none": (("--smem", "-1"), "--smem is a number of bytes, not -1"),
    "no kernel of that name": (("--entry", "k"), "no kernel 'k'; it has: scale"),
    "no budget": (("--budget", "0"), "--budget 0: give a number greater than 0"),
    "no folder for the trace": (("--trace", "no/t.json"), "no/t.json cannot be written"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG_LAUNCHES.values(), ids=WRONG_LAUNCHES)
def test_emulate__refuses_launches_that_cannot_be(capsys, arguments, said):
    status, out, err = run(capsys, SCALE, *GOOD, *arguments)
    assert (status, out) == (2, "")
    assert said in err


WRONG_TEXTS = {
    "nothing": ("", "PTX line 1"),
    "no PTX": ("hello\n", "PTX line 1"),
    "cut off": (SCALE[:400], "PTX line"),
    "a name of nobody": (SCALE.replace("%tid.x", "%tod.x"), "'%tod.x' is used but not declared"),
    "no kernel": (HEAD, "the text has 0 kernels"),
    "an instruction that there is not": (
        SCALE.replace("mul.f32", "mull.f32"),
        "PTX has no instruction mull. Did you mean mul?",
    ),
}


@pytest.mark.parametrize(("text", "said"), WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_emulate__refuses_texts_that_are_no_kernel(capsys, text, said):
    status, out, err = run(capsys, text, *GOOD)
    assert (status, out) == (2, "")
    assert err.startswith("cutecourse: ")
    assert said in err


def test_emulate__refuses_files_that_are_no_text(capsys):
    assert main(["emulate", "no.ptx"]) == 2
    assert "no.ptx cannot be read: No such file or directory" in capsys.readouterr().err
    assert main(["emulate", "a.npy"]) == 2
    assert "a.npy is not text" in capsys.readouterr().err
    assert main(["emulate", "."]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_emulate__says_that_a_block_is_missing(capsys):
    status, _, err = run(capsys, ENDLESS)
    assert status == 2
    assert "Say with --block how many threads" in err


def test_emulate__stops_a_kernel_that_never_ends(capsys):
    status, out, err = run(capsys, ENDLESS, "--block", "32", "--budget", "2000")
    assert (status, out) == (3, "")
    assert "did not end within 2000 instructions" in err
    assert "max_instructions" not in err
    assert "--budget" in err


def test_emulate__stops_after_a_time(capsys):
    status, out, err = run(capsys, ENDLESS, "--block", "32", "--timeout", "0.2")
    assert (status, out) == (3, "")
    assert "did not end within 0.2 seconds. See --timeout" in err
    assert HOTTEST.search(err)


def test_emulate__says_after_an_interrupt_where_the_kernel_was(tmp_path):
    """In a process of its own, which gets Ctrl-C's signal while the kernel runs."""
    (tmp_path / "kernel.ptx").write_text(ENDLESS)
    code = (
        "import os, signal, sys, threading; from cutecourse.cli import emulate, main;"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start(); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "emulate", "kernel.ptx", "--block", "32"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("cutecourse: interrupted\n  These lines ran most often:")
    assert HOTTEST.search(done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("memory", "block", "array", "variable"),
    [("0.05", "32", "52000000", ".shared .b8 s[40000]"), ("0.2", "1024", "8", ".local .b8 s[400000]")],
    ids=["at a library's first use", "of the threads"],
)
def test_emulate__stops_where_memory_ends(tmp_path, memory, block, array, variable):
    """In a process of its own: another has memory left that earlier tests freed, and NumPy's parts loaded."""
    text = f"{HEAD}.visible .entry k(.param .u64 a) {{ {variable}; ret; }}"
    (tmp_path / "kernel.ptx").write_text(text)
    given = ("--grid", "200", "--block", block, "--arg", f"zeros:u8:{array}", "--max-memory", memory)
    command = [sys.executable, "-m", "cutecourse.cli", "emulate", "kernel.ptx", *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"cutecourse: the launch needs more than {memory} GiB of memory. See --max-memory.\n"
    )


def test_emulate__leaves_the_process_as_it_was(capsys):
    import resource
    import signal

    before = (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM))
    run(capsys, ENDLESS, "--block", "32", "--budget", "50")
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_emulate__a_command_line_that_is_none_is_refused_by_its_parser(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["emulate", "kernel.ptx", "--grid", "2,x"])
    assert caught.value.code == 2
    assert "'2,x' is not one to three integers such as 2,1,1" in capsys.readouterr().err


# --- events ------------------------------------------------------------------------------------------------

RIGHT = LOAD.replace("PARITY", "0")


def load(capsys, *events, text=RIGHT):
    np.save("t.npy", np.arange(64, dtype=np.uint32).reshape(4, 16))
    encoding = {"array": "in:t.npy", "dtype": "u32", "dims": [16, 4], "strides_bytes": [64], "box": [8, 2]}
    with open("map.json", "w", encoding="utf-8") as file:
        json.dump(encoding, file)
    arguments = ("--block", "16", "--arg", "map:map.json", "--arg", "out:c.npy:u32:16", "--events", *events)
    return run(capsys, text, *arguments)


def kinds(out):
    """The kinds in the table, behind its head."""
    lines = out.splitlines()
    head = next(n for n, line in enumerate(lines) if line.split()[:2] == ["#", "time"])
    return [line.split()[5].rstrip(":") for line in lines[head + 1 :] if line.split()[0].isdecimal()]


def test_events__prints_what_happened(capsys):
    status, out, err = load(capsys)
    assert (status, err) == (0, "")
    assert kinds(out)[0] in {"mbarrier.init", "barrier.wait"}
    assert {"tma.issue", "tma.land", "mbarrier.wait"} <= set(kinds(out))
    assert "t.json" not in out


def test_events__that_all_filters_let_through(capsys):
    status, out, _ = load(capsys, "kind=mbarrier.*", "barrier=full", "warp=0", "lane=0")
    assert status == 0
    assert kinds(out) == ["mbarrier.init", "mbarrier.expect_tx", "mbarrier.arrive"]
    landed = load(capsys, "smem=tile", "kind=tma.land", "block=0")[1]
    assert len(kinds(landed)) > 1
    assert set(kinds(landed)) == {"tma.land"}


def test_events__of_loads_and_stores_where_they_are_asked_for(capsys):
    out = load(capsys, "kind=memory")[1]
    assert kinds(out) == ["memory.load", "memory.store"]
    assert "ld.shared.b32 by 16 lanes, shared 0x0 to 0x3f" in out
    assert "st.global.b32 by 16 lanes, out 0x0 to 0x3f" in out
    assert "memory." not in load(capsys)[1]


def test_events__of_a_kernel_that_hangs_come_with_its_error(capsys):
    text = RIGHT.replace("[full], 64;", "[full], 128;")
    status, out, err = load(capsys, "barrier=full", "kind=*.complete_tx", text=text)
    assert status == 1
    assert set(kinds(out)) == {"mbarrier.complete_tx"}
    assert "full" in err
    status, out, err = load(capsys, "barrier=empty", text=text)
    assert (status, out) == (1, "")
    assert "--events: barrier='empty': the trace has no such barrier; it has full at 64" in err


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (["kind=mbarier"], "there are no events 'mbarier'; the kinds are mbarrier.init"),
        (["warps=0"], "'warps=0' is not KEY=VALUE; the keys are kind, block, rank"),
        (["warp=first"], "'warp=first': give a number, or a range such as 0-3"),
        (["block=1,x"], "'block=1,x': give x, or x,y, or x,y,z"),
    ],
)
def test_events__refuses_filters_before_it_runs(capsys, filters, said):
    with open("kernel.ptx", "w", encoding="utf-8") as file:
        file.write(SCALE)
    with pytest.raises(SystemExit) as ended:
        main(["emulate", "kernel.ptx", *GOOD, "--events", *filters])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_events__says_what_the_launch_does_not_have(capsys):
    status, _, err = load(capsys, "warp=3")
    assert status == 2
    assert "--events: warp=3: the launch has warp 0 to 0" in err
