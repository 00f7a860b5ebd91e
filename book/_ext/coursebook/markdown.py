"""Each page as Markdown beside its HTML, and `llms.txt`, which lists them, for programs that read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx

from coursebook.answers import answer
from tools.paths import ROOT

SKILL = ROOT / "skills" / "run-ptx" / "SKILL.md"
"""Tells a coding agent how to run a PTX text on the emulator; the site has it under its own name."""
_INTRO = (
    "Layouts, MMA atoms, TMA and tcgen05, from the first layout to a Blackwell GEMM. The kernels ran on a "
    "GPU or on the course's emulator of PTX. Each page below is the Markdown of the page of the same name."
)
_LEFT_OUT = (nodes.comment, nodes.target, nodes.system_message, nodes.substitution_definition)


def page_as_markdown(doctree: nodes.document) -> str:
    """A page's text, code and outputs as Markdown; a picture is told by its description."""
    blocks = _blocks(doctree.children, 0)
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"


def _blocks(children: Iterable[nodes.Node], depth: int) -> list[str]:
    return [text for child in children for text in _block(child, depth)]


def _block(node: nodes.Node, depth: int) -> list[str]:
    match node:
        case nodes.section():
            return _blocks(node.children, depth + 1)
        case nodes.title() | nodes.rubric():
            return [f"{'#' * max(1, depth)} {_inline(node)}"]
        case nodes.paragraph():
            return [_inline(node)]
        case nodes.literal_block():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", node.astext())), default=0))
            language = str(node.get("language", "")).replace("ipython3", "python").replace("none", "")
            return [f"{fence}{language}\n{node.astext().rstrip()}\n{fence}"]
        case nodes.bullet_list() | nodes.enumerated_list():
            return [_list(node, depth)]
        case nodes.definition_list():
            return [_definition(item, depth) for item in node.children]
        case nodes.table():
            return [_table(node)]
        case nodes.image():
            return [f"[picture: {node.get('alt', '')}]"] if node.get("alt") else []
        case nodes.raw():
            return _raw(node)
        case nodes.transition():
            return ["---"]
        case nodes.block_quote() | nodes.Admonition():
            return ["\n>\n".join(_quoted(text) for text in _blocks(node.children, depth))]
        case answer():
            return ["**Answer**", *_blocks(node.children, depth)]
        case _ if isinstance(node, _LEFT_OUT):
            return []
        case nodes.TextElement() | nodes.Text():
            return [_inline(node)]
        case _:
            return _blocks(node.children, depth)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _list(node: nodes.Element, depth: int) -> str:
    lines = []
    for number, item in enumerate(node.children, start=int(node.get("start", 1))):
        mark = f"{number}. " if isinstance(node, nodes.enumerated_list) else "- "
        text = "\n\n".join(_blocks(item.children, depth)) if isinstance(item, nodes.Element) else ""
        lines.append(mark + text.replace("\n", f"\n{' ' * len(mark)}"))
    return "\n".join(lines)


def _definition(item: nodes.Node, depth: int) -> str:
    terms = [_inline(child) for child in item.children if isinstance(child, nodes.term)]
    told = [child for child in item.children if isinstance(child, nodes.definition)]
    text = "\n\n".join(_blocks(told, depth)).replace("\n", "\n  ")
    return f"- **{', '.join(terms)}**: {text}"


def _table(node: nodes.table) -> str:
    rows = [[_cell(entry) for entry in row.children] for row in node.findall(nodes.row)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    width = max((len(row) for row in rows), default=0)
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]])


def _cell(entry: nodes.Node) -> str:
    return " ".join(" ".join(_blocks(entry.children, 0)).split()).replace("|", "\\|")


def _raw(node: nodes.raw) -> list[str]:
    """The words of an HTML output; of a picture its description."""
    if "html" not in node.get("format", ""):
        return []
    soup = BeautifulSoup(node.astext(), "html.parser")
    for dead in soup.select("script, style, svg title"):
        dead.decompose()
    for picture in soup.select("svg, img"):
        told = picture.get("aria-label") or picture.get("alt") or ""
        picture.replace_with(f"[picture: {told}]" if told else "")
    words = "\n".join(line.rstrip() for line in soup.get_text().splitlines() if line.strip())
    return [words] if words else []


def _inline(node: nodes.Node) -> str:
    match node:
        case nodes.Text():
            return node.astext().replace("\n", " ")
        case nodes.literal():
            return f"`{node.astext()}`"
        case nodes.strong():
            return f"**{_words(node)}**"
        case nodes.emphasis():
            return f"*{_words(node)}*"
        case nodes.reference():
            address = str(node.get("refuri") or f"#{node.get('refid', '')}")
            if ":" not in address:  # a page of the book
                address = re.sub(r"\.html(?=#|$)", ".md", address)
            return f"[{_words(node)}]({address})"
        case nodes.raw():
            return ""
        case nodes.image():
            return f"[picture: {node.get('alt', '')}]"
        case _ if isinstance(node, _LEFT_OUT):
            return ""
        case _:
            return _words(node)


def _words(node: nodes.Node) -> str:
    return "".join(_inline(child) for child in node.children)


def keep_markdown(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Write a page's Markdown to the address of the page, with `.md` in place of `.html`."""
    if app.builder.name != "html":
        return
    path = Path(app.outdir) / f"{docname}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_as_markdown(doctree), encoding="utf-8")


def link_markdown(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Name the Markdown in the page's head."""
    if doctree is not None:
        name = Path(pagename).name
        link = f'<link rel="alternate" type="text/markdown" href="{name}.md" />'
        context["metatags"] = context.get("metatags", "") + link


def write_list(app: Sphinx, exception: Exception | None) -> None:
    """Write `llms.txt` and the skill at the root of the pages."""
    if exception is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    lines = ["# CuTe Course", "", f"> {_INTRO}", "", "## For an agent", ""]
    lines += ["- [Run a PTX kernel and read the report](SKILL.md): a skill for the emulator's command line"]
    folders = {"Pages": "", "Chapters": "chapters/", "Exercises": "exercises/"}
    for title, folder in folders.items():
        lines += ["", f"## {title}", ""]
        for docname in sorted(app.env.found_docs):
            if docname.rpartition("/")[0] == folder.rstrip("/") and docname in app.env.titles:
                if not (out / f"{docname}.md").exists():  # the page was built without it
                    app.env.get_and_resolve_doctree(docname, app.builder)
                words = app.env.titles[docname].astext()
                lines.append(f"- [{words}]({docname}.md){_first_sentence(out / f'{docname}.md')}")
    (out / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / SKILL.name).write_text(SKILL.read_text(encoding="utf-8"), encoding="utf-8")


def _first_sentence(path: Path) -> str:
    """The first paragraph of a page, which says its subject."""
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    first = next((text for text in paragraphs if text[:1].isalpha()), "")
    sentence = re.match(r".*?[.?!](?=\s|$)", first)
    return f": {sentence[0]}" if sentence else ""


def setup(app: Sphinx) -> None:
    """Connect to Sphinx's events."""
    # After the transforms that resolve links and choose outputs.
    app.connect("doctree-resolved", keep_markdown, priority=900)
    app.connect("html-page-context", link_markdown)
    app.connect("build-finished", write_list)
