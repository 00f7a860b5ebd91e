"""The notebooks give their recorded outputs where no kernel compiler is installed: the twins run there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cutecourse.page.outputs import canonical
from support import recordings
from tools.execute import execute
from tools.notebooks import code_cells, tags
from tools.pages import read_source
from tools.paths import CHAPTERS, NOTEBOOKS
from tools.recordings import read_recording

# Python imports this file when it starts, and so does the notebook's kernel.
HIDES_THE_COMPILERS = """
import sys


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cutlass", "numba", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("name", ["11b_umma_descriptors", "13a_two_sm_umma"])
def test_notebook__gives_its_recorded_outputs_without_compilers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDES_THE_COMPILERS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUTECOURSE_CACHE", "off")
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    source = CHAPTERS / f"{name}.md"
    notebook = read_source(source)
    execute(notebook, where=source, cwd=NOTEBOOKS)  # fails at the first cell that raises
    recorded = code_cells(read_recording(source))
    for number, (cell, kept) in enumerate(zip(code_cells(notebook), recorded, strict=True)):
        if "machine-dependent" not in tags(cell):
            assert canonical(cell.outputs) == canonical(kept.outputs), f"code cell {number}"
    records = [
        text
        for cell in code_cells(notebook)
        if recordings.recorded_kernel(cell)
        for text in recordings.texts(cell)
    ]
    assert any("PTX written by hand, because" in text for text in records)
