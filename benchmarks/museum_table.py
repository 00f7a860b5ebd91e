"""The museum's pages: the table of who finds each bug, and the parts of an exhibit's story that are computed.

python -m benchmarks.museum_table      prints the table
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.museum import RESULT, SEEDS, reported
from benchmarks.results_file import RESULTS
from cutecourse import runtime
from cutecourse.emulator import EmulatorError, errors
from cutecourse.museum import Exhibit, exhibits
from tools.paths import BOOK, CHAPTERS

_WIDTH = 92
_NO_GPU = "no Blackwell"
_STORY = re.compile(r"^\((?P<label>exhibit-[\w-]+)\)=\n## (?P<words>.+)$", re.MULTILINE)
_PLACES = {"issue": "issues", "pull request": "pull", "commit": "commit"}
_SOURCE = re.compile(r"(?P<kind>issue|pull request|commit) #?(?P<number>[0-9a-f]+)")
_TITLE = re.compile(r"^# (?P<words>.+)$", re.MULTILINE)


def kept() -> dict[str, dict[str, Any]]:
    """The emulator's kept rows, by exhibit."""
    return {row["exhibit"]: row for row in json.loads(RESULT.read_text(encoding="utf-8"))["rows"]}


def kept_of_a_gpu() -> dict[str, Any]:
    """The kept figures of a GPU, or {} if nobody has measured them yet."""
    paths = sorted(RESULTS.glob("museum_*.json"))
    found: dict[str, Any] = json.loads(paths[0].read_text(encoding="utf-8")) if paths else {}
    return found


def on_gpu(measured: Mapping[str, Any], name: str, kernel: str = "broken") -> dict[str, Any]:
    """The row of a kernel among a GPU's figures, or {}."""
    rows = (row for row in measured.get("rows", ()) if (row["exhibit"], row["kernel"]) == (name, kernel))
    return next(rows, {})


def runs_in_words(row: Mapping[str, Any]) -> str:
    """How the runs of a kernel on a GPU ended.

    >>> runs_in_words({"ends": {"right": 48, "wrong": 2}})
    '48 right, 2 wrong'
    """
    return ", ".join(f"{count} {end}" for end, count in row.get("ends", {}).items()) or "not yet run"


def tools_in_words(row: Mapping[str, Any]) -> str:
    """Which of compute-sanitizer's tools report a kernel."""
    tools = row.get("tools", {})
    reporting = [tool for tool, said in tools.items() if said["state"] == "reports"]
    return ", ".join(reporting) or ("none" if tools else "not yet run")


def slug(heading: str) -> str:
    """A heading's anchor.

    >>> slug("Who says that the bytes are there?")
    'who-says-that-the-bytes-are-there'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def label(name: str) -> str:
    """The label that stands before an exhibit's story."""
    return f"exhibit-{name.replace('_', '-')}"


def stories() -> dict[str, tuple[str, str]]:
    """Each exhibit's story in the book's order: its heading, and where it is, from the book's folder."""
    named = {label(name): name for name in exhibits()}
    pages = re.findall(r"file: (museum_\w+)$", (BOOK / "_toc.yml").read_text(encoding="utf-8"), re.MULTILINE)
    return {
        named[found["label"]]: (found["words"], f"{page}.md#{slug(found['words'])}")
        for page in pages
        for found in _STORY.finditer((BOOK / f"{page}.md").read_text(encoding="utf-8"))
    }


def explained(exhibit: Exhibit) -> str:
    """A link to the page that explains the bug, from the book's folder."""
    path = CHAPTERS / f"{exhibit.chapter}.md"
    title = _TITLE.search(path.read_text(encoding="utf-8"))
    assert title is not None
    return f"[{title['words']}](chapters/{path.name})"


# --- the parts of a story -----------------------------------------------------------------------------------


def report(exhibit: Exhibit) -> str:
    """The emulator's report, of the first seed that gives one."""
    seed = next(seed for seed in range(SEEDS) if reported(exhibit, "broken", seed))
    try:
        runtime.run(exhibit.spec("broken"), device="emulator", seed=seed, **exhibit.arguments())
    except EmulatorError as error:
        lines = f"{type(error).__name__}: {error}".splitlines()
        wrapped = "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent=_further(line)) for line in lines)
        return f"Seed {seed}:\n\n```text\n{wrapped}\n```"
    raise AssertionError(exhibit.name)


