"""A cell's outputs: how a value and an error show themselves, and when two outputs say the same.

Builds of the book use the same digest, so that page and recording are compared by one rule.
"""

from __future__ import annotations

import hashlib
import html
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

from cutecourse.errors import CourseError, frames_of_others

Output = dict[str, Any]
"""An output as a notebook file has it: `output_type`, and `text`, `data` or `ename` and `evalue`."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_REPRS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "text/plain": "__repr__",
}
CELL = "cell "
"""How the names begin under which tracebacks quote cells."""
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+(?=>)")
_BLOCK = re.compile(r"</?(?:details|div|h\d|li|p|pre|section|strong|summary|table|td|th|tr|ul)\b[^>]*>")
"""Tags that part words; the others stand inside of words, where code is coloured."""


def bundle(value: Any) -> dict[str, Any]:
    """A value in each form that it can show itself in, by MIME type."""
    data: dict[str, Any] = {}
    if not isinstance(value, type):
        several = getattr(value, "_repr_mimebundle_", None)
        found = several() if several is not None else None
        if found is not None:
            data |= found[0] if isinstance(found, tuple) else found
        for mime, method in _REPRS.items():
            form = getattr(value, method, None)
            if mime not in data and form is not None and (made := form()) is not None:
                data[mime] = made
    return data or {"text/plain": repr(value)}


def error_output(error: BaseException) -> Output:
    """An error as a notebook shows it: the reader's lines and the message, without our own insides."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(CELL):
        trace = trace.tb_next
    ours = isinstance(error, CourseError)
    told = traceback.TracebackException(type(error), error, frames_of_others(trace) if ours else trace)
    if ours:
        told.__cause__ = told.__context__ = None
    return {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": str(error),
        "traceback": "".join(told.format()).rstrip("\n"),
    }


def digest(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Twelve letters that are the same for outputs that say the same, recorded or live."""
    text = "\0".join(canonical(outputs))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def canonical(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts of a cell's outputs, one per output; streams that follow each other are one."""
    told: list[str] = []
    streaming = False
    for output in outputs:
        if output["output_type"] == "stream":
            if streaming:
                told[-1] += output["text"]
            else:
                told.append(output["text"])
            streaming = True
            continue
        streaming = False
        if output["output_type"] == "error":
            told.append(f"{output['ename']}: {output['evalue']}")
        else:
            told.append(_words(output["data"]))
    return [_ADDRESS.sub("0x0", text).strip() for text in told]


def _words(data: Mapping[str, Any]) -> str:
    """Reduce an output to what it says: a picture's shapes, the words of other HTML, or its text.

    The words alone, because a notebook colours code and a browser here does not.
    """
    page = data.get("text/html")
    if WIDGET_VIEW in data or page is None:
        return str(data.get("text/markdown") or data["text/plain"])
    if "<svg" in page:
        return str(page)
    words = re.sub(r"<[^>]*>", "", _BLOCK.sub(" ", page))
    return " ".join(html.unescape(words).split())
