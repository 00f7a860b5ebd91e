"""CONTRIBUTING draws the packages as the import contracts have them, and lists every benchmark."""

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
