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

__all__ = ["Fault", "by_name", "with_fault"]


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
    """The launch of a kernel's module with a fault put in.

    The CuTe DSL reads a kernel's source again, as Python does for a traceback, so the changed text is kept
    where both look for it.
    """
    kernel = module.__name__.rpartition(".")[2]
    name = f"{kernel}_{fault.name}"
    text = inspect.getsource(module).replace(fault.right, fault.wrong).replace(kernel, name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    changed = ModuleType(name)
    exec(compile(text, filename, "exec"), vars(changed))
    spec = changed.LAUNCH
    assert isinstance(spec, LaunchSpec)
    return spec
