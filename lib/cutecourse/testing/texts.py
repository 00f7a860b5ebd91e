"""The PTX text of a kernel, in the forms in which a test has one."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.files import read_ptx
from cutecourse.ptx import CheckedModule, read_module

__all__ = ["module_of"]


def module_of(ptx: Any) -> CheckedModule:
    """Read a kernel's module from a PTX text, a file, a compiled kernel, or the module itself.

    A file is a path, or a string that ends in `.ptx`. A compiled kernel is an object with `asm["ptx"]`, as
    Triton's, or with `inspect_asm()`, as numba-cuda's that was compiled for one signature.

    Errors: InputError for anything else and for a file that cannot be read; PtxError for a malformed text.
    """
    if isinstance(ptx, CheckedModule):
        return ptx
    return read_module(_text_of(ptx))


def _text_of(ptx: Any) -> str:
    if isinstance(ptx, PathLike) or (isinstance(ptx, str) and ptx.endswith(".ptx") and "\n" not in ptx):
        return read_ptx(ptx)
    if isinstance(ptx, str):
        return ptx
    texts = getattr(ptx, "asm", None)
    if isinstance(texts, Mapping) and isinstance(texts.get("ptx"), str):
        return str(texts["ptx"])
    if callable(inspect := getattr(ptx, "inspect_asm", None)):
        found = inspect()
        held = list(found.values()) if isinstance(found, Mapping) else [found]
        if len(held) == 1 and isinstance(held[0], str):
            return held[0]
        raise InputError(
            f"{_kind(ptx)} was compiled for {len(held)} signatures. Give the PTX of one of them:"
            " kernel.inspect_asm(signature)"
        )
    raise InputError(
        f"{_kind(ptx)} is no kernel: give a PTX text, the path of a file that ends in .ptx, or a compiled"
        ' kernel with asm["ptx"]'
    )


def _kind(thing: Any) -> str:
    return f"an object of type {type(thing).__name__}"
