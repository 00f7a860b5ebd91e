"""Checks that MMAs multiply matching k: A and B of one sum come from the same k of their tensors.

emulator.checks.operands checks the layout of each matrix.

If tensor copies brought both matrices of a tcgen05.mma or wgmma, the tensors' coordinates say which k of A is
multiplied by which k of B. These faults are reported:

-   Within one MMA, the k of A do not advance like the k of B.
-   Between two MMAs of a sum, A and B advance by different numbers of k, and the difference is not a multiple
    of their boxes' k. Whole boxes may be skipped or reordered, for example where A is sparse.
-   A and B have tensors of equally many k, but a product multiplies different k, and the sum uses each matrix
    only once. (A kernel that splits numbers into parts uses each part several times.)
-   A sum contains the same product twice. For matrices that no tensor copy brought, the only case reported is
    that several lanes of a warp issue the same tcgen05.mma together.
-   Part of a box of A is multiplied by A's own tensor and part by another one, and each k occurs once.

A sum begins with an MMA that does not add to D. A wgmma keeps its sum in registers; if threads write one of
them (zeros, or another loop's sum), the sum ends and a new one begins. Steps are compared only between
MMAs with the same tensors and the same other coordinates, so not across the taps of a convolution.

Two more faults show in all MMAs together:

-   The tensors of A and B have equally many k, but the MMAs of a warpgroup use a k of one that they never use
    of the other.
-   Parts of one matrix along M or N have different k, and what the parts use overlaps but is not the same. (A
    matrix may hold several problems side by side, for example two heads: their k have nothing in common.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.checks.operands import Found, check_operand, good_operands
from cutecourse.emulator.checks.provenance import BY_MMA, Provenance, provenance_of
from cutecourse.emulator.checks.scale_factors import follow_scale_factors
from cutecourse.emulator.checks.tags import NUMBER, Steps
from cutecourse.emulator.core.bundle import Cohort
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.core.report import report
from cutecourse.emulator.instructions.warpgroups import WARPS
from cutecourse.emulator.memory.matrix_descriptor import MultipliedMatrix
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import TensorMemory

__all__ = ["Multiplications", "follow_multiplications"]


@dataclass(eq=False, slots=True)
class _Pair:
    """A and B of one MMA, each by the tag of its first chunk, its steps along k, and its first k."""

    origin: Origin
    tag_a: int
    tag_b: int
    a: Steps
    b: Steps
    k_a: int
    k_b: int

    @property
    def own(self) -> bool:
        """True if A and B come from the same tensor."""
        return self.tag_a >> NUMBER == self.tag_b >> NUMBER

    @property
    def box(self) -> tuple[int, int]:
        """The box of A: its position in all coordinates but k, and its number along k."""
        return self.a.others(self.tag_a), self.k_a // self.a.box


@dataclass(eq=False, slots=True)
class _Sum:
    """The products that have been added to one accumulator."""

    pairs: list[_Pair] = field(default_factory=list)
    told: bool = False
    """True if something was reported."""
    _firsts: dict[tuple[int, int], _Pair] = field(default_factory=dict)
    _asked: tuple[Hashable, ...] = ()

    def add(self, pair: _Pair) -> None:
        """Add a product. Report if A and B have advanced by different k since the first one like it."""
        self.pairs.append(pair)
        key = (pair.a.others(pair.tag_a), pair.b.others(pair.tag_b))
        first = self._firsts.setdefault(key, pair)
        apart = (pair.k_a - first.k_a) - (pair.k_b - first.k_b)
        if apart and apart % math.gcd(pair.a.box, pair.b.box):
            self.told = True
            report("another k", partial(_apart, pair, first), pair.origin, first.origin.site.line)

    def add_unknown(self, origin: Origin, operands: Hashable) -> None:
        """Add a product of matrices whose k are unknown. Report if another lane of the warp adds it too."""
        # A lane that issues the MMA a second time does so at a later count of instructions.
        asked = (id(origin.site), origin.bundle.machine.issued, operands)
        if asked == self._asked:
            self.told = True
            report("another k", _TOGETHER, origin)
        self._asked = asked

    def close(self) -> bool:
        """Check the complete sum. Return True if it is right."""
        if not self.told and len(self.pairs) > 1:
            self.told = self._is_wrong()
        return not self.told

    def _is_wrong(self) -> bool:
        """Report the first fault that only the complete sum shows."""
        pairs = self.pairs
        seen: dict[tuple[int, int], _Pair] = {}
        for pair in pairs:
            before = seen.setdefault((pair.tag_a, pair.tag_b), pair)
            if before is not pair:
                report("another k", partial(_again, pair), pair.origin, before.origin.site.line)
                return True
        for tags in ({pair.tag_a for pair in pairs}, {pair.tag_b for pair in pairs}):
            if len(tags) < len(pairs):
                return False
        for pair in pairs:
            if pair.k_a != pair.k_b and pair.a.extent == pair.b.extent:
                report("another k", partial(_different, pair), pair.origin)
                return True
        own = {pair.box: pair for pair in pairs if pair.own}
        for pair in pairs if own else ():
            if not pair.own and pair.box in own:
                wrong = own[pair.box]
                report("another k", partial(_own, wrong, pair), wrong.origin, pair.origin.site.line)
                return True
        return False


@dataclass(eq=False, slots=True)
class _Parts:
    """The k that the parts of A or B along M or N have had, in all MMAs of one tensor."""

    origin: Origin
    matrix: MultipliedMatrix
    steps: Steps
    of_part: dict[int, set[int]] = field(default_factory=dict)
    """By the part's first row, or its first chunk where the matrix is MN-major."""

    def note(self, tag: int, steps: Steps) -> None:
        """Add the k of a matrix whose first chunk has this tag."""
        for place, step in steps.starts:
            self.of_part.setdefault(place, set()).add(steps.k(tag) + step)

    def check(self) -> None:
        """Report two parts that have some k in common, but not all."""
        for (one, ks), (other, more) in combinations(sorted(self.of_part.items()), 2):
            if ks != more and ks & more:
                problem = partial(_parts_apart, self.matrix, self.steps, (one, min(ks)), (other, min(more)))
                report("another k", problem, self.origin)
                return


