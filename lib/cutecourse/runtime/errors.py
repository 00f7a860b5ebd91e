"""The runtime's errors."""

from cutecourse.errors import CourseError

__all__ = ["ArgumentError", "CompileError", "DeviceError", "GpuError"]


class ArgumentError(CourseError):
    """An array or number that does not fit the kernel's launch specification."""


class CompileError(CourseError):
    """A kernel that could not be turned into PTX, or a compiler that is not installed."""


class DeviceError(CourseError):
    """A device that was asked for and is not there, or cannot run the kernel."""


class GpuError(CourseError):
    """A call of the CUDA driver that failed."""
