"""Every class of the library has a name of its own, so that a search for a name finds one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

from tools.paths import ROOT

KERNEL_FILES = ROOT / "lib" / "cutecourse" / "kernels"
"""A kernel's `source.py` and `*_broken.py` stand alone: their names are their own."""


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for file in sorted((ROOT / "lib").rglob("*.py")):
        if file.is_relative_to(KERNEL_FILES) and (file.name == "source.py" or file.stem.endswith("_broken")):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}
