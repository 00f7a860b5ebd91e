"""Protocols of all kinds of signals, a search through all their states, and their PTX.

An action is a tuple, and its first item says what a warp does. Barriers and words (slots of 16 bytes) are
numbers; `cta` is the CTA of the cluster whose barrier or word is meant, by default the warp's own.

("arrive", barrier, count, cta)        also with a count, also at another CTA
("drop", barrier)                      mbarrier.arrive_drop
("expect", barrier, bytes, cta)        expect_tx without an arrival
("arrive_expect", barrier, bytes, cta)
("load", slot, barrier)                a bulk copy into the slot that tells the barrier
("send", slot, barrier, cta)           st.async
("copy", slot, barrier, noinc)         cp.async and cp.async.mbarrier.arrive, .noinc or not
("commit", barrier, ctas)              tcgen05.commit, to one CTA or to several
("wait", barrier, parity, how)         how: a loop around "try", "hint", "test" or "sleep"; "acquire";
                                       "peek" and "look": one try_wait or test_wait, a loop if it fails
("token", barrier)                     an arrival whose state ("wait_token", barrier) waits for
("sync", number, warps)                bar.sync, and ("bar_arrive", number, warps)
("cluster_arrive",), ("cluster_wait",)
("read", slot, cta), ("write", slot, cta)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

__all__ = ["SLOT", "Action", "Signals", "mutants", "wrongs"]

SLOT = 16
"""The bytes of a slot."""
STORE = 4
"""The bytes of a st.async."""

Action = tuple[Any, ...]
Barrier = tuple[int, int, int, int]
"""Phases that are complete, arrivals that this one lacks, arrivals of the next one, bytes that it lacks."""


@dataclass(frozen=True)
class Signals:
    """A protocol: for each CTA of a cluster its warps, and for each warp its actions.

    counts   the arrivals of a phase, for each mbarrier of a CTA.
    lanes    above 1, the "warps" are lanes that run apart: so many share a warp.
    """

    name: str
    threads: tuple[tuple[tuple[Action, ...], ...], ...]
    counts: tuple[int, ...] = (1,)
    slots: int = 4
    lanes: int = 1

    @classmethod
    def of(cls, name: str, threads: Any, counts: Sequence[int] = (1,), slots: int = 4) -> Signals:
        """A protocol of lists; with one CTA the list of its warps is enough."""
        if not threads[0] or not isinstance(threads[0][0], list):
            threads = [threads]
        held = tuple(tuple(tuple(map(tuple, warp)) for warp in cta) for cta in threads)
        return cls(name, held, tuple(counts), slots)

    @property
    def warps(self) -> list[tuple[int, int, tuple[Action, ...]]]:
        """CTA, number and actions of each warp."""
        return [(c, w, actions) for c, cta in enumerate(self.threads) for w, actions in enumerate(cta)]

    def with_actions(self, cta: int, warp: int, actions: Sequence[Action], change: str) -> Signals:
        """The protocol with other actions of one warp."""
        threads = [list(one) for one in self.threads]
        threads[cta][warp] = tuple(actions)
        return replace(self, name=f"{self.name}; {change}", threads=tuple(map(tuple, threads)))

    def in_lanes(self, lanes: int) -> Signals | None:
        """The protocol with lanes for warps; None if it has a barrier that only whole warps come to."""
        if any(action[0] in {"sync", "bar_arrive"} for *_, actions in self.warps for action in actions):
            return None
        return replace(self, name=f"{self.name}; {lanes} lanes", lanes=lanes)

    @property
    def launch(self) -> dict[str, Any]:
        """Arguments for `emulator.launch` and `emulator.prove`."""
        n_warps = len(self.threads[0])
        return {
            "ptx": _ptx(self),
            "grid": len(self.threads),
            "block": 32 * -(-n_warps // self.lanes),
            "args": [np.zeros(SLOT, np.uint8)],
        }


# --- a search through all states ----------------------------------------------------------------------------


class Work(NamedTuple):
    """Something under way: what it does next, by its queue; work of one queue is done in its order."""

    queue: Any
    steps: tuple[tuple[Any, ...], ...]
    cta: int


class State(NamedTuple):
    """Where each warp stands, what it holds of barriers, the barriers, and the work under way.

    at        for each warp its next action; for one that has arrived at bar.sync, also the round.
    tokens    for each warp the phase of its last state, or None.
    named     for (CTA, number) the round of a named barrier and its arrivals, as sorted pairs.
    cluster   the round of the cluster's barrier and its arrivals.
    """

    at: tuple[tuple[int, int | None], ...]
    tokens: tuple[int | None, ...]
    barriers: tuple[Barrier, ...]
    named: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    cluster: tuple[int, int]
    work: tuple[Work, ...]


class _Refused(Exception):
    """An action that no barrier allows."""


class _Search:
    """All states of one protocol, and what can go wrong in them."""

    def __init__(self, protocol: Signals) -> None:
        self.warps = protocol.warps
        self.per_cta = len(protocol.counts)
        self.wrong: set[str] = set()
        barriers = tuple((0, n, n, 0) for _ in protocol.threads for n in protocol.counts)
        none = (None,) * len(self.warps)
        self.start = State(((0, None),) * len(self.warps), none, barriers, (), (0, 0), ())

    def run(self, most: int) -> set[str]:
        """Walk through every state. Errors: ValueError for more than `most` states."""
        seen, todo = {self.start}, [self.start]
        while todo:
            state = todo.pop()
            self._look(state)
            following = [*self._work_goes_on(state), *self._warps_go_on(state)]
            if not following and any(self._next(state, n) for n in range(len(self.warps))):
                self.wrong.add("deadlock")
            new = [one for one in dict.fromkeys(following) if one not in seen]
            seen.update(new)
            todo += new
            if len(seen) > most:
                raise ValueError(f"more than {most} states")
        return self.wrong

    def _next(self, state: State, number: int) -> Action | None:
        actions = self.warps[number][2]
        at = state.at[number][0]
        return actions[at] if at < len(actions) else None

    def _has_ended(self, state: State, cta: int) -> bool:
        return all(self._next(state, n) is None for n, (c, *_) in enumerate(self.warps) if c == cta)

    def _look(self, state: State) -> None:
        """Note what is wrong in a state: two uses of a slot that may come now, memory that is gone."""
        uses = []
        for number, (cta, *_) in enumerate(self.warps):
            action = self._next(state, number)
            if action is None:
                continue
            if action[0] in {"read", "write"}:
                uses.append(((_item(action, 2, cta), action[1]), action[0] == "write"))
            place = {"read": 2, "write": 2, "arrive": 3, "expect": 3, "arrive_expect": 3, "send": 3}
            target = _item(action, place.get(action[0], 99), cta)
            if target != cta and self._has_ended(state, target):
                self.wrong.add("gone")
        for work in state.work:
            uses += [(step[1:], True) for step in work.steps[:1] if step[0] == "write"]
            for step in work.steps:
                target = step[1] if step[0] == "write" else step[1] // self.per_cta
                own = target == work.cta and (work.queue or [""])[0] in _MAY_BE_LEFT
                if self._has_ended(state, target) and not own:
                    self.wrong.add("gone")
        for at, (slot, writes) in enumerate(uses):
            if any(slot == other and (writes or also) for other, also in uses[at + 1 :]):
                self.wrong.add("race")

    # --- barriers -------------------------------------------------------------------------------------------

    def _changed(
        self, barriers: tuple[Barrier, ...], number: int, arrivals: int = 0, n_bytes: int = 0, drops: int = 0
    ) -> tuple[Barrier, ...]:
        phase, pending, count, lacks = barriers[number]
        pending, count, lacks = pending - arrivals, count - drops, lacks + n_bytes
        if pending < 0:
            self.wrong.add("count")
            raise _Refused
        if pending == 0 and lacks == 0:
            phase, pending = phase + 1, count
        return (*barriers[:number], (phase, pending, count, lacks), *barriers[number + 1 :])

    # --- what comes next ------------------------------------------------------------------------------------

    def _work_goes_on(self, state: State) -> Iterator[State]:
        queues = set()
        for at, one in enumerate(state.work):
            if one.queue in queues:
                continue
            if one.queue is not None:
                queues.add(one.queue)
            step, *left = one.steps
            barriers = state.barriers
            try:
                if step[0] == "bytes":
                    barriers = self._changed(barriers, step[1], n_bytes=-step[2])
                elif step[0] == "arrive":
                    barriers = self._changed(barriers, step[1], 1)
            except _Refused:
                continue
            rest = (one._replace(steps=tuple(left)),) if left else ()
            work = (*state.work[:at], *rest, *state.work[at + 1 :])
            yield state._replace(barriers=barriers, work=work)

    def _warps_go_on(self, state: State) -> Iterator[State]:
        for number in range(len(self.warps)):
            action = self._next(state, number)
            if action is None:
                continue
            try:
                after = self._after(state, number, action)
            except _Refused:
                continue
            if after is not None:
                yield after

    def _after(self, state: State, number: int, action: Action) -> State | None:
        """The state after a warp's action; None if the warp has to wait."""
        cta, _, actions = self.warps[number]
        at, round_ = state.at[number]
        on = state._replace(at=_put(state.at, number, (at + 1, None)))
        what, *rest = action

        def barrier(cta_at: int = 99) -> int:
            return int(_item(action, cta_at, cta)) * self.per_cta + int(action[1])

        if what in {"read", "write"}:
            return on
        if what == "wait":
            return None if state.barriers[barrier()][0] % 2 == rest[1] else on
        if what == "arrive":
            return on._replace(barriers=self._changed(state.barriers, barrier(3), _item(action, 2, 1)))
        if what == "drop":
            return on._replace(barriers=self._changed(state.barriers, barrier(), 1, drops=1))
        if what in {"expect", "arrive_expect"}:
            arrivals = int(what == "arrive_expect")
            return on._replace(barriers=self._changed(state.barriers, barrier(3), arrivals, rest[1]))
        if what == "token":
            phase = state.barriers[barrier()][0]
            barriers = self._changed(state.barriers, barrier(), 1)
            return on._replace(barriers=barriers, tokens=_put(state.tokens, number, phase))
        if what == "wait_token":
            return self._wait_token(state, on, number, barrier())
        if what in {"load", "send", "copy", "commit"}:
            return self._issue(state, on, number, action)
        if what in {"sync", "bar_arrive"}:
            return self._meet(state, on, number, action, round_)
        if what == "cluster_arrive":
            turn, n = state.cluster
            whole = n + 1 == len(self.warps)
            return on._replace(cluster=(turn + whole, 0 if whole else n + 1))
        assert what == "cluster_wait", action
        waited = sum(one[0] == "cluster_wait" for one in actions[:at])
        return on if state.cluster[0] > waited else None

    def _wait_token(self, state: State, on: State, number: int, barrier: int) -> State | None:
        token, phase = state.tokens[number], state.barriers[barrier][0]
        if token is None or phase > token + 1:  # no state, or one that is too old to ask for
            self.wrong.add("state")
            raise _Refused
        return on if phase > token else None

    def _issue(self, state: State, on: State, number: int, action: Action) -> State:
        """Begin work: what it writes, and then what it tells a barrier."""
        what, cta = action[0], self.warps[number][0]
        barriers = state.barriers
        if what == "commit":
            at, one = action[1], self.per_cta
            new = [Work(("commit", number, to), (("arrive", to * one + at),), cta) for to in action[2]]
            return on._replace(work=(*state.work, *new))
        target = _item(action, 3, cta) if what == "send" else cta
        barrier = target * self.per_cta + action[2]
        tells: tuple[Any, ...] = ("bytes", barrier, STORE if what == "send" else SLOT)
        if what == "copy":
            tells = ("arrive", barrier)
            if not action[3]:
                barriers = self._changed(barriers, barrier, -1)
        queue = ("copy", number) if what == "copy" else None
        work = Work(queue, (("write", target, action[1]), tells), cta)
        return on._replace(work=(*state.work, work), barriers=barriers)

    def _meet(self, state: State, on: State, number: int, action: Action, round_: int | None) -> State | None:
        what, key, warps = action[0], (self.warps[number][0], action[1]), action[2]
        named = dict(state.named)
        turn, n = named.get(key, (0, 0))
        if round_ is not None:
            return on if turn > round_ else None
        whole = n + 1 == warps
        named[key] = (turn + whole, 0 if whole else n + 1)
        stays = what == "sync" and not whole
        at = _put(state.at, number, (state.at[number][0], turn)) if stays else on.at
        return on._replace(at=at, named=tuple(sorted(named.items())))


