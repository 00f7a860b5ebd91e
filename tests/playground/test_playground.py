"""The playground's Python: forms from texts, arguments from fields, and the results of its examples."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutecourse.dtypes import decode
from cutecourse.page import widgets
from cutecourse.page.outputs import WIDGET_VIEW
from cutecourse.page.playground import answer
from cutecourse.playground import Playground, read
from cutecourse.playground.examples import EXAMPLES, VECTOR_ADD, Example
from cutecourse.playground.form import KINDS

GROUPED = (Path(__file__).parents[1] / "emulator/modules/grouped_maps.ptx").read_text()
TEXT = """
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 16 .b8 tile[];
.visible .entry first(.param .u32 n)
{
    ret;
}
.visible .entry second(
    .param .align 64 .b8 map[128], .param .u64 source, .param .u64 sums, .param .f32 scale,
    .param .align 8 .b8 both[16], .param .u64 unused)
.reqntid 64, 1, 1
.reqnctapercluster 2, 1, 1
{
    .reg .b64 %from, %to, %at;
    .reg .b32 %n, %value;
    .reg .f32 %x;
    ld.param.u64 %from, [source];
    ld.param.u64 %to, [sums];
    ld.param.f32 %x, [scale];
    ld.param.b32 %n, [both];
    mov.b64 %at, map;
    mul.wide.u32 %at, %n, 4;
    add.u64 %from, %from, %at;
    ld.global.s16 %n, [%from];
    red.global.add.f32 [%to], %x;
    ret;
}
"""


def request(state: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A request with the values of a form."""
    arguments = [{**parameter["argument"]} for parameter in state["parameters"]]
    return {
        **state,
        **state["launch"],
        "arguments": arguments,
        "limit": state.get("limit") or 50_000,
        **changes,
    }


def vector_add() -> dict[str, Any]:
    return request({"text": VECTOR_ADD, **read(VECTOR_ADD)})


# --- the form ----------------------------------------------------------------------------------------------


def test_read__says_what_the_text_fixes_and_marks_the_rest_as_a_guess():
    form = read(TEXT, "second")
    assert form["kernels"] == ["first", "second"]
    assert form["launch"] == {"grid": "2", "block": "64", "cluster": "2", "dynamic_smem": str(226 << 10)}
    assert form["sources"]["block"] == "from .reqntid"
    assert form["sources"]["cluster"] == "from .reqnctapercluster"
    assert "guess" in form["sources"]["dynamic_smem"]
    kinds = {one["name"]: one["argument"]["kind"] for one in form["parameters"]}
    assert kinds == {
        "map": "map",
        "source": "array",
        "sums": "array",
        "scale": "number",
        "both": "bytes",
        "unused": "number",
    }
    by_name = {one["name"]: one for one in form["parameters"]}
    assert by_name["unused"]["kinds"] == ["number", "array"]
    assert (by_name["source"]["argument"]["dtype"], by_name["source"]["argument"]["fill"]) == (
        "s16",
        "random",
    )
    assert by_name["sums"]["argument"]["dtype"] == "f32"
    assert "ld.global.s16" in form["sources"]["arguments.1"]
    assert form["sources"]["arguments.5"] == "the kernel never reads it"


def test_read__gives_a_tensor_map_the_rank_of_the_copies():
    copy = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes [0], [0, {{}}], [0];"
    text = TEXT.replace("    ret;", f"    // {copy.format(4)}\n    ret;")
    argument = read(text, "second")["parameters"][0]["argument"]
    assert (argument["shape"], argument["box"]) == ("1x1x64x64", "64,64,1,1")
    assert read(TEXT, "second")["parameters"][0]["argument"]["box"] == "64,64"


def test_read__a_pointer_may_be_declared_as_bytes():
    text = VECTOR_ADD.replace(".param .u64 a", ".param .align 8 .b8 a[8]")
    state = read(text)
    assert state["parameters"][0]["kinds"] == ["array", "bytes"]
    assert state["parameters"][0]["argument"]["dtype"] == "f32"
    assert Playground().run(request({"text": text, **state}))["ended"] == "ran"


