"""The base of the widgets where Python runs in a page of the book: their values travel to that page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import traitlets

from cutecourse.errors import CourseError

__all__ = ["Message", "PageWidget", "connect", "forget", "receive"]

Message = dict[str, Any]
"""`{"id": ..., "state": {...}}`; the first one of a widget has `"widget"` as well, the name of its class."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_shown: dict[str, PageWidget] = {}
_numbers = itertools.count(1)


class _Page:
    """The page that the widgets of this process are shown on."""

    send: ClassVar[Callable[[Message], None] | None] = None


class NoPage(CourseError):
    """A widget was shown where no page listens."""


def connect(send: Callable[[Message], None]) -> None:
    """Name the function that carries a widget's messages to the page."""
    _Page.send = send


def receive(message: Message) -> None:
    """Take what the reader changed on the page.

    A value that the widget refuses goes back to what it was, there as well.
    """
    widget = _shown.get(message["id"])
    if widget is not None:
        widget.take(message["state"])


def forget(shown: object) -> None:
    """Drop a widget that the page no longer shows, with its values."""
    for name in [name for name, widget in _shown.items() if widget is shown]:
        del _shown[name]


class PageWidget(traitlets.HasTraits):
    """A widget without Jupyter: its traits tagged `sync` are the same here and on the page.

    The page has the code of all widgets already, so a message holds values alone. Nothing is sent before the
    widget is shown.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._id = ""
        self._told: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """The values that the page shares."""
        return {name: getattr(self, name) for name in self.traits(sync=True)}

    def take(self, state: Mapping[str, Any]) -> None:
        """Set what the page has set, and tell it where a value came out otherwise."""
        self._told |= state
        for name in state.keys() & self.traits(sync=True).keys():
            try:
                setattr(self, name, state[name])
            except traitlets.TraitError:
                continue  # the value stays what it was, and the next line sends it
        self._tell()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """A view of the widget, after the page was told of it."""
        if _Page.send is None:
            raise NoPage(f"{type(self).__name__} needs a page to be shown on; call connect() first.")
        if not self._id:
            self._id = f"live-{next(_numbers)}"
            _shown[self._id] = self
            self._told = self.state()
            name = f"{type(self).__module__}.{type(self).__name__}"
            _Page.send({"id": self._id, "widget": name, "state": self._told})
            self.observe(lambda _: self._tell(), names=list(self.traits(sync=True)))
        return {"text/plain": repr(self), WIDGET_VIEW: {"model_id": self._id}}, {}

    def _tell(self) -> None:
        """Send the values that the page does not have."""
        changed = {name: value for name, value in self.state().items() if self._told.get(name) != value}
        if changed and _Page.send is not None:
            self._told |= changed
            _Page.send({"id": self._id, "state": changed})
