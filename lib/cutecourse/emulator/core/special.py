"""Special registers: the values of %tid, %laneid, %clock and the others.

Simplified: %clock and %clock64 count the instructions that the machine has issued, %globaltimer is that
            count in nanoseconds, %smid is the block's number modulo %nsmid, and %warpid is the warp's rank
            in its block. %envreg1 and %envreg2 are the upper and lower half of the address of a cooperative
            launch's workspace, as the code that nvcc makes of cooperative groups reads them, or else 0.
Source: PTX ISA 9.0, Special Registers (#special-registers).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import ALL_LANES, WARP_SIZE, coordinates
from cutecourse.emulator.core.machine import Machine

__all__ = ["N_SMS", "depends_on_order", "dynamic_value", "special_row"]

N_SMS = 132
_LANE = np.arange(WARP_SIZE, dtype=np.int64)  # NumPy in a browser defaults to 32 bits, too few for a mask
_LANES = {
    name: np.asarray(values, dtype=np.uint64)
    for name, values in {
        "%laneid": _LANE,
        "%lanemask_eq": 1 << _LANE,
        "%lanemask_le": (2 << _LANE) - 1,
        "%lanemask_lt": (1 << _LANE) - 1,
        "%lanemask_ge": ALL_LANES & ~((1 << _LANE) - 1),
        "%lanemask_gt": ALL_LANES & ~((2 << _LANE) - 1),
    }.items()
}
"""Registers with the same values in every warp, by lane."""


def depends_on_order(name: str) -> bool:
    """True for a special register whose value the order of a run decides: a clock, or the SM's number."""
    return name.startswith(("%clock", "%globaltimer", "%pm", "%smid", "%warpid"))


def dynamic_value(name: str, machine: Machine) -> int:
    """The current value of a register that counts."""
    now = machine.issued
    if name.endswith("_hi"):
        return now >> 32
    if name in {"%clock", "%globaltimer_lo"} or (name.startswith("%pm") and not name.endswith("_64")):
        return now & 0xFFFFFFFF
    return now


def special_row(name: str, bundle: Bundle) -> NDArray[np.uint64]:
    """The values of a constant special register as uint64; they broadcast to one for each lane, (n, 32)."""
    if (of_lane := _LANES.get(name)) is not None:
        return of_lane
    machine, cohort = bundle.machine, bundle.cohort
    base, _, axis = name.partition(".")
    which = "xyz".index(axis)
    grid, block, cluster = (extents[which] for extents in (machine.grid, machine.block, machine.cluster))
    blocks = cohort.blocks[:, bundle.rank, which, None]
    value: Any
    match base:
        case "%tid":
            value = coordinates(bundle.warp * WARP_SIZE + _LANE, machine.block)[:, which]
        case "%ctaid":
            value = blocks
        case "%clusterid":
            value = blocks // cluster
        case "%cluster_ctaid":
            value = blocks % cluster
        case "%smid":
            x, y, z = cohort.blocks[:, bundle.rank, :, None].transpose(1, 0, 2)
            value = (x + machine.grid[0] * (y + machine.grid[1] * z)) % N_SMS
        case _:
            value = {
                "%ntid": block,
                "%nctaid": grid,
                "%nclusterid": grid // cluster,
                "%cluster_nctaid": cluster,
                "%cluster_ctarank": bundle.rank,
                "%cluster_nctarank": cohort.size,
                "%is_explicit_cluster": int(cohort.size > 1),
                "%warpid": bundle.warp,
                "%nwarpid": 64,
                "%nsmid": N_SMS,
                "%gridid": 1,
                "%dynamic_smem_size": machine.dynamic_smem,
                "%total_smem_size": bundle.program.shared_bytes,
                "%aggr_smem_size": bundle.program.shared_bytes,
                "%envreg1": machine.workspace >> 32,
                "%envreg2": machine.workspace & 0xFFFFFFFF,
                # This machine has no other environment registers and no reserved shared memory.
            }.get(base, 0)
    return np.asarray(value, dtype=np.uint64)
