"""Errors of the emulator, and the hazards for which they end a launch.

An error names the kernel, PTX line, block, warp and lane, and says what to do. A hazard is a mistake in a
kernel. Its error class states it once: its name, its severity, a description (the class's docstring unless
`what` says more) and the reason for the severity. `HAZARDS` is computed from the classes. The severities are

error    the launch ends: on hardware the result could differ, or the kernel could hang or fault
warning  the launch goes on: the result is defined, but very likely not the intended one
note     the launch goes on: the program leaves out something that the document asks for, but ptxas or the
         hardware makes up for it

Sources: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
         (#tcgen05-memory-consistency-model); mbarrier
         (#parallel-synchronization-and-communication-instructions-mbarrier); Async proxy (#async-proxy).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cutecourse.errors import CourseError
from cutecourse.ptx.demangle import short_name
from cutecourse.ptx.sources import source_of

if TYPE_CHECKING:
    from cutecourse.ptx.sources import SourceLine
    from cutecourse.ptx.syntax import Module
    from cutecourse.trace import Trace

__all__ = [
    "HAZARDS",
    "SEVERITIES",
    "AccumulatorInFlight",
    "AddressError",
    "AlignmentError",
    "AllocationOfTwoWarps",
    "ArrayTypeMismatch",
    "BarrierCountError",
    "BarrierError",
    "BarrierInUse",
    "BarrierSkipped",
    "BarrierStateError",
    "BudgetExceeded",
    "BytesNeverSent",
    "DeadlockError",
    "DivergedWarp",
    "EmulatorError",
    "ExitedCTAError",
    "Hazard",
    "InvalidOperand",
    "KernelTrap",
    "LanesNotOrdered",
    "LaunchError",
    "LoadNotWaitedFor",
    "MissingFenceAfter",
    "MissingFenceBefore",
    "MissingGridWait",
    "MissingProxyFence",
    "MissingTensorMapFence",
    "MissingWgmmaFence",
    "MulticastError",
    "NoBarrierError",
    "NonUniformOperand",
    "OpenPhase",
    "OperandLayoutMismatch",
    "OperandOutsideTensor",
    "OperandReadTwice",
    "OperandTypeMismatch",
    "OverwrittenSource",
    "ParityOfMinusOne",
    "ReadBeforeWait",
    "ReadOnlyError",
    "ReductionMismatch",
    "RegisterPoolError",
    "RequestAfterRefusal",
    "SameValueWritten",
    "ScaleMismatch",
    "ScopeTooNarrow",
    "SetmaxnregApart",
    "SetmaxnregIgnored",
    "SharedMemoryRace",
    "StageReusedEarly",
    "SumTypeMismatch",
    "TensorMemoryAccessError",
    "TensorMemoryAllocationError",
    "TensorMemoryError",
    "TensorMemoryFreed",
    "TensorMemoryHazard",
    "TensorMemoryLanesError",
    "TensorMemoryLanesLeftOut",
    "TensorMemoryLeak",
    "TensorMemoryLoadUnderWay",
    "TensorMemoryOperandError",
    "TensorMemoryOutside",
    "TensorMemoryReadUnderWay",
    "TensorMemoryWriteUnderWay",
    "TransactionBytesError",
    "UncheckedGridDependency",
    "UnfinishedCopy",
    "UnfinishedLoad",
    "UninitializedRead",
    "UnpromisedOrder",
    "UnreadLoad",
    "UnreadSum",
    "UnsupportedInstruction",
]

SEVERITIES = ("error", "warning", "note", "off")


@dataclass(frozen=True, slots=True)
class Hazard:
    """A mistake in a kernel, with its default severity; a launch may choose another one."""

    name: str
    severity: str
    """"error", "warning" or "note"."""
    why: str
    """The reason for this severity."""
    what: str = ""
    fixed: bool = False
    """True if a launch cannot choose another severity, because it could not go on."""
    kind: type[EmulatorError] | None = None
    """The error class that ends a launch for this hazard and no other."""

    @property
    def error(self) -> str:
        """The name of the error class."""
        return "" if self.kind is None else self.kind.__name__


def _fatal(name: str, why: str, what: str = "") -> Hazard:
    """A hazard that ends every launch."""
    return Hazard(name, "error", why, what, fixed=True)


HAZARDS: dict[str, Hazard] = {}
"""Every hazard by its name, in the order in which the classes below define them."""


class EmulatorError(CourseError):
    """Something is wrong with a kernel or its launch.

    `kernel`, `line` (of the PTX text), `block` (x, y, z), `rank` (of the CTA in a cluster of several CTAs),
    `warp` (its rank in the block), `lane`, `address` and `allocation` (its name) are None if they do not
    apply. `source` is the line of the source language, if the text has `.loc`. `trace` holds the events up to
    the error, if the launch has a recorder. `notes` are the hazards that the launch met before, and `final`
    says that no launch could go on after the error, whatever its hazard's severity.
    """

    hazard: ClassVar[Hazard]
    source: SourceLine | None = None
    trace: Trace | None = None
    notes: tuple[Any, ...] = ()
    final: bool = False

    def __init_subclass__(cls) -> None:
        own = cls.__dict__.get("hazard")
        if own is not None:
            said = (cls.__doc__ or "").split("\n")[0].rstrip(".")
            cls.hazard = replace(own, what=own.what or said[:1].lower() + said[1:], kind=cls)
            HAZARDS[own.name] = cls.hazard

    def __init__(
        self,
        problem: str,
        *,
        kernel: str | None = None,
        line: int | None = None,
        text: str = "",
        block: tuple[int, int, int] | None = None,
        rank: int | None = None,
        warp: int | None = None,
        lane: int | None = None,
        address: int | None = None,
        allocation: str | None = None,
    ) -> None:
        self.problem = problem
        self.kernel = kernel
        self.line = line
        self.text = text
        self.block = block
        self.rank = rank
        self.warp = warp
        self.lane = lane
        self.address = address
        self.allocation = allocation
        super().__init__(self._message())

    def locate(self, module: Module) -> None:
        """Add the line of the source language to the message, if `.loc` gives one for the PTX line."""
        if self.source is None:
            self.source = source_of(module, self.line)
            self.args = (self._message(),)

    def _message(self) -> str:
        source = f" ({self.source})" if self.source else ""
        places = [
            (self.kernel, f"kernel {short_name(self.kernel or '')}"),
            (self.line, f"PTX line {self.line}{source}"),
            (self.block, f"block {self.block}"),
            (self.rank, f"CTA {self.rank} of its cluster"),
            (self.warp, f"warp {self.warp}"),
            (self.lane, f"lane {self.lane}"),
        ]
        where = ", ".join(words for value, words in places if value is not None)
        message = self.problem + (f"\n  at {where}" if where else "")
        if self.text.strip():
            message += f"\n  {self.text.strip()}"
        return "\n  ".join([message, *(self.source.quoted() if self.source else ())])


class LaunchError(EmulatorError):
    """The launch does not fit the kernel: grid, block, arguments, shared memory, entry."""


class UnsupportedInstruction(EmulatorError):
    """The emulator does not know an instruction, or a form of it."""


class DeadlockError(EmulatorError):
    """No warp can go on: each waits for something that will never come."""

    hazard = _fatal("deadlock", "the kernel would never end")


class TransactionBytesError(DeadlockError):
    """An mbarrier expects more or fewer bytes than its copies bring.

    Then its phase never completes, and no warp can go on; or the phase completes before all bytes have
    landed. A launch can go on in the second case only.
    """

    hazard = Hazard("transaction bytes", "error", "its phase completes too early, or never")


class BudgetExceeded(EmulatorError):
    """The kernel has issued more instructions than the launch allows."""

    hazard = _fatal("endless", "a loop may wait for something that never comes")


class KernelTrap(EmulatorError):
    """The kernel executes trap or brkpt, or an assertion fails."""

    hazard = _fatal("trap", "the hardware ends the launch")


class BarrierError(EmulatorError):
    """A bar, barrier or barrier.cluster is used with counts that disagree, or out of turn."""

    hazard = _fatal("barrier rules", "the document leaves the behaviour undefined")


class BarrierSkipped(BarrierError):
    """Some threads of a block end without reaching a bar.sync at which the others wait for all threads."""

    hazard = Hazard(
        "barrier skipped",
        "warning",
        "the document asks all threads of the block for the barrier; since Volta the hardware stops waiting"
        " for threads that have ended, and the barrier orders nothing that they did before",
    )


class NoBarrierError(BarrierError):
    """An operation uses an mbarrier that was never initialised, or was invalidated or overwritten."""

    hazard = _fatal(
        "no mbarrier",
        "the memory does not hold a barrier's state",
        what="an mbarrier is used before its mbarrier.init, after its mbarrier.inval, or after its memory"
        " was overwritten",
    )


class BarrierInUse(BarrierError):
    """An mbarrier is initialised while it is valid, or invalidated while a thread waits for it."""

    hazard = Hazard(
        "mbarrier in use",
        "error",
        "the waiting thread may wait forever; the document leaves the behaviour undefined",
    )


class BarrierCountError(BarrierError):
    """An mbarrier gets more arrivals than its phase waits for, or a count outside its range."""

    hazard = _fatal("mbarrier count", "the document leaves the behaviour undefined")


class BarrierStateError(BarrierError):
    """A wait has a parity that is neither 0 nor 1, or a state of another barrier or of an old phase."""

    hazard = _fatal("mbarrier state", "the answer would mean nothing")


class ParityOfMinusOne(BarrierError):
    """A wait names the parity -1, which is taken as 1."""

    hazard = Hazard(
        "parity of minus one",
        "note",
        "the document has only the parities 0 and 1; Triton's specialized warps pass a sign-extended bit",
    )


class OpenPhase(EmulatorError):
    """A block ended while one of its mbarriers had received bytes that its phase does not expect."""

    hazard = Hazard(
        "open phase",
        "error",
        "the next phase would have ended early or never; the block did not wait for some of its copies",
    )


class BytesNeverSent(EmulatorError):
    """A block ended while one of its mbarriers expected bytes that no copy was to bring."""

    hazard = Hazard(
        "bytes never sent",
        "note",
        "nobody waits for that phase: the tail of a TMA producer announces bytes like this, and an H100"
        " runs it; a thread that needs the bytes and does not wait has a report of its own",
    )


class AddressError(EmulatorError):
    """An access lies outside every allocation, or crosses the end of one."""

    hazard = _fatal("out of bounds", "the hardware faults, or uses memory that belongs to something else")


class ArrayTypeMismatch(EmulatorError):
    """Numbers of type .f32 or .f64 are read from, or written to, an array whose elements are others.

    An array of unsigned integers may hold the bits of any type, and so may an array of narrower elements, or
    of integers of the same size, that a kernel copies as vectors of floats.
    """

    hazard = Hazard("array of another type", "warning", "every byte is defined, but the numbers are others")


class AlignmentError(EmulatorError):
    """An access is at an address that is not a multiple of its size."""

    hazard = _fatal("misaligned", "the hardware faults")


class UninitializedRead(EmulatorError):
    """Shared, local or tensor memory is read that nobody has written."""

    hazard = Hazard(
        "never written",
        "error",
        "the hardware returns whatever lay there",
        what="shared, local or tensor memory is read that was never written, or that an asynchronous copy"
        " has not written yet",
    )


class ReadOnlyError(EmulatorError):
    """The kernel writes to constant memory, to a kernel parameter or to a read-only array."""

    hazard = _fatal("read-only", "the hardware faults, or the launch's input changes")


class ExitedCTAError(AddressError):
    """The shared memory or an mbarrier of a CTA of the cluster is used when that CTA may have ended."""

    hazard = _fatal(
        "ended CTA", "its memory may belong to another block by then; the hardware faults or harms that block"
    )


class MulticastError(EmulatorError):
    """A multicast names a CTA that the cluster does not have, or whose mbarrier expects no bytes from it."""

    hazard = _fatal("multicast", "the hardware faults, or bytes arrive that no mbarrier expects")


class UnfinishedCopy(EmulatorError):
    """A block ended while a bulk copy could still read its shared memory.

    No document says that the memory outlives the block. An H200 did no harm in five launches of 1056 blocks.
    """

    hazard = Hazard(
        "unfinished copy",
        "error",
        "no document promises that the memory outlives the block",
        what="a block ends before a bulk copy has read its shared memory",
    )


class UnfinishedLoad(EmulatorError):
    """A block ends while bytes are still to land in its shared memory."""

    hazard = Hazard("unfinished load", "error", "they may land in the memory of the next block")


class InvalidOperand(EmulatorError):
    """An instruction's operands break one of its rules."""

    hazard = _fatal("invalid operand", "the document leaves the behaviour undefined")


