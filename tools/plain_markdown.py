"""MyST's directives and roles in plain Markdown: JupyterLab shows the notebooks' text cells as that.

What has no plain form here is an error, so that no notebook shows a directive's raw text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

from benchmarks import museum_table
from tools import emulator_coverage, errata
from tools.paths import BACK_MATTER, AuthoringError

_FENCE = re.compile(r"^(?P<fence>:{3,}|`{3,})\{(?P<name>[\w-]+)\}[ \t]*(?P<argument>.*)$")
_OPTION = re.compile(r"^:[\w-]+:.*$")
_LABEL = re.compile(r"^\([\w:.-]+\)=\s*$")
_ROLE = re.compile(r"\{(?P<name>[\w:-]+)\}`(?P<text>[^`]+)`")
_LINK = re.compile(r"\]\((?P<path>[\w./-]+)\.md(?P<anchor>#[\w-]*)?\)")

_TITLES = {
    "note": "Note",
    "tip": "Tip",
    "hint": "Hint",
    "warning": "Warning",
    "important": "Important",
    "caution": "Caution",
    "seealso": "See also",
    "admonition": "",
    "dropdown": "",
}
_ROLES = {"term", "ref", "doc", "numref"}


Minutes = Callable[[str], str]
"""Gives the text that stands for the directive `{minutes}`, by its argument."""


class UntranslatableMarkdown(AuthoringError):
    """A directive or role that the notebooks have no plain form for."""


def plain(text: str, *, where: str, notebooks: str = "", minutes: Minutes | None = None) -> str:
    """MyST text as plain Markdown; `notebooks` is the way from where it lies to the chapters' notebooks.

    `minutes` says what `{minutes}` stands for; without it, the directive is refused.
    Errors: UntranslatableMarkdown, naming the directive or role.
    """
    return _inline(_blocks(text.splitlines(), where, minutes), where, notebooks).strip("\n")


def _blocks(lines: list[str], where: str, minutes: Minutes | None) -> str:
    out: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        directive = _FENCE.match(line)
        if directive:
            end = _closing(lines, index, directive["fence"], where)
            out += _directive(directive, lines[index + 1 : end], where, minutes).splitlines()
            index = end + 1
        elif line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
            end = _closing(lines, index, fence, where)
            out += lines[index : end + 1]
            index = end + 1
        else:
            if not _LABEL.match(line):
                out.append(line)
            index += 1
    return "\n".join(out)


def _closing(lines: list[str], start: int, fence: str, where: str) -> int:
    for index in range(start + 1, len(lines)):
        if lines[index].strip() == fence:
            return index
    raise UntranslatableMarkdown(f"{where}: the block that starts with {lines[start]!r} is not closed")


def _directive(match: re.Match[str], body: list[str], where: str, minutes: Minutes | None) -> str:
    name, argument = match["name"], match["argument"].strip()
    while body and (_OPTION.match(body[0]) or not body[0].strip()):
        body = body[1:]
    if name == "errata":
        return errata.section(argument, links=False)
    if name == "minutes":
        if minutes is None:
            raise UntranslatableMarkdown(f"{where}: {{minutes}} stands on a page with cells")
        return minutes(argument)
    if name == "emulator":
        return emulator_coverage.markdown(argument)
    if name == "museum" and argument in museum_table.TABLES:
        return museum_table.TABLES[argument]()
    if name == "tab-set":
        return _blocks(body, where, minutes)
    if name == "tab-item":
        return f"**{argument}**\n\n{_blocks(body, where, minutes)}"
    if name == "glossary":
        return _glossary(body)
    if name not in _TITLES:
        raise UntranslatableMarkdown(f"{where}: the directive {{{name}}} has no plain form for JupyterLab")
    if name not in ("admonition", "dropdown") and argument:
        body = [argument, *body]
        argument = ""
    title = argument or _TITLES[name]
    inner = _blocks(body, where, minutes).strip("\n").splitlines()
    return "\n".join(f"> {line}".rstrip() for line in [f"**{title}**", "", *inner])


def _glossary(body: list[str]) -> str:
    entries: list[tuple[str, list[str]]] = []
    for line in body:
        if line and not line.startswith(" "):
            entries.append((line.strip(), []))
        elif entries:
            entries[-1][1].append(line)
    texts = (" ".join(textwrap.dedent("\n".join(lines)).split()) for _, lines in entries)
    return "\n".join(f"- **{term}**: {text}" for (term, _), text in zip(entries, texts, strict=True))


def _inline(text: str, where: str, notebooks: str) -> str:
    """Replace roles and links outside of fenced code."""
    parts = re.split(r"(^```.*?^```[ \t]*$)", text, flags=re.MULTILINE | re.DOTALL)
    for index in range(0, len(parts), 2):
        parts[index] = _ROLE.sub(lambda match: _role(match, where), parts[index])
        parts[index] = _LINK.sub(lambda match: _link(match, notebooks), parts[index])
    return "".join(parts)


def _role(match: re.Match[str], where: str) -> str:
    if match["name"] not in _ROLES:
        raise UntranslatableMarkdown(
            f"{where}: the role {{{match['name']}}} has no plain form for JupyterLab"
        )
    title = re.fullmatch(r"(?P<title>.*?)\s*<[^<>]+>", match["text"], re.DOTALL)
    return title["title"] if title else match["text"]


def _link(match: re.Match[str], notebooks: str) -> str:
    """A link to another page: to its notebook where it has one, else to the page's source."""
    name = match["path"].rpartition("/")[2]
    anchor = match["anchor"] or ""
    if "exercises/" in match["path"]:
        return f"](../exercises/{name}.ipynb{anchor})"
    if name[:2].isdigit() or name in BACK_MATTER:
        return f"]({notebooks}{name}.ipynb{anchor})"
    book = notebooks.replace("notebooks", "book") or "../book/"
    return f"]({book}{name}.md{anchor})"
