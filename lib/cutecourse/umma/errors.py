"""What can be wrong with a tcgen05.mma's operands: a rule of CUTLASS's, by name."""

from __future__ import annotations

from collections.abc import Sequence

from cutecourse.errors import CourseError

__all__ = ["UmmaError"]


class UmmaError(CourseError):
    """CuTe makes nothing of this, and says why with an assertion.

    `rule` is a short name of the rule that was broken, the same wherever that rule is checked; `source`
    says who makes the rule, `values` are what was looked at.
    """

    def __init__(
        self,
        problem: str,
        *,
        rule: str,
        source: str = "",
        values: Sequence[tuple[str, object]] = (),
        advice: str = "",
    ) -> None:
        self.rule = rule
        self.source = source
        self.values = tuple(values)
        parts = [problem]
        parts += [f"  {name} = {value}" for name, value in self.values]
        parts.append(f"  rule: {rule}" + (f" ({source})" if source else ""))
        if advice:
            parts.append(f"  try: {advice}")
        super().__init__("\n".join(parts))
