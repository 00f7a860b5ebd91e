"""A kernel's folder by its name, its file as text, and the file's functions by name.

Each kernel has a folder, `THEME/NAME`. A kernel of the CuTe DSL or of numba-cuda imports its compiler. So a
launch specification names the functions of the kernel's file (`source.py`) instead of importing them, and
only a compile imports the file. All else can be read where no compiler is installed.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.resources
import linecache
import pkgutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cutecourse.errors import CourseError

__all__ = [
    "KERNELS",
    "KernelFile",
    "KernelFunction",
    "SpecError",
    "has_text",
    "kernel_file",
    "kernel_files",
    "kernel_module",
    "kernel_modules",
    "kernel_names",
    "kernel_text",
    "resolved",
]

KERNELS = "cutecourse.kernels"
"""The package of the themes, which hold the kernels' folders."""

_PARTS = {"source", "faults"}
"""Modules that many folders have: the index names them with their kernel."""
_FOR_ALL = {"chapters", "faults", "files", "fit", "spec", "twinning"}
"""Modules that serve all kernels alike."""


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

    @property
    def kernel(self) -> str | None:
        """The kernel in whose folder the file is; None for another text."""
        return self.module.split(".")[-2] if self.module else None

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

    @property
    def filename(self) -> str:
        """The path by which compilers and tracebacks know the file; of another text a name in brackets."""
        if self.module is None:
            return _known_as(self)
        package, _, source = self.module.rpartition(".")
        return str(importlib.resources.files(package) / f"{source}.py")

    def load(self) -> ModuleType:
        """Import or execute the file, once in a process. Errors: ImportError without its compiler."""
        return importlib.import_module(self.module) if self.module else _executed(self)


def kernel_modules() -> Mapping[str, str]:
    """The modules that the package finds by name, each with its full name.

    They are the kernels' folders and the modules in them. `source.py` and `faults.py` go by the kernel's name
    and their own; another module goes by its own alone.

    >>> kernel_modules()["umma_one"], kernel_modules()["umma_one.source"]
    ('cutecourse.kernels.umma.umma_one', 'cutecourse.kernels.umma.umma_one.source')
    """
    return _modules(tuple(importlib.import_module(KERNELS).__path__))


def kernel_names() -> tuple[str, ...]:
    """The names of all kernels: of the folders and other modules that have a specification `LAUNCH`."""
    names = [name for name in kernel_modules() if "." not in name]
    return tuple(sorted(name for name in names if hasattr(kernel_module(name), "LAUNCH")))


def kernel_module(name: str) -> ModuleType:
    """Import a kernel's module by its name; no compiler is needed for that. Errors: SpecError.

    >>> kernel_module("umma_one").LAUNCH.target
    'sm_100a'
    """
    return importlib.import_module(_place(name))


def kernel_file(name: str) -> KernelFile:
    """The file of one of the course's kernels, read and not imported. Errors: SpecError.

    >>> kernel_file("tma_load").constant("TILE")
    (64, 64)
    """
    return KernelFile(name, kernel_text(name, "source.py"), f"{_place(name)}.source")


def kernel_text(name: str, file: str) -> str:
    """The text of a file in a kernel's folder, such as `twin.ptx`. Errors: SpecError."""
    if not has_text(name, file):
        raise SpecError(f"the folder of the kernel {name} has no {file}.")
    return (importlib.resources.files(_folder(name)) / file).read_text(encoding="utf-8")


def has_text(name: str, file: str) -> bool:
    """Return whether a kernel's folder has a file. Errors: SpecError for a name that is no kernel's."""
    return (importlib.resources.files(_folder(name)) / file).is_file()


def kernel_files(name: str) -> tuple[Path, ...]:
    """The files whose change can change what a kernel does, sorted. Errors: SpecError.

    name   a kernel's, or that of another module of its folder.
    They are the modules and PTX texts of its folder, and the same of the kernels and the modules of this
    package that these import. Modules that serve all kernels alike, such as `spec.py`, are left out.
    """
    found: set[Path] = set()
    names = [name]
    while names:
        folder = Path(str(importlib.resources.files(_folder(names.pop()))))
        new = {file for file in folder.iterdir() if file.suffix in {".py", ".ptx"}} - found
        found |= new
        for file in new:
            if file.suffix != ".py":
                continue
            for module in _imports(file.read_text(encoding="utf-8")):
                if module in kernel_modules():
                    names.append(module)
                elif (shared := folder.parents[1] / f"{module}.py").is_file() and module not in _FOR_ALL:
                    found.add(shared)
    return tuple(sorted(found))


def _place(name: str) -> str:
    """The full name of a module that is found by its own. Errors: SpecError."""
    places = kernel_modules()
    if name not in places:
        raise SpecError(f"there is no kernel {name!r}.")
    return places[name]


def _folder(name: str) -> str:
    """The package that is a kernel's folder, also for another module of it. Errors: SpecError."""
    place = _place(name)
    return place if place.count(".") == KERNELS.count(".") + 2 else place.rpartition(".")[0]


@cache
def _modules(where: tuple[str, ...]) -> Mapping[str, str]:
    """The modules of `kernel_modules` in these places of the package."""
    found = {}
    for theme in _packages(where):
        folders = [f"{place}/{theme}" for place in where]
        for kernel in _packages(folders):
            found[kernel] = f"{KERNELS}.{theme}.{kernel}"
            for module in pkgutil.iter_modules([f"{folder}/{kernel}" for folder in folders]):
                name = f"{kernel}.{module.name}" if module.name in _PARTS else module.name
                found[name] = f"{KERNELS}.{theme}.{kernel}.{module.name}"
    return found


def _packages(where: Iterable[str]) -> Iterator[str]:
    """The packages in these folders."""
    return (module.name for module in pkgutil.iter_modules(where) if module.ispkg)


def _imports(text: str) -> Iterator[str]:
    """The names of the modules of this package that a text imports: kernels, or modules beside the themes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == KERNELS:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{KERNELS}."):
            yield (node.module or "").removeprefix(f"{KERNELS}.").removesuffix(".source").rpartition(".")[2]


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
    """Execute a text that is no file of the package."""
    module = ModuleType(file.name)
    exec(compile(file.text, file.filename, "exec"), vars(module))
    return module


@cache
def _known_as(file: KernelFile) -> str:
    """Keep a text that is no file of the package where the lines of a file are looked for, under a name.

    The CuTe DSL reads a kernel's source again, as Python does for a traceback and a report for a line.
    """
    filename = f"<{file.name}>"
    if filename in linecache.cache:
        filename = f"<{file.name}_{zlib.crc32(file.text.encode()):08x}>"
    linecache.cache[filename] = (len(file.text), None, file.text.splitlines(keepends=True), filename)
    return filename
