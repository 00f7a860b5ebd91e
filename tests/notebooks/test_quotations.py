"""Which cells only quote the tree, and what is put in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from cutecourse.display import difference, excerpt, side_by_side, source
from cutecourse.kernels import micro_gemm, twin, umma_tma, umma_two_sm
from tools.execute import execute
from tools.notebooks import code_cells
from tools.quotations import outputs_of, quotations
from tools.recordings import compared, outputs_differ

IMPORTS = """\
import re

import numpy as np
from cutecourse.display import Source, difference, excerpt, side_by_side, source
from cutecourse.kernels import micro_gemm, twin, umma_tma, umma_two_sm
from cutecourse.runtime import run
"""


@pytest.mark.parametrize(
    "cell",
    [
        "source(micro_gemm)",
        "print(excerpt(source(twin(micro_gemm)), 'mma.sync', ';'))",
        "difference(umma_tma, umma_two_sm, of='kernel')",
        "side_by_side(dsl=excerpt(source(micro_gemm), 'partition_C'), ptx=re.sub('%c', '%d', text))",
        "shown = excerpt(text, 'ret')\nprint(shown)\nSource(shown)",
        "for word in ('mma.sync', 'ret'):\n    print(excerpt(text, word))",
    ],
)
def test_quotation__shows_the_trees_own_text(cell: str) -> None:
    assert 2 in quotations([IMPORTS, "text = str(source(twin(micro_gemm)))", cell])


@pytest.mark.parametrize(
    "cell",
    [
        "6 * 7",
        "micro_gemm.TILE",
        "print(len(source(micro_gemm).text))",
        "print(micro_gemm.TILE)\nsource(micro_gemm)",
        "outcome = run(micro_gemm)\nsource(micro_gemm)",
        "print(excerpt(outcome.ptx, 'ret'))",
        "print(excerpt(text, 'ret'))",
        "source(micro_gemm)\n6 * 7",
        "[excerpt(source(micro_gemm), word) for word in ('ret',)]",
        "local(source(micro_gemm))",
    ],
)
def test_quotation__is_no_cell_that_shows_or_does_anything_else(cell: str) -> None:
    above = "text = run(micro_gemm).ptx\noutcome = run(micro_gemm)\ndef local(thing): return thing"
    assert 2 not in quotations([IMPORTS, above, cell])


def test_outputs__are_those_that_jupyter_shows(tmp_path: Path) -> None:
    cells = [
        IMPORTS,
        "source(micro_gemm)",
        "difference(umma_tma, umma_two_sm, of='kernel')",
        "text = source(twin(micro_gemm))\nprint(excerpt(text, 'mma.sync'))\nside_by_side(ptx=text)",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    execute(notebook, where=tmp_path / "page.md", cwd=tmp_path)
    found = quotations(cells)
    assert sorted(found) == [1, 2, 3]
    for number, program in found.items():
        assert compared(outputs_of(program)) == compared(notebook.cells[number].outputs)
    assert outputs_differ(code_cells(notebook)) is None
    notebook.cells[2].outputs[0].data["text/plain"] = "something else"
    assert outputs_differ(code_cells(notebook)) == 3


@pytest.mark.parametrize(
    ("cell", "kind", "shown"),
    [
        ("source(micro_gemm)", "text/markdown", source(micro_gemm)._repr_markdown_()),
        ("difference(umma_tma, umma_two_sm)", "text/plain", str(difference(umma_tma, umma_two_sm))),
        (
            "side_by_side(ptx=excerpt(source(twin(micro_gemm)), 'ret'))",
            "text/html",
            side_by_side(ptx=excerpt(source(twin(micro_gemm)), "ret"))._repr_html_(),
        ),
    ],
)
def test_outputs__are_of_the_tree_as_it_is_now(cell: str, kind: str, shown: str) -> None:
    [output] = outputs_of(quotations([IMPORTS, cell])[1])
    assert output.data[kind] == shown
