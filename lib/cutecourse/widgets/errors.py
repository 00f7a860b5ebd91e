"""The widgets' one error."""

from __future__ import annotations

import traitlets

from cutecourse.errors import CourseError


class WidgetError(CourseError, traitlets.TraitError):
    """A widget was given something it cannot show; the message says what, and what to give instead.

    It is a `TraitError` too, so that traitlets undoes the assignment that failed.
    """