class NonUniformOperand(InvalidOperand):
    """An operand differs between lanes of the warp, but must be the same in all of them."""

    hazard = _fatal("non-uniform operand", "it is undefined which lane's value counts")


class DivergedWarp(EmulatorError):
    """Only some lanes of a warp reach an instruction that the whole warp must execute together."""

    hazard = _fatal("partial warp", "the document leaves the behaviour undefined: often it hangs")


class SharedMemoryRace(EmulatorError):
    """Two warps use the same bytes of shared memory, one of them writes, and nothing orders them."""

    hazard = Hazard(
        "race",
        "error",
        "the hardware may run the two accesses in either order",
        what="two warps use the same bytes of shared memory, at least one writes, and no barrier, mbarrier"
        " or atomic orders them",
    )


class LanesNotOrdered(EmulatorError):
    """A lane uses memory before it has met the lane of its warp that wrote, read or waited for it."""

    hazard = Hazard(
        "lanes not ordered",
        "warning",
        "the lanes of a warp may run apart; where they stay together, the bytes are there",
        what="two lanes of a warp use the same bytes of shared memory, at least one writes, or one lane uses"
        " what only another one has waited for, and no bar.warp.sync or other barrier stands between the two",
    )


class SameValueWritten(EmulatorError):
    """Two warps write the same value to the same bytes of shared memory, and nothing orders them."""

    hazard = Hazard(
        "same value written",
        "note",
        "the memory model calls it a race, but both orders leave the same bytes; Triton's"
        " warp-specialised kernels hand over their states like this",
    )


