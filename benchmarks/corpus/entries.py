"""The list of kernels: each entry names a kernel in a published package and makes its problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.corpus.problems import Draw, Problem

__all__ = ["ENTRIES", "Entry", "cuda_kernels", "dsl_kernels", "triton_kernels"]

Make = Callable[[Draw], Problem]


@dataclass(frozen=True)
class Entry:
    """A kernel and how it is run.

    name       unique in the list, such as "liger/rms_norm_forward".
    package    the source, a key of PACKAGES.
    kernel     module and function, or the file, in the package.
    compiler   "triton", "dsl" or "nvcc".
    on         the architectures.
    make       a function from a seed's random inputs to a problem.
    options    for the compiler.
    findings   hazards that the kernel really has, each with a sentence: they are warnings here.
    why        why the kernel is not right on some architecture: the fault of another than the emulator.
    """

    name: str
    package: str
    kernel: str
    compiler: str
    on: tuple[str, ...]
    make: Make
    options: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)
    why: str = ""


ENTRIES: dict[str, Entry] = {}


def add(entry: Entry) -> None:
    """Put an entry on the list. Two of one name are a mistake."""
    assert entry.name not in ENTRIES, entry.name
    ENTRIES[entry.name] = entry


def triton_kernels(package: str) -> Callable[..., Callable[[Make], Make]]:
    """A decorator for the problems of a package's Triton kernels.

    kernel   "module:function" in the package.
    on       architectures, "80", "90a" or "100a".
    warps and other keywords such as num_stages are options of Triton's compiler.
    findings and why as in Entry.
    """

    def named(
        kernel: str,
        on: Sequence[str] = ("80", "100a"),
        *,
        warps: int = 4,
        findings: dict[str, str] | None = None,
        why: str = "",
        **options: Any,
    ) -> Callable[[Make], Make]:
        def entered(make: Make) -> Make:
            name, where = f"{package}/{make.__name__}", tuple(f"sm_{arch}" for arch in on)
            chosen = {"num_warps": warps, **options}
            add(Entry(name, package, kernel, "triton", where, make, chosen, findings or {}, why))
            return make

        return entered

    return named


def dsl_kernels(package: str, **common: Any) -> Callable[..., Callable[[Make], Make]]:
    """A decorator for the problems of a package's kernels of the CuTe DSL.

    function   "module:function" in the package, a function that compiles without a GPU, or that is compiled.
    arguments  its arguments, as `dsl_worker.py` takes them; more keywords are what a request may have there.
    on         architectures, "90a" or "100a".
    findings   as in Entry.
    """

    def named(
        function: str,
        arguments: Sequence[Any],
        on: Sequence[str] = ("90a",),
        *,
        findings: dict[str, str] | None = None,
        **more: Any,
    ) -> Callable[[Make], Make]:
        def entered(make: Make) -> Make:
            name, where = f"{package}/{make.__name__}", tuple(f"sm_{arch}" for arch in on)
            options = {"arguments": list(arguments), **common, **more}
            add(Entry(name, package, function, "dsl", where, make, options, findings or {}))
            return make

        return entered

    return named


def cuda_kernels(package: str, include: Sequence[str]) -> Callable[..., Callable[[Make], Make]]:
    """A decorator for the problems of a package's kernels in CUDA C++.

    header     the package's file that has the kernel.
    instance   the kernel with its template arguments, as in `copy<float, 4>`.
    before     statements of ours above the instance, such as a function that a template needs.
    entry      the kernel's name in the PTX, where the instance's name fits several.
    on         architectures; include names folders of the package.
    findings   as in Entry.
    """

    def named(
        header: str,
        instance: str,
        on: Sequence[str] = ("80", "90a"),
        *,
        before: str = "",
        entry: str = "",
        findings: dict[str, str] | None = None,
    ) -> Callable[[Make], Make]:
        def entered(make: Make) -> Make:
            name, where = f"{package}/{make.__name__}", tuple(f"sm_{arch}" for arch in on)
            text = f"#include <{header}>\n{before}\nauto *instance = &{instance};\n"
            called = instance.partition("<")[0].rpartition("::")[2]
            options = {"text": text, "include": list(include), "entry": entry or called}
            kernel = f"{header}:{instance}"
            add(Entry(name, package, kernel, "nvcc", where, make, options, findings or {}))
            return make

        return entered

    return named