def difference(exhibit: Exhibit) -> str:
    """The lines in which the broken and the repaired text differ, with the lines around them."""
    broken, repaired = (exhibit.text(version).splitlines()[1:] for version in ("broken", "repaired"))
    lines = [
        line
        for line in difflib.unified_diff(broken, repaired, n=2, lineterm="")
        if not line.startswith(("---", "+++"))
    ]
    shown = re.sub(r"\A(\s*\n)+|\s+\Z", "", "\n".join("" if line[:2] == "@@" else line for line in lines))
    return f"```diff\n{shown}\n```"


def source(exhibit: Exhibit) -> str:
    """Where the bug was published, its rule, who finds it, and the chapter that explains it."""
    row = kept()[exhibit.name]
    found = SEEDS - row["seeds"].get("", 0)
    where = f"{exhibit.project}, {_linked(exhibit)}; {_code(exhibit.file)}"
    finds = f"compute-sanitizer: {_sanitizer(exhibit)}; 50 runs on a GPU: {_runs(exhibit)}"
    return f"""**Published:** {where}. *{_sentence(exhibit.status)}* Symptom: {exhibit.symptom}.

**The rule:** {exhibit.rule} ({_document(exhibit.section)})

**Who finds it:** {found} of {SEEDS} seeds, and `prove`; {finds}.

**Explained in** {explained(exhibit)}."""


PARTS: dict[str, Callable[[Exhibit], str]] = {"report": report, "difference": difference, "source": source}
"""The parts of a story that a page may ask for."""


def _further(line: str) -> str:
    """The indentation of the lines that go on with a line of a report."""
    return " " * (len(line) - len(line.lstrip()) + 4)


def _linked(exhibit: Exhibit) -> str:
    """The source with links to its commits, pull requests and issues."""
    project = exhibit.project.split()[-1]

    def link(found: re.Match[str]) -> str:
        place = _PLACES[found["kind"]]
        return f"[{found[0]}](https://github.com/{project}/{place}/{found['number']})"

    return _SOURCE.sub(link, exhibit.source)


def _code(file: str) -> str:
    return f"`{file}`" if "/" in file and " " not in file else file


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _document(section: str) -> str:
    named, _, anchor = section.partition(" (#")
    if not anchor:
        return named
    return f"PTX ISA, [{named}](https://docs.nvidia.com/cuda/parallel-thread-execution/#{anchor.rstrip(')')})"


def _sanitizer(exhibit: Exhibit) -> str:
    return tools_in_words(on_gpu(kept_of_a_gpu(), exhibit.name)) if exhibit.runs_on_hopper else _NO_GPU


def _runs(exhibit: Exhibit) -> str:
    return runs_in_words(on_gpu(kept_of_a_gpu(), exhibit.name)) if exhibit.runs_on_hopper else _NO_GPU


# --- the table ----------------------------------------------------------------------------------------------


def _rows() -> Iterator[tuple[str, ...]]:
    yield (
        "exhibit",
        "published by",
        "seed 0",
        f"{SEEDS} seeds",
        "prove",
        "compute-sanitizer",
        "50 runs on a GPU",
    )
    rows = kept()
    for name, (heading, story) in stories().items():
        exhibit, row = exhibits()[name], rows[name]
        yield (
            f"[{heading}]({story})",
            exhibit.project,
            getattr(errors, row["first"]).hazard.name if row["first"] else "nothing",
            f"{SEEDS - row['seeds'].get('', 0)}",
            "yes" if row["verdict"] == "counterexample" else row["verdict"],
            _sanitizer(exhibit),
            _runs(exhibit),
        )


def markdown() -> str:
    """The table of the museum's page."""
    head, *rows = [f"| {' | '.join(cells)} |" for cells in _rows()]
    return "\n".join([head, "| --- " * (head.count(" | ") + 1) + "|", *rows])


if __name__ == "__main__":
    print(markdown())
