"""The key of a recording: results depend on all that is in it, and on nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cutecourse.kernels.faults import faults_of
from tools import keys
from tools.keys import code_key, fault_name, kernel_key, ptx_key


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("def f(a):\n    return a+1", True),
        ('"""A module."""\n\n\ndef f(a):  # one more\n    """Add one."""\n    return a + 1\n', True),
        ("def f(a):\n    return a + 2", False),
        ("def f(b):\n    return b + 1", False),
        ("def f(a):\n    'text'\n    'more'\n    return a + 1", False),
    ],
)
def test_code_key__is_that_of_the_code_without_its_words(other: str, same: bool) -> None:
    assert (code_key(other) == code_key("def f(a):\n    return a + 1\n")) is same


def test_code_key__is_the_same_for_every_version_of_python() -> None:
    """Pages are recorded with the Python of a GPU machine, and checked with others."""
    assert code_key("def f(a, *, b=1): ...\nclass C: x: int = 1\n") == "88d3b95e63cc8f59"


def test_code_key__takes_text_that_is_no_python_as_it_is() -> None:
    assert code_key("%timeit f()") != code_key("%timeit g()")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("    mov.u32 %r, 1;  // one\n\n    ret;", True),
        ("/* all\n of it */ mov.u32   %r, 1; ret;", True),
        ("mov.u32 %r, 2; ret;", False),
        ("mov.u32 %r, 1; // ret;", False),
    ],
)
def test_ptx_key__is_that_of_the_instructions(other: str, same: bool) -> None:
    assert (ptx_key(other) == ptx_key("mov.u32 %r, 1;\nret;\n")) is same


def test_kernel_key__is_none_for_a_kernel_or_a_fault_that_is_not_there() -> None:
    assert kernel_key("gone") is None
    assert kernel_key(fault_name("umma_tile", "gone")) is None


def test_kernel_key__of_a_fault_is_that_of_its_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = dict(faults_of("umma_tile"))
    fault = faults["no_wait"]
    monkeypatch.setattr(keys, "change_of", lambda kernel, name: faults[name])
    before = kernel_key(fault_name("umma_tile", "no_wait"))
    faults["no_wait"] = replace(fault, about="other words")
    assert kernel_key(fault_name("umma_tile", "no_wait")) == before
    faults["no_wait"] = replace(fault, twin=(*fault.twin, ("ret;", "exit;")))
    assert kernel_key(fault_name("umma_tile", "no_wait")) != before


CHANGES = [
    ("umma/umma_two_sm/source.py", "# words\n", False),
    ("umma/umma_two_sm/source.py", "MORE = 1\n", True),
    ("umma/umma_two_sm/__init__.py", "MORE = 1\n", True),
    ("umma/umma_two_sm/twin.ptx", "// words\n", False),
    ("umma/umma_two_sm/twin.ptx", ".global .b32 more;\n", True),
    ("umma/umma_tile/source.py", "MORE = 1\n", False),
    ("umma/umma_two_sm/faults.py", "MORE = 1\n", False),
]

# Prints which changes change the key of umma_two_sm, made one after the other in a copy of the library.
ASK = """
import json, sys
from dataclasses import replace
from pathlib import Path
import cutecourse.kernels
from tools.keys import kernel_key
found = []
for file, added in json.loads(sys.argv[1]):
    before = kernel_key("umma_two_sm")
    with (Path(cutecourse.kernels.__file__).parent / file).open("a") as out:
        out.write(added)
    found.append(kernel_key("umma_two_sm") != before)
print(json.dumps(found))
"""


def test_kernel_key__follows_from_the_kernels_folder(repository: Path, tmp_path: Path) -> None:
    library = tmp_path / "cutecourse"
    shutil.copytree(repository / "lib" / "cutecourse", library, ignore=shutil.ignore_patterns("__pycache__"))
    changes = json.dumps([[file, added] for file, added, _ in CHANGES])
    answer = subprocess.run(
        [sys.executable, "-c", ASK, changes],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{repository}"},
    )
    assert json.loads(answer.stdout) == [stale for _, _, stale in CHANGES]
