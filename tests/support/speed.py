"""The emulator with and without what only makes it faster, to show that both compute the same."""

from __future__ import annotations

import importlib

import pytest

from cutecourse.emulator.core import scheduler
from cutecourse.emulator.core.program import BasicBlock
from cutecourse.emulator.instructions.bulk import pieces
from cutecourse.emulator.instructions.tcgen05 import completion, linking, mma

__all__ = ["at_once", "one_by_one"]


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each cluster and each instruction by itself, and let each operation complete by itself."""
    monkeypatch.setattr(BasicBlock, "join_runs", lambda block: None)
    launch = importlib.import_module("cutecourse.emulator.launch")
    monkeypatch.setattr(launch, "_decoded", launch._decoded.__wrapped__)
    monkeypatch.setattr(scheduler, "_COHORT_CLUSTERS", 1)
    monkeypatch.setattr(linking, "_EACH_FIRST", 1 << 60)
    monkeypatch.setattr(pieces, "_CUT_FIRST", 1 << 60)
    monkeypatch.setattr(mma, "announce_all", lambda plan, bundle, lanes: False)
    monkeypatch.setattr(completion, "sums_are_exact", lambda a, b, mma=0: False)


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link operations and land copies as a whole from a launch's first one on."""
    monkeypatch.setattr(linking, "_EACH_FIRST", 0)
    monkeypatch.setattr(pieces, "_CUT_FIRST", 0)
