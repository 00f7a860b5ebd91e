"""A kernel file with one thing wrong: the file's own text, changed in one place, and compiled as it stands.

So the difference between a right kernel and a wrong one is all there is, and a page can show it.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType, ModuleType

from cutecourse.kernels.spec import LaunchSpec, SpecError
from cutecourse.kernels.tma_broken import Fault

__all__ = ["Fault", "by_name", "changed_module", "changed_text", "with_fault"]


def by_name(module: ModuleType, faults: Iterable[Fault]) -> Mapping[str, Fault]:
    """The faults by their names, each of which changes one place of the module's text.

    Errors: SpecError for a fault whose text is not in the module exactly once.
    """
    text = inspect.getsource(module)
    faults = tuple(faults)
    for fault in faults:
        if text.count(fault.right) != 1:
            raise SpecError(
                f"the fault {fault.name!r} changes a text that {module.__name__} has "
                f"{text.count(fault.right)} times; it must be there once."
            )
    return MappingProxyType({fault.name: fault for fault in faults})


@cache
def with_fault(module: ModuleType, fault: Fault) -> LaunchSpec:
    """The launch of a kernel's module with a fault put in."""
    spec = changed_module(module, fault.name, ((fault.right, fault.wrong),)).LAUNCH
    assert isinstance(spec, LaunchSpec)
    return spec


def changed_text(module: ModuleType, changes: Iterable[tuple[str, str]]) -> str:
    """The text of a kernel's module with each `(right, wrong)` put in, one after the other.

    Errors: SpecError for a text that is not there exactly once.
    """
    text = inspect.getsource(module)
    for right, wrong in changes:
        if text.count(right) != 1:
            raise SpecError(
                f"{module.__name__} has {right!r} {text.count(right)} times; it must be there once."
            )
        text = text.replace(right, wrong)
    return text


def changed_module(module: ModuleType, suffix: str, changes: Iterable[tuple[str, str]]) -> ModuleType:
    """The module of `changed_text`; its kernel's name gets the suffix.

    The CuTe DSL reads a kernel's source again, as Python does for a traceback, so the changed text is kept
    where both look for it.
    Errors: SpecError as `changed_text`.
    """
    kernel = module.__name__.rpartition(".")[2]
    name = f"{kernel}_{suffix}"
    text = changed_text(module, changes).replace(kernel, name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    changed = ModuleType(name)
    exec(compile(text, filename, "exec"), vars(changed))
    return changed
