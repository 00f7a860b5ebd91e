"""A PTX emulator for learning and debugging: `launch` runs a kernel's PTX text on the CPU.

Public names: `launch` and its result, `explore` for one launch under many seeds, `supported_instructions`
for the coverage table, `HAZARDS` with their severities, and the errors.
"""

from __future__ import annotations

from cutecourse.emulator.errors import (
    AddressError,
    AlignmentError,
    BarrierCountError,
    BarrierError,
    BarrierInUse,
    BarrierStateError,
    BudgetExceeded,
    DeadlockError,
    DivergedWarp,
    EmulatorError,
    InvalidOperand,
    KernelTrap,
    LaunchError,
    MissingProxyFence,
    NoBarrierError,
    NonUniformOperand,
    OverwrittenSource,
    ReadOnlyError,
    TensorMemoryAccessError,
    TensorMemoryAllocationError,
    TensorMemoryError,
    TensorMemoryHazard,
    TensorMemoryLeak,
    UnfinishedCopy,
    UninitializedRead,
    UnsupportedInstruction,
)
from cutecourse.emulator.explore import Difference, Exploration, Outcome, explore
from cutecourse.emulator.launch import LaunchResult, launch
from cutecourse.emulator.notes import HAZARDS, Hazard, Note
from cutecourse.emulator.registry import InstructionInfo, supported_instructions
from cutecourse.emulator.tensor_map import TensorMap, TensorMapError

__all__ = [
    "HAZARDS",
    "AddressError",
    "AlignmentError",
    "BarrierCountError",
    "BarrierError",
    "BarrierInUse",
    "BarrierStateError",
    "BudgetExceeded",
    "DeadlockError",
    "Difference",
    "DivergedWarp",
    "EmulatorError",
    "Exploration",
    "Hazard",
    "InstructionInfo",
    "InvalidOperand",
    "KernelTrap",
    "LaunchError",
    "LaunchResult",
    "MissingProxyFence",
    "NoBarrierError",
    "NonUniformOperand",
    "Note",
    "Outcome",
    "OverwrittenSource",
    "ReadOnlyError",
    "TensorMap",
    "TensorMapError",
    "TensorMemoryAccessError",
    "TensorMemoryAllocationError",
    "TensorMemoryError",
    "TensorMemoryHazard",
    "TensorMemoryLeak",
    "UnfinishedCopy",
    "UninitializedRead",
    "UnsupportedInstruction",
    "explore",
    "launch",
    "supported_instructions",
]