class ScopeTooNarrow(EmulatorError):
    """Stores are used in another CTA, and the arrival that tells of them has the scope of its own CTA."""

    hazard = Hazard(
        "scope too narrow",
        "warning",
        "the memory model calls it a race; the hardware rarely shows the arrival before the stores",
        what="a thread or a tcgen05.mma uses shared memory that threads of another CTA have written, and the"
        " mbarrier.arrive in between shows stores to its own CTA alone: it has not .cluster",
    )


class ReadBeforeWait(EmulatorError):
    """Bytes that an asynchronous copy writes were used without a wait for the copy."""

    hazard = Hazard(
        "read before its wait",
        "error",
        "the bytes may not be there yet",
        what="a thread, a copy or a tcgen05.mma uses shared memory that an asynchronous copy writes, but"
        " its thread has not waited for the copy's mbarrier or group",
    )


class StageReusedEarly(EmulatorError):
    """A copy writes over shared memory, and nothing tells its issuer that the bytes there have been read."""

    hazard = Hazard(
        "stage reused early",
        "error",
        "the readers may see the new bytes",
        what="a copy overwrites shared memory that others have read or still read, but its thread has"
        " waited for nothing that comes after those reads",
    )


class OperandLayoutMismatch(EmulatorError):
    """A matrix in shared memory is read in another layout than the one in which a copy wrote it."""

    hazard = Hazard(
        "another layout",
        "warning",
        "every byte is defined, but the product is of shuffled matrices",
        what="a tcgen05.mma or wgmma reads a matrix in another layout (swizzle, stride, major) than the"
        " one in which a copy wrote it",
    )