def follow_multiplications(cohort: Cohort) -> Multiplications | None:
    """Make the observer of a cohort's MMAs; None if the origin of its bytes is not followed."""
    provenance = provenance_of(cohort)
    return None if provenance is None else Multiplications(provenance)


class Multiplications(Observer):
    """Checks the matrices that a cohort's MMAs read, and the sums that they add up."""

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._factors = follow_scale_factors(provenance.cohort)
        self._seen: dict[MultipliedMatrix, list[Found]] = {}
        """The findings in each matrix that is still to be multiplied, one for each CTA that holds a part."""
        self._sums: dict[tuple[int, ...], _Sum] = {}
        """The open sums, by accumulator."""
        self._right = True
        """False once a sum was reported."""
        self._used: dict[tuple[int, ...], tuple[dict[int, _Pair], dict[int, _Pair]]] = {}
        """The first pair with each k of A, and of B, of two tensors with equally many k and a warpgroup that
        multiplies them, all by number."""
        self._parts: dict[tuple[str, int], _Parts] = {}
        """The matrices whose parts have different k, by name and the tensor's number."""

    def matrices_coming(self, coming: list[tuple[list[MultipliedMatrix], NDArray[np.int64]]]) -> None:
        """Check the matrices of several lanes at once, or leave all to `matrix_read` if one may be wrong."""
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
        """Check a matrix, unless `matrices_coming` has checked it."""
        if matrix not in self._seen:
            self._seen[matrix] = check_operand(origin, matrix, self._provenance)

    def factors_read(
        self,
        origin: Origin,
        memories: Sequence[TensorMemory],
        factors: Sequence[tuple[MultipliedMatrix | None, Region, int]],
    ) -> None:
        """Check the scale factors of A and B."""
        if self._factors is None:
            return
        for is_b, (matrix, region, byte) in enumerate(factors):
            steps = self._seen[matrix][0][1] if matrix is not None and self._seen[matrix] else None
            if matrix is None or steps is None:
                continue
            for position, memory in enumerate(memories):
                # Each CTA has the factors of its own rows of A, and of all rows of B.
                chunks = matrix.places[position]
                if is_b:
                    chunks = np.concatenate(matrix.places, axis=0 if matrix.k_major else 1)
                self._factors.check(origin, memory, region, byte, matrix, chunks, steps, self._provenance)

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
        """Compare the k of A and B, and add their product to its sum."""
        seen_a, seen_b = [] if a is None else self._seen.pop(a), self._seen.pop(b)
        for matrix, seen in ((a, seen_a), (b, seen_b)):
            if matrix is not None and seen:
                tag, steps = seen[0]
                if steps is not None and len(steps.starts) > 1:
                    key = (matrix.name, tag >> NUMBER)
                    self._parts.setdefault(key, _Parts(origin, matrix, steps)).note(tag, steps)
        found = self._sums.get(accumulator)
        if found is None or written or not adds:
            if found is not None:
                self._close(found)
            found = self._sums[accumulator] = _Sum()
        if not seen_a or not seen_b:
            if alone is not None:
                found.add_unknown(origin, alone)
            return
        (tag_a, of_a), (tag_b, of_b) = seen_a[0], seen_b[0]
        if of_a is None or of_b is None:
            return
        if of_a.relative != of_b.relative:
            # If the k of only one matrix are consecutive, a wrong stride reads the other.
            strided = of_a.consecutive != of_b.consecutive
            report("another layout" if strided else "another k", partial(_within, of_a, of_b), origin)
            self._right = False
            return
        pair = _Pair(origin, tag_a, tag_b, of_a, of_b, of_a.k(tag_a), of_b.k(tag_b))
        for name, matrix, first in (("A", seen_a, pair.k_a), ("B", seen_b, pair.k_b)):
            for tag, steps in matrix[1:]:
                if steps is not None and ((k := steps.k(tag)) - first) % steps.box:
                    report("another k", partial(_halves, name, first, k), origin)
                    self._right = False
                    return
        if of_a.extent == of_b.extent:
            who = origin.cluster, origin.bundle.rank, origin.bundle.warp // WARPS
            used_a, used_b = self._used.setdefault((tag_a >> NUMBER, tag_b >> NUMBER, *who), ({}, {}))
            used_a.setdefault(pair.k_a, pair)
            used_b.setdefault(pair.k_b, pair)
        found.add(pair)

    def _close(self, found: _Sum) -> None:
        self._right &= found.close()

    def cohort_ended(self, cohort: Cohort) -> None:
        """Check the sums that are still open, and then all of them together."""
        for found in self._sums.values():
            self._close(found)
        if self._right:
            self._check_used()
            for parts in self._parts.values():
                parts.check()

    def _check_used(self) -> None:
        """Report k of one tensor that no MMA has used of the other one."""
        for used_a, used_b in self._used.values():
            for name, own, others in (("A", used_a, used_b), ("B", used_b, used_a)):
                pair = next((pair for k, pair in own.items() if k not in others), None)
                if pair is not None:
                    report("another k", partial(_unmatched, name, pair), pair.origin)
                    break


