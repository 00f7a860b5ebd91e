"""The book's Sphinx extension: recorded outputs, errata, sources, status; nothing from outside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# The book is built by Jupyter Book's own command, which does not know the repository's root.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from coursebook import (
    answers,
    api,
    assets,
    cheat_sheets,
    corpus,
    desk,
    emulator,
    errata,
    exercises,
    live,
    markdown,
    minutes,
    museum,
    playground,
    policy,
    recordings,
    review,
    source_documents,
    status,
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the parts; Sphinx calls this."""
    for part in (
        recordings,
        answers,
        errata,
        minutes,
        source_documents,
        status,
        emulator,
        corpus,
        museum,
        api,
        assets,
        desk,
        cheat_sheets,
        review,
        live,
        exercises,
        playground,
        markdown,
        policy,
    ):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
