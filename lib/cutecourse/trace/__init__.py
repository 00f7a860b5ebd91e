"""What an emulated launch did: events, the recorder that collects them, and queries."""

from cutecourse.trace.event import KINDS, Event, TraceError
from cutecourse.trace.history import BarrierHistory, BarrierState, Landing, Transfer, Wait
from cutecourse.trace.recorder import Recorder
from cutecourse.trace.trace import Trace

__all__ = [
    "KINDS",
    "BarrierHistory",
    "BarrierState",
    "Event",
    "Landing",
    "Recorder",
    "Trace",
    "TraceError",
    "Transfer",
    "Wait",
]
