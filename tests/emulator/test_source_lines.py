"""Lines of the source language in errors and notes, from the `.loc` of numba-cuda, nvcc and the CuTe DSL."""

from __future__ import annotations

import inspect
import linecache
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.emulator import EmulatorError, LaunchResult, launch
from cutecourse.emulator.errors import (
    AddressError,
    MissingProxyFence,
    SharedMemoryRace,
    UninitializedRead,
    UnsupportedInstruction,
)
from cutecourse.kernels import gemm_stages, umma_one
from cutecourse.kernels.faults import faults_of
from cutecourse.kernels.files import kernel_module
from cutecourse.ptx import parse, read_module
from cutecourse.ptx.sources import LineTable, SourcedText, SourceLine, source_of, without_locations
from cutecourse.ptx.syntax import FileDirective, Loc
from cutecourse.runtime import compiling
from cutecourse.runtime.compile_cutedsl import compile_host
from cutecourse.runtime.compiled import with_lowered_version
from support.compiled_kernels import compiled_kernels

cuda = pytest.importorskip("numba.cuda")
types = pytest.importorskip("numba.cuda.types")

MODULES = Path(__file__).parent / "modules"
HEAD = ".version 8.8 .target sm_90a .address_size 64\n"


def fault(ptx: str, args: Sequence[object]) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        launch(ptx, grid=1, block=32, args=args)
    return caught.value


def test_nvcc__error_names_the_line_and_where_it_was_inlined() -> None:
    values = np.zeros(32, np.float32)
    error = fault((MODULES / "beyond.ptx").read_text(), args=[values, values.copy()])
    text = (MODULES / "beyond.cu").read_text().splitlines()
    assert isinstance(error, AddressError)
    assert error.source is not None
    assert text[error.source.line - 1].strip() == "return from[i];"
    assert error.source.inlined_at is not None
    assert text[error.source.inlined_at.line - 1].strip() == "float v = load(from, i + 1);"
    assert f"PTX line {error.line} (beyond.cu:3, inlined at beyond.cu:7), block (0, 0, 0)" in str(error)
    assert error.source.path == "/example/work/beyond.cu"
    assert "/home" not in str(error)


def beyond(source: Any, target: Any) -> None:
    i = cuda.threadIdx.x
    target[i] = source[i + 100000]


def test_numba__error_names_the_line_of_python() -> None:
    vector = types.float32[::1]
    ptx, _ = cuda.compile(
        beyond, types.void(vector, vector), device=False, abi="numba", cc=(8, 0), output="ptx", lineinfo=True
    )
    lines, first = inspect.getsourcelines(beyond)
    wanted = first + next(i for i, line in enumerate(lines) if "source[" in line)
    module = parse(ptx)
    [entry] = module.entries.values()
    array = np.zeros(32, np.float32)
    # numba's array: meminfo, parent, items, bytes of one, data, shape, stride
    args = [0, 0, 32, 4, array, 32, 4] * 2
    assert len(entry.params) == len(args)
    error = fault(ptx, args=args)
    assert error.source is not None
    assert (error.source.file, error.source.line) == (Path(__file__).name, wanted)
    assert f" (test_source_lines.py:{wanted})" in str(error)
    assert str(Path(__file__).parent) not in str(error)


def lines_of(ptx: str, word: str) -> set[str]:
    """The source lines of a text's instructions of a kind, as their file has them."""
    module = parse(ptx)
    found = [source_of(module, number) for number, line in enumerate(ptx.splitlines(), 1) if word in line]
    assert found
    return {source.text for source in found if source}


@pytest.mark.compilers
@pytest.mark.parametrize("line_info", [False, True])
def test_dsl__every_text_knows_its_lines(line_info: bool) -> None:
    ptx = runtime.compile(umma_one, line_info=line_info).ptx
    assert (".loc" in ptx, ".file" in ptx) == (line_info, line_info)
    assert all("cute.gemm(" in line for line in lines_of(ptx, "tcgen05.mma."))
    # LLVM gives each line of inline assembly a line of its own; only the statement's is right.
    assert all("mbarrier_wait(" in line for line in lines_of(ptx, "mbarrier.try_wait"))


@pytest.mark.compilers
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", compiled_kernels("cutedsl"))
def test_dsl__line_information_changes_no_code(name: str) -> None:
    spec = kernel_module(name).LAUNCH
    assert runtime.compile(spec).ptx == with_lowered_version(compile_host(spec, spec.target).__ptx__)


@pytest.mark.compilers
def test_dsl__reports_name_the_lines_of_both_sides() -> None:
    spec = gemm_stages.LAUNCH.with_fault(faults_of("gemm_stages")["one_stage_too_few"])
    a, b, c = (np.zeros(spec.arguments[name].extents, np.float16) for name in "abc")
    with pytest.raises(SharedMemoryRace) as caught:
        runtime.run(spec, device="emulator", a=a, b=b, c=c)
    file = rf"<{spec.name}>"
    written = re.search(rf"at line \d+ \({file}:(\d+)\)", str(caught.value))
    read = re.search(rf"PTX line \d+ \({file}:(\d+)\)", str(caught.value))
    assert written
    assert read
    text = spec.text.splitlines()
    assert "cute.copy(ldmatrix" in text[int(written[1]) - 1]
    assert str(caught.value).splitlines()[-1] == f"  {file}:{read[1]}: {text[int(read[1]) - 1].strip()}"


