"""A text is parsed, checked and flattened once, by whichever of its readers comes first."""

from __future__ import annotations

from collections import Counter

import pytest

from cutecourse.analysis import explain
from cutecourse.cli import main
from cutecourse.emulator import launch
from cutecourse.playground import Playground, read
from cutecourse.ptx import checks, scopes

TEXT = """
.version 8.8
.target sm_80
.address_size 64
.func twice() { ret; }
.visible .entry once(.param .u32 n) .reqntid 32, 1, 1
{
    .reg .b32 %n;
    ld.param.u32 %n, [n];
    call twice, ();
    ret;
}
"""


def emulated(path):
    assert main(["emulate", str(path), "--arg", "u32:1"]) == 0


def explored(path):
    assert main(["emulate", str(path), "--arg", "u32:1", "--explore", "2"]) == 0


def explained(path):
    assert main(["explain", str(path)]) == 0


def played(path):
    form = read(TEXT)
    request = {
        "text": TEXT,
        "entry": form["entry"],
        "arguments": [row["argument"] for row in form["parameters"]],
        "seeds": "2",
        **form["launch"],
    }
    assert Playground().run(request)["ended"] == "ran"
    assert Playground().explore(request)["agree"]


def read_by_all(path):
    explain(TEXT)
    launch(TEXT, grid=1, block=32, args=[1])
    emulated(path)
    played(path)


@pytest.mark.parametrize("reader", [emulated, explored, explained, played, read_by_all])
def test_read_module__each_function_is_flattened_and_checked_once(reader, monkeypatch, tmp_path, capsys):
    counts: Counter[str] = Counter()

    def counted(module, name):
        function = getattr(module, name)

        def count(*arguments):
            counts[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, count)

    counted(checks, "parse")
    counted(scopes, "module_scope")  # once in each `flatten`
    counted(checks, "_check_variables")  # once for each function that is checked
    checks._read.cache_clear()
    path = tmp_path / "k.ptx"
    path.write_text(TEXT, encoding="utf-8")
    reader(path)
    assert counts == {"parse": 1, "module_scope": 2, "_check_variables": 2}
