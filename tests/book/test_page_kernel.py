"""The kernel of a page runs cells as a notebook does, and its digests compare recorded and live outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import traitlets
from coursebook.live import course_archive, course_files, digests

from cutecourse.page import kernel as page_kernel
from cutecourse.page import widgets
from cutecourse.page.cells import cells_needed, cells_using
from cutecourse.page.kernel import Kernel, missing_here
from cutecourse.page.outputs import WIDGET_VIEW, digest
from cutecourse.runtime import CompileError
from support.pages import parse
from tools.notebooks import code_cells, tags
from tools.pages import read_source
from tools.paths import BOOK, notebook_sources
from tools.recordings import read_recording


@pytest.fixture
def kernel() -> Kernel:
    return Kernel({"__name__": "__main__"})


def test_run__shows_what_is_printed_and_the_last_value(kernel: Kernel) -> None:
    answer = kernel.run("print('a', end='')\nprint('b')\ndisplay(1)\nx = 40\nx + 2")
    assert answer["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "ab\n"},
        {"output_type": "display_data", "data": {"text/plain": "1"}},
        {"output_type": "execute_result", "data": {"text/plain": "42"}},
    ]
    assert kernel.run("_ + 1")["outputs"][0]["data"] == {"text/plain": "43"}
    assert kernel.run("x;")["outputs"] == kernel.run("None")["outputs"] == kernel.run("")["outputs"] == []


def test_run__keeps_what_was_shown_before_an_error(kernel: Kernel) -> None:
    printed, error = kernel.run("print('before')\ndef f():\n    return 1 / 0\nf()")["outputs"]
    assert printed["text"] == "before\n"
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert "cutecourse/page" not in error["traceback"]
    assert "return 1 / 0" in error["traceback"]


def test_run__tells_a_syntax_error_without_the_parsers_frames(kernel: Kernel) -> None:
    [error] = kernel.run("print('a'")["outputs"]
    assert error["ename"] == "SyntaxError"
    assert "ast.py" not in error["traceback"]
    assert "print('a'" in error["traceback"]


def test_run__shows_an_error_of_the_course_without_its_insides(kernel: Kernel) -> None:
    [error] = kernel.run("from cutecourse.layout import Layout\nLayout.parse('(4,8')")["outputs"]
    assert "Layout.parse('(4,8')" in error["traceback"]
    assert "cutecourse/layout" not in error["traceback"]


def test_run__goes_on_after_system_exit(kernel: Kernel) -> None:
    assert kernel.run("raise SystemExit(3)")["outputs"][0]["ename"] == "SystemExit"
    assert kernel.run("1")["outputs"][0]["data"] == {"text/plain": "1"}


def test_missing_here__names_the_compiler_that_a_browser_lacks(kernel: Kernel) -> None:
    assert kernel.run("import no_such_package")["missing"] == ""
    cause = ModuleNotFoundError("No module named 'cutlass'", name="cutlass")
    error = CompileError("gemm is a CuTe DSL kernel")
    error.__cause__ = cause
    assert missing_here(error) == missing_here(cause) == "the CuTe DSL, which compiles kernels"
    assert missing_here(NameError("name 'told' is not defined")) == ""


def test_run__goes_on_without_an_import_that_no_browser_can_have(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_kernel, "find_spec", lambda name: None)
    answer = kernel.run(
        "import json\nfrom numba import cuda, types as kinds\nimport cutlass.cute\nprint(json.dumps(1))"
    )
    assert answer["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    assert (answer["missing"], answer["left_out"]) == ("", ["cutlass", "numba"])
    used = kernel.run("kinds.void")
    assert used["outputs"][0]["ename"] == "NameError"
    assert (used["missing"], used["left_out"]) == ("numba-cuda, which compiles kernels", [])
    assert kernel.run("types")["missing"] == ""
    assert kernel.run("import no_such_package")["outputs"][0]["ename"] == "ModuleNotFoundError"


def test_digest__does_not_depend_on_pieces_addresses_and_colours() -> None:
    def stream(*texts: str) -> list[dict[str, Any]]:
        return [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]

    assert digest(stream("a\n", "b\n")) == digest(stream("a\nb\n")) != digest(stream("a\nc\n"))

    def shown(**data: str) -> list[dict[str, Any]]:
        return [{"output_type": "execute_result", "data": {k.replace("_", "/"): v for k, v in data.items()}}]

    at = [shown(text_plain=f"<object at {address}>") for address in ("0x7f1", "0x2a")]
    assert digest(at[0]) == digest(at[1])
    plain = shown(text_html="<p>DSL</p><pre>a &lt; b</pre>", text_plain="Panels")
    coloured = shown(text_html='<p>DSL</p><pre><span class="n">a</span> &lt; b\n</pre>', text_plain="Panels")
    assert (
        digest(plain)
        == digest(coloured)
        != digest(shown(text_html="<pre>a &gt; b</pre>", text_plain="Panels"))
    )
    picture = [shown(text_html=f'<svg><rect x="{x}"/></svg>', text_plain="Picture") for x in (1, 2)]
    assert digest(picture[0]) != digest(picture[1])


def test_digests__are_those_of_the_outputs_that_the_kernel_makes(kernel: Kernel) -> None:
    """Chapter 1's cells without widgets, run here: what the recording's digests say is what comes out."""
    source = BOOK / "chapters" / "01_hello_layout.md"
    cells = code_cells(read_recording(source))
    wanted = digests(cells)
    assert len(wanted) == len(cells) == len(code_cells(read_source(source)))
    for number, cell in enumerate(cells[:6]):
        if "machine-dependent" in tags(cell):
            assert wanted[number] == ""
            continue
        assert kernel.run(cell.source)["digest"] == wanted[number], cell.source


@pytest.mark.parametrize("source", notebook_sources(), ids=lambda source: source.stem)
def test_page__has_a_digest_for_each_cell_and_the_code_that_it_does_not_show(
    source: Path, book: Path
) -> None:
    page = parse((book / source.relative_to(BOOK)).with_suffix(".html"))
    cells = code_cells(read_recording(source))
    facts = json.loads(page.find(id="cute-live").string)
    nodes = page.select("div.cell")
    assert len(nodes) == len(facts["digests"]) == len(cells)
    for number, (node, cell) in enumerate(zip(nodes, cells, strict=True)):
        code = node.select_one(".cell_input pre")
        assert (code.text if code else facts["sources"][str(number)]).strip() == cell.source.strip()


def test_archive__has_the_library_and_every_file_that_a_cell_reads() -> None:
    names = {name for name, _ in course_files()}
    assert {
        "lib/cutecourse/__init__.py",
        "lib/cutecourse/page/kernel.py",
        "lib/cutecourse/widgets/js/predict.js",
    } <= names
    assert not any("__pycache__" in name for name in names)
    cells = "\n".join(cell.source for page in notebook_sources() for cell in code_cells(read_source(page)))
    read = set(re.findall(r"(?<!--save )(?<![*\w])\w+\.json", cells))
    assert len(read) > 5
    assert read <= {name.rpartition("/")[2] for name in names}
    assert course_archive() == course_archive()


class Dial(traitlets.HasTraits):
    turn = traitlets.Int(0).tag(sync=True)
    secret = traitlets.Int(0)

    @traitlets.validate("turn")
    def _check(self, proposal: Any) -> int:
        if proposal["value"] < 0:
            raise traitlets.TraitError("negative")
        return min(int(proposal["value"]), 10)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(widgets._Page, "send", None)
    widgets.connect(messages.append)
    return messages


def test_widget__is_the_same_on_both_sides(sent: list[dict[str, Any]]) -> None:
    dial = Dial(turn=3)
    dial.turn = 4
    assert sent == []
    view = widgets.show(dial)[WIDGET_VIEW]["model_id"]
    assert sent == [{"id": view, "widget": f"{__name__}.Dial", "state": {"turn": 4}}]
    dial.turn = 5
    assert sent[1:] == [{"id": view, "state": {"turn": 5}}]
    widgets.receive({"id": view, "state": {"turn": 6}})
    assert dial.turn == 6
    assert len(sent) == 2
    assert widgets.show(dial)[WIDGET_VIEW]["model_id"] == view
    assert len(sent) == 2


@pytest.mark.parametrize(("asked", "kept"), [(99, 10), (-1, 3)])
def test_widget__tells_the_page_of_a_value_that_it_changed_or_refused(
    sent: list[dict[str, Any]], asked: int, kept: int
) -> None:
    dial = Dial(turn=3)
    view = widgets.show(dial)[WIDGET_VIEW]["model_id"]
    widgets.receive({"id": view, "state": {"turn": asked, "secret": 1}})
    assert (dial.turn, dial.secret) == (kept, 0)
    assert sent[-1] == {"id": view, "state": {"turn": kept}}


def test_widget__needs_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widgets._Page, "send", None)
    with pytest.raises(widgets.NoPage, match="Dial needs a page"):
        widgets.show(Dial())


@pytest.mark.parametrize(
    ("last", "needed"),
    [
        ("check(1)", [0]),
        ("check(double(3))", [0, 1, 2]),
        ("def f(x):\n    return [size + y for y in x]", [1]),
        ("size = 3\ncheck(size)", [0]),
        ("size += 1", [1]),
        ("lost", [4]),
        ("for size in [1]:\n    check(size)", [0]),
        ("for size in [size]:\n    pass", [1]),
        ("print('a'", []),
        ("check(", [0]),
    ],
)
def test_cells_needed__are_those_that_bind_the_names_that_a_cell_uses(last: str, needed: list[int]) -> None:
    above = [
        "from m import check",
        "size = 2",
        "def double(a):\n    b = size\n    return b * a",
        "check(0)",
        "lost = (",
    ]
    assert cells_needed([*above, last], len(above)) == needed


def test_cells_using__are_those_below_that_a_change_reaches() -> None:
    cells = ["a, b = 1, 2", "c = a", "print(b)", "a = 5", "print(c)", "print(a)", "for b in [1]:\n    b"]
    assert cells_using(cells, 0) == [1, 2, 4]
    assert cells_using(["b = 2", *cells[1:]], 0, cells[0]) == [1, 2, 4]
    assert cells_using(["b = 2", *cells[1:]], 0) == [2]
    assert cells_using(cells, 3) == [5]


def test_traceback__names_the_cell_as_the_page_does() -> None:
    kernel = Kernel({"__name__": "__main__"})
    kernel.run("def f():\n    return 1 / 0", 3)
    (error,) = kernel.run("f()", 12)["outputs"]
    assert error["traceback"].count("File ") == 2
    assert 'File "cell 12", line 1' in error["traceback"]
    assert 'File "cell 3", line 2, in f\n    return 1 / 0' in error["traceback"]
