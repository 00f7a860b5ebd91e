"""Launches recorded by hand, with a barrier's arithmetic of its own: a pipeline, a multicast, a deadlock."""

from __future__ import annotations

import random
from typing import Any

from cutecourse.trace import Recorder, Trace


class Hand:
    """Emits the events of a launch and keeps each barrier's state as the PTX ISA says it changes."""

    def __init__(self, kernel: str, ctas: int, threads: int = 64, seed: int = 0) -> None:
        self.recorder = Recorder()
        self.recorder.begin(
            kernel=kernel, grid=(ctas, 1, 1), block=(threads, 1, 1), cluster=(ctas, 1, 1), seed=seed
        )
        self.time = 0
        self.barriers: dict[tuple[int, int], dict[str, int]] = {}

    def emit(
        self, kind: str, rank: int, warp: int | None, line: int | None, after: int = 1, **data: Any
    ) -> int:
        self.time += after
        whole = kind.endswith((".wait", ".resume")) or (kind.startswith("tmem.") and kind != "tmem.copy")
        lane = None if warp is None or whole else 0
        place = {"cluster": 0, "rank": rank, "block": (rank, 0, 0), "warp": warp, "lane": lane, "line": line}
        return self.recorder.emit(kind, time=self.time, **place, **data)

    @staticmethod
    def name(rank: int, offset: int) -> dict[str, Any]:
        return {
            "rank": rank,
            "offset": offset,
            "name": f"{'full' if offset < 16 else 'empty'}[{offset % 16 // 8}]",
        }

    def init(self, rank: int, offset: int, count: int, line: int) -> None:
        self.barriers[rank, offset] = {"phase": 0, "pending": count, "tx": 0, "count": count}
        self.emit("mbarrier.init", rank, 0, line, barrier=self.name(rank, offset), count=count)

    def _change(self, rank: int, offset: int, arrivals: int, tx: int) -> tuple[dict[str, int], bool]:
        it = self.barriers[rank, offset]
        it["pending"] -= arrivals
        it["tx"] += tx
        done = it["pending"] == 0 and it["tx"] == 0
        if done:
            it["phase"] += 1
            it["pending"] = it["count"]
        return {name: it[name] for name in ("phase", "pending", "tx")}, done

    def _tell(
        self, kind: str, by: int, warp: int | None, line: int | None, at: tuple[int, int], **data: Any
    ) -> None:
        arrivals = data.get("count", 0)
        tx = {"mbarrier.expect_tx": 1, "mbarrier.complete_tx": -1}.get(kind, 0) * data.get("bytes", 0)
        state, done = self._change(*at, arrivals, tx)
        self.emit(kind, by, warp, line, barrier=self.name(*at), state=state, **data)
        if done:
            self.emit(
                "mbarrier.phase", at[0], None, None, 0, barrier=self.name(*at), phase=state["phase"] - 1
            )

    def arrive(self, by: int, warp: int, line: int, at: tuple[int, int], count: int = 1) -> None:
        self._tell("mbarrier.arrive", by, warp, line, at, count=count, dropped=0)

    def expect(self, by: int, line: int, at: tuple[int, int], n_bytes: int) -> None:
        self._tell("mbarrier.expect_tx", by, 0, line, at, bytes=n_bytes)

    def load(
        self, by: int, line: int, offset: int, to: list[int], tensor: str, coords: Any, n_bytes: int
    ) -> int:
        return self.emit(
            "tma.issue", by, 0, line,
            operation="load", tensor=tensor, coords=coords, box=(64, n_bytes // 128), bytes=n_bytes,
            destinations=[{"rank": rank, "offset": 1024 + 32768 * (offset // 8)} for rank in to],
            barrier=self.name(by, offset), mask=sum(1 << rank for rank in to) if len(to) > 1 else None,
            source=None,
        )  # fmt: skip

    def land(self, issue: int, rank: int, offset: int, part: int, n_bytes: int, after: int) -> None:
        place = 1024 + 32768 * (offset // 8) + part
        self.emit("tma.land", rank, None, None, after, transfer=issue, offset=place, bytes=n_bytes)
        self._tell("mbarrier.complete_tx", rank, None, None, (rank, offset), bytes=n_bytes, transfer=issue)

    def wait(self, rank: int, warp: int, line: int, offset: int, parity: int) -> bool:
        passes = self.barriers[rank, offset]["phase"] % 2 != parity
        said = {"outcome": "passed" if passes else "blocked", "name": "try_wait"}
        self.emit("mbarrier.wait", rank, warp, line, barrier=self.name(rank, offset), parity=parity, **said)
        return passes

    def resume(self, rank: int, warp: int, line: int, offset: int, parity: int) -> None:
        self.emit("mbarrier.resume", rank, warp, line, 2, barrier=self.name(rank, offset), parity=parity)


def pipeline(k_tiles: int = 4, *, bytes_a: int = 16384, bytes_b: int = 8192, idle: int = 180) -> Trace:
    """Return one CTA's two-stage pipeline: warp 0 loads A and B, warp 1 waits, reads and frees the stage."""
    hand = Hand("tma_pipeline", 1)
    for stage in (0, 8):
        hand.init(0, stage, 1, 41)
        hand.init(0, 16 + stage, 1, 42)
    hand.emit("fence", 0, 0, 44, name="mbarrier_init.release.cluster")
    pending: list[tuple[int, int, int]] = []

    def produce(k: int) -> None:
        stage, turn = 8 * (k % 2), k // 2
        if turn:
            assert hand.wait(0, 0, 60, 16 + stage, (turn - 1) % 2)
        hand.expect(0, 66, (0, stage), bytes_a + bytes_b)
        a = hand.load(0, 70, stage, [0], "A", (64 * k, 0), bytes_a)
        b = hand.load(0, 74, stage, [0], "B", (64 * k, 0), bytes_b)
        hand.arrive(0, 0, 78, (0, stage))
        pending.extend([(a, stage, bytes_a), (b, stage, bytes_b)])

    produce(0)
    produce(1)
    for k in range(k_tiles):
        stage, parity = 8 * (k % 2), k // 2 % 2
        waits = not hand.wait(0, 1, 120, stage, parity)
        for issue, at, n_bytes in [one for one in pending if one[1] == stage]:
            hand.land(issue, 0, at, 0, n_bytes // 2, idle)
            hand.land(issue, 0, at, n_bytes // 2, n_bytes // 2, 3)
        pending[:] = [one for one in pending if one[1] != stage]
        if waits:
            hand.resume(0, 1, 120, stage, parity)
        hand.arrive(0, 1, 140, (0, 16 + stage))
        if k + 2 < k_tiles:
            produce(k + 2)
    return hand.recorder.trace()


def multicast(ctas: int = 16, rounds: int = 2) -> Trace:
    """Return a cluster in which each CTA loads a slice and sends it to all: 2 x 16 landings a CTA."""
    hand = Hand("tma_multicast", ctas, seed=7)
    everyone = list(range(ctas))
    piece = 1024
    for rank in everyone:
        hand.init(rank, 0, 1, 30)
    for rank in everyone:
        hand.emit("cluster.arrive", rank, 0, 34)
        hand.emit("cluster.wait", rank, 0, 35, outcome="blocked")
    for rank in everyone:
        hand.emit("cluster.resume", rank, 0, 35)
    for turn in range(rounds):
        issues = {}
        for rank in everyone:
            hand.expect(rank, 50, (rank, 0), piece * ctas)
            hand.arrive(rank, 0, 52, (rank, 0))
        for rank in everyone:
            issues[rank] = hand.load(rank, 54, 0, everyone, "A", (64 * turn, 8 * rank), piece)
        for rank in everyone:
            hand.wait(rank, 1, 70, 0, turn % 2)
        order = [(sender, to) for sender in everyone for to in everyone]
        random.Random(turn).shuffle(order)
        for sender, to in order:
            hand.land(issues[sender], to, 0, piece * sender, piece, 40)
        for rank in everyone:
            hand.resume(rank, 1, 70, 0, turn % 2)
    return hand.recorder.trace()


def deadlock() -> Trace:
    """Return a launch that expects more bytes than it loads: both warps wait for ever."""
    hand = Hand("wrong_bytes", 1)
    hand.init(0, 0, 1, 41)
    hand.expect(0, 66, (0, 0), 16384 + 8192)
    issue = hand.load(0, 70, 0, [0], "A", (0, 0), 16384)
    hand.arrive(0, 0, 78, (0, 0))
    for warp in (0, 1):
        assert not hand.wait(0, warp, 120, 0, 0)
    hand.land(issue, 0, 0, 0, 16384, 200)
    return hand.recorder.trace()


def polling() -> Trace:
    """Return a loop around test_wait that hears no three times, another barrier at its address, a store."""
    hand = Hand("polling", 1)
    hand.init(0, 0, 2, 10)
    for _ in range(3):
        hand.emit(
            "mbarrier.wait", 0, 0, 20, 4, barrier=hand.name(0, 0), parity=0, outcome="false", name="test_wait"
        )
    hand.arrive(0, 1, 30, (0, 0), count=2)
    hand.emit(
        "mbarrier.wait", 0, 0, 20, 4, barrier=hand.name(0, 0), parity=0, outcome="passed", name="test_wait"
    )
    hand.emit("mbarrier.inval", 0, 0, 35, barrier=hand.name(0, 0))
    hand.init(0, 0, 1, 36)
    hand.emit("fence", 0, 0, 39, name="proxy.async")
    store = hand.emit(
        "tma.issue", 0, 0, 40, operation="store", tensor="D", coords=(0, 0), box=(8, 8), bytes=128,
        destinations=[], barrier=None, mask=None, source=2048,
    )  # fmt: skip
    hand.emit("bulk.commit", 0, 0, 41, group=0)
    hand.emit("bulk.wait", 0, 0, 42, left=0, read=True, outcome="blocked")
    hand.emit("tma.read", 0, None, None, 60, transfer=store)
    hand.emit("bulk.resume", 0, 0, 42)
    hand.emit("barrier.wait", 0, 0, 50, number=0)
    hand.emit("barrier.wait", 0, 1, 50, number=0)
    hand.emit("barrier.resume", 0, 0, 50, number=0)
    hand.emit("barrier.resume", 0, 1, 50, number=0)
    return hand.recorder.trace()


def tensor_cores() -> Trace:
    """Return a pair of CTAs that share MMAs: blocked alloc and dealloc, two commits, MMAs without one.

    CTA 1 allocates first and waits for CTA 0, and CTA 0 is the first to free. The first commit covers two
    MMAs and the second one more; two MMAs of another shape have no commit, and one of them never completes.
    """
    hand = Hand("pair", 2, threads=128, seed=3)
    for rank in (0, 1):
        hand.init(rank, 0, 1, 20)
    columns = {"columns": 256, "group": 2}
    hand.emit("tmem.alloc", 1, 2, 30, 9, **columns, address=None, outcome="blocked")
    hand.emit("tmem.alloc", 0, 2, 30, 9, **columns, address=0, outcome="passed")
    hand.emit("tmem.alloc", 1, 2, 30, 0, **columns, address=0, outcome="passed")
    for rank in (0, 1):
        hand.emit("tmem.relinquish", rank, 2, 31, group=2)
    hand.emit("tmem.copy", 0, 0, 35, address=128, group=2)
    hand.wait(1, 1, 60, 0, 0)

    def issue(line: int, **more: Any) -> int:
        given = {"m": 256, "n": 256, "k": 16, "types": "f32.f16.f16", "d": 0, "accumulate": True, "group": 2}
        descriptors = {"a": (1 << 62) + 1, "b": (1 << 62) + 3, "idesc": 272629776}
        return hand.emit("mma.issue", 0, 0, line, **{**given, **descriptors, **more})

    def complete(index: int, line: int) -> None:
        hand.emit("mma.complete", 0, None, line, 12, issue=index)

    first = [issue(40, accumulate=False), issue(42)]
    complete(first[0], 40)
    both = {"group": 2, "mask": 3, "barrier": hand.name(0, 0)}
    hand.emit("mma.commit", 0, 0, 44, **both, issues=first[1:])
    first.append(issue(45))
    hand.emit("mma.commit", 0, 0, 46, **{**both, "mask": None}, issues=first[1:])
    complete(first[1], 42)
    for rank in (0, 1):
        hand.arrive(0, 0, 44, (rank, 0))
    hand.resume(1, 1, 60, 0, 0)
    complete(first[2], 45)
    hand.arrive(0, 0, 46, (0, 0))
    open_ = [issue(50, m=128, n=64, a=(32 << 16) + 64, d=(32 << 16) + 192), issue(52, m=128, n=64)]
    hand.emit("tmem.load", 1, 1, 70, address=(32 << 16) + 96, shape="32x32b", registers=32)
    hand.emit("tmem.wait", 1, 1, 71, name="ld")
    hand.emit("tmem.store", 1, 1, 72, address=(32 << 16) + 96, shape="16x64b", registers=8)
    hand.emit("tmem.wait", 1, 1, 73, name="st")
    complete(open_[1], 52)
    hand.emit("tmem.dealloc", 0, 2, 80, 30, **columns, address=0, outcome="blocked")
    hand.emit("tmem.dealloc", 1, 2, 80, 5, **columns, address=0, outcome="passed")
    hand.emit("tmem.dealloc", 0, 2, 80, 0, **columns, address=0, outcome="passed")
    return hand.recorder.trace()
