"""Protocols of several tests."""

from __future__ import annotations

from cutecourse.protocols import Protocol

__all__ = ["SLOW_READER"]

SLOW_READER = Protocol(
    (1, 1),
    (
        (("write", 0), ("arrive", 0), ("wait", 1, 0), ("arrive", 0)),
        (("wait", 0, 0), ("arrive", 1)),
        (("wait", 0, 0), ("read", 0)),
    ),
)
"""The third thread takes no part in the hand-over: if it is slow, the phase that it waits for passes by."""
