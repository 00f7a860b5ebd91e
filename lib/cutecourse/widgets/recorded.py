"""The code of all widgets in one script: recordings hold their values alone."""

from __future__ import annotations

import json

from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.bank_map import BankMap
from cutecourse.widgets.barrier_timeline import BarrierTimeline
from cutecourse.widgets.cluster_masks import ClusterMasks
from cutecourse.widgets.descriptor_bits import DescriptorBits
from cutecourse.widgets.layout_explorer import LayoutExplorer
from cutecourse.widgets.mma_ownership import MmaOwnership, WgmmaOwnership
from cutecourse.widgets.predict import Predict, Reveal
from cutecourse.widgets.role_timeline import RoleTimeline
from cutecourse.widgets.scale_viewer import ScaleViewer
from cutecourse.widgets.sharing import shared_traits
from cutecourse.widgets.state_graph import StateGraph
from cutecourse.widgets.tma_box import TmaBox
from cutecourse.widgets.tmem_viewer import TmemViewer
from cutecourse.widgets.two_sm_stage import TwoSmStage

SOURCES = {
    BankMap: "bank_map.js",
    BarrierTimeline: "barrier_timeline.js",
    ClusterMasks: "cluster_masks.js",
    DescriptorBits: "descriptor_bits.js",
    LayoutExplorer: "layout_explorer.js",
    MmaOwnership: "mma_ownership.js",
    Predict: "predict.js",
    Reveal: "reveal.js",
    RoleTimeline: "role_timeline.js",
    ScaleViewer: "scale_viewer.js",
    StateGraph: "state_graph.js",
    TmaBox: "tma_box.js",
    TmemViewer: "tmem_viewer.js",
    TwoSmStage: "two_sm_stage.js",
    WgmmaOwnership: "mma_ownership.js",
}


def code_of_all_widgets() -> str:
    """A classic script with what the pages know of all widgets: their code, their style, and what links set.

    `static/mount.js` and `static/share.js` read it. A recording holds a widget's values and the name of its
    class, no code. The pages of a site load this script once, also from files, where a page may fetch nothing
    and load no module.
    """
    names = {widget: f"{widget.__module__}.{widget.__name__}" for widget in SOURCES}
    known = {
        "code": {names[widget]: module(source) for widget, source in SOURCES.items()},
        "shared": {names[widget]: shared for widget in SOURCES if (shared := shared_traits(widget))},
        "style": stylesheet(),
    }
    return f"globalThis.cutecourseWidgets = {json.dumps(known)};\n"
