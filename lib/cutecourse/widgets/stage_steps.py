"""One k-tile of a pair of CTAs out of a recorded launch: loads, barriers, MMAs and commit, step by step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutecourse.trace import BarrierHistory, Event, Trace
from cutecourse.widgets.errors import WidgetError

ACTS = {
    "empty": "wait for a free stage",
    "expect": "expect bytes",
    "load": "issue loads",
    "land": "bytes land",
    "full": "wait for the stage",
    "mma": "issue MMAs",
    "commit": "commit",
    "done": "MMAs complete",
    "free": "stage is free",
}
"""The acts that a step can belong to, in the order in which a k-tile passes through them."""

Place = tuple[int, int]  # a CTA: the cluster's number, the CTA's rank in it
_Mark = tuple[int, int, int]  # a barrier: cluster, rank, offset


@dataclass
class KTile:
    """The events of one k-tile: which MMAs, who waited for which barrier, which loads filled the stage."""

    group: int
    ctas: list[Place]
    issues: list[Event]
    commit: Event
    full: dict[Place, _Mark] = field(
        default_factory=dict
    )  # the barrier that a CTA's own bytes are counted at
    loads: list[Event] = field(default_factory=list)
    landings: list[tuple[Event, Event]] = field(default_factory=list)  # bytes that land; their count


def pairs_of(trace: Trace) -> tuple[int, list[list[Place]]]:
    """How many CTAs share an MMA, and the CTAs that do, for the whole grid.

    Errors: WidgetError, for a launch without an MMA that a commit follows.
    """
    issues = trace.of("mma.issue").events
    if not issues:
        raise WidgetError(
            "The trace holds no tcgen05.mma: TwoSmStage shows a k-tile from its loads to its commit. "
            'Take the trace of such a kernel, run(umma_two_sm_pipeline, device="emulator", trace=True, ...).'
        )
    group = issues[0]["group"]
    leaders = sorted({(event.cluster, event.rank // group * group) for event in issues})
    return group, [[(cluster, rank + v) for v in range(group)] for cluster, rank in leaders]


def read_k_tile(trace: Trace, pair: int, k_tile: int) -> tuple[KTile, int, int]:
    """The events of k-tile `k_tile` of pair `pair`; with them how many pairs and k-tiles there are.

    Errors: WidgetError, for a pair or a k-tile that the launch does not have.
    """
    group, pairs = pairs_of(trace)
    what = "pair" if group == 2 else "CTA"
    if not 0 <= pair < len(pairs):
        raise WidgetError(
            f"The launch has {what}s 0 to {len(pairs) - 1} with MMAs; there is no {what} {pair}."
        )
    ctas = pairs[pair]
    tiles = _tiles(trace, ctas)
    if not tiles:
        raise WidgetError(
            f"No commit follows the MMAs of {what} {pair}, so its k-tiles cannot be told apart."
        )
    if not 0 <= k_tile < len(tiles):
        raise WidgetError(
            f"The MMAs of {what} {pair} come in {len(tiles)} commits, k-tiles 0 to {len(tiles) - 1}; "
            f"there is no k-tile {k_tile}."
        )
    issues, commit = tiles[k_tile]
    tile = KTile(group, ctas, issues, commit)
    _find_loads(trace, tile)
    return tile, len(pairs), len(tiles)


def _tiles(trace: Trace, ctas: list[Place]) -> list[tuple[list[Event], Event]]:
    """The MMAs of a pair by the first commit that waits for them: a group each k-tile."""
    mine = [e for e in trace.of("mma.issue", "mma.commit") if (e.cluster, e.rank) in ctas]
    tiles: list[tuple[list[Event], Event]] = []
    open_issues: list[Event] = []
    for event in mine:
        if event.kind == "mma.issue":
            open_issues.append(event)
        elif open_issues:
            tiles.append((open_issues, event))
            open_issues = []
    return tiles


def _find_loads(trace: Trace, tile: KTile) -> None:
    """The barrier that the issuing warp last waited for, and whose bytes completed that phase."""
    first = tile.issues[0]
    marks = {_mark(e) for e in trace.of("mbarrier.complete_tx")}
    waited = None
    for event in trace:
        if event.index >= first.index:
            break
        if (event.cluster, event.rank, event.warp) == (first.cluster, first.rank, first.warp):
            if event.kind == "mbarrier.resume" or event.data.get("outcome") == "passed":
                if event.kind.startswith("mbarrier.") and _mark(event) in marks:
                    waited = event
            elif event.kind == "mma.issue":
                waited = None
    if waited is None:
        return  # its operands came by other ways than a load that a barrier counts
    offset = waited["barrier"]["offset"]
    transfers: dict[int, Event] = {e.index: e for e in trace.of("tma.issue")}
    for cta in tile.ctas:
        mark = (*cta, offset)
        low, high = _window(trace, mark, before=first.index, parity=waited["parity"])
        for land, count in _landings(trace, mark, low, high):
            if (place := (land.cluster, land.rank)) in tile.ctas:
                tile.landings.append((land, count))
                tile.full[place] = mark
                issue = transfers.get(count["transfer"])
                if issue is not None and issue not in tile.loads:
                    tile.loads.append(issue)
    tile.landings.sort(key=lambda both: both[0].index)
    tile.loads.sort(key=lambda event: event.index)


def _mark(event: Event) -> _Mark:
    barrier = event["barrier"]
    return (event.cluster, barrier["rank"], barrier["offset"])


def _window(trace: Trace, mark: _Mark, *, before: int, parity: int) -> tuple[int, int]:
    """Between which events the phase ran that a wait for `parity`, over before event `before`, waited for."""
    ends = [(e.index, e["phase"]) for e in trace.of("mbarrier.phase") if _mark(e) == mark]
    fitting = [i for i, (index, phase) in enumerate(ends) if index < before and phase % 2 == parity]
    if not fitting:
        return -1, -1
    at = fitting[-1]
    return (ends[at - 1][0] if at else -1), ends[at][0]


def _landings(trace: Trace, mark: _Mark, low: int, high: int) -> list[tuple[Event, Event]]:
    """Each count of bytes at a barrier in a phase, with the landing that it counts."""
    found = []
    latest: dict[
        tuple[int, int], list[Event]
    ] = {}  # landings of a transfer in a CTA that are not counted yet
    for event in trace.of("tma.land", "mbarrier.complete_tx"):
        if event.kind == "tma.land":
            latest.setdefault((event.cluster, event["transfer"]), []).append(event)
            continue
        waiting = latest.get((event.cluster, event["transfer"]))
        land = waiting.pop() if waiting else None
        if land is not None and low < event.index <= high and _mark(event) == mark:
            found.append((land, event))
    return found


# ---- steps ----


@dataclass
class Barrier:
    """A barrier of the pair that the k-tile has to do with: what it is for, and every state it was in."""

    mark: _Mark
    role: str  # "full" or "empty"
    name: str
    life: BarrierHistory | None

    def state(self, index: int) -> list[int]:
        """Phase, arrivals and bytes missing after the event `index`."""
        states = self.life.states if self.life else ()
        at = bisect_right([state.event for state in states], index) - 1
        return [states[at].phase, states[at].pending, states[at].tx] if at >= 0 else [0, 0, 0]


def stage_snapshot(trace: Trace, pair: int, k_tile: int, ptx: str | None = None) -> dict[str, Any]:
    """All that the widget shows, as plain data: CTAs, loads, barriers, and the steps in their order.

    Each step says in `words` what happened, and what it changed: `barriers` (number, phase, arrivals and
    bytes missing), `land` (CTA, load, bytes), `issued` and `complete` (MMAs so far), `loads` (so far).
    Errors: WidgetError.
    """
    tile, pairs, k_tiles = read_k_tile(trace, pair, k_tile)
    narrator = _Narrator(trace, tile, k_tile)
    steps = narrator.steps()
    lines = (ptx or "").splitlines()
    used = sorted({step["line"] for step in steps if step["line"] is not None})
    return {
        "kernel": trace.kernel,
        "where": trace.device,
        "grid": list(trace.grid),
        "cluster": list(trace.cluster),
        "seed": trace.seed,
        "group": tile.group,
        "pair": pair,
        "pairs": pairs,
        "k_tile": k_tile,
        "k_tiles": k_tiles,
        "acts": [[act, text] for act, text in ACTS.items() if any(step["act"] == act for step in steps)],
        "ctas": [
            {"name": cta_name(place, trace), "part": _part(tile, v), "tensor": narrator.tensor_memory(v)}
            for v, place in enumerate(tile.ctas)
        ],
        "barriers": [
            {
                "cta": tile.ctas.index((one.mark[0], one.mark[1])),
                "role": one.role,
                "name": one.name,
                "count": one.life.count if one.life else 0,
                "start": one.state(steps[0]["index"] - 1),
                "used": any(change[0] == number for step in steps for change in step["barriers"]),
            }
            for number, one in enumerate(narrator.barriers)
        ],
        "loads": [
            {
                "index": load.index,
                "by": cta_name((load.cluster, load.rank), trace),
                "tensor": load["tensor"] or "bytes",
                "coords": load["coords"],
                "box": load["box"],
                "bytes": load["bytes"],
                "to": [
                    [tile.ctas.index((load.cluster, to["rank"])), to["offset"]]
                    for to in load["destinations"]
                    if (load.cluster, to["rank"]) in tile.ctas
                ],
            }
            for load in tile.loads
        ],
        "mmas": [f"{e['m']}×{e['n']}×{e['k']}" for e in tile.issues],
        "accumulates": bool(tile.issues[0]["accumulate"]),
        "ptx": {str(line): lines[line - 1].strip() for line in used if 0 < line <= len(lines)},
        "steps": steps,
    }


def cta_name(place: Place, trace: Trace) -> str:
    """A CTA as the timeline calls it: its rank, with the cluster's number where there are several."""
    if trace.cluster == (1, 1, 1):
        return f"CTA {place[0]}"
    return f"CTA {place[0]}:{place[1]}" if trace.grid != trace.cluster else f"CTA {place[1]}"


