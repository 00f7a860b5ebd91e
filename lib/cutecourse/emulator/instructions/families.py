"""The modules that define instructions: importing this one registers them all."""

from __future__ import annotations

from cutecourse.emulator.instructions import refused
from cutecourse.emulator.instructions.alu import (
    approximate,
    arithmetic,
    bits,
    compare,
    convert,
    data_movement,
    floats,
    integers,
)
from cutecourse.emulator.instructions.bulk import copy as bulk_copy
from cutecourse.emulator.instructions.bulk import groups as bulk_groups
from cutecourse.emulator.instructions.bulk import launch_control, tensor_map_changes
from cutecourse.emulator.instructions.bulk import tensor as bulk_tensor
from cutecourse.emulator.instructions.control import control_flow, register_pool, shuffle
from cutecourse.emulator.instructions.memory import atomics, cp_async, load_store
from cutecourse.emulator.instructions.mma import ldmatrix, mma, wmma
from cutecourse.emulator.instructions.sync import async_store, barriers, cluster, fences, mbarrier
from cutecourse.emulator.instructions.tcgen05 import alloc as tcgen05_alloc
from cutecourse.emulator.instructions.tcgen05 import cp as tcgen05_cp
from cutecourse.emulator.instructions.tcgen05 import ld_st as tcgen05_ld_st
from cutecourse.emulator.instructions.tcgen05 import mma as tcgen05_mma
from cutecourse.emulator.instructions.tcgen05 import sync as tcgen05_sync
from cutecourse.emulator.instructions.wgmma import wgmma

__all__ = ["FAMILIES"]

FAMILIES = (
    arithmetic,
    integers,
    floats,
    approximate,
    bits,
    compare,
    convert,
    data_movement,
    load_store,
    atomics,
    cp_async,
    control_flow,
    shuffle,
    register_pool,
    barriers,
    mbarrier,
    cluster,
    async_store,
    fences,
    bulk_copy,
    bulk_groups,
    bulk_tensor,
    launch_control,
    tensor_map_changes,
    ldmatrix,
    mma,
    wmma,
    tcgen05_alloc,
    tcgen05_ld_st,
    tcgen05_cp,
    tcgen05_mma,
    tcgen05_sync,
    wgmma,
    refused,
)
