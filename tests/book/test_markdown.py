"""Programs that read the book: pages as Markdown, their list, and the skill, whose commands run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from cutecourse.cli import main
from tools.notebooks import code_cells
from tools.paths import BOOK, ROOT, notebook_sources
from tools.recordings import read_recording

SKILL = ROOT / "skills" / "run-ptx" / "SKILL.md"
REVERSE = Path(__file__).parents[1] / "testing" / "reverse.ptx"


def test_markdown__has_the_code_and_the_outputs_of_each_page(book: Path) -> None:
    for source in notebook_sources():
        text = (book / source.relative_to(BOOK)).read_text(encoding="utf-8")
        cells = code_cells(read_recording(source))
        assert text.startswith("# ")
        for cell in cells:
            if "remove-input" not in cell.metadata.get("tags", []):
                assert f"```python\n{cell.source.strip()}\n```" in text
            for output in cell.outputs:
                if output.output_type == "stream":
                    assert output.text.strip() in text
    page = (book / "chapters" / "01_hello_layout.md").read_text(encoding="utf-8")
    assert "[Notation" not in page or "notation.md" in page
    assert "| `coalesce(L)` | the same function of the index, fewest modes |" in page
    assert not re.search(r"\]\([^):]+\.html", page)
    assert "[picture: " in page
    head = (book / "chapters" / "01_hello_layout.html").read_text(encoding="utf-8")
    assert '<link rel="alternate" type="text/markdown" href="01_hello_layout.md" />' in head


def test_list__leads_to_every_page_and_to_the_skill(book: Path) -> None:
    text = (book / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    pages = {path.relative_to(book).with_suffix(".md").as_posix() for path in book.glob("chapters/*.html")}
    assert pages | {"intro.md", "SKILL.md", "exercises/01_hello_layout.md"} <= {*links}
    assert [link for link in links if not (book / link).is_file()] == []


def _commands() -> list[list[str]]:
    blocks = re.findall(r"```bash\n(.*?)```", SKILL.read_text(encoding="utf-8"), re.DOTALL)
    return [
        shlex.split(line.partition(" > ")[0])[1:]
        for block in blocks
        for line in block.split("\n")
        if line.strip()
    ]


def test_skill__runs_as_it_is_written_and_its_report_has_the_fields_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(64, dtype=np.int32))
    text = REVERSE.read_text(encoding="utf-8")
    explain, emulate, explore = _commands()
    for kernel, statuses in ((text, [0, 0, 0]), (text.replace("bar.sync 0;", ""), [0, 1, 1])):
        Path("kernel.ptx").write_text(kernel, encoding="utf-8")
        assert main(explain) == statuses[0]
        capsys.readouterr()
        assert main(emulate) == statuses[1]
        reports = json.loads(capsys.readouterr().out)["reports"]
        assert main(explore) == statuses[2]
    named = re.findall(r"\(`(\w+)`\)", SKILL.read_text(encoding="utf-8"))
    assert {"hazard", "problem", "why", "other_line"} == {*named}
    assert {*named} <= reports[0].keys()
