"""Widgets in recorded notebooks: their values are of the recording, their code is of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.barrier_timeline import BarrierTimeline
from cutecourse.widgets.cluster_masks import ClusterMasks
from cutecourse.widgets.descriptor_bits import DescriptorBits
from cutecourse.widgets.layout_explorer import LayoutExplorer
from cutecourse.widgets.mma_ownership import MmaOwnership
from cutecourse.widgets.predict import Predict, Reveal
from cutecourse.widgets.tma_box import TmaBox
from cutecourse.widgets.tmem_viewer import TmemViewer
from cutecourse.widgets.two_sm_stage import TwoSmStage

SOURCES = {
    BarrierTimeline: "barrier_timeline.js",
    ClusterMasks: "cluster_masks.js",
    DescriptorBits: "descriptor_bits.js",
    LayoutExplorer: "layout_explorer.js",
    MmaOwnership: "mma_ownership.js",
    Predict: "predict.js",
    Reveal: "reveal.js",
    TmaBox: "tma_box.js",
    TmemViewer: "tmem_viewer.js",
    TwoSmStage: "two_sm_stage.js",
}
STATE = "application/vnd.jupyter.widget-state+json"


def with_todays_code(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook's `metadata["widgets"]` with the JavaScript and style that the widgets have now.

    A recording holds the code of its day in each model; a page built later is to have what was put right
    since. Values stay as they were recorded, and models that are not ours stay as they are.
    """
    today = {f"{widget.__module__}.{widget.__name__}": source for widget, source in SOURCES.items()}
    models = dict(metadata[STATE]["state"])
    for name, model in models.items():
        source = today.get(model["state"].get("_anywidget_id", ""))
        if source is not None:
            code = {"_esm": module(source), "_css": stylesheet()}
            models[name] = {**model, "state": {**model["state"], **code}}
    return {**metadata, STATE: {**metadata[STATE], "state": models}}
