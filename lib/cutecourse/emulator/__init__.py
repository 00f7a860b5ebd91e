"""A PTX emulator for learning and debugging: `launch` runs a kernel's PTX text on the CPU.

Public names: `launch` and its result, `explore` for one launch under many seeds, `prove`
for one launch in every order, `TensorMap` for arguments,
`supported_instructions` for the coverage table, `HAZARDS` with their severities. The errors are in
`cutecourse.emulator.errors`; DESIGN.md beside this file explains how the package is built.
"""

from __future__ import annotations

from cutecourse.emulator.core.hazards import Note
from cutecourse.emulator.core.registry import InstructionInfo, supported_instructions
from cutecourse.emulator.errors import HAZARDS, EmulatorError, Hazard
from cutecourse.emulator.launch import LaunchResult, launch
from cutecourse.emulator.memory.tensor_map import TensorMap, TensorMapError
from cutecourse.emulator.prove import EventOrder, Proof, prove, replay
from cutecourse.emulator.tools.explore import Difference, Exploration, Outcome, explore

__all__ = [
    "HAZARDS",
    "Difference",
    "EmulatorError",
    "EventOrder",
    "Exploration",
    "Hazard",
    "InstructionInfo",
    "LaunchResult",
    "Note",
    "Outcome",
    "Proof",
    "TensorMap",
    "TensorMapError",
    "explore",
    "launch",
    "prove",
    "replay",
    "supported_instructions",
]
