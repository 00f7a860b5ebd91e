"""One observer for the checks of what MMAs multiply: their matrices (`operands`) and k (`reductions`)."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.operands import Found, check_operand, good_operands
from cutecourse.emulator.checks.provenance import BY_MMA, Provenance, provenance_of
from cutecourse.emulator.checks.reductions import Reductions
from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.memory.matrix_descriptor import MultipliedMatrix

__all__ = ["Multiplications", "follow_multiplications"]


def follow_multiplications(cohort: Cohort) -> Multiplications | None:
    """Listen where the origin of bytes is followed."""
    provenance = provenance_of(cohort)
    return None if provenance is None else Multiplications(provenance)


class Multiplications(Observer):
    """The findings about the matrices that MMAs of a cohort read, until they are multiplied."""

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._reductions = Reductions()
        self._seen: dict[MultipliedMatrix, list[Found]] = {}

    def matrices_coming(self, coming: list[tuple[list[MultipliedMatrix], NDArray[np.int64]]]) -> None:
        """Look at equal matrices all at once, where nothing is wrong with any of them."""
        good = []
        for matrices, chunks in coming:
            found = good_operands(self._provenance, matrices[0], chunks)
            if found is None:
                return
            good.append(found)
        for (matrices, chunks), found in zip(coming, good, strict=True):
            self._provenance.owner[chunks] = BY_MMA
            of_each = len(matrices[0].places)
            for place, matrix in enumerate(matrices):
                self._seen[matrix] = found[place * of_each : (place + 1) * of_each]

    def matrix_read(self, origin: Origin, matrix: MultipliedMatrix) -> None:
        """Look at a matrix, unless that is done."""
        if matrix not in self._seen:
            self._seen[matrix] = check_operand(origin, matrix, self._provenance)

    def accumulated(
        self,
        origin: Origin,
        a: MultipliedMatrix | None,
        b: MultipliedMatrix,
        accumulator: tuple[int, ...],
        *,
        adds: bool,
        written: bool,
        alone: Hashable,
    ) -> None:
        """Look at the k of A and B, which are both read."""
        seen_a = [] if a is None else self._seen.pop(a)
        self._reductions.add(
            origin, seen_a, self._seen.pop(b), accumulator, adds=adds, written=written, alone=alone
        )

    def cohort_ended(self, cohort: Cohort) -> None:
        """The sums that are open are complete."""
        self._reductions.close()