def test_read__a_pointer_may_lead_to_one_or_several_tensor_maps():
    state = read(GROUPED)
    maps = state["parameters"][0]
    assert maps["kinds"] == ["map", "maps", "array", "number"]
    assert "the address of its tensor map" in state["sources"]["arguments.0"]
    for kind, shape, grid in (("map", "4x16", 1), ("maps", "3x4x16", 3)):
        given = {"kind": kind, "dtype": "u32", "shape": shape, "fill": "arange", "box": "8,2"}
        asked = request({"text": GROUPED, **state}, grid=str(grid))
        out = {"kind": "array", "dtype": "u32", "shape": f"{grid}x16", "fill": "zeros"}
        asked["arguments"] = [given, out]
        playground = Playground()
        assert playground.run(asked)["ended"] == "ran"
        boxes = np.arange(grid * 64).reshape(grid, 4, 16)[:, 1:3, 4:12]
        np.testing.assert_array_equal(playground.arrays["out"].memory, boxes.reshape(grid, 16))
    asked["arguments"][0]["shape"] = "64"
    assert Playground().run(asked)["error"]["field"] == "arguments.0.shape"


def test_read__a_struct_may_begin_with_a_tensor_map():
    text = GROUPED.replace(".param .u64 maps", ".param .align 128 .b8 maps[256]").replace("{4, 1}", "{8, 1}")
    text = text.replace("ld.param.u64 %maps, [maps];", "mov.b64 %maps, maps; cvta.param.u64 %maps, %maps;")
    state = read(text)
    argument = state["parameters"][0]["argument"]
    assert argument["value"].startswith('{map:{"array": "zeros:f16:64x64"')
    # The box has as many bytes as the kernel expects.
    argument["value"] = argument["value"].replace("[64, 64]}", "[8, 4]}")
    assert Playground().run(request({"text": text, **state}))["ended"] == "ran"


def test_read__takes_the_first_kernel_where_the_named_one_is_not_there():
    assert read(TEXT, "third")["entry"] == read(TEXT)["entry"] == "first"


def test_read__fills_only_fields_that_the_kind_has():
    for example in EXAMPLES:
        for parameter in example.state()["parameters"]:
            kind = parameter["argument"]["kind"]
            assert kind in parameter["kinds"]
            assert set(parameter["argument"]) <= {"kind", *KINDS[kind]}


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (TEXT.replace("    ret;", "    rat;", 1), None, None),
        (TEXT.replace("ld.param.u64 %from, [source];", "ld.param.u64 %from, [source;"), 19, "]"),
        (TEXT.replace("[sums]", "[sum]"), 20, "sum"),
        ("hello", 1, ".version"),
        (".version 8.0 .target sm_80 .address_size 64", None, "no kernel"),
    ],
)
def test_read__names_the_line_of_what_is_no_ptx(text, line, word):
    form = read(text)
    if word is None:  # a name that PTX does not have: the kernel can be read, and is refused
        assert form["refused"][0]["line"] == 8
        return
    assert form["error"]["line"] == line
    assert word in form["error"]["message"]


# --- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "fields", "field", "word"),
    [
        (0, {"shape": "16y"}, "arguments.0.shape", "16y"),
        (0, {"shape": "0"}, "arguments.0.shape", "shape"),
        (0, {"shape": "65536x65536"}, "arguments.0.shape", "256 MiB"),
        (0, {"dtype": "f33"}, "arguments.0.dtype", "f33"),
        (0, {"fill": "values", "values": "1 2 x"}, "arguments.0.values", "x"),
        (0, {"fill": "values", "values": ""}, "arguments.0.values", "1 to 1024"),
        (0, {"fill": "file"}, "arguments.0.file", "choose"),
        (0, {"fill": "file", "file": "bm8="}, "arguments.0.file", "numpy.save"),
        (0, {"seed": "-1"}, "arguments.0.seed", "-1"),
        (0, {"kind": "map"}, "arguments.0.kind", "array or number"),
        (1, {"same_as": "z"}, "arguments.1.same_as", "z"),
        (3, {"value": "many"}, "arguments.3.value", "many"),
        (3, {"value": "0.5"}, "arguments.3.value", ".u32"),
        (3, {"value": "0x100000000"}, "arguments.3.value", "does not fit"),
    ],
)
def test_run__names_the_field_that_does_not_fit(place, fields, field, word):
    asked = vector_add()
    asked["arguments"][place] |= fields
    ended = Playground().run(asked)
    assert ended["ended"] == "refused"
    assert ended["error"]["field"] == field
    assert word in ended["error"]["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"grid": "2,x"}, "grid"),
        ({"block": "2000"}, "block"),
        ({"cluster": "1,1,1,1"}, "cluster"),
        ({"dynamic_smem": "-1"}, "dynamic_smem"),
        ({"seed": "one"}, "seed"),
        ({"limit": "0"}, "limit"),
        ({"hazards": "rase = off"}, "hazards"),
        ({"hazards": "race = loud"}, "hazards"),
        ({"text": "hello"}, "text"),
    ],
)
def test_run__names_the_field_of_the_launch_that_does_not_fit(change, field):
    ended = Playground().run(vector_add() | change)
    assert (ended["ended"], ended["error"]["field"]) == ("refused", field)


