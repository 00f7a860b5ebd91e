"""The notebooks run where no kernel compiler is installed, as on macOS and Windows: the twins run there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import recordings
from tools.execute import execute
from tools.notebooks import read_source
from tools.paths import CHAPTERS, NOTEBOOKS

# Python imports this file when it starts, and so does the notebook's kernel.
HIDES_THE_COMPILERS = """
import sys


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cutlass", "numba", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("name", ["08_clusters_and_multicast", "11b_umma_descriptors"])
def test_notebook__runs_without_compilers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDES_THE_COMPILERS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUTECOURSE_CACHE", "off")
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    source = CHAPTERS / f"{name}.md"
    notebook = read_source(source)
    execute(notebook, where=source, cwd=NOTEBOOKS)  # fails at the first cell that raises
    records = [
        text
        for cell in recordings.code_cells(notebook)
        if recordings.recorded_kernel(cell)
        for text in recordings.texts(cell)
    ]
    assert any("PTX written by hand, because" in text for text in records)
