"""The policy that each page gets: its own scripts run, and nothing else does."""

from __future__ import annotations

import pytest
from coursebook.policy import policy, with_policy
from sphinx.errors import ExtensionError

HEAD = '<html><head><meta charset="utf-8" />{}</head><body>{}</body></html>'
# From the CSP specification's own example: the hash of `alert('Hello, world.');`
HELLO = "alert('Hello, world.');"
HELLO_HASH = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_policy__names_inline_scripts_by_their_hashes() -> None:
    assert HELLO_HASH in policy(HEAD.format(f"<script>{HELLO}</script>", ""))
    assert "unsafe-inline" not in policy(HEAD.format("", "")).partition("style-src")[0]


def test_policy__leaves_out_data_and_files() -> None:
    data = f'<script type="application/json">{HELLO}</script><script src="a.js"></script>'
    assert "sha256" not in policy(HEAD.format(data, ""))


def test_with_policy__comes_before_the_first_script_and_once() -> None:
    page = with_policy(HEAD.format(f"<script>{HELLO}</script>", ""), "a.html")
    assert page.index("Content-Security-Policy") < page.index("<script>")
    assert with_policy(page, "a.html") == page


def test_with_policy__refuses_a_handler_that_it_would_block() -> None:
    with pytest.raises(ExtensionError, match="blocks the handler"):
        with_policy(HEAD.format("", '<button onclick="go()">'), "a.html")