def test_run__a_struct_takes_no_file():
    form = read(TEXT, "second")
    asked = request({"text": TEXT, **form})
    files = ("{in:a.npy}", "{map:a.json}", '{map:{"array": "in:a.npy"}}')
    said = {"in:a.npy": "hexadecimal", "00ff": "2 bytes", **dict.fromkeys(files, "take a file")}
    for value, word in said.items():
        asked["arguments"][4]["value"] = value
        error = Playground().run(asked)["error"]
        assert word in error["message"]


def test_run__arrays_are_filled_as_the_form_says_and_may_share_memory():
    asked = vector_add()
    asked["arguments"][0] |= {"fill": "values", "values": "1, 2 3", "shape": "1024"}
    asked["arguments"][1] |= {"fill": "ones"}
    asked["arguments"][2] |= {"same_as": "a"}
    playground = Playground()
    ended = playground.run(asked)
    assert [array["name"] for array in ended["arrays"]] == ["a", "b"]
    before = np.resize([1, 2, 3], 1024).astype(np.float32)
    assert np.array_equal(playground.arrays["a"].before, before)
    assert np.array_equal(playground.arrays["a"].numbers[:32], before[:32] + 1)


def test_file__gives_an_array_that_a_later_launch_takes():
    playground = Playground()
    asked = vector_add()
    playground.run(asked)
    sums = playground.arrays["c"].numbers.copy()
    stored = playground.file("c")
    assert np.array_equal(np.load(io.BytesIO(base64.b64decode(stored))), sums)
    asked["arguments"][0] |= {"fill": "file", "file": stored}
    playground.run(asked)
    assert np.array_equal(
        playground.arrays["c"].numbers[:32], sums[:32] + playground.arrays["b"].numbers[:32]
    )
    asked["arguments"][0]["dtype"] = "f16"
    assert playground.run(asked)["error"]["field"] == "arguments.0.dtype"


# --- results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example__ends_as_it_promises(example: Example):
    ended = Playground().run(request(example.state()))
    json.dumps(ended)
    warned = [note["hazard"] for note in ended.get("notes", ()) if note["severity"] == "warning"]
    if ended["ended"] == "ran":
        assert warned == ([example.ends] if example.ends else [])
        assert any(array["changed"] for array in ended["arrays"])
    else:
        assert ended["error"]["hazard"] == example.ends
        quoted = example.text.splitlines()[ended["error"]["line"] - 1].strip()
        assert quoted.split()[0] in ended["error"]["message"]


