"""Sources for a page: a kernel's text, its launch, differences, and one step in several languages."""

from __future__ import annotations

import ast
import difflib
import html
import importlib.resources
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import Any, Protocol

from cutecourse.errors import CourseError

__all__ = [
    "NoSuchLine",
    "Panels",
    "Source",
    "SourceDifference",
    "difference",
    "excerpt",
    "launch_source",
    "quoted_lines",
    "side_by_side",
    "source",
    "source_file",
]

_TITLES = {"cpp": "CuTe C++", "dsl": "CuTe DSL", "numba": "numba-cuda", "ptx": "PTX", "python": "Python"}
_LEXERS = {"cpp": "cuda", "dsl": "python", "numba": "python", "ptx": "ptx", "python": "python"}


class NoSuchLine(CourseError):
    """A text was asked for lines that it does not have."""


class Source:
    """A kernel's source as Jupyter and the book show it; `str()` gives the plain text."""

    def __init__(self, text: str, language: str = "python") -> None:
        self.text = text
        self.language = language

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        # Sphinx's lexer for PTX refuses predicates, and a page with a warning is not built.
        language = "text" if self.language == "ptx" else self.language
        return f"```{language}\n{self.text.rstrip()}\n```"


class WithPtx(Protocol):
    """A kernel's specification, as far as it matters here: its PTX, if it has a text of its own."""

    @property
    def ptx(self) -> str | None:
        """The PTX."""


def source(thing: ModuleType | Callable[..., object] | WithPtx) -> Source:
    """The source of a kernel or of one of its functions, as text: no compiler is needed.

    Of a kernel's module with a file of its own (`FILE`) it is that file, the one which a compile imports;
    `launch_source` shows the rest. Of another module or function it is what was imported. Of a specification
    with PTX of its own, such as `twin(kernel)`, it is the PTX.
    Errors: NoSuchLine when Python keeps no source for it.
    """
    ptx = getattr(thing, "ptx", None)
    if isinstance(ptx, str):
        return Source(ptx, "ptx")
    text = _file_text(thing)
    if text is not None:
        return Source(text)
    held: Any = getattr(thing, "py_func", thing)
    function: Any = inspect.unwrap(held)
    try:
        return Source(textwrap.dedent(_with_decorators(inspect.getsource(function), function)))
    except (OSError, TypeError) as error:
        raise NoSuchLine(
            f"Python keeps no source for {thing!r}: it was not read from a file or a cell"
        ) from error


def launch_source(module: ModuleType) -> Source:
    """How a kernel is launched: `LAUNCH`, and the functions and constants of its module that `LAUNCH` uses.

    A text of several lines, such as PTX, is left out: `source` shows it.
    Errors: NoSuchLine for a module without a launch specification `LAUNCH`, and as `source`.

    >>> from cutecourse.kernels import copy_transposed
    >>> print(launch_source(copy_transposed))
    FILE = kernel_file("copy_transposed")
    <BLANKLINE>
    LAUNCH = LaunchSpec(
        name="copy_transposed",
        language="numba",
        kernel=FILE.function("copy_transposed"),
        grid=(4, 1, 1),
        block=(256, 1, 1),
        params=(Tensor("out", "f32", (None, None)), Tensor("a", "f32", (None, None))),
    )
    <BLANKLINE>
    """
    if not hasattr(module, "LAUNCH"):
        raise NoSuchLine(f"{module.__name__} has no launch specification LAUNCH")
    try:
        text = inspect.getsource(module)
    except (OSError, TypeError) as error:
        raise NoSuchLine(f"Python keeps no source for {module!r}: it was not read from a file") from error
    lines = text.splitlines()
    shown = ""
    before: ast.Assign | ast.FunctionDef | None = None
    for node in _used_by(ast.parse(text), "LAUNCH"):
        if before is not None:
            functions = isinstance(before, ast.FunctionDef) or isinstance(node, ast.FunctionDef)
            shown += "\n\n" if functions else "\n" * (node.lineno - 1 != before.end_lineno)
        shown += "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"
        before = node
    return Source(shown)


def _used_by(module: ast.Module, name: str) -> list[ast.Assign | ast.FunctionDef]:
    """The assignments and functions of a module that one name needs, itself included, in their order."""
    defined: dict[str, ast.Assign | ast.FunctionDef] = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign) and not _is_long_text(node.value):
            targets = [part for target in node.targets for part in ast.walk(target)]
            defined |= {part.id: node for part in targets if isinstance(part, ast.Name)}
    used: list[ast.Assign | ast.FunctionDef] = []
    names = [name]
    while names:
        found = defined.get(names.pop())
        if found is not None and found not in used:
            used.append(found)
            names += [part.id for part in ast.walk(found) if isinstance(part, ast.Name)]
    return sorted(used, key=lambda node: node.lineno)


def _is_long_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str) and "\n" in value.value


def _file_text(thing: Any) -> str | None:
    """The text that a kernel's module names as its file, or a reference to a function of that file has."""
    held = getattr(thing, "FILE", None) if isinstance(thing, ModuleType) else thing
    text = getattr(held, "text", None)
    return text if isinstance(text, str) else None