def _part(tile: KTile, v: int) -> str:
    return "" if tile.group == 1 else ("leader", "peer")[v]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _listed(words: Iterable[str]) -> str:
    *most, last = list(words)
    return f"{', '.join(most)} and {last}" if most else last


class _Narrator:
    """Puts a k-tile's events in order and says of each what happened."""

    def __init__(self, trace: Trace, tile: KTile, k_tile: int) -> None:
        self.trace = trace
        self.tile = tile
        self.k_tile = k_tile
        self.lives = {(one.cluster, one.rank, one.offset): one for one in trace.barriers()}
        self.leader = tile.ctas[0]
        self.waits = [wait for cta in tile.ctas for wait in self._producer_wait(cta)]
        self.barriers = self._barriers()
        self.number = {one.mark: i for i, one in enumerate(self.barriers)}

    # -- which barriers, and their names --

    def _barriers(self) -> list[Barrier]:
        marks: list[tuple[_Mark, str]] = []
        offset = next((mark[2] for mark in self.tile.full.values()), None)
        commit = self.tile.commit["barrier"]["offset"]
        for cluster, rank in self.tile.ctas:
            # The peer has a barrier at the same place, which nothing ever changes.
            if offset is not None and (cluster, rank, offset) in self.lives:
                marks.append(((cluster, rank, offset), "full"))
            freed = {_mark(wait)[2] for wait in self.waits if (wait.cluster, wait.rank) == (cluster, rank)}
            marks += [
                ((cluster, rank, place), "empty")
                for place in sorted({commit, *freed} - {offset})
                if (cluster, rank, place) in self.lives
            ]
        return [Barrier(mark, role, self._name(mark, role), self.lives.get(mark)) for mark, role in marks]

    def _name(self, mark: _Mark, role: str) -> str:
        life = self.lives.get(mark)
        if life is not None and life.name and not life.name.startswith("smem"):
            return life.name
        if role == "full":
            stages = sorted({e["barrier"]["offset"] for e in self.trace.of("mbarrier.expect_tx")})
        else:
            stages = sorted(
                {
                    one["barrier"]["offset"]
                    for tile, one in _tiles(self.trace, self.tile.ctas)
                    if tile  # each commit that closes a k-tile frees a stage
                }
            )
        several = len(stages) > 1 and mark[2] in stages
        return f"{role}[{stages.index(mark[2])}]" if several else role

    # -- which events --

    def _producer_wait(self, cta: Place) -> list[Event]:
        """The waits of the warp that issues a CTA's loads, just before the loads, from its first try on."""
        own = [load for load in self.tile.loads if (load.cluster, load.rank) == cta]
        if not own:
            return []
        first = own[0]
        full = {mark[2] for mark in self.tile.full.values()}
        found: list[Event] = []
        for event in reversed(self.trace.events):
            if event.index >= first.index:
                continue
            if (event.cluster, event.rank, event.warp) != (*cta, first.warp):
                continue
            if event.kind == "tma.issue":
                break
            if event.kind in {"mbarrier.wait", "mbarrier.resume"} and event["barrier"]["offset"] not in full:
                if found and (_mark(event), event["parity"]) != (_mark(found[-1]), found[-1]["parity"]):
                    break
                if found and (event.kind == "mbarrier.resume" or event["outcome"] == "passed"):
                    break
                found.append(event)
        # Of a loop around try_wait, the first try and the one that passed.
        return sorted({e.index: e for e in (found[-1:] + found[:1])}.values(), key=lambda e: e.index)

    def steps(self) -> list[dict[str, Any]]:
        """Every step, oldest first."""
        found: dict[int, tuple[str, str, Event, dict[str, Any]]] = {}

        def add(act: str, event: Event, words: str, **more: Any) -> None:
            found[event.index] = (act, words, event, more)

        for wait in self.waits:
            add("empty", wait, self._wait(wait, "stage"))
        self._add_full(add)
        for load in self.tile.loads:
            add("load", load, self._load(load))
        for land, count in self.tile.landings:
            add("land", count, self._land(land, count), place=land)
        self._add_mmas(add)
        self._add_arrivals(add)
        return self._with_states(dict(sorted(found.items())))

    def _with_states(
        self, found: Mapping[int, tuple[str, str, Event, dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        steps = []
        index = {load.index: i for i, load in enumerate(self.tile.loads)}
        before = [one.state(min(found) - 1) for one in self.barriers]
        loads = issued = complete = 0
        for at, (act, words, event, more) in found.items():
            last = more.get("until", at)
            after = [one.state(last) for one in self.barriers]
            step: dict[str, Any] = {
                "index": at,
                "time": event.time,
                "act": act,
                "line": event.line,
                "words": words,
                "cta": self._column(event, more),
                "barriers": [
                    [i, *now] for i, (now, old) in enumerate(zip(after, before, strict=True)) if now != old
                ],
            }
            before = after
            if (barrier := event.data.get("barrier")) is not None and event.kind != "tma.issue":
                mark = (event.cluster, barrier["rank"], barrier["offset"])
                if mark in self.number:
                    step["at"] = self.number[mark]
            if act == "load":
                loads += 1
                step["loads"] = loads
                step["load"] = index[at]
            elif act == "land":
                land = more["place"]
                step["load"] = index.get(land["transfer"], -1)
                step["land"] = [self.tile.ctas.index((land.cluster, land.rank)), step["load"], land["bytes"]]
            elif act == "mma":
                issued += 1
                step["issued"] = issued
            elif act == "done":
                complete += more["count"]
                step["complete"] = complete
            steps.append(step)
        return steps

    def _column(self, event: Event, more: Mapping[str, Any]) -> int | None:
        """In which CTA of the pair it happened; None for the doing of another pair."""
        place = more.get("place", event)
        where = (place.cluster, place.rank)
        return self.tile.ctas.index(where) if where in self.tile.ctas else None

    def _add_full(self, add: Callable[..., None]) -> None:
        """The steps of `full`: the announcement of the bytes, the end of the phase, and the waits for it."""
        first = self.tile.issues[0]
        for mark in dict.fromkeys(self.tile.full.values()):
            counts = [count for _, count in self.tile.landings if _mark(count) == mark]
            phase = next(
                e
                for e in self.trace.of("mbarrier.phase")
                if _mark(e) == mark and e.index > counts[-1].index - 1
            )
            start = max(
                (
                    e.index
                    for e in self.trace.of("mbarrier.phase")
                    if _mark(e) == mark and e.index < phase.index
                ),
                default=-1,
            )
            inside = [
                e
                for e in self.trace.of("mbarrier.expect_tx", "mbarrier.arrive")
                if _mark(e) == mark and start < e.index < phase.index
            ]
            for event in inside:
                before = next(
                    (e for e in inside if e.index == event.index - 1 and e.line == event.line), None
                )
                if event.kind == "mbarrier.expect_tx":
                    both = next(
                        (e for e in inside if e.index == event.index + 1 and e.line == event.line), None
                    )
                    until = both if both is not None and both.kind == "mbarrier.arrive" else event
                    add("expect", event, self._expect(event, until), until=until.index)
                elif before is None or before.kind != "mbarrier.expect_tx":
                    add("expect", event, self._arrive(event))
            add("full", phase, self._phase(phase))
            for wait in self._consumer_wait(first, mark, phase["phase"] % 2):
                add("full", wait, self._wait(wait, "bytes"))

    def _consumer_wait(self, first: Event, mark: _Mark, parity: int) -> list[Event]:
        """The wait of the warp that issues the MMAs: its first try, and where it went on."""
        mine: list[Event] = []
        for event in self.trace.of("mbarrier.wait", "mbarrier.resume", "mma.issue"):
            if event.index >= first.index:
                break
            if (event.cluster, event.rank, event.warp) != (first.cluster, first.rank, first.warp):
                continue
            if event.kind == "mma.issue":
                mine = []
            elif _mark(event) == mark and event["parity"] == parity:
                mine.append(event)
        return [*mine[:1], *mine[-1:]] if len(mine) > 1 else mine

    def _add_mmas(self, add: Callable[..., None]) -> None:
        total = len(self.tile.issues)
        for number, event in enumerate(self.tile.issues):
            add("mma", event, self._mma(event, number, total))
        add("commit", self.tile.commit, self._commit(self.tile.commit))
        mine = {event.index for event in self.tile.issues}
        done = [e for e in self.trace.of("mma.complete") if e["issue"] in mine]
        runs: list[list[Event]] = []
        for event in done:
            if runs and runs[-1][-1].index + 1 == event.index:  # nothing else happened in between
                runs[-1].append(event)
            else:
                runs.append([event])
        for run in runs:
            numbers = _listed(str(1 + [e.index for e in self.tile.issues].index(one["issue"])) for one in run)
            which = f"MMA {numbers} is" if len(run) == 1 else f"MMAs {numbers} are"
            words = f"{which} complete: {self._read_and_written()}."
            add("done", run[0], words, count=len(run), until=run[-1].index)

    def _add_arrivals(self, add: Callable[..., None]) -> None:
        """The commit's arrivals, in both CTAs, and what else the same phase of these barriers waits for."""
        commit = self.tile.commit
        offset = commit["barrier"]["offset"]
        for cta in self.tile.ctas:
            mark = (*cta, offset)
            here = [e for e in self.trace.of("mbarrier.arrive", "mbarrier.phase") if _mark(e) == mark]
            own = next(
                (
                    e
                    for e in here
                    if e.index > commit.index
                    and e.kind == "mbarrier.arrive"
                    and (e.cluster, e.rank, e.warp, e.line)
                    == (commit.cluster, commit.rank, commit.warp, commit.line)
                ),
                None,
            )
            if own is None:
                continue
            start = max(
                (e.index for e in here if e.kind == "mbarrier.phase" and e.index < own.index), default=-1
            )
            for event in here:
                if event.index <= start:
                    continue
                if event.kind == "mbarrier.phase":
                    add("free", event, self._phase(event))
                    break
                add("free", event, self._arrive(event))

    # -- words --

    def _who(self, event: Event) -> str:
        name = cta_name((event.cluster, event.rank), self.trace)
        return name if event.warp is None else f"{name}, warp {event.warp}"

    def _at(self, event: Event) -> str:
        mark = _mark(event)
        known = self.number.get(mark)
        name = self.barriers[known].name if known is not None else hex(mark[2])
        return f"{name} of {cta_name(mark[:2], self.trace)}"

    def _missing(self, event: Event, index: int | None = None) -> str:
        mark = _mark(event)
        if mark not in self.number:
            return ""
        barrier, at = self.barriers[self.number[mark]], event.index if index is None else index
        phase, pending, tx = barrier.state(at)
        if phase > barrier.state(event.index - 1)[0]:
            return "nothing more is missing"
        arrivals = _count(pending, "arrival")
        if tx < 0:
            return f"{arrivals} missing, {_count(-tx, 'byte')} more than expected so far"
        return (
            f"{arrivals} and {_count(tx, 'byte')} missing"
            if barrier.role == "full"
            else f"{arrivals} missing"
        )

    def _wait(self, wait: Event, what: str) -> str:
        until = "until the stage is free" if what == "stage" else "until the stage's bytes are there"
        where = f"the phase of parity {wait['parity']} of {self._at(wait)}"
        if wait.kind == "mbarrier.resume":
            return f"{self._who(wait)} goes on: {where} is complete."
        if wait["outcome"] != "passed":
            return f"{self._who(wait)} waits {until}: {where} is not complete, {self._missing(wait)}."
        mark = _mark(wait)
        phase = self.barriers[self.number[mark]].state(wait.index)[0] if mark in self.number else None
        why = f"{where} is complete"
        if phase == 0 and wait["parity"] == 1:
            why = f"{self._at(wait)} is fresh, and the phase before phase 0, of parity 1, counts as complete"
        return f"{self._who(wait)} need not wait {until}: {why}."

    def _expect(self, event: Event, until: Event) -> str:
        mark = _mark(event)
        shares = [
            (cta, sum(land["bytes"] for land, _ in self.tile.landings if (land.cluster, land.rank) == cta))
            for cta in self.tile.ctas
            if self.tile.full.get(cta) == mark
        ]
        parts = ""
        if len(shares) > 1 and sum(size for _, size in shares) == event["bytes"]:
            parts = f", {_listed(f'{size} for {cta_name(cta, self.trace)}' for cta, size in shares)},"
        arrives = " and arrives" if until is not event else ""
        return (
            f"{self._who(event)} tells {self._at(event)} to expect {_count(event['bytes'], 'byte')}{parts}"
            f"{arrives}: {self._missing(event, until.index)}."
        )

    def _arrive(self, event: Event) -> str:
        who = self._who(event)
        commit = self.tile.commit
        if event.line == commit.line and event.warp == commit.warp:
            own = (event.cluster, event.rank) == (commit.cluster, commit.rank)
            theirs = f"The commit of another pair ({who})" if self.tile.group == 2 else f"The commit of {who}"
            whose = "The commit" if own else theirs
            return f"{whose} arrives at {self._at(event)}: {self._missing(event)}."
        times = "once" if event["count"] == 1 else f"{event['count']} times"
        return f"{who} arrives {times} at {self._at(event)}: {self._missing(event)}."

    def _load(self, load: Event) -> str:
        def spot(to: Mapping[str, Any]) -> str:
            return f"{cta_name((load.cluster, to['rank']), self.trace)} at {to['offset']:#x}"

        inside = [to for to in load["destinations"] if (load.cluster, to["rank"]) in self.tile.ctas]
        others = len(load["destinations"]) - len(inside)
        box = "×".join(map(str, load["box"] or ()))
        crd = ", ".join(map(str, load["coords"] or ()))
        more = f", and to {_count(others, 'CTA')} of other pairs" if others else ""
        if others and self.tile.group == 1:
            more = f", and to {_count(others, 'other CTA')}"
        mask = "" if load["mask"] is None else f" (mask {load['mask']:#06x})"
        marks = {self.tile.full.get((load.cluster, to["rank"])) for to in inside} - {None}
        counted = _listed(
            f"{self.barriers[self.number[mark]].name} of {cta_name(mark[:2], self.trace)}"
            for mark in sorted(mark for mark in marks if mark is not None)
        )
        return (
            f"{self._who(load)} issues a load of {load['tensor'] or 'bytes'}: the box {box} at ({crd}), "
            f"{_count(load['bytes'], 'byte')}, to {_listed(map(spot, inside))}{more}{mask}; "
            f"{counted} will count them."
        )

    def _land(self, land: Event, count: Event) -> str:
        load = next((one for one in self.tile.loads if one.index == land["transfer"]), None)
        what = f" of {load['tensor']}" if load is not None and load["tensor"] else ""
        where = cta_name((land.cluster, land.rank), self.trace)
        by = ""
        if load is not None and (load.cluster, load.rank) != (land.cluster, land.rank):
            by = f", which {cta_name((load.cluster, load.rank), self.trace)} asked for,"
        return (
            f"{_count(land['bytes'], 'byte')}{what}{by} land in {where}'s shared memory; "
            f"{self._at(count)} counts them: {self._missing(count)}."
        )

    def _phase(self, event: Event) -> str:
        role = self.barriers[self.number[_mark(event)]].role
        then = {"full": "all bytes of the stage are there", "empty": "the stage may be filled again"}[role]
        return f"Phase {event['phase']} of {self._at(event)} is complete: {then}."

    def _mma(self, event: Event, number: int, total: int) -> str:
        shape = f"{event['m']}×{event['n']}×{event['k']}"
        for_whom = " for both CTAs" if event["group"] == 2 else ""
        adds = "adds to" if event["accumulate"] else "overwrites"
        return (
            f"{self._who(event)} issues MMA {number + 1} of {total}, {shape}{for_whom}: "
            f"it {adds} the accumulator at column {event['d'] & 0xFFFF} of tensor memory."
        )

    def _commit(self, event: Event) -> str:
        ranks = [rank for rank in range(16) if (event["mask"] or 0) >> rank & 1]
        where = (
            f"in {_listed(cta_name((event.cluster, rank), self.trace) for rank in ranks)}"
            if ranks
            else f"in {cta_name((event.cluster, event['barrier']['rank']), self.trace)}"
        )
        mask = f" (mask {event['mask']:#06x})" if event["mask"] is not None else ""
        known = self.number.get(_mark(event))
        name = self.barriers[known].name if known is not None else hex(event["barrier"]["offset"])
        return f"{self._who(event)} commits: when its MMAs are complete, one arrival at {name} {where}{mask}."

    def _read_and_written(self) -> str:
        both = "both CTAs'" if self.tile.group == 2 else "the CTA's"
        halves = (
            "each CTA's tensor memory holds its half of the sum"
            if self.tile.group == 2
            else ("its tensor memory holds the sum")
        )
        return f"{both} shared memory has been read, and {halves} up to k-tile {self.k_tile}"

    def tensor_memory(self, v: int) -> str:
        """The part of the accumulator that a CTA gets, as the PTX ISA places it for this shape."""
        first = self.tile.issues[0]
        m, n = first["m"], first["n"]
        columns = sorted({event["d"] & 0xFFFF for event in self.tile.issues})
        if self.tile.group == 2 and m == 128:
            wide, rows = n // 2, f"rows {64 * v} to {64 * v + 63}"
            lanes = f"lanes 0 to 63 (n below {n // 2}) and 64 to 127 (the other n)"
        elif self.tile.group == 2:
            wide, rows, lanes = n, f"rows {128 * v} to {128 * v + 127}", "lanes 0 to 127"
        elif m == 64:
            wide, rows, lanes = n, "rows 0 to 63", "lanes 0 to 15, 32 to 47, 64 to 79 and 96 to 111"
        else:
            wide, rows, lanes = n, f"rows 0 to {m - 1}", f"lanes 0 to {m - 1}"
        spans = _listed(f"{start} to {start + wide - 1}" for start in columns)
        return f"{rows} of the {m}×{n} tile in {lanes}, columns {spans}"
