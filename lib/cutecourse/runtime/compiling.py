"""The one way to the compilers: a launch specification in, PTX out, each kernel once per process and target.

Where a kernel's compiler is not installed, its twin takes its place: PTX that was written by hand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from cutecourse.kernels.files import KernelFunction
from cutecourse.kernels.spec import LaunchSpec, SpecError, compute_capability_of
from cutecourse.kernels.twinning import twin
from cutecourse.ptx.sources import without_locations
from cutecourse.runtime.compile_cutedsl import compile_cutedsl
from cutecourse.runtime.compile_numba import compile_numba
from cutecourse.runtime.compiled import Compiled, PtxText, only_entry
from cutecourse.runtime.errors import CompileError, NoCompilerError
from cutecourse.runtime.kept import keep, kept, key_of

__all__ = ["compile", "compile_for", "specification"]

_TARGET_LINE = re.compile(r"^\.target\s+([\w]+)", re.MULTILINE)
_UNSAVED = re.compile(r'^(\s*\.file\s+\d+\s+)"<.*>"', re.MULTILINE)
"""A file that is a text and not on disk."""
_cache: dict[tuple[Any, ...], Compiled] = {}


def specification(kernel: LaunchSpec | ModuleType) -> LaunchSpec:
    """The launch specification of a kernel module (its `LAUNCH`), or the specification itself."""
    spec = kernel if isinstance(kernel, LaunchSpec) else getattr(kernel, "LAUNCH", None)
    if not isinstance(spec, LaunchSpec):
        raise CompileError(
            f"{kernel!r} is no kernel: pass a LaunchSpec, or a module that has one called LAUNCH."
        )
    return spec


def compile(  # noqa: A001
    kernel: LaunchSpec | ModuleType,
    *,
    target: str | None = None,
    line_info: bool = False,
    by_hand: bool = True,
) -> Compiled:
    """Compile a kernel to PTX for its own target, or for another; needs no GPU.

    The text of a CuTe DSL kernel knows the lines of the source (`SourcedText`), and the emulator's reports
    name them. With `line_info` they stand in the text, as `.loc` lines for other tools. numba-cuda writes
    lines for `line_info` alone, because they change its code. A text written by hand stays as it is.
    A kernel is compiled once per process and target; redefining it in a notebook's cell compiles it anew.
    The text of a kernel that is a file is kept on disk for later processes (`runtime.kept`).
    If the compiler is not installed, the result is the kernel's twin, and its `missing` names the compiler.
    With `by_hand` false, no twin takes a compiler's place: for a question about what the compiler writes.
    Errors: CompileError if a compiler refuses the kernel, NoCompilerError if it is missing and the kernel has
            no twin.
    """
    spec = specification(kernel)
    asked = target or spec.target
    compute_capability_of(asked)
    key = (
        spec.language,
        spec.name,
        spec.params,
        spec.kernel,
        spec.host,
        spec.ptx,
        spec.entry,
        asked,
        line_info,
    )
    done = _cache.get(key)
    if done is None or (done.missing is not None and not by_hand):
        start = time.perf_counter()
        missing = None
        try:
            text = _compiled_text(spec, asked, line_info)
        except NoCompilerError as error:
            if not by_hand:
                raise
            text, missing = PtxText(_twin_text(spec, asked, error)), error.compiler
        seconds = time.perf_counter() - start
        done = Compiled(text, spec.entry or only_entry(spec.name, text), asked, seconds, missing)
        _cache[key] = done
    return done


def compile_for(spec: LaunchSpec, extents: Mapping[str, tuple[int, ...]]) -> Compiled:
    """Compile a kernel for one launch. If its twin takes its place, the twin is for arrays of these extents.

    A compiler's text takes the open extents of a specification as parameters. A twin has them as numbers.
    Errors: as `compile`.
    """
    try:
        return compile(spec)
    except NoCompilerError:
        closed = spec.with_extents(extents)
        if closed == spec:
            raise
        return compile(closed)


def _compiled_text(spec: LaunchSpec, target: str, line_info: bool) -> PtxText:
    """The text of the kernel's compiler; that of the CuTe DSL always comes with the lines of the source."""
    if spec.language != "cutedsl":
        return PtxText(_text(spec, target, line_info))
    text = _text(spec, target, True)
    if isinstance(spec.host, KernelFunction) and spec.host.file.module is None:
        # In the process that compiled the kept text, the file may have had another name.
        name = f'"{spec.host.file.filename}"'
        text = _UNSAVED.sub(lambda found: found[1] + name, text)
    return PtxText(text) if line_info else PtxText(*without_locations(text))


def _text(spec: LaunchSpec, target: str, line_info: bool) -> str:
    """The PTX that was kept on disk, or what the compiler writes now."""
    key = None if spec.language == "ptx" else key_of(spec, target, line_info)
    text = kept(key)
    if text is None:
        text = _COMPILERS[spec.language](spec, target, line_info)
        keep(key, text)
    return text


def _twin_text(spec: LaunchSpec, target: str, missing: NoCompilerError) -> str:
    """The text of the kernel's twin. Errors: NoCompilerError, for a kernel without one."""
    if not isinstance(spec.kernel, KernelFunction):
        raise missing
    try:
        return _retarget(twin(spec), target, False)
    except SpecError as error:
        raise NoCompilerError(f"{missing} {error}", missing.compiler) from missing


def _retarget(spec: LaunchSpec, target: str, _line_info: bool) -> str:
    """PTX written by hand is its own compile; another target changes the one line that names it."""
    text = spec.ptx or ""
    written = _TARGET_LINE.search(text)
    if written is None:
        raise CompileError(f"{spec.name}: the PTX text has no .target line.")
    if target == spec.target:
        if written[1] != target:
            raise CompileError(
                f"{spec.name}: the PTX text says .target {written[1]}, its specification {target}."
            )
        return text
    return text[: written.start(1)] + target + text[written.end(1) :]


_COMPILERS: dict[str, Callable[[LaunchSpec, str, bool], str]] = {
    "cutedsl": compile_cutedsl,
    "numba": compile_numba,
    "ptx": _retarget,
}
