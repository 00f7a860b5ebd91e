"""The runtime's errors."""

from cutecourse.errors import CourseError

__all__ = ["ArgumentError", "CompileError", "DeviceError", "GpuError", "NoCompilerError"]


class ArgumentError(CourseError):
    """An array or number that does not fit the kernel's launch specification."""


class CompileError(CourseError):
    """A kernel that could not be turned into PTX."""


class NoCompilerError(CourseError):
    """A compiler that cannot be imported, and a kernel that has no twin in PTX for it.

    It is no `CompileError`: code that shows what a compiler refuses must not take this for an answer.

    compiler    the name of what is missing: "the CuTe DSL".
    """

    def __init__(self, message: str, compiler: str) -> None:
        super().__init__(message)
        self.compiler = compiler


class DeviceError(CourseError):
    """A device that was asked for and is not there, or cannot run the kernel."""


class GpuError(CourseError):
    """A call of the CUDA driver that failed."""
