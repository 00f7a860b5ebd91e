"""The errata: statements of the material that the course started from, and what is right, with what shows it."""

from __future__ import annotations

from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    """Add the directive."""