_MAY_BE_LEFT = {"copy", "commit"}
"""Work that a CTA may leave behind: nobody looks at what it writes, or at whom it tells."""


def _item(action: Action, position: int, default: int) -> int:
    return int(action[position]) if len(action) > position else default


def _put(held: tuple[Any, ...], position: int, value: Any) -> tuple[Any, ...]:
    return (*held[:position], value, *held[position + 1 :])


def wrongs(protocol: Signals, most: int = 200_000) -> set[str]:
    """What can go wrong in a protocol: a set of "race", "deadlock", "count", "state" and "gone".

    Knows nothing of the emulator. Errors: ValueError for more than `most` states.
    """
    return _Search(protocol).run(most)


# --- changes ------------------------------------------------------------------------------------------------


def mutants(protocol: Signals) -> Iterator[Signals]:
    """The protocol with one change each: an action dropped, done twice or exchanged, another number."""
    for cta, warp, actions in protocol.warps:
        for at, action in enumerate(actions):
            what = action[0]
            become: list[tuple[Action, ...]] = [()]
            if what == "wait":
                become.append(((*action[:2], 1 - action[2], *action[3:]),))
            if what == "arrive":
                become.append((action, action))
            if what in {"expect", "arrive_expect"}:
                become.append(((*action[:2], 2 * action[2], *action[3:]),))
            if what == "arrive_expect":
                become += [(("expect", *action[1:]),), (("arrive", action[1], 1, *action[3:]),)]
            for instead in become:
                changed = (*actions[:at], *instead, *actions[at + 1 :])
                yield protocol.with_actions(cta, warp, changed, f"{cta}/{warp}/{at} {action} is {instead}")
            if at + 1 < len(actions):
                changed = (*actions[:at], actions[at + 1], action, *actions[at + 2 :])
                yield protocol.with_actions(cta, warp, changed, f"{cta}/{warp}/{at} {action} one later")
    for barrier, count in enumerate(protocol.counts):
        for other in (count - 1, count + 1):
            if other:
                counts = (*protocol.counts[:barrier], other, *protocol.counts[barrier + 1 :])
                yield replace(
                    protocol, name=f"{protocol.name}; barrier {barrier} counts {other}", counts=counts
                )