PRODUCTS = {
    "vector_add": lambda a, b, c: (c, np.where(np.arange(256) < 250, a + b, 0)),
    "mma_sync": lambda a, b, c: (c, (a @ b.T).T),
    "transpose": lambda source, result: (result, source.T),
    "tma_load": lambda a, out: (out, a[64:128, 128:192]),
    "tma_pipeline": lambda a, out: (out, a.sum(axis=1)),
    "wgmma": lambda a, b, c: (c, a @ b.T),
    "two_sm": lambda a, b, c: (c, a @ b.T),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_example__gives_the_numbers_that_numpy_gives(name):
    [example] = [one for one in EXAMPLES if one.name == name]
    playground = Playground()
    playground.run(request(example.state()))
    arrays = {
        key: decode(array.memory, array.kind).astype(np.float64) for key, array in playground.arrays.items()
    }
    got, expected = PRODUCTS[name](**arrays)
    assert got.any()
    assert np.array_equal(got, expected)


def test_examples__every_right_one_has_its_numbers_checked():
    assert {example.name for example in EXAMPLES if not example.ends} == set(PRODUCTS)


def test_run__shows_the_first_rows_of_an_array_and_marks_what_changed():
    ended = Playground().run(vector_add())
    [array] = [one for one in ended["arrays"] if one["name"] == "c"]
    assert (array["changed"], array["size"], array["cut_rows"], array["cut_columns"]) == (
        sum(map(sum, array["marks"])),
        1024,
        48,
        0,
    )
    assert [len(row) for row in array["rows"]] == [16] * 16
    assert not any(array["marks"][2])


def test_run__hazards_change_the_severity():
    [example] = [one for one in EXAMPLES if one.name == "swizzle"]
    asked = request(example.state(), hazards="another layout = error")
    ended = Playground().run(asked)
    assert (ended["ended"], ended["error"]["hazard"]) == ("error", "another layout")


def test_run__the_memory_report_counts_the_conflicts_and_is_there_after_an_error():
    by_name = {example.name: example for example in EXAMPLES}
    report = Playground().run(request(by_name["transpose"].state()))["memory"]
    assert any("bank conflicts" in total for total in report["totals"])
    loads = [row for row in report["rows"] if row["instruction"].startswith("ld.shared")]
    assert {row["transactions"] // row["least"] for row in loads} == {32}
    assert Playground().run(request(by_name["no_barrier"].state()))["memory"]["rows"]


def test_explore__says_whether_seeds_differ():
    asked = vector_add() | {"seeds": "3"}
    assert Playground().explore(asked)["agree"] is True
    [broken] = [one for one in EXAMPLES if one.name == "deadlock"]
    told = Playground().explore(request(broken.state(), seeds="2"))
    assert (told["agree"], "DeadlockError" in told["text"]) == (True, True)
    for seeds, word in (("1", "at least 2"), ("51", "at most 50")):
        error = Playground().explore(asked | {"seeds": seeds})["error"]
        assert (error["field"], word in error["message"]) == ("seeds", True)


def test_prove__says_whether_every_order_goes_well():
    told = Playground().prove(vector_add())
    assert (told["verdict"], "proved" in told["text"], "error" in told) == ("proved", True, False)
    [broken] = [one for one in EXAMPLES if one.name == "deadlock"]
    told = Playground().prove(request(broken.state()))
    assert (told["verdict"], told["error"]["kind"]) == ("counterexample", "DeadlockError")
    assert Playground().prove(vector_add() | {"grid": "x"})["error"]["field"] == "grid"


# --- the page ----------------------------------------------------------------------------------------------


def test_answer__has_a_timeline_where_there_is_something_to_draw(monkeypatch):
    sent = []
    monkeypatch.setattr(widgets._Page, "send", sent.append)
    by_name = {example.name: example for example in EXAMPLES}
    drawn = answer(json.dumps({"ask": "run", **request(by_name["tma_load"].state())}))
    assert drawn.timeline is not None
    shown, _ = drawn._repr_mimebundle_()
    assert shown["application/json"]["ended"] == "ran"
    assert [message["id"] for message in sent] == [shown[WIDGET_VIEW]["model_id"]]
    assert drawn.data["about_timeline"] == ""
    broken = answer(json.dumps({"ask": "run", **request(by_name["deadlock"].state())}))
    assert "no warp can go on" in broken.timeline.end
    plain = answer(json.dumps({"ask": "run", **request(by_name["vector_add"].state())}))
    assert plain.timeline is None
    assert "nothing to draw" in plain.data["about_timeline"]
    assert answer(json.dumps({"ask": "file", "name": "c"})).data["base64"]
    assert answer(json.dumps({"ask": "read", "text": VECTOR_ADD})).data["entry"] == "vector_add"


def test_answer__draws_the_end_of_a_launch_with_too_many_events():
    text = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry polls()
{
    .reg .pred %done;
    .shared .align 8 .b64 full;
    mbarrier.init.shared::cta.b64 [full], 64;
LOOP:
    mbarrier.arrive.shared::cta.b64 _, [full];
    mbarrier.test_wait.parity.shared::cta.b64 %done, [full], 0;
    bra LOOP;
}
"""
    asked = request({"text": text, **read(text)}, block="1", limit="6000")
    drawn = answer(json.dumps({"ask": "run", **asked}))
    assert (drawn.data["ended"], drawn.data["error"]["hazard"]) == ("error", "endless")
    assert "starts at instruction" in drawn.data["about_timeline"]
    times = [event[2] for event in drawn.timeline.trace["events"]]
    assert 1000 < len(times) <= 2100
    assert max(times) > 5900
