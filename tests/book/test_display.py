"""What a cell shows besides results: sources, excerpts, panels."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cutecourse import display, runtime
from cutecourse.display import NoSuchLine, excerpt, side_by_side, source
from cutecourse.kernels import tma_pipeline

TEXT = "    a = 1\n    b = a\n    c = a + b\n    d = 4\n"


def test_source__is_that_of_the_imported_file() -> None:
    shown = source(display)
    with open(display.__file__, encoding="utf-8") as file:
        assert str(shown) == file.read()
    assert repr(shown) == str(shown)
    assert shown._repr_markdown_().startswith("```python\n")


def test_source__unwraps_a_compiled_kernel_and_takes_the_indentation_off() -> None:
    def kernel(out: list[int]) -> None:
        out[0] = 1

    shown = str(source(SimpleNamespace(py_func=kernel)))  # as numba keeps the Python function
    assert shown == "def kernel(out: list[int]) -> None:\n    out[0] = 1\n"


def test_source__refuses_what_has_none() -> None:
    with pytest.raises(NoSuchLine, match="keeps no source"):
        source(len)


def test_excerpt__takes_each_line_that_holds_a_text_or_a_range() -> None:
    assert excerpt(TEXT, "a") == "a = 1\nb = a\nc = a + b"
    assert excerpt(TEXT, "b =", "d") == "b = a\nc = a + b\nd = 4"
    assert excerpt(TEXT, "d", "4") == "d = 4"


def test_excerpt__refuses_lines_that_are_not_there() -> None:
    with pytest.raises(NoSuchLine, match="no line holds 'mma' in a text of 4 lines"):
        excerpt(TEXT, "mma")
    with pytest.raises(NoSuchLine, match="no line holds 'a' at or after"):
        excerpt(TEXT, "d", "a")


def test_side_by_side__shows_each_language_as_text_and_html() -> None:
    panels = side_by_side(cpp="auto x = 1 < 2;", dsl="  x = 1\n  y = 2\n", ptx="mov.u32 %r1, 1;")
    assert (
        repr(panels)
        == "CuTe C++:\n    auto x = 1 < 2;\n\nCuTe DSL:\n    x = 1\n    y = 2\n\nPTX:\n    mov.u32 %r1, 1;"
    )
    html = panels._repr_html_()
    assert html.count("cute-panel-title") == 3
    assert "<" in html
    assert "1 < 2" not in html
    assert 'class="highlight"' in html


@pytest.mark.parametrize(
    ("texts", "message"), [({"java": "x"}, "no panel 'java'"), ({"ptx": " \n"}, "'ptx' is empty")]
)
def test_side_by_side__refuses_other_languages_and_empty_panels(texts: dict[str, str], message: str) -> None:
    with pytest.raises(NoSuchLine, match=message):
        side_by_side(**texts)


def test_source__of_a_kernel_is_the_same_before_and_after_it_was_compiled() -> None:
    before = str(source(tma_pipeline.tma_pipeline))
    runtime.compile(tma_pipeline.LAUNCH)
    assert str(source(tma_pipeline.tma_pipeline)) == before
    assert before.startswith("@cute.kernel\ndef tma_pipeline(")
