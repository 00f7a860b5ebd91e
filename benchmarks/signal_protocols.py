"""Protocols of signals of the kinds that people write: pipelines, hand-overs, clusters."""

from __future__ import annotations

from benchmarks.signals import SLOT, Action, Signals

__all__ = ["RIGHT", "WRONG"]

Actions = list[Action]

MEET: Actions = [("cluster_arrive",), ("cluster_wait",)]


def ring(
    stages: int, tiles: int, consumers: int = 1, producers: int = 1, *, tma: bool = False, how: str = "try"
) -> Signals:
    """Producers that take turns, and consumers that each read every tile."""
    made = [[] for _ in range(producers)]
    used: Actions = []
    for k in range(tiles):
        stage, turn = k % stages, k // stages
        fill = [("arrive_expect", stage, SLOT), ("load", stage, stage)]
        made[k % producers] += [
            ("wait", stages + stage, (turn + 1) % 2, how),
            *(fill if tma else [("write", stage), ("arrive", stage)]),
        ]
        used += [("wait", stage, turn % 2, how), ("read", stage), ("arrive", stages + stage)]
    name = f"ring of {stages}, {tiles} tiles, {producers} to {consumers}{', bulk' if tma else ''}, {how}"
    return Signals.of(name, [*made, *([used] * consumers)], [1] * stages + [consumers] * stages)


def bytes_of_two_producers(tiles: int = 3) -> Signals:
    first: Actions = []
    second: Actions = []
    used: Actions = []
    for k in range(tiles):
        for slot, made in enumerate((first, second)):
            made += [("wait", 1, (k + 1) % 2), ("arrive_expect", 0, SLOT), ("load", slot, 0)]
        used += [("wait", 0, k % 2), ("read", 0), ("read", 1), ("arrive", 1)]
    return Signals.of("bytes of two producers", [first, second, used], [2, 1])


def bytes_in_two_parts(tiles: int = 2) -> Signals:
    made: Actions = []
    used: Actions = []
    for k in range(tiles):
        made += [("wait", 1, (k + 1) % 2), ("expect", 0, SLOT), ("load", 0, 0)]
        made += [("arrive_expect", 0, SLOT), ("load", 1, 0)]
        used += [("wait", 0, k % 2), ("read", 0), ("read", 1), ("arrive", 1)]
    return Signals.of("bytes in two parts", [made, used], [1, 1])


def two_loads(tiles: int = 2, stages: int = 2) -> Signals:
    made: Actions = []
    used: Actions = []
    for k in range(tiles):
        s, turn = k % stages, k // stages
        made += [("wait", stages + s, (turn + 1) % 2), ("arrive_expect", s, 2 * SLOT)]
        made += [("load", 2 * s, s), ("load", 2 * s + 1, s)]
        used += [("wait", s, turn % 2), ("read", 2 * s), ("read", 2 * s + 1), ("arrive", stages + s)]
    return Signals.of("two loads a stage", [made, used, used], [1] * stages + [2] * stages)


def ping_pong(rounds: int = 3) -> Signals:
    """Two warps take turns with two named barriers."""
    one, other = [], [("bar_arrive", 1, 2)]
    for k in range(rounds):
        one += [("sync", 1, 2), ("write", 0), ("bar_arrive", 2, 2)]
        other += [("sync", 2, 2), ("write", 0), *([("bar_arrive", 1, 2)] if k + 1 < rounds else [])]
    return Signals.of("ping-pong", [one, other])