class OperandReadTwice(EmulatorError):
    """One operand of a tcgen05.mma or wgmma uses the same bytes of shared memory in several places."""

    hazard = Hazard(
        "operand read twice",
        "warning",
        "every byte is defined, but one row is rarely meant to stand for several",
    )


class OperandTypeMismatch(EmulatorError):
    """A matrix in shared memory is read as another floating-point type than its tensor map's."""

    hazard = Hazard(
        "another type",
        "warning",
        "every byte is defined, but the product is of other numbers",
        what="a tcgen05.mma or wgmma reads floating-point numbers that a copy brought as another type than"
        " the tensor map's",
    )


class OperandOutsideTensor(EmulatorError):
    """A tcgen05.mma or wgmma multiplies a tile that lies wholly outside its tensor."""

    hazard = Hazard(
        "fill multiplied",
        "note",
        "the filled-in zeros add nothing; this is right where a grid is rounded up to whole clusters,"
        " and otherwise a sign of a wrong coordinate",
    )


class ReductionMismatch(EmulatorError):
    """The columns of A and the rows of B that a tcgen05.mma or wgmma multiplies differ in their k."""

    hazard = Hazard(
        "another k",
        "warning",
        "every byte is defined, but the product is not one of these tensors",
        what="the columns of A and the rows of B that a tcgen05.mma or wgmma multiplies do not have the"
        " same k in the tensors that they were loaded from, parts of one matrix have different k, or some"
        " of those rows come from A's own tensor",
    )