@pytest.mark.compilers
def test_dsl__kept_text_has_the_names_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gemm_stages.LAUNCH.with_text(gemm_stages.FILE.text + "\n", name="gemm_kept")
    kept = '.version 8.8\n.entry gemm_kept()\n{\n.loc 1 1 0\nret;\n}\n.file 1 "<gemm_of_before>"\n'
    monkeypatch.setattr(compiling, "_text", lambda *_: kept)
    monkeypatch.setattr(compiling, "_cache", {})
    ptx = runtime.compile(spec).ptx
    assert [file.path for file in ptx.line_table.files] == [spec.host.file.filename]
    assert linecache.getline(spec.host.file.filename, 1) == spec.text.splitlines(keepends=True)[0]


def test_without_locations__are_the_lines_of_the_text_without_them() -> None:
    text = (
        ".visible .entry k()\n{\n\t.loc\t1 5 0\n\tmov.u32 %r, 1;\n\t// begin inline asm\n\t.loc\t1 6 0\n"
        "\tnop;\n\n"
        '\t// end inline asm\n\tret;\n}\n.visible .entry m()\n{\n\tret;\n}\n\t.file\t1 "/x/k.py"\n'
    )
    plain, table = without_locations(text)
    assert plain == (
        ".visible .entry k()\n{\n\tmov.u32 %r, 1;\n\t// begin inline asm\n\tnop;\n\t// end inline asm\n"
        "\tret;\n}\n"
        ".visible .entry m()\n{\n\tret;\n}\n"
    )
    assert {number: place.line for number, place in table.places.items()} == dict.fromkeys(range(3, 9), 5)


def test_read_module__two_kernels_with_one_text_keep_their_own_lines() -> None:
    body = HEAD + ".visible .entry k()\n{\nret;\n}"
    tables = [
        LineTable((FileDirective(1, 1, 1, path),), {4: Loc(1, line, 0)})
        for path, line in [("/x/one.py", 7), ("/x/two.py", 8)]
    ]
    modules = [read_module(SourcedText(body, table)).module for table in (*tables, None)]
    assert [str(source_of(module, 4)) for module in modules] == ["one.py:7", "two.py:8", "None"]


def test_quoted__is_the_line_of_a_program_that_is_there(tmp_path: Path) -> None:
    secret, long = tmp_path / "secret.txt", tmp_path / "k.cu"
    secret.write_text("first\nsecond\n")
    long.write_text("a\n  " + "b" * 200 + "\n")
    assert SourceLine(str(long), 2).quoted() == ["k.cu:2: " + "b" * 97 + "..."]
    assert SourceLine(str(long), 1, SourceLine(str(long), 2)).quoted()[0] == "k.cu:1: a"
    os.mkfifo(tmp_path / "pipe.py")
    for path in (secret, tmp_path / "pipe.py", tmp_path / "missing.py", "a\0b.py", "/dev/zero"):
        assert SourceLine(str(path), 1).quoted() == []
    assert SourceLine(str(long), 99).quoted() == []


def test_notes__name_the_line() -> None:
    body = (
        '.file 1 "/example/kernel.py"\n.visible .entry k()\n{\n.reg .b32 %r;\n.shared .b32 s[32];\n'
        ".loc 1 42 7\nld.shared.b32 %r, [s];\n.loc 1 43 7\nret;\n}"
    )
    result: LaunchResult = launch(HEAD + body, grid=1, block=32, hazards={"never written": "warning"})
    [note] = result.notes
    assert str(note.source) == "kernel.py:42"
    assert f"PTX line {note.line} (kernel.py:42), first in block" in str(note)


def test_errors__name_the_lines_of_both_sides() -> None:
    body = (
        '.file 1 "/example/kernel.cu"\n.file 2 "/example/helper.cuh"\n.visible .entry k()\n{\n.reg .b32 %r;\n'
        ".reg .pred %p;\n.shared .b32 s[32];\nmov.u32 %r, %tid.x;\nsetp.lt.u32 %p, %r, 32;\n"
        ".loc 2 7 1, function_name $L, inlined_at 1 31 5\n@%p st.shared.b32 [s], 5;\n"
        ".loc 1 42 7\n@!%p ld.shared.b32 %r, [s];\nret;\n}"
    )
    with pytest.raises(SharedMemoryRace) as caught:
        launch(HEAD + body, grid=1, block=64, hazards={"never written": "off"})
    assert "(helper.cuh:7, inlined at kernel.cu:31)" in str(caught.value)
    assert "(kernel.cu:42)" in str(caught.value)


