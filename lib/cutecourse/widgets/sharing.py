"""The traits that a link to a widget carries, and the values that such a link may give them.

A trait tagged `shared=` is one that the reader changes. Its description is plain JSON, because the pages
check a link against it without Python (`static/share.js`):

| description | values |
| --- | --- |
| `"text"` | a text of up to 400 characters |
| `"flag"` | true or false |
| `[least, most]` | a whole number |
| `{"in": [...]}` | one of these values |
| `{"index": "stage.steps"}` | an index of the list that the widget has there |
| `{"list": description, "sizes": [least, most]}` | a list of so many values |
| `{"keys": {name: description}}` | an object with exactly these keys |
| `{"any": [description, ...]}` | a value of any of these kinds |

A description says nothing of how traits depend on each other. Where values do not go together, the widget
refuses them: its `render` throws, or it marks a field as invalid.

A prediction is not shared. It belongs to the reader who made it, and a link must not answer for anybody else.

In JupyterLab widgets have no links: the address of a notebook leads only to the reader's own server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

Description = Any


def several(count: int, each: Description) -> Description:
    """The description of a list of exactly so many values."""
    return {"list": each, "sizes": [count, count]}


def nothing_or(*choices: Mapping[str, Description]) -> Description:
    """The description of a selection: an empty object, or an object with exactly the keys of one choice."""
    return {"any": [{"keys": dict(keys)} for keys in ({}, *choices)]}


def shared_traits(widget: type[traitlets.HasTraits]) -> dict[str, Description]:
    """The description of each trait that a link to a widget of this class carries.

    >>> from cutecourse.widgets import TwoSmStage
    >>> shared_traits(TwoSmStage)
    {'selected': {'index': 'stage.steps'}}
    """
    tagged = widget.class_traits(sync=True, shared=lambda description: description is not None)
    return {name: trait.metadata["shared"] for name, trait in tagged.items()}