# --- in words -----------------------------------------------------------------------------------------------

_TOGETHER = (
    "another lane of the warp issues the same tcgen05.mma, so this sum holds its product once for each lane."
    " Is one thread elected?"
)


def _ks(steps: Steps, first: int) -> str:
    last = first + len(steps.relative) - 1
    return f"k = {first}..{last} of {steps.source.bound.map.name}"


def _both(pair: _Pair) -> str:
    return f"A is {_ks(pair.a, pair.k_a)}, and B is {_ks(pair.b, pair.k_b)}"


def _apart(pair: _Pair, first: _Pair) -> str:
    return (
        f"{_both(pair)}, in one sum with {_ks(first.a, first.k_a)} and {_ks(first.b, first.k_b)} (line"
        f" {first.origin.site.line})."
        f" A has moved by {pair.k_a - first.k_a} and B by {pair.k_b - first.k_b}. Do both"
        " descriptors start at the same k?"
    )


def _again(pair: _Pair) -> str:
    return f"{_both(pair)}, but this sum has that product already. Is a stage multiplied twice?"


def _different(pair: _Pair) -> str:
    return (
        f"{_both(pair)}, but both tensors have the same {pair.a.extent} k. Do both copies use the same"
        " coordinate along k?"
    )


def _own(pair: _Pair, other: _Pair) -> str:
    return (
        f"{_both(pair)}, which is A's own tensor, in one sum with {_ks(other.a, other.k_a)} and"
        f" {_ks(other.b, other.k_b)} (line {other.origin.site.in_words})."
        " Is that A's descriptor in B's place?"
    )


def _within(a: Steps, b: Steps) -> str:
    def shown(steps: Steps) -> str:
        return f"{', '.join(map(str, steps.relative))} of {steps.source.bound.map.name}"

    return f"counted from the first, the k of A are {shown(a)}, but those of B are {shown(b)}"


def _unmatched(name: str, pair: _Pair) -> str:
    k, other = (pair.k_a, "B") if name == "A" else (pair.k_b, "A")
    return (
        f"{_both(pair)}. Both tensors have the same {pair.a.extent} k, but no MMA uses k = {k} of {other}. Do"
        " all copies of the two use the same coordinate along k?"
    )


def _parts_apart(matrix: MultipliedMatrix, steps: Steps, one: tuple[int, int], other: tuple[int, int]) -> str:
    what, unit = ("row", 1) if matrix.k_major else ("column", CHUNK // matrix.item)
    (first, k), (second, other_k) = one, other
    return (
        f"the parts of {matrix.name} have different k of {steps.source.bound.map.name}: of all its MMAs"
        f" together, the lowest is {k} from {what} {first * unit} on, but {other_k} from {what}"
        f" {second * unit} on. Do the copies that bring the parts use the same coordinate along k?"
    )


def _halves(name: str, first: int, second: int) -> str:
    return f"{name} begins with k = {first} in one CTA of the pair but with k = {second} in the other"
