"""The errors of descriptors: a field that does not exist, or a value that a field cannot hold."""

from __future__ import annotations

from cutecourse.errors import CourseError

__all__ = ["DescriptorError"]


class DescriptorError(CourseError):
    """These values make no descriptor, or these bits are none.

    `field` names the field it is about, empty where it is about the whole; `value` is what was given.
    """

    def __init__(self, problem: str, *, field: str = "", value: object = None, advice: str = "") -> None:
        self.field = field
        self.value = value
        super().__init__(problem + (f"\n  try: {advice}" if advice else ""))
