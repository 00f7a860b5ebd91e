"""Special registers: the values of %tid, %laneid, %clock and the others.

Simplified: %clock and %clock64 count the instructions that the machine has issued, %globaltimer is that
            count in nanoseconds, %smid is the block's number modulo %nsmid, and %warpid is the warp's rank
            in its block.
Source: PTX ISA 9.0, Special Registers (#special-registers).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import WARP_SIZE
from cutecourse.emulator.core.machine import Machine

__all__ = ["N_SMS", "dynamic_value", "special_row"]

N_SMS = 132


def dynamic_value(name: str, machine: Machine) -> int:
    """The current value of a register that counts."""
    now = machine.issued
    if name.endswith("_hi"):
        return now >> 32
    if name in {"%clock", "%globaltimer_lo"} or (name.startswith("%pm") and not name.endswith("_64")):
        return now & 0xFFFFFFFF
    return now


def special_row(name: str, bundle: Bundle) -> NDArray[np.uint64]:
    """The values of a constant special register in each lane, shape (n, 32), as uint64."""
    machine, cohort = bundle.machine, bundle.cohort
    shape = (bundle.n, WARP_SIZE)
    lane = np.arange(WARP_SIZE)
    base, _, axis = name.partition(".")
    which = "xyz".find(axis) if axis else -1
    blocks = cohort.blocks[:, bundle.rank]
    grid, block, cluster = machine.grid, machine.block, machine.cluster
    value: Any
    match base:
        case "%tid":
            linear = bundle.warp * WARP_SIZE + lane
            value = (
                linear % block[0],
                linear // block[0] % block[1],
                linear // (block[0] * block[1]) % block[2],
            )[which]
        case "%ntid":
            value = block[which]
        case "%ctaid":
            value = blocks[:, which : which + 1]
        case "%nctaid":
            value = grid[which]
        case "%clusterid":
            value = blocks[:, which : which + 1] // cluster[which]
        case "%nclusterid":
            value = grid[which] // cluster[which]
        case "%cluster_ctaid":
            value = blocks[:, which : which + 1] % cluster[which]
        case "%cluster_nctaid":
            value = cluster[which]
        case "%cluster_ctarank":
            value = bundle.rank
        case "%cluster_nctarank":
            value = cohort.size
        case "%is_explicit_cluster":
            value = int(cohort.size > 1)
        case "%laneid":
            value = lane
        case "%warpid":
            value = bundle.warp
        case "%nwarpid":
            value = 64
        case "%smid":
            linear = blocks[:, 0:1] + grid[0] * (blocks[:, 1:2] + grid[1] * blocks[:, 2:3])
            value = linear % N_SMS
        case "%nsmid":
            value = N_SMS
        case "%gridid":
            value = 1
        case "%lanemask_eq":
            value = 1 << lane
        case "%lanemask_le":
            value = (2 << lane) - 1
        case "%lanemask_lt":
            value = (1 << lane) - 1
        case "%lanemask_ge":
            value = 0xFFFFFFFF & ~((1 << lane) - 1)
        case "%lanemask_gt":
            value = 0xFFFFFFFF & ~((2 << lane) - 1)
        case "%dynamic_smem_size":
            value = machine.dynamic_smem
        case "%total_smem_size" | "%aggr_smem_size":
            value = bundle.program.shared_bytes
        case _:
            # This machine has no environment registers and no reserved shared memory.
            value = 0
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.uint64), shape))
