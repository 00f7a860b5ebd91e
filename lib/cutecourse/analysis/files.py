"""PTX texts in files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cutecourse.analysis.errors import InputError
from cutecourse.ptx.tokens import MAX_TEXT_BYTES

__all__ = ["read_ptx", "read_text"]


def read_ptx(path: str | PathLike[str]) -> str:
    """A kernel's text. Errors: InputError for a file that is not there, no text, or too large."""
    return read_text(path, "a PTX text", "Give PTX, not a cubin.")


def read_text(path: str | PathLike[str], what: str = "it", advice: str = "") -> str:
    """A file's text; `what` and `advice` are for errors.

    Errors: InputError for a file that is not there, no text, or too large.
    """
    try:
        size = Path(path).stat().st_size
        if size > MAX_TEXT_BYTES:
            raise InputError(f"{path} has {size} bytes, but {what} may have at most {MAX_TEXT_BYTES}")
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        problem = f"{path} is not text: byte {error.start} is not UTF-8. {advice}".rstrip()
        raise InputError(problem) from None
