"""The one root of every error this project raises on purpose."""


class CourseError(Exception):
    """An error that says what was wrong, where, and what to do.

    Every package derives its own classes from this one, so that a notebook or the command line
    can tell a message meant for the reader from a defect of ours.
    """
