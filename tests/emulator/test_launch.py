"""What a launch takes, what it refuses, and what it reports."""

import gc
import importlib
import tracemalloc
import weakref

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.errors import (
    BudgetExceeded,
    DeadlockError,
    InvalidOperand,
    LaunchError,
    UnsupportedInstruction,
)
from cutecourse.ptx import PtxNameError, PtxSyntaxError, read_module
from support import tcgen05
from support.hazard_kernels import Product

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
INCREMENT = (
    HEAD
    + """
.visible .entry increment(.param .u64 data, .param .u32 n)
{
    .reg .b32 %i, %n, %t;
    .reg .b64 %address;
    .reg .pred %past;
    ld.param.u32 %n, [n];
    ld.param.u64 %address, [data];
    mov.u32 %t, %tid.x;
    mov.u32 %i, %ctaid.x;
    mov.u32 %t, %ntid.x;
    mul.lo.u32 %i, %i, %t;
    mov.u32 %t, %tid.x;
    add.u32 %i, %i, %t;
    setp.ge.u32 %past, %i, %n;
    @%past ret;
    mad.wide.u32 %address, %i, 4, %address;
    ld.global.u32 %t, [%address];
    add.u32 %t, %t, 1;
    st.global.u32 [%address], %t;
    ret;
}
"""
)


def scalar_kernel(type_, body, out_type="u64"):
    return (
        HEAD
        + f"""
.visible .entry k(.param .u64 out, .param .{type_} x)
{{
    .reg .b64 %to, %v;
    ld.param.u64 %to, [out];
    {body}
    st.global.{out_type} [%to], %v;
    ret;
}}
"""
    )


@pytest.mark.parametrize("grid", [4, (4,), [4, 1], (2, 2), (1, 1, 4), np.int64(4)])
def test_launch__takes_extents_in_every_shape(grid):
    data = np.arange(100, dtype=np.uint32)
    text = INCREMENT.replace(
        "mov.u32 %i, %ctaid.x;",
        "mov.u32 %i, %ctaid.x; mov.u32 %t, %ctaid.y; mad.lo.u32 %i, %t, 2, %i; mov.u32 %t, %ctaid.z;"
        " add.u32 %i, %i, %t;",
    )
    launch(text, grid=grid, block=32, args=[data, 100])
    np.testing.assert_array_equal(data, np.arange(1, 101))


