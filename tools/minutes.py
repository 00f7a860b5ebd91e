"""Count how many minutes a page takes, so that nobody has to guess them.

    python -m tools.minutes            every page; exit status 1 when one takes more than 60 minutes
    python -m tools.minutes 07 13a     these pages

Reading takes one minute for each 200 words of open text, 12 lines of open code and 30 lines of open output,
and three quarters of a minute for each prediction and each widget. What is folded does not count. An exercise
takes what the line under its heading says: `*5 minutes.*`, `*10 minutes.*` or `*20 minutes.*`.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nbformat import NotebookNode

from cutecourse.errors import CourseError
from tools.notebooks import as_notebook
from tools.paths import (
    CHAPTERS,
    AuthoringError,
    chapter_number,
    chapter_pages,
    choose,
    exercise_sources,
    notebook_of,
    notebook_sources,
    page_number,
    relative,
)
from tools.recordings import read_recording
from tools.tidy import WIDGET_VIEW

AT_MOST = 60
"""Minutes that a page may take to read; a longer one becomes two."""

WORDS, CODE_LINES, OUTPUT_LINES = 200, 12, 30
"""What is read in one minute."""
WIDGET = 0.75
"""Minutes for a prediction or another widget."""
LEVELS = (5, 10, 20)
"""Minutes that an exercise may state."""

_FENCED = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n{]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TARGET = re.compile(r"\]\([^)\s]*\)")
_STATED = re.compile(r"^\*(\d+) minutes?\.\*[ \t]*$", re.MULTILINE)
_EXERCISE = re.compile(r"^## +(\d\d\.\d+)\b[^\n]*$", re.MULTILINE)
_FOLDED_TEXT = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?:dropdown\b|[\w-]+\}[^\n]*\n:class:[^\n]*\bdropdown\b).*?^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_OWN_DIRECTIVE = re.compile(r"^(?P<fence>`{3,}|:{3,})\{minutes\}[^\n]*\n(?P=fence)[ \t]*$", re.MULTILINE)
_HIDDEN_INPUT = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
_HIDDEN_OUTPUT = {"hide-output", "hide-cell", "remove-output", "remove-cell"}


@dataclass(frozen=True)
class Count:
    """What is open on a page; `predictions` and `widgets` are numbers of them."""

    words: int
    code_lines: int
    output_lines: int
    predictions: int
    widgets: int

    @property
    def minutes(self) -> int:
        """Minutes to read the page."""
        text = self.words / WORDS + self.code_lines / CODE_LINES + self.output_lines / OUTPUT_LINES
        return round(text + WIDGET * (self.predictions + self.widgets))


def count(source: Path) -> Count:
    """Count a page and the outputs of its recording; a page without one counts without outputs."""
    path = notebook_of(source)
    return _count(source, source.stat().st_mtime_ns, path.stat().st_mtime_ns if path.exists() else None)


@lru_cache(maxsize=64)
def _count(source: Path, _written: int, recorded: int | None) -> Count:
    text = source.read_text(encoding="utf-8")
    text = _FOLDED_TEXT.sub("", _OWN_DIRECTIVE.sub("", text))
    page = as_notebook(text, where=relative(source))
    return count_cells(page, read_recording(source) if recorded is not None else None)


def count_cells(page: NotebookNode, recording: NotebookNode | None) -> Count:
    """Count the cells of a page, read as a notebook; the outputs are those of cells with the same code."""
    outputs = {
        cell.source.strip(): cell.outputs
        for cell in (recording.cells if recording else [])
        if cell.cell_type == "code"
    }
    words = code_lines = output_lines = predictions = widgets = 0
    for cell in page.cells:
        if cell.cell_type == "markdown":
            open_text = _COMMENT.sub("", cell.source)
            code_lines += sum(_lines(fenced["body"]) for fenced in _FENCED.finditer(open_text))
            words += len(_TARGET.sub("]", _FENCED.sub("", open_text)).split())
            continue
        tags = set(cell.metadata.get("tags", []))
        if not tags & _HIDDEN_INPUT:
            code_lines += _lines(cell.source)
        if tags & _HIDDEN_OUTPUT:
            continue
        for output in outputs.get(cell.source.strip(), []):
            shown = output.get("data", {})
            if WIDGET_VIEW in shown:
                kind = shown["text/plain"].partition("(")[0]
                predictions += kind == "Predict"
                widgets += kind not in ("Predict", "Reveal")
            elif "machine-dependent" in tags:
                output_lines += 1  # a run's record is one line, and the rest of it is folded
            else:
                output_lines += _output_lines(output)
    return Count(words, code_lines, output_lines, predictions, widgets)


def _output_lines(output: NotebookNode) -> int:
    if output.output_type == "stream":
        return _lines(output.text)
    if output.output_type == "error":
        return 1 + _lines(output.evalue)
    data = output.data
    if "image/png" in data or "image/svg+xml" in data or "<svg" in data.get("text/html", ""):
        return 0
    return _lines(data.get("text/plain", ""))


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


# ---- exercises ----


def exercise_minutes(source: Path) -> dict[str, int]:
    """The minutes that the exercises of a source state, by their ids; those without a statement are absent.

    Errors: AuthoringError for minutes other than 5, 10 and 20.
    """
    text = source.read_text(encoding="utf-8")
    heads = list(_EXERCISE.finditer(text))
    stated = {}
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        body = text[head.end() : after.start() if after else len(text)]
        if match := _STATED.match(body.lstrip()):
            minutes = int(match[1])
            if minutes not in LEVELS:
                raise AuthoringError(
                    f"{relative(source)}: exercise {head[1]} states {minutes} minutes; "
                    f"it is one of {', '.join(map(str, LEVELS))}"
                )
            stated[head[1]] = minutes
    return stated


def for_exercises(page: Path) -> int:
    """Minutes for a chapter's exercises, counted for the last of its pages; 0 for any other page."""
    if page.parent != CHAPTERS:
        return 0
    number = chapter_number(page)
    if page != [other for other in chapter_pages() if chapter_number(other) == number][-1]:
        return 0
    own = [source for source in exercise_sources() if chapter_number(source) == number]
    return sum(sum(exercise_minutes(source).values()) for source in own)


