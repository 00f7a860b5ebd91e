"""The library's public names with their signatures and docstrings, for the page `book/api.md`.

A module's public names are those in its `__all__`. A module is public if `MODULES` lists it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

MODULES = (
    "testing",
    "emulator",
    "emulator.errors",
    "ptx",
    "analysis",
    "memory_report",
    "protocols",
    "museum",
    "trace",
    "dtypes",
    "layout",
    "atoms",
    "tma",
    "umma",
    "descriptors",
    "banks",
    "block_scales",
    "memory_access",
    "runtime",
    "kernels",
    "checks",
    "widgets",
    "display",
    "pictures",
)
"""Below `cutecourse`, in the order of the page: first what a kernel's author needs."""


@dataclass(frozen=True)
class Entry:
    """A public name of a module: what it is, how it is called, and its docstring."""

    name: str
    kind: str
    """"class", "error", "function", "module" or "value"."""
    signature: str
    doc: str
    members: tuple[Entry, ...] = ()
    """Of a class, its public methods and properties."""


def module(name: str) -> ModuleType:
    """The public module `cutecourse.NAME`."""
    return importlib.import_module(f"cutecourse.{name}")


def entries(name: str) -> list[Entry]:
    """The public names of a module, in alphabetical order."""
    held = module(name)
    return [_entry(public, getattr(held, public)) for public in sorted(held.__all__, key=str.lower)]


def _entry(name: str, thing: Any) -> Entry:
    doc = inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        kind = "error" if issubclass(thing, Exception) else "class"
        if dataclasses.is_dataclass(thing) and thing.__doc__ and thing.__doc__.startswith(f"{name}("):
            doc = ""  # what dataclasses write where there is none
        return Entry(name, kind, name + _call(thing), doc, tuple(_members(thing)))
    if inspect.isfunction(thing):
        return Entry(name, "function", name + _call(thing), doc)
    if inspect.ismodule(thing):
        return Entry(name, "module", thing.__name__, doc)
    return Entry(name, "value", f"{name}: {type(thing).__name__}", "" if doc == type(thing).__doc__ else doc)


def _members(thing: type) -> Iterator[Entry]:
    for name, held in vars(thing).items():
        if name.startswith("_"):
            continue
        if isinstance(held, classmethod | staticmethod):
            held = held.__func__
        if isinstance(held, property | cached_property):
            yield Entry(name, "value", name, inspect.getdoc(held) or "")
        elif inspect.isfunction(held):
            yield Entry(name, "function", name + _call(held), inspect.getdoc(held) or "")


def _call(thing: Any) -> str:
    """How a thing is called, without types, which the docstring explains; empty where Python cannot say."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    try:
        return str(inspect.Signature(bare))
    except ValueError:
        return "(...)"
