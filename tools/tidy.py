"""Take out of a recording what differs from one run to the next, so that diffs show what changed.

A recorded widget is its values and its figure. Its code is not kept: a built page loads the code that the
widgets have then, once for all pages, and JupyterLab gets it from the kernel. So a change of a widget's
JavaScript or style leaves recordings as they are, and a recorded notebook that is only opened shows figures.

The record of a run keeps no times: they are those of one machine at one moment.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

RUN_RECORD = "machine-dependent"
"""The tag of a cell that shows the record of a run, which nbval does not compare."""
STORED_WIDGETS = "cutecourse_widgets"
"""In a notebook's metadata: the widgets' values, by the ids that their outputs name."""
STORED_VIEW = "cutecourse_widget"
"""In an output's metadata: the id of the widget that it shows."""

_CODE = ("_esm", "_css")
_TIME_IN_RECORD = (
    re.compile(r"\ntime +compile [^\n]*"),
    re.compile(r"<tr><th>time</th><td>[^<]*</td></tr>"),
    re.compile(r"(?<=<summary>)(?P<ran>[^<]*?) in [\d.]+ (?:s|ms|µs)(?=[:<])"),
)
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+(?=>)")
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "cutecourse/recordings")


def tidy(notebook: NotebookNode, *, name: str) -> None:
    """Make a recording repeatable in place: widget ids, object addresses, tracebacks, cell metadata."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            _tidy_output(output)
            if RUN_RECORD in cell.metadata.get("tags", []):
                drop_times(output)
    drop_unused_widgets(notebook)
    _rename_widgets(notebook, name)
    drop_code(notebook)


def store_widgets(notebook: NotebookNode) -> None:
    """Keep widgets as values beside their figures, in place: so they lie in the file, without a view."""
    state = notebook.metadata.pop("widgets", {}).get(WIDGET_STATE)
    if state is None:
        return
    notebook.metadata[STORED_WIDGETS] = state
    for output in _outputs(notebook):
        view = output.get("data", {}).pop(WIDGET_VIEW, None)
        if view is not None:
            output.metadata[STORED_VIEW] = view["model_id"]


def restore_widgets(notebook: NotebookNode) -> None:
    """What `store_widgets` did, undone in place: views and values as Jupyter has them."""
    state = notebook.metadata.pop(STORED_WIDGETS, None)
    if state is None:
        return
    notebook.metadata["widgets"] = nbformat.from_dict({WIDGET_STATE: state})
    for output in _outputs(notebook):
        model = output.get("metadata", {}).pop(STORED_VIEW, None)
        if model is not None:
            output.data[WIDGET_VIEW] = nbformat.from_dict(
                {"model_id": model, "version_major": 2, "version_minor": 0}
            )


def _outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def drop_code(notebook: NotebookNode) -> None:
    """Take the code of the course's own widgets out of their state."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for model in states.values():
        if str(model["state"].get("_anywidget_id", "")).startswith("cutecourse."):
            for name in _CODE:
                model["state"].pop(name, None)


def drop_times(output: NotebookNode) -> None:
    """Take the times out of the record of a run, in place."""
    data = output.get("data", {})
    for kind in ("text/plain", "text/html"):
        for pattern in _TIME_IN_RECORD:
            if kind in data:
                data[kind] = pattern.sub(lambda match: match.groupdict().get("ran", ""), data[kind])


def _tidy_output(output: NotebookNode) -> None:
    if output.output_type == "error":
        # The frames hold this machine's paths and IPython's colours; the message is what the page shows.
        output.traceback = [f"{output.ename}: {output.evalue}"]
    if "text" in output:
        output.text = _ADDRESS.sub("0x0", output.text)
    data = output.get("data", {})
    if "text/plain" in data:
        data["text/plain"] = _ADDRESS.sub("0x0", data["text/plain"])


def drop_unused_widgets(notebook: NotebookNode) -> None:
    """Keep the state of shown widgets and of the models they refer to; the rest is never mounted."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    views = [output.get("data", {}).get(WIDGET_VIEW) for output in _outputs(notebook)]
    reached = {model for view in views if view for model in models_below(states, view["model_id"])}
    if not reached:
        notebook.metadata.pop("widgets", None)
        return
    for model in set(states) - reached:
        del states[model]


def _rename_widgets(notebook: NotebookNode, name: str) -> None:
    """Name the widget models by the cell that shows them and their number in it: their ids are random."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    names: dict[str, str] = {}
    for cell in notebook.cells:
        number = itertools.count()
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(WIDGET_VIEW)
            for model in models_below(states, view["model_id"]) if view else ():
                if model not in names:
                    names[model] = uuid.uuid5(_NAMESPACE, f"{name}/{cell.id}/{next(number)}").hex
    text = json.dumps(notebook)
    for model, given in names.items():
        text = text.replace(model, given)
    renamed = nbformat.from_dict(json.loads(text))
    notebook.cells, notebook.metadata = renamed.cells, renamed.metadata


def models_below(states: NotebookNode, model: str) -> list[str]:
    """A widget's model and those that it refers to, in the order in which it names them."""
    found: list[str] = []
    waiting = [model]
    while waiting:
        model = waiting.pop(0)
        if model in states and model not in found:
            found.append(model)
            waiting += re.findall(r"IPY_MODEL_([0-9a-f]+)", json.dumps(states[model]))
    return found
