"""Minutes are counted: what is open on a page, what its exercises state, and what the page says of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import minutes
from tools.minutes import Count, count_cells, exercise_minutes
from tools.notebooks import as_notebook
from tools.pages import read_source
from tools.paths import BOOK, AuthoringError, chapter_pages, exercise_sources
from tools.plain_markdown import UntranslatableMarkdown, plain
from tools.tidy import WIDGET_VIEW

PAGE = "# A page\n\n{text}\n\n```{{code-cell}} ipython3\n:tags: [{tags}]\n{code}\n```\n"


def _count(code: str, *outputs: NotebookNode, tags: str = "", text: str = "") -> Count:
    page = as_notebook(PAGE.format(text=text, tags=tags, code=code), where="a page")
    recording = new_notebook(
        cells=[new_markdown_cell("# A page"), new_code_cell(code, outputs=list(outputs))]
    )
    return count_cells(page, recording)


def _widget(name: str) -> NotebookNode:
    data = {WIDGET_VIEW: {"model_id": "1"}, "text/plain": f"{name}('x')", "image/png": "iVBOR"}
    return new_output("display_data", data=data)


def test_minutes__follow_from_words_lines_and_widgets() -> None:
    assert Count(2000, 120, 300, 0, 0).minutes == 10 + 10 + 10
    assert Count(0, 0, 0, 4, 8).minutes == 9


def test_count__takes_open_text_code_and_output() -> None:
    text = "One two `three`.\n\n```python\na = 1\n\nb = 2\n```\n\n<!-- not this -->\n\n[a link](to/x.md)"
    found = _count("c = 3\n\nc", new_output("stream", text="1\n2\n\n3\n"), text=text)
    assert found == Count(words=3 + 2 + 3, code_lines=2 + 2, output_lines=3, predictions=0, widgets=0)


@pytest.mark.parametrize(
    ("tags", "code", "output"),
    [
        ("hide-input", 0, 2),
        ("remove-input", 0, 2),
        ("hide-output", 1, 0),
        ("hide-cell", 0, 0),
        ("machine-dependent, nbval-ignore-output", 1, 1),
    ],
)
def test_count__leaves_out_what_is_folded(tags: str, code: int, output: int) -> None:
    found = _count("c", new_output("stream", text="1\n2\n"), tags=tags)
    assert (found.code_lines, found.output_lines) == (code, output)


def test_count__takes_pictures_and_widgets_by_their_kind() -> None:
    picture = new_output("display_data", data={"image/svg+xml": "<svg/>", "text/plain": "Picture: a\nb"})
    drawn = new_output("display_data", data={"text/html": "<p><svg/></p>", "text/plain": "a\nb"})
    widgets = [_widget("Predict"), _widget("Reveal"), _widget("TmaBox")]
    found = _count("c", picture, drawn, *widgets)
    assert found == Count(words=3, code_lines=1, output_lines=0, predictions=1, widgets=1)


def test_count__takes_no_outputs_of_other_code() -> None:
    page = as_notebook(PAGE.format(text="", tags="", code="new = 1"), where="a page")
    recording = new_notebook(cells=[new_code_cell("old", outputs=[new_output("stream", text="1\n")])])
    assert count_cells(page, recording).output_lines == 0
    assert count_cells(page, None).output_lines == 0


def test_exercises__state_their_minutes_under_their_headings(tmp_path: Path) -> None:
    source = tmp_path / "07_x.md"
    source.write_text(
        "# Exercises\n\n## 07.1 · One\n\n*5 minutes.*\n\nText.\n\n## 07.2 · Two\n*20 minutes.*\n\n"
        "## 07.3 · Three\n\nText.\n\n*10 minutes.*\n"
    )
    assert exercise_minutes(source) == {"07.1": 5, "07.2": 20}
    source.write_text("## 07.1 · One\n\n*15 minutes.*\n")
    with pytest.raises(AuthoringError, match=r"exercise 07\.1 states 15 minutes; it is one of 5, 10, 20"):
        exercise_minutes(source)


def test_sentence__names_the_exercises_on_the_last_page_of_a_chapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [tmp_path / name for name in ("06_x.md", "07a_x.md", "07b_x.md")]
    for page in pages:
        page.write_text("# A title\n")
    source = tmp_path / "exercises" / "07_x.md"
    source.parent.mkdir()
    source.write_text("## 07.1 · One\n\n*5 minutes.*\n\n## 07.2 · Two\n\n*20 minutes.*\n")
    monkeypatch.setattr(minutes, "CHAPTERS", tmp_path)
    monkeypatch.setattr(minutes, "chapter_pages", lambda: pages)
    monkeypatch.setattr(minutes, "exercise_sources", lambda: [source])
    monkeypatch.setattr(minutes, "count", lambda page: Count(8000, 0, 0, 0, 0))
    assert [minutes.sentence(page) for page in pages] == [
        "**40 minutes to read.**",
        "**40 minutes to read.**",
        "**40 minutes to read**, 25 more for the exercises.",
    ]
    assert minutes.table().splitlines() == [
        "| chapter | reading | exercises |",
        "| --- | ---: | ---: |",
        "| [6 · A title](chapters/06_x.md) | 40 min |  |",
        "| [7a · A title](chapters/07a_x.md) | 40 min |  |",
        "| [7b · A title](chapters/07b_x.md) | 40 min | [25 min](exercises/07_x.md) |",
    ]


def test_read_source__has_the_sentence_in_place_of_the_directive() -> None:
    page = chapter_pages()[0]
    assert minutes.sentence(page) in "\n".join(cell.source for cell in read_source(page).cells)
    text = "\n".join(cell.source for cell in read_source(BOOK / "intro.md").cells)
    assert [f"({page.stem}.ipynb)" in text for page in chapter_pages()] == [True] * len(chapter_pages())
    with pytest.raises(UntranslatableMarkdown, match=r"\{minutes\} stands on a page with cells"):
        plain("```{minutes}\n```", where="x")


def test_command__says_which_page_is_too_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = chapter_pages()
    long = Count(13_000, 0, 0, 0, 0)
    monkeypatch.setattr(minutes, "count", lambda page: long if page == second else Count(200, 0, 0, 0, 0))
    assert minutes.main([first.stem]) == 0
    assert minutes.main([first.stem, second.stem]) == 1
    said = capsys.readouterr()
    assert f"more than 60 minutes: {second.stem};" in said.err
    assert second.stem in said.out


def test_exercise_sources__state_only_known_minutes() -> None:
    for source in exercise_sources():
        exercise_minutes(source)
