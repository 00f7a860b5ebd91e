"""Starting blocks: a cohort with its shared memory, its bundles and its observers."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle, Cohort
from cutecourse.emulator.core.frame import align_up
from cutecourse.emulator.core.kinds import coordinates
from cutecourse.emulator.core.machine import Machine
from cutecourse.emulator.core.memory import POISON
from cutecourse.emulator.core.special import special_row

__all__ = ["make_cohort"]


def make_cohort(machine: Machine, clusters: NDArray[np.int64]) -> Cohort:
    """Make the cohort of some blocks; `clusters` are the numbers of their clusters in the grid."""
    program = machine.program
    size = prod(machine.cluster)
    per_axis = np.array(machine.grid) // machine.cluster
    origin = coordinates(clusters, per_axis) * machine.cluster
    # With this stride, no swizzle pattern and no unit of the race record crosses into another block.
    stride = align_up(max(program.shared_bytes, 1), 1024)
    total = len(clusters) * size * stride
    cohort = Cohort(
        machine=machine,
        n=len(clusters),
        size=size,
        blocks=origin[:, None, :] + coordinates(np.arange(size), machine.cluster),
        shared_stride=stride,
        shared=np.full(total, POISON, dtype=np.uint8),
        shared_written=np.zeros(total, dtype=np.uint8),
        numbers=clusters,
    )
    for make in machine.observers:
        observer = make(cohort)
        if observer is not None:
            cohort.listeners.subscribe(observer)
    start = program.starts[program.kernel]
    for rank in range(size):
        for warp in range(machine.warps_per_block):
            bundle = Bundle(machine, program, cohort, rank, warp)
            special = partial(special_row, bundle=bundle)
            bundle.rows = program.rows.make(cohort.n, rank, special, machine.parameters)
            cohort.bundles.append(bundle)
            bundle.add_split(start, bundle.live.copy(), ())
    return cohort
