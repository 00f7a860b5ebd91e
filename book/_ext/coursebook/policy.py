"""Give each page a content security policy: nothing from outside, and no script that the build did not write.

Python's worker starts from a blob of the page, so the policy holds there as well.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_CHARSET = re.compile(r"<meta charset=[^>]*>", re.IGNORECASE)
_SCRIPT = re.compile(r"<script\b(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
_DATA = re.compile(r"\bsrc=|\btype=\"?(?!text/javascript|module)")
"""In the attributes of a script that is fetched, or whose text is data and does not run."""
_HANDLER = re.compile(r"<\w[^>]*\son[a-z]+\s*=\s*[\"'][^>]*>")
_MARK = 'http-equiv="Content-Security-Policy"'


def policy(page: str) -> str:
    """The policy of a page: its own inline scripts by their hashes, the site's files, widgets from blobs.

    Inline styles are allowed, because recorded outputs have them. `wasm-unsafe-eval` lets WebAssembly run and
    nothing else.
    """
    inline = [match["text"] for match in _SCRIPT.finditer(page) if not _DATA.search(match["attributes"])]
    hashes = sorted({f"'sha256-{_hash(text)}'" for text in inline if text})
    rules = [
        "default-src 'none'",
        f"script-src 'self' blob: 'wasm-unsafe-eval' {' '.join(hashes)}",
        "worker-src 'self' blob:",
        "connect-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "base-uri 'none'",
        "form-action 'self'",
    ]
    return "; ".join(rules)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def with_policy(page: str, name: str) -> str:
    """The page with its policy; one that has it stays as it is.

    Errors: ExtensionError for a page with an event handler in its HTML, which the policy would block.
    """
    if _MARK in page or _CHARSET.search(page) is None:
        return page
    if handler := _HANDLER.search(_SCRIPT.sub("", page)):
        raise ExtensionError(f"{name}: the policy of the pages blocks the handler in {handler.group()[:120]}")
    tag = f'<meta {_MARK} content="{policy(page)}" />'
    return _CHARSET.sub(lambda match: f"{match.group()}\n    {tag}", page, count=1)


def add_policies(app: Sphinx, exception: Exception | None) -> None:
    """Write the policy into each page that was built."""
    if exception is not None or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if (guarded := with_policy(page, path.name)) != page:
            path.write_text(guarded, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    app.connect("build-finished", add_policies)