# --- PTX ----------------------------------------------------------------------------------------------------


def _address(symbol: str, offset: int, cta: int) -> str:
    return f"mov.u32 %a, {symbol}; add.u32 %a, %a, {offset}; mapa.shared::cluster.u32 %a, %a, {cta};"


def _wait(barrier: str, parity: int, how: str, label: str) -> list[str]:
    if how in {"peek", "look"}:
        what = {"peek": "try_wait", "look": "test_wait"}[how]
        peek = f"mbarrier.{what}.parity.shared::cta.b64 %p, [{barrier}], {parity};"
        return [peek, f"@%p bra {label}D;", *_wait(barrier, parity, "try", label), f"{label}D:"]
    what = {"test": "test_wait", "sleep": "test_wait"}.get(how, "try_wait")
    order = ".acquire.cluster" if how == "acquire" else ""
    hint = ", 10000" if how == "hint" else ""
    test = f"{label}: mbarrier.{what}.parity{order}.shared::cta.b64 %p, [{barrier}], {parity}{hint};"
    if how == "sleep":
        return [test, f"@%p bra {label}D;", "nanosleep.u32 20;", f"bra {label};", f"{label}D:"]
    return [test, f"@!%p bra {label};"]


def _instructions(action: Action, cta: int, label: str, value: int) -> list[str]:
    """An action in PTX: all lanes of a warp wait and meet, and lane 0 does the rest."""
    what, *rest = action
    barrier = f"bars+{8 * action[2 if what in {'load', 'copy', 'send'} else 1]}" if rest else ""
    local = "shared::cta.b64"
    if what == "wait":
        return _wait(barrier, action[2], action[3] if len(action) > 3 else "try", label)
    if what == "wait_token":
        test = f"@%one mbarrier.try_wait.{local} %p, [{barrier}], %state;"
        return [f"{label}:", test, "@!%one setp.eq.u32 %p, 0, 0;", f"@!%p bra {label};"]
    if what in {"arrive", "arrive_expect", "expect"}:
        verb = {"arrive": "arrive", "arrive_expect": "arrive.expect_tx", "expect": "expect_tx"}[what]
        sink = "" if what == "expect" else "_, "
        number = f", {action[2]}" if len(action) > 2 else ""
        if len(action) > 3:
            order = "relaxed" if what == "expect" else "release"
            far = f"@%one mbarrier.{verb}.{order}.cluster.shared::cluster.b64 {sink}[%a]{number};"
            return [_address("bars", 8 * action[1], action[3]), far]
        order = ".relaxed.cta" if what == "expect" else ""
        return [f"@%one mbarrier.{verb}{order}.{local} {sink}[{barrier}]{number};"]
    if what == "send":
        far = [_address("bars", 8 * action[2], action[3]), "mov.u32 %b, %a;"]
        store = "@%one st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%a], 7, [%b];"
        return [*far, _address("data", SLOT * action[1], action[3]), store]
    if what == "commit":
        commit = "@%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
        start = f"mov.u32 %a, bars; add.u32 %a, %a, {8 * action[1]};"
        if tuple(action[2]) == (cta,):
            return [start, f"{commit}.b64 [%a];"]
        mask = sum(1 << target for target in action[2])
        return [start, f"mov.u16 %mask, {mask};", f"{commit}.multicast::cluster.b64 [%a], %mask;"]
    if what in {"read", "write"}:
        far = _item(action, 2, cta) != cta
        place = "%a" if far else f"data+{SLOT * action[1]}"
        space = "shared::cluster" if far else "shared::cta"
        use = f"ld.{space}.u32 %x, [{place}];" if what == "read" else f"st.{space}.u32 [{place}], {value};"
        return [*([_address("data", SLOT * action[1], action[2])] if far else []), f"@%one {use}"]
    slot = f"data+{SLOT * action[1]}" if rest else ""
    numbers = [action[1], 32 * action[2]] if what in {"sync", "bar_arrive"} else []
    bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    simple: dict[str, Callable[[], list[str]]] = {
        "drop": lambda: [f"@%one mbarrier.arrive_drop.{local} _, [{barrier}];"],
        "token": lambda: [f"@%one mbarrier.arrive.{local} %state, [{barrier}];"],
        "load": lambda: [f"@%one {bulk} [{slot}], [%src], {SLOT}, [{barrier}];"],
        "copy": lambda: [
            f"@%one cp.async.ca.shared.global [{slot}], [%src], {SLOT};",
            f"@%one cp.async.mbarrier.arrive{'.noinc' if action[3] else ''}.shared.b64 [{barrier}];",
        ],
        "sync": lambda: [f"bar.sync {numbers[0]}, {numbers[1]};"],
        "bar_arrive": lambda: [f"bar.arrive {numbers[0]}, {numbers[1]};"],
        "cluster_arrive": lambda: ["barrier.cluster.arrive;"],
        "cluster_wait": lambda: ["barrier.cluster.wait;"],
    }
    return simple[what]()