@pytest.mark.parametrize("block", [1, 7, 31, 32, 33, 64, 100, 1024])
def test_launch__blocks_that_do_not_fill_their_last_warp(block):
    data = np.zeros(300, dtype=np.uint32)
    launch(INCREMENT, grid=-(-300 // block), block=block, args=[data, 300])
    np.testing.assert_array_equal(data, np.ones(300))


def test_launch__writes_back_in_place_and_leaves_the_rest_alone():
    whole = np.zeros((4, 8), dtype=np.int32)
    launch(INCREMENT, grid=1, block=32, args=[whole[1:3], 16])
    np.testing.assert_array_equal(whole, np.repeat([[0], [1], [1], [0]], 8, axis=1))


def test_launch__the_same_array_twice_is_one_allocation():
    text = HEAD + (
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out) { .reg .b64 %a, %b, %o;"
        " ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %o, [out]; sub.u64 %a, %b, %a;"
        " st.global.u64 [%o], %a; ret; }"
    )
    data, out = np.zeros(16, dtype=np.float32), np.zeros(1, dtype=np.int64)
    launch(text, grid=1, block=1, args=[data, data, out])
    assert out[0] == 0
    launch(text, grid=1, block=1, args=[data, data[4:], out])
    assert out[0] == 16
    launch(text, grid=1, block=1, args=[data, np.zeros(4, dtype=np.float32), out])
    assert out[0] > data.nbytes


def test_launch__counts_instructions_by_name_for_each_warp():
    data = np.zeros(128, dtype=np.uint32)
    result = launch(INCREMENT, grid=2, block=64, args=[data, 64])
    assert result.warps == 4
    assert result.instructions["ld.param.u32"] == 4
    # Only the first block's two warps come past the guarded return.
    assert result.instructions["ld.global.u32"] == 2
    assert result.count("st") == 2
    assert result.count("st.global") == 2
    assert result.count("s") == 0
    assert result.total == sum(result.instructions.values())
    assert (result.entry, result.seed) == ("increment", 0)


def test_launch__takes_a_module_that_was_read():
    data = np.zeros(32, dtype=np.uint32)
    module = read_module(INCREMENT)
    for _ in range(2):
        launch(module, grid=1, block=32, args=[data, 32])
    assert (data == 2).all()


def test_launch__entry_by_name():
    text = HEAD + "".join(
        f".visible .entry {name}(.param .u64 out) {{ .reg .b64 %a; ld.param.u64 %a, [out];"
        f" st.global.u32 [%a], {value}; ret; }}\n"
        for name, value in (("one", 1), ("two", 2))
    )
    out = np.zeros(1, dtype=np.uint32)
    launch(text, grid=1, block=1, args=[out], entry="two")
    assert out[0] == 2
    with pytest.raises(LaunchError, match=r"2 entries\. Say which with entry=: one, two"):
        launch(text, grid=1, block=1, args=[out])
    with pytest.raises(LaunchError, match="no entry 'three'; its entries: one, two"):
        launch(text, grid=1, block=1, args=[out], entry="three")


@pytest.mark.parametrize(
    ("type_", "value", "bits"),
    [
        ("u8", 255, 255),
        ("s8", -1, 0xFF),
        ("u16", 65535, 65535),
        ("s16", np.int16(-2), 0xFFFE),
        ("u32", -1, 0xFFFFFFFF),
        ("s32", -5, 0xFFFFFFFB),
        ("b32", 1.5, 0x3FC00000),
        ("b32", np.float32(1.5), 0x3FC00000),
        ("b32", np.int32(-1), 0xFFFFFFFF),
        ("f32", 1.5, 0x3FC00000),
        ("f32", 2, 0x40000000),
        ("f64", 1.5, 0x3FF8000000000000),
        ("b64", 1.5, 0x3FF8000000000000),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("f16", 1.5, 0x3E00),
        ("b16", np.float16(1.5), 0x3E00),
        ("u32", True, 1),
    ],
)
def test_launch__scalars_by_the_declared_type(type_, value, bits):
    width = type_[1:]
    out = np.zeros(1, dtype=np.uint64)
    load = f"mov.u64 %v, 0; ld.param.b{width} %v, [x];"
    launch(scalar_kernel(type_, load), grid=1, block=1, args=[out, value])
    assert int(out[0]) == bits


def test_launch__a_tuple_fills_a_struct_field_by_field():
    text = HEAD + (
        ".visible .entry k(.param .align 8 .b8 s[32], .param .u64 out) { .reg .b64 %o, %p; .reg .b32 %a, %b;"
        " ld.param.u64 %o, [out]; ld.param.b32 %a, [s]; ld.param.b64 %p, [s+8]; ld.param.b32 %b, [s+16];"
        " st.global.u32 [%o], %a; st.global.u32 [%o+4], %b; ld.global.u32 %a, [%p]; st.global.u32 [%o+8], "
        "%a; ret; }"
    )
    data, out = np.array([77], dtype=np.uint32), np.zeros(3, dtype=np.uint32)
    launch(text, grid=1, block=1, args=[(np.int32(5), data, np.int32(9)), out])
    assert out.tolist() == [5, 9, 77]
    with pytest.raises(LaunchError, match="the fields take 40 bytes"):
        launch(text, grid=1, block=1, args=[(data,) * 5, out])
    with pytest.raises(LaunchError, match="a field of type int has no size"):
        launch(text, grid=1, block=1, args=[(5,), out])
    with pytest.raises(LaunchError, match="3 bytes were given"):
        launch(text, grid=1, block=1, args=[b"abc", out])


GOOD = np.zeros(32, dtype=np.uint32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": [GOOD]}, r"1 argument for 2 parameters: \(\.u64, \.u32\)"),
        ({"args": [GOOD, 1, 2]}, "3 arguments for 2 parameters"),
        ({"args": GOOD}, "args is a sequence of arguments"),
        ({"args": [GOOD, GOOD]}, r"parameter n \(\.u32, 4 bytes\): an array is a pointer of 8 bytes"),
        ({"args": [GOOD, 1.5]}, "the number 1.5 is not an integer"),
        ({"args": [GOOD, 2**33]}, "8589934592 does not fit"),
        ({"args": [GOOD, "3"]}, "a value of type str is not a scalar"),
        ({"args": [GOOD, None]}, "a value of type NoneType is not a scalar"),
        ({"args": [np.zeros((4, 8), dtype=np.uint32)[:, ::2], 1]}, "is not contiguous"),
        ({"args": [np.array([None]), 1]}, "Python objects"),
        ({"args": [np.broadcast_to(np.uint32(1), (4,)), 1]}, "contiguous|read-only"),
        ({"grid": 0}, "grid.x is 0"),
        ({"grid": (1, 70000)}, "grid.y is 70000, but must be in 1..65535"),
        ({"grid": (2**31 - 1, 65535)}, "140735340806145 blocks: the emulator runs 1048576 at most"),
        ({"grid": "a"}, "grid is one to three integers"),
        ({"grid": (1, 2, 3, 4)}, "grid is one to three integers"),
        ({"grid": 1.5}, "grid is one to three integers"),
        ({"block": 2000}, "block.x is 2000"),
        ({"block": (64, 32)}, "has 2048 threads, but at most 1024"),
        ({"block": -1}, "block.x is -1"),
        ({"cluster": 2, "grid": 2}, "clusters need sm_90 or later"),
        ({"seed": "x"}, "the seed must be an integer"),
        ({"dynamic_smem": -1}, "dynamic_smem is a number of bytes"),
        ({"dynamic_smem": 200 << 10}, "204800 bytes of shared memory .* do not fit: sm_80 has 166912"),
    ],
)
def test_launch__refuses_a_wrong_launch_with_one_clear_error(change, message):
    given = {"grid": 1, "block": 32, "args": [GOOD, 32]} | change
    with pytest.raises(LaunchError, match=message):
        launch(INCREMENT, **given)


def test_launch__refuses_arrays_that_overlap_in_part():
    text = HEAD + ".visible .entry k(.param .u64 a, .param .u64 b) { ret; }"
    data = np.zeros(16, dtype=np.uint32)
    with pytest.raises(LaunchError, match="overlap in part"):
        launch(text, grid=1, block=1, args=[data[:8], data[4:12]])


@pytest.mark.parametrize(
    ("directive", "launched", "message"),
    [
        (".reqntid 64", {"block": 32}, r"requires blocks of \(64, 1, 1\), not \(32, 1, 1\)"),
        (".maxntid 64", {"block": 128}, "larger than the kernel's .maxntid"),
        (".reqnctapercluster 2", {"cluster": 4, "grid": 4}, r"requires clusters of \(2, 1, 1\)"),
    ],
)
def test_launch__holds_to_the_kernels_directives(directive, launched, message):
    text = HEAD.replace("sm_80", "sm_90") + f".visible .entry k() {directive} {{ ret; }}"
    with pytest.raises(LaunchError, match=message):
        launch(text, **({"grid": 1, "block": 64} | launched))


def test_launch__static_shared_memory_has_its_limit():
    text = HEAD + ".shared .b8 s[50000];\n.visible .entry k() { .reg .b32 %a; mov.u32 %a, s; ret; }"
    with pytest.raises(LaunchError, match="50000 bytes of static shared memory are too many: at most 49152"):
        launch(text, grid=1, block=1)


def test_launch__variables_of_absurd_sizes_are_refused():
    text = HEAD + ".global .b8 s[99999999999999];\n.visible .entry k() { .reg .b64 %a; mov.u64 %a, s; ret; }"
    with pytest.raises(Exception, match="more than 4294967296"):
        launch(text, grid=1, block=1)
    text = HEAD + ".visible .entry k() { .local .b8 s[999999999]; ret; }"
    with pytest.raises(LaunchError, match="local memory past 512 KiB"):
        launch(text, grid=1, block=1)


def test_launch__names_every_unsupported_instruction_before_anything_runs():
    text = HEAD + (
        ".visible .entry k(.param .u64 out) {\n.reg .b32 %a<3>; .reg .b64 %o;\nld.param.u64 %o, [out];\n"
        "st.global.u32 [%o], 1;\nvadd.u32.u32.u32 %a0, %a1, %a2;\nadd.u32.wrong %a0, %a1, %a2;\n"
        "vadd.u32.u32.u32 %a0, %a1, %a2;\nret;\n}"
    )
    out = np.zeros(1, dtype=np.uint32)
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(text, grid=1, block=1, args=[out])
    message = str(caught.value)
    assert "3 instructions cannot be run" in message
    assert "line 8, 10: vadd.u32.u32.u32 is not supported" in message
    assert "line 9: add.u32.wrong is not supported: no model of .wrong" in message
    assert out[0] == 0


def test_launch__unsupported_instructions_of_other_kernels_do_no_harm():
    text = HEAD + ".visible .entry bad() { .reg .b32 %a; vadd.u32.u32.u32 %a, %a, %a; ret; }\n"
    text += ".visible .entry good() { ret; }"
    launch(text, grid=1, block=1, entry="good")
    with pytest.raises(UnsupportedInstruction, match="line 4"):
        launch(text, grid=1, block=1, entry="bad")


def test_launch__malformed_text_is_a_ptx_error():
    with pytest.raises(PtxSyntaxError, match="line 4, column"):
        launch(HEAD + ".visible .entry k( { ret; }", grid=1, block=1)
    with pytest.raises(PtxNameError, match="'%a' is used but not declared"):
        launch(HEAD + ".visible .entry k() { mov.u32 %a, 1; ret; }", grid=1, block=1)


def test_launch__operands_of_the_wrong_width_are_refused():
    text = HEAD + ".visible .entry k() { .reg .b32 %a; .reg .b64 %b; add.u32 %a, %a, %b; ret; }"
    with pytest.raises(InvalidOperand, match=r"type \.b64, but the instruction reads \.u32"):
        launch(text, grid=1, block=1)
    with pytest.raises(InvalidOperand, match=r"type \.b64, but the instruction writes \.u32"):
        launch(text.replace("%a, %a, %b", "%b, %a, %a"), grid=1, block=1)


def test_launch__a_kernel_that_never_ends_runs_out_of_budget():
    text = (
        HEAD
        + ".visible .entry k() {\n.reg .b32 %a;\nmov.u32 %a, 0;\nagain:\nadd.u32 %a, %a, 1;\nbra again;\n}"
    )
    with pytest.raises(BudgetExceeded, match="did not end within 5000 instructions") as caught:
        launch(text, grid=1, block=32, max_instructions=5000)
    assert "line 8" in str(caught.value)
    assert "add.u32 %a, %a, 1;" in str(caught.value)


def test_launch__recursion_is_named():
    text = HEAD + (
        ".func f();\n.func g() { call f; ret; }\n.func f() { call g; ret; }\n.visible .entry k() { call "
        "f; ret; }"
    )
    with pytest.raises(UnsupportedInstruction, match="recursive calls are not supported: f calls g calls f"):
        launch(text, grid=1, block=1)


def test_launch__blocks_that_have_ended_hold_no_memory():
    """A grid is as large as its arrays, not as all of its blocks' shared memory together."""
    text = (
        HEAD
        + """
.visible .entry quiet()
{
    .shared .align 16 .b8 box[4096];
    .reg .b32 %at;
    mov.u32 %at, box;
    st.shared.u32 [%at], 1;
    ret;
}
"""
    )
    launch(text, grid=1, block=32)
    tracemalloc.start()
    try:
        launch(text, grid=8000, block=32)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8000 * 4096


def test_launch__32_bit_addresses_are_refused():
    with pytest.raises(LaunchError, match="addresses of 32 bits"):
        launch(".version 8.0\n.target sm_80\n.address_size 32\n.visible .entry k() { ret; }", grid=1, block=1)


def test_launch__falling_off_the_end_of_a_body_ends_the_kernel():
    out = np.zeros(1, dtype=np.uint32)
    text = (
        HEAD
        + ".visible .entry k(.param .u64 o) { .reg .b64 %a; ld.param.u64 %a, [o]; st.global.u32 [%a], 7; }"
    )
    launch(text, grid=1, block=1, args=[out])
    assert out[0] == 7


# --- names and severities -----------------------------------------------------------------------------------

WAITS = (
    HEAD.replace("sm_80", "sm_90")
    + """
.extern .shared .align 1024 .b8 pool[];
.visible .entry waits()
{
    .reg .b32 %at;
    .reg .pred %done;
    mov.u32 %at, pool;
    mbarrier.init.shared::cta.b64 [%at+72], 2;
AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%at+72], 0;
    @!%done bra AGAIN;
    ret;
}
"""
)


def test_launch__names_ranges_of_shared_memory_in_reports():
    given = {"all": (0, 128), "full": (64, 16)}
    with pytest.raises(DeadlockError, match=r"mbarrier full\+8 \(") as caught:
        launch(WAITS, grid=1, block=1, dynamic_smem=128, names=given)
    assert "pool" not in str(caught.value).split("waits", 1)[0]
    with pytest.raises(DeadlockError, match=r"mbarrier pool\+72 \("):
        launch(WAITS, grid=1, block=1, dynamic_smem=128)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"names": {"full": (120, 16)}}, r"bytes 120 to 136 are not all in shared memory, which has 128"),
        ({"names": {"full": 8}}, r"give \(offset, bytes\)"),
        ({"hazards": ["race"]}, r"hazards is a mapping, not \['race'\]"),
        ({"names": 5}, r"names is a mapping, not 5"),
        ({"max_instructions": None}, r"max_instructions is a number of at least 1, not None"),
        ({"max_instructions": 0}, r"max_instructions is a number of at least 1, not 0"),
        ({"processes": 0}, r"processes is a number of at least 1, not 0"),
        ({"processes": "all"}, r"processes is a number of at least 1, not 'all'"),
        ({"recorder": 5}, r"recorder is a cutecourse.trace.Recorder, not 5"),
        ({"arithmetic": []}, r"arithmetic=\[\] is no GPU"),
        ({"hazards": {"rases": "off"}}, r"no such hazard. Did you mean race\?"),
        ({"hazards": {"race": "loud"}}, r"a severity is one of error, warning, note, off"),
    ],
)
def test_launch__refuses_names_and_severities_that_are_none(option, message):
    with pytest.raises(LaunchError, match=message):
        launch(WAITS, grid=1, block=1, dynamic_smem=128, **option)


