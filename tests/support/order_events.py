"""The events of a launch for the reference model of `support.order_model`, as the observers announce them.

The race check takes a warp for a thread, gives every arrival and wait the scope of the cluster, and takes
every strong access and every fence between threads for a fence.sc of the cluster. Its docstring says so. The
events say the same, so that the model and the check judge the same execution by the same facts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np

from cutecourse.emulator import EmulatorError, Note
from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.core.kinds import CHUNK, WARP_SIZE, warps_of
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.memory.mbarriers import MBarriers
from support.order_model import (
    Access,
    Arrive,
    Commit,
    Complete,
    Event,
    Fence,
    Issue,
    Leave,
    Order,
    ProxyFence,
    Reach,
    TensorFence,
    Thread,
    Wait,
)

__all__ = ["RACES", "Judged", "judge"]

RACES = frozenset(
    {"race", "same value written", "read before its wait", "stage reused early", "source overwritten"}
)
"""The hazards that say that nothing orders two accesses of shared memory."""
Lines = frozenset[int]
"""The lines of two accesses."""


@dataclass(frozen=True)
class Judged:
    """The verdicts of the emulator and of the model on one launch."""

    error: EmulatorError | None
    notes: tuple[Note, ...]
    orders: list[Order]
    """The model of each cohort."""

    def of_model(self, *, tensor: bool = False) -> set[Lines]:
        """The races in shared memory, or in tensor memory."""
        races = {race for order in self.orders for race in order.races()}
        return {frozenset((a.line, b.line)) for a, b in races if a.in_tensor_memory == tensor}

    def unfenced(self) -> set[Lines]:
        """Threads' writes that an asynchronous operation reads with no proxy fence between them."""
        found = {pair for order in self.orders for pair in order.unfenced()}
        return {frozenset((a.line, b.line)) for a, b in found if a.writes and b.reads}

    def of_check(self) -> list[tuple[str, int, int | None]]:
        """The hazards of RACES that the emulator has reported, with their lines."""
        return [(n.hazard.name, n.line, n.other_line) for n in self.notes if n.hazard.name in RACES]

    def agree(self) -> None:
        """Assert that the emulator reports a race where the model finds one, and only there."""
        found = self.of_model()
        if self.error is None:
            reported = self.of_check()
            assert bool(reported) == bool(found), (reported, found)
            for name, *lines in reported:
                assert None in lines or frozenset(lines) in found, (name, lines, found)
        elif self.error.hazard is not None and self.error.hazard.name in RACES:
            assert any(self.error.line in lines for lines in found), (str(self.error), found)


def judge(run: Callable[[], tuple[Note, ...]]) -> Judged:
    """Run a launch that gives its notes, and give the events of its cohorts to the model."""
    launching = import_module("cutecourse.emulator.launch")  # the package's own `launch` is the function
    check = launching.look_for_races
    tellers: list[Teller] = []

    def look(cohort: Any) -> Any:
        tellers.append(Teller(cohort))
        cohort.listeners.subscribe(tellers[-1])
        return check(cohort)

    error: EmulatorError | None = None
    notes: tuple[Note, ...] = ()
    with patch.object(launching, "look_for_races", look):
        try:
            notes = run()
        except EmulatorError as raised:
            error = raised
    return Judged(error, notes, [Order(teller.events) for teller in tellers])


def _work_of(origin: Any) -> str:
    opcode, *rest = origin.site.instruction.name.split(".")
    return f"{opcode}.{rest[0]}"


