"""Keys of recordings: what can change the result of a cell or of a kernel, as a hash.

A comment, a docstring, white space and the library's version change no result, so they are in no key.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from cutecourse.kernels import SpecError, kernel_files
from cutecourse.kernels.faults import change_of

_PTX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WITH = " with "
_RIGHT = {"__init__.py", "source.py"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_key(text: str) -> str:
    """The key of Python code: its syntax tree without docstrings. Text that is no Python is its own key.

    >>> code_key("a = 1  # one") == code_key("a=1")
    True
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return _hash(text.strip())
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _hash(_dump(tree))


def _dump(tree: ast.AST) -> str:
    """The tree in the form of Python 3.11, so that machines with other versions give the same keys."""
    every: dict[str, Any] = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(tree, **every).replace(", type_params=[]", "")


def ptx_key(text: str) -> str:
    """The key of PTX: its tokens without comments.

    >>> ptx_key("ret; // the end") == ptx_key("  ret;")
    True
    """
    return _hash(" ".join(_PTX_COMMENT.sub(" ", text).split()))


def kernel_key(name: str) -> str | None:
    """The key of one of the course's kernels: of its launch, its source, its twins, and what these import.

    name   the kernel's, or a kernel's and a fault's as `fault_name` writes them: then the key is that of the
           fault's edits.
    Returns None where the course has no such kernel or fault (any more).
    """
    kernel, _, fault = name.partition(_WITH)
    try:
        if fault:
            found = change_of(kernel, fault)
            return _hash(repr((found.source, found.twin)))
        files = [file for file in kernel_files(kernel) if _is_of_the_right_kernel(file)]
    except SpecError:
        return None
    return _hash("\n".join(_file_key(file, file.stat().st_mtime_ns) for file in files))


def fault_name(kernel: str, fault: str) -> str:
    """The name under which a recording keeps the key of a kernel's fault."""
    return f"{kernel}{_WITH}{fault}"


def _is_of_the_right_kernel(file: Path) -> bool:
    """Return whether a file is part of a kernel without faults: of its folder, or shared by all folders."""
    return file.suffix == ".ptx" or file.name in _RIGHT or file.parent.name == "kernels"


@lru_cache(maxsize=512)
def _file_key(file: Path, _written: int) -> str:
    text = file.read_text(encoding="utf-8")
    return ptx_key(text) if file.suffix == ".ptx" else code_key(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
