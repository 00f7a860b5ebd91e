"""Run an exercise notebook's cells as one Python file and collect what its checks answered."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from nbformat import NotebookNode

from cutecourse.checks import CheckResult, collecting


def run_cells(notebook: NotebookNode, folder: Path, *, until: str | None = None) -> list[CheckResult]:
    """Run the code cells, up to the first that checks exercise `until`, and return the results of the checks.

    The cells go into a file, because the kernels' compilers read their source from where it stands.
    """
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if until is not None:
        last = min(index for index, text in enumerate(cells) if f'check("{until}"' in text)
        cells = cells[: last + 1]
    path = folder / "exercise_cells.py"
    path.write_text("\n\n".join(cells) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"exercise_cells_{abs(hash(str(path)))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with collecting() as results:
        spec.loader.exec_module(module)
    return results
