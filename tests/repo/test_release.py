"""What a release publishes: files that say where the repository is, with links that work elsewhere."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tools import release

REPOSITORY = "https://host.example/owner/course"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    release.build(REPOSITORY + "/", output)
    return output


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as held:
        [name] = [name for name in held.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(held.read(name).decode())


def test_release__is_a_wheel_and_a_source_archive_of_the_version(built: Path, repository: Path) -> None:
    version = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    assert sorted(path.name for path in built.iterdir()) == [
        f"cutecourse-{version}-py3-none-any.whl",
        f"cutecourse-{version}.tar.gz",
    ]
    with tarfile.open(built / f"cutecourse-{version}.tar.gz") as held:
        assert f"cutecourse-{version}/lib/cutecourse/emulator/launch.py" in held.getnames()


def test_release__says_where_the_project_is(metadata: Message, repository: Path) -> None:
    links = dict(one.split(", ") for one in metadata.get_all("Project-URL"))
    assert links["Source"] == REPOSITORY
    assert links["Issues"] == f"{REPOSITORY}/issues"
    changes = (repository / "CHANGELOG.md").read_text()
    assert f"## {metadata['Version']}\n" in changes


def test_release__has_no_relative_link_and_links_to_files_that_are_there(
    metadata: Message, repository: Path
) -> None:
    text = metadata.get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 15
    assert all(link.startswith("https://") for link in links)
    start = re.compile(rf"{REPOSITORY}/(blob|raw)/v{re.escape(metadata['Version'])}/")
    ours = [link for link in links if link.startswith(REPOSITORY)]
    for link in ours:
        assert start.match(link), link
        assert (repository / start.sub("", link).partition("#")[0]).exists(), link
    assert any(link.endswith(".png") and "/raw/" in link for link in ours)


def test_release__changes_nothing_in_the_tree(built: Path, repository: Path) -> None:
    assert built.exists()
    assert "project.urls" not in (repository / "pyproject.toml").read_text()
    assert not (repository / "build").exists()


def test_whole_links__leaves_addresses_and_anchors() -> None:
    text = "[a](https://a.org/b) [b](#here) [c](mailto:a@b.c)"
    assert release.whole_links(text, REPOSITORY, "v1") == text
