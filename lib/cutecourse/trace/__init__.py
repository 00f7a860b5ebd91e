"""The events of an emulated launch, the recorder that collects them, and queries."""

from cutecourse.trace.accesses import AccessLog, WarpAccesses
from cutecourse.trace.event import KINDS, Event, TraceError
from cutecourse.trace.history import BarrierHistory, BarrierState, Landing, Transfer, Wait
from cutecourse.trace.recorder import Recorder
from cutecourse.trace.snapshot import CtaMemory, Mbarrier, Snapshot, SnapshotDifference
from cutecourse.trace.touches import Touch
from cutecourse.trace.trace import Trace

__all__ = [
    "KINDS",
    "AccessLog",
    "BarrierHistory",
    "BarrierState",
    "CtaMemory",
    "Event",
    "Landing",
    "Mbarrier",
    "Recorder",
    "Snapshot",
    "SnapshotDifference",
    "Touch",
    "Trace",
    "TraceError",
    "Transfer",
    "Wait",
    "WarpAccesses",
]
