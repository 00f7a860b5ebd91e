"""What a cell shows besides results: sources, excerpts, panels."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from cutecourse import display, runtime
from cutecourse.display import NoSuchLine, difference, excerpt, launch_source, side_by_side, source
from cutecourse.kernels import (
    hello_ptx,
    mma_timing,
    stamp_layout,
    tma_pipeline,
    umma_gemm,
    umma_one,
    umma_tile,
    umma_tma,
    umma_tma_multicast,
    umma_two_sm,
    umma_two_sm_pipeline,
)

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


def test_source__of_a_kernel_is_the_file_that_a_compile_imports() -> None:
    imported = umma_two_sm.FILE.load()
    with open(str(imported.__file__), encoding="utf-8") as file:
        assert str(source(umma_two_sm)) == file.read()
    assert "LaunchSpec" not in str(source(umma_two_sm))
    assert str(source(umma_two_sm.host)) in str(source(umma_two_sm))
    assert str(source(umma_two_sm.host)).startswith("@cute.jit\ndef host(mA")


def test_source__of_a_kernel_in_ptx_is_its_module() -> None:
    assert hello_ptx.PTX in str(source(hello_ptx))
    assert "LAUNCH = LaunchSpec(" in str(source(hello_ptx))


def test_launch_source__is_the_launch_without_imports_and_ptx() -> None:
    shown = str(launch_source(stamp_layout))
    assert shown.startswith('FILE = kernel_file("stamp_layout")\n')
    assert 'kernel=FILE.function("stamp_layout"),' in shown
    assert "import" not in shown
    assert "__getattr__" not in shown
    exec(shown, vars(stamp_layout) | {"LAUNCH": None})  # it is all that LAUNCH needs but the imports
    gemm = str(launch_source(umma_gemm))
    assert "def gemm_spec(\n" in gemm
    assert "def _operand(" in gemm
    assert "RAGGED" not in gemm
    ptx = str(launch_source(hello_ptx))
    assert ptx.startswith("LAUNCH = LaunchSpec(\n")
    assert ptx.endswith(")\n")
    timing = str(launch_source(mma_timing))
    assert "def timing_spec(chains: int, warps: int)" in timing
    assert "LAUNCH = timing_spec(" in timing
    assert ".visible" not in timing


def test_launch_source__refuses_what_has_no_launch() -> None:
    with pytest.raises(NoSuchLine, match="display has no launch specification LAUNCH"):
        launch_source(display)


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


def test_difference__of_two_kernels_gives_the_second_from_the_first() -> None:
    """Applying the diff's lines to the first file must give the second, whatever stands in them."""
    shown = difference(umma_tma, umma_two_sm, context=10_000)
    _, _, _, *lines = str(shown).splitlines()
    assert [line[1:] for line in lines if line[:1] != "+"] == str(source(umma_tma)).splitlines()
    assert [line[1:] for line in lines if line[:1] != "-"] == str(source(umma_two_sm)).splitlines()
    assert str(shown).startswith("--- umma_tma.py\n+++ umma_two_sm.py\n")
    assert shown._repr_markdown_().startswith("```diff\n--- umma_tma.py")
    assert repr(shown) == str(shown)


def test_difference__counts_its_lines_and_leaves_out_what_it_is_told() -> None:
    shown = difference("a\n--b\nc", "a\n++b\nc\nd", context=0)
    assert (shown.added, shown.removed) == (2, 1)
    whole, code = difference(umma_tma, umma_two_sm), difference(umma_tma, umma_two_sm, docstring=False)
    assert "Two SMs, one MMA" in str(whole)
    assert "Two SMs, one MMA" not in str(code)
    assert 0 < code.added < whole.added
    kernel = difference(umma_tma, umma_two_sm, of="kernel")
    assert "+def umma_two_sm(" in str(kernel)
    assert "LaunchSpec" not in str(kernel)
    assert str(difference(umma_tma.host, umma_two_sm.host)).startswith("--- host\n+++ host\n")


def test_difference__refuses_what_it_cannot_show() -> None:
    with pytest.raises(NoSuchLine, match=r"umma_tma\.py and umma_tma\.py have the same text"):
        difference(umma_tma, umma_tma)
    with pytest.raises(NoSuchLine, match="has no function 'epilogue'"):
        difference(umma_tma, umma_two_sm, of="epilogue")


def test_difference__between_two_rungs_is_a_part_of_the_file() -> None:
    """A rung is to be read as what it changes: less than half of its kernel is new."""
    for before, after in pairwise((umma_one, umma_tile, umma_tma, umma_two_sm, umma_two_sm_pipeline)):
        shown = difference(before, after)
        lines = len(str(source(after)).splitlines())
        assert shown.added < 0.5 * lines, after.__name__
    assert difference(umma_tma, umma_tma_multicast).added < 60
