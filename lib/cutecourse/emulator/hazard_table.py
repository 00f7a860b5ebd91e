"""The hazards that a launch looks for: what each is, how grave, and which error it raises.

error    the launch ends: on hardware the result could be another, or the kernel could hang or fault
warning  the launch goes on: the result is defined, and very likely not the one that was meant
note     the launch goes on: the document asks for something that the program leaves out, and what ptxas or
         the hardware does makes up for it

Sources: PTX ISA 9.0, Memory Consistency Model for 5th generation of TensorCore operations
         (#tcgen05-memory-consistency-model); mbarrier
         (#parallel-synchronization-and-communication-instructions-mbarrier); Async proxy (#async-proxy).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HAZARDS", "SEVERITIES", "Hazard"]

SEVERITIES = ("error", "warning", "note", "off")


@dataclass(frozen=True, slots=True)
class Hazard:
    """What can go wrong in a kernel, and how grave it is where a launch does not say otherwise."""

    name: str
    severity: str
    """"error", "warning" or "note"."""
    what: str
    why: str
    """Why it has this severity."""
    error: str
    """The class of the error that ends a launch, its own alone."""
    fixed: bool = False
    """Whether a launch cannot choose another severity, since it could not go on."""


_WAITS = (
    Hazard(
        "deadlock",
        "error",
        "no warp can go on, each waits for something that nobody will deliver",
        "the kernel would never end",
        "DeadlockError",
        fixed=True,
    ),
    Hazard(
        "transaction bytes",
        "error",
        "no warp can go on, and an mbarrier expects more or fewer bytes than copies bring",
        "its phase never completes",
        "TransactionBytesError",
        fixed=True,
    ),
    Hazard(
        "endless",
        "error",
        "the kernel has issued more instructions than the launch allows",
        "a loop may wait for something that never comes",
        "BudgetExceeded",
        fixed=True,
    ),
    Hazard(
        "trap",
        "error",
        "the kernel executes trap or brkpt, or an assertion fails",
        "the hardware ends the launch",
        "KernelTrap",
        fixed=True,
    ),
)
_BARRIERS = (
    Hazard(
        "no mbarrier",
        "error",
        "an mbarrier is used before its mbarrier.init, after its mbarrier.inval, or after something was"
        " stored over it",
        "what the memory holds is no barrier's state",
        "NoBarrierError",
        fixed=True,
    ),
    Hazard(
        "mbarrier in use",
        "error",
        "an mbarrier is initialised while it is valid, or invalidated while somebody waits for it",
        "who waits for it may wait for ever; the document leaves the behaviour undefined",
        "BarrierInUse",
    ),
    Hazard(
        "mbarrier count",
        "error",
        "an mbarrier gets more arrivals than its phase waits for, or a count outside of its range",
        "the document leaves the behaviour undefined",
        "BarrierCountError",
        fixed=True,
    ),
    Hazard(
        "mbarrier state",
        "error",
        "a wait has a parity that is neither 0 nor 1, or a state of another barrier or of an old phase",
        "the answer would mean nothing",
        "BarrierStateError",
        fixed=True,
    ),
    Hazard(
        "barrier rules",
        "error",
        "a bar, barrier or barrier.cluster is used with counts that disagree, or out of turn",
        "the document leaves the behaviour undefined",
        "BarrierError",
        fixed=True,
    ),
    Hazard(
        "open phase",
        "error",
        "a block ends, and an mbarrier of it has got bytes in its phase that nobody expects, or expects bytes"
        " that never came",
        "the next phase would have ended early or never; a part of the copies was not waited for",
        "OpenPhase",
    ),
)
_MEMORY = (
    Hazard(
        "out of bounds",
        "error",
        "an access outside of every allocation, or across the end of one",
        "the hardware faults, or reads and writes what is another's",
        "AddressError",
        fixed=True,
    ),
    Hazard(
        "misaligned",
        "error",
        "an access at an address that is no multiple of its size",
        "the hardware faults",
        "AlignmentError",
        fixed=True,
    ),
    Hazard(
        "never written",
        "error",
        "shared, local or tensor memory is read where nobody has written, or where an asynchronous copy has"
        " still to write",
        "the hardware gives whatever lay there",
        "UninitializedRead",
    ),
    Hazard(
        "read-only",
        "error",
        "a write to constant memory or to a kernel parameter",
        "the hardware faults",
        "ReadOnlyError",
        fixed=True,
    ),
    Hazard(
        "ended CTA",
        "error",
        "the shared memory or an mbarrier of a CTA of the cluster is used, and the CTA has ended",
        "its memory may be another block's; the hardware faults or harms that block",
        "ExitedCTAError",
        fixed=True,
    ),
    Hazard(
        "multicast",
        "error",
        "a multicast names a CTA that the cluster does not have, or whose mbarrier expects no bytes of it",
        "the hardware faults, or bytes arrive where nobody counts them",
        "MulticastError",
        fixed=True,
    ),
    Hazard(
        "unfinished copy",
        "error",
        "a block ends while a bulk copy has still to read its shared memory",
        "no document says that the memory outlives the block",
        "UnfinishedCopy",
    ),
    Hazard(
        "unfinished load",
        "error",
        "a block ends while bytes are still to land in its shared memory",
        "they may land in the memory of the block that comes next",
        "UnfinishedLoad",
    ),
)
_OPERANDS = (
    Hazard(
        "invalid operand",
        "error",
        "an instruction's operands break one of its rules",
        "the document leaves the behaviour undefined",
        "InvalidOperand",
        fixed=True,
    ),
    Hazard(
        "non-uniform operand",
        "error",
        "an operand that has to be the same in all lanes of the warp is not",
        "which lane's value counts is undefined",
        "NonUniformOperand",
        fixed=True,
    ),
    Hazard(
        "partial warp",
        "error",
        "an instruction that a whole warp has to execute together is reached by some of its lanes",
        "the document leaves the behaviour undefined: often it hangs",
        "DivergedWarp",
        fixed=True,
    ),
)
_SHARED = (
    Hazard(
        "race",
        "error",
        "two warps use the same bytes of shared memory, at least one writes, and no barrier, mbarrier or"
        " atomic lies between them",
        "the hardware may run them in either order",
        "SharedMemoryRace",
    ),
    Hazard(
        "read before its wait",
        "error",
        "shared memory that an asynchronous copy writes is used by a thread, a copy or a tcgen05.mma whose"
        " thread has not waited for the copy's mbarrier or group",
        "the bytes need not be there yet",
        "ReadBeforeWait",
    ),
    Hazard(
        "stage reused early",
        "error",
        "a copy writes over shared memory that others have read or still read, and its thread has waited"
        " for nothing that comes behind those reads",
        "they may read the new bytes",
        "StageReusedEarly",
    ),
)
_MEANING = (
    Hazard(
        "another layout",
        "warning",
        "a tcgen05.mma or wgmma reads a matrix by another layout (swizzle, stride, major) than the one in"
        " which a copy wrote it",
        "every byte is defined, and the product is of shuffled matrices",
        "OperandLayoutMismatch",
    ),
    Hazard(
        "operand read twice",
        "warning",
        "one operand of a tcgen05.mma or wgmma has the same bytes of shared memory at several places",
        "every byte is defined; rows that stand for several are rarely meant",
        "OperandReadTwice",
    ),
    Hazard(
        "another type",
        "warning",
        "a tcgen05.mma or wgmma reads the floating-point numbers that a copy brought as another type than the"
        " tensor map's",
        "every byte is defined, and the product is of other numbers",
        "OperandTypeMismatch",
    ),
    Hazard(
        "fill multiplied",
        "note",
        "a tcgen05.mma or wgmma multiplies a tile that lies wholly outside of its tensor",
        "what is filled in adds nothing; right where a grid is rounded up to whole clusters, and else a wrong"
        " coordinate",
        "OperandOutsideTensor",
    ),
    Hazard(
        "another k",
        "warning",
        "the columns of A and the rows of B that a tcgen05.mma or wgmma multiplies are not of the same k in"
        " the tensors that they were loaded from, or some of those rows are of A's own tensor",
        "every byte is defined, and the product is none of these tensors",
        "ReductionMismatch",
    ),
    Hazard(
        "loaded and never read",
        "warning",
        "bytes that a copy brought into shared memory were overwritten, or their block ended, unread; or a"
        " tcgen05.mma or wgmma leaves out a part of a tile that threads have stored",
        "the result does not depend on what was asked for",
        "UnreadLoad",
    ),
    Hazard(
        "sum never read",
        "warning",
        "sums in tensor memory were overwritten or freed, and nobody had read them",
        "the result lacks products that were computed",
        "UnreadSum",
    ),
    Hazard(
        "sum read in another type",
        "warning",
        "sums of 16 bits are read from tensor memory as words of 32, without .pack::16b, or others with it;"
        " or a tcgen05.mma adds to sums of another type than its own",
        "the other half of each word is not a sum's",
        "SumTypeMismatch",
    ),
)
_TENSOR_MEMORY = (
    Hazard(
        "tensor memory allocation",
        "error",
        "tensor memory is allocated or freed against the rules: columns, order, warp, permit, or freed twice",
        "the hardware faults or hangs",
        "TensorMemoryAllocationError",
        fixed=True,
    ),
    Hazard(
        "outside the allocation",
        "error",
        "an access to columns of tensor memory that were never allocated, or that are not there",
        "the hardware faults, or reads and writes what is another's",
        "TensorMemoryOutside",
        fixed=True,
    ),
    Hazard(
        "used after dealloc",
        "error",
        "an access to columns of tensor memory that have been freed",
        "they may be another block's by then",
        "TensorMemoryFreed",
        fixed=True,
    ),
    Hazard(
        "wrong lanes",
        "error",
        "a warp accesses lanes of tensor memory that it does not reach, or an operand starts in a lane where"
        " it cannot",
        "the document leaves the behaviour undefined",
        "TensorMemoryLanesError",
        fixed=True,
    ),
    Hazard(
        "tensor memory leak",
        "error",
        "a CTA ends with tensor memory allocated",
        "the document asks for the dealloc; the columns may be missing to a later block",
        "TensorMemoryLeak",
    ),
    Hazard(
        "read before written",
        "error",
        "tensor memory is read, written or freed while a tcgen05.mma, cp or st has still to write it",
        "nothing orders them: the hardware gives either value",
        "TensorMemoryWriteUnderWay",
    ),
    Hazard(
        "written before read",
        "error",
        "tensor memory is written or freed while a tcgen05.mma has still to read A there",
        "nothing orders them",
        "TensorMemoryReadUnderWay",
    ),
    Hazard(
        "source overwritten",
        "error",
        "shared memory is written while a bulk copy, tcgen05.mma or cp has still to read it",
        "nothing orders them",
        "OverwrittenSource",
    ),
    Hazard(
        "no proxy fence",
        "error",
        "a bulk copy, tcgen05.mma or cp reads shared memory that threads have written with no"
        " fence.proxy.async since",
        "the asynchronous proxy need not see the threads' stores",
        "MissingProxyFence",
    ),
    Hazard(
        "load under way",
        "error",
        "tensor memory is written or freed after a tcgen05.ld whose warp has not come to its"
        " tcgen05.wait::ld, or which has none and does not use a loaded register before it tells others",
        "only the wait orders a load before whoever takes its columns next",
        "TensorMemoryLoadUnderWay",
    ),
    Hazard(
        "load not waited for",
        "note",
        "tensor memory is written or freed after a tcgen05.ld with no tcgen05.wait::ld, and the thread uses"
        " a loaded register before it tells others",
        "the ISA makes the use follow the load, and without the wait orders nothing else; ptxas makes the use"
        " wait until the load is over",
        "LoadNotWaitedFor",
    ),
    Hazard(
        "no fence after",
        "note",
        "tensor memory that others have written or read is used with no tcgen05.fence::after_thread_sync"
        " since",
        "the document asks for the fence; the CuTe DSL leaves it out, and ptxas keeps the instruction behind"
        " the wait",
        "MissingFenceAfter",
    ),
    Hazard(
        "no fence before",
        "note",
        "a tcgen05.mma, cp or st uses tensor memory that another warp has loaded or stored, and that warp"
        " has executed no tcgen05.fence::before_thread_sync since",
        "the document asks for the fence; a warp that has waited for its loads and stores has no other left",
        "MissingFenceBefore",
    ),
    Hazard(
        "another warp frees",
        "note",
        "a tcgen05.dealloc or relinquish_alloc_permit is executed by another warp than the tcgen05.alloc",
        "the document has one warp perform allocation and deallocation, and can be read either way; CUTLASS's"
        " example 77 frees in another warp",
        "FreedByAnotherWarp",
    ),
    Hazard(
        "order not promised",
        "note",
        "a tcgen05.mma uses tensor memory that an earlier tcgen05.mma reads, or writes as another"
        " accumulator or in another shape, or a tcgen05.cp what an earlier tcgen05.mma or cp reads or writes,"
        " and nobody has waited between",
        "the document orders two tcgen05.mma of one accumulator, shape and kind, and a tcgen05.mma behind a"
        " tcgen05.cp; the tensor core executes all in the order of issue, says Triton's tutorial of"
        " tcgen05.cp",
        "UnpromisedOrder",
    ),
)
_WGMMA = (
    Hazard(
        "accumulator in flight",
        "error",
        "a register of D of a wgmma.mma_async is used, or one of A written, and the warp has not come to the"
        " wgmma.wait_group of its group",
        "the document leaves undefined what happens; ptxas adds a wait where it sees the use",
        "AccumulatorInFlight",
    ),
    Hazard(
        "no wgmma fence",
        "note",
        "a wgmma.mma_async uses registers that other instructions have used, with no wgmma.fence since",
        "the document asks for the fence; ptxas adds it",
        "MissingWgmmaFence",
    ),
)
HAZARDS = {
    hazard.name: hazard
    for hazard in (*_WAITS, *_BARRIERS, *_MEMORY, *_OPERANDS, *_SHARED, *_MEANING, *_TENSOR_MEMORY, *_WGMMA)
}
"""Every hazard, by name."""