def test_errors__name_the_store_that_no_fence_follows() -> None:
    body = (
        '.file 1 "/example/kernel.cu"\n.visible .entry k(.param .u64 o)\n{\n.reg .b64 %o;\n.reg .b32 %r;\n'
        ".shared .align 16 .b32 s[4];\nld.param.u64 %o, [o];\nmov.u32 %r, 5;\n"
        ".loc 1 40 7\nst.shared.v4.b32 [s], {%r, %r, %r, %r};\n"
        ".loc 1 42 7\ncp.async.bulk.global.shared::cta.bulk_group [%o], [s], 16;\nret;\n}"
    )
    with pytest.raises(MissingProxyFence, match=r"wrote at line 11 \(kernel.cu:40\)"):
        launch(HEAD + body, grid=1, block=1, args=[np.zeros(4, np.uint32)])


def test_errors__show_names_as_people_wrote_them() -> None:
    kernel = "_ZN4mine4gemmILi128EfEEvPKT0_"
    body = "{\n.reg .b32 %r;\n.shared .b32 TILE[32];\nld.shared.b32 %r, [TILE];\nret;\n}"
    text = f"{HEAD}.visible .entry {kernel}()\n" + body.replace("TILE", f"_ZZ{kernel[2:]}E4tile")
    with pytest.raises(UninitializedRead) as caught:
        launch(text, grid=1, block=32)
    assert caught.value.kernel == kernel
    assert "at kernel mine::gemm<128, float>, PTX line" in str(caught.value)
    assert "(in tile)" in str(caught.value)
    [note] = launch(text, grid=1, block=32, hazards={"never written in mine::gemm": "note"}).notes
    assert "at kernel mine::gemm<128, float>, PTX line" in str(note)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (".loc 1 42 7", "kernel.py:42"),
        (".loc 2 7 1, function_name $L, inlined_at 1 42 7", r"inner.py:7, inlined at kernel.py:42"),
        (".loc 2 0 0, function_name $L, inlined_at 1 42 7", "kernel.py:42"),
        (".loc 1 0 0", None),
        (".loc 9 42 7", None),
        ("", None),
    ],
)
def test_source_of__says_what_the_text_has(location: str, shown: str | None) -> None:
    text = (
        '.file 1 "/x/kernel.py"\n.file 2 "C:\\\\y\\\\inner.py"\n'
        f".visible .entry k()\n{{\n{location}\nfrobnicate.u32;\nret;\n}}"
    )
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(HEAD + text, grid=1, block=32)
    error = caught.value
    assert (str(error.source) if error.source else None) == shown
    assert f"PTX line {error.line}" + (f" ({shown})" if shown else "\n") in str(error)


def test_source_of__follows_functions_that_were_inlined_in_inlined_ones() -> None:
    def chain(at: int) -> str:
        return (
            f".loc 1 {at} 7\n.loc 2 5 1, function_name $a, inlined_at 1 {at} 7\n"
            ".loc 3 9 1, function_name $b, inlined_at 2 5 1\nret;\n"
        )

    files = "".join(f'.file {number} "/x/{name}"\n' for number, name in enumerate(("k.cu", "a.h", "b.h"), 1))
    # The second call's places are the first one's: which of the two is meant, the text does not say.
    text = f"{HEAD}{files}.func f()\n{{\n{chain(30)}{chain(40)}}}\n.entry k()\n{{\n{chain(50)}}}"
    module = parse(text)
    found = [source_of(module, number) for number, line in enumerate(text.splitlines(), 1) if line == "ret;"]
    assert [str(source) for source in found] == [
        "b.h:9, inlined at k.cu:30",
        "b.h:9, probably inlined at k.cu:40",
        "b.h:9, inlined at k.cu:50",
    ]
    assert str(found[0].inlined_at) == "a.h:5, inlined at k.cu:30"


def test_source_of__a_notebooks_cell_is_called_a_cell() -> None:
    body = (
        '.file 1 "/x/ipykernel_123/4168.py"\n.visible .entry k()\n{\n.reg .b32 %r;\n.shared .b32 s[32];\n'
        ".loc 1 9 7\nld.shared.b32 %r, [s];\nret;\n}"
    )
    with pytest.raises(UninitializedRead, match=r"PTX line \d+ \(cell:9\)"):
        launch(HEAD + body, grid=1, block=32)
    off = {"never written at cell:9": "off"}
    assert launch(HEAD + body, grid=1, block=32, hazards=off).notes == ()


def test_source_of__a_circle_of_inlined_places_ends() -> None:
    circle = (
        ".loc 1 1 1, function_name $a, inlined_at 1 2 2\n.loc 1 2 2, function_name $b, inlined_at 1 1 1\n"
        * 99
    )
    text = f'{HEAD}.file 1 "k.cu"\n.entry k()\n{{\n{circle}ret;\n}}'
    assert "inlined at k.cu:" in str(source_of(parse(text), text.count("\n")))


def test_source_of__a_function_does_not_take_the_line_of_the_one_before() -> None:
    text = '.file 1 "kernel.py"\n.func f() { .loc 1 7 1\nret; }\n.visible .entry k()\n{\nfrobnicate;\nret;\n}'
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(HEAD + text, grid=1, block=32)
    assert caught.value.source is None
