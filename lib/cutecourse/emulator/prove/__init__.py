"""Prove that no order of events makes a kernel go wrong, or show an order that does.

`prove` gives a `Proof`. The argument and what it assumes stand in `causes`.
"""

from __future__ import annotations

from cutecourse.emulator.prove.order import EventOrder
from cutecourse.emulator.prove.proof import Proof, prove, replay

__all__ = ["EventOrder", "Proof", "prove", "replay"]
