"""The course's widgets, in JupyterLab and on built pages: layouts to edit, owners of cells, predictions."""

# ruff: noqa: E402 - the check comes first, so that one clear error replaces an import that fails deep inside
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cutecourse.widgets import _packages

_packages.require()

from cutecourse.widgets.bank_map import BankMap
from cutecourse.widgets.barrier_timeline import BarrierTimeline
from cutecourse.widgets.cluster_masks import ClusterMasks
from cutecourse.widgets.descriptor_bits import DescriptorBits
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.layout_explorer import OPERATIONS, LayoutExplorer, apply_operation
from cutecourse.widgets.mma_ownership import MmaOwnership, WgmmaOwnership
from cutecourse.widgets.predict import Predict, Reveal
from cutecourse.widgets.recorded import code_of_all_widgets
from cutecourse.widgets.role_timeline import RoleTimeline
from cutecourse.widgets.scale_viewer import ScaleViewer
from cutecourse.widgets.state_graph import StateGraph
from cutecourse.widgets.tilers import parse_tiler
from cutecourse.widgets.tma_box import TmaBox
from cutecourse.widgets.tmem_viewer import TmemViewer
from cutecourse.widgets.two_sm_stage import TwoSmStage

if TYPE_CHECKING:
    from cutecourse.widgets.cluster_figure import draw_cluster_masks
    from cutecourse.widgets.figures import PrintFigure, draw_layout, draw_layouts, draw_ownership
    from cutecourse.widgets.timeline_figure import draw_timeline
    from cutecourse.widgets.track_figure import TrackFigure, draw_tracks

__all__ = [
    "OPERATIONS",
    "BankMap",
    "BarrierTimeline",
    "ClusterMasks",
    "DescriptorBits",
    "LayoutExplorer",
    "MmaOwnership",
    "Predict",
    "PrintFigure",
    "Reveal",
    "RoleTimeline",
    "ScaleViewer",
    "StateGraph",
    "TmaBox",
    "TmemViewer",
    "TrackFigure",
    "TwoSmStage",
    "WgmmaOwnership",
    "WidgetError",
    "apply_operation",
    "code_of_all_widgets",
    "draw_cluster_masks",
    "draw_layout",
    "draw_layouts",
    "draw_ownership",
    "draw_timeline",
    "draw_tracks",
    "parse_tiler",
]

_FIGURES = {
    "PrintFigure": "figures",
    "TrackFigure": "track_figure",
    "draw_cluster_masks": "cluster_figure",
    "draw_layout": "figures",
    "draw_layouts": "figures",
    "draw_ownership": "figures",
    "draw_timeline": "timeline_figure",
    "draw_tracks": "track_figure",
}


def __getattr__(name: str) -> Any:
    """Import a figure for print when it is asked for: Matplotlib loads slowly, and not in a browser."""
    if name not in _FIGURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FIGURES[name]}"), name)
