"""Observers: how checks, traces and families of instructions hear what happens in a launch.

The machine and the instructions announce what they do. They don't know who listens. An observer subclasses
`Observer` and defines the methods of the events it wants to hear. Each cohort has a `Listeners`, with one
tuple of bound methods for each event. An event is announced like this, and costs nothing if nobody listens:

    for tell in bundle.cohort.listeners.flagged:
        tell(bundle, mask)

Observers hear an event in the order in which they subscribed. An observer may raise an error that ends the
launch. It changes nothing that the kernel can see.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cutecourse.emulator.core.bundle import Bundle, Cohort
    from cutecourse.emulator.core.kinds import Mask
    from cutecourse.emulator.core.origin import Origin
    from cutecourse.emulator.core.site import Site

    # Rows above name what their events carry. Only mypy reads these imports.
    from cutecourse.emulator.instructions.bulk.groups import BulkGroups
    from cutecourse.emulator.instructions.bulk.pieces import Chunks, Piece
    from cutecourse.emulator.instructions.bulk.request import Copy
    from cutecourse.emulator.instructions.warpgroups import InFlight
    from cutecourse.emulator.instructions.wgmma.multiplication import Multiplication
    from cutecourse.emulator.memory.access import Access
    from cutecourse.emulator.memory.matrix_descriptor import MultipliedMatrix
    from cutecourse.emulator.memory.mbarriers import MBarrier
    from cutecourse.emulator.memory.regions import Region
    from cutecourse.emulator.memory.tensor_memory import TensorMemory

__all__ = ["Listeners", "Observer"]


class Observer:
    """The events of a cohort. Every method here is one event; those that a subclass defines are called."""

    heard: ClassVar[tuple[str, ...]] = ()
    """The events that the class defines."""

    def __init_subclass__(cls) -> None:
        cls.heard = tuple(event for event in _EVENTS if getattr(cls, event) is not getattr(Observer, event))

    # --- events of a trace ---------------------------------------------------------------------------------

    def happened(self, /, kind: str, origin: Origin, *, one: bool = True, **data: Any) -> int | None:
        """A thread did something with an instruction; `kind` and `data` as cutecourse.trace has them.

        `one` is False if several lanes of its warp did it together.
        Returns the number by which later events refer to this one. At most one observer hears this event.
        """

    def happened_in(
        self, /, kind: str, cohort: Cohort, cluster: int, rank: int, line: int | None = None, **data: Any
    ) -> int | None:
        """Something happened in a block that no thread did, such as bytes that land.

        cluster  the cluster's position in its cohort.
        """

    # --- lanes and blocks -------------------------------------------------------------------------------

    def lanes_ended(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes of a bundle, shape (n, 32), have ended; `bundle.live` no longer has them."""

    def cohort_ended(self, cohort: Cohort) -> None:
        """All blocks of the cohort have ended; their memory still exists."""

    # --- threads' accesses of memory --------------------------------------------------------------------

    def addressed(self, access: Access, bundle: Bundle, address: NDArray[Any], mask: Mask) -> None:
        """Lanes are about to read or write memory of any space, at valid addresses.

        address  the byte address of each lane in the access's space, shape (n, 32).
        mask     the active lanes, shape (n, 32), or None for all.
        """

    def copy_asked(
        self,
        accesses: tuple[Access, Access],
        bundle: Bundle,
        addresses: tuple[NDArray[Any], NDArray[Any]],
        n_bytes: NDArray[Any],
        lanes: NDArray[np.bool_],
    ) -> None:
        """Lanes issue a cp.async of `n_bytes` each, from the first access's addresses to the second's."""

    def accessed(
        self,
        access: Access,
        bundle: Bundle,
        index: NDArray[np.int64],
        lanes: NDArray[np.int64] | None,
        values: NDArray[Any] | None,
        *,
        away: bool,
    ) -> None:
        """Lanes are about to read or write shared memory.

        index   the position of each word in the cohort's shared memory, in units of the access's size.
        lanes   flattened lanes, or None for all; away: some of the words lie in other CTAs.
        values  the values that a store writes, in all its lanes, other spaces included; else None.
        """

    def flagged(self, bundle: Bundle, mask: NDArray[np.bool_] | None) -> None:
        """Lanes run an atomic, a fence or an access stronger than weak, which may publish earlier writes."""

    def proxies_fenced(self, bundle: Bundle, mask: NDArray[np.bool_] | None) -> None:
        """Lanes run a fence between accesses of threads and of the asynchronous proxy to shared memory."""

    def grid_waited(self, bundle: Bundle, mask: NDArray[np.bool_] | None) -> None:
        """Lanes have waited for the grids that this one depends on (griddepcontrol.wait)."""

    # --- barriers ---------------------------------------------------------------------------------------

    def lanes_met(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes of warps have come together at a bar.warp.sync."""

    def gate_passed(self, bundle: Bundle, mask: Mask) -> None:
        """Lanes of warps have come together at another instruction that waits for them; None is for all."""

    def barrier_arrived(self, bundle: Bundle, number: int, rows: NDArray[np.bool_]) -> None:
        """Warps of a bundle, shape (n,), arrive at a barrier of their block."""

    def barrier_completed(
        self, rank: int, number: int, rows: NDArray[np.bool_], *, all_threads: bool
    ) -> None:
        """A barrier is complete in the blocks of a rank, of the clusters `rows`, shape (n,).

        all_threads  it waited for all threads of the block, so ended threads count as arrived.
        """

    def barrier_left(self, bundle: Bundle, number: int, mask: NDArray[np.bool_] | None) -> None:
        """Lanes that have waited at a barrier of their block go on."""

    def cluster_arrived(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes arrive at the barrier of their cluster."""

    def cluster_completed(self, rows: NDArray[np.bool_]) -> None:
        """The barrier is complete in the clusters `rows`, shape (n,)."""

    def cluster_left(self, bundle: Bundle, mask: NDArray[np.bool_]) -> None:
        """Lanes that have waited at the barrier of their cluster go on."""

    # --- mbarriers --------------------------------------------------------------------------------------

    def mbarrier_made(self, barrier: MBarrier, origin: Origin) -> None:
        """A thread has initialised an mbarrier."""

    def mbarrier_used(self, barrier: MBarrier, origin: Origin) -> None:
        """A thread, or work that it has issued, is about to use an mbarrier.

        Not told for the warps in the mbarrier's `known_to`, to which the observer adds.
        """

    def mbarrier_arrived(
        self, barrier: MBarrier, origin: Origin, work: Origin | None, lanes: NDArray[np.int64] | None
    ) -> None:
        """The thread, or `work` that it issued earlier, arrives; the barrier counts the arrival next.

        lanes  the lanes of its warp, numbered through the bundle, that arrive together; None for one.
        """

    def mbarrier_expected(self, barrier: MBarrier, origin: Origin) -> None:
        """The current phase of an mbarrier has been told to wait for bytes of its own `expect_tx`."""

    def mbarrier_raised(self, barrier: MBarrier, origin: Origin) -> None:
        """The current phase of an mbarrier waits for one more arrival, which copies of the lane bring."""

    def mbarrier_received(self, barrier: MBarrier, origin: Origin, work: Origin | None) -> None:
        """Bytes arrive from a st.async, `work`, or (None) from the thread; the barrier counts them next.

        `bulk_landed` announces the bytes of bulk copies.
        """

    def mbarrier_completed(self, barrier: MBarrier) -> None:
        """A phase is complete and the next one has begun; no waiting warp goes on yet."""

    def mbarrier_seen(self, bundle: Bundle, barrier: MBarrier, phases: int, lanes: list[int]) -> None:
        """Lanes of a warp, numbered through the bundle, have waited for the last phase that is complete."""

    def store_asked(self, origin: Origin, access: Access, index: int, barrier: tuple[int, int]) -> None:
        """A lane issues a st.async or red.async, which brings its bytes to an mbarrier later.

        index    the position of its word in the cohort's shared memory, in units of the access's size.
        barrier  the rank and the offset of the mbarrier.
        """

    def commit_asked(self, origin: Origin) -> None:
        """A lane issues a tcgen05.commit, which arrives when the lane's earlier operations are complete."""

    def copies_counted(self, origin: Origin) -> None:
        """A lane asks that an mbarrier count its earlier cp.async copies when they are complete."""

    def copies_made(self, bundle: Bundle, number: int | None) -> None:
        """The cp.async with this number among its bundle's writes shared memory now; None when it has."""

    # --- bulk and tensor copies ---------------------------------------------------------------------------

    def bulk_issued(self, copy: Copy) -> None:
        """A thread has issued a bulk copy, reduction or prefetch; nothing has moved yet."""

    def bulk_reads(self, copy: Copy, chunks: NDArray[np.int64]) -> None:
        """An issued copy will read 16-byte chunks of the cohort's shared memory, given by their numbers."""

    def bulk_writes(self, copy: Copy, parts: Sequence[Chunks], pieces: int) -> None:
        """An issued copy will write shared memory, in `pieces` pieces in each destination.

        parts  16-byte chunks, as numbers or slices, counted in each destination from `copy.to.firsts`.
        """

    def bulk_landed(self, copy: Copy, position: int, piece: Piece) -> None:
        """A piece has arrived at the destination `copy.to.ranks[position]`; its mbarrier counts it next."""

    def bulk_over(self, copy: Copy, position: int) -> None:
        """The piece that has just landed was the last one of its destination."""

    def bulk_source_read(self, copy: Copy) -> None:
        """All of the source of a copy to global memory has been read."""

    def bulk_committed(
        self, site: Site, bundle: Bundle, lanes: NDArray[np.bool_], groups: BulkGroups
    ) -> None:
        """Lanes, shape (n, 32), close their open bulk groups, whose numbers are in `groups.committed`."""

    def bulk_wait_begun(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
        *,
        only_reads: bool,
    ) -> None:
        """Lanes wait for all but the `newest` of their bulk groups; with `only_reads`, only for their reads.

        blocked  the warps, by cluster, whose groups are not finished.
        """

    def bulk_waited(
        self,
        site: Site,
        bundle: Bundle,
        lanes: NDArray[np.bool_],
        groups: BulkGroups,
        newest: int,
        blocked: set[int],
    ) -> None:
        """The wait is over; arguments as for `bulk_wait_begun`."""

    # --- tensor cores -----------------------------------------------------------------------------------

    def operands_read(
        self, origin: Origin, operands: Sequence[tuple[int, str, NDArray[np.int64], tuple[int, int]]]
    ) -> None:
        """A tcgen05.mma or cp is issued that reads shared memory: (rank, name, chunks, span) of each operand.

        chunks  numbers of 16-byte chunks in the cohort's shared memory.
        span    the lowest and the highest of them.
        """

    def tensor_copied(self, memory: TensorMemory, region: Region, chunks: NDArray[np.int64]) -> None:
        """A tcgen05.cp is issued that copies shared memory to a region; `tensor_stored` was told before.

        chunks  numbers of the cohort's chunks, a row for each lane of the shape.
        """

    def factors_read(
        self,
        origin: Origin,
        memories: Sequence[TensorMemory],
        factors: Sequence[tuple[MultipliedMatrix | None, Region, int]],
    ) -> None:
        """A tcgen05.mma with scale factors is issued; `matrix_read` was told of its matrices before.

        memories  those of the CTAs that take part.
        factors   for A and for B: the matrix, None for an A outside shared memory; the region that has its
                  scale factors in each memory; and the byte of a word that has the first block's.
        """

    def matrices_coming(self, coming: list[tuple[list[MultipliedMatrix], NDArray[np.int64]]]) -> None:
        """Several lanes are about to issue one tcgen05.mma each; these differ only in their CTAs.

        coming  for each of A and B in shared memory, the matrix of every lane (a `MultipliedMatrix`, see
                memory.matrix_descriptor) and the chunks of all, shape (CTAs, rows, chunks). A `matrix_read`
                follows for each matrix.
        """

    def matrix_read(self, origin: Origin, matrix: MultipliedMatrix) -> None:
        """An MMA is issued that reads a matrix in shared memory, a `MultipliedMatrix`."""

    def accumulated(
        self,
        origin: Origin,
        a: MultipliedMatrix | None,
        b: MultipliedMatrix,
        accumulator: tuple[int, ...],
        *,
        adds: bool,
        written: bool,
        alone: Hashable,
    ) -> None:
        """An MMA is issued. Its product is added to an accumulator or, with `adds` false, replaces it.

        a, b         the matrices that `matrix_read` got; None for an A outside shared memory.
        accumulator  identifies D; the same for all MMAs of one sum.
        written      True if threads have written D since the previous MMA.
        alone        the operands of an MMA that a single lane issues; None for other MMAs.
        """

    def warpgroup_issued(
        self,
        multiplication: Multiplication,
        origin: Origin,
        warps: Sequence[Bundle],
        number: int,
        operands: Sequence[tuple[str, NDArray[np.int64], tuple[int, int]]],
    ) -> None:
        """A wgmma.mma_async of four warps, the warpgroup `number` of its CTA, is issued.

        operands  name, chunks and their span of each operand in shared memory, as in `operands_read`.
        """

    def multiplication_reached(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """A warp has reached a wgmma.mma_async, perhaps before other warps of its warpgroup."""

    def multiplication_waited(self, bundle: Bundle, cluster: int, multiplication: InFlight) -> None:
        """A warp has waited for a wgmma.mma_async."""

    # --- tensor memory ----------------------------------------------------------------------------------

    def tensor_used(
        self, memory: TensorMemory, region: Region, what: str, origin: Origin, *, writes: bool, pipeline: str
    ) -> None:
        """A region is about to be read or written by a warp or, with a `pipeline`, by a tcgen05.mma or cp.

        what  names the operand in a report.
        """

    def tensor_loads_over(
        self, memory: TensorMemory, bundle: Bundle, cluster: int, loads: Sequence[tuple[Origin, Region]]
    ) -> None:
        """A warp has executed tcgen05.wait::ld after `loads` of regions."""

    def tensor_store_over(self, memory: TensorMemory, region: Region, origin: Origin) -> None:
        """A warp has executed tcgen05.wait::st after its store to a region."""

    def tensor_freeing(
        self, memory: TensorMemory, start: int, columns: int, origin: Origin, group: int
    ) -> None:
        """A warp asks to free columns, of both CTAs of its pair if `group` is 2."""

    def tensor_summed(
        self, memory: TensorMemory, region: Region, origin: Origin, kind: str, *, adds: bool
    ) -> None:
        """A tcgen05.mma is issued that writes sums of a type to a region, or adds to the sums there."""

    def tensor_multiplied(self, memory: TensorMemory, region: Region) -> None:
        """A tcgen05.mma is issued that reads A from a region."""

    def tensor_loaded(self, memory: TensorMemory, region: Region, origin: Origin, *, packed: bool) -> None:
        """A warp loads a region into registers of 32 bits; `packed` holds two columns in each."""

    def tensor_stored(self, memory: TensorMemory, region: Region) -> None:
        """Threads or a tcgen05.cp write a region."""

    def tensor_freed(self, memory: TensorMemory, start: int, columns: int, origin: Origin) -> None:
        """A warp frees columns."""


_EVENTS = tuple(
    name for name, found in vars(Observer).items() if not name.startswith("_") and callable(found)
)

if TYPE_CHECKING:
    _P = ParamSpec("_P")
    _R = TypeVar("_R")

    def _of(method: Callable[Concatenate[Observer, _P], _R]) -> tuple[Callable[_P, _R], ...]:
        """Say the type of an event's subscribers: the method's, bound to an observer."""


class Listeners:
    """The subscribers of a cohort's events: for each method name of `Observer` a tuple of bound methods."""

    __slots__ = _EVENTS

    if TYPE_CHECKING:  # so that an announcement is checked against its event
        happened = _of(Observer.happened)
        happened_in = _of(Observer.happened_in)
        lanes_ended = _of(Observer.lanes_ended)
        cohort_ended = _of(Observer.cohort_ended)
        addressed = _of(Observer.addressed)
        copy_asked = _of(Observer.copy_asked)
        accessed = _of(Observer.accessed)
        flagged = _of(Observer.flagged)
        proxies_fenced = _of(Observer.proxies_fenced)
        grid_waited = _of(Observer.grid_waited)
        lanes_met = _of(Observer.lanes_met)
        gate_passed = _of(Observer.gate_passed)
        barrier_arrived = _of(Observer.barrier_arrived)
        barrier_completed = _of(Observer.barrier_completed)
        barrier_left = _of(Observer.barrier_left)
        cluster_arrived = _of(Observer.cluster_arrived)
        cluster_completed = _of(Observer.cluster_completed)
        cluster_left = _of(Observer.cluster_left)
        mbarrier_made = _of(Observer.mbarrier_made)
        mbarrier_used = _of(Observer.mbarrier_used)
        copies_counted = _of(Observer.copies_counted)
        copies_made = _of(Observer.copies_made)
        mbarrier_expected = _of(Observer.mbarrier_expected)
        mbarrier_raised = _of(Observer.mbarrier_raised)
        mbarrier_arrived = _of(Observer.mbarrier_arrived)
        mbarrier_received = _of(Observer.mbarrier_received)
        mbarrier_completed = _of(Observer.mbarrier_completed)
        mbarrier_seen = _of(Observer.mbarrier_seen)
        store_asked = _of(Observer.store_asked)
        commit_asked = _of(Observer.commit_asked)
        bulk_issued = _of(Observer.bulk_issued)
        bulk_reads = _of(Observer.bulk_reads)
        bulk_writes = _of(Observer.bulk_writes)
        bulk_landed = _of(Observer.bulk_landed)
        bulk_over = _of(Observer.bulk_over)
        bulk_source_read = _of(Observer.bulk_source_read)
        bulk_committed = _of(Observer.bulk_committed)
        bulk_wait_begun = _of(Observer.bulk_wait_begun)
        bulk_waited = _of(Observer.bulk_waited)
        operands_read = _of(Observer.operands_read)
        tensor_copied = _of(Observer.tensor_copied)
        factors_read = _of(Observer.factors_read)
        matrices_coming = _of(Observer.matrices_coming)
        matrix_read = _of(Observer.matrix_read)
        accumulated = _of(Observer.accumulated)
        warpgroup_issued = _of(Observer.warpgroup_issued)
        multiplication_reached = _of(Observer.multiplication_reached)
        multiplication_waited = _of(Observer.multiplication_waited)
        tensor_used = _of(Observer.tensor_used)
        tensor_loads_over = _of(Observer.tensor_loads_over)
        tensor_store_over = _of(Observer.tensor_store_over)
        tensor_freeing = _of(Observer.tensor_freeing)
        tensor_summed = _of(Observer.tensor_summed)
        tensor_multiplied = _of(Observer.tensor_multiplied)
        tensor_loaded = _of(Observer.tensor_loaded)
        tensor_stored = _of(Observer.tensor_stored)
        tensor_freed = _of(Observer.tensor_freed)

    def __init__(self) -> None:
        for event in _EVENTS:
            setattr(self, event, ())

    def subscribe(self, observer: Observer) -> None:
        """Let an observer hear the events that its class defines, after the earlier subscribers."""
        for event in observer.heard:
            setattr(self, event, (*getattr(self, event), getattr(observer, event)))
