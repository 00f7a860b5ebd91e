"""A descriptor as bits: what each field holds and means, which bits two words differ in, what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.descriptors import FORMATS, DescriptorFormat
from cutecourse.errors import CourseError
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.descriptor_reading import (
    VERSION_RULE,
    format_snapshot,
    hex_of,
    known_format,
    problems,
    taken_by,
)
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import several

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

MOST_WORDS = 8
WORDS = {"list": several(2, "text"), "sizes": [1, MOST_WORDS]}


class DescriptorBits(CourseWidget):
    """The bits of a descriptor: set a field and the word follows, type the word and the fields follow.

    `fmt` is a format of `cutecourse.descriptors` or its name. `value` is a word (a number, or a `Descriptor`
    of that format), or several by name: `{"k-block 0": 0x..., "k-block 1": 0x...}`, or a list of them. One of
    them is shown and edited; the bits in which the words are not all alike are marked. Without a value all
    bits are 0, but those that the format holds constant. `field` is the field that is chosen first.

    A word that the format refuses is welcome: the widget names what is wrong with it, and so does `problems`.

    Synced with every view: `words` (`[name, "0x..."]` each), `chosen`, the index of the word that is shown,
    and `field`.

    Errors: WidgetError, for what is no format, no word of as many bits, or a field that the format lacks.
    """

    _esm = module("descriptor_bits.js")
    _css = stylesheet()

    format = traitlets.Dict().tag(sync=True)
    words = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True, shared=WORDS)
    given = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True, shared={"index": "given"})
    field = traitlets.Unicode("").tag(sync=True, shared="text")
    title = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        fmt: DescriptorFormat | str,
        value: Any = None,
        *,
        title: str | None = None,
        chosen: int | str = 0,
        field: str = "",
        **kwargs: Any,
    ) -> None:
        found = known_format(fmt)
        if found is None:
            raise WidgetError(f"{fmt!r} is no format of a descriptor; there are {', '.join(FORMATS)}.")
        self._format = found
        words = _words(found, value)
        names = [name for name, _ in words]
        if isinstance(chosen, str):
            if chosen not in names:
                raise WidgetError(f"There is no word {chosen!r}; there are {', '.join(names)}.")
            chosen = names.index(chosen)
        super().__init__(
            format=format_snapshot(found),
            words=words,
            given=words,
            chosen=chosen,
            field=field,
            title=title or "",
            **kwargs,
        )

    @traitlets.validate("words")
    def _check_words(self, proposal: Any) -> list[list[str]]:
        return _words(self._format, {name: int(str(word), 16) for name, word in proposal["value"]})

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal: Any) -> int:
        count = len(self.words)
        if not 0 <= proposal["value"] < count:
            raise WidgetError(f"There is no word {proposal['value']}; there are {count}, counted from 0.")
        return int(proposal["value"])

    @traitlets.validate("field")
    def _check_field(self, proposal: Any) -> str:
        name = str(proposal["value"])
        if name:
            try:
                self._format.field(name)
            except CourseError as error:
                raise WidgetError(str(error)) from error
        return name

    @property
    def value(self) -> int:
        """The word that is shown."""
        return int(self.words[self.chosen][1], 16)

    @value.setter
    def value(self, value: int) -> None:
        words = [list(word) for word in self.words]
        words[self.chosen][1] = _hex(self._format, value)
        self.words = words

    @property
    def fields(self) -> dict[str, int | str | None]:
        """The meaning of each field of the shown word: a number in its unit, or a name.

        None where an enumeration has no such number.
        """
        return {
            part.field.name: part.stored * part.field.scale
            if part.field.names is None
            else part.field.name_of(part.stored)
            for part in self._format.explain(self.value).fields
        }

    @property
    def problems(self) -> list[str]:
        """Why the format refuses the shown word, in words; empty where it does not."""
        return problems(self._format, self.value)

    @property
    def taken_by(self) -> dict[str, str]:
        """The library's operations for an instruction descriptor, each with why it has none such, or ""."""
        return dict(taken_by(self._format, self.value))

    def figure(self) -> PrintFigure:
        """The bits of every word and the fields of the shown one, for print."""
        from cutecourse.widgets.descriptor_figure import draw_descriptor

        words = [(name, int(word, 16)) for name, word in self.words]
        return draw_descriptor(self._format, words, self.chosen, self.title)

    def _repr_arguments(self) -> list[str]:
        named = [name for name, _ in self.words] != [""]
        shown = [_grouped(word) for _, word in self.words]
        pairs = ", ".join(f"{name!r}: {word}" for (name, _), word in zip(self.words, shown, strict=True))
        arguments = [self._format.name, f"{{{pairs}}}" if named else shown[0]]
        if self.chosen:
            arguments.append(f"chosen={self.chosen}")
        return arguments + ([f"field={self.field!r}"] if self.field else [])


def _grouped(word: str) -> str:
    """Hexadecimal digits in fours, as Python reads them too."""
    digits = word[2:]
    return "0x" + "_".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def _hex(fmt: DescriptorFormat, value: Any) -> str:
    try:
        number = int(value)
        if isinstance(value, (bool, float)):
            raise TypeError
    except (TypeError, ValueError):
        raise WidgetError(f"{value!r} is no word of {fmt.name}; give a number of {fmt.bits} bits.") from None
    try:
        fmt.explain(number)
    except CourseError as error:
        raise WidgetError(str(error)) from error
    return hex_of(number, fmt.bits)


def _words(fmt: DescriptorFormat, value: Any) -> list[list[str]]:
    if value is None:
        constant = str(VERSION_RULE["field"])
        value = 1 << fmt.field(constant).low if fmt.name == "SmemDescriptor" else 0
    if isinstance(value, Mapping):
        words = [[str(name), _hex(fmt, word)] for name, word in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        words = [[str(index), _hex(fmt, word)] for index, word in enumerate(value)]
    else:
        words = [["", _hex(fmt, value)]]
    if not 1 <= len(words) <= MOST_WORDS:
        raise WidgetError(f"Give one to {MOST_WORDS} words, not {len(words)}.")
    return words