class Teller(Observer):
    """Writes down what happens in a cohort."""

    def __init__(self, cohort: Any) -> None:
        self.cohort = cohort
        self.events: list[Event] = []
        plan = cohort.machine.program.own(AccessPlan)
        self.unit = plan.unit
        self.fenced = plan.fenced
        self.ended: set[Thread] = set()

    def tell(self, *events: Event) -> None:
        self.events.extend(events)

    def warps(self, bundle: Any, rows: Any) -> list[Thread]:
        """The warps of a bundle in some clusters; `rows` is a mask of lanes or warps, or None for all."""
        rows = bundle.full if rows is None else rows
        rows = warps_of(rows) if rows.ndim == 2 else rows
        return [Thread(cluster, bundle.rank, bundle.warp) for cluster in np.flatnonzero(rows).tolist()]

    def lanes(self, bundle: Any, lanes: Any) -> list[tuple[Thread, int]]:
        """Some lanes of a bundle, shape (n, 32), each with its warp."""
        return [
            (Thread(cluster, bundle.rank, bundle.warp), lane) for cluster, lane in np.argwhere(lanes).tolist()
        ]

    def thread(self, origin: Any) -> Thread:
        return Thread(origin.cluster, origin.bundle.rank, origin.bundle.warp)

    def chunks(self, chunks: Any) -> frozenset[int]:
        """The cells of chunks; a cell is a unit of the cohort's shared memory."""
        per = CHUNK // self.unit
        return frozenset(
            (np.asarray(chunks).reshape(-1, 1) * per + np.arange(per)).reshape(-1).tolist()
        )  # fmt: skip

    # --- threads --------------------------------------------------------------------------------------------

    def accessed(self, access: Any, bundle: Any, index: Any, lanes: Any, values: Any, *, away: bool) -> None:
        per = access.size // self.unit
        cells = index.reshape(-1, 1) * per + np.arange(per)
        clusters = (np.arange(bundle.n * WARP_SIZE) if lanes is None else lanes) // WARP_SIZE
        for cluster in np.unique(clusters).tolist():
            thread = Thread(cluster, bundle.rank, bundle.warp)
            own = frozenset(cells[clusters == cluster].reshape(-1).tolist())
            self.tell(Access(thread, access.site.line, own, access.reads, access.writes))
            if access.flags:
                self.tell(Fence(thread, "sc", "cluster"))

    def flagged(self, bundle: Any, mask: Any) -> None:
        self.tell(*(Fence(thread, "sc", "cluster") for thread in self.warps(bundle, mask)))

    def lanes_ended(self, bundle: Any, mask: Any) -> None:
        self.ended.update(self.warps(bundle, warps_of(mask) & ~warps_of(bundle.live)))

    # --- barriers -------------------------------------------------------------------------------------------

    def barrier_arrived(self, bundle: Any, number: int, rows: Any) -> None:
        for thread in self.warps(bundle, rows):
            self.tell(Arrive(thread, ("bar", *thread[:2], number)))

    def barrier_completed(self, rank: int, number: int, rows: Any, *, all_threads: bool) -> None:
        for cluster in np.flatnonzero(rows).tolist():
            barrier = ("bar", cluster, rank, number)
            gone = [thread for thread in sorted(self.ended) if thread[:2] == (cluster, rank)]
            self.tell(*(Arrive(thread, barrier) for thread in gone if all_threads), Complete(barrier))

    def barrier_left(self, bundle: Any, number: int, mask: Any) -> None:
        for thread in self.warps(bundle, mask):
            self.tell(Leave(thread, ("bar", *thread[:2], number)))

    def cluster_arrived(self, bundle: Any, mask: Any) -> None:
        for thread in self.warps(bundle, mask):
            self.tell(Arrive(thread, ("cluster", thread.cluster), scope="cluster"))

    def cluster_completed(self, rows: Any) -> None:
        for cluster in np.flatnonzero(rows).tolist():
            barrier = ("cluster", cluster)
            gone = [thread for thread in sorted(self.ended) if thread.cluster == cluster]
            self.tell(*(Arrive(thread, barrier, scope="cluster") for thread in gone), Complete(barrier))

    def cluster_left(self, bundle: Any, mask: Any) -> None:
        for thread in self.warps(bundle, mask):
            self.tell(Leave(thread, ("cluster", thread.cluster), scope="cluster"))

    def mbarrier_arrived(self, barrier: Any, origin: Any, work: Any, lanes: Any) -> None:
        if "relaxed" in origin.site.instruction.modifiers and not self.fenced:
            return  # it orders nothing, and an atomic operation before it is no fence
        by = self.thread(origin) if work is None else work
        self.tell(Arrive(by, barrier, "release", "cluster"))

    def mbarrier_received(self, barrier: Any, origin: Any, work: Any) -> None:
        by = self.thread(origin) if work is None else work
        if work is not None or self.fenced:
            self.tell(Arrive(by, barrier, "release", "cluster"))

    def mbarrier_completed(self, barrier: Any) -> None:
        self.tell(Complete(barrier, keeps=True))

    def mbarrier_seen(self, bundle: Any, barrier: Any, phases: int, lanes: Any) -> None:
        self.tell(Leave(Thread(barrier.cluster, bundle.rank, bundle.warp), barrier, scope="cluster"))

    # --- asynchronous work ----------------------------------------------------------------------------------

    def issue(self, work: Any, origin: Any, kind: str, cells: Any, **about: Any) -> None:
        lane = 0 if kind in {"tcgen05.ld", "tcgen05.st"} else origin.lane % WARP_SIZE
        about = {"reads": True, "writes": False, "lane": lane, **about}
        self.tell(Issue(work, (self.thread(origin),), origin.site.line, kind, cells, **about))

    def store_asked(self, origin: Any, access: Any, index: int, barrier: Any) -> None:
        per = access.size // self.unit
        about = {"reads": access.reads, "writes": True, "scope": "cluster" if access.reads else None}
        self.issue(origin, origin, "st.async", frozenset(range(index * per, (index + 1) * per)), **about)

    def commit_asked(self, origin: Any) -> None:
        self.tell(Commit(self.thread(origin), "tcgen05", origin, origin.lane % WARP_SIZE))

    def bulk_writes(self, copy: Any, parts: Any, pieces: int) -> None:
        adds = copy.operation == "reduce"
        for position, first in enumerate(copy.to.firsts):
            for part in parts:
                every = np.arange(part.start, part.stop) if isinstance(part, slice) else part
                scope = "gpu" if adds else None
                cells = self.chunks(every.reshape(-1) + first)
                self.issue((copy, position), copy.origin, "bulk", cells, reads=adds, writes=True, scope=scope)

    def bulk_over(self, copy: Any, position: int) -> None:
        barrier = self.cohort.own(MBarriers).live.get(copy.to.barriers[position])
        if barrier is not None:
            self.tell(Arrive((copy, position), barrier))

    def bulk_reads(self, copy: Any, chunks: Any) -> None:
        if copy.group is not None or copy.is_source(chunks):  # else the destination of a reduction
            self.issue((copy, 0), copy.origin, "bulk", self.chunks(chunks))

    def bulk_committed(self, site: Any, bundle: Any, lanes: Any, groups: Any) -> None:
        for thread, lane in self.lanes(bundle, lanes):
            self.tell(Commit(thread, "bulk", lane=lane))

    def bulk_waited(
        self, site: Any, bundle: Any, lanes: Any, groups: Any, newest: int, blocked: set[int]
    ) -> None:
        for thread, lane in self.lanes(bundle, lanes):
            self.tell(Wait(thread, "bulk", newest, lane=lane))

    def operands_read(self, origin: Any, operands: Any) -> None:
        for _, _, chunks, _ in operands:
            self.issue(origin, origin, _work_of(origin), self.chunks(chunks))

    def multiplication_reached(self, bundle: Any, cluster: int, multiplication: Any) -> None:
        self.tell(Reach(Thread(cluster, bundle.rank, bundle.warp), multiplication))

    def warpgroup_issued(
        self, multiplication: Any, origin: Any, warps: Any, number: int, operands: Any
    ) -> None:
        threads = tuple(Thread(origin.cluster, warp.rank, warp.warp) for warp in warps)
        for _, chunks, _ in operands:
            cells = self.chunks(chunks)
            self.tell(
                Issue(multiplication, threads, origin.site.line, "wgmma", cells, reads=True, writes=False)
            )

    def multiplication_waited(self, bundle: Any, cluster: int, multiplication: Any) -> None:
        self.tell(Wait(Thread(cluster, bundle.rank, bundle.warp), "wgmma", work=multiplication))

    # --- fences, and tensor memory --------------------------------------------------------------------------

    def happened(self, kind: str, origin: Any, *, one: bool = True, **data: Any) -> int:
        thread = self.thread(origin)
        if kind == "fence" and data["name"].startswith("tcgen05"):
            self.tell(TensorFence(thread, "before" in data["name"]))
        elif kind == "fence" and ".proxy.async" in data["name"]:
            self.tell(ProxyFence(thread))
        elif kind == "tmem.wait":
            self.tell(Wait(thread, f"tcgen05.{data['name']}"))
        elif kind in {"mma.issue", "tmem.copy", "tmem.load", "tmem.store"}:
            form = (data["d"], data["m"], data["n"]) if kind == "mma.issue" else None
            for touch in data["touches"]:
                if touch["space"] == "tensor":
                    cells = frozenset(
                        ("tensor", thread.cluster, touch["rank"], lanes, column)
                        for lanes in range(touch["lanes"][0] // 16, -(-touch["lanes"][1] // 16))
                        for column in range(*touch["range"])
                    )
                    reads = not touch["writes"] or data.get("accumulate", False)
                    self.issue(origin, origin, _work_of(origin), cells, reads=reads, writes=touch["writes"],
                               form=form)  # fmt: skip
        return 0
