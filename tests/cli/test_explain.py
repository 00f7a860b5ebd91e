"""`cutecourse explain`: what it prints, and its errors."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cutecourse import runtime
from cutecourse.analysis import explain, report
from cutecourse.cli import main
from cutecourse.kernels.files import SpecError, kernel_module
from cutecourse.kernels.twinning import twin, twins
from cutecourse.ptx import parse
from support.compiled_kernels import compiled_kernels

ENTRY = """
.visible .entry {}(.param .u64 out)
{{
    .reg .b64 %to;
    .reg .b32 %n;
    ld.param.u64 %to, [out];
    ld.global.u32 %n, [%to];
    add.u32 %n, %n, %n;
    st.global.u32 [%to], %n;
    ret;
}}
"""
TEXT = ".version 8.8\n.target sm_80\n.address_size 64\n" + ENTRY.format("double")


def test_explain__prints_a_table_or_json(capsys, tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(TEXT, encoding="utf-8")
    assert main(["explain", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(explain(TEXT, file=str(path))))
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out == report(found) + "\n"


WRONG = {
    "no text": ("hello", (), "PTX line 1"),
    "two kernels": (TEXT + ENTRY.format("other"), (), "2 kernels. Say which is the entry: double, other"),
    "no such kernel": (TEXT, ("--entry", "k"), "the text has no kernel 'k'; it has: double"),
    "an undeclared name": (TEXT.replace("[%to]", "[%from]"), (), "'%from' is used but not declared"),
}


@pytest.mark.parametrize(("text", "arguments", "said"), WRONG.values(), ids=WRONG)
def test_explain__of_what_is_no_kernel_is_one_error(capsys, tmp_path, text, arguments, said):
    path = tmp_path / "k.ptx"
    path.write_text(text, encoding="utf-8")
    assert main(["explain", str(path), *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("cutecourse: ")
    assert said in err


def test_explain__of_a_file_that_is_not_there(capsys):
    assert main(["explain", "no.ptx"]) == 1
    assert capsys.readouterr().err == "cutecourse: no.ptx cannot be read: No such file or directory\n"


def test_explain__lists_the_variables_that_the_kernel_uses(capsys, tmp_path):
    path = tmp_path / "k.ptx"
    used = ".global .b32 _ZN4mine4usedE;\n.global .b32 _ZN3lib6unusedE;\n.const .b32 other;\n"
    path.write_text(TEXT.replace(".visible", f"{used}.visible").replace("[%to], %n", "[_ZN4mine4usedE], %n"))
    assert main(["explain", str(path)]) == 0
    said = capsys.readouterr().out
    assert "  global        mine::used\n  unused        2 variables of global or constant memory\n" in said
    assert main(["explain", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["memory"]["variables"]
    assert [one["used"] for one in found] == [True, False, False]


def test_command__ends_quietly_where_nobody_reads_on(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    command = [sys.executable, "-m", "cutecourse.cli", "explain", str(path)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_explain__tells_a_pointer_to_tensor_maps(capsys):
    path = Path(__file__).parents[1] / "emulator/modules/grouped_maps.ptx"
    assert main(["explain", str(path)]) == 0
    said = capsys.readouterr().out
    assert "maps  .u64  pointer to a tensor map" in said
    assert "map:[{...},{...}], where the pointer is to an array of them" in said


# --- the line that it prints --------------------------------------------------------------------------------


GUESSED = {"--cluster", "--block", "map:"}
"""The parts of a printed line that a kernel may refuse, because its text does not say what they are."""


def texts():
    bugs = (Path(__file__).parent / "cuda" / "bugs.ptx").read_text()
    yield from ((name, bugs) for name in parse(bugs).entries)
    yield "double", TEXT
    for name in twins():
        with suppress(SpecError):  # the launch leaves extents open, which the twin's text needs
            yield None, twin(kernel_module(name).LAUNCH).text


def printed_line(capsys, text, entry=None):
    """Run the command line that `explain` prints for a text, in the current folder; its exit status."""
    Path("k.ptx").write_text(text, encoding="utf-8")
    assert main(["explain", "k.ptx", *(["--entry", entry] if entry else [])]) == 0
    [line] = [
        one.strip() for one in capsys.readouterr().out.splitlines() if "cutecourse emulate k.ptx" in one
    ]
    status = main([*shlex.split(line)[1:], "--timeout", "60"])
    said = capsys.readouterr()
    assert said.out or said.err.startswith("cutecourse: ")
    assert status in {0, 1}, (line, said.err)
    assert not status or any(word in line for word in GUESSED), (line, said.err)
    return status


def test_explain__prints_a_line_that_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    statuses = [printed_line(capsys, text, entry) for entry, text in texts()]
    assert len(statuses) > 40
    assert statuses.count(0) > len(statuses) / 2


@pytest.mark.compilers
@pytest.mark.sample(4)
@pytest.mark.parametrize("name", compiled_kernels("cutedsl", "numba"))
def test_explain__prints_a_line_that_runs_for_what_a_compiler_writes(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    printed_line(capsys, runtime.compile(kernel_module(name), by_hand=False).ptx)


def test_explain__of_a_long_name_shows_the_short_one(capsys, tmp_path):
    first, second = (f"kernel_cutlass_scale_tensorptr{kind}gmemo1281_0" for kind in ("f32", "f16"))
    path = tmp_path / "k.ptx"
    path.write_text(TEXT + ENTRY.format(first).replace("out", f"{first}_param_0") + ENTRY.format(second))
    assert main(["explain", str(path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("cutecourse: the text has 3 kernels. Say which is the entry:\n")
    [row] = [one for one in err.splitlines() if one.endswith("scale(f32 gmem)")]
    assert main(["explain", str(path), "--entry", shlex.split(row)[0]]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [f"scale(f32 gmem) of {path}", f"in the text: {first}"]
    assert "  param_0  .u64  pointer" in "\n".join(said)
