"""What no file of the repository may be: large, or telling of the machine it was written on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import cutecourse
from tools import third_party

MAX_BYTES = 1 << 20
# A recorded page carries the code of each of its widgets, so that they live in JupyterLab without a run.
MAX_PAGE_BYTES = 2 << 20

# In pieces, so that this file passes its own test.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "npmjs" + ".com",
    "yarnpkg" + ".com",
    "debian" + ".org",
    "anaconda" + ".org",
    "crates" + ".io",
]
MACHINE_PATH = re.compile(r"(?<![\w.$)}*~-])/(?:work|root|home|tmp|Users)/[\w.]")


@pytest.fixture
def own(tracked: list[Path]) -> list[Path]:
    """Return the tracked files that are ours: `third_party/SHA256SUMS` lists the others."""
    vendored = {third_party.FOLDER / name for name in third_party.listed_sums()}
    return [path for path in tracked if path not in vendored]


def test_tracked_files__are_small(repository: Path, own: list[Path]) -> None:
    sizes = {str(path.relative_to(repository)): path.stat().st_size for path in own}
    assert {
        name: size
        for name, size in sizes.items()
        if size >= (MAX_PAGE_BYTES if name.startswith("notebooks/") else MAX_BYTES)
    } == {}


def hits(text: str) -> list[str]:
    """Return what in a text tells of a registry's host or of a path on somebody's machine."""
    lowered = text.lower()
    found = [host for host in REGISTRY_HOSTS if host in lowered]
    found += re.findall(r"--(?:extra-)?index-url\s+\S+", text)
    return found + [match.group() for match in MACHINE_PATH.finditer(text)]


def test_tracked_files__tell_of_no_machine(repository: Path, own: list[Path]) -> None:
    found = {}
    for path in own:
        text = path.read_bytes().decode("utf-8", errors="ignore")
        if marks := hits(text):
            found[str(path.relative_to(repository))] = sorted(set(marks))
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "https://files." + "pythonhosted" + ".org/packages",
        "--index-" + "url http://10.0.0.1/simple",
        "File " + '"/tm' + 'p/ipykernel_1/2.py"',
        "see /wo" + "rk/main/book",
    ],
)
def test_hits__finds_what_it_looks_for(text: str) -> None:
    assert hits(text) != []


@pytest.mark.parametrize(
    "text", ["book/work/a", "$HOME/tmp/x", "https://example.org/work/a", "/usr/bin/chromium"]
)
def test_hits__lets_other_paths_be(text: str) -> None:
    assert hits(text) == []


def test_version__is_the_same_everywhere(repository: Path) -> None:
    pyproject = tomllib.loads((repository / "pyproject.toml").read_text())
    citation = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert pyproject["project"]["version"] == cutecourse.__version__ == citation["version"]


def test_licences__are_named_the_same_everywhere(repository: Path) -> None:
    pyproject = tomllib.loads((repository / "pyproject.toml").read_text())
    citation = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert citation["license"] == [pyproject["project"]["license"], "CC-BY-4.0"]
    assert "Apache License" in (repository / "LICENSE").read_text()
    assert (
        (repository / "LICENSE-TEXT").read_text().startswith("Creative Commons Attribution 4.0 International")
    )
