"""The facts of an instruction: what checks, reports and pages need to know of it without running it.

An instruction states its facts where it is defined (emulator.core.registry). Nothing else decides by an
opcode's name. An arithmetic instruction states nothing, because the defaults are its facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from cutecourse.ptx.syntax import Address, Operand

__all__ = ["DescriptorOperand", "Facts", "Flow", "IntegerOperation", "MemoryUse", "Pipe"]


class Flow(Enum):
    """Where a thread goes on, if not at the next instruction."""

    BRANCH = auto()
    """At the label that the first operand names."""
    CALL = auto()
    """In the function that an operand names, and then at the next instruction."""
    LEAVE = auto()
    """Behind the call of this function, or nowhere."""
    FAIL = auto()
    """Nowhere, because the kernel ends with an error."""


class IntegerOperation(Enum):
    """An operation on integers or bits, for readers of a text that do not run it."""

    COPY = auto()
    """The result is the source; a vector is packed or unpacked, the first item lowest."""
    CONVERT = auto()
    """An integer of one type becomes one of another, as the two types say."""
    SELECT = auto()
    """The first or the second source."""
    NOT = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHIFT_LEFT = auto()
    SHIFT_RIGHT = auto()
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    """The low half of the product."""


class Pipe(Enum):
    """The engine that performs an instruction's work after its thread has issued it."""

    COPIES_OF_THREADS = auto()
    """cp.async: the thread's own accesses, made later."""
    STORES_TO_OTHERS = auto()
    """st.async and red.async: a thread's access to another CTA, made later."""
    BULK_COPIES = auto()
    """The copy engine, through the asynchronous proxy."""
    WGMMA = auto()
    """The tensor cores of a warpgroup, through the asynchronous proxy."""
    TCGEN05 = auto()
    """The tensor cores with tensor memory, through the asynchronous proxy."""
    TENSOR_LOADS = auto()
    """Loads of tensor memory into registers."""
    TENSOR_STORES = auto()
    """Stores of registers into tensor memory."""

    @property
    def is_asynchronous_proxy(self) -> bool:
        """True if the work uses the asynchronous proxy: it sees threads' stores only after a proxy fence."""
        return self in {Pipe.BULK_COPIES, Pipe.WGMMA, Pipe.TCGEN05}


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """One memory that an instruction reads or writes.

    space     "global", "shared" (of the own CTA), "shared::cluster" (of any CTA in the cluster), "local",
              "const", "param", "tensor", or "generic": the address decides.
    n_bytes   the bytes that are accessed at once and aligned as one: a lane's word or vector; for an
              asynchronous operation a chunk. Where the text does not fix them, the fewest that it may be.
    coherent  False for a read that need not see what others write during the launch.
    """

    space: str
    n_bytes: int
    reads: bool = False
    writes: bool = False
    coherent: bool = True

    @property
    def may_be_shared(self) -> bool:
        """True if the bytes may lie in shared memory."""
        return self.space in {"shared", "shared::cluster", "generic"}

    @property
    def may_be_global(self) -> bool:
        """True if the bytes may lie in global memory."""
        return self.space in {"global", "generic"}


@dataclass(frozen=True, slots=True)
class DescriptorOperand:
    """An operand that is a descriptor.

    name    what it describes: "A", "B", "source" or "instruction".
    format  the layout of its bits: a shared-memory matrix of sm_90 or sm_100, or an instruction descriptor.
    kind    for an instruction descriptor the kind of MMA, such as "f16" or "tf32".
    """

    name: str
    operand: int
    format: Literal["sm_90 matrix", "sm_100 matrix", "instruction"]
    kind: str = ""


