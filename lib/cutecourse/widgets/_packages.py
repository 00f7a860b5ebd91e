"""The check that runs before any widget is imported: are the packages of the extra `widgets` there?"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from cutecourse.errors import CourseError

PACKAGES = ("anywidget", "ipywidgets", "matplotlib")
IN_BROWSER = sys.platform == "emscripten"
"""Whether this Python runs in a page of the book, where widgets reach the page without Jupyter."""


class MissingPackages(CourseError, ImportError):
    """The packages that only the widgets need are not installed; the message says how to get them."""


def require() -> None:
    """Refuse to go on without the packages that widgets import. Errors: MissingPackages."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing and not IN_BROWSER:
        raise MissingPackages(
            f"the widgets need what is not installed: {', '.join(missing)}. Install the extra `widgets`: "
            "pip install 'cutecourse[widgets]', or pip install '.[widgets]' in a clone. "
            "Layouts, TMA, UMMA, the emulator and the command line work without it."
        )
