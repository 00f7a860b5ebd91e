"""Cases as rows of tables: what a row becomes, and what is said of a wrong one."""

import re

import pytest

from tools.cases import __main__ as command
from tools.cases import ptx_cases, wgmma_cases
from tools.cases.case_texts import FOLDER, CaseError, case_texts

TEMPLATE = "// about: ${about}\n// because: ${because}\nadd.${type} %d, %a, ${bytes};\n"
TABLE = """\
# a comment
[add]
because = -
name   type  bits  about
one    s32   32    a sum
other  f64   64    another sum
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "add.ptx").write_text(TEMPLATE)
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "table.txt").write_text(TABLE)
    return tmp_path


def test_case_texts__fills_a_template_with_each_row(folder):
    (folder / "sums" / "apart.ptx").write_text("ret;\n")
    assert {name: case.write() for name, case in case_texts(folder).items()} == {
        "sums/apart": "ret;\n",
        "sums/one": "// about: a sum\nadd.s32 %d, %a, 4;\n",
        "sums/other": "// about: another sum\nadd.f64 %d, %a, 8;\n",
    }


def test_case_texts__keeps_a_line_whose_placeholder_has_a_value(folder):
    (folder / "sums" / "table.txt").write_text(TABLE.replace("because = -", "because = rounded"))
    assert "// because: rounded\n" in case_texts(folder)["sums/one"].write()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("one    s32", "one    s 32  32"), "line 5: 5 cells for the 4 columns name, type, bits, about"),
        (("[add]\n", ""), "line 2: a table begins with a template's name in brackets"),
        (("name   type", "type   name"), "line 4: the first column has to be 'name', not 'type'"),
        (("[add]", "[sub]"), "there is no template .*templates/sub.ptx"),
        (("because = -", "why = -"), "line 5: .*templates/add.ptx has no placeholder why"),
        (("because = -\n", ""), "line 4: no column gives because of .*templates/add.ptx"),
        (("other  f64", "one    f64"), "two cases are called sums/one: .*line 5 and .*line 6"),
    ],
)
def test_case_texts__says_what_is_wrong_with_a_table(folder, change, words):
    assert change[0] in TABLE
    (folder / "sums" / "table.txt").write_text(TABLE.replace(*change))
    with pytest.raises(CaseError, match=words):
        case_texts(folder)["sums/one"].write()


def test_case_texts__refuses_a_file_with_the_name_of_a_row(folder):
    (folder / "sums" / "one.ptx").write_text("ret;\n")
    with pytest.raises(CaseError, match="two cases are called sums/one: "):
        case_texts(folder)


def test_templates__are_each_used_by_a_table():
    tables = FOLDER.glob("*/table.txt")
    used = {name for table in tables for name in re.findall(r"^\[(\w+)\]$", table.read_text(), re.MULTILINE)}
    assert used == {path.stem for path in (FOLDER / "templates").iterdir()}
    assert len(used) > 40


def test_wgmma_cases__have_names_of_their_own():
    names = [case.name for case in wgmma_cases.CASES]
    assert len(set(names)) == len(names) > 100
    assert set(names) <= set(ptx_cases.names())


def test_command__prints_a_case_and_names_all(capsys):
    assert command.main(["float/add_f32", "wgmma/n8"]) == 0
    printed = capsys.readouterr().out
    assert printed == ptx_cases.load("float/add_f32").ptx + ptx_cases.load("wgmma/n8").ptx
    assert "\n    add.f32 %out, %a, %b;\n" in printed
    assert command.main([]) == 0
    assert capsys.readouterr().out.splitlines() == ptx_cases.names()


def test_command__names_cases_like_one_that_there_is_not(capsys):
    assert command.main(["float/add_f33"]) == 1
    assert "there is no case 'float/add_f33'; like it are float/add_f32" in capsys.readouterr().err


def test_load__says_where_a_case_stands_and_how_to_print_it(folder, monkeypatch):
    monkeypatch.setattr(ptx_cases, "texts", lambda: case_texts(folder))
    with pytest.raises(CaseError, match="the first line has to be") as raised:
        ptx_cases.load("sums/one")
    (note,) = raised.value.__notes__
    assert "table.txt, line 5." in note
    assert "`python -m tools.cases sums/one` prints the case." in note
