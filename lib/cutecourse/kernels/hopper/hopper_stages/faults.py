"""A fault of chapter 10."""

from cutecourse.kernels import hopper_stages
from cutecourse.kernels.faults import Fault, by_name

LAUNCH = hopper_stages.spec(128, 128, 640)  # more k-tiles than stages

FAULTS = by_name(
    __name__,
    Fault(
        "released_early",
        "the wait lets two groups stay under way, and TMA fills a stage that one of them reads",
        source=(("warpgroup.wait_group(1)", "warpgroup.wait_group(2)"),),
        twin=(("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;"),),
        reports=("StageReusedEarly",),
    ),
)