class ScaleMismatch(EmulatorError):
    """A tcgen05.mma multiplies a matrix by scale factors of other rows, or of the other matrix."""

    hazard = Hazard(
        "another scale",
        "warning",
        "every byte is defined, but the product is of other numbers",
        what="a tcgen05.mma scales a matrix by factors from outside their tensor, by those that scale other"
        " rows or another tensor, or by others than before",
    )


class UnreadLoad(EmulatorError):
    """Bytes that a copy brought were overwritten, or the block ended, before anything read them."""

    hazard = Hazard(
        "loaded and never read",
        "warning",
        "the result does not depend on data that the kernel loaded",
        what="bytes that a copy brought into shared memory were overwritten, or their block ended, before"
        " anything read them; or so were those that a tcgen05.cp brought into tensor memory; or a tcgen05.mma"
        " or wgmma leaves out a part of a tile that threads have stored",
    )


class UnreadSum(EmulatorError):
    """Sums in tensor memory were overwritten or freed before they were read."""

    hazard = Hazard("sum never read", "warning", "the result lacks products that were computed")


class SumTypeMismatch(EmulatorError):
    """16-bit sums in tensor memory are read as 32-bit words."""

    hazard = Hazard(
        "sum read in another type",
        "warning",
        "the other half of each word does not belong to a sum",
        what="sums of 16 bits are read from tensor memory as words of 32, without .pack::16b, or other"
        " sums with it; or a tcgen05.mma adds to sums of another type than its own",
    )


class TensorMemoryError(EmulatorError):
    """Tensor memory was used against its rules."""


class TensorMemoryAllocationError(TensorMemoryError):
    """Tensor memory is allocated or freed against the rules: columns, order, warp, permit, or freed twice."""

    hazard = _fatal("tensor memory allocation", "the hardware faults or hangs")


class TensorMemoryAccessError(TensorMemoryError):
    """An access uses tensor memory that does not exist, is not allocated, or is out of the warp's reach."""


class TensorMemoryOutside(TensorMemoryAccessError):
    """An access uses columns of tensor memory that were never allocated, or that do not exist."""

    hazard = _fatal(
        "outside the allocation", "the hardware faults, or uses memory that belongs to something else"
    )


class TensorMemoryFreed(TensorMemoryAccessError):
    """An access uses columns of tensor memory that have been freed."""

    hazard = _fatal("used after dealloc", "they may belong to another block by then")


class TensorMemoryLanesError(TensorMemoryAccessError):
    """A tcgen05.ld or st names lanes of tensor memory that its warp cannot reach.

    If a launch lowers the hazard, the warp accesses its own lanes.
    """

    hazard = Hazard(
        "wrong lanes",
        "error",
        "the document lets each warp access its own 32 lanes only, and does not say what happens in others",
    )


class TensorMemoryLanesLeftOut(TensorMemoryAccessError):
    """A tcgen05.ld or st of a warp has no lane in its address, so it names warp 0's lanes."""

    hazard = Hazard(
        "lanes left out",
        "note",
        "the document lets each warp access its own 32 lanes only; DeepGEMM leaves the lanes out and relies"
        " on getting each warp's own, but code that ptxas makes for a debugger checks the address",
    )


