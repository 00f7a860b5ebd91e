"""Instructions' access to memory, with every access checked.

An `Access` belongs to one instruction. It turns lane addresses into positions in an array of words. It
refuses accesses on which the hardware would fault or whose result is undefined: addresses outside every
allocation, misaligned addresses, and reads of shared or local memory that nobody has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, WARP_SIZE, Mask, any_true
from cutecourse.emulator.core.memory import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    WINDOW_BITS,
    Allocation,
)
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.owner import OwnerDict
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    EmulatorError,
    ExitedCTAError,
    NoBarrierError,
    ReadOnlyError,
)
from cutecourse.emulator.memory.host_arrays import READ_ONLY_ADVICE
from cutecourse.emulator.memory.shared_address import GENERIC, is_generic, outside
from cutecourse.emulator.memory.unwritten import Unwritten, describe_unwritten

__all__ = ["Access", "Part"]

Lanes = NDArray[np.int64] | None
"""The lanes of an access, flattened; None for all in order."""
_RANK_MASK = (1 << RANK_SHIFT) - 1


def _number(value: int) -> NDArray[np.uint64]:
    """A number as an array of no dimension, because NumPy computes faster with it than with a scalar."""
    return np.array(value, dtype=np.uint64)


_NONE = _number(0)
_IN_PARAM = _number(PARAM_WINDOW)


@dataclass(eq=False, slots=True)
class Part:
    """Some lanes of an access and the places of their words.

    `words[index]` are the words: shape of `index`, and a last axis of the vector's words if it has several.
    `lanes` are flattened lanes, or None when `index` has shape (n, 32) and covers all lanes in order.
    `written` is the record of writes, if the access changes it and somebody keeps one.
    """

    words: NDArray[Any]
    index: NDArray[np.int64]
    lanes: Lanes
    written: NDArray[Any] | None = None
    in_global: bool = False
    """True if the words lie in global memory."""


class _Reach:
    """An allocation as an access sees it: the first address, the last offset at which it may begin, words."""

    __slots__ = ("allocation", "base", "last", "words")

    def __init__(self, allocation: Allocation, access: Access) -> None:
        self.allocation = allocation
        self.base = _number(allocation.base)
        last = allocation.nbytes - access.size
        self.last = _number(last) if last >= 0 else last
        self.words = allocation.words(access.bytes, access.count)


class _Last(OwnerDict["Access", _Reach]):
    """The allocation that each access of a launch has met last."""


class Access:
    """One instruction's access to memory: `count` words of `bytes_` bytes for each lane, aligned as one.

    `space` is "global", "shared" (also for shared::cta), "shared::cluster", "local", "const", "param" or
    "generic".
    """

    def __init__(
        self,
        site: Site,
        space: str,
        bytes_: int,
        count: int = 1,
        *,
        reads: bool = False,
        writes: bool = False,
        flags: bool = False,
        kind: str = "",
    ) -> None:
        """`kind` is the type of a word as the instruction has it, where that says something of the memory."""
        if not site.facts.states(space, bytes_ * count, reads=reads, writes=writes):
            raise AssertionError(f"{site.instruction.name} does not state its access to {space} memory")
        self.site = site
        self.space = space
        self.bytes = bytes_
        self.count = count
        self.size = bytes_ * count
        self.shift = self.size.bit_length() - 1
        self._unit = (
            CHUNK_TYPE if self.size == CHUNK else np.dtype(f"{'u' if self.size < CHUNK else 'V'}{self.size}")
        )
        """The type of all words of a lane as one element."""
        self.reads = reads
        self.writes = writes
        self.flags = flags
        self._float = kind if kind in {"f32", "f64"} else ""
        """True if the access may publish a thread's earlier writes: atomics, orders stronger than weak."""
        self._low = self.size - 1
        self._unaligned, self._shift = _number(self._low), _number(self.shift)

    # --- what instructions use ------------------------------------------------------------------------------

    def load(self, bundle: Bundle, address: NDArray[Any], mask: Mask) -> NDArray[Any]:
        """The active lanes' words in lane order: shape (k[, count]), without a mask (n, 32[, count])."""
        parts = self.parts(bundle, address, mask)
        if len(parts) == 1:
            return self.read(parts[0])
        tail = (self.count,) if self.count > 1 else ()
        every = np.zeros((bundle.n * WARP_SIZE, *tail), dtype=f"u{self.bytes}")
        for part in parts:
            every[part.lanes] = part.words[part.index]
        if mask is None:
            return every.reshape(bundle.n, WARP_SIZE, *tail)
        return every[np.flatnonzero(mask)]

    def read(self, part: Part) -> NDArray[Any]:
        """The words of some lanes: shape of `part.index`, and a last axis for several words."""
        if self.count == 1:
            return part.words[part.index]
        units = part.words.view(self._unit)[:, 0][part.index]
        return units.view(part.words.dtype).reshape(*part.index.shape, self.count)

    def store(self, bundle: Bundle, address: NDArray[Any], mask: Mask, values: NDArray[Any]) -> None:
        """Write words; `values` has the shape that `load` returns. If lanes collide, the last one wins."""
        parts = self.parts(bundle, address, mask, values)
        if len(parts) == 1:
            self._put(parts[0], values)
            return
        position = np.zeros(bundle.n * WARP_SIZE, dtype=np.int64)
        active = bundle.lanes(mask)
        position[active] = np.arange(len(active))
        flat = values.reshape(len(active), *values.shape[2 if mask is None else 1 :])
        for part in parts:
            self._put(part, flat[position[part.lanes]])

    def store_inside(self, bundle: Bundle, address: NDArray[Any], values: NDArray[Any]) -> bool:
        """Write words if all lie in the allocation that the access met last; else write nothing.

        Shapes:   any number of addresses; `values` has a last axis for several words.
        Returns:  True if it has written. Nothing is announced.
        """
        part = self._inside_last(bundle, address, None)
        if part is None:
            return False
        self._put(part, values)
        return True

    def _put(self, part: Part, values: NDArray[Any]) -> None:
        if self.count == 1:
            part.words[part.index] = values
        else:
            units = np.ascontiguousarray(values, dtype=part.words.dtype).view(self._unit)[..., 0]
            part.words.view(self._unit)[:, 0][part.index] = units
        if part.written is not None:
            part.written[part.index] = part.written.dtype.type(-1 % (1 << (8 * self.bytes)))

    def parts(
        self, bundle: Bundle, address: NDArray[Any], mask: Mask, values: NDArray[Any] | None = None
    ) -> list[Part]:
        """Find the lanes' words: one part, or several if generic addresses or allocations differ.

        For read-modify-write: change `part.words` at `part.index`, and mark `part.written` if it is not
        None. `values` are the values that a store is about to write.
        """
        listeners = bundle.cohort.listeners
        if self.flags:
            for tell in listeners.flagged:
                tell(bundle, mask)
        lanes, asked = None, address
        if mask is not None:
            lanes = mask.ravel().nonzero()[0]
            asked = address.reshape(-1)[lanes]
        if self.space in {"shared", "shared::cluster"}:
            found = [self._shared(bundle, asked, lanes, values)]
        elif self.space == "local":
            found = [self._local(bundle, asked, lanes)]
        elif self.space == "generic":
            found = self._generic(bundle, asked, lanes, values)
        else:
            found = self._allocated(bundle, asked | _IN_PARAM if self.space == "param" else asked, lanes)
        for tell in listeners.addressed:
            tell(self, bundle, address, mask)
        return found

    def thread(self, bundle: Bundle, lanes: Lanes, position: int) -> Origin:
        """The thread at a position among some lanes that execute the access."""
        return Origin(self.site, bundle, position if lanes is None else int(lanes[position]))

    # --- the spaces -----------------------------------------------------------------------------------------

    def _shared(
        self, bundle: Bundle, address: NDArray[Any], lanes: Lanes, values: NDArray[Any] | None
    ) -> Part:
        cohort = bundle.cohort
        base = bundle.shared_base if lanes is None else bundle.shared_base.reshape(-1)[lanes]
        offset = address
        reaches_others = False
        if cohort.size > 1:
            # The rank in the address selects the block; blocks lie rank by rank in one array.
            rank = (address >> RANK_SHIFT).astype(np.int64)
            offset = address & _RANK_MASK
            away = rank != bundle.rank
            reaches_others = any_true(away)
            if reaches_others:
                self._check_remote(bundle, address, lanes, rank, away)
            base = base + (rank - bundle.rank) * (cohort.n * cohort.shared_stride)
        bad = self._outside(offset, bundle.program.shared_bytes)
        if any_true(bad):
            self._fault_shared(bundle, address, lanes, bad)
        index = (base + offset.astype(np.int64)) >> self.shift
        for tell in cohort.listeners.accessed:
            tell(self, bundle, index, lanes, values, away=reaches_others)
        words, written = cohort.shared_words(self.bytes, self.count)
        if self.reads:
            seen = written[index].tobytes()
            if b"\x00" in seen:
                position, byte = divmod(seen.index(b"\x00"), self.size)
                origin, first = self._lane(bundle, address, lanes, position)
                self._unwritten(origin, first + byte)
        return Part(words, index, lanes, written if self.writes else None)

    def _check_remote(
        self,
        bundle: Bundle,
        address: NDArray[Any],
        lanes: Lanes,
        rank: NDArray[np.int64],
        away: NDArray[np.bool_],
    ) -> None:
        """Refuse addresses in blocks that do not exist, that have ended, or that lie outside the space."""
        cohort = bundle.cohort
        bad = rank >= cohort.size
        if not bad.any() and self.space == "shared":
            bad = away
        if bad.any():
            self._fault_shared(bundle, address, lanes, bad)
        for other in np.unique(rank[away]).tolist():
            alive = cohort.alive(other)
            if not alive.all():
                cluster = np.arange(bundle.n * WARP_SIZE) if lanes is None else lanes
                ended = (rank == other) & ~alive[cluster.reshape(rank.shape) // WARP_SIZE]
                if ended.any():
                    self._fault_shared(bundle, address, lanes, ended)

    def _outside(self, offset: NDArray[Any], limit: int) -> NDArray[np.bool_]:
        """Which offsets are misaligned or do not fit into a space of `limit` bytes."""
        # An unsigned offset below zero wraps to a huge number, so one comparison checks both ends.
        bad = offset > limit - self.size if limit >= self.size else np.ones(offset.shape, dtype=np.bool_)
        return bad | ((offset & self._low) != 0) if self._low else bad

    def _local(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes) -> Part:
        base = bundle.local_base if lanes is None else bundle.local_base.reshape(-1)[lanes]
        bad = self._outside(address, bundle.program.local_bytes)
        if any_true(bad):
            self._fault_local(bundle, address, lanes, bad)
        index = (base + address.astype(np.int64)) >> self.shift
        words: NDArray[Any] = bundle.local.view(f"u{self.bytes}")
        written: NDArray[Any] = bundle.local_written.view(f"u{self.bytes}")
        if self.count > 1:
            words, written = words.reshape(-1, self.count), written.reshape(-1, self.count)
        if self.reads:
            # Compilers copy padding along with the fields around it, so refuse only an access whose bytes
            # are all unwritten.
            seen = written[index]
            nothing = (seen == 0) if self.count == 1 else (seen == 0).all(axis=-1)
            if any_true(nothing):
                origin, first = self._lane(bundle, address, lanes, int(np.argmax(nothing)))
                report(
                    "never written",
                    f"read of {self.size} bytes of local memory where byte 0x{first:x} was never written."
                    " Is a store missing before the read?",
                    origin,
                    address=first,
                    allocation="local memory",
                )
        return Part(words, index, lanes, written if self.writes else None)

    def _allocated(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes) -> list[Part]:
        part = self._inside_last(bundle, address, lanes)
        if part is not None:
            return [part]
        flat = address.reshape(-1)
        if not len(flat):
            return [Part(np.zeros(0, dtype=f"u{self.bytes}"), flat.astype(np.int64), lanes)]
        first = bundle.machine.memory.find(int(flat[0]))
        if first is None or (self.writes and not first.writable):
            self._fault(bundle, address, lanes)
        self._check_type(first, bundle, lanes, 0)
        last = bundle.machine.own(_Last)
        last[self] = _Reach(first, self)
        part = self._inside(last[self], address, lanes)
        if part is not None:
            return [part]
        return self._scattered(bundle, address, lanes)

    def _inside_last(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes) -> Part | None:
        """The lanes' words if all lie in the allocation that the access met last, as they mostly do."""
        reach = bundle.machine.own(_Last).get(self)
        return None if reach is None else self._inside(reach, address, lanes)

    def _inside(self, reach: _Reach, address: NDArray[Any], lanes: Lanes) -> Part | None:
        """The lanes' words if all lie in an allocation, aligned."""
        offset = address.astype(np.uint64, copy=False) - reach.base
        bad = offset > reach.last
        if self._low:
            bad |= (offset & self._unaligned) != _NONE
        if any_true(bad):
            return None
        written, allocation = None, reach.allocation
        if self.reads:
            allocation.was_read = True
        if self.writes:
            allocation.was_written = True
            written = allocation.marks(self.bytes, self.count)
        in_global = allocation.space == "global"
        return Part(reach.words, (offset >> self._shift).view(np.int64), lanes, written, in_global)

    def _check_type(self, allocation: Allocation, bundle: Bundle, lanes: Lanes, position: int) -> None:
        """Report floating-point words in an array argument of other elements (ArrayTypeMismatch)."""
        element = allocation.element
        if not self._float or element is None or element.kind not in "fi":
            return
        right = element.kind == "f" and element.itemsize == self.bytes
        if not right and (self.count == 1 or element.itemsize > self.bytes):
            verb = "read" if not self.writes else "update" if self.reads else "write"
            report(
                "array of another type",
                f"{verb} of numbers of type .{self._float} in {allocation.name}: pass an array of"
                f" float{8 * self.bytes}",
                self.thread(bundle, lanes, position),
            )

    def _scattered(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes) -> list[Part]:
        """Split lanes that point into several allocations into parts; refuse a wrong address."""
        flat = address.reshape(-1).astype(np.uint64, copy=False)
        which = np.arange(bundle.n * WARP_SIZE) if lanes is None else lanes
        left = np.ones(len(flat), dtype=np.bool_)
        parts = []
        while left.any():
            where = int(np.argmax(left))
            allocation = bundle.machine.memory.find(int(flat[where]))
            if allocation is None or (self.writes and not allocation.writable):
                self._fault(bundle, address, lanes)
            self._check_type(allocation, bundle, lanes, where)
            inside = left & (flat >= np.uint64(allocation.base)) & (flat < np.uint64(allocation.end))
            part = self._inside(_Reach(allocation, self), flat[inside], which[inside])
            if part is None:
                self._fault(bundle, address, lanes)
            parts.append(part)
            left &= ~inside
        return parts

    def _generic(
        self, bundle: Bundle, address: NDArray[Any], lanes: Lanes, values: NDArray[Any] | None
    ) -> list[Part]:
        part = self._inside_last(bundle, address, lanes)
        if part is not None:
            return [part]
        flat = address.reshape(-1).astype(np.uint64, copy=False)
        window = flat >> np.uint64(WINDOW_BITS)
        shared = window == SHARED_WINDOW >> WINDOW_BITS
        local = window == LOCAL_WINDOW >> WINDOW_BITS
        if not shared.any() and not local.any():
            return self._allocated(bundle, address, lanes)
        low = flat & np.uint64((1 << WINDOW_BITS) - 1)
        if shared.all():
            return [self._shared(bundle, low.reshape(address.shape), lanes, values)]
        if local.all():
            return [self._local(bundle, low.reshape(address.shape), lanes)]
        which = np.arange(bundle.n * WARP_SIZE) if lanes is None else lanes
        parts = []
        if shared.any():
            parts.append(self._shared(bundle, low[shared], which[shared], values))
        if local.any():
            parts.append(self._local(bundle, low[local], which[local]))
        rest = ~(shared | local)
        if rest.any():
            parts += self._allocated(bundle, flat[rest], which[rest])
        return parts

    # --- faults ---------------------------------------------------------------------------------------------

    def _lane(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes, position: int) -> tuple[Origin, int]:
        return self.thread(bundle, lanes, position), int(address.reshape(-1)[position])

    def _fail(
        self, kind: type[EmulatorError], origin: Origin, address: int, name: str | None, problem: str
    ) -> NoReturn:
        """Refuse a thread's address, which lies in or near the variable or allocation `name`."""
        verb = (
            "read" if not self.writes else "update" if self.reads and kind is not ReadOnlyError else "write"
        )
        start = f"{verb} of {self.size} bytes at 0x{address:x}"
        raise origin.error(kind, start + problem, address=address, allocation=name)

    def _misaligned(self, origin: Origin, address: int, name: str | None) -> NoReturn:
        where = f" (in {name})" if name else ""
        self._fail(AlignmentError, origin, address, name, f", which is not a multiple of {self.size}{where}")

    def _fault(self, bundle: Bundle, address: NDArray[Any], lanes: Lanes) -> NoReturn:
        """Raise the error of the first lane whose address is wrong."""
        memory = bundle.machine.memory
        for position in range(address.size):
            origin, one = self._lane(bundle, address, lanes, position)
            inside = memory.find(one)
            if inside is not None and one + self.size <= inside.end:
                if self.writes and not inside.writable:
                    problem = f" in {inside.name}, which is in {inside.space} memory and read-only"
                    if inside.space == "global":
                        problem = f" in {inside.name}. {READ_ONLY_ADVICE}"
                    self._fail(ReadOnlyError, origin, one, inside.name, problem)
                if one % self.size:
                    self._misaligned(origin, one, inside.name)
                continue
            name = None
            where = "no allocation is near"
            if inside is not None:
                name = inside.name
                where = f"it starts inside {name} and ends {one + self.size - inside.end} bytes past its end"
            elif (near := memory.nearest(one)) is not None:
                allocation, past = near
                name = allocation.name
                side = f"{past} bytes past the end" if past >= 0 else f"{-past} bytes before the start"
                where = f"{side} of the nearest allocation, {name} ({allocation.nbytes} bytes)"
            if one == 0:
                where = "a null pointer"
            self._fail(AddressError, origin, one, name, f" in {self.space} memory: {where}")
        raise AssertionError("a fault without a faulty lane")

    def _fault_shared(
        self, bundle: Bundle, address: NDArray[Any], lanes: Lanes, bad: NDArray[np.bool_]
    ) -> NoReturn:
        origin, one = self._lane(bundle, address, lanes, int(np.argmax(bad)))
        size, limit = bundle.cohort.size, bundle.program.shared_bytes
        offset, rank = (one & _RANK_MASK, one >> RANK_SHIFT) if size > 1 else (one, 0)
        name = bundle.program.shared_name(offset)
        kind = AddressError
        if is_generic(one):
            problem = GENERIC
        elif rank >= size:
            problem = f"the address names block {rank} of a cluster of {size}"
        elif rank != bundle.rank and self.space == "shared":
            problem = f"the address lies in block {rank} of the cluster: use .shared::cluster to reach it"
        elif rank != bundle.rank and not bundle.cohort.alive(rank)[origin.lane // WARP_SIZE]:
            kind = ExitedCTAError
            problem = (
                f"block {rank} of the cluster has ended: it must wait at the cluster's barrier until no block"
                " uses its memory any more"
            )
        elif offset + self.size > limit:
            problem = f"it {outside(bundle, offset, self.size)}"
        else:
            self._misaligned(origin, one, name)
        near = f"; the nearest variable is {name}" if name else ""
        self._fail(kind, origin, one, name, f" in shared memory: {problem}{near}")

    def _fault_local(
        self, bundle: Bundle, address: NDArray[Any], lanes: Lanes, bad: NDArray[np.bool_]
    ) -> NoReturn:
        origin, one = self._lane(bundle, address, lanes, int(np.argmax(bad)))
        limit = bundle.program.local_bytes
        past = one + self.size - limit
        if past <= 0:
            self._misaligned(origin, one, "local memory")
        problem = f" in local memory: {past} bytes past the end of the thread's {limit} bytes"
        self._fail(AddressError, origin, one, "local memory", problem)

    def _unwritten(self, origin: Origin, address: int) -> None:
        """Report an uninitialized read; if the launch goes on, the access returns the bytes in memory."""
        bundle, lane = origin.bundle, origin.lane
        name = bundle.program.shared_name(address & _RANK_MASK)
        barrier = self._object_at(bundle, lane, address)
        if barrier is not None:
            raise origin.error(
                NoBarrierError,
                f"read of {self.size} bytes of shared memory at 0x{address:x}, where {barrier} is: only"
                " mbarrier instructions may read it",
                address=address,
                allocation=name,
            )
        reason = bundle.cohort.own(Unwritten).reason(bundle, lane, address)
        report(
            "never written",
            f"read of {self.size} bytes of shared memory where byte 0x{address:x}"
            + (f" (in {name})" if name else "")
            + f" was never written. {reason or describe_unwritten(origin, 'the read')}",
            origin,
            address=address,
            allocation=name,
        )

    @staticmethod
    def _object_at(bundle: Bundle, lane: int, address: int) -> str | None:
        """Describe the valid object, such as an mbarrier, that contains an address of shared memory."""
        rank, offset = (bundle.rank, address) if bundle.cohort.size == 1 else divmod(address, 1 << RANK_SHIFT)
        found = (describe(lane // WARP_SIZE, rank, offset) for describe in bundle.cohort.objects)
        return next((words for words in found if words), None)
