"""Widgets without Jupyter: their traits tagged `sync` are the same here and on the page that shows them.

The page has the code of all widgets already, so a message holds values alone. Nothing is sent before a widget
is shown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from traitlets import HasTraits, TraitError

from cutecourse.errors import CourseError
from cutecourse.page.outputs import WIDGET_VIEW

__all__ = ["Message", "NoPage", "connect", "connected", "forget", "receive", "show"]

Message = dict[str, Any]
"""`{"id": ..., "state": {...}}`; the first one of a widget has `"widget"` as well, the name of its class."""


class NoPage(CourseError):
    """A widget was shown where no page listens."""


class _View:
    """A widget that the page shows, and the values that the page has."""

    def __init__(self, widget: HasTraits, name: str, send: Callable[[Message], None]) -> None:
        self.widget, self.name, self._send = widget, name, send
        self._told = self._state()
        kind = f"{type(widget).__module__}.{type(widget).__name__}"
        send({"id": name, "widget": kind, "state": {**self._told}})
        widget.observe(lambda _: self._tell(), names=[*self._told])

    def take(self, state: Mapping[str, Any]) -> None:
        """Set what the page has set, and tell it where a value came out otherwise."""
        self._told |= state
        for name in state.keys() & self.widget.traits(sync=True).keys():
            try:
                setattr(self.widget, name, state[name])
            except TraitError:
                continue  # the value stays what it was, and the next line sends it
        self._tell()

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self.widget, name) for name in self.widget.traits(sync=True)}

    def _tell(self) -> None:
        """Send the values that the page does not have."""
        changed = {name: value for name, value in self._state().items() if self._told.get(name) != value}
        if changed:
            self._told |= changed
            self._send({"id": self.name, "state": changed})


class _Page:
    """The page that the widgets of this process are shown on."""

    send: ClassVar[Callable[[Message], None] | None] = None


_views: dict[str, _View] = {}
_numbers = itertools.count(1)


def connect(send: Callable[[Message], None]) -> None:
    """Name the function that carries a widget's messages to the page."""
    _Page.send = send


def connected() -> bool:
    """True if a page listens."""
    return _Page.send is not None


def show(widget: HasTraits) -> dict[str, Any]:
    """A view of a widget by MIME type, after the page was told of the widget. Errors: NoPage."""
    if _Page.send is None:
        raise NoPage(f"{type(widget).__name__} needs a page to be shown on; call connect() first.")
    view = next((view for view in _views.values() if view.widget is widget), None)
    if view is None:
        view = _View(widget, f"live-{next(_numbers)}", _Page.send)
        _views[view.name] = view
    return {"text/plain": repr(widget), WIDGET_VIEW: {"model_id": view.name}}


def receive(message: Message) -> None:
    """Take what the reader changed on the page.

    A value that the widget refuses goes back to what it was, there as well.
    """
    view = _views.get(message["id"])
    if view is not None:
        view.take(message["state"])


def forget(widget: HasTraits) -> None:
    """Drop a widget that the page no longer shows, with its values."""
    for name in [name for name, view in _views.items() if view.widget is widget]:
        del _views[name]
