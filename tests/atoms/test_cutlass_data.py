"""The kept answers of CUTLASS's headers are those that the headers give now."""

import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from atoms.cpp import regenerate
from atoms.oracles import CUTLASS

from support.cutlass_cpp import include_folder


def include() -> Path:
    return include_folder()


def spec(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key != "expect"}


def test_cases__are_those_of_the_seed() -> None:
    assert [spec(case) for case in CUTLASS["cases"]] == json.loads(json.dumps(regenerate.random_cases()))


def test_data__is_written_as_regenerate_writes_it() -> None:
    assert regenerate.DATA.read_text() == regenerate.dump(CUTLASS)


def test_data__has_the_installed_headers_lines_and_instructions() -> None:
    assert metadata.version("nvidia-cutlass") == CUTLASS["cutlass"]
    operations = regenerate.mma_operations(include())
    assert {
        name: (row["arch_line"], row["asm"], row["traits_line"]) for name, row in CUTLASS["mma_atoms"].items()
    } == operations


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/atoms/cpp", "tests/support/cutlass_cpp.py")
def test_data__is_what_the_headers_print_now() -> None:
    """All atoms and two cases; `regenerate.py --check` does every case, in some twenty minutes."""
    cases = [case for case in CUTLASS["cases"] if case["case"] in ("mma-001", "copy-001")]
    assert len(cases) == 2
    nvcc = shutil.which("nvcc")
    assert nvcc is not None
    printed = regenerate.collect(include(), nvcc, [spec(case) for case in cases])
    assert printed["cases"] == cases
    for key in ("cutlass", "seed", "mma_atoms", "copy_atoms", "copy_values", "asm"):
        assert printed[key] == CUTLASS[key], key
