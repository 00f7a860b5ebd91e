"""A static page with widgets on it as a built book holds them: state, views, mount.js, no kernel."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cutecourse import widgets as package
from cutecourse.widgets._bundle import module

STATIC = Path(package.__file__).parent / "static"

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>widgets</title><link rel="icon" href="data:,">
<style>body {{ margin: 0 auto; padding: 8px; max-width: 800px; }}
html[data-theme=dark] body {{ background: #14181e; }}</style>
{scripts}</head>
<body>
<script type="application/vnd.jupyter.widget-state+json">{state}</script>
{views}
</body></html>
"""


def build_page(folder: Path, widgets: list[Any], theme: str = "light", *, site: bool = False) -> None:
    """Write `index.html` with a view for each widget (twice the same widget: two views of one model).

    With `site`, the page has all scripts of the built book's pages, and so the links to widgets.
    """
    from ipywidgets.embed import embed_data

    data = embed_data(views=widgets, drop_defaults=False)
    views = "\n".join(
        f'<div><script type="application/vnd.jupyter.widget-view+json">{json.dumps(view)}</script></div>'
        for view in data["view_specs"]
    )
    state = json.dumps(data["manager_state"]).replace("</", "<\\/")
    names = ["widget_code.js", "share.js", "mount.js"] if site else ["mount.js"]
    scripts = "\n".join(f'<script src="{name}" defer></script>' for name in names)
    text = PAGE.format(theme=theme, state=state, views=views, scripts=scripts)
    (folder / "index.html").write_text(text, encoding="utf-8")
    for name in names:
        if name == "widget_code.js":
            (folder / name).write_text(package.code_of_all_widgets(), encoding="utf-8")
        else:
            shutil.copy(STATIC / name, folder)


@pytest.fixture
def mount(
    request: pytest.FixtureRequest, tmp_path: Path, serve: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Return `mount(*widgets, theme=, width=, site=)`: the page with these widgets on it, alive.

    It is the module's page, or the test's own `page` if the test has one. The test fails if the page wrote an
    error or a warning to the console.
    """
    page = request.getfixturevalue("page" if "page" in request.fixturenames else "kept_page")
    said: list[str] = []

    def listen(message: Any) -> None:
        if message.type in {"error", "warning"}:
            said.append(message.text)

    page.on("console", listen)
    with ExitStack() as stack:

        def open_page(
            *widgets: Any, theme: str = "light", width: int | None = None, site: bool = False
        ) -> Any:
            build_page(tmp_path, list(widgets), theme, site=site)
            if width:
                page.set_viewport_size({"width": width, "height": 800})
            page.goto(stack.enter_context(serve(tmp_path)) + "/index.html")
            page.wait_for_selector("html[data-cc-widgets=ready]")
            return page

        yield open_page
        page.remove_listener("console", listen)
        assert said == []


@pytest.fixture(scope="module")
def javascript(browser: Any) -> Iterator[Callable[..., Any]]:
    """Return `javascript(file, body, argument)`: run a body that knows the file's `_math` as `m`, and `x`."""
    context = browser.new_context()
    page = context.new_page()
    page.goto("about:blank")
    loaded: set[str] = set()

    def run(file: str, body: str, argument: Any) -> Any:
        if file not in loaded:
            load = """async ([file, code]) => {
              const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
              (window.loaded ??= {})[file] = (await import(url))._math;
            }"""
            page.evaluate(load, [file, module(file)])
            loaded.add(file)
        return page.evaluate(f"([file, x]) => {{ const m = window.loaded[file]; {body} }}", [file, argument])

    yield run
    context.close()
