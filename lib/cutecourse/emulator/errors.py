"""Errors of the emulator: which kernel, PTX line, block, warp and lane, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutecourse.errors import CourseError

if TYPE_CHECKING:
    from cutecourse.trace import Trace

__all__ = [
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
    "InvalidOperand",
    "KernelTrap",
    "LaunchError",
    "NoBarrierError",
    "NonUniformOperand",
    "ReadOnlyError",
    "TensorMemoryAccessError",
    "TensorMemoryAllocationError",
    "TensorMemoryError",
    "TensorMemoryHazard",
    "TensorMemoryLeak",
    "UnfinishedCopy",
    "UninitializedRead",
    "UnsupportedInstruction",
]


class EmulatorError(CourseError):
    """Something is wrong with a kernel or its launch.

    `kernel`, `line` (of the PTX text), `block` (x, y, z), `warp` (its rank in the block), `lane`, `address`
    and `allocation` (its name) are None where they do not apply. `trace` is what happened until then, of a
    launch with a recorder.
    """

    trace: Trace | None = None

    def __init__(
        self,
        problem: str,
        *,
        kernel: str | None = None,
        line: int | None = None,
        text: str = "",
        block: tuple[int, int, int] | None = None,
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
        self.warp = warp
        self.lane = lane
        self.address = address
        self.allocation = allocation
        where = []
        if kernel is not None:
            where.append(f"kernel {kernel}")
        if line is not None:
            where.append(f"PTX line {line}")
        if block is not None:
            where.append(f"block {block}")
        if warp is not None:
            where.append(f"warp {warp}")
        if lane is not None:
            where.append(f"lane {lane}")
        message = problem
        if where:
            message += f"\n  at {', '.join(where)}"
        if text.strip():
            message += f"\n  {text.strip()}"
        super().__init__(message)


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
    """A read of shared or local memory that nobody has written."""


class MissingProxyFence(EmulatorError):
    """A bulk copy read shared memory that a thread had written without a fence of the asynchronous proxy."""


class OverwrittenSource(EmulatorError):
    """A thread wrote to shared memory that a bulk copy had still to read."""


class UnfinishedCopy(EmulatorError):
    """A block ended while a bulk copy could still read its shared memory.

    No document says that the memory outlives the block. An H200 did no harm in five launches of 1056 blocks.
    """


class TensorMemoryError(EmulatorError):
    """Tensor memory was used against its rules."""


class TensorMemoryAllocationError(TensorMemoryError):
    """Tensor memory was allocated or freed against the rules: columns, order, warp, permit."""


class TensorMemoryAccessError(TensorMemoryError):
    """An access to tensor memory outside of what is allocated, or of lanes that the warp does not reach."""


class TensorMemoryHazard(TensorMemoryError):
    """An access to tensor memory that an asynchronous operation has still to read or to write."""


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