class TensorMemoryOperandError(TensorMemoryAccessError):
    """An operand of a tcgen05.mma or cp starts in a lane of tensor memory where it must not start."""

    hazard = _fatal("operand in a wrong lane", "the document leaves the behaviour undefined")


class TensorMemoryLeak(TensorMemoryError):
    """A CTA ends with tensor memory still allocated."""

    hazard = Hazard(
        "tensor memory leak", "error", "the document asks for the dealloc; a later block may lack the columns"
    )


class TensorMemoryHazard(TensorMemoryError):
    """Nothing orders two accesses to the same tensor memory."""


class TensorMemoryWriteUnderWay(TensorMemoryHazard):
    """Tensor memory is read, written or freed before a tcgen05.mma, cp or st has written it."""

    hazard = Hazard("read before written", "error", "nothing orders the two: the hardware gives either value")


class TensorMemoryReadUnderWay(TensorMemoryHazard):
    """Tensor memory is written or freed before a tcgen05.mma has read its A there."""

    hazard = Hazard("written before read", "error", "nothing orders the two")


class OverwrittenSource(EmulatorError):
    """Shared memory is written before a bulk copy, tcgen05.mma or cp has read it."""

    hazard = Hazard("source overwritten", "error", "nothing orders the two")


class MissingProxyFence(EmulatorError):
    """An asynchronous operation reads what threads have stored without a fence of the asynchronous proxy."""

    hazard = Hazard(
        "no proxy fence",
        "error",
        "the asynchronous proxy may not see the threads' stores",
        what="a bulk copy, tcgen05.mma or cp reads shared memory that threads have written with no"
        " fence.proxy.async since",
    )


class TensorMemoryLoadUnderWay(TensorMemoryHazard):
    """Tensor memory is written or freed while a tcgen05.ld may still be reading it."""

    hazard = Hazard(
        "load under way",
        "error",
        "only the wait orders a load before the next use of its columns",
        what="tensor memory is written or freed after a tcgen05.ld whose warp has not reached its"
        " tcgen05.wait::ld, or which has none and does not use a loaded register before it signals"
        " others",
    )


class LoadNotWaitedFor(TensorMemoryHazard):
    """Tensor memory is written or freed after a tcgen05.ld whose register was used without a wait."""

    hazard = Hazard(
        "load not waited for",
        "note",
        "the ISA orders the use after the load, and nothing else without the wait; ptxas makes the"
        " use wait until the load is over",
        what="tensor memory is written or freed after a tcgen05.ld with no tcgen05.wait::ld, but the"
        " thread uses a loaded register before it signals others",
    )


class MissingFenceAfter(TensorMemoryHazard):
    """Tensor memory that others have used is used without tcgen05.fence::after_thread_sync."""

    hazard = Hazard(
        "no fence after",
        "note",
        "the document asks for the fence; the CuTe DSL leaves it out, and ptxas keeps the instruction"
        " after the wait, so a kernel of the DSL needs no change",
        what="tensor memory that others have written or read is used with no"
        " tcgen05.fence::after_thread_sync since",
    )


class MissingFenceBefore(TensorMemoryHazard):
    """Tensor memory is used after a warp that has executed no tcgen05.fence::before_thread_sync since."""

    hazard = Hazard(
        "no fence before",
        "note",
        "the document asks for the fence; a warp that has waited for its loads and stores has none"
        " left to order",
        what="a tcgen05.mma, cp or st uses tensor memory that another warp has loaded or stored, but that"
        " warp has executed no tcgen05.fence::before_thread_sync since",
    )


class AllocationOfTwoWarps(TensorMemoryError):
    """A warp allocates tensor memory and another one of the CTA allocates, frees or relinquishes."""

    hazard = Hazard(
        "another warp allocates or frees",
        "note",
        "the document has one warp perform allocation and deallocation, which can mean one at a time;"
        " CUTLASS's example 77 frees in another warp",
    )