def _with_decorators(text: str, function: Any) -> str:
    """A function's text with its decorators, which Python misses when the CuTe DSL has compiled it."""
    file = inspect.getsourcefile(function)
    above, found, _ = "".join(linecache.getlines(file)).partition(text) if file else ("", "", "")
    lines = above.splitlines(keepends=True) if found else []
    while lines and lines[-1].lstrip().startswith("@"):
        text = lines.pop() + text
    return text


def source_file(name: str) -> str:
    """The text of a file beside the kernels that a page quotes but does not import.

    `micro_gemm.cu` is `kernel.cu` in the folder of the kernel `micro_gemm`, and `micro_gemm.py` its
    `source.py`. Another name is that of a file in any of the folders. A test compiles each such file, runs
    it and compares. Errors: NoSuchLine for a name that is not there.
    """
    stem, _, ending = name.rpartition(".")
    own = {"cu": "kernel.cu", "py": "source.py"}.get(ending)
    for folder, file in _files(importlib.resources.files("cutecourse.kernels")):
        if file.name == name or (folder == stem and file.name == own):
            return file.read_text(encoding="utf-8")
    raise NoSuchLine(f"cutecourse.kernels has no file {name!r}")


def _files(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    """The files below a folder, each with the name of its own folder."""
    for inside in folder.iterdir():
        if inside.is_dir():
            yield from _files(inside)
        else:
            yield folder.name, inside


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


def quoted_lines(report: str, text: object) -> str:
    r"""The instructions of a PTX text at the lines that a report names, each on a line of its own.

    It leaves out predicates, modifiers after the second one, and most registers of a long vector.

    >>> ptx = "mov.u32 %a, 0;\n@%p ld.global.v4.relaxed.b32 {%a, %b, %c, %d, %e}, [%x];"
    >>> quoted_lines("a load (line 2)", ptx)
    'line 2: ld.global.v4 {%a, ..., %e}, [%x]\n'
    """
    lines, quoted = str(text).splitlines(), []
    for number in sorted({int(found) for found in re.findall(r"line (\d+)", report)}):
        instruction = " ".join(" ".join(lines[number - 1 :]).partition(";")[0].split())
        opcode, _, operands = re.sub(r"^@!?%\w+ ", "", instruction).partition(" ")
        operands = re.sub(r"\{(%\w+), (?:%\w+, ){3,}(%\w+)\}", r"{\1, ..., \2}", operands)
        quoted.append(f"line {number}: {'.'.join(opcode.split('.')[:3])} {operands}\n")
    return "".join(quoted)


class SourceDifference(Source):
    """A unified diff as Jupyter and the book show it; `added` and `removed` count its lines."""

    @property
    def added(self) -> int:
        """Lines that only the second text has."""
        return sum(line.startswith("+") for line in self._changes())

    @property
    def removed(self) -> int:
        """Lines that only the first text has."""
        return sum(line.startswith("-") for line in self._changes())

    def _changes(self) -> list[str]:
        return self.text.splitlines()[2:]  # after the two names

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self.text.rstrip()}\n```"


def difference(
    before: object, after: object, *, of: str | None = None, context: int = 3, docstring: bool = True
) -> SourceDifference:
    r"""The changes from one kernel to the next, as a unified diff of their sources.

    before, after  modules, functions, sources or texts.
    of             with modules, the function of each to compare: "kernel", "host", or a name that both have;
                   None compares the whole files.
    context        how many unchanged lines stand around a change.
    docstring      False leaves out the modules' docstrings, which say in prose what the diff says in code.
    Errors: NoSuchLine for two texts that are the same, and for a function that a module does not have.

    >>> print(difference("a = 1\nb = 2\n", "a = 1\nb = 3\n"))
    --- before
    +++ after
    @@ -1,2 +1,2 @@
     a = 1
    -b = 2
    +b = 3
    """
    old, new = (_side(thing, of, docstring).splitlines() for thing in (before, after))
    left, right = _side_name(before, "before"), _side_name(after, "after")
    lines = list(difflib.unified_diff(old, new, left, right, n=context, lineterm=""))
    if not lines:
        raise NoSuchLine(f"{left} and {right} have the same text: there is no difference to show")
    return SourceDifference("\n".join(line.rstrip() for line in lines))


def _side(thing: Any, of: str | None, docstring: bool) -> str:
    """One of the two texts of a difference."""
    if isinstance(thing, str | Source):
        return str(thing)
    if isinstance(thing, ModuleType) and of is not None:
        found = getattr(getattr(thing, "LAUNCH", None), of, None) or getattr(thing, of, None)
        if not callable(found):
            raise NoSuchLine(f"{thing.__name__} has no function {of!r}")
        thing = found
    text = str(source(thing))
    if isinstance(thing, ModuleType) and not docstring:
        first = ast.parse(text).body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            text = "".join(text.splitlines(keepends=True)[first.end_lineno :]).lstrip("\n")
    return text


def _side_name(thing: Any, otherwise: str) -> str:
    if isinstance(thing, ModuleType):
        return f"{thing.__name__.rpartition('.')[2]}.py"
    return str(getattr(thing, "__name__", otherwise))


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
