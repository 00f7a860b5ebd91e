"""Look at the built pages: screenshots at the widths that the course is read at, light and dark, and print.

python -m tools.look tour 13a                pictures of these pages in build/look
python -m tools.look --widths 390 --dark 01  one width, dark
python -m tools.look --readme                the picture at the top of the README, from the tour

Needs the built pages (`make book`) and Chromium.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutecourse.errors import CourseError
from tests.support import machine, web
from tools.paths import BOOK, ROOT, AuthoringError, choose, notebook_of, notebook_sources, relative

WIDTHS = (1300, 768, 390)
README_PICTURE = BOOK / "page_at_work.png"
_HTML = BOOK / "_build" / "html"
_KEY = "Source"
"""The PNG's text entry that says what the README's picture was taken of."""
_MOST_PIXELS = 16_000
_STEPS_SHOWN = 20


@contextmanager
def opened(html: Path = _HTML) -> Iterator[tuple[Any, str]]:
    """A headless Chromium and the address at which the built pages are served.

    Errors: AuthoringError without built pages or without Chromium.
    """
    from playwright.sync_api import sync_playwright

    chromium = machine.find_chromium()
    if chromium is None:
        raise AuthoringError("no Chromium on this machine; set CUTECOURSE_CHROMIUM to its path.")
    if not (html / "index.html").exists():
        raise AuthoringError(f"{relative(html)} has no pages; build them with: make book")
    with web.serve(html) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(chromium), headless=True, args=web.launch_arguments()
        )
        try:
            yield browser, address
        finally:
            browser.close()


def _page(browser: Any, address: str, name: str, width: int, *, dark: bool) -> Any:
    """A page whose widgets are ready, as wide as asked for."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}/{name}.html")
    page.wait_for_selector("html[data-cc-widgets=ready]", state="attached")
    return page


def look(
    sources: list[Path], widths: list[int], *, dark: bool, folder: Path, html: Path = _HTML
) -> list[Path]:
    """Write a picture of each page at each width, and each page as a PDF; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with opened(html) as (browser, address):
        for source in sources:
            name = source.relative_to(BOOK).with_suffix("").as_posix()
            for width in widths:
                page = _page(browser, address, name, width, dark=dark)
                target = folder / f"{source.stem}_{width}{'_dark' if dark else ''}.png"
                height = min(page.evaluate("document.documentElement.scrollHeight"), _MOST_PIXELS)
                page.set_viewport_size({"width": width, "height": height})
                page.screenshot(path=target)
                written.append(target)
                page.context.close()
            page = _page(browser, address, name, WIDTHS[0], dark=False)
            written.append(folder / f"{source.stem}.pdf")
            page.pdf(path=written[-1])
            page.context.close()
    return written


def state_of_the_tour() -> str:
    """A hash of what the README's picture shows: the tour's recording."""
    (tour,) = choose(notebook_sources(), ["tour"])
    return hashlib.sha256(notebook_of(tour).read_bytes()).hexdigest()[:16]


def readme_is_current() -> bool:
    """Tell whether the README's picture is of the tour as it is recorded now."""
    from PIL import Image

    with Image.open(README_PICTURE) as picture:
        return bool(picture.info.get(_KEY) == state_of_the_tour())


def take_readme_picture() -> Path:
    """Photograph the tour's last stop and write the README's picture."""
    from PIL import Image, PngImagePlugin

    with opened() as (browser, address):
        page = _page(browser, address, "tour", 1300, dark=False)
        board = page.locator("[data-cc=board]").last
        board.scroll_into_view_if_needed()
        board.focus()
        for _ in range(_STEPS_SHOWN):
            page.keyboard.press("ArrowRight")
        height = int(board.evaluate("e => e.closest('.cc-widget').getBoundingClientRect().height"))
        page.set_viewport_size({"width": 1300, "height": height + 150})
        board.evaluate(
            "e => scrollTo(0, e.closest('.cc-widget').getBoundingClientRect().top + scrollY - 130)"
        )
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=README_PICTURE)
        page.context.close()
    with Image.open(README_PICTURE) as picture:
        small = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    facts = PngImagePlugin.PngInfo()
    facts.add_text(_KEY, state_of_the_tour())
    small.save(README_PICTURE, optimize=True, pnginfo=facts)
    return README_PICTURE


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.look", description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="13a, tour or a file; none means all")
    parser.add_argument("--widths", nargs="+", type=int, default=list(WIDTHS), metavar="PIXELS")
    parser.add_argument("--dark", action="store_true", help="in the dark theme")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "look")
    parser.add_argument("--readme", action="store_true", help="take the README's picture instead")
    options = parser.parse_args(arguments)
    try:
        if options.readme:
            written = [take_readme_picture()]
        else:
            sources = choose(notebook_sources(), options.pages)
            written = look(sources, options.widths, dark=options.dark, folder=options.folder)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(*(relative(path) for path in written), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
