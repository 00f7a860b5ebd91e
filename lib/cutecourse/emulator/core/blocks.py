"""Starting blocks: a cohort with its shared memory, its bundles and its observers."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.frame import align_up
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.memory import POISON
from cutecourse.emulator.core.special import special_row

__all__ = ["make_cohort"]


def make_cohort(machine: Machine, clusters: NDArray[np.int64]) -> Cohort:
    """Make the cohort of some blocks; `clusters` are the numbers of their clusters in the grid."""
    program = machine.program
    per_axis = [g // c for g, c in zip(machine.grid, machine.cluster, strict=True)]
    size = machine.cluster[0] * machine.cluster[1] * machine.cluster[2]
    ranks = np.arange(size)
    within = np.stack(
        [
            ranks % machine.cluster[0],
            ranks // machine.cluster[0] % machine.cluster[1],
            ranks // (machine.cluster[0] * machine.cluster[1]),
        ],
        axis=-1,
    )
    origin = np.stack(
        [
            clusters % per_axis[0],
            clusters // per_axis[0] % per_axis[1],
            clusters // (per_axis[0] * per_axis[1]),
        ],
        axis=-1,
    ) * np.array(machine.cluster)
    # No swizzle pattern, and no unit of the record of races, then crosses into another block.
    stride = align_up(max(program.shared_bytes, 1), 1024)
    total = len(clusters) * size * stride
    cohort = Cohort(
        machine=machine,
        n=len(clusters),
        size=size,
        blocks=(origin[:, None, :] + within[None, :, :]).astype(np.int64),
        shared_stride=stride,
        shared=np.full(total, POISON, dtype=np.uint8),
        shared_written=np.zeros(total, dtype=np.uint8),
        numbers=np.asarray(clusters, dtype=np.int64),
    )
    for make in machine.observers:
        observer = make(cohort)
        if observer is not None:
            cohort.listeners.subscribe(observer)
    start = program.starts[machine.entry.name]
    for rank in range(size):
        for warp in range(machine.warps_per_block):
            bundle = Bundle(machine, program, cohort, rank, warp)
            special = partial(special_row, bundle=bundle)
            bundle.rows = program.rows.make(cohort.n, rank, special, machine.parameters.data)
            cohort.bundles.append(bundle)
            bundle.add_split(start, bundle.live.copy(), ())
    return cohort