class UnpromisedOrder(TensorMemoryHazard):
    """Two asynchronous operations use the same tensor memory in an order that no document promises."""

    hazard = Hazard(
        "order not promised",
        "note",
        "the document orders two tcgen05.mma of one accumulator, shape and kind, and a tcgen05.mma"
        " after a tcgen05.cp; Triton's tutorial of tcgen05.cp says that the tensor core executes all"
        " of them in the order of issue",
        what="a tcgen05.mma uses tensor memory that an earlier tcgen05.mma reads, or writes as another"
        " accumulator or in another shape, or a tcgen05.cp uses what an earlier tcgen05.mma or cp"
        " reads or writes, with no wait between them",
    )


class AccumulatorInFlight(EmulatorError):
    """A register of a wgmma.mma_async was used before its warp had waited for the operation's group."""

    hazard = Hazard(
        "accumulator in flight",
        "error",
        "the document leaves the behaviour undefined; ptxas adds a wait where it sees the use",
        what="a register of D of a wgmma.mma_async is used, or one of A written, before the warp has"
        " reached the wgmma.wait_group of its group",
    )


class MissingWgmmaFence(EmulatorError):
    """A wgmma.mma_async uses registers that other instructions have used, with no wgmma.fence since."""

    hazard = Hazard("no wgmma fence", "note", "the document asks for the fence; ptxas adds it")


class RegisterPoolError(EmulatorError):
    """setmaxnreg was used against its rules: in the wrong direction, or again before its whole warpgroup."""

    hazard = _fatal(
        "register pool",
        "the document leaves the behaviour undefined",
        what="a setmaxnreg.inc asks for fewer registers than its warp has, a setmaxnreg.dec for more, or a"
        " warp executes a second setmaxnreg before its whole warpgroup has executed the first",
    )


class SetmaxnregApart(EmulatorError):
    """The warps of a warpgroup execute setmaxnreg at several lines, or the warpgroup is not whole."""

    hazard = Hazard(
        "setmaxnreg apart",
        "note",
        "the document asks all four warps for the same instruction; an H100 gives each warp what it asks for,"
        " and Triton's warp specialisation relies on it",
    )


class SetmaxnregIgnored(EmulatorError):
    """A kernel uses setmaxnreg but does not say how many registers its warps start with."""

    hazard = Hazard(
        "setmaxnreg ignored",
        "note",
        "the document allows that it has no effect; ptxas leaves it out and says so only with -v",
        what="a kernel executes setmaxnreg, but neither .maxnreg nor .minnctapersm says how many registers"
        " its warps start with",
    )


class UncheckedGridDependency(EmulatorError):
    """A kernel uses griddepcontrol, but the launch is not compared with another one."""

    hazard = Hazard(
        "grid dependency",
        "note",
        "a launch that is not given the one before it is not compared with it, so a griddepcontrol.wait that"
        " is missing or too late changes nothing; on an H200, 20 of 20 chains of kernels without it were"
        " wrong",
        what="a kernel executes griddepcontrol, whose effect shows only between launches that overlap",
    )


class MissingGridWait(EmulatorError):
    """A launch uses what the one before it uses too, with no griddepcontrol.wait in front of the use."""

    hazard = Hazard(
        "no grid wait",
        "error",
        "only griddepcontrol.wait makes sure that the earlier launch is over; on an H200, 20 of 20 chains of"
        " kernels without it were wrong",
        what="a launch that may run beside the one before it uses bytes that this one has written, or writes"
        " bytes that it has read, and the thread has not waited by griddepcontrol.wait, nor met one that has",
    )


class RequestAfterRefusal(EmulatorError):
    """A CTA asks for another cluster's work although it has found an earlier request refused."""

    hazard = Hazard(
        "request after refusal",
        "error",
        "the document leaves the behaviour undefined",
        what="a CTA executes clusterlaunchcontrol.try_cancel after is_canceled was false for an earlier one",
    )


class MissingTensorMapFence(EmulatorError):
    """A tensor copy uses a tensor map that was changed and not acquired since."""

    hazard = Hazard(
        "no tensor map fence",
        "error",
        "the document promises that the copy sees the change only after the fence",
        what="a tensor copy uses a tensor map in global memory that tensormap.replace or cp_fenceproxy has"
        " changed, with no fence.proxy.tensormap::generic.acquire in its CTA since",
    )