def _ptx(protocol: Signals) -> str:
    n_ctas, n_warps = len(protocol.threads), len(protocol.threads[0])
    jumps, body = [], []
    for cta, warp, actions in protocol.warps:
        jumps += [f"setp.eq.u32 %p, %me, {cta * n_warps + warp};", f"@%p bra T{cta}_{warp};"]
        body.append(f"T{cta}_{warp}:")
        for at, action in enumerate(actions):
            body += _instructions(action, cta, f"L{cta}_{warp}_{at}", 100 * warp + at + 1)
        body.append("bra END;")
    inits = [
        f"@%boss mbarrier.init.shared::cta.b64 [bars+{8 * at}], {n};" for at, n in enumerate(protocol.counts)
    ]
    zeros = [f"@%boss st.shared.u32 [data+{SLOT * at}], 0;" for at in range(protocol.slots)]
    cluster = ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]
    meeting = ["fence.mbarrier_init.release.cluster;", *cluster] if n_ctas > 1 else ["bar.sync 0;"]
    others = [
        f"mad.lo.u32 %me, %warp, {protocol.lanes}, %lane;",
        f"setp.ge.u32 %p, %me, {n_warps};",
        "@%p bra END;",
        "@!%one bra END;",
        f"mad.lo.u32 %me, %rank, {n_warps}, %me;",
    ]
    commits = any(action[0] == "commit" for *_, actions in protocol.warps for action in actions)
    return _KERNEL.format(
        target="sm_100a" if commits else "sm_90a",
        cluster=f".reqnctapercluster {n_ctas}" if n_ctas > 1 else "",
        barriers=len(protocol.counts),
        n_bytes=SLOT * protocol.slots,
        n_warps=n_warps,
        lanes=protocol.lanes,
        body="\n".join([*zeros, *inits, *meeting, *(others if protocol.lanes > 1 else []), *jumps, *body]),
    )


_KERNEL = """\
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 src)
{cluster}
{{
    .shared .align 8 .b64 bars[{barriers}];
    .shared .align 16 .b8 data[{n_bytes}];
    .reg .b32 %warp, %lane, %x, %a, %b, %me, %rank;
    .reg .b16 %mask;
    .reg .b64 %src, %state;
    .reg .pred %p, %one, %boss;
    ld.param.u64 %src, [src];
    mov.u32 %me, %tid.x;
    setp.eq.u32 %boss, %me, 0;
    shr.u32 %warp, %me, 5;
    and.b32 %lane, %me, 31;
    setp.lt.u32 %one, %lane, {lanes};
    mov.u32 %rank, %cluster_ctarank;
    mad.lo.u32 %me, %rank, {n_warps}, %warp;
{body}
END:
    ret;
}}
"""
