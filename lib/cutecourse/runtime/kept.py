"""PTX kept on disk: a kernel of a file is compiled once on a machine, not once in each process.

A text is found again by the hash of everything that decides it: the kernel's file and the kernels' files that
it imports, the parameters, the target, and the versions of the compilers. So what is kept never goes out of
date, and the folder can be deleted at any time. A process that finds a text there does not import the
compiler either, which takes seconds.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from cutecourse.dtypes import DType
from cutecourse.kernels.files import KERNELS, KernelFile, KernelFunction, kernel_file
from cutecourse.kernels.spec import LaunchSpec, Tensor

__all__ = ["CACHE_VARIABLE", "keep", "kept", "key_of"]

CACHE_VARIABLE = "CUTECOURSE_CACHE"
"""The environment variable that names the folder; `off` keeps nothing."""

_STARTED = time.time()

_CALLERS = ("compile_cutedsl", "compile_numba", "compiled")
_COMPILERS = ("nvidia-cutlass-dsl", "numba-cuda", "numba", "llvmlite", "cuda-bindings", "nvidia-nvvm")
_IMPORT = re.compile(r"^\s*(?:from|import)\s+cutecourse\b.*", re.MULTILINE)
_IMPORTED = re.compile(rf"\s*from {re.escape(KERNELS)}\.\w+\.(\w+)\.source import .*")


class _NoKeyError(Exception):
    """The object has no key that another process would find again."""


def key_of(spec: LaunchSpec, target: str, line_info: bool) -> str | None:
    """The hash of all that decides a kernel's PTX.

    None for a kernel that each process compiles: its functions are in a notebook's cell and not in a file,
    its file prints while the compiler traces it, or its file was changed after this process began.
    """
    parameters = [
        (param.name, param.dtype.name, param.shape, param.stride)
        if isinstance(param, Tensor)
        else (param.name, param.dtype.name)
        for param in (*spec.params, *spec.arguments.values())
    ]
    try:
        parts = [
            _versions(),
            _environment(),
            (spec.language, spec.name, target, spec.entry, parameters),
            _described(spec.kernel),
            _described(spec.host),
            # With line information the text names the files.
            str(importlib.resources.files("cutecourse.kernels")) if line_info else None,
        ]
    except _NoKeyError:
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def kept(key: str | None) -> str | None:
    """The text that was kept under a key, or None."""
    folder = _folder()
    if key is None or folder is None:
        return None
    try:
        checksum, _, text = (folder / f"{key}.ptx").read_bytes().partition(b"\n")
    except OSError:
        return None
    # A file that was cut off or edited is compiled anew.
    return text.decode() if checksum == _checksum(text) else None


def keep(key: str | None, text: str) -> None:
    """Keep a text; where the folder cannot be written, nothing is kept."""
    folder = _folder()
    if key is None or folder is None:
        return
    encoded = text.encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Under another name first: another process may look for the same file now.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_checksum(encoded) + b"\n" + encoded)
        Path(file.name).replace(folder / f"{key}.ptx")
    except OSError:
        return


def _checksum(text: bytes) -> bytes:
    return f"// sha256 of what follows: {hashlib.sha256(text).hexdigest()}".encode()


def _folder() -> Path | None:
    named = os.environ.get(CACHE_VARIABLE)
    if named == "off":
        return None
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cutecourse"
    except RuntimeError:  # a user without a home
        return None


def _described(thing: Any) -> Any:
    """Describe a function or one of its arguments in words that are the same in each process."""
    if isinstance(thing, KernelFunction):
        arguments = thing.arguments
        given = None if arguments is None else tuple(_described(one) for one in arguments)
        return (thing.name, given, *((file.name, file.module, file.text) for file in _files(thing.file)))
    if isinstance(thing, tuple):
        return tuple(_described(one) for one in thing)
    if isinstance(thing, DType):
        return thing.name
    if thing is None or isinstance(thing, int | float | str):
        return thing
    raise _NoKeyError


def _files(file: KernelFile, seen: frozenset[str] = frozenset()) -> Iterator[KernelFile]:
    """A kernel's file and the kernels' files that it imports; a file that imports more of ours has no key.

    Nor has a file that was changed after this process began: the process may have imported it before.
    """
    if "print(" in file.text:
        raise _NoKeyError
    if file.module is not None:
        path = Path(file.filename)
        if path.stat().st_mtime >= _STARTED or path.read_text(encoding="utf-8") != file.text:
            raise _NoKeyError
    yield file
    imports = [_IMPORTED.fullmatch(line) for line in _IMPORT.findall(file.text)]
    if None in imports:
        raise _NoKeyError
    for name in sorted({found[1] for found in imports if found} - seen):
        yield from _files(kernel_file(name), seen | {name})


@cache
def _versions() -> tuple[str, ...]:
    """The versions of Python and of the compilers, and the modules here that call them."""
    found = [f"{sys.version_info[:2]}"]
    for name in _COMPILERS:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} missing")
    here = Path(__file__).parent
    return (
        *found,
        *((here / f"{name}.py").read_text(encoding="utf-8") for name in _CALLERS),
    )


def _environment() -> list[tuple[str, str]]:
    """The variables by which the compilers are told what to do."""
    return sorted(
        item
        for item in os.environ.items()
        if item[0].startswith(("CUDA_HOME", "CUDA_PATH", "CUTE_DSL_", "NUMBA_"))
    )
