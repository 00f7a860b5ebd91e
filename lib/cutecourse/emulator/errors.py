"""Errors of the emulator: which kernel, PTX line, block, warp and lane, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.errors import CourseError
from cutecourse.ptx.sources import source_of

if TYPE_CHECKING:
    from cutecourse.ptx.sources import SourceLine
    from cutecourse.ptx.syntax import Module
    from cutecourse.trace import Trace

__all__ = [
    "AccumulatorInFlight",
    "AddressError",
    "AlignmentError",
    "BarrierCountError",
    "BarrierError",
    "BarrierInUse",
    "BarrierStateError",
    "BudgetExceeded",
    "DeadlockError",
    "DivergedWarp",
    "EmulatorError",
    "ExitedCTAError",
    "FreedByAnotherWarp",
    "InvalidOperand",
    "KernelTrap",
    "LaunchError",
    "LoadNotWaitedFor",
    "MissingFenceAfter",
    "MissingFenceBefore",
    "MissingProxyFence",
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
    "ReadBeforeWait",
    "ReadOnlyError",
    "ReductionMismatch",
    "RegisterPoolError",
    "SameValueWritten",
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
    "TensorMemoryLeak",
    "TensorMemoryLoadUnderWay",
    "TensorMemoryOutside",
    "TensorMemoryReadUnderWay",
    "TensorMemoryWriteUnderWay",
    "TransactionBytesError",
    "UnfinishedCopy",
    "UnfinishedLoad",
    "UninitializedRead",
    "UnpromisedOrder",
    "UnreadLoad",
    "UnreadSum",
    "UnsupportedInstruction",
]


class EmulatorError(CourseError):
    """Something is wrong with a kernel or its launch.

    `kernel`, `line` (of the PTX text), `block` (x, y, z), `rank` (the CTA's in its cluster, where there are
    several), `warp` (its rank in the block), `lane`, `address` and `allocation` (its name) are None where
    they do not apply. `source` is the line of the source language, where the text has `.loc`. `trace` is what
    happened until then, of a launch with a recorder.
    """

    source: SourceLine | None = None
    trace: Trace | None = None

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
        """Say the line of the source language too, where the text has one for the line of PTX."""
        if self.source is None:
            self.source = source_of(module, self.line)
            self.args = (self._message(),)

    def _message(self) -> str:
        where = []
        if self.kernel is not None:
            where.append(f"kernel {self.kernel}")
        if self.line is not None:
            where.append(f"PTX line {self.line}" + (f" ({self.source})" if self.source else ""))
        if self.block is not None:
            where.append(f"block {self.block}")
        if self.rank is not None:
            where.append(f"CTA {self.rank} of its cluster")
        if self.warp is not None:
            where.append(f"warp {self.warp}")
        if self.lane is not None:
            where.append(f"lane {self.lane}")
        message = self.problem
        if where:
            message += f"\n  at {', '.join(where)}"
        if self.text.strip():
            message += f"\n  {self.text.strip()}"
        return message


class LaunchError(EmulatorError):
    """The launch does not fit the kernel: grid, block, arguments, shared memory, entry."""


class UnsupportedInstruction(EmulatorError):
    """The emulator does not know an instruction, or a form of it."""


class InvalidOperand(EmulatorError):
    """An instruction's operands break one of its rules."""


class NonUniformOperand(InvalidOperand):
    """An operand that has to be the same in all lanes is not."""


class AddressError(EmulatorError):
    """An access outside every allocation, or across the end of one."""


class AlignmentError(EmulatorError):
    """An access at an address that is no multiple of its size."""


class UninitializedRead(EmulatorError):
    """A read of shared, local or tensor memory that nobody has written."""


class MissingWgmmaFence(EmulatorError):
    """A wgmma.mma_async used registers that others had used, with no wgmma.fence between."""


class MissingProxyFence(EmulatorError):
    """An asynchronous operation reads what threads have stored without a fence of the asynchronous proxy."""


class AccumulatorInFlight(EmulatorError):
    """A register of a wgmma.mma_async was used before its warp had waited for the operation's group."""


class OverwrittenSource(EmulatorError):
    """Shared memory was written that an asynchronous operation had still to read."""


class UnfinishedCopy(EmulatorError):
    """A block ended while a bulk copy could still read its shared memory.

    No document says that the memory outlives the block. An H200 did no harm in five launches of 1056 blocks.
    """


class TensorMemoryError(EmulatorError):
    """Tensor memory was used against its rules."""


class TensorMemoryAllocationError(TensorMemoryError):
    """Tensor memory was allocated or freed against the rules: columns, order, warp, permit."""


class TensorMemoryAccessError(TensorMemoryError):
    """An access to tensor memory that is not there, not allocated, freed, or out of the warp's reach."""


class TensorMemoryOutside(TensorMemoryAccessError):
    """An access to columns of tensor memory that nobody has allocated, or that are not there."""


class TensorMemoryFreed(TensorMemoryAccessError):
    """An access to columns of tensor memory that have been freed."""