_KINDRED = {("local", "param"), ("generic", "shared"), ("generic", "shared::cluster")}
"""An access's space, and the space of a use that covers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of an instruction, for all modules but the one that runs it."""

    refused: str = ""
    """The reason why the emulator refuses the instruction in every form; empty for one that it runs."""
    category: str = ""
    """The heading under which `cutecourse explain` lists it, such as "TMA"; empty if it does not."""

    # --- registers and control ---
    results: int = 1
    """How many operands, the first ones, are registers that are written; none if the first is an address."""
    computes: IntegerOperation | None = None
    """The operation on integers that gives the result, if it is one of the common ones."""
    wider_registers: bool = False
    """True if an operand may be a wider register than the type says; its low bits count."""
    address: Literal["", "derived", "converted"] = ""
    """True if the result can be an address that comes from a source; "converted" if the source is one."""
    flow: Flow | None = None
    """Where the thread may go on; None for the next instruction."""

    # --- memory ---
    uses: tuple[MemoryUse, ...] = ()
    """The memories that it reads and writes. An mbarrier is an object, not bytes, and is not among them."""
    pipe: Pipe | None = None
    """The engine that makes these uses, unless the thread makes them itself, at once."""
    passes: Literal["lanes", "rows", "copy", "cached copy"] = "lanes"
    """How an access of shared memory falls into passes over the banks: by the lanes' words, by rows of 16
    bytes, or as a copy's data comes, past L1 or through it."""
    uncounted: str = ""
    """The name under which a memory report lists it if it uses memory in other ways than lane by lane."""
    depends_on_order: bool = False
    """True if its result depends on the order in which threads run, also in a kernel without races."""
    only_asks: bool = False
    """True if it has a category but changes nothing, except for its result."""
    allocates: bool = False
    """True if it allocates tensor memory."""
    descriptors: tuple[DescriptorOperand, ...] = ()
    """The operands that are descriptors, in order."""

    # --- order ---
    publishes: bool = False
    """True if a thread may tell other threads by it what it has done."""
    fences_threads: bool = False
    """True if plain accesses before or after it can synchronize threads."""
    relaxed: bool = False
    """True for an arrival that does not order what its thread did before."""
    within_cta: bool = False
    """True for an arrival that shows what its thread did before to threads of its own CTA alone."""
    waits_for: Pipe | None = None
    """The work that is done when the thread goes on."""
    may_fail: bool = False
    """True if the thread may go on although what it waits for has not come; its result says which."""
    completes: Literal["arrivals", "bytes"] | None = None
    """Its effect on an mbarrier, now or when its work is done."""
    uses_cluster: bool = False
    """True if it refers to other CTAs of the cluster."""
    multicast: bool = False
    """True if it brings bytes to several CTAs."""
    releases_dependents: bool = False
    """True if it may let a launch that depends on this one start."""
    takes_clusters: bool = False
    """True if it may take a cluster that has not started from the grid, to do its work."""

    def split(self, operands: Sequence[Operand]) -> tuple[Sequence[Operand], Sequence[Operand]]:
        """The operands that are written registers, and those that are read."""
        count = 0 if not operands or isinstance(operands[0], Address) else self.results
        return operands[:count], operands[count:]

    @property
    def by_asynchronous_proxy(self) -> bool:
        """True if its uses of memory go through the asynchronous proxy."""
        return self.pipe is not None and self.pipe.is_asynchronous_proxy

    @property
    def multiplies_asynchronously(self) -> bool:
        """True if it multiplies matrices that it reads after its issue."""
        return self.category == "MMA" and self.pipe is not None

    @property
    def meets_others(self) -> bool:
        """True if it waits for other threads or engines, tells them something, or gives an engine work."""
        return bool(
            self.publishes or self.completes or self.waits_for or self.pipe or self.category == "barrier"
        )

    def reads(self, *spaces: str) -> bool:
        """True if it reads one of these memories."""
        return any(use.reads and use.space in spaces for use in self.uses)

    def writes(self, *spaces: str) -> bool:
        """True if it writes one of these memories."""
        return any(use.writes and use.space in spaces for use in self.uses)

    def states(self, space: str, n_bytes: int, *, reads: bool, writes: bool) -> bool:
        """True if a stated use covers an access; in shared memory also its size must be a multiple.

        A function's parameters lie in local memory. A generic address may have to lie in shared memory.
        """
        return any(
            (use.space in {space, "generic"} or (space, use.space) in _KINDRED)
            and (use.reads or not reads)
            and (use.writes or not writes)
            and (not use.may_be_shared or n_bytes % use.n_bytes == 0)
            for use in self.uses
        )
