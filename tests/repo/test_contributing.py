"""CONTRIBUTING draws the packages and a kernel's folder as they are, and lists every benchmark."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def drawn_rows(text: str) -> dict[str, list[str]]:
    """The drawing's rows by container, such as `"ptx | tma"`, without the words beside them."""
    (drawing,) = re.findall(r"^```text\n(cutecourse\n.*?)^```$", text, re.DOTALL | re.MULTILINE)
    rows = {}
    for part in drawing.split("\n\n"):
        container, *lines = part.splitlines()
        rows[container] = [re.split(r" {2,}", line.strip())[0] for line in lines]
    return rows


def test_contributing__draws_the_rows_of_the_contracts(repository: Path) -> None:
    settings = tomllib.loads((repository / "pyproject.toml").read_text())
    contracts = [one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    assert all(one["exhaustive"] for one in contracts)
    agreed = {container: one["layers"] for one in contracts for container in one["containers"]}
    assert drawn_rows((repository / "CONTRIBUTING.md").read_text()) == agreed


def test_contributing__draws_a_kernels_folder(repository: Path) -> None:
    (drawing,) = re.findall(
        r"^```text\nlib/cutecourse/kernels/THEME/NAME/\n(.*?)^```$",
        (repository / "CONTRIBUTING.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    patterns = [line.split()[0] for line in drawing.splitlines()]
    folders = [path.parent for path in (repository / "lib/cutecourse/kernels").glob("*/*/__init__.py")]
    files = {path for folder in folders for path in folder.iterdir() if path.name != "__pycache__"}
    drawn = [{path for path in files if path.match(pattern)} for pattern in patterns]
    assert all(drawn), dict(zip(patterns, drawn, strict=True))
    assert set().union(*drawn) == files


def test_contributing__lists_every_benchmark(repository: Path) -> None:
    text = (repository / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\| `python -m benchmarks\.(\w+)` \|", text, re.MULTILINE)
    runnable = {
        path.stem
        for path in (repository / "benchmarks").glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    }
    assert len(listed) == len(set(listed))
    assert set(listed) == runnable
