"""Where the course's files lie, which chapters there are, and what records them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from cutecourse.errors import CourseError

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
CHAPTERS = BOOK / "chapters"
NOTEBOOKS = ROOT / "notebooks"
EXERCISES = ROOT / "exercises"
EXERCISE_SOURCES = EXERCISES / "sources"
SOLUTIONS = EXERCISES / "solutions"
EXERCISE_PAGES = BOOK / "exercises"
"""Where a build of the book writes the exercises' pages; git ignores the folder."""
BACK_MATTER = ("intro", "tour", "playground_layouts", "notation", "symptoms", "emulator", "errata", "museum")
"""The pages behind the chapters that have cells, and so a recorded notebook."""
RECORDED_ON = (9, 0)
"""The compute capability of the GPUs on which pages and emulator cases are recorded."""
RECORDED_TARGET = "sm_{}{}".format(*RECORDED_ON)
"""The same as PTX names it, and so recordings' files."""
RECORDING_GPU = "a GPU of compute capability {}.{}".format(*RECORDED_ON)
"""The same in words."""

_PAGE = re.compile(r"(?P<number>\d\d)(?P<part>[a-z]?)_\w+")


class AuthoringError(CourseError):
    """A source of the course is not as the tools need it; the message says which file and what to do."""


class UnknownChapter(AuthoringError):
    """A chapter was named that has no source file."""


def chapter_pages(folder: Path = CHAPTERS) -> list[Path]:
    """The pages of the chapters in order: `NN_slug.md`, or `NNa_slug.md`, `NNb_slug.md` for a long one."""
    return sorted(path for path in folder.glob("*.md") if _PAGE.fullmatch(path.stem))


def chapter_number(source: Path) -> str:
    """The number that the pages, exercises and checks of one chapter share.

    >>> chapter_number(Path("book/chapters/13b_pipeline.md"))
    '13'
    """
    return _match(source)["number"]


def page_number(source: Path) -> str:
    """The number of one page as a reader sees it: `7` or, for a part of a chapter, `7b`.

    >>> page_number(Path("book/chapters/07b_two_stages.md"))
    '7b'
    """
    return _match(source)["number"].lstrip("0") + _match(source)["part"]


def _match(source: Path) -> re.Match[str]:
    match = _PAGE.fullmatch(source.stem)
    if match is None:
        raise AuthoringError(f"{relative(source)} is not named NN_slug or NNa_slug")
    return match


def notebook_sources() -> list[Path]:
    """Every book page with cells: the chapters, and of the back matter those whose values are computed too.

    Errors: AuthoringError when there is none, because a check over nothing passes.
    """
    pages = chapter_pages()
    if not pages:
        raise AuthoringError(f"no chapter found in {relative(CHAPTERS)}: a chapter is named NN_slug.md")
    return [*(BOOK / f"{name}.md" for name in BACK_MATTER), *pages]


def exercise_sources() -> list[Path]:
    """Every exercise source. Errors: AuthoringError when there is none."""
    sources = sorted(EXERCISE_SOURCES.glob("[0-9][0-9]_*.md"))
    if not sources:
        raise AuthoringError(
            f"no exercises found in {relative(EXERCISE_SOURCES)}: a source is named NN_slug.md"
        )
    return sources


def notebook_of(source: Path) -> Path:
    """The recorded notebook that belongs to a page or to an exercise source."""
    folder = SOLUTIONS if source.parent == EXERCISE_SOURCES else NOTEBOOKS
    return folder / f"{source.stem}.ipynb"


def choose(sources: Iterable[Path], names: Iterable[str]) -> list[Path]:
    """The sources that a command line names; no names mean all.

    A name is a chapter (`13` takes 13a, 13b and the exercises), a page (`13a`, `02_hello_mma`) or a file.
    """
    sources = list(sources)
    wanted = list(names)
    if not wanted:
        return sources
    chosen = []
    for name in wanted:
        stem = Path(name).stem
        part = "[a-z]?" if stem.isdigit() else ""
        named = re.compile(rf"{re.escape(stem)}({part}_.*)?")
        found = [source for source in sources if named.fullmatch(source.stem)]
        if not found:
            known = ", ".join(dict.fromkeys(source.stem for source in sources))
            raise UnknownChapter(f"there is no chapter {name!r}; there are: {known}")
        chosen += [source for source in found if source not in chosen]
    return chosen


def relative(path: Path) -> str:
    """A path as it is written in messages and recordings: from the repository's root, with slashes."""
    return Path(os.path.relpath(path, ROOT)).as_posix()
