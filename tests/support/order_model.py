"""Which operations of one execution the PTX ISA orders, and which pairs of accesses race.

`Order(events)` takes what the threads of one execution did, in the order in which it happened. It makes a
graph: a path leads from an operation to each operation that the ISA orders after it. Clarity comes first, so
each rule stands next to the sentence of the ISA that it follows. Nothing here knows the emulator.

A `Thread` is one thread of the execution; a caller that does not tell lanes apart takes a warp for a thread.
A cell is a piece of memory, such as ("shared", cta, byte), that accesses share or do not.

Where the ISA is silent: fence.sc is an acquire-release fence too. tcgen05.commit and st.async publish what
their thread did before. A copy's signal at an mbarrier is in the scope of every wait for it. wgmma comes
after what any of its four warps did before.

Source: PTX ISA 9.2, Memory Consistency Model (#memory-consistency-model); Memory Consistency Model for 5th
        generation of TensorCore operations (#tcgen05-memory-consistency-model); Async Proxy
        (#async-proxy); wgmma.mma_async (#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

Cells = frozenset[Hashable]


class Thread(NamedTuple):
    cluster: int
    cta: int
    number: int


# --- events -------------------------------------------------------------------------------------------------


class Access(NamedTuple):
    """A thread reads or writes memory. `sem` is "weak", "relaxed", "acquire", "release" or "acq_rel"."""

    thread: Thread
    line: int
    cells: Cells
    reads: bool
    writes: bool
    sem: str = "weak"
    scope: str = "cta"


class Fence(NamedTuple):
    """A thread executes fence.SEM.SCOPE; `sem` is "acquire", "release", "acq_rel" or "sc"."""

    thread: Thread
    sem: str
    scope: str


class ProxyFence(NamedTuple):
    """A thread executes fence.proxy between accesses of the generic and of another proxy."""

    thread: Thread
    proxy: str = "async"


class Arrive(NamedTuple):
    """A thread, or asynchronous work that was issued earlier, arrives at a barrier of any kind."""

    by: Hashable
    barrier: Hashable
    sem: str = "release"
    scope: str = "cta"


class Complete(NamedTuple):
    """A phase of a barrier is complete. An mbarrier `keeps` the arrivals of earlier phases."""

    barrier: Hashable
    keeps: bool = False


class Leave(NamedTuple):
    """A thread has waited for a barrier's last complete phase."""

    thread: Thread
    barrier: Hashable
    sem: str = "acquire"
    scope: str = "cta"


class Issue(NamedTuple):
    """Threads issue asynchronous work that accesses memory; one event for each access of the work.

    kind   "cp.async", "bulk", "wgmma", "st.async", "tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "tcgen05.st"
    form   of a tcgen05.mma: its accumulator and shape
    scope  of a reduction, whose accesses are strong
    lane   tells the threads apart whose groups the work belongs to, where a warp counts as one thread
    proxy  where it is not the usual one of the kind: a copy reads its tensor map through "tensormap"
    """

    work: Hashable
    threads: tuple[Thread, ...]
    line: int
    kind: str
    cells: Cells
    reads: bool
    writes: bool
    form: Hashable = None
    scope: str | None = None
    lane: int = 0
    proxy: str | None = None


class Commit(NamedTuple):
    """A thread closes a group of its work of a kind, or its commit is `work` that arrives at an mbarrier."""

    thread: Thread
    kind: str
    work: Hashable = None
    lane: int = 0


class Wait(NamedTuple):
    """A thread has waited for work of a kind: for all groups but the `newest`, for all (None), for `work`."""

    thread: Thread
    kind: str
    newest: int | None = None
    work: Hashable = None
    lane: int = 0


class Reach(NamedTuple):
    """A thread executes an instruction of several threads, which issue `work` when all of them have come."""

    thread: Thread
    work: Hashable


class TensorFence(NamedTuple):
    """A thread executes tcgen05.fence::before_thread_sync, or after_thread_sync."""

    thread: Thread
    before: bool


Event = (
    Access | Fence | ProxyFence | Arrive | Complete | Leave | Issue | Commit | Wait | Reach | TensorFence
)  # fmt: skip

# --- the model ----------------------------------------------------------------------------------------------


class Head(NamedTuple):
    """The first operation of a release pattern; `thread` is None for asynchronous work."""

    node: int
    thread: Thread | None
    scope: str


@dataclass(eq=False)
class Use:
    """An access in the graph. It comes after all of `start`, and is over for all that comes after `end`."""

    line: int
    thread: Thread
    kind: str
    cells: Cells
    reads: bool
    writes: bool
    proxy: str
    scope: str | None
    """Of a strong access."""
    start: int
    end: int
    form: Hashable = None

    @property
    def in_tensor_memory(self) -> bool:
        """True if the cells are in tensor memory."""
        return _in_tensor(self.cells)


