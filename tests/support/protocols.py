"""Protocols of several tests."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hypothesis import strategies as st

from cutecourse.protocols import Protocol

__all__ = ["SLOW_READER", "naive_search", "small_pipelines"]

SLOW_READER = Protocol(
    (1, 1),
    (
        (("write", 0), ("arrive", 0), ("wait", 1, 0), ("arrive", 0)),
        (("wait", 0, 0), ("arrive", 1)),
        (("wait", 0, 0), ("read", 0)),
    ),
)
"""The third thread takes no part in the hand-over: if it is slow, the phase that it waits for passes by."""


def naive_search(counts: Any, threads: Any) -> tuple[set[Any], set[str]]:
    """Walk through every state of a few threads that arrive at mbarriers, wait, and read and write words.

    Knows nothing of the emulator, nor of `cutecourse.protocols`.
    Returns: the states (positions; phase and missing arrivals of each barrier), and what can go wrong in one
             of them: a set of "race", "deadlock".
    """
    start = ((0,) * len(threads), tuple((0, count) for count in counts))
    seen, todo = {start}, [start]
    wrong: set[str] = set()
    while todo:
        positions, barriers = todo.pop()
        following = [one[at] if at < len(one) else None for one, at in zip(threads, positions, strict=True)]
        accesses = [one for one in following if one and one[0] in {"read", "write"}]
        for number, (what, where) in enumerate(accesses):
            if any(at == where and "write" in {what, other} for other, at in accesses[number + 1 :]):
                wrong.add("race")
        stuck = any(following)
        for thread, action in enumerate(following):
            after = list(barriers)
            if action is None or (action[0] == "wait" and barriers[action[1]][0] % 2 == action[2]):
                continue
            if action[0] == "arrive":
                phase, pending = barriers[action[1]]
                last = pending == 1
                after[action[1]] = (phase + last, counts[action[1]] if last else pending - 1)
            stuck = False
            moved = (*positions[:thread], positions[thread] + 1, *positions[thread + 1 :])
            state = (moved, tuple(after))
            if state not in seen:
                seen.add(state)
                todo.append(state)
        if stuck:
            wrong.add("deadlock")
    return seen, wrong


@st.composite
def small_pipelines(draw: Any, consumers: int | None = None) -> tuple[list[int], list[list[Any]]]:
    """A producer and its consumers, with as many mistakes as hypothesis likes, often none."""
    stages, tiles = draw(st.integers(1, 2)), draw(st.integers(1, 5))
    consumers = consumers or draw(st.integers(1, 2))
    counts = [1] * stages + [consumers] * stages
    turns = [(k % stages, k // stages) for k in range(tiles)]
    made = [[("wait", stages + s, (turn + 1) % 2), ("write", s), ("arrive", s)] for s, turn in turns]
    used = [[("wait", s, turn % 2), ("read", s), ("arrive", stages + s)] for s, turn in turns]
    threads = [[*chain.from_iterable(made)], *([*chain.from_iterable(used)] for _ in range(consumers))]
    for _ in range(draw(st.integers(0, 2))):
        thread = draw(st.sampled_from(threads))
        if not thread:
            continue
        at, other = (draw(st.integers(0, len(thread) - 1)) for _ in range(2))
        mistake = draw(st.sampled_from(["left out", "parity", "exchanged", "count"]))
        if mistake == "left out":
            del thread[at]
        elif mistake == "exchanged":
            thread[at], thread[other] = thread[other], thread[at]
        elif mistake == "count":
            counts[draw(st.integers(0, len(counts) - 1))] = draw(st.integers(1, 2))
        elif thread[at][0] == "wait":
            thread[at] = (*thread[at][:2], 1 - thread[at][2])
    return counts, threads
