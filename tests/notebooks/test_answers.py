"""Which part of a page answers which prediction, and what a page may not do."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.answers import Answer, BadPrediction, answers_in, find_answers, with_folded_text
from tools.notebooks import code_cells
from tools.pages import read_source
from tools.paths import notebook_sources

HEAD = "---\nkernelspec:\n  name: python3\n---\n\n# A page\n\n"


def _cell(code: str) -> str:
    return f"```{{code-cell}} ipython3\n:tags: [hide-input]\n{code}\n```\n\n"


ASK = _cell('guess = Predict("07-x", "Which?", options=["1", "2"])\nguess')
TELL = _cell("guess.reveal(2)")
RUN = _cell("1 + 1")
END = "<!-- answered -->\n\n"


def _find(*parts: str) -> list[Answer]:
    return find_answers(HEAD + "".join(parts), "page.md")


def test_answer__reaches_to_the_cell_that_reveals_or_to_the_mark() -> None:
    assert _find(RUN, ASK, RUN, TELL, RUN) == [Answer("07-x", 1, 3, marked=False)]
    assert _find(ASK, RUN, TELL, "Why.\n\n", END, RUN) == [Answer("07-x", 0, 2, marked=True)]
    assert _find(ASK, TELL, RUN, "Why.\n\n", END, RUN) == [Answer("07-x", 0, 2, marked=True)]


def test_answers__follow_each_other_each_with_its_own() -> None:
    other = ASK.replace("07-x", "07-y")
    assert _find(ASK, TELL, "Text.\n\n", other, RUN, TELL, END) == [
        Answer("07-x", 0, 1, marked=False),
        Answer("07-y", 2, 4, marked=True),
    ]


def test_code_blocks__are_no_headings_and_no_cells() -> None:
    assert _find(ASK, "```python\n# a comment\nPredict(x)\n```\n\n", TELL, END)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((ASK, RUN), r"page\.md, line 8: the prediction '07-x' has no answer"),
        ((ASK, ASK, TELL), r"line 8: the prediction '07-x' has no answer"),
        ((TELL,), r"line 8: \.reveal\(\.\.\.\) has no prediction"),
        ((ASK, TELL, TELL), r"line 19: \.reveal\(\.\.\.\) has no prediction of its own"),
        ((ASK, TELL, END, END), r"line 21: <!-- answered --> has no prediction before it"),
        ((ASK, "## A heading\n\n", TELL), r"line 14: the heading '## A heading' stands inside the answer"),
        ((ASK, TELL, "### Another\n\n", END), r"line 19: the heading '### Another' stands inside"),
        ((ASK, TELL, "Text\n<!-- answered -->\n"), r"line 20: .* between two empty lines"),
        ((ASK, TELL, ":::{note}\n<!-- answered -->\n:::\n"), r"line 19: .* stands inside a block"),
        ((_cell('Predict("a", "?")\nPredict("b", "?")'), TELL), r"line 8: this cell asks 2 times"),
        ((_cell('Predict("a", "?").reveal(1)'),), r"line 8: this cell asks and answers"),
        ((_cell('key = "a"\nPredict(key, "?")'), TELL), r"line 8: .* takes its key as a text in quotes"),
    ],
)
def test_page__is_refused_in_words_with_its_line(parts: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadPrediction, match=message):
        _find(*parts)


@pytest.mark.parametrize("source", notebook_sources(), ids=lambda source: source.stem)
def test_every_page__has_an_answer_for_each_prediction(source: str) -> None:
    cells = code_cells(read_source(source))
    answers = answers_in(source)
    assert all(f'"{found.key}"' in cells[found.asks].source for found in answers)
    assert sum("Predict(" in cell.source for cell in cells) == len(answers)


def test_copies__fold_the_text_of_an_answer() -> None:
    texts = ["Before.", "Shown by:", "Why.\n\n<!-- answered -->\n\nThe rule.", "After."]
    notebook = new_notebook(
        cells=[
            new_markdown_cell(texts[0]),
            new_code_cell("guess = Predict('x', '?')"),
            new_markdown_cell(texts[1]),
            new_code_cell("guess.reveal(1)"),
            new_markdown_cell(texts[2]),
            new_code_cell("1"),
            new_markdown_cell(texts[3]),
        ]
    )
    cells = with_folded_text(notebook, [Answer("x", 0, 1, marked=True)]).cells

    def folded(text: str) -> str:
        return f"<details><summary>After your prediction</summary>\n\n{text}\n\n</details>"

    assert [cell.source for cell in cells if cell.cell_type == "markdown"] == [
        "Before.",
        folded("Shown by:"),
        folded("Why."),
        "The rule.",
        "After.",
    ]
