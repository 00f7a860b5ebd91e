"""Checks of the exercises of chapter 2, Hello MMA."""

from __future__ import annotations

from cutecourse.checks.compare import same_int
from cutecourse.checks.registry import exercise


@exercise("02.1", "Who works together", hints=["The instruction's name says `sync`: who has to arrive?"])
def check_threads(answer: object) -> str:
    """The threads of one mma.sync."""
    same_int(
        answer,
        32,
        meaning="the number of threads that execute one mma.sync together",
        mistakes={
            128: "That is a warp group, which Hopper's wgmma needs.",
            1: "One thread issues tcgen05.mma on Blackwell; mma.sync is older.",
        },
    )
    return "One warp."
