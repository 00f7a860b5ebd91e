"""The base of every widget in the course: a repr without an address, code and style."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from cutecourse.widgets._packages import IN_BROWSER

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

if TYPE_CHECKING or not IN_BROWSER:
    from anywidget import AnyWidget as Widget
else:
    from traitlets import HasTraits as Widget


class CourseWidget(Widget):
    """A widget that prints the same way each time, so that recorded notebooks can be compared.

    It is an anywidget. On a page of the book whose cells run in the browser it is traits alone, and the page
    shows them (`cutecourse.page.widgets`).
    Subclasses say in `_repr_arguments` what identifies them: `LayoutExplorer('(4,8):(8,1)')`.
    """

    def _repr_arguments(self) -> list[str]:
        raise NotImplementedError

    def figure(self) -> PrintFigure:
        """The widget's state as a static figure."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._repr_arguments())})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        if IN_BROWSER:
            return None
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            bundle[0]["text/plain"] = repr(self)
            # For print, and for readers whose page runs no JavaScript.
            bundle[0]["image/png"] = base64.b64encode(self.figure().png()).decode("ascii")
        return bundle
