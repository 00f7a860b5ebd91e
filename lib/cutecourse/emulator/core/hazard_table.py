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
        "no warp can go on: each waits for something that will never come",
        "the kernel would never end",
        "DeadlockError",
        fixed=True,
    ),
    Hazard(
        "transaction bytes",
        "error",
        "no warp can go on, and an mbarrier expects more or fewer bytes than the copies bring",
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
        "an mbarrier is used before its mbarrier.init, after its mbarrier.inval, or after its memory was"
        " overwritten",
        "the memory does not hold a barrier's state",
        "NoBarrierError",
        fixed=True,
    ),
    Hazard(
        "mbarrier in use",
        "error",
        "an mbarrier is initialised while it is valid, or invalidated while a thread waits for it",
        "the waiting thread may wait for ever; the document leaves the behaviour undefined",
        "BarrierInUse",
    ),
    Hazard(
        "mbarrier count",
        "error",
        "an mbarrier gets more arrivals than its phase waits for, or a count outside its range",
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
        "a block ends while one of its mbarriers has received bytes that its phase does not expect, or still"
        " expects bytes that never came",
        "the next phase would have ended early or never; the block did not wait for some of its copies",
        "OpenPhase",
    ),
)
_MEMORY = (
    Hazard(
        "out of bounds",
        "error",
        "an access lies outside every allocation, or crosses the end of one",
        "the hardware faults, or uses memory that belongs to something else",
        "AddressError",
        fixed=True,
    ),
    Hazard(
        "misaligned",
        "error",
        "an access is at an address that is not a multiple of its size",
        "the hardware faults",
        "AlignmentError",
        fixed=True,
    ),
    Hazard(
        "never written",
        "error",
        "shared, local or tensor memory is read that was never written, or that an asynchronous copy has not"
        " written yet",
        "the hardware returns whatever lay there",
        "UninitializedRead",
    ),
    Hazard(
        "read-only",
        "error",
        "the kernel writes to constant memory or to a kernel parameter",
        "the hardware faults",
        "ReadOnlyError",
        fixed=True,
    ),
    Hazard(
        "ended CTA",
        "error",
        "the shared memory or an mbarrier of a CTA of the cluster is used after that CTA has ended",
        "its memory may belong to another block by then; the hardware faults or harms that block",
        "ExitedCTAError",
        fixed=True,
    ),
    Hazard(
        "multicast",
        "error",
        "a multicast names a CTA that the cluster does not have, or whose mbarrier expects no bytes from it",
        "the hardware faults, or bytes arrive that no mbarrier expects",
        "MulticastError",
        fixed=True,
    ),
    Hazard(
        "unfinished copy",
        "error",
        "a block ends before a bulk copy has read its shared memory",
        "no document promises that the memory outlives the block",
        "UnfinishedCopy",
    ),
    Hazard(
        "unfinished load",
        "error",
        "a block ends while bytes are still to land in its shared memory",
        "they may land in the memory of the next block",
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
        "an operand differs between lanes of the warp, but must be the same in all of them",
        "it is undefined which lane's value counts",
        "NonUniformOperand",
        fixed=True,
    ),
    Hazard(
        "partial warp",
        "error",
        "only some lanes of a warp reach an instruction that the whole warp must execute together",
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
        " atomic orders them",
        "the hardware may run the two accesses in either order",
        "SharedMemoryRace",
    ),
    Hazard(
        "same value written",
        "note",
        "two warps write the same value to the same bytes of shared memory, and nothing orders them",
        "the memory model calls it a race, but both orders leave the same bytes; Triton's warp-specialised"
        " kernels hand over their states like this",
        "SameValueWritten",
    ),
    Hazard(
        "read before its wait",
        "error",
        "a thread, a copy or a tcgen05.mma uses shared memory that an asynchronous copy writes,"
        " but its thread has not waited for the copy's mbarrier or group",
        "the bytes may not be there yet",
        "ReadBeforeWait",
    ),
    Hazard(
        "stage reused early",
        "error",
        "a copy overwrites shared memory that others have read or still read, but its thread has waited"
        " for nothing that comes after those reads",
        "the readers may see the new bytes",
        "StageReusedEarly",
    ),
)
_MEANING = (
    Hazard(
        "another layout",
        "warning",
        "a tcgen05.mma or wgmma reads a matrix in another layout (swizzle, stride, major) than the one in"
        " which a copy wrote it",
        "every byte is defined, but the product is of shuffled matrices",
        "OperandLayoutMismatch",
    ),
    Hazard(
        "operand read twice",
        "warning",
        "one operand of a tcgen05.mma or wgmma has the same bytes of shared memory at several places",
        "every byte is defined, but one row is rarely meant to stand for several",
        "OperandReadTwice",
    ),
    Hazard(
        "another type",
        "warning",
        "a tcgen05.mma or wgmma reads floating-point numbers that a copy brought as another type than the"
        " tensor map's",
        "every byte is defined, but the product is of other numbers",
        "OperandTypeMismatch",
    ),
    Hazard(
        "fill multiplied",
        "note",
        "a tcgen05.mma or wgmma multiplies a tile that lies wholly outside its tensor",
        "the filled-in zeros add nothing; this is right where a grid is rounded up to whole"
        " clusters, and otherwise a sign of a wrong coordinate",
        "OperandOutsideTensor",
    ),
    Hazard(
        "another k",
        "warning",
        "the columns of A and the rows of B that a tcgen05.mma or wgmma multiplies do not have the same k in"
        " the tensors that they were loaded from, or some of those rows come from A's own tensor",
        "every byte is defined, but the product is not one of these tensors",
        "ReductionMismatch",
    ),
    Hazard(
        "loaded and never read",
        "warning",
        "bytes that a copy brought into shared memory were overwritten, or their block ended,"
        " before anything read them; or a"
        " tcgen05.mma or wgmma leaves out a part of a tile that threads have stored",
        "the result does not depend on data that the kernel loaded",
        "UnreadLoad",
    ),
    Hazard(
        "sum never read",
        "warning",
        "sums in tensor memory were overwritten or freed before they were read",
        "the result lacks products that were computed",
        "UnreadSum",
    ),
    Hazard(
        "sum read in another type",
        "warning",
        "sums of 16 bits are read from tensor memory as words of 32, without .pack::16b, or other"
        " sums with it; or a tcgen05.mma adds to sums of another type than its own",
        "the other half of each word does not belong to a sum",
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
        "an access uses columns of tensor memory that were never allocated, or that do not exist",
        "the hardware faults, or uses memory that belongs to something else",
        "TensorMemoryOutside",
        fixed=True,
    ),
    Hazard(
        "used after dealloc",
        "error",
        "an access uses columns of tensor memory that have been freed",
        "they may belong to another block by then",
        "TensorMemoryFreed",
        fixed=True,
    ),
    Hazard(
        "wrong lanes",
        "error",
        "a warp accesses lanes of tensor memory that it cannot reach, or an operand starts in a lane where"
        " it must not start",
        "the document leaves the behaviour undefined",
        "TensorMemoryLanesError",
        fixed=True,
    ),
    Hazard(
        "tensor memory leak",
        "error",
        "a CTA ends with tensor memory still allocated",
        "the document asks for the dealloc; a later block may lack the columns",
        "TensorMemoryLeak",
    ),
    Hazard(
        "read before written",
        "error",
        "tensor memory is read, written or freed before a tcgen05.mma, cp or st has written it",
        "nothing orders the two: the hardware gives either value",
        "TensorMemoryWriteUnderWay",
    ),
    Hazard(
        "written before read",
        "error",
        "tensor memory is written or freed before a tcgen05.mma has read its A there",
        "nothing orders the two",
        "TensorMemoryReadUnderWay",
    ),
    Hazard(
        "source overwritten",
        "error",
        "shared memory is written before a bulk copy, tcgen05.mma or cp has read it",
        "nothing orders the two",
        "OverwrittenSource",
    ),
    Hazard(
        "no proxy fence",
        "error",
        "a bulk copy, tcgen05.mma or cp reads shared memory that threads have written with no"
        " fence.proxy.async since",
        "the asynchronous proxy may not see the threads' stores",
        "MissingProxyFence",
    ),
    Hazard(
        "load under way",
        "error",
        "tensor memory is written or freed after a tcgen05.ld whose warp has not reached its"
        " tcgen05.wait::ld, or which has none and does not use a loaded register before it signals others",
        "only the wait orders a load before the next use of its columns",
        "TensorMemoryLoadUnderWay",
    ),
    Hazard(
        "load not waited for",
        "note",
        "tensor memory is written or freed after a tcgen05.ld with no tcgen05.wait::ld, but the thread uses"
        " a loaded register before it signals others",
        "the ISA orders the use after the load, and nothing else without the wait; ptxas makes the use"
        " wait until the load is over",
        "LoadNotWaitedFor",
    ),
    Hazard(
        "no fence after",
        "note",
        "tensor memory that others have written or read is used with no tcgen05.fence::after_thread_sync"
        " since",
        "the document asks for the fence; the CuTe DSL leaves it out, and ptxas keeps the instruction after"
        " the wait",
        "MissingFenceAfter",
    ),
    Hazard(
        "no fence before",
        "note",
        "a tcgen05.mma, cp or st uses tensor memory that another warp has loaded or stored, but that warp"
        " has executed no tcgen05.fence::before_thread_sync since",
        "the document asks for the fence; a warp that has waited for its loads and stores has"
        " none left to order",
        "MissingFenceBefore",
    ),
    Hazard(
        "another warp frees",
        "note",
        "another warp than that of the tcgen05.alloc executes a tcgen05.dealloc or relinquish_alloc_permit",
        "the document has one warp perform allocation and deallocation, which can be read either"
        " way; CUTLASS's example 77 frees in another warp",
        "FreedByAnotherWarp",
    ),
    Hazard(
        "order not promised",
        "note",
        "a tcgen05.mma uses tensor memory that an earlier tcgen05.mma reads, or writes as another"
        " accumulator or in another shape, or a tcgen05.cp uses what an earlier tcgen05.mma or cp"
        " reads or writes, with no wait between them",
        "the document orders two tcgen05.mma of one accumulator, shape and kind, and a tcgen05.mma after a"
        " tcgen05.cp; Triton's tutorial of tcgen05.cp says that the tensor core executes all of"
        " them in the order of issue",
        "UnpromisedOrder",
    ),
)
_WGMMA = (
    Hazard(
        "accumulator in flight",
        "error",
        "a register of D of a wgmma.mma_async is used, or one of A written, before the warp has reached the"
        " wgmma.wait_group of its group",
        "the document leaves the behaviour undefined; ptxas adds a wait where it sees the use",
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
_REGISTERS = (
    Hazard(
        "register pool",
        "error",
        "a setmaxnreg.inc asks for fewer registers than its warp has, a setmaxnreg.dec for more, or a warp"
        " executes a second setmaxnreg before its whole warpgroup has executed the first",
        "the document leaves the behaviour undefined",
        "RegisterPoolError",
        fixed=True,
    ),
    Hazard(
        "setmaxnreg ignored",
        "note",
        "a kernel executes setmaxnreg, but neither .maxnreg nor .minnctapersm says how many registers its"
        " warps start with",
        "the document allows that it has no effect; ptxas leaves it out and says so only with -v",
        "SetmaxnregIgnored",
    ),
)
HAZARDS = {
    hazard.name: hazard
    for hazard in (
        *_WAITS,
        *_BARRIERS,
        *_MEMORY,
        *_OPERANDS,
        *_SHARED,
        *_MEANING,
        *_TENSOR_MEMORY,
        *_WGMMA,
        *_REGISTERS,
    )
}
"""Every hazard, by name."""
