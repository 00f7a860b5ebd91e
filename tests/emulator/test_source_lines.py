"""Lines of the source language in errors and notes, from the `.loc` of numba-cuda, nvcc and the CuTe DSL."""

from __future__ import annotations

import inspect
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
from cutecourse.kernels import umma_one
from cutecourse.ptx import parse
from cutecourse.ptx.sources import source_of

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


@pytest.mark.compilers
def test_dsl__line_info_is_a_choice_of_compile() -> None:
    plain, informed = (str(runtime.compile(umma_one, line_info=choice).ptx) for choice in (False, True))
    assert ".loc" not in plain
    module = parse(informed)
    text = umma_one.FILE.text.splitlines()
    sites = {
        str(source_of(module, number))
        for number, line in enumerate(informed.splitlines(), start=1)
        if "tcgen05.mma." in line
    }
    assert sites
    for site in sites:
        found = re.fullmatch(r"source\.py:(\d+)", site)
        assert found, site
        assert "gemm" in text[int(found[1]) - 1], text[int(found[1]) - 1]


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
    with pytest.raises(MissingProxyFence, match=r"stores to shared memory at line 11 \(kernel.cu:40\)\."):
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


def test_source_of__a_function_does_not_take_the_line_of_the_one_before() -> None:
    text = '.file 1 "kernel.py"\n.func f() { .loc 1 7 1\nret; }\n.visible .entry k()\n{\nfrobnicate;\nret;\n}'
    with pytest.raises(UnsupportedInstruction) as caught:
        launch(HEAD + text, grid=1, block=32)
    assert caught.value.source is None
