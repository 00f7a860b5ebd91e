"""Our colours, stylesheet and mount script on every page, and nothing that asks for the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import cutecourse
from cutecourse.palette import css_variables
from cutecourse.widgets import code_of_all_widgets
from cutecourse.widgets._bundle import without_comments

HERE = Path(__file__).parent
# Not under `_static`: Jupyter Book loads every script that lies there on every page, as a classic script.
OWN_ASSETS = HERE / "assets"
WIDGET_ASSETS = Path(cutecourse.__file__).parent / "widgets" / "static"

SCRIPTED = "cute-scripted"
"""A class of the root element where scripts run."""


def generated_assets(app: Sphinx) -> Path:
    """The folder of the scripts and styles that a build writes, for `_static`."""
    folder = Path(app.doctreedir) / "generated_assets"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def add_assets(app: Sphinx, *_: Any) -> None:
    """Serve our assets, and load our scripts on every page: they fold answers and mount widgets.

    As a classic script: browsers refuse a module that a page opened from a file asks for.
    """
    generated = generated_assets(app)
    (generated / "widget_code.js").write_text(code_of_all_widgets(), encoding="utf-8")
    for folder in (OWN_ASSETS, WIDGET_ASSETS, HERE / "browser"):
        for path in (*folder.glob("*.js"), *folder.glob("*.css")):
            text = without_comments(path.read_text(encoding="utf-8"))
            (generated / path.name).write_text(text, encoding="utf-8")
    app.config.html_static_path.append(str(generated))
    app.add_css_file("palette.css")
    app.add_css_file("coursebook.css")
    app.add_js_file("answers.js", loading_method="defer")
    app.add_js_file("widget_code.js", loading_method="defer")
    app.add_js_file("share.js", loading_method="defer")
    app.add_js_file("mount.js", loading_method="defer")


def say_that_scripts_run(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Mark the page before its first line is drawn, so that no answer is seen and then folded.

    Where the script that folds answers cannot be loaded, the mark goes, and the answers are open.
    """
    script = (
        "<script>{const marks=document.documentElement.classList;"
        f'marks.add("{SCRIPTED}");'
        'addEventListener("error",({target})=>target.src?.includes("/answers.js")&&'
        f'marks.remove("{SCRIPTED}"),true)}}</script>'
    )
    context["metatags"] = context.get("metatags", "") + script


def write_palette(app: Sphinx, exception: Exception | None) -> None:
    """Write the colours that pictures ask for: a page may have pictures and no widget."""
    static = Path(app.outdir) / "_static"
    if exception is None and static.is_dir():
        (static / "palette.css").write_text(css_variables(), encoding="utf-8")


def drop_outside_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Take out what other extensions add from elsewhere: Thebe's loader (never used here) and MathJax."""
    context["script_files"] = [script for script in context["script_files"] if not _is_outside(script)]
    context["css_files"] = [sheet for sheet in context["css_files"] if not _is_outside(sheet)]


def _is_outside(asset: Any) -> bool:
    filename = str(getattr(asset, "filename", asset) or "")
    body = str(getattr(asset, "attributes", {}).get("body") or "")
    return filename.startswith(("http:", "https:", "//")) or "thebe" in f"{filename}{body[:400]}".lower()


def refuse_math(app: Sphinx, doctree: nodes.document) -> None:
    """Formulas stand as code: typeset mathematics would need MathJax from outside."""
    for node in doctree.findall(lambda node: isinstance(node, (nodes.math, nodes.math_block))):
        raise ExtensionError(
            f"{app.env.docname}, line {node.line}: write formulas as code, not as mathematics"
        )


def keep_state_scripts_valid(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Fail when a page's widget state is not JSON: the mount script would find nothing."""
    for script in context["script_files"]:
        attributes = getattr(script, "attributes", {})
        if str(attributes.get("type", "")).endswith("widget-state+json"):
            json.loads(attributes["body"])


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("builder-inited", add_assets)
    app.connect("build-finished", write_palette)
    app.connect("doctree-read", refuse_math)
    # After the extensions that add scripts (their priority is 500).
    app.connect("html-page-context", drop_outside_scripts, priority=900)
    app.connect("html-page-context", keep_state_scripts_valid, priority=901)
    app.connect("html-page-context", say_that_scripts_run)
