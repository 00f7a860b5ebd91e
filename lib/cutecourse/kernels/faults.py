"""Kernels with one thing wrong: the kernel's own text, changed in one place and compiled as it stands.

So a page can show everything that differs between a right kernel and a wrong one. Making the text needs no
compiler; compiling it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, ModuleType

from cutecourse.kernels.files import KernelFile
from cutecourse.kernels.spec import LaunchSpec, SpecError

__all__ = ["Fault", "by_name", "changed_module", "changed_text", "with_fault"]


@dataclass(frozen=True)
class Fault:
    """One thing done wrong: the line as it should be, the line as it is, and what the line is about."""

    name: str
    right: str
    wrong: str
    about: str


def by_name(module: ModuleType, faults: Iterable[Fault]) -> Mapping[str, Fault]:
    """The faults by their names, each of which changes one place of the kernel's text.

    Errors: SpecError for a fault whose text is not in the kernel's file exactly once.
    """
    file = _file(module)
    faults = tuple(faults)
    for fault in faults:
        if file.text.count(fault.right) != 1:
            raise SpecError(
                f"the fault {fault.name!r} changes a text that {file.name} has "
                f"{file.text.count(fault.right)} times; it must be there once."
            )
    return MappingProxyType({fault.name: fault for fault in faults})


@cache
def with_fault(module: ModuleType, fault: Fault) -> LaunchSpec:
    """The launch of a kernel's module with a fault put in."""
    spec = changed_module(module, fault.name, ((fault.right, fault.wrong),)).LAUNCH
    assert isinstance(spec, LaunchSpec)
    return spec


def changed_text(module: ModuleType, changes: Iterable[tuple[str, str]]) -> str:
    """The text of a kernel's file with each `(right, wrong)` put in, one after the other.

    Errors: SpecError for a text that is not there exactly once.
    """
    file = _file(module)
    text = file.text
    for right, wrong in changes:
        if text.count(right) != 1:
            raise SpecError(f"{file.name} has {right!r} {text.count(right)} times; it must be there once.")
        text = text.replace(right, wrong)
    return text


def changed_module(module: ModuleType, suffix: str, changes: Iterable[tuple[str, str]]) -> ModuleType:
    """The kernel's module with `changed_text` for its file; the kernel's name gets the suffix.

    Errors: SpecError as `changed_text`.
    """
    launch = module.LAUNCH
    assert isinstance(launch, LaunchSpec)
    name = f"{launch.name}_{suffix}"
    text = changed_text(module, changes)
    changed = ModuleType(name)
    vars(changed).update(FILE=KernelFile(name, text), LAUNCH=launch.with_text(text, name))
    return changed


def _file(module: ModuleType) -> KernelFile:
    """The file of a kernel's module. Errors: SpecError for a module that has none."""
    file = getattr(module, "FILE", None)
    if not isinstance(file, KernelFile):
        raise SpecError(f"{module.__name__} has no kernel file; a fault is put into one.")
    return file
