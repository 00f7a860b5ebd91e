"""The kept verdicts on every order: their rows, and a part of them computed again."""

from __future__ import annotations

import json

import pytest

from benchmarks import every_order, luck
from cutecourse.emulator import prove

KEPT = json.loads(every_order.RESULT.read_text(encoding="utf-8"))
RIGHT = [row for row in KEPT["rows"] if not row["fault"]]
FAULTY = [row for row in KEPT["rows"] if row["fault"]]


def test_table__has_every_kernel_and_every_fault() -> None:
    assert [row["module"] for row in RIGHT] == list(every_order.right_kernels())
    known = [(module, fault.name) for module, fault in luck.runnable()]
    assert [(row["module"], row["fault"]) for row in FAULTY] == known


def test_right_kernels__are_proved_unless_they_take_tiles_as_they_come() -> None:
    """The runs of a kernel that is proved by argument have the same phases under every seed."""
    for row in RIGHT:
        assert row["verdict"] == "proved" or row["module"] in {"umma_scheduled", "attention_last"}, row
        assert row.get("seeds alike", every_order.SEEDS) == every_order.SEEDS, row


def test_faults__are_found_unless_a_warning_tells_them_in_every_order() -> None:
    for row in FAULTY:
        assert row["verdict"] == "counterexample" or row["notes"], row


@pytest.mark.parametrize("module", ["tma_multicast_pipeline", "umma_persistent"])
def test_table__is_what_a_kernel_shows_now(module: str) -> None:
    row = next(row for row in RIGHT if row["module"] == module)
    launched = every_order.launch_with(module, luck.launch_of(module))
    proof = prove(**launched)
    assert (proof.verdict, proof.events, proof.phases) == (row["verdict"], row["events"], row["phases"])
    assert every_order.phases(launched, 1) == every_order.phases(launched, 2)


def test_table__shows_the_kernels_with_barriers() -> None:
    row = {
        "module": "a",
        "fault": "",
        "verdict": "proved",
        "events": 4,
        "phases": 2,
        "seconds": 0.5,
        "ctas": 1,
    }
    lines = every_order.table([row, {**row, "phases": 0}, {**row, "fault": "x"}]).splitlines()
    assert [line.split() for line in lines[1:]] == [["a", "1", "4", "2", "0.50", "proved"]]
