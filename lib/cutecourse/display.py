"""What a page shows besides results: a kernel's source, and one step in several languages side by side."""

from __future__ import annotations

import html
import importlib.resources
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from cutecourse.errors import CourseError

__all__ = ["NoSuchLine", "Panels", "Source", "excerpt", "side_by_side", "source", "source_file"]

_TITLES = {"cpp": "CuTe C++", "dsl": "CuTe DSL", "numba": "numba-cuda", "ptx": "PTX", "python": "Python"}
_LEXERS = {"cpp": "cuda", "dsl": "python", "numba": "python", "ptx": "ptx", "python": "python"}


class NoSuchLine(CourseError):
    """A text was asked for lines that it does not have."""


class Source:
    """Python source as Jupyter and the book show it; `str()` gives the plain text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text.rstrip()}\n```"


def source(thing: ModuleType | Callable[..., object]) -> Source:
    """The source of a kernel's module or function, read from the file that was imported.

    It is therefore the source that runs. Errors: NoSuchLine when Python keeps no source for it.
    """
    function: Any = inspect.unwrap(getattr(thing, "py_func", thing))
    try:
        return Source(textwrap.dedent(_with_decorators(inspect.getsource(function), function)))
    except (OSError, TypeError) as error:
        raise NoSuchLine(
            f"Python keeps no source for {thing!r}: it was not read from a file or a cell"
        ) from error


def _with_decorators(text: str, function: Any) -> str:
    """A function's text with its decorators, which Python misses when the CuTe DSL has compiled it."""
    file = inspect.getsourcefile(function)
    above, found, _ = "".join(linecache.getlines(file)).partition(text) if file else ("", "", "")
    lines = above.splitlines(keepends=True) if found else []
    while lines and lines[-1].lstrip().startswith("@"):
        text = lines.pop() + text
    return text


def source_file(name: str) -> str:
    """The text of a file beside the kernels that a page quotes but does not import: `micro_gemm.cu`.

    A test compiles each such file, runs it and compares. Errors: NoSuchLine for a name that is not there.
    """
    kernels = importlib.resources.files("cutecourse.kernels")
    for folder in (kernels, kernels / "cpp"):
        if (file := folder / name).is_file():
            return file.read_text(encoding="utf-8")
    raise NoSuchLine(f"cutecourse.kernels has no file {name!r}")


def excerpt(text: object, first: str, last: str | None = None) -> str:
    """The lines of a text from the one that holds `first` to the next that holds `last` (or that one alone).

    Every line that holds `first` is taken when `last` is not given. Errors: NoSuchLine.
    """
    lines = str(text).splitlines()
    starts = [number for number, line in enumerate(lines) if first in line]
    if not starts:
        raise NoSuchLine(f"no line holds {first!r} in a text of {len(lines)} lines")
    if last is None:
        return textwrap.dedent("\n".join(lines[number] for number in starts))
    ends = [number for number in range(starts[0], len(lines)) if last in lines[number]]
    if not ends:
        raise NoSuchLine(f"no line holds {last!r} at or after the one that holds {first!r}")
    return textwrap.dedent("\n".join(lines[starts[0] : ends[0] + 1]))


class Panels:
    """The same step in several languages: side by side where there is room, stacked on a phone."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)

    def __repr__(self) -> str:
        return "\n\n".join(
            f"{_TITLES[key]}:\n{textwrap.indent(text, '    ')}" for key, text in self.texts.items()
        )

    def _repr_html_(self) -> str:
        panels = "".join(
            f'<section class="cute-panel" style="flex:1 1 18rem;min-width:0">'
            f'<div class="cute-panel-title"><strong>{_TITLES[key]}</strong></div>'
            '<div class="highlight" tabindex="0" style="overflow-x:auto">'
            f"{_highlighted(text, _LEXERS[key])}</div>"
            "</section>"
            for key, text in self.texts.items()
        )
        return f'<div class="cute-panels" style="display:flex;flex-wrap:wrap;gap:1rem">{panels}</div>'


def _highlighted(text: str, lexer: str) -> str:
    """Code as a `pre` element; its words carry Pygments' classes, which the book's theme colours."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:  # Jupyter always brings it
        return f"<pre>{html.escape(text)}</pre>"
    formatter = HtmlFormatter(wrapcode=True, cssclass="code")
    return str(highlight(text, get_lexer_by_name(lexer), formatter))


def side_by_side(**texts: object) -> Panels:
    """Show one step in several languages: `side_by_side(cpp="...", dsl=..., ptx=...)`.

    The keys are `cpp`, `dsl`, `numba`, `ptx`, `python`. Take what ran from `source()` and `excerpt()`, so
    that the panel cannot differ from it.
    Errors: NoSuchLine for a panel of another name or with nothing in it.
    """
    for key, text in texts.items():
        if key not in _TITLES:
            raise NoSuchLine(f"there is no panel {key!r}; there are {', '.join(_TITLES)}")
        if not str(text).strip():
            raise NoSuchLine(f"the panel {key!r} is empty")
    return Panels({key: textwrap.dedent(str(text)).strip("\n") for key, text in texts.items()})
