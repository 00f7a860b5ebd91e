"""A prediction before the answer, and the answer beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

Answer = str | int | float

ANSWER_TYPES = ("choice", "number", "text")


def plain(value: Any) -> str:
    """How a value is shown: NumPy scalars as Python's, a whole float as an integer, the rest as `str`."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return str(value)


class Predict(CourseWidget):
    """Ask before the answer is on the page, and keep what the reader says.

    On a built page it is kept in the browser under `key`; in JupyterLab `.said` holds it too: `None`, the
    option's text, the text typed, or a number for `answer_type="number"`. `reveal(value)` shows it beside
    what came out.

    Units:  `key` names the question and is unique in the course, for example `"01-row-major-offset"`;
            `question` and `options` are plain words, with code in backticks.
    Errors: WidgetError, for an empty key or question, fewer than two options, options that are not
            different, or an unknown `answer_type`.
    """

    _esm = module("predict.js")
    _css = stylesheet()

    key = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    answer_type = traitlets.Unicode("text").tag(sync=True)
    said = traitlets.Any(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        key: str,
        question: str,
        options: Sequence[Any] | None = None,
        answer_type: str | None = None,
        **kwargs: Any,
    ) -> None:
        texts = [plain(option) for option in options or ()]
        kind = answer_type or ("choice" if texts else "text")
        if not str(key).strip():
            raise WidgetError("Predict needs a key: a name for the question, unique in the course.")
        if not str(question).strip():
            raise WidgetError(f"Predict({key!r}) needs a question in words.")
        if kind not in ANSWER_TYPES:
            raise WidgetError(
                f"Predict({key!r}): answer_type is {kind!r}; it is one of {', '.join(ANSWER_TYPES)}."
            )
        if (kind == "choice") != bool(texts):
            raise WidgetError(f"Predict({key!r}): options and answer_type='choice' go together.")
        if kind == "choice" and (len(texts) < 2 or len(set(texts)) < len(texts)):
            raise WidgetError(f"Predict({key!r}): give at least two options, all different, not {texts}.")
        super().__init__(key=str(key), question=str(question), options=texts, answer_type=kind, **kwargs)

    def reveal(self, value: Any) -> Reveal:
        """The result of the run, shown beside the reader's prediction."""
        return Reveal(self.key, value, said=self.said)

    def figure(self) -> PrintFigure:
        """The question and its options, for print."""
        from cutecourse.widgets.figures import draw_text

        lines = [self.question] + [f"[  ] {option}" for option in self.options]
        return draw_text(lines if self.options else [*lines, "My prediction: ____________"])

    def _repr_arguments(self) -> list[str]:
        return [repr(self.key), repr(self.question)] + ([f"options={self.options!r}"] if self.options else [])


class Reveal(CourseWidget):
    """Show the result beside the reader's prediction: "you said 3; the machine says 4".

    It follows a prediction that is made later, and without one shows the value alone. In print and in
    recorded outputs it reads `Reveal('key', '4')`, so a test of the notebook compares the value.
    """

    _esm = module("reveal.js")
    _css = stylesheet()

    key = traitlets.Unicode().tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)
    said = traitlets.Any(None, allow_none=True).tag(sync=True)

    def __init__(self, key: str, value: Any, said: Answer | None = None, **kwargs: Any) -> None:
        if not str(key).strip():
            raise WidgetError("Reveal needs the key of the question it answers.")
        super().__init__(key=str(key), value=plain(value), said=said, **kwargs)

    def figure(self) -> PrintFigure:
        """The answer in one line, for print."""
        from cutecourse.widgets.figures import draw_text

        return draw_text([f"The machine says {self.value}."])

    def _repr_arguments(self) -> list[str]:
        return [repr(self.key), repr(self.value)]
