"""clusterlaunchcontrol: a running cluster takes over the work of one that has not started.

A request is answered later, like a bulk copy of 16 bytes into shared memory. The scheduler starts only some
of the grid's clusters at first, as many as the seed says, so that requests find others that have not started.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import CHUNK, CHUNK_TYPE, WARP_SIZE, Mask, any_true, coordinates, put
from cutecourse.emulator.core.memory import POISON, RANK_SHIFT
from cutecourse.emulator.core.origin import Origin, each_lane, first_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.report import report
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand
from cutecourse.emulator.instructions.bulk.landing import land_later
from cutecourse.emulator.instructions.bulk.operands import targets_of
from cutecourse.emulator.instructions.bulk.pieces import Chunks
from cutecourse.emulator.instructions.bulk.request import Copy
from cutecourse.emulator.instructions.stating import ASYNCHRONOUS_BYTES, by_modifiers
from cutecourse.emulator.memory.shared_address import SharedTargets, take_shared_space
from cutecourse.ptx.syntax import Instruction

__all__: list[str] = []

_TO_ALL = "multicast::cluster::all"
_GRANTED, _REFUSED = 0x7B1D_0001, 0x7B1D_0000
"""The last word of a response; the words before it are the ctaid. A kernel may not know this."""
_NO_CTA = int.from_bytes(bytes([POISON]) * 4, "little")


class _Response:
    """The 16 bytes of an answer; the request is decided when they land first, in whichever CTA."""

    def __init__(self, bundle: Bundle) -> None:
        self.covered: Chunks = slice(0, 1)
        self.n_bytes = CHUNK
        self._bundle = bundle
        self._answer: NDArray[Any] | None = None

    def put(self, held: NDArray[Any], first: int, box: None) -> None:
        """Put the answer into the chunk `first`."""
        if self._answer is None:
            self._answer = self._decide()
        held[first : first + 1] = self._answer

    def _decide(self) -> NDArray[Any]:
        machine = self._bundle.machine
        number = machine.take_cluster()
        words = [_NO_CTA, _NO_CTA, _NO_CTA, _REFUSED]
        if number is not None:
            per_axis = np.array(machine.grid) // machine.cluster
            ctaid = coordinates(np.array([number], dtype=np.int64), per_axis)[0] * machine.cluster
            words = [*ctaid.tolist(), _GRANTED]
        answer: NDArray[Any] = np.array(words, dtype=np.uint32).view(CHUNK_TYPE)
        return answer


class _SawRefusal:
    """The CTAs of a cohort that have found a request refused, shape (ranks, clusters)."""

    def __init__(self, cohort: Any) -> None:
        self.ctas: NDArray[np.bool_] = np.zeros((cohort.size, cohort.n), dtype=np.bool_)


@by_modifiers
def _request_facts(one: Instruction) -> Facts:
    return Facts(
        category="cluster launch control",
        uses=(MemoryUse("shared::cluster" if _TO_ALL in one.modifiers else "shared", CHUNK, writes=True),),
        pipe=Pipe.BULK_COPIES,
        uncounted="clusterlaunchcontrol.try_cancel",
        completes="bytes",
        takes_clusters=True,
        uses_cluster=_TO_ALL in one.modifiers,
        multicast=_TO_ALL in one.modifiers,
    )


@instruction("clusterlaunchcontrol.try_cancel", facts=_request_facts)
def try_cancel(site: Site) -> Step:
    """Ask that a cluster of the grid does not start, so that this one can do its work.

    Shapes:     once for each active lane: elect one. With .multicast::cluster::all the answer lands at the
                same offset in every CTA of the cluster; each has its own mbarrier at the mbarrier's offset.
    Units:      the answer has 16 bytes, which the mbarrier counts.
    Alignment:  the answer's address 16 bytes, the mbarrier 8.
    Errors:     AddressError, AlignmentError, NoBarrierError, ExitedCTAError, and those of bulk copies into
                shared memory; RequestAfterRefusal.
    Simplified: the seed chooses how many clusters run at once, which ones are granted, and that one request
                in eight is refused although clusters are left.
    Source:     PTX ISA 9.0, clusterlaunchcontrol.try_cancel
                (#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel).
    """
    if not site.has("async"):
        site.unsupported("it needs .async")
    space = take_shared_space(site, cluster=False)
    if not site.has(ASYNCHRONOUS_BYTES):
        site.unsupported("it needs .mbarrier::complete_tx::bytes")
    to_all = site.has(_TO_ALL)
    site.type("b128")
    answer = SharedTargets(site, site.address(0), space, CHUNK)
    barrier = SharedTargets(site, site.address(1), space, 8)

    def issue(origin: Origin) -> None:
        bundle = origin.bundle
        if bundle.cohort.own(_SawRefusal).ctas[bundle.rank, origin.cluster]:
            report("request after refusal", _AGAIN, origin)
        places = []
        for operand in (answer, barrier):
            address = origin.value(operand.address.lanes(bundle))
            rank, offset = operand.resolve(bundle, origin.lane, address)
            places.append(rank << RANK_SHIFT | offset)
        bits = (1 << bundle.cohort.size) - 1 if to_all else None
        goal, bar = places
        copy = Copy(
            origin, "load", CHUNK, targets_of(origin, goal, CHUNK, bar, own=True, bits=bits), mask=bits
        )
        copy.announce()
        land_later(copy, [_Response(bundle)])

    return each_lane(site, issue)


_AGAIN = (
    "this CTA has found an earlier request refused, and the document leaves what another request does"
    " undefined. Leave the loop once is_canceled is false."
)


@instruction("clusterlaunchcontrol.query_cancel")
def query_cancel(site: Site) -> Step:
    """Read from an answer if a cluster was granted, or the ctaid of its first CTA.

    Shapes:     the answer is a register of 128 bits; is_canceled gives a predicate, get_first_ctaid four
                numbers, of which the last has no meaning, or the one that ::x, ::y or ::z names.
    Errors:     InvalidOperand if the register holds no answer.
    Simplified: the ctaid of an answer that grants nothing, and the fourth number, are 0xCBCBCBCB; the
                hardware's values are not defined.
    Source:     PTX ISA 9.0, clusterlaunchcontrol.query_cancel
                (#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel).
    """
    axes = ("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")
    what = site.expect("is_canceled", "get_first_ctaid", *axes)
    words = site.part_slots("u128", site.source(1, "u128"), "u64")
    if what == "is_canceled":
        kind, targets = site.type("pred"), [(3, site.destination(0, "pred"))]
    elif what in axes:
        kind, targets = site.type("b32"), [(axes.index(what), site.destination(0, "u32"))]
    else:
        if not site.has("v4"):
            site.unsupported("get_first_ctaid gives .v4, or one number with ::x, ::y or ::z")
        kind, targets = site.type("b32"), list(enumerate(site.destinations(0, "u32")))
        if len(targets) != 4:
            site.invalid(f"{len(targets)} destinations for 4 numbers")
    site.type("b128")

    def step(bundle: Bundle, mask: Mask) -> None:
        low, high = (bundle.rows["u64"][slot] for slot in words)
        mark = (high >> np.uint64(32)).astype(np.uint32)
        granted = mark == _GRANTED
        active = site.active(bundle, mask)
        if origin := first_lane(site, bundle, active & ~granted & (mark != _REFUSED)):
            raise origin.error(
                InvalidOperand,
                "the 128 bits are no answer of clusterlaunchcontrol.try_cancel. Load all 16 bytes of the"
                " answer after its mbarrier's phase is complete.",
            )
        if kind == "pred":
            refused = active & ~granted
            if any_true(refused):
                bundle.cohort.own(_SawRefusal).ctas[bundle.rank] |= refused.any(axis=1)
            put(bundle.rows["pred"][targets[0][1]], granted, mask)
            return
        numbers = [low, low >> np.uint64(32), high, np.full((bundle.n, WARP_SIZE), _NO_CTA)]
        for axis, slot in targets:
            put(bundle.rows["u32"][slot], numbers[axis].astype(np.uint32), mask)

    return step
