"""Compiling: one text in every process, for every target, with nothing left behind, and clear refusals."""

import builtins
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutecourse import runtime
from cutecourse.dtypes import dtype
from cutecourse.kernels import LaunchSpec, Scalar, Tensor, hello_ptx, micro_gemm, stamp_layout
from cutecourse.kernels.files import kernel_module
from cutecourse.runtime.compile_cutedsl import compile_cutedsl, plain_reason
from cutecourse.runtime.compile_numba import array_layout, compile_numba
from cutecourse.runtime.compiled import PtxText
from cutecourse.runtime.errors import CompileError, NoCompilerError

FRONTS = [
    pytest.param(hello_ptx, "hello_ptx", id="ptx"),
    pytest.param(stamp_layout, "stamp_layout", id="numba"),
    pytest.param(micro_gemm, "micro_gemm_0", id="cutedsl"),
]


@pytest.mark.parametrize(("kernel", "entry"), FRONTS)
def test_compile__names_the_entry_after_the_kernel_and_keeps_the_target(kernel, entry):
    compiled = runtime.compile(kernel)
    assert compiled.entry == entry
    assert compiled.target == "sm_80"
    assert re.findall(r"^\.target (\S+)", compiled.ptx, re.MULTILINE) == ["sm_80"]
    assert f".visible .entry {entry}(" in compiled.ptx


@pytest.mark.parametrize(("kernel", "entry"), FRONTS)
def test_compile__compiles_once_for_each_target(kernel, entry):
    assert runtime.compile(kernel) is runtime.compile(kernel)
    other = runtime.compile(kernel, target="sm_90")
    assert other is not runtime.compile(kernel)
    assert ".target sm_90" in other.ptx


def test_compile__gives_the_same_text_whatever_was_compiled_before(tmp_path):
    program = (
        "import sys\n"
        "from cutecourse import runtime\n"
        "from cutecourse.kernels.files import kernel_module\n"
        "for name in sys.argv[1:]:\n"
        "    print(name, runtime.compile(kernel_module(name)).ptx.sha256)\n"
    )
    orders = (["stamp_tiles", "stamp_layout", "micro_gemm"], ["micro_gemm", "stamp_layout"])
    seen = [
        dict(
            line.split()
            for line in subprocess.run(
                [sys.executable, "-c", program, *order],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            ).stdout.splitlines()
        )
        for order in orders
    ]
    for name in ("stamp_layout", "micro_gemm"):
        assert seen[0][name] == seen[1][name] == runtime.compile(kernel_module(name)).ptx.sha256
    assert list(tmp_path.iterdir()) == []  # keeping PTX wrote nothing into the current directory


def test_compile__works_when_cutlass_was_imported_first_and_asked_to_keep_nothing(tmp_path):
    program = (
        "import cutlass\n"
        "from cutecourse import runtime\n"
        "from cutecourse.kernels import micro_gemm\n"
        "print(runtime.compile(micro_gemm).ptx.sha256)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUTE_DSL")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.split() == [runtime.compile(micro_gemm).ptx.sha256]
    assert list(tmp_path.iterdir()) == []


def test_compile__recompiles_a_kernel_that_was_defined_anew():
    from numba import cuda

    def spec(function):
        return LaunchSpec(
            name="cell",
            language="numba",
            kernel=function,
            grid=1,
            block=1,
            params=(Tensor("out", "s32", (None,)),),
        )

    def one(out):
        out[0] = 1

    def two(out):
        out[0] = 2

    texts = [runtime.compile(spec(cuda.jit(function))).ptx for function in (one, two)]
    assert texts[0] != texts[1]
    # Left undecorated, as one may write it in a notebook's cell, it compiles all the same.
    assert runtime.compile(spec(two)).ptx == texts[1]


def test_compile_numba__lowers_the_version_and_keeps_an_older_one():
    ptx = runtime.compile(stamp_layout).ptx
    version = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    assert tuple(map(int, version.groups())) <= (8, 8)


def test_compile_numba__has_one_parameter_for_each_field():
    spec = LaunchSpec(
        name="fields",
        language="numba",
        kernel=lambda a, n, b: None,
        grid=1,
        block=1,
        params=(Tensor("a", "f32", (None, None)), Scalar("n", "s16"), Tensor("b", "u8", (None,))),
    )
    ptx = runtime.compile(spec).ptx
    declared = re.findall(r"\.param \.(\w+) fields_param_(\d+)", ptx)
    assert [kind for kind, _ in declared] == ["u64"] * 9 + ["u16"] + ["u64"] * 7
    assert [int(index) for _, index in declared] == list(range(17))


@pytest.mark.parametrize(
    ("tensor", "letter"),
    [
        (Tensor("a", "f32", (None,)), "C"),
        (Tensor("a", "f32", (None, None)), "C"),
        (Tensor("a", "f32", (4, 8), (8, 1)), "C"),
        (Tensor("a", "f32", (4, 8), (1, 4)), "F"),
        (Tensor("a", "f32", (4, 8), (1, 5)), "A"),
        (Tensor("a", "f32", (None, 8), (8, 1)), "A"),
        (Tensor("a", "f32", (8,), (2,)), "A"),
        (Tensor("a", "f32", (8,), (1,)), "C"),
    ],
)
def test_array_layout__is_numbas_letter(tensor, letter):
    assert array_layout(tensor) == letter