def test_launch__frees_its_machine_without_the_garbage_collector(monkeypatch):
    """Also where the race check follows clocks: warps arrive at an mbarrier."""
    made = []

    make = Machine.__init__

    def watched(self, *arguments, **options):
        make(self, *arguments, **options)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Machine, "__init__", watched)
    gc.disable()
    try:
        tcgen05.run_zeros("bar.sync 0;\n")
        Product().launch(0, {})
        left = [one() is not None for one in made]
    finally:
        gc.enable()
    assert left == [False, False]


TWICE = (
    HEAD
    + """
.global .u32 count = 7;
.visible .entry twice(.param .u64 ahead, .param .u64 out, .param .s32 x)
{
    .shared .align 8 .b64 full;
    .reg .b64 %to, %wide;
    .reg .b32 %x, %n;
    ld.param.u64 %to, [out];
    ld.param.s32 %wide, [x];
    atom.global.add.u32 %n, [count], 1;
    cvt.u32.u64 %x, %wide;
    st.global.u32 [%to], %x;
    st.global.u32 [%to + 4], %n;
    st.global.u64 [%to + 8], %wide;
    ret;
}
"""
)


def test_launch__is_decoded_once_and_shares_nothing_else(monkeypatch):
    """Arguments at other addresses, another scalar, a variable that the first launch has changed."""
    module = importlib.import_module("cutecourse.emulator.launch")
    decode, decoded = module.decode, []

    def counted(*arguments, **options):
        decoded.append(arguments)
        return decode(*arguments, **options)

    monkeypatch.setattr(module, "decode", counted)
    found = []
    for x, before in ((5, 4), (-3, 1 << 20)):
        ahead, out = np.zeros(before, np.uint8), np.zeros(4, np.uint32)
        names = {"all": (0, 8)} if x < 0 else None
        launch(TWICE, grid=1, block=1, args=[ahead, out, x], names=names)
        found.append(out.tolist())
    assert found == [[5, 7, 5, 0], [2**32 - 3, 7, 2**32 - 3, 2**32 - 1]]
    assert len(decoded) == 1