class TensorMemoryLanesError(TensorMemoryAccessError):
    """An access to lanes of tensor memory that the warp does not reach, or where the operand cannot start."""


class TensorMemoryHazard(TensorMemoryError):
    """An access to tensor memory that nothing orders with another."""


class TensorMemoryWriteUnderWay(TensorMemoryHazard):
    """An access to tensor memory that an asynchronous operation or a store has still to write."""


class TensorMemoryReadUnderWay(TensorMemoryHazard):
    """A write to tensor memory that an asynchronous operation has still to read."""


class TensorMemoryLoadUnderWay(TensorMemoryHazard):
    """A write to tensor memory that a tcgen05.ld may still be reading."""


class LoadNotWaitedFor(TensorMemoryHazard):
    """A write to tensor memory behind a tcgen05.ld that only the use of its register has ended."""


class MissingFenceAfter(TensorMemoryHazard):
    """Tensor memory that others have used is used without tcgen05.fence::after_thread_sync."""


class MissingFenceBefore(TensorMemoryHazard):
    """Tensor memory is used that a warp has used without tcgen05.fence::before_thread_sync since."""


class UnpromisedOrder(TensorMemoryHazard):
    """Two asynchronous operations use the same tensor memory in an order that no document promises."""


class FreedByAnotherWarp(TensorMemoryError):
    """Tensor memory is freed by another warp than the one that has allocated it."""


class TensorMemoryLeak(TensorMemoryError):
    """A CTA ended with tensor memory allocated."""


class ReadOnlyError(EmulatorError):
    """A write to constant memory or to a kernel parameter."""


class DivergedWarp(EmulatorError):
    """An instruction that a whole warp has to execute together was reached by some of its lanes."""


class BarrierError(EmulatorError):
    """A barrier was used against its rules: counts that disagree or are no multiple of the warp size."""


class NoBarrierError(BarrierError):
    """An mbarrier operation where no mbarrier is: never initialised, invalidated, or overwritten."""


class BarrierInUse(BarrierError):
    """An mbarrier was initialised again or invalidated while it is valid or somebody waits for it."""


class BarrierCountError(BarrierError):
    """A count of an mbarrier outside its range: arrivals, bytes, or what it is initialised with."""


class BarrierStateError(BarrierError):
    """A state or parity that an mbarrier operation cannot take: of another barrier, too old, or invalid."""


class DeadlockError(EmulatorError):
    """No warp can go on: each waits for something that nobody will deliver."""


class BudgetExceeded(EmulatorError):
    """The kernel did not end within the allowed number of instructions."""


class KernelTrap(EmulatorError):
    """The kernel executed `trap` or a failing assertion."""


class SharedMemoryRace(EmulatorError):
    """Two warps use the same bytes of shared memory, one of them writes, and nothing orders them."""


class SameValueWritten(EmulatorError):
    """Two warps write the same bytes to the same shared memory, and nothing orders them."""


class ReadBeforeWait(EmulatorError):
    """Bytes that an asynchronous copy writes were used by someone who has not waited for the copy."""


class StageReusedEarly(EmulatorError):
    """A copy writes over shared memory, and nothing tells its issuer that the bytes there have been read."""


class RegisterPoolError(EmulatorError):
    """setmaxnreg was used against its rules: in the wrong direction, or again before its whole warpgroup."""


class SetmaxnregIgnored(EmulatorError):
    """A kernel has setmaxnreg and does not say how many registers its warps start with."""


class OperandLayoutMismatch(EmulatorError):
    """A matrix in shared memory is read by another layout than the one in which a copy wrote it."""


class OperandOutsideTensor(EmulatorError):
    """A matrix in shared memory holds nothing of the tensor that it was loaded from."""


class OperandReadTwice(EmulatorError):
    """One operand of a tcgen05.mma or wgmma has the same bytes of shared memory at several places."""


class OperandTypeMismatch(EmulatorError):
    """A matrix in shared memory is read as another floating-point type than its tensor map's."""


class ReductionMismatch(EmulatorError):
    """The columns of A and the rows of B that a tcgen05.mma or wgmma multiplies are not of one k."""


class UnreadLoad(EmulatorError):
    """Bytes that a copy brought were overwritten, or the block ended, and nobody had read them."""


class UnreadSum(EmulatorError):
    """Sums in tensor memory were overwritten or freed, and nobody had read them."""


class SumTypeMismatch(EmulatorError):
    """Sums of 16 bits in tensor memory are read as words of 32."""


class UnfinishedLoad(EmulatorError):
    """A block ended while bytes were still to land in its shared memory."""


class OpenPhase(EmulatorError):
    """A block ended, and an mbarrier had got bytes that nobody expects, or expected some that never came."""


class TransactionBytesError(DeadlockError):
    """No warp can go on, since an mbarrier expects more or fewer bytes than come to it."""


class MulticastError(EmulatorError):
    """A copy or a commit goes to a CTA that is not there, or whose mbarrier does not expect it."""


class ExitedCTAError(AddressError):
    """An access to the shared memory of a CTA of the cluster that has ended."""