def ping_pong_ring(tiles: int = 4) -> Signals:
    """A producer, and two consumers that take every second tile and multiply in turns."""
    made, one, other = [], [], [("bar_arrive", 1, 2)]
    for k in range(tiles):
        made += [("wait", 2 + k % 2, (k // 2 + 1) % 2), ("write", k % 2), ("arrive", k % 2)]
    for k in range(0, tiles, 2):
        one += [("sync", 1, 2), ("wait", 0, k // 2 % 2), ("read", 0), ("arrive", 2), ("bar_arrive", 2, 2)]
        other += [("sync", 2, 2), ("wait", 1, k // 2 % 2), ("read", 1), ("arrive", 3)]
        other += [("bar_arrive", 1, 2)] if k + 2 < tiles else []
    return Signals.of("ping-pong of two consumers", [made, one, other], [1] * 4)


def named_barriers(tiles: int = 3) -> Signals:
    """A named barrier for full and one for empty."""
    made: Actions = []
    used: Actions = []
    for k in range(tiles):
        made += [*([("sync", 2, 2)] if k else []), ("write", 0), ("bar_arrive", 1, 2)]
        used += [("sync", 1, 2), ("read", 0), *([("bar_arrive", 2, 2)] if k + 1 < tiles else [])]
    return Signals.of("named barriers", [made, used])


def remote_ring(tiles: int = 3) -> Signals:
    """CTA 0 sends to CTA 1 with st.async; CTA 1 arrives at CTA 0's barrier."""
    sends: Actions = []
    reads: Actions = []
    for k in range(tiles):
        sends += [("wait", 1, (k + 1) % 2, "acquire"), ("send", 0, 0, 1)]
        reads += [("arrive_expect", 0, 4), ("wait", 0, k % 2, "acquire"), ("read", 0), ("arrive", 1, 1, 0)]
    return Signals.of("remote ring", [[sends + MEET], [reads + MEET]], [1, 1])


def remote_announced_first(tiles: int = 3) -> Signals:
    """The receiver announces the next bytes before it frees the stage."""
    sends, reads = [], [("arrive_expect", 0, 4), ("arrive", 1, 1, 0)]
    for k in range(tiles):
        sends += [("wait", 1, k % 2, "acquire"), ("send", 0, 0, 1)]
        reads += [("wait", 0, k % 2, "acquire"), ("read", 0)]
        reads += [("arrive_expect", 0, 4), ("arrive", 1, 1, 0)] if k + 1 < tiles else []
    return Signals.of("remote ring, announced first", [[sends + MEET], [reads + MEET]], [1, 1])


def both_ways(rounds: int = 2, *, split: bool = False) -> Signals:
    """Each CTA writes to the other; split: with work between arrive and wait of the cluster's barrier."""
    ctas: Actions = []
    for other in (1, 0):
        actions = []
        for _ in range(rounds):
            between = [("write", 1)] if split else []
            actions += [("write", 0, other), MEET[0], *between, MEET[1], ("read", 0), *MEET]
        ctas.append([actions])
    return Signals.of(f"both ways{', split' if split else ''}", ctas)


def one_producer_for_two(tiles: int = 3) -> Signals:
    """CTA 0 writes to both CTAs, and both consumers arrive at its `empty`."""
    made: Actions = []
    ctas: Actions = []
    for k in range(tiles):
        made += [("wait", 1, (k + 1) % 2, "acquire"), ("write", 0), ("write", 0, 1)]
        made += [("arrive", 0, 1, 0), ("arrive", 0, 1, 1)]
    for cta in range(2):
        used = []
        for k in range(tiles):
            used += [("wait", 0, k % 2, "acquire"), ("read", 0), ("arrive", 1, 1, 0)]
        ctas.append([(made if cta == 0 else []) + MEET, used + MEET])
    return Signals.of("one producer for two CTAs", ctas, [1, 2])


def no_cluster_barrier_at_the_end(tiles: int = 2) -> Signals:
    """CTA 0 waits for CTA 1's last arrival, and CTA 1 uses nothing of CTA 0 after it."""
    sends: Actions = []
    reads: Actions = []
    for k in range(tiles):
        sends += [("write", 0, 1), ("arrive", 0, 1, 1), ("wait", 1, k % 2, "acquire")]
        reads += [("wait", 0, k % 2, "acquire"), ("read", 0), ("arrive", 1, 1, 0)]
    return Signals.of("no cluster barrier at the end", [[sends], [reads]], [1, 1])


def commits_to_both(tiles: int = 3) -> Signals:
    """The leader commits to the `empty` of both CTAs; the other CTA tells it that its stage is full."""
    load: Actions = []
    leader: Actions = []
    other: Actions = []
    for k in range(tiles):
        load += [("wait", 1, (k + 1) % 2, "acquire"), ("arrive_expect", 0, SLOT), ("load", 0, 0)]
        leader += [("wait", 0, k % 2, "acquire"), ("read", 0), ("wait", 2, k % 2, "acquire")]
        leader += [("commit", 1, (0, 1))]
        other += [("wait", 0, k % 2, "acquire"), ("read", 0), ("arrive", 2, 1, 0)]
    last = [("wait", 1, (tiles - 1) % 2, "acquire"), *MEET]
    ctas = [[load + MEET, leader + last], [load + MEET, other + last]]
    return Signals.of("commits to both CTAs", ctas, [1, 1, 1])


def commits(tiles: int = 3) -> Signals:
    """A load warp, an MMA warp that frees stages and then ends, an epilogue warp."""
    load: Actions = []
    mma: Actions = []
    for k in range(tiles):
        load += [("wait", 1, (k + 1) % 2), ("arrive_expect", 0, SLOT), ("load", 0, 0)]
        mma += [("wait", 0, k % 2), ("read", 0), ("commit", 1, (0,))]
    return Signals.of("commits", [load, [*mma, ("commit", 2, (0,))], [("wait", 2, 0)]], [1, 1, 1])


def two_accumulators(tiles: int = 4) -> Signals:
    mma: Actions = []
    epilogue: Actions = []
    for k in range(tiles):
        at, turn = k % 2, k // 2
        mma += [("wait", 2 + at, (turn + 1) % 2), ("write", at), ("commit", at, (0,))]
        epilogue += [("wait", at, turn % 2), ("read", at), ("arrive", 2 + at)]
    return Signals.of("two accumulators", [mma, epilogue], [1] * 4)


def copies_ring(tiles: int = 3, *, noinc: bool = True) -> Signals:
    """cp.async, counted by an mbarrier; without .noinc the thread arrives itself too."""
    made: Actions = []
    used: Actions = []
    for k in range(tiles):
        own = [] if noinc else [("arrive", 0)]
        made += [("wait", 1, (k + 1) % 2), ("copy", 0, 0, noinc), *own]
        used += [("wait", 0, k % 2), ("read", 0), ("arrive", 1)]
    return Signals.of(f"cp.async{', noinc' if noinc else ''}", [made, used], [1, 1])


def copies_of_two(*, noinc: bool) -> Signals:
    own = [] if noinc else [("arrive", 0)]
    made = [[("copy", slot, 0, noinc), *own] for slot in range(2)]
    used = [("wait", 0, 0), ("read", 0), ("read", 1)]
    return Signals.of(f"cp.async of two warps{', noinc' if noinc else ''}", [*made, used], [2])


def states(rounds: int = 2) -> Signals:
    """Two warps meet at an mbarrier by the states of their arrivals."""
    meet = [("token", 0), ("wait_token", 0)]
    one, other = ([], [])
    for _ in range(rounds):
        one += [("write", 0), *meet, *meet]
        other += [*meet, ("read", 0), *meet]
    return Signals.of("states", [one, other], [2])


def drops_out() -> Signals:
    stays = [("arrive", 0), ("wait", 0, 0), ("arrive", 0), ("wait", 0, 1), ("read", 0)]
    return Signals.of("a warp drops out", [stays, [("write", 0), ("drop", 0)]], [2])


def three_roles(tiles: int = 3) -> Signals:
    """Load, change in place, store."""
    load: Actions = []
    change: Actions = []
    store: Actions = []
    for k in range(tiles):
        load += [("wait", 2, (k + 1) % 2), ("write", 0), ("arrive", 0)]
        change += [("wait", 0, k % 2), ("read", 0), ("write", 0), ("arrive", 1)]
        store += [("wait", 1, k % 2), ("read", 0), ("arrive", 2)]
    return Signals.of("three roles", [load, change, store], [1, 1, 1])


def two_halves(tiles: int = 2) -> Signals:
    halves, used = [[], []], []
    for k in range(tiles):
        for slot, made in enumerate(halves):
            made += [("wait", 1, (k + 1) % 2), ("write", slot), ("arrive", 0)]
        used += [("wait", 0, k % 2), ("read", 0), ("read", 1), ("arrive", 1)]
    return Signals.of("two halves", [*halves, used], [2, 1])


def two_arrivals_at_once(tiles: int = 2) -> Signals:
    made: Actions = []
    used: Actions = []
    for k in range(tiles):
        made += [("wait", 1, (k + 1) % 2), ("write", 0), ("arrive", 0, 2)]
        used += [("wait", 0, k % 2), ("read", 0), ("arrive", 1)]
    return Signals.of("two arrivals at once", [made, used], [2, 1])


RIGHT = [
    ring(2, 5),
    ring(3, 7),
    ring(4, 9),
    ring(1, 3, 2, how="test"),
    ring(2, 5, 2, how="hint"),
    ring(2, 6, 1, 2, how="sleep"),
    ring(3, 7, 1, 3),
    ring(2, 5, how="peek"),
    ring(1, 3, 2, how="look"),
    ring(2, 5, tma=True),
    ring(1, 3, 2, tma=True, how="test"),
    bytes_of_two_producers(),
    bytes_in_two_parts(),
    two_loads(),
    ping_pong(),
    ping_pong_ring(),
    named_barriers(),
    remote_ring(),
    remote_announced_first(),
    both_ways(),
    both_ways(split=True),
    one_producer_for_two(),
    no_cluster_barrier_at_the_end(),
    commits_to_both(),
    commits(),
    two_accumulators(),
    copies_ring(),
    copies_ring(noinc=False),
    copies_of_two(noinc=True),
    copies_of_two(noinc=False),
    states(),
    drops_out(),
    three_roles(),
    two_halves(),
    two_arrivals_at_once(),
    Signals.of(
        "a tree",
        [
            [("write", 0), ("arrive", 0), ("wait", 2, 0), ("read", 0), ("read", 1)],
            [("wait", 0, 0), ("wait", 1, 0), ("read", 0), ("write", 0), ("arrive", 2)],
            [("write", 1), ("arrive", 1)],
        ],
        [1, 1, 1],
    ),
]

WRONG = [
    # The arrival of warp 1 may complete the phase before warp 0 announces its bytes: only its own bytes
    # follow the announcement.
    Signals.of(
        "bytes announced by nobody who arrives",
        [[("expect", 0, SLOT), ("load", 0, 0)], [("arrive", 0)], [("wait", 0, 0), ("read", 0)]],
    ),
    # The same, with the arrival of a copy on top of the count.
    Signals.of(
        "a copy counted by nobody who arrives",
        [[("copy", 0, 0, False)], [("arrive", 0)], [("wait", 0, 0), ("read", 0)]],
    ),
    # A warp takes no part in the hand-over: the phase that it waits for may pass by.
    Signals.of(
        "a watcher", [*map(list, ring(1, 3).threads[0]), [("wait", 0, k % 2) for k in range(3)]], [1, 1]
    ),
    Signals.of(
        "three warps at a barrier for two",
        [[("sync", 1, 2)], [("sync", 1, 2)], [("sync", 1, 2), ("sync", 1, 2)]],
    ),
    Signals.of(
        "a barrier for two pairs",
        [[("write", 0), ("sync", 1, 2)], [("sync", 1, 2), ("read", 0), ("sync", 1, 2)], [("sync", 1, 2)]],
    ),
]