def files_of(page: Path) -> list[Path]:
    """The files that a page's sentence follows from."""
    own = [source for source in exercise_sources() if source.name[:2] == page.name[:2]]
    return [path for path in (page, notebook_of(page), *own) if path.exists()]


# ---- words ----


def sentence(page: Path) -> str:
    """A page's minutes in words, as Markdown."""
    reading, exercises = count(page).minutes, for_exercises(page)
    if exercises:
        return f"**{reading} minutes to read**, {exercises} more for the exercises."
    return f"**{reading} minutes to read.**"


def table(folder: str = "chapters") -> str:
    """Every chapter with its minutes, as a Markdown table; `folder` is the way to the pages.

    The minutes for exercises lead to them.
    """
    sheets = {chapter_number(source): source.name for source in exercise_sources()}
    rows = ["| chapter | reading | exercises |", "| --- | ---: | ---: |"]
    for page in chapter_pages():
        exercises = for_exercises(page)
        rows.append(
            f"| [{_title(page)}]({folder}/{page.name}) | {count(page).minutes} min | "
            f"{f'[{exercises} min](exercises/{sheets[chapter_number(page)]})' if exercises else ''} |"
        )
    return "\n".join(rows)


def _title(page: Path) -> str:
    """A page's title with its number, which a title of the first edition does not have."""
    match = re.search(r"^# +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise AuthoringError(f"{relative(page)} has no title")
    title = match[1].strip()
    return title if title[:1].isdigit() else f"{page_number(page)} · {title}"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.minutes", description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="13, 13a, 13a_slug or a file; none means all")
    options = parser.parse_args(arguments)
    try:
        pages = choose(notebook_sources(), options.pages)
        rows = [(page, count(page), for_exercises(page)) for page in pages]
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{'page':<34} minutes   words  code  output  predictions  widgets  exercises")
    for page, found, exercises in rows:
        print(
            f"{page.stem:<34} {found.minutes:7} {found.words:7} {found.code_lines:5} {found.output_lines:7} "
            f"{found.predictions:12} {found.widgets:8} {exercises or '':>10}"
        )
    long = [page.stem for page, found, _ in rows if page.parent == CHAPTERS and found.minutes > AT_MOST]
    if long:
        print(
            f"more than {AT_MOST} minutes: {', '.join(long)}; make two pages of each",
            file=sys.stderr,
        )
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
