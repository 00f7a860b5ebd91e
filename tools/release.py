"""Build what a release publishes: a wheel and a source archive that know where the repository is.

    python -m tools.release --repository https://HOST/OWNER/NAME --output DIR

The tree does not name its own address, because forks have others. A release's metadata gets it: the links of
the project, and the README's links, which a package index can follow only if they are whole addresses. They
lead to the files under the tag of the version. Nothing in the tree changes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.paths import ROOT

FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")
_BUILD = (
    "import sys\n"
    "from setuptools import build_meta\n"
    "target = sys.argv[1]\n"  # setuptools changes sys.argv
    "build_meta.build_wheel(target)\n"
    "build_meta.build_sdist(target)\n"
)


def whole_links(text: str, repository: str, tag: str) -> str:
    """A Markdown text with its relative links as addresses of the files under a tag; pictures as raw files.

    >>> whole_links("[a](lib/a.md#b) ![p](p.png) [c](#d)", "https://x.org/o/n", "v1")
    '[a](https://x.org/o/n/blob/v1/lib/a.md#b) ![p](https://x.org/o/n/raw/v1/p.png) [c](#d)'
    """

    def whole(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/{tag}/{path})"

    return _LINK.sub(whole, text)


def urls(repository: str, tag: str) -> str:
    """The table `project.urls` for pyproject.toml."""
    links = {
        "Source": repository,
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{link}"\n' for name, link in links.items())


def build(repository: str, output: Path) -> None:
    """Write the wheel and the source archive. Errors: CalledProcessError, after setuptools said why."""
    repository = repository.rstrip("/")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in FILES:
            shutil.copy(ROOT / name, copy)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
        shutil.copytree(ROOT / "lib", copy / "lib", ignore=ignored)
        project = (copy / "pyproject.toml").read_text(encoding="utf-8")
        tag = f"v{tomllib.loads(project)['project']['version']}"
        (copy / "pyproject.toml").write_text(project + urls(repository, tag), encoding="utf-8")
        readme = (copy / "README.md").read_text(encoding="utf-8")
        (copy / "README.md").write_text(whole_links(readme, repository, tag), encoding="utf-8")
        command = [sys.executable, "-c", _BUILD, str(output.resolve())]
        subprocess.run(command, cwd=copy, check=True, stdout=subprocess.DEVNULL)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.splitlines()[0])
    parser.add_argument("--repository", required=True, metavar="URL", help="the repository's address")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder for both files")
    options = parser.parse_args(arguments)
    try:
        build(options.repository, options.output)
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(*sorted(path.name for path in options.output.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
