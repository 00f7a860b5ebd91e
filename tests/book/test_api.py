"""The reference of the library's names: every public name is on the page, with its docstring."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import cutecourse
from support.pages import parse
from tools import api_reference

NO_LIBRARY = {"cli", "page", "palette", "playground", "errors"}
"""The command, what runs in a built page, and what all other modules share."""


def test_modules__are_all_public_packages_and_modules() -> None:
    there = {module.name for module in pkgutil.iter_modules(cutecourse.__path__)}
    assert {name.split(".")[0] for name in api_reference.MODULES} == there - NO_LIBRARY


@pytest.mark.parametrize("name", api_reference.MODULES)
def test_entries__are_what_the_module_makes_public(name: str) -> None:
    module = importlib.import_module(f"cutecourse.{name}")
    entries = api_reference.entries(name)
    assert {entry.name for entry in entries} == set(module.__all__)
    for entry in entries:
        assert entry.doc or entry.kind == "value", f"cutecourse.{name}.{entry.name} has no docstring"


def test_entry__shows_how_a_function_is_called_and_what_a_class_has() -> None:
    entries = {entry.name: entry for entry in api_reference.entries("testing")}
    assert entries["check"].signature.startswith("check(ptx, *, grid, block=None, args=()")
    assert entries["check"].doc.startswith("Run a kernel on the emulator under several seeds")
    assert entries["KernelFailure"].kind == "error"
    assert {member.name for member in entries["KernelFailure"].members} == {"hazard"}


def test_page__has_every_public_name_with_its_docstring(book: Path) -> None:
    page = parse(book / "api.html")
    for name in api_reference.MODULES:
        for entry in api_reference.entries(name):
            [found] = page.find_all("details", id=f"cutecourse.{name}.{entry.name}")
            assert found.summary.code.get_text() == entry.name
            for line in filter(None, entry.doc.split("\n")[1:]):
                assert line in found.get_text()
