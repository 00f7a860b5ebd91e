"""What people get wrong in a text, an argument or a launch: one error that says what and where."""

import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import InvalidOperand, LaunchError, UninitializedRead, UnsupportedInstruction
from cutecourse.errors import CourseError
from cutecourse.ptx import PtxError, PtxNameError, PtxSyntaxError

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %t, %n;
    .reg .f32 %x, %f;
    .reg .b64 %at;
    .reg .b128 %wide;
    ld.param.u64 %at, [data];
    ld.param.f32 %f, [factor];
    ld.param.u32 %n, [n];
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, %n;
    @%p bra END;
    mad.wide.u32 %at, %t, 4, %at;
    ld.global.f32 %x, [%at];
    mul.f32 %x, %x, %f;
    st.global.f32 [%at], %x;
END:
    ret;
}
"""


def run(text=TEXT, **changed):
    data = np.arange(64, dtype=np.float32)
    given = {"grid": 1, "block": 64, "args": [data, 2.0, 64]} | changed
    launch(text, **given)
    return data


def test_right_input__runs():
    assert run().tolist() == (2.0 * np.arange(64)).tolist()


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (("ld.param.u64", "ld.param.u6"), UnsupportedInstruction, "no type modifier.*line 11"),
        (("mov.u32 %t, %tid.x;", "mov.u32 %t, %tid.x"), PtxSyntaxError, "line 15.*expected ',' or ';'"),
        (("bra END", "bra LOOP"), PtxNameError, "line 16.*LOOP"),
        ((".reg .b128 %wide", ".reg .v8 .b32 %wide"), PtxError, "line 10.*no register .v8 .b32"),
        ((".reg .b128 %wide", ".reg .v2 .pred %wide"), PtxError, "line 10.*no register .v2 .pred"),
        (("%n, [n];", "%n, [n]; .reg .v2 .b32 v; mov.b32 v.z, %n;"), PtxNameError, "line 13.*'v.z'"),
        (("%n, [n];", "%n, [n]; .reg .v2 .b32 v; add.s32 v, v, v;"), InvalidOperand, "line 13"),
        (("%n, [n];", "%n, [n]; .reg .v2 .b64 v; ld.u64 %at, [v];"), PtxNameError, "line 13.*part"),
        ((", %tid.x", ", %tidx"), PtxNameError, "line 14.*%tidx"),
        (("[data]", "[dat]"), PtxNameError, "line 11.*dat"),
        (("END:", "%END:"), PtxNameError, "line 16.*END"),
        (("}", ""), PtxSyntaxError, "the text ends too early; expected"),
        ((".version 8.0", ""), PtxSyntaxError, "version"),
        ((".version 8.0", "// ptx\nversion 8.0"), PtxSyntaxError, "version"),
        (("mul.f32", "mull.f32"), UnsupportedInstruction, "no instruction mull. Did you mean mul.*line 19"),
        (("mul.f32", "brood"), UnsupportedInstruction, r"no instruction brood\n"),
        (("mul.f32", "tex.1d.v4"), UnsupportedInstruction, "textures and surfaces are not supported"),
        (("mul.f32", "cp.reduce"), UnsupportedInstruction, "does not have this form of cp"),
        (("mul.f32", "mul.f31"), UnsupportedInstruction, "line 19"),
        (("mul.f32 %x, %x, %f", "max.abs.f32 %x, %x, %f"), UnsupportedInstruction, "abs without .xorsign"),
        (("mul.f32 %x, %x,", "max.xorsign.abs.f32 %x, %x, %x,"), UnsupportedInstruction, "without .xorsign"),
        (("mul.f32 %x, %x,", "max.f16x2 %x, %x, %x,"), UnsupportedInstruction, "three sources go with .f32"),
        (("mul.f32 %x, %x,", "max.f32 %x, %x, %x, %x,"), InvalidOperand, "takes 3 operands here, not 5"),
        (("%x, %x, %f", "%x, %x"), InvalidOperand, "operand"),
        (("%x, %x, %f", "%x, %x, %t4"), PtxNameError, "line 19.*%t4"),
        (("%x, %x, %f", "%x, %at, %f"), InvalidOperand, "register of type .b64"),
        (("st.global.f32 [%at], %x", "st.global.f32 %at, %x"), InvalidOperand, "address in brackets"),
        (("@%p bra", "@%t bra"), PtxError, "line 16.*%t.*not a predicate register"),
        (("mov.u32 %t, %tid.x;", "cvt.u32.u64 %wide, %at;"), InvalidOperand, "register of 128 bits"),
        (("mov.u32 %t, %tid.x;", "ld.global.u32 %wide, [%at];"), InvalidOperand, "%wide has 128 bits"),
        (
            ("mov.u32 %t, %tid.x;", "selp.b128 %wide, %wide, %wide, %p;"),
            UnsupportedInstruction,
            "only be moved",
        ),
        (("mov.u32 %t, %tid.x;", "mov.b128 {%t, %t, %t, %t}, %wide;"), InvalidOperand, "4 parts of 128"),
        (("mov.u32 %t, %tid.x;", "selp.pred %p, %p, %p, %p;"), UnsupportedInstruction, "selp"),
        (
            ("@%p bra END;", "ways: .branchtargets END, %t; brx.idx %t, ways;"),
            InvalidOperand,
            "%t is not a label of this function.*line 16",
        ),
        ((".address_size 64", ".address_size 32"), LaunchError, "32 bits"),
    ],
)
def test_text__is_refused_with_its_line(change, kind, message):
    assert change[0] in TEXT
    with pytest.raises(kind) as caught:
        run(TEXT.replace(*change))
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("// mine\n#include <cuda.h>\nint main() {}\n", 2, r"C\+\+, not PTX; expected PTX, as nvcc --ptx"),
        ('extern "C" __global__ void k(float *x) { *x = 1; }', 1, r"C\+\+, not PTX"),
        (
            '\t\tFunction : k\n\t.headerflags\t@"EF_CUDA_SM90"\n',
            2,
            "SASS, not PTX; expected .* cuobjdump -ptx",
        ),
        ("        /*0010*/                   MOV R1, c[0x0][0x28] ;", 1, "SASS, not PTX"),
    ],
)
def test_text__of_another_language_is_named(text, line, said):
    with pytest.raises(PtxSyntaxError, match=rf"line {line}, .*{said}"):
        run(text)


@pytest.mark.parametrize("text", ["", "\n", "kernel<<<1, 1>>>()", "\0", "// nothing"])
def test_text__that_is_none(text):
    with pytest.raises(PtxSyntaxError, match="version"):
        run(text)


F32 = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([F32], r"1 argument for 3 parameters: \(\.u64, \.f32, \.u32\)"),
        ([F32, 2.0, 64, 0], r"4 arguments for 3 parameters"),
        (F32, "put the one argument into a list"),
        (None, "args is a sequence of arguments"),
        (7, "args is a sequence of arguments"),
        ([F32, "2.0", 64], r"parameter factor \(\.f32, 4 bytes\)"),
        ([F32, 2.0, 64.5], r"parameter n \(\.u32, 4 bytes\)"),
        ([F32, 2.0, 1 << 32], r"parameter n"),
        ([F32, 2.0, None], r"parameter n"),
        ([F32, 2.0, F32], r"parameter n"),
        ([F32.tolist(), 2.0, 64], r"parameter data \(\.u64, 8 bytes\)"),
        ([np.zeros(4, object), 2.0, 64], "parameter data"),
        ([np.zeros(128, np.float32)[::2], 2.0, 64], "parameter data.*contiguous"),
    ],
)
def test_arguments__are_refused_with_the_parameter(args, message):
    with pytest.raises(LaunchError, match=message):
        run(args=args)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": 0}, r"grid\.x is 0, but must be in 1\.\.2147483647"),
        ({"grid": (1, 65536)}, r"grid\.y is 65536"),
        ({"grid": (2**31 - 1)}, "2147483647 blocks: the emulator runs 1048576 at most"),
        ({"grid": (1, 1, 1, 1)}, "grid is one to three integers"),
        ({"grid": 1.0}, "grid is one to three integers"),
        ({"block": 1025}, r"block\.x is 1025"),
        ({"block": (64, 32)}, "2048 threads, but at most 1024"),
        ({"block": -32}, r"block\.x is -32"),
        ({"cluster": 2}, "cluster"),
        ({"dynamic_smem": -1}, "dynamic_smem is a number of bytes, not -1"),
        ({"dynamic_smem": "48K"}, "dynamic_smem is a number of bytes, not '48K'"),
        ({"dynamic_smem": 1 << 20}, "1048576 dynamic.* do not fit"),
        ({"entry": ["scale"]}, r"no entry \['scale'\]; its entries: scale"),
        ({"entry": "scol"}, "no entry 'scol'; its entries: scale"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"arithmetic": "sm_70"}, "arithmetic='sm_70'"),
        ({"hazards": {"rase": "off"}}, "no such hazard"),
        ({"max_instructions": 0}, "max_instructions is a number of at least 1, not 0"),
    ],
)
def test_launch__is_refused_with_what_it_should_be(change, message):
    with pytest.raises(CourseError, match=message):
        run(**change)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("mul.f32 %x, %x, %f;", "mul.f32 %x, %x, %f;" * 5_000),
        TEXT.replace("END:", "{" * 50_000 + "}" * 50_000 + "END:"),
        TEXT.replace("[%at], %x", "[" + "%at+" * 50_000 + "1], %x"),
        TEXT.replace("END:", "/*" * 100_000),
        TEXT.replace(".reg .b32 %t, %n;", ".reg .b32 %t, %n, %q<99999999999>;"),
        TEXT.replace(".reg .b32 %t, %n;", ".shared .b8 s[99999999999999999999];\n.reg .b32 %t, %n;"),
        TEXT.replace(".version 8.0", ".version 8.0\n" + '.file 1 "a"\n' * 20_000),
        TEXT + "\n.global .b8 g[" + "[" * 10_000,
        TEXT.replace("bra END", "bra TOP").replace("    mov.u32 %t", "TOP:\n    mov.u32 %t"),
    ],
    ids=["long", "nested", "sum", "comment", "registers", "variable", "files", "brackets", "endless"],
)
def test_text__of_absurd_size_ends_soon(text):
    start = time.process_time()
    message = ""
    try:
        run(text, max_instructions=50_000)
    except CourseError as error:
        message = str(error)
    assert len(message) < 2000  # can be read
    assert time.process_time() - start < 10


REFUSED_LATE = TEXT.replace(
    "    .reg .b128 %wide;\n", "    .reg .b128 %wide;\n    .extern .shared .align 16 .b8 stage[];\n"
).replace("mov.u32 %t, %tid.x;", "mov.u32 %t, %tid.x;\n    ld.shared.u32 %n, [stage];")


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much memory is taken from /proc")
def test_launch__that_fails_again_and_again_keeps_no_memory():
    """Each holds 128 blocks' 96 KiB of shared memory in objects that name each other.

    They are looked for every few launches, wherever earlier tests of the process have left the count: the
    most that is held meanwhile stays the same.
    """
    import resource

    most = []
    for _ in range(3):
        resident = []
        for _ in range(15):
            with pytest.raises(UninitializedRead):
                run(REFUSED_LATE, grid=128, dynamic_smem=96 << 10)
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
        most.append(max(resident))
    assert most[2] - most[1] < 50 << 20  # of 180 MiB and more that 15 launches have had
