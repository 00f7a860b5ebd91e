"""Take out of a recording what differs from one run to the next, so that diffs show what changed."""

from __future__ import annotations

import itertools
import json
import re
import uuid

import nbformat
from nbformat import NotebookNode

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+(?=>)")
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "cutecourse/recordings")


def tidy(notebook: NotebookNode, *, name: str) -> None:
    """Make a recording repeatable in place: widget ids, object addresses, tracebacks, cell metadata."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            _tidy_output(output)
    _drop_unused_widgets(notebook)
    _rename_widgets(notebook, name)


def _tidy_output(output: NotebookNode) -> None:
    if output.output_type == "error":
        # The frames hold this machine's paths and IPython's colours; the message is what the page shows.
        output.traceback = [f"{output.ename}: {output.evalue}"]
    if "text" in output:
        output.text = _ADDRESS.sub("0x0", output.text)
    data = output.get("data", {})
    if "text/plain" in data:
        data["text/plain"] = _ADDRESS.sub("0x0", data["text/plain"])


def _drop_unused_widgets(notebook: NotebookNode) -> None:
    """Keep the state of shown widgets and of the models they refer to; the rest is never mounted."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    shown = [
        output["data"][WIDGET_VIEW]["model_id"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if WIDGET_VIEW in output.get("data", {})
    ]
    if not shown:
        notebook.metadata.pop("widgets", None)
        return
    reached: set[str] = set()
    while shown:
        model = shown.pop()
        if model in reached or model not in states:
            continue
        reached.add(model)
        shown += re.findall(r"IPY_MODEL_([0-9a-f]+)", json.dumps(states[model]))
    for model in set(states) - reached:
        del states[model]


def _rename_widgets(notebook: NotebookNode, name: str) -> None:
    """Number the widget models in the order in which the notebook names them: their ids are random."""
    states = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    text = json.dumps(notebook)
    order = sorted(states, key=text.index)
    counter = itertools.count()
    for model in order:
        text = text.replace(model, uuid.uuid5(_NAMESPACE, f"{name}/{next(counter)}").hex)
    renamed = nbformat.from_dict(json.loads(text))
    notebook.cells, notebook.metadata = renamed.cells, renamed.metadata
