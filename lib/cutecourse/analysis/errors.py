"""The error of this package."""

from cutecourse.errors import CourseError

__all__ = ["InputError"]


class InputError(CourseError):
    """A kernel's name, an argument, an option or a file that cannot be used."""
