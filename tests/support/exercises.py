"""Run an exercise notebook's cells as one Python file and collect what its checks answered."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from unittest import mock

from nbformat import NotebookNode

from cutecourse import checks
from cutecourse.checks import CheckResult, check, collecting


def run_cells(notebook: NotebookNode, folder: Path, *, only: str | None = None) -> list[CheckResult]:
    """Run the code cells and return the results of the checks.

    With `only`, run the cells up to the first that checks this exercise, and of their checks this one alone.
    The cells go into a file, because the kernels' compilers read their source from where it stands.
    """
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if only is not None:
        last = min(index for index, text in enumerate(cells) if f'check("{only}"' in text)
        cells = cells[: last + 1]
    path = folder / "exercise_cells.py"
    path.write_text("\n\n".join(cells) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"exercise_cells_{abs(hash(str(path)))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    def checked(identifier: str, answer: object) -> CheckResult | None:
        return check(identifier, answer) if only in (None, identifier) else None

    with collecting() as results, mock.patch.object(checks, "check", checked):
        spec.loader.exec_module(module)
    return results