Heads = dict[Hashable, Head]


def heads(found: Iterable[Head]) -> Heads:
    """The heads without those that a later one of the same thread and scope makes superfluous."""
    return {head.node if head.thread is None else head[1:]: head for head in found}


PIPES = {("cp", "mma"), ("shift", "mma"), ("shift", "cp"), ("mma", "shift")}


def includes(scope: str, own: Thread, other: Thread) -> bool:
    """Scope: "the set of threads that may interact directly with that operation" (#scope)."""
    return {"cta": own[:2] == other[:2], "cluster": own.cluster == other.cluster}.get(scope, True)


def strong(one: Thread | None, scope: str, other: Thread, others: str) -> bool:
    """Scopes of morally strong operations: each "includes the thread executing the other operation"
    (#morally-strong-operations).
    """
    return one is None or (includes(scope, one, other) and includes(others, other, one))


class Order:
    """The graph of an execution's operations."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.uses: list[Use] = []
        self._past: list[int] = []
        """For each node the set of nodes that come before it, and itself, as bits."""
        self._last: dict[Thread, int] = {}
        self._tensor: dict[Thread, int] = {}
        """The last node of each thread that its asynchronous tcgen05 work comes after."""
        self._fences: dict[Thread, Heads] = defaultdict(dict)
        self._all_sc: Heads = {}
        self._proxy_fences: list[tuple[int, str]] = []
        self._seen: dict[Thread, Heads] = defaultdict(dict)
        """The release patterns whose writes a thread's strong reads have read."""
        self._written: dict[Hashable, Heads] = defaultdict(dict)
        """The release patterns that a strong read of a location, or of a barrier's phase, would read."""
        self._arrived: dict[Hashable, Heads] = defaultdict(dict)
        self._end: dict[Hashable, int] = {}
        self._reached: dict[Hashable, list[int]] = defaultdict(list)
        """The operations by which threads came to work that several issue together."""
        self._open: dict[tuple[Thread, int, str], list[int]] = defaultdict(list)
        self._groups: dict[tuple[Thread, int, str], list[list[int]]] = defaultdict(list)
        for event in events:
            getattr(self, f"_{type(event).__name__.lower()}")(event)

    # --- the graph ------------------------------------------------------------------------------------------

    def _node(self, *after: int) -> int:
        past = 1 << len(self._past)
        for one in after:
            past |= self._past[one]
        self._past.append(past)
        return len(self._past) - 1

    def _at(self, thread: Thread, *after: int) -> int:
        """Add a thread's operation: program order is "a total order" of each thread's (#program-order)."""
        before = (self._last[thread],) if thread in self._last else ()
        self._last[thread] = self._node(*before, *after)
        return self._last[thread]

    def _reaches(self, before: int, after: int) -> bool:
        """Base causality order is the transitive closure of program order and synchronizes-with
        (#causality-order).
        """
        return bool(self._past[after] >> before & 1)

    # --- threads --------------------------------------------------------------------------------------------

    def _access(self, event: Access) -> None:
        thread, sem, scope = event.thread, event.sem, event.scope
        found: Heads = {}
        if sem != "weak" and event.reads:
            for cell in event.cells:
                found.update(self._written[cell])
        node = self._observe(thread, found, acquires=sem in {"acquire", "acq_rel"}, scope=scope)
        if event.writes:
            own = {} if sem == "weak" else self._released(thread, node, sem, scope)
            for cell in event.cells:
                # "For some atomic operation Z, W precedes Z and Z precedes R in observation order"
                # (#observation-order): an atomic operation continues the writes that it has read.
                kept = self._written[cell] if event.reads and sem != "weak" else {}
                self._written[cell] = kept | own
        self.uses.append(
            Use(event.line, thread, "thread", event.cells, event.reads, event.writes, "generic",
                None if sem == "weak" else scope, node, node)
        )  # fmt: skip

    def _released(self, thread: Thread, node: int, sem: str, scope: str) -> Heads:
        """A release pattern: "a release operation on M", or "a release or acquire-release memory fence
        followed by a strong write on M in program order" (#release-acquire-patterns). It "only affects
        operations occurring in program order before the first instruction in that pattern".
        """
        own = [Head(node, thread, scope)] if sem in {"release", "acq_rel"} else []
        return self._fences[thread] | heads(own)

    def _observe(self, thread: Thread, found: Heads, *, acquires: bool, scope: str) -> int:
        """A release pattern synchronizes with an acquire pattern "if a write operation in X precedes a read
        operation in Y in observation order, and the first operation in X and the last operation in Y are
        morally strong" (#memory-synchronization). Without `acquires` a fence may follow.
        """
        self._seen[thread] |= found
        known = [head.node for head in found.values() if strong(head.thread, head.scope, thread, scope)]
        return self._at(thread, *(known if acquires else ()))

    def _fence(self, event: Fence) -> None:
        thread, sem, scope = event
        after: list[Head] = []
        if sem != "release":  # "a strong read on M followed by an acquire memory fence in program order"
            after += self._seen[thread].values()
        if sem == "sc":  # "X synchronizes with a fence.sc operation Y if X precedes Y in the Fence-SC order"
            after += self._all_sc.values()
        node = self._at(thread, *(one.node for one in after if strong(one.thread, one.scope, thread, scope)))
        if sem != "acquire":
            self._fences[thread] |= heads([Head(node, thread, scope)])
        if sem == "sc":
            self._all_sc |= heads([Head(node, thread, scope)])

    def _proxyfence(self, event: ProxyFence) -> None:
        """Proxy fences "take effect within a single thread" (#parallel-synchronization-and-communication-
        instructions-membar-fence), and compose with the order of threads.
        """
        self._proxy_fences.append((self._at(event.thread), event.proxy))

    # --- barriers -------------------------------------------------------------------------------------------

    def _arrive(self, event: Arrive) -> None:
        """bar.sync, red and arrive synchronize "with a bar.sync or bar.red operation executed on the same
        barrier", barrier.cluster.arrive with barrier.cluster.wait (#memory-synchronization). An mbarrier is
        a location: an arrival is a release operation unless it is relaxed, which "does not provide any memory
        ordering semantics" (#parallel-synchronization-and-communication-instructions-mbarrier-arrive).
        Asynchronous work signals "with .release semantics at the .cluster scope".
        """
        if isinstance(event.by, Thread):
            found = self._released(event.by, self._at(event.by), event.sem, event.scope)
        else:
            found = heads([Head(self._end[event.by], None, "cluster")])
        self._arrived[event.barrier] |= found

    def _complete(self, event: Complete) -> None:
        self._written[event.barrier] = dict(self._arrived[event.barrier])
        if not event.keeps:
            self._arrived[event.barrier].clear()

    def _leave(self, event: Leave) -> None:
        """A wait that returns True orders what came before the arrivals "during the completed phase"
        (#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait).
        """
        self._observe(
            event.thread, self._written[event.barrier], acquires=event.sem == "acquire", scope=event.scope
        )

    # --- asynchronous work ----------------------------------------------------------------------------------

    def _issue(self, event: Issue) -> None:
        """Asynchronous work is "ordered after prior instructions in the same thread", but not "part of the
        program order" (#program-order-async-operations). A copy's complete-tx "does not transitively
        establish ordering with respect to prior instructions from the issuing thread": nothing comes before
        the end of such work but the work. wgmma is excepted from the order after prior instructions,
        because it needs wgmma.fence; the model takes that fence for granted.
        """
        thread = event.threads[0]
        start = self._node(*(self._reached[event.work] or [self._at(one) for one in event.threads]))
        if _in_tensor(event.cells):
            # "An asynchronous tcgen05 operation subsequent to a tcgen05.fence::after_thread_sync is ordered
            # after all prior tcgen05 and execution ordering operations"; without it, only after its thread's.
            start = self._tensor[thread] = self._node(*self._tensor_of(thread))
        if event.work not in self._end:
            self._end[event.work] = self._node(*(() if event.kind in {"bulk", "cp.async"} else (start,)))
            for one in event.threads:
                self._open[one, event.lane, event.kind].append(self._end[event.work])
        proxy = event.proxy or ("generic" if event.kind in {"cp.async", "st.async"} else "async")
        self.uses.append(
            Use(event.line, thread, event.kind, event.cells, event.reads, event.writes, proxy, event.scope,
                start, self._end[event.work], event.form)
        )  # fmt: skip

    def _reach(self, event: Reach) -> None:
        """Order the work after what the thread did before the instruction, and after nothing later."""
        self._reached[event.work].append(self._at(event.thread))

    def _tensor_of(self, thread: Thread) -> tuple[int, ...]:
        return (self._tensor[thread],) if thread in self._tensor else ()

    def _commit(self, event: Commit) -> None:
        """cp.async.mbarrier.arrive and tcgen05.commit track "all prior" work "initiated by the executing
        thread" (#tcgen-async-sync-operations-commit). The arrival of the first is "ordered with respect to
        [...] all prior cp.async operations [...] but not to those of any other instruction".
        """
        thread, kind, work, lane = event
        if work is None:
            self._groups[thread, lane, kind].append(self._open.pop((thread, lane, kind), []))
        elif kind == "tcgen05":
            # "No explicit tcgen05.fence::before_thread_sync is needed": the commit performs it.
            ends = [end for of in ("tcgen05.mma", "tcgen05.cp") for end in self._open[thread, lane, of]]
            self._end[work] = self._node(self._at(thread), *self._tensor_of(thread), *ends)
        else:
            groups = [*self._groups[thread, lane, kind], self._open[thread, lane, kind]]
            self._end[work] = self._node(*(end for group in groups for end in group))

    def _wait(self, event: Wait) -> None:
        """Wait for "all the prior" groups "committed by the executing threads", but the N most recent
        (#data-movement-and-conversion-instructions-cp-async-bulk-wait-group).
        """
        thread, kind, newest, work, lane = event
        groups = self._groups[thread, lane, kind]
        ends = [end for group in groups[: max(len(groups) - (newest or 0), 0)] for end in group]
        if newest is None:
            ends += self._open[thread, lane, kind]
        if work is not None:
            ends = [self._end[work]]
        if kind in {"tcgen05.ld", "tcgen05.st"}:
            self._tensor[thread] = self._node(*self._tensor_of(thread), *ends)
        else:
            self._at(thread, *ends)

    def _tensorfence(self, event: TensorFence) -> None:
        """An asynchronous tcgen05 operation "prior to a tcgen05.fence::before_thread_sync is ordered before
        all subsequent tcgen05 and execution ordering operations" (#tcgen05-special-sync-operations-fence).
        """
        if event.before:
            self._at(event.thread, *self._tensor_of(event.thread))
        else:
            self._tensor[event.thread] = self._node(self._at(event.thread), *self._tensor_of(event.thread))

    # --- answers --------------------------------------------------------------------------------------------

    def ordered(self, first: Use, second: Use) -> bool:
        """True if an access comes before another one that happened later in this execution.

        tcgen05 work in one of the pipes is "guaranteed to execute in the same order as the instructions that
        issued them" (#tcgen05-memory-consistency-model-pipelined-instructions); other work has to complete.
        """
        before, after = (one.kind.removeprefix("tcgen05.") for one in (first, second))
        if (before, after) in PIPES or (before == after == "mma" and first.form == second.form is not None):
            return self._reaches(first.start, second.start)
        return self._reaches(first.end, second.start)

    def races(self) -> set[tuple[Use, Use]]:
        """The pairs of accesses that race, each with the earlier one first.

        "Two conflicting memory operations are said to be in a data-race if they are not related in causality
        order and they are not morally strong"; they conflict "when at least one of them is a write"
        (#conflict-and-data-races). What comes before a copy to a cell also comes before what follows it.
        """
        found: set[tuple[Use, Use]] = set()
        for uses in self._of_cells():
            past: list[int] = []
            for at, second in enumerate(uses):
                before = 0
                for earlier, first in enumerate(uses[:at]):
                    if self.ordered(first, second):
                        before |= past[earlier]
                past.append(before | 1 << at)
                for earlier, first in enumerate(uses[:at]):
                    if not (before >> earlier & 1) and (first.writes or second.writes):
                        if not _are_strong(first, second):
                            found.add((first, second))
        return found

    def unfenced(self) -> set[tuple[Use, Use]]:
        """Accesses of the generic proxy before those of another one, with no proxy fence on the path.

        "A proxy fence is required to synchronize memory operations across different proxies" (#proxies). "The
        completion of a cp{.reduce}.async.bulk operation is followed by an implicit generic-async proxy fence"
        (#async-proxy), so the other direction needs none.
        """
        found = set()
        for uses in self._of_cells():
            for at, second in enumerate(uses):
                if second.proxy == "generic":
                    continue
                fences = [node for node, proxy in self._proxy_fences if proxy == second.proxy]
                between = [node for node in fences if self._reaches(node, second.start)]
                for first in uses[:at]:
                    conflict = first.proxy == "generic" and (first.writes or second.writes)
                    if conflict and self.ordered(first, second):
                        if not any(self._reaches(first.end, node) for node in between):
                            found.add((first, second))
        return found

    def _of_cells(self) -> Iterable[list[Use]]:
        """The uses of each cell, in the order in which they happened; cells with the same uses once."""
        of: dict[Hashable, list[int]] = defaultdict(list)
        for number, use in enumerate(self.uses):
            for cell in use.cells:
                of[cell].append(number)
        return [[self.uses[number] for number in numbers] for numbers in {tuple(n) for n in of.values()}]


def _in_tensor(cells: Cells) -> bool:
    return any(isinstance(cell, tuple) and cell[0] == "tensor" for cell in cells)


def _are_strong(first: Use, second: Use) -> bool:
    """Morally strong also means: "via the same proxy" and "if both are memory operations, then they overlap
    completely" (#morally-strong-operations). A reduction is one operation for each element.
    """
    if first.scope is None or second.scope is None or first.proxy != second.proxy:
        return False
    same = first.cells == second.cells or first.kind == second.kind == "bulk"
    return same and strong(first.thread, first.scope, second.thread, second.scope)