def test_compile__tells_what_the_dsl_refused_without_its_colours():
    refused = kernel_module("mn_major_ldmatrix_refused")
    with pytest.raises(CompileError, match=r"alignment \(16 bits\) does not meet requirement") as caught:
        runtime.compile(refused)
    text = str(caught.value)
    assert text.startswith("mn_major_ldmatrix_refused: the CuTe DSL did not compile it for sm_80")
    assert "\x1b" not in text
    assert "\n" not in text


def test_plain_reason__stops_before_the_suggestions():
    error = ValueError("\x1b[91merror:\x1b[0m  wrong\n layout\n  suggestion: buy another")
    assert plain_reason(error) == "error: wrong layout"


def test_compile__tells_what_numba_refused():
    def returns_a_string(out):
        out[0] = "one"

    spec = LaunchSpec(
        name="bad",
        language="numba",
        kernel=returns_a_string,
        grid=1,
        block=1,
        params=(Tensor("out", "s32", (1,)),),
    )
    with pytest.raises(CompileError, match="bad: numba-cuda did not compile it for sm_80"):
        runtime.compile(spec)


@pytest.mark.parametrize(
    ("compiler", "spec", "package", "install"),
    [
        (compile_cutedsl, micro_gemm.LAUNCH, "cutlass", "nvidia-cutlass-dsl"),
        (compile_numba, stamp_layout.LAUNCH, "numba", "numba-cuda"),
    ],
)
def test_compile__without_the_compiler_says_what_to_install(monkeypatch, compiler, spec, package, install):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(NoCompilerError, match=f"Install {install}") as caught:
        compiler(spec, "sm_80")
    assert not isinstance(caught.value, CompileError)  # nothing was refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"ptx": ".version 7.0\n.target sm_90\n.entry k() {}"},
            "says .target sm_90, its specification sm_80",
        ),
        ({"ptx": ".version 7.0\n.entry k() {}"}, "no .target line"),
        ({"ptx": ".target sm_80\n.entry a() {}\n.entry b() {}"}, "2 entries"),
        ({"ptx": ".target sm_80\n"}, "0 entries"),
    ],
)
def test_compile__checks_ptx_text(changes, message):
    spec = LaunchSpec(name="text", language="ptx", grid=1, block=1, params=(), **changes)
    with pytest.raises(CompileError, match=message):
        runtime.compile(spec)


@pytest.mark.parametrize("thing", [os, "micro_gemm", None, micro_gemm.host])
def test_specification__refuses_what_is_no_kernel(thing):
    with pytest.raises(CompileError, match="is no kernel"):
        runtime.compile(thing)


def test_lines_with__keeps_whole_instructions():
    ptx = PtxText("mov.u32 %r1, 1;\n\tmma.sync.x\n\t\t{%r1},\n\t\t{%r2};\n\tret;\n")
    assert ptx.lines_with("mma.sync") == "mma.sync.x\n    {%r1},\n    {%r2};"
    assert ptx.lines_with("ret", "mov") == "mov.u32 %r1, 1;\nret;"
    assert repr(ptx) == str(ptx)


def test_kernels_package__imports_no_compiler():
    program = (
        "import sys, cutecourse.runtime, cutecourse.cli, cutecourse.kernels.chapters\n"
        "print(sorted(name for name in ('cutlass', 'numba', 'cuda') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
    assert Path(runtime.__file__).exists()


def test_compile_cutedsl__has_a_dsl_type_for_each_of_its_names():
    import cutlass

    from cutecourse.runtime import compile_cutedsl as module

    for course, dsl in module._NAMES.items():
        assert getattr(cutlass, dsl).width == dtype(course).bits


def test_compile__without_a_type_in_the_compiler_says_so():
    def nothing(a):
        pass

    params = (Tensor("a", "e5m2", (4,)),)
    numba_spec = LaunchSpec(name="b", language="numba", kernel=nothing, grid=1, block=1, params=params)
    with pytest.raises(CompileError, match="parameter a: numba-cuda has no type for e5m2"):
        runtime.compile(numba_spec)
    dsl_spec = LaunchSpec(
        name="b", language="cutedsl", host=nothing, grid=1, block=1, params=(Tensor("a", "s4", 4),)
    )
    with pytest.raises(CompileError, match="the CuTe DSL has no type for s4"):
        runtime.compile(dsl_spec)


@pytest.mark.parametrize(
    ("written", "kept"), [("8.6", "8.6"), ("8.8", "8.8"), ("9.0", "8.8"), ("9.4", "8.8"), ("10.1", "8.8")]
)
def test_with_lowered_version__asks_for_no_newer_ptx_than_the_course_needs(written, kept):
    # A toolkit newer than the driver writes a version that the driver refuses: seen with 9.4 on a driver
    # for 9.0.
    from cutecourse.runtime.compiled import with_lowered_version

    text = "//\n// .version of the compiler: 13.4\n\n.version {}\n.target sm_80\n"
    assert with_lowered_version(text.format(written)) == text.format(kept)
