"""No module of the library, of the tools or of the book imports, by any path, a module that imports it."""

import ast
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "lib" / "cutecourse", ROOT / "tools", ROOT / "book" / "_ext" / "coursebook")
EVENTS = "cutecourse.emulator.core.observer"
"""The module of events. It imports, for types only, what rows above make and its events carry."""


def modules(packages: Iterable[Path]) -> dict[str, Path]:
    """The file of each module of the packages; a package is named without its `__init__`."""
    files = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imported_names(module: str, path: Path, *, types: bool = True) -> Iterator[str]:
    """The dotted names that a file imports anywhere: at its top, inside a function or for types only.

    `from a.b import c` gives `a.b.c`, which is a module or a name in `a.b`. Without `types`, the names under
    `if TYPE_CHECKING` are left out.
    """
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def import_graph(packages: Iterable[Path]) -> dict[str, set[str]]:
    """For each module of the packages, the modules of them that its file names in an import.

    Importing `a.b` runs `a/__init__.py` first. That alone is no edge: only what a file names counts. What
    EVENTS imports for types is no edge either.
    """
    files = modules(packages)
    graph: dict[str, set[str]] = {module: set() for module in files}
    for module, path in files.items():
        for name in imported_names(module, path, types=module != EVENTS):
            while name and name not in files:
                name = name.rpartition(".")[0]
            if name:
                graph[module].add(name)
    return graph


def import_circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, each of which imports the next; the first one again at the end."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # graphlib lists what is imported before what imports it
    return []


def test_packages__have_no_import_circle():
    graph = import_graph(PACKAGES)
    assert {name.partition(".")[0] for name in graph} == {package.name for package in PACKAGES}
    assert len(graph) > 300, "the packages' modules were not found"
    circle = import_circle(graph)
    assert not circle, " imports\n".join(circle)


def test_events__import_nothing_of_the_library_but_types():
    assert import_graph(PACKAGES)[EVENTS] == set()


@pytest.mark.parametrize(
    ("in_a", "in_b"),
    [
        ("import cutecourse.p.b", "import cutecourse.p.a"),
        ("from cutecourse.p import b", "from cutecourse.p import a"),
        ("from . import b", "def f():\n    from .a import x"),
        ("from .b import y", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a"),
    ],
)
def test_import_circle__is_found(tmp_path: Path, in_a: str, in_b: str):
    write_package(tmp_path, a=in_a, b=in_b)
    assert set(import_circle(import_graph([tmp_path / "cutecourse"]))) == {"cutecourse.p.a", "cutecourse.p.b"}


def test_import_circle__goes_through_a_package_whose_name_is_imported(tmp_path: Path):
    write_package(tmp_path, __init__="from .a import x", a="from cutecourse.p import x")
    circle = import_circle(import_graph([tmp_path / "cutecourse"]))
    assert circle in (
        ["cutecourse.p", "cutecourse.p.a", "cutecourse.p"],
        ["cutecourse.p.a", "cutecourse.p", "cutecourse.p.a"],
    )


def test_import_circle__is_none_where_a_package_imports_its_modules(tmp_path: Path):
    write_package(tmp_path, __init__="from .a import x", a="from .b import y\nimport numpy", b="")
    assert import_circle(import_graph([tmp_path / "cutecourse"])) == []


def write_package(root: Path, **texts: str) -> None:
    package = root / "cutecourse" / "p"
    package.mkdir(parents=True)
    for name, text in {"__init__": "", **texts}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
