"""All states of a protocol of two threads, whole and without each of its waits, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutecourse.protocols import Action, Protocol, ProtocolState
from cutecourse.widgets.errors import WidgetError

THREADS = 2
MAX_STATES = 1500
"""Over all variants: a page holds them all."""


def state_graph(
    protocol: Protocol, threads: Sequence[str], barriers: Sequence[str], places: Sequence[str]
) -> dict[str, Any]:
    """What `StateGraph` shows: the actions of both threads, and the states of each variant.

    threads, barriers, places  the names of threads, mbarriers and words of memory; () numbers them.
    Returns: `threads` (name and actions), `barriers` (name and count), and `variants`. The first variant is
             the protocol itself, each other one lacks the wait `removed` (thread, number). Its `states` come
             nearest first. Each says its positions `at`, phase and missing arrivals of each of its
             `barriers`, the states that the threads' next actions lead `to` (-1: none), the state `before`
             it on a shortest way (-1: it is the first), and its `kind`: "deadlock", "race", "end" or "".
    Errors:  WidgetError, for other than two threads, too few names, and more states than a page can hold.
    """
    if len(protocol.threads) != THREADS:
        raise WidgetError(
            f"StateGraph shows the states of two threads; this protocol has {len(protocol.threads)}."
        )
    words = 1 + max((one[1] for actions in protocol.threads for one in actions if _is_use(one)), default=-1)
    thread_names = _names("thread", threads, THREADS)
    barrier_names = _names("barrier", barriers, len(protocol.counts))
    place_names = _names("word", places, words)
    waits = [
        (t, n) for t, actions in enumerate(protocol.threads) for n, one in enumerate(actions) if _is_wait(one)
    ]
    variants = []
    total = 0
    for removed in (None, *waits):
        states = _states(protocol if removed is None else protocol.without(*removed))
        total += len(states)
        if total > MAX_STATES:
            raise WidgetError(
                f"The protocol and its variants have more than {MAX_STATES} states; take fewer k-tiles."
            )
        variants.append({"removed": None if removed is None else list(removed), "states": states})
    return {
        "threads": [
            {"name": name, "actions": [_action(one, barrier_names, place_names) for one in actions]}
            for name, actions in zip(thread_names, protocol.threads, strict=True)
        ],
        "barriers": [
            {"name": name, "count": count} for name, count in zip(barrier_names, protocol.counts, strict=True)
        ],
        "variants": variants,
    }


def shortest_way(states: Sequence[dict[str, Any]], target: int) -> str:
    """A shortest way from the first state to another one: for each step the digit of its thread."""
    way = ""
    while (before := states[target]["before"]) >= 0:
        way = str(states[before]["to"].index(target)) + way
        target = before
    return way


def follow_way(states: Sequence[dict[str, Any]], way: str) -> list[int]:
    """The states on a way, from the first one on, as far as the way can be gone."""
    found = [0]
    for digit in way:
        after = states[found[-1]]["to"][int(digit)]
        if after < 0:
            break
        found.append(after)
    return found


def nearest(states: Sequence[dict[str, Any]], kind: str) -> int | None:
    """The nearest state of a kind; None if no order reaches one."""
    return next((number for number, state in enumerate(states) if state["kind"] == kind), None)


def _is_wait(action: Action) -> bool:
    return action[0] == "wait"


def _is_use(action: Action) -> bool:
    return action[0] in {"read", "write"}


def _names(what: str, given: Sequence[str], count: int) -> list[str]:
    if given and len(given) != count:
        raise WidgetError(f"The protocol has {count} {what}s; {len(given)} names were given: {list(given)}.")
    return list(given) or [f"{what} {number}" for number in range(count)]


def _action(action: Action, barriers: Sequence[str], places: Sequence[str]) -> dict[str, Any]:
    what, where = action[:2]
    if _is_use(action):
        return {"what": what, "where": where, "words": f"{what} {places[where]}"}
    if not _is_wait(action):
        return {"what": what, "where": where, "words": f"arrive at {barriers[where]}"}
    parity = action[-1]
    words = f"wait for {barriers[where]}, parity {parity}"
    return {"what": what, "where": where, "parity": parity, "words": words}


def _states(protocol: Protocol) -> list[dict[str, Any]]:
    number = {state: at for at, state in enumerate(protocol.states)}
    rows = []
    for state, reached in protocol.states.items():
        following = [protocol.after(state, thread) for thread in range(THREADS)]
        rows.append(
            {
                "at": list(state.positions),
                "barriers": [list(one) for one in state.barriers],
                "to": [-1 if after is None else number[after] for after in following],
                "before": -1 if reached is None else number[reached[0]],
                "kind": _kind(protocol, state),
            }
        )
    return rows


def _kind(protocol: Protocol, state: ProtocolState) -> str:
    if protocol.is_deadlock(state):
        return "deadlock"
    if protocol.is_race(state):
        return "race"
    return "" if any(protocol.following(state)) else "end"
