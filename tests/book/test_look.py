"""The README's picture, and the command that photographs pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tools import look
from tools.paths import ROOT, AuthoringError, choose, notebook_sources


def test_readme_picture__is_of_the_tour_as_recorded_now() -> None:
    assert look.README_PICTURE.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text("utf-8")
    assert look.readme_is_current(), "take it again: make book, then python -m tools.look --readme"


def test_opened__says_what_to_do_without_pages(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match=r"make book|no Chromium"), look.opened(tmp_path):
        pass


@pytest.mark.browser
def test_look__writes_a_page_at_each_width_and_for_print(book: Path, tmp_path: Path) -> None:
    sources = choose(notebook_sources(), ["notation"])
    written = look.look(sources, [390], dark=True, folder=tmp_path, html=book)
    assert [path.name for path in written] == ["notation_390_dark.png", "notation.pdf"]
    with Image.open(written[0]) as picture:
        assert picture.width == 390
        assert picture.height > 900
    assert written[1].read_bytes().startswith(b"%PDF")
