"""Legal shapes: the PTX ISA's table, CUTLASS's assertions and the CuTe DSL's checks, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype

__all__ = ["DIFFERENCES", "LEGAL_SHAPES", "Legality", "MmaRules", "RuleDifference", "Verdict", "legality"]

_PTX = "PTX ISA 9.0, tcgen05.mma, Matrix Shape: the table of kinds and shapes"
_CUTLASS = "CUTLASS 4.2.0, include/cute/arch/mma_sm100_umma.hpp and atom/mma_traits_sm100.hpp"
_DSL = "CuTe DSL 4.8.1, tcgen05.MmaF16BF16Op"
_MOST_N = 256
_K = 16


@dataclass(frozen=True)
class MmaRules:
    """The rules of one source for a dense tcgen05.mma of .kind::f16.

    Shapes:     `n_step` gives for each M the step of N, which is also the smallest N; the largest is 256.
                M is that of both SMs together for `cta_group` 2.
    `a_from` says for which A the rules are: "smem", "tmem", or both. `results` are the accumulators of an
    operand type; `mixed` whether A and B may be of two types.
    """

    source: str
    where: str
    cta_group: int
    a_from: tuple[str, ...]
    n_step: Mapping[int, int]
    results: Mapping[str, tuple[str, ...]]
    mixed: bool

    def refuses(self, m: int, n: int, a: str, b: str, c: str, k: int) -> str:
        """Why this source does not take an MMA; empty where it does."""
        for operand in (a, b):
            if operand not in self.results:
                return f"no operands of {operand}"
        if a != b and not self.mixed:
            return f"A ({a}) and B ({b}) have to be of one type"
        if any(c not in self.results[operand] for operand in (a, b)):
            return f"no accumulator of {c} for {a} times {b}"
        step = self.n_step.get(m)
        if step is None:
            return f"M is {' or '.join(map(str, self.n_step))}"
        if n % step or not step <= n <= _MOST_N:
            return f"N is a multiple of {step} from {step} to {_MOST_N}"
        return "" if k == _K else f"K is {_K}"

    def to_snapshot(self) -> dict[str, Any]:
        """The rules as JSON can hold them."""
        return {
            "source": self.source,
            "where": self.where,
            "cta_group": self.cta_group,
            "a_from": list(self.a_from),
            "n_step": {str(m): step for m, step in self.n_step.items()},
            "results": {operand: list(types) for operand, types in self.results.items()},
            "mixed": self.mixed,
        }


def _rules(
    source: str,
    where: str,
    cta_group: int,
    a_from: tuple[str, ...],
    n_step: dict[int, int],
    *,
    mixed: bool,
    results: dict[str, tuple[str, ...]] | None = None,
) -> MmaRules:
    both = {"f16": ("f16", "f32"), "bf16": ("f16", "f32")}
    given = MappingProxyType(results or both)
    return MmaRules(source, where, cta_group, a_from, MappingProxyType(n_step), given, mixed)


_EITHER = ("smem", "tmem")
_ISA_RESULTS: dict[str, tuple[str, ...]] = {"f16": ("f16", "f32"), "bf16": ("f32",)}
_CPP_RESULTS: dict[str, tuple[str, ...]] = {
    "f16": ("f16", "f32", "s32"),
    "bf16": ("f16", "f32", "s32"),
}

LEGAL_SHAPES: tuple[MmaRules, ...] = (
    _rules("PTX ISA", _PTX, 1, _EITHER, {64: 8, 128: 8}, results=_ISA_RESULTS, mixed=True),
    _rules("PTX ISA", _PTX, 2, _EITHER, {128: 16, 256: 16}, results=_ISA_RESULTS, mixed=True),
    _rules(
        "CUTLASS",
        f"{_CUTLASS}, SM100_MMA_F16BF16_SS",
        1,
        ("smem",),
        {64: 8, 128: 8},
        results=_CPP_RESULTS,
        mixed=True,
    ),
    _rules(
        "CUTLASS",
        f"{_CUTLASS}, SM100_MMA_F16BF16_2x1SM_SS",
        2,
        ("smem",),
        {128: 16, 256: 16},
        results=_CPP_RESULTS,
        mixed=True,
    ),
    _rules(
        "CUTLASS",
        f"{_CUTLASS}, SM100_MMA_F16BF16_TS",
        1,
        ("tmem",),
        {64: 8, 128: 16},
        results=_CPP_RESULTS,
        mixed=True,
    ),
    _rules(
        "CUTLASS",
        f"{_CUTLASS}, SM100_MMA_F16BF16_2x1SM_TS",
        2,
        ("tmem",),
        {128: 32, 256: 32},
        results=_CPP_RESULTS,
        mixed=True,
    ),
    _rules("CuTe DSL", _DSL, 1, _EITHER, {64: 8, 128: 8}, mixed=False),
    _rules("CuTe DSL", _DSL, 2, _EITHER, {128: 16, 256: 16}, mixed=False),
)
"""Which M and N, types and accumulators a dense tcgen05.mma of .kind::f16 has, by each of the three sources.

