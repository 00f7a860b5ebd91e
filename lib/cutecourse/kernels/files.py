"""A kernel's file as text, and its functions by name: both can be read where no compiler is installed.

A kernel of the CuTe DSL or of numba-cuda imports its compiler. So a launch specification names the functions
of the kernel's file instead of importing them, and only a compile imports the file.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.resources
import linecache
import zlib
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from cutecourse.errors import CourseError

__all__ = ["SOURCES", "KernelFile", "KernelFunction", "SpecError", "kernel_file", "resolved"]

SOURCES = "cutecourse.kernels.sources"
"""The package of the kernels' files."""


class SpecError(CourseError):
    """A launch specification that contradicts itself."""


@dataclass(frozen=True)
class KernelFile:
    r"""The text of a kernel's file, and how to load it.

    name    what reports and tracebacks call it.
    text    the whole file.
    module  the module to import, for a file of this package; other texts are executed as they stand.
    Errors: SpecError for a text that is not Python.

    >>> file = KernelFile("small", "TILE = (64, 64)\nHALF = TILE[0] // 2\ndef host(a): ...")
    >>> file.constant("HALF"), file.function("host").name
    (32, 'host')
    """

    name: str
    text: str = dataclasses.field(repr=False)
    module: str | None = None

    def __post_init__(self) -> None:
        try:
            _functions(self.text)
        except SyntaxError as error:
            raise SpecError(
                f"{self.name}: the kernel's text is not Python: {error.msg} in its line {error.lineno}."
            ) from error

    def function(self, name: str) -> KernelFunction:
        """A function of the file, by name. Errors: AttributeError when the file defines none of this name."""
        if name not in _functions(self.text):
            raise AttributeError(f"the kernel's file {self.name} has no function {name!r}")
        return KernelFunction(self, name)

    def constant(self, name: str) -> Any:
        """The value of a constant that the file assigns at its top level: a number, a tuple, an expression.

        Errors: AttributeError when the file has none of this name.
        """
        try:
            return _constants(self.text)[name]
        except KeyError:
            raise AttributeError(f"the kernel's file {self.name} has no constant {name!r}") from None

    def attribute(self, name: str) -> Any:
        """A constant or a function of the file; a kernel's module passes on the names that it lacks."""
        constants = _constants(self.text)
        if name in constants:
            return constants[name]
        if name in _functions(self.text):
            return self.function(name)
        raise AttributeError(f"the kernel's file {self.name} has neither a constant nor a function {name!r}")

    def text_of(self, function: str) -> str:
        """The text of one function, decorators included. Errors: AttributeError as `function`."""
        lines = _functions(self.text).get(function)
        if lines is None:
            raise AttributeError(f"the kernel's file {self.name} has no function {function!r}")
        return "".join(self.text.splitlines(keepends=True)[lines])

    def load(self) -> ModuleType:
        """Import or execute the file, once in a process. Errors: ImportError without its compiler."""
        return importlib.import_module(self.module) if self.module else _executed(self)


def kernel_file(name: str) -> KernelFile:
    """The file of one of the course's kernels, read and not imported.

    >>> kernel_file("tma_load").constant("TILE")
    (64, 64)
    """
    file = importlib.resources.files("cutecourse.kernels") / "sources" / f"{name}.py"
    return KernelFile(name, file.read_text(encoding="utf-8"), f"{SOURCES}.{name}")


@dataclass(frozen=True)
class KernelFunction:
    """A function of a kernel's file. Its text can be read at once; calling it loads the file.

    With `arguments` the function is what that function returns when it is called with them.
    """

    file: KernelFile
    name: str
    arguments: tuple[Any, ...] | None = None

    @property
    def __name__(self) -> str:
        """The function's name in its file."""
        return self.name

    @property
    def text(self) -> str:
        """The function's text, decorators included."""
        return self.file.text_of(self.name)

    def given(self, *arguments: Any) -> KernelFunction:
        """The function that this one returns for these arguments: a host function for one configuration."""
        return dataclasses.replace(self, arguments=arguments)

    def of(self, file: KernelFile) -> KernelFunction:
        """The function of the same name in another version of the file. Errors: AttributeError."""
        arguments = self.arguments
        if arguments is not None:
            arguments = tuple(
                one.of(file) if isinstance(one, KernelFunction) and one.file == self.file else one
                for one in arguments
            )
        return dataclasses.replace(file.function(self.name), arguments=arguments)

    def resolve(self) -> Any:
        """The compiler's own function. Errors: ImportError without the compiler."""
        found = getattr(self.file.load(), self.name)
        return found if self.arguments is None else found(*map(resolved, self.arguments))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Load the file and call the function."""
        return self.resolve()(*args, **kwargs)


def resolved(thing: Any) -> Any:
    """The function that a `KernelFunction` names; anything else is returned as it is."""
    return thing.resolve() if isinstance(thing, KernelFunction) else thing


@cache
def _functions(text: str) -> dict[str, slice]:
    """The functions at a text's top level, each with its lines, decorators included. Errors: SyntaxError."""
    return {
        node.name: slice(
            min([node.lineno, *(part.lineno for part in node.decorator_list)]) - 1, node.end_lineno
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


@cache
def _constants(text: str) -> dict[str, Any]:
    """The constants that a text assigns at its top level, from literals and from constants above."""
    found: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        names = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        calls = any(isinstance(part, ast.Call) for part in ast.walk(node.value))
        if isinstance(target, ast.Name) and names <= found.keys() and not calls:
            code = compile(ast.Expression(node.value), "<constant>", "eval")
            found[target.id] = eval(code, {"__builtins__": {}}, dict(found))
    return found


@cache
def _executed(file: KernelFile) -> ModuleType:
    """Execute a text that is no file of the package.

    The CuTe DSL reads a kernel's source again, as Python does for a traceback, so the text is kept where both
    look for it.
    """
    filename = f"<{file.name}>"
    if filename in linecache.cache:
        filename = f"<{file.name}_{zlib.crc32(file.text.encode()):08x}>"
    linecache.cache[filename] = (len(file.text), None, file.text.splitlines(keepends=True), filename)
    module = ModuleType(file.name)
    exec(compile(file.text, filename, "exec"), vars(module))
    return module
