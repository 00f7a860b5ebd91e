"""The sweep without a browser runs cells as a browser does: without compilers and without processes."""

from __future__ import annotations

import pytest

from tools import native_sweep
from tools.native_sweep import answers, sweep_page
from tools.notebooks import code_cells
from tools.pages import read_source
from tools.paths import BOOK

IMPORTS = "import cutlass\nimport numba\nprint(1)"
PROCESS = "import subprocess\nsubprocess.run(['true'])"
KERNEL = """
import numpy as np
from cutecourse.kernels import stamp_layout
from cutecourse.runtime import run
out, shape, stride = np.zeros(7, np.int32), np.array([4], np.int32), np.array([2], np.int32)
ran = run(stamp_layout, out=out, shape=shape, stride=stride)
print(ran.record.device, ran.record.missing)
"""


def test_answers__are_those_of_a_machine_without_the_packages_that_no_browser_has() -> None:
    imports, process, kernel = answers([IMPORTS, PROCESS, KERNEL])
    assert (imports["left_out"], imports["outputs"][0]["text"]) == (["cutlass", "numba"], "1\n")
    assert process["missing"] == "a second process"
    assert kernel["outputs"][0]["text"] == "the emulator, in this browser numba-cuda\n"
    assert kernel["by_hand"]


def test_answers__are_those_of_this_machine_with_its_compilers() -> None:
    imports, process, kernel = answers([IMPORTS, PROCESS, KERNEL], compilers=True)
    assert (imports["left_out"], process["missing"], kernel["by_hand"]) == ([], "", False)
    assert kernel["outputs"][0]["text"].endswith("None\n")


def test_sweep_page__shows_the_lines_of_a_cell_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    source = BOOK / "chapters" / "06a_tma_descriptor.md"
    cells = [cell.source.strip() for cell in code_cells(read_source(source))]
    made = native_sweep.answers(cells)
    assert sweep_page(source, beside=False)[1] == []
    number = next(place for place, answer in enumerate(made) if answer["outputs"] and not answer["missing"])
    made[number]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "another line\n"}]
    made[number]["digest"] = ""
    monkeypatch.setattr(native_sweep, "answers", lambda texts: made)
    counts, [report] = sweep_page(source, beside=False)
    assert (counts["other"], counts["equal"]) == (1, len(cells) - 1 - counts["record"])
    assert report.startswith(f"cell {number} other: ")
    assert "+another line" in report