This library takes what both the PTX ISA and CUTLASS take (`make_tiled_mma`); it has no A in tensor memory.
ptxas is no fourth source: the shape is in the instruction descriptor, a register, and it assembles any.
"""


@dataclass(frozen=True)
class Verdict:
    """The answer of one source for one MMA: `reason` is empty where the source accepts it."""

    source: str
    where: str
    reason: str

    @property
    def legal(self) -> bool:
        """True where this source accepts the MMA."""
        return not self.reason

    @property
    def named(self) -> str:
        """The source with the version that was read: CUTLASS 4.2.0."""
        return self.where.split(",")[0]


@dataclass(frozen=True)
class Legality:
    """The answers of all sources for one MMA, and of this library.

    `legal` is this library's answer: it accepts an MMA that both the PTX ISA and CUTLASS accept.
    """

    m: int
    n: int
    cta_group: int
    a_type: str
    b_type: str
    c_type: str
    a_from: str
    k: int
    verdicts: tuple[Verdict, ...]

    @property
    def legal(self) -> bool:
        """True where both the PTX ISA and CUTLASS accept the MMA."""
        return all(verdict.legal for verdict in self.verdicts if verdict.source != "CuTe DSL")

    @property
    def agree(self) -> bool:
        """True where all sources give the same answer."""
        return len({verdict.legal for verdict in self.verdicts}) == 1

    def __str__(self) -> str:
        head = (
            f"M = {self.m}, N = {self.n}, K = {self.k}, cta_group::{self.cta_group}, "
            f"{self.a_type} x {self.b_type} + {self.c_type}, A from {self.a_from}"
        )
        rows = [
            f"  {v.named:14} {'yes' if v.legal else 'no'}{': ' + v.reason if v.reason else ''}"
            for v in self.verdicts
        ]
        return "\n".join([head, *rows, f"  {'here':14} {'yes' if self.legal else 'no'}"])

    def to_snapshot(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        names = ("m", "n", "k", "cta_group", "a_type", "b_type", "c_type", "a_from", "legal", "agree")
        verdicts = [
            {"source": v.source, "where": v.where, "legal": v.legal, "reason": v.reason}
            for v in self.verdicts
        ]
        return {name: getattr(self, name) for name in names} | {"verdicts": verdicts}


def legality(
    m: int,
    n: int,
    cta_group: int = 1,
    a_type: DType | str = "f16",
    b_type: DType | str = "f16",
    c_type: DType | str = "f32",
    *,
    a_from: str = "smem",
    k: int = _K,
) -> Legality:
    """Ask the PTX ISA, CUTLASS, the CuTe DSL and this library about a dense MMA of .kind::f16.

    Units:      `m`, `n`, `k` in elements; `m` of both SMs together for `cta_group` 2.
    Errors:     ValueError for another `cta_group` than 1 and 2, or another `a_from` than "smem" and "tmem".

    >>> print(legality(128, 24, a_from="tmem"))
    M = 128, N = 24, K = 16, cta_group::1, f16 x f16 + f32, A from tmem
      PTX ISA 9.0    yes
      CUTLASS 4.2.0  no: N is a multiple of 16 from 16 to 256
      CuTe DSL 4.8.1 yes
      here           no
    """
    if cta_group not in (1, 2) or a_from not in _EITHER:
        raise ValueError(f"cta_group is 1 or 2 and a_from smem or tmem, not {cta_group} and {a_from!r}")
    a, b, c = (as_dtype(element).name for element in (a_type, b_type, c_type))
    verdicts = tuple(
        Verdict(rules.source, rules.where, rules.refuses(m, n, a, b, c, k))
        for rules in LEGAL_SHAPES
        if rules.cta_group == cta_group and a_from in rules.a_from
    )
    return Legality(m, n, cta_group, a, b, c, a_from, k, verdicts)


@dataclass(frozen=True)
class RuleDifference:
    """One question that the sources answer differently, and the rule that this library enforces."""

    topic: str
    ptx_isa: str
    cutlass: str
    dsl: str
    ptxas: str
    enforced: str
    rule: str

    def to_snapshot(self) -> dict[str, str]:
        """The row as JSON can hold it."""
        return dict(vars(self))


_ANY = "assembles any: the instruction descriptor is data"

DIFFERENCES: tuple[RuleDifference, ...] = (
    RuleDifference(
        "N with A in tensor memory, one SM, M = 128",
        "8 to 256 in steps of 8",
        "16 to 256 in steps of 16 (8 for M = 64)",
        "8 to 256 in steps of 8",
        _ANY,
        "has no A in tensor memory, and refuses the operation by name",
        "family",
    ),
    RuleDifference(
        "N with A in tensor memory, two SMs",
        "16 to 256 in steps of 16",
        "32 to 256 in steps of 32",
        "16 to 256 in steps of 16",
        _ANY,
        "has no A in tensor memory, and refuses the operation by name",
        "family",
    ),
    RuleDifference(
        "A of f16 and B of bf16",
        "accepts it: one field for each",
        "accepts it",
        "refuses it: one type for both",
        _ANY,
        "accepts it, as the PTX ISA and CUTLASS do",
        "",
    ),
    RuleDifference(
        "an accumulator of f16 for operands of bf16",
        "f16 only for operands of f16",
        "accepts it",
        "accepts it",
        _ANY,
        "follows the PTX ISA",
        "c_type",
    ),
    RuleDifference(
        "an accumulator of s32 for operands of f16",
        "f16 or f32",
        "accepts it: the field has a number for it",
        "refuses it: f16 or f32",
        _ANY,
        "follows the PTX ISA",
        "c_type",
    ),
    RuleDifference(
        "32 rows of a CTA in tensor memory, of an MMA of two SMs with M = 64",
        "M is 128 or 256 for two SMs",
        "no operation has M = 64 for two SMs, but tmem_frg_2sm has its layout",
        "M is 128 or 256 for two SMs",
        _ANY,
        "has the layout (make_fragment_C), as CUTLASS does, but no MMA",
        "m_size",
    ),
    RuleDifference(
        "columns of an allocation",
        "a power of two from 32 to 512",
        "documents the rule and does not check it",
        "a power of two from 32 to 512, checked if it is a constant",
        "refuses a constant that is not; a register passes",
        "follows the PTX ISA, in the allocator's check",
        "columns",
    ),
    RuleDifference(
        "where a matrix starts, and its offsets",
        "18 bits, multiples of 16",
        "keeps bits 4 to 17 and drops the others silently",
        "keeps bits 4 to 17",
        _ANY.replace("instruction", "shared-memory"),
        "refuses a value whose bits would be dropped",
        "start_address, offset_bits",
    ),
    RuleDifference(
        "the leading offset of a K-major matrix with a swizzle",
        "not used: the second 16 bytes of K follow the first",
        "writes 1 (16 bytes), and asserts that they follow",
        "writes 1",
        _ANY.replace("instruction", "shared-memory"),
        "writes 1, as CUTLASS does, and refuses a layout with another step",
        "stride",
    ),
    RuleDifference(
        "the base offset of a swizzled matrix",
        "not 0 where the swizzle's pattern does not start at a multiple of its 256, 512 or 1024 bytes",
        "always 0",
        "always 0",
        _ANY.replace("instruction", "shared-memory"),
        "always 0, as CUTLASS: right for tiles whose pattern starts there",
        "",
    ),
)
"""The points on which the sources differ. For M, N and K with A in shared memory they agree."""
