"""The PTX text of a kernel, in the forms in which a test has one."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.files import read_ptx
from cutecourse.ptx import CheckedModule, read_module

__all__ = ["module_of", "ptx_of"]


def module_of(ptx: Any) -> CheckedModule:
    """Read a kernel's module from a PTX text, a file, a compiled kernel, or the module itself.

    A file is a path, or a string that ends in `.ptx`. A compiled kernel is an object with `asm["ptx"]`, as
    Triton's, with `inspect_asm()`, as numba-cuda's that was compiled for one signature, or with `__ptx__`, as
    the CuTe DSL's that was compiled with `cute.KeepPTX(True)`.

    Errors: InputError for anything else and for a file that cannot be read; PtxError for a malformed text.
    """
    if isinstance(ptx, CheckedModule):
        return ptx
    return read_module(ptx_of(ptx))


def ptx_of(kernel: Any, signature: Any = None) -> str:
    """The PTX text in a path, a text or a compiled kernel, as `module_of` takes them.

    signature  which one, of a kernel that numba-cuda compiled for several.

    Errors: InputError.
    """
    if isinstance(kernel, PathLike) or (
        isinstance(kernel, str) and kernel.endswith(".ptx") and "\n" not in kernel
    ):
        return read_ptx(kernel)
    if isinstance(kernel, str):
        return kernel
    texts = getattr(kernel, "asm", None)
    if isinstance(texts, Mapping) and isinstance(texts.get("ptx"), str):
        return str(texts["ptx"])
    if hasattr(kernel, "__ptx__"):
        # Where the compiler cannot write its file, the DSL leaves the file's name here.
        if not (isinstance(kernel.__ptx__, str) and ".version" in kernel.__ptx__):
            raise InputError(
                f"{_kind(kernel)} holds no PTX: compile it with cute.compile[cute.KeepPTX(True), ...](...);"
                " cute.GenerateLineInfo(True) adds its source lines to reports"
            )
        return kernel.__ptx__
    if callable(inspect := getattr(kernel, "inspect_asm", None)):
        found = inspect() if signature is None else inspect(signature)
        held = list(found.values()) if isinstance(found, Mapping) else [found]
        if len(held) == 1 and isinstance(held[0], str):
            return held[0]
        known = ", ".join(map(str, found)) if isinstance(found, Mapping) and found else "none"
        raise InputError(
            f"{_kind(kernel)} was compiled for {len(held)} signatures: {known}. Give the PTX of one of them:"
            " kernel.inspect_asm(signature)"
        )
    raise InputError(
        f"{_kind(kernel)} is no kernel: give a PTX text, the path of a file that ends in .ptx, or a compiled"
        ' kernel with asm["ptx"] or __ptx__'
    )


def _kind(thing: Any) -> str:
    return f"an object of type {type(thing).__name__}"
